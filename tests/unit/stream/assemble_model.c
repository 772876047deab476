/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of stream: assemble model. */
#include "assemble_model.h"

#include <string.h>

#include <penstock/penstock.h>

void model_init(struct model *model, const struct assemble_params *params)
{
  memset(model, 0, sizeof(*model));
  model->params = *params;
  model->floor = params->origin;
  model->floor_is_boundary = !params->joins;
}

/* ---- Walks over the table ------------------------------------------------------- */

/* The frame of a message, whether the frame has a cell for it or not. */
static int owner_of(const struct model *model, int64_t sequence)
{
  return model->frame_of[sequence] ? model->frame_of[sequence] : model->surplus_of[sequence];
}

static bool is_open(const struct model *model, int64_t sequence)
{
  return sequence >= 0 && sequence < MODEL_SPAN && owner_of(model, sequence) &&
         model->frames[owner_of(model, sequence)].is_open;
}

/* The nearest sequence of an open frame at or below, or at or above; -1: none. */
static int64_t walk(const struct model *model, int64_t sequence, int step)
{
  for (; sequence >= 0 && sequence < MODEL_SPAN; sequence += step)
    if (is_open(model, sequence))
      return sequence;
  return -1;
}

static int64_t lowest(const struct model *model, int frame)
{
  for (int64_t s = 0; s < MODEL_SPAN; s++)
    if (model->frame_of[s] == frame)
      return s;
  return -1;
}

static int64_t highest(const struct model *model, int frame)
{
  for (int64_t s = MODEL_SPAN - 1; s >= 0; s--)
    if (model->frame_of[s] == frame)
      return s;
  return -1;
}

/* The last of its messages, misframed ones too. */
static int64_t last(const struct model *model, int frame)
{
  int64_t s = highest(model, frame);

  while (s + 1 < MODEL_SPAN && model->surplus_of[s + 1] == frame)
    s++;
  return s;
}

static uint32_t present(const struct model *model, int frame)
{
  uint32_t count = 0;

  for (int64_t s = 0; s < MODEL_SPAN; s++)
    count += model->frame_of[s] == frame;
  return count;
}

static bool is_marked(const struct model *model, int64_t sequence)
{
  return model->message[sequence].flags & PST_VIEW_MARKED;
}

static uint32_t open_count(const struct model *model)
{
  uint32_t count = 0;

  for (int i = 1; i <= model->frame_count; i++)
    count += model->frames[i].is_open;
  return count;
}

static int first_open(const struct model *model)
{
  int64_t s = walk(model, 0, 1);

  return s < 0 ? 0 : owner_of(model, s);
}

/* ---- Boundaries, by marker ------------------------------------------------------- */

/* Where the messages before `sequence` end, as far as they are here, and whether
 * a frame ends there for certain. */
static uint64_t boundary_before(const struct model *model, int64_t sequence, bool *certain)
{
  int64_t before = walk(model, sequence - 1, -1);

  *certain = before < 0 ? model->floor_is_boundary : is_marked(model, before);
  return before < 0 ? model->floor : (uint64_t)before + 1;
}

static uint64_t start_of(const struct model *model, int frame, bool *known)
{
  uint64_t low = (uint64_t)lowest(model, frame), high = (uint64_t)highest(model, frame);
  uint64_t boundary;
  bool certain;

  if (!model->params.by_marker) {
    *known = true;
    return low - (low - model->params.origin) % model->params.packets;
  }
  boundary = boundary_before(model, (int64_t)low, &certain);
  *known = boundary == low || (certain && high - boundary + 1 <= model->params.packets &&
                               boundary >= model->frames[frame].lowest_cell);
  return *known ? boundary : low;
}

static bool is_through(const struct model *model, int frame)
{
  int64_t high = highest(model, frame);
  bool known;
  uint64_t start = start_of(model, frame, &known);

  if (frame != first_open(model))
    return false;
  if (!model->params.by_marker)
    return start == model->floor && present(model, frame) == model->params.packets;
  if (last(model, frame) != high || (!is_marked(model, high) && !is_open(model, high + 1)))
    return false;
  for (uint64_t s = start; s <= (uint64_t)high; s++)
    if (model->frame_of[s] != frame)
      return false;
  return known;
}

