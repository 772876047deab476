/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of a peer's on offer to us. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer_rma.h"

struct node_remote *remote_find(const struct pst_peer *peer, uint32_t id)
{
  struct node_remote *remote = peer->remotes;

  while (remote && remote->id != id)
    remote = remote->next;
  return remote;
}

static void remote_unlink(struct pst_peer *peer, struct node_remote *remote)
{
  struct node_remote **at = &peer->remotes;

  while (*at != remote)
    at = &(*at)->next;
  *at = remote->next;
  operate_forget_run(peer);
  if (remote->is_withdrawn && remote->uses)
    peer->withdrawing--;
  peer->remote_bytes -= remote->length;
  blob_free(&remote->blob);
  free(remote);
}

void remote_drop(struct pst_peer *peer, struct node_remote *remote)
{
  if (!remote)
    return;
  peer_say(peer, WIRE_KEEP, remote->id, 0, NULL);
  remote_unlink(peer, remote);
}

/* The endpoint is closed, so that what is open is void. */
void remote_drop_all(struct pst_peer *peer)
{
  while (peer->remotes)
    remote_unlink(peer, peer->remotes);
}

static void remote_refuse(struct pst_peer *peer, uint32_t id, int code, const char *text)
{
  pst_log(PST_LOG_INFO, "%s: its region %u is refused: %s", peer->text, id, text);
  peer_say(peer, WIRE_TAKEN, id, code, text);
}

static void remote_open(struct pst_peer *peer, struct node_remote *remote)
{
  struct pst_node *node = peer->node;
  char text[NODE_TEXT_MAX];

  pst_log_clear_error();
  int rc = node->worker.ops->remote_open(peer->endpoint.handle, &remote->blob, &remote->remote);
  blob_free(&remote->blob);
  if (rc == 0) {
    peer_say(peer, WIRE_TAKEN, remote->id, 0, NULL);
    struct node_entry *entry = peer_tell(peer, PST_NODE_OFFERED);
    entry->event.id = remote->id;
    entry->event.length = remote->length;
    entry->event.access = remote->access;
    return;
  }
  /* The peer that offered the area has to mend this, and does not see this end's log. */
  snprintf(text, sizeof(text), "transport %s cannot reach it: %s", node->device->plugin->name,
           pst_log_last_error()[0] ? pst_log_last_error() : strerror(-rc));
  remote_refuse(peer, remote->id, rc, text);
  remote_unlink(peer, remote);
}

void remote_open_all(struct pst_peer *peer)
{
  struct node_remote *next;

  for (struct node_remote *remote = peer->remotes; remote; remote = next) {
    next = remote->next;
    if (!remote->remote && !remote->is_withdrawn)
      remote_open(peer, remote);
  }
}

void remote_offered(struct pst_peer *peer, const struct control_node_message *offer,
                    struct pst_blob *blob)
{
  struct pst_node *node = peer->node;
  char text[NODE_TEXT_MAX];

  if (offer->length > node->offer_bytes - peer->remote_bytes) {
    snprintf(text, sizeof(text),
             "its %llu bytes would make %llu on offer, and the limit `offer_bytes` is %llu",
             (unsigned long long)offer->length,
             (unsigned long long)(offer->length + peer->remote_bytes),
             (unsigned long long)node->offer_bytes);
    remote_refuse(peer, offer->region, -ENOSPC, text);
    return;
  }
  struct node_remote *remote = calloc(1, sizeof(*remote));
  if (!remote) {
    remote_refuse(peer, offer->region, -ENOMEM, "out of memory");
    return;
  }
  *remote = (struct node_remote){.next = peer->remotes,
                                 .id = offer->region,
                                 .access = offer->access & NODE_REMOTE_ACCESS,
                                 .length = offer->length,
                                 .blob = *blob};
  *blob = (struct pst_blob){0};
  peer->remotes = remote;
  peer->remote_bytes += remote->length;
  if (peer_state_is_in(peer->state) && peer->is_connected)
    remote_open(peer, remote);
}

/* Nothing is under way there any more. */
static void remote_end_withdrawn(struct pst_peer *peer, struct node_remote *remote)
{
  struct pst_node *node = peer->node;

  if (peer->state != NODE_PEER_LEFT)
    node->worker.ops->remote_close(peer->endpoint.handle, remote->remote);
  remote->remote = NULL;
  peer_tell(peer, PST_NODE_WITHDRAWN)->event.id = remote->id;
}

void remote_withdrawn(struct pst_peer *peer, uint32_t id)
{
  struct node_remote *remote = remote_find(peer, id);

  if (!remote || remote->is_withdrawn)
    return;
  if (!remote->remote) { /* not even told of */
    remote_drop(peer, remote);
    return;
  }
  remote->is_withdrawn = true;
  operate_forget_run(peer);
  remote->uses = peer_rma_names(peer, NULL, remote);
  if (remote->uses == 0)
    remote_end_withdrawn(peer, remote);
  else
    peer->withdrawing++;
}

void remote_unuse(struct pst_peer *peer, struct node_remote *remote)
{
  if (--remote->uses > 0)
    return;
  peer->withdrawing--;
  remote_end_withdrawn(peer, remote);
}
