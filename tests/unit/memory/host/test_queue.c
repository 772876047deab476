/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of memory/host/queue.c. */
#include "fixture.h"

#include <errno.h>

#define LENGTH 65536u

static struct pst_memory *memory;
static struct pst_region region;
static struct pst_queue *queue;

static int setup(void **state)
{
  (void)state;
  struct pst_queue_params params = {sizeof(params), 2, 4, 0};
  memory = open_memory(OPTIONS({"backing", "auto"}));
  if (allocate(memory, LENGTH, 0, 0, &region) != 0)
    return -1;
  return memory_ops()->queue_open(memory, &params, &queue);
}

static int teardown(void **state)
{
  (void)state;
  memory_ops()->queue_close(queue);
  memory_ops()->free_region(memory, &region);
  memory_ops()->close(memory);
  return 0;
}

static void test_a_batch_never_waits_for_a_poll(void **state)
{
  (void)state;
  struct pst_payload_row payload = {region.address, 100, 0, 0, 1, 0};
  uint64_t ticket = 0, done = 9;
  assert_int_equal(memory_ops()->queue_poll(queue, &done), 0);
  assert_int_equal(done, 0);
  for (uint64_t i = 1; i <= 10; i++) {
    assert_int_equal(memory_ops()->fill_rows(queue, 1, &payload, 1, &ticket), 0);
    assert_int_equal(ticket, i);
  }
  assert_int_equal(memory_ops()->queue_poll(queue, &done), 0);
  assert_int_equal(done, 10);
}

static void test_results_surface_in_poll(void **state)
{
  (void)state;
  struct pst_payload_row payload = {region.address, 100, 5, 0, 1, 0};
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  uint64_t ticket, done;
  memory_ops()->fill_rows(queue, 1, &payload, 1, &ticket);
  memory_ops()->verify_rows(queue, 1, &payload, 1, &ticket);
  memory_ops()->verify_result(queue, &result);
  assert_int_equal(result.checked, 0);
  memory_ops()->queue_poll(queue, &done);
  memory_ops()->verify_result(queue, &result);
  assert_int_equal(result.checked, 1);
  assert_int_equal(result.corrupted, 0);
}

static void test_the_first_corruption_is_kept(void **state)
{
  (void)state;
  uint8_t *bytes = region.host;
  struct pst_payload_row payloads[3] = {
      {region.address, 1462, 10, 0, 1, 0},
      {region.address + 1500, 1462, 11, 0, 1, 0},
      {region.address + 3000, 1462, 12, 0, 1, 0},
  };
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  uint64_t ticket, done;
  memory_ops()->fill_rows(queue, 77, payloads, 3, &ticket);
  bytes[1500 + 1461] ^= 0x10;
  bytes[3000] ^= 0x01;
  memory_ops()->verify_rows(queue, 77, payloads, 3, &ticket);
  memory_ops()->queue_poll(queue, &done);
  memory_ops()->verify_result(queue, &result);
  assert_int_equal(result.checked, 3);
  assert_int_equal(result.corrupted, 2);
  assert_int_equal(result.sequence, 11);
  assert_int_equal(result.offset, 1461);
  assert_int_equal(result.found, bytes[1500 + 1461]);
  assert_int_equal(result.expected ^ result.found, 0x10);
}

static void test_short_result_structs_are_not_overrun(void **state)
{
  (void)state;
  struct {
    struct pst_verify_result result;
    uint64_t after;
  } out = {{.struct_size = 16}, 0};
  struct pst_payload_row payload = {region.address, 0, 5, 0, 1, 0};
  uint64_t ticket, done;
  out.result.corrupted = 1234;
  memory_ops()->verify_rows(queue, 1, &payload, 1, &ticket);
  memory_ops()->queue_poll(queue, &done);
  assert_int_equal(memory_ops()->verify_result(queue, &out.result), 0);
  assert_int_equal(out.result.checked, 1);
  assert_int_equal(out.result.corrupted, 1234);
  assert_int_equal(out.result.struct_size, 16);
  /* a longer struct, of a newer host, keeps what this plugin does not know */
  out.result.struct_size = sizeof(out);
  out.after = 4321;
  assert_int_equal(memory_ops()->verify_result(queue, &out.result), 0);
  assert_int_equal(out.result.corrupted, 0);
  assert_int_equal(out.after, 4321);
}

static void test_reserved_fields_are_refused(void **state)
{
  (void)state;
  struct pst_payload_row payload = {region.address, 8, 5, 0, 1, 1};
  struct pst_copy_row piece = {region.address, region.address + 64, 8, 0, 0, 1, 1};
  uint64_t ticket = 42;
  memset(region.host, 0, 128);
  assert_int_equal(memory_ops()->fill_rows(queue, 1, &payload, 1, &ticket), -EINVAL);
  assert_int_equal(memory_ops()->verify_rows(queue, 1, &payload, 1, &ticket), -EINVAL);
  assert_int_equal(memory_ops()->copy_rows(queue, &piece, 1, &ticket), -EINVAL);
  assert_int_equal(ticket, 42);
  assert_logged("reserved");
}

static void test_fences_are_null_and_passed(void **state)
{
  (void)state;
  int foreign;
  struct pst_fence *fence = (struct pst_fence *)&foreign;
  assert_int_equal(memory_ops()->fence_record(memory, queue, NULL, &fence), 0);
  assert_null(fence);
  assert_int_equal(memory_ops()->fence_query(memory, NULL), 0);
  assert_int_equal(memory_ops()->fence_wait(memory, NULL, queue, NULL), 0);
  assert_int_equal(memory_ops()->fence_wait(memory, NULL, NULL, NULL), 0);
  memory_ops()->fence_release(memory, NULL);
  fence = (struct pst_fence *)&foreign;
  assert_int_equal(memory_ops()->fence_record(memory, NULL, &foreign, &fence), -EINVAL);
  assert_ptr_equal(fence, &foreign);
  assert_int_equal(memory_ops()->fence_query(memory, fence), -EINVAL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
      CASE(test_a_batch_never_waits_for_a_poll), CASE(test_results_surface_in_poll),
      CASE(test_the_first_corruption_is_kept),   CASE(test_short_result_structs_are_not_overrun),
      CASE(test_reserved_fields_are_refused),    CASE(test_fences_are_null_and_passed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
