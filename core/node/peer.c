/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's life. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"
#include "util/limit_remedy.h"

/* Whose reason for the end is the better one. */
enum { RANK_NONE, RANK_TRANSPORT, RANK_CONTROL, RANK_OURS };

/* ---- Opening ----------------------------------------------------------------------- */

static int alloc_region(struct pst_node *node, uint64_t length, uint32_t needs, const char *label,
                        struct pst_region *region)
{
  const struct pst_memory_ops *memory = node->memory->plugin->memory;
  struct pst_alloc_params params = {.struct_size = sizeof(params),
                                    .length = length,
                                    .alignment = 4096,
                                    .needs = needs | PST_NEED_CPU_ACCESS,
                                    .label = label};
  const char *lacks;

  region->struct_size = sizeof(*region);
  int rc = memory->alloc(node->memory->memory, &params, region);
  if (rc < 0) {
    region->length = 0;
    return rc;
  }
  if (setup_region_meets(region, params.needs, &lacks))
    return 0;
  pst_log(PST_LOG_ERROR, "transport %s needs %s for messages, and memory %s (%s) has none",
          node->device->plugin->name, lacks, node->memory->plugin->name, region->backing);
  return -EOPNOTSUPP;
}

static int open_ring(struct pst_node *node, struct pst_peer *peer)
{
  const struct pst_limits *limits = &node->device->limits;
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_mr_params mr = {.struct_size = sizeof(mr),
                             .access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING,
                             .region = &peer->ring_region,
                             .length = node->ring_stride * node->messages,
                             .path = &path,
                             .domain = peer->id};
  /* Alone in its region: whoever may write into the ring may write nowhere else. */
  int rc =
      alloc_region(node, mr.length, limits->ring_needs, "messages of a peer", &peer->ring_region);

  if (rc == 0)
    rc = node->ops->mr_register(node->device->device, &mr, &peer->ring_mr);
  if (rc < 0)
    return rc;
  struct pst_ring_params ring = {.struct_size = sizeof(ring),
                                 .slots = node->messages,
                                 .mr = peer->ring_mr,
                                 .stride = node->ring_stride,
                                 .payload_max = node->message_max,
                                 .headroom = limits->headroom,
                                 .tailroom = limits->tailroom,
                                 .endpoints = 1};
  return node->ops->ring_open(node->worker, &ring, &path, &peer->ring);
}

static int open_send(struct pst_node *node, struct pst_peer *peer)
{
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_mr_params mr = {.struct_size = sizeof(mr),
                             .access = PST_ACCESS_LOCAL_READ,
                             .region = &peer->send_region,
                             .length = node->send_stride * node->messages,
                             .path = &path};
  int rc = alloc_region(node, mr.length, node->device->limits.send_needs, "messages to a peer",
                        &peer->send_region);

  if (rc == 0)
    rc = node->ops->mr_register(node->device->device, &mr, &peer->send_mr);
  peer->lengths = calloc(node->messages, sizeof(*peer->lengths));
  return rc == 0 && !peer->lengths ? -ENOMEM : rc;
}

/* An area whose memory's own copies will move what goes to this peer, if there is one. */
static const struct pst_area *device_area(const struct pst_node *node)
{
  const struct pst_area *area = node->areas;

  while (area && area->own.region.host)
    area = area->next;
  return area;
}

static int open_endpoint(struct pst_node *node, struct pst_peer *peer)
{
  struct pst_endpoint_params params = {
      .struct_size = sizeof(params),
      .roles = PST_ROLE_SENDER | PST_ROLE_RECEIVER | PST_ROLE_RMA,
      .ring = peer->ring,
      .cookie = (uint64_t)(uintptr_t)peer,
      .options = node->transport->plugin.options,
      .label = "peer",
      .requests = node->depth + node->messages,
      .pieces = node->request_pieces,
      .message_max = node->message_max,
      .timeout_ns = node->connect_timeout_ns,
      .mr = device_area(node) ? device_area(node)->own.mr : peer->send_mr,
      .domain = peer->id,
  };

  return node->ops->endpoint_open(node->worker, &params, &peer->endpoint);
}

