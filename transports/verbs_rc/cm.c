/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints by rdma_cm. Either side may be first: a request that comes before its endpoint knows
 * the peer waits, and the kernel at the other end is kept informed. Failures that may pass (no
 * neighbour yet, a link that is down, the number of an ended connection) are tried again until
 * timeout_ns is over.
 *
 * With `reconnect` an end that fails gives its id back, and the peer's kernel reports that: both
 * notice at once if packets pass. The connecting end asks again, as often as it takes; the other
 * one accepts once its queue pair has given everything back. A request of the peer that comes while
 * an endpoint is still connected shows that the connection has failed.
 *
 * The kernel gives first packet numbers with each request, so that no packet of a connection that
 * failed is taken for one of the next. Therefore both ends begin anew at each try. A connection
 * that only one end has is given up, when the kernel reports it or, since that may be lost, after a
 * while.
 */
#include <sys/random.h>

#include "cm_internal.h"

#define RESOLVE_MS 1000              /* for a neighbour to answer, in each try */
#define AGAIN_NS UINT64_C(100000000) /* between tries */
#define NOBODY_LISTENS 8             /* a reason of REJ: invalid service ID */

enum stage {
  STAGE_IDLE,    /* the peer is to ask, or is not known yet */
  STAGE_ADDRESS, /* resolving */
  STAGE_ROUTE,
  STAGE_REQUEST, /* asked, not answered */
  STAGE_SETTLED, /* the queue pair is being set up, or is */
};

struct rc_cm {
  struct rdma_cm_id *id;   /* NULL: none yet */
  struct rdma_cm_id *next; /* the peer's request to be connected anew, not answered yet */
  enum stage stage;
  uint64_t from; /* the token in the peer's request */
  uint64_t again_ns;
  uint32_t gid_index; /* as the kernel chose */
  uint32_t hop_limit;
  int missed_event, missed_status; /* why the last try to reconnect failed; -1: none did */
  bool has_left;                   /* the peer is gone: to be reported behind all that it sent */
};

/* Private data of a request, and of a refusal for good: all that is known of the peer so far. */
struct private_data {
  uint8_t magic[8];
  uint64_t to, from; /* tokens, big-endian */
};

static const uint8_t magic[8] = {'p', 's', 't', 'r', 'c', 'c', 'm', 1};

/* Members of an event that are kept after its acknowledgement. */
struct event {
  int type;
  int status;
  struct rdma_cm_id *id;
  bool has_data; /* the data are of our format */
  struct private_data data;
};

static struct rdma_conn_param rc_cm_parameters(const struct pst_endpoint *endpoint,
                                               struct private_data *data)
{
  const struct pst_device *device = endpoint->device;
  uint32_t own = (uint32_t)device->attr.max_qp_init_rd_atom, peer = endpoint->rc->peer.rd_atomic;

  memcpy(data->magic, magic, sizeof(magic));
  data->to = htobe64(endpoint->rc->peer.cm_token);
  data->from = htobe64(endpoint->rc->own.cm_token);
  return (struct rdma_conn_param){.private_data = data,
                                  .private_data_len = sizeof(*data),
                                  .responder_resources = endpoint->rc->own.rd_atomic,
                                  .initiator_depth = (uint8_t)(own < peer ? own : peer),
                                  .retry_count = (uint8_t)device->path.retry_cnt,
                                  .rnr_retry_count = (uint8_t)device->path.rnr_retry,
                                  .srq = endpoint->shared != NULL,
                                  .qp_num = endpoint->rc->lanes[0].qp->qp_num};
}

/* For each of several (`qps`) alike: the id's path is the endpoint's, and the first packet numbers,
 * which the kernel draws for each id, are as good for the others, since numbers are a queue pair's
 * own. The peer's address says which of its queue pairs is meant. The kernel knows only the first
 * one, so it does not reserve the numbers of the others for a while after the connection. A late
 * packet is still not taken for one of the next connection, which has other packet numbers. */
