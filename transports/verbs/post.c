/* SPDX-License-Identifier: Apache-2.0 */
/* Requests into the send queue: a list of work requests, one call, the last of them signalled. */
#include <endian.h>

#include "ops.h"
#include "request.h"

static int vb_post_check_send(const struct pst_endpoint *endpoint,
                              const struct pst_request *request)
{
  const struct vb_tx *tx = endpoint->tx;

  return tx ? pst_send_check(request, endpoint->pieces_max, tx->message_max, vb_request_is_within,
                             endpoint)
            : -EINVAL;
}

static int vb_post_check(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  if ((request->flags & ~(PST_REQUEST_FENCE | PST_REQUEST_EXCLUSIVE)) || request->reserved0)
    return -EINVAL;
  switch (request->opcode) {
  case PST_OP_SEND:
    return vb_post_check_send(endpoint, request);
  case PST_OP_FLUSH:
    return vb_flush_check(endpoint, request);
  case PST_OP_WRITE:
  case PST_OP_READ:
  case PST_OP_FETCH_ADD:
  case PST_OP_COMPARE_SWAP:
    return vb_rma_check(endpoint, request);
  default:
    return -EINVAL;
  }
}

static void vb_post_build_send(struct pst_endpoint *endpoint, struct ibv_send_wr *wr,
                               const struct pst_request *request)
{
  struct vb_tx *tx = endpoint->tx;

  wr->opcode = tx->opcode;
  wr->imm_data = htobe32((uint32_t)(request->u.send.sequence + tx->initial));
  wr->wr.rdma.remote_addr = tx->address + vb_slot_fifo_get(&tx->credits) * tx->stride;
  wr->wr.rdma.rkey = tx->rkey;
  if (vb_request_add_local(wr, request) && wr->num_sge &&
      request->arg.length <= endpoint->sq.max_inline)
    wr->send_flags |= IBV_SEND_INLINE;
  tx->messages++;
  tx->bytes += request->arg.length;
}

/* `before` it there were so many. */
static void vb_post_build(struct pst_endpoint *endpoint, uint64_t index, uint32_t before,
                          const struct pst_request *request)
{
  uint32_t at = (uint32_t)index & endpoint->sq.mask;
  struct ibv_send_wr *wr = &endpoint->sq.wrs[at];

  wr->wr_id = vb_wr_id(&endpoint->sq, (uint32_t)index);
  wr->num_sge = 0;
  wr->send_flags = request->flags & PST_REQUEST_FENCE ? IBV_SEND_FENCE : 0;
  if (request->opcode == PST_OP_SEND)
    vb_post_build_send(endpoint, wr, request);
  else if (request->opcode == PST_OP_FLUSH)
    vb_flush_build(endpoint, wr, request);
  else
    vb_rma_build(endpoint, wr, request);
  endpoint->sq.sent[at] = (struct vb_sent){
      .cookie = request->cookie, .upto = before + 1, .count = 1, .opcode = request->opcode};
  if (request->opcode != PST_OP_SEND && request->opcode != PST_OP_FLUSH)
    endpoint->rma_before = index + 1;
  vb_send_queue_alike(&endpoint->sq, index, request->opcode);
  if ((index & (endpoint->sq.mask >> 2)) == 0) /* as in wr_batch.c */
    wr->send_flags |= IBV_SEND_SIGNALED;
}

static int vb_post_not_now(const struct pst_endpoint *endpoint)
{
  if (!endpoint->is_connected)
    return endpoint->device->transport->refuses(endpoint);
  if (endpoint->tell_connected || endpoint->closing.mode)
    return -ENOTCONN;
  return endpoint->sq.requests_max ? 0 : -EINVAL;
}

/* Queue pairs do not fence one another: what a message is to come after is done. */
static bool vb_post_waits_for_rma(const struct pst_endpoint *endpoint,
                                  const struct pst_request *request)
{
  return endpoint->lane_count > 1 && request->opcode == PST_OP_SEND &&
         (request->flags & PST_REQUEST_FENCE) && endpoint->sq.done < endpoint->rma_before;
}

void vb_want_room(struct pst_endpoint *endpoint, uint32_t why)
{
  if (endpoint->want == VB_WANT_TOLD)
    vb_forget_room(endpoint);
  endpoint->want = why == PST_WAIT_NONE    ? VB_WANT_NOTHING
                   : why == PST_WAIT_QUEUE ? VB_WANT_QUEUE
                                           : VB_WANT_CREDIT;
}

