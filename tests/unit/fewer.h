/* SPDX-License-Identifier: Apache-2.0 */
/* How often a test repeats itself on a machine that is emulated. */
#ifndef FEWER_H
#define FEWER_H

#include <stdint.h>
#include <stdlib.h>

/* The count, divided by PENSTOCK_FEWER where that is set; at least 1. */
static inline uint64_t fewer(uint64_t count)
{
  const char *text = getenv("PENSTOCK_FEWER");
  uint64_t divisor = text ? strtoull(text, NULL, 10) : 1;

  return divisor > 1 ? count / divisor + 1 : count;
}

#endif
