/* SPDX-License-Identifier: Apache-2.0 */
/* Frames go to the application and come back; frames.h says how they are made. */
#include <errno.h>
#include <stdlib.h>

#include "frames.h"

uint32_t pst_receiver_frame_packets(const struct pst_receiver *receiver)
{
  const struct frames *frames = frames_of(receiver);

  return frames ? frames->params.packets : 0;
}

/* ---- Frames go to the application ------------------------------------------------ */

static bool frames_is_here(const uint64_t *valid, uint32_t i)
{
  return valid[i / 64] >> (i % 64) & 1;
}

/* Zeros where packets are missing, by copies: the CPU may not reach that memory. */
static int frames_fill_missing(struct pst_receiver *receiver, const struct pst_frame *frame)
{
  struct frames *frames = frames_of(receiver);
  uint64_t base = receiver->ring->staging->region.mem.address + frame->address;

  for (uint32_t i = 0; i < frame->packets;) {
    uint32_t from = i;
    while (i < frame->packets && !frames_is_here(frame->valid, i))
      i++;
    uint64_t at = from * frame->stride, end = i * frame->stride;
    for (uint64_t length; at < end; at += length) {
      length = end - at < frames->zeros.length ? end - at : frames->zeros.length;
      copy_rows_add(&frames->rows, frames->zeros.mem.address, base + at, length);
    }
    i += i == from;
  }
  return staging_copy(receiver->ring->staging, &frames->rows);
}

static void frames_describe(const struct pst_receiver *receiver, const struct pst_frame *frame,
                            struct pst_frame *out)
{
  const struct pst_region *region = &receiver->ring->staging->region.mem;

  *out = *frame;
  out->address += region->address;
  out->host = region->host ? (const char *)region->host + frame->address : NULL;
}

/* -EAGAIN: there is no room yet for the copy of its zeros, or it has been put off. */
static int frames_zero_missing(struct pst_receiver *receiver, const struct pst_frame *frame)
{
  struct frames *frames = frames_of(receiver);
  int rc;

  if (!frames->zeros.is_open || frame->present == frame->packets || frames->zeroed)
    return 0;
  if (staging_room(receiver->ring->staging) == 0)
    return -EAGAIN;
  rc = frames_fill_missing(receiver, frame);
  frames->zeroed = rc == 0 || rc == -EAGAIN;
  return rc;
}

/* Closed frames, as many as the batch has room for, and whose copies have been started. */
static int frames_hand_over(struct pst_receiver *receiver, struct pst_frame_batch *batch)
{
  struct frames *frames = frames_of(receiver);
  const struct pst_frame *frame;
  uint64_t bytes = 0, messages = 0;
  int rc = 0;

  while (batch->count < batch->capacity && !staging_is_deferred(receiver->ring->staging) &&
         (frame = assemble_first(frames->assemble))) {
    rc = frames_zero_missing(receiver, frame);
    if (rc == -EAGAIN)
      break;
    if (rc < 0)
      return rc;
    frames->zeroed = false;
    frames_describe(receiver, frame, &batch->frames[batch->count++]);
    bytes += frame->bytes;
    messages += frame->present;
    frames->out[frame->token] = true;
    assemble_pop(frames->assemble);
  }
  if (batch->count == 0)
    return 0;
  receiver->held += batch->count;
  stat_add(receiver->bytes, bytes);
  stat_add(receiver->delivered, messages);
  rc = staging_fence(receiver->ring->staging, &receiver->ready);
  batch->ready = receiver->ready;
  return rc < 0 ? rc : (int)batch->count;
}

static int frames_idle_stage(const struct pst_receiver *receiver)
{
  const struct frames *frames = frames_of(receiver);

  if (frames->view_at < frames->view_count)
    return PST_STAGE_SINK;
  return staging_is_copying(receiver->ring->staging) && staging_room(receiver->ring->staging) == 0
             ? PST_STAGE_STAGING
             : PST_STAGE_EMPTY;
}

