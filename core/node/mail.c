/* SPDX-License-Identifier: Apache-2.0 */
/* Between the control thread and the node's. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node.h"
#include "util/limit_remedy.h"

#define MESSAGE_KEY "message.max"

void mail_free_blob(struct pst_blob *blob)
{
  free(blob->bytes);
  for (uint32_t i = 0; i < blob->fd_count; i++)
    if (blob->fds[i] >= 0)
      close(blob->fds[i]);
  *blob = (struct pst_blob){0};
}

static void drop_mail(struct node_mail *mail)
{
  mail_free_blob(&mail->blob);
  free(mail);
}

/* ---- The control thread's side ----------------------------------------------------- */

static int keep_blob(const struct pst_blob *from, struct pst_blob *to)
{
  *to = (struct pst_blob){.struct_size = sizeof(*to)};
  to->bytes = malloc(from->length ? from->length : 1);
  if (!to->bytes)
    return -ENOMEM;
  memcpy(to->bytes, from->bytes, from->length);
  to->length = to->capacity = from->length;
  for (; to->fd_count < from->fd_count; to->fd_count++) {
    to->fds[to->fd_count] = fcntl(from->fds[to->fd_count], F_DUPFD_CLOEXEC, 3);
    if (to->fds[to->fd_count] >= 0)
      continue;
    int rc = -errno;
    mail_free_blob(to);
    return rc;
  }
  return 0;
}

/* Of a peer's addresses that nobody has read the last one counts, and the others would take memory
 * and descriptors as fast as it sends them. */
static bool replaces(struct pst_node *node, struct node_mail *mail)
{
  struct node_mail *at = mail->type == NODE_MAIL_READDRESS ? node->mail_first : NULL;

  while (at && (at->type != NODE_MAIL_READDRESS || at->peer != mail->peer))
    at = at->next;
  if (!at)
    return false;
  struct pst_blob older = at->blob;
  at->blob = mail->blob;
  mail->blob = older;
  return true;
}

/* Its descriptors cannot be kept: the peer that they are of goes, and both ends hear why. */
static void give_up(struct pst_node *node, struct node_mail *mail, int code)
{
  if (mail->type == NODE_MAIL_JOIN)
    pst_log(PST_LOG_ERROR, "%s: its descriptors cannot be kept: %s%s", mail->text, strerror(-code),
            limit_remedy(code));
  mail->type = NODE_MAIL_GONE;
  mail->code = code;
  snprintf(mail->text, sizeof(mail->text), "the peer's descriptors cannot be kept: %s%s",
           strerror(-code), node_limit_remedy(code));
  control_node_bye(node->control, mail->peer, code, mail->text);
}

static void put(struct pst_node *node, const struct node_mail *what, const struct pst_blob *blob,
                const char *text)
{
  struct node_mail *mail = malloc(sizeof(*mail));

  if (!mail) {
    pst_log(PST_LOG_ERROR, "a peer's control message cannot be kept: %s; its peers are left",
            strerror(ENOMEM));
    atomic_store(&node->has_lost_mail, true);
    pst_node_wake(node);
    return;
  }
  *mail = *what;
  snprintf(mail->text, sizeof(mail->text), "%s", text ? text : "");
  int rc = blob ? keep_blob(blob, &mail->blob) : 0;
  if (rc < 0)
    give_up(node, mail, rc);
  mail->next = NULL;
  pthread_mutex_lock(&node->mail_lock);
  if (replaces(node, mail)) {
    pthread_mutex_unlock(&node->mail_lock);
    drop_mail(mail);
    return;
  }
  if (node->mail_last)
    node->mail_last->next = mail;
  else
    node->mail_first = mail;
  node->mail_last = mail;
  atomic_store_explicit(&node->has_mail, true, memory_order_release);
  pthread_mutex_unlock(&node->mail_lock);
  pst_node_wake(node);
}

/* What the peer says that it takes. */
static uint64_t message_max(const struct control_peer *peer)
{
  for (uint32_t i = 0; i < peer->param_count; i++)
    if (strcmp(peer->params[i].key, MESSAGE_KEY) == 0)
      return strtoull(peer->params[i].value, NULL, 10);
  return 0;
}

static void on_join(void *context, uint64_t id, const struct control_peer *peer)
{
  put(context,
      &(struct node_mail){.type = NODE_MAIL_JOIN, .peer = id, .message_max = message_max(peer)},
      peer->address, peer->text);
}

static void on_welcome(void *context, uint64_t id, const struct control_peer *peer)
{
  put(context,
      &(struct node_mail){.type = NODE_MAIL_WELCOME, .peer = id, .message_max = message_max(peer)},
      peer->address, peer->text);
}

static void on_region(void *context, uint64_t id, const struct control_region *region)
{
  put(context,
      &(struct node_mail){.type = NODE_MAIL_REGION,
                          .peer = id,
                          .region = region->id,
                          .access = region->access,
                          .length = region->length},
      region->remote, NULL);
}

static void on_taken(void *context, uint64_t id, uint32_t region, int code, const char *text)
{
  put(context,
      &(struct node_mail){.type = NODE_MAIL_TAKEN, .peer = id, .region = region, .code = code},
      NULL, text);
}

static void on_withdraw(void *context, uint64_t id, uint32_t region)
{
  put(context, &(struct node_mail){.type = NODE_MAIL_WITHDRAW, .peer = id, .region = region}, NULL,
      NULL);
}

