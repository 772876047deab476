/* SPDX-License-Identifier: Apache-2.0 */
/* Which memory the driver knows. */
#ifndef CUDA_RANGES_H
#define CUDA_RANGES_H

#include "state.h"

int cuda_range_add(struct pst_memory *memory, uint64_t begin, uint64_t length, bool registered,
                   bool reachable);
void cuda_range_remove(struct pst_memory *memory, uint64_t begin, uint64_t length);
/* Whether a kernel may read and write all rows of a copy. */
bool cuda_ranges_reach(struct pst_memory *memory, const struct pst_copy_row *rows, uint32_t n);
/* Whether a kernel may read and write all payload rows. */
bool cuda_ranges_hold(struct pst_memory *memory, const struct pst_payload_row *rows, uint32_t n);
/* Is it all in one range? */
bool cuda_ranges_whole(struct pst_memory *memory, uint64_t begin, uint64_t length);
/* How many of these bytes a copy of the driver's may take at once: it takes memory that is of
 * one range, or of none, on either side. */
uint64_t cuda_ranges_part(struct pst_memory *memory, uint64_t destination, uint64_t source,
                          uint64_t length);
bool cuda_range_is_registered(struct pst_memory *memory, uint64_t begin, uint64_t length);

#endif
