/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of the staged path: messages lie in a receive ring in host memory, one copy batch a
 * poll moves them to their final places, and the transport gets its slots back when the copies
 * have read them.
 */
#ifndef PST_STREAM_STAGING_H
#define PST_STREAM_STAGING_H

#include <stdbool.h>

#include "engine/region.h"
#include "engine/strided.h"

#include "fifo.h"
#include "lane.h"

/* A copy under way. */
struct staging_copy {
  uint64_t ticket;
  uint32_t count; /* tokens in the FIFO */
};

struct staging {
  struct session_lane *lane;
  struct engine_memory *memory;
  struct region region; /* the final memory */
  uint64_t stride;
  struct pst_queue *queue;
  /* uint32_t, free final slots: they come back in the order in which they went, so that a batch's
   * lie one behind the other. */
  struct fifo free_slots;
  struct fifo copies; /* struct staging_copy */
  struct fifo tokens; /* uint64_t, the transport's that they read from */
  uint64_t done_ticket;
  struct copy_rows rows; /* being made, for SESSION_DEVICE_BATCH messages */
  uint32_t placed;       /* on behalf of so many */
  uint32_t slice;        /* the most messages of one copy; UINT32_MAX: no limit */
  /* A copy for which the memory had no room yet, described in the next of `copies`; its rows
   * stay as they are, and nothing is placed before it has been submitted. NULL: none. */
  struct copy_rows *deferred;
};

/* Opens staging of `slots` slots, whose region is open; `pieces` bounds a copy. Returns 0, -ENOMEM
 * or -errno of the memory; close it either way. */
int staging_open(struct staging *staging, uint32_t slots, uint32_t pieces);
void staging_close_queue(struct staging *staging);
void staging_close(struct staging *staging);

/* How many messages can be taken now. */
uint32_t staging_room(const struct staging *staging);
/* From now on copies little at a time, of messages of up to `message` bytes: the source cannot be
 * pinned, so that the memory copies within the call. */
void staging_slice(struct staging *staging, uint64_t message);
/* The next copy is on behalf of these n messages too, whose slots the transport gets back when it
 * is done. Together they are no more than staging_room() was. */
void staging_note(struct staging *staging, const struct pst_view *views, uint32_t n);
/* Start a copy, and empty the rows, which may be so already. staging_room() was not 0. 0;
 * -EAGAIN: the memory has no room for it yet: staging_reap() starts it later, until when `rows`
 * are its own and there is no room here; -errno of the memory. */
int staging_copy(struct staging *staging, struct copy_rows *rows);
/* A fence behind all copies so far; NULL where the memory has none. */
int staging_fence(struct staging *staging, struct pst_fence **ready);
/* Give n views, at most staging_room() in all, their final places, which they name after. */
void staging_place(struct staging *staging, struct pst_view *views, uint32_t n);
/* Start the copy of all that were placed since the last. As staging_copy(); an error of the memory
 * leaves nothing placed. */
int staging_submit(struct staging *staging, struct pst_fence **ready);
/* Give back to the transport what finished copies have read, and start one that was put off. */
int staging_reap(struct staging *staging);
/* Final slots come back. */
void staging_give_tokens(struct staging *staging, const uint64_t *tokens, uint32_t n);
void staging_give_views(struct staging *staging, const struct pst_view *views, uint32_t n);

/* The last copy has not been started yet. */
static inline bool staging_is_deferred(const struct staging *staging)
{
  return staging->deferred != NULL;
}

static inline bool staging_is_copying(const struct staging *staging)
{
  return fifo_count(&staging->copies) > 0;
}

/* All final slots are out. */
static inline bool staging_is_full(const struct staging *staging)
{
  return fifo_count(&staging->free_slots) == 0;
}

#endif
