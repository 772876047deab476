/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a node on their way to the application: a ring with room for all that may happen. */
#ifndef PST_NODE_EVENTS_H
#define PST_NODE_EVENTS_H

#include <stdint.h>

#include <penstock/penstock.h>

/* An event, and what goes once the application has looked at it. */
struct node_entry {
  struct pst_node_event event;
  uint64_t token; /* MESSAGE */
  char *text;     /* its own, or NULL */
};

/* An operation that had ended when it was posted. Events that follow wait in `entries`. */
struct node_completed {
  uint64_t cookie;
  struct pst_peer *peer;
  uint64_t length;
  uint8_t op;
};

/* [released, head) were handed out by the last poll, [head, tail) wait. */
struct node_events {
  struct node_entry *entries;
  struct node_completed *completed; /* a FIFO: [completed_head, completed_tail) wait */
  uint32_t completed_head, completed_tail;
  uint32_t mask;     /* of both */
  uint32_t reserved; /* entries that may be needed at a time */
  uint32_t released, head, tail;
  /* Room of the application's, while it polls: none while others wait in the ring. */
  struct pst_node_event *into, *into_end;
};

/* Makes room for `count` more events, until events_unreserve(). Returns 0 or -ENOMEM. */
int events_reserve(struct node_events *events, uint32_t count);
void events_unreserve(struct node_events *events, uint32_t count);
/* Give back the room of peers that have gone. */
void events_shrink(struct node_events *events);
void events_free(struct node_events *events);

/* The next entry; room for it is reserved. */
struct node_entry *events_add(struct node_events *events, struct pst_peer *peer,
                              enum pst_node_event_kind kind);

/* Each field is written once: the application's loads need not wait for several stores. */
static inline void events_write_done(struct pst_node_event *event, struct pst_peer *peer,
                                     void *context, uint8_t op, uint64_t cookie, uint64_t length)
{
  event->kind = PST_NODE_DONE;
  event->op = op;
  event->reserved0 = 0;
  event->status = 0;
  event->peer = peer;
  event->context = context;
  event->cookie = cookie;
  event->length = length;
  event->id = 0;
  event->access = 0;
  event->bytes = NULL;
  event->text = "";
}

static inline struct node_completed *events_completed_at(const struct node_events *events,
                                                         uint32_t at)
{
  return &events->completed[at & events->mask];
}

static inline struct node_entry *events_at(const struct node_events *events, uint32_t at)
{
  return &events->entries[at & events->mask];
}

#endif
