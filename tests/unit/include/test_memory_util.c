/* SPDX-License-Identifier: Apache-2.0 */
/* memory-util.h: what no memory gives, batches, the pattern, queues of the CPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <penstock/memory-util.h>

#include "fake_host.h"

struct pst_memory {
  const struct pst_host *host;
};

static struct pst_memory memory = {&fake_host};

static int reset(void **state)
{
  (void)state;
  fake_log_clear();
  return 0;
}

static void no_memory_has_that(void **state)
{
  const struct pst_alloc_params fits = {
      .length = 1, .alignment = 64, .needs = PST_NEED_PINNED * 2 - 1};
  struct pst_alloc_params params = fits;

  (void)state;
  assert_null(pst_alloc_params_wrong(&params));
#define WRONG(change, words)                                                                       \
  do {                                                                                             \
    params = fits;                                                                                 \
    change;                                                                                        \
    assert_string_equal(pst_alloc_params_wrong(&params), words);                                   \
  } while (0)
  WRONG(params.length = 0, "a region of no bytes");
  WRONG(params.purpose = PST_ALLOC_STAGING + 1, "an unknown purpose");
  WRONG(params.alignment = 96, "an alignment that is not a power of two");
  WRONG(params.needs = PST_NEED_PINNED * 2, "an unknown need");
  WRONG(params.reserved = 1, "an unknown need");
}

static void what_alloc_is_called_with_is_taken_whole_or_refused(void **state)
{
  const struct pst_alloc_params given = {.struct_size = sizeof(given), .length = 9};
  struct pst_region region = {.struct_size = sizeof(region)};
  struct pst_alloc_params params;

  (void)state;
  assert_int_equal(pst_alloc_params_take(&fake_host, &given, &region, &params), 0);
  assert_int_equal(params.length, 9);
  assert_string_equal(params.label, "memory");
  assert_string_equal(fake_log(), "");
  region.struct_size = offsetof(struct pst_region, handle);
  assert_int_equal(pst_alloc_params_take(&fake_host, &given, &region, &params), -EINVAL);
  assert_non_null(strstr(fake_log(),
                         "memory: cannot allocate: the caller asked for a region struct "
                         "too short to hold a handle"));
}

static void an_export_is_of_a_region_s_own_range(void **state)
{
  struct pst_region region = {
      .exports = PST_EXPORT_FD | PST_EXPORT_IPC, .length = 100, .memory = &memory, .handle = state};
  struct pst_export out = {.struct_size = sizeof(out)};

#define EXPORT(kind, offset, length)                                                               \
  pst_export_check(&fake_host, &memory, &region, kind, offset, length, &out)
  assert_int_equal(EXPORT(PST_EXPORT_FD, 0, 100), 0);
  assert_int_equal(EXPORT(PST_EXPORT_IPC, 99, 1), 0);
  assert_int_equal(EXPORT(PST_EXPORT_DMABUF, 0, 100), -EOPNOTSUPP);
  assert_string_equal(fake_log(), "");
  assert_int_equal(EXPORT(PST_EXPORT_FD | PST_EXPORT_IPC, 0, 100), -EINVAL);
  assert_non_null(strstr(fake_log(), "export: 5 is not a kind of export"));
  assert_int_equal(EXPORT(PST_EXPORT_FD, 1, 100), -EINVAL);
  assert_non_null(strstr(fake_log(), "export: 100 bytes from 1 are not in this region of 100"));
  assert_int_equal(EXPORT(PST_EXPORT_FD, 0, 0), -EINVAL);
  assert_int_equal(EXPORT(PST_EXPORT_FD, UINT64_MAX, 2), -EINVAL);
  out.struct_size = offsetof(struct pst_export, handle);
  assert_int_equal(EXPORT(PST_EXPORT_FD, 0, 1), -EINVAL);
  out.struct_size = sizeof(out);
  region.memory = NULL;
  assert_int_equal(EXPORT(PST_EXPORT_FD, 0, 1), -EINVAL);
}

static void rows_are_counted_by_pieces(void **state)
{
  struct pst_copy_row copies[3] = {{.count = UINT32_MAX}, {.count = 1}, {.count = UINT32_MAX}};
  struct pst_payload_row payloads[2] = {{.count = 3}, {.count = 4}};

  (void)state;
  assert_int_equal(pst_copy_rows_count(copies, 0), 0);
  assert_int_equal(pst_copy_rows_count(copies, 3), 2 * (uint64_t)UINT32_MAX + 1);
  copies[1].count = 0;
  assert_int_equal(pst_copy_rows_count(copies, 3), 0);
  copies[1] = (struct pst_copy_row){.count = 1, .reserved = 1};
  assert_int_equal(pst_copy_rows_count(copies, 3), 0);
  assert_int_equal(pst_payload_rows_count(payloads, 2), 7);
  payloads[0].count = 0;
  assert_int_equal(pst_payload_rows_count(payloads, 2), 0);
  payloads[0] = (struct pst_payload_row){.count = 1, .reserved = 1};
  assert_int_equal(pst_payload_rows_count(payloads, 2), 0);
}

/* SplitMix64's published first output of seed 0: here its state is the seed's first step. */
static void pattern_is_that_of_memory_h(void **state)
{
  (void)state;
  assert_true(pst_pattern_first(UINT64_C(0x9e3779b97f4a7c15), 0) == UINT64_C(0xe220a8397b1dcdaf));
  assert_true(pst_pattern_first(0, 1) == pst_pattern_first(PST_PATTERN_SEQUENCE, 0));
  assert_int_equal(pst_pattern_byte(UINT64_C(0x0102030405060708), 0), 8);
  assert_int_equal(pst_pattern_byte(UINT64_C(0x0102030405060708), 7), 1);
  assert_int_equal(pst_pattern_byte(0, 8), 0x15);
  assert_int_equal(pst_pattern_byte(0, 15), 0x9e);
}

