/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a receiver's messages land, and how they come from there to where views say. Receivers that
 * share a ring share this.
 *
 * Direct (ring_direct.c): the transport writes into the final memory, and a view's token is the
 * transport's. Staged (ring_staged.c): it writes into host slots, staging.h copies, and a view's
 * token is the final slot's number.
 */
#ifndef PST_STREAM_RECEIVE_RING_H
#define PST_STREAM_RECEIVE_RING_H

#include "config/config.h"
#include "engine/region.h"

#include "lane.h"

struct receive_ring;
struct staging;

/* NULL: nothing to do. */
struct receive_ring_ops {
  bool copies; /* out of what the transport writes or lends */
  /* A receiver that takes messages by `take` begins. 0, -ENOMEM. */
  int (*join)(struct pst_receiver *receiver);
  /* Views of up to max messages that have arrived. How many; -EAGAIN: nothing yet, and more may
   * have arrived; -errno of the memory. */
  int (*take)(struct pst_receiver *receiver, struct pst_view *views, uint32_t max);
  /* Gives back messages that were taken in and not handed over. */
  void (*give_up)(struct pst_receiver *receiver);
  /* Gives messages back, by tokens or by views; as views, where that is cheaper. */
  void (*give_tokens)(struct receive_ring *ring, const uint64_t *tokens, uint32_t n);
  void (*give_views)(struct receive_ring *ring, const struct pst_view *views, uint32_t n);
  /* Each poll begins with it. 0, or -errno of the memory. */
  int (*progress)(struct receive_ring *ring);
  bool (*is_copying)(const struct receive_ring *ring);
  /* enum pst_stage, NULL: EMPTY: why nothing is handed over, though the application holds not all.
   */
  int (*idle_stage)(const struct receive_ring *ring);
  /* `copies`: the memory cannot pin what it copies from. */
  void (*lent_unpinned)(struct receive_ring *ring);
};
extern const struct receive_ring_ops ring_direct_ops, ring_staged_ops;

struct receive_ring {
  const struct config_stream *stream; /* that opened it */
  struct session_lane *lane;
  uint32_t endpoints; /* that share it */
  /* The final memory. With a length it is no slots for messages: staged, because of `why`. */
  struct region_params final;
  const char *why;
  uint32_t pieces; /* of a copy */
  uint32_t users;
  const struct receive_ring_ops *ops;
  struct engine_memory *memory;
  struct region region; /* what the transport writes */
  struct pst_ring *ring;
  uint64_t stride;
  uint32_t slots;
  struct pst_path_info path;
  const struct pst_region *views; /* the memory that they lie in */
  struct staging *staging;        /* NULL: direct */
};

/* Opens a ring like `wanted`, in which all members before `users` are set. */
int receive_ring_open(struct engine *engine, const struct receive_ring *wanted,
                      struct receive_ring **ring, struct pst_error *error);
/* Closes the transport's ring, before the workers are closed. */
void receive_ring_close_ring(struct receive_ring *ring);
/* Closes the rest, after the workers; once for each user. */
void receive_ring_close(struct receive_ring *ring);
/* Returns the domain of the ring's registration and endpoints: its peers reach the ring, and
 * nothing of any other's. */
static inline uint64_t receive_ring_domain(const struct receive_ring *ring)
{
  return (uint64_t)(uintptr_t)ring;
}

/* Parameters of a region for the ring. `use` names its purpose, and the options that size it. */
struct region_params receive_ring_params(const struct receive_ring *ring,
                                         const struct region_params *use, uint64_t length);
/* Returns 0; -EOPNOTSUPP with why->is_alloc unset if core may stage; another -errno, reported. */
int receive_ring_alloc(const struct receive_ring *ring, struct region_params *wanted,
                       struct region *region, struct region_why *why, struct pst_error *error);
/* Registers the ring's region, if there is one, and opens the ring on it. */
int receive_ring_open_transport(struct receive_ring *ring);
/* ring_staged.c: staged, because of `why`. */
int ring_staged_open(struct receive_ring *ring, const char *why, struct pst_error *error);

#endif
