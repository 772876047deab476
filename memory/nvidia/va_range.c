/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory the driver knows. A kernel that reads what is not mapped ends the whole context;
 * a copy of many rows takes nothing else, either, and a copy of one piece takes all memory, but
 * not across the edge of what is known. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "va_range.h"

int cuda_range_add(struct pst_memory *memory, uint64_t begin, uint64_t length, bool registered,
                   bool reachable)
{
  int code = 0;
  pthread_mutex_lock(&memory->lock);
  struct cuda_range *grown =
      realloc(memory->ranges, (memory->range_count + 1) * sizeof(*memory->ranges));
  if (grown) {
    grown[memory->range_count++] =
        (struct cuda_range){begin, begin + length, registered, reachable};
    memory->ranges = grown;
  } else {
    code = -ENOMEM;
  }
  pthread_mutex_unlock(&memory->lock);
  if (code)
    cuda_error_log(memory, "out of memory for the description of a region");
  return code;
}

void cuda_range_remove(struct pst_memory *memory, uint64_t begin, uint64_t length)
{
  pthread_mutex_lock(&memory->lock);
  for (uint32_t i = 0; i < memory->range_count; i++)
    if (memory->ranges[i].begin == begin && memory->ranges[i].end == begin + length) {
      memory->ranges[i] = memory->ranges[--memory->range_count];
      break;
    }
  pthread_mutex_unlock(&memory->lock);
}

/* The lock is held. */
static const struct cuda_range *cuda_range_of(const struct pst_memory *memory, uint64_t begin,
                                              uint64_t end)
{
  for (uint32_t i = 0; i < memory->range_count; i++)
    if (begin >= memory->ranges[i].begin && end <= memory->ranges[i].end)
      return &memory->ranges[i];
  return NULL;
}

/* One side of a row. */
struct side {
  uint64_t address, length, stride;
  uint32_t count;
};

/* All of [begin, end), by a kernel? `known` is the range looked at last. The lock is held. */
static bool cuda_range_reaches(const struct pst_memory *memory, uint64_t begin, uint64_t end,
                               const struct cuda_range **known)
{
  const struct cuda_range *range = *known;
  if (end < begin)
    return false;
  if (!range || begin < range->begin || end > range->end)
    range = *known = cuda_range_of(memory, begin, end);
  return range && range->reachable;
}

/* From its lowest byte to its highest, as one range mostly does; else each for itself. The lock
 * is held. */
static bool cuda_range_reaches_all(const struct pst_memory *memory, const struct side *side,
                                   const struct cuda_range **known)
{
  int64_t way;
  if (side->length == 0 || side->count == 0)
    return true;
  if (side->count == 1)
    return cuda_range_reaches(memory, side->address, side->address + side->length, known);
  if (!__builtin_mul_overflow((int64_t)side->stride, (int64_t)(side->count - 1), &way)) {
    uint64_t last = side->address + (uint64_t)way;
    uint64_t low = way < 0 ? last : side->address, high = way < 0 ? side->address : last;
    if (low <= high && cuda_range_reaches(memory, low, high + side->length, known))
      return true;
  }
  for (uint32_t i = 0; i < side->count; i++) {
    uint64_t begin = side->address + i * side->stride;
    if (!cuda_range_reaches(memory, begin, begin + side->length, known))
      return false;
  }
  return true;
}

bool cuda_ranges_reach(struct pst_memory *memory, const struct pst_copy_row *rows, uint32_t n)
{
  const struct cuda_range *from = NULL, *to = NULL;
  bool reach = true;
  pthread_mutex_lock(&memory->lock);
  for (const struct pst_copy_row *row = rows; row < rows + n && reach; row++) {
    const struct side source = {row->source, row->length, row->source_stride, row->count};
    const struct side destination = {row->destination, row->length, row->destination_stride,
                                     row->count};
    reach = cuda_range_reaches_all(memory, &source, &from) &&
            cuda_range_reaches_all(memory, &destination, &to);
  }
  pthread_mutex_unlock(&memory->lock);
  return reach;
}

bool cuda_ranges_hold(struct pst_memory *memory, const struct pst_payload_row *rows, uint32_t n)
{
  const struct cuda_range *range = NULL;
  bool held = true;
  pthread_mutex_lock(&memory->lock);
  for (const struct pst_payload_row *row = rows; row < rows + n && held; row++) {
    const struct side side = {row->address, row->length, row->stride, row->count};
    held = cuda_range_reaches_all(memory, &side, &range);
  }
  pthread_mutex_unlock(&memory->lock);
  return held;
}

bool cuda_ranges_whole(struct pst_memory *memory, uint64_t begin, uint64_t length)
{
  pthread_mutex_lock(&memory->lock);
  bool whole = cuda_range_of(memory, begin, begin + length);
  pthread_mutex_unlock(&memory->lock);
  return whole;
}

/* Returns the part of a range that the address is in. If several ranges begin at the same place, it
 * is the longest. Call with the lock. */
static uint64_t cuda_range_part_of(const struct pst_memory *memory, uint64_t address,
                                   uint64_t length)
{
  uint64_t inside = 0, before = length;
  for (uint32_t i = 0; i < memory->range_count; i++) {
    const struct cuda_range *range = &memory->ranges[i];
    if (address >= range->begin && address < range->end && range->end - address > inside)
      inside = range->end - address;
    if (range->begin > address && range->begin - address < before)
      before = range->begin - address;
  }
  if (inside == 0)
    return before;
  return inside < length ? inside : length;
}

uint64_t cuda_ranges_part(struct pst_memory *memory, uint64_t destination, uint64_t source,
                          uint64_t length)
{
  pthread_mutex_lock(&memory->lock);
  length = cuda_range_part_of(memory, source, length);
  length = cuda_range_part_of(memory, destination, length);
  pthread_mutex_unlock(&memory->lock);
  return length;
}

bool cuda_range_is_registered(struct pst_memory *memory, uint64_t begin, uint64_t length)
{
  bool found = false;
  pthread_mutex_lock(&memory->lock);
  for (uint32_t i = 0; i < memory->range_count && !found; i++)
    found = memory->ranges[i].registered && memory->ranges[i].begin == begin &&
            memory->ranges[i].end == begin + length;
  pthread_mutex_unlock(&memory->lock);
  return found;
}
