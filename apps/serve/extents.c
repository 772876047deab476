/* SPDX-License-Identifier: Apache-2.0 */
#include "extents.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The first run that ends at or behind `at`. */
static uint32_t find(const struct extents *e, uint64_t at)
{
  uint32_t low = 0, high = e->count;

  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (e->list[middle].end < at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static int insert(struct extents *e, uint32_t index, struct extent run)
{
  if (e->count == EXTENTS_MAX)
    return -ENOSPC;
  if (e->count == e->room) {
    uint32_t room = e->room > 0 ? 2 * e->room : 16;
    struct extent *longer = reallocarray(e->list, room, sizeof *longer);
    if (longer == NULL)
      return -ENOMEM;
    e->list = longer;
    e->room = room;
  }
  memmove(e->list + index + 1, e->list + index, (e->count - index) * sizeof *e->list);
  e->list[index] = run;
  e->count++;
  e->covered += run.end - run.begin;
  return 0;
}

int extents_add(struct extents *e, uint64_t begin, uint64_t end)
{
  if (begin >= end)
    return 0;
  uint32_t first = find(e, begin), last = first;
  struct extent whole = {begin, end};

  while (last < e->count && e->list[last].begin <= end)
    last++;
  if (first == last)
    return insert(e, first, whole);
  if (e->list[first].begin < begin)
    whole.begin = e->list[first].begin;
  if (e->list[last - 1].end > end)
    whole.end = e->list[last - 1].end;
  for (uint32_t i = first; i < last; i++)
    e->covered -= e->list[i].end - e->list[i].begin;
  e->covered += whole.end - whole.begin;
  e->list[first] = whole;
  memmove(e->list + first + 1, e->list + last, (e->count - last) * sizeof *e->list);
  e->count -= last - first - 1;
  return 0;
}

uint64_t extents_front(const struct extents *e)
{
  return e->count > 0 && e->list[0].begin == 0 ? e->list[0].end : 0;
}

void extents_free(struct extents *e)
{
  free(e->list);
  *e = (struct extents){0};
}
