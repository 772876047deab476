/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that the driver refuses, and their remains: on the fake driver, which has 8 MiB that can be
 * pinned, and 16 MiB of device memory. */
#include "cuda_fixture.h"

#include <failure.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <penstock/page.h>

#define PAGE pst_page_size()

/* The next call fails. */
static bool no_memory;
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_realloc(void *old, size_t size)
{
  if (no_memory) {
    no_memory = false;
    return NULL;
  }
  return __real_realloc(old, size);
}

static uint8_t *host_pages(uint64_t length)
{
  uint8_t *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(at, MAP_FAILED);
  for (uint64_t i = 0; i < length; i++)
    at[i] = (uint8_t)(i * 13 + i / 251);
  return at;
}

static bool reached(const uint8_t *at, uint64_t length)
{
  const struct pst_copy_row row = {
      .source = (uintptr_t)at, .destination = far.address, .length = length, .count = 1};
  return cuda_ranges_reach(memory, &row, 1);
}

/* Rows at equal strides, into the device and back into memory that is pinned. */
static void move_rows(const uint8_t *from, uint32_t rows, uint64_t width, uint64_t stride)
{
  struct pst_copy_row pieces[256];
  assert_true(rows <= 256 && rows * stride <= LENGTH);
  for (uint32_t i = 0; i < rows; i++)
    pieces[i] = (struct pst_copy_row){
        (uintptr_t)from + i * stride, far.address + i * stride, width, 0, 0, 1, 0};
  finish(queue, copy(queue, pieces, rows));
  finish(
      queue,
      copy(queue, &(struct pst_copy_row){far.address, near.address, rows * stride, 0, 0, 1, 0}, 1));
  for (uint32_t i = 0; i < rows; i++)
    assert_memory_equal((uint8_t *)near.host + i * stride, from + i * stride, width);
}

/* The driver copies rows only of memory that is pinned. */
static void test_rows_of_memory_that_cannot_be_pinned(void **state)
{
  (void)state;
  uint8_t *large = host_pages(16 * LENGTH);
  for (int i = 0; i < 3; i++)
    assert_int_equal(memory_ops()->host_register(memory, large, 16 * LENGTH), -EOPNOTSUPP);
  assert_logged("1 16.0 MiB of host memory cannot be pinned: CUDA_ERROR_OUT_OF_MEMORY");
  assert_logged("piece by piece");
  assert_null(strstr(strstr(fake_log(), "1 16.0 MiB") + 1, "1 16.0 MiB")); /* warned of once */
  move_rows(large + 5, 200, 1462, 1536);
  memory_ops()->host_unregister(memory, large, 16 * LENGTH);
  munmap(large, 16 * LENGTH);
}

static void test_what_is_pinned_twice_is_unpinned_with_the_last(void **state)
{
  (void)state;
  uint8_t *at = host_pages(LENGTH);
  assert_int_equal(memory_ops()->host_register(memory, at, LENGTH), 0);
  assert_int_equal(memory_ops()->host_register(memory, at, LENGTH), 0);
  assert_int_equal(memory_ops()->host_register(memory, at + 8192, 4096), 0);
  memory_ops()->host_unregister(memory, at, LENGTH);
  assert_true(reached(at, LENGTH));
  memory_ops()->host_unregister(memory, at + 8192, 4096);
  assert_true(reached(at, LENGTH));
  move_rows(at, 100, 1000, 2000);
  memory_ops()->host_unregister(memory, at, LENGTH);
  assert_false(reached(at, 1));
  munmap(at, LENGTH);
}

