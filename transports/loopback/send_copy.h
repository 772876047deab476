/* SPDX-License-Identifier: Apache-2.0 */
/* How SENDs are written: what most of them are, how short ones are copied, how they are shown. */
#ifndef LOOPBACK_SEND_H
#define LOOPBACK_SEND_H

#include <stddef.h>

#include "endpoint.h"
#include "mr.h"

#define LB_ALWAYS_INLINE inline __attribute__((always_inline))

/* A move of one is one instruction where the function it is in is compiled for that. */
typedef uint8_t lb_vector32 __attribute__((vector_size(32), aligned(1), may_alias));

static LB_ALWAYS_INLINE void lb_move32(uint8_t *to, const uint8_t *from)
{
  *(lb_vector32 *)to = *(const lb_vector32 *)from;
}

/* In line: for small messages a call costs as much as their copy. False: it is for memcpy(). */
static LB_ALWAYS_INLINE bool lb_copy_short(uint8_t *restrict to, const uint8_t *restrict from,
                                           uint64_t length)
{
  if (length - 32 > 32)
    return false;
  lb_move32(to, from);
  lb_move32(to + length - 32, from + length - 32);
  return true;
}

/* The region that the last request named, and the longest message it may name. */
struct lb_source {
  const struct lb_mr *mr;
  uint64_t longest;
};

static LB_ALWAYS_INLINE bool lb_is_plain(const struct pst_endpoint *endpoint,
                                         const struct pst_request *request,
                                         struct lb_source *source)
{
  const uint64_t flags = pst_request_head_of(0, PST_REQUEST_FENCE | PST_REQUEST_EXCLUSIVE);
  const struct lb_mr *mr = lb_mr_of(request->local.mr);
  /* With several pieces `local` is not an mr. */
  if (__builtin_expect((pst_request_head(request) & ~flags) != pst_request_head_of(PST_OP_SEND, 0),
                       0))
    return false;
  if (__builtin_expect(mr != source->mr, 0)) {
    if (!mr || !mr->base || !(mr->access & PST_ACCESS_LOCAL_READ))
      return false;
    source->mr = mr;
    source->longest = endpoint->tx.message_max < mr->length ? endpoint->tx.message_max : mr->length;
  }
  return __builtin_expect(mr && request->arg.length <= source->longest &&
                              request->offset <= mr->length - request->arg.length &&
                              !request->u.send.departure_ns,
                          1);
}

/* To write soon: where another core has the line, its way here takes longer than a
 * copy of a message. gcc's prefetch for writing asks for the line shared only. */
static inline void lb_prefetch_write(const void *line)
{
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
  __builtin_prefetch(line, 1);
#endif
}

/* Messages between asking for a line and writing to it. */
#define LB_AHEAD 4u

static inline void lb_desc_write(struct lb_desc *desc, uint32_t slot,
                                 const struct pst_request *request)
{
  desc->slot = slot;
  desc->length = (uint32_t)request->arg.length;
  memcpy(&desc->sequence, &request->u.send.sequence, sizeof(desc->sequence) + sizeof(desc->meta));
}
_Static_assert(offsetof(struct lb_desc, meta) == offsetof(struct lb_desc, sequence) + 8 &&
                   offsetof(struct pst_request, u.send.meta) ==
                       offsetof(struct pst_request, u.send.sequence) + 8,
               "copied as one");

/* Show the peer what was written up to `head`. */
static inline void lb_tx_publish(const struct pst_endpoint *endpoint, uint64_t head)
{
  struct lb_port *port = endpoint->peer->port;
  atomic_store_explicit(&port->desc_head, head, memory_order_release);
  lb_barrier_light(endpoint->fenced);
  if (__builtin_expect(atomic_load_explicit(&port->armed, memory_order_relaxed), 0) &&
      atomic_exchange(&port->armed, 0))
    lb_link_wake(endpoint->peer);
}

#endif
