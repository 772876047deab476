/* SPDX-License-Identifier: Apache-2.0 */
/* Ledger of the faults that were injected. */
#ifndef FAULT_LEDGER_H
#define FAULT_LEDGER_H

#include "plan.h"

struct fault_record {
  uint32_t kind;
  uint64_t sequence;
};

struct fault_ledger {
  uint64_t counts[FAULT_KINDS];
  uint64_t delayed_late;   /* messages that are late because one was delayed */
  uint64_t reorder_missed; /* those that none has passed while they waited */
  uint64_t checksum;       /* of all records, in any order */
  struct fault_record *records;
  uint32_t record_count;
  uint32_t record_max;
};

void fault_note(struct fault_ledger *ledger, enum fault_kind kind, uint64_t sequence);

#endif
