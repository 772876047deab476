/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain requests: SENDs and WRITEs of one piece, without flags, many alike in a row. They are
 * checked and built in one go; whatever is not as it mostly is, is left to post.c.
 *
 * Messages of one length that follow one another in consecutive slots, at this end and at the
 * peer's, are one WRITE: a run. The bytes between them travel along, up to an eighth: it is what
 * this end's slots hold behind the messages.
 */
#include <endian.h>

#include "request.h"

/* State of an endpoint while a row is built, and the registration that its requests named last. */
struct row {
  const struct vb_domain *local;
  struct ibv_send_wr *wrs;
  struct vb_sent *sent;
  uint64_t mask, quarter;
  uint64_t id;
  const struct pst_mr *mr;
  uint64_t length, address; /* of mr */
  uint32_t lkey;            /* of mr */
  uint32_t max_inline;      /* 0: of memory that the CPU does not read */
};

static inline struct row vb_batch_row_of(const struct pst_endpoint *endpoint)
{
  return (struct row){.local = endpoint->local,
                      .wrs = endpoint->sq.wrs,
                      .sent = endpoint->sq.sent,
                      .mask = endpoint->sq.mask,
                      .quarter = endpoint->sq.mask >> 2,
                      .id = vb_wr_id(&endpoint->sq, 0)};
}

/* Is it a SEND without flags? PST_REQUEST_EXCLUSIVE makes no difference here. */
static inline bool vb_batch_is_send(const struct pst_request *request)
{
  return (pst_request_head(request) & ~pst_request_head_of(0, PST_REQUEST_EXCLUSIVE)) ==
         pst_request_head_of(PST_OP_SEND, 0);
}

static inline __attribute__((always_inline)) bool
vb_batch_take_mr(const struct pst_endpoint *endpoint, struct row *row, const struct pst_mr *mr)
{
  if (!mr || mr->domain != row->local || !(mr->access & PST_ACCESS_LOCAL_READ))
    return false;
  row->mr = mr;
  row->length = mr->length;
  row->address = mr->verbs.address;
  row->lkey = mr->lkey;
  row->max_inline = mr->is_cpu_readable ? endpoint->sq.max_inline : 0;
  return true;
}

static inline bool vb_batch_is_within(const struct pst_endpoint *endpoint, struct row *row,
                                      const struct pst_request *request)
{
  return (request->local.mr == row->mr || vb_batch_take_mr(endpoint, row, request->local.mr)) &&
         request->offset <= row->length && request->arg.length <= row->length - request->offset;
}

/* `count` requests from this one on, as one work request of `length` bytes; `upto` there are ever.
 */
static inline __attribute__((always_inline)) struct ibv_send_wr *
vb_batch_build(const struct row *row, uint64_t index, const struct pst_request *request,
               uint8_t opcode, uint32_t count, uint64_t length, uint32_t upto)
{
  struct ibv_send_wr *wr = &row->wrs[index & row->mask];
  struct vb_sent *sent = &row->sent[index & row->mask];
  struct ibv_sge *sge = wr->sg_list;

  wr->wr_id = row->id | (uint32_t)index;
  wr->num_sge = length != 0;
  wr->send_flags = length && length <= row->max_inline ? IBV_SEND_INLINE : 0;
  /* So that room comes back before all of a long list is done. */
  if ((index & row->quarter) == 0)
    wr->send_flags |= IBV_SEND_SIGNALED;
  sge->addr = row->address + request->offset;
  sge->length = (uint32_t)length;
  sge->lkey = row->lkey;
  sent->cookie = request[count - 1].cookie;
  sent->upto = upto;
  sent->count = (uint16_t)count;
  sent->opcode = opcode;
  sent->lane = 0;
  return wr;
}

/* Two numbers of a request, which are compared at once. */
typedef uint64_t pair __attribute__((vector_size(16)));
_Static_assert(offsetof(struct pst_request, local) == 8 &&
                   offsetof(struct pst_request, offset) == sizeof(pair) &&
                   offsetof(struct pst_request, arg) == sizeof(pair) + 8,
               "head and memory; offset and length");

/* Values that the next message of a run must have, which grow by `step` a message; `other` collects
 * the differences of those looked at. */
struct like {
  pair who, where, step;
  pair other;
  uint64_t departs;
};

static inline __attribute__((always_inline)) bool
vb_batch_look_at_next(const struct pst_request *next, uint64_t sequence, struct like *like)
{
  pair who, where;

  memcpy(&who, next, sizeof(who));
  memcpy(&where, &next->offset, sizeof(where));
  like->other |= who ^ like->who;
  like->other |= where ^ like->where;
  like->where += like->step;
  like->departs |= next->u.send.departure_ns;
  return next->u.send.sequence == sequence;
}

