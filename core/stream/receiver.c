/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving, as applications call it: views are handed over, read, checked and waited for. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "receiver.h"

/* Why nothing was handed over. */
static int receiver_idle_stage(const struct pst_receiver *receiver)
{
  const struct receive_ring *ring = receiver->ring;

  if (receiver->held >= ring->slots || receiver->check_waits)
    return PST_STAGE_SINK;
  return ring->ops->idle_stage ? ring->ops->idle_stage(ring) : PST_STAGE_EMPTY;
}

static void receiver_count_views(struct pst_receiver *receiver, const struct pst_view *views,
                                 uint32_t n)
{
  if (receiver->intervals)
    receiver_see_times(receiver, views, n);
  receiver->held += n;
  receiver_note_arrived(receiver, receiver->delivered + n + receiver->parked_count);
  stat_add(receiver->bytes, receiver->polled_bytes);
  stat_add(receiver->delivered, n);
  receiver->arrived += n;
}

static int receiver_progress(struct pst_receiver *receiver)
{
  int rc = 0;

  thread_progress(receiver->end.thread);
  if (receiver->client && receiver->client->progress)
    rc = receiver->client->progress(receiver);
  if (rc == 0 && fifo_count(&receiver->releases))
    rc = receiver_watch_releases(receiver);
  if (rc == 0 && receiver->ring->ops->progress)
    rc = receiver->ring->ops->progress(receiver->ring);
  if (receiver_note_memory(receiver, rc) < 0) {
    char text[160];
    snprintf(text, sizeof(text), "stream %s: memory %s has failed: %s", receiver->end.name,
             receiver->ring->memory->plugin->name, strerror(-rc));
    end_fail(&receiver->end, rc, text);
  }
  return rc;
}

int receiver_begin_poll(struct pst_receiver *receiver)
{
  int rc;

  receiver_drop_fence(receiver, receiver->ready);
  receiver->ready = NULL;
  rc = receiver_progress(receiver);
  if (rc < 0)
    return rc;
  if (receiver->end.trouble.kind == END_PATH_REFUSED) /* though more may arrive */
    end_check(&receiver->end);
  if (receiver->end.state == PST_STATE_FAILED) {
    receiver_give_up_pending(receiver);
    return receiver->end.error;
  }
  if (receiver->phase == RECEIVER_TAKING)
    return 0;
  rc = end_check(&receiver->end);
  if (receiver->end.control == END_CONTROL_LIVE)
    lane_progress(receiver->end.lane);
  return rc < 0 ? rc : 1;
}

int pst_receiver_poll(struct pst_receiver *receiver, struct pst_batch *batch)
{
  int n;

  if (batch->struct_size < sizeof(*batch) || receiver_is_taken(receiver))
    return -EINVAL;
  batch->count = 0;
  batch->ready = NULL;
  n = receiver_begin_poll(receiver);
  if (n)
    return n < 0 ? n : -ENODATA;
  receiver->polled_bytes = 0;
  n = batch->capacity ? receiver->ring->ops->take(receiver, batch->views, batch->capacity)
                      : -EAGAIN;
  if (n < 0 && n != -EAGAIN) {
    receiver_note_memory(receiver, n);
    end_fail(&receiver->end, n, "making arrived messages readable in the final memory failed");
    return n;
  }
  if (n <= 0) {
    end_stage(&receiver->end, receiver_idle_stage(receiver));
    return n == 0 ? receiver_check_end(receiver) : 0; /* without room, more may have arrived */
  }
  receiver_count_views(receiver, batch->views, (uint32_t)n);
  batch->count = (uint32_t)n;
  batch->ready = receiver->ready;
  end_stage(&receiver->end, PST_STAGE_SINK);
  return n;
}

int pst_receiver_fence(struct pst_receiver *receiver, void *native, struct pst_fence **fence)
{
  struct engine_memory *memory = receiver->ring->memory;

  *fence = NULL;
  if (!(memory->ops->capabilities & PST_MEMORY_CAP_FENCE))
    return 0;
  return receiver_note_memory(receiver,
                              memory->ops->fence_record(memory->memory, NULL, native, fence));
}

int pst_receiver_fence_wait(struct pst_receiver *receiver, struct pst_fence *ready, void *native)
{
  struct engine_memory *memory = receiver->ring->memory;

  if (!ready)
    return 0;
  return receiver_note_memory(receiver,
                              memory->ops->fence_wait(memory->memory, ready, NULL, native));
}

int pst_receiver_read(struct pst_receiver *receiver, const struct pst_view *view, void *to)
{
  const struct engine_memory *memory = receiver->ring->memory;
  struct pst_copy_row piece = {.source = view->address,
                               .destination = (uint64_t)(uintptr_t)to,
                               .length = view->length,
                               .count = 1};
  int rc = 0;

  if (!view->host && !receiver->queue)
    return -EOPNOTSUPP;
  if (receiver->ready)
    rc = memory->ops->fence_wait(memory->memory, receiver->ready,
                                 view->host ? NULL : receiver->queue, NULL);
  if (rc < 0)
    return receiver_note_memory(receiver, rc);
  if (view->host) {
    memcpy(to, view->host, view->length);
    return 0;
  }
  return receiver_note_memory(receiver, engine_memory_copy(memory, receiver->queue, &piece));
}

