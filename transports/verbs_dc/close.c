/* SPDX-License-Identifier: Apache-2.0 */
/* How an endpoint ends: it fails, its peer leaves, or the host closes it. */
#include "connection.h"
#include "ops.h"

static void dc_close_over(struct dc_endpoint *dc, enum dc_stage stage, int status)
{
  struct pst_endpoint *endpoint = &dc->endpoint;

  dc_enter(dc, stage);
  dc->status = status;
  dc->tells_gone = !endpoint->closing.mode;
  dc->over_ns = vb_now_ns(endpoint->device);
  dc->over_at = endpoint->worker->empties + 1;
  vb_forget_room(endpoint);
  vb_due(endpoint->worker, dc->over_ns + endpoint->timeout_ns);
  vb_pend(endpoint);
}

static void dc_close_say_failed(const struct dc_endpoint *dc, int status, const char *why)
{
  const struct pst_device *device = dc->endpoint.device;
  char peer[VB_GID_TEXT], reason[DC_REASON];

  vb_gid_address(dc->peer.gid, peer);
  VB_LOG(device, PST_LOG_ERROR,
         "%s: the path from %s port %u to %s (targets %u, %u) failed: %s (%s). %s",
         dc->endpoint.label, device->open.info->name, device->open.port->number, peer,
         dc->peer.control, dc->peer.data, why, strerror(-status), dc_gid_reason(dc, reason));
}

void dc_fail(struct pst_endpoint *endpoint, int status, const char *why)
{
  struct dc_endpoint *dc = dc_of(endpoint);

  if (dc->stage == DC_FAILED)
    return;
  atomic_store_explicit(&endpoint->device->has_lost_peer, true, memory_order_relaxed);
  if (!endpoint->sq.error)
    endpoint->sq.error = status == -ETIMEDOUT ? -ETIMEDOUT : -ECONNRESET;
  dc_stop(dc);
  if (dc->stage == DC_LEFT) { /* reported already; what was still posted ends */
    vb_pend(endpoint);
    return;
  }
  if (why && !endpoint->closing.mode)
    dc_close_say_failed(dc, status, why);
  dc_close_over(dc, DC_FAILED, status);
}

/* Notes that the peer has left; requests that this end has posted are still answered, as long as
 * the peer's device is there. */
void dc_left(struct dc_endpoint *dc, int status)
{
  if (!dc_is_over(dc))
    dc_close_over(dc, DC_LEFT, status);
}

int dc_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  struct dc_endpoint *dc = dc_of(endpoint);
  const int rc = pst_closing_begin(&endpoint->closing, mode, deadline_ns);

  if (rc < 0)
    return rc;
  dc->tells_gone = false;
  vb_forget_room(endpoint);
  /* Behind all that is posted. */
  if (dc->stage == DC_CONNECTED)
    dc->says |= 1u << (mode == PST_CLOSE_DRAIN ? DC_FAREWELL : DC_ABORTED);
  vb_due(endpoint->worker, deadline_ns);
  vb_pend(endpoint);
  return 0;
}

/* Requests that a peer that has left may have had, and answered: all else that is under way, credit
 * and farewell, is nothing to it any more. */
static bool dc_close_awaits_answers(const struct pst_endpoint *endpoint)
{
  for (uint64_t i = endpoint->sq.done; i != endpoint->sq.head; i++)
    if (endpoint->sq.sent[i & endpoint->sq.mask].opcode)
      return true;
  return false;
}

bool dc_close_step(struct dc_endpoint *dc, uint64_t now_ns)
{
  struct pst_endpoint *endpoint = &dc->endpoint;
  const bool is_done = endpoint->sq.done == endpoint->sq.head && !dc->says;
  const bool waits = dc->stage == DC_CONNECTED
                         ? !is_done
                         : (dc->initiator && dc->initiator->is_flushing) ||
                               (dc->stage == DC_LEFT && endpoint->closing.mode == PST_CLOSE_DRAIN &&
                                dc_close_awaits_answers(endpoint));

  if (waits && now_ns < endpoint->closing.deadline_ns)
    return false;
  if (!endpoint->sq.error)
    endpoint->sq.error = -ECANCELED;
  dc_abandon(dc);
  return true;
}
