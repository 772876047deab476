/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames for applications: messages that have arrived in the ring are copied, one
 * batch a poll, to where assemble.h says; frames that are closed are handed over
 * behind a fence. A queue's batches run in order, so what a buffer is used for next
 * is copied after what it was used for before.
 */
#ifndef PST_STREAM_FRAMES_H
#define PST_STREAM_FRAMES_H

#include "assemble.h"
#include "receiver.h"
#include "staging.h"

struct frames {
  struct assemble *assemble;
  struct assemble_params params;
  struct region zeros;                       /* what missing packets are copied from */
  bool zeroed;                               /* the first of the closed frames has its zeros */
  struct copy_rows rows;                     /* placed, and to be copied with the next */
  struct pst_view views[SESSION_POLL_BATCH]; /* taken, with no place found yet */
  uint32_t view_at, view_count;
  bool *out; /* by buffer: the application holds it */
};

/* frames_open.c. Requirements of an assembling stream on its ring, by its configuration alone. */
void frames_want(const struct config_stream *config, struct receive_ring *wanted);
int frames_open(struct pst_receiver *receiver, struct pst_error *error);

/* frames.c */
extern const struct receiver_client_ops frames_client_ops;
/* NULL: the receiver makes none. Any thread. */
static inline struct frames *frames_of(const struct pst_receiver *receiver)
{
  return stat_get(receiver->client) == &frames_client_ops ? receiver->client_data : NULL;
}

/* frames_collect.c. Take in what has arrived, and start the copies. Returns whether more may have
 * arrived than there was room for; -errno of the memory or the stream. */
int frames_collect(struct pst_receiver *receiver);

#endif
