/* SPDX-License-Identifier: Apache-2.0 */
/* A node's part of its control channel, and how the node connects to other nodes. */
#ifndef PST_CONTROL_NODE_DIAL_H
#define PST_CONTROL_NODE_DIAL_H

#include "listener.h"
#include "messages.h"
#include "nodes.h"
#include "protocol.h"

/* An attempt to connect to a node: its addresses are tried one after the other. */
struct node_join {
  uint64_t id;
  bool is_insecure;
  char host_port[264];
  uint64_t by_ns;
  struct socket_addresses targets;
  uint32_t next;
  struct pst_blob address; /* of the endpoint; bytes and descriptors are ours */
  bool is_stale;           /* JOIN has told an older one */
  /* Hung up on before HELLO: the same target again at again_ns, until again_until_ns. */
  struct node_join *later;
  uint64_t again_ns, again_until_ns;
  char why[WIRE_WHY_MAX];
};

struct node_control {
  struct control_node_params asked; /* without what it points to, but for the context */
  struct connect_words words;       /* with the program's own word for `insecure` */
  char insecure_text[64];
  struct terms terms, params;
  uint64_t last_id;        /* of the peers that came */
  struct node_join *later; /* between two tries */
};

void node_control_free(struct node_control *node);

extern const struct control_protocol node_protocol;
/* Tries the next address; there is none: the attempt ends as the last one did, by `code` and
 * `why`. Takes `join` over. */
void node_dial(struct control *control, struct node_join *join, int code, const char *why);
/* The connection is lost before WELCOME. */
void node_dial_retry(struct connection *peer, int code, const char *why);
/* For a peer that is between two tries. */
void node_dial_command(struct control *control, struct command *command);
void node_dial_tick(struct control *control);
void node_dial_close_all(struct control *control);
void node_join_free(struct node_join *join);
/* Before WELCOME, which belongs to the address that JOIN told. Takes the blob over. */
void node_keep_address(struct node_join *join, struct pst_blob *address);
void node_tell_gone(struct control *control, uint64_t id, int code, const char *text);

#endif
