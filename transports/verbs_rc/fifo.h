/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of slot numbers. */
#ifndef RC_FIFO_H
#define RC_FIFO_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

struct rc_fifo {
  uint32_t *at;
  uint32_t mask;
  uint32_t head, tail; /* free-running */
};

/* 0 or -ENOMEM. free(fifo->at) ends it. */
static inline int rc_fifo_open(struct rc_fifo *fifo, uint32_t room)
{
  uint32_t size = 1;

  while (size < room)
    size <<= 1;
  *fifo = (struct rc_fifo){.at = calloc(size, sizeof(*fifo->at)), .mask = size - 1};
  return fifo->at ? 0 : -ENOMEM;
}

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
