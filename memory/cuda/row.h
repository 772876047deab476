/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of records of four words (struct pst_copy, struct pst_payload) of which each is the
 * one before plus the same step. Most batches are one such run, and finding that out is
 * what each message pays for.
 */
#ifndef CUDA_ROW_H
#define CUDA_ROW_H

#include <stdint.h>

#include <penstock/memory.h>

/* How many of n > 0 records, from the first, each follow the one before by `by`. */
uint32_t cuda_row(const void *records, uint32_t n, const uint64_t by[4]);

/* The same in what any CPU of its kind has, for tests. */
uint32_t cuda_row_portable(const void *records, uint32_t n, const uint64_t by[4]);

#endif
