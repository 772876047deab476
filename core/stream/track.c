/* SPDX-License-Identifier: Apache-2.0 */
#include "track.h"

static bool seen(const struct track *track, uint64_t sequence)
{
  uint64_t bit = sequence % TRACK_WINDOW;
  return track->bits[bit / 64] >> (bit % 64) & 1;
}

static void mark(struct track *track, uint64_t sequence, bool is_seen)
{
  uint64_t bit = sequence % TRACK_WINDOW;
  uint64_t mask = UINT64_C(1) << (bit % 64);

  if (is_seen)
    track->bits[bit / 64] |= mask;
  else
    track->bits[bit / 64] &= ~mask;
}

static void advance(struct track *track)
{
  if (track->next > TRACK_WINDOW && track->contiguous < track->next - TRACK_WINDOW)
    track->contiguous = track->next - TRACK_WINDOW;
  while (track->contiguous < track->next && seen(track, track->contiguous))
    track->contiguous++;
}

/* The window holds only what lies between contiguous and next; opening a gap
 * starts from there. */
static void skip_to(struct track *track, uint64_t sequence)
{
  uint64_t from = track->next;

  if (sequence - from > TRACK_WINDOW)
    from = sequence - TRACK_WINDOW;
  for (uint64_t s = from; s < sequence; s++)
    mark(track, s, false);
  track->next = sequence + 1;
  mark(track, sequence, true);
  advance(track);
}

static void begin_at(struct track *track, uint64_t sequence)
{
  track->base = track->next = sequence;
  track->contiguous = sequence > TRACK_WINDOW ? sequence - TRACK_WINDOW : 0;
}

enum track_verdict track_slow(struct track *track, uint64_t sequence)
{
  if (track->next == 0 && track->floats)
    begin_at(track, sequence);
  if (sequence >= track->next) {
    skip_to(track, sequence);
    return TRACK_NEW;
  }
  if (sequence < track->contiguous || seen(track, sequence)) {
    track->duplicates++;
    return TRACK_DUPLICATE;
  }
  if (sequence < track->base)
    track->base = sequence;
  mark(track, sequence, true);
  track->reordered++;
  advance(track);
  return TRACK_LATE;
}
