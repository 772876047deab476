/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol between nodes: nodes.h. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "connection.h"
#include "node_dial.h"

/* ---- Out --------------------------------------------------------------------------- */

static void node_say_join(struct connection *peer)
{
  struct wire_message *m = message_new(peer->control, WIRE_JOIN);

  message_put_terms(m, &peer->control->node->terms, &peer->control->node->params);
  message_send_blob(peer, m, &peer->node.join->address);
  peer->node.join->is_stale = false;
}

/* As the node says it; the type says which of its fields go. */
static void node_say(struct connection *peer, const struct command *command)
{
  const struct control_node_message *say = &command->say;
  struct wire_message *m = message_new_text(peer->control, say->type, say->code, command->text);

  if (say->type == WIRE_WELCOME)
    message_put_terms(m, NULL, &peer->control->node->params);
  m->region_id = say->region;
  m->access = say->access;
  m->region_length = say->length;
  m->count = say->count;
  message_send_blob(peer, m, &command->mail.blob);
}

/* ---- Ends -------------------------------------------------------------------------- */

static bool node_is_ours(const struct connection *peer)
{
  return peer->node.state == NODE_JOINING || peer->node.state == NODE_JOINED;
}

static void node_fail_peer(struct connection *peer, int code, const char *text)
{
  if (!node_is_ours(peer))
    return;
  peer->node.state = NODE_OVER;
  node_tell_gone(peer->control, peer->node.id, code, text);
}

static bool node_has(const struct connection *peer, bool live_only)
{
  return live_only ? peer->node.state == NODE_JOINED : node_is_ours(peer);
}

static void node_forget_join(struct connection *peer)
{
  node_join_free(peer->node.join);
  peer->node.join = NULL;
}

static void node_forget(struct connection *peer)
{
  node_forget_join(peer);
  free(peer->node.regions);
}

static struct node_region *node_region_of(const struct connection *peer, uint32_t id)
{
  for (uint32_t i = 0; i < peer->control->node->asked.offers_max; i++)
    if (peer->node.regions[i].id == id)
      return &peer->node.regions[i];
  return NULL;
}

static bool node_make_regions(struct connection *peer)
{
  uint32_t count = peer->control->node->asked.offers_max;

  peer->node.regions = calloc(count ? count : 1, sizeof(*peer->node.regions));
  if (!peer->node.regions)
    connection_drop(peer, -ENOMEM, "needs more memory than there is");
  return peer->node.regions;
}

/* ---- In ---------------------------------------------------------------------------- */

/* Hands a message of a peer to the node's callback, with the addresses of both ends where peers
 * meet. */
static void node_hear(const struct message_in *in)
{
  const struct wire_message *m = in->message;
  const struct connection *peer = in->peer;
  const bool is_meeting = m->type == WIRE_JOIN || m->type == WIRE_WELCOME;
  const struct pst_blob blob = message_blob(in);
  char local[SOCKET_TEXT_MAX], remote[SOCKET_TEXT_MAX];
  const struct control_peer who = {.text = peer->text,
                                   .local_place = local,
                                   .remote_place = remote,
                                   .params = m->params,
                                   .param_count = m->param_count};
  const struct control_node_message heard = {.type = m->type,
                                             .id = peer->node.id,
                                             .region = m->region_id,
                                             .access = m->access,
                                             .count = m->count,
                                             .length = m->region_length,
                                             .code = m->code,
                                             .text = m->text,
                                             .blob = blob.bytes ? &blob : NULL,
                                             .peer = is_meeting ? &who : NULL};

  if (is_meeting) {
    socket_end_text(peer->main.fd, false, local);
    socket_end_text(peer->main.fd, true, remote);
  }
  peer->control->node->asked.heard(peer->control->node->asked.context, &heard);
}

/* Handles JOIN: compares the terms of both nodes, then admits the peer or drops it with the
 * reason. */
