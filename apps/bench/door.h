/* SPDX-License-Identifier: Apache-2.0 */
/* Whom a bench server serves. TCP on a loopback address does not tell whose process is at the
 * other end, so each end shows its user by a side-socket, as the ends of streams do
 * (core/control/side.h):
 *
 *   client                               server
 *                                        ← {"penstock_bench": 1, "side": PATH, "token": HEX}
 *   its claim, by the side-socket        →
 *                                        ← the server's claim, by the side-socket
 *   {"penstock_bench": 1, …}             →  and so on by TCP
 *
 * To another host the first line has neither path nor token, and the client goes on by TCP; that
 * takes --insecure at both ends. */
#ifndef APP_BENCH_DOOR_H
#define APP_BENCH_DOOR_H

#include "control/side.h"
#include "link.h"

/* Connections that have not shown whose they are; the oldest goes. */
#define DOOR_WAITING 256

struct door_guest {
  int fd; /* TCP; -1: none */
  uint8_t token[WIRE_TOKEN_BYTES];
};

struct door {
  struct link_listener listener;
  struct side_listener side;
  bool is_open; /* --insecure: also to those who do not show their user */
  struct door_guest guests[DOOR_WAITING];
  uint32_t next; /* the oldest's place */
};

/* As link_listen(). */
int door_open(struct door *door, const char *where, uint16_t port, bool insecure,
              struct pst_error *error);
void door_close(struct door *door);
/* Waits for a client that may be served. 0; -EAGAIN: none within timeout_ms. */
int door_take(struct door *door, int timeout_ms, struct link *link);

/* The client's part, once it is connected. 0, or reported in *error. */
int door_pass(struct link *link, bool insecure, struct pst_error *error);

#endif
