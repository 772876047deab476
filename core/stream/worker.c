/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread does on each call: mail, polling of lanes, sleep. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "session.h"

#define THREAD_YIELD_ROUNDS 64 /* idle rounds before the core is offered to others */
#define LANE_POLL_ENDS 64      /* ends that one poll of their lane serves, where it has more */
/* A transport that cannot wake, a copy, or a fence is looked at this often while
 * the thread sleeps. */
#define THREAD_NAP_NS (100 * PST_NS_PER_US)

void thread_mail(struct session_thread *thread, struct session_mail *mail)
{
  uint64_t one = 1;

  mail->next = NULL;
  pthread_mutex_lock(&thread->mail_lock);
  if (thread->mail_last)
    thread->mail_last->next = mail;
  else
    thread->mail_first = mail;
  thread->mail_last = mail;
  pthread_mutex_unlock(&thread->mail_lock);
  atomic_store_explicit(&thread->has_mail, true, memory_order_release);
  (void)!write(thread->wake_fd, &one, sizeof(one));
}

static void open_mail(struct session_thread *thread)
{
  struct session_mail *mail, *next;

  /* It may change an end that had its turn in this round: not before another may the
   * thread sleep. */
  thread->idle_since_ns = 0;
  atomic_store_explicit(&thread->has_mail, false, memory_order_relaxed);
  pthread_mutex_lock(&thread->mail_lock);
  mail = thread->mail_first;
  thread->mail_first = thread->mail_last = NULL;
  pthread_mutex_unlock(&thread->mail_lock);
  for (; mail; mail = next) {
    next = mail->next;
    end_mail(mail->end, mail);
    mail_free(mail);
  }
}

void thread_drop_mail(struct session_thread *thread)
{
  struct session_mail *mail, *next;

  for (mail = thread->mail_first; mail; mail = next) {
    next = mail->next;
    mail_free(mail);
  }
  thread->mail_first = thread->mail_last = NULL;
}

static void send_beats(struct session_thread *thread)
{
  struct session_usage usage = {0};

  usage_take(&usage);
  for (uint32_t i = 0; i < thread->end_count; i++) {
    struct session_end *end = thread->ends[i];
    struct control_totals totals;
    if (end->is_foreign && end->state == PST_STATE_CONNECTED)
      count_read(end);
    if (end->state == PST_STATE_CONNECTED || end->state == PST_STATE_ENDING)
      usage_copy(&end->usage_last, &usage);
    if (end->control_over || end->started_ns == 0)
      continue;
    count_read(end);
    end_totals(end, &totals);
    control_beat(end->session->control, end, &totals);
  }
}

static void look_at_clock(struct session_thread *thread)
{
  uint64_t now = clock_now_ns();

  if (now < thread->next_beat_ns)
    return;
  thread->next_beat_ns = now + thread->session->config->control.heartbeat_ns;
  send_beats(thread);
}

void thread_progress_now(struct session_thread *thread)
{
  if (atomic_load_explicit(&thread->has_mail, memory_order_acquire))
    open_mail(thread);
  if (thread->rounds % THREAD_TIME_ROUNDS == 0)
    look_at_clock(thread);
}

/* The memory into which the thread's end i copies what this lane is lent, or NULL. */
static const struct session_memory *copies_lent(const struct session_lane *lane, uint32_t i)
{
  const struct pst_receiver *receiver = (const struct pst_receiver *)lane->thread->ends[i];

  if (receiver->end.is_sender || receiver->end.is_one_sided || receiver->end.lane != lane ||
      !receiver->landing || !receiver->landing->staged)
    return NULL;
  return receiver->landing->memory;
}

/* The memory cannot pin what this lane is lent, though it would. */
static void slice_copies(const struct session_lane *lane, const struct session_memory *memory)
{
  if (!(memory->plugin->memory->capabilities & PST_MEMORY_CAP_HOST_REGISTER))
    return;
  for (uint32_t i = 0; i < lane->thread->end_count; i++)
    if (copies_lent(lane, i) == memory) {
      const struct pst_receiver *receiver = (const struct pst_receiver *)lane->thread->ends[i];
      landing_slice(receiver->landing, receiver->end.config->message);
    }
}

/* Staged receivers copy out of lent memory: pinned, that runs at full speed. */
static void take_lent(struct session_lane *lane, uint64_t buffer, const struct pst_region *region)
{
  if (buffer == 0 || buffer >= SESSION_LENT_MAX) {
    pst_log(PST_LOG_ERROR, "%s lends more than %d regions: a bug of that transport",
            lane->device->plugin->name, SESSION_LENT_MAX - 1);
    return;
  }
  struct session_lent *lent = &lane->lent[buffer];
  *lent = (struct session_lent){.region = region, .host = region->host, .length = region->length};
  for (uint32_t i = 0; i < lane->thread->end_count && i < 64; i++) {
    const struct session_memory *memory = copies_lent(lane, i);
    bool again = false;
    for (uint32_t k = 0; k < i && memory; k++)
      again |= copies_lent(lane, k) == memory;
    if (!memory || again)
      continue;
    if (memory->plugin->memory->host_register(memory->memory, lent->host, lent->length) == 0)
      lent->pinned |= UINT64_C(1) << i;
    else
      slice_copies(lane, memory);
  }
}

