/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the receiving end of a stream. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frames.h"
#include "session.h"

static int receiver_open_own_ring(struct pst_receiver *receiver, struct pst_error *error)
{
  struct pst_session *session = receiver->end.session;
  const struct config_stream *config = receiver->end.config;
  struct receive_ring wanted = {.stream = config,
                                .lane = receiver->end.lane,
                                .endpoints =
                                    1 + session_stream_find(session, receiver->end.name)->sharers,
                                .pieces = SESSION_DEVICE_BATCH,
                                .slots = receiver->slots};

  if (config->receiver.assemble.packets)
    frames_want(config, &wanted);
  return receive_ring_open(&session->engine, &wanted, &receiver->ring, error);
}

static int receiver_join_ring(struct pst_receiver *receiver, struct pst_error *error)
{
  const char *share = receiver->end.share;
  struct pst_receiver *owner = pst_session_receiver(receiver->end.session, share);

  if (!owner || !owner->ring)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "stream %s: receiver.share: stream %s is not among the streams of this run",
                    receiver->end.name, share);
  if (!(owner->end.device->limits.capabilities & PST_CAP_SHARED_RING) ||
      owner->end.lane != receiver->end.lane)
    return pst_fail(
        error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
        "stream %s: receiver.share: transport %s cannot share a ring among these streams; "
        "give the stream a ring of its own",
        receiver->end.name, receiver->end.device->plugin->name);
  receiver->ring = owner->ring;
  receiver->ring->users++;
  return 0;
}

static int receiver_open_queue(struct pst_receiver *receiver, struct pst_error *error)
{
  const struct engine_memory *memory = receiver->ring->memory;

  if (!(memory->ops->capabilities & PST_MEMORY_CAP_PATTERN))
    return 0;
  receiver->checks = calloc(SESSION_DEVICE_BATCH, sizeof(*receiver->checks));
  if (!receiver->checks)
    return end_out_of_memory(&receiver->end, error);
  return end_open_queue(&receiver->end, memory, 32, SESSION_DEVICE_BATCH, &receiver->queue, error);
}

static int receiver_open_intervals(struct pst_receiver *receiver, struct pst_error *error)
{
  const struct engine_device *device = receiver->end.device;

  if (!(device->limits.capabilities & PST_CAP_TIME))
    return pst_fail(
        error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
        "stream %s: intervals need messages with times, and transport %s stamps none with these "
        "options; see `penstock plugins %s` for an option that does, or remove "
        "\"intervals\"",
        receiver->end.name, device->plugin->name, device->plugin->name);
  receiver->intervals = calloc(1, sizeof(*receiver->intervals));
  if (!receiver->intervals)
    return end_out_of_memory(&receiver->end, error);
  return 0;
}

static int receiver_open(struct session_end *end, struct pst_error *error)
{
  struct pst_receiver *receiver = (struct pst_receiver *)end;
  struct pst_endpoint_params params = {0};

  int rc =
      end->share ? receiver_join_ring(receiver, error) : receiver_open_own_ring(receiver, error);

  if (rc == 0)
    rc = receiver_open_queue(receiver, error);
  if (rc == 0 && end->config->receiver.assemble.packets)
    rc = frames_open(receiver, error);
  else if (rc == 0 && receiver->ring->ops->join && receiver->ring->ops->join(receiver) < 0)
    rc = end_out_of_memory(end, error);
  if (rc == 0 && end->config->receiver.intervals)
    rc = receiver_open_intervals(receiver, error);
  if (rc < 0)
    return rc;
  receiver->is_numbered = end->device->limits.capabilities & PST_CAP_SEQUENCE;
  receiver->window.floats = end->peer_ops->is_foreign;
  end->path = receiver->ring->path;
  const struct pst_region *final = receiver->ring->views;
  memcpy(end->memory_backing, final->backing, sizeof(end->memory_backing));
  end->memory_kind = final->kind;
  params.ring = receiver->ring->ring;
  params.domain = receive_ring_domain(receiver->ring);
  return end_open_endpoint(end, &params, error);
}

