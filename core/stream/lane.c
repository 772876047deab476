/* SPDX-License-Identifier: Apache-2.0 */
/* A transport's worker on a thread: opened, polled, and closed. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "receive_ring.h"
#include "session.h"
#include "util/log.h"

/* Staged receivers copy out of the regions that a transport lends, at full speed where their
 * memory pins them. */

/* The ring of the thread's end i, where it copies from this lane's lent regions; or NULL. */
static struct receive_ring *lane_lent_ring(const struct session_lane *lane, uint32_t i)
{
  const struct session_end *end = lane->thread->ends[i];
  struct receive_ring *ring = end->lane == lane && end->ops->ring ? end->ops->ring(end) : NULL;

  return ring && ring->ops->copies ? ring : NULL;
}

static const struct engine_memory *lane_lent_memory(const struct session_lane *lane, uint32_t i)
{
  const struct receive_ring *ring = lane_lent_ring(lane, i);

  return ring ? ring->memory : NULL;
}

/* The memory cannot pin what this lane is lent, though it would. */
static void lane_lent_slice_copies(const struct session_lane *lane,
                                   const struct engine_memory *memory)
{
  if (!(memory->ops->capabilities & PST_MEMORY_CAP_HOST_REGISTER))
    return;
  for (uint32_t i = 0; i < lane->thread->end_count; i++)
    if (lane_lent_memory(lane, i) == memory)
      lane_lent_ring(lane, i)->ops->lent_unpinned(lane_lent_ring(lane, i));
}

static void lane_lent(struct engine_worker *worker, struct engine_lent *lent)
{
  const struct session_lane *lane = (const struct session_lane *)worker;

  if (!lent->host) /* a device's: nothing of the host's to pin */
    return;
  for (uint32_t i = 0; i < lane->thread->end_count && i < 64; i++) {
    const struct engine_memory *memory = lane_lent_memory(lane, i);
    bool again = false;
    for (uint32_t k = 0; k < i && memory; k++)
      again |= lane_lent_memory(lane, k) == memory;
    if (!memory || again)
      continue;
    if (memory->ops->host_register(memory->memory, lent->host, lent->length) == 0)
      lent->pinned |= UINT64_C(1) << i;
    else
      lane_lent_slice_copies(lane, memory);
  }
}

static void lane_unlent(struct engine_worker *worker, const struct engine_lent *lent)
{
  const struct session_lane *lane = (const struct session_lane *)worker;

  for (uint32_t i = 0; i < lane->thread->end_count && i < 64; i++) {
    const struct engine_memory *memory = lane_lent_memory(lane, i);
    if (memory && (lent->pinned >> i & 1))
      memory->ops->host_unregister(memory->memory, lent->host, lent->length);
  }
}

/* ---- Events ------------------------------------------------------------------------ */

static void lane_connected(struct engine_endpoint *endpoint)
{
  end_connected((struct session_end *)endpoint);
}

static void lane_disconnected(struct engine_endpoint *endpoint, int status)
{
  end_gone((struct session_end *)endpoint, status);
}

static void lane_readdressed(struct engine_endpoint *endpoint)
{
  struct session_end *end = (struct session_end *)endpoint;
  struct engine_address address;

  if (end->session->control && engine_endpoint_address(endpoint, &address) == 0)
    control_readdress(end->session->control, end, &address.blob);
}

static void lane_device_failed(struct engine_worker *worker, int status)
{
  const struct session_lane *lane = (const struct session_lane *)worker;

  for (uint32_t i = 0; i < lane->thread->end_count; i++)
    if (lane->thread->ends[i]->lane == lane)
      end_device_failed(lane->thread->ends[i], status);
}

static const struct engine_events lane_events = {.connected = lane_connected,
                                                 .disconnected = lane_disconnected,
                                                 .readdressed = lane_readdressed,
                                                 .device_failed = lane_device_failed,
                                                 .lent = lane_lent,
                                                 .unlent = lane_unlent};

#define LANE_POLL_ENDS 64 /* ends that one poll of their lane serves, where it has more */

int lane_open(struct session_thread *thread, struct engine_device *device,
              struct session_lane **lane, struct pst_error *error)
{
  struct session_lane *entry;
  int rc;

  for (uint32_t i = 0; i < thread->lane_count; i++)
    if (thread->lanes[i]->device == device) {
      *lane = thread->lanes[i];
      return 0;
    }
  entry = calloc(1, sizeof(*entry));
  if (!entry || ARRAY_APPEND(thread->lanes, thread->lane_count, entry) < 0) {
    free(entry);
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory while opening the session");
  }
  rc = engine_worker_open(&thread->session->engine, device, &lane_events, &entry->worker, error);
  if (rc < 0)
    return rc;
  counts_init(&entry->counts);
  entry->thread = thread;
  entry->device = device;
  if (engine_thread_add(&thread->base, &entry->worker) < 0)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory while opening the session");
  *lane = entry;
  return 0;
}

static struct session_end *lane_end_of(const struct pst_completion *completion)
{
  return (struct session_end *)(uintptr_t)completion->endpoint;
}

void lane_hand_over(struct session_lane *lane, const struct pst_completion *completion)
{
  struct session_end *end = lane_end_of(completion);

  if (completion->kind == PST_COMPLETION_MESSAGE)
    end->ops->arrived(end, completion);
  else if (completion->kind == PST_COMPLETION_DONE)
    end->ops->done(end, completion);
  else
    engine_worker_take_event(&lane->worker, completion);
}

uint32_t lane_poll(struct session_lane *lane, uint32_t max)
{
  if (__builtin_expect(lane->spare_polls > 0, 0)) {
    lane->spare_polls--;
    return 0;
  }
  if (max > SESSION_POLL_BATCH)
    max = SESSION_POLL_BATCH;
  int n = lane->worker.ops->poll(lane->worker.handle, lane->completions, max);

  /* A poll looks at every end, and every end asks for one: with thousands of ends, one poll for
   * each would cost their square. Cut short, there is more to be had. */
  if (n < (int)max)
    lane->spare_polls = lane->end_count / LANE_POLL_ENDS;
  if (n > 0)
    lane->thread->idle_since_ns = 0;
  return n > 0 ? (uint32_t)n : 0;
}

void lane_progress(struct session_lane *lane)
{
  const uint32_t n = lane_poll(lane, SESSION_POLL_BATCH);

  for (uint32_t i = 0; i < n; i++)
    lane_hand_over(lane, &lane->completions[i]);
}