/* The device refused what its own queue has room for. */
static int vb_post_broken(struct pst_endpoint *endpoint, int rc)
{
  endpoint->is_refused = true;
  vb_fail(endpoint, rc, "ibv_post_send");
  return -ECONNRESET;
}

/* Posts the work requests [from, to), of `taken` requests; `why` says what ended the run. */
static int vb_post_hand_over(struct pst_endpoint *endpoint, uint64_t from, uint64_t to,
                             uint32_t taken, uint32_t why, bool is_fenced, uint32_t *wait)
{
  struct vb_send_queue *sq = &endpoint->sq;

  sq->wrs[(to - 1) & sq->mask].send_flags |= IBV_SEND_SIGNALED;
  const int went = vb_send_queue_ring(sq, from, to);
  vb_want_room(endpoint, why);
  endpoint->wants_rma_done = is_fenced;
  if (went < 0)
    return vb_post_broken(endpoint, went);
  if ((uint32_t)went < to - from) {
    taken = sq->sent[(from + (uint32_t)went - 1) & sq->mask].upto - sq->posted;
    vb_post_broken(endpoint, -ENOBUFS);
  }
  sq->posted += taken;
  *wait = why;
  return (int)taken;
}

/* Posts the requests at the front; *is_cut: a FLUSH or a fenced request follows, for which they
 * have to be posted first. */
static int vb_post_some(struct pst_endpoint *endpoint, const struct pst_request *requests,
                        uint32_t n, uint32_t *wait, bool *is_cut)
{
  const uint32_t room = vb_send_queue_free(&endpoint->sq), before = endpoint->sq.posted;
  uint64_t from = endpoint->sq.head, to = from;
  uint32_t why = PST_WAIT_NONE, taken = 0;
  bool is_fenced = false;
  int rc = 0;

  *is_cut = false;
  for (uint32_t some; taken < n; taken += some) {
    const struct pst_request *request = &requests[taken];
    some = vb_build_row(endpoint, &to, before + taken, request, (n < room ? n : room) - taken);
    if (some)
      continue;
    if ((rc = vb_post_check(endpoint, request)) < 0)
      break;
    is_fenced = vb_post_waits_for_rma(endpoint, request);
    why = taken == room || is_fenced                                           ? PST_WAIT_QUEUE
          : request->opcode == PST_OP_SEND && endpoint->tx->credits.count == 0 ? PST_WAIT_CREDIT
                                                                               : PST_WAIT_NONE;
    if (why)
      break;
    if (vb_flush_needs_others(endpoint, request)) {
      *is_cut = taken > 0;
      if (*is_cut)
        break;
      const int read = vb_flush_others(endpoint, request);
      if (read < 0 && read != -EAGAIN)
        return vb_post_broken(endpoint, read);
      if (read < 0) {
        why = PST_WAIT_QUEUE;
        break;
      }
      from = to = endpoint->sq.head;
      if (request->opcode == PST_OP_SEND) { /* by another queue pair: once these are done */
        endpoint->rma_before = from;
        is_fenced = true;
        why = PST_WAIT_QUEUE;
        break;
      }
    }
    vb_post_build(endpoint, to++, before + taken, request);
    some = 1;
  }
  if (taken)
    return vb_post_hand_over(endpoint, from, to, taken, why, is_fenced, wait);
  vb_want_room(endpoint, why);
  endpoint->wants_rma_done = is_fenced;
  if (rc < 0)
    return rc;
  *wait = why;
  return -EAGAIN;
}

static int vb_post_all(struct pst_endpoint *endpoint, const struct pst_request *requests,
                       uint32_t n, uint32_t *wait)
{
  bool is_cut = true;
  uint32_t taken = 0;
  int rc = 0;

  while (is_cut && rc >= 0 && endpoint->is_connected) {
    rc = vb_post_some(endpoint, requests + taken, n - taken, wait, &is_cut);
    taken += rc > 0 ? (uint32_t)rc : 0;
  }
  return taken ? (int)taken : rc;
}

