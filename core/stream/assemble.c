/* SPDX-License-Identifier: Apache-2.0 */
/* Frames from messages: which place each one has, and when a frame is complete. */
#include "assemble.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "engine/usage.h"

#define ASSEMBLE_NO_BORDER UINT64_MAX

struct open_frame {
  uint64_t anchor;    /* sequence of cell 0 */
  uint64_t low, high; /* the lowest and the highest that is here */
  uint64_t end;       /* one past `high`, and past those right behind it that are misframed */
  uint64_t opened_ns;
  bool ended;           /* by marker: the one before `end` is marked */
  struct pst_frame out; /* what is here so far; meta is that of `low` */
};

struct assemble {
  struct assemble_params params;
  uint32_t cells;
  uint32_t words; /* of a buffer's bitmap */
  uint64_t *bits;
  uint32_t *lengths;
  uint64_t *free; /* bit i: buffer i is */
  uint32_t free_count;
  uint32_t next_free;  /* where the search begins */
  uint32_t *unsettled; /* of dropped frames */
  uint32_t unsettled_count;
  struct pst_frame *ready; /* FIFO of closed frames */
  uint32_t ready_head, ready_tail;
  struct open_frame open[ASSEMBLE_OPEN_MAX]; /* by sequence */
  uint32_t open_count;
  bool started;
  uint64_t floor;    /* all before it is closed */
  bool floor_exact;  /* a frame ends right before it */
  uint64_t cut_meta; /* by marker: of the last closed frame, when its end was not known */
  bool cut;
  uint64_t number; /* by marker: of the next to be closed */
  uint64_t border; /* a sender started anew with it, or ASSEMBLE_NO_BORDER */
  uint64_t base;   /* by sequence: number of the frame at `origin` */
  struct assemble_counts counts;
};

uint32_t assemble_cells(const struct assemble_params *params)
{
  if (!params->by_marker)
    return params->packets;
  return params->packets + (params->packets < ASSEMBLE_SLACK ? params->packets : ASSEMBLE_SLACK);
}

static uint32_t assemble_slack(const struct assemble *assemble)
{
  return assemble->cells - assemble->params.packets;
}

int assemble_open(const struct assemble_params *params, struct assemble **assemble)
{
  struct assemble *made;

  if (params->packets == 0 || params->open == 0 || params->open > ASSEMBLE_OPEN_MAX ||
      params->buffers <= params->open)
    return -EINVAL;
  made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->params = *params;
  made->cells = assemble_cells(params);
  made->words = (made->cells + 63) / 64;
  made->bits = calloc((size_t)params->buffers * made->words, sizeof(*made->bits));
  made->lengths = calloc((size_t)params->buffers * made->cells, sizeof(*made->lengths));
  made->free = calloc(params->buffers / 64 + 1, sizeof(*made->free));
  made->unsettled = calloc(params->buffers, sizeof(*made->unsettled));
  made->ready = calloc(params->buffers, sizeof(*made->ready));
  if (!made->bits || !made->lengths || !made->free || !made->unsettled || !made->ready) {
    assemble_close(made);
    return -ENOMEM;
  }
  for (uint32_t i = 0; i < params->buffers; i++)
    assemble_release(made, i);
  made->floor = params->origin;
  made->floor_exact = !params->joins;
  made->border = ASSEMBLE_NO_BORDER;
  made->started = !params->joins;
  *assemble = made;
  return 0;
}

void assemble_close(struct assemble *assemble)
{
  if (!assemble)
    return;
  free(assemble->bits);
  free(assemble->lengths);
  free(assemble->free);
  free(assemble->unsettled);
  free(assemble->ready);
  free(assemble);
}

static uint64_t assemble_meta_of(const struct pst_view *message)
{
  return message->flags & PST_VIEW_META ? message->meta : 0;
}

/* ---- Open frames --------------------------------------------------------------- */

/* By marker: nothing of frame i lies before it, and whether the frame before it is
 * known to end there. */