static void node_got_join(const struct message_in *in)
{
  static const char *const ends[2] = {"the other end", "this one"};
  const struct wire_message *m = in->message;
  struct connection *peer = in->peer;
  struct control *control = peer->control;
  char text[REPORT_MAX];

  if (peer->is_connector || peer->node.state != NODE_STRANGE) {
    connection_drop(peer, -EPROTO, "sent JOIN %s",
                    peer->is_connector ? "on a connection that this end opened" : "twice");
    return;
  }
  if (!terms_compare(&control->node->terms, m, ends, text, sizeof(text))) {
    connection_drop(peer, -EPROTO,
                    "does not agree: %s; give both ends the same transport and options", text);
    return;
  }
  /* Before anything is opened for it. */
  if (control->node->asked.needs_fds && (m->fd_count == 0 || in->fds->count == 0)) {
    connection_drop(
        peer, -EXDEV,
        "passes no descriptors, which this transport needs: both must be processes of one "
        "user on one host; use a transport that reaches other hosts");
    return;
  }
  peer->node.state = NODE_JOINING;
  peer->node.id = control->node->last_id += 2;
  peer->node.by_ns = control->now_ns + control->connect_timeout_ns;
  peer->had_stream = true;
  node_hear(in);
}

static void node_got_region(const struct message_in *in)
{
  const uint32_t id = in->message->region_id, most = in->peer->control->node->asked.offers_max;
  struct connection *peer = in->peer;
  struct node_region *place = node_region_of(peer, 0);
  char text[WIRE_WHY_MAX];

  if (node_region_of(peer, id)) {
    connection_drop(peer, -EPROTO, "offered the region %u twice", id);
    return;
  }
  if (!place) {
    snprintf(text, sizeof(text), "more regions on offer than the limit `offers`: %u", most);
    struct wire_message *m = message_new_text(peer->control, WIRE_TAKEN, -ENOSPC, text);
    m->region_id = id;
    connection_send(peer, m);
    return;
  }
  *place = (struct node_region){.id = id};
  node_hear(in);
}

static void node_got_taken(const struct message_in *in)
{
  if (in->peer->node.offered == 0) {
    connection_drop(in->peer, -EPROTO, "sent TAKEN of a region that is not on offer");
    return;
  }
  in->peer->node.offered--;
  node_hear(in);
}

static void node_got_withdraw(const struct message_in *in)
{
  struct node_region *place = node_region_of(in->peer, in->message->region_id);

  /* Or it was refused, which has crossed this on its way. */
  if (!place || place->is_withdrawn)
    return;
  place->is_withdrawn = true;
  node_hear(in);
}

static void node_got_message(const struct message_in *in)
{
  const uint32_t most = in->peer->control->node->asked.messages_max;

  /* Each is kept until the node has taken it. */
  if (in->peer->node.held == most) {
    connection_drop(in->peer, -EPROTO, "sent more messages than there is room for: %u", most);
    return;
  }
  in->peer->node.held++;
  node_hear(in);
}

static void node_got_room(const struct message_in *in)
{
  if (in->message->count > in->peer->node.sent) {
    connection_drop(in->peer, -EPROTO, "took more messages than it was sent");
    return;
  }
  in->peer->node.sent -= in->message->count;
  node_hear(in);
}

static void node_got_bye(const struct message_in *in)
{
  const struct wire_message *m = in->message;
  struct connection *peer = in->peer;
  char text[REPORT_MAX];

  if (m->code == 0)
    snprintf(text, sizeof(text), "%s has closed", peer->text);
  else
    snprintf(text, sizeof(text), "%s says: %s", peer->text, m->text);
  node_fail_peer(peer, peer->node.state == NODE_JOINED || m->code ? m->code : -ECONNRESET, text);
  connection_close(peer, 0, NULL);
}

static void node_got_welcome(const struct message_in *in)
{
  struct connection *peer = in->peer;

  if (peer->node.join && peer->node.join->is_stale)
    message_send_blob(peer, message_new(peer->control, WIRE_READDRESS), &peer->node.join->address);
  node_forget_join(peer);
  if (peer->state != PEER_UP || !node_make_regions(peer))
    return;
  peer->node.state = NODE_JOINED;
  node_hear(in);
}

static bool node_admits(struct message_in *in)
{
  const enum wire_type type = in->message->type;
  struct connection *peer = in->peer;

  if (type == WIRE_JOIN)
    return true;
  if (type == WIRE_WELCOME && peer->is_connector && peer->node.state == NODE_JOINING)
    return true;
  if (peer->node.state == NODE_OVER) /* our goodbye has crossed it on its way */
    return false;
  if (peer->node.state != NODE_JOINED)
    connection_drop(peer, -EPROTO, "sent a %s before it had joined", wire_type_name(type));
  else if (type == WIRE_WELCOME)
    connection_drop(peer, -EPROTO, "sent a WELCOME, which is not for nodes");
  else if ((type == WIRE_MESSAGE || type == WIRE_ROOM) &&
           peer->control->node->asked.messages_max == 0)
    connection_drop(peer, -EPROTO, "sent a %s, which goes over this node's transport",
                    wire_type_name(type));
  else
    return true;
  return false;
}