static void receiver_close(struct session_end *end)
{
  struct pst_receiver *receiver = (struct pst_receiver *)end;
  const struct release_batch *releases = receiver->releases.items;

  if (receiver->client)
    receiver->client->close(receiver);
  if (receiver->ring) {
    receiver_drop_fence(receiver, receiver->ready);
    for (uint32_t i = receiver->releases.head; i != receiver->releases.tail; i++)
      receiver_drop_fence(receiver, releases[fifo_at(&receiver->releases, i)].fence);
    engine_memory_close_queue(receiver->ring->memory, receiver->queue);
    receive_ring_close(receiver->ring);
  }
  free(receiver->parked);
  free(receiver->checks);
  free(receiver->intervals);
  free(receiver->pending.items);
  free(receiver->releases.items);
  free(receiver->tokens.items);
  end_destroy(end);
  free(receiver);
}

static void receiver_configure(struct session_end *end)
{
  ((struct pst_receiver *)end)->slots = end->config->ring;
  end->transport = &end->config->receiver.transport;
  end->share = end->config->receiver.share;
}

static uint32_t receiver_worst_path(const struct config_stream *config, const char **key)
{
  const bool is_direct = config->receiver.path == CONFIG_PATH_DIRECT;

  *key = is_direct ? "path: direct" : "path: mapped";
  if (is_direct)
    return PST_PATH_DIRECT;
  return config->receiver.path == CONFIG_PATH_MAPPED ? PST_PATH_MAPPED : PST_PATH_STAGED;
}

static void receiver_plan(const struct session_end *end, struct pst_plan *plan)
{
  plan->receivers++;
  if (end->share)
    return;
  plan->rings++;
  plan->domains++;
  plan->ring_slots += ((const struct pst_receiver *)end)->slots;
}

void receiver_size_ring(struct pst_receiver *receiver, uint64_t link_bps)
{
  const struct session_end *end = &receiver->end;
  struct pst_plan *plan = &end->device->plan;

  if (!end->config->ring_by_link || end->share)
    return;
  const uint64_t rate_bps = link_bps / plan->rings;
  plan->ring_slots -= receiver->slots;
  receiver->slots = config_ring_of_rate(end->config->message, rate_bps);
  plan->ring_slots += receiver->slots;
  pst_log(PST_LOG_DEBUG,
          "stream %s: a ring of %u slots, for its share of the link's speed: %.3g Gbit/s",
          end->name, receiver->slots, (double)rate_bps / 1e9);
}

static void receiver_connected(struct session_end *end)
{
  if (end->peer_ops->connected)
    end->peer_ops->connected(end);
  /* The sender's FINISH came before the transport connected. */
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
  end_lock(end);
  receiver->times = times;
  end_unlock(end);
}

/* The sooner of two; 0: none. */
static uint64_t receiver_sooner(uint64_t a, uint64_t b)
{
  return a && (b == 0 || a < b) ? a : b;
}

static uint64_t receiver_due_ns(const struct session_end *end, uint64_t now)
{
  const struct pst_receiver *receiver = (const struct pst_receiver *)end;
  const struct receive_ring *ring = receiver->ring;
  uint64_t due;

  if (fifo_count(&receiver->pending))
    return now;
  if (fifo_count(&receiver->releases) || receiver->check_waits ||
      (ring->ops->is_copying && ring->ops->is_copying(ring)))
    due = now + ENGINE_NAP_NS;
  else
    due = receiver_end_due_ns(receiver);
  return receiver->client ? receiver_sooner(due, receiver->client->due_ns(receiver, now)) : due;
}

static struct receive_ring *receiver_ring(const struct session_end *end)
{
  return ((const struct pst_receiver *)end)->ring;
}

/* The receiver is done, and its sender has not answered. */
static bool receiver_awaits_last_word(struct session_end *end)
{
  return ((const struct pst_receiver *)end)->phase == RECEIVER_FINISHED &&
         end->state != PST_STATE_ENDED && end_check(end) == 0;
}

const struct end_ops receiver_ops = {.role = "receiver",
                                     .peer_role = "sender",
                                     .endpoint_role = PST_ROLE_RECEIVER,
                                     .control_role = &stream_receiver,
                                     .ends_early = true,
                                     .configure = receiver_configure,
                                     .worst_path = receiver_worst_path,
                                     .plan = receiver_plan,
                                     .awaits_last_word = receiver_awaits_last_word,
                                     .size = sizeof(struct pst_receiver),
                                     .open = receiver_open,
                                     .close = receiver_close,
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
