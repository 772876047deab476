/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving: completions become views, sequences are accounted, views come back
 * at once or behind a fence, and the end of the stream is agreed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

#define RECEIVER_AFTER 1024 /* releases that wait for their fences */
/* A datagram stream whose sender has finished is over when nothing more has come
 * for so long. */
#define RECEIVER_QUIET_NS (200 * PST_NS_PER_MS)

/* ---- Opening --------------------------------------------------------------------- */

static int join_landing(struct pst_session *session, struct pst_receiver *receiver,
                        struct pst_error *error)
{
  const char *share = receiver->end.config->receiver.share;
  struct pst_receiver *owner = pst_session_receiver(session, share);

  if (!owner || !owner->landing)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "stream %s: receiver.share: stream %s is not among the streams of this run",
                    receiver->end.name, share);
  if (!(owner->end.lane->device->limits.capabilities & PST_CAP_SHARED_RING) ||
      owner->end.lane != receiver->end.lane)
    return pst_fail(
        error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
        "stream %s: receiver.share: transport %s cannot share a ring among these streams; "
        "give the stream a ring of its own",
        receiver->end.name, receiver->end.lane->device->plugin->name);
  receiver->landing = owner->landing;
  receiver->landing->users++;
  return 0;
}

static int open_fifos(struct pst_receiver *receiver, struct pst_error *error)
{
  uint64_t tokens = 1;

  while (tokens < (uint64_t)receiver->landing->slots * 2)
    tokens <<= 1;
  receiver->pending_capacity = 256;
  receiver->pending = calloc(receiver->pending_capacity, sizeof(*receiver->pending));
  receiver->after.capacity = RECEIVER_AFTER;
  receiver->after.batches = calloc(RECEIVER_AFTER, sizeof(*receiver->after.batches));
  receiver->after.token_mask = tokens - 1;
  receiver->after.tokens = calloc(tokens, sizeof(uint64_t));
  if (!receiver->pending || !receiver->after.batches || !receiver->after.tokens)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory",
                    receiver->end.name);
  return 0;
}

static int open_queue(struct pst_receiver *receiver, struct pst_error *error)
{
  struct session_memory *memory = receiver->landing->memory;
  struct pst_queue_params params = {
      .struct_size = sizeof(params), .batches = 32, .pieces = SESSION_DEVICE_BATCH};
  int rc;

  if (!(memory->plugin->memory->capabilities & PST_MEMORY_CAP_PATTERN))
    return 0;
  receiver->payloads = calloc(SESSION_DEVICE_BATCH, sizeof(*receiver->payloads));
  if (!receiver->payloads)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory",
                    receiver->end.name);
  rc = memory->plugin->memory->queue_open(memory->memory, &params, &receiver->queue);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "stream %s: memory %s opens no queue: %s",
                    receiver->end.name, memory->plugin->name, strerror(-rc));
  return 0;
}

static int open_intervals(struct pst_receiver *receiver, struct pst_error *error)
{
  const struct session_device *device = receiver->end.lane->device;

  if (!(device->limits.capabilities & PST_CAP_TIME))
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                    "stream %s: intervals need messages with times, and transport %s stamps none "
                    "as it is set up; remove \"intervals\"",
                    receiver->end.name, device->plugin->name);
  receiver->intervals = calloc(1, sizeof(*receiver->intervals));
  if (!receiver->intervals)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory",
                    receiver->end.name);
  return 0;
}

