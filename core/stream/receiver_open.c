/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the receiving end of a stream. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "event_loop.h"
#include "frames.h"
#include "lane.h"
#include "loss.h"
#include "session.h"

#define RECEIVER_AFTER 1024 /* releases that wait for their fences, to begin with; a power of 2 */

static int receiver_open_own_ring(struct pst_session *session, struct pst_receiver *receiver,
                                  struct pst_error *error)
{
  const struct config_stream *config = receiver->end.config;
  const bool assembles = config->receiver.assemble.packets;
  const struct receive_ring_params params = {
      .stream = config,
      .lane = receiver->end.lane,
      .endpoints = 1 + session_stream_find(session, receiver->end.name)->sharers,
      .final_length = assembles ? frames_length(config) : 0,
      .pieces = assembles ? frames_pieces(config) : SESSION_DEVICE_BATCH};

  return receive_ring_open(&session->engine, &params, &receiver->ring, error);
}

static int receiver_join_ring(struct pst_session *session, struct pst_receiver *receiver,
                              struct pst_error *error)
{
  const char *share = receiver->end.share;
  struct pst_receiver *owner = pst_session_receiver(session, share);

  if (!owner || !owner->ring)
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
  receiver->ring = owner->ring;
  receiver->ring->users++;
  return 0;
}

static int receiver_open_fifos(struct pst_receiver *receiver, struct pst_error *error)
{
  uint64_t tokens = 1;

  while (tokens < (uint64_t)receiver->ring->slots * 2)
    tokens <<= 1;
  if (receiver->ring->staging && !receiver->end.config->receiver.assemble.packets) {
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

static int receiver_open_queue(struct pst_receiver *receiver, struct pst_error *error)
{
  struct engine_memory *memory = receiver->ring->memory;
  struct pst_queue_params params = {
      .struct_size = sizeof(params), .batches = 32, .pieces = SESSION_DEVICE_BATCH};
  int rc;

  if (!(memory->plugin->memory->capabilities & PST_MEMORY_CAP_PATTERN))
    return 0;
  rc = payload_rows_open(&receiver->payloads, SESSION_DEVICE_BATCH);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "stream %s: out of memory", receiver->end.name);
  rc = memory->plugin->memory->queue_open(memory->memory, &params, &receiver->queue);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "stream %s: memory %s opens no queue: %s",
                    receiver->end.name, memory->plugin->name, strerror(-rc));
  return 0;
}

static int receiver_open_intervals(struct pst_receiver *receiver, struct pst_error *error)
{
  const struct engine_device *device = receiver->end.lane->device;

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
                                       .options = receiver->end.transport->plugin.options,
                                       .label = config->name,
                                       .message_max = config->message,
                                       .timeout_ns = config->timeout_ns};
  int rc = receiver->end.share ? receiver_join_ring(session, receiver, error)
                               : receiver_open_own_ring(session, receiver, error);

  if (rc == 0)
    rc = receiver_open_fifos(receiver, error);
  if (rc == 0)
    rc = receiver_open_queue(receiver, error);
  if (rc < 0)
    return rc;
  if (config->receiver.assemble.packets)
    rc = frames_open(receiver, error);
  if (rc < 0)
    return rc;
  if (config->receiver.intervals)
    rc = receiver_open_intervals(receiver, error);
  if (rc < 0)
    return rc;
  receiver->is_numbered = receiver->end.lane->device->limits.capabilities & PST_CAP_SEQUENCE;
  receiver->window.floats = receiver->end.is_foreign;
  receiver->end.path = receiver->ring->path;
  const struct pst_region *final = receive_ring_final(receiver->ring);
  memcpy(receiver->end.memory_backing, final->backing, sizeof(receiver->end.memory_backing));
  receiver->end.memory_kind = final->kind;
  params.ring = receiver->ring->ring;
  params.domain = receive_ring_domain(receiver->ring);
  pst_log_clear_error();
  rc = receiver->end.lane->ops->endpoint_open(receiver->end.lane->worker, &params,
                                              &receiver->end.endpoint);
  if (rc == 0)
    receiver->end.endpoint_state = END_ENDPOINT_OPEN;
  if (rc < 0 && pst_fail_said(error, engine_exit_status(rc), rc) == rc)
    return rc;
  if (rc < 0)
    return pst_fail(error, engine_exit_status(rc), rc,
                    "stream %s: transport %s opens no endpoint: %s", config->name,
                    receiver->end.lane->device->plugin->name, strerror(-rc));
  return 0;
}

void receiver_close(struct pst_receiver *receiver)
{
  if (!receiver)
    return;
  while (receiver->clients) {
    struct receiver_client *client = receiver->clients;
    receiver->clients = client->next;
    client->ops->close(client, receiver);
  }
  if (receiver->ring) {
    receiver_drop_fence(receiver, receiver->ready);
    while (receiver->after.batches && receiver->after.head != receiver->after.tail)
      receiver_drop_fence(
          receiver,
          receiver->after.batches[receiver->after.head++ & (receiver->after.capacity - 1)].fence);
    if (receiver->queue)
      receiver->ring->memory->plugin->memory->queue_close(receiver->queue);
    receive_ring_close(receiver->ring);
  }
  free(receiver->parked);
  payload_rows_close(&receiver->payloads);
  free(receiver->intervals);
  free(receiver->pending);
  free(receiver->after.batches);
  free(receiver->after.tokens);
  end_destroy(&receiver->end);
  free(receiver);
}

/* ---- What an end does as a receiver ------------------------------------------------- */

static void receiver_connected(struct session_end *end)
{
  /* The sender's word was here before the transport's. */
  if (((const struct pst_receiver *)end)->finish_known)
    end_state(end, PST_STATE_ENDING);
}

/* With its counters the times between messages are read. */
static void receiver_measure(struct session_end *end)
{
  struct pst_receiver *receiver = (struct pst_receiver *)end;
  struct pst_times times;

  if (!receiver->intervals)
    return;
  interarrival_read(receiver->intervals, &times);
  pthread_mutex_lock(&end->text_lock);
  receiver->times = times;
  pthread_mutex_unlock(&end->text_lock);
}

/* The sooner of two; 0: none. */
static uint64_t sooner(uint64_t a, uint64_t b)
{
  return a && (b == 0 || a < b) ? a : b;
}

static uint64_t receiver_due_ns(const struct session_end *end, uint64_t now)
{
  const struct pst_receiver *receiver = (const struct pst_receiver *)end;
  const struct receive_ring *ring = receiver->ring;
  uint64_t due;

  if (receiver->pending_head != receiver->pending_tail)
    return now;
  if (receiver->after.head != receiver->after.tail || receiver->check_waits ||
      (ring->staging && staging_is_copying(ring->staging)))
    due = now + THREAD_NAP_NS;
  else
    due = receiver_end_due_ns(receiver);
  for (const struct receiver_client *client = receiver->clients; client; client = client->next)
    due = sooner(due, client->ops->due_ns(client, now));
  return due;
}

static struct receive_ring *receiver_ring(const struct session_end *end)
{
  return ((const struct pst_receiver *)end)->ring;
}

const struct end_ops receiver_ops = {.role = "receiver",
                                     .peer_role = "sender",
                                     .arrived = receiver_pend,
                                     .connected = receiver_connected,
                                     .met = receiver_met,
                                     .finish = receiver_finish_heard,
                                     .beat = receiver_beat_heard,
                                     .totals = receiver_totals,
                                     .measure = receiver_measure,
                                     .claim = loss_claim,
                                     .due_ns = receiver_due_ns,
                                     .ring = receiver_ring};
