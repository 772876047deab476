/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints by rdma_cm. Either side first: a request that comes before its endpoint was told of the
 * peer waits with it; the kernel at the other end is told that it does. What may pass (no neighbour
 * yet, a link that is down, the number of an ended connection) is tried again until timeout_ns is
 * over.
 */
#include <sys/random.h>

#include "cm_inside.h"

#define RESOLVE_MS 1000              /* for a neighbour to answer, a try */
#define AGAIN_NS UINT64_C(100000000) /* between tries */

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
  made->missed_event = -1;
  /* A peer that only sends is never asked. */
  bool is_asked = endpoint->rx || !endpoint->tx;
  if (is_asked && !worker->listener) {
    int rc = rc_cm_listen(endpoint);
    if (rc < 0)
      return rc;
  }
  endpoint->own.is_cm = true;
  endpoint->own.cm_port = is_asked ? worker->port : 0;
  uint64_t *token = &endpoint->own.cm_token;
  return getrandom(token, sizeof(*token), GRND_NONBLOCK) == sizeof(*token) ? 0 : -EAGAIN;
}

void rc_cm_close(struct pst_endpoint *endpoint)
{
  if (!endpoint->cm)
    return;
  rc_cm_drop(endpoint);
  if (endpoint->cm->next)
    rdma_destroy_id(endpoint->cm->next);
  free(endpoint->cm);
  endpoint->cm = NULL;
}

static void fail(struct pst_endpoint *endpoint, int status, const char *call)
{
  char why[192];

  snprintf(why, sizeof(why),
           "%s: %s; see `ip route get`, `rdma link` and the kernel's log (`dmesg`)", call,
           strerror(-status));
  if (rc_cm_reconnects(endpoint, -1, 0))
    RC_LOG(endpoint->device, PST_LOG_DEBUG, "%s: not re-established yet: %s", endpoint->label, why);
  else
    rc_fail(endpoint, status, why);
}

/* ---- The end that connects ----------------------------------------------------------------- */

void rc_cm_try_later(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  rc_cm_drop(endpoint);
  endpoint->cm->again_ns = now_ns + AGAIN_NS;
  rc_due(endpoint->worker, endpoint->cm->again_ns);
}

void rc_cm_resolve(struct pst_endpoint *endpoint)
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
  if (rdma_resolve_addr(cm->id, rc_cm_address(device, device->open.gid.raw, 0, &own),
                        rc_cm_address(device, peer->gid, peer->cm_port, &other), RESOLVE_MS) == 0)
    return;
  int error = errno;
  if (!vb_cm_is_passing(RDMA_CM_EVENT_ADDR_ERROR, -error))
    fail(endpoint, -error, "rdma_resolve_addr");
  else if (!rc_cm_reconnects(endpoint, RDMA_CM_EVENT_ADDR_ERROR, -error))
    rc_cm_try_later(endpoint, rc_now_ns(device));
}

void rc_cm_resolve_route(struct pst_endpoint *endpoint)
{
  struct pst_device *device = endpoint->device;
  uint8_t tos = (uint8_t)device->path.traffic_class;
  struct rc_cm *cm = endpoint->cm;

  cm->stage = STAGE_ROUTE;
  if (!rc_cm_is_ours(device, cm->id)) {
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

void rc_cm_ask(struct pst_endpoint *endpoint)
{
  uint8_t timeout = (uint8_t)endpoint->device->path.timeout;
  struct private_data data;
  struct rdma_conn_param param = rc_cm_parameters(endpoint, &data);
  struct rc_cm *cm = endpoint->cm;

  cm->stage = STAGE_REQUEST;
  /* What the peer is told of it; the queue pair has it anyway. Linux before 5.1 has no such. */
  rdma_set_option(cm->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof(timeout));
  if (rdma_connect(cm->id, &param) != 0)
    fail(endpoint, -errno, "rdma_connect");
}

/* ---- The end that is asked ------------------------------------------------------------------ */

/* For good: of other refusals, the kernel's among them, a peer that is to be had again thinks
 * nothing. */
static void turn_away(struct rdma_cm_id *id)
{
  struct private_data data = {0};

  memcpy(data.magic, rc_cm_magic, sizeof(rc_cm_magic));
  rdma_reject(id, &data, sizeof(data));
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

void rc_cm_set_up(struct pst_endpoint *endpoint)
{
  endpoint->cm->stage = STAGE_SETTLED;
  endpoint->reconnect.again_ns = RC_NEVER;
  int rc = rc_set_up_soon(endpoint);
  if (rc < 0)
    rc_fail(endpoint, rc, "no memory to connect with");
}

/* The request is there, and the peer is known. */
static void answer(struct pst_endpoint *endpoint)
{
  struct rc_cm *cm = endpoint->cm;

  if (cm->from == endpoint->peer.cm_token) {
    rc_cm_set_up(endpoint);
    return;
  }
  RC_LOG(endpoint->device, PST_LOG_WARN,
         "%s: another than its peer asked by rdma_cm to be connected, and was refused",
         endpoint->label);
  turn_away(cm->id);
  cm->id = NULL;
}

void rc_cm_asked(struct pst_worker *worker, const struct event *event)
{
  struct pst_endpoint *endpoint =
      event->has_data ? find_token(worker, be64toh(event->data.to)) : NULL;

  if (endpoint && rc_cm_comes_again(endpoint, event)) {
    rc_cm_asked_again(endpoint, event);
    return;
  }
  bool is_free = endpoint && !endpoint->cm->id && !endpoint->closing.mode &&
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
  rc_cm_resolve(endpoint);
}
