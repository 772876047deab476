/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of librdmacm, answered by the test. */
#include "simulated_cm.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>
#pragma GCC visibility push(default) /* a plugin finds them */
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

#define DATA_BYTES 148 /* of a refusal, the kernel's largest */
#define GIDS 16

enum state { IDLE, LISTENING, ASKING, ASKED, ACCEPTED, ANSWERED, ESTABLISHED, OVER };

/* An address of IPv4 or IPv6; the port lies at the same offset in both. */
union address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

struct end {
  struct rdma_cm_id id;
  enum state state;
  struct end *peer; /* NULL: its end is gone, or nothing of it came */
  struct end *next;
  union address own, other;
  uint32_t qpn, psn, peer_qpn, peer_psn;
};

struct told {
  struct rdma_cm_event event;
  uint8_t data[DATA_BYTES];
  struct rdma_event_channel *channel;
  const struct end *listener; /* of a request */
  struct told *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct end *ends;
static struct told *tidings;
static struct ibv_context *device;
static uint32_t loses, chance = 1;
static uint16_t last_port = 20000;

void simulated_cm_loses(uint32_t one_of)
{
  pthread_mutex_lock(&lock);
  loses = one_of;
  pthread_mutex_unlock(&lock);
}

uint32_t simulated_cm_ids(void)
{
  uint32_t n = 0;
  pthread_mutex_lock(&lock);
  for (struct end *end = ends; end; end = end->next)
    n++;
  pthread_mutex_unlock(&lock);
  return n;
}

static int fail(int error)
{
  errno = error;
  return -1;
}

/* By chance, the same each time: in turns, the same one of each try might be. */
static bool is_lost(void)
{
  chance = chance * 1664525 + 1013904223;
  return loses && (chance >> 16) % loses == 0;
}

static struct told *tell(struct end *end, enum rdma_cm_event_type type, int status,
                         const void *data, uint8_t length)
{
  struct told *told = calloc(1, sizeof(*told)), **at = &tidings;
  const uint64_t one = 1;
  told->event = (struct rdma_cm_event){.id = &end->id, .event = type, .status = status};
  told->channel = end->id.channel;
  if (data)
    memcpy(told->data, data, length);
  told->event.param.conn.private_data = told->data;
  told->event.param.conn.private_data_len = DATA_BYTES;
  while (*at)
    at = &(*at)->next;
  *at = told;
  if (write(end->id.channel->fd, &one, sizeof(one)) != sizeof(one))
    abort();
  return told;
}

/* ---- Channels ---------------------------------------------------------------------------------
 */

struct rdma_event_channel *rdma_create_event_channel(void)
{
  struct rdma_event_channel *channel = calloc(1, sizeof(*channel));
  channel->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  return channel;
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
  close(channel->fd);
  free(channel);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
  struct told **at = &tidings, *told;
  uint64_t one;
  pthread_mutex_lock(&lock);
  while (*at && (*at)->channel != channel)
    at = &(*at)->next;
  told = *at;
  if (told)
    *at = told->next;
  if (told && read(channel->fd, &one, sizeof(one)) != sizeof(one))
    abort();
  pthread_mutex_unlock(&lock);
  if (!told)
    return fail(EAGAIN);
  *event = &told->event;
  return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
  free(event);
  return 0;
}

/* ---- Ids --------------------------------------------------------------------------------------
 */

static struct end *make(struct rdma_event_channel *channel, void *context)
{
  struct end *end = calloc(1, sizeof(*end));
  if (getrandom(&end->psn, sizeof(end->psn), 0) != sizeof(end->psn))
    abort();
  end->psn &= 0xffffff;
  end->id.channel = channel;
  end->id.context = context;
  end->next = ends;
  ends = end;
  return end;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   enum rdma_port_space ps)
{
  (void)ps;
  pthread_mutex_lock(&lock);
  *id = &make(channel, context)->id;
  pthread_mutex_unlock(&lock);
  return 0;
}

/* Separates two ends that are connected, or about to be. */
static void part(struct end *end, enum rdma_cm_event_type type, int status, const void *data,
                 uint8_t length)
{
  struct end *peer = end->peer;
  end->peer = NULL;
  end->state = OVER;
  if (!peer || is_lost())
    return; /* which knows nothing of it, and whose own messages find nobody */
  peer->peer = NULL;
  peer->state = OVER;
  tell(peer, type, status, data, length);
}

static void end_of(struct end *end)
{
  const bool stands = end->state == ESTABLISHED || end->state == ANSWERED;
  if (stands)
    part(end, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
  else if (end->peer)
    part(end, RDMA_CM_EVENT_REJECTED, end->state == ASKING ? 4 : 28, NULL, 0);
}

static struct told *request_of(const struct end *listener)
{
  struct told *told = tidings;
  while (told && told->listener != listener)
    told = told->next;
  return told;
}

static void destroy(struct end *end)
{
  struct end **at = &ends;
  const struct told *request;
  /* Requests that nobody has taken end with their listener. */
  while ((request = request_of(end)))
    destroy((struct end *)request->event.id);
  end_of(end);
  for (struct end *other = ends; other; other = other->next)
    if (other->peer == end)
      other->peer = NULL;
  for (struct told **told = &tidings, *one; (one = *told) != NULL;) {
    uint64_t count;
    if (one->event.id != &end->id) {
      told = &one->next;
      continue;
    }
    *told = one->next;
    if (read(one->channel->fd, &count, sizeof(count)) != sizeof(count))
      abort();
    free(one);
  }
  while (*at != end)
    at = &(*at)->next;
  *at = end->next;
  free(end);
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
  pthread_mutex_lock(&lock);
  destroy((struct end *)id);
  pthread_mutex_unlock(&lock);
  return 0;
}

/* ---- Addresses --------------------------------------------------------------------------------
 */

/* The simulated device's first port is all that there is. */
static int take_device(struct end *end)
{
  if (!device) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    device = list && list[0] ? ibv_open_device(list[0]) : NULL;
    ibv_free_device_list(list);
  }
  end->id.verbs = device;
  end->id.port_num = 1;
  return device ? 0 : fail(ENODEV);
}

static void set_address(union address *to, const struct sockaddr *from)
{
  memcpy(to, from, from->sa_family == AF_INET6 ? sizeof(to->v6) : sizeof(to->v4));
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
  struct end *end = (struct end *)id;
  if (address->sa_family != AF_INET && address->sa_family != AF_INET6)
    return fail(EADDRNOTAVAIL);
  pthread_mutex_lock(&lock);
  set_address(&end->own, address);
  if (!end->own.v4.sin_port)
    end->own.v4.sin_port = htons(++last_port);
  int rc = take_device(end);
  pthread_mutex_unlock(&lock);
  return rc;
}

__be16 rdma_get_src_port(struct rdma_cm_id *id)
{
  return ((struct end *)id)->own.v4.sin_port;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
  (void)backlog;
  ((struct end *)id)->state = LISTENING;
  return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *own, struct sockaddr *other, int ms)
{
  struct end *end = (struct end *)id;
  (void)ms;
  pthread_mutex_lock(&lock);
  set_address(&end->own, own);
  set_address(&end->other, other);
  int rc = take_device(end);
  if (rc == 0)
    tell(end, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return rc;
}

int rdma_resolve_route(struct rdma_cm_id *id, int ms)
{
  (void)ms;
  pthread_mutex_lock(&lock);
  tell((struct end *)id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t length)
{
  (void)id, (void)level, (void)name, (void)value, (void)length;
  return 0;
}

static void set_gid(union ibv_gid *gid, const union address *address)
{
  memset(gid, 0, sizeof(*gid));
  if (address->any.sa_family == AF_INET6) {
    memcpy(gid->raw, &address->v6.sin6_addr, sizeof(gid->raw));
    return;
  }
  gid->raw[10] = gid->raw[11] = 0xff;
  memcpy(gid->raw + 12, &address->v4.sin_addr, 4);
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
  struct end *end = (struct end *)id;
  union ibv_gid own, gid;
  *mask = 0;
  if (attr->qp_state == IBV_QPS_RTS) {
    attr->sq_psn = end->psn;
    return 0;
  }
  set_gid(&own, &end->own);
  attr->ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}};
  set_gid(&attr->ah_attr.grh.dgid, &end->other);
  for (int i = 0; i < GIDS; i++)
    if (ibv_query_gid(device, 1, i, &gid) == 0 && memcmp(&gid, &own, sizeof(gid)) == 0)
      attr->ah_attr.grh.sgid_index = (uint8_t)i; /* RoCE v2 comes behind v1 */
  attr->rq_psn = end->peer_psn;
  attr->dest_qp_num = end->peer_qpn;
  attr->path_mtu = IBV_MTU_4096;
  return 0;
}

/* ---- Messages ---------------------------------------------------------------------------------
 */

static struct end *listener_at(const union address *address)
{
  for (struct end *end = ends; end; end = end->next)
    if (end->state == LISTENING && end->own.v4.sin_port == address->v4.sin_port)
      return end;
  return NULL;
}

/* The one that still has a connection of that queue pair. */
static struct end *stale(uint32_t qpn)
{
  for (struct end *end = ends; end; end = end->next)
    if (end->peer_qpn == qpn && end->state >= ASKED && end->state < OVER)
      return end;
  return NULL;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
  struct end *end = (struct end *)id, *old, *listener;
  pthread_mutex_lock(&lock);
  end->state = ASKING;
  end->qpn = param->qp_num;
  if (is_lost()) {
    pthread_mutex_unlock(&lock);
    return 0;
  }
  listener = listener_at(&end->other);
  old = stale(end->qpn);
  if (old && old->state == ESTABLISHED) {
    old->state = OVER;
    old->peer = NULL;
    tell(old, RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
  }
  if (!listener || old) {
    tell(end, RDMA_CM_EVENT_REJECTED, listener ? 10 : 8, NULL, 0);
    pthread_mutex_unlock(&lock);
    return 0;
  }
  struct end *asked = make(listener->id.channel, listener->id.context);
  asked->id.verbs = device;
  asked->id.port_num = 1;
  asked->state = ASKED;
  asked->own = end->other;
  asked->other = end->own;
  asked->peer = end;
  end->peer = asked;
  asked->peer_qpn = end->qpn;
  asked->peer_psn = end->psn;
  tell(asked, RDMA_CM_EVENT_CONNECT_REQUEST, 0, param->private_data, param->private_data_len)
      ->listener = listener;
  pthread_mutex_unlock(&lock);
  return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
  struct end *end = (struct end *)id;
  int rc = 0;
  pthread_mutex_lock(&lock);
  if (end->state != ASKED)
    rc = fail(EINVAL);
  else {
    end->state = ACCEPTED;
    end->qpn = param->qp_num;
    if (end->peer && !is_lost()) {
      end->peer->state = ANSWERED;
      end->peer->peer_qpn = end->qpn;
      end->peer->peer_psn = end->psn;
      tell(end->peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, NULL, 0);
    }
  }
  pthread_mutex_unlock(&lock);
  return rc;
}

int rdma_establish(struct rdma_cm_id *id)
{
  struct end *end = (struct end *)id;
  int rc = 0;
  pthread_mutex_lock(&lock);
  if (end->state != ANSWERED)
    rc = fail(EINVAL);
  else {
    end->state = ESTABLISHED;
    if (end->peer && !is_lost()) {
      end->peer->state = ESTABLISHED;
      tell(end->peer, RDMA_CM_EVENT_ESTABLISHED, 0, NULL, 0);
    }
  }
  pthread_mutex_unlock(&lock);
  return rc;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t length)
{
  pthread_mutex_lock(&lock);
  part((struct end *)id, RDMA_CM_EVENT_REJECTED, 28, data, length);
  pthread_mutex_unlock(&lock);
  return 0;
}
