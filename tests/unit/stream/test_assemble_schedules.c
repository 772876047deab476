/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames out of messages: random schedules of loss, swap, duplicate, delay, time-outs and slow
 * applications against a model that is written the long way.
 *
 * PENSTOCK_ASSEMBLE_SCHEDULES=1000000 sets how many schedules run;
 * PENSTOCK_ASSEMBLE_SEED, from which number on, as a failure prints it.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <penstock/penstock.h>

#include "../fewer.h"
#include "assemble_model.h"

#define BUFFERS_MAX 16
#define CELLS_MAX 288
#define ROW_MAX 40
#define LONG_EVERY 100 /* schedules: so many are of short frames for one of long ones */

struct schedule {
  uint64_t number; /* what it is made from */
  uint64_t random;
  struct assemble_params params;
  bool is_long;  /* frames of several words of a bitmap, and more than the slack */
  bool truthful; /* metas tell frames apart, and nothing contradicts them */
  uint32_t count;
  struct pst_view messages[MODEL_SPAN * 2];
  int true_frame[MODEL_SPAN]; /* from 1 */
  uint64_t true_start[MODEL_SPAN], true_packets[MODEL_SPAN];
};

static uint64_t draw(struct schedule *schedule, uint64_t below)
{
  uint64_t z = schedule->random += UINT64_C(0x9e3779b97f4a7c15);

  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (z ^ (z >> 31)) % below;
}

static bool chance(struct schedule *schedule, uint32_t percent)
{
  return draw(schedule, 100) < percent;
}

static void make_params(struct schedule *schedule)
{
  struct assemble_params *params = &schedule->params;

  *params = (struct assemble_params){.by_marker = chance(schedule, 60),
                                     .drops = chance(schedule, 30),
                                     .joins = chance(schedule, 30),
                                     .packets = 1 + (uint32_t)draw(schedule, 10),
                                     .open = 1 + (uint32_t)draw(schedule, 4),
                                     .timeout_ns = 1 + draw(schedule, 60)};
  if (schedule->is_long) {
    params->packets = 50 + (uint32_t)draw(schedule, 160);
    params->timeout_ns = 1 + draw(schedule, 1500);
  }
  params->stride = 1;
  params->frame_stride = CELLS_MAX;
  params->buffers = params->open + 1 + (uint32_t)draw(schedule, 4);
  if (!params->by_marker && chance(schedule, 50))
    params->origin = draw(schedule, 40);
}

/* Makes the messages of a sender, in order: frames of random lengths, now and then longer than they
 * may be, unmarked, or of the timestamp of the frame before. */
static void make_stream(struct schedule *schedule)
{
  uint32_t total = 1 + (uint32_t)draw(schedule, schedule->is_long ? 600 : 60);
  uint32_t frame = 0, left = 0;
  uint64_t sequence = schedule->params.origin, meta = draw(schedule, 1000);
  bool marks = !chance(schedule, 10), odd = chance(schedule, 20);

  if (schedule->params.joins)
    sequence += draw(schedule, schedule->is_long ? 400 : 80);
  schedule->truthful = !odd;
  schedule->count = 0;
  memset(schedule->true_frame, 0, sizeof(schedule->true_frame));
  for (uint32_t i = 0; i < total; i++, sequence++) {
    if (left == 0) {
      left = 1 + (uint32_t)draw(schedule, schedule->params.packets + (odd ? 3 : 0));
      meta += odd && chance(schedule, 30) ? 0 : 1 + draw(schedule, 3);
      schedule->true_start[++frame] = sequence;
      schedule->true_packets[frame] = 0;
    }
    left--;
    bool marked = marks && left == 0 && !(odd && chance(schedule, 20));
    marked |= odd && chance(schedule, 3);
    schedule->true_frame[sequence] = (int)frame;
    schedule->true_packets[frame]++;
    schedule->messages[schedule->count++] = (struct pst_view){
        .sequence = sequence,
        .meta = odd && chance(schedule, 3) ? meta + 1 : meta,
        .length = (uint32_t)draw(schedule, 1500),
        .flags =
            (marked ? PST_VIEW_MARKED : 0) | (chance(schedule, 95) ? PST_VIEW_TIME : 0) |
            ((schedule->params.by_marker && !odd) || chance(schedule, 95) ? PST_VIEW_META : 0) |
            (chance(schedule, 3) ? PST_VIEW_DAMAGED : 0)};
    if (!(schedule->messages[schedule->count - 1].flags & PST_VIEW_META))
      schedule->messages[schedule->count - 1].meta = 0;
  }
}