static uint64_t assemble_bound_of(const struct assemble *assemble, uint32_t i, bool *exact)
{
  *exact = i ? assemble->open[i - 1].ended : assemble->floor_exact;
  return i ? assemble->open[i - 1].end : assemble->floor;
}

/* By sequence: of the frames from `origin` on. */
static uint64_t assemble_frame_of(const struct assemble *assemble, uint64_t sequence)
{
  return (sequence - assemble->params.origin) / assemble->params.packets;
}

static uint64_t assemble_start_of(const struct assemble *assemble, uint32_t i, bool *exact)
{
  const struct open_frame *frame = &assemble->open[i];
  uint64_t bound;

  if (!assemble->params.by_marker) {
    *exact = true;
    return frame->anchor;
  }
  bound = assemble_bound_of(assemble, i, exact);
  if (bound == frame->low && bound != assemble->border)
    *exact = true;
  /* A whole frame is missing between, or more of this one than there are cells for. */
  else if (frame->high - bound >= assemble->params.packets || bound < frame->anchor)
    *exact = false;
  return *exact ? bound : frame->low;
}

/* The first open frame: all of it is here, and nothing before it is outstanding. */
static bool assemble_is_complete(const struct assemble *assemble)
{
  const struct open_frame *frame = &assemble->open[0];
  bool exact;
  uint64_t start = assemble_start_of(assemble, 0, &exact);

  if (!assemble->params.by_marker)
    return frame->out.present == assemble->params.packets && frame->anchor == assemble->floor;
  if (frame->end != frame->high + 1 ||
      (!frame->ended && !(assemble->open_count > 1 && assemble->open[1].low == frame->end)))
    return false;
  return exact && frame->out.present == frame->high - start + 1;
}

/* ---- Closing -------------------------------------------------------------------- */

static uint64_t *assemble_bits_of(const struct assemble *assemble, uint32_t buffer)
{
  return assemble->bits + (size_t)buffer * assemble->words;
}

static uint64_t assemble_offset_of(const struct assemble *assemble, uint32_t buffer, uint32_t cell)
{
  return buffer * assemble->params.frame_stride + cell * assemble->params.stride;
}

/* Bit `by` becomes bit 0. */
static void assemble_shift_down(uint64_t *bits, uint32_t words, uint32_t by)
{
  uint32_t skip = by / 64, rest = by % 64;

  for (uint32_t i = 0; by && i < words; i++) {
    uint64_t low = i + skip < words ? bits[i + skip] : 0;
    uint64_t high = i + skip + 1 < words ? bits[i + skip + 1] : 0;
    bits[i] = rest ? low >> rest | high << (64 - rest) : low;
  }
}

static void assemble_give_out(struct assemble *assemble, const struct open_frame *frame,
                              uint64_t start, uint32_t packets, bool complete)
{
  uint64_t *bits = assemble_bits_of(assemble, frame->out.token);
  uint32_t cell = (uint32_t)(start - frame->anchor);
  uint64_t number = assemble->params.by_marker
                        ? assemble->number
                        : assemble->base + assemble_frame_of(assemble, start);

  struct pst_frame *out = &assemble->ready[assemble->ready_tail++ % assemble->params.buffers];

  assemble_shift_down(bits, assemble->words, cell);
  *out = frame->out;
  out->address = assemble_offset_of(assemble, out->token, cell);
  out->stride = assemble->params.stride;
  out->number = number;
  out->sequence = start;
  out->valid = bits;
  out->lengths = assemble->lengths + (size_t)out->token * assemble->cells + cell;
  out->packets = packets;
  out->flags |= complete ? PST_FRAME_COMPLETE : 0;
}

