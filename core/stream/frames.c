/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames for applications: messages that have arrived in the ring are copied, one
 * batch a poll, to where assemble.h says; frames that are closed are handed over
 * behind a fence. A queue's batches run in order, so what a buffer is used for next
 * is copied after what it was used for before.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "session.h"

#define FRAMES_ZEROS (UINT64_C(1) << 20) /* bytes that one piece can zero, at most */
#define FRAMES_ROUNDS 16                 /* batches of messages that one poll takes */
#define FRAMES_ALIGNMENT 256             /* of a frame; what GPUs copy and load best from */

struct frames_release {
  struct pst_fence *fence;
  uint32_t count;
};

struct frames {
  struct assemble *assemble;
  struct assemble_params params;
  enum config_missing missing;
  uint64_t stride;       /* from packet to packet */
  uint64_t frame_stride; /* from buffer to buffer */
  uint64_t arrived;      /* messages */
  struct pst_region zeros;
  struct pst_copy *pieces;
  struct pst_view views[SESSION_POLL_BATCH]; /* taken, with no place found yet */
  uint32_t view_at, view_count;
  struct frames_release *releases; /* FIFO; never more than there are frames */
  uint32_t *released;              /* their buffers */
  uint32_t release_head, release_tail;
  uint32_t buffer_head, buffer_tail;
};

/* ---- Sizes --------------------------------------------------------------------- */

static struct assemble_params params_of(const struct config_stream *config)
{
  return (struct assemble_params){.by_marker = config->receiver.assemble.by == CONFIG_BY_RTP_MARKER,
                                  .drops = config->receiver.assemble.missing == CONFIG_MISSING_DROP,
                                  .packets = config->receiver.assemble.packets,
                                  .open = config->receiver.assemble.frames / 2,
                                  .buffers = config->receiver.assemble.frames,
                                  .timeout_ns = config->receiver.assemble.timeout_ns};
}

/* Contiguous, unless the file asks for more. */
static uint64_t stride_of(const struct config_stream *config)
{
  return config->stride ? config->stride : config->message;
}

static uint64_t frame_stride_of(const struct config_stream *config)
{
  struct assemble_params params = params_of(config);

  return round_up(assemble_cells(&params) * stride_of(config), FRAMES_ALIGNMENT);
}

static uint64_t zeros_of(const struct config_stream *config)
{
  uint64_t length = config->receiver.assemble.packets * stride_of(config);

  return length < FRAMES_ZEROS ? length : FRAMES_ZEROS;
}

uint64_t frames_length(const struct config_stream *config)
{
  return config->receiver.assemble.packets
             ? frame_stride_of(config) * config->receiver.assemble.frames
             : 0;
}

uint32_t frames_pieces(const struct config_stream *config)
{
  uint32_t packets = config->receiver.assemble.packets;
  uint64_t pieces;

  if (packets == 0)
    return SESSION_POLL_BATCH;
  /* Every other packet missing, and runs cut where the zeros end. */
  pieces = packets / 2 + 1 + packets * stride_of(config) / zeros_of(config) + 1;
  return pieces > SESSION_POLL_BATCH ? (uint32_t)pieces : SESSION_POLL_BATCH;
}

/* ---- Opening ------------------------------------------------------------------- */

static int check_transport(const struct pst_receiver *receiver, struct pst_error *error)
{
  if (receiver->end.device->limits.capabilities & PST_CAP_SEQUENCE)
    return 0;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                  "stream %s: assemble needs sequence numbers, which transport %s does not carry "
                  "as it is set up; choose another transport or framing, or remove \"assemble\"",
                  receiver->end.name, receiver->end.device->plugin->name);
}

static int open_zeros(struct pst_receiver *receiver, struct frames *frames, struct pst_error *error)
{
  const struct session_memory *memory = receiver->landing->memory;
  struct pst_alloc_params params = {.struct_size = sizeof(params),
                                    .purpose = PST_ALLOC_STAGING,
                                    .length = zeros_of(receiver->end.config),
                                    .needs = PST_NEED_CPU_ACCESS,
                                    .label = "zeros for missing packets"};
  int rc;

  if (frames->missing != CONFIG_MISSING_ZERO)
    return 0;
  frames->zeros.struct_size = sizeof(frames->zeros);
  rc = memory->plugin->memory->alloc(memory->memory, &params, &frames->zeros);
  if (rc == 0 && !frames->zeros.host)
    rc = -EOPNOTSUPP;
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                    "stream %s: memory %s gives no staging memory of %lu B for zeros: %s; "
                    "`missing: keep` or `drop` needs none",
                    receiver->end.name, memory->plugin->name, params.length, strerror(-rc));
  memset(frames->zeros.host, 0, params.length);
  return 0;
}

