/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several queue pairs of one endpoint (`qps`). Messages take turns on them: the n-th goes by queue
 * pair n modulo their number, into the n-th slot that was granted. So a receiver knows by which
 * queue pair the next one comes, and tells messages in their order, whichever arrives first; slots
 * and credit are as with one queue pair. All else goes by the first one, but that each has a hello
 * and a farewell: those of the others are not in the send queue.
 *
 * The send queue is one, too. A queue pair completes its own requests in order; the send queue is
 * done as far as all of them are.
 */

#include "rc.h"

#define RECEIVES_MIN 4u /* hello, farewell, and as many to be late */

/* ---- Opened and closed ------------------------------------------------------------------------
 */

/* Of another than the first. */
static uint32_t sends_of(const struct pst_endpoint *endpoint)
{
  return endpoint->requests_max / endpoint->lane_count + 1 + RC_LANE_OWN;
}

static uint32_t receives_of(const struct pst_endpoint *endpoint)
{
  return (endpoint->rx ? endpoint->rx->share / endpoint->lane_count + 1 : 0) + RECEIVES_MIN;
}

uint32_t rc_lanes_room(const struct pst_endpoint *endpoint)
{
  return (endpoint->lane_count - 1) * (sends_of(endpoint) + receives_of(endpoint));
}

static int open_lane(struct pst_endpoint *endpoint, struct rc_lane *lane, bool is_first)
{
  /* The first one's messages are as many as another's at most, and its queue is longer. */
  uint32_t size = 1;

  while (size < receives_of(endpoint))
    size <<= 1;
  lane->failed_from = RC_NEVER;
  lane->sets_up = true;
  lane->arrived_mask = size - 1;
  lane->arrived = calloc(size, sizeof(*lane->arrived));
  if (!lane->arrived)
    return -ENOMEM;
  if (is_first) {
    lane->qp = endpoint->qp;
    lane->responder = endpoint->responder;
    lane->psn = endpoint->psn;
    lane->responder_psn = endpoint->responder_psn;
    return 0;
  }
  const struct ibv_qp_cap want = {.max_send_wr = sends_of(endpoint),
                                  .max_recv_wr = receives_of(endpoint),
                                  .max_send_sge = endpoint->pieces_max,
                                  .max_recv_sge = 1,
                                  .max_inline_data = endpoint->max_inline};
  struct ibv_qp_cap given;
  int rc = rc_qp_create(endpoint, &want, (uint32_t)(lane - endpoint->lanes), &given, &lane->qp,
                        &lane->responder);
  if (rc < 0)
    return rc;
  if (given.max_inline_data < endpoint->max_inline)
    endpoint->max_inline = given.max_inline_data;
  lane->rq_size = receives_of(endpoint);
  lane->psn = rc_random_psn();
  lane->responder_psn = rc_random_psn();
  rc = rc_lane_init(endpoint, lane);
  if (rc < 0)
    RC_LOG(endpoint->device, PST_LOG_ERROR,
           "%s: queue pair %u of `qps: %u` cannot be set to INIT with %u receives: %s; fewer "
           "`qps`, or see `rdma resource`",
           endpoint->label, (uint32_t)(lane - endpoint->lanes) + 1, endpoint->lane_count,
           lane->rq_size, strerror(-rc));
  return rc;
}

int rc_lanes_open(struct pst_endpoint *endpoint)
{
  if (endpoint->lane_count == 1)
    return 0;
  endpoint->lanes = calloc(endpoint->lane_count, sizeof(*endpoint->lanes));
  if (!endpoint->lanes)
    return -ENOMEM;
  for (uint32_t i = 0; i < endpoint->lane_count; i++) {
    int rc = open_lane(endpoint, &endpoint->lanes[i], i == 0);
    if (rc < 0)
      return rc;
  }
  return 0;
}

void rc_lanes_close(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 0; endpoint->lanes && i < endpoint->lane_count; i++) {
    if (i)
      rc_qp_destroy(endpoint->lanes[i].qp, endpoint->lanes[i].responder);
    free(endpoint->lanes[i].arrived);
  }
  free(endpoint->lanes);
}

