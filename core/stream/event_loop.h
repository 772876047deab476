/* SPDX-License-Identifier: Apache-2.0 */
/* A thread of a session: its mail, its lanes, its sleep. */
#ifndef PST_STREAM_EVENT_LOOP_H
#define PST_STREAM_EVENT_LOOP_H

#include "engine/mailbox.h"

#include "limits.h"

struct session_end;
struct session_lane;

struct session_thread {
  struct pst_session *session;
  uint32_t index;
  int cpu; /* -1: not pinned */
  struct session_lane **lanes;
  uint32_t lane_count;
  struct session_end **ends;
  uint32_t end_count;
  int epoll_fd;
  uint64_t idle_since_ns; /* 0: not idle */
  uint64_t next_beat_ns;
  uint64_t next_counters_ns;
  uint32_t idle_rounds;
  uint32_t rounds;
  _Alignas(CACHE_LINE) struct mailbox mailbox;
};

/* A transport that cannot wake, a copy, or a fence is looked at this often while the thread
 * sleeps. */
#define THREAD_NAP_NS (100 * PST_NS_PER_US)
#define THREAD_TIME_ROUNDS 1024u /* rounds between looks at the clock */

void thread_progress_now(struct session_thread *thread);
/* Every call of the application's begins with it. */
static inline void thread_progress(struct session_thread *thread)
{
  if (__builtin_expect(++thread->rounds % THREAD_TIME_ROUNDS == 0, 0) ||
      mailbox_has_mail(&thread->mailbox))
    thread_progress_now(thread);
}

#endif
