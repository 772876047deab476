/* SPDX-License-Identifier: Apache-2.0 */
/* Between the control thread and the node's. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control_transport.h"
#include "engine/engine.h"
#include "peer.h"
#include "util/limit_remedy.h"

#define MESSAGE_KEY "message.max"

struct node_mail {
  struct mail mail;
  struct control_node_message heard;                  /* its pointers are not valid any more */
  uint64_t message_max;                               /* the longest message that the peer takes */
  char local[NODE_PLACE_MAX], remote[NODE_PLACE_MAX]; /* JOIN, WELCOME */
  char text[NODE_TEXT_MAX];
};

/* ---- The control thread's side ----------------------------------------------------- */

/* Only the last unread address of a peer counts. Older ones are dropped, since they would take
 * memory and descriptors as fast as the peer sends them. */
static bool mail_replaces(const struct mail *older, const struct mail *newer)
{
  const struct node_mail *had = (const struct node_mail *)older;
  const struct node_mail *has = (const struct node_mail *)newer;

  return had->heard.type == WIRE_READDRESS && has->heard.type == WIRE_READDRESS &&
         had->heard.id == has->heard.id;
}

/* The message's descriptors cannot be kept: its peer goes, and both ends get the reason. */
static void mail_give_up(struct pst_node *node, struct node_mail *mail, int code)
{
  if (mail->heard.type == WIRE_JOIN)
    pst_log(PST_LOG_ERROR, "%s: its descriptors cannot be kept: %s%s", mail->text, strerror(-code),
            limit_remedy(code));
  mail->heard.type = WIRE_BYE;
  mail->heard.code = code;
  snprintf(mail->text, sizeof(mail->text), "the peer's descriptors cannot be kept: %s%s",
           strerror(-code), peer_remedy(code));
  control_node_bye(node->control, mail->heard.id, code, mail->text);
}

static void mail_lose(struct pst_node *node)
{
  pst_log(PST_LOG_ERROR,
          "a peer's control message cannot be kept: %s; the node disconnects from all peers",
          strerror(ENOMEM));
  atomic_store(&node->has_lost_mail, true);
  atomic_store_explicit(&node->thread.mailbox.has_mail, true, memory_order_release);
  mailbox_wake(&node->thread.mailbox);
}

static void mail_keep_peer(const struct control_peer *peer, struct node_mail *mail)
{
  for (uint32_t i = 0; i < peer->param_count; i++)
    if (strcmp(peer->params[i].key, MESSAGE_KEY) == 0)
      mail->message_max = strtoull(peer->params[i].value, NULL, 10);
  snprintf(mail->local, sizeof(mail->local), "%s", peer->local_place);
  snprintf(mail->remote, sizeof(mail->remote), "%s", peer->remote_place);
  snprintf(mail->text, sizeof(mail->text), "%s", peer->text);
}

/* On the control thread. */
static void mail_put(void *context, const struct control_node_message *heard)
{
  struct pst_node *node = context;
  struct node_mail *mail = calloc(1, sizeof(*mail));

  if (!mail) {
    mail_lose(node);
    return;
  }
  mail->heard = *heard;
  if (heard->peer)
    mail_keep_peer(heard->peer, mail);
  else
    snprintf(mail->text, sizeof(mail->text), "%s", heard->text ? heard->text : "");
  int rc = heard->blob ? blob_keep(heard->blob, &mail->mail.blob) : 0;
  if (rc < 0)
    mail_give_up(node, mail, rc);
  mailbox_put(&node->thread.mailbox, &mail->mail, mail_replaces);
}

/* ---- Ours -------------------------------------------------------------------------- */

static const char *mail_insecure_word(const struct pst_origins *origins)
{
  const size_t needed = offsetof(struct pst_origins, insecure) + sizeof(origins->insecure);

  return origins && origins->struct_size >= needed ? origins->insecure : NULL;
}

