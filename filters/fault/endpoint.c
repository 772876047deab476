/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints, and the engines of those that send. */
#include <assert.h>

#include "endpoint.h"
#include "ops.h"

static void fault_endpoint_engine_free(struct fault_engine *engine)
{
  if (!engine)
    return;
  free(engine->entries);
  free(engine->fifo);
  free(engine->hold_memory);
  free(engine->piece_memory);
  free(engine->ledger.records);
  free(engine);
}

static void fault_endpoint_holds_init(struct fault_engine *engine, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    struct fault_hold *hold = &engine->hold_memory[i];
    hold->pieces = engine->piece_memory + (size_t)i * engine->pieces;
    hold->next = engine->spare;
    engine->spare = hold;
  }
  engine->again.last = &engine->again.first;
  engine->reordered.last = &engine->reordered.first;
  engine->delayed.last = &engine->delayed.first;
  engine->next_due = FAULT_NEVER;
}

/* Allocates the engine of an endpoint, for the requests that can be outstanding. NULL: out of
 * memory. */
static struct fault_engine *fault_endpoint_engine_new(const struct pst_device *device,
                                                      const struct pst_endpoint_params *params)
{
  const struct fault_plan *plan = &device->plan;
  uint32_t requests =
      params->requests < device->requests_max ? params->requests : device->requests_max;
  uint64_t size = 2;
  while (size < requests)
    size <<= 1;
  uint64_t half = requests / 2 > 0 ? requests / 2 : 1;
  struct fault_engine *engine = calloc(1, sizeof(*engine));
  if (!engine)
    return NULL;
  engine->mask = size - 1;
  engine->distance = plan->distance < half ? plan->distance : half;
  engine->pieces = params->pieces ? params->pieces : 1;
  engine->ledger.record_max = plan->ledger;
  engine->stop_at = plan->stall_at < plan->kill_at ? plan->stall_at : plan->kill_at;
  uint32_t holds = size < FAULT_HOLDS_MAX ? (uint32_t)size : FAULT_HOLDS_MAX;
  engine->entries = calloc(size, sizeof(*engine->entries));
  engine->fifo = calloc(2 * size, sizeof(*engine->fifo));
  engine->hold_memory = calloc(holds, sizeof(*engine->hold_memory));
  engine->piece_memory = calloc((size_t)holds * engine->pieces, sizeof(*engine->piece_memory));
  engine->ledger.records = calloc(plan->ledger + 1u, sizeof(*engine->ledger.records));
  if (!engine->entries || !engine->fifo || !engine->hold_memory || !engine->piece_memory ||
      !engine->ledger.records) {
    fault_endpoint_engine_free(engine);
    return NULL;
  }
  fault_endpoint_holds_init(engine, holds);
  for (uint16_t i = 0; i < FAULT_COPIES; i++)
    engine->copies[engine->copy_count++] = (uint16_t)(i + 1);
  return engine;
}

void fault_endpoint_free(struct pst_endpoint *endpoint)
{
  fault_endpoint_engine_free(endpoint->engine);
  free(endpoint);
}

void fault_endpoint_forget(struct pst_endpoint *endpoint)
{
  struct pst_endpoint **at = &endpoint->worker->endpoints;
  while (*at != endpoint)
    at = &(*at)->next;
  *at = endpoint->next;
  fault_endpoint_free(endpoint);
}

/* Opens the endpoint inside. A sender gets an engine if any fault is planned. */
int fault_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                        struct pst_endpoint **endpoint)
{
  struct pst_device *device = worker->device;
  struct pst_endpoint_params in;
  struct pst_endpoint *made = calloc(1, sizeof(*made));
  uint32_t part = 0;
  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  made->worker = worker;
  made->cookie = in.cookie;
  bool sends = device->plan.active && (in.roles & PST_ROLE_SENDER);
  int rc = sends ? fault_part_take(device, &part) : 0;
  if (rc != 0) {
    free(made);
    return rc;
  }
  if (sends) {
    made->engine = fault_endpoint_engine_new(device, &in);
    rc = made->engine ? 0 : -ENOMEM;
  }
  if (in.cookie)
    in.cookie = (uint64_t)(uintptr_t)made;
  if (rc == 0)
    rc = device->ops->endpoint_open(worker->inner, &in, &made->inner);
  if (rc != 0) {
    if (sends)
      fault_part_untake(device, part);
    fault_endpoint_free(made);
    return rc;
  }
  if (sends)
    made->engine->part = part;
  made->next = worker->endpoints;
  worker->endpoints = made;
  *endpoint = made;
  return 0;
}

static int fault_endpoint_close_inner(struct pst_endpoint *endpoint, uint32_t mode,
                                      uint64_t deadline_ns)
{
  assert(endpoint->inner && endpoint->engine->held == 0);
  return pass_endpoint_close(endpoint, mode, deadline_ns);
}

#define KILL_NS UINT64_C(100000000) /* for what a receiver still holds of lent slots */

void fault_kill(struct pst_endpoint *endpoint, uint64_t sequence)
{
  struct fault_engine *engine = endpoint->engine;
  fault_note(&engine->ledger, FAULT_KILL, sequence);
  int n = pass_counters(endpoint->worker->device, endpoint->worker, endpoint,
                        engine->inner_counters, FAULT_INNER_COUNTERS);
  if (n > 0)
    engine->inner_counter_count =
        (uint32_t)n < FAULT_INNER_COUNTERS ? (uint32_t)n : FAULT_INNER_COUNTERS;
  fault_holds_drop(engine, -ECONNRESET);
  fault_enter(engine, FAULT_KILLED);
  fault_endpoint_close_inner(endpoint, PST_CLOSE_ABORT, fault_now(endpoint) + KILL_NS);
}

int fault_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  struct fault_engine *engine = endpoint->engine;
  if (!engine)
    return pass_endpoint_close(endpoint, mode, deadline_ns);
  int rc = pst_closing_begin(&engine->closing, mode, deadline_ns);
  if (rc != 0)
    return rc;
  engine->stalled_ns = 0;
  if (mode == PST_CLOSE_ABORT)
    fault_holds_drop(engine, -ECANCELED);
  if (engine->held || engine->stage >= FAULT_CLOSING)
    return 0;
  rc = fault_endpoint_close_inner(endpoint, mode, deadline_ns);
  if (rc == 0)
    fault_enter(engine, FAULT_CLOSING);
  else
    engine->closing.mode = 0;
  return rc;
}

void fault_close_progress(struct pst_endpoint *endpoint)
{
  struct fault_engine *engine = endpoint->engine;
  uint32_t wait;
  if (!engine->closing.mode || engine->stage >= FAULT_CLOSING)
    return;
  fault_release(endpoint, true, &wait);
  if (engine->held && fault_now(endpoint) < engine->closing.deadline_ns)
    return;
  fault_holds_drop(engine, -ECANCELED);
  fault_enter(engine, FAULT_CLOSING);
  fault_endpoint_close_inner(endpoint, engine->closing.mode, engine->closing.deadline_ns);
}
