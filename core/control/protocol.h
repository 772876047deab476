/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol that peers speak, for streams or for a node's regions, as a table; and the commands
 * of other threads. */
#ifndef PST_CONTROL_PROTOCOL_H
#define PST_CONTROL_PROTOCOL_H

#include "loop.h"
#include "nodes.h"

struct node_join;

struct command {
  struct mail mail;                /* its blob: an address, a packed region, or a message's bytes */
  struct control_node_message say; /* of streams: type and code; text and blob are here */
  struct stream *stream;
  struct control_totals totals;
  bool has_totals;
  struct node_join *join;
  char text[WIRE_TEXT_MAX + 1];
};

/* A message that has come. */
struct message_in {
  struct connection *peer;
  struct stream *stream; /* which it names; NULL: none, or of nodes */
  const struct wire_message *message;
  const struct unix_fds *fds; /* all of its descriptors, or none */
};

/* Operations of a protocol: of streams (stream_proto.c), or of a node's regions (node_proto.c). */
struct control_protocol {
  uint32_t connector, acceptor; /* enum wire_role */
  const char *connector_name, *acceptor_name;
  const char *what; /* its messages are for */
  const char *idle; /* what one has not done that is dropped for idleness */
  /* The connector's peer has said HELLO. */
  void (*up)(struct connection *peer);
  /* May it come now? Finds its stream. If not, its peer is dropped, or one of ours crossed it. */
  bool (*admits)(struct message_in *in);
  void (*got[WIRE_TYPES])(const struct message_in *in);
  /* Is there anything that needs this peer? */
  bool (*has)(const struct connection *peer, bool live_only);
  /* Writes the names of what needs this peer, for people; NULL: the loss of a peer is no error. */
  void (*names)(const struct connection *peer, char *text, size_t size);
  void (*fail_peer)(struct connection *peer, int code, const char *text);
  /* A connector is lost before anything was live. */
  void (*retry)(struct connection *peer, int code, const char *why);
  void (*forget)(struct connection *peer); /* it is freed */
  void (*command)(struct control *control, struct command *command);
  void (*close_all)(struct control *control);
  void (*tick)(struct control *control); /* acts on what is due: control_is_due() */
};

/* Make a control channel for one of the protocols, without its thread. */
int control_new(const struct control_params *params, const struct control_protocol *protocol,
                struct control **control, struct pst_error *error);
/* Start the thread if `rc`, the result of the protocol's own set-up, is 0; else free the control.
 */
int control_start(struct control *control, int rc, struct control **result,
                  struct pst_error *error);
/* Hands over a copy of a command, with what it points to. Any thread. 0; -ENOMEM, -EMFILE,
 * -E2BIG. */
int commands_say(struct control *control, const struct command *what);

#endif
