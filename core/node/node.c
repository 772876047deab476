/* SPDX-License-Identifier: Apache-2.0 */
/* Polling, events, sleep. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>

#include "peer_rma.h"

static void node_forget_silent(struct pst_node *node)
{
  struct pst_peer *next;

  for (struct pst_peer *peer = node->peers; peer; peer = next) {
    next = peer->next;
    if (peer->is_silent && peer->state == NODE_PEER_LEFT) {
      node->silent--;
      peer_forget(peer);
    }
  }
}

/* The application has looked at what it got from the last poll. */
static void node_release_handed(struct pst_node *node)
{
  struct node_events *events = &node->events;
  bool gone = false;

  for (; events->released != events->head; events->released++) {
    struct node_entry *entry = events_at(events, events->released);
    struct pst_peer *peer = entry->event.peer;
    if (entry->event.kind == PST_NODE_MESSAGE)
      engine_release(&node->worker, &entry->token, 1);
    if (entry->event.kind == PST_NODE_LEFT)
      peer_forget(peer);
    free(entry->text);
    entry->text = NULL;
    gone |= entry->event.kind == PST_NODE_LEFT;
  }
  if (gone)
    events_shrink(events);
}

static void node_hand_out(struct pst_node *node, const struct pst_node_event *end)
{
  struct node_events *events = &node->events;

  for (; events->into != end && events->head != events->tail; events->head++) {
    struct node_entry *entry = events_at(events, events->head);
    struct pst_peer *peer = entry->event.peer;
    entry->event.context = peer->context;
    /* The operation's slot is free: slots end in the order of their events. */
    if (entry->event.kind == PST_NODE_DONE)
      rma_take_ended(&peer->rma);
    if (entry->event.kind == PST_NODE_WITHDRAWN)
      remote_drop(peer, remote_find(peer, entry->event.id));
    if (entry->event.kind == PST_NODE_TAKEN)
      peer->takens--, events_unreserve(events, 1);
    if (entry->event.kind == PST_NODE_ROOM)
      peer->is_room_told = false;
    *events->into++ = entry->event;
  }
}

/* DONEs of operations that had ended when they were posted. Returns how many. */
static inline uint32_t node_take_completed(struct node_events *events, struct pst_node_event *into,
                                           uint32_t max)
{
  const struct node_completed *const completed = events->completed;
  const uint32_t head = events->completed_head, there = events->completed_tail - head;
  const uint32_t count = there < max ? there : max, mask = events->mask;

  for (uint32_t i = 0; i < count; i++) {
    const struct node_completed *one = &completed[(head + i) & mask];
    struct pst_peer *peer = one->peer;
    events_write_done(&into[i], peer, peer->context, one->op, one->cookie, one->length);
    peer->rma.requests--;
  }
  events->completed_head = head + count;
  return count;
}

/* ---- Progress ---------------------------------------------------------------------- */

struct pst_peer *node_peer(const struct pst_node *node, uint64_t id)
{
  struct pst_peer *peer = node->peers;

  while (peer && (peer->id != id || peer->state == NODE_PEER_LEFT))
    peer = peer->next;
  return peer;
}

static void node_leave_all(struct pst_node *node, int status, const char *text)
{
  pst_log(PST_LOG_ERROR, "%s", text);
  for (struct pst_peer *peer = node->peers; peer; peer = peer->next)
    peer_leave(peer, PST_CLOSE_ABORT, status, text);
}

static void node_device_failed(struct engine_worker *worker, int status)
{
  struct pst_node *node =
      (struct pst_node *)(void *)((char *)worker - offsetof(struct pst_node, worker));
  char text[160];

  snprintf(text, sizeof(text), "the device of transport %s has failed: %s",
           node->device->plugin->name, strerror(-status));
  node->has_failed = true;
  node_leave_all(node, status, text);
}

const struct engine_events node_worker_events = {.connected = peer_heard_connected,
                                                 .disconnected = peer_heard_disconnected,
                                                 .readdressed = peer_heard_readdressed,
                                                 .closed = peer_heard_closed,
                                                 .device_failed = node_device_failed};

/* A message may tell of what its peer wrote before it. */
static __attribute__((noinline)) void
node_make_visible(struct pst_node *node, const struct pst_completion *completions, int n)
{
  char text[160];
  int i = 0;

  while (i < n && completions[i].kind != PST_COMPLETION_MESSAGE)
    i++;
  int rc = i < n ? area_flush_offered(node) : 0;
  if (rc >= 0)
    return;
  snprintf(text, sizeof(text), "the device cannot see what peers wrote into its memory: %s",
           strerror(-rc));
  node_leave_all(node, rc, text);
}

