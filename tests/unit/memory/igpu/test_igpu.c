/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of igpu on the fake driver, with one address for CPU and GPU, or two (`apart`). */
#include "cuda_fixture.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/page.h>

static bool is_apart(void)
{
  return strstr(getenv("FAKE_CUDA"), "apart");
}

static struct pst_region take_for(uint32_t needs)
{
  struct pst_region region = {.struct_size = sizeof(region)};
  const struct pst_alloc_params params = {
      .struct_size = sizeof(params), .length = LENGTH, .needs = needs, .label = "test"};
  assert_int_equal(memory_ops()->alloc(memory, &params, &region), 0);
  assert_int_equal(region.kind, PST_MEMORY_MAPPED);
  assert_non_null(region.host);
  assert_int_equal((uintptr_t)region.host % pst_page_size(), 0);
  assert_int_equal(region.page_size, pst_page_size());
  assert_memory_equal(region.device, "GPU-", 4);
  assert_true(region.flags & PST_REGION_PINNED);
  return region;
}

/* The GPU reads the bytes that the CPU writes, and the other way round; nothing is copied. */
static void check_both_sides(const struct pst_region *region, const struct pst_region *same)
{
  const struct pst_payload_row rows[] = {{.address = region->address + 100,
                                          .length = 1462,
                                          .sequence = 7,
                                          .stride = 1500,
                                          .count = 40}};
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  uint64_t ticket;
  assert_int_equal(memory_ops()->fill_rows(queue, 5, rows, 1, &ticket), 0);
  finish(queue, ticket);
  uint8_t *byte = (uint8_t *)same->host + 100 + 3 * 1500 + 9;
  assert_int_equal(*byte, pst_pattern_byte(pst_pattern_first(5, 10), 9));
  *byte ^= 1;
  assert_int_equal(memory_ops()->verify_rows(queue, 5, rows, 1, &ticket), 0);
  finish(queue, ticket);
  assert_int_equal(memory_ops()->verify_result(queue, &result), 0);
  assert_int_equal(result.checked, 40);
  assert_int_equal(result.corrupted, 1);
  assert_int_equal(result.sequence, 10);
  assert_int_equal(result.offset, 9);
}

static void test_memory_is_mapped(void **state)
{
  (void)state;
  struct pst_region region = take_for(0);
  assert_int_equal(region.address, (uintptr_t)region.host);
  assert_int_equal(region.exports, 0);
  assert_string_equal(region.backing, "cuMemHostAlloc");
  check_both_sides(&region, &region);
  memory_ops()->free_region(memory, &region);
}

/* With a descriptor it is a registered memfd, which another process maps. */
static void test_memory_with_a_descriptor(void **state)
{
  (void)state;
  struct pst_region region = take_for(PST_NEED_EXPORT_FD), there = {.struct_size = sizeof(there)};
  struct pst_export out = {.struct_size = sizeof(out)};
  assert_int_equal(region.exports, PST_EXPORT_FD);
  assert_int_equal(region.address == (uintptr_t)region.host, !is_apart());
  assert_int_equal(
      memory_ops()->export_region(memory, &region, PST_EXPORT_FD, 0, region.length, &out), 0);
  assert_string_equal(out.device, region.device);
  assert_int_equal(memory_ops()->import_region(memory, &out, &there), 0);
  assert_int_equal(there.kind, PST_MEMORY_MAPPED);
  assert_string_equal(there.device, region.device);
  assert_ptr_not_equal(there.host, region.host);
  check_both_sides(&there, &region);
  memory_ops()->free_region(memory, &there);
  close(out.fd);
  memory_ops()->free_region(memory, &region);
}

static void test_write_combined_memory(void **state)
{
  (void)state;
  struct pst_memory *cached = memory;
  struct pst_queue *before = queue;
  memory = open_cuda(OPTIONS({"cache", "write_combined"}));
  queue = queue_new();
  struct pst_region region = take_for(PST_NEED_EXPORT_FD);
  assert_int_equal(region.exports, 0); /* a descriptor is wanted, not promised */
  assert_string_equal(region.backing, "cuMemHostAlloc, write-combined");
  assert_int_equal(region.address == (uintptr_t)region.host, !is_apart());
  check_both_sides(&region, &region);
  memory_ops()->free_region(memory, &region);
  memory_ops()->queue_close(queue);
  memory_ops()->close(memory);
  memory = cached;
  queue = before;
}