/* Nothing more will come for the frames that are open. */
static int frames_close_all(struct pst_receiver *receiver, struct pst_frame_batch *batch)
{
  assemble_end(frames_of(receiver)->assemble);
  return frames_hand_over(receiver, batch);
}

/* Nothing was closed: is the stream over, or about to fail? */
static int frames_poll_end(struct pst_receiver *receiver, struct pst_frame_batch *batch)
{
  const struct session_end *end = &receiver->end;
  int rc, n;

  if (end->trouble.kind != END_SOUND) {
    n = frames_close_all(receiver, batch);
    if (n || staging_is_deferred(receiver->ring->staging))
      return n;
  }
  rc = receiver_check_end(receiver);
  n = rc == -ENODATA ? frames_close_all(receiver, batch) : 0;
  if (n)
    return n;
  return rc == -ENODATA && assemble_first(frames_of(receiver)->assemble) ? 0 : rc;
}

static int frames_poll(struct pst_receiver *receiver, struct pst_frame_batch *batch)
{
  struct frames *frames = frames_of(receiver);
  /* Read before the ring is: what arrives while this thread has no CPU lies in the ring then. */
  const uint64_t now_ns = clock_now_ns();
  int more = frames_collect(receiver);
  int n;

  if (more < 0)
    return more;
  /* Expire frames only when the ring is empty: their missing packets may lie there, and then this
   * thread is late, not the packets. */
  if (!more)
    assemble_expire(frames->assemble, now_ns);
  n = frames_hand_over(receiver, batch);
  if (n == 0 && !more && !assemble_first(frames->assemble))
    n = frames_poll_end(receiver, batch);
  return n;
}

int pst_receiver_poll_frames(struct pst_receiver *receiver, struct pst_frame_batch *batch)
{
  int n;

  if (batch->struct_size < sizeof(*batch) || !frames_of(receiver))
    return -EINVAL;
  batch->count = 0;
  batch->ready = NULL;
  n = receiver_begin_poll(receiver);
  if (n < 0)
    return n;
  if (n > 0) { /* what its end has closed may be more than a batch */
    n = frames_close_all(receiver, batch);
    if (n == 0 && !assemble_first(frames_of(receiver)->assemble))
      n = -ENODATA;
  } else {
    n = frames_poll(receiver, batch);
  }
  if (n < 0 && n != -ENODATA && receiver->end.state != PST_STATE_FAILED) {
    receiver_note_memory(receiver, n);
    end_fail(&receiver->end, n, "copying arrived messages to their frames failed");
  }
  if (receiver->phase == RECEIVER_TAKING)
    end_stage(&receiver->end, n > 0 ? PST_STAGE_SINK : frames_idle_stage(receiver));
  return n;
}

/* ---- And back -------------------------------------------------------------------- */

static void frames_take_back(struct pst_receiver *receiver, const uint64_t *buffers, uint32_t n)
{
  for (uint32_t i = 0; i < n && !receiver->unfenced; i++)
    assemble_release(frames_of(receiver)->assemble, (uint32_t)buffers[i]);
}

/* The application gives these back: false, and nothing is, if it does not hold one of them. */
static bool frames_claim(struct frames *frames, const struct pst_frame *given, uint32_t n)
{
  uint32_t i;

  for (i = 0; i < n; i++) {
    uint32_t buffer = given[i].token;
    if (buffer >= frames->params.buffers || !frames->out[buffer])
      break;
    frames->out[buffer] = false;
  }
  if (i == n)
    return true;
  while (i > 0)
    frames->out[given[--i].token] = true;
  return false;
}

int pst_receiver_release_frames(struct pst_receiver *receiver, const struct pst_frame *frames,
                                uint32_t n)
{
  if (!frames_of(receiver) || !frames_claim(frames_of(receiver), frames, n))
    return -EINVAL;
  receiver->held -= n;
  for (uint32_t i = 0; i < n; i++)
    frames_take_back(receiver, &(uint64_t){frames[i].token}, 1);
  end_stage(&receiver->end, -1);
  return 0;
}

