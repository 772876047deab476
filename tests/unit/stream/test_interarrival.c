/* SPDX-License-Identifier: Apache-2.0 */
/* Percentiles of times between arrivals beside those of the sorted list. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stream/interarrival.h"

#define SAMPLES 20001u

static int compare(const void *a, const void *b)
{
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

  return x < y ? -1 : x > y;
}

static void close_to(uint64_t got, uint64_t exact)
{
  assert_true(got >= exact);
  assert_true((double)got <= (double)exact * 1.032 + 1);
}

static void percentiles_agree_with_the_sorted_list(void **state)
{
  struct interarrival *intervals = calloc(1, sizeof(*intervals));
  uint64_t *list = calloc(SAMPLES, sizeof(*list));
  uint64_t now = UINT64_C(1700000000000000000), sum = 0;
  struct pst_times times;
  unsigned seed = 5;

  (void)state;
  interarrival_see(intervals, now);
  for (uint32_t i = 0; i < SAMPLES; i++) {
    list[i] = (uint64_t)rand_r(&seed) >> (unsigned)rand_r(&seed) % 31;
    sum += list[i];
    now += list[i];
    interarrival_see(intervals, now);
  }
  qsort(list, SAMPLES, sizeof(*list), compare);
  interarrival_read(intervals, &times);
  assert_int_equal(times.count, SAMPLES);
  assert_int_equal(times.min_ns, list[0]);
  assert_int_equal(times.max_ns, list[SAMPLES - 1]);
  assert_int_equal(times.mean_ns, sum / SAMPLES);
  close_to(times.p50_ns, list[SAMPLES / 2]);
  close_to(times.p90_ns, list[(uint32_t)(SAMPLES * 0.9)]);
  close_to(times.p99_ns, list[(uint32_t)(SAMPLES * 0.99)]);
  close_to(times.p99_9_ns, list[(uint32_t)(SAMPLES * 0.999)]);
  free(list);
  free(intervals);
}

static void one_arrival_has_no_interval(void **state)
{
  struct interarrival *intervals = calloc(1, sizeof(*intervals));
  struct pst_times times;

  (void)state;
  interarrival_read(intervals, &times);
  assert_int_equal(times.count, 0);
  interarrival_see(intervals, 1000);
  interarrival_read(intervals, &times);
  assert_int_equal(times.count, 0);
  interarrival_see(intervals, 900); /* the clock was set back */
  interarrival_see(intervals, UINT64_MAX);
  interarrival_read(intervals, &times);
  assert_int_equal(times.count, 2);
  assert_int_equal(times.min_ns, 0);
  assert_int_equal(times.max_ns, UINT64_MAX - 900);
  assert_int_equal(times.p50_ns, 0);
  assert_int_equal(times.p99_ns, UINT64_MAX - 900);
  free(intervals);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(percentiles_agree_with_the_sorted_list),
      cmocka_unit_test(one_arrival_has_no_interval),
  };
  return cmocka_run_group_tests_name("stream_intervals", tests, NULL, NULL) ? 1 : 0;
}
