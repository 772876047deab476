/* SPDX-License-Identifier: Apache-2.0 */
/* How a MOVE is cut: segments cover it once, in order, and lie within one piece each. */
#include "serve/segments.h"
#include "support.h"

static void check(uint64_t length, uint32_t pieces)
{
  struct move_plan plan;
  uint64_t offset = 0, bytes = 0, at = 0;

  serve_move_plan(length, pieces, &plan);
  assert_true(plan.piece * pieces >= length);
  for (uint64_t i = 0; i < plan.candidates; i++) {
    if (!serve_move_segment(&plan, i, &offset, &bytes))
      continue;
    assert_int_equal(offset, at);
    assert_true(bytes > 0 && bytes <= MOVE_SEGMENT);
    assert_int_equal(offset / plan.piece, (offset + bytes - 1) / plan.piece);
    at += bytes;
  }
  assert_int_equal(at, length);
  assert_false(serve_move_segment(&plan, plan.candidates, &offset, &bytes));
}

static void test_segments_cover_all(void **state)
{
  static const uint64_t lengths[] = {
      1, 2, 7, 4096, 100003, 1 << 20, (1 << 20) + 1, (3 << 20) + 5, 64 << 20};

  (void)state;
  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    for (uint32_t pieces = 1; pieces <= MOVE_PIECES_MAX && pieces <= lengths[i]; pieces++)
      check(lengths[i], pieces);
  }
}

/* No two segments of two iterations near each other have the same. */
static void test_patterns_differ(void **state)
{
  struct move_plan plan;

  (void)state;
  serve_move_plan((3 << 20) + 5, 3, &plan);
  for (uint64_t i = 0; i < 4 * plan.candidates; i++)
    for (uint64_t k = 0; k < i; k++)
      assert_int_not_equal(
          serve_move_pattern(&plan, 1000 + i / plan.candidates, i % plan.candidates),
          serve_move_pattern(&plan, 1000 + k / plan.candidates, k % plan.candidates));
  /* The library counts blocks above the 40th bit. */
  assert_true(serve_move_pattern(&plan, UINT64_MAX, 1) < UINT64_C(1) << 40);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_segments_cover_all),
      cmocka_unit_test(test_patterns_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
