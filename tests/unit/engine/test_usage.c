/* SPDX-License-Identifier: Apache-2.0 */
/* CPU use of a thread between two readings. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/usage.h"

static void what_lies_between_two_looks(void **state)
{
  struct usage from = {.at_ns = 1000, .cpu_ns = 100, .switches = 2, .wait_ns = 50};
  struct usage to = {.at_ns = 3000, .cpu_ns = 700, .switches = 5, .wait_ns = 80}, difference;

  (void)state;
  usage_between(&from, &to, &difference);
  assert_int_equal(difference.at_ns, 2000);
  assert_int_equal(difference.cpu_ns, 600);
  assert_int_equal(difference.switches, 3);
  assert_int_equal(difference.wait_ns, 30);
  from.wait_ns = UINT64_MAX; /* not known once: not known at all */
  usage_between(&from, &to, &difference);
  assert_int_equal(difference.cpu_ns, 600);
  assert_true(difference.wait_ns == UINT64_MAX);
}

static void nothing_lies_between_looks_that_are_none(void **state)
{
  struct usage never = {.at_ns = 0}, early = {.at_ns = 1000, .cpu_ns = 900}, late = {.at_ns = 2000};
  struct usage difference;

  (void)state;
  usage_between(&never, &late, &difference);
  assert_int_equal(difference.at_ns, 0);
  usage_between(&late, &early, &difference); /* the other way round */
  assert_int_equal(difference.at_ns, 0);
  assert_int_equal(difference.cpu_ns, 0);
  usage_between(&early, &early, &difference);
  assert_int_equal(difference.at_ns, 0);
}

/* The thread works until the kernel has counted its time, however slow the machine is. */
static void a_thread_that_works_is_seen_to(void **state)
{
  struct usage from = {.at_ns = 0}, to = {.at_ns = 0}, kept = {.at_ns = 0}, difference;
  volatile uint64_t work = 0;

  (void)state;
  usage_take(&from);
  do {
    for (int i = 0; i < 100000; i++)
      work = work + 1;
    usage_take(&to);
    usage_between(&from, &to, &difference);
  } while (difference.cpu_ns == 0);
  assert_true(difference.at_ns > 0);
  usage_copy(&kept, &to);
  assert_memory_equal(&kept, &to, sizeof(kept));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_lies_between_two_looks),
                                     cmocka_unit_test(nothing_lies_between_looks_that_are_none),
                                     cmocka_unit_test(a_thread_that_works_is_seen_to)};

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