void lane_forget_lent(struct session_lane *lane, uint64_t buffer)
{
  struct session_lent *lent = &lane->lent[buffer];

  for (uint32_t i = 0; i < lane->thread->end_count && i < 64; i++) {
    const struct session_memory *memory = copies_lent(lane, i);
    if (memory && (lent->pinned >> i & 1))
      memory->plugin->memory->host_unregister(memory->memory, lent->host, lent->length);
  }
  *lent = (struct session_lent){0};
}

static void take_event(struct session_lane *lane, const struct pst_completion *completion)
{
  struct session_end *end = (struct session_end *)(uintptr_t)completion->endpoint;
  uint64_t buffer = completion->u.region.buffer;

  switch (completion->code) {
  case PST_EVENT_CONNECTED:
    end_connected(end);
    break;
  case PST_EVENT_DISCONNECTED:
    end_gone(end, completion->status);
    break;
  case PST_EVENT_READDRESS: {
    char bytes[CONTROL_ADDRESS_MAX];
    struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
    if (end->session->control && lane->ops->endpoint_address(end->endpoint, &blob) == 0)
      control_readdress(end->session->control, end, &blob);
    break;
  }
  case PST_EVENT_CLOSED:
    end->endpoint_closed = true;
    if (end->is_one_sided && end->is_sender)
      initiator_left((struct pst_initiator *)end);
    break;
  case PST_EVENT_LENT:
    take_lent(lane, buffer, completion->u.region.region);
    break;
  case PST_EVENT_UNLENT:
    if (buffer < SESSION_LENT_MAX)
      lane_forget_lent(lane, buffer);
    break;
  case PST_EVENT_DEVICE:
    for (uint32_t i = 0; i < lane->thread->end_count; i++)
      if (lane->thread->ends[i]->lane == lane)
        end_device_failed(lane->thread->ends[i], completion->status);
    break;
  }
}

/* What is no message. */
static void take_told(struct session_lane *lane, const struct pst_completion *completion)
{
  struct session_end *end = (struct session_end *)(uintptr_t)completion->endpoint;

  if (completion->kind != PST_COMPLETION_DONE)
    take_event(lane, completion);
  else if (end->is_one_sided)
    initiator_done((struct pst_initiator *)end, completion);
  else
    sender_done((struct pst_sender *)end, completion);
}

int lane_poll(struct session_lane *lane, struct session_end *mine, uint32_t max)
{
  struct pst_completion *completions = lane->completions;
  int first = 0;

  if (__builtin_expect(lane->spare_polls > 0, 0)) {
    lane->spare_polls--;
    lane->seen = false;
    return 0;
  }
  if (max > SESSION_POLL_BATCH)
    max = SESSION_POLL_BATCH;
  int n = lane->ops->poll(lane->worker, completions, max);

  /* It looks at every end, and every end asks for it: with thousands of them, once
   * for each would cost their square. Cut short, there is more to be had. */
  if (n < (int)max)
    lane->spare_polls = lane->end_count / LANE_POLL_ENDS;
  if (n > 0)
    lane->thread->idle_since_ns = 0;
  /* Mostly they are all messages of the end that asks, behind what a sender is told. */
  while (first < n && completions[first].kind != PST_COMPLETION_MESSAGE)
    take_told(lane, &completions[first++]);
  int kept = first;
  while (kept < n && completions[kept].kind == PST_COMPLETION_MESSAGE &&
         completions[kept].endpoint == (uintptr_t)mine)
    kept++;
  for (int i = kept; i < n; i++) {
    struct pst_completion *completion = &completions[i];

    if (completion->kind != PST_COMPLETION_MESSAGE)
      take_told(lane, completion);
    else if (completion->endpoint != (uintptr_t)mine)
      receiver_pend((struct pst_receiver *)(uintptr_t)completion->endpoint, completion);
    else if (kept++ != i)
      completions[kept - 1] = *completion;
  }
  lane->seen = n > 0;
  lane->messages = &completions[first];
  return kept - first;
}

/* ---- Sleep ------------------------------------------------------------------ */

