/* SPDX-License-Identifier: Apache-2.0 */
/* How batches of copies become copies of the driver's; and GPUs by the names people have
 * for them. No driver is needed. */
#include "fake_page.h"
#include "fixture.h"

#include <stdlib.h>

#include <block.h>
#include <copy_plan.h>
#include <device.h>

#define PITCH_MAX (UINT64_C(1) << 31)

#define PIECES_MAX 200u

static struct {
  uint32_t rows;
  struct pst_copy_row row[PIECES_MAX];
} plan;

static void make(const struct pst_copy_row *pieces, uint32_t n)
{
  assert_true(n <= PIECES_MAX);
  plan.rows = cuda_plan_make(pieces, n, PITCH_MAX, plan.row);
}

static bool gathers(void)
{
  return cuda_rows_gather(plan.row, plan.rows, PITCH_MAX);
}

static uint64_t bytes(void)
{
  uint64_t sum = 0;
  for (uint32_t i = 0; i < plan.rows; i++)
    sum += plan.row[i].count * plan.row[i].length;
  return sum;
}

static void test_contiguous_pieces_are_one_copy(void **state)
{
  (void)state;
  const struct pst_copy_row pieces[] = {{1000, 90000, 100, 0, 0, 1, 0},
                                        {1100, 90100, 7, 0, 0, 1, 0},
                                        {1107, 90107, 0, 0, 0, 1, 0},
                                        {1107, 90107, 900, 0, 0, 1, 0}};
  make(pieces, 4);
  assert_int_equal(plan.rows, 1);
  assert_int_equal(plan.row[0].count, 1);
  assert_int_equal(plan.row[0].length, 1007);
  assert_int_equal(bytes(), 1007);
  assert_false(gathers());
}

static void test_equal_strides_are_one_copy(void **state)
{
  (void)state;
  struct pst_copy_row pieces[100];
  for (uint64_t i = 0; i < 100; i++)
    pieces[i] = (struct pst_copy_row){5000 + 1472 * i, 700000 + 1462 * i, 1462, 0, 0, 1, 0};
  make(pieces, 100);
  assert_int_equal(plan.rows, 1);
  assert_int_equal(plan.row[0].count, 100);
  assert_int_equal(plan.row[0].source_stride, 1472);
  assert_int_equal(plan.row[0].destination_stride, 1462);
  assert_int_equal(bytes(), 146200);
  assert_false(gathers());
}

static void test_a_ring_that_wraps_is_two(void **state)
{
  (void)state;
  struct pst_copy_row pieces[200];
  for (uint64_t i = 0; i < 200; i++)
    pieces[i] =
        (struct pst_copy_row){5000 + 1472 * ((i + 60) % 128), 900000 + 1472 * i, 1462, 0, 0, 1, 0};
  make(pieces, 200);
  assert_int_equal(plan.rows, 3); /* 68, 128, and 4 */
  assert_int_equal(plan.row[0].count, 68);
  assert_int_equal(plan.row[1].count, 128);
  assert_int_equal(plan.row[2].count, 4);
}

static void test_backwards_is_no_stride(void **state)
{
  (void)state;
  const struct pst_copy_row pieces[] = {{9000, 90000, 100, 0, 0, 1, 0},
                                        {8000, 91000, 100, 0, 0, 1, 0}};
  make(pieces, 2);
  assert_int_equal(plan.rows, 2);
  const struct pst_copy_row close[] = {{9000, 90000, 100, 0, 0, 1, 0},
                                       {9050, 91000, 100, 0, 0, 1, 0}};
  make(close, 2);
  assert_int_equal(plan.rows, 2); /* rows that overlap */
  const struct pst_copy_row far[] = {{9000, 90000, 100, 0, 0, 1, 0},
                                     {9000 + 2 * PITCH_MAX, 91000, 100, 0, 0, 1, 0}};
  make(far, 2);
  assert_int_equal(plan.rows, 2);
}

/* A row ends with the piece before one that goes on otherwise, wherever it is. */
static void test_a_row_ends_where_a_piece_differs(void **state)
{
  (void)state;
  enum { PIECES = 23 };
  struct pst_copy_row pieces[PIECES];
  for (uint32_t wrong = 2; wrong < PIECES; wrong++)
    for (int word = 0; word < 3; word++) {
      for (uint64_t i = 0; i < PIECES; i++)
        pieces[i] = (struct pst_copy_row){5000 + 1472 * i, 900000 + 1536 * i, 1462, 0, 0, 1, 0};
      uint64_t *words[] = {&pieces[wrong].source, &pieces[wrong].destination,
                           &pieces[wrong].length};
      *words[word] += 3;
      make(pieces, PIECES);
      assert_int_equal(plan.row[0].count, wrong);
      assert_int_equal(bytes(), 1462 * PIECES + (word == 2 ? 3 : 0));
    }
}

static void test_what_is_small_and_scattered_is_gathered(void **state)
{
  (void)state;
  enum { SCATTERED = 74 };
  struct pst_copy_row pieces[SCATTERED];
  for (uint64_t i = 0; i < SCATTERED; i++)
    pieces[i] =
        (struct pst_copy_row){5000 + 4096 * (i * 7 % 74), 900000 + 4096 * i, 1400 + i, 0, 0, 1, 0};
  make(pieces, 2);
  assert_true(gathers());
  make(pieces, SCATTERED);
  assert_int_equal(plan.rows, SCATTERED);
  assert_true(gathers());
  pieces[0].length = pieces[1].length = 1 << 20;
  make(pieces, 2);
  assert_false(gathers());
}