static void free_region(struct pst_node *node, struct pst_region *region)
{
  if (region->length)
    node->memory->plugin->memory->free_region(node->memory->memory, region);
}

static void drop_objects(struct pst_peer *peer)
{
  struct pst_node *node = peer->node;

  operate_close(peer);
  node->ops->ring_close(node->worker, peer->ring);
  if (peer->ring_mr)
    node->ops->mr_deregister(node->device->device, peer->ring_mr);
  if (peer->send_mr)
    node->ops->mr_deregister(node->device->device, peer->send_mr);
  free_region(node, &peer->ring_region);
  free_region(node, &peer->send_region);
  mail_free_blob(&peer->address);
  free(peer->lengths);
}

int peer_open(struct pst_node *node, uint64_t id, const char *text, struct pst_peer **peer)
{
  struct pst_peer *made = calloc(1, sizeof(*made));
  int rc = made ? node_reserve(node, node_entries(node)) : -ENOMEM;

  if (rc < 0) {
    free(made);
    return rc;
  }
  made->node = node;
  made->id = id;
  snprintf(made->text, sizeof(made->text), "%s", text);
  rc = open_ring(node, made);
  if (rc == 0)
    rc = open_send(node, made);
  if (rc == 0)
    rc = operate_open(made);
  if (rc == 0)
    rc = open_endpoint(node, made);
  if (rc < 0) {
    drop_objects(made);
    node_unreserve(node, node_entries(node));
    free(made);
    return rc;
  }
  made->rma.endpoint = made->endpoint;
  made->next = node->peers;
  node->peers = made;
  node->peer_count++;
  *peer = made;
  return 0;
}

void peer_forget(struct pst_peer *peer)
{
  remote_drop_all(peer);
  drop_objects(peer);
  peer->node->peer_count--;
  free(peer);
}

/* ---- Leaving ----------------------------------------------------------------------- */

static void give_reason(struct pst_peer *peer, int rank, int code, const char *text)
{
  if (rank <= peer->rank)
    return;
  peer->rank = rank;
  peer->code = code;
  snprintf(peer->end_text, sizeof(peer->end_text), "%s", text ? text : "");
}

static void close_endpoint(struct pst_peer *peer, uint32_t mode)
{
  struct pst_node *node = peer->node;

  peer->is_closing = true;
  peer->deadline_ns = 0;
  if (!peer->control_over)
    control_node_bye(node->control, peer->id, peer->code, peer->end_text);
  peer->control_over = true;
  node->ops->endpoint_close(peer->endpoint, mode, clock_now_ns() + NODE_GRACE_NS);
}

const char *node_limit_remedy(int code)
{
  return code == -EMFILE ? "; raise `ulimit -n` of the process that says so" : "";
}

void peer_leave(struct pst_peer *peer, uint32_t mode, int code, const char *text)
{
  if (peer->state >= NODE_PEER_LEAVING)
    return;
  give_reason(peer, RANK_OURS, code, text);
  peer->state = NODE_PEER_LEAVING;
  peer->rma.cancelled = peer->code < 0 ? peer->code : -ECANCELED;
  if (peer->rma.rest_slot != RMA_NO_SLOT)
    rma_end_rest(&peer->rma, peer->rma.cancelled);
  /* What was sent goes first, in progress(). */
  if (mode == PST_CLOSE_DRAIN && peer->posted != peer->queued)
    peer->deadline_ns = clock_now_ns() + NODE_GRACE_NS;
  else
    close_endpoint(peer, mode);
}

