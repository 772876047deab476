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
static struct receive_ring *lent_ring(const struct session_lane *lane, uint32_t i)
{
  const struct session_end *end = lane->thread->ends[i];
  struct receive_ring *ring = end->lane == lane && end->ops->ring ? end->ops->ring(end) : NULL;

  return ring && ring->ops->copies ? ring : NULL;
}

static const struct engine_memory *lent_memory(const struct session_lane *lane, uint32_t i)
{
  const struct receive_ring *ring = lent_ring(lane, i);

  return ring ? ring->memory : NULL;
}

/* The memory cannot pin what this lane is lent, though it would. */
static void lent_slice_copies(const struct session_lane *lane, const struct engine_memory *memory)
{
  if (!(memory->ops->capabilities & PST_MEMORY_CAP_HOST_REGISTER))
    return;
  for (uint32_t i = 0; i < lane->thread->end_count; i++)
    if (lent_memory(lane, i) == memory)
      lent_ring(lane, i)->ops->lent_unpinned(lent_ring(lane, i));
}

static void lent_take(struct session_lane *lane, uint64_t buffer, const struct pst_region *region)
{
  if (buffer == 0 || buffer >= ENGINE_LENT_MAX) {
    pst_log(PST_LOG_ERROR, "%s lends more than %d regions: a bug of that transport",
            lane->device->plugin->name, ENGINE_LENT_MAX - 1);
    return;
  }
  struct session_lent *lent = &lane->lent[buffer];
  *lent = (struct session_lent){.region = region, .host = region->host, .length = region->length};
  for (uint32_t i = 0; i < lane->thread->end_count && i < 64; i++) {
    const struct engine_memory *memory = lent_memory(lane, i);
    bool again = false;
    for (uint32_t k = 0; k < i && memory; k++)
      again |= lent_memory(lane, k) == memory;
    if (!memory || again)
      continue;
    if (memory->ops->host_register(memory->memory, lent->host, lent->length) == 0)
      lent->pinned |= UINT64_C(1) << i;
    else
      lent_slice_copies(lane, memory);
  }
}

static void lent_forget(struct session_lane *lane, uint64_t buffer)
{
  struct session_lent *lent = &lane->lent[buffer];

  for (uint32_t i = 0; i < lane->thread->end_count && i < 64; i++) {
    const struct engine_memory *memory = lent_memory(lane, i);
    if (memory && (lent->pinned >> i & 1))
      memory->ops->host_unregister(memory->memory, lent->host, lent->length);
  }
  *lent = (struct session_lent){0};
}

/* Read where it lies, it is of the ring's kind and device, or host memory at any rate; copied, the
 * copies reach it. */
static bool lent_suits(const struct receive_ring *ring, const struct pst_region *region)
{
  const struct pst_region *own = ring->views;

  if (region->kind == own->kind && strcmp(region->device, own->device) == 0)
    return true;
  if (ring->ops->copies)
    return region->host;
  return own->kind == PST_MEMORY_HOST && region->kind == PST_MEMORY_MAPPED &&
         region->address == (uintptr_t)region->host;
}

const struct pst_region *lane_lent(const struct receive_ring *ring, uint32_t buffer)
{
  const struct pst_region *region =
      buffer < ENGINE_LENT_MAX ? ring->lane->lent[buffer].region : NULL;

  return region && lent_suits(ring, region) ? region : NULL;
}

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
  rc = engine_worker_open(device, device->next_worker, &entry->worker, error);
  if (rc < 0) {
    thread->lane_count--;
    free(entry);
    return rc;
  }
  device->next_worker++;
  counts_init(&entry->counts);
  entry->thread = thread;
  entry->device = device;
  entry->ops = device->ops;
  entry->messages = entry->completions;
  entry->event_fd = -1;
  if (device->limits.capabilities & PST_CAP_WAKEUP)
    entry->event_fd = device->ops->event_fd(entry->worker);
  if (entry->event_fd >= 0 && mailbox_add(&thread->mailbox, entry->event_fd) < 0)
    entry->event_fd = -1;
  *lane = entry;
  return 0;
}

static struct session_end *lane_end_of(const struct pst_completion *completion)
{
  return (struct session_end *)(uintptr_t)completion->endpoint;
}