int frames_open(struct pst_receiver *receiver, struct pst_error *error)
{
  const struct config_stream *config = receiver->end.config;
  const struct config *all = receiver->end.session->config;
  uint32_t bits = receiver->end.device->limits.sequence_bits;
  struct frames *frames;
  int rc = check_transport(receiver, error);

  if (rc < 0)
    return rc;
  frames = calloc(1, sizeof(*frames));
  if (!frames)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory", config->name);
  receiver->frames = frames;
  frames->params = params_of(config);
  /* A foreign sender's numbers begin behind all that its framing has. */
  frames->params.joins = all->control.none;
  if (frames->params.joins && !frames->params.by_marker && bits < 64)
    frames->params.origin = UINT64_C(1) << bits;
  frames->missing = config->receiver.assemble.missing;
  frames->stride = stride_of(config);
  frames->frame_stride = frame_stride_of(config);
  frames->pieces = calloc(frames_pieces(config), sizeof(*frames->pieces));
  frames->releases = calloc(frames->params.buffers, sizeof(*frames->releases));
  frames->released = calloc(frames->params.buffers, sizeof(*frames->released));
  rc = frames->pieces && frames->releases && frames->released
           ? assemble_open(&frames->params, &frames->assemble)
           : -ENOMEM;
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "stream %s: no frames: %s", config->name,
                    strerror(-rc));
  return open_zeros(receiver, frames, error);
}

void frames_close(struct pst_receiver *receiver)
{
  const struct session_memory *memory = receiver->landing->memory;
  struct frames *frames = receiver->frames;

  if (!frames)
    return;
  for (; frames->release_head != frames->release_tail; frames->release_head++)
    receiver_drop_fence(receiver,
                        frames->releases[frames->release_head % frames->params.buffers].fence);
  if (frames->zeros.length)
    memory->plugin->memory->free_region(memory->memory, &frames->zeros);
  assemble_close(frames->assemble);
  free(frames->pieces);
  free(frames->releases);
  free(frames->released);
  free(frames);
  receiver->frames = NULL;
}

uint32_t pst_receiver_frame_packets(const struct pst_receiver *receiver)
{
  return receiver->frames ? receiver->frames->params.packets : 0;
}

uint64_t frames_arrived(const struct frames *frames)
{
  return frames->arrived;
}

uint32_t frames_give_up(struct pst_receiver *receiver)
{
  const struct session_lane *lane = receiver->end.lane;
  struct frames *frames = receiver->frames;
  uint32_t count = frames->view_count - frames->view_at;

  for (; frames->view_at < frames->view_count; frames->view_at++)
    lane->ops->release(lane->worker, &frames->views[frames->view_at].token, 1);
  return count;
}

/* Messages that wait for a buffer are looked at again soon: what frees it may be a
 * fence. */
uint64_t frames_due_ns(const struct frames *frames, uint64_t now)
{
  if (frames->view_at < frames->view_count || frames->release_head != frames->release_tail)
    return now + 100 * PST_NS_PER_US;
  return assemble_first(frames->assemble) ? now : assemble_due_ns(frames->assemble);
}

/* ---- Messages go to their places ------------------------------------------------ */

static uint64_t realtime_ns(void)
{
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * PST_NS_PER_S + (uint64_t)t.tv_nsec;
}

static enum assemble_verdict place_view(struct frames *frames, const struct landing *landing,
                                        const struct pst_view *view, uint64_t now_ns,
                                        uint64_t arrival_ns, struct pst_copy *piece)
{
  const struct assemble_message message = {.sequence = view->sequence,
                                           .meta = view->flags & PST_VIEW_META ? view->meta : 0,
                                           .time_ns = view->flags & PST_VIEW_TIME ? view->time_ns
                                                                                  : arrival_ns,
                                           .length = view->length,
                                           .flags = view->flags};
  struct assemble_place place = {0};
  enum assemble_verdict verdict = assemble_take(frames->assemble, &message, now_ns, &place);

  if (verdict == ASSEMBLE_PLACED)
    *piece = (struct pst_copy){.source = view->address,
                               .destination = landing->final_region.address +
                                              place.buffer * frames->frame_stride +
                                              place.cell * frames->stride,
                               .length = view->length};
  return verdict;
}

