/* SPDX-License-Identifier: Apache-2.0 */
/* Frames out of messages: what each rule gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <penstock/penstock.h>

#include "stream/assemble.h"

#define MARK PST_VIEW_MARKED

static struct assemble *opened(struct assemble_params params)
{
  struct assemble *assemble = NULL;

  assert_int_equal(assemble_open(&params, &assemble), 0);
  return assemble;
}

static enum assemble_verdict offer(struct assemble *assemble, uint64_t sequence, uint64_t meta,
                                   uint32_t flags, uint64_t now_ns)
{
  const struct pst_view message = {.sequence = sequence,
                                   .meta = meta,
                                   .time_ns = 1000 + sequence,
                                   .length = 100,
                                   .flags = flags | PST_VIEW_META};
  uint64_t place;
  uint32_t n = 1;

  return assemble_take(assemble, &message, &n, now_ns, message.time_ns, &place);
}

static void expect_frame(struct assemble *assemble, uint64_t number, uint64_t sequence,
                         uint32_t packets, uint64_t valid, bool complete)
{
  const struct pst_frame *frame = assemble_first(assemble);

  assert_non_null(frame);
  assert_int_equal(frame->number, number);
  assert_int_equal(frame->sequence, sequence);
  assert_int_equal(frame->packets, packets);
  assert_int_equal(frame->valid[0], valid);
  assert_int_equal(frame->present, __builtin_popcountll(valid));
  assert_int_equal((frame->flags & PST_FRAME_COMPLETE) != 0, complete);
  uint32_t buffer = frame->token;
  assemble_pop(assemble);
  assemble_release(assemble, buffer);
}

static void swapped_packets_make_a_frame(void **state)
{
  struct assemble *a =
      opened((struct assemble_params){.packets = 4, .open = 2, .buffers = 4, .timeout_ns = 100});

  (void)state;
  offer(a, 3, 0, 0, 0);
  offer(a, 1, 0, 0, 0);
  offer(a, 2, 0, 0, 0);
  assert_null(assemble_first(a));
  assert_int_equal(offer(a, 1, 0, 0, 0), ASSEMBLE_DUPLICATE);
  offer(a, 0, 0, 0, 0);
  expect_frame(a, 0, 0, 4, 0xf, true);
  assert_int_equal(offer(a, 1, 0, 0, 0), ASSEMBLE_LATE);
  assemble_close(a);
}

static void a_complete_frame_waits_for_the_one_before_it(void **state)
{
  struct assemble *a =
      opened((struct assemble_params){.packets = 2, .open = 3, .buffers = 4, .timeout_ns = 100});

  (void)state;
  offer(a, 2, 0, 0, 10);
  offer(a, 3, 0, 0, 10);
  assert_null(assemble_first(a)); /* frame 0 may still come */
  assert_int_equal(assemble_due_ns(a), 110);
  assemble_expire(a, 9); /* read before the frame was opened */
  assert_null(assemble_first(a));
  assemble_expire(a, 109);
  assert_null(assemble_first(a));
  assemble_expire(a, 110);
  expect_frame(a, 1, 2, 2, 3, true);
  assert_int_equal(assemble_counts(a)->lost, 1);
  assert_int_equal(assemble_due_ns(a), 0);
  assemble_close(a);
}

static void one_more_frame_than_may_be_open_closes_the_oldest(void **state)
{
  struct assemble *a =
      opened((struct assemble_params){.packets = 2, .open = 2, .buffers = 3, .timeout_ns = 100});

  (void)state;
  offer(a, 0, 0, 0, 0);
  offer(a, 2, 0, 0, 0);
  assert_null(assemble_first(a));
  offer(a, 5, 0, 0, 0);
  expect_frame(a, 0, 0, 2, 1, false);
  assert_int_equal(offer(a, 1, 0, 0, 0), ASSEMBLE_LATE);
  offer(a, 3, 0, 0, 0);
  expect_frame(a, 1, 2, 2, 3, true);
  assemble_close(a);
}

