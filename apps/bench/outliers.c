/* SPDX-License-Identifier: Apache-2.0 */
/* Finds slow ends and slow links by medians, which a few bad values do not move. */
#include "outliers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define FEWEST_ENDS 3

struct finder {
  const double *values;
  uint32_t ends, count;
  bool more_is_better;
  double *sent, *received; /* the median of each end's links; NAN: it has none */
  bool *sends_slowly, *receives_slowly;
  double *scratch;
  struct bench_outlier *found;
};

static int bench_outliers_compare(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;

  return (x > y) - (x < y);
}

/* Sorts the values, and returns the median: with an even number, the mean of the two in the middle.
 */
static double bench_outliers_median(double *values, uint32_t count)
{
  if (count == 0)
    return NAN;
  qsort(values, count, sizeof(values[0]), bench_outliers_compare);
  return (values[count / 2] + values[(count - 1) / 2]) / 2;
}

/* Changes the values to their distances from the median. */
static double bench_outliers_mad(double *values, uint32_t count, double median)
{
  for (uint32_t i = 0; i < count; i++)
    values[i] = fabs(values[i] - median);
  return bench_outliers_median(values, count);
}

static double bench_outliers_limit(const struct finder *finder, double median, double mad)
{
  const double share = BENCH_SLOW_SHARE * median;
  const double deviation = BENCH_SLOW_DEVIATIONS * BENCH_MAD_SCALE * mad;
  const double room = share > deviation ? share : deviation;

  return finder->more_is_better ? median - room : median + room;
}

static bool bench_outliers_is_slow(const struct finder *finder, double value, double limit)
{
  return finder->more_is_better ? value < limit : value > limit;
}

/* The median of an end's links in one direction. With an even number of links it is the better of
 * the two in the middle: an end with two links, one of them slow, has the other one's value. */
static double bench_outliers_end(const struct finder *finder, uint32_t end, bool sends)
{
  uint32_t count = 0;

  for (uint32_t other = 0; other < finder->ends; other++) {
    const double value =
        finder->values[sends ? end * finder->ends + other : other * finder->ends + end];
    if (other != end && value >= 0)
      finder->scratch[count++] = value;
  }
  if (count == 0)
    return NAN;
  qsort(finder->scratch, count, sizeof(double), bench_outliers_compare);
  return finder->scratch[finder->more_is_better ? count / 2 : (count - 1) / 2];
}

/* The medians of all ends, in both directions, are compared with each other. */
static void bench_outliers_judge_ends(struct finder *finder)
{
  uint32_t count = 0;

  for (uint32_t end = 0; end < finder->ends; end++) {
    finder->sent[end] = bench_outliers_end(finder, end, true);
    finder->received[end] = bench_outliers_end(finder, end, false);
  }
  for (uint32_t end = 0; end < finder->ends; end++) {
    if (!isnan(finder->sent[end]))
      finder->scratch[count++] = finder->sent[end];
    if (!isnan(finder->received[end]))
      finder->scratch[count++] = finder->received[end];
  }
  const double median = bench_outliers_median(finder->scratch, count);
  const double limit =
      bench_outliers_limit(finder, median, bench_outliers_mad(finder->scratch, count, median));
  for (uint32_t end = 0; end < finder->ends; end++) {
    finder->sends_slowly[end] = bench_outliers_is_slow(finder, finder->sent[end], limit);
    finder->receives_slowly[end] = bench_outliers_is_slow(finder, finder->received[end], limit);
  }
}

static bool bench_outliers_counts(const struct finder *finder, uint32_t from, uint32_t to)
{
  return from != to && finder->values[from * finder->ends + to] >= 0 &&
         !finder->sends_slowly[from] && !finder->receives_slowly[to];
}

