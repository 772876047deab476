/* SPDX-License-Identifier: Apache-2.0 */
/* Four records at a time, without a branch; a record is one vector where the function is
 * compiled for those, else a few. */
#include "row.h"

#include <string.h>

typedef uint64_t record __attribute__((vector_size(32)));

_Static_assert(sizeof(struct pst_copy) == sizeof(record) &&
                   sizeof(struct pst_payload) == sizeof(record),
               "four words");

/* Adds to `wrong` what differs between record `i` at `at` and what it has to be. */
#define COMPARE(at, i, expected, wrong)                                                            \
  do {                                                                                             \
    record is_;                                                                                    \
    memcpy(&is_, (at) + (i) * sizeof(is_), sizeof(is_));                                           \
    (wrong) |= is_ ^ (expected);                                                                   \
  } while (0)

static inline __attribute__((always_inline)) uint32_t row_of(const void *records, uint32_t n,
                                                             const uint64_t by[4])
{
  const record step = {by[0], by[1], by[2], by[3]}, steps = 4 * step;
  const char *at = records;
  record next, second, third, fourth;
  uint32_t row = 0;
  memcpy(&next, at, sizeof(next));
  second = next + step;
  third = second + step;
  fourth = third + step;
  for (; n - row >= 4; row += 4, at += 4 * sizeof(next)) {
    record wrong = {0};
    COMPARE(at, 0, next, wrong);
    COMPARE(at, 1, second, wrong);
    COMPARE(at, 2, third, wrong);
    COMPARE(at, 3, fourth, wrong);
    if (wrong[0] | wrong[1] | wrong[2] | wrong[3])
      break;
    next += steps;
    second += steps;
    third += steps;
    fourth += steps;
  }
  for (; row < n; row++, at += sizeof(next), next += step) {
    record wrong = {0};
    COMPARE(at, 0, next, wrong);
    if (wrong[0] | wrong[1] | wrong[2] | wrong[3])
      break;
  }
  return row;
}

uint32_t cuda_row_portable(const void *records, uint32_t n, const uint64_t by[4])
{
  return row_of(records, n, by);
}

#if defined(__x86_64__)
/* No target_clones: its resolver runs before TSan is up. */
__attribute__((target("avx2"))) static uint32_t row_avx2(const void *records, uint32_t n,
                                                         const uint64_t by[4])
{
  return row_of(records, n, by);
}
#endif

uint32_t cuda_row(const void *records, uint32_t n, const uint64_t by[4])
{
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2"))
    return row_avx2(records, n, by);
#endif
  return cuda_row_portable(records, n, by);
}