/* Both words have come, or enough time has gone by. */
static void leave_by_reason(struct pst_peer *peer)
{
  char text[NODE_TEXT_MAX];
  int code = peer->code;

  memcpy(text, peer->end_text, sizeof(text));
  peer_leave(peer, PST_CLOSE_ABORT, code, text);
}

void peer_control_over(struct pst_peer *peer, int code, const char *text)
{
  peer->control_over = true;
  give_reason(peer, RANK_CONTROL, code, text);
  if (peer->state >= NODE_PEER_LEAVING)
    return;
  if (peer->state == NODE_PEER_JOINING || peer->transport_over)
    leave_by_reason(peer);
  else
    peer->deadline_ns = clock_now_ns() + NODE_GRACE_NS;
}

void peer_transport_over(struct pst_peer *peer, int status)
{
  char text[NODE_TEXT_MAX];

  if (peer->transport_over)
    return;
  peer->transport_over = true;
  snprintf(text, sizeof(text), "%s: the transport has lost it: %s", peer->text,
           strerror(status ? -status : ECONNRESET));
  give_reason(peer, RANK_TRANSPORT, status ? status : -ECONNRESET, text);
  if (peer->state >= NODE_PEER_LEAVING)
    return;
  if (peer->control_over)
    leave_by_reason(peer);
  else
    peer->deadline_ns = clock_now_ns() + NODE_GRACE_NS;
}

/* Its endpoint is closed: nothing of it is under way any more. */
static void end(struct pst_peer *peer)
{
  peer->is_closed = true;
  if (peer->state < NODE_PEER_LEAVING) /* a bug of the transport */
    peer_transport_over(peer, -EIO);
  rma_abandon(&peer->rma, peer->rma.cancelled);
  offer_drop_all(peer);
  peer->state = NODE_PEER_LEFT;
  peer->deadline_ns = 0;
  if (peer->is_silent)
    return;
  struct node_entry *entry = node_tell(peer, PST_NODE_LEFT);
  entry->event.status = peer->code;
  entry->event.text = peer->end_text;
}

/* ---- Meeting and going on ---------------------------------------------------------- */

int peer_address(struct pst_peer *peer, void *bytes, struct pst_blob *blob)
{
  struct pst_node *node = peer->node;

  *blob = (struct pst_blob){
      .struct_size = sizeof(*blob), .capacity = CONTROL_ADDRESS_MAX, .bytes = bytes};
  if (node->device->limits.address_max > CONTROL_ADDRESS_MAX)
    return -E2BIG;
  return node->ops->endpoint_address(peer->endpoint, blob);
}

/* -EALREADY: still connecting, to the address before. */
static int meet(struct pst_peer *peer, const struct pst_blob *address)
{
  struct pst_node *node = peer->node;
  char text[NODE_TEXT_MAX];

  pst_log_clear_error();
  int rc = node->ops->endpoint_connect(peer->endpoint, address);
  if (rc == 0) {
    peer->is_connected = false;
    if (!peer->control_over && !peer->transport_over)
      peer->deadline_ns = clock_now_ns() + node->connect_timeout_ns;
    return 0;
  }
  if (rc == -EALREADY)
    return rc;
  if (pst_log_last_error()[0])
    snprintf(text, sizeof(text), "%s: %s", peer->text, pst_log_last_error());
  else
    snprintf(text, sizeof(text),
             "%s: transport %s cannot reach it: %s; take a transport that reaches that host",
             peer->text, node->device->plugin->name, strerror(-rc));
  peer_leave(peer, PST_CLOSE_ABORT, rc, text);
  return rc;
}

void peer_meet(struct pst_peer *peer, const struct pst_blob *address, uint64_t message_max)
{
  const struct pst_node *node = peer->node;

  peer->message_max = message_max < node->message_max ? message_max : node->message_max;
  meet(peer, address);
}

