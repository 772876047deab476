/* SPDX-License-Identifier: Apache-2.0 */
/* A MOVE cut into operations, and its test pattern. */
#include "segments.h"

#include <assert.h>

#define PATTERN_PARTS 16u /* of one call, at most */
#define PATTERN_BITS 40   /* above them the library counts blocks */

void serve_move_plan(uint64_t length, uint32_t pieces, struct move_plan *plan)
{
  assert(pieces >= 1 && pieces <= length);
  plan->length = length;
  plan->piece = (length + pieces - 1) / pieces;
  plan->each = (plan->piece + MOVE_SEGMENT - 1) / MOVE_SEGMENT;
  plan->candidates = plan->each * pieces;
}

bool serve_move_segment(const struct move_plan *plan, uint64_t number, uint64_t *offset,
                        uint64_t *length)
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

uint64_t serve_move_pattern(const struct move_plan *plan, uint64_t iteration, uint64_t number)
{
  return (iteration * plan->candidates + number) & ((UINT64_C(1) << PATTERN_BITS) - 1);
}

void serve_patterns_begin(struct patterns *patterns, struct pattern_work *work)
{
  struct pst_area_pattern parts[PATTERN_PARTS];
  uint64_t next = 0;
  uint32_t n;

  while (work->status >= 0 && (n = work->parts(work, &next, parts, PATTERN_PARTS)) > 0)
    work->status = work->verifies ? pst_area_verify_begin(patterns->area, parts, n, &work->ticket)
                                  : pst_area_fill_begin(patterns->area, parts, n, &work->ticket);
  work->next = NULL;
  if (!patterns->first)
    patterns->last = &patterns->first;
  *patterns->last = work;
  patterns->last = &work->next;
  serve_patterns_poll(patterns);
}

/* One of the checks that ended found wrong bytes. Verifies this one again to learn whether it was
 * the one. Waits. */
static int serve_segments_verify_again(struct pst_area *area, struct pattern_work *work)
{
  struct pst_area_pattern part;
  uint64_t next = 0;
  int rc = 0;

  for (work->wrong = 0; rc == 0 && work->parts(work, &next, &part, 1) > 0; work->wrong += rc == 0)
    rc = pst_area_verify(area, part.offset, part.length, part.pattern, NULL);
  return rc;
}

int serve_patterns_poll(struct patterns *patterns)
{
  struct pst_verify_result found = {.struct_size = sizeof(found)};
  struct pattern_work *work;
  uint64_t done = 0;
  int ended = 0;

  if (!patterns->first || patterns->polling)
    return 0;
  int rc = pst_area_poll(patterns->area, &done, &found);
  bool suspect = rc == 0 && found.corrupted != patterns->corrupted;
  if (rc == 0)
    patterns->corrupted = found.corrupted;
  patterns->polling = true;
  while ((work = patterns->first) && (rc < 0 || work->status < 0 || work->ticket <= done)) {
    int status = work->status < 0 ? work->status : rc;
    patterns->first = work->next;
    if (status == 0 && suspect && work->verifies)
      status = serve_segments_verify_again(patterns->area, work);
    work->ended(work, status);
    ended++;
  }
  patterns->polling = false;
  return ended;
}