static void queue_counts_its_batches(void **state)
{
  const char from[] = "abcdefgh";
  char to[9] = "........";
  struct pst_queue_params params = {.struct_size = sizeof(params), .batches = 1, .pieces = 4};
  const struct pst_copy_row rows[] = {{(uintptr_t)from, (uintptr_t)to, 1, 2, 1, 3, 0},
                                      {(uintptr_t)from, (uintptr_t)(to + 6), 2, 0, 0, 1, 0}};
  struct pst_queue *queue = NULL;
  uint64_t ticket = 0, done = 7;

  (void)state;
  params.pieces = 0;
  assert_int_equal(pst_cpu_queue_open(&memory, &params, &queue), -EINVAL);
  assert_null(queue);
  assert_non_null(strstr(fake_log(), "both must be at least 1"));
  params.pieces = 4;
  params.reserved = 1;
  assert_int_equal(pst_cpu_queue_open(&memory, &params, &queue), -EINVAL);
  params.reserved = 0;
  assert_int_equal(pst_cpu_queue_open(&memory, &params, &queue), 0);
  assert_int_equal(pst_cpu_queue_poll(queue, &done), 0);
  assert_int_equal(done, 0);
  assert_int_equal(pst_cpu_copy_rows(queue, rows, 0, &ticket), -EINVAL);
  assert_int_equal(ticket, 0);
  assert_int_equal(pst_cpu_copy_rows(queue, rows, 2, &ticket), 0);
  assert_int_equal(ticket, 1);
  assert_string_equal(to, "ace...ab");
  assert_int_equal(pst_cpu_copy_rows(queue, rows, 1, &ticket), 0);
  assert_int_equal(ticket, 2);
  assert_int_equal(pst_cpu_queue_poll(queue, &done), 0);
  assert_int_equal(done, 2);
  assert_int_equal(pst_cpu_queue_add((struct pst_cpu_queue *)queue, "sum", 5, &ticket), -EINVAL);
  assert_non_null(strstr(fake_log(), "sum: a batch"));
  pst_cpu_queue_close(queue);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, reset)
  const struct CMUnitTest tests[] = {
      CASE(no_memory_has_that),
      CASE(what_alloc_is_called_with_is_taken_whole_or_refused),
      CASE(an_export_is_of_a_region_s_own_range),
      CASE(rows_are_counted_by_pieces),
      CASE(pattern_is_that_of_memory_h),
      CASE(queue_counts_its_batches),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
