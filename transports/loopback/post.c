/* SPDX-License-Identifier: Apache-2.0 */
/* The sending half of the hot path. */
#include <assert.h>

#include "run.h"

/* Messages by reference are published to the receiver after this many. */
#define PUBLISH_LENT 128u

/* A pst_mr_check. *context: the CPU need not reach the memory. */
static bool lb_post_holds(const void *context, struct pst_mr *handle, uint64_t offset,
                          uint64_t length, uint32_t right)
{
  const struct lb_mr *mr = lb_mr_of(handle);
  if (!mr)
    return length == 0;
  return (mr->access & right) && pst_range_holds(mr->length, offset, length) &&
         (mr->base || *(const bool *)context);
}

/* 0, or why this SEND cannot be taken. */
static int lb_post_send_check(const struct pst_endpoint *endpoint,
                              const struct pst_request *request, bool reference)
{
  /* Several pieces are not contiguous: they are gathered in the ring's slot. */
  if (request->piece_count > 1)
    reference = false;
  return pst_send_check(request, LB_PIECES_MAX, endpoint->tx.message_max, lb_post_holds,
                        &reference);
}

static void lb_post_gather(uint8_t *to, const struct pst_request *request)
{
  struct pst_piece one;
  uint32_t count;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);
  for (uint32_t i = 0; i < count; to += pieces[i++].length)
    if (pieces[i].length)
      memcpy(to, lb_mr_of(pieces[i].mr)->base + pieces[i].offset, pieces[i].length);
}

/* One copy a message, up to n, all of which have a credit. Returns how many. */
static uint32_t lb_post_send_copies(struct pst_endpoint *endpoint,
                                    const struct pst_request *requests, uint32_t n, int *rc)
{
  struct lb_tx *tx = &endpoint->tx;
  struct lb_link *peer = endpoint->peer;
  uint32_t i = 0;
  while (i < n && requests[i].opcode == PST_OP_SEND) {
    uint32_t plain = endpoint->worker->device->send_plain(endpoint, requests + i, n - i);
    i += plain;
    if (plain)
      continue;
    *rc = lb_post_send_check(endpoint, &requests[i], false);
    if (*rc != 0)
      break;
    uint32_t slot = tx->stack[--tx->credits];
    lb_post_gather(peer->slot0 + slot * peer->stride, &requests[i]);
    lb_desc_write(&peer->desc[tx->head++ & peer->mask], slot, &requests[i]);
    tx->bytes += requests[i].arg.length;
    lb_tx_publish(endpoint, tx->head);
    i++;
  }
  if (i == 0)
    return 0;
  tx->tail = tx->head;
  pst_dones_push(&endpoint->dones, PST_OP_SEND, 0, requests[i - 1].cookie, i);
  return i;
}

/* Finds what a SEND that is not plain lends. *mr NULL: nothing, the SEND is gathered in the
 * slot. */
static int lb_post_lend_any(const struct pst_endpoint *endpoint, const struct pst_request *request,
                            uint32_t slot, struct lb_mr **mr, uint64_t *offset)
{
  const struct lb_link *peer = endpoint->peer;
  int rc = lb_post_send_check(endpoint, request, true);
  if (rc != 0)
    return rc;
  *mr = lb_mr_of(request->local.mr);
  *offset = request->offset;
  if (request->piece_count > 1) {
    if (!peer->slot0)
      return -E2BIG;
    lb_post_gather(peer->slot0 + slot * peer->stride, request);
    *mr = NULL;
  } else if (request->piece_count) {
    *mr = lb_mr_of(request->local.pieces[0].mr);
    *offset = request->local.pieces[0].offset;
  }
  return 0;
}

/* Posts messages by reference: each gets a credit and becomes a descriptor of its memory. *rc: why
 * it took fewer than n. */
