/* SPDX-License-Identifier: Apache-2.0 */
/* Completions become views, and their sequences are accounted. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "receiver.h"

/* Growing happens a few times in a stream's life: at most all slots can be out. */
void receiver_pend(struct session_end *end, const struct pst_completion *completion)
{
  struct pst_receiver *receiver = (struct pst_receiver *)end;
  const struct session_lane *lane = receiver->end.lane;
  struct fifo *pending = &receiver->pending;

  /* Nobody takes it any more, and those who share the ring need the slot. */
  if (receiver->end.state == PST_STATE_FAILED || receiver->phase != RECEIVER_TAKING) {
    engine_release(&lane->worker, &completion->u.message.token, 1);
    return;
  }
  if (fifo_reserve(pending, sizeof(*completion), 1) < 0) {
    pst_log(PST_LOG_ERROR, "stream %s: out of memory for arrived messages", receiver->end.name);
    end_gone(&receiver->end, -ENOMEM);
    return;
  }
  ((struct pst_completion *)pending->items)[fifo_at(pending, pending->tail++)] = *completion;
}

/* NULL: none is left. */
static const struct pst_completion *arrivals_take_pending(struct fifo *pending)
{
  const struct pst_completion *items = pending->items;

  return fifo_count(pending) ? &items[fifo_at(pending, pending->head++)] : NULL;
}

_Static_assert(PST_VIEW_META == PST_HAS_META >> 1 && PST_VIEW_TIME == PST_HAS_TIME >> 1 &&
                   PST_VIEW_MARKED == PST_IS_MARKED >> 1 && PST_VIEW_RESTART == PST_IS_RESTART >> 1,
               "taken over by a shift");

#define VIEW_FLAGS_TAKEN                                                                           \
  (PST_VIEW_META | PST_VIEW_TIME | (uint32_t)PST_VIEW_MARKED | (uint32_t)PST_VIEW_RESTART)

static inline void arrivals_make_view(const struct pst_region *region,
                                      const struct pst_completion *message, struct pst_view *view)
{
  uint64_t offset = message->u.message.offset;
  uint32_t flags = message->flags >> 1 & VIEW_FLAGS_TAKEN;

  if (message->status)
    flags |= PST_VIEW_DAMAGED;
  view->address = region->address + offset;
  view->host = region->host ? (char *)region->host + offset : NULL;
  view->length = message->u.message.length;
  view->flags = flags;
  view->sequence = message->u.message.sequence;
  view->meta = message->u.message.meta;
  view->time_ns = message->u.message.time_ns;
  view->token = message->u.message.token;
  view->reserved = 0;
}

static void arrivals_refuse_buffer(struct pst_receiver *receiver)
{
  pst_log(PST_LOG_ERROR,
          "stream %s: transport %s delivers from a buffer that it has not lent, or that is of "
          "another kind or device than memory %s: a bug of it",
          receiver->end.name, receiver->ring->lane->device->plugin->name,
          receiver->ring->memory->plugin->name);
  end_gone(&receiver->end, -EIO);
}

_Static_assert(offsetof(struct pst_completion, u.message.time_ns) -
                       offsetof(struct pst_completion, u.message.meta) ==
                   offsetof(struct pst_view, time_ns) - offsetof(struct pst_view, meta),
               "copied at once");

/* Returns the bytes before `endpoint` as one number: kind, code, flags, status. */
static inline uint64_t arrivals_head_of(const struct pst_completion *message)
{
  uint64_t head;
  memcpy(&head, message, sizeof(head));
  return head;
}

/* Two numbers, which are stored at once. */
typedef uint64_t arrivals_pair __attribute__((vector_size(16)));
_Static_assert(offsetof(struct pst_view, host) == offsetof(struct pst_view, address) + 8 &&
                   offsetof(struct pst_view, reserved) == offsetof(struct pst_view, token) + 8,
               "address and host; token and what is reserved");

/* Members that all messages of a row have in common, and the parts of their views. */
struct arrivals_row {
  uint64_t head, endpoint, flags; /* the view's, as they stand above its length */
  uint32_t buffer;
  arrivals_pair base, reads; /* address and host; what the CPU cannot read has no address for it */
};

/* True if the completion is of the row's receiver, whole, in the row's buffer, and the next of the
 * stream. */
static inline bool arrivals_is_next(const struct arrivals_row *row,
                                    const struct pst_completion *message, uint64_t next)
{
  return arrivals_head_of(message) == row->head && message->endpoint == row->endpoint &&
         message->u.message.sequence == next && message->u.message.buffer == row->buffer;
}

/* Returns its length. */
static inline __attribute__((always_inline)) uint64_t
arrivals_view_next(const struct arrivals_row *row, const struct pst_completion *message,
                   uint64_t next, struct pst_view *view)
{
  const uint64_t offset = message->u.message.offset, length = message->u.message.length;
  const arrivals_pair at = (row->base + (arrivals_pair){offset, offset}) & row->reads;
  const arrivals_pair token = {message->u.message.token, 0};

  memcpy(&view->address, &at, sizeof(at));
  memcpy(&view->length, &(uint64_t){length | row->flags}, sizeof(uint64_t));
  view->sequence = next;
  memcpy(&view->meta, &message->u.message.meta,
         offsetof(struct pst_view, token) - offsetof(struct pst_view, meta));
  memcpy(&view->token, &token, sizeof(token));
  return length;
}

/* The first has a sequence. The leading messages of the receiver that are the next of the stream,
 * in order, whole and out of one buffer, as most are: looked at and made views in one go, by fours
 * as long as there are so many. Returns how many. */