static inline __attribute__((always_inline)) bool
vb_batch_look_at_four(const struct pst_request *next, uint64_t sequence, struct like *like)
{
  return vb_batch_look_at_next(&next[0], sequence, like) &&
         vb_batch_look_at_next(&next[1], sequence + 1, like) &&
         vb_batch_look_at_next(&next[2], sequence + 2, like) &&
         vb_batch_look_at_next(&next[3], sequence + 3, like);
}

/* How many of the `most` messages from the first on are alike and follow one another: at this end a
 * stride apart. Eight are looked at at once, as long as there are so many. */
static inline uint32_t vb_batch_count_run(const struct pst_request *first, uint32_t most,
                                          uint64_t stride)
{
  const uint64_t head = pst_request_head(first), length = first->arg.length;
  const struct pst_mr *mr = first->local.mr;
  const struct pst_request *next = first, *end = first + most, *eights = first + most / 8 * 8;
  struct like like = {
      .who = {head, (uintptr_t)mr}, .where = {first->offset, length}, .step = {stride, 0}};
  uint64_t sequence = first->u.send.sequence;

  for (; next != eights; next += 8, sequence += 8)
    if (!vb_batch_look_at_four(next, sequence, &like) ||
        !vb_batch_look_at_four(next + 4, sequence + 4, &like) ||
        (like.other[0] | like.other[1] | like.departs) != 0)
      break;
  for (uint64_t offset = first->offset + (uint64_t)(next - first) * stride;
       next != end && next->offset == offset && next->u.send.sequence == sequence &&
       next->arg.length == length && pst_request_head(next) == head && next->local.mr == mr &&
       next->u.send.departure_ns == 0;
       next++) {
    offset += stride;
    sequence++;
  }
  return (uint32_t)(next - first);
}

/* As vb_batch_count_run(), of `n` messages for slots that follow one another: within one turn of
 * several queue pairs, and within the memory. */
static __attribute__((noinline)) uint32_t vb_batch_run_of(const struct pst_endpoint *endpoint,
                                                          const struct pst_request *first,
                                                          uint32_t n, uint64_t room,
                                                          uint64_t messages)
{
  const struct vb_tx *tx = endpoint->tx;
  const uint64_t stride = tx->stride, length = first->arg.length;

  n = n < tx->run_max ? n : tx->run_max;
  if (endpoint->lane_count > 1) {
    const uint32_t left = tx->turn - (uint32_t)messages % tx->turn;
    n = n < left ? n : left;
  }
  n = vb_batch_count_run(first, n, stride);
  while (n > 1 && room < (n - 1) * stride + length)
    n--;
  return n;
}

/* Into `slots` of the peer that follow one another from that address on. Returns how many. */
static inline __attribute__((always_inline)) uint32_t
vb_batch_fill_slots(struct pst_endpoint *endpoint, struct row *row, uint64_t *index,
                    uint32_t before, const struct pst_request *requests, uint32_t slots,
                    uint64_t remote, const bool has_runs)
{
  struct vb_tx *tx = endpoint->tx;
  const uint32_t initial = (uint32_t)tx->initial, rkey = tx->rkey;
  const uint64_t stride = tx->stride, length_max = tx->message_max;
  const uint64_t run_length_min = tx->run_length_min;
  const enum ibv_wr_opcode opcode = tx->opcode;
  const struct pst_request *request = requests, *end = requests + slots;
  uint64_t bytes = 0, at = *index;

  while (request != end) {
    uint64_t length = request->arg.length;
    uint32_t k = 1;
    if (!vb_batch_is_send(request) || request->u.send.departure_ns || length > length_max ||
        !vb_batch_is_within(endpoint, row, request))
      break;
    bytes += length;
    if (has_runs && length >= run_length_min) {
      k = vb_batch_run_of(endpoint, request, (uint32_t)(end - request),
                          row->length - request->offset,
                          tx->messages + (uint64_t)(request - requests));
      bytes += (k - 1) * length;
      length += (k - 1) * stride;
      tx->runs += k > 1;
    }
    before += k;
    struct ibv_send_wr *wr = vb_batch_build(row, at++, request, PST_OP_SEND, k, length, before);
    wr->opcode = opcode;
    wr->imm_data = htobe32((uint32_t)request->u.send.sequence + initial);
    wr->wr.rdma.remote_addr = remote;
    wr->wr.rdma.rkey = rkey;
    request += k;
    remote += k * stride;
  }
  slots = (uint32_t)(request - requests);
  tx->messages += slots;
  tx->bytes += bytes;
  *index = at;
  return slots;
}

