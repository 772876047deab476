/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several queue pairs (`qps`) are had again together (`reconnect`): one that fails takes the others
 * with it, each gives back what was posted, and all begin anew. A hello then says how many messages
 * its sender has had by that queue pair, told or waiting for their turn; the first one's, how many
 * credit messages, too. What has not arrived goes by the queue pair that it went by before.
 *
 * Their hellos do not arrive at one time, and an end that has waited too long for some of them
 * begins anew with all. What either has said and sent by then must be good for the other's next
 * beginning, so nothing but hellos passes before both have heard all: one end says hello, the
 * other answers when it has heard every one, and sends nothing else until it knows that its
 * answers were heard, which one more hello by the first queue pair tells, or whatever else comes.
 */
#include "rc.h"

bool rc_lanes_are_back(const struct pst_endpoint *endpoint)
{
  return !endpoint->lanes || (endpoint->lanes[0].own == 0 && rc_lanes_are_empty(endpoint));
}

void rc_lanes_begin_anew(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 0; endpoint->lanes && i < endpoint->lane_count; i++) {
    endpoint->lanes[i].sets_up = true;
    endpoint->lanes[i].has_said = false;
  }
}

/* ---- Given back ------------------------------------------------------------------------------ */

void rc_lanes_given_back(struct pst_endpoint *endpoint)
{
  struct rc_mend *mend = &endpoint->mend;

  for (; mend->flushed != endpoint->sq_head; mend->flushed++) {
    const uint64_t index = mend->flushed;
    const struct rc_lane *lane = &endpoint->lanes[endpoint->sent[index & endpoint->sq_mask].lane];
    if (index >= lane->done && index >= lane->flushed)
      return;
  }
}

void rc_lanes_mend_end(struct pst_endpoint *endpoint)
{
  for (uint32_t i = 0; endpoint->lanes && i < endpoint->lane_count; i++) {
    struct rc_lane *lane = &endpoint->lanes[i];
    if (lane->flushed > lane->done)
      lane->done = lane->flushed;
  }
}

/* ---- Hellos ---------------------------------------------------------------------------------- */

static int say_hello_by(struct pst_endpoint *endpoint, uint32_t i)
{
  const uint64_t messages = endpoint->lanes[i].arrived_head;
  const uint64_t credits = i == 0 && endpoint->tx ? endpoint->tx->credit_messages : 0;

  return rc_lane_say(endpoint, &endpoint->lanes[i], rc_mend_hello(messages, credits));
}

int rc_lanes_say_hello(struct pst_endpoint *endpoint)
{
  int rc = 0;

  for (uint32_t i = 0; rc == 0 && i < endpoint->lane_count; i++)
    rc = say_hello_by(endpoint, i);
  return rc;
}

static void stand(struct pst_endpoint *endpoint)
{
  const uint64_t before = endpoint->mend.repeated;

  for (uint32_t i = 0; i < endpoint->lane_count; i++) {
    const char *why = rc_mend_drop_what_arrived(endpoint, i, endpoint->lanes[i].said);
    if (!why)
      continue;
    rc_fail(endpoint, -EPROTO, why);
    return;
  }
  for (uint32_t i = 0; i < endpoint->lane_count; i++)
    endpoint->lanes[i].done = endpoint->lanes[i].flushed = endpoint->sq_done;
  if (rc_says_hello(endpoint) && say_hello_by(endpoint, 0) < 0)
    rc_mend_again(endpoint, RC_MEND_AGAIN_NS);
  else
    rc_mend_stands(endpoint, before);
}

void rc_lanes_mend_look(struct pst_endpoint *endpoint)
{
  struct rc_mend *mend = &endpoint->mend;

  for (uint32_t i = 0; i < endpoint->lane_count; i++)
    if (!endpoint->lanes[i].has_said)
      return;
  if (endpoint->state == RC_GREETING && !mend->is_answered && !rc_says_hello(endpoint)) {
    mend->is_answered = true;
    rc_mend_say_hello(endpoint);
  }
  if (endpoint->state == RC_GREETING && (mend->is_confirmed || rc_says_hello(endpoint)))
    stand(endpoint);
}

void rc_lane_mend_heard(struct pst_endpoint *endpoint, struct rc_lane *lane, uint32_t said)
{
  if (lane->has_said)
    endpoint->mend.is_confirmed = true;
  else
    lane->said = said;
  lane->has_said = true;
  rc_lanes_mend_look(endpoint);
}

void rc_lanes_mend_met(struct pst_endpoint *endpoint)
{
  if (endpoint->state != RC_SETTING_UP && endpoint->state != RC_GREETING)
    return;
  endpoint->mend.is_confirmed = true;
  rc_lanes_mend_look(endpoint);
}
