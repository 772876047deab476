/* SPDX-License-Identifier: Apache-2.0 */
/* Ids: made, bound, resolved, moved, destroyed. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cm.h"
#include "front/refused.h"

enum { ACK_TIMEOUT = 19, ACK_TIMEOUT_MAX = 31 }; /* CMA_IBOE_PACKET_LIFETIME, and one */

int cm_fail(int error)
{
  errno = error;
  return -1;
}

struct cm_id *cm_id_make(struct rdma_event_channel *channel, void *context,
                         enum rdma_port_space space, enum ibv_qp_type type)
{
  struct cm_id *id = calloc(1, sizeof(*id));
  if (!id)
    return NULL;
  if (getrandom(&id->psn, sizeof(id->psn), 0) != sizeof(id->psn)) {
    free(id);
    return NULL;
  }
  id->psn &= 0xffffff;
  id->id.channel = channel;
  id->id.context = context;
  id->id.ps = space;
  id->id.qp_type = type;
  id->name = id->socket = -1;
  id->ack_timeout = ACK_TIMEOUT;
  id->serial = ++cm.last_serial;
  pthread_cond_init(&id->acked_cond, NULL);
  sim_list_add(&cm.ids, &id->link);
  return id;
}

/* A socket of a listener's that its program has not taken: the peer sees it closed. */
static struct cm_id *cm_ids_find_waiting(const struct cm_id *listener)
{
  struct sim_list *at;
  sim_list_each(at, &cm.ids)
  {
    struct cm_id *id = sim_container_of(at, struct cm_id, link);
    if (id->listener == listener)
      return id;
  }
  return NULL;
}

void cm_id_end(struct cm_id *id)
{
  struct cm_id *waiting;
  while ((waiting = cm_ids_find_waiting(id))) {
    cm_id_end(waiting);
    cm_id_free(waiting);
  }
  cm_events_drop(id);
  sim_list_del(&id->link);
  if (id->name >= 0)
    close(id->name);
  if (id->socket >= 0)
    close(id->socket);
}

void cm_id_free(struct cm_id *id)
{
  cm_device_put(id->device);
  pthread_cond_destroy(&id->acked_cond);
  if (id->is_sync)
    rdma_destroy_event_channel(id->id.channel);
  free(id->id.route.path_rec);
  free(id->qp_init_attr);
  free(id->connect);
  free(id);
}

int cm_create(struct rdma_event_channel *channel, struct rdma_cm_id **to, void *context,
              enum rdma_port_space space, enum ibv_qp_type type)
{
  const bool is_sync = !channel;
  if (space != RDMA_PS_TCP || (type && type != IBV_QPT_RC)) {
    sim_refused("rdma_cm but for RDMA_PS_TCP and IBV_QPT_RC (datagrams, IPoIB, AF_IB, UC, XRC)");
    return -1;
  }
  if (is_sync)
    channel = rdma_create_event_channel();
  if (!channel)
    return -1;
  pthread_mutex_lock(&cm.lock);
  int error = cm_start();
  struct cm_id *id = error ? NULL : cm_id_make(channel, context, space, IBV_QPT_RC);
  pthread_mutex_unlock(&cm.lock);
  if (!id) {
    if (is_sync)
      rdma_destroy_event_channel(channel);
    return cm_fail(error ? error : ENOMEM);
  }
  id->is_sync = is_sync;
  *to = &id->id;
  return 0;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
  return cm_create(channel, id, context, ps, IBV_QPT_RC);
}

int rdma_destroy_id(struct rdma_cm_id *p)
{
  struct cm_id *id = cm_id_of(p);
  pthread_mutex_lock(&cm.lock);
  cm_id_end(id);
  pthread_mutex_unlock(&cm.lock);
  if (p->event)
    rdma_ack_cm_event(p->event);
  pthread_mutex_lock(&cm.lock);
  while (id->acked != id->given)
    pthread_cond_wait(&id->acked_cond, &cm.lock);
  pthread_mutex_unlock(&cm.lock);
  cm_id_free(id);
  return 0;
}

int cm_complete(struct rdma_cm_id *p)
{
  if (!cm_id_of(p)->is_sync)
    return 0;
  if (p->event)
    rdma_ack_cm_event(p->event);
  p->event = NULL;
  if (rdma_get_cm_event(p->channel, &p->event))
    return -1;
  int status = p->event->status;
  if (!status)
    return 0;
  return cm_fail(p->event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : abs(status));
}

/* ---- addresses ---- */

static int cm_ids_bind_to(struct cm_id *id, const struct cm_address *address)
{
  const struct cm_address before = id->own;
  id->own = *address;
  int error = id->state == CM_IDLE ? 0 : EINVAL;
  if (!error && !address->is_any)
    error = sim_cm_own(&address->gid, &id->path);
  if (!error)
    error = cm_name_take(id);
  if (error)
    id->own = before;
  else
    id->state = CM_BOUND;
  return error;
}

int rdma_bind_addr(struct rdma_cm_id *p, struct sockaddr *addr)
{
  struct cm_id *id = cm_id_of(p);
  struct cm_address address;
  if (!cm_address_read(addr, &address))
    return cm_fail(EINVAL);
  pthread_mutex_lock(&cm.lock);
  int error = cm_ids_bind_to(id, &address);
  pthread_mutex_unlock(&cm.lock);
  if (error)
    return cm_fail(error);
  cm_address_write(&id->own, &p->route.addr.src_addr);
  return address.is_any ? 0 : cm_device_take(id);
}

