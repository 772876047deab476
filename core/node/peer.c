/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's life. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer_rma.h"
#include "util/limit_remedy.h"

/* Messages are copied into slots of the node's, and posted as credit allows. */

#define BATCH 32

static bool message_has_room(const struct pst_peer *peer)
{
  const uint64_t held = peer->queued - peer->done;

  return held < peer->node->messages && send_pool_has_room(peer->sends, held);
}

static struct peer_message *message_of(const struct pst_peer *peer, uint64_t message)
{
  return &peer->messages[message % peer->node->messages];
}

static uint64_t message_place(const struct pst_peer *peer, uint64_t message)
{
  const struct pst_node *node = peer->node;

  return message_of(peer, message)->slot * node->send_stride + node->device->limits.send_headroom;
}

/* The oldest are done. */
static void message_forget(struct pst_peer *peer, uint64_t count)
{
  for (; count > 0; count--, peer->done++)
    send_pool_give(peer->sends, message_of(peer, peer->done)->slot, peer->queued - peer->done);
}

/* Posts queued messages in batches, until the transport takes no more. */
static void message_push(struct pst_peer *peer)
{
  struct pst_request requests[BATCH];
  uint32_t wait = PST_WAIT_NONE;

  while (peer_messages_wait(peer) && peer->is_connected && peer_state_takes(peer->state)) {
    uint32_t n = 0;
    for (; n < BATCH && peer->posted + n != peer->queued; n++) {
      uint64_t message = peer->posted + n;
      requests[n] = (struct pst_request){.opcode = PST_OP_SEND,
                                         .flags = PST_REQUEST_EXCLUSIVE,
                                         .local.mr = peer->sends->region.mr,
                                         .offset = message_place(peer, message),
                                         .arg.length = message_of(peer, message)->length,
                                         .cookie = message,
                                         .u.send.sequence = message};
    }
    int rc = engine_post(&peer->endpoint, requests, n, &wait);
    if (rc == -EAGAIN)
      return;
    if (rc < 0) {
      peer_transport_over(peer, rc == -ENOTCONN ? -ECONNRESET : rc);
      return;
    }
    peer->posted += (uint32_t)rc;
    if ((uint32_t)rc < n)
      return;
  }
}

static void peer_blame_transport(struct pst_peer *peer, const char *does, const char *text)
{
  pst_log(PST_LOG_ERROR, "transport %s %s: a bug of it", peer->node->device->plugin->name, does);
  peer_leave(peer, PST_CLOSE_ABORT, -EIO, text);
}

static void message_took(struct pst_peer *peer, const struct pst_completion *completion)
{
  uint64_t count = completion->u.done.count;

  if (count > peer->posted - peer->done) {
    peer_blame_transport(peer, "completes messages that were not sent",
                         "its transport has lost count of messages");
    return;
  }
  message_forget(peer, count);
  if (completion->status < 0)
    peer_transport_over(peer, completion->status == -ECANCELED ? -ECONNRESET : completion->status);
}

uint64_t pst_peer_message_max(const struct pst_peer *peer)
{
  return peer_state_is_in(peer->state) ? peer->message_max : 0;
}

int pst_peer_send(struct pst_peer *peer, const void *bytes, uint64_t length)
{
  if (peer->state != NODE_PEER_JOINED)
    return -ENOTCONN;
  if (length > peer->message_max)
    return -EMSGSIZE;
  if (!message_has_room(peer)) {
    peer->room_wanted |= PEER_ROOM_SEND;
    return -EAGAIN;
  }
  *message_of(peer, peer->queued) = (struct peer_message){
      send_pool_take(peer->sends, peer->queued - peer->done), (uint32_t)length};
  if (length)
    memcpy((uint8_t *)peer->sends->region.mem.host + message_place(peer, peer->queued), bytes,
           length);
  peer->queued++;
  message_push(peer);
  return 0;
}

/* JOINED, LEFT, ROOM and, for what is under way, a DONE or a MESSAGE each; of each region of the
 * peer's OFFERED and WITHDRAWN. Messages in a shared ring have room of the node's. */
