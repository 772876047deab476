/* SPDX-License-Identifier: Apache-2.0 */
/* Channels, and events on their way to the program. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "cm.h"

struct rdma_event_channel *rdma_create_event_channel(void)
{
  struct sim_device *const *devices;
  unsigned count;
  int error = sim_devices(&devices, &count);
  struct cm_channel *channel = error || !count ? NULL : calloc(1, sizeof(*channel));
  if (!channel) {
    errno = error ? error : count ? ENOMEM : ENODEV;
    return NULL;
  }
  channel->channel.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
  if (channel->channel.fd < 0) {
    free(channel);
    return NULL;
  }
  sim_list_init(&channel->events);
  return &channel->channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *p)
{
  close(p->fd);
  free(cm_channel_of(p));
}

static void cm_events_put(struct rdma_event_channel *channel, struct cm_event *event)
{
  sim_list_add(&cm_channel_of(channel)->events, &event->link);
  eventfd_write(channel->fd, 1);
}

/* One off the descriptor, if no reader has it already. */
static void cm_events_take_back(struct rdma_event_channel *channel, struct cm_event *event)
{
  eventfd_t one;
  struct iovec to = {&one, sizeof(one)};
  sim_list_del(&event->link);
  if (preadv2(channel->fd, &to, 1, -1, RWF_NOWAIT) < 0)
    return;
}

static uint8_t cm_events_data_bytes(enum cm_kind kind)
{
  return kind == CM_REQ ? CM_DATA_REQ : kind == CM_REP ? CM_DATA_REP : CM_DATA_REJ;
}

void cm_tell(struct cm_id *id, enum rdma_cm_event_type type, int status,
             const struct cm_message *message)
{
  struct cm_event *event = calloc(1, sizeof(*event));
  if (!event)
    return;
  event->event.id = &id->id;
  event->event.event = type;
  event->event.status = status;
  event->of = type == RDMA_CM_EVENT_CONNECT_REQUEST ? id->listener : id;
  if (message) {
    /* The peer's requested resources are the limits of this end, and the other way round. */
    event->event.param.conn = (struct rdma_conn_param){
        .private_data = event->data,
        .private_data_len = cm_events_data_bytes(message->kind),
        .responder_resources = message->initiator_depth,
        .initiator_depth = message->responder_resources,
        .flow_control = message->flow_control,
        .retry_count = message->retry_count,
        .rnr_retry_count = message->rnr_retry_count,
        .srq = message->srq,
        .qp_num = message->qp_num,
    };
    memcpy(event->data, message->data, sizeof(event->data));
  }
  cm_events_put(event->of->id.channel, event);
}

/* The first of an id's that the program has not taken. */
static struct cm_event *cm_events_find(const struct cm_id *id)
{
  struct sim_list *list = &cm_channel_of(id->id.channel)->events, *at;
  sim_list_each(at, list)
  {
    struct cm_event *event = sim_container_of(at, struct cm_event, link);
    if (event->of == id || event->event.id == &id->id)
      return event;
  }
  return NULL;
}

void cm_events_drop(struct cm_id *id)
{
  struct cm_event *event;
  while ((event = cm_events_find(id))) {
    cm_events_take_back(id->id.channel, event);
    free(event);
  }
}

void cm_events_move(struct cm_id *id, struct rdma_event_channel *to)
{
  struct cm_event *event;
  while (to != id->id.channel && (event = cm_events_find(id))) {
    cm_events_take_back(id->id.channel, event);
    cm_events_put(to, event);
  }
}

/* ---- what the library does as the program takes an event ---- */

static void cm_events_fail(struct cm_event *event, enum rdma_cm_event_type type)
{
  event->event.event = type;
  event->event.status = -errno;
}

static int cm_events_set_path_record(struct cm_id *id)
{
  struct ibv_sa_path_rec *path = calloc(1, sizeof(*path));
  if (!path)
    return cm_fail(ENOMEM);
  pthread_mutex_lock(&cm.lock);
  path->sgid = id->path.own;
  path->dgid = id->path.peer;
  path->mtu = id->has_peer && id->peer.kind == CM_REQ ? id->peer.mtu : id->path.mtu;
  path->traffic_class = id->tos;
  pthread_mutex_unlock(&cm.lock);
  path->hop_limit = 64;
  path->reversible = path->numb_path = 1;
  path->mtu_selector = path->rate_selector = path->packet_life_time_selector = 2; /* exactly */
  free(id->id.route.path_rec);
  id->id.route.path_rec = path;
  id->id.route.num_paths = 1;
  return 0;
}

/* A request is a new id of the listener's program. */
static int cm_events_take_request(struct cm_event *event)
{
  struct cm_id *id = cm_id_of(event->event.id), *listener = event->of;
  event->event.listen_id = &listener->id;
  if (listener->is_sync && rdma_migrate_id(&id->id, NULL))
    return -1;
  if (cm_device_take(id))
    return -1;
  return cm_events_set_path_record(id);
}

