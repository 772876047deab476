/* SPDX-License-Identifier: Apache-2.0 */
/* The device's primary context, and the kernels in it. */
#ifndef CUDA_CONTEXT_H
#define CUDA_CONTEXT_H

#include "device_option.h"
#include "state.h"

/* Makes the primary context current for the calling thread. */
void cuda_enter(const struct pst_memory *memory);
/* Restores what was current before cuda_enter(). */
void cuda_leave(const struct pst_memory *memory);
int cuda_context_open(struct pst_memory *memory);
void cuda_context_close(struct pst_memory *memory);
/* Why the kernels that were built cannot run with this driver; false: they can. */
bool cuda_kernels_refused(const struct cuda_driver *driver, struct cuda_refusal *refusal);

#endif
