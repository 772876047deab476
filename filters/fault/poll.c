/* SPDX-License-Identifier: Apache-2.0 */
/* Completions: the inner ones told apart, DONEs in the host's post order. */
#include "endpoint.h"
#include "ops.h"

static bool fault_poll_is_done(const struct fault_engine *engine, uint64_t entry)
{
  return entry != engine->head && engine->entries[entry & engine->mask].pending == 0;
}

static bool fault_poll_is_finished(const struct fault_engine *engine)
{
  return engine->closing.mode && engine->tail == engine->head &&
         (engine->stage == FAULT_CLOSED || engine->stage == FAULT_KILL_OVER);
}

/* Emits the filter's own completions, up to max. The CLOSED is the last, and the endpoint is freed
 * with it. */
static uint32_t fault_poll_emit(struct pst_endpoint *endpoint, struct pst_completion *out,
                                uint32_t max)
{
  struct fault_engine *engine = endpoint->engine;
  uint32_t n = 0;
  if (engine->stage == FAULT_KILLED && n < max) {
    fault_enter(engine, FAULT_KILL_TOLD);
    pst_event_write(&out[n++], endpoint->cookie, PST_EVENT_DISCONNECTED, -ECONNRESET);
  }
  while (n < max && fault_poll_is_done(engine, engine->tail)) {
    uint64_t from = engine->tail;
    int32_t status = engine->entries[from & engine->mask].status;
    do
      engine->tail++;
    while (fault_poll_is_done(engine, engine->tail) &&
           engine->entries[engine->tail & engine->mask].status == status);
    out[n++] = (struct pst_completion){
        .kind = PST_COMPLETION_DONE,
        .code = PST_OP_SEND,
        .status = status,
        .endpoint = endpoint->cookie,
        .u.done = {engine->entries[(engine->tail - 1) & engine->mask].cookie, engine->tail - from},
    };
  }
  if (n < max && fault_poll_is_finished(engine)) {
    pst_event_write(&out[n++], endpoint->cookie, PST_EVENT_CLOSED, 0);
    fault_endpoint_forget(endpoint);
  }
  return n;
}

static uint32_t fault_poll_emit_all(struct pst_worker *worker, struct pst_completion *out,
                                    uint32_t max)
{
  uint32_t n = 0;
  for (struct pst_endpoint *at = worker->endpoints, *next; at && n < max; at = next) {
    next = at->next;
    if (at->engine)
      n += fault_poll_emit(at, out + n, max - n);
  }
  return n;
}

static int32_t fault_poll_status_of(const struct fault_engine *engine, int32_t status)
{
  return fault_is_killed(engine) && status == -ECANCELED ? -ECONNRESET : status;
}

static void fault_poll_inner_done(struct fault_engine *engine, uint64_t count, int32_t status)
{
  uint64_t mask = 2 * engine->mask + 1;
  for (; count && engine->fifo_tail != engine->fifo_head; count--)
    fault_entry_settle(engine, engine->fifo[engine->fifo_tail++ & mask],
                       fault_poll_status_of(engine, status));
}

/* Is it for the host too? */
static bool fault_poll_inner_event(struct pst_endpoint *endpoint,
                                   const struct pst_completion *completion)
{
  struct fault_engine *engine = endpoint->engine;
  switch (completion->code) {
  case PST_EVENT_CONNECTED:
    if (engine->stage <= FAULT_CONNECTED)
      fault_enter(engine, FAULT_CONNECTED);
    return true;
  case PST_EVENT_DISCONNECTED:
    if (fault_is_killed(engine))
      return false;
    if (engine->stage < FAULT_CLOSING)
      fault_enter(engine, FAULT_OVER);
    fault_holds_drop(engine, -ECONNRESET);
    return true;
  case PST_EVENT_CLOSED:
    fault_enter(engine, fault_is_killed(engine) ? FAULT_KILL_OVER : FAULT_CLOSED);
    endpoint->inner = NULL;
    /* None is left, by its promise; ours to the host rests on it. */
    fault_poll_inner_done(engine, UINT64_MAX, -ECANCELED);
    return false;
  default:
    return true;
  }
}

/* One inner completion becomes at most one, at `out`, which may be where it is. */
static uint32_t fault_poll_translate(const struct pst_completion *inner, struct pst_completion *out)
{
  struct pst_completion completion = *inner;
  if (completion.endpoint == 0) {
    *out = completion;
    return 1;
  }
  struct pst_endpoint *endpoint = (struct pst_endpoint *)(uintptr_t)completion.endpoint;
  struct fault_engine *engine = endpoint->engine;
  completion.endpoint = endpoint->cookie;
  if (engine && completion.kind == PST_COMPLETION_DONE) {
    if (completion.code == PST_OP_SEND) {
      fault_poll_inner_done(engine, completion.u.done.count, completion.status);
      return fault_poll_emit(endpoint, out, 1);
    }
    completion.status = fault_poll_status_of(engine, completion.status);
  } else if (engine && completion.kind == PST_COMPLETION_EVENT) {
    if (!fault_poll_inner_event(endpoint, &completion))
      return fault_poll_emit(endpoint, out, 1);
  }
  *out = completion;
  if (!engine && completion.kind == PST_COMPLETION_EVENT && completion.code == PST_EVENT_CLOSED)
    fault_endpoint_forget(endpoint);
  return 1;
}

static void fault_poll_progress(struct pst_worker *worker)
{
  for (struct pst_endpoint *at = worker->endpoints; at; at = at->next) {
    struct fault_engine *engine = at->engine;
    uint32_t wait = PST_WAIT_NONE;
    if (!engine)
      continue;
    if (engine->stalled_ns && fault_now(at) >= engine->stalled_ns)
      engine->stalled_ns = 0;
    if (engine->held && !engine->stalled_ns)
      fault_release(at, false, &wait);
    fault_close_progress(at);
  }
}

int fault_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  fault_poll_progress(worker);
  uint32_t n = fault_poll_emit_all(worker, completions, max);
  if (n == max)
    return (int)n;
  int got = worker->device->ops->poll(worker->inner, completions + n, max - n);
  uint32_t end = got > 0 ? n + (uint32_t)got : n;
  for (uint32_t i = n; i < end; i++)
    n += fault_poll_translate(&completions[i], &completions[n]);
  n += fault_poll_emit_all(worker, completions + n, max - n);
  return (int)n;
}

/* Nothing would wake a sleeper when the time of a message has come. */
static bool fault_poll_has_work(const struct fault_engine *engine)
{
  return engine->stalled_ns || (engine->held && !engine->blocked) ||
         engine->stage == FAULT_KILLED || fault_poll_is_done(engine, engine->tail) ||
         (engine->closing.mode && engine->stage < FAULT_CLOSING) || fault_poll_is_finished(engine);
}

int fault_arm(struct pst_worker *worker)
{
  for (const struct pst_endpoint *at = worker->endpoints; at; at = at->next)
    if (at->engine && fault_poll_has_work(at->engine))
      return -EAGAIN;
  return worker->device->ops->arm(worker->inner);
}
