/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Either side first: a request that comes before its endpoint was told of the peer waits with it;
 * the kernel at the other end is told that it does. What may pass (no neighbour yet, a link that is
 * down, the number of an ended connection) is tried again until timeout_ns is over.
 */
#include <endian.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/random.h>

#include "../verbs/cm_status.h"
#include "cm.h"

#define RESOLVE_MS 1000              /* for a neighbour to answer, a try */
#define AGAIN_NS UINT64_C(100000000) /* between tries */
#define BACKLOG 1024                 /* the kernel's own limit on it by default */

enum stage {
  STAGE_IDLE,    /* the peer is to ask, or was not told of yet */
  STAGE_ADDRESS, /* resolving */
  STAGE_ROUTE,
  STAGE_REQUEST, /* asked, not answered */
  STAGE_SETTLED, /* the queue pair is being set up, or is */
};

struct rc_cm {
  struct rdma_cm_id *id; /* NULL: none yet */
  enum stage stage;
  uint64_t from; /* the token that the peer's request says */
  uint64_t again_ns;
  uint32_t gid_index; /* as the kernel chose */
  uint32_t hop_limit;
  bool has_left; /* the peer's end is gone: to be told behind all that it sent */
};

struct rc_cm_worker {
  struct rdma_event_channel *channel;
  struct rdma_cm_id *listener; /* NULL: nobody needs one */
  uint32_t index;
  uint16_t port; /* that it listens at */
  uint32_t leavers;
};

/* What a request says, before anything else is known of who asks. */
struct private_data {
  uint8_t magic[8];
  uint64_t to, from; /* tokens, big-endian */
};
static const uint8_t magic[8] = {'p', 's', 't', 'r', 'c', 'c', 'm', 1};

/* An event, once it is given back. */
struct event {
  int type;
  int status;
  struct rdma_cm_id *id;
  bool has_data;
  struct private_data data;
};

/* ---- Channel and listener --------------------------------------------------------------------
 */

int rc_cm_check(const struct pst_device *device)
{
  if (device->open.port->is_ethernet)
    return 0;
  RC_LOG(device, PST_LOG_ERROR,
         "%s port %u is InfiniBand: connection: rdma_cm is made for RoCE, whose GIDs are IP "
         "addresses; take `connection: exchange`",
         device->open.info->name, device->open.port->number);
  return -EOPNOTSUPP;
}

int rc_cm_worker_open(struct pst_worker *worker, uint32_t index)
{
  struct pst_device *device = worker->device;
  struct rc_cm_worker *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  worker->cm = made;
  made->index = index;
  made->channel = rdma_create_event_channel();
  struct epoll_event event = {.events = EPOLLIN, .data.fd = made->channel ? made->channel->fd : -1};
  if (made->channel && fcntl(made->channel->fd, F_SETFL, O_NONBLOCK) == 0 &&
      epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, made->channel->fd, &event) == 0)
    return 0;
  int rc = errno ? -errno : -EIO;
  RC_LOG(device, PST_LOG_ERROR,
         "connection: rdma_cm: no channel to the kernel's connection manager: %s; load its module "
         "(`modprobe rdma_ucm`), hand /dev/infiniband/rdma_cm to the container, or take "
         "`connection: exchange`",
         strerror(-rc));
  return rc;
}

void rc_cm_worker_close(struct pst_worker *worker)
{
  struct rc_cm_worker *cm = worker->cm;

  if (!cm)
    return;
  if (cm->listener)
    rdma_destroy_id(cm->listener);
  if (cm->channel)
    rdma_destroy_event_channel(cm->channel);
  free(cm);
  worker->cm = NULL;
}

/* Of a RoCE GID. */
static struct sockaddr *address_of(const struct pst_device *device, const uint8_t gid[16],
                                   uint16_t port, struct sockaddr_storage *to)
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
  struct sockaddr_in *v4 = (struct sockaddr_in *)to;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)to;

  memset(to, 0, sizeof(*to));
  if (memcmp(gid, mapped, sizeof(mapped)) == 0) {
    v4->sin_family = AF_INET;
    v4->sin_port = htobe16(port);
    memcpy(&v4->sin_addr, gid + 12, 4);
    return (struct sockaddr *)to;
  }
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htobe16(port);
  memcpy(&v6->sin6_addr, gid, 16);
  if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
    v6->sin6_scope_id = device->open.gid.netdev;
  return (struct sockaddr *)to;
}