/* Find places for what is in `views`, at most `room` of them, and start the copies. */
static int place_views(struct pst_receiver *receiver, uint32_t room)
{
  struct frames *frames = receiver->frames;
  struct landing *landing = receiver->landing;
  struct pst_view placed[SESSION_POLL_BATCH];
  uint64_t refused[SESSION_POLL_BATCH];
  uint64_t now_ns = clock_now_ns(), arrival_ns = realtime_ns();
  uint32_t count = 0, pieces = 0, refused_count = 0;
  int rc;

  while (count < room && frames->view_at < frames->view_count) {
    const struct pst_view *view = &frames->views[frames->view_at];
    struct pst_copy *piece = &frames->pieces[pieces];
    enum assemble_verdict verdict = place_view(frames, landing, view, now_ns, arrival_ns, piece);
    if (verdict == ASSEMBLE_WAIT)
      break;
    frames->view_at++;
    if (verdict == ASSEMBLE_PLACED) {
      placed[count++] = *view;
      pieces += piece->length > 0;
    } else {
      refused[refused_count++] = view->token;
    }
  }
  if (refused_count)
    landing->lane->ops->release(landing->lane->worker, refused, refused_count);
  rc = count ? landing_copy(landing, frames->pieces, pieces, placed, count) : 0;
  if (rc == 0)
    assemble_settle(frames->assemble);
  return rc;
}

/* Which transports have timestamps only their messages tell. */
static int check_timestamps(struct pst_receiver *receiver)
{
  const struct frames *frames = receiver->frames;
  char text[256];

  if (!frames->params.by_marker || frames->view_count == 0 ||
      (frames->views[0].flags & PST_VIEW_META))
    return 0;
  snprintf(text, sizeof(text),
           "stream %s: assemble: messages by `rtp_marker` need timestamps, and transport %s brings "
           "none; set its framing to rtp, or assemble by sequence",
           receiver->end.name, receiver->end.device->plugin->name);
  pst_log(PST_LOG_ERROR, "%s", text);
  end_fail(&receiver->end, -EPROTO, text);
  return -EPROTO;
}

/* Returns whether more may have arrived than there was room for. */
static int collect(struct pst_receiver *receiver)
{
  struct frames *frames = receiver->frames;
  int rc = 0;

  for (int round = 0; rc == 0 && round < FRAMES_ROUNDS; round++) {
    uint32_t room = landing_room(receiver->landing);
    if (room > SESSION_POLL_BATCH)
      room = SESSION_POLL_BATCH;
    if (room == 0)
      return 1;
    if (frames->view_at == frames->view_count) {
      frames->view_at = 0;
      frames->view_count = receiver_gather(receiver, frames->views, room);
      frames->arrived += frames->view_count;
      if (frames->view_count == 0)
        return 0;
      receiver_arrived(receiver, frames->arrived);
      rc = check_timestamps(receiver);
    }
    if (rc == 0)
      rc = place_views(receiver, room);
    if (rc == 0)
      rc = landing_reap(receiver->landing);
    if (rc == 0 && (frames->view_at < frames->view_count || assemble_first(frames->assemble)))
      return 1;
  }
  return rc < 0 ? rc : 1;
}

/* ---- Frames go to the application ------------------------------------------------ */

static bool is_here(const uint64_t *valid, uint32_t i)
{
  return valid[i / 64] >> (i % 64) & 1;
}

static uint64_t offset_of(const struct frames *frames, const struct assemble_frame *frame)
{
  return frame->buffer * frames->frame_stride + frame->cell * frames->stride;
}

/* Zeros where packets are missing, by copies: the CPU may not reach that memory. */
static int fill_missing(struct pst_receiver *receiver, const struct assemble_frame *frame)
{
  struct frames *frames = receiver->frames;
  uint64_t base = receiver->landing->final_region.address + offset_of(frames, frame);
  uint64_t most = zeros_of(receiver->end.config);
  uint32_t pieces = 0;

  for (uint32_t i = 0; i < frame->packets;) {
    uint32_t from = i;
    while (i < frame->packets && !is_here(frame->valid, i))
      i++;
    uint64_t at = from * frames->stride, end = i * frames->stride;
    for (uint64_t length; at < end; at += length) {
      length = end - at < most ? end - at : most;
      frames->pieces[pieces++] = (struct pst_copy){
          .source = frames->zeros.address, .destination = base + at, .length = length};
    }
    i += i == from;
  }
  return landing_copy(receiver->landing, frames->pieces, pieces, NULL, 0);
}

