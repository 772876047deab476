/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of the times between arrivals. */
#include "interarrival.h"

/* The largest value of a bucket. */
static uint64_t interarrival_top_of(uint32_t bucket)
{
  if (bucket < INTERARRIVAL_STEPS)
    return bucket;
  uint32_t shift = (bucket >> INTERARRIVAL_BITS) - 1;
  uint64_t low = (uint64_t)(INTERARRIVAL_STEPS + (bucket & (INTERARRIVAL_STEPS - 1))) << shift;
  return low + ((UINT64_C(1) << shift) - 1);
}

void interarrival_read(const struct interarrival *intervals, struct pst_times *times)
{
  static const double shares[] = {0.5, 0.9, 0.99, 0.999};
  uint64_t *values[] = {&times->p50_ns, &times->p90_ns, &times->p99_ns, &times->p99_9_ns};
  uint64_t seen = 0;
  uint32_t at = 0;

  *times = (struct pst_times){.count = intervals->count,
                              .min_ns = intervals->least,
                              .mean_ns = intervals->count ? intervals->sum / intervals->count : 0,
                              .max_ns = intervals->most};
  for (uint32_t i = 0; i < INTERARRIVAL_BUCKETS && at < 4; i++) {
    seen += intervals->buckets[i];
    for (; at < 4 && intervals->count && (double)seen >= shares[at] * (double)intervals->count;
         at++)
      *values[at] =
          interarrival_top_of(i) < intervals->most ? interarrival_top_of(i) : intervals->most;
  }
}
