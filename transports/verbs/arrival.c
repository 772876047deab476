/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that have arrived. */
#include <endian.h>

#include "receive.h"
#include "srq.h"

/* Status and opcode at once. */
static inline uint64_t vb_arrival_kind_of(const struct ibv_wc *wc)
{
  uint64_t kind;

  _Static_assert(offsetof(struct ibv_wc, opcode) == offsetof(struct ibv_wc, status) + 4 &&
                     sizeof(wc->status) == 4 && sizeof(wc->opcode) == 4,
                 "one behind the other");
  memcpy(&kind, (const uint8_t *)wc + offsetof(struct ibv_wc, status), sizeof(kind));
  return kind;
}

/* Which receives the messages take: of the only queue pair, of one of several, or shared ones. */
enum how { OWN, LANE, SHARED };

/* Members that the messages of an endpoint have in common. */
struct telling {
  uint64_t head; /* of the completion, kind to status */
  uint64_t cookie, token, base, stride;
};

static inline __attribute__((always_inline)) struct telling
vb_arrival_telling_of(const struct pst_endpoint *endpoint)
{
  const struct pst_completion model = {.kind = PST_COMPLETION_MESSAGE, .flags = PST_HAS_SEQUENCE};
  const struct pst_ring *ring = endpoint->rx->ring;
  struct telling telling = {.cookie = endpoint->cookie,
                            .token = pst_token(ring->place, 0),
                            .base = ring->params.base + ring->params.headroom,
                            .stride = ring->params.stride};

  _Static_assert(offsetof(struct pst_completion, endpoint) == sizeof(telling.head),
                 "kind to status");
  memcpy(&telling.head, &model, sizeof(telling.head));
  return telling;
}

/* Two numbers, which are stored, and counted up, at once. Length and buffer, which is 0, are one.
 */
typedef uint64_t pair __attribute__((vector_size(16)));
_Static_assert(sizeof(struct pst_completion) == 4 * sizeof(pair) &&
                   offsetof(struct pst_completion, u.message.token) == sizeof(pair) &&
                   offsetof(struct pst_completion, u.message.length) == 2 * sizeof(pair) &&
                   offsetof(struct pst_completion, u.message.meta) == 3 * sizeof(pair),
               "token and offset; length, buffer and sequence; meta and time");

#define LENGTH_SHIFT (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 0 : 32)

/* The first of messages whose slots follow one another, and what the next one's place has more. */
struct place {
  pair head, at, more;
};

static inline __attribute__((always_inline)) struct place
vb_arrival_place_of(const struct telling *telling, uint64_t slot)
{
  return (struct place){.head = {telling->head, telling->cookie},
                        .at = {telling->token | slot, telling->base + slot * telling->stride},
                        .more = {1, telling->stride}};
}

static inline __attribute__((always_inline)) pair
vb_arrival_tell_number(struct place *place, struct pst_completion *at, pair number)
{
  const pair none = {0, 0}, next = {0, 1};

  memcpy(at, &place->head, sizeof(pair));
  memcpy(&at->u.message.token, &place->at, sizeof(pair));
  memcpy(&at->u.message.length, &number, sizeof(pair));
  memcpy(&at->u.message.meta, &none, sizeof(pair));
  place->at += place->more;
  return number + next;
}

static inline __attribute__((always_inline)) void vb_arrival_tell_next(struct place *place,
                                                                       struct pst_completion *at,
                                                                       uint64_t length,
                                                                       uint64_t sequence)
{
  vb_arrival_tell_number(place, at, (pair){length << LENGTH_SHIFT, sequence});
}

/* Messages of one length, whose sequences follow one another. Four at a time while there are as
 * many, which saves instructions. */