static uint32_t peer_entries(const struct pst_node *node)
{
  return 3 + node->depth + (node->shares_ring ? 0 : node->messages) + 2 * node->offers;
}

/* ---- Opening ----------------------------------------------------------------------- */

/* A peer's own ring is alone in its region, so that a peer that may write into the ring may write
 * nowhere else. */
static int peer_open_ring(struct pst_node *node, struct pst_peer *peer)
{
  peer->ring = node->shares_ring ? &node->ring : &peer->own_ring;
  return node->shares_ring ? 0 : node_ring_open(node, &peer->own_ring, 1, peer->id, NULL);
}

/* Where a transport lends what is sent, receivers map it: each the slots of its messages alone. */
static int peer_open_sends(struct pst_node *node, struct pst_peer *peer)
{
  const bool is_lent = node->device->limits.capabilities & PST_CAP_LEND;

  peer->sends = is_lent ? &peer->own_sends : &node->sends;
  peer->messages = calloc(node->messages, sizeof(*peer->messages));
  if (!peer->messages)
    return -ENOMEM;
  return is_lent ? send_pool_open(node, &peer->own_sends, 1, NULL) : 0;
}

static int peer_open_endpoint(struct pst_node *node, struct pst_peer *peer)
{
  /* One whose memory's own copies will move what goes to this peer, if there is one. */
  const struct pst_area *area = node->areas;
  while (area && area->own.region.mem.host)
    area = area->next;
  struct pst_endpoint_params params = {
      .roles = PST_ROLE_SENDER | PST_ROLE_RECEIVER | PST_ROLE_RMA,
      .ring = peer->ring->ring,
      .options = node->transport->plugin.options,
      .label = "peer",
      .requests = node->depth + node->messages,
      .pieces = node->request_pieces,
      .message_max = node->message_max,
      .timeout_ns = node->connect_timeout_ns,
      .mr = area ? area->own.region.mr : peer->sends->region.mr,
      .domain = peer->id,
  };

  return engine_endpoint_open(&peer->endpoint, &node->worker, &params);
}

int peer_open(struct pst_node *node, uint64_t id, const char *text, struct pst_peer **peer)
{
  struct pst_peer *made = calloc(1, sizeof(*made));
  int rc = made ? events_reserve(&node->events, peer_entries(node)) : -ENOMEM;

  if (rc < 0) {
    free(made);
    return rc;
  }
  made->node = node;
  made->id = id;
  snprintf(made->text, sizeof(made->text), "%s", text);
  made->next = node->peers;
  node->peers = made;
  node->peer_count++;
  rc = peer_open_ring(node, made);
  if (rc == 0)
    rc = peer_open_sends(node, made);
  if (rc == 0)
    rc = peer_rma_open(made);
  if (rc == 0)
    rc = peer_open_endpoint(node, made);
  if (rc < 0) {
    peer_forget(made);
    return rc;
  }
  made->rma.endpoint = made->endpoint.handle;
  *peer = made;
  return 0;
}

void peer_forget(struct pst_peer *peer)
{
  struct pst_node *node = peer->node;
  struct pst_peer **at = &node->peers;

  while (*at != peer)
    at = &(*at)->next;
  *at = peer->next;
  node->peer_count--;
  events_unreserve(&node->events, peer_entries(node) + peer->takens);
  remote_drop_all(peer);
  peer_rma_close(peer);
  node_ring_close(node, &peer->own_ring);
  message_forget(peer, peer->queued - peer->done);
  send_pool_close(&peer->own_sends);
  blob_free(&peer->address);
  free(peer->messages);
  free(peer);
}

/* ---- Meeting and going on ---------------------------------------------------------- */

bool peer_say_address(struct pst_peer *peer, enum wire_type type)
{
  struct engine_address address;
  char text[256];
  int rc = engine_endpoint_address(&peer->endpoint, &address);

  if (rc == 0)
    rc = control_node_say(
        peer->node->control,
        &(struct control_node_message){.type = type, .id = peer->id, .blob = &address.blob});
  if (rc == 0)
    return true;
  snprintf(text, sizeof(text), "the endpoint's address cannot be sent: %s%s", strerror(-rc),
           peer_remedy(rc));
  peer_leave(peer, PST_CLOSE_ABORT, rc, text);
  return false;
}

