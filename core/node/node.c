/* SPDX-License-Identifier: Apache-2.0 */
/* Polling, events, sleep. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "node.h"

#define ENTRIES_MIN 64u

/* ---- Events on their way ----------------------------------------------------------- */

/* JOINED, LEFT, ROOM and, for what is under way, a DONE or a MESSAGE each; of each region of the
 * peer's OFFERED and WITHDRAWN. */
uint32_t node_entries(const struct pst_node *node)
{
  return 3 + node->depth + node->messages + 2 * node->offers;
}

static int resize(struct pst_node *node, uint64_t size)
{
  struct node_entry *entries = calloc(size, sizeof(*entries));

  if (!entries)
    return -ENOMEM;
  for (uint32_t i = node->released; i != node->tail; i++)
    entries[i & (size - 1)] = node->entries[i & node->entry_mask];
  free(node->entries);
  node->entries = entries;
  node->entry_mask = (uint32_t)size - 1;
  return 0;
}

/* What was handed out by the last poll is still there when the next ones come. */
static uint64_t size_for(uint64_t reserved, uint64_t least)
{
  uint64_t size = least;

  while (size < 2 * reserved)
    size *= 2;
  return size;
}

int node_reserve(struct pst_node *node, uint32_t entries)
{
  const uint64_t now = node->entries ? (uint64_t)node->entry_mask + 1 : 0;
  const uint64_t size = size_for((uint64_t)node->reserved + entries, now ? now : ENTRIES_MIN);

  if (size > UINT32_MAX / 2)
    return -ENOMEM;
  if (size > now && resize(node, size) < 0)
    return -ENOMEM;
  node->reserved += entries;
  return 0;
}

/* Most peers have gone: their entries need not stay. */
static void shrink(struct pst_node *node)
{
  const uint64_t size = size_for(4 * (uint64_t)node->reserved, ENTRIES_MIN);

  if (node->entries && size < (uint64_t)node->entry_mask + 1)
    resize(node, size); /* out of memory: it stays as it is */
}

void node_unreserve(struct pst_node *node, uint32_t entries)
{
  node->reserved -= entries;
}

struct node_entry *node_tell(struct pst_peer *peer, enum pst_node_event_kind kind)
{
  struct pst_node *node = peer->node;
  struct node_entry *entry = &node->entries[node->tail++ & node->entry_mask];

  *entry = (struct node_entry){.event = {.kind = (uint8_t)kind, .peer = peer, .text = ""}};
  return entry;
}

static void forget_peer(struct pst_node *node, struct pst_peer *peer)
{
  struct pst_peer **at = &node->peers;

  while (*at != peer)
    at = &(*at)->next;
  *at = peer->next;
  node_unreserve(node, node_entries(node) + peer->takens);
  peer_forget(peer);
}

static void forget_silent(struct pst_node *node)
{
  struct pst_peer *next;

  for (struct pst_peer *peer = node->peers; peer; peer = next) {
    next = peer->next;
    if (peer->is_silent && peer->state == NODE_PEER_LEFT)
      forget_peer(node, peer);
  }
}

/* The application has looked at what it got from the last poll. */
static void release_handed(struct pst_node *node)
{
  bool gone = false;

  for (; node->released != node->head; node->released++) {
    struct node_entry *entry = &node->entries[node->released & node->entry_mask];
    struct pst_peer *peer = entry->event.peer;
    if (entry->event.kind == PST_NODE_MESSAGE)
      node->ops->release(node->worker, &entry->token, 1);
    if (entry->event.kind == PST_NODE_LEFT)
      forget_peer(node, peer);
    free(entry->text);
    entry->text = NULL;
    gone |= entry->event.kind == PST_NODE_LEFT;
  }
  if (gone)
    shrink(node);
}

static uint32_t hand_out(struct pst_node *node, struct pst_node_event *events, uint32_t max)
{
  uint32_t n = 0;

  for (; n < max && node->head != node->tail; n++, node->head++) {
    struct node_entry *entry = &node->entries[node->head & node->entry_mask];
    struct pst_peer *peer = entry->event.peer;
    entry->event.context = peer->context;
    /* Its slot is free: slots end in the order of their events. */
    if (entry->event.kind == PST_NODE_DONE)
      rma_take_ended(&peer->rma);
    if (entry->event.kind == PST_NODE_WITHDRAWN)
      remote_drop(peer, remote_find(peer, entry->event.id));
    if (entry->event.kind == PST_NODE_TAKEN)
      peer->takens--, node_unreserve(node, 1);
    if (entry->event.kind == PST_NODE_ROOM)
      peer->is_room_told = false;
    events[n] = entry->event;
  }
  return n;
}

/* ---- Progress ---------------------------------------------------------------------- */

struct pst_peer *node_peer(const struct pst_node *node, uint64_t id)
{
  struct pst_peer *peer = node->peers;

  while (peer && (peer->id != id || peer->state == NODE_PEER_LEFT))
    peer = peer->next;
  return peer;
}

