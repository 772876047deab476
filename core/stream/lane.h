/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of a session, with its mail and its sleep, and its lanes: the transports' workers, which
 * deliver to the ends on it.
 */
#ifndef PST_STREAM_LANE_H
#define PST_STREAM_LANE_H

#include "engine/thread.h"

#define SESSION_POLL_BATCH 128 /* completions that a poll of a transport asks for */
/* Messages of one copy and of one check: each costs a device the same, be they few or many. */
#define SESSION_DEVICE_BATCH 4096
#define CACHE_LINE 64

struct receive_ring;
struct session_end;

struct session_thread {
  struct pst_session *session;
  uint32_t index;
  int cpu; /* -1: not pinned */
  struct session_lane **lanes;
  uint32_t lane_count;
  struct session_end **ends;
  uint32_t end_count;
  uint64_t idle_since_ns; /* 0: not idle */
  uint64_t next_beat_ns;
  uint64_t next_counters_ns;
  uint32_t idle_rounds;
  uint32_t rounds;
  _Alignas(CACHE_LINE) struct engine_thread base;
};

#define THREAD_TIME_ROUNDS 1024u /* rounds between looks at the clock */

/* event_loop.c */
void thread_progress_now(struct session_thread *thread);
/* Every call of the application's begins with it. */
static inline void thread_progress(struct session_thread *thread)
{
  if (__builtin_expect(++thread->rounds % THREAD_TIME_ROUNDS == 0, 0) ||
      mailbox_has_mail(&thread->base.mailbox))
    thread_progress_now(thread);
}

struct session_lane {
  struct engine_worker worker;
  struct session_thread *thread;
  struct engine_device *device;
  uint32_t end_count;
  uint32_t spare_polls; /* polls to come that would find nothing, as the last one left nothing */
  struct pst_completion completions[SESSION_POLL_BATCH];
  struct counts counts; /* of the worker */
};

/* lane.c. The lane of a device on a thread: one that is open already, or a new one. */
int lane_open(struct session_thread *thread, struct engine_device *device,
              struct session_lane **lane, struct pst_error *error);
/* Poll once: at most `max` completions into lane->completions, each of which is to be taken or
 * handed over. How many. */
uint32_t lane_poll(struct session_lane *lane, uint32_t max);
/* To the end that it is for. */
void lane_hand_over(struct session_lane *lane, const struct pst_completion *completion);
/* Poll once, and hand all over. */
void lane_progress(struct session_lane *lane);

/* counters.c. Once a second: of the workers of this thread, and soon of their devices. */
void counters_read(struct session_thread *thread, uint64_t now);
/* Before a receiver says its last word. May block for some ms where the device counts drops. */
void counters_read_last(struct session_lane *lane);

#endif
