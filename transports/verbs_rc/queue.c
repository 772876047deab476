/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs, and what goes into their queues. */
#include <endian.h>
#include <stdio.h>

#include "domain.h"
#include "lanes.h"
#include "qp.h"
#include "queue.h"
#include "shared.h"

/* Completions that there may be at a time: of all queues of the worker's. */
static int reserve_completions(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;
  uint32_t wanted = worker->cq_used + endpoint->completions;
  int rc = rc_cq_grow(worker, wanted, endpoint->label);

  if (rc == 0)
    worker->cq_used = wanted;
  else
    endpoint->completions = 0;
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
  int rc = buffers ? rc_pages_open(endpoint->domain, endpoint->label, "credits",
                                   buffers * endpoint->credit_bytes, &endpoint->control,
                                   &endpoint->control_mr)
                   : 0;

  endpoint->credit_mr = endpoint->is_split ? NULL : endpoint->control_mr;
  return rc;
}

/* Credit is sent from memory of the domain that it is sent in, or, where that is another than it is
 * received in, inline, so that no peer costs a registration more: about 10 runs of slots and
 * not 64. */
static int open_credits(struct pst_endpoint *endpoint)
{
  const size_t bytes = (size_t)endpoint->credit_depth * endpoint->credit_bytes;

  if (endpoint->credit_mr || !endpoint->rx || endpoint->max_inline >= sizeof(struct rc_run))
    return 0;
  return rc_pin(endpoint->local, endpoint->label, "credits", endpoint->control, bytes,
                &endpoint->credit_mr);
}

/* SENDs: all slots into receives; those that are shared are posted already. With `reconnect` one of
 * these is not granted, so that a hello finds one though the host has all the others. */
static void line_up(struct pst_endpoint *endpoint)
{
  struct rc_rx *rx = endpoint->rx && endpoint->rx->sends ? endpoint->rx : NULL;
  const struct pst_ring *ring = rx ? rx->ring : NULL;

  rc_receives_open(&endpoint->receives, RC_RECEIVE | rc_wr_id(endpoint, 0),
                   ring ? (uint32_t)ring->params.payload_max : 0, ring ? ring->verbs.mr : NULL);
  if (!rx)
    return;
  if (endpoint->shared) {
    rx->ungranted = rx->share - (endpoint->device->reconnect_ns && rx->share > 1);
    return;
  }
  rx->ungranted = rc_back_count(rx);
  rx->given = rx->line.head;
}

void rc_queue_sizes(struct pst_endpoint *endpoint)
{
  struct rc_lane *lane = endpoint->lanes;

  endpoint->credit_depth = endpoint->device->shares ? RC_SHARED_CREDITS : RC_CONTROL_RECEIVES;
  endpoint->credit_bytes = endpoint->device->shares ? RC_SHARED_CREDIT_BYTES : RC_CONTROL_BYTES;
  endpoint->sq_size = endpoint->requests_max + RC_SPARE_SENDS;
  lane->rq_size = RC_SPARE_RECEIVES;
  if (endpoint->rx) {
    endpoint->sq_size += endpoint->credit_depth;
    lane->rq_size = endpoint->rx->share + (endpoint->rx->sends ? 1 : RC_SPARE_RECEIVES);
  }
  if (endpoint->rx && endpoint->rx->ring->shared) /* which has them all */
    lane->rq_size = 0;
  if (endpoint->tx)
    lane->rq_size += endpoint->credit_depth;
  if (endpoint->tx && !endpoint->device->shares)
    endpoint->receive_buffers = lane->rq_size;
  endpoint->completions = rc_lanes_size(endpoint);
}

int rc_queue_open(struct pst_endpoint *endpoint, uint32_t pieces)
{
  endpoint->pieces_max = pieces ? pieces : 1;
  rc_queue_sizes(endpoint);
  int rc = reserve_completions(endpoint);
  if (rc == 0 && endpoint->device->shares)
    rc = rc_shared_join(endpoint);
  if (rc == 0)
    rc = rc_lanes_open(endpoint, endpoint->pieces_max);
  if (rc < 0)
    return rc;
  if (endpoint->shared)
    rc_shared_name(endpoint);
  rc = open_sends(endpoint, endpoint->pieces_max);
  if (rc == 0)
    rc = open_control(endpoint);
  line_up(endpoint);
  if (rc == 0)
    rc = rc_lanes_init(endpoint);
  return rc == 0 ? open_credits(endpoint) : rc;
}

void rc_queue_close(struct pst_endpoint *endpoint)
{
  rc_lanes_close(endpoint);
  if (endpoint->shared)
    rc_shared_leave(endpoint);
  if (endpoint->credit_mr && endpoint->credit_mr != endpoint->control_mr)
    vb_unpin(&endpoint->local->mrs, endpoint->credit_mr);
  if (endpoint->control_mr)
    vb_unpin(&endpoint->domain->mrs, endpoint->control_mr);
  endpoint->worker->cq_used -= endpoint->completions;
  free(endpoint->control);
  free(endpoint->sent);
  free(endpoint->wrs);
  free(endpoint->sges);
}