static void lane_take_event(struct session_lane *lane, const struct pst_completion *completion)
{
  struct session_end *end = lane_end_of(completion);
  uint64_t buffer = completion->u.region.buffer;

  switch (completion->code) {
  case PST_EVENT_CONNECTED:
    end_connected(end);
    break;
  case PST_EVENT_DISCONNECTED:
    end_gone(end, completion->status);
    break;
  case PST_EVENT_READDRESS: {
    char bytes[CONTROL_ADDRESS_MAX];
    struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
    if (end->session->control && lane->ops->endpoint_address(end->endpoint, &blob) == 0)
      control_readdress(end->session->control, end, &blob);
    break;
  }
  case PST_EVENT_CLOSED:
    end->endpoint_state = END_ENDPOINT_CLOSED;
    break;
  case PST_EVENT_LENT:
    lent_take(lane, buffer, completion->u.region.region);
    break;
  case PST_EVENT_UNLENT:
    if (buffer < ENGINE_LENT_MAX)
      lent_forget(lane, buffer);
    break;
  case PST_EVENT_DEVICE:
    for (uint32_t i = 0; i < lane->thread->end_count; i++)
      if (lane->thread->ends[i]->lane == lane)
        end_device_failed(lane->thread->ends[i], completion->status);
    break;
  }
}

/* What is no message. */
static void lane_take_told(struct session_lane *lane, const struct pst_completion *completion)
{
  struct session_end *end = lane_end_of(completion);

  if (completion->kind != PST_COMPLETION_DONE)
    lane_take_event(lane, completion);
  else
    end->ops->done(end, completion);
}

/* What lies behind the first `kept` of n completions: the messages of `mine` move up to them, the
 * others go to their ends. Returns how many are kept then. */
static __attribute__((noinline)) int lane_sort(struct session_lane *lane,
                                               const struct session_end *mine, int kept, int n)
{
  struct pst_completion *completions = lane->completions;

  for (int i = kept; i < n; i++) {
    struct pst_completion *completion = &completions[i];

    if (completion->kind != PST_COMPLETION_MESSAGE)
      lane_take_told(lane, completion);
    else if (completion->endpoint != (uintptr_t)mine)
      lane_end_of(completion)->ops->arrived(lane_end_of(completion), completion);
    else if (kept++ != i)
      completions[kept - 1] = *completion;
  }
  return kept;
}

int lane_poll(struct session_lane *lane, struct session_end *mine, uint32_t max)
{
  struct pst_completion *completions = lane->completions;
  int first = 0;

  if (__builtin_expect(lane->spare_polls > 0, 0)) {
    lane->spare_polls--;
    lane->seen = false;
    return 0;
  }
  if (max > SESSION_POLL_BATCH)
    max = SESSION_POLL_BATCH;
  int n = lane->ops->poll(lane->worker, completions, max);

  /* It looks at every end, and every end asks for it: with thousands of them, once
   * for each would cost their square. Cut short, there is more to be had. */
  if (n < (int)max)
    lane->spare_polls = lane->end_count / LANE_POLL_ENDS;
  if (n > 0)
    lane->thread->idle_since_ns = 0;
  /* Mostly they are all messages of the end that asks, behind what a sender is told. */
  while (first < n && completions[first].kind != PST_COMPLETION_MESSAGE)
    lane_take_told(lane, &completions[first++]);
  const struct pst_completion *kept = completions + first, *const end = completions + n;
  while (kept < end && kept->kind == PST_COMPLETION_MESSAGE && kept->endpoint == (uintptr_t)mine)
    kept++;
  lane->seen = n > 0;
  lane->messages = &completions[first];
  int count = (int)(kept - completions);
  if (__builtin_expect(kept < end, 0))
    count = lane_sort(lane, mine, count, n);
  return count - first;
}

void lane_poll_closing(struct session_lane *lane)
{
  int n = lane->ops->poll(lane->worker, lane->completions, SESSION_POLL_BATCH);

  for (int i = 0; i < n; i++) {
    const struct pst_completion *completion = &lane->completions[i];
    if (completion->kind == PST_COMPLETION_MESSAGE)
      lane->ops->release(lane->worker, &completion->u.message.token, 1);
    else if (completion->kind == PST_COMPLETION_EVENT)
      lane_take_event(lane, completion);
  }
}

void lane_close_worker(struct session_lane *lane)
{
  for (uint32_t buffer = 1; buffer < ENGINE_LENT_MAX; buffer++)
    if (lane->lent[buffer].region)
      lent_forget(lane, buffer);
  lane->ops->worker_close(lane->worker);
}
