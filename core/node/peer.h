/* SPDX-License-Identifier: Apache-2.0 */
/* A peer of a node: its endpoint, ring and messages, and what both have on offer. */
#ifndef PST_NODE_PEER_H
#define PST_NODE_PEER_H

#include "engine/rma_plain.h"
#include "node.h"

struct node_offer;
struct node_use;

#define NODE_TEXT_MAX 512

enum node_peer_state {
  NODE_PEER_JOINING,   /* waits for WELCOME and for CONNECTED */
  NODE_PEER_UNREACHED, /* the transport has failed first: waits for the control channel's report */
  NODE_PEER_TRANSPORT_LOST, /* waits for the control channel's report */
  NODE_PEER_JOINED,
  NODE_PEER_CONTROL_LOST, /* waits for the transport's report, behind what has arrived */
  NODE_PEER_DRAINING,     /* we leave: messages that are queued go first */
  NODE_PEER_CLOSING,      /* waits for EVENT CLOSED */
  NODE_PEER_LEFT,         /* its last event is on its way; it is freed behind that one */
};

/* Sources of the reason for a peer's end; a later one is better. */
enum peer_rank { PEER_RANK_NONE, PEER_RANK_TRANSPORT, PEER_RANK_CONTROL, PEER_RANK_OURS };

struct peer_end {
  enum peer_rank rank;
  int code;
  char text[NODE_TEXT_MAX];
};

/* Reasons why the application was refused; it gets an event when there is room again. */
enum peer_room { PEER_ROOM_SEND = 1, PEER_ROOM_POST = 2 };

/* A message of ours: where it lies in the pool, and its bytes. */
struct peer_message {
  uint32_t slot;
  uint32_t length;
};

/* A region of the peer's on offer to us. */
struct node_remote {
  struct node_remote *next;
  uint32_t id;
  uint32_t access;
  uint64_t length;
  bool is_withdrawn;
  uint32_t uses;             /* is_withdrawn: operations under way */
  struct pst_remote *remote; /* NULL: not opened yet */
  struct pst_blob blob;      /* until then; bytes and descriptors are ours */
};

/* WRITEs or READs of one piece without flags, between one area and one region of the peer's: of one
 * such all was checked, and of the next their ranges are. */
struct plain_run {
  uint8_t op;
  uint32_t id;
  struct pst_area *area; /* NULL: there is no run */
  struct node_remote *remote;
  struct rma_plain common;
  uint64_t local_length, remote_length;
  uint64_t length_max; /* of one; 0: there is no run */
};

struct pst_peer {
  struct engine_endpoint endpoint;
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

  struct pst_blob address; /* to connect to once it is connected; bytes and descriptors are ours */

  struct node_ring *ring; /* the node's, or: */
  struct node_ring own_ring;

  /* Messages from us: [done, posted) are under way, [posted, queued) wait for credit. */
  struct send_pool *sends; /* the node's, or: */
  struct send_pool own_sends;
  struct peer_message *messages; /* the last node->messages */
  uint64_t queued, posted, done;
  uint64_t message_max; /* the lesser of both sides' */

  struct rma rma;
  struct plain_run run;    /* of operations that go the short way */
  struct node_use *uses;   /* of each slot */
  struct pst_area **areas; /* of the pieces of each slot, node->pieces of them; NULL: no more */

  struct node_offer *offers;
  uint32_t offer_last;
  uint32_t takens; /* TAKENs that are still to come */
  struct node_remote *remotes;
  uint32_t withdrawing; /* those that are withdrawn, and in use */
  uint64_t remote_bytes;
};

/* ---- peer.c ---- */
int peer_open(struct pst_node *node, uint64_t id, const char *text, struct pst_peer **peer);
/* With its objects; the endpoint is closed. */
void peer_forget(struct pst_peer *peer);
/* Tell it where our endpoint is, by WELCOME or READDRESS. False: it is left instead. */
bool peer_say_address(struct pst_peer *peer, enum wire_type type);
void peer_meet(struct pst_peer *peer, const struct pst_blob *address, uint64_t message_max);
/* The peer's endpoint has another address now; takes the blob over. */
void peer_meet_again(struct pst_peer *peer, struct pst_blob *address);
/* Handlers of the transport's events. */
void peer_heard_connected(struct engine_endpoint *endpoint);
void peer_heard_disconnected(struct engine_endpoint *endpoint, int status);
void peer_heard_readdressed(struct engine_endpoint *endpoint);
void peer_heard_closed(struct engine_endpoint *endpoint);
void peer_take_message(struct pst_peer *peer, const struct pst_completion *completion);
void peer_take_done(struct pst_peer *peer, const struct pst_completion *completion);
void peer_progress(struct pst_peer *peer, uint64_t now);
bool peer_is_due(const struct pst_peer *peer); /* progress would do something */

/* ---- peer_state.c ---- */
/* deadline_ns: when what the state waits for is given up; 0: never. In CLOSING and LEFT there is
 * none, as the transport has its own. */
void peer_enter(struct pst_peer *peer, enum node_peer_state state, uint64_t deadline_ns);
/* The control channel reports that the peer is over. */
void peer_control_over(struct pst_peer *peer, int code, const char *text);
/* The transport reports that the peer is over. */
void peer_transport_over(struct pst_peer *peer, int status);
/* Leave, for this reason if there is none yet. mode: enum pst_close_mode. */
void peer_leave(struct pst_peer *peer, uint32_t mode, int code, const char *text);
/* The deadline has passed. */
void peer_overdue(struct pst_peer *peer);
/* Goes on with closing when a DRAINING peer's queue is empty. */
void peer_drained(struct pst_peer *peer);
/* CLOSED has come. */
void peer_closed(struct pst_peer *peer);

/* Returns whether the peer has joined and we do not leave: its messages are for the application. */
static inline bool peer_state_is_in(enum node_peer_state state)
{
  return state >= NODE_PEER_TRANSPORT_LOST && state <= NODE_PEER_CONTROL_LOST;
}

/* Returns whether the peer's endpoint takes requests, when it is connected. */
static inline bool peer_state_takes(enum node_peer_state state)
{
  return state >= NODE_PEER_JOINED && state <= NODE_PEER_DRAINING;
}

/* ---- exports.c: regions of ours on offer to it ---- */
/* The peer has answered an offer. */
void offer_taken(struct pst_peer *peer, uint32_t id, int code, const char *text);
void offer_drop_all(struct pst_peer *peer);

/* ---- imports.c: regions of its on offer to us ---- */
/* Takes the blob over. */
void remote_offered(struct pst_peer *peer, const struct control_node_message *offer,
                    struct pst_blob *blob);
void remote_open_all(struct pst_peer *peer); /* those that came before the transport was there */
void remote_withdrawn(struct pst_peer *peer, uint32_t id);
/* An operation on a region that the peer has withdrawn has ended. */
void remote_unuse(struct pst_peer *peer, struct node_remote *remote);
void remote_drop(struct pst_peer *peer, struct node_remote *remote);
void remote_drop_all(struct pst_peer *peer);
struct node_remote *remote_find(const struct pst_peer *peer, uint32_t id);

/* Say something of a region on offer. */
static inline int peer_say(const struct pst_peer *peer, enum wire_type type, uint32_t region,
                           int code, const char *text)
{
  return control_node_say(
      peer->node->control,
      &(struct control_node_message){
          .type = type, .id = peer->id, .region = region, .code = code, .text = text});
}

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