static void without_a_buffer_it_waits(void **state)
{
  struct assemble *a =
      opened((struct assemble_params){.packets = 1, .open = 1, .buffers = 2, .timeout_ns = 100});

  (void)state;
  offer(a, 0, 0, 0, 0);
  offer(a, 1, 0, 0, 0);
  assert_int_equal(offer(a, 2, 0, 0, 0), ASSEMBLE_WAIT);
  expect_frame(a, 0, 0, 1, 1, true);
  assert_int_equal(offer(a, 2, 0, 0, 0), ASSEMBLE_PLACED);
  expect_frame(a, 1, 1, 1, 1, true);
  expect_frame(a, 2, 2, 1, 1, true);
  assemble_close(a);
}

static void a_dropped_frame_s_buffer_is_free_once_settled(void **state)
{
  struct assemble *a = opened((struct assemble_params){
      .packets = 2, .open = 1, .buffers = 2, .timeout_ns = 100, .drops = true});

  (void)state;
  offer(a, 0, 0, 0, 0);
  offer(a, 2, 0, 0, 0);
  assert_int_equal(offer(a, 4, 0, 0, 0), ASSEMBLE_WAIT);
  assemble_settle(a);
  assert_int_equal(offer(a, 4, 0, 0, 0), ASSEMBLE_PLACED);
  assert_null(assemble_first(a));
  assert_int_equal(assemble_counts(a)->dropped, 2);
  assert_int_equal(assemble_counts(a)->incomplete_messages, 2);
  assemble_close(a);
}

static const struct assemble_params by_marker = {
    .by_marker = true, .packets = 8, .open = 3, .buffers = 5, .timeout_ns = 100};

static void markers_end_frames(void **state)
{
  struct assemble *a = opened(by_marker);

  (void)state;
  offer(a, 0, 7, 0, 0);
  offer(a, 1, 7, MARK, 0);
  expect_frame(a, 0, 0, 2, 3, true);
  offer(a, 3, 8, 0, 0); /* the marker overtaken by the next frame */
  offer(a, 4, 8, MARK, 0);
  offer(a, 5, 9, MARK, 0);
  assert_null(assemble_first(a));
  offer(a, 2, 8, 0, 0);
  expect_frame(a, 1, 2, 3, 7, true);
  expect_frame(a, 2, 5, 1, 1, true);
  assemble_close(a);
}

static void a_lost_marker_is_made_up_for_by_the_timestamp(void **state)
{
  struct assemble *a = opened(by_marker);

  (void)state;
  offer(a, 0, 7, 0, 0);
  offer(a, 1, 7, 0, 0);
  offer(a, 3, 8, 0, 0); /* 2, marked, is lost */
  offer(a, 4, 8, MARK, 0);
  assert_null(assemble_first(a));
  assemble_expire(a, 100);
  expect_frame(a, 0, 0, 2, 3, false);
  expect_frame(a, 1, 3, 2, 3, false); /* 2 may have been its first */
  offer(a, 5, 9, MARK, 200);
  expect_frame(a, 2, 5, 1, 1, true);
  assert_int_equal(assemble_counts(a)->late, 0);
  assemble_close(a);
}

/* The numbers of a sender that starts anew go on behind those of the former. */
static void no_frame_goes_over_a_restart(void **state)
{
  struct assemble *a = opened(by_marker);

  (void)state;
  offer(a, 0, 7, 0, 0);
  offer(a, 1, 7, 0, 0);
  offer(a, 2, 9, PST_VIEW_RESTART, 0); /* its frame's first, or any later one */
  offer(a, 3, 9, MARK, 0);
  expect_frame(a, 0, 0, 2, 3, false);
  assert_null(assemble_first(a));
  offer(a, 4, 10, MARK, 0);
  assemble_expire(a, 100);
  expect_frame(a, 1, 2, 2, 3, false);
  expect_frame(a, 2, 4, 1, 1, true);
  offer(a, 5, 11, 0, 200);
  offer(a, 6, 11, MARK | PST_VIEW_RESTART, 200); /* the same timestamp, by chance */
  assemble_end(a);
  expect_frame(a, 3, 5, 1, 1, false);
  expect_frame(a, 4, 6, 1, 1, false);
  assemble_close(a);
}

static void frames_by_sequence_are_counted_from_a_restart_on(void **state)
{
  struct assemble *a =
      opened((struct assemble_params){.packets = 4, .open = 2, .buffers = 6, .timeout_ns = 100});

  (void)state;
  for (uint64_t s = 0; s < 14; s++)
    offer(a, s, 0, s == 6 ? PST_VIEW_RESTART : 0, 0);
  expect_frame(a, 0, 0, 4, 0xf, true);
  expect_frame(a, 1, 4, 4, 3, false);
  expect_frame(a, 2, 6, 4, 0xf, true);
  expect_frame(a, 3, 10, 4, 0xf, true);
  assert_int_equal(assemble_counts(a)->lost, 0);
  assemble_close(a);
}

