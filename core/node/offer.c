/* SPDX-License-Identifier: Apache-2.0 */
/* Regions on offer: ours to a peer, and a peer's to us. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node.h"

#define REMOTE_ACCESS (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)

/* ---- Ours -------------------------------------------------------------------------- */

static uint32_t possible_access(const struct pst_node *node)
{
  uint64_t has = node->device->limits.capabilities;

  return (has & PST_CAP_READ ? PST_ACCESS_REMOTE_READ : 0u) |
         (has & PST_CAP_WRITE ? PST_ACCESS_REMOTE_WRITE : 0u) |
         (has & PST_CAP_ATOMIC ? PST_ACCESS_REMOTE_ATOMIC : 0u);
}

static void drop_offer(struct pst_peer *peer, struct node_offer *offer)
{
  struct pst_node *node = peer->node;
  struct node_offer **at = &peer->offers;

  while (*at != offer)
    at = &(*at)->next;
  *at = offer->next;
  node->ops->mr_deregister(node->device->device, offer->mr);
  offer->area->uses--;
  free(offer);
}

void offer_drop_all(struct pst_peer *peer)
{
  while (peer->offers)
    drop_offer(peer, peer->offers);
}

static struct node_offer *offer_find(const struct pst_peer *peer, uint32_t id)
{
  struct node_offer *offer = peer->offers;

  while (offer && offer->id != id)
    offer = offer->next;
  return offer;
}

void offer_taken(struct pst_peer *peer, uint32_t id, int code, const char *text)
{
  struct node_offer *offer = offer_find(peer, id);

  if (code < 0 && offer)
    drop_offer(peer, offer);
  struct node_entry *entry = node_tell(peer, PST_NODE_TAKEN);
  entry->event.id = id;
  entry->event.status = code;
  if (code < 0 && (entry->text = strdup(text)) != NULL)
    entry->event.text = entry->text;
}

/* Registered for this peer alone, and told to it. */
static int make_offer(struct pst_peer *peer, const struct pst_mr_params *params, uint32_t access,
                      uint32_t id, struct pst_mr **mr)
{
  struct pst_node *node = peer->node;
  unsigned char bytes[CONTROL_ADDRESS_MAX];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  struct control_region region = {
      .id = id, .access = access, .length = params->length, .remote = &blob};
  int rc = node->ops->mr_register(node->device->device, params, mr);

  if (rc < 0)
    return rc;
  rc = node->ops->mr_pack(node->device->device, *mr, &blob);
  if (rc == 0)
    rc = control_node_region(node->control, peer->id, &region);
  if (rc < 0)
    node->ops->mr_deregister(node->device->device, *mr);
  return rc;
}

int pst_peer_offer(struct pst_peer *peer, struct pst_area *area, uint64_t offset, uint64_t length,
                   uint32_t access, uint32_t *id)
{
  struct pst_node *node = peer->node;
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_mr_params params = {.struct_size = sizeof(params),
                                 .access = access | PST_ACCESS_LOCAL_READ,
                                 .region = &area->own.region,
                                 .offset = offset,
                                 .length = length,
                                 .path = &path,
                                 .domain = peer->id};

  if (peer->state != NODE_PEER_JOINED || peer->transport_over || peer->control_over)
    return -ENOTCONN;
  if (!access || (access & ~(uint32_t)REMOTE_ACCESS) || area->node != node || length == 0)
    return -EINVAL;
  if (access & ~possible_access(node))
    return -EOPNOTSUPP;
  if (!region_has(area->own.length, offset, length))
    return -ERANGE;
  /* InfiniBand asks for it where a peer writes. */
  if (access & (PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC))
    params.access |= PST_ACCESS_LOCAL_WRITE;
  struct node_offer *offer = calloc(1, sizeof(*offer));
  int rc = offer ? node_reserve(node, 1) : -ENOMEM;
  if (rc < 0) {
    free(offer);
    return rc;
  }
  rc = make_offer(peer, &params, access, peer->offer_last + 1, &offer->mr);
  if (rc < 0) {
    node_unreserve(node, 1);
    free(offer);
    return rc;
  }
  offer->id = ++peer->offer_last;
  offer->area = area;
  offer->next = peer->offers;
  area->uses++;
  peer->offers = offer;
  peer->takens++;
  *id = offer->id;
  return 0;
}

