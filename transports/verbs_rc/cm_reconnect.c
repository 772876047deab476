/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `reconnect` by rdma_cm. Whose end fails gives its id back, of which the peer's kernel tells: both
 * notice at once if packets pass. Who connects asks anew, as often as it takes; who is asked
 * accepts once its queue pair has given everything back. A request of an endpoint's peer that comes
 * while it believes itself connected is as good as the news.
 *
 * The kernel gives first packet numbers with each request, so that no packet of a connection that
 * failed is taken for one of the next. Therefore both ends begin anew at each try: what stands at
 * one end alone is given up, when the kernel tells of it or, since it may be lost, after a while.
 */
#include "cm_inside.h"

#define AGAIN_NS UINT64_C(100000000) /* between tries */

void rc_cm_reconnect(struct pst_endpoint *endpoint)
{
  struct rc_cm *cm = endpoint->cm;

  if (!endpoint->reconnect.by_ns) /* it closes */
    return;
  if (rc_cm_connects(endpoint)) {
    endpoint->state = RC_SETTING_UP;
    rc_reconnect_within(endpoint, RC_CM_TRY_NS);
    rc_cm_resolve(endpoint);
    return;
  }
  if (!cm->next) {
    endpoint->reconnect.again_ns = RC_NEVER;
    return;
  }
  cm->id = cm->next;
  cm->next = NULL;
  rc_cm_set_up(endpoint);
}

bool rc_cm_reconnects(struct pst_endpoint *endpoint, int event, int status)
{
  if (!endpoint->reconnect.by_ns)
    return false;
  endpoint->cm->missed_event = event;
  endpoint->cm->missed_status = status;
  rc_reconnect_again(endpoint, AGAIN_NS);
  return true;
}

void rc_cm_left(struct pst_endpoint *endpoint)
{
  if (endpoint->cm->has_left || endpoint->state == RC_OVER)
    return;
  endpoint->cm->has_left = true;
  endpoint->worker->cm->leavers++;
  rc_pend(endpoint); /* nobody sleeps before it is told */
}

bool rc_cm_comes_again(const struct pst_endpoint *endpoint, const struct event *event)
{
  const bool is_or_was = endpoint->state == RC_CONNECTED || endpoint->state == RC_GREETING ||
                         endpoint->state == RC_RECONNECTING ||
                         (endpoint->state == RC_SETTING_UP &&
                          (endpoint->reconnect.by_ns || endpoint->cm->stage == STAGE_SETTLED));

  return endpoint->device->reconnect_ns && is_or_was && !endpoint->closing.mode &&
         !rc_cm_connects(endpoint) && be64toh(event->data.from) == endpoint->peer.cm_token;
}

void rc_cm_asked_again(struct pst_endpoint *endpoint, const struct event *event)
{
  struct rc_cm *cm = endpoint->cm;

  if (cm->next) /* which the peer has given up */
    rdma_destroy_id(cm->next);
  cm->next = event->id;
  event->id->context = endpoint;
  if (endpoint->state != RC_RECONNECTING) {
    rc_cm_left(endpoint);
    return;
  }
  if (endpoint->reconnect.again_ns == RC_NEVER)
    endpoint->reconnect.again_ns = 0;
  rc_pend(endpoint);
}

bool rc_cm_of_next(struct pst_endpoint *endpoint, const struct event *event)
{
  struct rc_cm *cm = endpoint->cm;

  if (event->id != cm->next)
    return false;
  /* Nothing good can be told of a request that was not answered. */
  rdma_destroy_id(cm->next);
  cm->next = NULL;
  return true;
}

/* What came before is still to be looked at: a hello, or what a deferred work has done. */
static bool is_early(const struct pst_endpoint *endpoint)
{
  if (!endpoint->device->reconnect_ns)
    return false;
  if (endpoint->state == RC_SETTING_UP)
    return endpoint->reconnect.by_ns || endpoint->is_heard_early || endpoint->cm->next;
  return endpoint->state == RC_GREETING && !endpoint->reconnect.by_ns && endpoint->cm->next;
}

static void leave(struct pst_endpoint *endpoint)
{
  char why[512];

  if (endpoint->closing.mode)
    return;
  if (endpoint->reconnect.by_ns) {
    rc_reconnect_again(endpoint, 0);
    return;
  }
  if (endpoint->cm->next)
    snprintf(why, sizeof(why), "the peer's end failed: it asks by rdma_cm to be connected anew");
  else
    vb_cm_text(RDMA_CM_EVENT_DISCONNECTED, 0, why, sizeof(why));
  rc_fail(endpoint, -ECONNRESET, why);
}

void rc_cm_leave(struct pst_worker *worker)
{
  if (!worker->cm || worker->cm->leavers == 0)
    return;
  for (uint32_t i = 0; i < worker->endpoints.room && worker->cm->leavers; i++) {
    struct pst_endpoint *endpoint = worker->endpoints.all[i].at;
    if (!endpoint || !endpoint->cm || !endpoint->cm->has_left || is_early(endpoint))
      continue;
    endpoint->cm->has_left = false;
    worker->cm->leavers--;
    leave(endpoint);
  }
}

void rc_cm_missed(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct rc_cm *cm = endpoint->cm;

  if (rc_cm_waits(endpoint, text, size))
    return;
  if (cm->missed_event >= 0)
    vb_cm_text(cm->missed_event, cm->missed_status, text, size);
  else
    snprintf(text, size, "%s",
             rc_cm_connects(endpoint) ? "no hello was answered" : "the peer did not ask for it");
}