static int rc_cm_attributes(struct pst_endpoint *endpoint, struct ibv_qp_attr *attr)
{
  const struct vb_path *path = &endpoint->device->path;
  struct ibv_qp_attr given = {.qp_state = attr->qp_state};
  struct rc_cm *cm = endpoint->rc->cm;
  int mask;

  if (rdma_init_qp_attr(cm->id, &given, &mask) != 0)
    return errno;
  if (attr->qp_state == IBV_QPS_RTS) {
    attr->sq_psn = given.sq_psn;
    return 0;
  }
  attr->ah_attr = given.ah_attr;
  attr->rq_psn = given.rq_psn;
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

/* rdma_accept() is answered by a message of the peer's kernel, and data may come before that. It is
 * not for rdma_notify() to say so: what the kernel does then it does later, and an id that is
 * destroyed before holds rdma_destroy_id() up until the kernel gives up repeating its own message,
 * which takes it a minute. */
static int rc_cm_settle(struct pst_endpoint *endpoint)
{
  struct private_data data;
  struct rdma_conn_param param = rc_cm_parameters(endpoint, &data);
  int rc = rc_says_hello(endpoint) ? rdma_establish(endpoint->rc->cm->id)
                                   : rdma_accept(endpoint->rc->cm->id, &param);

  return rc == 0 ? 0 : errno ? errno : EIO;
}

static void rc_cm_describe(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct rc_cm *cm = endpoint->rc->cm;

  if (endpoint->rc->stage.name == RC_CONNECTED)
    snprintf(text, size, "by rdma_cm with GID %u and hop limit %u", cm->gid_index, cm->hop_limit);
  else
    snprintf(text, size, "by rdma_cm");
}

static bool rc_cm_waits(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  static const int events[] = {[STAGE_ADDRESS] = RDMA_CM_EVENT_ADDR_ERROR,
                               [STAGE_ROUTE] = RDMA_CM_EVENT_ROUTE_ERROR,
                               [STAGE_REQUEST] = RDMA_CM_EVENT_UNREACHABLE};
  enum stage stage = endpoint->rc->cm->stage;

  if (stage == STAGE_IDLE || stage == STAGE_SETTLED)
    return false;
  vb_cm_text(events[stage], -ETIMEDOUT, text, size);
  return true;
}

static void rc_cm_drop(struct pst_endpoint *endpoint)
{
  struct rc_cm *cm = endpoint->rc->cm;

  if (cm->has_left)
    rc_cm_of(endpoint->worker)->leavers--;
  cm->has_left = false;
  if (cm->id)
    rdma_destroy_id(cm->id);
  cm->id = NULL;
  cm->stage = STAGE_IDLE;
  cm->again_ns = VB_NEVER;
}

/* ---- Outcome of a try -------------------------------------------------------------------- */

static void rc_cm_left(struct pst_endpoint *endpoint)
{
  if (endpoint->rc->cm->has_left || rc_is_over(endpoint))
    return;
  endpoint->rc->cm->has_left = true;
  rc_cm_of(endpoint->worker)->leavers++;
  vb_pend(endpoint); /* no thread sleeps before it has the event */
}

static bool rc_cm_reconnects(struct pst_endpoint *endpoint, int event, int status)
{
  if (!rc_is_reconnecting(endpoint))
    return false;
  endpoint->rc->cm->missed_event = event;
  endpoint->rc->cm->missed_status = status;
  rc_reconnect_again(endpoint, AGAIN_NS);
  return true;
}

static void rc_cm_fail(struct pst_endpoint *endpoint, int status, const char *call)
{
  char why[192];

  snprintf(why, sizeof(why),
           "%s: %s; see `ip route get`, `rdma link` and the kernel's log (`dmesg`)", call,
           strerror(-status));
  if (rc_cm_reconnects(endpoint, -1, 0))
    VB_LOG(endpoint->device, PST_LOG_DEBUG, "%s: not re-established yet: %s", endpoint->label, why);
  else
    rc_fail(endpoint, status, why);
}

/* ---- The end that connects --------------------------------------------------------------- */

static void rc_cm_try_later(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  rc_cm_drop(endpoint);
  endpoint->rc->cm->again_ns = now_ns + AGAIN_NS;
  vb_due(endpoint->worker, endpoint->rc->cm->again_ns);
}

static void rc_cm_resolve(struct pst_endpoint *endpoint)
{
  const struct pst_device *device = endpoint->device;
  const struct rc_blob *peer = &endpoint->rc->peer;
  struct sockaddr_storage own, other;
  struct rc_cm *cm = endpoint->rc->cm;

  cm->stage = STAGE_ADDRESS;
  cm->again_ns = VB_NEVER;
  if (rdma_create_id(rc_cm_of(endpoint->worker)->channel, &cm->id, endpoint, RDMA_PS_TCP) != 0) {
    cm->id = NULL;
    rc_cm_fail(endpoint, -errno, "rdma_create_id");
    return;
  }
  if (rdma_resolve_addr(cm->id, rc_cm_address(endpoint, endpoint->rc->where.gid.raw, 0, &own),
                        rc_cm_address(endpoint, peer->gid, peer->cm_port, &other), RESOLVE_MS) == 0)
    return;
  int error = errno;
  if (!vb_cm_is_passing(RDMA_CM_EVENT_ADDR_ERROR, -error))
    rc_cm_fail(endpoint, -error, "rdma_resolve_addr");
  else if (!rc_cm_reconnects(endpoint, RDMA_CM_EVENT_ADDR_ERROR, -error))
    rc_cm_try_later(endpoint, vb_now_ns(device));
}

static void rc_cm_resolve_route(struct pst_endpoint *endpoint)
{
  struct pst_device *device = endpoint->device;
  uint8_t tos = (uint8_t)device->path.traffic_class;
  struct rc_cm *cm = endpoint->rc->cm;

  cm->stage = STAGE_ROUTE;
  if (!rc_cm_is_ours(device, cm->id)) {
    rc_fail(endpoint, -EXDEV,
            "rdma_cm chose another device for this port's address, which two ports have; give "
            "each port its own (`ip addr`, `rdma link`)");
    return;
  }
  /* Before the route is resolved, since it is part of it. */
  if (tos && rdma_set_option(cm->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) != 0)
    rc_cm_fail(endpoint, -errno, "rdma_set_option of traffic_class");
  else if (rdma_resolve_route(cm->id, RESOLVE_MS) != 0)
    rc_cm_fail(endpoint, -errno, "rdma_resolve_route");
}

static void rc_cm_ask(struct pst_endpoint *endpoint)
{
  uint8_t timeout = (uint8_t)endpoint->device->path.timeout;
  struct private_data data;
  struct rdma_conn_param param = rc_cm_parameters(endpoint, &data);
  struct rc_cm *cm = endpoint->rc->cm;

  cm->stage = STAGE_REQUEST;
  /* This is for the peer; the queue pair has it anyway. Linux before 5.1 does not know the
   * option. */
  rdma_set_option(cm->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
  if (rdma_connect(cm->id, &param) != 0)
    rc_cm_fail(endpoint, -errno, "rdma_connect");
}

/* ---- The end that is asked --------------------------------------------------------------- */

/* Refuses for good. After any other refusal, also of the kernel, a peer that reconnects tries
 * again. */
static void rc_cm_turn_away(struct rdma_cm_id *id)
{
  struct private_data data = {0};

  memcpy(data.magic, magic, sizeof(magic));
  rdma_reject(id, &data, sizeof(data));
  rdma_destroy_id(id);
}

static struct pst_endpoint *rc_cm_find_token(const struct pst_worker *worker, uint64_t token)
{
  for (uint32_t i = 0; i < worker->endpoints.room; i++) {
    struct pst_endpoint *endpoint = worker->endpoints.all[i].at;
    if (endpoint && endpoint->rc->cm && endpoint->rc->own.cm_token == token)
      return endpoint;
  }
  return NULL;
}

static void rc_cm_set_up(struct pst_endpoint *endpoint)
{
  endpoint->rc->cm->stage = STAGE_SETTLED;
  if (rc_is_reconnecting(endpoint))
    endpoint->rc->stage.again.again_ns = VB_NEVER;
  rc_set_up_again(endpoint);
}

/* The request is there, and the peer is known. */
static void rc_cm_answer(struct pst_endpoint *endpoint)
{
  struct rc_cm *cm = endpoint->rc->cm;

  if (cm->from == endpoint->rc->peer.cm_token) {
    rc_cm_set_up(endpoint);
    return;
  }
  VB_LOG(endpoint->device, PST_LOG_WARN,
         "%s: refused a request of rdma_cm that came from another end than the peer",
         endpoint->label);
  rc_cm_turn_away(cm->id);
  cm->id = NULL;
}

static bool rc_cm_comes_again(const struct pst_endpoint *endpoint, const struct event *event)
{
  const enum rc_stage_name stage = endpoint->rc->stage.name;
  const bool is_or_was = (stage >= RC_GREETING && stage < RC_LEFT) ||
                         (stage == RC_SETTING_UP && endpoint->rc->cm->stage == STAGE_SETTLED);

  return endpoint->device->reconnect_ns && is_or_was && !endpoint->closing.mode &&
         !rc_says_hello(endpoint) && be64toh(event->data.from) == endpoint->rc->peer.cm_token;
}

static void rc_cm_asked_again(struct pst_endpoint *endpoint, const struct event *event)
{
  struct rc_cm *cm = endpoint->rc->cm;

  if (cm->next) /* which the peer has given up */
    rdma_destroy_id(cm->next);
  cm->next = event->id;
  event->id->context = endpoint;
  if (endpoint->rc->stage.name != RC_FLUSHING) {
    rc_cm_left(endpoint);
    return;
  }
  if (endpoint->rc->stage.again.again_ns == VB_NEVER)
    endpoint->rc->stage.again.again_ns = 0;
  vb_pend(endpoint);
}

static void rc_cm_asked(struct pst_worker *worker, const struct event *event)
{
  struct pst_endpoint *endpoint =
      event->has_data ? rc_cm_find_token(worker, be64toh(event->data.to)) : NULL;

  if (endpoint && rc_cm_comes_again(endpoint, event)) {
    rc_cm_asked_again(endpoint, event);
    return;
  }
  bool is_free = endpoint && !endpoint->rc->cm->id && !endpoint->closing.mode &&
                 (endpoint->rc->stage.name == RC_NEW ||
                  (endpoint->rc->stage.name == RC_SETTING_UP && !rc_says_hello(endpoint)));
  if (!is_free) {
    VB_LOG(worker->device, PST_LOG_DEBUG, "a request of rdma_cm was refused: %s",
           endpoint ? "its endpoint is connected already, or closing"
                    : "its token belongs to no endpoint");
    rc_cm_turn_away(event->id);
    return;
  }
  endpoint->rc->cm->id = event->id;
  endpoint->rc->cm->from = be64toh(event->data.from);
  event->id->context = endpoint;
  if (endpoint->rc->stage.name == RC_SETTING_UP)
    rc_cm_answer(endpoint);
}

/* ---- Both -------------------------------------------------------------------------------- */

static void rc_cm_connect(struct pst_endpoint *endpoint)
{
  rc_enter(endpoint, RC_SETTING_UP);
  if (!rc_says_hello(endpoint)) {
    if (endpoint->rc->cm->id)
      rc_cm_answer(endpoint);
    return;
  }
  if (endpoint->rc->cm->id) { /* the peer has no right to ask */
    rc_cm_turn_away(endpoint->rc->cm->id);
    endpoint->rc->cm->id = NULL;
  }
  rc_cm_resolve(endpoint);
}

static void rc_cm_reconnect(struct pst_endpoint *endpoint)
{
  struct rc_cm *cm = endpoint->rc->cm;

  if (rc_says_hello(endpoint)) {
    rc_enter(endpoint, RC_SETTING_UP_AGAIN);
    rc_reconnect_within(endpoint, RC_CM_TRY_NS);
    rc_cm_resolve(endpoint);
    return;
  }
  if (!cm->next) {
    endpoint->rc->stage.again.again_ns = VB_NEVER;
    return;
  }
  cm->id = cm->next;
  cm->next = NULL;
  rc_cm_set_up(endpoint);
}

static void rc_cm_look(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  struct rc_cm *cm = endpoint->rc->cm;

  if (cm->again_ns == VB_NEVER || endpoint->rc->stage.name != RC_SETTING_UP)
    return;
  if (now_ns >= cm->again_ns)
    rc_cm_resolve(endpoint);
  else
    vb_due(endpoint->worker, cm->again_ns);
}

/* ---- Events ------------------------------------------------------------------------------ */

/* True if the endpoint is gone, or nothing listens: a later try would fail, too. */
static bool rc_cm_is_for_good(const struct event *event)
{
  return event->type == RDMA_CM_EVENT_REJECTED &&
         (event->has_data || event->status == NOBODY_LISTENS);
}

/* Notes the failure of a try to reconnect. */
static void rc_cm_on_missed(struct pst_endpoint *endpoint, const struct event *event)
{
  if (endpoint->rc->cm->stage == STAGE_SETTLED)
    rc_cm_left(endpoint);
  else
    rc_cm_reconnects(endpoint, event->type, event->status);
}

/* Fails a connection that does not stand yet. Later, errors of the queue pair do. */
static void rc_cm_failed(struct pst_endpoint *endpoint, const struct event *event)
{
  char why[1024];

  const enum rc_stage_name stage = endpoint->rc->stage.name;
  const bool is_again = stage == RC_SETTING_UP_AGAIN || stage == RC_GREETING_AGAIN;
  if (!is_again && stage != RC_SETTING_UP && stage != RC_GREETING)
    return;
  if (is_again && !rc_cm_is_for_good(event)) {
    rc_cm_on_missed(endpoint, event);
    return;
  }
  if (endpoint->rc->cm->stage < STAGE_SETTLED && vb_cm_is_passing(event->type, event->status)) {
    rc_cm_try_later(endpoint, vb_now_ns(endpoint->device));
    return;
  }
  const struct vb_status *what = event->type == RDMA_CM_EVENT_REJECTED
                                     ? vb_cm_rejection(event->status)
                                     : vb_cm_event(event->type);
  vb_cm_text(event->type, event->status, why, sizeof(why));
  rc_fail(endpoint, what->error ? what->error : -EIO, why);
}

static bool rc_cm_of_next(struct pst_endpoint *endpoint, const struct event *event)
{
  struct rc_cm *cm = endpoint->rc->cm;

  if (event->id != cm->next)
    return false;
  /* Nothing good can be told of a request that was not answered. */
  rdma_destroy_id(cm->next);
  cm->next = NULL;
  return true;
}

/* Handles an event of rdma_cm for an endpoint. Events that come too late are ignored. */
static void rc_cm_take_of(struct pst_endpoint *endpoint, const struct event *event)
{
  bool is_on = (endpoint->rc->stage.name == RC_SETTING_UP ||
                endpoint->rc->stage.name == RC_SETTING_UP_AGAIN) &&
               !endpoint->closing.mode;

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
    rc_cm_failed(endpoint, event);
    break;
  case RDMA_CM_EVENT_REJECTED:
    rc_cm_failed(endpoint, event);
    /* The peer's end went away before its kernel learned that the connection stands. */
    if (endpoint->rc->stage.name == RC_CONNECTED)
      rc_cm_left(endpoint);
    break;
  case RDMA_CM_EVENT_DISCONNECTED:
    rc_cm_left(endpoint);
    break;
  default:
    break;
  }
}

static void rc_cm_take_of_device(struct pst_device *device, const struct event *event)
{
  char text[512];

  if (event->type != RDMA_CM_EVENT_DEVICE_REMOVAL && event->type != RDMA_CM_EVENT_ADDR_CHANGE)
    return;
  vb_cm_text(event->type, event->status, text, sizeof(text));
  bool is_lost = event->type == RDMA_CM_EVENT_DEVICE_REMOVAL;
  if (is_lost)
    atomic_store(&device->is_lost, true);
  VB_LOG(device, is_lost ? PST_LOG_ERROR : PST_LOG_WARN, "%s: %s", device->open.info->name, text);
}

static void rc_cm_events(struct pst_worker *worker)
{
  struct rdma_cm_event *given;

  while (rdma_get_cm_event(rc_cm_of(worker)->channel, &given) == 0) {
    struct event event = {.type = given->event, .status = given->status, .id = given->id};
    const struct rdma_conn_param *param = &given->param.conn;
    bool is_request = event.type == RDMA_CM_EVENT_CONNECT_REQUEST;
    bool may_say = is_request || event.type == RDMA_CM_EVENT_REJECTED;
    /* The kernel hands its whole field over, padded. */
    if (may_say && param->private_data && param->private_data_len >= sizeof(event.data)) {
      memcpy(&event.data, param->private_data, sizeof(event.data));
      event.has_data = memcmp(event.data.magic, magic, sizeof(event.data.magic)) == 0;
    }
    rdma_ack_cm_event(given); /* destroying an id waits for it */
    rc_cm_take_of_device(worker->device, &event);
    if (is_request)
      rc_cm_asked(worker, &event);
    else if (event.id->context)
      rc_cm_take_of(event.id->context, &event);
  }
}

/* True while something that came before must be handled first: a hello, or the result of deferred
 * work. */
static bool rc_cm_is_early(const struct pst_endpoint *endpoint)
{
  if (!endpoint->device->reconnect_ns)
    return false;
  if (endpoint->rc->stage.name == RC_SETTING_UP)
    return endpoint->rc->stage.connecting.is_heard_early || endpoint->rc->cm->next;
  return endpoint->rc->stage.name == RC_SETTING_UP_AGAIN ||
         (endpoint->rc->stage.name == RC_GREETING && endpoint->rc->cm->next);
}

static void rc_cm_leave_one(struct pst_endpoint *endpoint)
{
  char why[512];

  if (endpoint->closing.mode)
    return;
  if (rc_is_reconnecting(endpoint)) {
    rc_reconnect_again(endpoint, 0);
    return;
  }
  if (endpoint->rc->cm->next)
    snprintf(why, sizeof(why), "the peer's end failed: it asks by rdma_cm to be connected again");
  else
    vb_cm_text(RDMA_CM_EVENT_DISCONNECTED, 0, why, sizeof(why));
  rc_fail(endpoint, -ECONNRESET, why);
}

static void rc_cm_leave(struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->endpoints.room && rc_cm_of(worker)->leavers; i++) {
    struct pst_endpoint *endpoint = worker->endpoints.all[i].at;
    if (!endpoint || !endpoint->rc->cm || !endpoint->rc->cm->has_left || rc_cm_is_early(endpoint))
      continue;
    endpoint->rc->cm->has_left = false;
    rc_cm_of(worker)->leavers--;
    rc_cm_leave_one(endpoint);
  }
}

