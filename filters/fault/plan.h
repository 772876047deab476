/* SPDX-License-Identifier: Apache-2.0 */
/* The options, once read, and what they make of a message's number. */
#ifndef FAULT_PLAN_H
#define FAULT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define FAULT_MILLION 1000000u
#define FAULT_NEVER UINT64_MAX

enum fault_kind {
  FAULT_NONE = 0,
  FAULT_DROP,
  FAULT_DUPLICATE,
  FAULT_REORDER,
  FAULT_CORRUPT,
  FAULT_DELAY,
  FAULT_STALL,
  FAULT_KILL,
  FAULT_KINDS,
};

struct fault_plan {
  uint64_t seed;
  uint32_t below[FAULT_STALL]; /* a draw of a million below this is this kind or one before */
  uint32_t rates;              /* of all kinds together, per million */
  uint32_t corrupt;
  uint64_t distance;
  uint64_t reorder_ns;
  uint64_t delay_ns;
  uint64_t stall_at;
  uint64_t stall_ns;
  uint64_t kill_at;
  uint32_t ledger;
  bool active;
};

/* The finaliser of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom
 * number generators, OOPSLA 2014). */
static inline uint64_t fault_mix(uint64_t x)
{
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static inline uint64_t fault_draw(const struct fault_plan *plan, uint64_t sequence)
{
  return fault_mix(plan->seed + (sequence + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

#endif
