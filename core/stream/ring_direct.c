/* SPDX-License-Identifier: Apache-2.0 */
/* The direct path of a receive ring: messages are handed over where the transport wrote them. */
#include "receiver.h"

static int direct_join(struct pst_receiver *receiver)
{
  (void)receiver;
  return 0;
}

static int direct_take(struct pst_receiver *receiver, struct pst_view *views, uint32_t max)
{
  const uint32_t n = receiver_gather(receiver, views, max);
  const int rc = n ? region_flush(&receiver->ring->region) : 0;

  return rc < 0 ? rc : (int)n;
}

static void direct_give_up(struct pst_receiver *receiver)
{
  (void)receiver;
}

static void direct_give_tokens(struct receive_ring *ring, const uint64_t *tokens, uint32_t n)
{
  ring->lane->ops->release(ring->lane->worker, tokens, n);
}

static void direct_give_views(struct receive_ring *ring, const struct pst_view *views, uint32_t n)
{
  uint64_t tokens[SESSION_POLL_BATCH];

  while (n) {
    uint32_t run = n < SESSION_POLL_BATCH ? n : SESSION_POLL_BATCH;
    for (uint32_t i = 0; i < run; i++)
      tokens[i] = views[i].token;
    ring->lane->ops->release(ring->lane->worker, tokens, run);
    views += run;
    n -= run;
  }
}

static int direct_progress(struct receive_ring *ring)
{
  (void)ring;
  return 0;
}

static bool direct_is_copying(const struct receive_ring *ring)
{
  (void)ring;
  return false;
}

static int direct_idle_stage(const struct receive_ring *ring)
{
  (void)ring;
  return PST_STAGE_EMPTY;
}

const struct receive_ring_ops ring_direct_ops = {.join = direct_join,
                                                 .take = direct_take,
                                                 .give_up = direct_give_up,
                                                 .give_views = direct_give_views,
                                                 .give_tokens = direct_give_tokens,
                                                 .progress = direct_progress,
                                                 .is_copying = direct_is_copying,
                                                 .idle_stage = direct_idle_stage};
