/* SPDX-License-Identifier: Apache-2.0 */
/* A card's clock in terms of CLOCK_REALTIME. */
#include "clock.h"

bool eth_clock_read(struct eth_clock *clock, uint64_t ticks, uint64_t steady_ns, uint64_t real_ns)
{
  const uint64_t more = ticks - clock->ticks;
  uint64_t rate = 0, per_ns = 0;

  if (clock->steady_ns) {
    if ((int64_t)more <= 0 || steady_ns <= clock->steady_ns)
      return false;
    rate = (uint64_t)(((unsigned __int128)(steady_ns - clock->steady_ns) << 32) / more);
    per_ns = (uint64_t)(((unsigned __int128)more << 32) / (steady_ns - clock->steady_ns));
  }
  *clock = (struct eth_clock){ticks, real_ns, steady_ns, rate, per_ns};
  return true;
}
