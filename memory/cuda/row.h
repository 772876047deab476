/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of records of four words (struct pst_copy, struct pst_payload) of which each is the
 * one before plus the same step. Most batches are one such run, and finding that out is
 * what each message pays for; so it is done four records at a time, without a branch.
 */
#ifndef CUDA_ROW_H
#define CUDA_ROW_H

#include <stdint.h>
#include <string.h>

#include <penstock/memory.h>

/* Half a record: what any x86-64 and AArch64 has registers for. */
typedef uint64_t cuda_words __attribute__((vector_size(16)));

struct cuda_record {
  cuda_words a, b;
};

_Static_assert(sizeof(struct pst_copy) == sizeof(struct cuda_record) &&
                   sizeof(struct pst_payload) == sizeof(struct cuda_record),
               "four words");

/* Adds to `wrong` what differs between the record and what `next` says, which becomes what
 * the one behind it has to be. */
#define CUDA_ROW_COMPARE(record, next, step, wrong)                                                \
  do {                                                                                             \
    struct cuda_record is_;                                                                        \
    memcpy(&is_, (record), sizeof(is_));                                                           \
    (wrong) |= (is_.a ^ (next).a) | (is_.b ^ (next).b);                                            \
    (next).a += (step).a;                                                                          \
    (next).b += (step).b;                                                                          \
  } while (0)

/* How many of n > 0 records, from the first, each follow the one before by `by`. */
static inline uint32_t cuda_row(const void *records, uint32_t n, const uint64_t by[4])
{
  const struct cuda_record step = {{by[0], by[1]}, {by[2], by[3]}};
  const char *at = records;
  struct cuda_record next;
  uint32_t row = 0;
  memcpy(&next, at, sizeof(next));
  for (; n - row >= 4; row += 4, at += 4 * sizeof(next)) {
    const struct cuda_record from = next;
    cuda_words wrong = {0};
    CUDA_ROW_COMPARE(at, next, step, wrong);
    CUDA_ROW_COMPARE(at + sizeof(next), next, step, wrong);
    CUDA_ROW_COMPARE(at + 2 * sizeof(next), next, step, wrong);
    CUDA_ROW_COMPARE(at + 3 * sizeof(next), next, step, wrong);
    if (wrong[0] | wrong[1]) {
      next = from;
      break;
    }
  }
  for (; row < n; row++, at += sizeof(next)) {
    cuda_words wrong = {0};
    CUDA_ROW_COMPARE(at, next, step, wrong);
    if (wrong[0] | wrong[1])
      break;
  }
  return row;
}

#endif