static void swap(struct schedule *schedule, uint32_t i, uint32_t k)
{
  struct pst_view kept = schedule->messages[i];
  schedule->messages[i] = schedule->messages[k];
  schedule->messages[k] = kept;
}

static void remove_message(struct schedule *schedule, uint32_t i)
{
  memmove(&schedule->messages[i], &schedule->messages[i + 1],
          (--schedule->count - i) * sizeof(schedule->messages[0]));
}

static void insert(struct schedule *schedule, uint32_t i, struct pst_view message)
{
  memmove(&schedule->messages[i + 1], &schedule->messages[i],
          (schedule->count++ - i) * sizeof(schedule->messages[0]));
  schedule->messages[i] = message;
}

static void impair(struct schedule *schedule)
{
  uint32_t loss = (uint32_t)draw(schedule, 3) * 10, swaps = (uint32_t)draw(schedule, 4) * 10;
  uint32_t repeats = (uint32_t)draw(schedule, 3) * 5, delays = (uint32_t)draw(schedule, 3) * 5;

  /* Now and then the beginning of it all is lost, or most of it. */
  for (uint32_t lost = chance(schedule, 20) ? (uint32_t)draw(schedule, schedule->count) : 0; lost;
       lost--)
    remove_message(schedule, 0);
  for (uint32_t i = 0; i < schedule->count;) {
    if (chance(schedule, loss))
      remove_message(schedule, i);
    else
      i++;
  }
  for (uint32_t i = 0; i + 1 < schedule->count; i++)
    if (chance(schedule, swaps))
      swap(schedule, i, i + 1);
  for (uint32_t i = 0; i < schedule->count; i++) {
    struct pst_view message = schedule->messages[i];
    uint32_t later = i + 1 + (uint32_t)draw(schedule, schedule->is_long ? 200 : 20);
    if (later > schedule->count)
      later = schedule->count;
    if (chance(schedule, repeats) && schedule->count < MODEL_SPAN * 2) {
      insert(schedule, later, message);
    } else if (chance(schedule, delays)) {
      remove_message(schedule, i);
      insert(schedule, later - 1, message);
    }
  }
}

struct bench {
  struct schedule *schedule;
  struct assemble *assemble;
  struct model *model;
  uint64_t cells[BUFFERS_MAX][CELLS_MAX]; /* the payload in it: its sequence + 1 */
  uint32_t held[BUFFERS_MAX];
  uint32_t held_count;
  uint64_t now_ns;
  uint64_t given; /* messages in frames that came out */
  uint64_t frames, complete;
  uint64_t last_number;
};

/* A failure names the schedule. */
#define SAME(what, a, b)                                                                           \
  do {                                                                                             \
    uint64_t a_ = (uint64_t)(a), b_ = (uint64_t)(b);                                               \
    if (a_ != b_)                                                                                  \
      fail_msg("PENSTOCK_ASSEMBLE_SEED=%" PRIu64 ": %s: %" PRIu64 " is not %" PRIu64,              \
               bench->schedule->number, what, a_, b_);                                             \
  } while (0)

