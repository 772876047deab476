/* SPDX-License-Identifier: Apache-2.0 */
/* Names of extended statistics, as drivers have them, and the counters that they become. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "xstats.h"

static void assert_kind(const char *name, enum eth_xstat kind)
{
  if (eth_xstat_of(name) != kind)
    fail_msg("%s is %d, and not %d", name, (int)eth_xstat_of(name), (int)kind);
}

static void names_of_mlx5_and_intels_drivers_are_known(void **state)
{
  (void)state;
  assert_kind("rx_phy_discard_packets", ETH_XSTAT_PHY_DISCARDS);
  assert_kind("rx_discards_phy", ETH_XSTAT_PHY_DISCARDS);
  assert_kind("rx_prio0_pause", ETH_XSTAT_RX_PAUSE);
  assert_kind("tx_prio7_pause", ETH_XSTAT_TX_PAUSE);
  assert_kind("rx_pause_ctrl_phy", ETH_XSTAT_RX_PAUSE);
  assert_kind("tx_xoff_packets", ETH_XSTAT_TX_PAUSE);
  assert_kind("rx_priority3_xoff_packets", ETH_XSTAT_RX_PAUSE);
}

/* They are in imissed, a part of another, durations, or the end of a pause. */
static void what_is_counted_elsewhere_is_left_out(void **state)
{
  static const char *const names[] = {"rx_good_packets",
                                      "rx_out_of_buffer",
                                      "rx_prio0_buf_discard_packets",
                                      "rx_dropped_packets",
                                      "rx_prio0_pause_duration",
                                      "rx_prio_pause",
                                      "rx_flow_control_xoff_packets",
                                      "rx_xon_packets",
                                      "tx_phy_discard_packets",
                                      "rx_discards_phy_2",
                                      "rx_discards",
                                      ""};

  (void)state;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    assert_kind(names[i], ETH_XSTATS);
}

static void priorities_are_one_sum(void **state)
{
  const enum eth_xstat kinds[] = {ETH_XSTAT_RX_PAUSE, ETH_XSTAT_PHY_DISCARDS, ETH_XSTAT_RX_PAUSE};
  const uint64_t values[] = {3, 40, 5};
  uint64_t sums[ETH_XSTATS] = {7, 7, 7};

  (void)state;
  eth_xstats_sum(kinds, values, 3, sums);
  assert_int_equal(sums[ETH_XSTAT_PHY_DISCARDS], 40);
  assert_int_equal(sums[ETH_XSTAT_RX_PAUSE], 8);
  assert_int_equal(sums[ETH_XSTAT_TX_PAUSE], 0);
}

static void what_has_grown_is_named_and_nothing_else(void **state)
{
  const uint64_t before[ETH_XSTATS] = {10, 20, 30}, now[ETH_XSTATS] = {12, 20, 31};
  char text[400];

  (void)state;
  eth_xstats_tell(before, before, text, sizeof(text));
  assert_string_equal(text, "");
  eth_xstats_tell(before, now, text, sizeof(text));
  assert_string_equal(text,
                      "phy_discards 2 (the card had no buffer for frames that came), tx_pause 1 "
                      "(this port asks the peer to wait, since frames are not taken fast enough)");
  eth_xstats_tell(before, now, text, 16);
  assert_string_equal(text, "phy_discards 2 ");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_of_mlx5_and_intels_drivers_are_known),
      cmocka_unit_test(what_is_counted_elsewhere_is_left_out),
      cmocka_unit_test(priorities_are_one_sum),
      cmocka_unit_test(what_has_grown_is_named_and_nothing_else),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
