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

/* Of `n` completions those at the front that are of messages, alike and as they have to be, into
 * the next slots of the line. Returns how many. */
static inline __attribute__((always_inline)) uint32_t tell_alike(struct pst_endpoint *endpoint,
                                                                 const struct ibv_wc *wc,
                                                                 uint32_t n, struct vb_out *out,
                                                                 const enum how how)
{
  struct vb_rx *rx = endpoint->rx;
  const struct pst_ring *ring = rx->ring;
  const struct ibv_wc first = {.status = IBV_WC_SUCCESS,
                               .opcode = rx->sends ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM};
  const struct pst_completion model = {.kind = PST_COMPLETION_MESSAGE, .flags = PST_HAS_SEQUENCE};
  const uint64_t cookie = endpoint->cookie;
  uint64_t head;
  struct vb_srq *shared = endpoint->shared;
  const uint32_t number = how == LANE ? wc->qp_num : endpoint->number,
                 drop = how == OWN || how == LANE ? 0 : 31;
  const uint64_t whose = wc->wr_id >> drop, kind = kind_of(&first),
                 length_max = ring->params.payload_max;
  const uint64_t token = pst_token(ring->place, 0), is_out = vb_slot(endpoint, VB_SLOT_OUT);
  const uint64_t base = ring->params.base + ring->params.headroom, stride = ring->params.stride;
  const uint32_t from = rx->line.tail & rx->line.mask, to_end = rx->line.mask + 1 - from;
  const uint32_t *next = rx->line.at + from, initial = (uint32_t)rx->initial;
  uint64_t *slots = ring->slots, highest = rx->highest, bytes = 0;
  struct pst_completion *at = out->at;

  _Static_assert(offsetof(struct pst_completion, endpoint) == sizeof(head), "kind to status");
  memcpy(&head, &model, sizeof(head));
  const uint32_t granted = how == SLOTS ? rx->granted : vb_granted_count(rx);
  n = n < granted ? n : granted;
  n = how == SLOTS || n < to_end ? n : to_end;
  for (const struct pst_completion *end = at + n;
       at != end && wc->wr_id >> drop == whose && (how == OWN || wc->qp_num == number) &&
       kind_of(wc) == kind && wc->byte_len <= length_max;
       wc++, at++) {
    const uint64_t slot = how == SLOTS ? vb_srq_entry(wc->wr_id) : *next++;
    if (how == SHARED)
      vb_srq_back(shared, vb_srq_entry(wc->wr_id));
    /* The nearest number that ends so. */
    const int64_t step = (int32_t)(be32toh(wc->imm_data) - initial - (uint32_t)highest);
    const uint64_t sequence = highest + (uint64_t)step;
    highest = step > 0 ? sequence : highest;
    bytes += wc->byte_len;
    slots[slot] = is_out;
    memcpy(at, &head, sizeof(head));
    at->endpoint = cookie;
    at->u.message.token = token | slot;
    at->u.message.offset = base + slot * stride;
    at->u.message.length = wc->byte_len;
    at->u.message.buffer = 0;
    at->u.message.sequence = sequence;
    at->u.message.meta = at->u.message.time_ns = 0;
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
  return n;
}

/* Apart, so that none of them costs another registers. */
static __attribute__((noinline)) uint32_t tell_of_shared(struct pst_endpoint *endpoint,
                                                         const struct ibv_wc *wc, uint32_t n,
                                                         struct vb_out *out)
{
  return tell_alike(endpoint, wc, n, out, SHARED);
}

static __attribute__((noinline)) uint32_t tell_of_slots(struct pst_endpoint *endpoint,
                                                        const struct ibv_wc *wc, uint32_t n,
                                                        struct vb_out *out)
{
  return tell_alike(endpoint, wc, n, out, SLOTS);
}

static __attribute__((noinline)) uint32_t
tell_of_own(struct pst_endpoint *endpoint, const struct ibv_wc *wc, uint32_t n, struct vb_out *out)
{
  return tell_alike(endpoint, wc, n, out, OWN);
}

uint32_t vb_arrived_by_one(struct pst_endpoint *endpoint, const struct ibv_wc *wc, uint32_t n,
                           struct vb_out *out)
{
  return tell_alike(endpoint, wc, n, out, LANE);
}

static inline uint32_t tell_messages(struct pst_endpoint *endpoint, const struct ibv_wc *wc,
                                     uint32_t n, struct vb_out *out)
{
  if (!endpoint->shared)
    return tell_of_own(endpoint, wc, n, out);
  return (endpoint->rx->sends ? tell_of_slots : tell_of_shared)(endpoint, wc, n, out);
}

/* What messages say of credit: that it has arrived, and that there is more to give. */
static void look_at_credit(struct pst_endpoint *endpoint)
{
  struct vb_rx *rx = endpoint->rx;

  while (rx->credits_taken != rx->credits_sent &&
         rx->arrived > rx->first_of[rx->credits_taken % VB_CONTROL_RECEIVES])
    rx->credits_taken++;
  if (vb_back_count(rx) || rx->ungranted)
    vb_pend(endpoint);
}

static void refuse(struct pst_endpoint *endpoint)
{
  vb_fail(endpoint, -EPROTO, "the peer sent a message for which it had no slot, or a longer one");
}

void vb_arrived(struct pst_endpoint *endpoint, const struct ibv_wc *wc, struct vb_out *out)
{
  const bool is_closing = endpoint->rx && endpoint->closing.mode;
  const uint32_t told = endpoint->rx && !is_closing ? tell_messages(endpoint, wc, 1, out) : 0;

  if (told == 0 && endpoint->shared)
    vb_srq_back(vb_srq_of(endpoint->worker, wc->wr_id), vb_srq_entry(wc->wr_id));
  if (is_closing)
    return;
  if (told == 0)
    refuse(endpoint);
  else
    look_at_credit(endpoint);
}

uint32_t vb_arrived_row(struct pst_endpoint *endpoint, const struct ibv_wc *wc, uint32_t n,
                        struct vb_out *out)
{
  const uint32_t told = tell_of_own(endpoint, wc, n, out);

  if (told == 0)
    refuse(endpoint);
  else
    look_at_credit(endpoint);
  return told;
}

uint32_t vb_arrived_in_line(struct pst_endpoint *endpoint, uint32_t most, struct vb_out *out)
{
  struct pst_worker *worker = endpoint->worker;
  const uint32_t there = worker->wc_count - worker->wc_at;

  if (!endpoint->rx || endpoint->receive_buffers || !endpoint->is_connected ||
      endpoint->tell_connected || endpoint->closing.mode)
    return 0;
  most = there < most ? there : most;
  most = out->room < most ? out->room : most;
  const struct ibv_wc *wc = &worker->wc[worker->wc_at];
  const bool is_one = endpoint->lane_count == 1;
  const uint32_t n = is_one ? tell_messages(endpoint, wc, most, out)
                            : endpoint->device->transport->arrived(endpoint, wc, most, out);
  if (n == 0)
    return 0;
  if (is_one && !endpoint->shared)
    endpoint->rq->posted -= n;
  endpoint->arrivals += n;
  worker->wc_at += n;
  look_at_credit(endpoint);
  if (!is_one)
    endpoint->device->transport->deliver(endpoint, out);
  return n;
}
