/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a MOVE is cut into segments, each of which has a test pattern of its own; and how patterns
 * are made or checked in an area while other things go on. They end in the order in which they
 * began. Nobody wakes who sleeps when one ends: while any is under way, serve_patterns_poll() is to
 * be called again and again.
 */
#ifndef APP_SERVE_SEGMENTS_H
#define APP_SERVE_SEGMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#define MOVE_SEGMENT (1u << 20) /* bytes, at most */
#define MOVE_PIECES_MAX 512u    /* asked for, at most */

struct move_plan {
  uint64_t length;
  uint64_t piece;      /* bytes of each but the last, which may have fewer */
  uint64_t each;       /* segments of a piece */
  uint64_t candidates; /* numbers of segments; beyond the end of `length` there are none */
};

/* length >= 1, 1 <= pieces <= length. */
void serve_move_plan(uint64_t length, uint32_t pieces, struct move_plan *plan);
/* Segment `number`: [*offset, *offset + *length) of the whole. False: there is none. */
bool serve_move_segment(const struct move_plan *plan, uint64_t number, uint64_t *offset,
                        uint64_t *length);
/* Returns the pattern that fills a segment: a number for pst_area_fill() and pst_area_verify(). */
uint64_t serve_move_pattern(const struct move_plan *plan, uint64_t iteration, uint64_t number);

/* Work on patterns, which its owner keeps from serve_patterns_begin() until `ended`. */
struct pattern_work {
  /* Up to n parts of the area from part *next on, which moves behind them. How many; 0: that was
   * all. */
  uint32_t (*parts)(const struct pattern_work *work, uint64_t *next, struct pst_area_pattern *parts,
                    uint32_t n);
  bool verifies; /* else it fills */
  /* -EBADMSG: part number `wrong` differs. */
  void (*ended)(struct pattern_work *work, int status);
  uint64_t wrong, ticket;
  int status;
  struct pattern_work *next;
};

struct patterns {
  struct pst_area *area;
  struct pattern_work *first, **last;
  uint64_t corrupted; /* found so far, in blocks */
  bool polling;
};

/* Begins the work, which calls `ended` once all of its parts have ended, or at once where they
 * have, as host memory's do, or where one of them failed. */
void serve_patterns_begin(struct patterns *patterns, struct pattern_work *work);
/* Call back what has ended: how much. */
int serve_patterns_poll(struct patterns *patterns);

#endif
