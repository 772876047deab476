/* SPDX-License-Identifier: Apache-2.0 */
/* Applies faults to each message that is posted. */
#include "endpoint.h"
#include "ops.h"

/* Progress of one call of post. */
struct progress {
  uint32_t wait; /* why it ends early */
  int rc;        /* what is wrong with the next request */
};

static enum fault_kind fault_post_kind_of(const struct pst_endpoint *endpoint,
                                          const struct pst_request *request)
{
  const struct fault_plan *plan = &endpoint->worker->device->plan;
  if (!plan->rates)
    return FAULT_NONE;
  uint64_t draw = fault_draw(plan, request->u.send.sequence) >> 32;
  uint32_t at = (uint32_t)(draw * FAULT_MILLION >> 32);
  if (__builtin_expect(at >= plan->rates, 1))
    return FAULT_NONE;
  enum fault_kind kind = FAULT_DROP;
  while (at >= plan->below[kind])
    kind++;
  if (kind == FAULT_CORRUPT && request->arg.length == 0)
    return FAULT_NONE;
  /* More pieces than were announced: the inner transport decides about them. */
  return request->piece_count > endpoint->engine->pieces ? FAULT_NONE : kind;
}

static uint32_t fault_post_wait_for_queue(struct progress *progress)
{
  progress->wait = PST_WAIT_QUEUE;
  return 0;
}

/* Post inside as it is. Returns how many were taken. */
static uint32_t fault_post_inner(struct pst_endpoint *endpoint, const struct pst_request *requests,
                                 uint32_t n, struct progress *progress)
{
  uint32_t wait = PST_WAIT_NONE;
  int rc = pass_ops(endpoint)->post(endpoint->inner, requests, n, &wait);
  if (rc == 0 || rc == -EAGAIN) {
    progress->wait = wait ? wait : PST_WAIT_QUEUE;
    return 0;
  }
  if (rc < 0) {
    progress->rc = rc;
    return 0;
  }
  if ((uint32_t)rc < n)
    progress->wait = wait;
  return (uint32_t)rc;
}

static void fault_post_passes(struct fault_engine *engine, const struct pst_request *request)
{
  uint64_t next = request->u.send.sequence + 1;
  if (next > engine->passed)
    engine->passed = next;
  if (next > engine->undelayed)
    engine->undelayed = next;
}

/* As many as nothing befalls, up to n. */
static uint32_t fault_post_plain(struct pst_endpoint *endpoint, const struct pst_request *requests,
                                 uint32_t n, struct progress *progress)
{
  struct fault_engine *engine = endpoint->engine;
  uint32_t run = 1;
  if (n > engine->next_due - engine->head)
    n = (uint32_t)(engine->next_due - engine->head);
  while (run < n && requests[run].opcode == PST_OP_SEND &&
         requests[run].u.send.sequence < engine->stop_at &&
         fault_post_kind_of(endpoint, &requests[run]) == FAULT_NONE)
    run++;
  uint32_t taken = fault_post_inner(endpoint, requests, run, progress);
  for (uint32_t i = 0; i < taken; i++) {
    fault_post_passes(engine, &requests[i]);
    fault_fifo_push(engine, engine->head);
    fault_entry_push(engine, requests[i].cookie, 1, 0);
  }
  return taken;
}

static uint32_t fault_post_twice(struct pst_endpoint *endpoint, const struct pst_request *request,
                                 struct progress *progress)
{
  struct fault_engine *engine = endpoint->engine;
  struct pst_request both[2] = {*request, *request};
  if (!engine->spare)
    return fault_post_wait_for_queue(progress);
  both[0].flags &= (uint8_t)~PST_REQUEST_EXCLUSIVE;
  both[1].flags = both[0].flags;
  uint32_t taken = fault_post_inner(endpoint, both, 2, progress);
  if (taken == 0)
    return 0;
  fault_post_passes(engine, request);
  fault_note(&engine->ledger, FAULT_DUPLICATE, request->u.send.sequence);
  for (uint32_t i = 0; i < taken; i++)
    fault_fifo_push(engine, engine->head);
  if (taken == 1)
    fault_hold_add(engine, &both[1], FAULT_DUPLICATE, 0, 0);
  progress->wait = PST_WAIT_NONE; /* of the second half, which is held */
  fault_entry_push(engine, request->cookie, 2, 0);
  return 1;
}

static uint32_t fault_post_corrupted(struct pst_endpoint *endpoint,
                                     const struct pst_request *request, struct progress *progress)
{
  struct fault_engine *engine = endpoint->engine;
  struct pst_request corrupted;
  if (engine->copy_count == 0)
    return fault_post_wait_for_queue(progress);
  uint16_t copy = engine->copies[engine->copy_count - 1];
  if (request->arg.length > endpoint->worker->device->pool.stride ||
      !fault_corrupt(endpoint->worker->device, engine->part, copy, request, &corrupted))
    return fault_post_plain(endpoint, request, 1, progress);
  if (fault_post_inner(endpoint, &corrupted, 1, progress) == 0)
    return 0;
  engine->copy_count--;
  fault_post_passes(engine, request);
  fault_note(&engine->ledger, FAULT_CORRUPT, request->u.send.sequence);
  fault_fifo_push(engine, engine->head);
  fault_entry_push(engine, request->cookie, 1, copy);
  return 1;
}