int receiver_open(struct pst_session *session, struct pst_receiver *receiver,
                  struct pst_error *error)
{
  const struct config_stream *config = receiver->end.config;
  struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                       .roles = PST_ROLE_RECEIVER,
                                       .cookie = (uint64_t)(uintptr_t)&receiver->end,
                                       .options = config->receiver.transport.plugin.options,
                                       .label = config->name,
                                       .message_max = config->message,
                                       .timeout_ns = config->timeout_ns};
  int rc = config->receiver.share ? join_landing(session, receiver, error)
                                  : landing_open(session, receiver, error);

  if (rc == 0)
    rc = open_fifos(receiver, error);
  if (rc == 0)
    rc = open_queue(receiver, error);
  if (rc < 0)
    return rc;
  if (config->receiver.assemble.packets)
    rc = frames_open(receiver, error);
  if (rc < 0)
    return rc;
  if (config->receiver.intervals)
    rc = open_intervals(receiver, error);
  if (rc < 0)
    return rc;
  receiver->is_numbered = receiver->end.lane->device->limits.capabilities & PST_CAP_SEQUENCE;
  receiver->track.floats = receiver->end.is_foreign;
  receiver->end.path = receiver->landing->path;
  const struct pst_region *final = receiver->landing->staged ? &receiver->landing->final_region
                                                             : &receiver->landing->ring_region;
  memcpy(receiver->end.memory_backing, final->backing, sizeof(receiver->end.memory_backing));
  receiver->end.memory_kind = final->kind;
  params.ring = receiver->landing->ring;
  rc = receiver->end.lane->ops->endpoint_open(receiver->end.lane->worker, &params,
                                              &receiver->end.endpoint);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                    "stream %s: transport %s opens no endpoint: %s", config->name,
                    receiver->end.lane->device->plugin->name, strerror(-rc));
  return 0;
}

void receiver_drop_fence(const struct pst_receiver *receiver, struct pst_fence *fence)
{
  struct session_memory *memory = receiver->landing->memory;

  if (fence)
    memory->plugin->memory->fence_release(memory->memory, fence);
}

void receiver_close(struct pst_receiver *receiver)
{
  if (!receiver)
    return;
  if (receiver->landing) {
    frames_close(receiver);
    receiver_drop_fence(receiver, receiver->ready);
    while (receiver->after.batches && receiver->after.head != receiver->after.tail)
      receiver_drop_fence(receiver,
                          receiver->after.batches[receiver->after.head++ % RECEIVER_AFTER].fence);
    if (receiver->queue)
      receiver->landing->memory->plugin->memory->queue_close(receiver->queue);
    landing_close(receiver->landing);
  }
  free(receiver->payloads);
  free(receiver->intervals);
  free(receiver->pending);
  free(receiver->after.batches);
  free(receiver->after.tokens);
  pthread_mutex_destroy(&receiver->end.text_lock);
  free(receiver);
}

/* ---- Arrivals ----------------------------------------------------------------------- */

static void give_up_pending(struct pst_receiver *receiver)
{
  const struct session_lane *lane = receiver->end.lane;

  while (receiver->pending_head != receiver->pending_tail) {
    uint32_t at = receiver->pending_head++ % receiver->pending_capacity;
    lane->ops->release(lane->worker, &receiver->pending[at].u.message.token, 1);
  }
}

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
                   PST_VIEW_MARKED == PST_IS_MARKED >> 1,
               "taken over by a shift");

static inline void make_view(const struct pst_region *region, const struct pst_completion *message,
                             struct pst_view *view)
{
  uint64_t offset = message->u.message.offset;
  uint32_t flags =
      message->flags >> 1 & (PST_VIEW_META | PST_VIEW_TIME | (uint32_t)PST_VIEW_MARKED);

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

/* Arrived messages become views, after the first `count`, but for duplicates. Returns
 * how many views there are then. */
static uint32_t accept_messages(struct pst_receiver *receiver,
                                const struct pst_completion *messages, uint32_t n,
                                struct pst_view *views, uint32_t count)
{
  const struct landing *landing = receiver->landing;

