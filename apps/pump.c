/* SPDX-License-Identifier: Apache-2.0 */
/* One round of a sender and of a receiver. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "runner.h"

/* How long a receiver that has to leave waits for the sender to end the stream: often both were
 * asked. */
#define GRACE_NS NS_PER_S

static void pump_lower(uint64_t *until_ns, uint64_t time_ns)
{
  if (time_ns < *until_ns)
    *until_ns = time_ns;
}

/* --duration counts from the moment both ends are connected. */
static uint64_t pump_deadline_of(const struct app_stream *stream, uint64_t started_ns)
{
  const struct arguments *arguments = stream->runner->arguments;
  return arguments->duration_set && started_ns != 0 ? started_ns + arguments->duration_ns : 0;
}

static bool pump_drained_too_long(const struct runner *runner, uint64_t *until_ns)
{
  uint64_t by_ns = atomic_load_explicit(&runner->drain_by_ns, memory_order_relaxed);
  if (by_ns == 0)
    return false;
  pump_lower(until_ns, by_ns);
  return app_now_ns() >= by_ns;
}

/* Nothing more will come, and nobody will end the stream in good order. */
static bool pump_source_broken(const struct app_stream *stream)
{
  return atomic_load(&stream->source_broken) ||
         (stream->leader && atomic_load(&stream->leader->source_broken));
}

/* ---- Sender ---------------------------------------------------------------- */

static void pump_sender_over(struct app_stream *stream)
{
  stream->sender.phase = SIDE_OVER;
  atomic_store(&stream->sender.over, true);
}

/* The source has failed. There is no half of a message to send: the receiver is
 * told why; one in this process leaves with us. */
static void pump_sender_broken(struct app_stream *stream)
{
  pst_sender_abort(stream->sender.handle, stream->sender.error.code, stream->sender.error.text);
  atomic_store(&stream->source_broken, true);
  pump_sender_over(stream);
  pst_session_wake(stream->runner->session);
}

static void pump_sender_end(struct app_stream *stream, uint32_t why)
{
  stream->sender.phase = SIDE_ENDING;
  pst_sender_stop(stream->sender.handle, why); /* a failure shows in the state */
}

/* By a signal: is what was sent a part of what was to be sent? */
static uint32_t pump_stopped_by_signal(struct app_stream *stream)
{
  struct app_stream_sender *sender = &stream->sender;
  uint64_t until_ns = UINT64_MAX;

  if (!sender->bounded)
    return PST_STOP_SIGNAL;
  if (sender->source.ops->ready(sender->source.state, 1, &until_ns, &sender->error) == -ENODATA)
    return PST_STOP_SOURCE_END;
  return PST_STOP_SIGNAL | PST_STOP_SHORT;
}

/* Why the source must end now, though it may have more; PST_STOP_UNKNOWN: it need not. */
static uint32_t pump_sender_told(struct app_stream *stream, uint64_t *until_ns)
{
  struct app_stream_sender *sender = &stream->sender;

  if (sender->left == 0)
    return PST_STOP_COUNT;
  if (atomic_load_explicit(&stream->runner->stop, memory_order_relaxed))
    return pump_stopped_by_signal(stream);
  if (!stream->runner->arguments->duration_set)
    return PST_STOP_UNKNOWN;
  if (sender->deadline_ns == 0) {
    if (pst_sender_state(sender->handle) < PST_STATE_CONNECTED)
      return PST_STOP_UNKNOWN;
    struct pst_stats stats = {.struct_size = sizeof(stats)};
    pst_sender_stats(sender->handle, &stats);
    sender->deadline_ns = pump_deadline_of(stream, stats.started_ns);
    if (sender->deadline_ns == 0)
      return PST_STOP_UNKNOWN;
  }
  pump_lower(until_ns, sender->deadline_ns);
  return app_now_ns() >= sender->deadline_ns ? PST_STOP_DURATION : PST_STOP_UNKNOWN;
}

static uint32_t pump_sender_idle(struct app_stream *stream)
{
  int moved = pst_sender_poll(stream->sender.handle);
  if (moved < 0)
    pump_sender_over(stream);
  return moved > 0 ? (uint32_t)moved : 0;
}

/* Fills free slots from the source and submits them. Returns how many, or 1 at the stream's end; 0:
 * nothing to do before *until_ns. */
