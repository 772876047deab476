/* SPDX-License-Identifier: Apache-2.0 */
/* Times of any number of samples in bounded memory: exact below 128, then 128 steps
 * to each power of two, so that a percentile is at most 0.8% too high. */
#ifndef APP_BENCH_HISTOGRAM_H
#define APP_BENCH_HISTOGRAM_H

#include <stdint.h>

#include "json_put.h"

#define HISTOGRAM_BITS 7
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

struct histogram {
  uint64_t count, least, most;
  double sum;
  uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* All zero is an empty one. */
void bench_histogram_add(struct histogram *histogram, uint64_t value);
/* The smallest value that at least `share` (0 to 1) of the samples do not exceed, rounded
 * up to its step; never beyond the largest. 0: no samples. */
uint64_t bench_histogram_at(const struct histogram *histogram, double share);
/* All of it for a result, each value divided by `parts`. */
struct json_times bench_histogram_times(const struct histogram *histogram, double parts);

#endif