void peer_meet_again(struct pst_peer *peer, struct pst_blob *address)
{
  if (peer->state >= NODE_PEER_LEAVING || peer->transport_over)
    return;
  if (meet(peer, address) != -EALREADY)
    return;
  mail_free_blob(&peer->address);
  peer->address = *address;
  *address = (struct pst_blob){0};
}

void peer_leave_untold(struct pst_peer *peer, int code)
{
  char text[256];

  snprintf(text, sizeof(text), "the endpoint's address cannot be sent: %s%s", strerror(-code),
           node_limit_remedy(code));
  peer_leave(peer, PST_CLOSE_ABORT, code, text);
}

/* Ours has changed: without it the peer would go on to reach for what is no more. */
static void readdress(struct pst_peer *peer)
{
  unsigned char bytes[CONTROL_ADDRESS_MAX];
  struct pst_blob blob;

  if (peer->state >= NODE_PEER_LEAVING || peer->control_over || peer->transport_over)
    return;
  int rc = peer_address(peer, bytes, &blob);
  if (rc == 0)
    rc = control_node_readdress(peer->node->control, peer->id, &blob);
  if (rc < 0)
    peer_leave_untold(peer, rc);
}

static void connected(struct pst_peer *peer)
{
  struct pst_blob address = peer->address;

  peer->is_connected = true;
  if (peer->state >= NODE_PEER_LEAVING)
    return;
  if (!peer->control_over && !peer->transport_over)
    peer->deadline_ns = 0;
  if (peer->state == NODE_PEER_JOINING) {
    peer->state = NODE_PEER_JOINED;
    node_tell(peer, PST_NODE_JOINED)->event.text = peer->text;
  }
  if (address.bytes) {
    peer->address = (struct pst_blob){0};
    peer_meet_again(peer, &address);
    mail_free_blob(&address);
  }
  if (peer->is_connected)
    remote_open_all(peer);
}

static void take_message(struct pst_peer *peer, const struct pst_completion *completion)
{
  struct pst_node *node = peer->node;
  uint64_t token = completion->u.message.token;
  uint32_t buffer = completion->u.message.buffer;
  const uint8_t *base = peer->ring_region.host;

  if (buffer)
    base = buffer < SESSION_LENT_MAX ? node->lent[buffer] : NULL;
  if (peer->state != NODE_PEER_JOINED || !base) {
    node->ops->release(node->worker, &token, 1);
    return;
  }
  struct node_entry *entry = node_tell(peer, PST_NODE_MESSAGE);
  entry->token = token;
  entry->event.bytes = base + completion->u.message.offset;
  entry->event.length = completion->u.message.length;
}

static void take_done(struct pst_peer *peer, const struct pst_completion *completion)
{
  if (completion->code == PST_OP_SEND) {
    message_took(peer, completion);
    return;
  }
  if (rma_done(&peer->rma, completion))
    return;
  pst_log(PST_LOG_ERROR, "transport %s ends a request that is not under way: a bug of it",
          peer->node->device->plugin->name);
  peer_leave(peer, PST_CLOSE_ABORT, -EIO, "its transport has lost count of requests");
}

void peer_take(struct pst_peer *peer, const struct pst_completion *completion)
{
  if (completion->kind == PST_COMPLETION_MESSAGE) {
    take_message(peer, completion);
    return;
  }
  if (completion->kind == PST_COMPLETION_DONE) {
    take_done(peer, completion);
    return;
  }
  switch (completion->code) {
  case PST_EVENT_CONNECTED:
    connected(peer);
    break;
  case PST_EVENT_DISCONNECTED:
    peer_transport_over(peer, completion->status);
    break;
  case PST_EVENT_READDRESS:
    readdress(peer);
    break;
  case PST_EVENT_CLOSED:
    end(peer);
    break;
  default:
    break;
  }
}

static bool is_through(const struct pst_peer *peer)
{
  return peer->state == NODE_PEER_LEAVING && !peer->is_closing &&
         (peer->posted == peer->queued || peer->transport_over);
}

