/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a WRITE or READ case: a node with a region, and its peer.
 *
 *   target                                initiator
 *   listens                           ←   connects
 *                                     ←   {"token": …}, the case's
 *   offers its region                 →
 *   {"checked": n}                    ↔   {"check": n, "pattern": p}, with --verify
 *                                     ←   {"done": n}, then it closes
 */
#ifndef APP_BENCH_REGION_END_H
#define APP_BENCH_REGION_END_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#include "cases.h"
#include "engine/usage.h"
#include "result_row.h"

struct json_object;

struct region_end {
  struct pst_node *node; /* NULL: not open */
  struct pst_area *area;
  bool is_target;
  uint32_t access; /* target: what its region is offered for */
  char token[BENCH_TOKEN_MAX];
  struct pst_peer *peer;    /* target: it has shown the token; NULL also once it has left */
  uint32_t region;          /* initiator: the target's; 0: not on offer yet */
  struct json_object *said; /* by the peer, and not taken yet; NULL */
  bool is_met, has_left;
  int code;       /* has_left: why; 0: in order */
  char text[512]; /* in words; "": nobody said */
  uint64_t told;  /* target: what the initiator has done in all */
  bool is_told;
  struct bench_path path; /* is_met */
  /* Initiator: FLUSHes included. */
  uint64_t posted, done, failed;
  uint64_t blocked_ns, blocked_since_ns; /* by the transport; since: 0: it is not */
  struct usage first, last;              /* of the thread that drives it */
};

/* A target listens at `listen`, "host:port"; an initiator's is NULL. Neither is pinned to a CPU
 * while it opens, nor are its threads. 0, or reported in *error. Closing one that is not open is
 * legal. */
int bench_region_end_open(const struct bench_plan *plan, const struct bench_case *c,
                          const char *listen, int cpu, struct region_end *end,
                          struct pst_error *error);
void bench_region_end_close(struct region_end *end);
/* Opens an initiator, and begins to connect. */
int bench_region_end_connect(const struct bench_plan *plan, const struct bench_case *c,
                             const char *host, uint16_t port, struct region_end *end,
                             struct pst_error *error);

/* Takes an event of pst_node_poll() that is no DONE. */
void bench_region_end_take(struct region_end *end, const struct pst_node_event *event);
/* Poll, and sleep until something comes or some milliseconds have passed. For a time in which no
 * operation is under way. 0; the node's error. */
int bench_region_end_turn(struct region_end *end);
/* Takes `object` over. 0; -ENOTCONN; -ENOMEM. */
int bench_region_end_say(struct region_end *end, struct json_object *object);

/* The clock of both `blocked` and the CPU's use stops. */
void bench_region_end_stop(struct region_end *end);
/* As of a stream: its times, and why it has left. */
struct pst_stats bench_region_end_stats(const struct region_end *end);

#endif
