/* SPDX-License-Identifier: Apache-2.0 */
/* Entries, and what is accepted but not posted inside yet. */
#include "fault.h"

void fault_entry_push(struct fault_engine *engine, uint64_t cookie, uint16_t pending, uint16_t copy)
{
  engine->entries[engine->head++ & engine->mask] =
      (struct fault_entry){.cookie = cookie, .pending = pending, .copy = copy};
}

void fault_fifo_push(struct fault_engine *engine, uint64_t entry)
{
  engine->fifo[engine->fifo_head++ & (2 * engine->mask + 1)] = (uint32_t)(entry & engine->mask);
}

void fault_entry_settle(struct fault_engine *engine, uint64_t entry, int32_t status)
{
  struct fault_entry *at = &engine->entries[entry & engine->mask];
  if (at->status == 0)
    at->status = status;
  /* A copy that the receiver still holds is not ours to write. */
  if (--at->pending == 0 && at->copy && status != -EBUSY)
    engine->copies[engine->copy_count++] = at->copy;
}

struct fault_hold *fault_hold_take(struct fault_engine *engine, const struct pst_request *request,
                                   uint64_t entry)
{
  struct fault_hold *hold = engine->spare;
  engine->spare = hold->next;
  engine->held++;
  hold->next = NULL;
  hold->request = *request;
  hold->entry = entry;
  if (request->piece_count) {
    memcpy(hold->pieces, request->local.pieces, request->piece_count * sizeof(*hold->pieces));
    hold->request.local.pieces = hold->pieces;
  }
  return hold;
}

static void give_back(struct fault_engine *engine, struct fault_hold *hold)
{
  hold->next = engine->spare;
  engine->spare = hold;
  engine->held--;
}

static void find_next_due(struct fault_engine *engine)
{
  engine->next_due = FAULT_NEVER;
  for (const struct fault_hold *hold = engine->reordered.first; hold; hold = hold->next)
    if (hold->due_count < engine->next_due)
      engine->next_due = hold->due_count;
}

void fault_hold_append(struct fault_engine *engine, struct fault_holds *holds,
                       struct fault_hold *hold)
{
  *holds->last = hold;
  holds->last = &hold->next;
  if (holds == &engine->reordered && hold->due_count < engine->next_due)
    engine->next_due = hold->due_count;
}

static struct fault_hold *unlink_at(struct fault_holds *holds, struct fault_hold **at)
{
  struct fault_hold *hold = *at;
  *at = hold->next;
  if (!*at)
    holds->last = at;
  return hold;
}

/* false: not now. An error ends the request, which the host has given away. */
static bool post_hold(struct pst_endpoint *endpoint, const struct fault_hold *hold, uint32_t *wait)
{
  struct fault_engine *engine = endpoint->engine;
  int rc = pass_ops(endpoint)->post(endpoint->inner, &hold->request, 1, wait);
  engine->blocked = rc == 0 || rc == -EAGAIN;
  if (engine->blocked)
    return false;
  if (rc == 1)
    fault_fifo_push(engine, hold->entry);
  else
    fault_entry_settle(engine, hold->entry, rc);
  return true;
}

/* Was a later one posted before it? From here on it is not the newest any more. */
static bool is_late(uint64_t *newest, const struct fault_hold *hold)
{
  uint64_t sequence = hold->request.u.send.sequence;
  if (sequence < *newest)
    return true;
  *newest = sequence + 1;
  return false;
}

/* When a delayed one goes depends on time, the ledger must not. */
static void note_reordered(struct fault_engine *engine, const struct fault_hold *hold)
{
  struct fault_ledger *ledger = &engine->ledger;
  bool late = is_late(&engine->passed, hold);
  if (is_late(&engine->undelayed, hold)) {
    fault_note(ledger, FAULT_REORDER, hold->request.u.send.sequence);
    return;
  }
  ledger->reorder_missed++;
  ledger->delayed_late += late;
}

static bool release_reordered(struct pst_endpoint *endpoint, bool early, uint64_t now,
                              uint32_t *wait)
{
  struct fault_engine *engine = endpoint->engine;
  struct fault_hold **at = &engine->reordered.first;
  while (*at) {
    struct fault_hold *hold = *at;
    if (!early && hold->due_count > engine->head && hold->due_ns > now) {
      at = &hold->next;
      continue;
    }
    if (!post_hold(endpoint, hold, wait))
      return false;
    note_reordered(engine, hold);
    give_back(engine, unlink_at(&engine->reordered, at));
  }
  find_next_due(engine);
  return true;
}

static bool release_delayed(struct pst_endpoint *endpoint, uint64_t now, uint32_t *wait)
{
  struct fault_engine *engine = endpoint->engine;
  while (engine->delayed.first && engine->delayed.first->due_ns <= now) {
    struct fault_hold *hold = engine->delayed.first;
    if (!post_hold(endpoint, hold, wait))
      return false;
    engine->ledger.delayed_late += is_late(&engine->passed, hold);
    give_back(engine, unlink_at(&engine->delayed, &engine->delayed.first));
  }
  return true;
}

bool fault_release(struct pst_endpoint *endpoint, bool early, uint32_t *wait)
{
  struct fault_engine *engine = endpoint->engine;
  engine->blocked = false;
  if (!engine->held)
    return true;
  if (engine->again) {
    if (!post_hold(endpoint, engine->again, wait))
      return false;
    give_back(engine, engine->again);
    engine->again = NULL;
  }
  uint64_t now = fault_now(endpoint);
  if (engine->reordered.first && !release_reordered(endpoint, early, now, wait))
    return false;
  return release_delayed(endpoint, now, wait);
}

static void drop_list(struct fault_engine *engine, struct fault_holds *holds, int32_t status)
{
  while (holds->first) {
    fault_entry_settle(engine, holds->first->entry, status);
    give_back(engine, unlink_at(holds, &holds->first));
  }
}

void fault_holds_drop(struct fault_engine *engine, int32_t status)
{
  if (engine->again) {
    fault_entry_settle(engine, engine->again->entry, status);
    give_back(engine, engine->again);
    engine->again = NULL;
  }
  drop_list(engine, &engine->reordered, status);
  drop_list(engine, &engine->delayed, status);
  engine->next_due = FAULT_NEVER;
}
