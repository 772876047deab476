/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors, rings and pools against each other: what is raised, what is refused, and why. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sizes.h"

static const struct eth_descriptor_limits any = {0, UINT16_MAX, 1};
static const struct eth_descriptor_limits ixgbe = {32, 4096, 8};

static char why[ETH_SIZES_WHY];
static uint32_t descriptors;

static int settle(const struct eth_descriptor_limits *limits, uint32_t wanted, bool is_fixed)
{
  memset(why, 0, sizeof(why));
  return eth_descriptors_settle(limits, "receiving", wanted, is_fixed, &descriptors, why);
}

static void descriptors_within_the_limits_stay(void **state)
{
  (void)state;
  assert_int_equal(settle(&any, 1024, true), 0);
  assert_int_equal(descriptors, 1024);
  assert_int_equal(settle(&ixgbe, 4096, true), 0);
  assert_int_equal(descriptors, 4096);
}

static void descriptors_between_two_steps_are_raised(void **state)
{
  (void)state;
  assert_int_equal(settle(&ixgbe, 1001, true), 1);
  assert_int_equal(descriptors, 1008);
  assert_string_equal(why, "descriptors: 1001 becomes 1008: the driver's receiving queue has 32 to "
                           "4096, in steps of 8");
}

/* The last step below a maximum that is none. */
static void a_maximum_between_two_steps_is_not_passed(void **state)
{
  const struct eth_descriptor_limits odd = {64, 1000, 64};

  (void)state;
  assert_int_equal(settle(&odd, 1000, true), 1);
  assert_int_equal(descriptors, 960);
}

static void descriptors_beyond_the_limits_are_refused_where_the_file_has_them(void **state)
{
  const struct eth_descriptor_limits large = {512, 4096, 32};

  (void)state;
  assert_int_equal(settle(&ixgbe, 8192, true), -EINVAL);
  assert_string_equal(why, "descriptors: 8192 is not possible: the driver's receiving queue has 32 "
                           "to 4096, in steps of 8; write `descriptors: 4096`");
  assert_int_equal(settle(&large, 64, true), -EINVAL);
  assert_non_null(strstr(why, "write `descriptors: 512`"));
  assert_int_equal(settle(&large, 64, false), 1);
  assert_int_equal(descriptors, 512);
}

static void a_queue_of_less_than_a_burst_is_refused(void **state)
{
  const struct eth_descriptor_limits tiny = {1, 16, 1};

  (void)state;
  assert_int_equal(settle(&tiny, 1024, false), -EINVAL);
  assert_non_null(strstr(why, "at most 16 descriptors, and a burst has 32 frames"));
}

static void a_small_ring_leaves_fewer_descriptors(void **state)
{
  (void)state;
  descriptors = 1024;
  assert_true(eth_ring_settle(&any, 1088, false, &descriptors, why));
  assert_int_equal(descriptors, 1024);
  assert_true(eth_ring_settle(&any, 1087, false, &descriptors, why));
  assert_int_equal(descriptors, 512);
  assert_true(eth_ring_settle(&any, 128, false, &descriptors, why));
  assert_int_equal(descriptors, 64);
  assert_false(eth_ring_settle(&any, 127, false, &descriptors, why));
  assert_non_null(strstr(why, "it needs 128, 64 more; make `ring` larger"));
}

/* The driver would raise them again, hold all slots, and receive nothing more. */
static void a_small_ring_does_not_go_below_the_drivers_minimum(void **state)
{
  const struct eth_descriptor_limits large = {512, 4096, 32};

  (void)state;
  descriptors = 1024;
  assert_false(eth_ring_settle(&large, 256, false, &descriptors, why));
  assert_non_null(strstr(why, "the ring has 256 slots, and the driver keeps 512 filled"));
}

static void descriptors_of_the_file_are_kept_and_named(void **state)
{
  (void)state;
  descriptors = 1024;
  assert_false(eth_ring_settle(&any, 1087, true, &descriptors, why));
  assert_int_equal(descriptors, 1024);
  assert_non_null(strstr(why, "make `ring` larger or `descriptors` smaller"));
}

/* mlx5 makes 1024 of 1000. */
static void a_driver_that_rounds_up_is_found_out(void **state)
{
  (void)state;
  assert_true(eth_queue_check(1088, 1000, 1024, why));
  assert_false(eth_queue_check(1064, 1000, 1024, why));
  assert_string_equal(why, "the driver made 1024 descriptors of 1000, and 1064 buffers do not keep "
                           "them filled: it needs 1088; write `descriptors: 512`, or make `ring` "
                           "larger");
}

/* With full inboxes, a full batch and a full queue there is a bulk of 32 left for the driver. */
static void memory_of_a_queues_own_always_has_a_bulk(void **state)
{
  (void)state;
  for (uint32_t rings = 0; rings <= 64; rings++) {
    uint32_t held = 1024 + rings * ETH_INBOX + ETH_BURST;
    assert_true(eth_own_buffers(1024, rings) >= held + 32);
    assert_true(eth_queue_check(eth_own_buffers(1024, rings), 1024, 1024, why));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(descriptors_within_the_limits_stay),
      cmocka_unit_test(descriptors_between_two_steps_are_raised),
      cmocka_unit_test(a_maximum_between_two_steps_is_not_passed),
      cmocka_unit_test(descriptors_beyond_the_limits_are_refused_where_the_file_has_them),
      cmocka_unit_test(a_queue_of_less_than_a_burst_is_refused),
      cmocka_unit_test(a_small_ring_leaves_fewer_descriptors),
      cmocka_unit_test(a_small_ring_does_not_go_below_the_drivers_minimum),
      cmocka_unit_test(descriptors_of_the_file_are_kept_and_named),
      cmocka_unit_test(a_driver_that_rounds_up_is_found_out),
      cmocka_unit_test(memory_of_a_queues_own_always_has_a_bulk),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
