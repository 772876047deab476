/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a peer, and why it ends. */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "peer.h"

#define BIT(state) (1u << NODE_PEER_##state)

/* Only an assertion reads it. */
static const uint32_t successors[] __attribute__((unused)) = {
    [NODE_PEER_JOINING] = BIT(JOINED) | BIT(UNREACHED) | BIT(CLOSING),
    [NODE_PEER_UNREACHED] = BIT(CLOSING),
    [NODE_PEER_TRANSPORT_LOST] = BIT(CLOSING),
    [NODE_PEER_JOINED] = BIT(TRANSPORT_LOST) | BIT(CONTROL_LOST) | BIT(DRAINING) | BIT(CLOSING),
    [NODE_PEER_CONTROL_LOST] = BIT(DRAINING) | BIT(CLOSING),
    [NODE_PEER_DRAINING] = BIT(CLOSING),
    [NODE_PEER_CLOSING] = 0,
    [NODE_PEER_LEFT] = 0,
};

void peer_enter(struct pst_peer *peer, enum node_peer_state state, uint64_t deadline_ns)
{
  assert(successors[peer->state] & 1u << state ||
         (state == NODE_PEER_LEFT && peer->state != NODE_PEER_LEFT));
  assert(state < NODE_PEER_CLOSING || deadline_ns == 0);
  peer->state = state;
  peer->deadline_ns = deadline_ns;
}

static void peer_give_reason(struct pst_peer *peer, enum peer_rank rank, int code, const char *text)
{
  if (rank <= peer->end.rank)
    return;
  peer->end.rank = rank;
  peer->end.code = code;
  snprintf(peer->end.text, sizeof(peer->end.text), "%s", text ? text : "");
}

/* The other side gets the reason by the control channel, if that is there. */
static void peer_close_endpoint(struct pst_peer *peer, uint32_t mode)
{
  struct pst_node *node = peer->node;

  peer_enter(peer, NODE_PEER_CLOSING, 0);
  control_node_bye(node->control, peer->id, peer->end.code, peer->end.text);
  engine_endpoint_close(&peer->endpoint, mode, clock_now_ns() + NODE_CLOSE_NS);
}

/* Ends the peer: its reason is known, and no better one will come. */
static void peer_go(struct pst_peer *peer, uint32_t mode)
{
  const bool drains = mode == PST_CLOSE_DRAIN && peer_messages_wait(peer) &&
                      peer->state != NODE_PEER_TRANSPORT_LOST;

  assert(peer->state < NODE_PEER_DRAINING);
  peer->end.rank = PEER_RANK_OURS;
  peer->rma.cancelled = peer->end.code < 0 ? peer->end.code : -ECANCELED;
  if (peer->rma.rest_slot != RMA_NO_SLOT)
    rma_end_rest(&peer->rma, peer->rma.cancelled);
  if (drains)
    peer_enter(peer, NODE_PEER_DRAINING, clock_now_ns() + NODE_CLOSE_NS);
  else
    peer_close_endpoint(peer, mode);
}

void peer_leave(struct pst_peer *peer, uint32_t mode, int code, const char *text)
{
  if (peer->state >= NODE_PEER_DRAINING)
    return;
  peer_give_reason(peer, PEER_RANK_OURS, code, text);
  peer_go(peer, mode);
}

void peer_control_over(struct pst_peer *peer, int code, const char *text)
{
  peer_give_reason(peer, PEER_RANK_CONTROL, code, text);
  switch (peer->state) {
  case NODE_PEER_JOINING:
  case NODE_PEER_UNREACHED:
  case NODE_PEER_TRANSPORT_LOST:
    peer_go(peer, PST_CLOSE_ABORT);
    break;
  case NODE_PEER_JOINED:
    peer_enter(peer, NODE_PEER_CONTROL_LOST, clock_now_ns() + peer->node->grace_ns);
    break;
  default:
    break;
  }
}

void peer_transport_over(struct pst_peer *peer, int status)
{
  const uint64_t until = clock_now_ns() + peer->node->grace_ns;
  char text[NODE_TEXT_MAX];

  snprintf(text, sizeof(text), "%s: the transport has lost it: %s", peer->text,
           strerror(status ? -status : ECONNRESET));
  peer_give_reason(peer, PEER_RANK_TRANSPORT, status ? status : -ECONNRESET, text);
  switch (peer->state) {
  case NODE_PEER_JOINING:
    peer_enter(peer, NODE_PEER_UNREACHED, until);
    break;
  case NODE_PEER_JOINED:
    peer_enter(peer, NODE_PEER_TRANSPORT_LOST, until);
    break;
  case NODE_PEER_CONTROL_LOST:
    peer_go(peer, PST_CLOSE_ABORT);
    break;
  case NODE_PEER_DRAINING:
    peer_drained(peer);
    break;
  default:
    break;
  }
}

void peer_drained(struct pst_peer *peer)
{
  peer_close_endpoint(peer, PST_CLOSE_DRAIN);
}

void peer_closed(struct pst_peer *peer)
{
  if (peer->state < NODE_PEER_DRAINING) { /* a bug of the transport */
    peer_give_reason(peer, PEER_RANK_TRANSPORT, -EIO, "the transport has closed its endpoint");
    control_node_bye(peer->node->control, peer->id, peer->end.code, peer->end.text);
  }
  peer_enter(peer, NODE_PEER_LEFT, 0);
}

void peer_overdue(struct pst_peer *peer)
{
  char text[NODE_TEXT_MAX];

  if (peer->state == NODE_PEER_DRAINING) {
    peer_close_endpoint(peer, PST_CLOSE_ABORT);
    return;
  }
  snprintf(text, sizeof(text), "%s: transport %s did not connect within %.3g s", peer->text,
           peer->node->device->plugin->name,
           (double)peer->node->connect_timeout_ns / (double)PST_NS_PER_S);
  if (peer->end.rank == PEER_RANK_NONE)
    peer_give_reason(peer, PEER_RANK_TRANSPORT, -ETIMEDOUT, text);
  peer_go(peer, PST_CLOSE_ABORT);
}
