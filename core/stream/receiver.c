/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving: completions become views, sequences are accounted, views come back
 * at once or behind a fence.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

/* ---- Arrivals ----------------------------------------------------------------------- */

/* Growing happens a few times in a stream's life: at most all slots can be out. */
int receiver_pend(struct pst_receiver *receiver, const struct pst_completion *completion)
{
  uint32_t capacity = receiver->pending_capacity;
  const struct session_lane *lane = receiver->end.lane;

  /* Nobody takes it any more, and those who share the ring need the slot. */
  if (receiver->end.is_one_sided || receiver->end.state == PST_STATE_FAILED || receiver->complete)
    return lane->ops->release(lane->worker, &completion->u.message.token, 1);
  if (receiver->pending_tail - receiver->pending_head == capacity) {
    struct pst_completion *grown = calloc(2 * (size_t)capacity, sizeof(*grown));
    if (!grown) {
      pst_log(PST_LOG_ERROR, "stream %s: out of memory for arrived messages", receiver->end.name);
      end_gone(&receiver->end, -ENOMEM);
      return -ENOMEM;
    }
    for (uint32_t i = 0; i < capacity; i++)
      grown[i] = receiver->pending[(receiver->pending_head + i) % capacity];
    free(receiver->pending);
    receiver->pending = grown;
    receiver->pending_head = 0;
    receiver->pending_tail = capacity;
    receiver->pending_capacity = 2 * capacity;
  }
  receiver->pending[receiver->pending_tail++ % receiver->pending_capacity] = *completion;
  return 0;
}

_Static_assert(PST_VIEW_META == PST_HAS_META >> 1 && PST_VIEW_TIME == PST_HAS_TIME >> 1 &&
                   PST_VIEW_MARKED == PST_IS_MARKED >> 1 && PST_VIEW_RESTART == PST_IS_RESTART >> 1,
               "taken over by a shift");

#define VIEW_FLAGS_TAKEN                                                                           \
  (PST_VIEW_META | PST_VIEW_TIME | (uint32_t)PST_VIEW_MARKED | (uint32_t)PST_VIEW_RESTART)

static inline void make_view(const struct pst_region *region, const struct pst_completion *message,
                             struct pst_view *view)
{
  uint64_t offset = message->u.message.offset;
  uint32_t flags = message->flags >> 1 & VIEW_FLAGS_TAKEN;

  if (message->status)
    flags |= PST_VIEW_DAMAGED;
  view->address = region->address + offset;
  view->host = region->host ? (char *)region->host + offset : NULL;
  view->length = message->u.message.length;
  view->flags = flags;
  view->sequence = message->u.message.sequence;
  view->meta = message->u.message.meta;
  view->time_ns = message->u.message.time_ns;
  view->token = message->u.message.token;
  view->reserved = 0;
}

static void refuse_buffer(struct pst_receiver *receiver)
{
  pst_log(PST_LOG_ERROR, "stream %s: transport %s delivers from an unknown buffer: a bug of it",
          receiver->end.name, receiver->landing->lane->device->plugin->name);
  end_gone(&receiver->end, -EIO);
}

_Static_assert(offsetof(struct pst_completion, u.message.time_ns) -
                           offsetof(struct pst_completion, u.message.sequence) ==
                       offsetof(struct pst_view, time_ns) - offsetof(struct pst_view, sequence) &&
                   offsetof(struct pst_completion, u.message.meta) -
                           offsetof(struct pst_completion, u.message.sequence) ==
                       offsetof(struct pst_view, meta) - offsetof(struct pst_view, sequence),
               "copied at once");

/* What comes before `endpoint`: kind, code, flags, status. */
static inline uint64_t head_of(const struct pst_completion *message)
{
  uint64_t head;
  memcpy(&head, message, sizeof(head));
  return head;
}

/* The leading messages that are the next of the stream, in order, whole and out of one buffer,
 * as most are: looked at and made views in one go. Returns how many. */
static __attribute__((noinline)) uint32_t accept_row(struct pst_receiver *receiver,
                                                     const struct pst_region *region,
                                                     const struct pst_completion *messages,
                                                     uint32_t n, struct pst_view *view)
{
  struct track *track = &receiver->track;
  const struct pst_completion *message = messages, *const end = messages + n;
  const uint64_t head = head_of(messages), address = region->address;
  const uint64_t buffer = (uint64_t)messages->u.message.buffer << 32;
  const uint64_t flags = messages->flags >> 1 & VIEW_FLAGS_TAKEN;
  /* What the CPU cannot read has no address for it. */
  const uintptr_t host = (uintptr_t)region->host, reads = host ? UINTPTR_MAX : 0;
  uint64_t next = track->next, bytes = 0;

  if (!(messages->flags & PST_HAS_SEQUENCE) || messages->status || track->contiguous != next)
    return 0;
  for (; message < end; message++, view++, next++) {
    const uint64_t offset = message->u.message.offset;
    const uint64_t length =
        message->u.message.length | ((uint64_t)message->u.message.buffer << 32 ^ buffer);
    if (__builtin_expect(
            (head_of(message) ^ head) | length >> 32 | (message->u.message.sequence ^ next), 0))
      break;
    bytes += length;
    view->address = address + offset;
    view->host = (const void *)((host + offset) & reads);
    view->length = (uint32_t)length;
    view->flags = (uint32_t)flags;
    memcpy(&view->sequence, &message->u.message.sequence,
           offsetof(struct pst_view, token) - offsetof(struct pst_view, sequence));
    view->token = message->u.message.token;
    view->reserved = 0;
  }
  track->contiguous = track->next = next;
  receiver->polled.bytes += bytes;
  return (uint32_t)(message - messages);
}