static void rc_cm_missed(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct rc_cm *cm = endpoint->rc->cm;

  if (rc_cm_waits(endpoint, text, size))
    return;
  if (cm->missed_event >= 0)
    vb_cm_text(cm->missed_event, cm->missed_status, text, size);
  else
    snprintf(text, size, "%s",
             rc_says_hello(endpoint) ? "no hello was answered" : "the peer did not ask for it");
}

/* ---- Endpoints --------------------------------------------------------------------------- */

static int rc_cm_open(struct pst_endpoint *endpoint)
{
  struct rc_cm_worker *worker = rc_cm_of(endpoint->worker);
  struct rc_cm *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  endpoint->rc->cm = made;
  made->again_ns = VB_NEVER;
  made->missed_event = -1;
  /* A peer that only sends is never asked. */
  bool is_asked = endpoint->rx || !endpoint->tx;
  if (is_asked && !worker->listener) {
    int rc = rc_cm_listen(endpoint);
    if (rc < 0)
      return rc;
  }
  endpoint->rc->own.is_cm = true;
  endpoint->rc->own.cm_port = is_asked ? worker->port : 0;
  uint64_t *token = &endpoint->rc->own.cm_token;
  return getrandom(token, sizeof(*token), GRND_NONBLOCK) == sizeof(*token) ? 0 : -EAGAIN;
}

static void rc_cm_close(struct pst_endpoint *endpoint)
{
  rc_cm_drop(endpoint);
  if (endpoint->rc->cm->next)
    rdma_destroy_id(endpoint->rc->cm->next);
  free(endpoint->rc->cm);
  endpoint->rc->cm = NULL;
}

const struct rc_cm_ops rc_cm = {
    .check = rc_cm_check,
    .worker_open = rc_cm_worker_open,
    .worker_close = rc_cm_worker_close,
    .open = rc_cm_open,
    .close = rc_cm_close,
    .connect = rc_cm_connect,
    .attributes = rc_cm_attributes,
    .settle = rc_cm_settle,
    .drop = rc_cm_drop,
    .reconnect = rc_cm_reconnect,
    .missed = rc_cm_missed,
    .waits = rc_cm_waits,
    .events = rc_cm_events,
    .look = rc_cm_look,
    .leave = rc_cm_leave,
    .describe = rc_cm_describe,
};
