/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of a sender: the inner transport's, and the ledger. */
#include <string.h>

#include "endpoint.h"
#include "ops.h"

/* The counter of each kind, and its entries in the ledger. */
static const char *const names[FAULT_KINDS][2] = {
    [FAULT_DROP] = {"injected_drop", "drop_at"},
    [FAULT_DUPLICATE] = {"injected_duplicate", "duplicate_at"},
    [FAULT_REORDER] = {"injected_reorder", "reorder_at"},
    [FAULT_CORRUPT] = {"injected_corrupt", "corrupt_at"},
    [FAULT_DELAY] = {"injected_delay", "delay_at"},
    [FAULT_STALL] = {"injected_stall", "stall_at"},
    [FAULT_KILL] = {"injected_kill", "kill_at"},
};

static void fault_counters_add_ledger(struct pst_counter_list *list,
                                      const struct fault_ledger *ledger)
{
  pst_counter_add(list, names[FAULT_DROP][0], "injected", ledger->counts[FAULT_DROP],
                  PST_COUNTER_DROP);
  for (int kind = FAULT_DROP + 1; kind < FAULT_KINDS; kind++)
    pst_counter_add(list, names[kind][0], NULL, ledger->counts[kind], 0);
  pst_counter_add(list, "delayed_late", NULL, ledger->delayed_late, 0);
  pst_counter_add(list, "reorder_missed", NULL, ledger->reorder_missed, 0);
  pst_counter_add(list, "ledger_checksum", NULL, ledger->checksum, PST_COUNTER_GAUGE);
  for (uint32_t i = 0; i < ledger->record_count; i++)
    pst_counter_add(list, names[ledger->records[i].kind][1], NULL, ledger->records[i].sequence,
                    PST_COUNTER_GAUGE | PST_COUNTER_ENTRY);
}

static int fault_counters_inner(struct pst_endpoint *endpoint, struct pst_counter *counters,
                                uint32_t max)
{
  const struct fault_engine *engine = endpoint->engine;
  if (!fault_is_killed(engine))
    return pass_counters(endpoint->worker->device, endpoint->worker, endpoint, counters, max);
  uint32_t n = engine->inner_counter_count < max ? engine->inner_counter_count : max;
  if (n)
    memcpy(counters, engine->inner_counters, n * sizeof(*counters));
  return (int)engine->inner_counter_count;
}

int fault_counters(struct pst_device *device, struct pst_worker *worker,
                   struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max)
{
  if (!endpoint || !endpoint->engine)
    return pass_counters(device, worker, endpoint, counters, max);
  int n = fault_counters_inner(endpoint, counters, max);
  struct pst_counter_list list = {counters, max, n > 0 ? (uint32_t)n : 0};
  fault_counters_add_ledger(&list, &endpoint->engine->ledger);
  return (int)list.count;
}
