/* SPDX-License-Identifier: Apache-2.0 */
/* Extended statistics of a card: which names of its driver's are which counter. Needs no DPDK. */
#ifndef ETHERNET_XSTATS_H
#define ETHERNET_XSTATS_H

#include <stddef.h>
#include <stdint.h>

enum eth_xstat {
  ETH_XSTAT_PHY_DISCARDS = 0, /* frames that the card had no buffer for, before any queue */
  ETH_XSTAT_RX_PAUSE,         /* frames that ask this port to wait */
  ETH_XSTAT_TX_PAUSE,         /* frames that ask the peer to wait */
  ETH_XSTATS,                 /* no counter of these */
};

/* The names of the counters, in their order. */
extern const char *const eth_xstat_names[ETH_XSTATS];

/* Which counter a name of the driver's belongs to. No frame is counted under two names. */
enum eth_xstat eth_xstat_of(const char *name);
/* The counters, as sums of what the driver has counted. */
void eth_xstats_sum(const enum eth_xstat *kinds, const uint64_t *values, uint32_t count,
                    uint64_t sums[ETH_XSTATS]);
/* Writes which counters have grown since `before`, by how much and what that means; "": none. */
void eth_xstats_tell(const uint64_t before[ETH_XSTATS], const uint64_t now[ETH_XSTATS], char *text,
                     size_t size);

#endif
