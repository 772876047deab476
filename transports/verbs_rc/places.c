/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of endpoints and rings, which completions and tokens carry; queues of slots. */
#include "rc.h"

static int grow(struct rc_places *places)
{
  uint32_t room = places->room ? 2 * places->room : 16;

  if (places->room == RC_PLACES + 1)
    return -ENOSPC;
  struct rc_place *grown = realloc(places->all, room * sizeof(*grown));
  if (!grown)
    return -ENOMEM;
  memset(grown + places->room, 0, (room - places->room) * sizeof(*grown));
  places->all = grown;
  places->next = places->room;
  places->room = room;
  return 0;
}

int rc_place_take(struct rc_places *places, void *at, uint32_t *place, uint16_t *generation)
{
  for (uint32_t i = 0; i < places->room; i++) {
    uint32_t one = (places->next + i) % places->room;
    if (places->all[one].at)
      continue;
    places->all[one].at = at;
    places->next = one + 1;
    *place = one;
    *generation = places->all[one].generation;
    return 0;
  }
  int rc = grow(places);
  return rc < 0 ? rc : rc_place_take(places, at, place, generation);
}

void rc_place_give(struct rc_places *places, uint32_t place)
{
  places->all[place].at = NULL;
  places->all[place].generation = (places->all[place].generation + 1) & 0x7fff;
}

int rc_fifo_open(struct rc_fifo *fifo, uint32_t room)
{
  uint32_t size = 1;

  while (size < room)
    size <<= 1;
  *fifo = (struct rc_fifo){.at = calloc(size, sizeof(*fifo->at)), .mask = size - 1};
  return fifo->at ? 0 : -ENOMEM;
}