  for (const struct pst_completion *message = messages; message < messages + n; message++) {
    const struct pst_region *region = &landing->ring_region;
    if (message->u.message.buffer) {
      region = landing_lent(landing, message->u.message.buffer);
      if (!region) {
        refuse_buffer(receiver);
        continue;
      }
    }
    make_view(region, message, &views[count]);
    if (!(message->flags & PST_HAS_SEQUENCE)) {
      views[count].sequence = receiver->delivered + count;
    } else if (track_see(&receiver->track, message->u.message.sequence) == TRACK_DUPLICATE) {
      landing->lane->ops->release(landing->lane->worker, &message->u.message.token, 1);
      continue;
    }
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
    count = accept_messages(receiver, lane->completions, (uint32_t)n, views, count);
  } while (count < max && lane->seen);
  return count;
}

/* ---- Releases that wait ---------------------------------------------------------------- */

static void give_fifo(struct pst_receiver *receiver, uint32_t count)
{
  struct release_fifo *after = &receiver->after;

  receiver->held -= count;
  while (count) {
    uint64_t at = after->token_head & after->token_mask;
    uint64_t run = after->token_mask + 1 - at;
    if (run > count)
      run = count;
    landing_give_tokens(receiver->landing, &after->tokens[at], (uint32_t)run);
    after->token_head += run;
    count -= (uint32_t)run;
  }
}

static int watch_fences(struct pst_receiver *receiver)
{
  struct release_fifo *after = &receiver->after;
  struct session_memory *memory = receiver->landing->memory;

  while (after->head != after->tail) {
    struct landing_batch *batch = &after->batches[after->head % after->capacity];
    int rc = memory->plugin->memory->fence_query(memory->memory, batch->fence);
    if (rc == -EAGAIN)
      break;
    if (rc < 0)
      return rc;
    receiver_drop_fence(receiver, batch->fence);
    give_fifo(receiver, batch->count);
    after->head++;
  }
  return 0;
}

/* Held by the application, not by a fence that it gave us. */
static uint64_t views_out(const struct pst_receiver *receiver)
{
  return receiver->held - (receiver->after.token_tail - receiver->after.token_head);
}

int pst_receiver_release(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  if (n > views_out(receiver) || (n && receiver->frames))
    return -EINVAL;
  receiver->held -= n;
  landing_give_back(receiver->landing, views, n);
  end_stage(&receiver->end, -1);
  return 0;
}

int pst_receiver_release_after(struct pst_receiver *receiver, const struct pst_view *views,
                               uint32_t n, struct pst_fence *fence)
{
  struct release_fifo *after = &receiver->after;
  struct session_memory *memory = receiver->landing->memory;

  if (!fence)
    return pst_receiver_release(receiver, views, n);
  if (n > views_out(receiver) || (n && receiver->frames)) {
    receiver_drop_fence(receiver, fence);
    return -EINVAL;
  }
  /* The FIFO is full only when fences stall; waiting for the oldest keeps order. */
  while (after->tail - after->head == after->capacity ||
         after->token_tail - after->token_head + n > after->token_mask + 1) {
    bool empty = after->head == after->tail; /* a batch larger than the FIFO */
    struct pst_fence *oldest = empty ? fence : after->batches[after->head % after->capacity].fence;
    int rc = memory->plugin->memory->fence_wait(memory->memory, oldest, NULL, NULL);
    if (rc == 0 && !empty)
      rc = watch_fences(receiver);
    if (rc < 0 || empty)
      receiver_drop_fence(receiver, fence);
    if (rc < 0)
      return rc;
    if (empty)
      return pst_receiver_release(receiver, views, n);
  }
  for (uint32_t i = 0; i < n; i++)
    after->tokens[after->token_tail++ & after->token_mask] = views[i].token;
  after->batches[after->tail++ % after->capacity] =
      (struct landing_batch){.fence = fence, .count = n};
  end_stage(&receiver->end, -1);
  return 0;
}

/* ---- The end of a stream ------------------------------------------------------------------ */

static bool is_reliable(const struct pst_receiver *receiver)
{
  return receiver->end.lane->device->limits.capabilities & PST_CAP_RELIABLE;
}

/* Messages that need not be waited for any more. */
static uint64_t arrived(const struct pst_receiver *receiver)
{
  return receiver->frames ? frames_arrived(receiver->frames) : receiver->delivered;
}

static int fail_short(struct pst_receiver *receiver)
{
  char text[256];

  snprintf(text, sizeof(text),
           "stream %s: the sender sent %lu messages, %lu arrived, and nothing more came for %.1f s "
           "on a transport that loses none: a bug of the transport, or of its peer",
           receiver->end.name, receiver->sent.messages, arrived(receiver),
           (double)receiver->end.config->timeout_ns / 1e9);
  pst_log(PST_LOG_ERROR, "%s", text);
  end_fail(&receiver->end, -EPROTO, text);
  return -EPROTO;
}

uint64_t receiver_due_ns(const struct pst_receiver *receiver)
{
  if (receiver->quiet_since_ns == 0 || receiver->complete)
    return 0;
  if (receiver->end.is_foreign)
    return receiver->quiet_since_ns + receiver->end.config->receiver.silence_ns;
  return receiver->quiet_since_ns +
         (is_reliable(receiver) ? receiver->end.config->timeout_ns : RECEIVER_QUIET_NS);
}

/* What the sender says has left it: a filter there may have dropped some. */
static uint64_t expected(const struct pst_receiver *receiver)
{
  uint64_t messages = receiver->sent.messages;

  for (uint32_t i = 0; i < receiver->sent.drop_count && i < SESSION_DROPS_MAX; i++)
    messages -=
        receiver->sent.drops[i].messages < messages ? receiver->sent.drops[i].messages : messages;
  return messages;
}

/* Nobody says so but the application, or silence. */
static void end_foreign(struct pst_receiver *receiver, uint64_t over_ns)
{
  receiver->end.over_ns = over_ns;
  if (over_ns)
    end_stage_forget(&receiver->end);
  give_up_pending(receiver);
  if (receiver->frames)
    stat_add(receiver->given_up, frames_give_up(receiver));
  stat_set(receiver->complete, true);
}

/* A foreign sender that has begun, and fallen silent, has ended. Had this thread been
 * away, the poll before it was an old one: one more has to find nothing. */
static int check_silence(struct pst_receiver *receiver)
{
  uint64_t silence = receiver->end.config->receiver.silence_ns;
  int rc = end_check(&receiver->end);
  uint64_t now;

  if (rc < 0 || silence == 0 || receiver->end.started_ns == 0)
    return rc;
  now = clock_now_ns();
  if (receiver->quiet_since_ns == 0)
    receiver->quiet_since_ns = now;
  if (now - receiver->quiet_since_ns < silence)
    return 0;
  if (!receiver->was_silent) {
    receiver->was_silent = true;
    return 0;
  }
  end_foreign(receiver, receiver->quiet_since_ns);
  return -ENODATA;
}

int pst_receiver_stop(struct pst_receiver *receiver)
{
  int rc = end_check(&receiver->end);

  if (!receiver->end.is_foreign)
    return -EINVAL;
  if (rc == 0 && !receiver->complete)
    end_foreign(receiver, 0);
  return rc;
}

/* Nothing has arrived: is it over? */
int receiver_check_end(struct pst_receiver *receiver)
{
  uint64_t now;

  if (receiver->end.is_foreign)
    return check_silence(receiver);
  if (!receiver->finish_known)
    return end_check(&receiver->end);
  if (arrived(receiver) == expected(receiver)) {
    stat_set(receiver->complete, true);
    return -ENODATA;
  }
  now = clock_now_ns();
  if (receiver->quiet_since_ns == 0)
    receiver->quiet_since_ns = now;
  if (!is_reliable(receiver) && now - receiver->quiet_since_ns >= RECEIVER_QUIET_NS) {
    if (receiver->is_numbered && receiver->sent.last_sequence + 1 > receiver->track.next)
      stat_set(receiver->behind_last, receiver->sent.last_sequence + 1 - receiver->track.next);
    stat_set(receiver->complete, true);
    return -ENODATA;
  }
  if (is_reliable(receiver) && now - receiver->quiet_since_ns >= receiver->end.config->timeout_ns)
    return fail_short(receiver);
  return end_check(&receiver->end);
}

/* A frame's messages are delivered with it; until then they are not missing. */
uint64_t receiver_missing(const struct pst_receiver *receiver)
{
  const struct assemble_counts *frames = &receiver->frame_counts;

  return stat_get(receiver->unseen) + stat_get(receiver->given_up) + stat_get(frames->late) +
         stat_get(frames->misframed) + stat_get(frames->incomplete_messages);
}

void receiver_totals(const struct pst_receiver *receiver, struct control_totals *totals)
{
  const struct session_end *end = &receiver->end;
  uint64_t now = end->ended_ns ? end->ended_ns : clock_now_ns();
  uint64_t missing = receiver->complete && receiver->sent.messages > receiver->delivered
                         ? receiver->sent.messages - receiver->delivered
                         : 0;

  *totals = (struct control_totals){.messages = receiver->delivered,
                                    .bytes = receiver->bytes,
                                    .last_sequence = receiver->track.next - 1,
                                    .duplicates = receiver->track.duplicates,
                                    .reordered = receiver->track.reordered,
                                    .verified = receiver->verified,
                                    .corrupted = receiver->corrupted,
                                    .running_ns = end->started_ns ? now - end->started_ns : 0};
  memcpy(totals->blocked_ns, end->blocked_ns, sizeof(totals->blocked_ns));
  if (missing)
    count_missing(end, &receiver->sent, missing, totals->drops, &totals->drop_count);
}

int pst_receiver_finish(struct pst_receiver *receiver)
{
  struct control_totals totals;

  if (receiver->finished)
    return 0;
  if (!receiver->complete || receiver->held)
    return -EBUSY;
  receiver->finished = true;
  end_stage(&receiver->end, -1);
  count_read(&receiver->end);
  if (receiver->end.is_foreign) {
    end_state(&receiver->end, PST_STATE_ENDED);
    return 0;
  }
  receiver_totals(receiver, &totals);
  return control_counts(receiver->end.session->control, &receiver->end, &totals);
}

int pst_receiver_abort(struct pst_receiver *receiver, int code, const char *text)
{
  end_fail(&receiver->end, code, text);
  give_up_pending(receiver);
  return 0;
}

/* ---- What applications call --------------------------------------------------------------- */

/* Why nothing was handed over. */
static int idle_stage(const struct pst_receiver *receiver)
{
  const struct landing *landing = receiver->landing;

  if (receiver->held >= landing->slots ||
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
  uint64_t bytes = 0;
  uint64_t damaged = 0;

  for (uint32_t i = 0; i < n; i++) {
    bytes += views[i].length;
    damaged += (views[i].flags & PST_VIEW_DAMAGED) != 0;
  }
  if (receiver->intervals)
    receiver_see_times(receiver, views, n);
  receiver->held += n;
  receiver_arrived(receiver, receiver->delivered + n);
  stat_add(receiver->bytes, bytes);
  stat_add(receiver->delivered, n);
  if (damaged)
    stat_add(receiver->damaged, damaged);
  stat_set(receiver->duplicates, receiver->track.duplicates);
  stat_set(receiver->reordered, receiver->track.reordered);
}

int receiver_progress(struct pst_receiver *receiver)
{
  int rc = 0;

  thread_progress(receiver->end.thread);
  if (receiver->after.head != receiver->after.tail)
    rc = watch_fences(receiver);
  if (rc == 0 && receiver->landing->staged)
    rc = landing_reap(receiver->landing);
  if (rc == 0 && receiver->frames)
    rc = frames_watch(receiver);
  if (rc < 0) {
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
  uint32_t max = batch->capacity;
  uint32_t n;
  int rc;

  if (!landing->staged) {
    n = receiver_gather(receiver, batch->views, max);
    return n ? flush(landing, (int)n) : 0;
  }
  if (max > SESSION_DEVICE_BATCH)
    max = SESSION_DEVICE_BATCH;
  if (max > landing_room(landing))
    max = landing_room(landing);
  n = receiver_gather(receiver, batch->views, max);
  if (n == 0)
    return 0;
  rc = landing_stage(landing, batch->views, n, &receiver->ready);
  return rc < 0 ? rc : (int)n;
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
    give_up_pending(receiver);
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
  bool room;
  int n;

  if (batch->struct_size < sizeof(*batch) || receiver->frames)
    return -EINVAL;
  batch->count = 0;
  batch->ready = NULL;
  n = receiver_begin_poll(receiver);
  if (n)
    return n < 0 ? n : -ENODATA;
  room = batch->capacity && (!receiver->landing->staged || landing_room(receiver->landing));
  n = room ? take(receiver, batch) : 0;
  if (n < 0) {
    end_fail(&receiver->end, n, "making arrived messages readable in the final memory failed");
    return n;
  }
  if (n == 0) {
    end_stage(&receiver->end, idle_stage(receiver));
    return room ? receiver_check_end(receiver) : 0; /* without room, more may have arrived */
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
  return memory->plugin->memory->fence_record(memory->memory, NULL, native, fence);
}

int pst_receiver_fence_wait(struct pst_receiver *receiver, struct pst_fence *ready, void *native)
{
  struct session_memory *memory = receiver->landing->memory;

  return ready ? memory->plugin->memory->fence_wait(memory->memory, ready, NULL, native) : 0;
}

int pst_receiver_verified(struct pst_receiver *receiver, struct pst_verify_result *result)
{
  const struct pst_memory_ops *ops = receiver->landing->memory->plugin->memory;
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
  return rc;
}

int pst_receiver_verify(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
                        struct pst_fence **fence)
{
  struct session_memory *memory = receiver->landing->memory;
  const struct pst_memory_ops *ops = memory->plugin->memory;
  struct pst_payload *payloads = receiver->payloads;
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  uint64_t ticket, done;
  int rc = 0;

  *fence = NULL;
  if (!receiver->queue)
    return -EOPNOTSUPP;
  if (receiver->ready)
    rc = ops->fence_wait(memory->memory, receiver->ready, receiver->queue, NULL);
  while (n && rc == 0) {
    uint32_t run = n < SESSION_DEVICE_BATCH ? n : SESSION_DEVICE_BATCH;
    for (uint32_t i = 0; i < run; i++)
      payloads[i] = (struct pst_payload){
          .address = views[i].address, .length = views[i].length, .sequence = views[i].sequence};
    while ((rc = ops->verify_batch(receiver->queue, receiver->seed, payloads, run, &ticket)) ==
           -EAGAIN)
      ops->queue_poll(receiver->queue, &done);
    views += run;
    n -= run;
  }
  if (rc == 0 && (ops->capabilities & PST_MEMORY_CAP_FENCE))
    rc = ops->fence_record(memory->memory, receiver->queue, NULL, fence);
  /* For the statistics, should the stream end before its time. */
  if (rc == 0)
    rc = pst_receiver_verified(receiver, &result);
  return rc;
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
      return rc;
  }
  if (view->host) {
    memcpy(to, view->host, view->length);
    return 0;
  }
  while ((rc = ops->copy_batch(receiver->queue, &piece, 1, &ticket)) == -EAGAIN)
    ops->queue_poll(receiver->queue, &done);
  while (rc == 0 && done < ticket)
    rc = ops->queue_poll(receiver->queue, &done);
  return rc;
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
