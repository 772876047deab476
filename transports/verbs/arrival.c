/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that have arrived. */
#include <endian.h>

#include "receive.h"
#include "srq.h"

/* Status and opcode at once. */
static inline uint64_t kind_of(const struct ibv_wc *wc)
{
  uint64_t kind;

  _Static_assert(offsetof(struct ibv_wc, opcode) == offsetof(struct ibv_wc, status) + 4 &&
                     sizeof(wc->status) == 4 && sizeof(wc->opcode) == 4,
                 "one behind the other");
  memcpy(&kind, (const uint8_t *)wc + offsetof(struct ibv_wc, status), sizeof(kind));
  return kind;
}

/* Whose receives they take: its own, of one queue pair or of one of several; shared ones; shared
 * ones that are slots. */
enum how { OWN, LANE, SHARED, SLOTS };

/* What the messages of a row have in common, and where they go. */
struct telling {
  uint64_t head; /* of the completion, kind to status */
  uint64_t cookie, token, base, stride;
  uint64_t is_out;
  uint64_t *slots;
};

static inline __attribute__((always_inline)) void tell_one(const struct telling *telling,
                                                           struct pst_completion *at, uint64_t slot,
                                                           uint32_t length, uint64_t sequence)
{
  telling->slots[slot] = telling->is_out;
  memcpy(at, &telling->head, sizeof(telling->head));
  at->endpoint = telling->cookie;
  at->u.message.token = telling->token | slot;
  at->u.message.offset = telling->base + slot * telling->stride;
  at->u.message.length = length;
  at->u.message.buffer = 0;
  at->u.message.sequence = sequence;
  at->u.message.meta = at->u.message.time_ns = 0;
}

/* Of the completions before `wc_end` those at the front that are of messages, alike and as they
 * have to be, into the next slots of the line: at most `n` messages. Returns how many completions
 * that were. One more may have been a run of which the last messages were too many: it is of these
 * alone then. */
static inline __attribute__((always_inline)) uint32_t tell_alike(struct pst_endpoint *endpoint,
                                                                 struct ibv_wc *wc, uint32_t wcs,
                                                                 uint32_t n, struct vb_out *out,
                                                                 const enum how how)
{
  struct vb_rx *rx = endpoint->rx;
  const struct pst_ring *ring = rx->ring;
  const struct ibv_wc like = {.status = IBV_WC_SUCCESS,
                              .opcode = rx->sends ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM};
  const struct pst_completion model = {.kind = PST_COMPLETION_MESSAGE, .flags = PST_HAS_SEQUENCE};
  struct telling telling = {.cookie = endpoint->cookie,
                            .token = pst_token(ring->place, 0),
                            .base = ring->params.base + ring->params.headroom,
                            .stride = ring->params.stride,
                            .is_out = vb_slot(endpoint, VB_SLOT_OUT),
                            .slots = ring->slots};
  struct vb_srq *shared = endpoint->shared;
  const uint32_t number = how == LANE ? wc->qp_num : endpoint->number,
                 drop = how == OWN || how == LANE ? 0 : 31;
  const uint64_t whose = wc->wr_id >> drop, kind = kind_of(&like),
                 length_max = ring->params.payload_max;
  const uint32_t from = rx->line.tail & rx->line.mask, to_end = rx->line.mask + 1 - from;
  const uint32_t *next = rx->line.at + from, initial = (uint32_t)rx->initial;
  uint64_t highest = rx->highest, bytes = 0;
  struct pst_completion *at = out->at;
  const struct ibv_wc *first = wc, *wc_end = wc + wcs;

  _Static_assert(offsetof(struct pst_completion, endpoint) == sizeof(telling.head),
                 "kind to status");
  memcpy(&telling.head, &model, sizeof(telling.head));
  const uint32_t granted = how == SLOTS ? rx->granted : vb_granted_count(rx);
  n = n < granted ? n : granted;
  n = how == SLOTS || n < to_end ? n : to_end;
  for (const struct pst_completion *end = at + n;
       wc != wc_end && at != end && wc->wr_id >> drop == whose &&
       (how == OWN || wc->qp_num == number) && kind_of(wc) == kind;
       wc++) {
    /* The nearest number that ends so. */
    const int64_t step = (int32_t)(be32toh(wc->imm_data) - initial - (uint32_t)highest);
    uint64_t sequence = highest + (uint64_t)step;
    if (wc->byte_len <= length_max) {
      const uint64_t slot = how == SLOTS ? vb_srq_entry(wc->wr_id) : *next++;
      bytes += wc->byte_len;
      highest = step > 0 ? sequence : highest;
      tell_one(&telling, at++, slot, wc->byte_len, sequence);
    } else if (how == SLOTS)
      break;
    else {
      const uint32_t all = vb_messages_of(rx, wc), there = (uint32_t)(end - at);
      const uint64_t length = wc->byte_len - (all - 1) * telling.stride;
      const uint32_t some = all < there ? all : there;
      if (all == 1 || length > length_max || next[some - 1] - next[0] != some - 1)
        break;
      bytes += some * length;
      for (const struct pst_completion *run_end = at + some; at != run_end; at++, sequence++)
        tell_one(&telling, at, *next++, (uint32_t)length, sequence);
      highest = step + (int64_t)some > 1 ? sequence - 1 : highest;
      if (some < all) {
        wc->byte_len -= (uint32_t)(some * telling.stride);
        wc->imm_data = htobe32(be32toh(wc->imm_data) + some);
        break;
      }
    }
    if (how == SHARED)
      vb_srq_back(shared, vb_srq_entry(wc->wr_id));
  }
  n = (uint32_t)(at - out->at);
  if (how == SLOTS) {
    rx->granted -= n;
    rx->out += n;
  } else
    rx->line.tail += n;
  rx->highest = highest;
  rx->bytes += bytes;
  rx->arrived += n;
  out->at = at;
  out->room -= n;
  return (uint32_t)(wc - first);
}

