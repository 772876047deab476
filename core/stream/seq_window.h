/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classifies sequence numbers of a stream: new, late, or duplicate. In order,
 * this costs one comparison a message; the window is touched only while there
 * are gaps.
 */
#ifndef PST_STREAM_SEQ_WINDOW_H
#define PST_STREAM_SEQ_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#define SEQ_WINDOW 65536u  /* sequences behind the highest, each with a bit */
#define SEQ_LAST INT64_MAX /* what is beyond is taken for a duplicate */

enum seq_window_verdict { SEQ_NEW, SEQ_LATE, SEQ_DUPLICATE };

struct seq_window {
  bool floats;         /* it begins with the first that is seen, and earlier ones that come late */
  uint64_t base;       /* floats: the least seen; else 0 */
  uint64_t next;       /* one past the highest seen */
  uint64_t contiguous; /* all before it have been seen, or are out of the window */
  uint64_t duplicates; /* stat_ */
  uint64_t reordered;  /* stat_ */
  uint64_t bits[SEQ_WINDOW / 64]; /* of [next - WINDOW, next), by sequence mod WINDOW */
};

enum seq_window_verdict seq_window_slow(struct seq_window *track, uint64_t sequence);

static inline enum seq_window_verdict seq_window_see(struct seq_window *track, uint64_t sequence)
{
  if (sequence == track->contiguous && sequence == track->next) {
    track->contiguous = track->next = sequence + 1;
    return SEQ_NEW;
  }
  return seq_window_slow(track, sequence);
}

#endif
