/* SPDX-License-Identifier: Apache-2.0 */
/* Messages go to their places in frames. */
#include <errno.h>
#include <time.h>

#include "frames.h"

#define FRAMES_ROUNDS 32 /* batches of messages that one poll takes */

_Static_assert(FRAMES_ROUNDS *SESSION_POLL_BATCH <= SESSION_DEVICE_BATCH, "one copy takes them");

static uint64_t frames_realtime_ns(void)
{
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * PST_NS_PER_S + (uint64_t)t.tv_nsec;
}

/* The first of *n views, and those behind it that follow it in its frame; *n becomes how many. */
static enum assemble_verdict frames_place_some(struct frames *frames, const struct staging *staging,
                                               const struct pst_view *views, uint32_t *n,
                                               uint64_t now_ns, uint64_t arrival_ns)
{
  uint64_t place;
  enum assemble_verdict verdict =
      assemble_take(frames->assemble, views, n, now_ns, arrival_ns, &place);

  if (verdict == ASSEMBLE_PLACED)
    copy_rows_add_views(&frames->rows, views, *n, staging->region.mem.address + place,
                        frames->params.stride);
  return verdict;
}

/* Finds places for the messages in `views`, at most `room` of them. */
static void frames_place_views(struct pst_receiver *receiver, uint32_t room)
{
  struct frames *frames = frames_of(receiver);
  struct staging *staging = receiver->ring->staging;
  uint64_t refused[SESSION_POLL_BATCH];
  uint64_t now_ns = clock_now_ns(), arrival_ns = frames_realtime_ns();
  uint32_t count = 0, refused_count = 0, from = frames->view_at;

  while (count < room && frames->view_at < frames->view_count) {
    const struct pst_view *view = &frames->views[frames->view_at];
    uint32_t left = frames->view_count - frames->view_at;
    uint32_t n = left < room - count ? left : room - count;
    enum assemble_verdict verdict =
        frames_place_some(frames, staging, view, &n, now_ns, arrival_ns);
    if (verdict == ASSEMBLE_WAIT)
      break;
    if (verdict == ASSEMBLE_PLACED) {
      count += n;
    } else {
      staging_note(staging, &frames->views[from], frames->view_at - from);
      from = frames->view_at + 1;
      refused[refused_count++] = view->token;
    }
    frames->view_at += n;
  }
  staging_note(staging, &frames->views[from], frames->view_at - from);
  if (refused_count)
    engine_release(&staging->lane->worker, refused, refused_count);
}

/* Submits one copy of all that has been placed. */
static int frames_copy_placed(struct pst_receiver *receiver)
{
  struct frames *frames = frames_of(receiver);
  int rc = 0;

  if (receiver->ring->staging->placed)
    rc = staging_copy(receiver->ring->staging, &frames->rows);
  if (rc < 0 && rc != -EAGAIN)
    return rc;
  if (!staging_is_deferred(receiver->ring->staging))
    assemble_settle(frames->assemble);
  return staging_reap(receiver->ring->staging);
}

/* Only messages show whether a transport has timestamps. */
static int frames_check_timestamps(struct pst_receiver *receiver)
{
  const struct frames *frames = frames_of(receiver);
  const char *transport = receiver->end.device->plugin->name;

  if (!frames->params.by_marker || frames->view_count == 0 ||
      (frames->views[0].flags & PST_VIEW_META))
    return 0;
  return end_fail_logged(
      &receiver->end, -EPROTO,
      "assemble: messages by `rtp_marker` need timestamps, and transport %s brings none with these "
      "options; see `penstock plugins %s` for an option that does, or assemble by sequence",
      transport, transport);
}

/* Takes the next part of what has arrived. 1: there may be more of it that fits. 0: nothing more
 * has come. -EAGAIN: nothing more fits, or a frame is complete and need not wait for what comes
 * next. -errno. */
static int frames_collect_some(struct pst_receiver *receiver)
{
  struct frames *frames = frames_of(receiver);
  uint32_t room = staging_room(receiver->ring->staging);
  bool is_all = false;

  if (room > SESSION_POLL_BATCH)
    room = SESSION_POLL_BATCH;
  if (room == 0)
    return -EAGAIN;
  if (frames->view_at == frames->view_count) {
    frames->view_at = 0;
    frames->view_count = receiver_gather(receiver, frames->views, room, 1);
    receiver->arrived += frames->view_count;
    if (frames->view_count == 0)
      return 0;
    is_all = frames->view_count < room;
    if (receiver->intervals)
      receiver_see_times(receiver, frames->views, frames->view_count);
    receiver_note_arrived(receiver, receiver->arrived);
    int rc = frames_check_timestamps(receiver);
    if (rc < 0)
      return rc;
  }
  frames_place_views(receiver, room);
  return frames->view_at < frames->view_count || (is_all && assemble_first(frames->assemble))
             ? -EAGAIN
             : 1;
}

int frames_collect(struct pst_receiver *receiver)
{
  int rc = 1;

  for (int round = 0; rc == 1 && round < FRAMES_ROUNDS; round++)
    rc = frames_collect_some(receiver);
  if (rc < 0 && rc != -EAGAIN)
    return rc;
  int copied = frames_copy_placed(receiver);
  if (copied < 0)
    return copied;
  return rc != 0 || staging_is_deferred(receiver->ring->staging);
}