static void check_truth(const struct bench *bench, const struct pst_frame *frame)
{
  const struct schedule *schedule = bench->schedule;
  int truth = schedule->true_frame[frame->sequence];

  if (!(frame->flags & PST_FRAME_COMPLETE))
    return;
  SAME("present of a complete frame", frame->present, frame->packets);
  if (!schedule->params.by_marker) {
    SAME("first packet of a complete frame",
         (frame->sequence - schedule->params.origin) % schedule->params.packets, 0);
  } else if (schedule->truthful) {
    SAME("first packet of a complete frame", frame->sequence, schedule->true_start[truth]);
    SAME("packets of a complete frame", frame->packets, schedule->true_packets[truth]);
  }
}

static void check_packets(struct bench *bench, const struct pst_frame *frame, int expected)
{
  const struct model *model = bench->model;
  uint64_t bytes = 0, first_ns = UINT64_MAX, last_ns = 0, meta = 0;
  uint32_t present = 0, flags = PST_FRAME_META | PST_FRAME_TIME;

  for (uint32_t i = 0; i < frame->packets; i++) {
    uint64_t sequence = frame->sequence + i;
    const struct pst_view *message = &model->message[sequence];
    bool is_here = frame->valid[i / 64] >> (i % 64) & 1;
    SAME("valid", is_here, model->frame_of[sequence] == expected);
    SAME("length", frame->lengths[i], is_here ? message->length : 0);
    if (!is_here)
      continue;
    SAME("payload", bench->cells[frame->token][frame->address % CELLS_MAX + i], sequence + 1);
    if (present++ == 0)
      meta = message->meta;
    bytes += message->length;
    first_ns = message->time_ns < first_ns ? message->time_ns : first_ns;
    last_ns = message->time_ns > last_ns ? message->time_ns : last_ns;
    flags &= message->flags | ~(PST_FRAME_META | PST_FRAME_TIME);
    flags |= message->flags & (PST_FRAME_MARKED | PST_FRAME_DAMAGED);
  }
  if (frame->packets % 64)
    SAME("bits behind the last", frame->valid[frame->packets / 64] >> (frame->packets % 64), 0);
  SAME("present", frame->present, present);
  SAME("bytes", frame->bytes, bytes);
  SAME("first_ns", frame->first_ns, first_ns);
  SAME("last_ns", frame->last_ns, last_ns);
  SAME("meta", frame->meta, meta);
  SAME("flags", frame->flags & ~(uint32_t)PST_FRAME_COMPLETE, flags);
  bench->given += present;
}

static void take_frame(struct bench *bench)
{
  const struct pst_frame *frame = assemble_first(bench->assemble);
  int expected = model_pop(bench->model);
  const struct model_frame *truth = &bench->model->frames[expected];

  SAME("whether there is a frame", frame != NULL, expected != 0);
  if (!frame)
    return;
  SAME("number", frame->number, truth->number);
  SAME("sequence", frame->sequence, truth->start);
  SAME("packets", frame->packets, truth->packets);
  SAME("complete", (frame->flags & PST_FRAME_COMPLETE) != 0, truth->complete);
  SAME("buffer of a frame", frame->address / CELLS_MAX, frame->token);
  SAME("cells",
       frame->address % CELLS_MAX + frame->packets <= assemble_cells(&bench->schedule->params), 1);
  SAME("order", bench->frames == 0 || frame->number > bench->last_number, 1);
  check_packets(bench, frame, expected);
  check_truth(bench, frame);
  bench->last_number = frame->number;
  bench->frames++;
  bench->complete += (frame->flags & PST_FRAME_COMPLETE) != 0;
  bench->held[bench->held_count++] = frame->token;
  assemble_pop(bench->assemble);
}

static void give_back(struct bench *bench)
{
  uint32_t i;

  if (bench->held_count == 0)
    return;
  i = (uint32_t)draw(bench->schedule, bench->held_count);
  assemble_release(bench->assemble, bench->held[i]);
  bench->held[i] = bench->held[--bench->held_count];
  model_release(bench->model);
}

static void settle(struct bench *bench)
{
  assemble_settle(bench->assemble);
  model_settle(bench->model);
}

