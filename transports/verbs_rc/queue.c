/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs, and what goes into their queues. */
#include <endian.h>
#include <stdio.h>

#include "rc.h"
#include "shared.h"

/* Completions that there may be at a time: of all queues of the worker's. */
static int reserve_completions(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;
  uint32_t wanted = worker->cq_used + rc_queue_completions(endpoint);
  int rc = rc_cq_grow(worker, wanted, endpoint->label);

  if (rc == 0)
    worker->cq_used = wanted;
  return rc;
}

static int create(struct pst_endpoint *endpoint, uint32_t pieces)
{
  const struct ibv_qp_cap want = {.max_send_wr = endpoint->sq_size,
                                  .max_recv_wr = endpoint->rq_size,
                                  .max_send_sge = pieces,
                                  .max_recv_sge = 1,
                                  .max_inline_data = RC_INLINE_WISH};
  int rc = rc_qp_create(endpoint, &want, 0, &endpoint->given, &endpoint->qp, &endpoint->responder);

  endpoint->max_inline = endpoint->given.max_inline_data;
  endpoint->pieces_max = pieces;
  return rc;
}

static int open_sends(struct pst_endpoint *endpoint, uint32_t pieces)
{
  uint32_t size = 1;

  while (size < endpoint->sq_size)
    size <<= 1;
  endpoint->sq_mask = size - 1;
  endpoint->sent = calloc(size, sizeof(*endpoint->sent));
  endpoint->wrs = calloc(size, sizeof(*endpoint->wrs));
  endpoint->sges = calloc((size_t)size * pieces, sizeof(*endpoint->sges));
  if (!endpoint->sent || !endpoint->wrs || !endpoint->sges)
    return -ENOMEM;
  for (uint32_t i = 0; i < size; i++) {
    endpoint->wrs[i].next = &endpoint->wrs[(i + 1) & endpoint->sq_mask];
    endpoint->wrs[i].sg_list = &endpoint->sges[(size_t)i * pieces];
  }
  return 0;
}

