/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "inside.h"

/* In one go, but where it crosses the edge of what the driver knows as one. */
static cuda_status copy_piece(struct pst_queue *queue, uint64_t destination, uint64_t source,
                              uint64_t length)
{
  cuda_status status = CUDA_SUCCESS;
  while (length && status == CUDA_SUCCESS) {
    uint64_t part = cuda_ranges_part(queue->memory, destination, source, length);
    status = queue->memory->driver->MemcpyAsync(destination, source, part, queue->stream);
    destination += part;
    source += part;
    length -= part;
  }
  return status;
}

/* Of memory that is pinned, or the device's. Of any other the driver copies no rows. */
static bool copies_rows(struct pst_memory *memory, const struct cuda_run *run)
{
  uint64_t last = run->rows - 1;
  return cuda_ranges_whole(memory, run->source, last * run->source_pitch + run->width) &&
         cuda_ranges_whole(memory, run->destination, last * run->destination_pitch + run->width);
}

static cuda_status copy_run(struct pst_queue *queue, const struct cuda_run *run)
{
  cuda_status status = CUDA_SUCCESS;
  if (run->rows > 1 && copies_rows(queue->memory, run)) {
    const struct cuda_copy_2d copy = {
        .source_type = CUDA_MEMORYTYPE_UNIFIED,
        .source_device = run->source,
        .source_pitch = run->source_pitch,
        .destination_type = CUDA_MEMORYTYPE_UNIFIED,
        .destination_device = run->destination,
        .destination_pitch = run->destination_pitch,
        .width = run->width,
        .height = run->rows,
    };
    return queue->memory->driver->Memcpy2DAsync(&copy, queue->stream);
  }
  for (uint64_t row = 0; row < run->rows && status == CUDA_SUCCESS; row++)
    status = copy_piece(queue, run->destination + row * run->destination_pitch,
                        run->source + row * run->source_pitch, run->width);
  return status;
}

/* A copy of the driver's for each run; `plan` has those of the first pieces. */
static cuda_status copy_runs(struct pst_queue *queue, const struct pst_copy *pieces, uint32_t n,
                             struct cuda_plan *plan)
{
  cuda_status status = CUDA_SUCCESS;
  for (;;) {
    for (uint32_t i = 0; i < plan->runs && status == CUDA_SUCCESS; i++)
      status = copy_run(queue, &plan->run[i]);
    if (plan->pieces == n || status != CUDA_SUCCESS)
      return status;
    pieces += plan->pieces;
    n -= plan->pieces;
    cuda_plan_make(pieces, n, queue->memory->has.max_pitch, plan);
  }
}

static cuda_status copy_each(struct pst_queue *queue, const struct pst_copy *pieces, uint32_t n)
{
  cuda_status status = CUDA_SUCCESS;
  for (uint32_t i = 0; i < n && status == CUDA_SUCCESS; i++)
    status = copy_piece(queue, pieces[i].destination, pieces[i].source, pieces[i].length);
  return status;
}

/* One kernel for the small ones; a warp would be long about a large one. */
static cuda_status gather(struct pst_queue *queue, const struct pst_copy *pieces, uint32_t n,
                          struct pst_copy *room)
{
  const struct cuda_driver *driver = queue->memory->driver;
  cuda_status status = CUDA_SUCCESS;
  uint32_t small = 0;
  for (uint32_t i = 0; i < n && status == CUDA_SUCCESS; i++) {
    if (pieces[i].length >= CUDA_RUN_BYTES)
      status = copy_piece(queue, pieces[i].destination, pieces[i].source, pieces[i].length);
    else
      room[small++] = pieces[i];
  }
  if (status != CUDA_SUCCESS || small == 0)
    return status;
  struct cuda_gather_args args = {.pieces = (uintptr_t)room, .count = small};
  void *params[] = {&args};
  return driver->LaunchKernel(queue->memory->shared->gather, cuda_grid(queue->memory, small, false),
                              1, 1, CUDA_KERNEL_THREADS, 1, 1, 0, queue->stream, params, NULL);
}

static bool should_gather(struct pst_queue *queue, const struct pst_copy *pieces, uint32_t n,
                          const struct cuda_plan *plan)
{
  enum cuda_copies copies = queue->memory->copies;
  bool wanted =
      copies == CUDA_COPIES_GATHER || (copies == CUDA_COPIES_AUTO && cuda_plan_gathers(plan));
  return wanted && cuda_ranges_reach(queue->memory, pieces, n);
}

int cuda_copy_batch(struct pst_queue *queue, const struct pst_copy *pieces, uint32_t n,
                    uint64_t *ticket)
{
  struct pst_memory *memory = queue->memory;
  struct cuda_plan plan;
  struct pst_copy *room = NULL;
  plan.reserved = 0;
  if (n && n <= queue->pieces) {
    cuda_plan_make(pieces, n, memory->has.max_pitch, &plan);
    for (uint32_t i = plan.pieces; i < n; i++)
      plan.reserved |= pieces[i].reserved;
  }
  int code = cuda_queue_begin(queue, "copy", n, plan.reserved);
  if (code)
    return code;
  if (should_gather(queue, pieces, n, &plan)) {
    room = cuda_queue_room(queue, n);
    if (!room)
      return -EAGAIN;
  }
  cuda_queue_next(queue)->checked = 0;
  cuda_queue_next(queue)->sums = NULL;
  cuda_enter(memory);
  cuda_status status = memory->copies == CUDA_COPIES_EACH ? copy_each(queue, pieces, n)
                       : room                             ? gather(queue, pieces, n, room)
                                                          : copy_runs(queue, pieces, n, &plan);
  code =
      cuda_queue_end(queue, status, room ? "copy: cuLaunchKernel" : "copy: cuMemcpyAsync", ticket);
  cuda_leave(memory);
  return code;
}
