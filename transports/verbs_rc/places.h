/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of endpoints and rings, which completions and tokens carry; queues of slots. */
#ifndef RC_PLACES_H
#define RC_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rc_place {
  void *at; /* NULL: free */
  uint16_t generation;
};

struct rc_places {
  struct rc_place *all;
  uint32_t room;
  uint32_t next; /* where to look for a free one */
};

/* A queue of slot numbers. */
struct rc_fifo {
  uint32_t *at;
  uint32_t mask;
  uint32_t head, tail; /* free-running */
};

/* places.c: numbers of endpoints and rings. -ENOSPC, -ENOMEM. */
int rc_place_take(struct rc_places *places, void *at, uint32_t *place, uint16_t *generation);
void rc_place_give(struct rc_places *places, uint32_t place);
static inline void *rc_place_find(const struct rc_places *places, uint32_t place,
                                  uint16_t generation)
{
  if (place >= places->room || places->all[place].generation != generation)
    return NULL;
  return places->all[place].at;
}

int rc_fifo_open(struct rc_fifo *fifo, uint32_t room);
static inline uint32_t rc_fifo_count(const struct rc_fifo *fifo)
{
  return fifo->head - fifo->tail;
}
static inline void rc_fifo_put(struct rc_fifo *fifo, uint32_t slot)
{
  fifo->at[fifo->head++ & fifo->mask] = slot;
}
static inline uint32_t rc_fifo_get(struct rc_fifo *fifo)
{
  return fifo->at[fifo->tail++ & fifo->mask];
}

#endif
