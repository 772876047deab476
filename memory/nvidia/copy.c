/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of copies: 2D copies, plain ones, or a kernel that gathers. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "context.h"
#include "copy_plan.h"
#include "kernels.h"
#include "ops.h"
#include "queue.h"
#include "va_range.h"

/* Contiguous on both sides? */
static bool cuda_copy_append(struct pst_copy_row *row, const struct pst_copy_row *piece)
{
  if (row->count != 1 || piece->source != row->source + row->length ||
      piece->destination != row->destination + row->length)
    return false;
  row->length += piece->length;
  return true;
}

static bool cuda_copy_is_apart(uint64_t stride, uint64_t length, uint64_t max_pitch)
{
  return stride >= length && stride <= max_pitch; /* backward is a huge number here */
}

static bool cuda_row_is_strided(const struct pst_copy_row *row, uint64_t max_pitch)
{
  return cuda_copy_is_apart(row->source_stride, row->length, max_pitch) &&
         cuda_copy_is_apart(row->destination_stride, row->length, max_pitch);
}

/* How many lone pieces from the first on are one row, which has that one already. */
static uint32_t cuda_copy_add_strided(struct pst_copy_row *row, const struct pst_copy_row *pieces,
                                      uint32_t n, uint64_t max_pitch)
{
  struct pst_copy_row grown = *row;
  if (n < 2 || pieces[1].count != 1)
    return 1;
  grown.source_stride = pieces[1].source - row->source;
  grown.destination_stride = pieces[1].destination - row->destination;
  if (!cuda_row_is_strided(&grown, max_pitch) ||
      (grown.source_stride == row->length && grown.destination_stride == row->length))
    return 1;
  while (grown.count < n && pieces[grown.count].count == 1 &&
         pieces[grown.count].length == row->length &&
         pieces[grown.count].source == row->source + grown.count * grown.source_stride &&
         pieces[grown.count].destination ==
             row->destination + grown.count * grown.destination_stride)
    grown.count++;
  if (grown.count > 1)
    *row = grown;
  return grown.count;
}

uint32_t cuda_plan_make(const struct pst_copy_row *given, uint32_t n, uint64_t max_pitch,
                        struct pst_copy_row *rows)
{
  struct pst_copy_row *row = rows; /* the next */
  uint32_t taken;
  for (uint32_t i = 0; i < n; i += taken) {
    const struct pst_copy_row *one = &given[i];
    const bool is_lone = one->count == 1;
    taken = 1;
    if (one->length == 0 || (is_lone && row > rows && cuda_copy_append(row - 1, one)))
      continue;
    *row = *one;
    if (is_lone)
      taken = cuda_copy_add_strided(row, one, n - i, max_pitch);
    row++;
  }
  assert(row <= rows + n); /* at most as many */
  return (uint32_t)(row - rows);
}

/* A copy of the driver's costs the CPU as much as a kernel's launch, and reaches the whole rate of
 * the bus; a kernel takes any pieces, at a little less: README.md says how to measure it. */
bool cuda_rows_gather(const struct pst_copy_row *rows, uint32_t n, uint64_t max_pitch)
{
  uint64_t copies = 0, bytes = 0;
  for (const struct pst_copy_row *row = rows; row < rows + n; row++) {
    if (row->length == 0)
      continue;
    copies += row->count == 1 || cuda_row_is_strided(row, max_pitch) ? 1 : row->count;
    bytes += row->count * row->length;
  }
  return copies > 1 && bytes / copies < CUDA_RUN_BYTES;
}