static inline __attribute__((always_inline)) uint32_t
vb_batch_sends(struct pst_endpoint *endpoint, uint64_t *index, uint32_t before,
               const struct pst_request *requests, uint32_t n, const bool has_runs)
{
  const struct vb_tx *tx = endpoint->tx;
  struct vb_slot_fifo *credits = &endpoint->tx->credits;
  struct row row = vb_batch_row_of(endpoint);
  uint32_t taken = 0, wanted, some;

  n = n < credits->count ? n : credits->count;
  do {
    const struct vb_slot_run *credit = vb_slot_fifo_first(credits);
    wanted = vb_smaller(n - taken, credit->count);
    some = vb_batch_fill_slots(endpoint, &row, index, before + taken, requests + taken, wanted,
                               tx->address + credit->first * tx->stride, has_runs);
    taken += some;
    if (some)
      vb_slot_fifo_take(credits, some);
  } while (taken != n && some == wanted);
  return taken;
}

/* Apart, so that neither costs the other registers. */
static __attribute__((noinline)) uint32_t vb_batch_singles(struct pst_endpoint *endpoint,
                                                           uint64_t *index, uint32_t before,
                                                           const struct pst_request *requests,
                                                           uint32_t n)
{
  return vb_batch_sends(endpoint, index, before, requests, n, false);
}

static __attribute__((noinline)) uint32_t vb_batch_runs(struct pst_endpoint *endpoint,
                                                        uint64_t *index, uint32_t before,
                                                        const struct pst_request *requests,
                                                        uint32_t n)
{
  return vb_batch_sends(endpoint, index, before, requests, n, true);
}

static inline void vb_batch_written(struct pst_endpoint *endpoint, struct pst_remote *remote,
                                    uint64_t end)
{
  endpoint->rma_before = end;
  if (remote != endpoint->written)
    vb_written(endpoint, remote);
}

/* Builds the WRITEs at the front that are of the registration `row->mr` and go to `remote`, at most
 * `most` bytes each. Returns the index of the next one. */
static inline __attribute__((always_inline)) uint64_t
vb_batch_build_writes(const struct row *row, uint64_t index, uint32_t before,
                      const struct pst_request *request, const struct pst_request *end,
                      const struct pst_remote *remote, uint64_t most)
{
  const struct pst_mr *mr = row->mr;
  const uint64_t address = remote->address, room = remote->length, local = row->length;
  const uint32_t rkey = remote->rkey;

  for (uint64_t length;
       request != end && pst_request_head(request) == pst_request_head_of(PST_OP_WRITE, 0) &&
       request->u.rma.remote == remote && request->local.mr == mr && !request->u.rma.reserved &&
       (length = request->arg.length) <= most && request->u.rma.offset <= room - length &&
       request->offset <= local - length;
       request++) {
    struct ibv_send_wr *wr =
        vb_batch_build(row, index++, request, PST_OP_WRITE, 1, length, ++before);
    wr->opcode = IBV_WR_RDMA_WRITE;
    wr->wr.rdma.remote_addr = address + request->u.rma.offset;
    wr->wr.rdma.rkey = rkey;
  }
  return index;
}

static inline uint64_t vb_batch_smallest(uint64_t a, uint64_t b, uint64_t c)
{
  const uint64_t smaller = a < b ? a : b;

  return smaller < c ? smaller : c;
}

/* Apart, for the registers. */
static __attribute__((noinline)) uint32_t vb_batch_writes(struct pst_endpoint *endpoint,
                                                          uint64_t first, uint32_t before,
                                                          const struct pst_request *requests,
                                                          uint32_t n)
{
  struct row row = vb_batch_row_of(endpoint);
  struct pst_remote *remote = requests[0].u.rma.remote;
  uint64_t index = first;
  uint32_t taken = 0;

  if (!vb_is_writable(endpoint, remote))
    return 0;
  do {
    if (!vb_batch_take_mr(endpoint, &row, requests[taken].local.mr))
      break;
    const uint64_t most =
        vb_batch_smallest(endpoint->device->message_max, remote->length, row.length);
    index = vb_batch_build_writes(&row, index, before + taken, requests + taken, requests + n,
                                  remote, most);
    taken = (uint32_t)(index - first);
  } while (taken != n && requests[taken].local.mr != row.mr);
  if (taken)
    vb_batch_written(endpoint, remote, index);
  return taken;
}

uint32_t vb_build_row(struct pst_endpoint *endpoint, uint64_t *index, uint32_t before,
                      const struct pst_request *requests, uint32_t n)
{
  const uint64_t first = *index;
  uint32_t built = 0;

  if (pst_request_head(requests) == pst_request_head_of(PST_OP_WRITE, 0)) {
    built = vb_batch_writes(endpoint, first, before, requests, n);
    *index += built;
  } else if (vb_batch_is_send(requests) && endpoint->tx)
    built = (endpoint->tx->run_max > 1 ? vb_batch_runs : vb_batch_singles)(endpoint, index, before,
                                                                           requests, n);
  if (built)
    vb_send_queue_alike(&endpoint->sq, first, requests[0].opcode);
  return built;
}
