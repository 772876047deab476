/* SPDX-License-Identifier: Apache-2.0 */
/* The direct path of a receive ring: messages are handed over where the transport wrote them. */
#include "receiver.h"

/* A poll that gave fewer has left little or nothing, which the next call finds; where messages are
 * copied, many at once are worth another look. */
#define DIRECT_ENOUGH (SESSION_POLL_BATCH / 2)

static int direct_take(struct pst_receiver *receiver, struct pst_view *views, uint32_t max)
{
  const uint32_t n = receiver_gather(receiver, views, max, DIRECT_ENOUGH);
  const int rc = n ? region_flush(&receiver->ring->region) : 0;

  return rc < 0 ? rc : (int)n;
}

static void direct_give_tokens(struct receive_ring *ring, const uint64_t *tokens, uint32_t n)
{
  engine_release(&ring->lane->worker, tokens, n);
}

const struct receive_ring_ops ring_direct_ops = {.take = direct_take,
                                                 .give_tokens = direct_give_tokens};
