/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of copies, as the driver takes them. */
#ifndef CUDA_PLAN_H
#define CUDA_PLAN_H

#include <stdbool.h>

#include <penstock/memory.h>

/* Rows as at most as many, in which lone pieces that are contiguous are one piece, and
 * others of one length at equal strides one row. Returns how many rows. */
uint32_t cuda_plan_make(const struct pst_copy_row *given, uint32_t n, uint64_t max_pitch,
                        struct pst_copy_row *rows);
/* From this many bytes on a piece gets a copy of the driver's own. */
#define CUDA_RUN_BYTES (UINT64_C(128) << 10)
/* One kernel, rather than a copy for each row, or for each piece of those that are not strided? */
bool cuda_rows_gather(const struct pst_copy_row *rows, uint32_t n, uint64_t max_pitch);

#endif
