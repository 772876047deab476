/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames for applications: messages that have arrived in the ring are copied, one
 * batch a poll, to where assemble.h says; frames that are closed are handed over
 * behind a fence. A queue's batches run in order, so what a buffer is used for next
 * is copied after what it was used for before.
 */
#ifndef PST_STREAM_FRAMES_H
#define PST_STREAM_FRAMES_H

#include "receiver.h"

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

/* frames_open.c. What a stream that assembles needs, by its configuration alone: bytes of all its
 * frames, and pieces of a copy. */
uint64_t frames_length(const struct config_stream *config);
uint32_t frames_pieces(const struct config_stream *config);
int frames_open(struct pst_receiver *receiver, struct pst_error *error);

/* frames.c */
extern const struct receiver_client_ops frames_client_ops;

/* frames_collect.c. Take in what has arrived, and start the copies. Returns whether more may have
 * arrived than there was room for; -errno of the memory or the stream. */
int frames_collect(struct pst_receiver *receiver);

#endif