/* Two regions of a heap may share a page; one of them may be given back before the other. */
static void test_what_overlaps_is_pinned_by_both(void **state)
{
  (void)state;
  uint8_t *at = host_pages(64 * PAGE);
  assert_int_equal(memory_ops()->host_register(memory, at + 16 * PAGE, 16 * PAGE + 100), 0);
  assert_int_equal(memory_ops()->host_register(memory, at + 32 * PAGE + 100, 16 * PAGE), 0);
  assert_int_equal(memory_ops()->host_register(memory, at + 8 * PAGE, 48 * PAGE), 0);
  /* Rows that cross from one pin to the next, and from what is pinned to what is not. */
  for (uint32_t i = 0; i < 60; i += 15)
    move_rows(at + 7 + i * PAGE, 15, 3000, PAGE);
  memory_ops()->host_unregister(memory, at + 16 * PAGE, 16 * PAGE + 100);
  memory_ops()->host_unregister(memory, at + 8 * PAGE, 48 * PAGE);
  assert_false(reached(at + 8 * PAGE, 1));
  assert_true(reached(at + 32 * PAGE + 100, 1));
  assert_true(reached(at + 33 * PAGE, 15 * PAGE));
  for (uint32_t i = 0; i < 60; i += 15)
    move_rows(at + 7 + i * PAGE, 15, 3000, PAGE);
  memory_ops()->host_unregister(memory, at + 32 * PAGE + 100, 16 * PAGE);
  assert_false(reached(at + 33 * PAGE, 1));
  munmap(at, 64 * PAGE);
}

/* Two receivers with memories of their own, and one sender's slots. */
static void test_two_memories_share_what_is_pinned(void **state)
{
  (void)state;
  uint8_t *at = host_pages(LENGTH);
  struct pst_memory *first = memory, *other = open_cuda(OPTIONS({"copies", "strided"}));
  assert_int_equal(memory_ops()->host_register(first, at, LENGTH), 0);
  assert_int_equal(memory_ops()->host_register(other, at, LENGTH), 0);
  memory_ops()->host_unregister(first, at, LENGTH);
  assert_false(reached(at, 1));
  memory = other;
  assert_true(cuda_ranges_whole(other, (uintptr_t)at, LENGTH));
  memory_ops()->host_unregister(other, at, LENGTH);
  assert_false(cuda_ranges_whole(other, (uintptr_t)at, 1));
  memory = first;
  memory_ops()->close(other);
  munmap(at, LENGTH);
}

static void test_a_pin_that_cannot_be_noted_is_undone(void **state)
{
  (void)state;
  uint8_t *at = host_pages(PAGE);
  no_memory = true;
  assert_int_equal(memory_ops()->host_register(memory, at, PAGE), -ENOMEM);
  assert_false(no_memory);
  assert_logged("out of memory for the description of a region");
  assert_int_equal(memory_ops()->host_register(memory, at, PAGE), 0);
  memory_ops()->host_unregister(memory, at, PAGE);
  munmap(at, PAGE);
}

/* As many as eight receivers hold whose consumers are slow, of one memory. */
static void test_many_fences_are_out_at_once(void **state)
{
  enum { COUNT = 8 * 1024 };
  static struct pst_fence *fences[COUNT];
  struct pst_fence *later;
  (void)state;
  uint64_t ticket =
      copy(queue, &(struct pst_copy_row){near.address, far.address, 64, 0, 0, 1, 0}, 1);
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(memory_ops()->fence_record(memory, NULL, queue->stream, &fences[i]), 0);
    assert_non_null(fences[i]);
  }
  finish(queue, ticket);
  assert_int_equal(memory_ops()->fence_wait(memory, fences[COUNT - 1], NULL, NULL), 0);
  for (int i = 0; i < COUNT; i++) {
    assert_int_equal(memory_ops()->fence_query(memory, fences[i]), 0);
    memory_ops()->fence_release(memory, fences[i]);
  }
  assert_int_equal(memory_ops()->fence_record(memory, NULL, queue->stream, &later), 0);
  memory_ops()->fence_release(memory, later);
}

