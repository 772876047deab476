/* SPDX-License-Identifier: Apache-2.0 */
/* A queue is a stream. Each batch ends with an event; queue_poll() asks for the oldest,
 * and nothing waits. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "failure.h"
#include "kernels.h"
#include "ops.h"
#include "queue.h"

#define DESCRIPTORS_MAX (UINT64_C(512) << 10) /* 16 MiB of pinned memory */

static uint64_t cuda_queue_descriptors_for(const struct pst_queue_params *params)
{
  uint64_t all = (uint64_t)params->batches * params->pieces;
  uint64_t least = 2 * (uint64_t)params->pieces; /* any batch fits in one go */
  if (all > DESCRIPTORS_MAX)
    all = DESCRIPTORS_MAX;
  /* One batch more than may be under way, since the ring's end may cut one off. */
  all += params->pieces;
  return all > least ? all : least;
}

static int cuda_queue_open_stream(struct pst_queue *made)
{
  const struct cuda_driver *driver = made->memory->driver;
  char label[96];
  uint64_t slots_bytes = made->batches * sizeof(*made->slots);
  slots_bytes = cuda_round_up(slots_bytes, 64);
  uint64_t length = slots_bytes + made->descriptors_size * sizeof(struct cuda_piece);
  snprintf(label, sizeof(label), "queue of %" PRIu32 " batches of %" PRIu32 " pieces",
           made->batches, made->pieces);
  cuda_status status = driver->MemHostAlloc(&made->pinned, length,
                                            CUDA_HOSTALLOC_PORTABLE | CUDA_HOSTALLOC_DEVICEMAP);
  if (status != CUDA_SUCCESS)
    return cuda_refuse_pinned(made->memory, CUDA_ASKED(label, length), "cuMemHostAlloc", status);
  made->slots = made->pinned;
  made->descriptors = (char *)made->pinned + slots_bytes;
  status = driver->StreamCreate(&made->stream, CUDA_STREAM_NON_BLOCKING);
  if (status == CUDA_SUCCESS)
    return 0;
  driver->MemFreeHost(made->pinned);
  return cuda_refuse_device(made->memory, CUDA_ASKED(label, 0), "cuStreamCreate", status);
}

static int cuda_queue_check_params(const struct pst_memory *memory,
                                   const struct pst_queue_params *params)
{
  if (params->batches && params->pieces && !params->reserved &&
      params->pieces < CUDA_MISMATCH_MESSAGES && params->batches < CUDA_MISMATCH_MESSAGES)
    return 0;
  cuda_error_log(memory,
                 "queue: %" PRIu32 " batches of %" PRIu32 " pieces; both must be from 1 to %u",
                 params->batches, params->pieces, (unsigned int)CUDA_MISMATCH_MESSAGES - 1);
  return -EINVAL;
}

static void cuda_queue_free(struct pst_queue *queue)
{
  if (!queue)
    return;
  free(queue->batch);
  free(queue->rows);
  free(queue);
}

int cuda_queue_open(struct pst_memory *memory, const struct pst_queue_params *caller,
                    struct pst_queue **queue)
{
  struct pst_queue_params params;
  pst_struct_read(&params, sizeof(params), caller);
  int code = cuda_queue_check_params(memory, &params);
  if (code)
    return code;
  struct pst_queue *made = calloc(1, sizeof(*made));
  if (made) {
    made->batch = calloc(params.batches, sizeof(*made->batch));
    made->rows = calloc(params.pieces, sizeof(*made->rows));
  }
  if (!made || !made->batch || !made->rows) {
    cuda_error_log(memory, "queue: out of memory for its description");
    cuda_queue_free(made);
    return -ENOMEM;
  }
  made->memory = memory;
  made->batches = params.batches;
  made->pieces = params.pieces;
  made->descriptors_size = cuda_queue_descriptors_for(&params);
  cuda_enter(memory);
  code = cuda_queue_open_stream(made);
  cuda_leave(memory);
  if (code) {
    cuda_queue_free(made);
    return code;
  }
  *queue = made;
  return 0;
}

void cuda_queue_close(struct pst_queue *queue)
{
  if (!queue)
    return;
  const struct cuda_driver *driver = queue->memory->driver;
  cuda_enter(queue->memory);
  driver->StreamSynchronize(queue->stream);
  for (; queue->finished < queue->submitted; queue->finished++)
    cuda_fence_drop(queue->memory, queue->batch[(queue->finished + 1) % queue->batches].end);
  driver->StreamDestroy(queue->stream);
  driver->MemFreeHost(queue->pinned);
  cuda_leave(queue->memory);
  cuda_queue_free(queue);
}

int cuda_queue_begin(struct pst_queue *queue, const char *call, uint64_t n, uint64_t reserved)
{
  if (n == 0 || n > queue->pieces || reserved) {
    cuda_error_log(queue->memory,
                   "%s: a batch of %" PRIu64 " pieces, of at most %" PRIu32
                   ", or with a row of none, or with a reserved field that is not 0",
                   call, n, queue->pieces);
    return -EINVAL;
  }
  if (queue->failed)
    return -EIO;
  if (queue->submitted - queue->finished == queue->batches)
    return -EAGAIN;
  cuda_queue_next(queue)->checked = 0;
  cuda_queue_next(queue)->crc32c = NULL;
  return 0;
}