static uint32_t lb_post_send_references(struct pst_endpoint *endpoint,
                                        const struct pst_request *requests, uint32_t n, int *rc)
{
  struct lb_tx *tx = &endpoint->tx;
  const struct lb_link *peer = endpoint->peer;
  /* Copies of what these stores could change for all that the compiler knows. */
  struct lb_desc *const descs = peer->desc;
  struct lb_mr **const lent = peer->lent;
  uint64_t *const post_of = tx->post_of, *const cookies = tx->cookies;
  int32_t *const results = tx->results;
  const uint32_t *top = tx->stack + tx->credits;
  const uint64_t mask = peer->mask, requests_mask = endpoint->dones.mask;
  struct lb_source source = {0};
  uint64_t head = tx->head, bytes = 0;
  uint32_t i;
  for (i = 0; i < n; i++, head++) {
    const struct pst_request *request = &requests[i];
    const uint32_t slot = *--top;
    uint64_t offset = request->offset;
    struct lb_mr *mr = lb_mr_of(request->local.mr);
    if (!lb_is_plain(endpoint, request, &source)) {
      if (request->opcode != PST_OP_SEND)
        break;
      *rc = lb_post_lend_any(endpoint, request, slot, &mr, &offset);
      if (*rc != 0)
        break;
    }
    /* The slot's last message was mostly of the same region. The line then stays shared, since
     * nobody writes it. */
    if (lent[slot] != mr)
      lent[slot] = mr;
    post_of[slot] = head;
    cookies[head & requests_mask] = request->cookie;
    results[head & requests_mask] = LB_PENDING;
    bytes += request->arg.length;
    struct lb_desc *desc = &descs[head & mask];
    desc->offset = mr ? mr->offset + offset : 0;
    lb_desc_write(desc, slot, request);
    if (i % PUBLISH_LENT == PUBLISH_LENT - 1)
      lb_tx_publish(endpoint, head + 1);
  }
  tx->credits -= i;
  tx->bytes += bytes;
  tx->head = head;
  assert(tx->head - tx->tail <= endpoint->dones.requests);
  if (i)
    lb_tx_publish(endpoint, head);
  return i;
}

/* Posts messages by copy or by reference. Returns how many; *why and *rc say what stopped the
 * rest. */
static uint32_t lb_post_sends(struct pst_endpoint *endpoint, const struct pst_request *requests,
                              uint32_t n, uint32_t *why, int *rc)
{
  struct lb_tx *tx = &endpoint->tx;
  if (!(endpoint->roles & PST_ROLE_SENDER)) {
    *rc = -EINVAL;
    return 0;
  }
  if (tx->credits < n || tx->post_of)
    lb_tx_reap(endpoint);
  if (endpoint->stage.name != LB_CONNECTED) {
    *rc = -ECONNRESET;
    return 0;
  }
  uint32_t most = n < tx->credits ? n : tx->credits;
  bool reference = tx->post_of != NULL;
  /* A wrong request is refused even when there is no credit for it. */
  if (most == 0)
    *rc = lb_post_send_check(endpoint, &requests[0], reference);
  if (*rc != 0)
    return 0;
  uint32_t taken = reference ? lb_post_send_references(endpoint, requests, most, rc)
                             : lb_post_send_copies(endpoint, requests, most, rc);
  tx->messages += taken;
  tx->blocked = taken == most && most < n && requests[taken].opcode == PST_OP_SEND;
  if (tx->blocked) {
    *why = PST_WAIT_CREDIT;
    endpoint->worker->again_ns = 0;
  }
  /* The slots of the next post arrive in the cache while its messages are made. */
  if (!reference)
    lb_tx_reap(endpoint);
  return taken;
}

static void lb_post_push_plain(struct pst_endpoint *endpoint, const struct pst_request *requests,
                               uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    pst_dones_push(&endpoint->dones, requests[i].opcode, 0, requests[i].cookie, 1);
}

static uint32_t lb_post_others(struct pst_endpoint *endpoint, const struct pst_request *requests,
                               uint32_t n, uint32_t *why, int *rc)
{
  struct lb_peer_access passage = {0};
  uint32_t i;
  if (__builtin_expect(endpoint->copiers != NULL, 0))
    return lb_copy_post(endpoint, requests, n, why, rc);
  i = lb_run_execute(endpoint, requests, n);
  lb_post_push_plain(endpoint, requests, i);
  for (; i < n && requests[i].opcode != PST_OP_SEND; i++) {
    *rc = lb_rma_execute(endpoint, &requests[i], &passage);
    if (*rc != 0)
      break;
    pst_dones_push(&endpoint->dones, requests[i].opcode, 0, requests[i].cookie, 1);
  }
  lb_rma_leave(&passage);
  return i;
}

/* How many requests come before the first SEND with FENCE that has to wait for copies. */
static uint32_t lb_post_unfenced(const struct pst_request *requests, uint32_t n)
{
  uint32_t i = 0;
  while (i < n && !(requests[i].opcode == PST_OP_SEND && (requests[i].flags & PST_REQUEST_FENCE)))
    i++;
  return i;
}

static int lb_post_why_closed(const struct pst_endpoint *endpoint)
{
  return lb_is_connecting(endpoint) || !lb_was_connected(endpoint) || endpoint->closing.mode
             ? -ENOTCONN
             : -ECONNRESET;
}

/* The peer may be closing in this very process, and its memory be freed next: we
 * say that we write, then look whether it has closed. */