static int cm_events_take_response(struct cm_id *id)
{
  if (cm_qp_ready_to_receive(&id->id, RDMA_MAX_RESP_RES) ||
      cm_qp_ready_to_send(&id->id, RDMA_MAX_INIT_DEPTH)) {
    const int error = errno;
    cm_qp_error(&id->id);
    return cm_fail(error);
  }
  pthread_mutex_lock(&cm.lock);
  bool may = id->state == CM_REP_RCVD;
  if (may) {
    id->state = CM_ESTABLISHED;
    cm_out(id, CM_RTU);
    cm_send(id);
  }
  pthread_mutex_unlock(&cm.lock);
  return may ? 0 : cm_fail(EINVAL);
}

int rdma_establish(struct rdma_cm_id *id)
{
  return id->qp ? cm_fail(EINVAL) : cm_events_take_response(cm_id_of(id));
}

/* False: the program does not hear of it. */
static bool cm_events_process(struct cm_event *event)
{
  struct cm_id *id = cm_id_of(event->event.id);
  switch (event->event.event) {
  case RDMA_CM_EVENT_ADDR_RESOLVED:
    if (cm_device_take(id))
      cm_events_fail(event, RDMA_CM_EVENT_ADDR_ERROR);
    return true;
  case RDMA_CM_EVENT_ROUTE_RESOLVED:
    if (cm_events_set_path_record(id))
      cm_events_fail(event, RDMA_CM_EVENT_ROUTE_ERROR);
    return true;
  case RDMA_CM_EVENT_CONNECT_REQUEST:
    return !cm_events_take_request(event);
  case RDMA_CM_EVENT_CONNECT_RESPONSE:
    if (!id->id.qp)
      return true;
    event->event.event = RDMA_CM_EVENT_ESTABLISHED;
    if (cm_events_take_response(id)) {
      cm_events_fail(event, RDMA_CM_EVENT_CONNECT_ERROR);
      id->has_connect_error = true;
    }
    return true;
  case RDMA_CM_EVENT_REJECTED:
    if (!id->has_connect_error)
      cm_qp_error(&id->id);
    return !id->has_connect_error;
  case RDMA_CM_EVENT_DISCONNECTED:
    return !id->has_connect_error;
  default:
    return true;
  }
}

static struct cm_event *cm_events_take(struct cm_channel *channel)
{
  struct cm_event *event = NULL;
  pthread_mutex_lock(&cm.lock);
  struct sim_list *first = channel->events.next;
  if (first != &channel->events) {
    sim_list_del(first);
    event = sim_container_of(first, struct cm_event, link);
    event->of->given++;
    struct cm_id *id = cm_id_of(event->event.id);
    if (event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      event->of->waiting--;
      id->listener = NULL;
    }
  }
  pthread_mutex_unlock(&cm.lock);
  return event;
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **to)
{
  eventfd_t one;
  if (!to)
    return cm_fail(EINVAL);
  for (;;) {
    if (eventfd_read(channel->fd, &one))
      return -1;
    struct cm_event *event = cm_events_take(cm_channel_of(channel));
    if (!event)
      continue;
    if (cm_events_process(event)) {
      *to = &event->event;
      return 0;
    }
    struct rdma_cm_id *lost =
        event->event.event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->event.id : NULL;
    rdma_ack_cm_event(&event->event);
    if (lost)
      rdma_destroy_id(lost);
  }
}

int rdma_ack_cm_event(struct rdma_cm_event *p)
{
  if (!p)
    return cm_fail(EINVAL);
  struct cm_event *event = sim_container_of(p, struct cm_event, event);
  pthread_mutex_lock(&cm.lock);
  event->of->acked++;
  pthread_cond_broadcast(&event->of->acked_cond);
  pthread_mutex_unlock(&cm.lock);
  free(event);
  return 0;
}

const char *rdma_event_str(enum rdma_cm_event_type event)
{
#define NAMED(name) [name] = #name
  static const char *const names[] = {
      NAMED(RDMA_CM_EVENT_ADDR_RESOLVED),   NAMED(RDMA_CM_EVENT_ADDR_ERROR),
      NAMED(RDMA_CM_EVENT_ROUTE_RESOLVED),  NAMED(RDMA_CM_EVENT_ROUTE_ERROR),
      NAMED(RDMA_CM_EVENT_CONNECT_REQUEST), NAMED(RDMA_CM_EVENT_CONNECT_RESPONSE),
      NAMED(RDMA_CM_EVENT_CONNECT_ERROR),   NAMED(RDMA_CM_EVENT_UNREACHABLE),
      NAMED(RDMA_CM_EVENT_REJECTED),        NAMED(RDMA_CM_EVENT_ESTABLISHED),
      NAMED(RDMA_CM_EVENT_DISCONNECTED),    NAMED(RDMA_CM_EVENT_DEVICE_REMOVAL),
      NAMED(RDMA_CM_EVENT_MULTICAST_JOIN),  NAMED(RDMA_CM_EVENT_MULTICAST_ERROR),
      NAMED(RDMA_CM_EVENT_ADDR_CHANGE),     NAMED(RDMA_CM_EVENT_TIMEWAIT_EXIT),
  };
  return (unsigned)event < sizeof(names) / sizeof(names[0]) ? names[event] : "UNKNOWN EVENT";
}
