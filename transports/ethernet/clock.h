/* SPDX-License-Identifier: Apache-2.0 */
/* A card's clock in terms of CLOCK_REALTIME. Needs no DPDK. */
#ifndef ETHERNET_CLOCK_H
#define ETHERNET_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* One reading of three clocks, and nanoseconds a tick, times 2^32. */
struct eth_clock {
  uint64_t ticks;
  uint64_t real_ns;
  uint64_t steady_ns; /* CLOCK_MONOTONIC, which nobody sets */
  uint64_t rate;      /* 0: not known yet */
  uint64_t per_ns;    /* ticks a nanosecond, times 2^32 */
};

/* The next reading, of the same moment. The rate is what the card's clock ran since the one before,
 * the base is CLOCK_REALTIME as it is now. False: the card's clock stands still; nothing has
 * changed.
 */
bool eth_clock_read(struct eth_clock *clock, uint64_t ticks, uint64_t steady_ns, uint64_t real_ns);

/* Returns the card's clock at a time of CLOCK_MONOTONIC near the reading. */
static inline uint64_t eth_clock_ticks(const struct eth_clock *clock, uint64_t steady_ns)
{
  const __int128 away = (__int128)(int64_t)(steady_ns - clock->steady_ns) * clock->per_ns;

  return clock->ticks + (uint64_t)(int64_t)(away >> 32);
}

#define ETH_CLOCK_NEAR_NS INT64_C(60000000000) /* stamps lie so near the reading */

/* Returns the time of a stamp near the reading, earlier or later, in ns. Where firmware has the
 * card's clock follow UTC (mlx5's REAL_TIME_CLOCK), a stamp is the time itself, and
 * rte_eth_read_clock() gives a counter all the same. 0: the stamp is near neither. */
static inline uint64_t eth_clock_ns(const struct eth_clock *clock, uint64_t stamp)
{
  const int64_t off = (int64_t)(stamp - clock->real_ns);
  const __int128 away = ((__int128)(int64_t)(stamp - clock->ticks) * (__int128)clock->rate) >> 32;

  if (off >= -ETH_CLOCK_NEAR_NS && off <= ETH_CLOCK_NEAR_NS)
    return stamp;
  if (!clock->rate || away < -ETH_CLOCK_NEAR_NS || away > ETH_CLOCK_NEAR_NS)
    return 0;
  return clock->real_ns + (uint64_t)(int64_t)away;
}

#endif