static void a_row_ends_before_a_restart(void **state)
{
  struct assemble *a =
      opened((struct assemble_params){.packets = 4, .open = 2, .buffers = 4, .timeout_ns = 100});
  struct pst_view views[3] = {{.sequence = 1}, {.sequence = 2, .flags = PST_VIEW_RESTART}};
  uint64_t place;

  (void)state;
  offer(a, 0, 0, 0, 0);
  views[2].sequence = 3;
  uint32_t n = 3;
  assert_int_equal(assemble_take(a, views, &n, 0, 0, &place), ASSEMBLE_PLACED);
  assert_int_equal(n, 1);
  n = 2;
  assert_int_equal(assemble_take(a, views + 1, &n, 0, 0, &place), ASSEMBLE_PLACED);
  assert_int_equal(n, 1); /* it begins a frame, and not the row that the one behind it is in */
  assemble_close(a);
}

static void a_sender_that_does_not_mark_is_followed_by_its_timestamps(void **state)
{
  struct assemble *a = opened(by_marker);

  (void)state;
  for (uint64_t s = 0; s < 12; s++)
    offer(a, s, s / 3, 0, 0);
  for (uint64_t f = 0; f < 3; f++)
    expect_frame(a, f, 3 * f, 3, 7, true);
  assert_null(assemble_first(a)); /* the end of the last is not known */
  assemble_close(a);
}

static void a_frame_whose_first_packets_come_last_has_cells_for_them(void **state)
{
  struct assemble *a = opened(by_marker);

  (void)state;
  offer(a, 0, 7, 0, 0);
  offer(a, 4, 8, MARK, 0);
  offer(a, 3, 8, 0, 0);
  offer(a, 2, 8, 0, 0);
  offer(a, 1, 7, MARK, 0);
  expect_frame(a, 0, 0, 2, 3, true);
  expect_frame(a, 1, 2, 3, 7, true);
  assemble_close(a);
}

static void what_comes_of_a_frame_that_timed_out_is_late(void **state)
{
  struct assemble *a = opened(by_marker);

  (void)state;
  offer(a, 0, 7, 0, 0);
  assemble_expire(a, 100);
  expect_frame(a, 0, 0, 1, 1, false);
  assert_int_equal(offer(a, 2, 7, 0, 101), ASSEMBLE_LATE);
  assert_int_equal(offer(a, 1, 7, 0, 101), ASSEMBLE_LATE);
  assert_int_equal(offer(a, 3, 7, MARK, 101), ASSEMBLE_LATE);
  assert_int_equal(offer(a, 4, 8, MARK, 101), ASSEMBLE_PLACED);
  expect_frame(a, 1, 4, 1, 1, true);
  assemble_close(a);
}

static void a_frame_longer_than_it_may_be_is_cut(void **state)
{
  struct assemble *a = opened(by_marker);

  (void)state;
  for (uint64_t s = 0; s < 8; s++)
    assert_int_equal(offer(a, s, 7, 0, 0), ASSEMBLE_PLACED);
  assert_int_equal(offer(a, 8, 7, 0, 0), ASSEMBLE_MISFRAMED);
  assert_int_equal(offer(a, 9, 7, MARK, 0), ASSEMBLE_MISFRAMED);
  assert_int_equal(offer(a, 10, 8, MARK, 0), ASSEMBLE_PLACED);
  assemble_expire(a, 100);
  expect_frame(a, 0, 0, 8, 0xff, false);
  expect_frame(a, 1, 10, 1, 1, true);
  assert_int_equal(assemble_counts(a)->misframed, 2);
  assemble_close(a);
}

static void a_stream_joined_in_its_middle_begins_where_it_is(void **state)
{
  struct assemble *a = opened((struct assemble_params){
      .packets = 4, .open = 2, .buffers = 4, .timeout_ns = 100, .joins = true, .origin = 65536});

  (void)state;
  offer(a, 65536 + 4006, 0, 0, 0);
  offer(a, 65536 + 4007, 0, 0, 0);
  assemble_expire(a, 100);
  expect_frame(a, 1001, 65536 + 4004, 4, 0xc, false);
  assert_int_equal(assemble_counts(a)->lost, 0);
  assemble_close(a);
}

