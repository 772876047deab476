/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C of a range, by a kernel. */
#include <errno.h>
#include <inttypes.h>

#include "context.h"
#include "kernels.h"
#include "ops.h"
#include "queue.h"
#include "va_range.h"

#define BLOCKS_MAX 64u                 /* that share a range */
#define LENGTH_MAX (UINT64_C(1) << 48) /* the kernel's tiles have numbers of 32 bits */

int cuda_sum_range(struct pst_queue *queue, uint64_t address, uint64_t length, uint32_t *crc32c,
                   uint64_t *ticket)
{
  struct pst_memory *memory = queue->memory;
  const struct pst_payload_row range = {.address = address, .length = length, .count = 1};
  int code = cuda_queue_begin(queue, "sum", 1, 0);
  if (code)
    return code;
  if (length >= LENGTH_MAX || !cuda_ranges_hold(memory, &range, 1)) {
    cuda_error_log(memory,
                   "sum: %" PRIu64 " bytes at 0x%" PRIx64 ", which lie in no region of this memory",
                   length, address);
    return -EINVAL;
  }
  struct cuda_slot *slot = cuda_queue_slot(queue);
  slot->crc32c = UINT32_MAX;
  cuda_queue_next(queue)->crc32c = crc32c;
  struct cuda_sum_args args = {
      .address = address, .length = length, .crc32c = (uintptr_t)&slot->crc32c};
  void *params[] = {&args};
  const uint64_t tiles = length / CUDA_SUM_TILE + 1;
  cuda_enter(memory);
  cuda_status status = memory->driver->LaunchKernel(
      memory->shared->sum, tiles < BLOCKS_MAX ? (unsigned int)tiles : BLOCKS_MAX, 1, 1,
      CUDA_KERNEL_THREADS, 1, 1, 0, queue->stream, params, NULL);
  code = cuda_queue_end(queue, status, "sum: cuLaunchKernel", ticket);
  cuda_leave(memory);
  return code;
}
