/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a device, and which gaps of streams its drops explain. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/counts.h"

static struct pst_counter told[COUNTS_MAX + 10];
static int told_count;

static int tell(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max)
{
  (void)device, (void)worker;
  assert_null(endpoint);
  for (int i = 0; i < told_count && i < (int)max; i++)
    counters[i] = told[i];
  return told_count;
}

static const struct pst_transport_ops ops = {.counters = tell};

static void read_told(struct counts *counts, int count)
{
  told_count = count;
  counts_read(counts, &ops, NULL, NULL, NULL);
}

static void values_are_kept(void **state)
{
  static struct counts counts;
  struct pst_counter_value values[2];

  (void)state;
  counts_init(&counts);
  told[0] = (struct pst_counter){"imissed", "no_buffer", 7, PST_COUNTER_DROP};
  told[1] = (struct pst_counter){"link", NULL, 1, PST_COUNTER_GAUGE};
  read_told(&counts, 2);
  assert_int_equal(counts_copy(&counts, values, 2), 2);
  assert_string_equal(values[0].name, "imissed");
  assert_string_equal(values[0].cause, "no_buffer");
  assert_int_equal(values[0].value, 7);
  assert_string_equal(values[1].cause, "");
  assert_int_equal(counts_copy(&counts, NULL, 0), 2);
  /* A transport that fails to say tells nothing new. */
  read_told(&counts, -EOPNOTSUPP);
  assert_int_equal(counts_copy(&counts, values, 1), 2);
}

static void no_more_than_there_is_room_for(void **state)
{
  static struct counts counts;
  static struct pst_counter_value values[COUNTS_MAX];

  (void)state;
  counts_init(&counts);
  for (int i = 0; i < COUNTS_MAX + 10; i++)
    told[i] = (struct pst_counter){"drop", NULL, 1, PST_COUNTER_DROP};
  read_told(&counts, COUNTS_MAX + 10);
  assert_int_equal(counts_copy(&counts, values, COUNTS_MAX), COUNTS_MAX);
  assert_int_equal(counts.drop_count, COUNTS_DROPS_MAX);
}

/* A gauge that bounds the messages behind the last one is no count of drops. */
static void levels_are_no_drops(void **state)
{
  static struct counts counts;
  uint64_t claims[COUNTS_DROPS_MAX] = {0};

  (void)state;
  counts_init(&counts);
  told[0] = (struct pst_counter){"behind", "full", 9, PST_COUNTER_DROP | PST_COUNTER_GAUGE};
  told[1] = (struct pst_counter){"full", NULL, 2, PST_COUNTER_DROP};
  read_told(&counts, 2);
  assert_int_equal(counts_claim(&counts, claims, 10), 8);
  assert_int_equal(claims[0], 2);
  assert_string_equal(counts.drops[0].cause, "full");
}

static void each_drop_explains_one_message(void **state)
{
  static struct counts counts;
  uint64_t one[COUNTS_DROPS_MAX] = {0}, two[COUNTS_DROPS_MAX] = {0};

  (void)state;
  counts_init(&counts);
  told[0] = (struct pst_counter){"full", NULL, 5, PST_COUNTER_DROP};
  told[1] = (struct pst_counter){"error", NULL, 3, PST_COUNTER_DROP};
  read_told(&counts, 2);
  assert_int_equal(counts_claim(&counts, one, 6), 0);
  assert_int_equal(one[0], 5);
  assert_int_equal(one[1], 1);
  assert_int_equal(counts_claim(&counts, two, 6), 4);
  assert_int_equal(two[0], 0);
  assert_int_equal(two[1], 2);
  /* Messages that came late are missing no more: another stream's gaps may be explained. */
  assert_int_equal(counts_claim(&counts, one, 2), 0);
  assert_int_equal(counts_claim(&counts, two, 6), 0);
  assert_int_equal(two[0], 3);
  assert_int_equal(two[1], 3);
  /* The same claim again is the same. */
  assert_int_equal(counts_claim(&counts, two, 6), 0);
  told[0].value = 6;
  read_told(&counts, 2);
  assert_int_equal(counts_claim(&counts, one, 4), 1);
  assert_int_equal(one[0], 3);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_are_kept),
      cmocka_unit_test(no_more_than_there_is_room_for),
      cmocka_unit_test(levels_are_no_drops),
      cmocka_unit_test(each_drop_explains_one_message),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
