/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA context of the GPU whose memory UCX copies.
 *
 * A thread that polls has no current context of its own. UCX 1.22 then looks for one in vain, and
 * retains, pushes, pops and releases the primary context, for each message: 1.4 of 8 µs for 1 MiB
 * between two processes on an H200.
 */
#ifndef UCX_CUDA_H
#define UCX_CUDA_H

#include <stdint.h>

#include "device.h"

/* The primary context of the GPU that has this address. NULL: libcuda is not loaded, or does not
 * know the address; UCX does without. */
struct ucx_cuda *ucx_cuda_open(uint64_t address);
/* `cuda` may be NULL. */
void ucx_cuda_close(struct ucx_cuda *cuda);

void ucx_cuda_push(const struct ucx_cuda *cuda);
void ucx_cuda_pop(const struct ucx_cuda *cuda);

/* Around ucp_worker_progress(): the context, if the device has one, is the calling thread's current
 * one until ucx_cuda_leave() of what this returns. */
static inline const struct ucx_cuda *ucx_cuda_enter(const struct pst_device *device)
{
  const struct ucx_cuda *cuda = __atomic_load_n(&device->cuda, __ATOMIC_ACQUIRE);

  if (cuda)
    ucx_cuda_push(cuda);
  return cuda;
}

static inline void ucx_cuda_leave(const struct ucx_cuda *cuda)
{
  if (cuda)
    ucx_cuda_pop(cuda);
}

#endif
