/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An endpoint owns a *port*: the part of it that its peer sees, on the heap
 * within a process, in a sealed memfd between processes. A port has the flags of
 * its owner and, for a receiver, two single-producer rings: descriptors, written
 * by the peer, and free slot numbers (the credits), written by the owner. A
 * *link* is a port as this process sees it, with the receive slots behind it.
 *
 * Nothing read from a port that another process can write is trusted: it is read
 * once and checked before use, and what the owner needs again it keeps privately.
 */
#ifndef LOOPBACK_PORT_H
#define LOOPBACK_PORT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "access_guard.h"
#include "map.h"
#include "registry.h"

struct lb_mr;

struct lb_desc {
  uint32_t slot;
  uint32_t length;
  uint64_t sequence;
  uint64_t meta;
  uint64_t offset; /* by reference: of the payload in the lent region; else unused */
};
_Static_assert(sizeof(struct lb_desc) == 32, "two descriptors a cache line");

enum lb_state {
  LB_STATE_ATTACHED = 1u << 0, /* the owner has mapped its peer */
  LB_STATE_CLOSED = 1u << 1,   /* the owner posts, polls and answers no more */
  LB_STATE_VOID = 1u << 2,     /* its ring is gone, tokens that were out included */
};

enum lb_armed {
  LB_ARMED_ARRIVAL = 1u << 0, /* wake the owner for messages and changes of state */
  LB_ARMED_CREDIT = 1u << 1,  /* and for credits */
};

#define LB_CLAIM_ABORT (UINT64_C(1) << 63)

/* One cache line for each writer, so that neither end's publishing disturbs what
 * the other writes. */
struct lb_port {
  alignas(LB_CACHE_LINE) _Atomic uint32_t state;     /* enum lb_state; the owner's */
  _Atomic uint32_t armed;                            /* enum lb_armed; set by the owner */
  _Atomic uint64_t claimant;                         /* id of the one endpoint that attached */
  alignas(LB_CACHE_LINE) _Atomic uint64_t desc_head; /* the peer's */
  alignas(LB_CACHE_LINE) _Atomic uint64_t free_head; /* the owner's */
  /* By reference: how many messages the receiver has taken over, and whether the
   * sender has cancelled the others. */
  alignas(LB_CACHE_LINE) _Atomic uint64_t claimed;
};

struct lb_link {
  struct lb_entry entry;
  bool in_process; /* seen by both ends through this very object */
  int wake_fd;     /* a timerfd that wakes the owner: never read */
  struct lb_port *port;
  struct lb_desc *desc;
  uint32_t *free_slots;
  uint64_t mask; /* of both rings */
  uint64_t port_bytes;
  struct lb_map port_map;
  int port_fd; /* -1: heap, or the peer's */
  uint32_t slots;
  uint8_t *slot0; /* payload of slot 0 */
  uint64_t stride;
  uint64_t payload_max;
  struct lb_map ring_map; /* of the peer's ring region; at NULL: plain pointers */
  struct lb_mr **lent;    /* by reference: whose each slot's message is; NULL: in the slot itself */
  /* Within a process: the peer is between its look at `state` and its last
   * write into the slots. */
  alignas(LB_CACHE_LINE) _Atomic uint32_t posting;
};

uint64_t lb_port_bytes(uint32_t slots, uint64_t *capacity);
/* A port of one's own; shared: in a sealed memfd. NULL: errno. */
struct lb_link *lb_link_new(uint32_t slots, bool shared, bool lends);
/* Another process's, of `most` bytes. The descriptors stay the caller's. -EPROTO with *why. */
struct lb_address;
int lb_link_map(const struct lb_address *address, const int32_t *fds, uint64_t most,
                struct lb_link **link, const char **why);
void lb_link_unref(struct lb_link *link);
int lb_wake_open(void); /* what lb_link_wake() wakes by, or -errno */
/* Never waits, whatever the peer does to the descriptor that both have. */
void lb_link_wake(struct lb_link *link);

static inline bool lb_link_is(const struct lb_link *link, enum lb_state state)
{
  return atomic_load_explicit(&link->port->state, memory_order_acquire) & state;
}

static inline struct lb_link *lb_link_ref(struct lb_link *link)
{
  lb_entry_ref(&link->entry);
  return link;
}

#endif
