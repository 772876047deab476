/* SPDX-License-Identifier: Apache-2.0 */
/* The work of a thread on each call: mail, heartbeats, sleep. */

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

#define THREAD_YIELD_ROUNDS 64 /* idle rounds before the core is offered to others */

static void thread_open_mail(struct session_thread *thread)
{
  struct mail *next;

  /* Mail may change an end that had its turn in this round: not before another round may the thread
   * sleep. */
  thread->idle_since_ns = 0;
  for (struct mail *mail = mailbox_take(&thread->base.mailbox); mail; mail = next) {
    struct session_mail *opened = (struct session_mail *)mail;
    next = mail->next;
    control_mail_read(opened);
    mail_free(mail);
  }
}

static void thread_send_beats(struct session_thread *thread)
{
  struct usage usage = {0};

  usage_take(&usage);
  for (uint32_t i = 0; i < thread->end_count; i++) {
    struct session_end *end = thread->ends[i];
    if (end->state != PST_STATE_CONNECTED && end->state != PST_STATE_ENDING)
      continue;
    usage_copy(&end->usage_last, &usage);
    if (end->state == PST_STATE_CONNECTED)
      end_watch_path(end);
    end_read_counters(end);
    if (end->control == END_CONTROL_LIVE)
      control_tell(end, control_beat);
  }
}

static void thread_look_at_clock(struct session_thread *thread)
{
  uint64_t now = clock_now_ns();

  counters_read(thread, now);
  if (now < thread->next_beat_ns)
    return;
  thread->next_beat_ns = now + thread->session->config->control.heartbeat_ns;
  thread_send_beats(thread);
}

void thread_progress_now(struct session_thread *thread)
{
  if (mailbox_has_mail(&thread->base.mailbox))
    thread_open_mail(thread);
  if (thread->rounds % THREAD_TIME_ROUNDS == 0)
    thread_look_at_clock(thread);
}

/* Until when may this thread sleep; 0: not at all. */
static uint64_t thread_sleep_until(const struct session_thread *thread, uint64_t now)
{
  uint64_t until = thread->next_beat_ns > now ? thread->next_beat_ns : now + PST_NS_PER_MS;

  for (uint32_t i = 0; i < thread->end_count; i++) {
    const struct session_end *end = thread->ends[i];
    uint64_t due = end->ops->due_ns(end, now);

    if (due && due <= now)
      return 0;
    if (end->trouble.deadline_ns && !end_is_over(end))
      due = due && due < end->trouble.deadline_ns ? due : end->trouble.deadline_ns;
    if (due && due < until)
      until = due;
  }
  return until;
}

int pst_session_wait(struct pst_session *session, uint32_t index, const uint64_t *until_ns)
{
  uint64_t sleep_after = session->config->threads.sleep_after_ns;
  struct session_thread *thread;
  uint64_t now, until;

  if (index >= session->thread_count)
    return -EINVAL;
  thread = session->threads[index];
  if (++thread->idle_rounds % THREAD_YIELD_ROUNDS == 0)
    sched_yield();
  if (sleep_after == 0)
    return 0;
  now = clock_now_ns();
  if (thread->idle_since_ns == 0) {
    thread->idle_since_ns = now;
    return 0;
  }
  if (now - thread->idle_since_ns < sleep_after)
    return 0;
  thread_look_at_clock(thread);
  until = thread_sleep_until(thread, now);
  if (until_ns && *until_ns < until)
    until = *until_ns;
  return engine_thread_sleep(&thread->base, now, until);
}

void pst_session_wake(struct pst_session *session)
{
  for (uint32_t i = 0; i < session->thread_count; i++)
    mailbox_wake(&session->threads[i]->base.mailbox);
}