int pst_receiver_release_frames_after(struct pst_receiver *receiver, const struct pst_frame *given,
                                      uint32_t n, struct pst_fence *fence)
{
  struct frames *frames = frames_of(receiver);
  int rc = 0;

  if (!fence)
    return pst_receiver_release_frames(receiver, given, n);
  if (!frames)
    rc = -EINVAL;
  else if (n)
    rc = receiver_release_room(receiver, n);
  if (rc == 0 && !frames_claim(frames, given, n))
    rc = -EINVAL;
  if (rc < 0 || n == 0) {
    receiver_drop_fence(receiver, fence);
    return rc;
  }
  for (uint32_t i = 0; i < n; i++)
    receiver_release_behind(receiver, &(struct pst_view){.token = given[i].token}, 1,
                            i == 0 ? fence : NULL);
  end_stage(&receiver->end, -1);
  return 0;
}

int pst_frame_view(const struct pst_frame *frame, uint32_t i, struct pst_view *view)
{
  if (i >= frame->packets || !frames_is_here(frame->valid, i))
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

/* ---- As a client of the receiver --------------------------------------------------- */

/* Messages that wait for a buffer are looked at again soon: what frees it may be a
 * fence. */
static uint64_t frames_due_ns(const struct pst_receiver *receiver, uint64_t now)
{
  const struct frames *frames = frames_of(receiver);

  if (frames->view_at < frames->view_count)
    return now + ENGINE_NAP_NS;
  return assemble_first(frames->assemble) ? now : assemble_due_ns(frames->assemble);
}

static uint32_t frames_give_up(struct pst_receiver *receiver)
{
  const struct session_lane *lane = receiver->end.lane;
  struct frames *frames = frames_of(receiver);
  uint32_t count = frames->view_count - frames->view_at;

  for (; frames->view_at < frames->view_count; frames->view_at++)
    engine_release(&lane->worker, &frames->views[frames->view_at].token, 1);
  return count;
}

static int frames_poll_on(struct pst_receiver *receiver)
{
  struct pst_frame_batch batch = {.struct_size = sizeof(batch)};

  return pst_receiver_poll_frames(receiver, &batch);
}

static void frames_close(struct pst_receiver *receiver)
{
  struct frames *frames = frames_of(receiver);

  region_close(&frames->zeros);
  assemble_close(frames->assemble);
  copy_rows_close(&frames->rows);
  free(frames->out);
  free(frames);
}

static void frames_drops(const struct pst_receiver *receiver, struct pst_drop *drops,
                         uint32_t *count)
{
  const struct assemble_counts *counts = assemble_counts(frames_of(receiver)->assemble);

  loss_add(drops, count, "late", stat_get(counts->late));
  loss_add(drops, count, "misframed", stat_get(counts->misframed));
  loss_add(drops, count, "incomplete_frame", stat_get(counts->incomplete_messages));
}

static void frames_stats(const struct pst_receiver *receiver, struct pst_stats *stats)
{
  const struct assemble_counts *counts = assemble_counts(frames_of(receiver)->assemble);

  stats->frame_packets = frames_of(receiver)->params.packets;
  stats->frames_complete = stat_get(counts->complete);
  stats->frames_dropped = stat_get(counts->dropped);
  stats->frames_incomplete = stat_get(counts->incomplete) - stats->frames_dropped;
  stats->frames_lost = stat_get(counts->lost);
}

const struct receiver_client_ops frames_client_ops = {.takes_all = true,
                                                      .take_back = frames_take_back,
                                                      .due_ns = frames_due_ns,
                                                      .give_up = frames_give_up,
                                                      .poll_on = frames_poll_on,
                                                      .drops = frames_drops,
                                                      .stats = frames_stats,
                                                      .close = frames_close};
