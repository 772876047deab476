/* SPDX-License-Identifier: Apache-2.0 */
/* The pacer on a clock of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "stream/rate_limit.h"

#define MESSAGE 1462u
#define GBPS UINT64_C(1000000000)
#define START UINT64_C(5000000000)

static void unlimited_gives_all(void **state)
{
  struct rate_limit rate;

  (void)state;
  rate_limit_init(&rate, 0, 0, MESSAGE);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 64), 64);
  rate_limit_spend(&rate, 1000000);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 64), 64);
  assert_int_equal(rate_limit_next_ns(&rate), 0);
}

/* A caller that comes at odd times, now and then after a pause of up to 10 ms. */
static uint64_t bytes_in_a_second(struct rate_limit *rate, unsigned seed)
{
  uint64_t bytes = 0;

  for (uint64_t now = START; now < START + 1000000000u;) {
    uint32_t n = rate_limit_allow(rate, now, MESSAGE, 128);
    rate_limit_spend(rate, (uint64_t)n * MESSAGE);
    bytes += (uint64_t)n * MESSAGE;
    now += 1 + (unsigned)rand_r(&seed) % (rand_r(&seed) % 500 ? 20000 : 10000000);
  }
  return bytes;
}

static void the_mean_holds_whatever_the_caller_does(void **state)
{
  (void)state;
  for (unsigned seed = 1; seed <= 20; seed++) {
    struct rate_limit rate;
    rate_limit_init(&rate, GBPS, 0, MESSAGE);
    double gbps = (double)bytes_in_a_second(&rate, seed) * 8 / 1e9;
    assert_true(gbps > 0.99 && gbps < 1.01);
  }
}

/* Line time that is unused because the sender came too late is reported. */
static void unused_line_time_is_reported(void **state)
{
  struct rate_limit rate;

  (void)state;
  rate_limit_init(&rate, GBPS, 0, MESSAGE); /* it may catch up 20 ms */
  rate_limit_spend(&rate, (uint64_t)rate_limit_allow(&rate, START, MESSAGE, 1) * MESSAGE);
  rate_limit_allow(&rate, START + 19000000u, MESSAGE, 1);
  assert_true(rate.lost_ns == 0);
  rate_limit_allow(&rate, START + 120000000u, MESSAGE, 1);
  assert_true(rate.lost_ns > 99e6 && rate.lost_ns < 101e6);
}

static void a_burst_is_bounded(void **state)
{
  struct rate_limit rate;

  (void)state;
  rate_limit_init(&rate, GBPS, 100 * MESSAGE, MESSAGE);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 1000), 1);
  rate_limit_spend(&rate, MESSAGE);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 1000), 0);
  /* After a second of silence not a second's worth, but the burst. */
  assert_int_equal(rate_limit_allow(&rate, START + 1000000000u, MESSAGE, 100000), 100);
  /* One message at a time is the least. */
  rate_limit_init(&rate, GBPS, 1, MESSAGE);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 1000), 1);
  rate_limit_spend(&rate, MESSAGE);
  assert_int_equal(rate_limit_allow(&rate, START + 1000000000u, MESSAGE, 1000), 1);
}

static void a_chunk_then_a_sleep(void **state)
{
  struct rate_limit rate;

  (void)state;
  rate_limit_init(&rate, 0, 0, MESSAGE);
  rate_limit_chunks(&rate, 100, 50000);
  assert_true(rate.is_on);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 64), 64);
  rate_limit_sent(&rate, START);
  assert_int_equal(rate_limit_next_ns(&rate), 0);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 64), 36);
  assert_int_equal(rate_limit_allow(&rate, START + 1000000, MESSAGE, 64),
                   0); /* it has not gone yet */
  rate_limit_sent(&rate, START + 1000);
  assert_int_equal(rate_limit_next_ns(&rate), START + 51000);
  assert_int_equal(rate_limit_allow(&rate, START + 50999, MESSAGE, 64), 0);
  assert_int_equal(rate_limit_allow(&rate, START + 51000, MESSAGE, 1000), 100);
}

static void chunks_keep_the_rate(void **state)
{
  struct rate_limit rate;

  (void)state;
  rate_limit_init(&rate, GBPS, 10 * MESSAGE, MESSAGE);
  rate_limit_chunks(&rate, 4, 1000000);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 64), 1);
  rate_limit_spend(&rate, MESSAGE);
  assert_int_equal(rate_limit_allow(&rate, START + 40000, MESSAGE, 64), 3); /* left of the chunk */
  rate_limit_spend(&rate, UINT64_C(3) * MESSAGE);
  rate_limit_sent(&rate, START + 40000);
  assert_int_equal(rate_limit_allow(&rate, START + 900000, MESSAGE, 64), 0);
  assert_int_equal(rate_limit_allow(&rate, START + 1040000, MESSAGE, 64), 4);
}

static void it_says_when_to_come_again(void **state)
{
  struct rate_limit rate;

  (void)state;
  rate_limit_init(&rate, GBPS, 0, MESSAGE);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 1), 1);
  rate_limit_spend(&rate, MESSAGE);
  assert_in_range(rate_limit_next_ns(&rate), START + 11695, START + 11697); /* 1462 * 8 ns */
  assert_int_equal(rate_limit_allow(&rate, rate_limit_next_ns(&rate) + 1, MESSAGE, 1), 1);
}

/* A transport that times the line itself gets messages early by the lead; the mean rate is the
 * line's. */
static void a_lead_moves_when_and_not_how_many(void **state)
{
  struct rate_limit rate;

  (void)state;
  rate_limit_init(&rate, GBPS, 0, MESSAGE);
  rate.lead_ns = 1000000;
  assert_int_equal(rate_limit_line_ns(&rate), 0);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 1000),
                   86); /* 1 ms / 11.696 us, and one */
  assert_int_equal(rate_limit_line_ns(&rate), START);
  rate_limit_spend(&rate, UINT64_C(86) * MESSAGE);
  assert_in_range(rate_limit_line_ns(&rate), START + 1005855, START + 1005857);
  assert_int_equal(rate_limit_allow(&rate, START, MESSAGE, 1000), 0);
  assert_in_range(rate_limit_next_ns(&rate), START + 5855, START + 5857);
  assert_int_equal(rate_limit_allow(&rate, START + 5860, MESSAGE, 1000), 1);
  for (unsigned seed = 1; seed <= 20; seed++) {
    rate_limit_init(&rate, GBPS, 0, MESSAGE);
    rate.lead_ns = 2e6;
    double gbps = (double)bytes_in_a_second(&rate, seed) * 8 / 1e9;
    assert_true(gbps > 0.99 && gbps < 1.01);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unlimited_gives_all),
      cmocka_unit_test(the_mean_holds_whatever_the_caller_does),
      cmocka_unit_test(a_burst_is_bounded),
      cmocka_unit_test(unused_line_time_is_reported),
      cmocka_unit_test(it_says_when_to_come_again),
      cmocka_unit_test(a_lead_moves_when_and_not_how_many),
      cmocka_unit_test(a_chunk_then_a_sleep),
      cmocka_unit_test(chunks_keep_the_rate),
  };
  return cmocka_run_group_tests_name("stream_pace", tests, NULL, NULL) ? 1 : 0;
}