/* Neither of the two words of its end has come. */
static bool peer_is_whole(const struct pst_peer *peer)
{
  return peer->state == NODE_PEER_JOINING || peer->state == NODE_PEER_JOINED;
}

/* -EALREADY: still connecting, to the address before. */
static int peer_connect_to(struct pst_peer *peer, const struct pst_blob *address)
{
  const struct pst_node *node = peer->node;
  struct engine_why why;
  char text[sizeof(peer->text) + sizeof(why.text) + 2];
  int rc = engine_endpoint_connect(&peer->endpoint, address, "it",
                                   "take a transport that reaches that host", &why);

  if (rc == 0) {
    peer->is_connected = false;
    if (peer_is_whole(peer))
      peer->deadline_ns = clock_now_ns() + node->connect_timeout_ns;
  } else if (rc != -EALREADY) {
    snprintf(text, sizeof(text), "%s: %s", peer->text, why.text);
    peer_leave(peer, PST_CLOSE_ABORT, rc, text);
  }
  return rc;
}

void peer_meet(struct pst_peer *peer, const struct pst_blob *address, uint64_t message_max)
{
  const struct pst_node *node = peer->node;

  peer->message_max = message_max < node->message_max ? message_max : node->message_max;
  peer_connect_to(peer, address);
}

void peer_meet_again(struct pst_peer *peer, struct pst_blob *address)
{
  if (!peer_is_whole(peer) && peer->state != NODE_PEER_CONTROL_LOST)
    return;
  if (peer_connect_to(peer, address) != -EALREADY)
    return;
  blob_free(&peer->address);
  peer->address = *address;
  *address = (struct pst_blob){0};
}

void peer_heard_connected(struct engine_endpoint *endpoint)
{
  struct pst_peer *peer = (struct pst_peer *)endpoint;
  struct pst_blob address = peer->address;

  peer->is_connected = true;
  if (peer->state == NODE_PEER_JOINING) {
    peer_enter(peer, NODE_PEER_JOINED, 0);
    peer_tell(peer, PST_NODE_JOINED)->event.text = peer->text;
  } else if (peer->state == NODE_PEER_JOINED) {
    peer->deadline_ns = 0;
  } else if (peer->state != NODE_PEER_CONTROL_LOST) {
    return;
  }
  if (address.bytes) {
    peer->address = (struct pst_blob){0};
    peer_meet_again(peer, &address);
    blob_free(&address);
  }
  if (peer->is_connected)
    remote_open_all(peer);
}

/* Nothing of it is under way any more. */
void peer_heard_closed(struct engine_endpoint *endpoint)
{
  struct pst_peer *peer = (struct pst_peer *)endpoint;

  peer_closed(peer);
  rma_abandon(&peer->rma, peer->rma.cancelled);
  offer_drop_all(peer);
  if (peer->is_silent)
    return;
  struct node_entry *entry = peer_tell(peer, PST_NODE_LEFT);
  entry->event.status = peer->end.code;
  entry->event.text = peer->end.text;
}

void peer_take_message(struct pst_peer *peer, const struct pst_completion *completion)
{
  struct pst_node *node = peer->node;
  const struct pst_region *region = &peer->ring->region.mem;
  uint64_t token = completion->u.message.token;
  uint32_t buffer = completion->u.message.buffer;

  if (buffer)
    region = engine_lent_find(&node->worker, buffer, region, false);
  if (!peer_state_is_in(peer->state) || !region) {
    engine_release(&node->worker, &token, 1);
    if (!region)
      peer_blame_transport(
          peer, "delivers a message from memory that it has not lent, or of another kind",
          "its transport delivers a message from memory that it has not lent");
    return;
  }
  struct node_entry *entry = peer_tell(peer, PST_NODE_MESSAGE);
  entry->token = token;
  entry->event.bytes = (const uint8_t *)region->host + completion->u.message.offset;
  entry->event.length = completion->u.message.length;
}

