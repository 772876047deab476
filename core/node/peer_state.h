/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a peer, and why it ends.
 *
 *   JOINING ──WELCOME, CONNECTED──▶ JOINED ──control ends───▶ CONTROL_LOST ───┐
 *      │                              ├─────transport ends──▶ TRANSPORT_LOST ─┤
 *      └──transport ends──▶ UNREACHED ┼───────────────────────────────────────┤ the other word,
 *                                     │                                       ▼ or no more time
 *                                     ├──we leave─▶ DRAINING ──all sent──▶ CLOSING ──CLOSED──▶ LEFT
 *                                     └──we leave at once, or the device is dead ─▲
 *
 * A peer that goes says so by two ways, the control channel and the transport. After the first word
 * the other is waited for, so that nothing that had arrived is lost, and the better reason is
 * reported. A transport that ends an endpoint unasked leads from any state to LEFT.
 */
#ifndef PST_NODE_PEER_STATE_H
#define PST_NODE_PEER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/transport.h>

#define NODE_TEXT_MAX 512

struct pst_peer;

enum node_peer_state {
  NODE_PEER_JOINING,   /* waits for WELCOME and for CONNECTED */
  NODE_PEER_UNREACHED, /* the transport has failed first: waits for the control channel's word */
  NODE_PEER_TRANSPORT_LOST, /* waits for the control channel's word */
  NODE_PEER_JOINED,
  NODE_PEER_CONTROL_LOST, /* waits for the transport's word, behind what has arrived */
  NODE_PEER_DRAINING,     /* we leave: messages that are queued go first */
  NODE_PEER_CLOSING,      /* waits for EVENT CLOSED */
  NODE_PEER_LEFT,         /* its last event is on its way; it is freed behind that one */
};

/* Whose reason for the end is the better one. */
enum peer_rank { PEER_RANK_NONE, PEER_RANK_TRANSPORT, PEER_RANK_CONTROL, PEER_RANK_OURS };

struct peer_end {
  enum peer_rank rank;
  int code;
  char text[NODE_TEXT_MAX];
};

/* deadline_ns: when what the state waits for is given up; 0: never. In CLOSING and LEFT there is
 * none, as the transport has its own. */
void peer_enter(struct pst_peer *peer, enum node_peer_state state, uint64_t deadline_ns);
/* One of the two words. */
void peer_control_over(struct pst_peer *peer, int code, const char *text);
void peer_transport_over(struct pst_peer *peer, int status);
/* Leave, for this reason if there is none yet. mode: enum pst_close_mode. */
void peer_leave(struct pst_peer *peer, uint32_t mode, int code, const char *text);
/* The deadline has passed. */
void peer_overdue(struct pst_peer *peer);
/* What was queued has gone out, of one that is DRAINING. */
void peer_drained(struct pst_peer *peer);
/* CLOSED has come. */
void peer_closed(struct pst_peer *peer);

/* It has joined, and we do not leave: what it sends is for the application. */
static inline bool peer_state_is_in(enum node_peer_state state)
{
  return state >= NODE_PEER_TRANSPORT_LOST && state <= NODE_PEER_CONTROL_LOST;
}

/* Its endpoint takes requests, when it is connected. */
static inline bool peer_state_takes(enum node_peer_state state)
{
  return state >= NODE_PEER_JOINED && state <= NODE_PEER_DRAINING;
}

#endif
