/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel of a node: peers that come and go, and the regions that they offer
 * each other. The same connections, handshake, Unix socket and limits as of streams.
 *
 *   connector                       acceptor
 *   HELLO   →                       ← HELLO
 *   JOIN(terms, params, address)    →
 *                                   ← WELCOME(params, address)
 *   then either: REGION, TAKEN, WITHDRAW, READDRESS, BYE, and without a transport MESSAGE, ROOM
 *
 * Callbacks come on the control thread and must not block; they leave mail for the node's
 * thread. Calls may come from any thread and do not block, but for the look-up of a name.
 */
#ifndef PST_CONTROL_NODES_H
#define PST_CONTROL_NODES_H

#include "control.h"
#include "wire.h"

/* A message between two nodes, or a request of a node to its control channel. `type` says which
 * fields count. Pointers refer to the caller's memory: callbacks duplicate the descriptors that
 * they keep.
 *
 * JOIN       heard: somebody has come, as peer `id`, and agrees; WELCOME or BYE answers
 * WELCOME    heard: the peer that we connected to agrees
 * REGION     `length` bytes with remote rights `access`; TAKEN answers. Heard: at most offers_max
 *            that were not refused or released
 * TAKEN      the answer; code 0: taken
 * WITHDRAW   the region is no more; there is no answer
 * KEEP       said: the node is through with a region that the peer has withdrawn, and there is room
 *            for another. The peer hears nothing
 * READDRESS  the endpoint has another address from now on; said: legal before there is a WELCOME
 * MESSAGE    at most CONTROL_MESSAGE_MAX bytes, and as many messages as the peer has room for
 * ROOM       so many of the messages heard were taken
 * BYE        code 0: in order. Nothing follows, either way. Heard once, for each that came or was
 *            to be connected to, unless this side has said it
 */
struct control_node_message {
  enum wire_type type;
  uint64_t id; /* the peer's */
  uint32_t region;
  uint32_t access;
  uint32_t count; /* ROOM */
  uint64_t length;
  int code;
  const char *text;                /* TAKEN, BYE: why; NULL: "" */
  const struct pst_blob *blob;     /* an address, a packed region, a message's bytes; or NULL */
  const struct control_peer *peer; /* heard JOIN, WELCOME */
};

struct control_node_params {
  const char *listen; /* "host:port"; NULL: nobody comes */
  bool insecure;
  const struct pst_tls_params *tls; /* NULL: none */
  const char *insecure_word;        /* "--insecure": what sets it, for errors; NULL: `insecure` */
  bool needs_fds;     /* one whose endpoint's address comes without descriptors is refused */
  uint32_t peers_max; /* connections at a time; there is some room more for strangers */
  uint32_t offers_max;
  uint32_t messages_max;    /* of one peer, until they are taken; 0: there are none */
  uint64_t join_timeout_ns; /* from the connection, or JOIN, to WELCOME */
  uint64_t peer_timeout_ns;
  const struct control_pair *terms; /* both ends must have the same */
  uint32_t term_count;
  const struct control_pair *params; /* what this end tells the other */
  uint32_t param_count;
  /* On the control thread; must not block. */
  void (*heard)(void *context, const struct control_node_message *message);
  void *context;
};

/* In *error as of control_open(). Closed by control_close(); its port is control_port(). */
int control_node_open(const struct control_node_params *params, struct control **control,
                      struct pst_error *error);

/* Connect as peer `id`: even, and never used before; those that come get odd ones. Blocks for
 * the look-up of a name. */
int control_node_connect(struct control *control, uint64_t id, const char *host_port, bool insecure,
                         const struct pst_blob *address, struct pst_error *error);

/* 0; -ENOMEM, -EMFILE, -E2BIG. To a peer that has gone nothing is said. */
int control_node_say(struct control *control, const struct control_node_message *message);

static inline void control_node_bye(struct control *control, uint64_t id, int code,
                                    const char *text)
{
  const struct control_node_message bye = {.type = WIRE_BYE, .id = id, .code = code, .text = text};

  control_node_say(control, &bye);
}

#endif
