/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and messages at equal distances become one row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/strided.h"

#define PIECES 16

static struct copy_rows copies;
static struct pst_payload_row payloads[PIECES];

static int open_rows(void **state)
{
  (void)state;
  return copy_rows_open(&copies, PIECES) < 0;
}

static int close_rows(void **state)
{
  (void)state;
  copy_rows_close(&copies);
  return 0;
}

static void expect_copy(uint32_t at, uint64_t source, uint64_t destination, uint64_t length,
                        uint64_t count)
{
  assert_int_equal(copies.row[at].source, source);
  assert_int_equal(copies.row[at].destination, destination);
  assert_int_equal(copies.row[at].length, length);
  assert_int_equal(copies.row[at].count, count);
}

static void pieces_at_equal_distances_are_one_row(void **state)
{
  (void)state;
  for (uint64_t i = 0; i < 5; i++)
    copy_rows_add(&copies, 1000 + i * 64, 9000 + i * 256, 60);
  assert_int_equal(copies.count, 1);
  expect_copy(0, 1000, 9000, 60, 5);
  assert_int_equal(copies.row[0].source_stride, 64);
  assert_int_equal(copies.row[0].destination_stride, 256);
}

static void a_piece_elsewhere_begins_a_row(void **state)
{
  (void)state;
  copy_rows_add(&copies, 1000, 9000, 60);
  copy_rows_add(&copies, 1064, 9256, 60);
  copy_rows_add(&copies, 1128, 9500, 60); /* another distance */
  copy_rows_add(&copies, 1192, 9744, 61); /* another length */
  copy_rows_add(&copies, 5000, 5000, 0);  /* none */
  assert_int_equal(copies.count, 3);
  expect_copy(0, 1000, 9000, 60, 2);
  expect_copy(1, 1128, 9500, 60, 1);
  expect_copy(2, 1192, 9744, 61, 1);
}

static void backwards_is_a_distance_too(void **state)
{
  (void)state;
  for (uint64_t i = 0; i < 3; i++)
    copy_rows_add(&copies, 1000 - i * 64, 9000 + i * 64, 64);
  assert_int_equal(copies.count, 1);
  assert_int_equal(copies.row[0].source_stride, (uint64_t)-64);
}

/* The same rows, however many views are added at a time. */
static void views_make_the_rows_that_pieces_make(void **state)
{
  struct pst_view views[8];

  (void)state;
  for (uint32_t i = 0; i < 8; i++)
    views[i] = (struct pst_view){.address = 1000 + i * 64 + (i >= 5 ? 7 : 0), .length = 60};
  copy_rows_add_views(&copies, views, 3, 9000, 256);
  copy_rows_add_views(&copies, views + 3, 5, 9000 + 3 * 256, 256);
  assert_int_equal(copies.count, 2);
  expect_copy(0, 1000, 9000, 60, 5);
  expect_copy(1, 1000 + 5 * 64 + 7, 9000 + 5 * 256, 60, 3);
}

static void messages_in_order_are_one_row(void **state)
{
  struct pst_view views[6];

  (void)state;
  for (uint32_t i = 0; i < 6; i++)
    views[i] = (struct pst_view){
        .address = 1000 + i * 64, .length = 60, .sequence = 40 + i + (i >= 4 ? 1 : 0)};
  assert_int_equal(payload_rows_of(payloads, views, 6), 2); /* a number is missing */
  assert_int_equal(payloads[0].count, 4);
  assert_int_equal(payloads[0].stride, 64);
  assert_int_equal(payloads[0].sequence, 40);
  assert_int_equal(payloads[1].count, 2);
  assert_int_equal(payloads[1].sequence, 45);
}

static void messages_one_by_one_make_the_same_rows(void **state)
{
  struct pst_payload_row rows[4];
  uint32_t count = 0;

  (void)state;
  count = payload_row_add(rows, count, 1000, 60, 7);
  count = payload_row_add(rows, count, 1064, 60, 8);
  count = payload_row_add(rows, count, 1128, 60, 9);
  count = payload_row_add(rows, count, 1192, 60, 11);
  assert_int_equal(count, 2);
  assert_int_equal(rows[0].count, 3);
  assert_int_equal(rows[0].stride, 64);
  assert_int_equal(rows[1].sequence, 11);
}

#define ROWS_CASE(name) cmocka_unit_test_setup_teardown(name, open_rows, close_rows)

int main(void)
{
  const struct CMUnitTest tests[] = {
      ROWS_CASE(pieces_at_equal_distances_are_one_row),
      ROWS_CASE(a_piece_elsewhere_begins_a_row),
      ROWS_CASE(backwards_is_a_distance_too),
      ROWS_CASE(views_make_the_rows_that_pieces_make),
      ROWS_CASE(messages_in_order_are_one_row),
      ROWS_CASE(messages_one_by_one_make_the_same_rows),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