/* Ends the oldest open frame, complete or not, and counts the frames that are missing before it. */
static void assemble_close_first(struct assemble *assemble)
{
  struct open_frame frame = assemble->open[0];
  struct assemble_counts *counts = &assemble->counts;
  bool exact, complete = assemble_is_complete(assemble);
  uint64_t start = assemble_start_of(assemble, 0, &exact);
  uint32_t packets = assemble->params.packets;

  assert(start >= assemble->floor); /* frames are closed in order */
  if (assemble->params.by_marker) {
    packets = (uint32_t)(frame.high - start + 1);
  } else {
    complete = frame.out.present == packets;
    stat_add(counts->lost, (start - assemble->floor) / packets);
  }
  stat_add(counts->complete, complete);
  stat_add(counts->incomplete, !complete);
  if (!complete && assemble->params.drops) {
    stat_add(counts->dropped, 1);
    counts->placed -= frame.out.present;
    stat_add(counts->incomplete_messages, frame.out.present);
    assemble->unsettled[assemble->unsettled_count++] = frame.out.token;
  } else {
    assemble_give_out(assemble, &frame, start, packets, complete);
  }
  assemble->number++;
  assemble->floor = assemble->params.by_marker ? frame.end : start + packets;
  assemble->floor_exact = frame.ended;
  assemble->cut = assemble->params.by_marker && !frame.ended;
  assemble->cut_meta = frame.out.meta;
  assemble->open_count--;
  memmove(&assemble->open[0], &assemble->open[1], assemble->open_count * sizeof(assemble->open[0]));
}

static void assemble_close_complete(struct assemble *assemble)
{
  while (assemble->open_count && assemble_is_complete(assemble))
    assemble_close_first(assemble);
}

void assemble_expire(struct assemble *assemble, uint64_t now_ns)
{
  uint32_t count = assemble->open_count;

  while (count && now_ns < assemble->open[count - 1].opened_ns + assemble->params.timeout_ns)
    count--;
  if (count == 0)
    return;
  for (; count; count--)
    assemble_close_first(assemble);
  assemble_close_complete(assemble);
}

void assemble_end(struct assemble *assemble)
{
  while (assemble->open_count)
    assemble_close_first(assemble);
}

uint64_t assemble_due_ns(const struct assemble *assemble)
{
  uint64_t opened_ns = UINT64_MAX;

  for (uint32_t i = 0; i < assemble->open_count; i++)
    if (assemble->open[i].opened_ns < opened_ns)
      opened_ns = assemble->open[i].opened_ns;
  return assemble->open_count ? opened_ns + assemble->params.timeout_ns : 0;
}

/* ---- Taking ---------------------------------------------------------------------- */

/* How many open frames begin at or before the sequence. */
static uint32_t assemble_frames_upto(const struct assemble *assemble, uint64_t sequence)
{
  uint32_t count = assemble->open_count;

  while (count && (assemble->params.by_marker ? assemble->open[count - 1].low
                                              : assemble->open[count - 1].anchor) > sequence)
    count--;
  return count;
}

/* The open frame that a message belongs to, or -ENOENT: it needs a new one at
 * *position; -EILSEQ: it contradicts what is here. */
static int assemble_find_frame(const struct assemble *assemble, const struct pst_view *message,
                               uint32_t *position)
{
  uint32_t upto = assemble_frames_upto(assemble, message->sequence);
  const struct open_frame *before = upto ? &assemble->open[upto - 1] : NULL;

  *position = upto;
  if (!assemble->params.by_marker)
    return before && message->sequence - before->anchor < assemble->params.packets ? (int)upto - 1
                                                                                   : -ENOENT;
  if (before && message->sequence < before->end)
    return assemble_meta_of(message) == before->out.meta ? (int)upto - 1 : -EILSEQ;
  if (before && !before->ended && assemble_meta_of(message) == before->out.meta)
    return (int)upto - 1;
  if (upto < assemble->open_count && assemble_meta_of(message) == assemble->open[upto].out.meta)
    return (int)upto;
  return -ENOENT;
}

static uint64_t assemble_anchor_of(const struct assemble *assemble, uint32_t position,
                                   uint64_t sequence)
{
  uint32_t packets = assemble->params.packets;
  uint64_t bound, distance;
  bool exact;

  if (!assemble->params.by_marker)
    return sequence - (sequence - assemble->params.origin) % packets;
  bound = assemble_bound_of(assemble, position, &exact);
  distance = sequence - bound;
  if (exact && distance < packets)
    return bound;
  return distance < assemble_slack(assemble) ? bound : sequence - assemble_slack(assemble);
}