static uint32_t pump_sender_flow(struct app_stream *stream, uint64_t *until_ns)
{
  struct app_stream_sender *sender = &stream->sender;

  uint32_t told = pump_sender_told(stream, until_ns);
  if (told != PST_STOP_UNKNOWN) {
    pump_sender_end(stream, told);
    return 1;
  }
  uint32_t wanted = sender->left < SOURCE_BATCH ? (uint32_t)sender->left : SOURCE_BATCH;
  int ready = sender->source.ops->ready(sender->source.state, wanted, until_ns, &sender->error);
  if (ready == -ENODATA) {
    pump_sender_end(stream, PST_STOP_SOURCE_END);
    return 1;
  }
  if (ready < 0) {
    pump_sender_broken(stream);
    return 0;
  }
  assert((uint32_t)ready <= wanted); /* fill() has no more slots */
  if (ready == 0) {
    uint32_t moved = pump_sender_idle(stream);
    if (sender->phase == SIDE_FLOWING)
      pst_sender_idle(sender->handle);
    return moved;
  }
  int got = pst_sender_acquire(sender->handle, sender->slots, (uint32_t)ready);
  if (got == 0)
    return pump_sender_idle(stream);
  if (got < 0) {
    pump_sender_over(stream);
    return 0;
  }
  if (sender->source.ops->fill(sender->source.state, sender->handle, sender->slots, (uint32_t)got,
                               &sender->error) < 0) {
    pump_sender_broken(stream);
    return 0;
  }
  if (pst_sender_submit(sender->handle, sender->slots, (uint32_t)got) < 0)
    pump_sender_over(stream);
  if (sender->left != UINT64_MAX)
    sender->left -= (uint64_t)got;
  return (uint32_t)got;
}

uint32_t app_sender_step(struct app_stream *stream, uint64_t *until_ns)
{
  struct app_stream_sender *sender = &stream->sender;

  if (sender->phase == SIDE_FLOWING && !sender->shares)
    return pump_sender_flow(stream, until_ns);
  uint32_t moved = pump_sender_idle(stream);
  enum pst_state state = pst_sender_state(sender->handle);
  bool stopped = atomic_load(&stream->runner->stop);
  /* A receiver of this process leaves with the sender's end: they meet, and end in good order. */
  bool is_alone = stopped && state == PST_STATE_WAITING && !stream->receiver.handle;
  if (state == PST_STATE_ENDED || state == PST_STATE_FAILED || pump_source_broken(stream) ||
      is_alone || pump_drained_too_long(stream->runner, until_ns))
    pump_sender_over(stream);
  return moved;
}

/* ---- Receiver --------------------------------------------------------------- */

/* Keeps the messages of a stream that breaks off as a part, unless the sink itself has failed. The
 * stream reports why it breaks off, so a failure here is only logged. */
static void pump_keep_part(struct app_stream *stream)
{
  struct app_stream_receiver *receiver = &stream->receiver;
  const struct sink_ops *ops = receiver->sink.ops;

  if (receiver->phase != SIDE_FLOWING || receiver->error.code != 0 || !ops->cut)
    return;
  int rc = ops->cut(receiver->sink.state);
  if (rc == 0)
    ops->finish(receiver->sink.state, receiver->handle, NULL);
  else if (rc != -ENODATA)
    app_log(PST_LOG_ERROR, "stream '%s': the part that arrived cannot be kept: %s", stream->name,
            strerror(-rc));
}

static void pump_receiver_over(struct app_stream *stream)
{
  struct app_stream_receiver *receiver = &stream->receiver;

  pump_keep_part(stream);
  /* Messages that the sink has not taken stay unreleased: the session is at its end. */
  pst_receiver_fence_free(receiver->handle, receiver->fence);
  receiver->fence = NULL;
  receiver->kept = 0;
  stream->receiver.phase = SIDE_OVER;
  app_sink_close(&stream->receiver.sink);
  atomic_store(&stream->receiver.over, true);
}

/* The sink has failed: tell the sender why. */
static void pump_receiver_broken(struct app_stream *stream)
{
  struct app_stream_receiver *receiver = &stream->receiver;
  pst_receiver_abort(receiver->handle, receiver->error.code, receiver->error.text);
  pump_receiver_over(stream);
}

