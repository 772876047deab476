/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin cuda opened on its first device, for each test anew: memory, a queue, a region on
 * either side. On the fake driver, or on the real one. */
#ifndef TEST_CUDA_FIXTURE_H
#define TEST_CUDA_FIXTURE_H

#include "fixture.h"

#include <context.h>
#include <queue.h>
#include <va_range.h>

#define LENGTH (UINT64_C(1) << 20)

extern struct pst_memory *memory;
extern struct pst_queue *queue;
extern struct pst_region near, far; /* staging memory; the device's */

int setup(void **state);
int teardown(void **state);
struct pst_memory *open_cuda(const struct fake_option *options);
struct pst_region take(uint32_t purpose, uint64_t length);
struct pst_queue *queue_new(void);
/* Wait for a batch. */
void finish(struct pst_queue *on, uint64_t ticket);
uint64_t copy(struct pst_queue *on, const struct pst_copy_row *pieces, uint32_t n);
const struct pst_host *cuda_host(void);
/* 0; or with which status to exit where there is no driver: 77, or 1 where one is required. */
int cuda_absent(void);

#endif
