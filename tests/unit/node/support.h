/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes within this process, on this thread, over loopback and TCP. */
#ifndef NODE_SUPPORT_H
#define NODE_SUPPORT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <penstock/penstock.h>

#define DEADLINE_NS UINT64_C(60000000000)
#define ALL_ACCESS (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)

#define LOG_MAX 4096

/* A node with the events that nobody has taken. */
struct side {
  struct pst_node *node;
  struct pst_peer *peer;
  struct pst_node_event log[LOG_MAX];
  char text[LOG_MAX][256]; /* of JOINED, LEFT and TAKEN */
  char bytes[LOG_MAX][64]; /* of MESSAGEs, their first */
  uint32_t logged;
};

struct pair {
  struct side server, client;
};

uint64_t now_ns(void);
struct pst_node_params some_params(void); /* loopback, small */
/* As some_params(), for a node that serves any user. */
struct pst_node_params open_params(void);
void side_open(struct side *side, const struct pst_node_params *params);
void side_close(struct side *side);
/* Poll once, sleeping while there is nothing. */
void side_poll(struct side *side);
void side_turn(struct side *side); /* the same, without sleep */
/* Until there is something for one of these nodes, or to be read from one of the descriptors (-1:
 * none); a millisecond at most. The simulated clock moves instead, if no thread has run since
 * `turn`. */
void sides_sleep(struct side *const *sides, uint32_t count, const int *fds, uint32_t fd_count,
                 uint64_t turn);
bool side_take(struct side *side, uint8_t kind, struct pst_node_event *event, char text[256]);
/* Poll both (other may be NULL) until there is one. */
struct pst_node_event await(struct side *side, struct side *other, uint8_t kind);
/* With its text, valid until the next call. */
struct pst_node_event await_text(struct side *side, struct side *other, uint8_t kind,
                                 const char **text);
void connect_sides(struct side *server, struct side *client);
void pair_open(struct pair *pair, const struct pst_node_params *server,
               const struct pst_node_params *client);
/* As pair_open(), with a server of open_params(). */
void pair_open_to_all(struct pair *pair);
void pair_close(struct pair *pair);
struct pst_area *area_of(struct side *side, uint64_t length);
uint8_t *bytes_of(const struct pst_area *area);
/* The owner offers all of an area; the other knows of it. */
uint32_t offer(struct side *owner, struct side *other, struct pst_area *area, uint32_t access);
/* With a cookie of its own. */
struct pst_operation make_operation(uint8_t op, uint32_t id, struct pst_area *area, uint64_t offset,
                                    uint64_t remote, uint64_t length);
/* Post it to the side's peer, and poll until it has ended. */
struct pst_node_event run_operation(struct side *side, const struct pst_operation *o);
int use_fakes(void **state);
/* some_params() by a command line, TRANSPORT [OPTION=VALUE]...; what is wrong with it is printed.
 */
bool params_by(int argc, char **argv, struct pst_node_params *params);

#endif
