/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel's connection manager tells. */
#include "cm_inside.h"

bool rc_cm_waits(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  static const int events[] = {[STAGE_ADDRESS] = RDMA_CM_EVENT_ADDR_ERROR,
                               [STAGE_ROUTE] = RDMA_CM_EVENT_ROUTE_ERROR,
                               [STAGE_REQUEST] = RDMA_CM_EVENT_UNREACHABLE};
  enum stage stage = endpoint->cm ? endpoint->cm->stage : STAGE_IDLE;

  if (stage == STAGE_IDLE || stage == STAGE_SETTLED)
    return false;
  vb_cm_text(events[stage], -ETIMEDOUT, text, size);
  return true;
}

/* It ends what is not connected yet; later, the queue pair's own errors do. */
static void failed(struct pst_endpoint *endpoint, const struct event *event)
{
  char why[1024];

  if (endpoint->state != RC_SETTING_UP && endpoint->state != RC_GREETING)
    return;
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

static void left(struct pst_endpoint *endpoint)
{
  if (endpoint->cm->has_left || endpoint->state == RC_OVER)
    return;
  endpoint->cm->has_left = true;
  endpoint->worker->cm->leavers++;
  rc_pend(endpoint); /* nobody sleeps before it is told */
}

static void take_of(struct pst_endpoint *endpoint, const struct event *event)
{
  bool is_on = endpoint->state == RC_SETTING_UP && !endpoint->close_mode && !endpoint->is_failed;

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
      left(endpoint);
    break;
  case RDMA_CM_EVENT_DISCONNECTED:
    left(endpoint);
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
    /* The kernel hands its whole field over, padded. */
    if (is_request && param->private_data && param->private_data_len >= sizeof(event.data)) {
      event.has_data = true;
      memcpy(&event.data, param->private_data, sizeof(event.data));
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

void rc_cm_leave(struct pst_worker *worker)
{
  char why[512];

  if (!worker->cm || worker->cm->leavers == 0)
    return;
  vb_cm_text(RDMA_CM_EVENT_DISCONNECTED, 0, why, sizeof(why));
  for (uint32_t i = 0; i < worker->endpoints.room && worker->cm->leavers; i++) {
    struct pst_endpoint *endpoint = worker->endpoints.all[i].at;
    if (!endpoint || !endpoint->cm || !endpoint->cm->has_left)
      continue;
    endpoint->cm->has_left = false;
    worker->cm->leavers--;
    if (!endpoint->close_mode)
      rc_fail(endpoint, -ECONNRESET, why);
  }
}
