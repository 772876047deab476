/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of endpoints, workers and devices, kept for other threads. */
#include <errno.h>
#include <string.h>

#include "receiver.h"
#include "sender.h"
#include "session.h"

void end_read_counters(struct session_end *end)
{
  struct session_lane *lane = end->lane;

  if (end->ops->measure)
    end->ops->measure(end);
  if (end->endpoint.state == ENGINE_ENDPOINT_NONE || end->endpoint.state == ENGINE_ENDPOINT_CLOSED)
    return;
  counts_read(&end->counts, lane->worker.ops, lane->device->device, lane->worker.handle,
              end->endpoint.handle);
  end_lock(end);
  if (end->ops->claim)
    end->ops->claim(end);
  end_unlock(end);
}

uint64_t end_sum_counters(const struct session_end *end, uint64_t flag)
{
  uint64_t sum = 0;

  for (uint32_t i = 0; i < end->counts.count; i++)
    if (end->counts.values[i].flags & flag)
      sum += end->counts.values[i].value;
  return sum;
}

int pst_sender_counters(const struct pst_sender *sender, struct pst_counter_value *values,
                        uint32_t max)
{
  return counts_copy(&sender->end.counts, values, max);
}

int pst_receiver_counters(const struct pst_receiver *receiver, struct pst_counter_value *values,
                          uint32_t max)
{
  return counts_copy(&receiver->end.counts, values, max);
}

#define COUNTERS_READ_NS PST_NS_PER_S

static void counters_read_worker(struct session_lane *lane)
{
  counts_read(&lane->counts, lane->worker.ops, lane->device->device, lane->worker.handle, NULL);
}

void counters_read(struct session_thread *thread, uint64_t now)
{
  if (now < thread->next_counters_ns)
    return;
  thread->next_counters_ns = now + COUNTERS_READ_NS;
  for (uint32_t i = 0; i < thread->lane_count; i++) {
    counters_read_worker(thread->lanes[i]);
    engine_device_count_soon(thread->lanes[i]->device);
  }
}

void counters_read_last(struct session_lane *lane)
{
  counters_read_worker(lane);
  if (counts_has_drops(&lane->device->counts))
    engine_device_count(lane->device);
}

uint32_t pst_session_devices(const struct pst_session *session)
{
  return session->engine.device_count;
}

int pst_session_device(const struct pst_session *session, uint32_t index,
                       struct pst_device_info *info)
{
  if (index >= session->engine.device_count)
    return -ENOENT;
  engine_device_info(session->engine.devices[index], info);
  return 0;
}

int pst_session_device_counters(struct pst_session *session, uint32_t index,
                                struct pst_counter_value *values, uint32_t max)
{
  if (index >= session->engine.device_count)
    return -ENOENT;
  struct engine_device *device = session->engine.devices[index];
  if (device->has_counters)
    engine_device_count(device);
  return counts_copy(&device->counts, values, max);
}

int pst_session_worker_counters(struct pst_session *session, uint32_t index, uint32_t thread,
                                struct pst_counter_value *values, uint32_t max)
{
  if (index >= session->engine.device_count || thread >= session->thread_count)
    return -ENOENT;
  for (uint32_t i = 0; i < session->threads[thread]->lane_count; i++) {
    struct session_lane *lane = session->threads[thread]->lanes[i];
    if (lane->device == session->engine.devices[index])
      return counts_copy(&lane->counts, values, max);
  }
  return -ENOENT;
}
