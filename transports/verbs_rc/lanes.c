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
#include <endian.h>

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

/* ---- Sent -------------------------------------------------------------------------------------
 */

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

uint64_t rc_lane_messages(const struct pst_endpoint *endpoint, uint32_t lane)
{
  if (!endpoint->lanes)
    return endpoint->tx ? endpoint->tx->messages : 0;
  return (endpoint->striped + endpoint->lane_count - 1 - lane) / endpoint->lane_count;
}

int rc_lane_say(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t said)
{
  struct ibv_send_wr wr = {.wr_id = rc_wr_id(endpoint, (uint32_t)endpoint->sq_head + RC_ASIDE),
                           .opcode = IBV_WR_SEND_WITH_IMM,
                           .send_flags = IBV_SEND_SIGNALED,
                           .imm_data = htobe32(said)};
  struct ibv_send_wr *bad;
  int rc = ibv_post_send(lane->qp, &wr, &bad);

  lane->own += rc == 0;
  return -rc;
}

int rc_lanes_say(struct pst_endpoint *endpoint, enum rc_control control)
{
  int rc = 0;

  for (uint32_t i = 1; rc == 0 && endpoint->lanes && i < endpoint->lane_count; i++)
    rc = rc_lane_say(endpoint, &endpoint->lanes[i], control);
  return rc;
}

/* The send queue is done as far as each queue pair is with what is its own. */
static void advance(struct pst_endpoint *endpoint)
{
  for (; endpoint->sq_done != endpoint->sq_head; endpoint->sq_done++) {
    const uint64_t index = endpoint->sq_done;
    const struct rc_lane *lane = &endpoint->lanes[endpoint->sent[index & endpoint->sq_mask].lane];
    if (index >= lane->done)
      return;
    if (index >= lane->failed_from && endpoint->failed_from == RC_NEVER)
      endpoint->failed_from = index;
  }
}

static struct rc_lane *lane_of(const struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  struct rc_lane *lane = endpoint->lanes;

  /* Of a completion in error the number is there, too. */
  while (lane->qp->qp_num != wc->qp_num && lane->responder->qp_num != wc->qp_num &&
         lane < &endpoint->lanes[endpoint->lane_count - 1])
    lane++;
  return lane;
}

static void heard(struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  lane->is_heard = true;
  for (uint32_t i = 0; i < endpoint->lane_count; i++)
    if (!endpoint->lanes[i].is_heard)
      return;
  rc_connected(endpoint);
}

static void greet_again(struct pst_endpoint *endpoint, struct rc_lane *lane,
                        const struct ibv_wc *wc)
{
  lane->greets_again = true;
  endpoint->hellos_lost++;
  endpoint->hello_vendor = wc->vendor_err;
  if (lane == endpoint->lanes)
    endpoint->greets_again = true;
  rc_lane_error(endpoint, lane);
}

/* True: it is to be told as a failure of the connection. */
bool rc_lane_sent(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  struct rc_lane *lane = lane_of(endpoint, wc);
  const uint64_t index =
      endpoint->sq_done + (uint32_t)((uint32_t)wc->wr_id - (uint32_t)endpoint->sq_done);
  const bool is_aside = index >= endpoint->sq_head, is_fine = wc->status == IBV_WC_SUCCESS;
  const bool is_met = endpoint->state >= RC_CONNECTED;
  const bool is_mended = endpoint->mend.by_ns || (!is_fine && rc_mend_for(endpoint, wc));

  rc_pend(endpoint);
  if (is_aside)
    lane->own--;
  else
    *(is_mended && !is_fine ? &lane->flushed : &lane->done) = index + 1;
  if (is_fine) {
    heard(endpoint, lane);
    advance(endpoint);
  }
  if (is_mended) {
    rc_lanes_given_back(endpoint);
    if (is_aside && !is_fine && endpoint->state == RC_GREETING)
      rc_mend_again(endpoint, 0);
  }
  if (is_mended || is_fine)
    return false;
  if (!is_aside && is_met && lane->failed_from == RC_NEVER)
    lane->failed_from = index;
  advance(endpoint);
  /* By rdma_cm the peer was there, on all of them, when it was said. */
  if (!is_met && wc->status == IBV_WC_RETRY_EXC_ERR && !endpoint->cm) {
    greet_again(endpoint, lane, wc);
    return false;
  }
  return wc->status != IBV_WC_WR_FLUSH_ERR && !lane->greets_again;
}

/* ---- Received ---------------------------------------------------------------------------------
 */

void rc_lanes_hear(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  const bool is_hello =
      wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM && (be32toh(wc->imm_data) & 15) == RC_HELLO;

  if (endpoint->mend.by_ns) {
    if (!is_hello)
      rc_lanes_mend_met(endpoint);
    return;
  }
  /* Who says anything else has met this end on all of them. */
  for (uint32_t i = 0; !is_hello && i < endpoint->lane_count; i++)
    endpoint->lanes[i].is_heard = true;
  heard(endpoint, lane_of(endpoint, wc));
}

struct rc_lane *rc_lane_received(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  struct rc_lane *lane = lane_of(endpoint, wc);

  if (lane == endpoint->lanes)
    endpoint->rq_posted--;
  else
    lane->rq_posted--;
  return lane;
}

bool rc_lane_arrived(struct pst_endpoint *endpoint, struct rc_lane *lane, const struct ibv_wc *wc)
{
  if (!endpoint->rx || lane->arrived_head - lane->arrived_tail > lane->arrived_mask)
    return false;
  lane->arrived[lane->arrived_head++ & lane->arrived_mask] =
      (struct rc_arrival){.length = wc->byte_len, .number = wc->imm_data};
  return true;
}

/* That which the next message comes by, if it is there. */
static struct rc_lane *next_of(const struct pst_endpoint *endpoint)
{
  struct rc_lane *lane = &endpoint->lanes[endpoint->rx->arrived % endpoint->lane_count];

  return lane->arrived_head != lane->arrived_tail ? lane : NULL;
}

bool rc_lanes_deliver(struct pst_endpoint *endpoint, struct rc_out *out)
{
  struct rc_lane *lane;

  if (!endpoint->lanes || !endpoint->rx || endpoint->close_mode)
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

void rc_lane_error(struct pst_endpoint *endpoint, struct rc_lane *lane)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  bool *is_erred = lane == endpoint->lanes ? &endpoint->is_erred : &lane->is_erred;

  if (*is_erred)
    return;
  *is_erred = true;
  ibv_modify_qp(lane->qp, &attr, IBV_QP_STATE);
  if (lane->responder != lane->qp)
    ibv_modify_qp(lane->responder, &attr, IBV_QP_STATE);
}

void rc_lanes_error(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 1; endpoint->lanes && i < endpoint->lane_count; i++)
    rc_lane_error(endpoint, &endpoint->lanes[i]);
}

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

int rc_lanes_greet(struct pst_endpoint *endpoint)
{
  int rc = 0;

  for (uint32_t i = 0; endpoint->lanes && i < endpoint->lane_count; i++) {
    struct rc_lane *lane = &endpoint->lanes[i];
    if (i && lane->sets_up && rc == 0 && rc_says_hello(endpoint))
      rc = rc_lane_say(endpoint, lane, RC_HELLO);
    lane->sets_up = false;
  }
  return rc;
}
