/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a receiver's messages land, and which path they take there. Receivers that share a ring
 * share this.
 *
 * Direct: the transport writes into the final memory, and a view's token is the transport's.
 * Staged: it writes into host slots, staging.h copies, and a view's token is the final slot's
 * number.
 */
#ifndef PST_STREAM_RECEIVE_RING_H
#define PST_STREAM_RECEIVE_RING_H

#include "config/config.h"
#include "engine/region.h"

#include "lane.h"
#include "staging.h"

struct receive_ring {
  const struct config_stream *stream; /* that opened it */
  struct session_lane *lane;
  uint32_t endpoints;    /* that share it */
  uint64_t final_length; /* of frames, which are always staged; 0: messages, in slots */
  uint32_t pieces;       /* of a copy */
  uint32_t users;
  struct engine_memory *memory;
  struct region region; /* what the transport writes */
  struct pst_ring *ring;
  uint64_t stride;
  uint32_t slots;
  struct pst_path_info path;
  struct staging *staging; /* NULL: direct */
};

/* Of `wanted` all before `users` is set. */
int receive_ring_open(struct engine *engine, const struct receive_ring *wanted,
                      struct receive_ring **ring, struct pst_error *error);
/* Before the workers are closed, and after; the second for each user. */
void receive_ring_close_ring(struct receive_ring *ring);
void receive_ring_close(struct receive_ring *ring);
/* The lent region that a message lies in; NULL: the transport names an unknown one, or one of
 * another kind or device than the receiver's memory. */
const struct pst_region *receive_ring_lent(const struct receive_ring *ring, uint32_t buffer);
/* The memory that views lie in. */
static inline const struct pst_region *receive_ring_final(const struct receive_ring *ring)
{
  return ring->staging ? &ring->staging->region.mem : &ring->region.mem;
}
/* Its peers reach the ring, and nothing of any other's: of the registration and of endpoints. */
static inline uint64_t receive_ring_domain(const struct receive_ring *ring)
{
  return (uint64_t)(uintptr_t)ring;
}
/* Views come back. */
void receive_ring_give_views(struct receive_ring *ring, const struct pst_view *views, uint32_t n);
void receive_ring_give_tokens(struct receive_ring *ring, const uint64_t *tokens, uint32_t n);

#endif
