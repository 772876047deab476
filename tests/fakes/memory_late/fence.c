/* SPDX-License-Identifier: Apache-2.0 */
#include "late.h"

#include <errno.h>
#include <stdlib.h>

void late_fence_drop(struct pst_fence *fence)
{
  if (--fence->references == 0)
    free(fence);
}

/* A fence's place in a queue: `work` MARK or WAIT. The mutex is held. */
static bool push(struct pst_queue *queue, struct pst_fence *fence, enum late_work work)
{
  struct late_job *job = calloc(1, sizeof(*job));
  if (!job)
    return false;
  job->work = work;
  job->fence = fence;
  fence->references++;
  late_queue_push(queue, job);
  return true;
}

static int refuse_native(const struct pst_memory *memory)
{
  late_error(memory, "fence: late memory knows no foreign order of work; native must be NULL");
  return -EINVAL;
}

int late_fence_record(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence)
{
  if (!queue && native)
    return refuse_native(memory);
  if (!queue) {
    *fence = NULL;
    return 0;
  }
  struct pst_fence *made = calloc(1, sizeof(*made));
  int code = -ENOMEM;
  pthread_mutex_lock(&memory->mutex);
  if (made && memory->fences < LATE_FENCES_MAX) {
    made->references = 1;
    if (!queue->first) {
      made->passed = true;
      made->failed = queue->failed;
      code = 0;
    } else if (push(queue, made, LATE_MARK)) {
      code = 0;
    }
  }
  if (code == 0)
    memory->fences++;
  pthread_mutex_unlock(&memory->mutex);
  if (code) {
    late_error(memory, "fence: %u are recorded and not released; release them", LATE_FENCES_MAX);
    free(made);
    return code;
  }
  *fence = made;
  return 0;
}

int late_fence_wait(struct pst_memory *memory, struct pst_fence *fence, struct pst_queue *queue,
                    void *native)
{
  int code = 0;
  if (native)
    return refuse_native(memory);
  if (!fence)
    return 0;
  pthread_mutex_lock(&memory->mutex);
  if (queue) {
    if (!push(queue, fence, LATE_WAIT))
      code = -ENOMEM;
  } else {
    while (!fence->passed)
      pthread_cond_wait(&memory->changed, &memory->mutex);
    code = fence->failed ? -EIO : 0;
  }
  pthread_mutex_unlock(&memory->mutex);
  return code;
}

int late_fence_query(struct pst_memory *memory, struct pst_fence *fence)
{
  if (!fence)
    return 0;
  pthread_mutex_lock(&memory->mutex);
  int code = !fence->passed ? -EAGAIN : fence->failed ? -EIO : 0;
  pthread_mutex_unlock(&memory->mutex);
  return code;
}

void late_fence_release(struct pst_memory *memory, struct pst_fence *fence)
{
  if (!fence)
    return;
  pthread_mutex_lock(&memory->mutex);
  memory->fences--;
  late_fence_drop(fence);
  pthread_mutex_unlock(&memory->mutex);
}
