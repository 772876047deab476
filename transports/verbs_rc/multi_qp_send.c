/* SPDX-License-Identifier: Apache-2.0 */
/* Several queue pairs: what goes out by each of them. */
#include <endian.h>

#include "rc.h"

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

void rc_lane_heard(struct pst_endpoint *endpoint, struct rc_lane *lane)
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

bool rc_lane_sent(struct pst_endpoint *endpoint, const struct ibv_wc *wc)
{
  struct rc_lane *lane = rc_lane_of(endpoint, wc);
  const uint64_t index =
      endpoint->sq_done + (uint32_t)((uint32_t)wc->wr_id - (uint32_t)endpoint->sq_done);
  const bool is_aside = index >= endpoint->sq_head, is_fine = wc->status == IBV_WC_SUCCESS;
  const bool is_met = endpoint->state >= RC_CONNECTED;
  const bool is_reconnecting =
      endpoint->reconnect.by_ns || (!is_fine && rc_reconnect_for(endpoint, wc));

  rc_pend(endpoint);
  if (is_aside)
    lane->own--;
  else
    *(is_reconnecting && !is_fine ? &lane->flushed : &lane->done) = index + 1;
  if (is_fine) {
    rc_lane_heard(endpoint, lane);
    advance(endpoint);
  }
  if (is_reconnecting) {
    rc_lanes_given_back(endpoint);
    if (is_aside && !is_fine && endpoint->state == RC_GREETING)
      rc_reconnect_again(endpoint, 0);
  }
  if (is_reconnecting || is_fine)
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