static uint32_t fault_post_hold_back(struct pst_endpoint *endpoint,
                                     const struct pst_request *request, enum fault_kind kind,
                                     struct progress *progress)
{
  struct fault_engine *engine = endpoint->engine;
  const struct fault_plan *plan = &endpoint->worker->device->plan;
  uint64_t sequence = request->u.send.sequence;
  if (!engine->spare)
    return fault_post_wait_for_queue(progress);
  uint64_t now = fault_now(endpoint);
  if (kind == FAULT_DELAY) {
    fault_note(&engine->ledger, FAULT_DELAY, sequence);
    fault_hold_add(engine, request, kind, now + plan->delay_ns, 0);
  } else {
    uint64_t behind = 2 + fault_mix(fault_draw(plan, sequence)) % engine->distance;
    fault_hold_add(engine, request, kind, now + plan->reorder_ns, engine->head + behind);
  }
  fault_entry_push(engine, request->cookie, 1, 0);
  return 1;
}

/* Stall and kill. true: nothing is posted now. */
static bool fault_post_stops(struct pst_endpoint *endpoint, const struct pst_request *request,
                             struct progress *progress)
{
  struct fault_engine *engine = endpoint->engine;
  const struct fault_plan *plan = &endpoint->worker->device->plan;
  uint64_t sequence = request->u.send.sequence;
  if (sequence >= plan->stall_at && !engine->stall_over) {
    engine->stall_over = true;
    engine->stalled_ns = fault_now(endpoint) + plan->stall_ns;
    fault_note(&engine->ledger, FAULT_STALL, sequence);
  }
  if (engine->stalled_ns && fault_now(endpoint) < engine->stalled_ns) {
    fault_post_wait_for_queue(progress);
    return true;
  }
  engine->stalled_ns = 0;
  engine->stop_at = plan->kill_at;
  if (sequence < plan->kill_at)
    return false;
  fault_kill(endpoint, sequence);
  progress->rc = -ECONNRESET;
  return true;
}

/* Draws the fault of each message and posts inside what is due. Returns how many requests it has
 * taken. */
static uint32_t fault_post_sends(struct pst_endpoint *endpoint, const struct pst_request *requests,
                                 uint32_t n, struct progress *progress)
{
  struct fault_engine *engine = endpoint->engine;
  if (__builtin_expect(requests[0].u.send.sequence >= engine->stop_at || engine->stalled_ns, 0) &&
      fault_post_stops(endpoint, requests, progress))
    return 0;
  if (!fault_release(endpoint, false, &progress->wait)) {
    if (!progress->wait)
      progress->wait = PST_WAIT_QUEUE;
    return 0;
  }
  uint64_t room = engine->mask + 1 - (engine->head - engine->tail);
  if (room == 0)
    return fault_post_wait_for_queue(progress);
  enum fault_kind kind = fault_post_kind_of(endpoint, requests);
  switch (kind) {
  case FAULT_DROP:
    fault_note(&engine->ledger, FAULT_DROP, requests[0].u.send.sequence);
    fault_entry_push(engine, requests[0].cookie, 0, 0);
    return 1;
  case FAULT_DUPLICATE:
    return fault_post_twice(endpoint, requests, progress);
  case FAULT_CORRUPT:
    return fault_post_corrupted(endpoint, requests, progress);
  case FAULT_REORDER:
  case FAULT_DELAY:
    return fault_post_hold_back(endpoint, requests, kind, progress);
  default:
    return fault_post_plain(endpoint, requests, n < room ? n : (uint32_t)room, progress);
  }
}

/* A FLUSH covers what was posted before it: it is not taken before that is gone. */
static uint32_t fault_post_others(struct pst_endpoint *endpoint, const struct pst_request *requests,
                                  uint32_t n, struct progress *progress)
{
  struct fault_engine *engine = endpoint->engine;
  uint32_t run = 0;
  if (engine->held && requests[0].opcode == PST_OP_FLUSH) {
    fault_release(endpoint, true, &progress->wait);
    if (engine->held)
      return fault_post_wait_for_queue(progress);
  }
  while (run < n && requests[run].opcode != PST_OP_SEND &&
         !(engine->held && requests[run].opcode == PST_OP_FLUSH))
    run++;
  return fault_post_inner(endpoint, requests, run, progress);
}

int fault_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
               uint32_t *wait)
{
  const struct fault_engine *engine = endpoint->engine;
  struct progress progress = {PST_WAIT_NONE, 0};
  uint32_t taken = 0;
  if (!engine)
    return pass_ops(endpoint)->post(endpoint->inner, requests, n, wait);
  if (fault_is_killed(engine) || engine->stage == FAULT_OVER)
    return -ECONNRESET;
  if (engine->stage != FAULT_CONNECTED || engine->closing.mode)
    return -ENOTCONN;
  while (taken < n && progress.rc == 0 && progress.wait == PST_WAIT_NONE) {
    const struct pst_request *next = requests + taken;
    taken += next->opcode == PST_OP_SEND ? fault_post_sends(endpoint, next, n - taken, &progress)
                                         : fault_post_others(endpoint, next, n - taken, &progress);
  }
  return pst_post_result(taken, n, progress.rc, progress.wait, wait);
}