/* One is free. In the order of their addresses, however they came back: frames that follow each
 * other then lie side by side, and one copy does for them. */
static uint32_t assemble_take_buffer(struct assemble *assemble)
{
  uint32_t word = assemble->next_free / 64, words = assemble->params.buffers / 64 + 1;
  uint64_t bits = assemble->free[word] & (UINT64_MAX << assemble->next_free % 64);
  uint32_t buffer;

  while (bits == 0) {
    word = word + 1 < words ? word + 1 : 0;
    bits = assemble->free[word];
  }
  buffer = 64 * word + (uint32_t)__builtin_ctzll(bits);
  assemble->free[word] &= ~(UINT64_C(1) << buffer % 64);
  assemble->free_count--;
  assemble->next_free = buffer + 1 < assemble->params.buffers ? buffer + 1 : 0;
  return buffer;
}

/* The rest of a frame that was closed before its end was known. */
static bool assemble_is_of_cut_frame(struct assemble *assemble, const struct pst_view *message,
                                     uint32_t position)
{
  if (position || !assemble->cut || assemble_meta_of(message) != assemble->cut_meta)
    return false;
  assemble->floor = message->sequence + 1;
  assemble->floor_exact = message->flags & PST_VIEW_MARKED;
  assemble->cut = !assemble->floor_exact;
  return true;
}

/* Opens a frame for `message` at place `position` of the open ones; *at: its place now.
 * ASSEMBLE_LATE: older than all that may be open; ASSEMBLE_WAIT: no buffer is free. */
static enum assemble_verdict assemble_open_frame(struct assemble *assemble,
                                                 const struct pst_view *message, uint32_t position,
                                                 uint64_t now_ns, int *at)
{
  struct open_frame *frame;

  if (assemble_is_of_cut_frame(assemble, message, position))
    return ASSEMBLE_LATE;
  if (assemble->open_count == assemble->params.open) {
    if (position == 0)
      return ASSEMBLE_LATE;
    assemble_close_first(assemble);
    position--;
  }
  if (assemble->free_count == 0)
    return ASSEMBLE_WAIT;
  frame = &assemble->open[position];
  memmove(frame + 1, frame, (assemble->open_count - position) * sizeof(*frame));
  assemble->open_count++;
  assert(assemble->open_count <= assemble->params.open);
  *frame = (struct open_frame){.anchor = assemble_anchor_of(assemble, position, message->sequence),
                               .low = message->sequence,
                               .high = message->sequence,
                               .end = message->sequence,
                               .opened_ns = now_ns,
                               .out = {.meta = assemble_meta_of(message),
                                       .first_ns = UINT64_MAX,
                                       .flags = PST_FRAME_META | PST_FRAME_TIME,
                                       .token = assemble_take_buffer(assemble)}};
  memset(assemble_bits_of(assemble, frame->out.token), 0,
         assemble->words * sizeof(*assemble->bits));
  memset(assemble->lengths + (size_t)frame->out.token * assemble->cells, 0,
         assemble->cells * sizeof(*assemble->lengths));
  *at = (int)position;
  return ASSEMBLE_PLACED;
}

/* Whether there is a cell for it or not: one that is marked ends the frame. */
static void assemble_note_end(struct open_frame *frame, const struct pst_view *message)
{
  if (message->sequence < frame->end)
    return;
  frame->end = message->sequence + 1;
  frame->ended = message->flags & PST_VIEW_MARKED;
}

static enum assemble_verdict assemble_check_room(const struct assemble *assemble,
                                                 struct open_frame *frame,
                                                 const struct pst_view *message)
{
  uint64_t sequence = message->sequence;
  uint64_t low = sequence < frame->low ? sequence : frame->low;
  uint64_t high = sequence > frame->high ? sequence : frame->high;

  if (sequence < frame->anchor)
    return ASSEMBLE_LATE;
  if (high - low >= assemble->params.packets || high - frame->anchor >= assemble->cells) {
    if (sequence == frame->end)
      assemble_note_end(frame, message);
    return ASSEMBLE_MISFRAMED;
  }
  return ASSEMBLE_PLACED;
}

