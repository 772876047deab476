/* SPDX-License-Identifier: Apache-2.0 */
/* What was injected, for the run's result. */
#include "fault.h"

static const char *const count_names[FAULT_KINDS] = {
    [FAULT_DROP] = "injected_drop",       [FAULT_DUPLICATE] = "injected_duplicate",
    [FAULT_REORDER] = "injected_reorder", [FAULT_CORRUPT] = "injected_corrupt",
    [FAULT_DELAY] = "injected_delay",     [FAULT_STALL] = "injected_stall",
    [FAULT_KILL] = "injected_kill",
};

static const char *const record_names[FAULT_KINDS] = {
    [FAULT_DROP] = "drop_at",       [FAULT_DUPLICATE] = "duplicate_at",
    [FAULT_REORDER] = "reorder_at", [FAULT_CORRUPT] = "corrupt_at",
    [FAULT_DELAY] = "delay_at",     [FAULT_STALL] = "stall_at",
    [FAULT_KILL] = "kill_at",
};

void fault_note(struct fault_ledger *ledger, enum fault_kind kind, uint64_t sequence)
{
  ledger->counts[kind]++;
  ledger->checksum += fault_mix(fault_mix(sequence) + kind);
  if (ledger->record_count < ledger->record_max)
    ledger->records[ledger->record_count++] = (struct fault_record){kind, sequence};
}

struct output {
  struct pst_counter *counters;
  uint32_t max;
  uint32_t count;
};

static void put(struct output *out, const char *name, uint64_t value, uint64_t flags)
{
  if (out->count < out->max)
    out->counters[out->count] =
        (struct pst_counter){name, flags & PST_COUNTER_DROP ? "injected" : NULL, value, flags};
  out->count++;
}

static void put_ledger(struct output *out, const struct fault_ledger *ledger)
{
  for (int kind = FAULT_DROP; kind < FAULT_KINDS; kind++)
    put(out, count_names[kind], ledger->counts[kind], kind == FAULT_DROP ? PST_COUNTER_DROP : 0);
  put(out, "delayed_late", ledger->delayed_late, 0);
  put(out, "reorder_missed", ledger->reorder_missed, 0);
  put(out, "ledger_checksum", ledger->checksum, PST_COUNTER_GAUGE);
  for (uint32_t i = 0; i < ledger->record_count; i++)
    put(out, record_names[ledger->records[i].kind], ledger->records[i].sequence,
        PST_COUNTER_GAUGE | PST_COUNTER_ENTRY);
}

static int inner_counters(const struct pst_endpoint *endpoint, struct pst_counter *counters,
                          uint32_t max)
{
  const struct fault_engine *engine = endpoint->engine;
  const struct pst_worker *worker = endpoint->worker;
  if (!engine->killed)
    return worker->device->ops->counters(worker->device->inner, worker->inner, endpoint->inner,
                                         counters, max);
  uint32_t n = engine->inner_counter_count < max ? engine->inner_counter_count : max;
  if (n)
    memcpy(counters, engine->inner_counters, n * sizeof(*counters));
  return (int)engine->inner_counter_count;
}

int fault_counters(struct pst_device *device, struct pst_worker *worker,
                   struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max)
{
  if (!endpoint || !endpoint->engine)
    return device->ops->counters(device->inner, worker ? worker->inner : NULL,
                                 endpoint ? endpoint->inner : NULL, counters, max);
  int n = inner_counters(endpoint, counters, max);
  struct output out = {counters, max, n > 0 ? (uint32_t)n : 0};
  put_ledger(&out, &endpoint->engine->ledger);
  return (int)out.count;
}