static void device_failed(struct pst_node *node, int status)
{
  char text[160];

  snprintf(text, sizeof(text), "the device of transport %s has failed: %s",
           node->device->plugin->name, strerror(-status));
  pst_log(PST_LOG_ERROR, "%s", text);
  node->has_failed = true;
  for (struct pst_peer *peer = node->peers; peer; peer = peer->next)
    peer_leave(peer, PST_CLOSE_ABORT, status, text);
}

/* Of the worker itself. */
static void take_event(struct pst_node *node, const struct pst_completion *completion)
{
  uint64_t buffer = completion->u.region.buffer;

  if (completion->code == PST_EVENT_DEVICE)
    device_failed(node, completion->status);
  else if (completion->code == PST_EVENT_LENT && buffer < SESSION_LENT_MAX)
    node->lent[buffer] = completion->u.region.region->host;
  else if (completion->code == PST_EVENT_UNLENT && buffer < SESSION_LENT_MAX)
    node->lent[buffer] = NULL;
}

static void poll_worker(struct pst_node *node)
{
  struct pst_completion completions[NODE_POLL_BATCH];
  int n = node->ops->poll(node->worker, completions, NODE_POLL_BATCH);

  for (int i = 0; i < n; i++) {
    const struct pst_completion *completion = &completions[i];
    if (completion->endpoint)
      peer_take((struct pst_peer *)(uintptr_t)completion->endpoint, completion);
    else if (completion->kind == PST_COMPLETION_EVENT)
      take_event(node, completion);
  }
}

static void drain(int fd)
{
  uint64_t ignored;

  (void)!read(fd, &ignored, sizeof(ignored));
}

static void progress(struct pst_node *node)
{
  uint64_t now = 0;

  if (atomic_load_explicit(&node->is_woken, memory_order_acquire)) {
    atomic_store(&node->is_woken, false);
    drain(node->wake_fd);
  }
  poll_worker(node);
  if (atomic_load_explicit(&node->has_mail, memory_order_acquire) ||
      atomic_load_explicit(&node->has_lost_mail, memory_order_relaxed))
    mail_read(node);
  for (struct pst_peer *peer = node->peers; peer; peer = peer->next) {
    if (peer->deadline_ns && !now)
      now = clock_now_ns();
    peer_progress(peer, now);
  }
  forget_silent(node);
}

int pst_node_poll(struct pst_node *node, struct pst_node_event *events, uint32_t max)
{
  uint32_t n;

  release_handed(node);
  progress(node);
  n = hand_out(node, events, max);
  return n == 0 && node->has_failed && !node->peers ? -EIO : (int)n;
}

/* ---- Sleep ------------------------------------------------------------------------- */

static uint64_t next_deadline(const struct pst_node *node)
{
  uint64_t next = 0;

  for (const struct pst_peer *peer = node->peers; peer; peer = peer->next)
    if (peer->deadline_ns && (next == 0 || peer->deadline_ns < next))
      next = peer->deadline_ns;
  return next;
}

/* Readable until what is due has been done, and another time is set. */
static void set_timer(struct pst_node *node)
{
  uint64_t next = next_deadline(node);
  struct itimerspec spec = {.it_value = {.tv_sec = (time_t)(next / PST_NS_PER_S),
                                         .tv_nsec = (long)(next % PST_NS_PER_S)}};

  if (next != node->timer_ns)
    timerfd_settime(node->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
  node->timer_ns = next;
}

static bool has_news(struct pst_node *node)
{
  if (node->head != node->tail || atomic_load(&node->is_woken) || atomic_load(&node->has_mail) ||
      atomic_load(&node->has_lost_mail))
    return true;
  for (const struct pst_peer *peer = node->peers; peer; peer = peer->next)
    if (peer_is_due(peer))
      return true;
  return false;
}

static int arm(struct pst_node *node)
{
  if (has_news(node))
    return -EAGAIN;
  set_timer(node);
  if (node->event_fd < 0)
    return 0;
  return node->ops->arm(node->worker);
}

int pst_node_arm(struct pst_node *node)
{
  return node->event_fd < 0 ? -EOPNOTSUPP : arm(node);
}

int pst_node_fd(const struct pst_node *node)
{
  return node->epoll_fd;
}

int pst_node_wait(struct pst_node *node, const uint64_t *until_ns)
{
  struct epoll_event events[4];
  struct timespec timeout;
  uint64_t until = until_ns ? *until_ns : UINT64_MAX;
  uint64_t now = clock_now_ns();

  if (arm(node) < 0)
    return 0;
  if (node->event_fd < 0 && until > now + NODE_NAP_NS)
    until = now + NODE_NAP_NS;
  if (until <= now)
    return 0;
  timeout.tv_sec = (time_t)((until - now) / PST_NS_PER_S);
  timeout.tv_nsec = (long)((until - now) % PST_NS_PER_S);
  epoll_pwait2(node->epoll_fd, events, 4, until == UINT64_MAX ? NULL : &timeout, NULL);
  return 1;
}

void pst_node_wake(struct pst_node *node)
{
  uint64_t one = 1;

  /* In this order, or a poll between the two would leave it readable for ever. */
  (void)!write(node->wake_fd, &one, sizeof(one));
  atomic_store(&node->is_woken, true);
}
