/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a node on their way to the application: a ring with room for all that may happen. */
#include "events.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define ENTRIES_MIN 64u

static int events_resize(struct node_events *events, uint64_t size)
{
  struct node_entry *entries = calloc(size, sizeof(*entries));
  struct node_completed *completed = calloc(size, sizeof(*completed));

  if (!entries || !completed) {
    free(entries);
    free(completed);
    return -ENOMEM;
  }
  for (uint32_t i = events->released; i != events->tail; i++)
    entries[i & (size - 1)] = *events_at(events, i);
  for (uint32_t i = events->completed_head; i != events->completed_tail; i++)
    completed[i & (size - 1)] = *events_completed_at(events, i);
  free(events->entries);
  free(events->completed);
  events->entries = entries;
  events->completed = completed;
  events->mask = (uint32_t)size - 1;
  return 0;
}

/* Returns a size that holds the entries of two polls, since the last poll's entries stay valid
 * while the next are written. */
static uint64_t events_size_for(uint64_t reserved, uint64_t least)
{
  uint64_t size = least;

  while (size < 2 * reserved)
    size *= 2;
  return size;
}

int events_reserve(struct node_events *events, uint32_t count)
{
  const uint64_t now = events->entries ? (uint64_t)events->mask + 1 : 0;
  const uint64_t size =
      events_size_for((uint64_t)events->reserved + count, now ? now : ENTRIES_MIN);

  if (size > UINT32_MAX / 2)
    return -ENOMEM;
  if (size > now && events_resize(events, size) < 0)
    return -ENOMEM;
  events->reserved += count;
  return 0;
}

void events_unreserve(struct node_events *events, uint32_t count)
{
  assert(count <= events->reserved);
  events->reserved -= count;
}

void events_shrink(struct node_events *events)
{
  const uint64_t size = events_size_for(4 * (uint64_t)events->reserved, ENTRIES_MIN);

  if (events->entries && size < (uint64_t)events->mask + 1)
    events_resize(events, size); /* out of memory: it stays as it is */
}

void events_free(struct node_events *events)
{
  for (; events->released != events->tail; events->released++)
    free(events_at(events, events->released)->text);
  free(events->entries);
  free(events->completed);
}

struct node_entry *events_add(struct node_events *events, struct pst_peer *peer,
                              enum pst_node_event_kind kind)
{
  struct node_entry *entry = events_at(events, events->tail++);

  assert(events->tail - events->released <= events->mask + 1);
  events->into_end = events->into; /* what comes behind it waits, too */
  *entry = (struct node_entry){.event = {.kind = (uint8_t)kind, .peer = peer, .text = ""}};
  return entry;
}
