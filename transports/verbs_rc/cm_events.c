/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel's connection manager tells. */
#include "cm_inside.h"

#define NOBODY_LISTENS 8 /* a reason of REJ: invalid service ID */

/* The endpoint is not there any more, or nobody listens: a later try would find the same. */
static bool is_for_good(const struct event *event)
{
  return event->type == RDMA_CM_EVENT_REJECTED &&
         (event->has_data || event->status == NOBODY_LISTENS);
}

/* A connection that is to be had again. */
static void missed(struct pst_endpoint *endpoint, const struct event *event)
{
  if (endpoint->cm->stage == STAGE_SETTLED)
    rc_cm_left(endpoint);
  else
    rc_cm_reconnects(endpoint, event->type, event->status);
}

/* It ends what is not connected yet; later, the queue pair's own errors do. */
static void failed(struct pst_endpoint *endpoint, const struct event *event)
{
  char why[1024];

  if (endpoint->state != RC_SETTING_UP && endpoint->state != RC_GREETING)
    return;
  if (endpoint->reconnect.by_ns && !is_for_good(event)) {
    missed(endpoint, event);
    return;
  }
  if (endpoint->cm->stage < STAGE_SETTLED && vb_cm_is_passing(event->type, event->status)) {
    rc_cm_try_later(endpoint, rc_now_ns(endpoint->device));
    return;
  }
  const struct vb_status *what = event->type == RDMA_CM_EVENT_REJECTED
                                     ? vb_cm_rejection(event->status)
                                     : vb_cm_event(event->type);
  vb_cm_text(event->type, event->status, why, sizeof(why));
  rc_fail(endpoint, what->error ? what->error : -EIO, why);
}

static void take_of(struct pst_endpoint *endpoint, const struct event *event)
{
  bool is_on = endpoint->state == RC_SETTING_UP && !endpoint->closing.mode && !endpoint->is_failed;

  if (rc_cm_of_next(endpoint, event))
    return;
  switch (event->type) {
  case RDMA_CM_EVENT_ADDR_RESOLVED:
    if (is_on)
      rc_cm_resolve_route(endpoint);
    break;
  case RDMA_CM_EVENT_ROUTE_RESOLVED:
    if (is_on)
      rc_cm_ask(endpoint);
    break;
  case RDMA_CM_EVENT_CONNECT_RESPONSE:
    if (is_on)
      rc_cm_set_up(endpoint);
    break;
  case RDMA_CM_EVENT_ADDR_ERROR:
  case RDMA_CM_EVENT_ROUTE_ERROR:
  case RDMA_CM_EVENT_CONNECT_ERROR:
  case RDMA_CM_EVENT_UNREACHABLE:
    failed(endpoint, event);
    break;
  case RDMA_CM_EVENT_REJECTED:
    failed(endpoint, event);
    /* The peer's kernel had not heard yet that the connection stands when its end went away. */
    if (endpoint->state == RC_CONNECTED)
      rc_cm_left(endpoint);
    break;
  case RDMA_CM_EVENT_DISCONNECTED:
    rc_cm_left(endpoint);
    break;
  default:
    break;
  }
}

static void take_of_device(struct pst_device *device, const struct event *event)
{
  char text[512];

  if (event->type != RDMA_CM_EVENT_DEVICE_REMOVAL && event->type != RDMA_CM_EVENT_ADDR_CHANGE)
    return;
  vb_cm_text(event->type, event->status, text, sizeof(text));
  bool is_lost = event->type == RDMA_CM_EVENT_DEVICE_REMOVAL;
  if (is_lost)
    atomic_store(&device->is_lost, true);
  RC_LOG(device, is_lost ? PST_LOG_ERROR : PST_LOG_WARN, "%s: %s", device->open.info->name, text);
}

void rc_cm_events(struct pst_worker *worker)
{
  struct rdma_cm_event *given;

  while (worker->cm && rdma_get_cm_event(worker->cm->channel, &given) == 0) {
    struct event event = {.type = given->event, .status = given->status, .id = given->id};
    const struct rdma_conn_param *param = &given->param.conn;
    bool is_request = event.type == RDMA_CM_EVENT_CONNECT_REQUEST;
    bool may_say = is_request || event.type == RDMA_CM_EVENT_REJECTED;
    /* The kernel hands its whole field over, padded. */
    if (may_say && param->private_data && param->private_data_len >= sizeof(event.data)) {
      memcpy(&event.data, param->private_data, sizeof(event.data));
      event.has_data = memcmp(event.data.magic, rc_cm_magic, sizeof(event.data.magic)) == 0;
    }
    rdma_ack_cm_event(given); /* destroying an id waits for it */
    take_of_device(worker->device, &event);
    if (is_request)
      rc_cm_asked(worker, &event);
    else if (event.id->context)
      take_of(event.id->context, &event);
  }
}

void rc_cm_look(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  struct rc_cm *cm = endpoint->cm;

  if (cm->again_ns == RC_NEVER || endpoint->state != RC_SETTING_UP)
    return;
  if (now_ns >= cm->again_ns)
    rc_cm_resolve(endpoint);
  else
    rc_due(endpoint->worker, cm->again_ns);
}
