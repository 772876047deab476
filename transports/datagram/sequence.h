/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64-bit sequence numbers out of the 16 or 32 bits that travel.
 *
 * A number less than half the number space ahead of the highest is ahead: a jump
 * forward is loss, however far. A number behind is late up to `reorder`; further back
 * it is no reordering, and the caller decides whether the sender has started anew.
 */
#ifndef DATAGRAM_SEQUENCE_H
#define DATAGRAM_SEQUENCE_H

#include <stdbool.h>
#include <stdint.h>

struct dg_sequence {
  uint64_t next;  /* one past the highest */
  uint64_t least; /* numbers begin here: what would be less was never sent */
  uint32_t raw;   /* of `next`, as it would be on the wire */
  uint32_t mask;  /* of the bits that travel */
  uint32_t reorder;
};

enum dg_place {
  DG_AHEAD,    /* *sequence >= next; the gap is what is missing in between */
  DG_LATE,     /* behind `next`, within `reorder` */
  DG_TOO_LATE, /* further back, or before the first number there can be */
};

/* `first` on the wire gets the number `sequence`; none is less than `least`. */
static inline void dg_sequence_begin(struct dg_sequence *state, uint32_t bits, uint32_t first,
                                     uint64_t sequence, uint64_t least, uint32_t reorder)
{
  uint32_t mask = bits < 32 ? (1u << bits) - 1 : UINT32_MAX;

  *state = (struct dg_sequence){.next = sequence,
                                .least = least,
                                .raw = first & mask,
                                .mask = mask,
                                .reorder = reorder < mask / 2 ? reorder : mask / 2};
}

/* How many the receiver itself has dropped since the highest. A buffer of the kernel holds one
 * message at least, and as many as one ever had at most. */
struct dg_dropped {
  uint64_t least;
  uint64_t most;
};

/*
 * Where does `raw` belong? Turns of the number space are added for as many messages as were
 * dropped here at least, so that no message is invented. Changes nothing.
 */
static inline enum dg_place dg_sequence_place(const struct dg_sequence *state, uint32_t raw,
                                              struct dg_dropped dropped, uint64_t *sequence)
{
  uint64_t space = (uint64_t)state->mask + 1;
  uint64_t ahead = (raw - state->raw) & state->mask;
  uint64_t back = space - ahead;

  if (dropped.least > space / 2) { /* the nearest that fits */
    *sequence = state->next + ahead;
    if (dropped.least > ahead)
      *sequence += (dropped.least - ahead + space / 2) / space * space;
    return DG_AHEAD;
  }
  if (ahead >= space / 2 && back <= state->reorder && back <= state->next - state->least) {
    *sequence = state->next - back;
    return DG_LATE;
  }
  if (ahead >= space / 2 && ahead > dropped.most)
    return DG_TOO_LATE;
  *sequence = state->next + ahead;
  return DG_AHEAD;
}

/* The message of dg_sequence_place() has been taken. */
static inline void dg_sequence_take(struct dg_sequence *state, uint32_t raw, uint64_t sequence)
{
  if (sequence < state->next)
    return;
  state->next = sequence + 1;
  state->raw = (raw + 1) & state->mask;
}

#endif
