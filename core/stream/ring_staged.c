/* SPDX-License-Identifier: Apache-2.0 */
/* The staged path of a receive ring: messages are handed over as one copy a poll starts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "receiver.h"
#include "staging.h"

/* Taken in, for a copy that the memory's queue had no room for yet: handed over, in order, by the
 * polls that find it started. */
struct parked {
  uint32_t at; /* the first that was not */
  struct pst_view views[SESSION_DEVICE_BATCH];
};

static const struct region_params slots_use = {.label = "staging ring",
                                               .use = " for the staging ring",
                                               .lower = "`ring` or `message`",
                                               .purpose = PST_ALLOC_STAGING};

/* Allocates the slots that the transport writes, unless it lends all that is sent. */
static int staged_alloc_slots(struct receive_ring *ring, struct pst_error *error)
{
  struct region_why why;
  const char *lacks;

  if (ring->lane->device->limits.capabilities & PST_CAP_BARE_RING)
    return 0;
  struct region_params wanted = receive_ring_params(ring, &slots_use, ring->stride * ring->slots);
  wanted.needs = ring->lane->device->limits.ring_needs;
  int rc = receive_ring_alloc(ring, &wanted, &ring->region, &why, error);
  if (rc == 0 && region_lacks(&ring->region.mem, wanted.needs, &lacks))
    rc = pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                  "stream %s: transport %s needs %s, which the staging memory of %s lacks too",
                  ring->stream->name, ring->lane->device->plugin->name, lacks,
                  ring->memory->plugin->name);
  return rc;
}

int ring_staged_open(struct receive_ring *ring, const char *why, struct pst_error *error)
{
  const uint64_t stride =
      ring->stream->stride > ring->stream->message ? ring->stream->stride : ring->stream->message;
  struct staging *staging;
  struct region_why why_not;

  if (!(ring->memory->ops->capabilities & PST_MEMORY_CAP_COPY))
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                    "stream %s: %s, and memory %s cannot copy, so it cannot be staged either",
                    ring->stream->name, why, ring->memory->plugin->name);
  staging = ring->staging = calloc(1, sizeof(*staging));
  if (!staging)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  staging->lane = ring->lane;
  staging->memory = ring->memory;
  staging->stride = region_round_up(stride, CACHE_LINE);
  ring->ops = &ring_staged_ops;
  ring->views = &staging->region.mem;
  struct region_params wanted = receive_ring_params(
      ring, &ring->final, ring->final.length ? ring->final.length : staging->stride * ring->slots);
  int rc = receive_ring_alloc(ring, &wanted, &staging->region, &why_not, error);
  if (rc == 0)
    rc = staged_alloc_slots(ring, error);
  if (rc < 0)
    return rc;
  rc = receive_ring_open_transport(ring);
  if (rc == 0)
    rc = staging_open(staging, ring->slots, ring->pieces);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "stream %s: no staged path: %s",
                    ring->stream->name, strerror(-rc));
  ring->path.path = PST_PATH_STAGED;
  snprintf(ring->path.via, sizeof(ring->path.via), "copy");
  snprintf(ring->path.reason, sizeof(ring->path.reason), "%.159s", why);
  return 0;
}

static int staged_join(struct pst_receiver *receiver)
{
  receiver->parked = malloc(sizeof(*receiver->parked));
  return receiver->parked ? 0 : -ENOMEM;
}

static void staged_park(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  memcpy(receiver->parked->views, views, n * sizeof(*views));
  receiver->parked->at = 0;
  receiver->parked_count = n;
  receiver->polled_bytes = 0;
  receiver_note_arrived(receiver, receiver->delivered + n);
}

static int staged_take_parked(struct pst_receiver *receiver, struct pst_view *views, uint32_t max)
{
  struct parked *parked = receiver->parked;
  const uint32_t n = receiver->parked_count < max ? receiver->parked_count : max;

  if (staging_is_deferred(receiver->ring->staging))
    return -EAGAIN;
  memcpy(views, &parked->views[parked->at], n * sizeof(*views));
  for (uint32_t i = 0; i < n; i++)
    receiver->polled_bytes += views[i].length;
  int rc = staging_fence(receiver->ring->staging, &receiver->ready);
  if (rc < 0)
    return rc;
  parked->at += n;
  receiver->parked_count -= n;
  return (int)n;
}

/* A large batch goes through in parts, each of which is done with while it is in the
 * first-level cache; one copy moves all of them. */
static int staged_take(struct pst_receiver *receiver, struct pst_view *views, uint32_t max)
{
  struct staging *staging = receiver->ring->staging;
  uint32_t room = staging_room(staging), count = 0, n, part;

  if (receiver->parked_count)
    return staged_take_parked(receiver, views, max);
  if (room > SESSION_DEVICE_BATCH)
    room = SESSION_DEVICE_BATCH;
  if (max > room)
    max = room;
  if (max == 0)
    return -EAGAIN;
  do {
    part = max - count < SESSION_POLL_BATCH ? max - count : SESSION_POLL_BATCH;
    n = receiver_gather(receiver, views + count, part, 1);
    staging_place(staging, views + count, n);
    count += n;
  } while (n == part && count < max && staging->placed < staging->slice);
  if (count == 0)
    return 0;
  int rc = staging_submit(staging, &receiver->ready);
  if (rc == -EAGAIN)
    staged_park(receiver, views, count);
  return rc < 0 ? rc : (int)count;
}

static void staged_give_up(struct pst_receiver *receiver)
{
  const uint32_t n = receiver->parked_count;

  if (n == 0)
    return;
  staging_give_views(receiver->ring->staging, &receiver->parked->views[receiver->parked->at], n);
  if (receiver->end.state != PST_STATE_FAILED) /* else they are counted as broken off */
    stat_add(receiver->given_up, n);
  receiver->parked_count = 0;
}

static void staged_give_tokens(struct receive_ring *ring, const uint64_t *tokens, uint32_t n)
{
  staging_give_tokens(ring->staging, tokens, n);
}

static void staged_give_views(struct receive_ring *ring, const struct pst_view *views, uint32_t n)
{
  staging_give_views(ring->staging, views, n);
}

static int staged_progress(struct receive_ring *ring)
{
  return staging_reap(ring->staging);
}

static bool staged_is_copying(const struct receive_ring *ring)
{
  return staging_is_copying(ring->staging);
}

static int staged_idle_stage(const struct receive_ring *ring)
{
  if (staging_is_full(ring->staging))
    return PST_STAGE_SINK;
  return staging_is_copying(ring->staging) ? PST_STAGE_STAGING : PST_STAGE_EMPTY;
}

static void staged_lent_unpinned(struct receive_ring *ring)
{
  staging_slice(ring->staging, ring->stream->message);
}

const struct receive_ring_ops ring_staged_ops = {.copies = true,
                                                 .join = staged_join,
                                                 .take = staged_take,
                                                 .give_up = staged_give_up,
                                                 .give_tokens = staged_give_tokens,
                                                 .give_views = staged_give_views,
                                                 .progress = staged_progress,
                                                 .is_copying = staged_is_copying,
                                                 .idle_stage = staged_idle_stage,
                                                 .lent_unpinned = staged_lent_unpinned};