/* The kernel finds a device by the address; it has to be the one that the queue pairs are on. */
static bool is_ours(const struct pst_device *device, const struct rdma_cm_id *id)
{
  return id->verbs && id->port_num == device->open.port->number &&
         strcmp(ibv_get_device_name(id->verbs->device), device->open.info->name) == 0;
}

static int refuse_listening(const struct pst_endpoint *endpoint, uint16_t port, int error)
{
  const struct pst_device *device = endpoint->device;
  char address[VB_GID_TEXT];

  vb_gid_address(device->open.gid.raw, address);
  if (error == EADDRINUSE)
    RC_LOG(device, PST_LOG_ERROR,
           "%s: port %u of %s is in use by another listener of rdma_cm (`rdma resource show cm_id` "
           "names its process): set `cm_port` to another, or to 0 for any that is free",
           endpoint->label, port, address);
  else
    RC_LOG(
        device, PST_LOG_ERROR,
        "%s: rdma_cm cannot listen at %s, port %u: %s; see that the address is up on %s's netdev "
        "(`ip addr`, `rdma link`)",
        endpoint->label, address, port, strerror(error), device->open.info->name);
  return -error;
}

static int listen_at(struct pst_endpoint *endpoint)
{
  struct pst_device *device = endpoint->device;
  struct rc_cm_worker *cm = endpoint->worker->cm;
  uint32_t port = device->cm_port ? device->cm_port + cm->index : 0;
  struct sockaddr_storage own;
  struct rdma_cm_id *id;

  if (port > UINT16_MAX)
    return refuse_listening(endpoint, device->cm_port, ERANGE);
  if (rdma_create_id(cm->channel, &id, NULL, RDMA_PS_TCP) != 0)
    return refuse_listening(endpoint, (uint16_t)port, errno);
  int error = 0;
  if (rdma_bind_addr(id, address_of(device, device->open.gid.raw, (uint16_t)port, &own)) != 0)
    error = errno;
  else if (!is_ours(device, id))
    error = EXDEV;
  else if (rdma_listen(id, BACKLOG) != 0)
    error = errno;
  if (error) {
    rdma_destroy_id(id);
    return refuse_listening(endpoint, (uint16_t)port, error);
  }
  cm->listener = id;
  cm->port = be16toh(rdma_get_src_port(id));
  return 0;
}

/* ---- Endpoints --------------------------------------------------------------------------------
 */

int rc_cm_open(struct pst_endpoint *endpoint)
{
  struct rc_cm_worker *worker = endpoint->worker->cm;
  struct rc_cm *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  endpoint->cm = made;
  made->again_ns = RC_NEVER;
  /* A peer that only sends is never asked. */
  bool is_asked = endpoint->rx || !endpoint->tx;
  if (is_asked && !worker->listener) {
    int rc = listen_at(endpoint);
    if (rc < 0)
      return rc;
  }
  endpoint->own.is_cm = true;
  endpoint->own.cm_port = is_asked ? worker->port : 0;
  uint64_t *token = &endpoint->own.cm_token;
  return getrandom(token, sizeof(*token), GRND_NONBLOCK) == sizeof(*token) ? 0 : -EAGAIN;
}

static void forget(struct rc_cm *cm)
{
  if (cm->id)
    rdma_destroy_id(cm->id);
  cm->id = NULL;
}

void rc_cm_close(struct pst_endpoint *endpoint)
{
  if (!endpoint->cm)
    return;
  if (endpoint->cm->has_left)
    endpoint->worker->cm->leavers--;
  forget(endpoint->cm);
  free(endpoint->cm);
  endpoint->cm = NULL;
}

bool rc_cm_connects(const struct pst_endpoint *endpoint)
{
  const struct rc_blob *own = &endpoint->own, *peer = &endpoint->peer;
  int order = memcmp(own->gid, peer->gid, sizeof(own->gid));

  if (own->is_sender != own->is_receiver)
    return own->is_sender;
  return order ? order < 0 : own->qpn < peer->qpn;
}

static void fail(struct pst_endpoint *endpoint, int status, const char *call)
{
  char why[192];

  snprintf(why, sizeof(why),
           "%s: %s; see `ip route get`, `rdma link` and the kernel's log (`dmesg`)", call,
           strerror(-status));
  rc_fail(endpoint, status, why);
}

static struct rdma_conn_param parameters(const struct pst_endpoint *endpoint,
                                         struct private_data *data)
{
  const struct pst_device *device = endpoint->device;
  uint32_t own = (uint32_t)device->attr.max_qp_init_rd_atom, peer = endpoint->peer.rd_atomic;

