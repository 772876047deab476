/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving half of an endpoint: from an arrival to MESSAGE completions, with the message that
 * is held until its successor comes and the one that found no room in the last poll.
 *
 * Slots are those of the endpoint's ring (pst_cpu_ring.slots). Each datagram takes a slot. Then the
 * slot is returned, or its token is out, or the slot belongs to the datagram that is held.
 */
#ifndef DATAGRAM_RECEIVER_H
#define DATAGRAM_RECEIVER_H

#include <penstock/transport-cpu.h>

#include "flow.h"

/* Where a datagram lies. */
struct dg_landed {
  uint32_t slot;
  uint32_t at; /* of its bytes behind the header (dg_arrival.rest), behind the slot's headroom */
};

/* A datagram that is taken: the bytes behind its header are in a slot after this, and stay there
 * until the slot is given back. Called once for an arrival, and not at all for what is refused. */
typedef struct dg_landed dg_settle(void *context);

struct dg_receiver {
  struct dg_flow flow;
  const char *const *causes; /* of the medium's losses, up to a NULL; flow.h numbers them */
  bool has_times;            /* completions say when a message arrived */
  struct dg_landed held;
  struct pst_completion parked; /* found no room in the last poll */
  bool is_parked;
  bool told_useless;
  bool told_strays;
  bool told_others;
  bool told_forged;
  bool told_unreadable;
  uint64_t messages; /* as the counters last had them */
  uint64_t heard;    /* when the last message of these was counted */
};

static inline void dg_receiver_message(const struct dg_receiver *receiver,
                                       const struct pst_cpu_endpoint *endpoint,
                                       struct dg_landed landed, const struct dg_message *message,
                                       struct pst_completion *out)
{
  endpoint->ring->slots.out[landed.slot] = 1;
  pst_cpu_message_write(out, endpoint, landed.slot, message->length);
  out->flags = (uint16_t)((message->has_sequence ? PST_HAS_SEQUENCE : 0u) |
                          (message->has_meta ? PST_HAS_META : 0u) |
                          (receiver->has_times ? PST_HAS_TIME : 0u) |
                          (message->is_marked ? PST_IS_MARKED : 0u) |
                          (message->is_restart ? PST_IS_RESTART : 0u));
  out->u.message.offset += landed.at + message->offset;
  out->u.message.sequence = message->sequence;
  out->u.message.meta = message->meta;
  out->u.message.time_ns = receiver->has_times ? message->time_ns : 0;
}

/* Writes the completion that the last poll had no room for: returns 0 or 1. */
static inline uint32_t dg_receiver_poll(struct dg_receiver *receiver, struct pst_completion *out,
                                        uint32_t max)
{
  if (!receiver->is_parked || !max)
    return 0;
  *out = receiver->parked;
  receiver->is_parked = false;
  return 1;
}

/* Takes one arrival; returns how many completions it gave, up to two of which the second may be
 * parked. `max` is at least 1 and nothing is parked: a poll ends where one was. Slots that settle()
 * was not called for stay the transport's. */
__attribute__((always_inline)) static inline uint32_t
dg_receiver_take(struct dg_receiver *receiver, const struct pst_cpu_endpoint *endpoint,
                 const struct dg_arrival *arrival, dg_settle *settle, void *context,
                 struct pst_completion *out, uint32_t max)
{
  struct dg_message message;
  uint32_t n = 0, verdict = dg_flow_take(&receiver->flow, arrival, &message);

  if (verdict & DG_HELD_DELIVER)
    dg_receiver_message(receiver, endpoint, receiver->held, &receiver->flow.held, &out[n++]);
  else if (verdict & DG_HELD_DROP)
    pst_slots_give(&endpoint->ring->slots, receiver->held.slot);
  if (!(verdict & (DG_DELIVER | DG_HOLD)))
    return n;
  struct dg_landed landed = settle(context);
  if (verdict & DG_HOLD) {
    receiver->held = landed;
  } else if (n == max) {
    dg_receiver_message(receiver, endpoint, landed, &message, &receiver->parked);
    receiver->is_parked = true;
  } else {
    dg_receiver_message(receiver, endpoint, landed, &message, &out[n++]);
  }
  return n;
}

/* Ends the receiver: gives the held datagram's slot back, and counts the datagram for what it was.
 */
void dg_receiver_end(struct dg_receiver *receiver, struct pst_cpu_ring *ring);

#endif