int mail_open(struct pst_node *node, const struct pst_node_params *params, struct pst_error *error)
{
  struct control_pair terms[CONTROL_TERMS_MAX];
  struct control_pair told[1];
  uint32_t told_count = 0;
  char text[32];
  struct pst_tls_params tls;
  struct control_node_params control = {.listen = params->listen,
                                        .insecure = node->insecure,
                                        .tls = params->tls ? &tls : NULL,
                                        .insecure_word = mail_insecure_word(node->origins),
                                        .needs_fds =
                                            node->device->limits.capabilities & PST_CAP_DESCRIPTORS,
                                        .peers_max = node->peers_max,
                                        .offers_max = node->is_bare ? 0 : node->offers,
                                        .messages_max = node->is_bare ? node->messages : 0,
                                        .join_timeout_ns = node->connect_timeout_ns,
                                        .peer_timeout_ns = node->peer_timeout_ns,
                                        .terms = terms,
                                        .params = told,
                                        .heard = mail_put,
                                        .context = node};

  if (params->tls)
    pst_struct_read(&tls, sizeof(tls), params->tls);
  snprintf(text, sizeof(text), "%llu", (unsigned long long)node->message_max);
  control_pair_add(told, &told_count, 1, MESSAGE_KEY, text);
  control.param_count = told_count;
  if (node->is_bare)
    control_pair_add(terms, &control.term_count, CONTROL_TERMS_MAX, CONTROL_TERM_WIRE,
                     NODE_TRANSPORT_NONE);
  else
    transport_terms_add(node->transport, terms, &control.term_count);
  return control_node_open(&control, &node->control, error);
}

void mail_close(struct pst_node *node)
{
  control_close(node->control);
  node->control = NULL;
  mailbox_drop(&node->thread.mailbox);
}

static void mail_keep_place(struct pst_peer *peer, const struct node_mail *mail)
{
  memcpy(peer->local, mail->local, sizeof(peer->local));
  memcpy(peer->remote, mail->remote, sizeof(peer->remote));
}

/* A peer wants to join. */
static void mail_join(struct pst_node *node, struct node_mail *mail)
{
  struct pst_peer *peer;
  char text[160];

  if (node->peer_count >= node->peers_max) {
    snprintf(text, sizeof(text), "the limit of %u peers (`peers`) is reached", node->peers_max);
    control_node_bye(node->control, mail->heard.id, -EUSERS, text);
    return;
  }
  int rc = peer_open(node, mail->heard.id, mail->text, &peer);
  if (rc < 0) {
    snprintf(text, sizeof(text), "no resources for another peer: %s%s", strerror(-rc),
             peer_remedy(rc));
    control_node_bye(node->control, mail->heard.id, rc, text);
    return;
  }
  mail_keep_place(peer, mail);
  if (peer_say_address(peer, WIRE_WELCOME))
    peer_meet(peer, &mail->mail.blob, mail->message_max);
}

/* Acts on one message of the control thread. Only BYE still concerns a peer that is leaving. */
static void mail_act_on(struct pst_node *node, struct node_mail *mail)
{
  struct pst_peer *peer = mail->heard.type == WIRE_JOIN ? NULL : node_peer(node, mail->heard.id);

  if (mail->heard.type == WIRE_JOIN) {
    mail_join(node, mail);
    return;
  }
  if (!peer || (peer->state >= NODE_PEER_DRAINING && mail->heard.type != WIRE_BYE))
    return;
  switch (mail->heard.type) {
  case WIRE_WELCOME:
    snprintf(peer->text, sizeof(peer->text), "%.*s", (int)sizeof(peer->text) - 1, mail->text);
    mail_keep_place(peer, mail);
    peer_meet(peer, &mail->mail.blob, mail->message_max);
    break;
  case WIRE_REGION:
    remote_offered(peer, &mail->heard, &mail->mail.blob);
    break;
  case WIRE_TAKEN:
    offer_taken(peer, mail->heard.region, mail->heard.code, mail->text);
    break;
  case WIRE_WITHDRAW:
    remote_withdrawn(peer, mail->heard.region);
    break;
  case WIRE_READDRESS:
    peer_meet_again(peer, &mail->mail.blob);
    break;
  case WIRE_MESSAGE:
    if (control_transport_arrived(peer->endpoint.handle, mail->mail.blob.bytes,
                                  mail->mail.blob.length) < 0)
      peer_leave(peer, PST_CLOSE_ABORT, -EPROTO, "a message is longer than `message_max`");
    break;
  case WIRE_ROOM:
    control_transport_room(peer->endpoint.handle, mail->heard.count);
    break;
  default:
    if (node->is_bare && peer->state < NODE_PEER_CLOSING)
      control_transport_over(peer->endpoint.handle);
    peer_control_over(peer, mail->heard.code, mail->text);
    break;
  }
}

void mail_read(struct pst_node *node)
{
  struct mail *next;

  for (struct mail *mail = mailbox_take(&node->thread.mailbox); mail; mail = next) {
    next = mail->next;
    mail_act_on(node, (struct node_mail *)mail);
    mail_free(mail);
  }
  if (!atomic_exchange(&node->has_lost_mail, false))
    return;
  for (struct pst_peer *peer = node->peers; peer; peer = peer->next)
    peer_leave(peer, PST_CLOSE_ABORT, -ENOMEM, "out of memory for a control message");
}
