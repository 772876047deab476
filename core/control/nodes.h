/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel of a node: peers that come and go, and the regions that they offer
 * each other. The same connections, handshake, side-socket and limits as of streams.
 *
 *   connector                       acceptor
 *   HELLO   →                       ← HELLO
 *   JOIN(terms, params, address)    →
 *                                   ← WELCOME(params, address)
 *   REGION(id, length, access, …)   ↔              on offer
 *   TAKEN(id) | TAKEN(id, code)     ↔              the answer
 *   WITHDRAW(id)                    ↔              it is no more; there is no answer
 *   READDRESS(address)              ↔              the endpoint's is another now
 *   BYE(code, text)                 ↔
 *
 * Callbacks come on the control thread and must not block; they leave mail for the node's
 * thread. Calls may come from any thread and do not block, but for the look-up of a name.
 */
#ifndef PST_CONTROL_NODES_H
#define PST_CONTROL_NODES_H

#include "control.h"

struct control_region {
  uint32_t id;
  uint32_t access;
  uint64_t length;
  const struct pst_blob *remote; /* fds are closed after the callback: duplicate what is kept */
};

struct control_node_callbacks {
  void *context;
  /* Somebody has come, as peer `id`, and agrees: control_node_welcome() or _bye(). */
  void (*join)(void *context, uint64_t id, const struct control_peer *peer);
  /* Peer `id`, whom we connected to, agrees. */
  void (*welcome)(void *context, uint64_t id, const struct control_peer *peer);
  /* Answered by control_node_taken(). At most offers_max that were not refused or released. */
  void (*region)(void *context, uint64_t id, const struct control_region *region);
  void (*taken)(void *context, uint64_t id, uint32_t region, int code, const char *text);
  void (*withdraw)(void *context, uint64_t id, uint32_t region);
  /* The peer's endpoint has this address from now on. After join or welcome. */
  void (*readdress)(void *context, uint64_t id, const struct pst_blob *address);
  /* Once, for each that came or was to be connected to; nothing follows. code 0: it closed.
   * Not called for what this side itself said by control_node_bye(). */
  void (*gone)(void *context, uint64_t id, int code, const char *text);
};

struct control_node_params {
  const char *listen; /* "host:port"; NULL: nobody comes */
  bool insecure;
  bool needs_fds;     /* one whose endpoint's address comes without descriptors is refused */
  uint32_t peers_max; /* connections at a time; there is some room more for strangers */
  uint32_t offers_max;
  uint64_t join_timeout_ns; /* from the connection, or JOIN, to WELCOME */
  uint64_t peer_timeout_ns;
  const struct control_pair *terms; /* both ends must have the same */
  uint32_t term_count;
  const struct control_pair *params; /* what this end tells the other */
  uint32_t param_count;
};

/* In *error as of control_open(). Closed by control_close(). */
int control_node_open(const struct control_node_params *params,
                      const struct control_node_callbacks *callbacks, struct control **control,
                      struct pst_error *error);
uint16_t control_node_port(const struct control *control);

/* Connect as peer `id`: even, and never used before; those that come get odd ones. Blocks for
 * the look-up of a name. */
int control_node_connect(struct control *control, uint64_t id, const char *host_port, bool insecure,
                         const struct pst_blob *address, struct pst_error *error);

/* 0; -ENOMEM, -EMFILE, -E2BIG. For a peer that has gone they do nothing.
 * readdress: what welcome or connect told is no more; legal before there is an answer. */
int control_node_readdress(struct control *control, uint64_t id, const struct pst_blob *address);
int control_node_welcome(struct control *control, uint64_t id, const struct pst_blob *address);
int control_node_region(struct control *control, uint64_t id, const struct control_region *region);
/* code 0: taken. */
int control_node_taken(struct control *control, uint64_t id, uint32_t region, int code,
                       const char *text);
int control_node_withdraw(struct control *control, uint64_t id, uint32_t region);
/* The node is through with a region of the peer's that the peer has withdrawn: there is room for
 * another. The peer is not told. */
int control_node_release(struct control *control, uint64_t id, uint32_t region);
/* Nothing follows, either way. code 0: in order. */
int control_node_bye(struct control *control, uint64_t id, int code, const char *text);

#endif