int pst_peer_withdraw(struct pst_peer *peer, uint32_t id)
{
  struct node_offer *offer = offer_find(peer, id);

  if (!offer)
    return -ENOENT;
  if (peer->state == NODE_PEER_JOINED && !peer->control_over)
    control_node_withdraw(peer->node->control, peer->id, id);
  drop_offer(peer, offer);
  return 0;
}

/* ---- The peer's -------------------------------------------------------------------- */

struct node_remote *remote_find(const struct pst_peer *peer, uint32_t id)
{
  struct node_remote *remote = peer->remotes;

  while (remote && remote->id != id)
    remote = remote->next;
  return remote;
}

static void unlink_remote(struct pst_peer *peer, struct node_remote *remote)
{
  struct node_remote **at = &peer->remotes;

  while (*at != remote)
    at = &(*at)->next;
  *at = remote->next;
  peer->remote_bytes -= remote->length;
  mail_free_blob(&remote->blob);
  free(remote);
}

void remote_drop(struct pst_peer *peer, struct node_remote *remote)
{
  if (!remote)
    return;
  if (!peer->control_over)
    control_node_release(peer->node->control, peer->id, remote->id);
  unlink_remote(peer, remote);
}

/* The endpoint is closed, so that what is open is void. */
void remote_drop_all(struct pst_peer *peer)
{
  while (peer->remotes)
    unlink_remote(peer, peer->remotes);
}

static void refuse(struct pst_peer *peer, uint32_t id, int code, const char *text)
{
  pst_log(PST_LOG_INFO, "%s: its region %u is refused: %s", peer->text, id, text);
  control_node_taken(peer->node->control, peer->id, id, code, text);
}

static void open_remote(struct pst_peer *peer, struct node_remote *remote)
{
  struct pst_node *node = peer->node;
  char text[NODE_TEXT_MAX];
  int rc = node->ops->remote_open(peer->endpoint, &remote->blob, &remote->remote);

  mail_free_blob(&remote->blob);
  if (rc == 0) {
    control_node_taken(node->control, peer->id, remote->id, 0, NULL);
    struct node_entry *entry = node_tell(peer, PST_NODE_OFFERED);
    entry->event.id = remote->id;
    entry->event.length = remote->length;
    entry->event.access = remote->access;
    return;
  }
  snprintf(text, sizeof(text), "transport %s cannot reach it: %s", node->device->plugin->name,
           strerror(-rc));
  refuse(peer, remote->id, rc, text);
  unlink_remote(peer, remote);
}

void remote_open_all(struct pst_peer *peer)
{
  struct node_remote *next;

  for (struct node_remote *remote = peer->remotes; remote; remote = next) {
    next = remote->next;
    if (!remote->remote && !remote->is_withdrawn)
      open_remote(peer, remote);
  }
}

void remote_offered(struct pst_peer *peer, struct node_mail *mail)
{
  struct pst_node *node = peer->node;
  char text[NODE_TEXT_MAX];

  if (mail->length > node->offer_bytes - peer->remote_bytes) {
    snprintf(text, sizeof(text),
             "its %llu bytes would make %llu on offer, and the limit `offer_bytes` is %llu",
             (unsigned long long)mail->length,
             (unsigned long long)(mail->length + peer->remote_bytes),
             (unsigned long long)node->offer_bytes);
    refuse(peer, mail->region, -ENOSPC, text);
    return;
  }
  struct node_remote *remote = calloc(1, sizeof(*remote));
  if (!remote) {
    refuse(peer, mail->region, -ENOMEM, "out of memory");
    return;
  }
  remote->id = mail->region;
  remote->access = mail->access & REMOTE_ACCESS;
  remote->length = mail->length;
  remote->blob = mail->blob;
  mail->blob = (struct pst_blob){0};
  remote->next = peer->remotes;
  peer->remotes = remote;
  peer->remote_bytes += remote->length;
  if (peer->state == NODE_PEER_JOINED && peer->is_connected)
    open_remote(peer, remote);
}

/* Nothing is under way there any more. */
static void end_withdrawn(struct pst_peer *peer, struct node_remote *remote)
{
  struct pst_node *node = peer->node;

  if (!peer->is_closed)
    node->ops->remote_close(peer->endpoint, remote->remote);
  remote->remote = NULL;
  node_tell(peer, PST_NODE_WITHDRAWN)->event.id = remote->id;
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
  if (remote->uses == 0)
    end_withdrawn(peer, remote);
}

void remote_unuse(struct pst_peer *peer, struct node_remote *remote)
{
  if (--remote->uses == 0 && remote->is_withdrawn)
    end_withdrawn(peer, remote);
}