/* Positions count on for ever; a batch that would be cut off at the ring's end begins at
 * its start. */
void *cuda_queue_room(struct pst_queue *queue, uint32_t n)
{
  assert(queue->descriptors_tail - queue->descriptors_head <= queue->descriptors_size);
  uint64_t at = queue->descriptors_tail % queue->descriptors_size;
  uint64_t begin = queue->descriptors_tail;
  if (at + n > queue->descriptors_size)
    begin += queue->descriptors_size - at;
  if (begin + n - queue->descriptors_head > queue->descriptors_size)
    return NULL;
  queue->descriptors_tail = begin + n;
  return (struct cuda_piece *)queue->descriptors + begin % queue->descriptors_size;
}

unsigned int cuda_grid(const struct pst_memory *memory, uint32_t n, bool wide)
{
  uint32_t each = wide ? 1 : CUDA_KERNEL_THREADS / 32;
  uint32_t most = (uint32_t)memory->has.multiprocessors * (wide ? 2 : 8);
  uint32_t blocks = (n - 1) / each + 1;
  return blocks < most || most == 0 ? blocks : most;
}

struct cuda_batch *cuda_queue_next(struct pst_queue *queue)
{
  assert(queue->submitted - queue->finished < queue->batches); /* cuda_queue_begin() has looked */
  return &queue->batch[(queue->submitted + 1) % queue->batches];
}

struct cuda_slot *cuda_queue_slot(struct pst_queue *queue)
{
  return &queue->slots[(queue->submitted + 1) % queue->batches];
}

int cuda_queue_end(struct pst_queue *queue, cuda_status status, const char *call, uint64_t *ticket)
{
  struct pst_memory *memory = queue->memory;
  struct cuda_batch *batch = cuda_queue_next(queue);
  batch->end = NULL;
  if (status == CUDA_SUCCESS) {
    batch->end = cuda_fence_take(memory);
    if (!batch->end)
      return -ENOMEM;
    call = "cuEventRecord";
    status = memory->driver->EventRecord(batch->end->event, queue->stream);
  }
  if (status != CUDA_SUCCESS) {
    if (batch->end)
      cuda_fence_drop(memory, batch->end);
    queue->failed = queue->failed || cuda_is_lost(status);
    return cuda_failed(memory, call, status);
  }
  batch->descriptors = queue->descriptors_tail;
  queue->waits = false;
  *ticket = ++queue->submitted;
  return 0;
}

static uint64_t cuda_queue_sequence_of(const struct cuda_batch *batch, uint32_t message)
{
  const struct pst_payload_row *row = batch->row;
  if (batch->payloads)
    return batch->payloads[message].sequence;
  while (message >= row->count)
    message -= row++->count;
  return row->sequence + message;
}

/* A finished verify's slot into the queue's result. */
static void cuda_queue_take_found(struct pst_queue *queue, const struct cuda_batch *batch,
                                  const struct cuda_slot *slot)
{
  struct pst_verify_result *found = &queue->found;
  found->checked += batch->checked;
  if (slot->corrupted == 0)
    return;
  if (found->corrupted == 0) {
    found->sequence = cuda_queue_sequence_of(batch, CUDA_MISMATCH_MESSAGE(slot->first));
    found->offset = CUDA_MISMATCH_OFFSET(slot->first);
    found->expected =
        pst_pattern_byte(pst_pattern_first(batch->seed, found->sequence), found->offset);
    found->found = CUDA_MISMATCH_FOUND(slot->first);
  }
  found->corrupted += slot->corrupted;
}

/* Counts the batches whose events have completed into *done, in the order of submission. */
int cuda_queue_poll(struct pst_queue *queue, uint64_t *done)
{
  struct pst_memory *memory = queue->memory;
  if (queue->failed)
    return -EIO;
  while (queue->finished < queue->submitted) {
    uint64_t at = (queue->finished + 1) % queue->batches;
    struct cuda_batch *batch = &queue->batch[at];
    cuda_status status = memory->driver->EventQuery(batch->end->event);
    if (status == CUDA_NOT_READY)
      break;
    if (status != CUDA_SUCCESS) {
      queue->failed = true;
      cuda_failed(memory, "cuEventQuery", status);
      return -EIO;
    }
    cuda_fence_drop(memory, batch->end);
    if (batch->checked)
      cuda_queue_take_found(queue, batch, &queue->slots[at]);
    if (batch->crc32c)
      *batch->crc32c = queue->slots[at].crc32c;
    assert(batch->descriptors - queue->descriptors_head <=
           queue->descriptors_tail - queue->descriptors_head);
    queue->descriptors_head = batch->descriptors;
    queue->finished++;
  }
  queue->reported = queue->found;
  *done = queue->finished;
  return 0;
}

int cuda_verify_result(struct pst_queue *queue, struct pst_verify_result *result)
{
  pst_struct_write(result, &queue->reported, sizeof(queue->reported));
  return 0;
}