static void on_readdress(void *context, uint64_t id, const struct pst_blob *address)
{
  put(context, &(struct node_mail){.type = NODE_MAIL_READDRESS, .peer = id}, address, NULL);
}

static void on_gone(void *context, uint64_t id, int code, const char *text)
{
  put(context, &(struct node_mail){.type = NODE_MAIL_GONE, .peer = id, .code = code}, NULL, text);
}

/* ---- Ours -------------------------------------------------------------------------- */

int mail_open(struct pst_node *node, const struct pst_node_params *params, struct pst_error *error)
{
  const struct control_node_callbacks callbacks = {.context = node,
                                                   .join = on_join,
                                                   .welcome = on_welcome,
                                                   .region = on_region,
                                                   .taken = on_taken,
                                                   .withdraw = on_withdraw,
                                                   .readdress = on_readdress,
                                                   .gone = on_gone};
  struct control_pair terms[CONTROL_TERMS_MAX];
  struct control_pair told[1];
  uint32_t told_count = 0;
  char text[32];
  struct control_node_params control = {
      .listen = params->listen,
      .insecure = node->insecure,
      .needs_fds = node->device->limits.capabilities & PST_CAP_DESCRIPTORS,
      .peers_max = node->peers_max,
      .offers_max = node->offers,
      .join_timeout_ns = node->connect_timeout_ns,
      .peer_timeout_ns = params->peer_timeout_ns ? params->peer_timeout_ns : 10 * PST_NS_PER_S,
      .terms = terms,
      .params = told};

  snprintf(text, sizeof(text), "%llu", (unsigned long long)node->message_max);
  glue_add_pair(told, &told_count, 1, MESSAGE_KEY, text);
  control.param_count = told_count;
  glue_transport_terms(node->transport, terms, &control.term_count);
  return control_node_open(&control, &callbacks, &node->control, error);
}

void mail_close(struct pst_node *node)
{
  control_close(node->control);
  node->control = NULL;
  while (node->mail_first) {
    struct node_mail *mail = node->mail_first;
    node->mail_first = mail->next;
    drop_mail(mail);
  }
}

static void turn_away(struct pst_node *node, uint64_t id, int code, const char *text)
{
  control_node_bye(node->control, id, code, text);
}

/* Somebody has come. */
static void join(struct pst_node *node, struct node_mail *mail)
{
  unsigned char bytes[CONTROL_ADDRESS_MAX];
  struct pst_blob blob;
  struct pst_peer *peer;
  char text[160];

  if (node->peer_count >= node->peers_max) {
    snprintf(text, sizeof(text), "there are as many peers as the limit `peers` says: %u",
             node->peers_max);
    turn_away(node, mail->peer, -EUSERS, text);
    return;
  }
  int rc = peer_open(node, mail->peer, mail->text, &peer);
  if (rc < 0) {
    snprintf(text, sizeof(text), "no resources for another peer: %s%s", strerror(-rc),
             node_limit_remedy(rc));
    turn_away(node, mail->peer, rc, text);
    return;
  }
  rc = peer_address(peer, bytes, &blob);
  if (rc == 0)
    rc = control_node_welcome(node->control, peer->id, &blob);
  if (rc < 0)
    peer_leave_untold(peer, rc);
  else
    peer_meet(peer, &mail->blob, mail->message_max);
}

static void take(struct pst_node *node, struct node_mail *mail)
{
  struct pst_peer *peer = mail->type == NODE_MAIL_JOIN ? NULL : node_peer(node, mail->peer);

  if (mail->type == NODE_MAIL_JOIN) {
    join(node, mail);
    return;
  }
  if (!peer || (peer->state >= NODE_PEER_LEAVING && mail->type != NODE_MAIL_GONE))
    return;
  switch (mail->type) {
  case NODE_MAIL_WELCOME:
    snprintf(peer->text, sizeof(peer->text), "%.*s", (int)sizeof(peer->text) - 1, mail->text);
    peer_meet(peer, &mail->blob, mail->message_max);
    break;
  case NODE_MAIL_REGION:
    remote_offered(peer, mail);
    break;
  case NODE_MAIL_TAKEN:
    offer_taken(peer, mail->region, mail->code, mail->text);
    break;
  case NODE_MAIL_WITHDRAW:
    remote_withdrawn(peer, mail->region);
    break;
  case NODE_MAIL_READDRESS:
    peer_meet_again(peer, &mail->blob);
    break;
  default:
    peer_control_over(peer, mail->code, mail->text);
    break;
  }
}

void mail_read(struct pst_node *node)
{
  pthread_mutex_lock(&node->mail_lock);
  struct node_mail *mail = node->mail_first;
  node->mail_first = node->mail_last = NULL;
  atomic_store_explicit(&node->has_mail, false, memory_order_relaxed);
  pthread_mutex_unlock(&node->mail_lock);
  while (mail) {
    struct node_mail *next = mail->next;
    take(node, mail);
    drop_mail(mail);
    mail = next;
  }
  if (!atomic_exchange(&node->has_lost_mail, false))
    return;
  for (struct pst_peer *peer = node->peers; peer; peer = peer->next)
    peer_leave(peer, PST_CLOSE_ABORT, -ENOMEM, "a control message was lost for want of memory");
}