/* ---- Closing ------------------------------------------------------------------------ */

static void close_frame(struct model *model, int frame)
{
  struct model_frame *closing = &model->frames[frame];
  int64_t high = highest(model, frame);
  bool known, through = is_through(model, frame);

  closing->start = start_of(model, frame, &known);
  closing->packets =
      model->params.by_marker ? (uint64_t)high - closing->start + 1 : model->params.packets;
  closing->complete =
      model->params.by_marker ? through : present(model, frame) == model->params.packets;
  closing->number = model->params.by_marker
                        ? model->closed
                        : (closing->start - model->params.origin) / model->params.packets;
  model->closed++;
  closing->is_dropped = !closing->complete && model->params.drops;
  if (closing->complete)
    model->counts.complete++;
  else
    model->counts.incomplete++;
  if (!model->params.by_marker)
    for (uint64_t s = model->floor; s < closing->start; s += model->params.packets)
      model->counts.lost++;
  if (closing->is_dropped) {
    model->counts.dropped++;
    model->counts.incomplete_messages += present(model, frame);
    model->counts.placed -= present(model, frame);
    model->unsettled++;
  } else {
    model->out[model->out_count++] = frame;
  }
  if (model->params.by_marker) {
    int64_t end = last(model, frame);
    model->floor = (uint64_t)end + 1;
    model->floor_is_boundary = is_marked(model, end);
    model->cut = !is_marked(model, end);
    model->cut_meta = model->message[end].meta;
  } else {
    model->floor = closing->start + model->params.packets;
  }
  closing->is_open = false;
  closing->is_closed = true;
}

static void close_through(struct model *model)
{
  for (int first; (first = first_open(model)) && is_through(model, first);)
    close_frame(model, first);
}

void model_expire(struct model *model, uint64_t now_ns)
{
  bool closed = false;

  for (int i = 1; i <= model->frame_count; i++)
    while (model->frames[i].is_open &&
           model->frames[i].opened_ns + model->params.timeout_ns <= now_ns) {
      close_frame(model, first_open(model));
      closed = true;
    }
  if (closed)
    close_through(model);
}

void model_end(struct model *model)
{
  while (first_open(model))
    close_frame(model, first_open(model));
}

uint64_t model_due_ns(const struct model *model)
{
  uint64_t due = 0;

  for (int i = 1; i <= model->frame_count; i++)
    if (model->frames[i].is_open &&
        (due == 0 || model->frames[i].opened_ns + model->params.timeout_ns < due))
      due = model->frames[i].opened_ns + model->params.timeout_ns;
  return due;
}

/* ---- Taking --------------------------------------------------------------------------- */

/* The open frame it belongs to; 0: a new one; -1: none. */
static int home_of(const struct model *model, const struct pst_view *message)
{
  int64_t s = (int64_t)message->sequence;
  int64_t before = walk(model, s, -1), behind = walk(model, s, 1);
  int frame_before = before < 0 ? 0 : owner_of(model, before);
  int frame_behind = behind < 0 ? 0 : owner_of(model, behind);

  if (!model->params.by_marker) {
    for (int i = 1; i <= model->frame_count; i++) {
      bool known;
      if (model->frames[i].is_open &&
          start_of(model, i, &known) ==
              message->sequence -
                  (message->sequence - model->params.origin) % model->params.packets)
        return i;
    }
    return 0;
  }
  if (frame_before && frame_before == frame_behind)
    return model->message[before].meta == message->meta ? frame_before : -1;
  if (frame_before && model->message[before].meta == message->meta && !is_marked(model, before))
    return frame_before;
  if (frame_behind && model->message[behind].meta == message->meta)
    return frame_behind;
  return 0;
}

