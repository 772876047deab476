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
};

/* The next reading, of the same moment. The rate is what the card's clock ran since the one before,
 * the base is CLOCK_REALTIME as it is now. False: the card's clock stands still; nothing has
 * changed.
 */
bool eth_clock_read(struct eth_clock *clock, uint64_t ticks, uint64_t steady_ns, uint64_t real_ns);

/* Before the reading, too. */
static inline uint64_t eth_clock_ns(const struct eth_clock *clock, uint64_t ticks)
{
  const int64_t away = (int64_t)(ticks - clock->ticks);

  return clock->real_ns + (uint64_t)(int64_t)(((__int128)away * (__int128)clock->rate) >> 32);
}

#endif