/* Until when may this thread sleep; 0: not at all. */
static uint64_t sleep_until(struct session_thread *thread, uint64_t now)
{
  uint64_t until = thread->next_beat_ns > now ? thread->next_beat_ns : now + PST_NS_PER_MS;

  for (uint32_t i = 0; i < thread->end_count; i++) {
    struct session_end *end = thread->ends[i];
    uint64_t due = 0;

    if (end->is_one_sided) {
      if (end->is_sender && initiator_has_news((const struct pst_initiator *)end))
        return 0;
    } else if (end->is_sender) {
      const struct pst_sender *sender = (const struct pst_sender *)end;
      due = sender->paced ? pace_next_ns(&sender->pace) : 0;
      if (sender_is_staging(sender) && (due == 0 || due > now + THREAD_NAP_NS))
        due = now + THREAD_NAP_NS;
      if (sender->paced && due <= now) /* it came due since the acquire */
        return 0;
    } else {
      const struct pst_receiver *receiver = (const struct pst_receiver *)end;
      const struct landing *landing = receiver->landing;
      if (receiver->pending_head != receiver->pending_tail)
        return 0;
      if (receiver->after.head != receiver->after.tail ||
          landing->copy_head != landing->copy_tail || receiver->check_waits ||
          tensors_out(receiver))
        due = now + THREAD_NAP_NS;
      else
        due = receiver_due_ns(receiver);
      uint64_t frame_due = receiver->frames ? frames_due_ns(receiver->frames, now) : 0;
      if (frame_due && frame_due <= now)
        return 0;
      if (frame_due && (due == 0 || frame_due < due))
        due = frame_due;
    }
    if (end->gone_deadline_ns && end->state != PST_STATE_FAILED && end->state != PST_STATE_ENDED)
      due = due && due < end->gone_deadline_ns ? due : end->gone_deadline_ns;
    if (due && due < until)
      until = due;
  }
  return until;
}

static bool arm_lanes(struct session_thread *thread, uint64_t now, uint64_t *until)
{
  for (uint32_t i = 0; i < thread->lane_count; i++) {
    struct session_lane *lane = thread->lanes[i];
    if (lane->event_fd < 0) {
      if (*until > now + THREAD_NAP_NS)
        *until = now + THREAD_NAP_NS;
    } else if (lane->ops->arm(lane->worker) == -EAGAIN) {
      return false;
    }
  }
  return true;
}

int pst_session_wait(struct pst_session *session, uint32_t worker, const uint64_t *until_ns)
{
  uint64_t sleep_after = session->config->workers.sleep_after_ns;
  struct session_thread *thread;
  struct epoll_event events[8];
  uint64_t now, until, drained;

  if (worker >= session->thread_count)
    return -EINVAL;
  thread = session->threads[worker];
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
  look_at_clock(thread);
  until = sleep_until(thread, now);
  if (until_ns && *until_ns < until)
    until = *until_ns;
  if (until <= now || !arm_lanes(thread, now, &until) ||
      atomic_load_explicit(&thread->has_mail, memory_order_acquire))
    return 0;
  struct timespec timeout = {.tv_sec = (time_t)((until - now) / PST_NS_PER_S),
                             .tv_nsec = (long)((until - now) % PST_NS_PER_S)};
  int n = epoll_pwait2(thread->epoll_fd, events, 8, &timeout, NULL);
  for (int i = 0; i < n; i++)
    if (events[i].data.fd == thread->wake_fd)
      (void)!read(thread->wake_fd, &drained, sizeof(drained));
  return 1;
}

void pst_session_wake(struct pst_session *session)
{
  uint64_t one = 1;

  for (uint32_t i = 0; i < session->thread_count; i++)
    (void)!write(session->threads[i]->wake_fd, &one, sizeof(one));
}

/* ---- The end ---------------------------------------------------------------- */

static bool poll_closing(struct pst_session *session, struct session_end **ends, uint32_t count)
{
  bool open = false;

  for (uint32_t t = 0; t < session->thread_count; t++)
    for (uint32_t l = 0; l < session->threads[t]->lane_count; l++) {
      struct session_lane *lane = session->threads[t]->lanes[l];
      int n = lane->ops->poll(lane->worker, lane->completions, SESSION_POLL_BATCH);
      for (int i = 0; i < n; i++) {
        const struct pst_completion *completion = &lane->completions[i];
        if (completion->kind == PST_COMPLETION_MESSAGE)
          lane->ops->release(lane->worker, &completion->u.message.token, 1);
        else if (completion->kind == PST_COMPLETION_EVENT)
          take_event(lane, completion);
      }
    }
  for (uint32_t i = 0; i < count; i++)
    open |= ends[i]->endpoint && !ends[i]->endpoint_closed;
  return open;
}

void lanes_close_endpoints(struct pst_session *session)
{
  uint64_t deadline = clock_now_ns() + PST_NS_PER_S;
  uint64_t give_up = deadline + PST_NS_PER_S;

  for (uint32_t t = 0; t < session->thread_count; t++)
    for (uint32_t e = 0; e < session->threads[t]->end_count; e++) {
      struct session_end *end = session->threads[t]->ends[e];
      end_close_endpoint(end, end->state == PST_STATE_ENDED ? PST_CLOSE_DRAIN : PST_CLOSE_ABORT,
                         deadline);
    }
  for (uint32_t t = 0; t < session->thread_count; t++) {
    struct session_thread *thread = session->threads[t];
    while (poll_closing(session, thread->ends, thread->end_count)) {
      if (clock_now_ns() > give_up) {
        pst_log(PST_LOG_WARN,
                "an endpoint did not close within its deadline: a bug of its transport");
        return;
      }
      sched_yield();
    }
  }
}
