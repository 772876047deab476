/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out where a target says so. */
#ifndef FUZZ_ALLOCATION_H
#define FUZZ_ALLOCATION_H

#include <stddef.h>
#include <stdint.h>

/* From now on allocations of the tested code count, and the n-th fails, once; 0:
 * none. */
void allocation_begin(unsigned n);
/* Back to ordinary; returns how many there were. */
unsigned allocation_end(void);

/* A number that depends on all of the input, for choices that belong to it. */
uint32_t input_number(const uint8_t *data, size_t size);

#endif