static inline __attribute__((always_inline)) void vb_arrival_tell_some(struct place *place,
                                                                       struct pst_completion *at,
                                                                       uint32_t n, uint64_t length,
                                                                       uint64_t sequence)
{
  const struct pst_completion *const end = at + n, *const fours = at + n / 4 * 4;
  pair number = {length << LENGTH_SHIFT, sequence};

  for (; at != fours; at += 4) {
    number = vb_arrival_tell_number(place, &at[0], number);
    number = vb_arrival_tell_number(place, &at[1], number);
    number = vb_arrival_tell_number(place, &at[2], number);
    number = vb_arrival_tell_number(place, &at[3], number);
  }
  for (; at != end; at++)
    number = vb_arrival_tell_number(place, at, number);
}

/* The number nearest to the highest so far whose lower half is a message's. */
static inline uint64_t vb_arrival_sequence_of(const struct ibv_wc *wc, uint64_t highest,
                                              uint32_t initial)
{
  return highest + (uint64_t)(int32_t)(be32toh(wc->imm_data) - initial - (uint32_t)highest);
}

static inline __attribute__((always_inline)) bool
vb_arrival_is_like(const struct ibv_wc *wc, const struct ibv_wc *like, const enum how how)
{
  const uint32_t drop = how == SHARED ? 31 : 0;

  return wc->wr_id >> drop == like->wr_id >> drop && (how == OWN || wc->qp_num == like->qp_num) &&
         vb_arrival_kind_of(wc) == vb_arrival_kind_of(like);
}

/* Takes the completions at the front, before `wc_end`, that are messages, alike and as they have to
 * be: at most `n` messages. They go into the next run of slots. Returns how many completions
 * these were. One more may have been a run whose last messages were too many; then only these stay
 * of it. */
static inline __attribute__((always_inline)) uint32_t
vb_arrival_report_run(struct pst_endpoint *endpoint, struct vb_own_slots *own,
                      const struct ibv_wc *like, struct ibv_wc *wc, const struct ibv_wc *wc_end,
                      uint32_t n, struct vb_out *out, const enum how how)
{
  struct vb_rx *rx = endpoint->rx;
  const struct telling telling = vb_arrival_telling_of(endpoint);
  const struct vb_slot_run slots = *vb_slot_fifo_first(&own->line);
  const uint32_t initial = (uint32_t)rx->initial;
  const uint64_t length_max = rx->ring->params.payload_max;
  struct place place = vb_arrival_place_of(&telling, slots.first);
  uint64_t highest = rx->highest, bytes = 0;
  const struct ibv_wc *first = wc;
  struct pst_completion *at = out->at;
  const struct pst_completion *end = at + (n < slots.count ? n : slots.count);

  for (; wc != wc_end && at != end && vb_arrival_is_like(wc, like, how); wc++) {
    const uint64_t sequence = vb_arrival_sequence_of(wc, highest, initial);
    uint64_t length = wc->byte_len, last = sequence;
    if (__builtin_expect(length <= length_max, 1)) {
      vb_arrival_tell_next(&place, at++, length, sequence);
      bytes += length;
    } else {
      const uint32_t room = (uint32_t)(end - at), all = vb_messages_of(rx, wc);
      const uint32_t some = all < room ? all : room;
      length -= (all - 1) * telling.stride;
      if (all == 1 || all > slots.count - (uint32_t)(at - out->at) || length > length_max)
        break;
      vb_arrival_tell_some(&place, at, some, length, sequence);
      at += some;
      bytes += some * length;
      last += some - 1;
      if (some < all) {
        highest = (int64_t)(last - highest) > 0 ? last : highest;
        wc->byte_len -= (uint32_t)(some * telling.stride);
        wc->imm_data = htobe32(be32toh(wc->imm_data) + some);
        break;
      }
    }
    highest = (int64_t)(last - highest) > 0 ? last : highest;
    if (how == SHARED)
      vb_srq_back(endpoint->shared, vb_srq_entry(wc->wr_id));
  }
  const uint32_t told = (uint32_t)(at - out->at);
  vb_bits_set(own->held, slots.first, told);
  vb_slot_fifo_take(&own->line, told);
  rx->highest = highest;
  rx->bytes += bytes;
  rx->arrived += told;
  out->at = at;
  out->room -= told;
  return (uint32_t)(wc - first);
}

