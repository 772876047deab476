/* SPDX-License-Identifier: Apache-2.0 */
/* Which sequence numbers have arrived: duplicates, reordering, gaps. */
#include "seq_window.h"

#include <assert.h>

#include "engine/usage.h"

static bool seq_window_seen(const struct seq_window *track, uint64_t sequence)
{
  uint64_t bit = sequence % SEQ_WINDOW;
  return track->bits[bit / 64] >> (bit % 64) & 1;
}

static void seq_window_mark(struct seq_window *track, uint64_t sequence, bool is_seen)
{
  uint64_t bit = sequence % SEQ_WINDOW;
  uint64_t mask = UINT64_C(1) << (bit % 64);

  if (is_seen)
    track->bits[bit / 64] |= mask;
  else
    track->bits[bit / 64] &= ~mask;
}

static void seq_window_advance(struct seq_window *track)
{
  if (track->next > SEQ_WINDOW && track->contiguous < track->next - SEQ_WINDOW)
    track->contiguous = track->next - SEQ_WINDOW;
  while (track->contiguous < track->next && seq_window_seen(track, track->contiguous))
    track->contiguous++;
  assert(track->contiguous <= track->next && track->base < track->next &&
         track->next - track->contiguous <= SEQ_WINDOW);
}

/* The window holds only what lies between contiguous and next; opening a gap
 * starts from there. */
static void seq_window_skip_to(struct seq_window *track, uint64_t sequence)
{
  uint64_t from = track->next;

  if (sequence - from > SEQ_WINDOW)
    from = sequence - SEQ_WINDOW;
  for (uint64_t s = from; s < sequence; s++)
    seq_window_mark(track, s, false);
  track->next = sequence + 1;
  seq_window_mark(track, sequence, true);
  seq_window_advance(track);
}

static void seq_window_begin_at(struct seq_window *track, uint64_t sequence)
{
  track->base = track->next = sequence;
  track->contiguous = sequence > SEQ_WINDOW ? sequence - SEQ_WINDOW : 0;
}

enum seq_window_verdict seq_window_slow(struct seq_window *track, uint64_t sequence)
{
  /* A number that the peer chose. No stream has that many messages, and `next` must not wrap. */
  if (sequence > SEQ_LAST) {
    stat_add(track->duplicates, 1);
    return SEQ_DUPLICATE;
  }
  if (track->next == 0 && track->floats)
    seq_window_begin_at(track, sequence);
  if (sequence >= track->next) {
    seq_window_skip_to(track, sequence);
    return SEQ_NEW;
  }
  if (sequence < track->contiguous || seq_window_seen(track, sequence)) {
    stat_add(track->duplicates, 1);
    return SEQ_DUPLICATE;
  }
  if (sequence < track->base)
    track->base = sequence;
  seq_window_mark(track, sequence, true);
  stat_add(track->reordered, 1);
  seq_window_advance(track);
  return SEQ_LATE;
}