/* The frame reaches to this message, whose cell is free. */
static enum assemble_verdict assemble_extend(const struct assemble *assemble,
                                             struct open_frame *frame,
                                             const struct pst_view *message)
{
  uint32_t cell = (uint32_t)(message->sequence - frame->anchor);

  if (assemble_bits_of(assemble, frame->out.token)[cell / 64] >> (cell % 64) & 1)
    return ASSEMBLE_DUPLICATE;
  if (message->sequence <= frame->low) {
    frame->low = message->sequence;
    frame->out.meta = assemble_meta_of(message);
  }
  if (message->sequence > frame->high)
    frame->high = message->sequence;
  assemble_note_end(frame, message);
  return ASSEMBLE_PLACED;
}

static void assemble_set_bits(uint64_t *bits, uint32_t from, uint32_t n)
{
  for (uint32_t end = from + n; from < end;) {
    uint32_t some = 64 - from % 64 < end - from ? 64 - from % 64 : end - from;
    bits[from / 64] |= UINT64_MAX >> (64 - some) << from % 64;
    from += some;
  }
}

/* Messages of one frame, side by side. */
static void assemble_place(struct assemble *assemble, struct open_frame *frame,
                           const struct pst_view *messages, uint32_t n, uint64_t arrival_ns,
                           uint64_t *to)
{
  const uint32_t all = PST_FRAME_META | PST_FRAME_TIME;
  const uint32_t any = PST_FRAME_DAMAGED | PST_FRAME_MARKED;
  const uint32_t cell = (uint32_t)(messages->sequence - frame->anchor);
  uint32_t *lengths = assemble->lengths + (size_t)frame->out.token * assemble->cells + cell;
  uint64_t first_ns = frame->out.first_ns, last_ns = frame->out.last_ns, bytes = 0;
  uint32_t every = UINT32_MAX, some = 0;

  PST_STATIC_ASSERT((uint32_t)PST_FRAME_META == (uint32_t)PST_VIEW_META &&
                        (uint32_t)PST_FRAME_TIME == (uint32_t)PST_VIEW_TIME &&
                        (uint32_t)PST_FRAME_DAMAGED == (uint32_t)PST_VIEW_DAMAGED &&
                        (uint32_t)PST_FRAME_MARKED == (uint32_t)PST_VIEW_MARKED,
                    "flags go from messages to frames as they are");
  for (uint32_t i = 0; i < n; i++) {
    uint64_t time_ns = messages[i].flags & PST_VIEW_TIME ? messages[i].time_ns : arrival_ns;
    first_ns = time_ns < first_ns ? time_ns : first_ns;
    last_ns = time_ns > last_ns ? time_ns : last_ns;
    every &= messages[i].flags;
    some |= messages[i].flags;
    bytes += messages[i].length;
    lengths[i] = messages[i].length;
  }
  assemble_set_bits(assemble_bits_of(assemble, frame->out.token), cell, n);
  frame->out.first_ns = first_ns;
  frame->out.last_ns = last_ns;
  frame->out.flags = (frame->out.flags & (every | ~all)) | (some & any);
  frame->out.bytes += bytes;
  frame->out.present += n;
  assemble->counts.placed += n;
  *to = assemble_offset_of(assemble, frame->out.token, cell);
}

static void assemble_start(struct assemble *assemble, const struct pst_view *message)
{
  assemble->started = true;
  if (!assemble->params.by_marker && message->sequence >= assemble->floor)
    assemble->floor = assemble_anchor_of(assemble, 0, message->sequence);
}

/* The numbers go on behind the former sender's, but its frames do not. */
static void assemble_start_anew(struct assemble *assemble, uint64_t sequence)
{
  while (assemble->open_count && assemble->open[0].low < sequence)
    assemble_close_first(assemble);
  if (!assemble->params.by_marker) {
    assemble->base += assemble_frame_of(assemble, sequence + assemble->params.packets - 1);
    assemble->params.origin = sequence;
  }
  assemble->border = assemble->floor = sequence;
  assemble->floor_exact = assemble->cut = false;
}