/* The first `n` of its receives. 0 or an errno. */
static int post_linked(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t n)
{
  struct ibv_recv_wr *last = &endpoint->receives.wrs[n - 1], *next = last->next, *bad;

  last->next = NULL;
  int rc = ibv_post_recv(lane->responder, endpoint->receives.wrs, &bad);
  last->next = next;
  if (rc == 0)
    lane->rq_posted += n;
  return rc;
}

static int restore_receives(struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  int rc = 0;

  while (rc == 0 && lane->rq_posted < lane->rq_size) {
    const uint32_t missing = lane->rq_size - lane->rq_posted;
    rc = post_linked(endpoint, lane, missing < RC_POLL_BATCH ? missing : RC_POLL_BATCH);
  }
  return -rc;
}

int rc_receives_restore(struct pst_endpoint *endpoint)
{
  int rc = 0;

  for (uint32_t i = endpoint->receive_buffers > 0; rc == 0 && i < endpoint->lane_count; i++)
    rc = restore_receives(endpoint, &endpoint->lanes[i]);
  return rc;
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
      endpoint->receives.sges[i].addr = rx->ring->base + slot * rx->ring->params.stride;
    }
    rc = post_linked(endpoint, endpoint->lanes, some);
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

/* By the first queue pair; `sge` is NULL for none. 0 or -errno. */
static inline __attribute__((always_inline)) int post_one(struct pst_endpoint *endpoint,
                                                          uint32_t which, struct ibv_sge *sge)
{
  struct ibv_recv_wr wr = {.wr_id = RC_RECEIVE | rc_wr_id(endpoint, which),
                           .sg_list = sge,
                           .num_sge = sge != NULL},
                     *bad;
  int rc = ibv_post_recv(endpoint->lanes[0].responder, &wr, &bad);

  if (rc == 0)
    endpoint->lanes[0].rq_posted++;
  return -rc;
}

int rc_receive_again(struct pst_endpoint *endpoint, uint32_t buffer)
{
  struct ibv_sge sge = {.addr = (uintptr_t)rc_receive_buffer(endpoint, buffer),
                        .length = endpoint->credit_bytes,
                        .lkey = endpoint->control_mr->lkey};

  return post_one(endpoint, buffer, &sge);
}

int rc_receive_confirmation(struct pst_endpoint *endpoint)
{
  const struct rc_rx *rx = endpoint->rx;

  if (!rx || !rx->sends || endpoint->shared || rc_granted_count(rx) > 0)
    return 0;
  return post_one(endpoint, RC_SPARE, NULL);
}

int rc_lane_init(struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  int rc = rc_lane_to_init(endpoint, lane);

  if (rc < 0 || endpoint->shared)
    return rc;
  if (lane != endpoint->lanes)
    return restore_receives(endpoint, lane);
  if (endpoint->rx && endpoint->rx->sends) {
    /* The host may have all slots: a hello that comes first must not wait for one. */
    if (endpoint->reconnect.number && (rc = post_one(endpoint, RC_SPARE, NULL)) < 0)
      return rc;
    return rc_slots_post(endpoint, rc_granted_count(endpoint->rx));
  }
  if (!endpoint->receive_buffers)
    return restore_receives(endpoint, lane);
  for (uint32_t i = 0; i < lane->rq_size && rc == 0; i++)
    rc = rc_receive_again(endpoint, i);
  return rc;
}

int rc_queue_went(struct pst_endpoint *endpoint, uint64_t from, const struct ibv_send_wr *bad,
                  int rc)
{
  const struct ibv_send_wr *first = &endpoint->wrs[from & endpoint->sq_mask];
  const uint32_t went = bad ? (uint32_t)((bad - first) & (ptrdiff_t)endpoint->sq_mask) : 0;

  endpoint->sq_head = from + went;
  return went ? (int)went : -rc;
}

int rc_queue_push_own(struct pst_endpoint *endpoint)
{
  const uint64_t index = endpoint->sq_head;

  endpoint->sent[index & endpoint->sq_mask] = (struct rc_sent){0};
  rc_queue_alike(endpoint, index, 0);
  int rc = rc_queue_ring(endpoint, index, index + 1);
  return rc < 0 ? rc : 0;
}

int rc_queue_own(struct pst_endpoint *endpoint, uint32_t control, const struct ibv_sge *bytes)
{
  uint64_t index = endpoint->sq_head;
  uint32_t at = (uint32_t)index & endpoint->sq_mask;
  struct ibv_send_wr *wr = &endpoint->wrs[at];

  if (rc_queue_room(endpoint) == 0)
    return -EAGAIN;
  wr->wr_id = rc_wr_id(endpoint, (uint32_t)index);
  wr->opcode = control ? rc_control_opcode(endpoint) : IBV_WR_RDMA_WRITE;
  wr->imm_data = htobe32(control);
  wr->send_flags = IBV_SEND_SIGNALED;
  wr->num_sge = 0;
  wr->wr.rdma.remote_addr = 0;
  wr->wr.rdma.rkey = 0;
  if (bytes) {
    wr->sg_list[0] = *bytes;
    wr->num_sge = 1;
    if (bytes->length <= endpoint->max_inline)
      wr->send_flags |= IBV_SEND_INLINE;
  }
  return rc_queue_push_own(endpoint);
}
