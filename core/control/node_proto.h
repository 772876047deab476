/* SPDX-License-Identifier: Apache-2.0 */
/* The messages of nodes, and how nodes are connected to. */
#ifndef PST_CONTROL_NODE_PROTO_H
#define PST_CONTROL_NODE_PROTO_H

#include <stdint.h>

struct command;
struct control;
struct control_protocol;
struct node_join;
struct peer;

extern const struct control_protocol node_protocol;

/* ---- node_dial.c ---- */
/* Tries the next address; there is none: the attempt ends as the last one did, by `code` and
 * `why`. Takes `join` over. */
void node_dial(struct control *control, struct node_join *join, int code, const char *why);
/* The connection is lost before WELCOME. */
void node_dial_retry(struct peer *peer, int code, const char *why);
/* For a peer that is between two tries. */
void node_dial_command(struct control *control, struct command *command);
/* When the next try is due. */
uint64_t node_dial_tick(struct control *control);
void node_dial_close_all(struct control *control);
void node_join_free(struct node_join *join);
void node_tell_gone(struct control *control, uint64_t id, int code, const char *text);

#endif