static void long_frames_shift_their_bitmaps(void **state)
{
  struct assemble_params params = by_marker;
  struct assemble *a;

  (void)state;
  params.packets = 200;
  params.joins = true;
  a = opened(params);
  /* The first seen gets cell 64; packet 0 of what is given out is in cell 1. */
  for (uint64_t s = 1063; s < 1190; s++)
    assert_int_equal(offer(a, s, 7, 0, 0), ASSEMBLE_PLACED);
  assemble_expire(a, 100);
  const struct pst_frame *frame = assemble_first(a);
  assert_int_equal(frame->packets, 127);
  assert_int_equal(frame->valid[0], UINT64_MAX);
  assert_int_equal(frame->valid[1], UINT64_MAX >> 1);
  for (uint32_t i = 0; i < frame->packets; i++)
    assert_int_equal(frame->lengths[i], 100);
  assemble_close(a);
}

static void an_overlong_frame_does_not_leave_its_cells(void **state)
{
  struct assemble_params params = by_marker;
  struct assemble *a;

  (void)state;
  params.packets = 100;
  a = opened(params);
  assert_int_equal(offer(a, 90, 7, 0, 0), ASSEMBLE_PLACED); /* its start is known: 0 */
  assert_int_equal(assemble_cells(&params), 164);
  assert_int_equal(offer(a, 164, 7, 0, 0), ASSEMBLE_MISFRAMED);
  assert_int_equal(offer(a, 163, 7, 0, 0), ASSEMBLE_PLACED);
  assemble_expire(a, 100);
  assert_int_equal(assemble_first(a)->sequence, 90);
  assert_int_equal(assemble_first(a)->packets, 74);
  assert_int_equal(assemble_first(a)->valid[0], 1);
  assert_int_equal(assemble_first(a)->valid[1], UINT64_C(1) << (73 - 64));
  assemble_close(a);
}

static void a_start_that_is_too_far_back_is_given_up(void **state)
{
  struct assemble_params params = by_marker;
  struct assemble *a;

  (void)state;
  params.packets = 100;
  a = opened(params);
  assert_int_equal(offer(a, 99, 7, 0, 0), ASSEMBLE_PLACED); /* as long as may be, from 0 */
  assert_int_equal(offer(a, 0, 7, 0, 0), ASSEMBLE_PLACED);
  assemble_close(a);
  a = opened(params);
  assert_int_equal(offer(a, 100, 7, 0, 0), ASSEMBLE_PLACED); /* not from 0 */
  assert_int_equal(offer(a, 100 - ASSEMBLE_SLACK - 1, 7, 0, 0), ASSEMBLE_LATE);
  assert_int_equal(offer(a, 100 - ASSEMBLE_SLACK, 7, 0, 0), ASSEMBLE_PLACED);
  assemble_close(a);
}

static void numbers_out_of_range_are_refused(void **state)
{
  struct assemble_params params = by_marker;
  struct assemble *a = NULL;

  (void)state;
  params.packets = 0;
  assert_int_equal(assemble_open(&params, &a), -22);
  params = by_marker;
  params.open = 0;
  assert_int_equal(assemble_open(&params, &a), -22);
  params = by_marker;
  params.buffers = params.open;
  assert_int_equal(assemble_open(&params, &a), -22);
  params = by_marker;
  params.open = ASSEMBLE_OPEN_MAX + 1;
  params.buffers = 2 * params.open;
  assert_int_equal(assemble_open(&params, &a), -22);
  assert_null(a);
  params.open = ASSEMBLE_OPEN_MAX;
  assemble_close(opened(params));
  params.by_marker = false;
  assert_int_equal(assemble_cells(&params), params.packets);
  assemble_close(NULL);
}

static int allowed = -1; /* allocations before one fails; < 0: all succeed */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
  return allowed >= 0 && allowed-- == 0 ? NULL : __real_calloc(count, size);
}