/* Lets time pass between two messages. */
static void pass_time(struct bench *bench, bool is_idle)
{
  struct schedule *schedule = bench->schedule;

  bench->now_ns += draw(schedule, chance(schedule, 10) ? 100 : 4);
  if (chance(schedule, 50)) {
    assemble_expire(bench->assemble, bench->now_ns);
    model_expire(bench->model, bench->now_ns);
  }
  while (is_idle || chance(schedule, 60)) {
    if (!assemble_first(bench->assemble))
      break;
    take_frame(bench);
  }
  while (bench->held_count && (is_idle || chance(schedule, 60)))
    give_back(bench);
  if (is_idle || chance(schedule, 60))
    settle(bench);
}

static void check_counts(const struct bench *bench)
{
  const struct assemble_counts *ours = assemble_counts(bench->assemble);
  const struct assemble_counts *theirs = &bench->model->counts;

  SAME("complete frames", ours->complete, theirs->complete);
  SAME("incomplete frames", ours->incomplete, theirs->incomplete);
  SAME("dropped frames", ours->dropped, theirs->dropped);
  SAME("lost frames", ours->lost, theirs->lost);
  SAME("placed messages", ours->placed, theirs->placed);
  SAME("late messages", ours->late, theirs->late);
  SAME("misframed messages", ours->misframed, theirs->misframed);
  SAME("messages of dropped frames", ours->incomplete_messages, theirs->incomplete_messages);
}

static void offer_message(struct bench *bench, struct pst_view *message, uint64_t *verdicts)
{
  enum assemble_verdict verdict, expected;
  uint64_t place = 0;
  uint32_t n = 1;

  /* Not in order: it may be the device's. */
  message->time_ns = bench->now_ns * 3 + draw(bench->schedule, 40);
  while (true) {
    verdict = assemble_take(bench->assemble, message, &n, bench->now_ns, message->time_ns, &place);
    expected = model_take(bench->model, message, bench->now_ns);
    SAME("verdict", verdict, expected);
    SAME("due", assemble_due_ns(bench->assemble), model_due_ns(bench->model));
    verdicts[verdict]++;
    if (verdict != ASSEMBLE_WAIT)
      break;
    pass_time(bench, true);
  }
  if (verdict == ASSEMBLE_PLACED) {
    SAME("buffer", place / CELLS_MAX < bench->schedule->params.buffers, 1);
    SAME("cell", place % CELLS_MAX < assemble_cells(&bench->schedule->params), 1);
    bench->cells[place / CELLS_MAX][place % CELLS_MAX] = message->sequence + 1;
  }
}

/* Offers the messages that follow each other in the newest frame, all at once; else the first
 * alone. Returns how many; 0: no buffer is free. */
static uint32_t offer_row(struct bench *bench, struct pst_view *messages, uint32_t n,
                          uint64_t *verdicts)
{
  struct pst_view views[ROW_MAX] = {{0}};
  uint64_t place = 0;
  uint64_t arrival_ns = bench->now_ns * 3 + draw(bench->schedule, 40);
  uint32_t row = n;

  for (uint32_t i = 0; i < n; i++) {
    messages[i].time_ns = arrival_ns;
    if (messages[i].flags & PST_VIEW_TIME)
      messages[i].time_ns = bench->now_ns * 3 + draw(bench->schedule, 40);
    views[i] = (struct pst_view){.sequence = messages[i].sequence,
                                 .meta = messages[i].meta,
                                 .flags = messages[i].flags,
                                 .length = messages[i].length};
    if (messages[i].flags & PST_VIEW_TIME)
      views[i].time_ns = messages[i].time_ns;
  }
  enum assemble_verdict verdict =
      assemble_take(bench->assemble, views, &row, bench->now_ns, arrival_ns, &place);
  assert_in_range(row, 1, n);
  for (uint32_t i = 0; i < row; i++) {
    SAME("verdict in a row", verdict, model_take(bench->model, &messages[i], bench->now_ns));
    if (verdict != ASSEMBLE_PLACED)
      continue;
    SAME("cell in a row", place % CELLS_MAX + i < assemble_cells(&bench->schedule->params), 1);
    bench->cells[place / CELLS_MAX][place % CELLS_MAX + i] = messages[i].sequence + 1;
  }
  SAME("due after a row", assemble_due_ns(bench->assemble), model_due_ns(bench->model));
  verdicts[verdict] += row;
  return verdict == ASSEMBLE_WAIT ? 0 : row;
}

