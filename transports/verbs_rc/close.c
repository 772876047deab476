/* SPDX-License-Identifier: Apache-2.0 */
/* How connections end: failed, left by the peer, closed by the host. */
#include <stdio.h>

#include "rc.h"

void rc_say_failed(const struct pst_endpoint *endpoint, enum pst_log_level level, int status,
                   const char *why, const char *then)
{
  const struct pst_device *device = endpoint->device;
  char counters[512], peer[VB_GID_TEXT];

  rc_since_text(endpoint, counters, sizeof(counters));
  vb_gid_address(endpoint->peer.gid, peer);
  RC_LOG(device, level,
         "%s: the connection from %s port %u to %s (QP %u) failed: %s (%s). Counters of port and "
         "host since the connection began: %s. %s%s%s",
         endpoint->label, device->open.info->name, device->open.port->number, peer,
         endpoint->peer.qpn, why, strerror(-status), counters, device->open.gid_reason,
         then[0] ? ". " : "", then);
}

void rc_forget_room(struct pst_endpoint *endpoint)
{
  if (endpoint->has_told_room)
    endpoint->worker->told--;
  endpoint->has_told_room = endpoint->wants_room = false;
}

static void over(struct pst_endpoint *endpoint, int status)
{
  endpoint->state = RC_OVER;
  endpoint->gone_status = status;
  endpoint->tell_gone = !endpoint->close_mode;
  rc_forget_room(endpoint);
  endpoint->over_ns = rc_now_ns(endpoint->device);
  rc_due(endpoint->worker, endpoint->over_ns + RC_FLUSH_NS);
  rc_pend(endpoint);
}

void rc_fail(struct pst_endpoint *endpoint, int status, const char *why)
{
  if (endpoint->is_failed)
    return;
  if (rc_mend_begin(endpoint, status, why ? why : strerror(-status)))
    return;
  const int error = status == -ETIMEDOUT ? -ETIMEDOUT : -ECONNRESET;
  rc_mend_end(endpoint, error);
  endpoint->is_failed = true;
  if (!endpoint->error)
    endpoint->error = error;
  if (atomic_load_explicit(&endpoint->setup, memory_order_acquire) != 1)
    rc_queue_error(endpoint);
  if (endpoint->state == RC_OVER) { /* told, and what is still posted ends */
    rc_pend(endpoint);
    return;
  }
  if (why && !endpoint->close_mode)
    rc_say_failed(endpoint, PST_LOG_ERROR, status, why, "");
  over(endpoint, status);
}

/* What this end has posted is still answered, as long as the peer's queue pair is there. */
void rc_left(struct pst_endpoint *endpoint, int status)
{
  if (endpoint->state == RC_OVER)
    return;
  rc_mend_end(endpoint, -ECONNRESET);
  endpoint->peer_left = true;
  over(endpoint, status);
}

void rc_left_look(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  const uint64_t by_ns = endpoint->over_ns + endpoint->timeout_ns;

  if (!endpoint->peer_left || endpoint->is_erred || endpoint->timeout_ns == 0 ||
      endpoint->sq_done == endpoint->sq_head)
    return;
  if (now_ns < by_ns) {
    rc_due(endpoint->worker, by_ns);
    return;
  }
  if (!endpoint->error)
    endpoint->error = -ECONNRESET;
  rc_queue_error(endpoint);
}

/* ---- By the host ---------------------------------------------------------------------------- */

int rc_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  if (mode != PST_CLOSE_DRAIN && mode != PST_CLOSE_ABORT)
    return -EINVAL;
  if (endpoint->close_mode)
    return -EALREADY;
  rc_mend_end(endpoint, -ECANCELED);
  endpoint->close_mode = mode;
  endpoint->close_by_ns = deadline_ns;
  endpoint->tell_gone = false;
  rc_forget_room(endpoint);
  /* Behind all that is posted. */
  const enum rc_control last = mode == PST_CLOSE_DRAIN ? RC_FAREWELL : RC_ABORTED;
  if (endpoint->state == RC_CONNECTED && rc_lanes_say(endpoint, last) == 0 &&
      rc_queue_own(endpoint, last, NULL, 0, 0, 0) == 0)
    endpoint->farewell = endpoint->sq_head;
  rc_due(endpoint->worker, deadline_ns);
  rc_pend(endpoint);
  return 0;
}

