/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events of the device: left with whom they concern, or told. */
#include <stdio.h>
#include <unistd.h>

#include "srq.h"

void vb_event_text(int event, char *text, size_t size)
{
  const struct vb_status *what = vb_event(event);

  snprintf(text, size, "%s: ", what->name);
  vb_status_text_add(what, text, size);
}

/* A warning where there is something to look at. */
static enum pst_log_level vb_events_level_of(const struct ibv_async_event *event)
{
  return vb_event((int)event->event_type)->checks[0] ? PST_LOG_WARN : PST_LOG_INFO;
}

static void vb_events_say(const struct pst_device *device, enum pst_log_level level, const char *of,
                          const struct ibv_async_event *event)
{
  const struct vb_status *what = vb_event((int)event->event_type);
  char number[16] = "";

  if (what->code < 0)
    snprintf(number, sizeof(number), " (%d)", (int)event->event_type);
  VB_LOG(device, level, "%s: %s%s: %s%s%s", of, what->name, number, what->cause,
         what->checks[0] ? "; check: " : "", what->checks);
}

static bool vb_events_is_of_queue(const struct ibv_async_event *event)
{
  switch (event->event_type) {
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
  case IBV_EVENT_QP_LAST_WQE_REACHED:
  case IBV_EVENT_PATH_MIG:
  case IBV_EVENT_PATH_MIG_ERR:
    return true;
  default:
    return false;
  }
}

/* Handles an asynchronous event of the device: fails the endpoint or shared queue that it concerns,
 * or logs it. */
static void vb_events_take_event(struct pst_device *device, const struct ibv_async_event *event)
{
  struct pst_endpoint *endpoint;
  struct vb_srq *shared;
  char port[128];

  if (device->transport->queue_event && vb_events_is_of_queue(event)) {
    device->transport->queue_event(device, event);
    return;
  }
  switch (event->event_type) {
  case IBV_EVENT_QP_FATAL:
  case IBV_EVENT_QP_REQ_ERR:
  case IBV_EVENT_QP_ACCESS_ERR:
    endpoint = event->element.qp->qp_context;
    atomic_store(&endpoint->event, (int)event->event_type + 1);
    vb_notify(endpoint->worker);
    break;
  case IBV_EVENT_QP_LAST_WQE_REACHED:
    endpoint = event->element.qp->qp_context;
    atomic_store(&endpoint->last_wqe, true);
    vb_notify(endpoint->worker);
    break;
  case IBV_EVENT_SRQ_ERR:
    shared = event->element.srq->srq_context;
    atomic_store(&shared->event, (int)event->event_type + 1);
    vb_notify(shared->worker);
    break;
  case IBV_EVENT_DEVICE_FATAL:
  case IBV_EVENT_CQ_ERR:
    atomic_store(&device->is_lost, true);
    for (struct pst_worker *one = device->workers; one; one = one->next)
      vb_notify(one);
    vb_events_say(device, PST_LOG_ERROR, device->open.info->name, event);
    break;
  case IBV_EVENT_PATH_MIG:
  case IBV_EVENT_PATH_MIG_ERR:
    endpoint = event->element.qp->qp_context;
    vb_events_say(device, vb_events_level_of(event), endpoint->label, event);
    break;
  case IBV_EVENT_PORT_ERR:
  case IBV_EVENT_PORT_ACTIVE:
  case IBV_EVENT_LID_CHANGE:
  case IBV_EVENT_PKEY_CHANGE:
  case IBV_EVENT_SM_CHANGE:
  case IBV_EVENT_CLIENT_REREGISTER:
  case IBV_EVENT_GID_CHANGE:
    snprintf(port, sizeof(port), "%s port %d", device->open.info->name, event->element.port_num);
    vb_events_say(device, vb_events_level_of(event), port, event);
    atomic_store(&device->place_changes, true);
    break;
  /* Silent on purpose: their news comes by other means (the hello, which is that first packet),
   * or only to a program that asked (for SQD, for a limit), which is not done here. */
  case IBV_EVENT_COMM_EST:
  case IBV_EVENT_SQ_DRAINED:
  case IBV_EVENT_SRQ_LIMIT_REACHED:
    break;
  /* Events that this program does not use or know: `element` is not looked at. */
  default:
    vb_events_say(device, vb_events_level_of(event), device->open.info->name, event);
    break;
  }
}

void vb_take_events(struct pst_device *device)
{
  struct ibv_async_event event;

  /* Destroying a queue pair waits for its events' acknowledgement: its endpoint is there. */
  while (ibv_get_async_event(device->open.context, &event) == 0) {
    vb_events_take_event(device, &event);
    ibv_ack_async_event(&event);
  }
}

void vb_events(struct pst_device *device)
{
  pthread_mutex_lock(&device->events);
  vb_take_events(device);
  pthread_mutex_unlock(&device->events);
}

void vb_pend(struct pst_endpoint *endpoint)
{
  if (endpoint->is_pending)
    return;
  endpoint->is_pending = true;
  endpoint->next_pending = endpoint->worker->pending;
  endpoint->worker->pending = endpoint;
}

void vb_unpend(struct pst_endpoint *endpoint)
{
  struct pst_endpoint **at = &endpoint->worker->pending;

  while (endpoint->is_pending && *at && *at != endpoint)
    at = &(*at)->next_pending;
  if (endpoint->is_pending && *at)
    *at = endpoint->next_pending;
}

void vb_notify(struct pst_worker *worker)
{
  const uint64_t one = 1;

  atomic_fetch_add_explicit(&worker->notices, 1, memory_order_release);
  if (write(worker->wake_fd, &one, sizeof(one)) < 0)
    return; /* it is full: awake already */
}

void vb_forget_room(struct pst_endpoint *endpoint)
{
  if (endpoint->want == VB_WANT_TOLD)
    endpoint->worker->told--;
  endpoint->want = VB_WANT_NOTHING;
}
