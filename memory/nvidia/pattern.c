/* SPDX-License-Identifier: Apache-2.0 */
/* Fills and verifies the test pattern by kernels. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "context.h"
#include "kernels.h"
#include "ops.h"
#include "queue.h"
#include "va_range.h"

/* From here on a message gets a block rather than a warp. */
#define WIDE_BYTES (UINT64_C(8) << 10)

/* A batch, and what there is to know of it. The kernel is handed its rows; where they are more than
 * it takes, `rows` counts on, and it is handed a list of messages in pinned memory. */
struct work {
  const struct pst_payload_row *given; /* as the caller has them */
  uint32_t given_count;
  uint64_t messages, longest, reserved;
  uint32_t rows;
  struct pst_payload_row row[CUDA_PATTERN_ROWS];
};

static void cuda_pattern_take_row(struct work *work, const struct pst_payload_row *row)
{
  if (work->rows < CUDA_PATTERN_ROWS)
    work->row[work->rows] = *row;
  work->rows++;
  if (row->length > work->longest)
    work->longest = row->length;
}

/* Does a lone message go on with a row, whose second says how far apart all are? */
static bool cuda_pattern_goes_on(struct pst_payload_row *row, const struct pst_payload_row *message)
{
  if (message->count != 1 || message->length != row->length ||
      message->sequence != row->sequence + row->count)
    return false;
  if (row->count == 1)
    row->stride = message->address - row->address;
  return message->address == row->address + row->count * row->stride;
}

static void cuda_pattern_take_rows(struct work *work, const struct pst_payload_row *rows,
                                   uint32_t n)
{
  work->given = rows;
  work->given_count = n;
  for (uint32_t i = 0; i < n; i++) {
    work->messages += rows[i].count;
    work->reserved |= rows[i].reserved | !rows[i].count;
    if (work->rows && work->rows <= CUDA_PATTERN_ROWS &&
        cuda_pattern_goes_on(&work->row[work->rows - 1], &rows[i]))
      work->row[work->rows - 1].count++;
    else
      cuda_pattern_take_row(work, &rows[i]);
  }
}

static int cuda_pattern_refuse(const struct pst_queue *queue, const char *call, uint64_t longest)
{
  if (longest >= CUDA_MISMATCH_LENGTH)
    cuda_error_log(queue->memory,
                   "%s: a message of %" PRIu64 " bytes; patterns are checked below 4 GiB", call,
                   longest);
  else
    cuda_error_log(queue->memory, "%s: a message that lies in no region of this memory", call);
  return -EINVAL;
}

static bool cuda_pattern_lies_here(struct pst_memory *memory, const struct work *work)
{
  if (work->rows <= CUDA_PATTERN_ROWS)
    return cuda_ranges_hold(memory, work->row, work->rows);
  return cuda_ranges_hold(memory, work->given, work->given_count);
}

static void cuda_pattern_list_messages(const struct work *work, struct cuda_message *room)
{
  for (uint32_t k = 0; k < work->given_count; k++)
    for (uint64_t i = 0; i < work->given[k].count; i++)
      *room++ = (struct cuda_message){.address = work->given[k].address + i * work->given[k].stride,
                                      .length = work->given[k].length,
                                      .sequence = work->given[k].sequence + i};
}

static int cuda_pattern_make_args(struct pst_queue *queue, const struct work *work, uint64_t seed,
                                  struct cuda_pattern_args *args)
{
  *args = (struct cuda_pattern_args){.seed = seed, .count = (uint32_t)work->messages};
  if (work->rows <= CUDA_PATTERN_ROWS) {
    args->rows = work->rows;
    memcpy(args->row, work->row, work->rows * sizeof(work->row[0]));
    return 0;
  }
  struct cuda_message *room = cuda_queue_room(queue, args->count);
  if (!room)
    return -EAGAIN;
  cuda_pattern_list_messages(work, room);
  args->payloads = (uintptr_t)room;
  return 0;
}

/* Sets where a verification writes its result, and keeps in the batch what it is judged by. */
static void cuda_pattern_expect(struct pst_queue *queue, uint64_t seed,
                                struct cuda_pattern_args *args)
{
  struct cuda_batch *batch = cuda_queue_next(queue);
  struct cuda_slot *slot = cuda_queue_slot(queue);
  *slot = (struct cuda_slot){.first = UINT64_MAX};
  args->result = (uintptr_t)slot;
  batch->checked = args->count;
  batch->seed = seed;
  batch->payloads = (const struct cuda_message *)(uintptr_t)args->payloads;
  memcpy(batch->row, args->row, args->rows * sizeof(args->row[0]));
}

static int cuda_pattern_submit(struct pst_queue *queue, bool verify, uint64_t seed,
                               const struct work *work, uint64_t *ticket)
{
  struct pst_memory *memory = queue->memory;
  const struct cuda_shared *kernels = memory->shared;
  const char *call = verify ? "verify" : "fill";
  struct cuda_pattern_args args;
  int code = cuda_queue_begin(queue, call, work->messages, work->reserved);
  if (code == 0 && (work->longest >= CUDA_MISMATCH_LENGTH || !cuda_pattern_lies_here(memory, work)))
    code = cuda_pattern_refuse(queue, call, work->longest);
  if (code == 0)
    code = cuda_pattern_make_args(queue, work, seed, &args);
  if (code)
    return code;
  bool wide = work->longest >= WIDE_BYTES;
  if (verify)
    cuda_pattern_expect(queue, seed, &args);
  cuda_function function = verify ? (wide ? kernels->verify_wide : kernels->verify)
                                  : (wide ? kernels->fill_wide : kernels->fill);
  void *params[] = {&args};
  cuda_enter(memory);
  cuda_status status = memory->driver->LaunchKernel(
      function, cuda_grid(memory, args.count, wide), 1, 1,
      wide ? CUDA_KERNEL_WIDE : CUDA_KERNEL_THREADS, 1, 1, 0, queue->stream, params, NULL);
  code = cuda_queue_end(queue, status, verify ? "verify: cuLaunchKernel" : "fill: cuLaunchKernel",
                        ticket);
  cuda_leave(memory);
  return code;
}

int cuda_fill_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                   uint32_t n, uint64_t *ticket)
{
  struct work work = {0};
  cuda_pattern_take_rows(&work, rows, n);
  return cuda_pattern_submit(queue, false, seed, &work, ticket);
}

int cuda_verify_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket)
{
  struct work work = {0};
  cuda_pattern_take_rows(&work, rows, n);
  return cuda_pattern_submit(queue, true, seed, &work, ticket);
}