/* In one go, but where it crosses the edge of what the driver knows as one. */
static cuda_status cuda_copy_piece(struct pst_queue *queue, uint64_t destination, uint64_t source,
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

/* True for memory that is pinned or the device's. From other memory the driver copies no rows. */
static bool cuda_copy_copies_rows(struct pst_memory *memory, const struct pst_copy_row *row)
{
  uint64_t last = row->count - 1;
  return cuda_row_is_strided(row, memory->has.max_pitch) &&
         cuda_ranges_whole(memory, row->source, last * row->source_stride + row->length) &&
         cuda_ranges_whole(memory, row->destination, last * row->destination_stride + row->length);
}

static cuda_status cuda_copy_pieces(struct pst_queue *queue, const struct pst_copy_row *row)
{
  cuda_status status = CUDA_SUCCESS;
  for (uint64_t i = 0; i < row->count && status == CUDA_SUCCESS; i++)
    status = cuda_copy_piece(queue, row->destination + i * row->destination_stride,
                             row->source + i * row->source_stride, row->length);
  return status;
}

static cuda_status cuda_copy_row(struct pst_queue *queue, const struct pst_copy_row *row)
{
  if (row->count == 1 || row->length == 0)
    return cuda_copy_pieces(queue, row);
  if (row->source_stride == row->length && row->destination_stride == row->length)
    return cuda_copy_piece(queue, row->destination, row->source, row->count * row->length);
  if (!cuda_copy_copies_rows(queue->memory, row))
    return cuda_copy_pieces(queue, row);
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
static cuda_status cuda_copy_all(struct pst_queue *queue, const struct pst_copy_row *rows,
                                 uint32_t n)
{
  bool each = queue->memory->copies == CUDA_COPIES_EACH;
  cuda_status status = CUDA_SUCCESS;
  for (uint32_t i = 0; i < n && status == CUDA_SUCCESS; i++)
    status = each ? cuda_copy_pieces(queue, &rows[i]) : cuda_copy_row(queue, &rows[i]);
  return status;
}

/* One kernel for the small ones; a warp would be long about a large one. */
static cuda_status cuda_copy_gather(struct pst_queue *queue, const struct pst_copy_row *rows,
                                    uint32_t n, struct cuda_piece *room)
{
  const struct cuda_driver *driver = queue->memory->driver;
  cuda_status status = CUDA_SUCCESS;
  uint32_t small = 0;
  for (const struct pst_copy_row *row = rows; row < rows + n && status == CUDA_SUCCESS; row++) {
    if (row->length >= CUDA_RUN_BYTES)
      status = cuda_copy_row(queue, row);
    else
      for (uint64_t i = 0; i < row->count; i++)
        room[small++] =
            (struct cuda_piece){.source = row->source + i * row->source_stride,
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

static bool cuda_copy_should_gather(struct pst_queue *queue, const struct pst_copy_row *rows,
                                    uint32_t n)
{
  struct pst_memory *memory = queue->memory;
  bool wanted =
      memory->copies == CUDA_COPIES_GATHER ||
      (memory->copies == CUDA_COPIES_AUTO && cuda_rows_gather(rows, n, memory->has.max_pitch));
  return wanted && cuda_ranges_reach(memory, rows, n);
}

/* Submits `count` pieces, for which the queue has room. */
static int cuda_copy_submit(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                            uint32_t pieces, uint64_t *ticket)
{
  struct cuda_piece *room = NULL;
  if (cuda_copy_should_gather(queue, rows, n)) {
    room = cuda_queue_room(queue, pieces);
    if (!room)
      return -EAGAIN;
  }
  cuda_enter(queue->memory);
  cuda_status status =
      room ? cuda_copy_gather(queue, rows, n, room) : cuda_copy_all(queue, rows, n);
  int code =
      cuda_queue_end(queue, status, room ? "copy: cuLaunchKernel" : "copy: cuMemcpyAsync", ticket);
  cuda_leave(queue->memory);
  return code;
}

int cuda_copy_rows(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                   uint64_t *ticket)
{
  const struct pst_memory *memory = queue->memory;
  uint64_t pieces = 0, wrong = 0;
  for (uint32_t i = 0; i < n; i++) {
    pieces += rows[i].count;
    wrong |= rows[i].reserved | !rows[i].count;
  }
  int code = cuda_queue_begin(queue, "copy", pieces, wrong);
  if (code)
    return code;
  if (n > 1 && memory->copies != CUDA_COPIES_EACH) {
    n = cuda_plan_make(rows, n, memory->has.max_pitch, queue->rows);
    rows = queue->rows;
  }
  return cuda_copy_submit(queue, rows, n, (uint32_t)pieces, ticket);
}