/* Arrived messages become views, after the first `count`, but for duplicates. Returns
 * how many views there are then. */
static uint32_t accept_messages(struct pst_receiver *receiver,
                                const struct pst_completion *messages, uint32_t n,
                                struct pst_view *views, uint32_t count)
{
  const struct landing *landing = receiver->landing;
  const struct pst_region *region = &landing->ring_region;
  uint32_t buffer = 0;

  for (const struct pst_completion *message = messages, *end = messages + n; message < end;
       message++) {
    if (message->u.message.buffer != buffer) { /* mostly all are of one */
      buffer = message->u.message.buffer;
      region = buffer ? landing_lent(landing, buffer) : &landing->ring_region;
    }
    if (!region) {
      refuse_buffer(receiver);
      continue;
    }
    uint32_t row = accept_row(receiver, region, message, (uint32_t)(end - message), &views[count]);
    if (row) {
      count += row;
      message += row - 1;
      continue;
    }
    make_view(region, message, &views[count]);
    if (!(message->flags & PST_HAS_SEQUENCE)) {
      views[count].sequence = receiver->delivered + count;
    } else if (track_see(&receiver->track, message->u.message.sequence) == TRACK_DUPLICATE) {
      landing->lane->ops->release(landing->lane->worker, &message->u.message.token, 1);
      continue;
    }
    receiver->polled.bytes += message->u.message.length;
    receiver->polled.damaged += message->status != 0;
    count++;
  }
  return count;
}

uint32_t receiver_gather(struct pst_receiver *receiver, struct pst_view *views, uint32_t max)
{
  struct session_lane *lane = receiver->end.lane;
  uint32_t count = 0;

  while (count < max && receiver->pending_head != receiver->pending_tail) {
    const struct pst_completion *message =
        &receiver->pending[receiver->pending_head++ % receiver->pending_capacity];
    count = accept_messages(receiver, message, 1, views, count);
  }
  do {
    int n = count < max ? lane_poll(lane, &receiver->end, max - count) : 0;
    count = accept_messages(receiver, lane->messages, (uint32_t)n, views, count);
  } while (count < max && lane->seen);
  return count;
}

/* ---- What applications call --------------------------------------------------------------- */

/* Why nothing was handed over. */
static int idle_stage(const struct pst_receiver *receiver)
{
  const struct landing *landing = receiver->landing;

  if (receiver->held >= landing->slots || receiver->check_waits ||
      (landing->staged && landing->final_head == landing->final_tail))
    return PST_STAGE_SINK;
  if (landing->staged && landing->copy_head != landing->copy_tail)
    return PST_STAGE_STAGING;
  return PST_STAGE_EMPTY;
}

void receiver_arrived(struct pst_receiver *receiver, uint64_t messages)
{
  uint64_t span = receiver->track.next - receiver->track.base;

  if (receiver->end.started_ns == 0)
    stat_set(receiver->end.started_ns, clock_now_ns());
  receiver->quiet_since_ns = 0;
  receiver->was_silent = false;
  stat_set(receiver->span, span);
  stat_set(receiver->unseen, receiver->is_numbered ? span - messages : 0);
}

void receiver_see_times(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    intervals_see(receiver->intervals, views[i].time_ns);
}

static void count_views(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  const struct receiver_tally *polled = &receiver->polled;

  if (receiver->intervals)
    receiver_see_times(receiver, views, n);
  receiver->held += n;
  receiver_arrived(receiver, receiver->delivered + n + receiver_parked(receiver));
  stat_add(receiver->bytes, polled->bytes);
  stat_add(receiver->delivered, n);
  if (polled->damaged)
    stat_add(receiver->damaged, polled->damaged);
  stat_set(receiver->duplicates, receiver->track.duplicates);
  stat_set(receiver->reordered, receiver->track.reordered);
}

int receiver_progress(struct pst_receiver *receiver)
{
  int rc = 0;

  thread_progress(receiver->end.thread);
  if (receiver->tensors)
    rc = tensors_take_back(receiver);
  if (rc == 0 && receiver->after.head != receiver->after.tail)
    rc = receiver_watch_releases(receiver);
  if (rc == 0 && receiver->landing->staged)
    rc = landing_reap(receiver->landing);
  if (rc == 0 && receiver->frames)
    rc = frames_watch(receiver);
  if (receiver_note_memory(receiver, rc) < 0) {
    char text[160];
    snprintf(text, sizeof(text), "stream %s: memory %s has failed: %s", receiver->end.name,
             receiver->landing->memory->plugin->name, strerror(-rc));
    end_fail(&receiver->end, rc, text);
  }
  return rc;
}

