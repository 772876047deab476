/* SPDX-License-Identifier: Apache-2.0 */
/* The clients of a step that ask beside its first one. */
#ifndef APP_HARDWARE_CLIENTS_H
#define APP_HARDWARE_CLIENTS_H

#include "end.h"

struct json_object;

struct hardware_clients {
  struct child all[HARDWARE_CLIENTS]; /* those that are to be killed come first */
  uint32_t count, killed;
  bool was_killed;
};

/* Starts those of the step that are to be killed, or, then, the others. -errno, with `why`;
 * hardware_clients_end() ends them. */
int hardware_clients_start(struct hardware_clients *crowd, const struct hardware_end *end,
                           const struct hardware_ask *ask, const char *host, uint16_t port,
                           bool are_killed, char why[HARDWARE_WHY]);
/* Takes what they have written; sleeps at most `ns` for one of them. */
void hardware_clients_look(struct hardware_clients *crowd, uint64_t ns);
/* Whether each that is to be killed has said so, as hardware_child_has_said(). */
bool hardware_clients_has_said(const struct hardware_clients *crowd, const char *start,
                               const char *words);
/* Kills those that are to be. */
void hardware_clients_kill(struct hardware_clients *crowd);
/* Whether all others have ended. */
bool hardware_clients_is_through(const struct hardware_clients *crowd);
/* Whether any of the others has not ended well, once all have: `why` says how. */
bool hardware_clients_has_failed(const struct hardware_clients *crowd, char why[HARDWARE_WHY]);
/* Of `result`, which is put, and the others' results the one with the longest round trip. */
struct json_object *hardware_clients_slowest(const struct hardware_clients *crowd,
                                             struct json_object *result);
/* Kills all that still run, and frees what they have written. */
void hardware_clients_end(struct hardware_clients *crowd);

#endif
