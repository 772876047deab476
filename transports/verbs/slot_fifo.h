/* SPDX-License-Identifier: Apache-2.0 */
/* Slots in the order in which they are filled, as runs of consecutive numbers; and sets of slots,
 * as bits. */
#ifndef VERBS_SLOT_FIFO_H
#define VERBS_SLOT_FIFO_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct vb_slot_run {
  uint32_t first, count;
};

/* `max` slots may be in as many runs. */
struct vb_slot_fifo {
  struct vb_slot_run *at;
  uint32_t mask;
  uint32_t head, tail; /* free-running */
  uint32_t count, max; /* slots; that there may be */
};

/* 0 or -ENOMEM. free(fifo->at) ends it. */
static inline int vb_slot_fifo_open(struct vb_slot_fifo *fifo, uint32_t max)
{
  uint32_t size = 1;

  while (size < max)
    size <<= 1;
  *fifo =
      (struct vb_slot_fifo){.at = calloc(size, sizeof(*fifo->at)), .mask = size - 1, .max = max};
  return fifo->at ? 0 : -ENOMEM;
}

/* There is room for them. Behind their neighbours they are of one run. */
static inline void vb_slot_fifo_put(struct vb_slot_fifo *fifo, uint32_t first, uint32_t count)
{
  struct vb_slot_run *last = &fifo->at[(fifo->head - 1) & fifo->mask];

  if (count == 0)
    return;
  if (fifo->count && last->first + last->count == first)
    last->count += count;
  else
    fifo->at[fifo->head++ & fifo->mask] = (struct vb_slot_run){first, count};
  fifo->count += count;
}

/* The next ones; there are some. */
static inline struct vb_slot_run *vb_slot_fifo_first(const struct vb_slot_fifo *fifo)
{
  return &fifo->at[fifo->tail & fifo->mask];
}

/* So many of the next ones, which has them. */
static inline void vb_slot_fifo_take(struct vb_slot_fifo *fifo, uint32_t count)
{
  struct vb_slot_run *first = vb_slot_fifo_first(fifo);

  fifo->count -= count;
  first->first += count;
  first->count -= count;
  fifo->tail += first->count == 0;
}

/* There is one. */
static inline uint32_t vb_slot_fifo_get(struct vb_slot_fifo *fifo)
{
  const uint32_t slot = vb_slot_fifo_first(fifo)->first;

  vb_slot_fifo_take(fifo, 1);
  return slot;
}

/* The next stretch, which becomes the last of another fifo. There is one. */
static inline struct vb_slot_run vb_slot_fifo_move(struct vb_slot_fifo *from,
                                                   struct vb_slot_fifo *to)
{
  const struct vb_slot_run some = *vb_slot_fifo_first(from);

  vb_slot_fifo_take(from, some.count);
  vb_slot_fifo_put(to, some.first, some.count);
  return some;
}

/* NULL: out of memory. free() ends it. */
static inline uint64_t *vb_bits_open(uint32_t count)
{
  return calloc(((size_t)count + 63) / 64, sizeof(uint64_t));
}

static inline bool vb_bits_has(const uint64_t *bits, uint32_t i)
{
  return bits[i / 64] >> i % 64 & 1;
}

/* Returns the bits of word first / 64 that are among the `count` from `first` on, of which there
 * are some. */
static inline uint64_t vb_bits_mask(uint32_t first, uint32_t count)
{
  const uint32_t from = first % 64, most = 64 - from;

  return (UINT64_MAX >> (count < most ? 64 - count : from)) << from;
}

static inline void vb_bits_set(uint64_t *bits, uint32_t first, uint32_t count)
{
  while (count) {
    const uint32_t most = 64 - first % 64, some = count < most ? count : most;
    bits[first / 64] |= vb_bits_mask(first, count);
    first += some;
    count -= some;
  }
}

/* Clear those that are set, of `count` from `first` on, up to the first that is not. How many. */
static inline uint32_t vb_bits_take(uint64_t *bits, uint32_t first, uint32_t count)
{
  const uint32_t before = first;

  while (count) {
    const uint64_t mask = vb_bits_mask(first, count), missing = mask & ~bits[first / 64];
    const uint32_t most = 64 - first % 64, wanted = count < most ? count : most;
    if (missing) {
      const uint32_t some = (uint32_t)__builtin_ctzll(missing) - first % 64;
      bits[first / 64] &= some ? ~vb_bits_mask(first, some) : UINT64_MAX;
      return first + some - before;
    }
    bits[first / 64] &= ~mask;
    first += wanted;
    count -= wanted;
  }
  return first - before;
}

#endif