  memcpy(data->magic, magic, sizeof(magic));
  data->to = htobe64(endpoint->peer.cm_token);
  data->from = htobe64(endpoint->own.cm_token);
  return (struct rdma_conn_param){.private_data = data,
                                  .private_data_len = sizeof(*data),
                                  .responder_resources = endpoint->own.rd_atomic,
                                  .initiator_depth = (uint8_t)(own < peer ? own : peer),
                                  .retry_count = (uint8_t)device->path.retry_cnt,
                                  .rnr_retry_count = (uint8_t)device->path.rnr_retry,
                                  .qp_num = endpoint->qp->qp_num};
}

/* ---- The end that connects ----------------------------------------------------------------- */

static void try_later(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  forget(endpoint->cm);
  endpoint->cm->again_ns = now_ns + AGAIN_NS;
  rc_due(endpoint->worker, endpoint->cm->again_ns);
}

static void resolve(struct pst_endpoint *endpoint)
{
  const struct pst_device *device = endpoint->device;
  const struct rc_blob *peer = &endpoint->peer;
  struct sockaddr_storage own, other;
  struct rc_cm *cm = endpoint->cm;

  cm->stage = STAGE_ADDRESS;
  cm->again_ns = RC_NEVER;
  if (rdma_create_id(endpoint->worker->cm->channel, &cm->id, endpoint, RDMA_PS_TCP) != 0) {
    cm->id = NULL;
    fail(endpoint, -errno, "rdma_create_id");
    return;
  }
  if (rdma_resolve_addr(cm->id, address_of(device, device->open.gid.raw, 0, &own),
                        address_of(device, peer->gid, peer->cm_port, &other), RESOLVE_MS) == 0)
    return;
  int error = errno;
  if (vb_cm_is_passing(RDMA_CM_EVENT_ADDR_ERROR, -error))
    try_later(endpoint, rc_now_ns(device));
  else
    fail(endpoint, -error, "rdma_resolve_addr");
}

static void resolve_route(struct pst_endpoint *endpoint)
{
  struct pst_device *device = endpoint->device;
  uint8_t tos = (uint8_t)device->path.traffic_class;
  struct rc_cm *cm = endpoint->cm;

  cm->stage = STAGE_ROUTE;
  if (!is_ours(device, cm->id)) {
    rc_fail(endpoint, -EXDEV,
            "rdma_cm takes another device for this port's address: it is an address of two "
            "(`ip addr`, `rdma link`)");
    return;
  }
  /* Before the route, which it belongs to. */
  if (tos && rdma_set_option(cm->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) != 0)
    fail(endpoint, -errno, "rdma_set_option of traffic_class");
  else if (rdma_resolve_route(cm->id, RESOLVE_MS) != 0)
    fail(endpoint, -errno, "rdma_resolve_route");
}