static __attribute__((noinline)) int vb_post_any(struct pst_endpoint *endpoint,
                                                 const struct pst_request *requests, uint32_t n,
                                                 uint32_t *wait)
{
  const int rc = vb_post_not_now(endpoint);

  if (rc == -EAGAIN) {
    vb_want_room(endpoint, PST_WAIT_QUEUE);
    *wait = PST_WAIT_QUEUE;
  }
  return rc < 0 || n == 0 ? rc : vb_post_all(endpoint, requests, n, wait);
}

/* Latency path: a single request goes the shortest way, without what a row of requests needs.
 * Anything unusual falls back to the general way. */

/* True if the latency path is open. A transport that posts in its own way (`spread`) takes the
 * general one. */
static inline bool vb_post_is_open(const struct pst_endpoint *endpoint)
{
  return endpoint->is_connected && endpoint->sq.posted != endpoint->sq.posted_max &&
         !(endpoint->tell_connected | endpoint->closing.mode) && !endpoint->sq.spread &&
         endpoint->want == VB_WANT_NOTHING;
}

/* Mostly the last WRITE named the same range, which was checked then. */
static inline bool vb_post_is_plain_write(const struct pst_endpoint *endpoint,
                                          const struct pst_request *request)
{
  const struct pst_remote *remote = request->u.rma.remote;
  const struct pst_mr *mr = request->local.mr;
  const uint64_t length = request->arg.length;

  return pst_request_head(request) == pst_request_head_of(PST_OP_WRITE, 0) && remote && mr &&
         (remote == endpoint->written || vb_is_writable(endpoint, remote)) &&
         mr->domain == endpoint->local && (mr->access & PST_ACCESS_LOCAL_READ) &&
         length - 1 < endpoint->device->message_max && !request->u.rma.reserved &&
         request->offset <= mr->length && length <= mr->length - request->offset &&
         request->u.rma.offset <= remote->length &&
         length <= remote->length - request->u.rma.offset;
}

/* Builds the work request of a WRITE of one piece at `index`, inline where it is short. The caller
 * has checked it. */
static inline struct ibv_send_wr *vb_post_build_write(struct pst_endpoint *endpoint, uint64_t index,
                                                      const struct pst_request *request)
{
  struct pst_remote *remote = request->u.rma.remote;
  const struct pst_mr *mr = request->local.mr;
  const uint64_t length = request->arg.length;
  struct ibv_send_wr *wr = &endpoint->sq.wrs[index & endpoint->sq.mask];
  struct vb_sent *sent = &endpoint->sq.sent[index & endpoint->sq.mask];
  struct ibv_sge *sge = wr->sg_list;

  wr->wr_id = vb_wr_id(&endpoint->sq, (uint32_t)index);
  wr->opcode = IBV_WR_RDMA_WRITE;
  wr->num_sge = 1;
  wr->send_flags = mr->is_cpu_readable && length <= endpoint->sq.max_inline
                       ? IBV_SEND_SIGNALED | IBV_SEND_INLINE
                       : IBV_SEND_SIGNALED;
  wr->wr.rdma.remote_addr = remote->address + request->u.rma.offset;
  wr->wr.rdma.rkey = remote->rkey;
  *sge = (struct ibv_sge){
      .addr = mr->verbs.address + request->offset, .length = (uint32_t)length, .lkey = mr->lkey};
  sent->cookie = request->cookie;
  sent->upto = endpoint->sq.posted + 1;
  sent->count = 1;
  sent->opcode = PST_OP_WRITE;
  vb_send_queue_alike(&endpoint->sq, index, PST_OP_WRITE);
  endpoint->rma_before = index + 1;
  if (__builtin_expect(remote != endpoint->written, 0))
    vb_written(endpoint, remote);
  return wr;
}

int vb_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
            uint32_t *wait)
{
  const uint64_t index = endpoint->sq.head;
  struct ibv_send_wr *bad = NULL;

  if (n != 1 || !vb_post_is_open(endpoint) || !vb_post_is_plain_write(endpoint, requests))
    return vb_post_any(endpoint, requests, n, wait);
  struct ibv_send_wr *wr = vb_post_build_write(endpoint, index, requests), *next = wr->next;
  wr->next = NULL;
  const int rc = ibv_post_send(endpoint->sq.qp, wr, &bad);
  wr->next = next;
  if (__builtin_expect(rc != 0, 0))
    return vb_post_broken(endpoint, -rc);
  endpoint->sq.head = index + 1;
  endpoint->sq.posted++;
  return 1;
}