static int flush(const struct landing *landing, int n)
{
  const struct session_memory *memory = landing->memory;
  int rc;

  if (!(memory->plugin->memory->capabilities & PST_MEMORY_CAP_FLUSH))
    return n;
  rc = memory->plugin->memory->flush(memory->memory, &landing->ring_region);
  return rc < 0 ? rc : n;
}

static int take(struct pst_receiver *receiver, struct pst_batch *batch)
{
  struct landing *landing = receiver->landing;

  if (landing->staged)
    return receiver_take_staged(receiver, batch->views,
                                batch->capacity < SESSION_DEVICE_BATCH ? batch->capacity
                                                                       : SESSION_DEVICE_BATCH);
  uint32_t n = receiver_gather(receiver, batch->views, batch->capacity);
  return n ? flush(landing, (int)n) : 0;
}

int receiver_begin_poll(struct pst_receiver *receiver)
{
  int rc;

  receiver_drop_fence(receiver, receiver->ready);
  receiver->ready = NULL;
  rc = receiver_progress(receiver);
  if (rc < 0)
    return rc;
  if (receiver->end.state == PST_STATE_FAILED) {
    receiver_give_up_pending(receiver);
    return receiver->end.error;
  }
  if (!receiver->complete)
    return 0;
  rc = end_check(&receiver->end);
  if (receiver->end.control_over == false)
    lane_poll(receiver->end.lane, NULL, SESSION_POLL_BATCH);
  return rc < 0 ? rc : 1;
}

int pst_receiver_poll(struct pst_receiver *receiver, struct pst_batch *batch)
{
  int n;

  if (batch->struct_size < sizeof(*batch) || receiver->frames)
    return -EINVAL;
  batch->count = 0;
  batch->ready = NULL;
  n = receiver_begin_poll(receiver);
  if (n)
    return n < 0 ? n : -ENODATA;
  receiver->polled = (struct receiver_tally){0};
  n = batch->capacity ? take(receiver, batch) : -EAGAIN;
  if (n < 0 && n != -EAGAIN) {
    receiver_note_memory(receiver, n);
    end_fail(&receiver->end, n, "making arrived messages readable in the final memory failed");
    return n;
  }
  if (n <= 0) {
    end_stage(&receiver->end, idle_stage(receiver));
    return n == 0 ? receiver_check_end(receiver) : 0; /* without room, more may have arrived */
  }
  count_views(receiver, batch->views, (uint32_t)n);
  batch->count = (uint32_t)n;
  batch->ready = receiver->ready;
  end_stage(&receiver->end, PST_STAGE_SINK);
  return n;
}

int pst_receiver_fence(struct pst_receiver *receiver, void *native, struct pst_fence **fence)
{
  struct session_memory *memory = receiver->landing->memory;

  *fence = NULL;
  if (!(memory->plugin->memory->capabilities & PST_MEMORY_CAP_FENCE))
    return 0;
  return receiver_note_memory(
      receiver, memory->plugin->memory->fence_record(memory->memory, NULL, native, fence));
}

int pst_receiver_fence_wait(struct pst_receiver *receiver, struct pst_fence *ready, void *native)
{
  struct session_memory *memory = receiver->landing->memory;

  if (!ready)
    return 0;
  return receiver_note_memory(
      receiver, memory->plugin->memory->fence_wait(memory->memory, ready, NULL, native));
}

int pst_receiver_read(struct pst_receiver *receiver, const struct pst_view *view, void *to)
{
  const struct pst_memory_ops *ops = receiver->landing->memory->plugin->memory;
  struct pst_copy piece = {
      .source = view->address, .destination = (uint64_t)(uintptr_t)to, .length = view->length};
  uint64_t ticket, done = 0;
  int rc;

  if (!view->host && !receiver->queue)
    return -EOPNOTSUPP;
  if (receiver->ready) {
    rc = ops->fence_wait(receiver->landing->memory->memory, receiver->ready,
                         view->host ? NULL : receiver->queue, NULL);
    if (rc < 0)
      return receiver_note_memory(receiver, rc);
  }
  if (view->host) {
    memcpy(to, view->host, view->length);
    return 0;
  }
  while ((rc = ops->copy_batch(receiver->queue, &piece, 1, &ticket)) == -EAGAIN)
    ops->queue_poll(receiver->queue, &done);
  while (rc == 0 && done < ticket)
    rc = ops->queue_poll(receiver->queue, &done);
  return receiver_note_memory(receiver, rc);
}

enum pst_state pst_receiver_state(const struct pst_receiver *receiver)
{
  return (enum pst_state)__atomic_load_n(&receiver->end.state, __ATOMIC_ACQUIRE);
}

uint32_t pst_receiver_worker(const struct pst_receiver *receiver)
{
  return receiver->end.thread->index;
}

const char *pst_receiver_param(struct pst_receiver *receiver, const char *key)
{
  for (uint32_t i = 0; i < receiver->param_count; i++)
    if (strcmp(receiver->params[i].key, key) == 0)
      return receiver->params[i].value;
  return NULL;
}