static void node_poll_worker(struct pst_node *node)
{
  struct pst_completion completions[NODE_POLL_BATCH];
  int n = node->worker.ops->poll(node->worker.handle, completions, NODE_POLL_BATCH);

  if (node->has_flush)
    node_make_visible(node, completions, n);
  for (int i = 0; i < n; i++) {
    const struct pst_completion *completion = &completions[i];
    struct pst_peer *peer = (struct pst_peer *)(uintptr_t)completion->endpoint;
    if (completion->kind == PST_COMPLETION_MESSAGE)
      peer_take_message(peer, completion);
    else if (completion->kind == PST_COMPLETION_DONE)
      peer_take_done(peer, completion);
    else
      engine_worker_take_event(&node->worker, completion);
  }
}

static void node_progress(struct pst_node *node)
{
  uint64_t now = 0;

  mailbox_drain(&node->thread.mailbox);
  node_poll_worker(node);
  if (mailbox_has_mail(&node->thread.mailbox))
    mail_read(node);
  for (struct pst_peer *peer = node->peers; peer; peer = peer->next) {
    if (peer->deadline_ns && !now)
      now = clock_now_ns();
    peer_progress(peer, now);
  }
  if (node->silent)
    node_forget_silent(node);
}

/* Behind the first `completed` events. */
static __attribute__((noinline)) int node_poll_all(struct pst_node *node,
                                                   struct pst_node_event *events, uint32_t max,
                                                   uint32_t completed)
{
  const struct pst_node_event *end = max ? events + max : events;
  struct node_events *ring = &node->events;
  int count;

  if (ring->released != ring->head)
    node_release_handed(node);
  ring->into = completed ? events + completed : events;
  if (ring->head != ring->tail)
    node_hand_out(node, end);
  ring->into_end = ring->head == ring->tail ? events + max : ring->into;
  node_progress(node);
  if (ring->head != ring->tail)
    node_hand_out(node, end);
  count = (int)(ring->into - events);
  ring->into = ring->into_end = NULL;
  return count == 0 && node->has_failed && !node->peers ? -EIO : count;
}

int pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max)
{
  struct node_events *ring = &node->events;
  const uint32_t completed = node_take_completed(ring, events, max);

  /* Return completed operations at once, unless the other events have waited for long. */
  if (completed && ring->released == ring->head && ++node->unpolled % NODE_UNPOLLED_MAX)
    return (int)completed;
  return node_poll_all(node, events, max, completed);
}

/* ---- Sleep ------------------------------------------------------------------------- */

static uint64_t node_next_deadline(const struct pst_node *node)
{
  uint64_t next = 0;

  for (const struct pst_peer *peer = node->peers; peer; peer = peer->next)
    if (peer->deadline_ns && (next == 0 || peer->deadline_ns < next))
      next = peer->deadline_ns;
  return next;
}

/* Readable until what is due has been done, and another time is set. */
static void node_set_timer(struct pst_node *node)
{
  uint64_t next = node_next_deadline(node);
  struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(next / PST_NS_PER_S),
                                         .tv_nsec = (long)(next % PST_NS_PER_S)}};

  if (next != node->timer_ns)
    timerfd_settime(node->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
  node->timer_ns = next;
}

static bool node_has_news(struct pst_node *node)
{
  if (node->events.completed_head != node->events.completed_tail ||
      node->events.head != node->events.tail || atomic_load(&node->thread.mailbox.is_woken) ||
      mailbox_has_mail(&node->thread.mailbox))
    return true;
  for (const struct pst_peer *peer = node->peers; peer; peer = peer->next)
    if (peer_is_due(peer))
      return true;
  return false;
}

int pst_node_arm(struct pst_node *node)
{
  if (node->worker.event_fd < 0)
    return -EOPNOTSUPP;
  if (node_has_news(node))
    return -EAGAIN;
  node_set_timer(node);
  return engine_thread_arm(&node->thread);
}

int pst_node_fd(const struct pst_node *node)
{
  return node->thread.epoll_fd;
}

int pst_node_wait(struct pst_node *node, const uint64_t *until_ns)
{
  if (node_has_news(node))
    return 0;
  node_set_timer(node);
  return engine_thread_sleep(&node->thread, clock_now_ns(), until_ns ? *until_ns : UINT64_MAX);
}

void pst_node_wake(struct pst_node *node)
{
  mailbox_wake(&node->thread.mailbox);
}