static inline int lb_post_enter(struct pst_endpoint *endpoint)
{
  if (__builtin_expect(endpoint->stage.name != LB_CONNECTED || endpoint->closing.mode, 0))
    return lb_post_why_closed(endpoint);
  struct lb_link *peer = endpoint->peer;
  if (peer->in_process) {
    atomic_store_explicit(&peer->posting, 1, memory_order_relaxed);
    lb_barrier_light(endpoint->fenced);
  }
  if (!(atomic_load_explicit(&peer->port->state, memory_order_acquire) & LB_STATE_CLOSED))
    return 0;
  if (peer->in_process)
    atomic_store_explicit(&peer->posting, 0, memory_order_release);
  return -ECONNRESET;
}

static inline void lb_post_leave(struct pst_endpoint *endpoint)
{
  if (endpoint->peer->in_process)
    atomic_store_explicit(&endpoint->peer->posting, 0, memory_order_release);
}

/* Ends requests of this post, from `first` on, whose peer's memory is gone. */
static void lb_post_lose(struct pst_endpoint *endpoint, uint64_t first)
{
  lb_worker_lost(endpoint->worker);
  if (lb_lost_status(endpoint) != -EFAULT)
    return;
  for (uint64_t i = first; i != endpoint->dones.head; i++) {
    struct pst_done *done = &endpoint->dones.at[i & endpoint->dones.mask];
    if (done->status == 0 && done->opcode != PST_OP_SEND && done->opcode != PST_OP_WRITE)
      done->status = -ECONNRESET;
  }
}

/* Ends a run by DONEs. It was executed, and some of its bytes may not be those of the peer. */
static __attribute__((noinline)) void
lb_post_end_by_dones(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n)
{
  const uint64_t first = endpoint->dones.head;
  endpoint->dones.outstanding += n;
  lb_post_push_plain(endpoint, requests, n);
  lb_post_lose(endpoint, first);
}

/* A run that has ended when post() returns, and needs no DONE: no request before it waits for one.
 * Returns how many it has; 0: the first is not of that kind, or must not go this way. */
static inline uint32_t lb_post_complete(struct pst_endpoint *endpoint,
                                        const struct pst_request *requests, uint32_t n,
                                        uint32_t *wait)
{
  n = pst_dones_room(&endpoint->dones, n);
  if (n == 0 || endpoint->copiers || !pst_dones_is_empty(&endpoint->dones) ||
      lb_post_enter(endpoint) != 0)
    return 0;
  const uint32_t taken = lb_run_execute(endpoint, requests, n);
  lb_post_leave(endpoint);
  if (__builtin_expect(lb_worker_is_hit(endpoint->worker), 0) && taken) {
    lb_post_end_by_dones(endpoint, requests, taken);
    *wait = PST_WAIT_QUEUE;
  } else if (taken) {
    *wait = PST_POST_COMPLETED;
  }
  return taken;
}

/* Posts requests of any kind, one after the other, until one cannot be posted now. Returns as the
 * transport's post(). */
static __attribute__((noinline)) int lb_post_any(struct pst_endpoint *endpoint,
                                                 const struct pst_request *requests, uint32_t n,
                                                 uint32_t *wait)
{
  const uint64_t first = endpoint->dones.head;
  uint32_t why = PST_WAIT_NONE, taken = 0;
  int rc = lb_post_enter(endpoint);
  if (rc != 0)
    return rc;
  while (taken < n) {
    uint32_t left = pst_dones_room(&endpoint->dones, n - taken);
    if (left == 0) {
      why = PST_WAIT_QUEUE;
      break;
    }
    if (__builtin_expect(lb_copy_pending(endpoint), 0) &&
        (left = lb_post_unfenced(requests + taken, left)) == 0) {
      why = PST_WAIT_QUEUE;
      break;
    }
    uint32_t k = requests[taken].opcode == PST_OP_SEND
                     ? lb_post_sends(endpoint, requests + taken, left, &why, &rc)
                     : lb_post_others(endpoint, requests + taken, left, &why, &rc);
    taken += k;
    endpoint->dones.outstanding += k;
    if (rc != 0 || why != PST_WAIT_NONE)
      break;
  }
  lb_post_leave(endpoint);
  assert(endpoint->dones.outstanding <= endpoint->dones.requests);
  if (__builtin_expect(lb_worker_is_hit(endpoint->worker), 0))
    lb_post_lose(endpoint, first);
  return pst_post_result(taken, n, rc, why, wait);
}

int lb_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
            uint32_t *wait)
{
  if (*wait == PST_POST_MAY_COMPLETE) {
    const uint32_t taken = lb_post_complete(endpoint, requests, n, wait);
    if (taken)
      return (int)taken;
  }
  return lb_post_any(endpoint, requests, n, wait);
}
