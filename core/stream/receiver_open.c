/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the receiving end of a stream. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "session.h"

#define RECEIVER_AFTER 1024 /* releases that wait for their fences, to begin with; a power of 2 */

static int join_landing(struct pst_session *session, struct pst_receiver *receiver,
                        struct pst_error *error)
{
  const char *share = receiver->end.config->receiver.share;
  struct pst_receiver *owner = pst_session_receiver(session, share);

  if (!owner || !owner->landing)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "stream %s: receiver.share: stream %s is not among the streams of this run",
                    receiver->end.name, share);
  if (!(owner->end.lane->device->limits.capabilities & PST_CAP_SHARED_RING) ||
      owner->end.lane != receiver->end.lane)
    return pst_fail(
        error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
        "stream %s: receiver.share: transport %s cannot share a ring among these streams; "
        "give the stream a ring of its own",
        receiver->end.name, receiver->end.lane->device->plugin->name);
  receiver->landing = owner->landing;
  receiver->landing->users++;
  return 0;
}

static int open_fifos(struct pst_receiver *receiver, struct pst_error *error)
{
  uint64_t tokens = 1;

  while (tokens < (uint64_t)receiver->landing->slots * 2)
    tokens <<= 1;
  if (receiver->landing->staged && !receiver->end.config->receiver.assemble.packets) {
    receiver->parked = calloc(SESSION_DEVICE_BATCH, sizeof(*receiver->parked));
    if (!receiver->parked)
      return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory",
                      receiver->end.name);
  }
  receiver->pending_capacity = 256;
  receiver->pending = calloc(receiver->pending_capacity, sizeof(*receiver->pending));
  receiver->after.capacity = RECEIVER_AFTER;
  receiver->after.batches = calloc(RECEIVER_AFTER, sizeof(*receiver->after.batches));
  receiver->after.token_mask = tokens - 1;
  receiver->after.tokens = calloc(tokens, sizeof(uint64_t));
  if (!receiver->pending || !receiver->after.batches || !receiver->after.tokens)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory",
                    receiver->end.name);
  return 0;
}

static int open_queue(struct pst_receiver *receiver, struct pst_error *error)
{
  struct session_memory *memory = receiver->landing->memory;
  struct pst_queue_params params = {
      .struct_size = sizeof(params), .batches = 32, .pieces = SESSION_DEVICE_BATCH};
  int rc;

  if (!(memory->plugin->memory->capabilities & PST_MEMORY_CAP_PATTERN))
    return 0;
  rc = payload_rows_open(&receiver->payloads, memory->plugin->memory, SESSION_DEVICE_BATCH);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "stream %s: out of memory", receiver->end.name);
  rc = memory->plugin->memory->queue_open(memory->memory, &params, &receiver->queue);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "stream %s: memory %s opens no queue: %s",
                    receiver->end.name, memory->plugin->name, strerror(-rc));
  return 0;
}

static int open_intervals(struct pst_receiver *receiver, struct pst_error *error)
{
  const struct session_device *device = receiver->end.lane->device;

  if (!(device->limits.capabilities & PST_CAP_TIME))
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                    "stream %s: intervals need messages with times, and transport %s stamps none "
                    "as it is set up; `penstock plugins %s` says whether an option does, or remove "
                    "\"intervals\"",
                    receiver->end.name, device->plugin->name, device->plugin->name);
  receiver->intervals = calloc(1, sizeof(*receiver->intervals));
  if (!receiver->intervals)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory",
                    receiver->end.name);
  return 0;
}

int receiver_open(struct pst_session *session, struct pst_receiver *receiver,
                  struct pst_error *error)
{
  const struct config_stream *config = receiver->end.config;
  struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                       .roles = PST_ROLE_RECEIVER,
                                       .cookie = (uint64_t)(uintptr_t)&receiver->end,
                                       .options = config->receiver.transport.plugin.options,
                                       .label = config->name,
                                       .message_max = config->message,
                                       .timeout_ns = config->timeout_ns};
  int rc = config->receiver.share ? join_landing(session, receiver, error)
                                  : landing_open(session, receiver, error);

  if (rc == 0)
    rc = open_fifos(receiver, error);
  if (rc == 0)
    rc = open_queue(receiver, error);
  if (rc < 0)
    return rc;
  if (config->receiver.assemble.packets)
    rc = frames_open(receiver, error);
  if (rc < 0)
    return rc;
  if (config->receiver.intervals)
    rc = open_intervals(receiver, error);
  if (rc < 0)
    return rc;
  receiver->is_numbered = receiver->end.lane->device->limits.capabilities & PST_CAP_SEQUENCE;
  receiver->track.floats = receiver->end.is_foreign;
  receiver->end.path = receiver->landing->path;
  const struct pst_region *final = receiver->landing->staged ? &receiver->landing->final_region
                                                             : &receiver->landing->ring_region;
  memcpy(receiver->end.memory_backing, final->backing, sizeof(receiver->end.memory_backing));
  receiver->end.memory_kind = final->kind;
  params.ring = receiver->landing->ring;
  params.domain = landing_domain(receiver->landing);
  pst_log_clear_error();
  rc = receiver->end.lane->ops->endpoint_open(receiver->end.lane->worker, &params,
                                              &receiver->end.endpoint);
  if (rc < 0 && pst_fail_said(error, refusal_status(rc), rc) == rc)
    return rc;
  if (rc < 0)
    return pst_fail(error, refusal_status(rc), rc, "stream %s: transport %s opens no endpoint: %s",
                    config->name, receiver->end.lane->device->plugin->name, strerror(-rc));
  return 0;
}

void receiver_drop_fence(const struct pst_receiver *receiver, struct pst_fence *fence)
{
  struct session_memory *memory = receiver->landing->memory;

  if (fence)
    memory->plugin->memory->fence_release(memory->memory, fence);
}

void receiver_close(struct pst_receiver *receiver)
{
  if (!receiver)
    return;
  tensors_close(receiver);
  if (receiver->landing) {
    frames_close(receiver);
    receiver_drop_fence(receiver, receiver->ready);
    while (receiver->after.batches && receiver->after.head != receiver->after.tail)
      receiver_drop_fence(
          receiver,
          receiver->after.batches[receiver->after.head++ & (receiver->after.capacity - 1)].fence);
    if (receiver->queue)
      receiver->landing->memory->plugin->memory->queue_close(receiver->queue);
    landing_close(receiver->landing);
  }
  free(receiver->parked);
  payload_rows_close(&receiver->payloads);
  free(receiver->intervals);
  free(receiver->pending);
  free(receiver->after.batches);
  free(receiver->after.tokens);
  pthread_mutex_destroy(&receiver->end.text_lock);
  free(receiver);
}
