/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock. */
#ifndef PST_UTIL_CLOCK_H
#define PST_UTIL_CLOCK_H

#include <stdint.h>
#include <time.h>

#define PST_NS_PER_S UINT64_C(1000000000)
#define PST_NS_PER_MS UINT64_C(1000000)
#define PST_NS_PER_US UINT64_C(1000)

static inline uint64_t clock_now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * PST_NS_PER_S + (uint64_t)t.tv_nsec;
}

#endif
