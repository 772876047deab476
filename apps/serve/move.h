/* SPDX-License-Identifier: Apache-2.0 */
/* How a MOVE is cut, which both ends must do alike: into the pieces that were asked for, and
 * these into segments, each of which has a pattern of its own. */
#ifndef APP_SERVE_MOVE_H
#define APP_SERVE_MOVE_H

#include <stdbool.h>
#include <stdint.h>

#define MOVE_SEGMENT (1u << 20) /* bytes, at most */
#define MOVE_PIECES_MAX 512u    /* asked for, at most */

struct move_plan {
  uint64_t length;
  uint64_t piece;      /* bytes of each but the last, which may have fewer */
  uint64_t each;       /* segments of a piece */
  uint64_t candidates; /* numbers of segments; beyond the end of `length` there are none */
};

/* length >= 1, 1 <= pieces <= length. */
void move_plan(uint64_t length, uint32_t pieces, struct move_plan *plan);
/* Segment `number`: [*offset, *offset + *length) of the whole. False: there is none. */
bool move_segment(const struct move_plan *plan, uint64_t number, uint64_t *offset,
                  uint64_t *length);
/* What fills it: a number for pst_area_fill() and pst_area_verify(). */
uint64_t move_pattern(const struct move_plan *plan, uint64_t iteration, uint64_t number);

#endif