static void describe(const struct pst_receiver *receiver, const struct assemble_frame *frame,
                     struct pst_frame *out)
{
  const struct frames *frames = receiver->frames;
  const struct pst_region *region = &receiver->landing->final_region;
  uint64_t offset = offset_of(frames, frame);

  *out = (struct pst_frame){.address = region->address + offset,
                            .host = region->host ? (const char *)region->host + offset : NULL,
                            .stride = frames->stride,
                            .number = frame->number,
                            .sequence = frame->sequence,
                            .meta = frame->meta,
                            .first_ns = frame->first_ns,
                            .last_ns = frame->last_ns,
                            .bytes = frame->bytes,
                            .valid = frame->valid,
                            .lengths = frame->lengths,
                            .packets = frame->packets,
                            .present = frame->present,
                            .flags = frame->flags,
                            .token = frame->buffer};
}

/* Closed frames, as many as the batch has room for. */
static int hand_over(struct pst_receiver *receiver, struct pst_frame_batch *batch)
{
  struct frames *frames = receiver->frames;
  const struct assemble_frame *frame;
  uint64_t bytes = 0, messages = 0, damaged = 0;
  int rc = 0;

  while (batch->count < batch->capacity && (frame = assemble_first(frames->assemble))) {
    if (frames->missing == CONFIG_MISSING_ZERO && frame->present < frame->packets) {
      if (landing_room(receiver->landing) == 0)
        break;
      rc = fill_missing(receiver, frame);
      if (rc < 0)
        return rc;
    }
    describe(receiver, frame, &batch->frames[batch->count++]);
    bytes += frame->bytes;
    messages += frame->present;
    damaged += (frame->flags & PST_FRAME_DAMAGED) != 0;
    assemble_pop(frames->assemble);
  }
  if (batch->count == 0)
    return 0;
  receiver->held += batch->count;
  stat_add(receiver->bytes, bytes);
  stat_add(receiver->delivered, messages);
  if (damaged)
    stat_add(receiver->damaged, damaged);
  rc = landing_fence(receiver->landing, &receiver->ready);
  batch->ready = receiver->ready;
  return rc < 0 ? rc : (int)batch->count;
}

static void publish(struct pst_receiver *receiver)
{
  const struct assemble_counts *now = assemble_counts(receiver->frames->assemble);
  struct assemble_counts *out = &receiver->frame_counts;

  stat_set(out->complete, now->complete);
  stat_set(out->incomplete, now->incomplete);
  stat_set(out->dropped, now->dropped);
  stat_set(out->lost, now->lost);
  stat_set(out->late, now->late);
  stat_set(out->misframed, now->misframed);
  stat_set(out->incomplete_messages, now->incomplete_messages);
  stat_set(receiver->duplicates, receiver->track.duplicates);
  stat_set(receiver->reordered, receiver->track.reordered);
}

static int idle_stage(const struct pst_receiver *receiver)
{
  const struct frames *frames = receiver->frames;

  if (frames->view_at < frames->view_count)
    return PST_STAGE_SINK;
  return receiver->landing->copy_head != receiver->landing->copy_tail &&
                 landing_room(receiver->landing) == 0
             ? PST_STAGE_STAGING
             : PST_STAGE_EMPTY;
}

/* Nothing more will come for the frames that are open. */
static int close_all(struct pst_receiver *receiver, struct pst_frame_batch *batch)
{
  assemble_end(receiver->frames->assemble);
  return hand_over(receiver, batch);
}

/* Nothing was closed: is the stream over, or about to fail? */
static int poll_end(struct pst_receiver *receiver, struct pst_frame_batch *batch)
{
  const struct session_end *end = &receiver->end;
  int rc, n;

  if (end->failing || end->gone_deadline_ns) {
    n = close_all(receiver, batch);
    if (n)
      return n;
  }
  rc = receiver_check_end(receiver);
  n = rc == -ENODATA ? close_all(receiver, batch) : 0;
  if (n)
    return n;
  return rc == -ENODATA && assemble_first(receiver->frames->assemble) ? 0 : rc;
}

