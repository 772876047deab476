/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to a peer: copied into slots of the node's, posted as credit allows. */
#include <errno.h>
#include <string.h>

#include "node.h"

#define BATCH 32

bool message_has_room(const struct pst_peer *peer)
{
  return peer->queued - peer->done < peer->node->messages;
}

static uint64_t place_of(const struct pst_peer *peer, uint64_t message)
{
  const struct pst_node *node = peer->node;

  return message % node->messages * node->send_stride + node->device->limits.send_headroom;
}

void message_push(struct pst_peer *peer)
{
  struct pst_node *node = peer->node;
  struct pst_request requests[BATCH];
  uint32_t wait;

  while (peer->posted != peer->queued && peer->is_connected && !peer->transport_over) {
    uint32_t n = 0;
    for (; n < BATCH && peer->posted + n != peer->queued; n++) {
      uint64_t message = peer->posted + n;
      requests[n] = (struct pst_request){.opcode = PST_OP_SEND,
                                         .flags = PST_REQUEST_EXCLUSIVE,
                                         .local.mr = peer->send_mr,
                                         .offset = place_of(peer, message),
                                         .arg.length = peer->lengths[message % node->messages],
                                         .cookie = message,
                                         .u.send.sequence = message};
    }
    int rc = node->ops->post(peer->endpoint, requests, n, &wait);
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

void message_took(struct pst_peer *peer, const struct pst_completion *completion)
{
  uint64_t count = completion->u.done.count;

  if (count > peer->posted - peer->done) {
    pst_log(PST_LOG_ERROR, "transport %s ends messages that were not sent: a bug of it",
            peer->node->device->plugin->name);
    peer_leave(peer, PST_CLOSE_ABORT, -EIO, "its transport has lost count of messages");
    return;
  }
  peer->done += count;
  if (completion->status < 0)
    peer_transport_over(peer, completion->status == -ECANCELED ? -ECONNRESET : completion->status);
}

uint64_t pst_peer_message_max(const struct pst_peer *peer)
{
  return peer->state == NODE_PEER_JOINED ? peer->message_max : 0;
}

int pst_peer_send(struct pst_peer *peer, const void *bytes, uint64_t length)
{
  struct pst_node *node = peer->node;

  if (peer->state != NODE_PEER_JOINED || peer->transport_over || peer->control_over)
    return -ENOTCONN;
  if (length > peer->message_max)
    return -EMSGSIZE;
  if (!message_has_room(peer)) {
    peer->wants_send_room = true;
    return -EAGAIN;
  }
  peer->lengths[peer->queued % node->messages] = (uint32_t)length;
  if (length)
    memcpy((uint8_t *)peer->send_region.host + place_of(peer, peer->queued), bytes, length);
  peer->queued++;
  message_push(peer);
  return 0;
}