/* Whatever the pieces: what the runs copy is what the pieces do, in their order. */
static void test_runs_are_the_pieces(void **state)
{
  (void)state;
  enum { SIZE = 4096 };
  uint64_t seed = 88172645463325252u;
  for (int round = 0; round < 2000; round++) {
    uint8_t from[SIZE], expected[SIZE] = {0}, found[SIZE] = {0};
    struct pst_copy_row pieces[40];
    uint64_t source = 0, destination = 0;
    uint32_t n = 0;
    for (int i = 0; i < SIZE; i++)
      from[i] = (uint8_t)(i * 31 + round);
    while (n < 40 && source < SIZE - 64 && destination < SIZE - 64) {
      seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
      uint64_t length = seed % 4 ? 8 : seed % 13;
      uint32_t count = (seed >> 24) % 4 ? 1 : 2 + (seed >> 26) % 2;
      if (count * (length + 8) > 64)
        count = 1;
      pieces[n++] =
          (struct pst_copy_row){source, destination, length, length + 8, length, count, 0};
      source += count * (length + 8) - 8 + (seed >> 8) % 3 * 8;
      destination += count * length + (seed >> 16) % 2 * 8;
    }
    for (uint32_t i = 0; i < n; i++)
      for (uint64_t row = 0; row < pieces[i].count; row++)
        memcpy(expected + pieces[i].destination + row * pieces[i].destination_stride,
               from + pieces[i].source + row * pieces[i].source_stride, pieces[i].length);
    make(pieces, n);
    for (uint32_t i = 0; i < plan.rows; i++)
      for (uint64_t row = 0; row < plan.row[i].count; row++)
        memcpy(found + plan.row[i].destination + row * plan.row[i].destination_stride,
               from + plan.row[i].source + row * plan.row[i].source_stride, plan.row[i].length);
    assert_memory_equal(found, expected, SIZE);
  }
}

/* ---- Names ------------------------------------------------------------------------ */

static const struct cuda_place place = {.uuid = "GPU-5f2a1b3c-0d4e-4f5a-9b6c-7d8e9fa0b1c2",
                                        .pci = "0000:b7:00.0"};

static bool names(const char *text, int index)
{
  struct cuda_device_option wanted;
  return cuda_device_option_parse(text, &wanted) && cuda_device_option_is(&wanted, index, &place);
}

static void test_names_of_a_gpu(void **state)
{
  (void)state;
  static const char *const all[] = {
      "3",
      "cuda:3",
      "GPU 3",
      "gpu:3",
      "GPU-5f2a1b3c-0d4e-4f5a-9b6c-7d8e9fa0b1c2",
      "gpu-5F2A1B3C-0D4E-4F5A-9B6C-7D8E9FA0B1C2",
      "5f2a1b3c-0d4e-4f5a-9b6c-7d8e9fa0b1c2",
      "GPU-5f2a",
      "b7:00.0",
      "B7:00.0",
      "b7:0",
      "b7:00.1",
      "b7:00",
      "0000:b7:00.0",
      "00000000:B7:00.0",
      "0000:b7:00",
      "pci:0000:b7:00.0",
      "/sys/bus/pci/devices/0000:b7:00.0",
  };
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
    if (!names(all[i], 3))
      fail_msg("%s does not name it", all[i]);
}

static void test_names_of_another(void **state)
{
  (void)state;
  static const char *const all[] = {"2",       "cuda:0",       "GPU-5f2b",        "b8:00.0",
                                    "b7:01.0", "0001:b7:00.0", "00010000:b7:00.0"};
  struct cuda_device_option wanted;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    assert_true(cuda_device_option_parse(all[i], &wanted));
    assert_false(cuda_device_option_is(&wanted, 3, &place));
  }
  assert_true(names("", 0)); /* the first */
  assert_false(names("", 3));
}

static void test_what_is_no_name(void **state)
{
  (void)state;
  static const char *const all[] = {"gpu",         "GPU-",     "GPU-5f2a1b3c0d4e",
                                    "GPU-xyz",     "b7:00.8",  "b7:00.0.0",
                                    "b7:",         ":00.0",    "b7:20.0",
                                    "1b7:00.0",    "b7:00.0 ", "0:0:b7:00.0",
                                    "123456",      "-1",       "0x0",
                                    "eth0",        "MIG-5f2a", "b7:00.",
                                    "5f2a1b3c-0d", "cuda:",    "000000000:b7:00.0"};
  struct cuda_device_option wanted;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
    if (cuda_device_option_parse(all[i], &wanted))
      fail_msg("\"%s\" is taken for a name", all[i]);
}

/* A NIC's registration of host memory rounds to the machine's pages. */
static void test_host_memory_has_pages_of_the_machine(void **state)
{
  struct pst_memory memory = {.uuid = "GPU-0"};
  struct cuda_block block = {.kind = CUDA_BLOCK_HOST, .length = FAKE_PAGE};
  struct pst_region region = {.struct_size = sizeof(region)};

  (void)state;
  cuda_region_fill(&memory, &block, &region);
  assert_int_equal(region.page_size, FAKE_PAGE);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_contiguous_pieces_are_one_copy),
      cmocka_unit_test(test_equal_strides_are_one_copy),
      cmocka_unit_test(test_a_ring_that_wraps_is_two),
      cmocka_unit_test(test_backwards_is_no_stride),
      cmocka_unit_test(test_a_row_ends_where_a_piece_differs),
      cmocka_unit_test(test_what_is_small_and_scattered_is_gathered),
      cmocka_unit_test(test_runs_are_the_pieces),
      cmocka_unit_test(test_host_memory_has_pages_of_the_machine),
      cmocka_unit_test(test_names_of_a_gpu),
      cmocka_unit_test(test_names_of_another),
      cmocka_unit_test(test_what_is_no_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
