/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of frames, both ends in this process. */
#ifndef TEST_FRAMES_SUPPORT_H
#define TEST_FRAMES_SUPPORT_H

#include "support.h"

#define MESSAGE 100 /* not a multiple of anything: frames are contiguous all the same */
#define PACKETS 8
#define SEED 7

/* Open the ends of stream "a". The strings are YAML of a transport, the sender's transport, a
 * memory, and `assemble`. */
void open_frames_over(struct run *run, const char *transport, const char *of_sender,
                      const char *memory, const char *assemble);
void open_frames(struct run *run, const char *memory, const char *assemble, const char *filters);
/* Before the start: the stream has the pattern of SEED. */
void seed_frames(struct run *run);
/* As support.h's, but all of one length: messages of a frame. Five have one `meta`. */
void feed_full(struct pst_sender *sender, uint64_t *sent, uint64_t total);

#endif
