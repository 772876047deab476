/* SPDX-License-Identifier: Apache-2.0 */
/* The other end of each step: on this host, or by another host's `penstock hardware-check
 * --server`.
 *
 *   client                                      server
 *   {"penstock_hardware_check": 1, …}      →
 *                                          ←    the same, and what it has
 *   {"start": "rings", "step": 0,
 *    "transport": "verbs_rc", …}           →    starts what its own table says, of what it has
 *                                          ←    {"port": …} or {"error": …}
 *                                          ←    {"ended": true}, if its program has, before:
 *   {"finish": true}                       →
 *                                          ←    {"told": …}
 *   {"goodbye": true}                      →
 */
#ifndef APP_HARDWARE_REMOTE_H
#define APP_HARDWARE_REMOTE_H

#include "end.h"

struct control_link;

#define HARDWARE_PORT 18540 /* of the server; the next two are for its programs */

struct hardware_remote {
  struct hardware_end end;   /* on this host: its program; else what the server has, alone */
  struct control_link *link; /* NULL: the other end is on this host */
  bool has_gone, has_ended;
  char host[108];                  /* or the path of a socket */
  uint16_t port;                   /* of the program that serves */
  struct json_object *environment; /* of the server's host; NULL */
};

/* HOST[:PORT]. 0, or -errno, said why. */
int hardware_remote_connect(struct hardware_remote *far, const char *where,
                            struct pst_error *error);
void hardware_remote_close(struct hardware_remote *far);

/* The program serves the step at far->host and far->port. -errno, with `why`; far->has_gone: no
 * step can follow. */
int hardware_remote_start(struct hardware_remote *far, const struct hardware_ask *ask,
                          char why[HARDWARE_WHY]);
/* Notes in far->has_ended that its program has ended, and in far->has_gone that the server has. */
void hardware_remote_look(struct hardware_remote *far);
/* Ends it: what it has told, as hardware_told(). NULL: the server has gone. `is_alone`: its peer
 * has crashed, and nothing else ends it. */
struct json_object *hardware_remote_finish(struct hardware_remote *far, const char *about,
                                           bool is_alone);

/* `penstock hardware-check --server`: one client after the other. The exit status. */
int hardware_server(struct hardware_end *end, const char *where, bool once);

#endif
