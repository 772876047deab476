/* SPDX-License-Identifier: Apache-2.0 */
/* A peer of a node: its endpoint, ring and messages, and what both have on offer. */
#ifndef PST_NODE_PEER_H
#define PST_NODE_PEER_H

#include "engine/region.h"
#include "engine/rma.h"
#include "node.h"
#include "peer_state.h"
#include "send_pool.h"

struct node_offer;
struct node_remote;
struct node_use;

/* What the application was refused for want of room, and is to hear of. */
enum peer_room { PEER_ROOM_SEND = 1, PEER_ROOM_POST = 2 };

struct pst_peer {
  struct pst_node *node;
  struct pst_peer *next;
  uint64_t id; /* of the control channel */
  void *context;
  enum node_peer_state state;
  bool is_connected;    /* CONNECTED has come since the endpoint was given an address */
  bool is_silent;       /* the application does not know it */
  bool is_room_told;    /* ROOM is on its way */
  uint8_t room_wanted;  /* enum peer_room */
  uint64_t deadline_ns; /* of the state; 0: none */
  struct peer_end end;
  char text[192];
  char local[NODE_PLACE_MAX], remote[NODE_PLACE_MAX];

  struct pst_endpoint *endpoint;
  struct pst_blob address; /* to connect to once it is connected; bytes and descriptors are ours */

  struct region ring_region;
  struct pst_ring *ring;

  /* Messages from us: [done, posted) are under way, [posted, queued) wait for credit. */
  struct send_share sends;
  uint32_t *lengths;
  uint64_t queued, posted, done;
  uint64_t message_max; /* the lesser of both sides' */

  struct rma rma;
  struct node_use *uses;    /* of each slot */
  struct pst_area **areas;  /* of the pieces of each slot, node->pieces of them; NULL: no more */
  struct pst_piece *pieces; /* of a batch of operations */
  bool has_completed;       /* rma.completed are to be handed out: it is in the node's list */
  struct pst_peer *next_completed;

  struct node_offer *offers;
  uint32_t offer_last;
  uint32_t takens; /* TAKENs that are still to come */
  struct node_remote *remotes;
  struct node_remote *recent; /* of which an operation was posted last; NULL */
  uint32_t withdrawing;       /* those that are withdrawn, and in use */
  uint64_t remote_bytes;
};

int peer_open(struct pst_node *node, uint64_t id, const char *text, struct pst_peer **peer);
/* With its objects; the endpoint is closed. */
void peer_forget(struct pst_peer *peer);
/* Entries that one peer's events may need. */
uint32_t peer_entries(const struct pst_node *node);
int peer_address(struct pst_peer *peer, void *bytes, struct pst_blob *blob);
void peer_meet(struct pst_peer *peer, const struct pst_blob *address, uint64_t message_max);
/* The peer's endpoint has another address now; takes the blob over. */
void peer_meet_again(struct pst_peer *peer, struct pst_blob *address);
/* What would name the endpoint could not be made, or not be sent. */
void peer_leave_untold(struct pst_peer *peer, int code);
void peer_take(struct pst_peer *peer, const struct pst_completion *completion);
void peer_progress(struct pst_peer *peer, uint64_t now);
bool peer_is_due(const struct pst_peer *peer); /* progress would do something */

static inline bool peer_messages_wait(const struct pst_peer *peer)
{
  return peer->posted != peer->queued;
}

/* "; raise …" when that is what helps against -errno, else "": for the other side. */
static inline const char *peer_remedy(int code)
{
  return code == -EMFILE ? "; raise `ulimit -n` of the process that says so" : "";
}

static inline struct node_entry *peer_tell(struct pst_peer *peer, enum pst_node_event_kind kind)
{
  return events_add(&peer->node->events, peer, kind);
}

#endif
