/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of ours on offer to a peer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

struct node_offer {
  struct node_offer *next;
  struct pst_area *area;
  struct pst_mr *mr;
  uint32_t id;
};

static uint32_t offer_possible_access(const struct pst_node *node)
{
  uint64_t has = node->device->limits.capabilities;

  return (has & PST_CAP_READ ? PST_ACCESS_REMOTE_READ : 0u) |
         (has & PST_CAP_WRITE ? PST_ACCESS_REMOTE_WRITE : 0u) |
         (has & PST_CAP_ATOMIC ? PST_ACCESS_REMOTE_ATOMIC : 0u);
}

static void offer_drop(struct pst_peer *peer, struct node_offer *offer)
{
  struct pst_node *node = peer->node;
  struct node_offer **at = &peer->offers;

  while (*at != offer)
    at = &(*at)->next;
  *at = offer->next;
  node->worker.ops->mr_deregister(node->device->device, offer->mr);
  offer->area->uses--;
  free(offer);
}

void offer_drop_all(struct pst_peer *peer)
{
  while (peer->offers)
    offer_drop(peer, peer->offers);
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
    offer_drop(peer, offer);
  struct node_entry *entry = peer_tell(peer, PST_NODE_TAKEN);
  entry->event.id = id;
  entry->event.status = code;
  if (code < 0 && (entry->text = strdup(text)))
    entry->event.text = entry->text;
}

/* Registered for this peer alone, and told to it. */
static int offer_make(struct pst_peer *peer, struct node_offer *offer,
                      const struct region_params *params, uint32_t access)
{
  struct pst_node *node = peer->node;
  struct region *region = &offer->area->own.region;
  unsigned char bytes[CONTROL_ADDRESS_MAX];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  const struct control_node_message message = {.type = WIRE_REGION,
                                               .id = peer->id,
                                               .region = offer->id,
                                               .access = access,
                                               .length = params->length,
                                               .blob = &blob};
  struct region_why why;
  int rc = region_register(region, params, &offer->mr, &region->path, &why);

  if (rc < 0)
    return rc;
  rc = node->worker.ops->mr_pack(node->device->device, offer->mr, &blob);
  if (rc == 0)
    rc = control_node_say(node->control, &message);
  if (rc < 0)
    node->worker.ops->mr_deregister(node->device->device, offer->mr);
  return rc;
}

int pst_peer_offer(struct pst_peer *peer, struct pst_area *area, uint64_t offset, uint64_t length,
                   uint32_t access, uint32_t *id)
{
  struct pst_node *node = peer->node;
  struct region_params params = {.device = node->device,
                                 .access = access | PST_ACCESS_LOCAL_READ,
                                 .offset = offset,
                                 .length = length,
                                 .domain = peer->id};

  if (peer->state != NODE_PEER_JOINED)
    return -ENOTCONN;
  if (!access || (access & ~(uint32_t)NODE_REMOTE_ACCESS) || area->node != node || length == 0)
    return -EINVAL;
  if (access & ~offer_possible_access(node))
    return -EOPNOTSUPP;
  if (!region_has(area->own.region.length, offset, length))
    return -ERANGE;
  /* InfiniBand asks for it where a peer writes. */
  if (access & (PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC))
    params.access |= PST_ACCESS_LOCAL_WRITE;
  struct node_offer *offer = calloc(1, sizeof(*offer));
  int rc = offer ? events_reserve(&node->events, 1) : -ENOMEM;
  if (rc == 0) {
    *offer = (struct node_offer){.next = peer->offers, .area = area, .id = peer->offer_last + 1};
    rc = offer_make(peer, offer, &params, access);
    if (rc < 0)
      events_unreserve(&node->events, 1);
  }
  if (rc < 0) {
    free(offer);
    return rc;
  }
  area->uses++;
  peer->offers = offer;
  peer->takens++;
  *id = peer->offer_last = offer->id;
  return 0;
}

int pst_peer_withdraw(struct pst_peer *peer, uint32_t id)
{
  struct node_offer *offer = offer_find(peer, id);

  if (!offer)
    return -ENOENT;
  peer_say(peer, WIRE_WITHDRAW, id, 0, NULL);
  offer_drop(peer, offer);
  return 0;
}
