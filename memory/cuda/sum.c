/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "inside.h"

#define BLOCKS_MAX 64u                 /* that share a range */
#define ROWS_MAX 65535u                /* gridDim.y */
#define LENGTH_MAX (UINT64_C(1) << 48) /* the kernel's tiles have numbers of 32 bits */

static unsigned int least(uint64_t value, unsigned int most)
{
  return value < most ? (unsigned int)value : most;
}

static int refuse(const struct pst_queue *queue, const struct pst_sum *sum)
{
  cuda_error_log(queue->memory,
                 "sum: %" PRIu64 " bytes at 0x%" PRIx64 ", which lie in no region of this memory",
                 sum->length, sum->address);
  return -EINVAL;
}

static int check(struct pst_queue *queue, const struct pst_sum *sums, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    const struct pst_payload_row range = {
        .address = sums[i].address, .length = sums[i].length, .count = 1};
    if (sums[i].length >= LENGTH_MAX || !cuda_ranges_hold(queue->memory, &range, 1))
      return refuse(queue, &sums[i]);
  }
  return 0;
}

int cuda_sum_batch(struct pst_queue *queue, struct pst_sum *sums, uint32_t n, uint64_t *ticket)
{
  struct pst_memory *memory = queue->memory;
  uint64_t reserved = 0, longest = 0;
  for (uint32_t i = 0; n <= queue->pieces && i < n; i++) {
    reserved |= sums[i].reserved | sums[i].reserved2;
    longest = sums[i].length > longest ? sums[i].length : longest;
  }
  int code = cuda_queue_begin(queue, "sum", n, reserved);
  if (code == 0)
    code = check(queue, sums, n);
  if (code)
    return code;
  struct pst_sum *room = cuda_queue_room(queue, n);
  if (!room)
    return -EAGAIN;
  memcpy(room, sums, n * sizeof(*room));
  for (uint32_t i = 0; i < n; i++)
    room[i].crc32c = UINT32_MAX;
  struct cuda_batch *batch = cuda_queue_next(queue);
  batch->checked = 0;
  batch->sums = sums;
  batch->summed = room;
  batch->sum_count = n;
  struct cuda_sum_args args = {.sums = (uintptr_t)room, .count = n};
  void *params[] = {&args};
  cuda_enter(memory);
  cuda_status status = memory->driver->LaunchKernel(
      memory->shared->sum, least(longest / CUDA_SUM_TILE + 1, BLOCKS_MAX), least(n, ROWS_MAX), 1,
      CUDA_KERNEL_THREADS, 1, 1, 0, queue->stream, params, NULL);
  code = cuda_queue_end(queue, status, "sum: cuLaunchKernel", ticket);
  cuda_leave(memory);
  return code;
}

void cuda_sum_take(const struct cuda_batch *batch)
{
  for (uint32_t i = 0; i < batch->sum_count; i++)
    batch->sums[i].crc32c = batch->summed[i].crc32c;
}
