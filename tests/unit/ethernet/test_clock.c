/* SPDX-License-Identifier: Apache-2.0 */
/* clock.c: a card's clock in terms of CLOCK_REALTIME. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "clock.h"

#define SECOND UINT64_C(1000000000)
#define NOW (UINT64_C(1795000000) * SECOND)
#define UP (UINT64_C(86400) * SECOND) /* CLOCK_MONOTONIC */
#define HZ UINT64_C(156250000)        /* 6.4 ns a tick */

static void ticks_become_nanoseconds(void **state)
{
  struct eth_clock clock = {0};

  (void)state;
  assert_true(eth_clock_read(&clock, 1000, UP, NOW));
  assert_int_equal(clock.rate, 0);
  assert_true(eth_clock_read(&clock, 1000 + HZ, UP + SECOND, NOW + SECOND));
  assert_int_equal(eth_clock_ns(&clock, 1000 + HZ), NOW + SECOND);
  assert_in_range(eth_clock_ns(&clock, 1000 + HZ + 10), NOW + SECOND + 63, NOW + SECOND + 64);
  assert_in_range(eth_clock_ns(&clock, 1000 + 3 * HZ), NOW + 3 * SECOND - 2, NOW + 3 * SECOND + 2);
  /* A frame that waited since before the reading. */
  assert_in_range(eth_clock_ns(&clock, 1000), NOW - 2, NOW + 2);
}

static void counter_that_runs_over_goes_on(void **state)
{
  struct eth_clock clock = {0};
  const uint64_t from = UINT64_MAX - HZ / 2;

  (void)state;
  assert_true(eth_clock_read(&clock, from, UP, NOW));
  assert_true(eth_clock_read(&clock, from + HZ, UP + SECOND, NOW + SECOND));
  assert_in_range(eth_clock_ns(&clock, from), NOW - 2, NOW + 2);
}

static void clock_of_nanoseconds_is_itself(void **state)
{
  struct eth_clock clock = {0};

  (void)state;
  assert_true(eth_clock_read(&clock, NOW, UP, NOW));
  assert_true(eth_clock_read(&clock, NOW + SECOND, UP + SECOND, NOW + SECOND));
  assert_int_equal(clock.rate, UINT64_C(1) << 32);
  assert_int_equal(eth_clock_ns(&clock, NOW + 7), NOW + 7);
}

/* mlx5 with REAL_TIME_CLOCK: stamps are UTC, and what is read is a counter since power-on. */
static void stamp_that_is_the_time_stays_itself(void **state)
{
  struct eth_clock clock = {0};

  (void)state;
  assert_true(eth_clock_read(&clock, 1000, UP, NOW));
  assert_true(eth_clock_read(&clock, 1000 + HZ, UP + SECOND, NOW + SECOND));
  assert_int_equal(eth_clock_ns(&clock, NOW + SECOND + 12345), NOW + SECOND + 12345);
  assert_int_equal(eth_clock_ns(&clock, NOW - 58 * SECOND), NOW - 58 * SECOND);
  assert_int_equal(eth_clock_ns(&clock, NOW + 60 * SECOND), NOW + 60 * SECOND);
}

static void stamp_near_no_clock_is_none(void **state)
{
  struct eth_clock clock = {0};

  (void)state;
  assert_true(eth_clock_read(&clock, 1000 * HZ, UP, NOW));
  assert_int_equal(eth_clock_ns(&clock, 1000 * HZ + 1), 0); /* no rate yet */
  assert_true(eth_clock_read(&clock, 1001 * HZ, UP + SECOND, NOW + SECOND));
  assert_in_range(eth_clock_ns(&clock, 1060 * HZ), NOW + 60 * SECOND - 20, NOW + 60 * SECOND + 20);
  assert_int_equal(eth_clock_ns(&clock, 1062 * HZ), 0);
  assert_int_equal(eth_clock_ns(&clock, 940 * HZ), 0);
  assert_int_equal(eth_clock_ns(&clock, NOW + 62 * SECOND), 0);
  assert_int_equal(eth_clock_ns(&clock, NOW - 3600 * SECOND), 0);
}

static void time_that_was_set_moves_the_base_and_not_the_rate(void **state)
{
  struct eth_clock clock = {0};
  uint64_t rate;

  (void)state;
  eth_clock_read(&clock, 0, UP, NOW);
  eth_clock_read(&clock, HZ, UP + SECOND, NOW + SECOND);
  rate = clock.rate;
  assert_true(
      eth_clock_read(&clock, 2 * HZ, UP + 2 * SECOND, NOW + 60 * SECOND)); /* forward by 58 s */
  assert_int_equal(clock.rate, rate);
  assert_int_equal(eth_clock_ns(&clock, 2 * HZ), NOW + 60 * SECOND);
  assert_true(eth_clock_read(&clock, 3 * HZ, UP + 3 * SECOND, NOW)); /* and back */
  assert_int_equal(clock.rate, rate);
  assert_int_equal(eth_clock_ns(&clock, 3 * HZ), NOW);
}

static void rate_follows_a_drift(void **state)
{
  struct eth_clock clock = {0};

  (void)state;
  eth_clock_read(&clock, 0, UP, NOW);
  eth_clock_read(&clock, HZ, UP + SECOND, NOW + SECOND);
  assert_true(eth_clock_read(&clock, 2 * HZ, UP + 2 * SECOND + 50000,
                             NOW + 2 * SECOND + 50000)); /* 50 ppm */
  assert_in_range(eth_clock_ns(&clock, 3 * HZ), NOW + 3 * SECOND + 99990,
                  NOW + 3 * SECOND + 100010);
}

static void clock_that_stands_still_is_reported(void **state)
{
  struct eth_clock clock = {0};

  (void)state;
  assert_true(eth_clock_read(&clock, 5, UP, NOW));
  assert_false(eth_clock_read(&clock, 5, UP + SECOND, NOW + SECOND));
  assert_int_equal(clock.real_ns, NOW);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ticks_become_nanoseconds),
      cmocka_unit_test(counter_that_runs_over_goes_on),
      cmocka_unit_test(clock_of_nanoseconds_is_itself),
      cmocka_unit_test(stamp_that_is_the_time_stays_itself),
      cmocka_unit_test(stamp_near_no_clock_is_none),
      cmocka_unit_test(time_that_was_set_moves_the_base_and_not_the_rate),
      cmocka_unit_test(rate_follows_a_drift),
      cmocka_unit_test(clock_that_stands_still_is_reported),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