static int pump_await_ready(struct app_stream *stream, struct pst_fence *ready)
{
  struct app_stream_receiver *receiver = &stream->receiver;

  if (!receiver->sink.ops->reads || !ready)
    return 0;
  int rc = pst_receiver_fence_wait(receiver->handle, ready, NULL);
  if (rc < 0)
    app_log_fail(&receiver->error, PST_EXIT_FAILED, rc,
                 "stream '%s': waiting for messages to be in memory failed: %s", stream->name,
                 strerror(-rc));
  return rc;
}

/* Handles the results of taking messages and of releasing them: they are the library's again behind
 * the fence, also where the sink has failed midway. */
static void pump_receiver_took(struct app_stream *stream, int taken, int released)
{
  struct app_stream_receiver *receiver = &stream->receiver;

  if (taken == 0 && released < 0)
    taken = app_log_fail(&receiver->error, PST_EXIT_FAILED, released,
                         "stream '%s': messages cannot be released: %s", stream->name,
                         strerror(-released));
  if (taken < 0)
    pump_receiver_broken(stream);
}

static void pump_receiver_take(struct app_stream *stream, int rc)
{
  struct app_stream_receiver *receiver = &stream->receiver;
  struct pst_fence *fence = NULL;

  if (rc == 0)
    rc = receiver->sink.ops->take(receiver->sink.state, receiver->handle, receiver->views,
                                  receiver->kept, &fence, &receiver->error);
  if (rc == -EAGAIN)
    return;
  uint32_t n = receiver->kept;
  receiver->kept = 0;
  pump_receiver_took(stream, rc,
                     pst_receiver_release_after(receiver->handle, receiver->views, n, fence));
}

/* The packets of a frame go to the sink at their places, in their order. The fence is
 * behind all of it: a sink's fences pass in order. -EAGAIN: from `packet_at` on later. */
static int pump_frame_take(struct app_stream *stream, const struct pst_frame *frame)
{
  struct app_stream_receiver *receiver = &stream->receiver;

  while (receiver->packet_at < frame->packets) {
    struct pst_fence *last = NULL;
    uint32_t n = 0, i = receiver->packet_at;
    for (; n < SINK_BATCH && i < frame->packets; i++)
      n += (uint32_t)pst_frame_view(frame, i, &receiver->views[n]);
    int rc = n == 0 ? 0
                    : receiver->sink.ops->take(receiver->sink.state, receiver->handle,
                                               receiver->views, n, &last, &receiver->error);
    if (n > 0 && receiver->fence && (rc == 0 || last)) {
      pst_receiver_fence_free(receiver->handle, receiver->fence);
      receiver->fence = NULL;
    }
    if (last)
      receiver->fence = last;
    if (rc < 0)
      return rc;
    receiver->packet_at = i;
  }
  receiver->packet_at = 0;
  return 0;
}

static void pump_frames_take(struct app_stream *stream, int rc)
{
  struct app_stream_receiver *receiver = &stream->receiver;

  while (rc == 0 && receiver->frame_at < receiver->kept) {
    rc = pump_frame_take(stream, &receiver->frames[receiver->frame_at]);
    receiver->frame_at += rc == 0;
  }
  if (rc == -EAGAIN)
    return;
  uint32_t n = receiver->kept;
  struct pst_fence *fence = receiver->fence;
  receiver->kept = receiver->frame_at = 0;
  receiver->fence = NULL;
  pump_receiver_took(
      stream, rc, pst_receiver_release_frames_after(receiver->handle, receiver->frames, n, fence));
}

/* Would there have been more, as the sender says, or as was asked for here? */
static bool pump_is_short(const struct app_stream *stream)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};

  pst_receiver_stats(stream->receiver.handle, &stats);
  return ((stats.stopped | stream->receiver.stopped) & PST_STOP_SHORT) != 0;
}

/* The sink's result, or, of a stream that was cut short, the part that came. As finish(). */
static int pump_make_stand(struct app_stream *stream)
{
  struct app_stream_receiver *receiver = &stream->receiver;
  const struct sink_ops *ops = receiver->sink.ops;
  int rc = ops->cut && pump_is_short(stream) ? ops->cut(receiver->sink.state) : 0;

  if (rc == -ENODATA)
    return 0;
  if (rc < 0)
    return app_log_fail(&receiver->error, PST_EXIT_FAILED, rc,
                        "stream '%s': the part that arrived cannot be kept: %s", stream->name,
                        strerror(-rc));
  return ops->finish ? ops->finish(receiver->sink.state, receiver->handle, &receiver->error) : 0;
}

