/* SPDX-License-Identifier: Apache-2.0 */
/* How fast each way of the pattern is: bench_pattern [MESSAGE_BYTES [SLOTS]]. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "pattern.h"

#define ROUND_NS 300e6

static double now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
  size_t length = argc > 1 ? strtoul(argv[1], NULL, 10) : 1462;
  size_t slots = argc > 2 ? strtoul(argv[2], NULL, 10) : 128;
  size_t stride = (length + 63) / 64 * 64;
  uint8_t *ring = aligned_alloc(64, slots * stride);
  if (!ring || length == 0 || slots == 0)
    return 1;
  memset(ring, 0, slots * stride);
  for (const struct pattern_variant *v = pattern_variants; v->name; v++) {
    if (!v->usable())
      continue;
    double gbytes[2];
    for (int verify = 0; verify < 2; verify++) {
      size_t messages = 0, wrong = 0;
      double start = now_ns(), spent;
      do {
        for (size_t i = 0; i < slots; i++) {
          uint64_t first = pst_pattern_first(1, i);
          if (verify)
            wrong += pattern_check(v, ring + i * stride, length, first) != length;
          else
            v->fill(ring + i * stride, length, first);
        }
        messages += slots;
        spent = now_ns() - start;
      } while (spent < ROUND_NS);
      if (wrong)
        return 1;
      gbytes[verify] = (double)(messages * length) / spent;
    }
    printf("%-7s %zu B x %zu: fill %.1f GB/s, verify %.1f GB/s\n", v->name, length, slots,
           gbytes[0], gbytes[1]);
  }
  free(ring);
  return 0;
}