static bool is_empty(const struct pst_endpoint *endpoint)
{
  return endpoint->sq_done == endpoint->sq_head && endpoint->rq_posted == 0 &&
         rc_lanes_are_empty(endpoint);
}

/* The time that the device had is over, and since then all that there was has been taken: this
 * thread may have stood still meanwhile. */
static bool is_too_late(struct pst_endpoint *endpoint)
{
  const uint64_t empties = endpoint->worker->empties;

  if (endpoint->late_at == 0)
    endpoint->late_at = empties + 1;
  if (empties >= endpoint->late_at)
    return true;
  rc_pend(endpoint);
  return false;
}

/* The deadline is over, and the device has not given back what was posted: it will be told all the
 * same, and its completions, should they come, are no longer ours. */
static void cut(struct pst_endpoint *endpoint)
{
  if (endpoint->failed_from == RC_NEVER)
    endpoint->failed_from = endpoint->sq_done;
  if (!endpoint->error)
    endpoint->error = -ECANCELED;
  endpoint->sq_done = endpoint->sq_head;
  endpoint->rq_posted = 0;
  rc_lanes_cut(endpoint);
  endpoint->is_cut = true;
}

uint64_t rc_close_due(const struct pst_endpoint *endpoint)
{
  uint64_t flushed_ns = endpoint->over_ns + RC_FLUSH_NS;
  /* Receives that are missing are nobody's requests: they go with the queue pair. */
  bool is_enough = endpoint->is_erred && endpoint->sq_done == endpoint->sq_head;

  return is_enough && flushed_ns < endpoint->close_by_ns ? flushed_ns : endpoint->close_by_ns;
}

/* Requests that a peer that has left may have had, and answered: all else that is under way, credit
 * and farewell, is nothing to it any more. */
static bool awaits_answers(const struct pst_endpoint *endpoint)
{
  for (uint64_t i = endpoint->sq_done; i != endpoint->sq_head; i++)
    if (endpoint->sent[i & endpoint->sq_mask].opcode)
      return true;
  return false;
}

bool rc_close_step(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  bool late = now_ns >= endpoint->close_by_ns;

  if (atomic_load_explicit(&endpoint->setup, memory_order_acquire) == 1)
    return false; /* it comes by itself */
  /* All that was posted, the farewell last, or as far as time allows. */
  bool done = endpoint->sq_done == endpoint->sq_head && rc_lanes_are_said(endpoint);
  bool waits = endpoint->state == RC_CONNECTED
                   ? !done
                   : endpoint->peer_left && endpoint->close_mode == PST_CLOSE_DRAIN &&
                         awaits_answers(endpoint);
  if (!endpoint->is_erred && waits && !late)
    return false;
  if (!endpoint->is_erred) {
    if (!endpoint->error)
      endpoint->error = -ECANCELED;
    rc_queue_error(endpoint);
    endpoint->over_ns = now_ns;
    rc_due(endpoint->worker, rc_close_due(endpoint));
    rc_pend(endpoint); /* what is flushed at once is taken in first */
    return false;
  }
  rc_lanes_error(endpoint); /* where the first one's hello was still to be heard */
  if (is_empty(endpoint))
    return true;
  if (now_ns < rc_close_due(endpoint) || !is_too_late(endpoint))
    return false;
  cut(endpoint);
  return true;
}

/* A failed one is told once what arrived before is told. */
bool rc_gone_step(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  if (endpoint->peer_left || is_empty(endpoint))
    return true;
  if (now_ns < endpoint->over_ns + RC_FLUSH_NS || !is_too_late(endpoint))
    return false;
  cut(endpoint);
  return true;
}