/* The peer may yet answer until the time is over; what has no way at all fails here. */
static int cm_ids_resolve(struct cm_id *id, const struct cm_address *from,
                          const struct cm_address *to, int timeout_ms)
{
  int error = 0;
  if (id->state == CM_IDLE && from)
    error = cm_ids_bind_to(id, from);
  if (!error && id->state != CM_IDLE && id->state != CM_BOUND)
    error = EINVAL;
  if (error)
    return error;
  struct cm_address own = id->own;
  id->peer_address = *to;
  error = to->is_any ? sim_cm_loopback(&id->path) : sim_cm_to(&to->gid, &id->path);
  if (error && error != ETIMEDOUT)
    return error;
  if (to->is_any)
    id->peer_address.gid = id->path.own;
  if (!error && (id->name < 0 || own.is_any)) {
    /* A port of the address that leads there. */
    id->own = (struct cm_address){.gid = id->path.own, .family = to->family, .port = own.port};
    int taken = id->name < 0 ? cm_name_take(id) : 0;
    if (taken)
      return taken;
  }
  id->state = CM_ADDR_QUERY;
  id->give_up_ns = sim_cm_clock_ns() + (uint64_t)(timeout_ms > 0 ? timeout_ms : 0) * 1000000;
  cm_resolved(id);
  return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *p, struct sockaddr *src_addr, struct sockaddr *dst_addr,
                      int timeout_ms)
{
  struct cm_id *id = cm_id_of(p);
  struct cm_address from, to;
  if (!cm_address_read(dst_addr, &to) || (src_addr && !cm_address_read(src_addr, &from)))
    return cm_fail(EINVAL);
  pthread_mutex_lock(&cm.lock);
  int error = cm_ids_resolve(id, src_addr ? &from : NULL, &to, timeout_ms);
  pthread_mutex_unlock(&cm.lock);
  return error ? cm_fail(error) : cm_complete(p);
}

int rdma_resolve_route(struct rdma_cm_id *p, int timeout_ms)
{
  struct cm_id *id = cm_id_of(p);
  (void)timeout_ms; /* on RoCE there is nobody to ask */
  pthread_mutex_lock(&cm.lock);
  bool may = id->state == CM_ADDR_RESOLVED;
  if (may) {
    id->state = CM_ROUTE_RESOLVED;
    cm_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
  }
  pthread_mutex_unlock(&cm.lock);
  return may ? cm_complete(p) : cm_fail(EINVAL);
}

static __be16 cm_ids_port_of(const struct sockaddr *address)
{
  struct cm_address read;
  return cm_address_read(address, &read) ? read.port : 0;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
  return cm_ids_port_of(&id->route.addr.src_addr);
}

__be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
  return cm_ids_port_of(&id->route.addr.dst_addr);
}

/* ---- what else may be asked of an id ---- */

static int cm_ids_set_option(struct cm_id *id, int name, const void *value, size_t length)
{
  uint8_t byte = 0;
  if (length == sizeof(byte))
    memcpy(&byte, value, sizeof(byte));
  switch (name) {
  case RDMA_OPTION_ID_TOS:
    id->tos = byte;
    return length == sizeof(byte) ? 0 : EINVAL;
  case RDMA_OPTION_ID_REUSEADDR: /* no port is held once its id is gone */
  case RDMA_OPTION_ID_AFONLY:    /* :: is 0.0.0.0, too */
    return length == sizeof(int) ? 0 : EINVAL;
  case RDMA_OPTION_ID_ACK_TIMEOUT:
    if (length != sizeof(byte) || byte > ACK_TIMEOUT_MAX)
      return EINVAL;
    id->ack_timeout = byte;
    return 0;
  default:
    return ENOSYS;
  }
}

int rdma_set_option(struct rdma_cm_id *p, int level, int optname, void *optval, size_t optlen)
{
  if (level == RDMA_OPTION_IB) {
    sim_refused("rdma_set_option of RDMA_OPTION_IB");
    return -1;
  }
  if (level != RDMA_OPTION_ID)
    return cm_fail(ENOSYS);
  pthread_mutex_lock(&cm.lock);
  int error = cm_ids_set_option(cm_id_of(p), optname, optval, optlen);
  pthread_mutex_unlock(&cm.lock);
  return error ? cm_fail(error) : 0;
}

int rdma_migrate_id(struct rdma_cm_id *p, struct rdma_event_channel *channel)
{
  struct cm_id *id = cm_id_of(p);
  const bool was_sync = id->is_sync, is_sync = !channel;
  struct rdma_event_channel *before = p->channel;
  if (was_sync && is_sync)
    return cm_fail(EINVAL);
  if (is_sync)
    channel = rdma_create_event_channel();
  if (!channel)
    return -1;
  if (was_sync && p->event)
    rdma_ack_cm_event(p->event);
  if (was_sync)
    p->event = NULL;
  pthread_mutex_lock(&cm.lock);
  cm_events_move(id, channel);
  p->channel = channel;
  id->is_sync = is_sync;
  while (id->acked != id->given)
    pthread_cond_wait(&id->acked_cond, &cm.lock);
  pthread_mutex_unlock(&cm.lock);
  if (was_sync)
    rdma_destroy_event_channel(before);
  return 0;
}
