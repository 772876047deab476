/* SPDX-License-Identifier: Apache-2.0 */
/* Entries, and what is accepted but not posted inside yet. */
#ifndef FAULT_HOLD_H
#define FAULT_HOLD_H

#include <penstock/transport.h>

#include "plan.h"

#define FAULT_HOLDS_MAX 4096u /* messages of one sender held back at once */

struct fault_engine;

struct fault_hold {
  enum fault_kind kind;
  struct pst_request request;
  struct pst_piece *pieces;
  struct fault_hold *next;
  uint64_t entry;
  uint64_t due_count; /* REORDER: due when this many have been accepted */
  uint64_t due_ns;    /* the latest; 0: at once */
};

/* Oldest first. */
struct fault_holds {
  struct fault_hold *first;
  struct fault_hold **last;
};

void fault_entry_push(struct fault_engine *engine, uint64_t cookie, uint16_t pending,
                      uint16_t copy);
void fault_fifo_push(struct fault_engine *engine, uint64_t entry);
/* Ends one of the times for which the entry is pending. */
void fault_entry_settle(struct fault_engine *engine, uint64_t entry, int32_t status);
/* Keep a copy of the request, pieces included, for the next entry. There is a spare one. */
void fault_hold_add(struct fault_engine *engine, const struct pst_request *request,
                    enum fault_kind kind, uint64_t due_ns, uint64_t due_count);
/* Post what is due; `early`: reordered ones too that still wait for others. false:
 * the inner transport takes no more now, *wait says why. */
bool fault_release(struct pst_endpoint *endpoint, bool early, uint32_t *wait);
/* Give up all holds: their requests end with the status. */
void fault_holds_drop(struct fault_engine *engine, int32_t status);

#endif