/* All of the stream was here: the sink makes its result stand, then the sender may
 * know. */
static void pump_receiver_end(struct app_stream *stream, uint64_t *until_ns)
{
  struct app_stream_receiver *receiver = &stream->receiver;

  if (receiver->phase == SIDE_FLOWING) {
    int rc = pump_make_stand(stream);
    if (rc < 0 && rc != -EAGAIN)
      pump_receiver_broken(stream);
    else if (rc == 0)
      rc = pst_receiver_finish(receiver->handle); /* -EBUSY: views are still out */
    if (rc < 0)
      return;
    receiver->phase = SIDE_ENDING;
  }
  enum pst_state state = pst_receiver_state(receiver->handle);
  if (state == PST_STATE_ENDED || state == PST_STATE_FAILED ||
      pump_drained_too_long(stream->runner, until_ns))
    pump_receiver_over(stream);
}

/* A stream without another Penstock ends here, in good order, when it is enough: why, or
 * PST_STOP_UNKNOWN. */
static uint32_t pump_receiver_enough(struct app_stream *stream, uint64_t *until_ns)
{
  struct app_stream_receiver *receiver = &stream->receiver;
  const struct arguments *arguments = stream->runner->arguments;

  if (receiver->left == 0)
    return PST_STOP_COUNT;
  if (atomic_load_explicit(&stream->runner->stop, memory_order_relaxed))
    return receiver->left != UINT64_MAX || arguments->duration_set
               ? PST_STOP_SIGNAL | PST_STOP_SHORT
               : PST_STOP_SIGNAL;
  if (!arguments->duration_set)
    return PST_STOP_UNKNOWN;
  if (receiver->deadline_ns == 0 && pst_receiver_state(receiver->handle) >= PST_STATE_CONNECTED)
    receiver->deadline_ns = app_now_ns() + arguments->duration_ns;
  if (receiver->deadline_ns == 0)
    return PST_STOP_UNKNOWN;
  pump_lower(until_ns, receiver->deadline_ns);
  return app_now_ns() >= receiver->deadline_ns ? PST_STOP_DURATION : PST_STOP_UNKNOWN;
}

/* Leave when told to, by a signal or by the time: see GRACE_NS. In a process that
 * has the sender too, the sender ends the stream. */
static bool pump_receiver_told(struct app_stream *stream, uint64_t *until_ns)
{
  struct app_stream_receiver *receiver = &stream->receiver;
  struct runner *runner = stream->runner;

  if (pump_source_broken(stream))
    return true;
  if (pump_drained_too_long(runner, until_ns))
    return true;
  if (stream->foreign && receiver->stopped == PST_STOP_UNKNOWN) {
    receiver->stopped = pump_receiver_enough(stream, until_ns);
    if (receiver->stopped != PST_STOP_UNKNOWN)
      pst_receiver_stop(receiver->handle); /* the next poll says that it is over */
  }
  if (stream->sender.handle || stream->foreign)
    return false;
  if (receiver->deadline_ns == 0 && runner->arguments->duration_set &&
      pst_receiver_state(receiver->handle) >= PST_STATE_CONNECTED) {
    struct pst_stats stats = {.struct_size = sizeof(stats)};
    pst_receiver_stats(receiver->handle, &stats);
    receiver->deadline_ns = pump_deadline_of(stream, stats.started_ns);
    if (receiver->deadline_ns != 0)
      receiver->deadline_ns += GRACE_NS;
  }
  if (atomic_load_explicit(&runner->stop, memory_order_relaxed)) {
    if (pst_receiver_state(receiver->handle) == PST_STATE_WAITING)
      return true;
    uint64_t by_ns = app_now_ns() + GRACE_NS;
    if (receiver->deadline_ns == 0 || by_ns < receiver->deadline_ns)
      receiver->deadline_ns = by_ns;
  }
  if (receiver->deadline_ns == 0 || pst_receiver_state(receiver->handle) != PST_STATE_CONNECTED)
    return false;
  pump_lower(until_ns, receiver->deadline_ns);
  return app_now_ns() >= receiver->deadline_ns;
}