static bool is_room_due(const struct pst_peer *peer)
{
  return peer->state == NODE_PEER_JOINED && !peer->is_room_told &&
         ((peer->wants_send_room && message_has_room(peer)) ||
          (peer->wants_post_room && operate_has_room(peer)));
}

bool peer_is_due(const struct pst_peer *peer)
{
  return is_through(peer) || is_room_due(peer);
}

static void overdue(struct pst_peer *peer)
{
  char text[NODE_TEXT_MAX];

  peer->deadline_ns = 0;
  if (peer->state == NODE_PEER_LEAVING) {
    close_endpoint(peer, PST_CLOSE_ABORT);
    return;
  }
  if (peer->rank == RANK_NONE) {
    snprintf(text, sizeof(text), "%s: transport %s did not connect within %.3g s", peer->text,
             peer->node->device->plugin->name,
             (double)peer->node->connect_timeout_ns / (double)PST_NS_PER_S);
    give_reason(peer, RANK_TRANSPORT, -ETIMEDOUT, text);
  }
  leave_by_reason(peer);
}

void peer_progress(struct pst_peer *peer, uint64_t now)
{
  if (peer->is_connected && (peer->state == NODE_PEER_JOINED ||
                             (peer->state == NODE_PEER_LEAVING && !peer->is_closing))) {
    message_push(peer);
    rma_push(&peer->rma);
  }
  if (is_through(peer))
    close_endpoint(peer, PST_CLOSE_DRAIN);
  if (is_room_due(peer)) {
    peer->is_room_told = true;
    peer->wants_send_room = peer->wants_post_room = false;
    node_tell(peer, PST_NODE_ROOM);
  }
  if (peer->deadline_ns && now >= peer->deadline_ns)
    overdue(peer);
}

/* ---- What applications call -------------------------------------------------------- */

int pst_node_connect(struct pst_node *node, const char *address, struct pst_peer **peer,
                     struct pst_error *error)
{
  unsigned char bytes[CONTROL_ADDRESS_MAX];
  struct pst_blob blob;
  struct pst_peer *made;
  char text[192];

  if (node->peer_count >= node->peers_max)
    return pst_fail(error, PST_EXIT_USAGE, -EUSERS,
                    "there are as many peers as the limit `peers` says: %u", node->peers_max);
  snprintf(text, sizeof(text), "what answers at %s", address);
  int rc = peer_open(node, node->id_last += 2, text, &made);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "no resources for another peer: %s%s",
                    strerror(-rc), limit_remedy(rc));
  rc = peer_address(made, bytes, &blob);
  if (rc < 0)
    pst_fail(error, PST_EXIT_FAILED, rc, "transport %s: no endpoint address: %s",
             node->device->plugin->name, strerror(-rc));
  else
    rc = control_node_connect(node->control, made->id, address, node->insecure, &blob, error);
  if (rc < 0) {
    /* The application never saw it. */
    made->is_silent = made->control_over = true;
    peer_leave(made, PST_CLOSE_ABORT, rc, NULL);
    return rc;
  }
  *peer = made;
  return 0;
}

void pst_peer_close(struct pst_peer *peer, int code, const char *text)
{
  peer_leave(peer, code == 0 && peer->state == NODE_PEER_JOINED ? PST_CLOSE_DRAIN : PST_CLOSE_ABORT,
             code > 0 ? -code : code, text);
}

void pst_peer_set_context(struct pst_peer *peer, void *context)
{
  peer->context = context;
}

void *pst_peer_context(const struct pst_peer *peer)
{
  return peer->context;
}

const char *pst_peer_text(const struct pst_peer *peer)
{
  return peer->text;
}

int pst_peer_path(const struct pst_peer *peer, struct pst_path_info *path)
{
  if (!peer->is_connected || peer->is_closed)
    return -ENOTCONN;
  return peer->node->ops->endpoint_path(peer->endpoint, path);
}
