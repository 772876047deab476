/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staged path of messages: they get their final places, and one copy takes them there.
 * Where the memory's queue has no room for that copy yet, they are parked: handed over, in
 * order, by the poll that finds it started.
 */
#include <errno.h>
#include <string.h>

#include "receiver.h"

static void staged_park(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  memcpy(receiver->parked, views, n * sizeof(*views));
  receiver->parked_at = 0;
  receiver->parked_count = n;
  receiver->polled = (struct receiver_tally){0};
  receiver_note_arrived(receiver, receiver->delivered + n);
}

static int staged_take_parked(struct pst_receiver *receiver, struct pst_view *views, uint32_t max)
{
  const struct pst_view *from = &receiver->parked[receiver->parked_at];
  uint32_t n = receiver_parked(receiver);

  if (staging_is_deferred(receiver->ring->staging))
    return -EAGAIN;
  if (n > max)
    n = max;
  memcpy(views, from, n * sizeof(*views));
  for (uint32_t i = 0; i < n; i++) {
    receiver->polled.bytes += views[i].length;
    receiver->polled.damaged += (views[i].flags & PST_VIEW_DAMAGED) != 0;
  }
  int rc = staging_fence(receiver->ring->staging, &receiver->ready);
  if (rc < 0)
    return rc;
  receiver->parked_at += n;
  return (int)n;
}

/* A large batch goes through in parts, each of which is done with while it is in the
 * first-level cache; one copy moves all of them. */
int receiver_take_staged(struct pst_receiver *receiver, struct pst_view *views, uint32_t max)
{
  struct staging *staging = receiver->ring->staging;
  uint32_t count = 0, n, part;

  if (receiver_parked(receiver))
    return staged_take_parked(receiver, views, max);
  if (max > staging_room(staging))
    max = staging_room(staging);
  if (max == 0)
    return -EAGAIN;
  do {
    part = max - count < SESSION_POLL_BATCH ? max - count : SESSION_POLL_BATCH;
    n = receiver_gather(receiver, views + count, part);
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