static int poll_frames(struct pst_receiver *receiver, struct pst_frame_batch *batch)
{
  struct frames *frames = receiver->frames;
  int more = collect(receiver);
  int n;

  if (more < 0)
    return more;
  /* What a frame lacks may lie in the ring: then this thread is late, not that. */
  if (!more)
    assemble_expire(frames->assemble, clock_now_ns());
  n = hand_over(receiver, batch);
  if (n == 0 && !more && !assemble_first(frames->assemble))
    n = poll_end(receiver, batch);
  return n;
}

int pst_receiver_poll_frames(struct pst_receiver *receiver, struct pst_frame_batch *batch)
{
  int n;

  if (batch->struct_size < sizeof(*batch) || !receiver->frames)
    return -EINVAL;
  batch->count = 0;
  batch->ready = NULL;
  n = receiver_begin_poll(receiver);
  if (n < 0)
    return n;
  if (n > 0) { /* what its end has closed may be more than a batch */
    n = close_all(receiver, batch);
    if (n == 0 && !assemble_first(receiver->frames->assemble))
      n = -ENODATA;
  } else {
    n = poll_frames(receiver, batch);
  }
  publish(receiver);
  if (n < 0 && n != -ENODATA && receiver->end.state != PST_STATE_FAILED)
    end_fail(&receiver->end, n, "copying arrived messages to their frames failed");
  if (!receiver->complete)
    end_stage(&receiver->end, n > 0 ? PST_STAGE_SINK : idle_stage(receiver));
  return n;
}

/* ---- And back -------------------------------------------------------------------- */

static void take_back(struct pst_receiver *receiver, uint32_t buffer)
{
  receiver->held--;
  assemble_release(receiver->frames->assemble, buffer);
}

int frames_watch(struct pst_receiver *receiver)
{
  const struct session_memory *memory = receiver->landing->memory;
  struct frames *frames = receiver->frames;
  uint32_t capacity = frames->params.buffers;

  for (; frames->release_head != frames->release_tail; frames->release_head++) {
    struct frames_release *release = &frames->releases[frames->release_head % capacity];
    int rc = memory->plugin->memory->fence_query(memory->memory, release->fence);
    if (rc < 0)
      return rc == -EAGAIN ? 0 : rc;
    receiver_drop_fence(receiver, release->fence);
    while (release->count--)
      take_back(receiver, frames->released[frames->buffer_head++ % capacity]);
  }
  return 0;
}

/* Held by the application, not by a fence that it gave us. */
static uint64_t frames_out(const struct pst_receiver *receiver)
{
  return receiver->held - (receiver->frames->buffer_tail - receiver->frames->buffer_head);
}

int pst_receiver_release_frames(struct pst_receiver *receiver, const struct pst_frame *frames,
                                uint32_t n)
{
  if (!receiver->frames || n > frames_out(receiver))
    return -EINVAL;
  for (uint32_t i = 0; i < n; i++)
    take_back(receiver, frames[i].token);
  end_stage(&receiver->end, -1);
  return 0;
}

int pst_receiver_release_frames_after(struct pst_receiver *receiver, const struct pst_frame *given,
                                      uint32_t n, struct pst_fence *fence)
{
  struct frames *frames = receiver->frames;
  uint32_t capacity;

  if (!fence)
    return pst_receiver_release_frames(receiver, given, n);
  if (!frames || n == 0 || n > frames_out(receiver)) {
    receiver_drop_fence(receiver, fence);
    return frames && n == 0 ? 0 : -EINVAL;
  }
  capacity = frames->params.buffers;
  for (uint32_t i = 0; i < n; i++)
    frames->released[frames->buffer_tail++ % capacity] = given[i].token;
  frames->releases[frames->release_tail++ % capacity] =
      (struct frames_release){.fence = fence, .count = n};
  end_stage(&receiver->end, -1);
  return 0;
}

int pst_frame_view(const struct pst_frame *frame, uint32_t i, struct pst_view *view)
{
  if (i >= frame->packets || !is_here(frame->valid, i))
    return 0;
  *view =
      (struct pst_view){.address = frame->address + i * frame->stride,
                        .host = frame->host ? (const char *)frame->host + i * frame->stride : NULL,
                        .length = frame->lengths[i],
                        .flags = frame->flags & PST_FRAME_META,
                        .sequence = frame->sequence + i,
                        .meta = frame->meta};
  return 1;
}