static void run_schedule(struct schedule *schedule, struct model *model, uint64_t *verdicts,
                         uint64_t *complete, uint64_t *in_rows)
{
  struct bench on_stack = {.schedule = schedule, .model = model};
  struct bench *bench = &on_stack;
  uint64_t own[5] = {0};

  schedule->random = schedule->number;
  schedule->is_long = schedule->number % LONG_EVERY == 0;
  make_params(schedule);
  make_stream(schedule);
  impair(schedule);
  model_init(model, &schedule->params);
  assert_int_equal(assemble_open(&schedule->params, &bench->assemble), 0);
  for (uint32_t i = 0; i < schedule->count;) {
    uint32_t left = schedule->count - i, row = 0;
    if (chance(schedule, 50))
      row = offer_row(bench, &schedule->messages[i], left < ROW_MAX ? left : ROW_MAX, own);
    if (row == 0)
      offer_message(bench, &schedule->messages[i], own);
    *in_rows += row > 1 ? row : 0;
    i += row ? row : 1;
    pass_time(bench, false);
  }
  assemble_end(bench->assemble);
  model_end(model);
  pass_time(bench, true);
  SAME("whether there is a frame", model_pop(model) != 0, 0);
  check_counts(bench);
  const struct assemble_counts *counts = assemble_counts(bench->assemble);
  SAME("account", schedule->count,
       bench->given + counts->late + counts->misframed + counts->incomplete_messages +
           own[ASSEMBLE_DUPLICATE]);
  SAME("placed", counts->placed, bench->given);
  for (int i = 0; i < 5; i++)
    verdicts[i] += own[i];
  *complete += bench->complete;
  assemble_close(bench->assemble);
}

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
  const char *text = getenv(name);

  return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void random_schedules_agree_with_the_model(void **state)
{
  uint64_t first = from_environment("PENSTOCK_ASSEMBLE_SEED", 1);
  uint64_t count = fewer(from_environment("PENSTOCK_ASSEMBLE_SCHEDULES", 5000));
  struct schedule *schedule = calloc(1, sizeof(*schedule));
  struct model *model = calloc(1, sizeof(*model));
  uint64_t verdicts[5] = {0}, complete = 0, in_rows = 0;

  (void)state;
  assert_non_null(schedule);
  assert_non_null(model);
  for (uint64_t i = 0; i < count; i++) {
    schedule->number = first + i;
    run_schedule(schedule, model, verdicts, &complete, &in_rows);
  }
  print_message("%" PRIu64 " schedules: %" PRIu64 " placed, %" PRIu64 " duplicates, %" PRIu64
                " late, %" PRIu64 " misframed, %" PRIu64 " waits, %" PRIu64 " complete frames\n",
                count, verdicts[ASSEMBLE_PLACED], verdicts[ASSEMBLE_DUPLICATE],
                verdicts[ASSEMBLE_LATE], verdicts[ASSEMBLE_MISFRAMED], verdicts[ASSEMBLE_WAIT],
                complete);
  if (count >= 1000) { /* all there is has been met */
    for (int i = 0; i < 5; i++)
      assert_true(verdicts[i] > count / 1000);
    assert_true(complete > count);
    assert_true(in_rows > count);
  }
  free(model);
  free(schedule);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_schedules_agree_with_the_model)};
  return cmocka_run_group_tests_name("stream_assemble_schedules", tests, NULL, NULL) ? 1 : 0;
}