/* As vb_arrival_report_run(), into as many runs of slots as it takes. */
static inline __attribute__((always_inline)) uint32_t
vb_arrival_tell_alike(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs, uint32_t n,
                      struct vb_out *out, const enum how how)
{
  const struct vb_rx *rx = endpoint->rx;
  struct vb_own_slots *own = rx->own;
  const struct vb_slot_fifo *line = &own->line;
  const struct ibv_wc like = {.wr_id = wc->wr_id,
                              .status = IBV_WC_SUCCESS,
                              .opcode = rx->sends ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM,
                              .qp_num = how == LANE ? wc->qp_num : endpoint->number};
  const struct pst_completion *end = out->at + n;
  const struct ibv_wc *const wc_end = wc + wcs, *const first = wc;
  bool is_full = true; /* the run was */

  while (is_full && wc != wc_end && out->at != end && line->count) {
    const uint32_t tail = line->tail;
    wc += vb_arrival_report_run(endpoint, own, &like, wc, wc_end, (uint32_t)(end - out->at), out,
                                how);
    is_full = line->tail != tail;
  }
  return (uint32_t)(wc - first);
}

/* Apart, so that none of them costs another registers. */
static __attribute__((noinline)) uint32_t vb_arrival_tell_of_shared(struct pst_endpoint *endpoint,
                                                                    struct ibv_wc *wc, uint32_t wcs,
                                                                    struct vb_out *out)
{
  return vb_arrival_tell_alike(endpoint, wc, wcs, out->room, out, SHARED);
}

static __attribute__((noinline)) uint32_t vb_arrival_tell_of_own(struct pst_endpoint *endpoint,
                                                                 struct ibv_wc *wc, uint32_t wcs,
                                                                 struct vb_out *out)
{
  return vb_arrival_tell_alike(endpoint, wc, wcs, out->room, out, OWN);
}

/* Messages by SEND into a shared receive queue: wr_id names the slot. */
static __attribute__((noinline)) uint32_t vb_arrival_tell_of_slots(struct pst_endpoint *endpoint,
                                                                   struct ibv_wc *wc, uint32_t wcs,
                                                                   struct vb_out *out)
{
  const struct ibv_wc like = {
      .wr_id = wc->wr_id, .opcode = IBV_WC_RECV, .qp_num = endpoint->number};
  const struct telling telling = vb_arrival_telling_of(endpoint);
  struct vb_rx *rx = endpoint->rx;
  uint64_t *const held = rx->ring->held;
  uint32_t *const owners = rx->ring->owners, whose = endpoint->place;
  const uint64_t length_max = rx->ring->params.payload_max;
  const uint32_t most = vb_smaller(vb_smaller(wcs, out->room), rx->granted);
  const uint32_t initial = (uint32_t)rx->initial;
  uint64_t highest = rx->highest, bytes = 0;
  uint32_t n = 0;

  for (; n < most && vb_arrival_is_like(&wc[n], &like, SHARED) && wc[n].byte_len <= length_max;
       n++) {
    const uint32_t slot = vb_srq_entry(wc[n].wr_id);
    const uint64_t sequence = vb_arrival_sequence_of(&wc[n], highest, initial);
    struct place place = vb_arrival_place_of(&telling, slot);
    vb_arrival_tell_next(&place, out->at + n, wc[n].byte_len, sequence);
    owners[slot] = whose;
    held[slot / 64] |= UINT64_C(1) << slot % 64;
    bytes += wc[n].byte_len;
    highest = (int64_t)(sequence - highest) > 0 ? sequence : highest;
  }
  rx->highest = highest;
  rx->bytes += bytes;
  rx->granted -= n;
  rx->out += n;
  rx->arrived += n;
  out->at += n;
  out->room -= n;
  return n;
}

