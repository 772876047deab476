/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/stream/seq_window.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stream/seq_window.h"

static void in_order_is_new(void **state)
{
  struct seq_window track = {0};

  (void)state;
  for (uint64_t s = 0; s < 200000; s++)
    assert_int_equal(seq_window_see(&track, s), SEQ_NEW);
  assert_int_equal(track.next, 200000);
  assert_int_equal(track.contiguous, 200000);
  assert_int_equal(track.duplicates, 0);
  assert_int_equal(track.reordered, 0);
}

static void a_repeat_is_a_duplicate(void **state)
{
  struct seq_window track = {0};

  (void)state;
  for (uint64_t s = 0; s < 100; s++)
    seq_window_see(&track, s);
  assert_int_equal(seq_window_see(&track, 99), SEQ_DUPLICATE);
  assert_int_equal(seq_window_see(&track, 0), SEQ_DUPLICATE);
  assert_int_equal(track.duplicates, 2);
  assert_int_equal(seq_window_see(&track, 100), SEQ_NEW);
}

static void a_late_one_counts_once(void **state)
{
  struct seq_window track = {0};

  (void)state;
  assert_int_equal(seq_window_see(&track, 0), SEQ_NEW);
  assert_int_equal(seq_window_see(&track, 2), SEQ_NEW);
  assert_int_equal(seq_window_see(&track, 3), SEQ_NEW);
  assert_int_equal(track.contiguous, 1);
  assert_int_equal(seq_window_see(&track, 1), SEQ_LATE);
  assert_int_equal(track.contiguous, 4);
  assert_int_equal(seq_window_see(&track, 1), SEQ_DUPLICATE);
  assert_int_equal(track.reordered, 1);
  assert_int_equal(track.duplicates, 1);
}

static void a_gap_wider_than_the_window_is_given_up(void **state)
{
  struct seq_window track = {0};

  (void)state;
  seq_window_see(&track, 0);
  assert_int_equal(seq_window_see(&track, 10 * SEQ_WINDOW), SEQ_NEW);
  assert_int_equal(track.contiguous, 9 * SEQ_WINDOW + 1);
  assert_int_equal(seq_window_see(&track, 9 * SEQ_WINDOW + 1), SEQ_LATE);
  assert_int_equal(seq_window_see(&track, 5), SEQ_DUPLICATE);
}

/* Against a table that remembers everything: random swaps, repeats and losses
 * that stay within the window. */
static void random_schedules_agree_with_a_table(void **state)
{
  enum { SPAN = 300000, DISTANCE = 5000 };
  unsigned char *seen = calloc(SPAN, 1);
  struct seq_window *track = calloc(1, sizeof(*track));
  uint64_t duplicates = 0, reordered = 0, highest = 0;
  unsigned seed = 7;

  (void)state;
  assert_non_null(seen);
  assert_non_null(track);
  for (uint64_t base = 0; base + DISTANCE < SPAN; base += 1 + (uint64_t)rand_r(&seed) % 3) {
    uint64_t s = base + (rand_r(&seed) % 4 ? 0 : (uint64_t)rand_r(&seed) % DISTANCE);
    enum seq_window_verdict verdict = seq_window_see(track, s);
    if (seen[s]) {
      assert_int_equal(verdict, SEQ_DUPLICATE);
      duplicates++;
    } else if (s < highest) {
      assert_int_equal(verdict, SEQ_LATE);
      reordered++;
    } else {
      assert_int_equal(verdict, SEQ_NEW);
    }
    seen[s] = 1;
    if (s + 1 > highest)
      highest = s + 1;
  }
  assert_true(duplicates > 1000);
  assert_true(reordered > 1000);
  assert_int_equal(track->duplicates, duplicates);
  assert_int_equal(track->reordered, reordered);
  assert_int_equal(track->next, highest);
  free(track);
  free(seen);
}

static void one_that_floats_begins_with_the_first_seen(void **state)
{
  struct seq_window *track = calloc(1, sizeof(*track));

  (void)state;
  track->floats = true;
  assert_int_equal(seq_window_see(track, 70000), SEQ_NEW);
  assert_int_equal(track->base, 70000);
  assert_int_equal(seq_window_see(track, 70000), SEQ_DUPLICATE);
  assert_int_equal(seq_window_see(track, 69998), SEQ_LATE);
  assert_int_equal(seq_window_see(track, 69998), SEQ_DUPLICATE);
  assert_int_equal(seq_window_see(track, 69999), SEQ_LATE);
  assert_int_equal(seq_window_see(track, 70001), SEQ_NEW);
  assert_int_equal(track->next - track->base, 4);
  assert_int_equal(track->duplicates, 2);
  assert_int_equal(track->reordered, 2);
  for (uint64_t s = 70002; s < 70002 + 3 * (uint64_t)SEQ_WINDOW; s++)
    assert_int_equal(seq_window_see(track, s), SEQ_NEW);
  assert_int_equal(track->contiguous, track->next); /* the fast way again */
  assert_int_equal(track->base, 69998);
  free(track);
}

static void one_that_floats_may_begin_near_zero(void **state)
{
  struct seq_window *track = calloc(1, sizeof(*track));

  (void)state;
  track->floats = true;
  assert_int_equal(seq_window_see(track, 3), SEQ_NEW);
  assert_int_equal(seq_window_see(track, 0), SEQ_LATE);
  assert_int_equal(seq_window_see(track, 4), SEQ_NEW);
  assert_int_equal(track->next - track->base, 5);
  free(track);
}

static void a_number_that_no_stream_reaches_changes_nothing(void **state)
{
  static const uint64_t far[] = {UINT64_MAX, UINT64_MAX - 1, (uint64_t)INT64_MAX + 1};

  (void)state;
  for (int floats = 0; floats < 2; floats++) {
    struct seq_window *track = calloc(1, sizeof(*track));
    track->floats = floats;
    for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++)
      assert_int_equal(seq_window_see(track, far[i]), SEQ_DUPLICATE);
    assert_int_equal(track->duplicates, 3);
    assert_int_equal(seq_window_see(track, 0), SEQ_NEW);
    assert_int_equal(seq_window_see(track, 2), SEQ_NEW);
    assert_int_equal(seq_window_see(track, UINT64_MAX), SEQ_DUPLICATE);
    assert_int_equal(seq_window_see(track, 1), SEQ_LATE);
    assert_int_equal(track->next, 3);
    free(track);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_number_that_no_stream_reaches_changes_nothing),
      cmocka_unit_test(one_that_floats_begins_with_the_first_seen),
      cmocka_unit_test(one_that_floats_may_begin_near_zero),
      cmocka_unit_test(in_order_is_new),
      cmocka_unit_test(a_repeat_is_a_duplicate),
      cmocka_unit_test(a_late_one_counts_once),
      cmocka_unit_test(a_gap_wider_than_the_window_is_given_up),
      cmocka_unit_test(random_schedules_agree_with_a_table),
  };
  return cmocka_run_group_tests_name("stream_track", tests, NULL, NULL) ? 1 : 0;
}
