/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue pairs of an endpoint, of which there may be several (`qps`). Messages take turns on
 * them: the n-th goes by queue pair n modulo their number, into the n-th slot that was granted. So
 * a receiver knows by which queue pair the next one comes, and tells messages in their order,
 * whichever arrives first; slots and credit are as with one queue pair. All else goes by the first
 * one, but that each has a hello and a farewell, which are not in the send queue.
 *
 * The send queue is one, too. A queue pair completes its own requests in order; the send queue is
 * done as far as all of them are.
 */
#include <endian.h>

#include "rc.h"

#define RECEIVES_MIN 4u /* hello, farewell, and as many to be late */

/* Of another than the first. */
static uint32_t sends_of(const struct pst_endpoint *endpoint)
{
  return endpoint->requests_max / endpoint->lane_count + 1 + RC_LANE_OWN;
}

static uint32_t receives_of(const struct pst_endpoint *endpoint)
{
  return (endpoint->rx ? endpoint->rx->share / endpoint->lane_count + 1 : 0) + RECEIVES_MIN;
}

uint32_t rc_lanes_size(struct pst_endpoint *endpoint)
{
  uint32_t completions = endpoint->sq_size + endpoint->lanes[0].rq_size;

  for (uint32_t i = 1; i < endpoint->lane_count; i++) {
    endpoint->lanes[i].rq_size = receives_of(endpoint);
    completions += sends_of(endpoint) + endpoint->lanes[i].rq_size;
  }
  return completions;
}

/* The first one's messages are as many as another's at most, and its queue is longer. */
static int open_arrived(const struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  uint32_t size = 1;

  while (size < receives_of(endpoint))
    size <<= 1;
  lane->arrived_mask = size - 1;
  lane->arrived = calloc(size, sizeof(*lane->arrived));
  return lane->arrived ? 0 : -ENOMEM;
}

static int open_lane(struct pst_endpoint *endpoint, uint32_t i, uint32_t pieces)
{
  struct rc_lane *lane = &endpoint->lanes[i];
  const struct ibv_qp_cap want = {.max_send_wr = i ? sends_of(endpoint) : endpoint->sq_size,
                                  .max_recv_wr = lane->rq_size,
                                  .max_send_sge = pieces,
                                  .max_recv_sge = 1,
                                  .max_inline_data = i ? endpoint->max_inline : RC_INLINE_WISH};
  struct ibv_qp_cap given;

  lane->failed_from = RC_NEVER;
  lane->sets_up = true;
  lane->psn = rc_random_psn();
  lane->responder_psn = rc_random_psn();
  int rc = endpoint->lane_count > 1 ? open_arrived(endpoint, lane) : 0;
  if (rc == 0)
    rc = rc_qp_create(endpoint, i, &want, &given);
  if (rc < 0)
    return rc;
  if (i == 0)
    endpoint->given = given;
  if (i == 0 || given.max_inline_data < endpoint->max_inline)
    endpoint->max_inline = given.max_inline_data;
  return 0;
}

int rc_lanes_open(struct pst_endpoint *endpoint, uint32_t pieces)
{
  int rc = 0;

  for (uint32_t i = 0; rc == 0 && i < endpoint->lane_count; i++)
    rc = open_lane(endpoint, i, pieces);
  return rc;
}

int rc_lanes_init(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 0; i < endpoint->lane_count; i++) {
    int rc = rc_lane_init(endpoint, &endpoint->lanes[i]);
    if (rc < 0 && i > 0)
      RC_LOG(endpoint->device, PST_LOG_ERROR,
             "%s: queue pair %u of `qps: %u` cannot be set to INIT with %u receives: %s; fewer "
             "`qps`, or see `rdma resource`",
             endpoint->label, i + 1, endpoint->lane_count, endpoint->lanes[i].rq_size,
             strerror(-rc));
    if (rc < 0)
      return rc;
  }
  return 0;
}

void rc_lanes_close(struct pst_endpoint *endpoint)
{
  for (struct rc_lane *lane = endpoint->lanes; lane < rc_lanes_end(endpoint); lane++) {
    if (lane->responder && lane->responder != lane->qp)
      ibv_destroy_qp(lane->responder);
    if (lane->qp)
      ibv_destroy_qp(lane->qp);
    free(lane->arrived);
  }
}