/* Rows from memory that the host has lent, registered, to where the GPU reads them. */
static void test_copies_from_registered_memory(void **state)
{
  (void)state;
  const uint64_t page = pst_page_size();
  uint8_t *at = aligned_alloc(page, LENGTH);
  assert_non_null(at);
  for (uint64_t i = 0; i < LENGTH; i++)
    at[i] = (uint8_t)(i * 7 + i / 253);
  assert_int_equal(memory_ops()->host_register(memory, at, LENGTH), 0);
  const struct pst_copy_row row = {.source = (uintptr_t)at + 5,
                                   .destination = far.address + 9,
                                   .length = 1462,
                                   .source_stride = 2000,
                                   .destination_stride = 1500,
                                   .count = 300};
  const struct pst_copy_row scattered[] = {
      {.source = (uintptr_t)at + 3, .destination = far.address + 500009, .length = 99, .count = 1},
      {.source = (uintptr_t)at + 700,
       .destination = far.address + 500301,
       .length = 99,
       .count = 1}};
  finish(queue, copy(queue, &row, 1));
  finish(queue, copy(queue, scattered, 2));
  for (uint64_t i = 0; i < 300; i++)
    assert_memory_equal((uint8_t *)far.host + 9 + i * 1500, at + 5 + i * 2000, 1462);
  assert_memory_equal((uint8_t *)far.host + 500009, at + 3, 99);
  assert_memory_equal((uint8_t *)far.host + 500301, at + 700, 99);
  memory_ops()->host_unregister(memory, at, LENGTH);
  free(at);
}

/* Later work of the queue begins when the word, of `far`, is 1. */
static void hold(struct pst_queue *on, uint32_t *word)
{
  cuda_status (*wait_value)(cuda_stream, cuda_pointer, uint32_t, unsigned int) = NULL;
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  assert_non_null(library);
  void *symbol = dlsym(library, "cuStreamWaitValue32_v2");
  memcpy(&wait_value, &symbol, sizeof(symbol));
  assert_non_null(wait_value);
  *word = 0;
  cuda_enter(memory);
  uint64_t offset = (uint64_t)((uint8_t *)word - (uint8_t *)far.host);
  assert_int_equal(wait_value(on->stream, far.address + offset, 1, 0), CUDA_SUCCESS);
  cuda_leave(memory);
  dlclose(library);
}

/* A kernel that runs before the fence is passed sees old bytes; one that waits sees the new ones,
 * as does one that is submitted once the fence has passed. */
static void test_what_runs_before_its_fence_sees_old_bytes(void **state)
{
  (void)state;
  const struct pst_payload_row first = {
      .address = far.address, .length = 1462, .sequence = 1, .count = 1};
  struct pst_queue *early = queue_new(), *late = queue_new();
  struct pst_verify_result seen = {.struct_size = sizeof(seen)};
  uint32_t *word = (uint32_t *)((uint8_t *)far.host + LENGTH - sizeof(*word));
  struct pst_fence *fence = NULL;
  uint64_t ticket, before, behind;

  memset(far.host, 0, 1462);
  hold(queue, word);
  assert_int_equal(memory_ops()->fill_rows(queue, 3, &first, 1, &ticket), 0);
  assert_int_equal(memory_ops()->fence_record(memory, queue, NULL, &fence), 0);
  assert_int_equal(memory_ops()->fence_query(memory, fence), -EAGAIN);

  assert_int_equal(memory_ops()->fence_wait(memory, fence, late, NULL), 0);
  assert_int_equal(memory_ops()->verify_rows(late, 3, &first, 1, &behind), 0);
  assert_int_equal(memory_ops()->verify_rows(early, 3, &first, 1, &before), 0);
  finish(early, before);
  assert_int_equal(memory_ops()->fence_query(memory, fence), -EAGAIN);
  assert_int_equal(memory_ops()->verify_result(early, &seen), 0);
  assert_int_equal(seen.corrupted, 1);
  assert_int_equal(seen.found, 0);

  __atomic_store_n(word, 1, __ATOMIC_RELEASE);
  finish(late, behind);
  assert_int_equal(memory_ops()->fence_query(memory, fence), 0);
  assert_int_equal(memory_ops()->verify_result(late, &seen), 0);
  assert_int_equal(seen.corrupted, 0);
  assert_int_equal(memory_ops()->verify_rows(early, 3, &first, 1, &before), 0);
  finish(early, before);
  assert_int_equal(memory_ops()->verify_result(early, &seen), 0);
  assert_int_equal(seen.checked, 2);
  assert_int_equal(seen.corrupted, 1);
  finish(queue, ticket);
  memory_ops()->fence_release(memory, fence);
  memory_ops()->queue_close(early);
  memory_ops()->queue_close(late);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_memory_is_mapped),
      CASE(test_memory_with_a_descriptor),
      CASE(test_write_combined_memory),
      CASE(test_copies_from_registered_memory),
      CASE(test_what_runs_before_its_fence_sees_old_bytes),
  };
  int absent = cuda_absent();
  if (absent)
    return absent;
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
