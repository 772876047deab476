/* SPDX-License-Identifier: Apache-2.0 */
/* Notes the faults that were injected. */
#include "ledger.h"

void fault_note(struct fault_ledger *ledger, enum fault_kind kind, uint64_t sequence)
{
  ledger->counts[kind]++;
  ledger->checksum += fault_mix(fault_mix(sequence) + kind);
  if (ledger->record_count < ledger->record_max)
    ledger->records[ledger->record_count++] = (struct fault_record){kind, sequence};
}