static enum assemble_verdict assemble_try_take(struct assemble *assemble,
                                               const struct pst_view *message, uint64_t now_ns,
                                               uint64_t arrival_ns, uint64_t *to)
{
  enum assemble_verdict verdict = ASSEMBLE_PLACED;
  uint32_t position;
  int at;

  if (!assemble->started)
    assemble_start(assemble, message);
  if (message->flags & PST_VIEW_RESTART && message->sequence != assemble->border)
    assemble_start_anew(assemble, message->sequence);
  if (message->sequence < assemble->floor)
    return ASSEMBLE_LATE;
  at = assemble_find_frame(assemble, message, &position);
  if (at == -EILSEQ)
    return ASSEMBLE_MISFRAMED;
  if (at == -ENOENT)
    verdict = assemble_open_frame(assemble, message, position, now_ns, &at);
  else
    verdict = assemble_check_room(assemble, &assemble->open[at], message);
  if (verdict == ASSEMBLE_PLACED)
    verdict = assemble_extend(assemble, &assemble->open[at], message);
  if (verdict == ASSEMBLE_PLACED)
    assemble_place(assemble, &assemble->open[at], message, 1, arrival_ns, to);
  return verdict;
}

/* The next of the newest frame that are here in a row: nothing behind its highest is. */
static uint32_t assemble_row_of(const struct assemble *assemble, const struct open_frame *newest,
                                const struct pst_view *views, uint32_t n)
{
  const uint64_t next = newest->high + 1, room = newest->anchor + assemble->params.packets - next;
  uint32_t row = 0;

  if (n > room)
    n = (uint32_t)room;
  while (row < n && views[row].sequence == next + row && !(views[row].flags & PST_VIEW_RESTART))
    row++;
  return row;
}

enum assemble_verdict assemble_take(struct assemble *assemble, const struct pst_view *views,
                                    uint32_t *n, uint64_t now_ns, uint64_t arrival_ns, uint64_t *to)
{
  struct open_frame *newest = assemble->open;
  enum assemble_verdict verdict;
  uint32_t row = 0;

  if (!assemble->params.by_marker && assemble->open_count) {
    newest += assemble->open_count - 1;
    row = assemble_row_of(assemble, newest, views, *n);
  }
  *n = row ? row : 1;
  if (row) {
    newest->high += row;
    assemble_place(assemble, newest, views, row, arrival_ns, to);
    if (newest->out.present == assemble->params.packets)
      assemble_close_complete(assemble);
    return ASSEMBLE_PLACED;
  }
  verdict = assemble_try_take(assemble, views, now_ns, arrival_ns, to);
  if (verdict == ASSEMBLE_LATE)
    stat_add(assemble->counts.late, 1);
  else if (verdict == ASSEMBLE_MISFRAMED)
    stat_add(assemble->counts.misframed, 1);
  assemble_close_complete(assemble);
  return verdict;
}

/* ---- Closed frames --------------------------------------------------------------- */

const struct pst_frame *assemble_first(const struct assemble *assemble)
{
  return assemble->ready_head == assemble->ready_tail
             ? NULL
             : &assemble->ready[assemble->ready_head % assemble->params.buffers];
}

void assemble_pop(struct assemble *assemble)
{
  assemble->ready_head++;
}

void assemble_release(struct assemble *assemble, uint32_t buffer)
{
  const uint64_t bit = UINT64_C(1) << buffer % 64;

  assert(!(assemble->free[buffer / 64] & bit)); /* released once */
  assemble->free[buffer / 64] |= bit;
  assemble->free_count++;
}

void assemble_settle(struct assemble *assemble)
{
  while (assemble->unsettled_count)
    assemble_release(assemble, assemble->unsettled[--assemble->unsettled_count]);
}

const struct assemble_counts *assemble_counts(const struct assemble *assemble)
{
  return &assemble->counts;
}
