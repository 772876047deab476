/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory the driver knows. A kernel that reads what is not mapped ends the whole context;
 * a copy of many rows takes nothing else, either, and a copy of one piece takes all memory, but
 * not across the edge of what is known. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"

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
    cuda_error_log(memory, "no memory to note a region");
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
static const struct cuda_range *range_of(const struct pst_memory *memory, uint64_t begin,
                                         uint64_t end)
{
  for (uint32_t i = 0; i < memory->range_count; i++)
    if (begin >= memory->ranges[i].begin && end <= memory->ranges[i].end)
      return &memory->ranges[i];
  return NULL;
}

static bool holds(const struct cuda_range *range, uint64_t begin, uint64_t end)
{
  return range && begin >= range->begin && end <= range->end;
}

bool cuda_ranges_reach(struct pst_memory *memory, const struct pst_copy *pieces, uint32_t n)
{
  const struct cuda_range *from = NULL, *to = NULL;
  bool reach = true;
  pthread_mutex_lock(&memory->lock);
  for (uint32_t i = 0; i < n && reach; i++) {
    uint64_t source = pieces[i].source, destination = pieces[i].destination;
    uint64_t length = pieces[i].length;
    if (length == 0)
      continue;
    if (!holds(from, source, source + length))
      from = range_of(memory, source, source + length);
    if (!holds(to, destination, destination + length))
      to = range_of(memory, destination, destination + length);
    reach = from && to && from->reachable && to->reachable;
  }
  pthread_mutex_unlock(&memory->lock);
  return reach;
}

bool cuda_ranges_hold(struct pst_memory *memory, const struct pst_payload *payloads, uint32_t n)
{
  const struct cuda_range *range = NULL;
  bool held = true;
  pthread_mutex_lock(&memory->lock);
  for (uint32_t i = 0; i < n && held; i++) {
    uint64_t begin = payloads[i].address, end = begin + payloads[i].length;
    if (begin == end)
      continue;
    if (!holds(range, begin, end))
      range = range_of(memory, begin, end);
    held = end > begin && range && range->reachable;
  }
  pthread_mutex_unlock(&memory->lock);
  return held;
}

bool cuda_ranges_whole(struct pst_memory *memory, uint64_t begin, uint64_t length)
{
  pthread_mutex_lock(&memory->lock);
  bool whole = range_of(memory, begin, begin + length);
  pthread_mutex_unlock(&memory->lock);
  return whole;
}

/* The lock is held. Of several ranges that begin so far before it, the one that goes farthest. */
static uint64_t part_of(const struct pst_memory *memory, uint64_t address, uint64_t length)
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
  length = part_of(memory, source, length);
  length = part_of(memory, destination, length);
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