/* Frames are whole: the last may bring more than were wanted. */
static void pump_count_down(struct app_stream_receiver *receiver,
                            const struct pst_frame_batch *frames, uint64_t messages)
{
  if (frames)
    messages = 0;
  for (uint32_t i = 0; frames && i < frames->count; i++)
    messages += frames->frames[i].present;
  receiver->left -= messages < receiver->left ? messages : receiver->left;
}

static void pump_take(struct app_stream *stream, int rc)
{
  if (pst_receiver_frame_packets(stream->receiver.handle) > 0)
    pump_frames_take(stream, rc);
  else
    pump_receiver_take(stream, rc);
}

/* Up to `max` messages, or as many frames as fit; how many, or as the library's call. */
static int pump_receiver_poll(struct app_stream *stream, uint32_t max, struct pst_fence **ready)
{
  struct app_stream_receiver *receiver = &stream->receiver;
  struct pst_batch batch = {
      .struct_size = sizeof(batch), .capacity = max, .views = receiver->views};
  struct pst_frame_batch frames = {.struct_size = sizeof(frames),
                                   .capacity = max < FRAME_BATCH ? max : FRAME_BATCH,
                                   .frames = receiver->frames};
  bool assembles = pst_receiver_frame_packets(receiver->handle) > 0;
  if (!assembles && receiver->left < max)
    batch.capacity = (uint32_t)receiver->left;
  int count = assembles ? pst_receiver_poll_frames(receiver->handle, &frames)
                        : pst_receiver_poll(receiver->handle, &batch);

  *ready = assembles ? frames.ready : batch.ready;
  if (count > 0 && receiver->left != UINT64_MAX)
    pump_count_down(receiver, assembles ? &frames : NULL, (uint64_t)count);
  return count;
}

/* The sink has no room yet for what it was given: it is offered again. The poll brings nothing
 * more, and keeps the stream alive. */
static bool pump_receiver_offer(struct app_stream *stream, uint32_t *got)
{
  struct app_stream_receiver *receiver = &stream->receiver;
  struct pst_fence *ready;
  int rc = pump_receiver_poll(stream, 0, &ready);

  if (rc < 0 && rc != -ENODATA) {
    pump_receiver_over(stream);
    return false;
  }
  uint32_t kept = receiver->kept, frame = receiver->frame_at, packet = receiver->packet_at;
  pump_take(stream, 0);
  bool moved =
      receiver->kept != kept || receiver->frame_at != frame || receiver->packet_at != packet;
  *got = moved ? 1 : 0;
  return receiver->kept == 0 && receiver->phase != SIDE_OVER;
}

/* True while there may be more at once; *got: how many came. */
static bool pump_receiver_flow(struct app_stream *stream, uint64_t *until_ns, uint32_t *got)
{
  struct app_stream_receiver *receiver = &stream->receiver;
  struct pst_fence *ready;

  *got = 0;
  if (receiver->kept > 0)
    return pump_receiver_offer(stream, got);
  int count = pump_receiver_poll(stream, SINK_BATCH, &ready);
  if (count > 0) {
    *got = receiver->kept = (uint32_t)count;
    pump_take(stream, pump_await_ready(stream, ready));
  } else if (count == -ENODATA) {
    pump_receiver_end(stream, until_ns);
  } else if (count < 0) {
    pump_receiver_over(stream);
  }
  return count > 0 && receiver->kept == 0 && receiver->phase != SIDE_OVER;
}

uint32_t app_receiver_step(struct app_stream *stream, uint64_t *until_ns)
{
  struct app_stream_receiver *receiver = &stream->receiver;
  uint32_t moved = 0, got;

  /* As many as a sender on the same thread gives in a round, so that neither end
   * starves the other; a poll may bring fewer than it was asked for. */
  while (moved < SINK_BATCH && pump_receiver_flow(stream, until_ns, &got))
    moved += got;
  if (receiver->phase == SIDE_FLOWING && pump_receiver_told(stream, until_ns)) {
    receiver->cut = !pump_source_broken(stream);
    receiver->stopped = pump_source_broken(stream)           ? PST_STOP_FAILURE
                        : atomic_load(&stream->runner->stop) ? PST_STOP_SIGNAL
                                                             : PST_STOP_DURATION;
    pst_receiver_abort(receiver->handle, -ECANCELED,
                       receiver->cut ? "the receiver was asked to stop" : "the source has failed");
    pump_receiver_over(stream);
  }
  return moved;
}
