/* SPDX-License-Identifier: Apache-2.0 */
/* Entries, and what is accepted but not posted inside yet. */
#include <assert.h>

#include "endpoint.h"

void fault_entry_push(struct fault_engine *engine, uint64_t cookie, uint16_t pending, uint16_t copy)
{
  assert(engine->head - engine->tail <= engine->mask);
  engine->entries[engine->head++ & engine->mask] =
      (struct fault_entry){.cookie = cookie, .pending = pending, .copy = copy};
}

void fault_fifo_push(struct fault_engine *engine, uint64_t entry)
{
  assert(engine->fifo_head - engine->fifo_tail <= 2 * engine->mask + 1);
  engine->fifo[engine->fifo_head++ & (2 * engine->mask + 1)] = (uint32_t)(entry & engine->mask);
}

void fault_entry_settle(struct fault_engine *engine, uint64_t entry, int32_t status)
{
  struct fault_entry *at = &engine->entries[entry & engine->mask];
  assert(at->pending);
  if (at->status == 0)
    at->status = status;
  /* A copy that the receiver still holds is not ours to write. */
  if (--at->pending == 0 && at->copy && status != -EBUSY) {
    assert(engine->copy_count < FAULT_COPIES);
    engine->copies[engine->copy_count++] = at->copy;
  }
}

static struct fault_holds *fault_hold_holds_of(struct fault_engine *engine, enum fault_kind kind)
{
  return kind == FAULT_REORDER ? &engine->reordered
         : kind == FAULT_DELAY ? &engine->delayed
                               : &engine->again;
}

void fault_hold_add(struct fault_engine *engine, const struct pst_request *request,
                    enum fault_kind kind, uint64_t due_ns, uint64_t due_count)
{
  struct fault_holds *holds = fault_hold_holds_of(engine, kind);
  struct fault_hold *hold = engine->spare;
  assert(hold && request->piece_count <= engine->pieces);
  engine->spare = hold->next;
  engine->held++;
  *hold = (struct fault_hold){.kind = kind,
                              .request = *request,
                              .pieces = hold->pieces,
                              .entry = engine->head,
                              .due_count = due_count,
                              .due_ns = due_ns};
  if (request->piece_count) {
    memcpy(hold->pieces, request->local.pieces, request->piece_count * sizeof(*hold->pieces));
    hold->request.local.pieces = hold->pieces;
  }
  *holds->last = hold;
  holds->last = &hold->next;
  if (kind == FAULT_REORDER && due_count < engine->next_due)
    engine->next_due = due_count;
}

static void fault_hold_give_back(struct fault_engine *engine, struct fault_hold *hold)
{
  assert(engine->held);
  hold->next = engine->spare;
  engine->spare = hold;
  engine->held--;
}

static void fault_hold_find_next_due(struct fault_engine *engine)
{
  engine->next_due = FAULT_NEVER;
  for (const struct fault_hold *hold = engine->reordered.first; hold; hold = hold->next)
    if (hold->due_count < engine->next_due)
      engine->next_due = hold->due_count;
}

static struct fault_hold *fault_hold_unlink_at(struct fault_holds *holds, struct fault_hold **at)
{
  struct fault_hold *hold = *at;
  *at = hold->next;
  if (!*at)
    holds->last = at;
  return hold;
}

/* false: not now. An error ends the request, which the host has given away. */
static bool fault_hold_post(struct pst_endpoint *endpoint, const struct fault_hold *hold,
                            uint32_t *wait)
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
static bool fault_hold_is_late(uint64_t *newest, const struct fault_hold *hold)
{
  uint64_t sequence = hold->request.u.send.sequence;
  if (sequence < *newest)
    return true;
  *newest = sequence + 1;
  return false;
}

/* When a delayed one goes depends on time, the ledger must not. */
static void fault_hold_note_released(struct fault_engine *engine, const struct fault_hold *hold)
{
  struct fault_ledger *ledger = &engine->ledger;
  if (hold->kind == FAULT_DUPLICATE)
    return;
  bool late = fault_hold_is_late(&engine->passed, hold);
  if (hold->kind == FAULT_REORDER && fault_hold_is_late(&engine->undelayed, hold)) {
    fault_note(ledger, FAULT_REORDER, hold->request.u.send.sequence);
    return;
  }
  ledger->reorder_missed += hold->kind == FAULT_REORDER;
  ledger->delayed_late += late;
}

static bool fault_hold_is_due(const struct fault_engine *engine, const struct fault_hold *hold,
                              bool early, uint64_t now)
{
  return hold->due_ns <= now ||
         (hold->kind == FAULT_REORDER && (early || hold->due_count <= engine->head));
}

static bool fault_hold_release_some(struct pst_endpoint *endpoint, struct fault_holds *holds,
                                    bool early, uint64_t now, uint32_t *wait)
{
  struct fault_engine *engine = endpoint->engine;
  struct fault_hold **at = &holds->first;
  while (*at) {
    struct fault_hold *hold = *at;
    if (fault_hold_is_due(engine, hold, early, now)) {
      if (!fault_hold_post(endpoint, hold, wait))
        return false;
      fault_hold_note_released(engine, hold);
      fault_hold_give_back(engine, fault_hold_unlink_at(holds, at));
    } else if (hold->kind == FAULT_DELAY) {
      break; /* the others are due later */
    } else {
      at = &hold->next;
    }
  }
  return true;
}

bool fault_release(struct pst_endpoint *endpoint, bool early, uint32_t *wait)
{
  struct fault_engine *engine = endpoint->engine;
  engine->blocked = false;
  if (!engine->held)
    return true;
  uint64_t now = fault_now(endpoint);
  if (!fault_hold_release_some(endpoint, &engine->again, early, now, wait) ||
      !fault_hold_release_some(endpoint, &engine->reordered, early, now, wait))
    return false;
  fault_hold_find_next_due(engine);
  return fault_hold_release_some(endpoint, &engine->delayed, early, now, wait);
}

void fault_holds_drop(struct fault_engine *engine, int32_t status)
{
  struct fault_holds *const all[] = {&engine->again, &engine->reordered, &engine->delayed};
  for (uint32_t i = 0; i < 3; i++)
    while (all[i]->first) {
      fault_entry_settle(engine, all[i]->first->entry, status);
      fault_hold_give_back(engine, fault_hold_unlink_at(all[i], &all[i]->first));
    }
  assert(engine->held == 0);
  engine->next_due = FAULT_NEVER;
}