void peer_take_done(struct pst_peer *peer, const struct pst_completion *completion)
{
  if (completion->code == PST_OP_SEND) {
    message_took(peer, completion);
    return;
  }
  if (peer_rma_done(peer, completion))
    return;
  peer_blame_transport(peer, "completes a request that is not under way",
                       "its transport has lost count of requests");
}

void peer_heard_disconnected(struct engine_endpoint *endpoint, int status)
{
  peer_transport_over((struct pst_peer *)endpoint, status);
}

/* Without it the peer would go on to reach for what is no more. */
void peer_heard_readdressed(struct engine_endpoint *endpoint)
{
  struct pst_peer *peer = (struct pst_peer *)endpoint;

  if (peer_is_whole(peer))
    peer_say_address(peer, WIRE_READDRESS);
}

static bool peer_is_room_due(const struct pst_peer *peer)
{
  return peer_state_is_in(peer->state) && !peer->is_room_told &&
         ((peer->room_wanted & PEER_ROOM_SEND && message_has_room(peer)) ||
          (peer->room_wanted & PEER_ROOM_POST && peer_rma_has_room(peer)));
}

static bool peer_is_drained(const struct pst_peer *peer)
{
  return peer->state == NODE_PEER_DRAINING && !peer_messages_wait(peer);
}

bool peer_is_due(const struct pst_peer *peer)
{
  return peer_is_drained(peer) || peer_is_room_due(peer);
}

void peer_progress(struct pst_peer *peer, uint64_t now)
{
  if (peer->is_connected && peer_state_takes(peer->state)) {
    if (peer_messages_wait(peer))
      message_push(peer);
    rma_push(&peer->rma);
  }
  if (peer_is_drained(peer))
    peer_drained(peer);
  if (peer->room_wanted && peer_is_room_due(peer)) {
    peer->is_room_told = true;
    peer->room_wanted = 0;
    peer_tell(peer, PST_NODE_ROOM);
  }
  if (peer->deadline_ns && now >= peer->deadline_ns)
    peer_overdue(peer);
}

/* ---- Calls of applications --------------------------------------------------------- */

int pst_node_connect(struct pst_node *node, const char *address, struct pst_peer **peer,
                     struct pst_error *error)
{
  struct engine_address told;
  struct pst_peer *made;
  char text[192];

  if (node->peer_count >= node->peers_max)
    return pst_fail(error, PST_EXIT_USAGE, -EUSERS, "the limit of %u peers (`peers`) is reached",
                    node->peers_max);
  snprintf(text, sizeof(text), "what answers at %s", address);
  int rc = peer_open(node, node->id_last += 2, text, &made);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "no resources for another peer: %s%s",
                    strerror(-rc), limit_remedy(rc));
  rc = engine_endpoint_address(&made->endpoint, &told);
  if (rc < 0)
    pst_fail(error, PST_EXIT_FAILED, rc, "transport %s: no endpoint address: %s",
             node->device->plugin->name, strerror(-rc));
  else
    rc = control_node_connect(node->control, made->id, address, node->insecure, &told.blob, error);
  if (rc < 0) {
    /* The application never saw it. */
    made->is_silent = true;
    node->silent++;
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

int pst_peer_info(const struct pst_peer *peer, struct pst_peer_info *info)
{
  struct pst_peer_info full = {.reserved = 0};

  if (!peer->remote[0])
    return -ENOTCONN;
  memcpy(full.local, peer->local, sizeof(full.local));
  memcpy(full.remote, peer->remote, sizeof(full.remote));
  pst_struct_write(info, &full, sizeof(full));
  return 0;
}

int pst_peer_path(const struct pst_peer *peer, struct pst_path_info *path)
{
  if (!peer->is_connected || peer->state == NODE_PEER_LEFT)
    return -ENOTCONN;
  return peer->node->worker.ops->endpoint_path(peer->endpoint.handle, path);
}
