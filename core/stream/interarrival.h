/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times between arrivals, any number of them in 15 KiB: exact below 32 ns, then 32 steps to
 * each power of two. Coarser than a benchmark's, so that it stays in the cache beside
 * what the hot path needs.
 */
#ifndef PST_STREAM_INTERARRIVAL_H
#define PST_STREAM_INTERARRIVAL_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

#define INTERARRIVAL_BITS 5
#define INTERARRIVAL_STEPS (1u << INTERARRIVAL_BITS)
#define INTERARRIVAL_BUCKETS ((64 - INTERARRIVAL_BITS + 1) << INTERARRIVAL_BITS)

/* All zero: none seen. */
struct interarrival {
  bool begun;
  uint64_t last_ns;
  uint64_t count, least, most, sum;
  uint64_t buckets[INTERARRIVAL_BUCKETS];
};

static inline uint32_t interarrival_bucket(uint64_t value)
{
  if (value < INTERARRIVAL_STEPS)
    return (uint32_t)value;
  uint32_t shift = 63 - (uint32_t)__builtin_clzll(value) - INTERARRIVAL_BITS;
  return (uint32_t)(((uint64_t)(shift + 1) << INTERARRIVAL_BITS) +
                    ((value >> shift) - INTERARRIVAL_STEPS));
}

/* A message has arrived. A clock that was set back makes an interval of 0. */
static inline void interarrival_see(struct interarrival *intervals, uint64_t time_ns)
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
  intervals->buckets[interarrival_bucket(value)]++;
}

void interarrival_read(const struct interarrival *intervals, struct pst_times *times);

#endif
