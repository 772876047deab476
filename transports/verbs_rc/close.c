/* SPDX-License-Identifier: Apache-2.0 */
/* How an endpoint ends: closed by the host, or given up. */

#include "connection.h"
#include "ops.h"
#include "qp.h"

void rc_left_look(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  const uint64_t by_ns = endpoint->rc->over_ns + endpoint->timeout_ns;

  if (endpoint->rc->stage.name != RC_LEFT || endpoint->rc->lanes[0].is_erred ||
      endpoint->timeout_ns == 0 || endpoint->sq.done == endpoint->sq.head)
    return;
  if (now_ns < by_ns) {
    vb_due(endpoint->worker, by_ns);
    return;
  }
  if (!endpoint->sq.error)
    endpoint->sq.error = -ECONNRESET;
  rc_queue_error(endpoint);
}

int rc_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  const int rc = pst_closing_begin(&endpoint->closing, mode, deadline_ns);

  if (rc < 0)
    return rc;
  if (rc_is_reconnecting(endpoint))
    rc_over(endpoint, RC_FAILED, -ECANCELED);
  if (rc_is_over(endpoint))
    endpoint->rc->stage.over.is_due = false;
  vb_forget_room(endpoint);
  /* Behind all that is posted. */
  const enum vb_control last = mode == PST_CLOSE_DRAIN ? VB_FAREWELL : VB_ABORTED;
  int said = endpoint->rc->stage.name == RC_CONNECTED ? 0 : -ENOTCONN;
  for (uint32_t i = 0; said == 0 && i < endpoint->lane_count; i++)
    said = rc_lane_say(endpoint, &endpoint->rc->lanes[i], last);
  vb_due(endpoint->worker, deadline_ns);
  vb_pend(endpoint);
  return 0;
}

static bool rc_close_is_empty(const struct pst_endpoint *endpoint)
{
  return endpoint->sq.done == endpoint->sq.head && rc_lanes_are_empty(endpoint);
}

/* The time that the device had is over, and since then all that there was has been taken: this
 * thread may have stood still meanwhile. */
static bool rc_close_is_too_late(struct pst_endpoint *endpoint)
{
  const uint64_t empties = endpoint->worker->empties;

  if (endpoint->rc->late_at == 0)
    endpoint->rc->late_at = empties + 1;
  if (empties >= endpoint->rc->late_at)
    return true;
  vb_pend(endpoint);
  return false;
}

/* The deadline is over, and the device has not given back what was posted: it will be told all the
 * same, and its completions, should they come, are no longer ours. */
static void rc_close_cut(struct pst_endpoint *endpoint)
{
  if (endpoint->sq.failed_from == VB_NEVER)
    endpoint->sq.failed_from = endpoint->sq.done;
  if (!endpoint->sq.error)
    endpoint->sq.error = -ECANCELED;
  endpoint->sq.done = endpoint->sq.head;
  rc_lanes_cut(endpoint);
  endpoint->is_cut = true;
}

uint64_t rc_close_due(const struct pst_endpoint *endpoint)
{
  uint64_t flushed_ns = endpoint->rc->over_ns + RC_FLUSH_NS;
  /* Receives that are missing are nobody's requests: they go with the queue pair. */
  bool is_enough = endpoint->rc->lanes[0].is_erred && endpoint->sq.done == endpoint->sq.head &&
                   rc_lanes_are_said(endpoint);

  return is_enough && flushed_ns < endpoint->closing.deadline_ns ? flushed_ns
                                                                 : endpoint->closing.deadline_ns;
}

/* Requests that a peer that has left may have had, and answered: all else that is under way, credit
 * and farewell, is nothing to it any more. */
static bool rc_close_awaits_answers(const struct pst_endpoint *endpoint)
{
  for (uint64_t i = endpoint->sq.done; i != endpoint->sq.head; i++)
    if (endpoint->sq.sent[i & endpoint->sq.mask].opcode)
      return true;
  return false;
}

bool rc_close_step(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  bool late = now_ns >= endpoint->closing.deadline_ns;

  if (atomic_load_explicit(&endpoint->rc->setup, memory_order_acquire) == 1)
    return false; /* it comes by itself */
  /* All that was posted, the farewell last, or as far as time allows. */
  bool done = endpoint->sq.done == endpoint->sq.head && rc_lanes_are_said(endpoint);
  bool waits = endpoint->rc->stage.name == RC_CONNECTED
                   ? !done
                   : endpoint->rc->stage.name == RC_LEFT &&
                         endpoint->closing.mode == PST_CLOSE_DRAIN &&
                         rc_close_awaits_answers(endpoint);
  if (!endpoint->rc->lanes[0].is_erred && waits && !late)
    return false;
  if (!endpoint->rc->lanes[0].is_erred) {
    if (!endpoint->sq.error)
      endpoint->sq.error = -ECANCELED;
    rc_queue_error(endpoint);
    endpoint->rc->over_ns = now_ns;
    vb_due(endpoint->worker, rc_close_due(endpoint));
    vb_pend(endpoint); /* what is flushed at once is taken in first */
    return false;
  }
  rc_queue_error(endpoint); /* where the first one's hello was still to be heard */
  if (rc_close_is_empty(endpoint))
    return true;
  if (now_ns < rc_close_due(endpoint) || !rc_close_is_too_late(endpoint))
    return false;
  rc_close_cut(endpoint);
  return true;
}

/* Report a failed one once what arrived before is reported. */
bool rc_gone_step(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  if (endpoint->rc->stage.name == RC_LEFT || rc_close_is_empty(endpoint))
    return true;
  if (now_ns < endpoint->rc->over_ns + RC_FLUSH_NS || !rc_close_is_too_late(endpoint))
    return false;
  rc_close_cut(endpoint);
  return true;
}
