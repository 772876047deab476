/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test patterns that are made or checked in an area while other things go on. They end in the
 * order in which they began. Nobody wakes who sleeps when one ends: while any is under way,
 * patterns_poll() is to be called again and again.
 */
#ifndef APP_SERVE_PATTERNS_H
#define APP_SERVE_PATTERNS_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#define PATTERN_PARTS 16u /* of one call, at most */

/* Its owner's, from patterns_begin() until `ended`. */
struct pattern_work {
  struct pattern_work *next;
  uint64_t ticket;
  int status;
  /* One of the checks that have ended found something: was it this one? Looks again, and waits.
   * 0; -EBADMSG. NULL: a pattern is made. */
  int (*again)(struct pattern_work *work);
  void (*ended)(struct pattern_work *work, int status);
};

struct patterns {
  struct pst_area *area;
  struct pattern_work *first, **last;
  uint64_t corrupted; /* found so far, in blocks */
  bool polling;
};

/* Before patterns_begin(), as often as need be: n more parts are filled (again == NULL) or
 * verified. */
void patterns_add(struct patterns *patterns, struct pattern_work *work,
                  const struct pst_area_pattern *parts, uint32_t n);
/* It is called back once all of its parts have ended, or at once where they have, as host memory's
 * do, or where one of them failed. */
void patterns_begin(struct patterns *patterns, struct pattern_work *work);
/* Call back what has ended: how much. */
int patterns_poll(struct patterns *patterns);

#endif