/* A sender receives credit into it, a receiver sends credit from it. */
static int open_control(struct pst_endpoint *endpoint)
{
  size_t buffers = (endpoint->rx ? endpoint->credit_depth : 0) + endpoint->receive_buffers;
  size_t bytes = buffers * endpoint->credit_bytes + RC_SCRATCH_BYTES;
  char why[400];

  endpoint->control = vb_pages_alloc(bytes);
  if (!endpoint->control)
    return -ENOMEM;
  memset(endpoint->control, 0, bytes);
  endpoint->control_mr =
      vb_pin(&endpoint->domain->mrs, endpoint->control, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (endpoint->control_mr) {
    endpoint->credit_mr = endpoint->is_split ? NULL : endpoint->control_mr;
    return 0;
  }
  int rc = vb_call_error(errno);
  vb_mr_refusal(&endpoint->domain->mrs, -rc, bytes, why, sizeof(why));
  RC_LOG(endpoint->device, PST_LOG_ERROR, "%s: ibv_reg_mr of %zu bytes for credits: %s: %s",
         endpoint->label, bytes, strerror(-rc), why);
  return rc;
}

/* Credit is sent from memory of the domain that it is sent in, or, where that is another than it is
 * received in, inline, so that no peer costs a registration more: 16 runs of slots and not 64. */
static int open_credits(struct pst_endpoint *endpoint)
{
  const size_t bytes = (size_t)endpoint->credit_depth * endpoint->credit_bytes;
  char why[400];

  if (endpoint->credit_mr || !endpoint->rx || endpoint->max_inline >= sizeof(struct rc_run))
    return 0;
  endpoint->credit_mr =
      vb_pin(&endpoint->local->mrs, endpoint->control, bytes, IBV_ACCESS_LOCAL_WRITE);
  if (endpoint->credit_mr)
    return 0;
  int rc = vb_call_error(errno);
  vb_mr_refusal(&endpoint->local->mrs, -rc, bytes, why, sizeof(why));
  RC_LOG(endpoint->device, PST_LOG_ERROR, "%s: ibv_reg_mr of %zu bytes for credits: %s: %s",
         endpoint->label, bytes, strerror(-rc), why);
  return rc;
}

/* SENDs: all slots into receives; those that are shared are posted already. With `reconnect` one of
 * these is not granted, so that a hello finds one though the host has all the others. */
static void line_up(struct pst_endpoint *endpoint)
{
  struct rc_rx *rx = endpoint->rx;

  if (endpoint->shared) {
    rx->ungranted = rx->share - (endpoint->device->reconnect_ns && rx->share > 1);
    return;
  }
  for (uint32_t i = 0; i < RC_POLL_BATCH; i++) {
    rx->sges[i] = (struct ibv_sge){.length = (uint32_t)rx->ring->params.payload_max,
                                   .lkey = rx->ring->verbs.mr->lkey};
    endpoint->again[i].sg_list = &rx->sges[i];
    endpoint->again[i].num_sge = 1;
  }
  rx->ungranted = rc_back_count(rx);
  rx->given = rx->line.head;
}

void rc_queue_sizes(struct pst_endpoint *endpoint)
{
  endpoint->credit_depth = endpoint->device->shares ? RC_SHARED_CREDITS : RC_CONTROL_RECEIVES;
  endpoint->credit_bytes = endpoint->device->shares ? RC_SHARED_CREDIT_BYTES : RC_CONTROL_BYTES;
  endpoint->sq_size = endpoint->requests_max + RC_SPARE_SENDS;
  endpoint->rq_size = RC_SPARE_RECEIVES;
  if (endpoint->rx) {
    endpoint->sq_size += endpoint->credit_depth;
    endpoint->rq_size = endpoint->rx->share + (endpoint->rx->sends ? 1 : RC_SPARE_RECEIVES);
  }
  if (endpoint->rx && endpoint->rx->ring->shared) /* which has them all */
    endpoint->rq_size = 0;
  if (endpoint->tx)
    endpoint->rq_size += endpoint->credit_depth;
  if (endpoint->tx && !endpoint->device->shares)
    endpoint->receive_buffers = endpoint->rq_size;
  endpoint->lane_room = rc_lanes_room(endpoint);
}

int rc_queue_open(struct pst_endpoint *endpoint, uint32_t pieces)
{
  int rc;

  rc_queue_sizes(endpoint);
  if ((rc = reserve_completions(endpoint)) < 0) {
    endpoint->sq_size = endpoint->rq_size = endpoint->lane_room = 0;
    return rc;
  }
  if (endpoint->device->shares && (rc = rc_shared_join(endpoint)) < 0)
    return rc;
  rc = create(endpoint, pieces ? pieces : 1);
  if (rc < 0)
    return rc;
  if (endpoint->shared)
    rc_shared_name(endpoint);
  rc = open_sends(endpoint, endpoint->pieces_max);
  if (rc == 0)
    rc = open_control(endpoint);
  for (uint32_t i = 0; rc == 0 && i < RC_POLL_BATCH; i++)
    endpoint->again[i] =
        (struct ibv_recv_wr){.wr_id = RC_RECEIVE | rc_wr_id(endpoint, 0),
                             .next = i + 1 < RC_POLL_BATCH ? &endpoint->again[i + 1] : NULL};
  if (rc == 0 && endpoint->rx && endpoint->rx->sends)
    line_up(endpoint);
  if (rc == 0)
    rc = rc_queue_init(endpoint);
  if (rc == 0)
    rc = rc_lanes_open(endpoint);
  return rc == 0 ? open_credits(endpoint) : rc;
}

static int post_spare(struct pst_endpoint *endpoint)
{
  struct ibv_recv_wr wr = {.wr_id = RC_RECEIVE | rc_wr_id(endpoint, RC_SPARE)}, *bad;
  int rc = ibv_post_recv(endpoint->responder, &wr, &bad);

  if (rc == 0)
    endpoint->rq_posted++;
  return -rc;
}

/* To INIT, with all receives posted: the peer may send as soon as it knows us. */
int rc_queue_init(struct pst_endpoint *endpoint)
{
  int rc = rc_queue_to_init(endpoint, endpoint->qp, endpoint->responder);

  if (rc < 0 || endpoint->shared)
    return rc;
  if (endpoint->rx && endpoint->rx->sends) {
    /* The host may have all slots: a hello that comes first must not wait for one. */
    if (endpoint->reconnect.is_greeted && (rc = post_spare(endpoint)) < 0)
      return rc;
    return rc_slots_post(endpoint, rc_granted_count(endpoint->rx));
  }
  if (!endpoint->receive_buffers)
    return rc_receives_post(endpoint, endpoint->rq_size);
  for (uint32_t i = 0; i < endpoint->rq_size && rc == 0; i++)
    rc = rc_receive_again(endpoint, i);
  return rc;
}

void rc_queue_close(struct pst_endpoint *endpoint)
{
  rc_lanes_close(endpoint);
  rc_qp_destroy(endpoint->qp, endpoint->responder);
  if (endpoint->shared)
    rc_shared_leave(endpoint);
  if (endpoint->credit_mr && endpoint->credit_mr != endpoint->control_mr)
    vb_unpin(&endpoint->local->mrs, endpoint->credit_mr);
  if (endpoint->control_mr)
    vb_unpin(&endpoint->domain->mrs, endpoint->control_mr);
  endpoint->worker->cq_used -= rc_queue_completions(endpoint);
  free(endpoint->control);
  free(endpoint->sent);
  free(endpoint->wrs);
  free(endpoint->sges);
}

/* ---- Receives ------------------------------------------------------------------------------ */

/* The first `n` of endpoint->again. 0 or an errno. */
static int post_linked(struct pst_endpoint *endpoint, uint32_t n)
{
  struct ibv_recv_wr *last = &endpoint->again[n - 1], *next = last->next, *bad;

  last->next = NULL;
  int rc = ibv_post_recv(endpoint->responder, endpoint->again, &bad);
  last->next = next;
  if (rc == 0)
    endpoint->rq_posted += n;
  return rc;
}

int rc_receives_post(struct pst_endpoint *endpoint, uint32_t n)
{
  int rc = 0;

  for (uint32_t some = 0; n > 0 && rc == 0; n -= some) {
    some = n < RC_POLL_BATCH ? n : RC_POLL_BATCH;
    rc = post_linked(endpoint, some);
  }
  return -rc;
}

int rc_slots_post(struct pst_endpoint *endpoint, uint32_t n)
{
  struct rc_rx *rx = endpoint->rx;
  const struct rc_fifo *line = &rx->line;
  int rc = 0;

  for (uint32_t some = 0; n > 0 && rc == 0; n -= some) {
    some = n < RC_POLL_BATCH ? n : RC_POLL_BATCH;
    for (uint32_t i = 0; i < some; i++) {
      uint64_t slot = line->at[(rx->given - n + i) & line->mask];
      rx->sges[i].addr = rx->ring->base + slot * rx->ring->params.stride;
    }
    rc = post_linked(endpoint, some);
  }
  return -rc;
}

int rc_slots_post_back(struct pst_endpoint *endpoint)
{
  struct rc_rx *rx = endpoint->rx;
  uint32_t n = rc_back_count(rx);

  rx->given = rx->line.head;
  rx->ungranted += n;
  return rc_slots_post(endpoint, n);
}

int rc_slot_again(struct pst_endpoint *endpoint)
{
  struct rc_rx *rx = endpoint->rx;
  struct rc_fifo *line = &rx->line;
  uint32_t slot = rc_fifo_get(line);

  /* Before those that were released, in place of the first of them. */
  rc_fifo_put(line, line->at[rx->given & line->mask]);
  line->at[rx->given++ & line->mask] = slot;
  return rc_slots_post(endpoint, 1);
}

int rc_receive_again(struct pst_endpoint *endpoint, uint32_t buffer)
{
  struct ibv_sge sge = {.addr = (uintptr_t)rc_receive_buffer(endpoint, buffer),
                        .length = endpoint->credit_bytes,
                        .lkey = endpoint->control_mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = RC_RECEIVE | rc_wr_id(endpoint, buffer),
                           .sg_list = &sge,
                           .num_sge = 1},
                     *bad;
  int rc = ibv_post_recv(endpoint->responder, &wr, &bad);

  if (rc == 0)
    endpoint->rq_posted++;
  return -rc;
}

/* ---- Sends ----------------------------------------------------------------------------------- */

int rc_queue_went(struct pst_endpoint *endpoint, uint64_t from, const struct ibv_send_wr *bad,
                  int rc)
{
  const struct ibv_send_wr *first = &endpoint->wrs[from & endpoint->sq_mask];
  const uint32_t went = bad ? (uint32_t)((bad - first) & (ptrdiff_t)endpoint->sq_mask) : 0;

  endpoint->sq_head = from + went;
  return went ? (int)went : -rc;
}

int rc_queue_own(struct pst_endpoint *endpoint, uint32_t control, const struct ibv_sge *bytes,
                 unsigned int flags, uint8_t opcode, uint64_t cookie)
{
  uint64_t index = endpoint->sq_head;
  uint32_t at = (uint32_t)index & endpoint->sq_mask;
  struct ibv_send_wr *wr = &endpoint->wrs[at];

  if (rc_queue_room(endpoint) == 0)
    return -EAGAIN;
  wr->wr_id = rc_wr_id(endpoint, (uint32_t)index);
  wr->opcode = control ? rc_control_opcode(endpoint) : IBV_WR_RDMA_WRITE;
  wr->imm_data = htobe32(control);
  wr->send_flags = IBV_SEND_SIGNALED | flags;
  wr->num_sge = 0;
  wr->wr.rdma.remote_addr = 0;
  wr->wr.rdma.rkey = 0;
  if (bytes) {
    wr->sg_list[0] = *bytes;
    wr->num_sge = 1;
    if (bytes->length <= endpoint->max_inline)
      wr->send_flags |= IBV_SEND_INLINE;
  }
  endpoint->sent[at] = (struct rc_sent){.cookie = cookie, .opcode = opcode};
  rc_queue_alike(endpoint, index, opcode);
  int rc = rc_queue_ring(endpoint, index, index + 1);
  return rc < 0 ? rc : 0;
}