static void bench_outliers_measure_spread(const struct finder *finder, struct bench_spread *spread)
{
  uint32_t count = 0;

  *spread = (struct bench_spread){.count = 0};
  for (uint32_t from = 0; from < finder->ends; from++) {
    for (uint32_t to = 0; to < finder->ends; to++) {
      spread->count += from != to && finder->values[from * finder->ends + to] >= 0;
      if (bench_outliers_counts(finder, from, to))
        finder->scratch[count++] = finder->values[from * finder->ends + to];
    }
  }
  if (count == 0) /* no link but those of slow ends, or none */
    return;
  spread->median = bench_outliers_median(finder->scratch, count);
  spread->mad = bench_outliers_mad(finder->scratch, count, spread->median);
  spread->limit = bench_outliers_limit(finder, spread->median, spread->mad);
}

static void bench_outliers_add(struct finder *finder, enum bench_slow what, uint32_t from,
                               uint32_t to, double value)
{
  finder->found[finder->count++] =
      (struct bench_outlier){.what = what, .from = from, .to = to, .value = value};
}

static void bench_outliers_collect(struct finder *finder, const struct bench_spread *spread)
{
  for (uint32_t end = 0; end < finder->ends; end++) {
    if (finder->sends_slowly[end] && finder->receives_slowly[end])
      bench_outliers_add(finder, BENCH_SLOW_END, end, end,
                         (finder->sent[end] + finder->received[end]) / 2);
    else if (finder->sends_slowly[end])
      bench_outliers_add(finder, BENCH_SLOW_SENDER, end, end, finder->sent[end]);
    else if (finder->receives_slowly[end])
      bench_outliers_add(finder, BENCH_SLOW_RECEIVER, end, end, finder->received[end]);
  }
  for (uint32_t from = 0; from < finder->ends; from++) {
    for (uint32_t to = 0; to < finder->ends; to++) {
      const double value = finder->values[from * finder->ends + to];
      if (bench_outliers_counts(finder, from, to) &&
          bench_outliers_is_slow(finder, value, spread->limit))
        bench_outliers_add(finder, BENCH_SLOW_LINK, from, to, value);
    }
  }
}

/* By kind, then the worst first: `more` is better, or less is. */
static int bench_outliers_order(const void *a, const void *b, void *more)
{
  const struct bench_outlier *x = a, *y = b;

  if (x->what != y->what)
    return (x->what > y->what) - (x->what < y->what);
  const int order = (x->value > y->value) - (x->value < y->value);
  return *(const bool *)more ? order : -order;
}

int bench_outliers_find(const double *values, uint32_t ends, bool more_is_better,
                        struct bench_spread *spread, struct bench_outlier **outliers,
                        uint32_t *count)
{
  const size_t all = (size_t)ends * ends;
  struct finder finder = {.values = values, .ends = ends, .more_is_better = more_is_better};

  finder.sent = calloc(ends + 1, sizeof(double));
  finder.received = calloc(ends + 1, sizeof(double));
  finder.sends_slowly = calloc(ends + 1, sizeof(bool));
  finder.receives_slowly = calloc(ends + 1, sizeof(bool));
  finder.scratch = calloc(all + 2 * (size_t)ends + 1, sizeof(double));
  finder.found = calloc(all + ends + 1, sizeof(struct bench_outlier));
  const bool has_room = finder.sent && finder.received && finder.sends_slowly &&
                        finder.receives_slowly && finder.scratch && finder.found;
  if (has_room) {
    if (ends >= FEWEST_ENDS)
      bench_outliers_judge_ends(&finder);
    bench_outliers_measure_spread(&finder, spread);
    if (ends >= FEWEST_ENDS)
      bench_outliers_collect(&finder, spread);
    qsort_r(finder.found, finder.count, sizeof(finder.found[0]), bench_outliers_order,
            &more_is_better);
  }
  free(finder.sent);
  free(finder.received);
  free(finder.sends_slowly);
  free(finder.receives_slowly);
  free(finder.scratch);
  if (!has_room || finder.count == 0) {
    free(finder.found);
    finder.found = NULL;
  }
  if (!has_room)
    return -ENOMEM;
  *outliers = finder.found;
  *count = finder.count;
  return 0;
}

const char *bench_slow_name(enum bench_slow what)
{
  static const char *const names[] = {"end", "sender", "receiver", "link"};

  return names[what];
}
