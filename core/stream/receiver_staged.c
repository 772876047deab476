/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The staged path of messages: they get their final places, and one copy takes them there.
 * Where the memory's queue has no room for that copy yet, they are parked: handed over, in
 * order, by the poll that finds it started.
 */
#include <errno.h>
#include <string.h>

#include "session.h"

static void park(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n)
{
  memcpy(receiver->parked, views, n * sizeof(*views));
  receiver->parked_at = 0;
  receiver->parked_count = n;
  receiver->polled = (struct receiver_tally){0};
  receiver_arrived(receiver, receiver->delivered + n);
}

uint32_t receiver_parked(const struct pst_receiver *receiver)
{
  return receiver->parked_count - receiver->parked_at;
}

void receiver_give_up_parked(struct pst_receiver *receiver)
{
  uint32_t n = receiver_parked(receiver);

  if (n == 0)
    return;
  landing_give_back(receiver->landing, &receiver->parked[receiver->parked_at], n);
  if (receiver->end.state != PST_STATE_FAILED) /* else they are counted as broken off */
    stat_add(receiver->given_up, n);
  receiver->parked_at = receiver->parked_count;
}

static int take_parked(struct pst_receiver *receiver, struct pst_view *views, uint32_t max)
{
  const struct pst_view *from = &receiver->parked[receiver->parked_at];
  uint32_t n = receiver_parked(receiver);

  if (landing_is_deferred(receiver->landing))
    return -EAGAIN;
  if (n > max)
    n = max;
  memcpy(views, from, n * sizeof(*views));
  for (uint32_t i = 0; i < n; i++) {
    receiver->polled.bytes += views[i].length;
    receiver->polled.damaged += (views[i].flags & PST_VIEW_DAMAGED) != 0;
  }
  int rc = landing_fence(receiver->landing, &receiver->ready);
  if (rc < 0)
    return rc;
  receiver->parked_at += n;
  return (int)n;
}

/* A large batch goes through in parts, each of which is done with while it is in the
 * first-level cache; one copy moves all of them. */
int receiver_take_staged(struct pst_receiver *receiver, struct pst_view *views, uint32_t max)
{
  struct landing *landing = receiver->landing;
  uint32_t count = 0, n, part;

  if (receiver_parked(receiver))
    return take_parked(receiver, views, max);
  if (max > landing_room(landing))
    max = landing_room(landing);
  if (max == 0)
    return -EAGAIN;
  do {
    part = max - count < SESSION_POLL_BATCH ? max - count : SESSION_POLL_BATCH;
    n = receiver_gather(receiver, views + count, part);
    landing_place(landing, views + count, n);
    count += n;
  } while (n == part && count < max && landing->placed < landing->slice);
  if (count == 0)
    return 0;
  int rc = landing_submit(landing, &receiver->ready);
  if (rc == -EAGAIN)
    park(receiver, views, count);
  return rc < 0 ? rc : (int)count;
}