static int post_receives(struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  struct ibv_recv_wr wr = {.wr_id = RC_RECEIVE | rc_wr_id(endpoint, 0)}, *bad;
  int rc = 0;

  for (; rc == 0 && lane->rq_posted < lane->rq_size; lane->rq_posted += rc == 0)
    rc = ibv_post_recv(lane->responder, &wr, &bad);
  return -rc;
}

int rc_lane_init(struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  int rc = rc_queue_to_init(endpoint, lane->qp, lane->responder);

  return rc == 0 ? post_receives(endpoint, lane) : rc;
}

int rc_lanes_restore(struct pst_endpoint *endpoint)
{
  int rc = 0;

  for (uint32_t i = 1; rc == 0 && endpoint->lanes && i < endpoint->lane_count; i++)
    rc = post_receives(endpoint, &endpoint->lanes[i]);
  return rc;
}

uint64_t rc_lane_messages(const struct pst_endpoint *endpoint, uint32_t lane)
{
  if (!endpoint->lanes)
    return endpoint->tx ? endpoint->tx->messages : 0;
  return (endpoint->striped + endpoint->lane_count - 1 - lane) / endpoint->lane_count;
}

bool rc_lane_left(struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  lane->has_left = true;
  for (uint32_t i = 0; i < endpoint->lane_count; i++)
    if (!endpoint->lanes[i].has_left)
      return false;
  return true;
}

bool rc_lanes_are_leaving(const struct pst_endpoint *endpoint)
{
  for (uint32_t i = 0; endpoint->lanes && i < endpoint->lane_count; i++)
    if (endpoint->lanes[i].has_left)
      return true;
  return false;
}

/* ---- States -----------------------------------------------------------------------------------
 */

/* What the device has given back, but for the first one's. */
static bool is_lane_empty(const struct rc_lane *lane)
{
  return lane->own == 0 && lane->rq_posted == 0;
}

bool rc_lanes_are_empty(const struct pst_endpoint *endpoint)
{
  for (uint32_t i = 1; endpoint->lanes && i < endpoint->lane_count; i++)
    if (!is_lane_empty(&endpoint->lanes[i]))
      return false;
  return true;
}

bool rc_lanes_are_said(const struct pst_endpoint *endpoint)
{
  for (uint32_t i = 1; endpoint->lanes && i < endpoint->lane_count; i++)
    if (endpoint->lanes[i].own)
      return false;
  return true;
}

void rc_lanes_cut(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 1; endpoint->lanes && i < endpoint->lane_count; i++)
    endpoint->lanes[i].own = endpoint->lanes[i].rq_posted = 0;
}

/* ---- Hellos -----------------------------------------------------------------------------------
 */

bool rc_lanes_greet_again(struct pst_endpoint *endpoint)
{
  bool again = false;

  for (uint32_t i = 1; endpoint->lanes && i < endpoint->lane_count; i++) {
    struct rc_lane *lane = &endpoint->lanes[i];
    if (!lane->greets_again || !is_lane_empty(lane))
      continue;
    lane->sets_up = again = true;
  }
  return again;
}

void rc_lanes_are_up(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 0; endpoint->lanes && i < endpoint->lane_count; i++)
    if (endpoint->lanes[i].sets_up)
      endpoint->lanes[i].is_erred = endpoint->lanes[i].greets_again = false;
}

void rc_lanes_given_back(struct pst_endpoint *endpoint)
{
  struct rc_reconnect *reconnect = &endpoint->reconnect;

  for (; reconnect->flushed != endpoint->sq_head; reconnect->flushed++) {
    const uint64_t index = reconnect->flushed;
    const struct rc_lane *lane = &endpoint->lanes[endpoint->sent[index & endpoint->sq_mask].lane];
    if (index >= lane->done && index >= lane->flushed)
      return;
  }
}

void rc_lanes_reconnect_end(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 0; endpoint->lanes && i < endpoint->lane_count; i++) {
    struct rc_lane *lane = &endpoint->lanes[i];
    if (lane->flushed > lane->done)
      lane->done = lane->flushed;
  }
}
