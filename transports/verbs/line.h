/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of slots: in the order in which they are filled, as runs of numbers that follow one
 * another; and sets of slots, as bits. */
#ifndef VERBS_LINE_H
#define VERBS_LINE_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct vb_stretch {
  uint32_t first, count;
};

/* `max` slots may be in as many stretches. */
struct vb_line {
  struct vb_stretch *at;
  uint32_t mask;
  uint32_t head, tail; /* free-running */
  uint32_t count, max; /* slots; that there may be */
};

/* 0 or -ENOMEM. free(line->at) ends it. */
static inline int vb_line_open(struct vb_line *line, uint32_t max)
{
  uint32_t size = 1;

  while (size < max)
    size <<= 1;
  *line = (struct vb_line){.at = calloc(size, sizeof(*line->at)), .mask = size - 1, .max = max};
  return line->at ? 0 : -ENOMEM;
}

/* There is room for them. Behind their neighbours they are of one stretch. */
static inline void vb_line_put(struct vb_line *line, uint32_t first, uint32_t count)
{
  struct vb_stretch *last = &line->at[(line->head - 1) & line->mask];

  if (count == 0)
    return;
  if (line->count && last->first + last->count == first)
    last->count += count;
  else
    line->at[line->head++ & line->mask] = (struct vb_stretch){first, count};
  line->count += count;
}

/* The next ones; there are some. */
static inline struct vb_stretch *vb_line_first(const struct vb_line *line)
{
  return &line->at[line->tail & line->mask];
}

/* So many of the next ones, which has them. */
static inline void vb_line_take(struct vb_line *line, uint32_t count)
{
  struct vb_stretch *first = vb_line_first(line);

  line->count -= count;
  first->first += count;
  first->count -= count;
  line->tail += first->count == 0;
}

/* There is one. */
static inline uint32_t vb_line_get(struct vb_line *line)
{
  const uint32_t slot = vb_line_first(line)->first;

  vb_line_take(line, 1);
  return slot;
}

/* The next stretch, which becomes the last of another line. There is one. */
static inline struct vb_stretch vb_line_move(struct vb_line *from, struct vb_line *to)
{
  const struct vb_stretch some = *vb_line_first(from);

  vb_line_take(from, some.count);
  vb_line_put(to, some.first, some.count);
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

/* Those of word first / 64 among the `count` from `first` on, of which there are some. */
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
