/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plugin whose work is late: fences. */
#include "late.h"

#include <errno.h>
#include <sched.h>
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

/* Is its work done? The mutex is held. */
static bool has_passed(const struct pst_fence *fence)
{
  return fence->native ? atomic_load(fence->native) != 0 : fence->passed;
}

int late_fence_record(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence)
{
  if (!queue && !native) {
    *fence = NULL;
    return 0;
  }
  struct pst_fence *made = calloc(1, sizeof(*made));
  int code = -ENOMEM;
  pthread_mutex_lock(&memory->mutex);
  if (made && memory->fences < LATE_FENCES_MAX && !late_fails(memory, "fence_record")) {
    made->references = 1;
    if (!queue) {
      made->native = native;
      code = 0;
    } else if (!queue->first) {
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
  /* The application's own work is nothing that late memory would start. */
  if (!fence || native)
    return 0;
  pthread_mutex_lock(&memory->mutex);
  if (queue && fence->native) {
    late_error(memory, "fence: a queue of late memory waits for its own fences alone");
    code = -EINVAL;
  } else if (queue) {
    if (!push(queue, fence, LATE_WAIT))
      code = -ENOMEM;
  } else {
    while (!has_passed(fence)) {
      if (!fence->native) {
        pthread_cond_wait(&memory->changed, &memory->mutex);
        continue;
      }
      pthread_mutex_unlock(&memory->mutex);
      sched_yield();
      pthread_mutex_lock(&memory->mutex);
    }
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
  int code = !has_passed(fence) ? -EAGAIN : fence->failed ? -EIO : 0;
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
