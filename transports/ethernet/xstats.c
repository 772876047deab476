/* SPDX-License-Identifier: Apache-2.0 */
/* Extended statistics of a card, by name. */
#include "xstats.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

const char *const eth_xstat_names[ETH_XSTATS] = {"phy_discards", "rx_pause", "tx_pause"};

/* '#' is a digit, the priority. Left out is what DPDK's imissed has already (mlx5's
 * rx_out_of_buffer, i40e's rx_dropped_packets), and what another name counts, too (mlx5's
 * rx_prio#_buf_discard_packets, ixgbe's rx_flow_control_xoff_packets). */
static const struct {
  const char *name;
  enum eth_xstat kind;
} table[] = {
    {"rx_phy_discard_packets", ETH_XSTAT_PHY_DISCARDS}, /* mlx5 of DPDK */
    {"rx_discards_phy", ETH_XSTAT_PHY_DISCARDS},        /* mlx5 of the kernel */
    {"rx_pause_ctrl_phy", ETH_XSTAT_RX_PAUSE},
    {"tx_pause_ctrl_phy", ETH_XSTAT_TX_PAUSE},
    {"rx_prio#_pause", ETH_XSTAT_RX_PAUSE},
    {"tx_prio#_pause", ETH_XSTAT_TX_PAUSE},
    {"rx_xoff_packets", ETH_XSTAT_RX_PAUSE}, /* ixgbe, i40e, ice, igc, e1000 */
    {"tx_xoff_packets", ETH_XSTAT_TX_PAUSE},
    {"rx_priority#_xoff_packets", ETH_XSTAT_RX_PAUSE}, /* ixgbe, i40e */
    {"tx_priority#_xoff_packets", ETH_XSTAT_TX_PAUSE},
    {"rx_pause_frames", ETH_XSTAT_RX_PAUSE}, /* bnxt */
    {"tx_pause_frames", ETH_XSTAT_TX_PAUSE},
};

static bool eth_xstats_match(const char *pattern, const char *name)
{
  while (*pattern && (*pattern == *name || (*pattern == '#' && isdigit((unsigned char)*name)))) {
    pattern++;
    name++;
  }
  return !*pattern && !*name;
}

enum eth_xstat eth_xstat_of(const char *name)
{
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
    if (eth_xstats_match(table[i].name, name))
      return table[i].kind;
  return ETH_XSTATS;
}

void eth_xstats_sum(const enum eth_xstat *kinds, const uint64_t *values, uint32_t count,
                    uint64_t sums[ETH_XSTATS])
{
  memset(sums, 0, ETH_XSTATS * sizeof(sums[0]));
  for (uint32_t i = 0; i < count; i++)
    sums[kinds[i]] += values[i];
}

void eth_xstats_tell(const uint64_t before[ETH_XSTATS], const uint64_t now[ETH_XSTATS], char *text,
                     size_t size)
{
  static const char *const meanings[ETH_XSTATS] = {
      "the card had no buffer for frames that came",
      "the switch or the peer asks this port to wait",
      "this port asks the peer to wait, since frames are not taken fast enough"};
  size_t length = 0;

  text[0] = '\0';
  for (int i = 0; i < ETH_XSTATS; i++)
    if (now[i] > before[i] && length < size)
      length += (size_t)snprintf(text + length, size - length, "%s%s %llu (%s)", length ? ", " : "",
                                 eth_xstat_names[i], (unsigned long long)(now[i] - before[i]),
                                 meanings[i]);
}
