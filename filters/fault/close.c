/* SPDX-License-Identifier: Apache-2.0 */
/* How a sender's endpoint ends: by the host, or by kill_at. */
#include "fault.h"

#define KILL_NS UINT64_C(100000000) /* for what a receiver still holds of lent slots */

void fault_kill(struct pst_endpoint *endpoint, uint64_t sequence)
{
  struct fault_engine *engine = endpoint->engine;
  struct pst_device *device = endpoint->worker->device;
  fault_note(&engine->ledger, FAULT_KILL, sequence);
  int n = device->ops->counters(device->inner, endpoint->worker->inner, endpoint->inner,
                                engine->inner_counters, FAULT_INNER_COUNTERS);
  if (n > 0)
    engine->inner_counter_count =
        (uint32_t)n < FAULT_INNER_COUNTERS ? (uint32_t)n : FAULT_INNER_COUNTERS;
  engine->killed = true;
  fault_holds_drop(engine, -ECONNRESET);
  engine->inner_closes = true;
  device->ops->endpoint_close(endpoint->inner, PST_CLOSE_ABORT, fault_now(endpoint) + KILL_NS);
}

static int close_inner(struct pst_endpoint *endpoint)
{
  struct fault_engine *engine = endpoint->engine;
  engine->inner_closes = true;
  return pass_ops(endpoint)->endpoint_close(endpoint->inner, engine->close_mode,
                                            engine->close_deadline_ns);
}

int fault_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  struct fault_engine *engine = endpoint->engine;
  if (!engine)
    return pass_ops(endpoint)->endpoint_close(endpoint->inner, mode, deadline_ns);
  if (mode != PST_CLOSE_DRAIN && mode != PST_CLOSE_ABORT)
    return -EINVAL;
  if (engine->close_mode)
    return -EALREADY;
  engine->close_mode = mode;
  engine->close_deadline_ns = deadline_ns;
  engine->stalled_ns = 0;
  if (mode == PST_CLOSE_ABORT)
    fault_holds_drop(engine, -ECANCELED);
  if (engine->held || engine->inner_closes)
    return 0;
  int rc = close_inner(endpoint);
  if (rc != 0) {
    engine->close_mode = 0;
    engine->inner_closes = false;
  }
  return rc;
}

void fault_close_progress(struct pst_endpoint *endpoint)
{
  struct fault_engine *engine = endpoint->engine;
  uint32_t wait;
  if (!engine->close_mode || engine->inner_closes)
    return;
  fault_release(endpoint, true, &wait);
  if (engine->held && fault_now(endpoint) < engine->close_deadline_ns)
    return;
  fault_holds_drop(engine, -ECANCELED);
  close_inner(endpoint);
}
