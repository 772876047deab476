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
static bool copies_rows(struct pst_memory *memory, const struct pst_copy_row *row)
{
  uint64_t last = row->count - 1;
  return cuda_row_is_strided(row, memory->has.max_pitch) &&
         cuda_ranges_whole(memory, row->source, last * row->source_stride + row->length) &&
         cuda_ranges_whole(memory, row->destination, last * row->destination_stride + row->length);
}

static cuda_status copy_pieces(struct pst_queue *queue, const struct pst_copy_row *row)
{
  cuda_status status = CUDA_SUCCESS;
  for (uint64_t i = 0; i < row->count && status == CUDA_SUCCESS; i++)
    status = copy_piece(queue, row->destination + i * row->destination_stride,
                        row->source + i * row->source_stride, row->length);
  return status;
}

static cuda_status copy_row(struct pst_queue *queue, const struct pst_copy_row *row)
{
  if (row->count == 1 || row->length == 0)
    return copy_pieces(queue, row);
  if (row->source_stride == row->length && row->destination_stride == row->length)
    return copy_piece(queue, row->destination, row->source, row->count * row->length);
  if (!copies_rows(queue->memory, row))
    return copy_pieces(queue, row);
  const struct cuda_copy_2d copy = {
      .source_type = CUDA_MEMORYTYPE_UNIFIED,
      .source_device = row->source,
      .source_pitch = row->source_stride,
      .destination_type = CUDA_MEMORYTYPE_UNIFIED,
      .destination_device = row->destination,
      .destination_pitch = row->destination_stride,
      .width = row->length,
      .height = row->count,
  };
  return queue->memory->driver->Memcpy2DAsync(&copy, queue->stream);
}

/* A copy of the driver's for each row, or for each piece. */
static cuda_status copy_all(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n)
{
  bool each = queue->memory->copies == CUDA_COPIES_EACH;
  cuda_status status = CUDA_SUCCESS;
  for (uint32_t i = 0; i < n && status == CUDA_SUCCESS; i++)
    status = each ? copy_pieces(queue, &rows[i]) : copy_row(queue, &rows[i]);
  return status;
}

/* One kernel for the small ones; a warp would be long about a large one. */
static cuda_status gather(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                          struct pst_copy *room)
{
  const struct cuda_driver *driver = queue->memory->driver;
  cuda_status status = CUDA_SUCCESS;
  uint32_t small = 0;
  for (const struct pst_copy_row *row = rows; row < rows + n && status == CUDA_SUCCESS; row++) {
    if (row->length >= CUDA_RUN_BYTES)
      status = copy_row(queue, row);
    else
      for (uint64_t i = 0; i < row->count; i++)
        room[small++] =
            (struct pst_copy){.source = row->source + i * row->source_stride,
                              .destination = row->destination + i * row->destination_stride,
                              .length = row->length};
  }
  if (status != CUDA_SUCCESS || small == 0)
    return status;
  struct cuda_gather_args args = {.pieces = (uintptr_t)room, .count = small};
  void *params[] = {&args};
  return driver->LaunchKernel(queue->memory->shared->gather, cuda_grid(queue->memory, small, false),
                              1, 1, CUDA_KERNEL_THREADS, 1, 1, 0, queue->stream, params, NULL);
}

static bool should_gather(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n)
{
  struct pst_memory *memory = queue->memory;
  bool wanted =
      memory->copies == CUDA_COPIES_GATHER ||
      (memory->copies == CUDA_COPIES_AUTO && cuda_rows_gather(rows, n, memory->has.max_pitch));
  return wanted && cuda_ranges_reach(memory, rows, n);
}

/* Of so many pieces, for which there is room in the queue. */
static int submit(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                  uint32_t pieces, uint64_t *ticket)
{
  struct pst_copy *room = NULL;
  if (should_gather(queue, rows, n)) {
    room = cuda_queue_room(queue, pieces);
    if (!room)
      return -EAGAIN;
  }
  cuda_queue_next(queue)->checked = 0;
  cuda_queue_next(queue)->sums = NULL;
  cuda_enter(queue->memory);
  cuda_status status = room ? gather(queue, rows, n, room) : copy_all(queue, rows, n);
  int code =
      cuda_queue_end(queue, status, room ? "copy: cuLaunchKernel" : "copy: cuMemcpyAsync", ticket);
  cuda_leave(queue->memory);
  return code;
}

int cuda_copy_batch(struct pst_queue *queue, const struct pst_copy *pieces, uint32_t n,
                    uint64_t *ticket)
{
  const struct pst_memory *memory = queue->memory;
  uint64_t reserved = 0;
  for (uint32_t i = 0; n <= queue->pieces && i < n; i++)
    reserved |= pieces[i].reserved;
  int code = cuda_queue_begin(queue, "copy", n, reserved);
  if (code)
    return code;
  uint32_t rows = cuda_plan_make(pieces, n, memory->has.max_pitch,
                                 memory->copies != CUDA_COPIES_EACH, queue->rows);
  return submit(queue, queue->rows, rows, n, ticket);
}

int cuda_copy_rows(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                   uint64_t *ticket)
{
  uint64_t pieces = 0, wrong = 0;
  for (uint32_t i = 0; i < n; i++) {
    pieces += rows[i].count;
    wrong |= rows[i].reserved | !rows[i].count;
  }
  int code = cuda_queue_begin(queue, "copy", pieces, wrong);
  return code ? code : submit(queue, rows, n, (uint32_t)pieces, ticket);
}