/* The lowest sequence that a frame, of which this is the first seen, keeps a cell for. */
static uint64_t lowest_cell(const struct model *model, uint64_t sequence)
{
  uint32_t packets = model->params.packets;
  uint32_t slack = packets < ASSEMBLE_SLACK ? packets : ASSEMBLE_SLACK;
  uint64_t boundary;
  bool certain;

  if (!model->params.by_marker)
    return sequence - (sequence - model->params.origin) % packets;
  boundary = boundary_before(model, (int64_t)sequence, &certain);
  if (certain && sequence - boundary + 1 <= packets)
    return boundary;
  return sequence - boundary < slack ? boundary : sequence - slack;
}

static bool fits(const struct model *model, int frame, uint64_t sequence)
{
  uint64_t low = (uint64_t)lowest(model, frame), high = (uint64_t)highest(model, frame);

  low = sequence < low ? sequence : low;
  high = sequence > high ? sequence : high;
  return high - low + 1 <= model->params.packets &&
         high - model->frames[frame].lowest_cell < assemble_cells(&model->params);
}

static enum assemble_verdict find(struct model *model, const struct pst_view *message,
                                  uint64_t now_ns, int *frame)
{
  uint64_t s = message->sequence;

  if (!model->started && model->params.joins && !model->params.by_marker &&
      s >= model->params.origin)
    model->floor = s - (s - model->params.origin) % model->params.packets;
  model->started = true;
  if (s < model->floor)
    return ASSEMBLE_LATE;
  *frame = home_of(model, message);
  if (*frame < 0)
    return ASSEMBLE_MISFRAMED;
  if (*frame > 0) {
    if (s < model->frames[*frame].lowest_cell)
      return ASSEMBLE_LATE;
    return fits(model, *frame, s) ? ASSEMBLE_PLACED : ASSEMBLE_MISFRAMED;
  }
  bool oldest = walk(model, (int64_t)s, -1) < 0;
  if (oldest && model->cut && message->meta == model->cut_meta) {
    model->floor = s + 1;
    model->floor_is_boundary = message->flags & PST_VIEW_MARKED;
    model->cut = !model->floor_is_boundary;
    return ASSEMBLE_LATE;
  }
  if (open_count(model) == model->params.open) {
    if (oldest)
      return ASSEMBLE_LATE;
    close_frame(model, first_open(model));
  }
  if (open_count(model) + model->buffers_used + model->unsettled +
          (uint32_t)(model->out_count - model->out_taken) ==
      model->params.buffers)
    return ASSEMBLE_WAIT;
  *frame = ++model->frame_count;
  model->frames[*frame].lowest_cell = lowest_cell(model, s);
  model->frames[*frame].opened_ns = now_ns;
  model->frames[*frame].is_open = true;
  return ASSEMBLE_PLACED;
}

enum assemble_verdict model_take(struct model *model, const struct pst_view *message,
                                 uint64_t now_ns)
{
  int frame = 0;
  enum assemble_verdict verdict = find(model, message, now_ns, &frame);

  if (verdict == ASSEMBLE_PLACED && model->frame_of[message->sequence] == frame)
    verdict = ASSEMBLE_DUPLICATE;
  if (verdict == ASSEMBLE_PLACED) {
    model->frame_of[message->sequence] = frame;
    model->message[message->sequence] = *message;
    model->counts.placed++;
  }
  if (verdict == ASSEMBLE_MISFRAMED && frame > 0 &&
      (int64_t)message->sequence == last(model, frame) + 1) {
    model->surplus_of[message->sequence] = frame;
    model->message[message->sequence] = *message;
  }
  model->counts.late += verdict == ASSEMBLE_LATE;
  model->counts.misframed += verdict == ASSEMBLE_MISFRAMED;
  close_through(model);
  return verdict;
}

int model_pop(struct model *model)
{
  if (model->out_taken == model->out_count)
    return 0;
  model->buffers_used++;
  return model->out[model->out_taken++];
}

void model_release(struct model *model)
{
  model->buffers_used--;
}

void model_settle(struct model *model)
{
  model->unsettled = 0;
}
