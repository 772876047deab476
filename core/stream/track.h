/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What sequence numbers tell of a stream: which messages are new, which came
 * late, which twice. In order, it is one comparison a message; the window is
 * touched only while there are gaps.
 */
#ifndef PST_STREAM_TRACK_H
#define PST_STREAM_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#define TRACK_WINDOW 65536u /* sequences behind the highest that are told apart */

enum track_verdict { TRACK_NEW, TRACK_LATE, TRACK_DUPLICATE };

struct track {
  bool floats;         /* it begins with the first that is seen, and earlier ones that come late */
  uint64_t base;       /* floats: the least seen; else 0 */
  uint64_t next;       /* one past the highest seen */
  uint64_t contiguous; /* all before it have been seen, or are out of the window */
  uint64_t duplicates;
  uint64_t reordered;
  uint64_t bits[TRACK_WINDOW / 64]; /* of [next - WINDOW, next), by sequence mod WINDOW */
};

enum track_verdict track_slow(struct track *track, uint64_t sequence);

static inline enum track_verdict track_see(struct track *track, uint64_t sequence)
{
  if (sequence == track->contiguous && sequence == track->next) {
    track->contiguous = track->next = sequence + 1;
    return TRACK_NEW;
  }
  return track_slow(track, sequence);
}

#endif