uint32_t vb_arrived_by_one(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs,
                           uint32_t n, struct vb_out *out)
{
  return vb_arrival_tell_alike(endpoint, wc, wcs, n, out, LANE);
}

static inline uint32_t vb_arrival_tell_messages(struct pst_endpoint *endpoint, struct ibv_wc *wc,
                                                uint32_t wcs, struct vb_out *out)
{
  if (!endpoint->shared)
    return vb_arrival_tell_of_own(endpoint, wc, wcs, out);
  return (endpoint->rx->sends ? vb_arrival_tell_of_slots : vb_arrival_tell_of_shared)(endpoint, wc,
                                                                                      wcs, out);
}

/* Notes credit that has arrived with messages, and asks for a poll when there is more to give. */
static void vb_arrival_look_at_credit(struct pst_endpoint *endpoint)
{
  struct vb_rx *rx = endpoint->rx;

  while (rx->credits_taken != (uint32_t)rx->credits_sent &&
         rx->arrived > rx->own->first_of[rx->credits_taken % VB_CONTROL_RECEIVES])
    rx->credits_taken++;
  if (vb_credit_is_due(endpoint))
    vb_pend(endpoint);
}

static void vb_arrival_refuse(struct pst_endpoint *endpoint)
{
  vb_fail(endpoint, -EPROTO, "the peer sent a message for which it had no slot, or a longer one");
}

bool vb_arrived(struct pst_endpoint *endpoint, struct ibv_wc *wc, struct vb_out *out)
{
  const bool is_closing = endpoint->rx && endpoint->closing.mode;
  const struct pst_completion *first = out->at;
  const uint32_t taken =
      endpoint->rx && !is_closing ? vb_arrival_tell_messages(endpoint, wc, 1, out) : 0;
  const bool is_told = out->at != first;

  if (!is_told && endpoint->shared)
    vb_srq_back(vb_srq_of(endpoint->worker, wc->wr_id), vb_srq_entry(wc->wr_id));
  if (is_closing)
    return true;
  if (is_told)
    vb_arrival_look_at_credit(endpoint);
  else
    vb_arrival_refuse(endpoint);
  return taken || !is_told;
}

uint32_t vb_arrived_row(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs, uint32_t n,
                        struct vb_out *out)
{
  const struct pst_completion *first = out->at;
  const uint32_t taken = vb_arrival_tell_alike(endpoint, wc, wcs, n, out, OWN);

  if (out->at == first)
    vb_arrival_refuse(endpoint);
  else
    vb_arrival_look_at_credit(endpoint);
  return taken;
}

uint32_t vb_arrived_in_line(struct pst_endpoint *endpoint, uint32_t most, struct vb_out *out)
{
  struct pst_worker *worker = endpoint->worker;
  const uint32_t there = worker->wc_count - worker->wc_at;
  const struct pst_completion *first = out->at;

  if (!endpoint->rx || endpoint->receive_buffers || !endpoint->is_connected ||
      endpoint->tell_connected || endpoint->closing.mode)
    return 0;
  most = there < most ? there : most;
  struct ibv_wc *wc = &worker->wc[worker->wc_at];
  const bool is_one = endpoint->lane_count == 1;
  const uint32_t taken = is_one ? vb_arrival_tell_messages(endpoint, wc, most, out)
                                : endpoint->device->transport->arrived(endpoint, wc, most, out);
  if (out->at == first)
    return 0;
  if (is_one && !endpoint->shared)
    endpoint->rq->posted -= taken;
  endpoint->arrivals += taken;
  worker->wc_at += taken;
  vb_arrival_look_at_credit(endpoint);
  if (!is_one)
    endpoint->device->transport->deliver(endpoint, out);
  return taken ? taken : 1;
}
