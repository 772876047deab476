/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what is slow in a matrix of measurements: an end, or a link between two that are not. */
#ifndef APP_BENCH_OUTLIERS_H
#define APP_BENCH_OUTLIERS_H

#include <stdbool.h>
#include <stdint.h>

/* Slow is what is worse than the median by this share of it at least, and by as many median
 * absolute deviations (MAD), scaled to the standard deviation of a normal distribution. */
#define BENCH_SLOW_SHARE 0.1
#define BENCH_SLOW_DEVIATIONS 3.5
#define BENCH_MAD_SCALE 1.4826

enum bench_slow {
  BENCH_SLOW_END,      /* `from` sends and receives slowly with most others */
  BENCH_SLOW_SENDER,   /* `from` only sends so */
  BENCH_SLOW_RECEIVER, /* `to` only receives so */
  BENCH_SLOW_LINK,     /* one direction between ends that are not slow */
};

struct bench_outlier {
  enum bench_slow what;
  uint32_t from, to; /* ends; of an end both are it */
  double value;      /* the link's; of an end, the median of its links */
};

struct bench_spread {
  uint32_t count;     /* measured links */
  double median, mad; /* of links of ends that are not slow */
  double limit;       /* what is worse is slow */
};

/* values: `ends` rows of `ends`, [from * ends + to]; below 0: not measured. more_is_better: a
 * bandwidth; else a latency. *outliers, the worst of each kind first, is the caller's to free;
 * NULL: none. With fewer than three ends nothing can be compared. 0 or -ENOMEM. */
int bench_outliers_find(const double *values, uint32_t ends, bool more_is_better,
                        struct bench_spread *spread, struct bench_outlier **outliers,
                        uint32_t *count);
const char *bench_slow_name(enum bench_slow what);

#endif