/* A device is lost where cuda.h says that nothing works any more, and only there. */
static void test_errors_are_of_their_class(void **state)
{
  (void)state;
  static const struct {
    cuda_status status;
    int code;
    const char *remedy;
  } alive[] = {
      {CUDA_INVALID_VALUE, -EINVAL, "is the memory still there?"},
      {CUDA_OUT_OF_MEMORY, -ENOMEM, "are free: ask for less"},
      {CUDA_DEVICE_UNAVAILABLE, -EBUSY, "nvidia-smi -q -d COMPUTE"},
      {CUDA_LAUNCH_OUT_OF_RESOURCES, -EIO, "more registers or threads"},
      {703, -EIO, "dmesg"},
      {CUDA_PEER_ACCESS_ENABLED, -EIO, "dmesg"},
      {CUDA_PEER_ACCESS_NOT_ENABLED, -EXDEV, "nvidia-smi topo -p2p rw"},
      {708, -EIO, "dmesg"},
      {CUDA_TOO_MANY_PEERS, -EXDEV, "eight without NVSwitch"},
      {CUDA_ALREADY_REGISTERED, -EBUSY, "cudaHostRegister"},
      {CUDA_NOT_REGISTERED, -EINVAL, "unregistered"},
      {720, -EIO, "dmesg"},
      {CUDA_NOT_PERMITTED, -EPERM, "container"},
      {CUDA_NOT_SUPPORTED, -EOPNOTSUPP, "cannot do that"},
      {805, -EIO, "dmesg"},
      {12345, -EIO, "CUDA error 12345"},
  };
  static const cuda_status lost[] = {4,   214, 220, 226, 700, 702, 709, 710, 714,
                                     715, 716, 717, 718, 719, 721, 810, 911, 999};
  for (size_t i = 0; i < sizeof(alive) / sizeof(alive[0]); i++) {
    fake_log_clear();
    assert_false(cuda_is_lost(alive[i].status));
    assert_int_equal(cuda_failed(memory, "call", alive[i].status), alive[i].code);
    assert_null(strstr(fake_log(), "is lost"));
    assert_logged("call: ");
    assert_logged(alive[i].remedy);
  }
  for (size_t i = 0; i < sizeof(lost) / sizeof(lost[0]); i++) {
    fake_log_clear();
    memory->lost = false;
    assert_true(cuda_is_lost(lost[i]));
    assert_int_equal(cuda_failed(memory, "call", lost[i]), -EIO);
    assert_int_equal(cuda_failed(memory, "call", lost[i]), -EIO);
    const char *said = strstr(fake_log(), "is lost: ");
    assert_non_null(said);
    assert_null(strstr(said + 1, "is lost"));
    assert_non_null(strstr(said, "; "));
  }
}

static void test_a_queue_that_finds_no_memory_says_how_much(void **state)
{
  (void)state;
  struct pst_queue_params params = {sizeof(params), 8, 100000, 0};
  struct pst_queue *none = NULL;
  fake_log_clear();
  assert_int_equal(memory_ops()->queue_open(memory, &params, &none), -ENOMEM);
  assert_null(none);
  assert_logged("queue of 8 batches of 100000 pieces: cannot get 19.1 MiB of pinned host memory: "
                "cuMemHostAlloc: CUDA_ERROR_OUT_OF_MEMORY");
  assert_logged("MiB available: ask for less");
}

static void test_memory_that_runs_out_says_how_much_is_left(void **state)
{
  (void)state;
  struct pst_region region = {.struct_size = sizeof(region)};
  struct pst_alloc_params params = {
      .struct_size = sizeof(params), .length = 100 * LENGTH, .label = "a ring"};
  fake_log_clear();
  assert_int_equal(memory_ops()->alloc(memory, &params, &region), -ENOMEM);
  assert_logged("a ring: cannot get 100.0 MiB of Fake GPU: cuMemAlloc");
  assert_logged("of 16.0 MiB are free: ask for less");
  params.purpose = PST_ALLOC_STAGING;
  assert_int_equal(memory_ops()->alloc(memory, &params, &region), -ENOMEM);
  assert_logged("a ring: cannot get 100.0 MiB of pinned host memory: cuMemHostAlloc");
  params.needs = PST_NEED_EXPORT_FD;
  assert_int_equal(memory_ops()->alloc(memory, &params, &region), -ENOMEM);
  assert_logged("a ring: cannot get 100.0 MiB of pinned host memory: cuMemHostRegister");
}

int main(void)
{
  int absent = cuda_absent();
  if (absent)
    return absent;
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
  const struct CMUnitTest tests[] = {
      CASE(test_rows_of_memory_that_cannot_be_pinned),
      CASE(test_what_is_pinned_twice_is_unpinned_with_the_last),
      CASE(test_what_overlaps_is_pinned_by_both),
      CASE(test_two_memories_share_what_is_pinned),
      CASE(test_a_pin_that_cannot_be_noted_is_undone),
      CASE(test_many_fences_are_out_at_once),
      CASE(test_errors_are_of_their_class),
      CASE(test_a_queue_that_finds_no_memory_says_how_much),
      CASE(test_memory_that_runs_out_says_how_much_is_left),
  };
#undef CASE
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