void rc_lane_done(struct pst_endpoint *endpoint, struct rc_lane *lane, uint64_t end)
{
  lane->done = end;
  if (endpoint->lane_count == 1) { /* the send queue is its own */
    endpoint->sq_done = end;
    if (lane->failed_from < end && endpoint->failed_from == RC_NEVER)
      endpoint->failed_from = lane->failed_from;
    return;
  }
  for (; endpoint->sq_done != endpoint->sq_head; endpoint->sq_done++) {
    const uint64_t index = endpoint->sq_done;
    lane = &endpoint->lanes[endpoint->sent[index & endpoint->sq_mask].lane];
    if (index >= lane->done)
      return;
    if (index >= lane->failed_from && endpoint->failed_from == RC_NEVER)
      endpoint->failed_from = index;
  }
}

static inline __attribute__((always_inline)) int ring(struct pst_endpoint *endpoint, uint64_t from,
                                                      uint64_t to, const bool is_again)
{
  struct ibv_send_wr *first[RC_LANES_MAX] = {NULL}, *last[RC_LANES_MAX] = {NULL}, *bad;
  bool went = false;
  int rc = 0;

  for (uint64_t i = from; i != to; i++) {
    const uint32_t at = (uint32_t)i & endpoint->sq_mask;
    struct rc_sent *sent = &endpoint->sent[at];
    struct ibv_send_wr *wr = &endpoint->wrs[at];
    if (!is_again)
      sent->lane = sent->opcode == PST_OP_SEND ? endpoint->striped++ % endpoint->lane_count : 0;
    wr->next = NULL;
    *(last[sent->lane] ? &last[sent->lane]->next : &first[sent->lane]) = wr;
    last[sent->lane] = wr;
  }
  endpoint->sq_head = to;
  for (uint32_t i = 0; rc == 0 && i < endpoint->lane_count; i++) {
    if (!first[i])
      continue;
    last[i]->send_flags |= IBV_SEND_SIGNALED;
    rc = ibv_post_send(endpoint->lanes[i].qp, first[i], &bad);
    went |= rc == 0 || bad != first[i];
  }
  if (rc && !went) {
    endpoint->sq_head = from;
    return -rc;
  }
  /* Those that did not go end with the connection. */
  if (rc)
    rc_fail(endpoint, -rc, "ibv_post_send");
  return (int)(to - from);
}

int rc_lanes_ring(struct pst_endpoint *endpoint, uint64_t from, uint64_t to)
{
  return ring(endpoint, from, to, false);
}

int rc_lanes_ring_again(struct pst_endpoint *endpoint, uint64_t from, uint64_t to)
{
  return ring(endpoint, from, to, true);
}

/* That which the next message comes by, if it is there. */
static struct rc_lane *next_of(struct pst_endpoint *endpoint)
{
  struct rc_lane *lane = &endpoint->lanes[endpoint->rx->arrived % endpoint->lane_count];

  return lane->arrived_head != lane->arrived_tail ? lane : NULL;
}

bool rc_lanes_deliver(struct pst_endpoint *endpoint, struct rc_out *out)
{
  struct rc_lane *lane;

  if (endpoint->lane_count == 1 || !endpoint->rx || endpoint->closing.mode)
    return true;
  while (out->room && (lane = next_of(endpoint)) != NULL) {
    const struct rc_arrival *one = &lane->arrived[lane->arrived_tail++ & lane->arrived_mask];
    const struct ibv_wc wc = {.status = IBV_WC_SUCCESS,
                              .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                              .byte_len = one->length,
                              .imm_data = one->number};
    const uint64_t before = endpoint->rx->arrived;
    rc_arrived(endpoint, &wc, out);
    if (endpoint->rx->arrived == before)
      return true; /* it has failed */
  }
  if (!next_of(endpoint))
    return true;
  rc_pend(endpoint);
  return false;
}

void rc_lane_arrived(struct pst_endpoint *endpoint, struct rc_lane *lane, const struct ibv_wc *wc,
                     struct rc_out *out)
{
  if (!endpoint->rx || lane->arrived_head - lane->arrived_tail > lane->arrived_mask) {
    rc_fail(endpoint, -EPROTO, "the peer sent a message for which it had no slot");
    return;
  }
  lane->arrived[lane->arrived_head++ & lane->arrived_mask] =
      (struct rc_arrival){.length = wc->byte_len, .number = wc->imm_data};
  rc_lanes_deliver(endpoint, out);
}