int pst_receiver_verified(struct pst_receiver *receiver, struct pst_verify_result *result)
{
  const struct pst_memory_ops *ops = receiver->ring->memory->ops;
  uint64_t done;
  int rc;

  if (!receiver->queue)
    return -EOPNOTSUPP;
  rc = ops->queue_poll(receiver->queue, &done);
  if (rc == 0)
    rc = ops->verify_result(receiver->queue, result);
  if (rc == 0) {
    stat_set(receiver->verified, result->checked);
    stat_set(receiver->corrupted, result->corrupted);
  }
  return receiver_note_memory(receiver, rc);
}

/* Begins to verify a batch. If the queue is full, polls it once and tries again. */
static int receiver_verify_some(struct pst_receiver *receiver, const struct pst_view *views,
                                uint32_t n)
{
  const struct pst_memory_ops *ops = receiver->ring->memory->ops;
  const uint32_t count = payload_rows_of(receiver->checks, views, n);
  uint64_t ticket, done;
  int rc = ops->verify_rows(receiver->queue, receiver->seed, receiver->checks, count, &ticket);

  if (rc != -EAGAIN)
    return rc;
  rc = ops->queue_poll(receiver->queue, &done);
  return rc < 0
             ? rc
             : ops->verify_rows(receiver->queue, receiver->seed, receiver->checks, count, &ticket);
}

/* All of it has been submitted, or what there is of a check that has failed. */
static int receiver_fence_check(struct pst_receiver *receiver, struct pst_fence **fence)
{
  struct engine_memory *memory = receiver->ring->memory;
  const struct pst_memory_ops *ops = memory->ops;
  int rc = 0;

  if (ops->capabilities & PST_MEMORY_CAP_FENCE)
    rc = ops->fence_record(memory->memory, receiver->queue, NULL, fence);
  /* The device may be reading, and nothing will tell until when. */
  if (rc < 0)
    receiver->unfenced = true;
  return receiver_note_memory(receiver, rc);
}

int pst_receiver_verify(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
                        struct pst_fence **fence)
{
  struct engine_memory *memory = receiver->ring->memory;
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  uint32_t at = receiver->check_at;
  int rc = 0, fenced;

  *fence = NULL;
  if (!receiver->queue)
    return -EOPNOTSUPP;
  if (at > n)
    return -EINVAL;
  if (receiver->ready)
    rc = memory->ops->fence_wait(memory->memory, receiver->ready, receiver->queue, NULL);
  while (at < n && rc == 0) {
    uint32_t run = n - at < SESSION_DEVICE_BATCH ? n - at : SESSION_DEVICE_BATCH;
    rc = receiver_verify_some(receiver, views + at, run);
    if (rc == 0)
      at += run;
  }
  receiver_note_memory(receiver, rc);
  receiver->check_waits = rc == -EAGAIN;
  receiver->check_at = rc == -EAGAIN ? at : 0;
  if (rc == -EAGAIN || (rc < 0 && at == 0))
    return rc;
  fenced = receiver_fence_check(receiver, fence);
  if (rc < 0 || fenced < 0)
    return rc < 0 ? rc : fenced;
  /* For the statistics, should the stream end before its time. */
  return pst_receiver_verified(receiver, &result);
}

enum pst_state pst_receiver_state(const struct pst_receiver *receiver)
{
  return (enum pst_state)__atomic_load_n(&receiver->end.state, __ATOMIC_ACQUIRE);
}

uint32_t pst_receiver_thread(const struct pst_receiver *receiver)
{
  return receiver->end.thread->index;
}

/* Polls on without messages for the application, once all have been handed over. */
static int receiver_poll_on(struct pst_receiver *receiver)
{
  struct pst_batch batch = {.struct_size = sizeof(batch)};
  const struct receiver_client_ops *client = receiver->client;
  int rc =
      client && client->poll_on ? client->poll_on(receiver) : pst_receiver_poll(receiver, &batch);
  return rc == -ENODATA ? 0 : rc;
}

int pst_receiver_finish_wait(struct pst_receiver *receiver, uint64_t timeout_ns)
{
  const struct session_end *end = &receiver->end;
  const uint64_t now = clock_now_ns();
  const uint64_t until = timeout_ns < UINT64_MAX - now ? now + timeout_ns : UINT64_MAX;
  int rc = 0;

  if (receiver->phase == RECEIVER_TAKING && end->state != PST_STATE_FAILED)
    return -EBUSY;
  while (rc == 0 && end->state < PST_STATE_ENDED) {
    int finished = pst_receiver_finish(receiver);
    if (finished < 0 && finished != -EBUSY)
      return finished;
    rc = receiver_poll_on(receiver);
    if (rc == 0 && end->state < PST_STATE_ENDED && clock_now_ns() >= until)
      return finished < 0 ? finished : -ETIMEDOUT;
    if (rc == 0 && !pst_session_wait(end->session, pst_receiver_thread(receiver), &until))
      sched_yield();
  }
  return end->state == PST_STATE_FAILED ? end->error : rc;
}
