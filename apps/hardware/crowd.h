/* SPDX-License-Identifier: Apache-2.0 */
/* The clients of a step that ask beside its first one. */
#ifndef APP_HARDWARE_CROWD_H
#define APP_HARDWARE_CROWD_H

#include "end.h"

struct json_object;

struct hardware_crowd {
  struct child all[HARDWARE_CLIENTS]; /* those that are to be killed come first */
  uint32_t count, killed;
  bool was_killed;
};

/* Starts those of the step that are to be killed, or, then, the others. -errno, with `why`;
 * hardware_crowd_end() ends them. */
int hardware_crowd_start(struct hardware_crowd *crowd, const struct hardware_end *end,
                         const struct hardware_ask *ask, const char *host, uint16_t port,
                         bool are_killed, char why[HARDWARE_WHY]);
/* Takes what they have written; sleeps at most `ns` for one of them. */
void hardware_crowd_look(struct hardware_crowd *crowd, uint64_t ns);
/* Whether each that is to be killed has said so, as hardware_child_has_said(). */
bool hardware_crowd_has_said(const struct hardware_crowd *crowd, const char *start,
                             const char *words);
/* Kills those that are to be. */
void hardware_crowd_kill(struct hardware_crowd *crowd);
/* Whether all others have ended. */
bool hardware_crowd_is_through(const struct hardware_crowd *crowd);
/* Whether any of the others has not ended well, once all have: `why` says how. */
bool hardware_crowd_has_failed(const struct hardware_crowd *crowd, char why[HARDWARE_WHY]);
/* Of `result`, which is put, and the others' results the one with the longest round trip. */
struct json_object *hardware_crowd_slowest(const struct hardware_crowd *crowd,
                                           struct json_object *result);
/* Kills all that still run, and frees what they have written. */
void hardware_crowd_end(struct hardware_crowd *crowd);

#endif
