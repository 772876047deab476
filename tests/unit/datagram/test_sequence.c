/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/datagram/sequence.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "flow.h"

static struct dg_dropped exactly(uint64_t messages)
{
  return (struct dg_dropped){messages, messages};
}

static void take(struct dg_sequence *state, uint32_t raw, uint64_t expected)
{
  uint64_t sequence = 0;

  assert_int_equal(dg_sequence_place(state, raw & state->mask, exactly(0), &sequence), DG_AHEAD);
  assert_int_equal(sequence, expected);
  dg_sequence_take(state, raw & state->mask, sequence);
}

/* Steps of any size up to half the space, across many wraps. */
static void check_wraps(uint32_t bits, uint64_t step, uint32_t first)
{
  struct dg_sequence state;

  dg_sequence_begin(&state, bits, first, 0, 0, 100);
  for (uint64_t i = 0; i < 200000; i++)
    take(&state, (uint32_t)(first + i * step), i * step);
}

static void numbers_wrap_and_go_on(void **state)
{
  (void)state;
  check_wraps(16, 1, 0xfff0);
  check_wraps(16, 32767, 5);
  check_wraps(32, 1, 0xffffff00);
  check_wraps(32, 0x7fffffff, 7);
}

static void late_ones_get_their_own_number_across_a_wrap(void **state)
{
  struct dg_sequence sequence;
  uint64_t number;

  (void)state;
  dg_sequence_begin(&sequence, 16, 0xfffe, 0, 0, 100);
  take(&sequence, 0xfffe, 0);
  take(&sequence, 3, 5);
  for (uint32_t i = 1; i < 5; i++) {
    assert_int_equal(dg_sequence_place(&sequence, (0xfffe + i) & 0xffff, exactly(0), &number),
                     DG_LATE);
    assert_int_equal(number, i);
  }
}

static void what_never_was_sent_is_too_late(void **state)
{
  struct dg_sequence sequence;
  uint64_t number;

  (void)state;
  dg_sequence_begin(&sequence, 16, 10, 0, 0, 100);
  take(&sequence, 10, 0);
  assert_int_equal(dg_sequence_place(&sequence, 10, exactly(0), &number), DG_LATE);
  assert_int_equal(dg_sequence_place(&sequence, 9, exactly(0), &number), DG_TOO_LATE);
}

static void reordering_has_a_bound(void **state)
{
  struct dg_sequence sequence;
  uint64_t number;

  (void)state;
  dg_sequence_begin(&sequence, 32, 0, 0, 0, 100);
  take(&sequence, 1000, 1000);
  assert_int_equal(dg_sequence_place(&sequence, 901, exactly(0), &number), DG_LATE);
  assert_int_equal(dg_sequence_place(&sequence, 900, exactly(0), &number), DG_TOO_LATE);
}

static void known_drops_tell_how_often_it_wrapped(void **state)
{
  struct dg_sequence sequence;

  (void)state;
  for (uint64_t lost = 0; lost < 500000; lost += 777) {
    uint64_t number;
    dg_sequence_begin(&sequence, 16, 65530, 0, 0, 100);
    uint32_t raw = (uint32_t)(65530 + lost) & 0xffff;
    if (lost > 32767) {
      /* The count may be off by a little either way. */
      assert_int_equal(dg_sequence_place(&sequence, raw, exactly(lost - 100), &number), DG_AHEAD);
      if (lost - 100 > 32768)
        assert_int_equal(number, lost);
      assert_int_equal(dg_sequence_place(&sequence, raw, exactly(lost + 100), &number), DG_AHEAD);
      assert_int_equal(number, lost);
    } else {
      assert_int_equal(dg_sequence_place(&sequence, raw, exactly(lost), &number), DG_AHEAD);
      assert_int_equal(number, lost);
    }
  }
}

/* 67 buffers were dropped, of up to 1000 messages each. */
static void buffers_of_unknown_size_add_no_turn(void **state)
{
  const struct dg_dropped buffers = {67, 67000};
  struct dg_sequence sequence;
  uint64_t number;

  (void)state;
  for (uint32_t lost = 67; lost < 65000; lost += 31) {
    dg_sequence_begin(&sequence, 16, 65530, 0, 0, 100);
    assert_int_equal(dg_sequence_place(&sequence, (65530 + lost) & 0xffff, buffers, &number),
                     DG_AHEAD);
    assert_int_equal(number, lost);
  }
}

/* Against appendix A.8 as it stands there, in ticks of a nanosecond. */
static void jitter_is_appendix_a8s(void **state)
{
  struct dg_jitter jitter = {.clock_rate = 1000000};
  uint32_t seed = 3;
  uint64_t scaled = 0;
  int64_t before = 0;

  (void)state;
  for (uint32_t i = 0; i < 10000; i++) {
    seed = seed * 1103515245u + 12345;
    uint64_t arrival = UINT64_C(1000000000) + i * UINT64_C(1000000) + (seed >> 16) % 300000;
    int64_t transit = (int64_t)arrival - (int64_t)i * 1000000;
    int64_t d = transit - before;
    before = transit;
    if (i)
      scaled += (uint64_t)(d < 0 ? -d : d) - ((scaled + 8) >> 4);
    dg_jitter_see(&jitter, UINT32_MAX - 500 + i * 1000, arrival); /* the timestamp wraps */
    assert_int_equal(dg_jitter_ns(&jitter), scaled >> 4);
  }
  assert_true(dg_jitter_ns(&jitter) > 15000 && dg_jitter_ns(&jitter) < 30000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_wrap_and_go_on),
      cmocka_unit_test(late_ones_get_their_own_number_across_a_wrap),
      cmocka_unit_test(what_never_was_sent_is_too_late),
      cmocka_unit_test(reordering_has_a_bound),
      cmocka_unit_test(known_drops_tell_how_often_it_wrapped),
      cmocka_unit_test(buffers_of_unknown_size_add_no_turn),
      cmocka_unit_test(jitter_is_appendix_a8s),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
