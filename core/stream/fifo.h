/* SPDX-License-Identifier: Apache-2.0 */
/* Items that leave in the order in which they came, in a ring that grows. */
#ifndef PST_STREAM_FIFO_H
#define PST_STREAM_FIFO_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct fifo {
  void *items;
  uint32_t head, tail;
  uint32_t capacity; /* a power of two, or 0 */
};

static inline uint32_t fifo_count(const struct fifo *fifo)
{
  return fifo->tail - fifo->head;
}

static inline uint32_t fifo_room(const struct fifo *fifo)
{
  return fifo->capacity - fifo_count(fifo);
}

/* Where the item is that was the i-th to come. */
static inline uint32_t fifo_at(const struct fifo *fifo, uint32_t i)
{
  return i & (fifo->capacity - 1);
}

/* How many of n items lie in a row, from the i-th on. */
static inline uint32_t fifo_run(const struct fifo *fifo, uint32_t i, uint32_t n)
{
  uint32_t left = fifo->capacity - fifo_at(fifo, i);

  return n < left ? n : left;
}

/* Room for n more items of this size. 0, or -ENOMEM with nothing changed. */
static inline int fifo_reserve(struct fifo *fifo, size_t size, uint32_t n)
{
  uint32_t capacity = fifo->capacity ? fifo->capacity : 1;
  const char *from = fifo->items;
  char *grown;

  if (n <= fifo_room(fifo))
    return 0;
  while (capacity < fifo_count(fifo) + n)
    capacity *= 2;
  grown = calloc(capacity, size);
  if (!grown)
    return -ENOMEM;
  for (uint32_t i = fifo->head; i != fifo->tail; i++)
    memcpy(grown + (i & (capacity - 1)) * size, from + fifo_at(fifo, i) * size, size);
  free(fifo->items);
  fifo->items = grown;
  fifo->capacity = capacity;
  return 0;
}

#endif
