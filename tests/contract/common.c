/* SPDX-License-Identifier: Apache-2.0 */
/* What the suites of transports and of memories share. */
#include <stdint.h>
#include <time.h>

#include "common.h"

uint64_t contract_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

uint64_t contract_random(void)
{
  static _Thread_local uint64_t state = 88172645463325252u;
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}
