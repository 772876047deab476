/* SPDX-License-Identifier: Apache-2.0 */
#include "move.h"

#define PATTERN_BITS 40 /* above them the library counts blocks */

void move_plan(uint64_t length, uint32_t pieces, struct move_plan *plan)
{
  plan->length = length;
  plan->piece = (length + pieces - 1) / pieces;
  plan->each = (plan->piece + MOVE_SEGMENT - 1) / MOVE_SEGMENT;
  plan->candidates = plan->each * pieces;
}

bool move_segment(const struct move_plan *plan, uint64_t number, uint64_t *offset, uint64_t *length)
{
  uint64_t within = number % plan->each * MOVE_SEGMENT;
  uint64_t begin = number / plan->each * plan->piece + within;
  uint64_t left = plan->piece - within;

  if (number >= plan->candidates || begin >= plan->length)
    return false;
  if (left > MOVE_SEGMENT)
    left = MOVE_SEGMENT;
  *offset = begin;
  *length = left < plan->length - begin ? left : plan->length - begin;
  return true;
}

uint64_t move_pattern(const struct move_plan *plan, uint64_t iteration, uint64_t number)
{
  return (iteration * plan->candidates + number) & ((UINT64_C(1) << PATTERN_BITS) - 1);
}