static void each_allocation_may_fail(void **state)
{
  struct assemble *a = NULL;
  int rc = -12;

  (void)state;
  for (int i = 0; rc == -12; i++) {
    allowed = i;
    rc = assemble_open(&by_marker, &a);
    allowed = -1;
    assert_int_equal(rc, i < 6 ? -12 : 0);
    assert_int_equal(a != NULL, i == 6);
  }
  assemble_close(a);
}

/* The buffer of a frame of one packet, which stays out. */
static uint32_t buffer_of_next(struct assemble *assemble, uint64_t sequence)
{
  assert_int_equal(offer(assemble, sequence, sequence, 0, sequence), ASSEMBLE_PLACED);
  const struct pst_frame *frame = assemble_first(assemble);
  assert_non_null(frame);
  uint32_t buffer = frame->token;
  assemble_pop(assemble);
  return buffer;
}

/* However they come back: so frames that follow each other lie side by side. */
static void buffers_are_taken_in_order(void **state)
{
  static const uint32_t back[] = {69, 3, 0, 64, 1, 2};
  static const uint32_t taken[] = {0, 1, 2, 3, 64, 69};
  struct assemble_params params = {.packets = 1, .open = 2, .buffers = 70, .timeout_ns = 10};
  struct assemble *a = opened(params);

  (void)state;
  for (uint32_t s = 0; s < 70; s++)
    assert_int_equal(buffer_of_next(a, s), s);
  for (uint32_t i = 0; i < 6; i++)
    assemble_release(a, back[i]);
  for (uint32_t i = 0; i < 6; i++)
    assert_int_equal(buffer_of_next(a, 70 + i), taken[i]);
  assert_int_equal(offer(a, 76, 76, 0, 76), ASSEMBLE_WAIT);
  assemble_close(a);
}

/* Nothing goes wrong: every frame comes out, complete. */
static void unimpaired_streams_come_out_whole(void **state)
{
  struct assemble_params params = {.packets = 5, .open = 2, .buffers = 4, .timeout_ns = 10};

  (void)state;
  for (int marker = 0; marker < 2; marker++) {
    params.by_marker = marker;
    struct assemble *a = opened(params);
    for (uint64_t s = 0; s < 5000; s++) {
      assert_int_equal(offer(a, s, s / 5, s % 5 == 4 ? MARK : 0, s), ASSEMBLE_PLACED);
      if (s % 5 == 4)
        expect_frame(a, s / 5, s - 4, 5, 0x1f, true);
      assemble_expire(a, s);
    }
    assert_int_equal(assemble_counts(a)->complete, 1000);
    assert_int_equal(assemble_counts(a)->incomplete, 0);
    assemble_close(a);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(swapped_packets_make_a_frame),
      cmocka_unit_test(a_complete_frame_waits_for_the_one_before_it),
      cmocka_unit_test(one_more_frame_than_may_be_open_closes_the_oldest),
      cmocka_unit_test(without_a_buffer_it_waits),
      cmocka_unit_test(a_dropped_frame_s_buffer_is_free_once_settled),
      cmocka_unit_test(markers_end_frames),
      cmocka_unit_test(a_lost_marker_is_made_up_for_by_the_timestamp),
      cmocka_unit_test(no_frame_goes_over_a_restart),
      cmocka_unit_test(frames_by_sequence_are_counted_from_a_restart_on),
      cmocka_unit_test(a_row_ends_before_a_restart),
      cmocka_unit_test(a_sender_that_does_not_mark_is_followed_by_its_timestamps),
      cmocka_unit_test(a_frame_whose_first_packets_come_last_has_cells_for_them),
      cmocka_unit_test(what_comes_of_a_frame_that_timed_out_is_late),
      cmocka_unit_test(a_frame_longer_than_it_may_be_is_cut),
      cmocka_unit_test(a_stream_joined_in_its_middle_begins_where_it_is),
      cmocka_unit_test(long_frames_shift_their_bitmaps),
      cmocka_unit_test(an_overlong_frame_does_not_leave_its_cells),
      cmocka_unit_test(a_start_that_is_too_far_back_is_given_up),
      cmocka_unit_test(buffers_are_taken_in_order),
      cmocka_unit_test(numbers_out_of_range_are_refused),
      cmocka_unit_test(each_allocation_may_fail),
      cmocka_unit_test(unimpaired_streams_come_out_whole),
  };
  return cmocka_run_group_tests_name("stream_assemble", tests, NULL, NULL) ? 1 : 0;
}