/* ---- The node's commands ----------------------------------------------------------- */

static struct connection *node_find(const struct control *control, uint64_t id)
{
  for (struct connection *peer = control->peers; peer; peer = peer->next)
    if (peer->node.id == id && node_is_ours(peer))
      return peer;
  return NULL;
}

static void node_release_region(struct connection *peer, uint32_t id)
{
  struct node_region *place = node_region_of(peer, id);

  if (place)
    place->id = 0;
}

/* Carries out what the node's thread has asked for: to join, to send a message, or to end a
 * peer. */
static void node_command(struct control *control, struct command *command)
{
  if (command->say.type == WIRE_JOIN) {
    struct node_join *join = command->join;
    command->join = NULL;
    join->by_ns = control->now_ns + control->connect_timeout_ns;
    node_dial(control, join, -EADDRNOTAVAIL, "no address");
    return;
  }
  struct connection *peer = node_find(control, command->say.id);
  if (!peer) {
    node_dial_command(control, command);
    return;
  }
  struct node_link *link = &peer->node;
  const struct control_node_message *say = &command->say;
  switch (say->type) {
  case WIRE_WELCOME:
    if (!node_make_regions(peer))
      return;
    link->state = NODE_JOINED;
    break;
  case WIRE_READDRESS:
    if (!link->join)
      break;
    node_keep_address(link->join, &command->mail.blob);
    return;
  case WIRE_REGION:
    link->offered++;
    break;
  case WIRE_TAKEN:
    if (say->code < 0)
      node_release_region(peer, say->region);
    break;
  case WIRE_KEEP: /* nothing is said */
    node_release_region(peer, say->region);
    return;
  case WIRE_MESSAGE:
    link->sent++;
    break;
  case WIRE_ROOM:
    link->held -= say->count < link->held ? say->count : link->held;
    break;
  case WIRE_BYE:
    link->state = NODE_OVER;
    connection_close(peer, say->code, say->code ? command->text : NULL);
    return;
  default:
    break;
  }
  node_say(peer, command);
}

static void node_close_all(struct control *control)
{
  node_dial_close_all(control);
  for (struct connection *peer = control->peers; peer; peer = peer->next)
    if (node_is_ours(peer))
      peer->node.state = NODE_OVER;
}

static void node_tick(struct control *control)
{
  char seconds[24];

  node_dial_tick(control);
  seconds_text(control->connect_timeout_ns, seconds);
  for (struct connection *peer = control->peers; peer; peer = peer->next) {
    if (peer->node.state != NODE_JOINING || peer->state < PEER_UP ||
        !control_is_due(control, peer->node.by_ns))
      continue;
    if (peer->is_connector)
      node_forget_join(peer); /* no other address either */
    connection_drop(peer, -ETIMEDOUT, "did not join within %s", seconds);
  }
}

const struct control_protocol node_protocol = {
    .connector = WIRE_NODE,
    .acceptor = WIRE_NODE,
    .connector_name = "peer",
    .acceptor_name = "peer",
    .what = "nodes",
    .idle = "did not join",
    .up = node_say_join,
    .admits = node_admits,
    .got = {[WIRE_JOIN] = node_got_join,
            [WIRE_WELCOME] = node_got_welcome,
            [WIRE_REGION] = node_got_region,
            [WIRE_TAKEN] = node_got_taken,
            [WIRE_WITHDRAW] = node_got_withdraw,
            [WIRE_READDRESS] = node_hear,
            [WIRE_MESSAGE] = node_got_message,
            [WIRE_ROOM] = node_got_room,
            [WIRE_BYE] = node_got_bye},
    .has = node_has,
    .fail_peer = node_fail_peer,
    .retry = node_dial_retry,
    .forget = node_forget,
    .command = node_command,
    .close_all = node_close_all,
    .tick = node_tick,
};
