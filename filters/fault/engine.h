/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of a sender.
 *
 * Every SEND that the host posts gets an *entry* in a ring, in post order; it is settled when
 * nothing of it is outstanding inside any more, and DONEs cover settled entries from the oldest on.
 * A FIFO of entry numbers notes which entries go to the inner transport, in which order and how
 * often; inner DONEs take from the FIFO by count, so that the inner cookies of SENDs mean nothing.
 * A SEND that is accepted but not posted yet lies in a *hold* (hold.h). All of it is allocated with
 * the endpoint.
 */
#ifndef FAULT_ENGINE_H
#define FAULT_ENGINE_H

#include <penstock/transport-util.h>

#include "hold.h"
#include "ledger.h"
#include "pool.h"
#include "stage.h"

#define FAULT_INNER_COUNTERS 32u /* kept of an endpoint that was cut off */

struct fault_entry {
  uint64_t cookie;
  int32_t status;
  uint16_t pending; /* times it is still to be done inside */
  uint16_t copy;    /* of the part's copies, from 1; 0: none */
};

struct fault_engine {
  struct fault_entry *entries;
  uint64_t mask;
  uint64_t head; /* accepted so far */
  uint64_t tail; /* DONE so far */

  uint32_t *fifo; /* entry numbers, in the order of inner posts; twice the entries */
  uint64_t fifo_head;
  uint64_t fifo_tail;

  struct fault_hold *hold_memory;
  struct pst_piece *piece_memory;
  uint32_t pieces;          /* a hold has room for */
  struct fault_hold *spare; /* free holds */
  struct fault_holds again; /* the second half of a duplicate, to go next */
  struct fault_holds reordered;
  struct fault_holds delayed;
  uint32_t held;       /* in the three together */
  uint64_t next_due;   /* the least due_count; FAULT_NEVER */
  uint64_t distance;   /* the plan's, bounded by what can be outstanding */
  uint64_t passed;     /* one past the highest sequence number posted inside */
  uint64_t undelayed;  /* as `passed`, without delayed ones: it does not depend on time */
  uint64_t stop_at;    /* of stall and kill the next: sequence number; FAULT_NEVER */
  uint64_t stalled_ns; /* until when; 0: not */
  bool stall_over;
  bool blocked; /* the inner transport took no hold */

  uint32_t part;                 /* of the pool */
  uint16_t copies[FAULT_COPIES]; /* free ones */
  uint32_t copy_count;

  enum fault_stage stage;
  struct pst_closing closing; /* the host's; CLOSING is when nothing is held any more */

  struct fault_ledger ledger;
  struct pst_counter inner_counters[FAULT_INNER_COUNTERS]; /* when it was cut off */
  uint32_t inner_counter_count;
};

static inline bool fault_is_killed(const struct fault_engine *engine)
{
  return engine->stage >= FAULT_KILLED;
}

#endif