static void ask(struct pst_endpoint *endpoint)
{
  uint8_t timeout = (uint8_t)endpoint->device->path.timeout;
  struct private_data data;
  struct rdma_conn_param param = parameters(endpoint, &data);
  struct rc_cm *cm = endpoint->cm;

  cm->stage = STAGE_REQUEST;
  /* What the peer is told of it; the queue pair has it anyway. Linux before 5.1 has no such. */
  rdma_set_option(cm->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
  if (rdma_connect(cm->id, &param) != 0)
    fail(endpoint, -errno, "rdma_connect");
}

/* ---- The end that is asked ------------------------------------------------------------------ */

static void turn_away(struct rdma_cm_id *id)
{
  rdma_reject(id, NULL, 0);
  rdma_destroy_id(id);
}

static struct pst_endpoint *find_token(const struct pst_worker *worker, uint64_t token)
{
  for (uint32_t i = 0; i < worker->endpoints.room; i++) {
    struct pst_endpoint *endpoint = worker->endpoints.all[i].at;
    if (endpoint && endpoint->cm && endpoint->own.cm_token == token)
      return endpoint;
  }
  return NULL;
}

static void settle(struct pst_endpoint *endpoint)
{
  endpoint->cm->stage = STAGE_SETTLED;
  int rc = rc_set_up_soon(endpoint);
  if (rc < 0)
    rc_fail(endpoint, rc, "no memory to connect with");
}

/* The request is there, and the peer is known. */
static void answer(struct pst_endpoint *endpoint)
{
  struct rc_cm *cm = endpoint->cm;

  if (cm->from == endpoint->peer.cm_token) {
    settle(endpoint);
    return;
  }
  RC_LOG(endpoint->device, PST_LOG_WARN,
         "%s: another than its peer asked by rdma_cm to be connected, and was refused",
         endpoint->label);
  turn_away(cm->id);
  cm->id = NULL;
}

static void asked(struct pst_worker *worker, const struct event *event)
{
  struct pst_endpoint *endpoint =
      event->has_data && memcmp(event->data.magic, magic, sizeof(magic)) == 0
          ? find_token(worker, be64toh(event->data.to))
          : NULL;

  bool is_free = endpoint && !endpoint->cm->id && !endpoint->close_mode &&
                 (endpoint->state == RC_NEW ||
                  (endpoint->state == RC_SETTING_UP && !rc_cm_connects(endpoint)));
  if (!is_free) {
    RC_LOG(worker->device, PST_LOG_DEBUG, "a request of rdma_cm was refused: %s",
           endpoint ? "its endpoint is connected already, or closing" : "of no endpoint's token");
    turn_away(event->id);
    return;
  }
  endpoint->cm->id = event->id;
  endpoint->cm->from = be64toh(event->data.from);
  event->id->context = endpoint;
  if (endpoint->state == RC_SETTING_UP)
    answer(endpoint);
}

void rc_cm_connect(struct pst_endpoint *endpoint)
{
  endpoint->state = RC_SETTING_UP;
  if (!rc_cm_connects(endpoint)) {
    if (endpoint->cm->id)
      answer(endpoint);
    return;
  }
  if (endpoint->cm->id) { /* it is not for the peer to ask */
    turn_away(endpoint->cm->id);
    endpoint->cm->id = NULL;
  }
  resolve(endpoint);
}

/* ---- The queue pair ---------------------------------------------------------------------------
 */

int rc_cm_attributes(struct pst_endpoint *endpoint, struct ibv_qp_attr *attr)
{
  const struct vb_path *path = &endpoint->device->path;
  struct ibv_qp_attr given = {.qp_state = attr->qp_state};
  struct rc_cm *cm = endpoint->cm;
  int mask;

  if (rdma_init_qp_attr(cm->id, &given, &mask) != 0)
    return errno;
  if (attr->qp_state == IBV_QPS_RTS) {
    attr->sq_psn = given.sq_psn;
    return 0;
  }
  attr->ah_attr = given.ah_attr;
  attr->rq_psn = given.rq_psn;
  attr->dest_qp_num = given.dest_qp_num;
  if (given.path_mtu < attr->path_mtu)
    attr->path_mtu = given.path_mtu;
  if (path->hop_limit_is_set)
    attr->ah_attr.grh.hop_limit = (uint8_t)path->hop_limit;
  if (path->service_level)
    attr->ah_attr.sl = (uint8_t)path->service_level;
  cm->gid_index = attr->ah_attr.grh.sgid_index;
  cm->hop_limit = attr->ah_attr.grh.hop_limit;
  return 0;
}

int rc_cm_settle(struct pst_endpoint *endpoint)
{
  struct private_data data;
  struct rdma_conn_param param = parameters(endpoint, &data);
  int rc = rc_cm_connects(endpoint) ? rdma_establish(endpoint->cm->id)
                                    : rdma_accept(endpoint->cm->id, &param);

  return rc == 0 ? 0 : errno ? errno : EIO;
}

void rc_cm_heard(struct pst_endpoint *endpoint)
{
  /* It is told nothing new where its own message was not lost. */
  if (!rc_cm_connects(endpoint) && endpoint->cm->id)
    rdma_notify(endpoint->cm->id, IBV_EVENT_COMM_EST);
}

/* ---- Events ------------------------------------------------------------------------------------
 */

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
    try_later(endpoint, rc_now_ns(endpoint->device));
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
      resolve_route(endpoint);
    break;
  case RDMA_CM_EVENT_ROUTE_RESOLVED:
    if (is_on)
      ask(endpoint);
    break;
  case RDMA_CM_EVENT_CONNECT_RESPONSE:
    if (is_on)
      settle(endpoint);
    break;
  case RDMA_CM_EVENT_ADDR_ERROR:
  case RDMA_CM_EVENT_ROUTE_ERROR:
  case RDMA_CM_EVENT_CONNECT_ERROR:
  case RDMA_CM_EVENT_UNREACHABLE:
  case RDMA_CM_EVENT_REJECTED:
    failed(endpoint, event);
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
      asked(worker, &event);
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
    resolve(endpoint);
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

void rc_cm_describe(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct rc_cm *cm = endpoint->cm;

  if (endpoint->state == RC_CONNECTED)
    snprintf(text, size, "by rdma_cm with GID %u and hop limit %u", cm->gid_index, cm->hop_limit);
  else
    snprintf(text, size, "by rdma_cm");
}