/* Apart, so that none of them costs another registers. */
static __attribute__((noinline)) uint32_t
tell_of_shared(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs, struct vb_out *out)
{
  return tell_alike(endpoint, wc, wcs, out->room, out, SHARED);
}

static __attribute__((noinline)) uint32_t
tell_of_slots(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs, struct vb_out *out)
{
  return tell_alike(endpoint, wc, wcs, out->room, out, SLOTS);
}

static __attribute__((noinline)) uint32_t
tell_of_own(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs, struct vb_out *out)
{
  return tell_alike(endpoint, wc, wcs, out->room, out, OWN);
}

uint32_t vb_arrived_by_one(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs,
                           uint32_t n, struct vb_out *out)
{
  return tell_alike(endpoint, wc, wcs, n, out, LANE);
}

static inline uint32_t tell_messages(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs,
                                     struct vb_out *out)
{
  if (!endpoint->shared)
    return tell_of_own(endpoint, wc, wcs, out);
  return (endpoint->rx->sends ? tell_of_slots : tell_of_shared)(endpoint, wc, wcs, out);
}

/* What messages say of credit: that it has arrived, and that there is more to give. */
static void look_at_credit(struct pst_endpoint *endpoint)
{
  struct vb_rx *rx = endpoint->rx;

  while (rx->credits_taken != rx->credits_sent &&
         rx->arrived > rx->first_of[rx->credits_taken % VB_CONTROL_RECEIVES])
    rx->credits_taken++;
  if (vb_credit_is_due(endpoint))
    vb_pend(endpoint);
}

static void refuse(struct pst_endpoint *endpoint)
{
  vb_fail(endpoint, -EPROTO, "the peer sent a message for which it had no slot, or a longer one");
}

bool vb_arrived(struct pst_endpoint *endpoint, struct ibv_wc *wc, struct vb_out *out)
{
  const bool is_closing = endpoint->rx && endpoint->closing.mode;
  const struct pst_completion *first = out->at;
  const uint32_t taken = endpoint->rx && !is_closing ? tell_messages(endpoint, wc, 1, out) : 0;
  const bool is_told = out->at != first;

  if (!is_told && endpoint->shared)
    vb_srq_back(vb_srq_of(endpoint->worker, wc->wr_id), vb_srq_entry(wc->wr_id));
  if (is_closing)
    return true;
  if (is_told)
    look_at_credit(endpoint);
  else
    refuse(endpoint);
  return taken || !is_told;
}

uint32_t vb_arrived_row(struct pst_endpoint *endpoint, struct ibv_wc *wc, uint32_t wcs, uint32_t n,
                        struct vb_out *out)
{
  const struct pst_completion *first = out->at;
  const uint32_t taken = tell_alike(endpoint, wc, wcs, n, out, OWN);

  if (out->at == first)
    refuse(endpoint);
  else
    look_at_credit(endpoint);
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
  const uint32_t taken = is_one ? tell_messages(endpoint, wc, most, out)
                                : endpoint->device->transport->arrived(endpoint, wc, most, out);
  if (out->at == first)
    return 0;
  if (is_one && !endpoint->shared)
    endpoint->rq->posted -= taken;
  endpoint->arrivals += taken;
  worker->wc_at += taken;
  look_at_credit(endpoint);
  if (!is_one)
    endpoint->device->transport->deliver(endpoint, out);
  return taken ? taken : 1;
}
