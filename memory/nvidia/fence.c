/* SPDX-License-Identifier: Apache-2.0 */
/* Fences are CUDA events. One is recorded behind each batch anyway, and a fence behind
 * nothing more than that batch is the same event, referred to once more. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "context.h"
#include "failure.h"
#include "ops.h"
#include "queue.h"

/* Recorded and not released: so many that only a leak has them. A receiver holds a thousand, and
 * many share a memory. */
#define CUDA_FENCES_MAX (1u << 20)

struct pst_fence *cuda_fence_take(struct pst_memory *memory)
{
  pthread_mutex_lock(&memory->lock);
  struct pst_fence *fence = memory->free_fences;
  if (fence)
    memory->free_fences = fence->next;
  pthread_mutex_unlock(&memory->lock);
  if (!fence) {
    fence = calloc(1, sizeof(*fence));
    if (!fence) {
      cuda_error_log(memory, "fence: out of memory for its description");
      return NULL;
    }
    cuda_status status = memory->driver->EventCreate(&fence->event, CUDA_EVENT_DISABLE_TIMING |
                                                                        CUDA_EVENT_BLOCKING_SYNC);
    if (status != CUDA_SUCCESS) {
      cuda_refuse_device(memory, CUDA_ASKED("fence", 0), "cuEventCreate", status);
      free(fence);
      return NULL;
    }
  }
  fence->references = 1;
  return fence;
}

void cuda_fence_drop(struct pst_memory *memory, struct pst_fence *fence)
{
  pthread_mutex_lock(&memory->lock);
  assert(fence->references > 0);
  if (--fence->references == 0) {
    fence->next = memory->free_fences;
    memory->free_fences = fence;
  }
  pthread_mutex_unlock(&memory->lock);
}

void cuda_fences_close(struct pst_memory *memory)
{
  while (memory->free_fences) {
    struct pst_fence *fence = memory->free_fences;
    memory->free_fences = fence->next;
    memory->driver->EventDestroy(fence->event);
    free(fence);
  }
}

/* Counts another fence that the caller has to release; false: too many. */
static bool cuda_fence_count_out(struct pst_memory *memory, struct pst_fence *shared)
{
  pthread_mutex_lock(&memory->lock);
  bool room = memory->fences < CUDA_FENCES_MAX;
  memory->fences += room;
  if (room && shared)
    shared->references++;
  pthread_mutex_unlock(&memory->lock);
  if (!room)
    cuda_error_log(memory, "fence: %u are recorded and not released; release them",
                   CUDA_FENCES_MAX);
  return room;
}

static void cuda_fence_count_in(struct pst_memory *memory)
{
  pthread_mutex_lock(&memory->lock);
  assert(memory->fences > 0);
  memory->fences--;
  pthread_mutex_unlock(&memory->lock);
}

static int cuda_fence_record_new(struct pst_memory *memory, cuda_stream stream,
                                 struct pst_fence **fence)
{
  int code = -ENOMEM;
  cuda_enter(memory);
  struct pst_fence *made = cuda_fence_take(memory);
  if (made) {
    cuda_status status = memory->driver->EventRecord(made->event, stream);
    code = status == CUDA_SUCCESS ? 0 : cuda_failed(memory, "cuEventRecord", status);
  }
  cuda_leave(memory);
  if (code == 0)
    *fence = made;
  else if (made)
    cuda_fence_drop(memory, made);
  return code;
}

int cuda_fence_record(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence)
{
  struct pst_fence *last = NULL;
  if (!queue && !native) {
    *fence = NULL;
    return 0;
  }
  if (queue && !queue->waits) {
    if (queue->finished == queue->submitted) {
      *fence = NULL;
      return queue->failed ? -EIO : 0;
    }
    last = queue->batch[queue->submitted % queue->batches].end;
  }
  if (!cuda_fence_count_out(memory, last))
    return -ENOMEM;
  if (last) {
    *fence = last;
    return 0;
  }
  int code = cuda_fence_record_new(memory, queue ? queue->stream : (cuda_stream)native, fence);
  if (code)
    cuda_fence_count_in(memory);
  return code;
}

int cuda_fence_wait(struct pst_memory *memory, struct pst_fence *fence, struct pst_queue *queue,
                    void *native)
{
  cuda_status status;
  if (!fence)
    return 0;
  cuda_enter(memory);
  if (queue || native)
    status = memory->driver->StreamWaitEvent(queue ? queue->stream : (cuda_stream)native,
                                             fence->event, 0);
  else
    status = memory->driver->EventSynchronize(fence->event);
  cuda_leave(memory);
  if (status != CUDA_SUCCESS)
    return cuda_failed(memory, queue || native ? "cuStreamWaitEvent" : "cuEventSynchronize",
                       status);
  if (queue)
    queue->waits = true;
  return 0;
}

int cuda_fence_query(struct pst_memory *memory, struct pst_fence *fence)
{
  if (!fence)
    return 0;
  cuda_status status = memory->driver->EventQuery(fence->event);
  if (status == CUDA_SUCCESS)
    return 0;
  return status == CUDA_NOT_READY ? -EAGAIN : cuda_failed(memory, "cuEventQuery", status);
}

void cuda_fence_release(struct pst_memory *memory, struct pst_fence *fence)
{
  if (!fence)
    return;
  cuda_fence_count_in(memory);
  cuda_fence_drop(memory, fence);
}
