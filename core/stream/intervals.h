/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times between arrivals, any number of them in 15 KiB: exact below 32 ns, then 32 steps to
 * each power of two. Coarser than a benchmark's, so that it stays in the cache beside
 * what the hot path needs.
 */
#ifndef PST_STREAM_INTERVALS_H
#define PST_STREAM_INTERVALS_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#define INTERVALS_BITS 5
#define INTERVALS_STEPS (1u << INTERVALS_BITS)
#define INTERVALS_BUCKETS ((64 - INTERVALS_BITS + 1) << INTERVALS_BITS)

/* All zero: none seen. */
struct intervals {
  bool begun;
  uint64_t last_ns;
  uint64_t count, least, most, sum;
  uint64_t buckets[INTERVALS_BUCKETS];
};

static inline uint32_t intervals_bucket(uint64_t value)
{
  if (value < INTERVALS_STEPS)
    return (uint32_t)value;
  uint32_t shift = 63 - (uint32_t)__builtin_clzll(value) - INTERVALS_BITS;
  return (uint32_t)(((uint64_t)(shift + 1) << INTERVALS_BITS) +
                    ((value >> shift) - INTERVALS_STEPS));
}

/* One has arrived. A clock that was set back makes an interval of 0. */
static inline void intervals_see(struct intervals *intervals, uint64_t time_ns)
{
  uint64_t value = time_ns > intervals->last_ns ? time_ns - intervals->last_ns : 0;

  intervals->last_ns = time_ns;
  if (!intervals->begun) {
    intervals->begun = true;
    return;
  }
  if (intervals->count == 0 || value < intervals->least)
    intervals->least = value;
  if (value > intervals->most)
    intervals->most = value;
  intervals->count++;
  intervals->sum += value;
  intervals->buckets[intervals_bucket(value)]++;
}

void intervals_read(const struct intervals *intervals, struct pst_times *times);

#endif
