/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram of times, and percentiles from it. */
#include "histogram.h"

#define STEPS (UINT64_C(1) << HISTOGRAM_BITS)

static uint32_t bench_histogram_bucket_of(uint64_t value)
{
  if (value < STEPS)
    return (uint32_t)value;
  uint32_t shift = 63 - (uint32_t)__builtin_clzll(value) - HISTOGRAM_BITS;
  return (uint32_t)(((uint64_t)(shift + 1) << HISTOGRAM_BITS) + ((value >> shift) - STEPS));
}

/* The largest value of a bucket. */
static uint64_t bench_histogram_top_of(uint32_t bucket)
{
  if (bucket < STEPS)
    return bucket;
  uint32_t shift = (bucket >> HISTOGRAM_BITS) - 1;
  uint64_t low = (STEPS + (bucket & (STEPS - 1))) << shift;
  return low + ((UINT64_C(1) << shift) - 1);
}

void bench_histogram_add(struct histogram *histogram, uint64_t value)
{
  if (histogram->count == 0 || value < histogram->least)
    histogram->least = value;
  if (value > histogram->most)
    histogram->most = value;
  histogram->count++;
  histogram->sum += (double)value;
  histogram->buckets[bench_histogram_bucket_of(value)]++;
}

uint64_t bench_histogram_at(const struct histogram *histogram, double share)
{
  double exact = share * (double)histogram->count;
  uint64_t wanted = (uint64_t)exact, seen = 0;

  if (histogram->count == 0)
    return 0;
  if ((double)wanted < exact || wanted == 0)
    wanted++;
  for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
    seen += histogram->buckets[i];
    if (seen >= wanted)
      return bench_histogram_top_of(i) < histogram->most ? bench_histogram_top_of(i)
                                                         : histogram->most;
  }
  return histogram->most;
}

struct json_times bench_histogram_times(const struct histogram *histogram, double parts)
{
  const struct json_times times = {
      .count = histogram->count,
      .min = (double)histogram->least / parts,
      .mean = histogram->count > 0 ? histogram->sum / (double)histogram->count / parts : 0,
      .p50 = (double)bench_histogram_at(histogram, 0.5) / parts,
      .p90 = (double)bench_histogram_at(histogram, 0.9) / parts,
      .p99 = (double)bench_histogram_at(histogram, 0.99) / parts,
      .p99_9 = (double)bench_histogram_at(histogram, 0.999) / parts,
      .max = (double)histogram->most / parts};

  return times;
}
