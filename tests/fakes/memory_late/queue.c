/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plugin whose work is late: queues. */
#include "late.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NS_PER_S UINT64_C(1000000000)

void late_queue_push(struct pst_queue *queue, struct late_job *job)
{
  job->due_ns = late_now_ns() + queue->memory->delay_ns;
  *queue->last = job;
  queue->last = &job->next;
  pthread_cond_broadcast(&queue->memory->changed);
}

static void sleep_until(uint64_t time_ns)
{
  struct timespec t = {(time_t)(time_ns / NS_PER_S), (long)(time_ns % NS_PER_S)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
    ;
}

static void merge(struct pst_verify_result *into, const struct pst_verify_result *found)
{
  uint64_t checked = into->checked + found->checked;
  uint64_t corrupted = into->corrupted + found->corrupted;
  if (into->corrupted == 0)
    *into = *found;
  into->checked = checked;
  into->corrupted = corrupted;
}

/* A batch, the mutex not held. The queue moves bytes one batch after the other,
 * so the end of the one before may be what this one waits for. */
static void run_batch(struct pst_queue *queue, struct late_job *job, uint64_t *idle_from_ns)
{
  const struct pst_memory *memory = queue->memory;
  struct pst_verify_result found = {0};
  uint64_t start_ns = job->due_ns > *idle_from_ns ? job->due_ns : *idle_from_ns;
  if (memory->rate)
    start_ns += (uint64_t)((double)job->bytes / (double)memory->rate * 1e9);
  sleep_until(start_ns);
  *idle_from_ns = start_ns;
  bool right = late_work(memory, job, &found);
  pthread_mutex_lock(&queue->memory->mutex);
  queue->failed = queue->failed || !right;
  merge(&queue->found, &found);
  pthread_mutex_unlock(&queue->memory->mutex);
}

/* The mutex is held. */
static void finish(struct pst_queue *queue, struct late_job *job)
{
  if (job->work == LATE_MARK) {
    job->fence->passed = true;
    job->fence->failed = queue->failed;
  } else if (job->work != LATE_WAIT && !queue->failed) {
    queue->finished = job->ticket;
  }
  if (job->fence)
    late_fence_drop(job->fence);
  queue->under_way -= job->n;
  for (uint32_t i = 0; i < job->n; i++)
    for (int side = 0; side < 2; side++)
      if (job->pieces[i].regions[side])
        job->pieces[i].regions[side]->under_way--;
  queue->first = job->next;
  if (!queue->first)
    queue->last = &queue->first;
  free(job);
  pthread_cond_broadcast(&queue->memory->changed);
}

static void *run(void *argument)
{
  struct pst_queue *queue = argument;
  struct pst_memory *memory = queue->memory;
  uint64_t idle_from_ns = 0;
  pthread_mutex_lock(&memory->mutex);
  for (;;) {
    struct late_job *job = queue->first;
    if (!job && queue->closing)
      break;
    if (!job) {
      pthread_cond_wait(&memory->changed, &memory->mutex);
      continue;
    }
    if (job->work == LATE_WAIT) {
      while (!job->fence->passed)
        pthread_cond_wait(&memory->changed, &memory->mutex);
      queue->failed = queue->failed || job->fence->failed;
    } else if (job->work != LATE_MARK && !queue->failed) {
      pthread_mutex_unlock(&memory->mutex);
      run_batch(queue, job, &idle_from_ns);
      pthread_mutex_lock(&memory->mutex);
    }
    finish(queue, job);
  }
  pthread_mutex_unlock(&memory->mutex);
  return NULL;
}

int late_queue_open(struct pst_memory *memory, const struct pst_queue_params *caller,
                    struct pst_queue **queue)
{
  struct pst_queue_params params;
  pst_struct_read(&params, sizeof(params), caller);
  if (params.batches == 0 || params.pieces == 0 || params.reserved) {
    late_error(memory, "queue: %" PRIu32 " batches of %" PRIu32 " pieces; both must be 1 or more",
               params.batches, params.pieces);
    return -EINVAL;
  }
  struct pst_queue *made = calloc(1, sizeof(*made));
  if (!made) {
    late_error(memory, "queue: out of memory for its description");
    return -ENOMEM;
  }
  made->memory = memory;
  made->batches = params.batches;
  made->pieces = params.pieces;
  made->last = &made->first;
  int code = pthread_create(&made->thread, NULL, run, made);
  if (code) {
    late_error(memory, "queue: cannot start its thread: %s", strerror(code));
    free(made);
    return -code;
  }
  pthread_mutex_lock(&memory->mutex);
  made->next = memory->queues;
  memory->queues = made;
  pthread_mutex_unlock(&memory->mutex);
  *queue = made;
  return 0;
}

void late_queue_close(struct pst_queue *queue)
{
  if (!queue)
    return;
  struct pst_memory *memory = queue->memory;
  pthread_mutex_lock(&memory->mutex);
  queue->closing = true;
  pthread_cond_broadcast(&memory->changed);
  pthread_mutex_unlock(&memory->mutex);
  pthread_join(queue->thread, NULL);
  pthread_mutex_lock(&memory->mutex);
  struct pst_queue **at = &memory->queues;
  while (*at != queue)
    at = &(*at)->next;
  *at = queue->next;
  pthread_mutex_unlock(&memory->mutex);
  free(queue);
}

int late_queue_poll(struct pst_queue *queue, uint64_t *done)
{
  int code = -EIO;
  pthread_mutex_lock(&queue->memory->mutex);
  if (!queue->failed) {
    queue->reported = queue->found;
    *done = queue->finished;
    code = 0;
  }
  pthread_mutex_unlock(&queue->memory->mutex);
  return code;
}

int late_verify_result(struct pst_queue *queue, struct pst_verify_result *result)
{
  pthread_mutex_lock(&queue->memory->mutex);
  bool fails = late_fails(queue->memory, "verify_result");
  pthread_mutex_unlock(&queue->memory->mutex);
  if (fails)
    return -EIO;
  pst_struct_write(result, &queue->reported, sizeof(queue->reported));
  return 0;
}