static __attribute__((noinline)) uint32_t arrivals_accept_row(struct pst_receiver *receiver,
                                                              const struct pst_region *region,
                                                              const struct pst_completion *messages,
                                                              uint32_t n, struct pst_view *view)
{
  struct seq_window *window = &receiver->window;
  const struct pst_completion *message = messages, *const end = messages + n;
  const struct pst_completion *const fours = messages + n / 4 * 4;
  const uintptr_t host = (uintptr_t)region->host;
  const uint64_t flags = messages->flags >> 1 & VIEW_FLAGS_TAKEN;
  const struct arrivals_row row = {.head = arrivals_head_of(messages),
                                   .endpoint = messages->endpoint,
                                   .flags = flags << 32,
                                   .buffer = messages->u.message.buffer,
                                   .base = {region->address, host},
                                   .reads = {UINT64_MAX, host ? UINT64_MAX : 0}};
  uint64_t next = window->next, bytes = 0;

  if (messages->status || window->contiguous != next)
    return 0;
  for (; message != fours && arrivals_is_next(&row, &message[0], next) &&
         arrivals_is_next(&row, &message[1], next + 1) &&
         arrivals_is_next(&row, &message[2], next + 2) &&
         arrivals_is_next(&row, &message[3], next + 3);
       message += 4, view += 4, next += 4) {
    bytes += arrivals_view_next(&row, &message[0], next, &view[0]);
    bytes += arrivals_view_next(&row, &message[1], next + 1, &view[1]);
    bytes += arrivals_view_next(&row, &message[2], next + 2, &view[2]);
    bytes += arrivals_view_next(&row, &message[3], next + 3, &view[3]);
  }
  for (; message != end && arrivals_is_next(&row, message, next); message++, view++, next++)
    bytes += arrivals_view_next(&row, message, next, view);
  window->contiguous = window->next = next;
  receiver->polled_bytes += bytes;
  return (uint32_t)(message - messages);
}

/* Arrived messages of the receiver become views, after the first `count`, but for duplicates. What
 * else the completions say, others hear. Returns how many views there are then. */
static uint32_t arrivals_accept(struct pst_receiver *receiver,
                                const struct pst_completion *completions, uint32_t n,
                                struct pst_view *views, uint32_t count)
{
  const struct receive_ring *ring = receiver->ring;
  const struct pst_region *region = &ring->region.mem;
  uint32_t buffer = 0;

  for (const struct pst_completion *message = completions, *end = completions + n; message < end;
       message++) {
    if (message->kind != PST_COMPLETION_MESSAGE || message->endpoint != (uintptr_t)&receiver->end) {
      lane_hand_over(receiver->end.lane, message);
      buffer = 0; /* what is lent may be another's now */
      region = &ring->region.mem;
      continue;
    }
    if (message->u.message.buffer != buffer) { /* mostly all are of one */
      buffer = message->u.message.buffer;
      region = buffer
                   ? engine_lent_find(&ring->lane->worker, buffer, ring->views, ring->ops->copies)
                   : &ring->region.mem;
    }
    if (!region) {
      arrivals_refuse_buffer(receiver);
      continue;
    }
    uint32_t row = message->flags & PST_HAS_SEQUENCE
                       ? arrivals_accept_row(receiver, region, message, (uint32_t)(end - message),
                                             &views[count])
                       : 0;
    if (row) {
      count += row;
      message += row - 1;
      continue;
    }
    arrivals_make_view(region, message, &views[count]);
    if (!(message->flags & PST_HAS_SEQUENCE)) {
      views[count].sequence = receiver->delivered + count;
    } else if (seq_window_see(&receiver->window, message->u.message.sequence) == SEQ_DUPLICATE) {
      engine_release(&ring->lane->worker, &message->u.message.token, 1);
      continue;
    }
    receiver->polled_bytes += message->u.message.length;
    count++;
  }
  return count;
}

uint32_t receiver_gather(struct pst_receiver *receiver, struct pst_view *views, uint32_t max,
                         uint32_t enough)
{
  struct session_lane *lane = receiver->end.lane;
  const struct pst_completion *message;
  uint32_t count = 0;

  while (count < max && (message = arrivals_take_pending(&receiver->pending)))
    count = arrivals_accept(receiver, message, 1, views, count);
  for (uint32_t n = enough; count < max && n >= enough;) {
    n = lane_poll(lane, max - count);
    count = arrivals_accept(receiver, lane->completions, n, views, count);
  }
  return count;
}

void receiver_note_arrived(struct pst_receiver *receiver, uint64_t messages)
{
  uint64_t span = receiver->window.next - receiver->window.base;

  if (receiver->end.started_ns == 0)
    stat_set(receiver->end.started_ns, clock_now_ns());
  receiver->quiet_since_ns = 0;
  receiver->was_silent = false;
  stat_set(receiver->span, span);
  stat_set(receiver->unseen, receiver->is_numbered ? span - messages : 0);
}

void receiver_see_times(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    interarrival_see(receiver->intervals, views[i].time_ns);
}

void receiver_give_up_pending(struct pst_receiver *receiver)
{
  const struct session_lane *lane = receiver->end.lane;
  const struct pst_completion *message;

  if (receiver->ring->ops->give_up)
    receiver->ring->ops->give_up(receiver);
  while ((message = arrivals_take_pending(&receiver->pending)))
    engine_release(&lane->worker, &message->u.message.token, 1);
}
