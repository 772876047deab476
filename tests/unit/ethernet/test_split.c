/* SPDX-License-Identifier: Apache-2.0 */
/* Header-data split: when a ring may lie where the CPU does not reach, and where frames are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "split.h"

static const struct eth_split_facts good = {.is_card = true,
                                            .has_split = true,
                                            .has_pools = true,
                                            .segments_max = 2,
                                            .wants_rules = true,
                                            .queues = 2};

static void assert_refused(const struct eth_split_facts *facts, const char *word)
{
  char text[ETH_SPLIT_WHY];
  const char *why = eth_split_judge(facts, text);

  assert_non_null(why);
  if (!strstr(why, word))
    fail_msg("\"%s\" is not in \"%s\"", word, why);
}

static void a_card_that_splits_is_taken(void **state)
{
  struct eth_split_facts facts = good;
  char text[ETH_SPLIT_WHY];

  (void)state;
  assert_null(eth_split_judge(&facts, text));
  facts.rings = 1; /* and one queue for the rest */
  assert_refused(&facts, "2 queues, one for the rest and 1");
  facts.queues = 3;
  assert_null(eth_split_judge(&facts, text));
}

static void each_lack_has_its_reason(void **state)
{
  struct eth_split_facts facts = good;

  (void)state;
  facts.is_card = false;
  assert_refused(&facts, "the CPU writes");
  facts = good;
  facts.has_split = false;
  assert_refused(&facts, "BUFFER_SPLIT");
  facts = good;
  facts.has_pools = false;
  assert_refused(&facts, "one pool");
  facts = good;
  facts.segments_max = 1;
  assert_refused(&facts, "one pool");
  facts = good;
  facts.wants_copy = true;
  assert_refused(&facts, "`receive`");
  facts = good;
  facts.has_tags = true;
  assert_refused(&facts, "`authenticate`");
  facts = good;
  facts.wants_rules = false;
  assert_refused(&facts, "`rules`");
  facts = good;
  facts.queues = 1;
  assert_refused(&facts, "1 queues");
}

static void endpoints_of_a_ring_have_one_split_point(void **state)
{
  const uint32_t headers[] = {58, 58, 78};

  (void)state;
  assert_int_equal(eth_split_point(headers, 0), 0);
  assert_int_equal(eth_split_point(headers, 1), 58);
  assert_int_equal(eth_split_point(headers, 2), 58);
  assert_int_equal(eth_split_point(headers, 3), 0);
}

static void payloads_lie_behind_the_split(void **state)
{
  uint32_t at = 7;

  (void)state;
  assert_false(eth_split_place(58, 57, &at));
  assert_int_equal(at, 7);
  assert_true(eth_split_place(58, 58, &at));
  assert_int_equal(at, 0);
  assert_true(eth_split_place(58, 62, &at)); /* an option of IPv4's */
  assert_int_equal(at, 4);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_card_that_splits_is_taken),
      cmocka_unit_test(each_lack_has_its_reason),
      cmocka_unit_test(endpoints_of_a_ring_have_one_split_point),
      cmocka_unit_test(payloads_lie_behind_the_split),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
