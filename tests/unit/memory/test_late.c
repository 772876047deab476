/* SPDX-License-Identifier: Apache-2.0 */
/* The memory `late` beyond the contract: its copies are late, it cannot be touched, and it catches
 * callers that give slots back too early. */
#include "fixture.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LENGTH 65536u
#define DEADLINE_NS UINT64_C(20000000000)

static struct pst_memory *memory;
static struct pst_region normal, staging;
static struct pst_queue *queue;

static uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

static void open_late(const char *delay_ns, const char *rate)
{
  struct pst_queue_params params = {sizeof(params), 4, 16, 0};
  struct pst_alloc_params want = {
      .struct_size = sizeof(want), .purpose = PST_ALLOC_STAGING, .length = LENGTH};
  memory = open_memory(OPTIONS({"delay", delay_ns}, {"rate", rate}));
  assert_int_equal(allocate(memory, LENGTH, 0, 0, &normal), 0);
  staging = (struct pst_region){.struct_size = sizeof(staging)};
  assert_int_equal(memory_ops()->alloc(memory, &want, &staging), 0);
  assert_int_equal(memory_ops()->queue_open(memory, &params, &queue), 0);
}

static void close_late(void)
{
  memory_ops()->queue_close(queue);
  memory_ops()->free_region(memory, &normal);
  memory_ops()->free_region(memory, &staging);
  memory_ops()->close(memory);
}

static uint64_t copy(uint64_t from, uint64_t to, uint64_t length)
{
  struct pst_copy_row piece = {from, to, length, 0, 0, 1, 0};
  uint64_t ticket = 0;
  assert_int_equal(memory_ops()->copy_rows(queue, &piece, 1, &ticket), 0);
  return ticket;
}

/* Poll until the ticket is done, or the queue fails; returns poll's code. */
static int await(uint64_t ticket)
{
  uint64_t deadline = now_ns() + DEADLINE_NS, done = 0;
  int code;
  while ((code = memory_ops()->queue_poll(queue, &done)) == 0 && done < ticket) {
    assert_true(now_ns() < deadline);
    sched_yield();
  }
  return code;
}

static void test_the_cpu_cannot_touch_it(void **state)
{
  (void)state;
  open_late("0", "0");
  assert_null(normal.host);
  assert_int_equal(normal.kind, PST_MEMORY_HOST);
  assert_string_equal(normal.device, "late");
  assert_string_equal(staging.device, "");
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    signal(SIGSEGV, SIG_DFL);
    _exit(*(volatile uint8_t *)(uintptr_t)normal.address);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status));
  assert_int_equal(WTERMSIG(status), SIGSEGV);
  close_late();
}

static void test_batches_are_late(void **state)
{
  (void)state;
  open_late("30000000", "0");
  memset(staging.host, 5, LENGTH);
  uint64_t start = now_ns();
  uint64_t ticket = copy(staging.address, normal.address, LENGTH);
  struct pst_fence *fence = NULL;
  assert_int_equal(memory_ops()->fence_record(memory, queue, NULL, &fence), 0);
  uint64_t done = 9;
  assert_int_equal(memory_ops()->queue_poll(queue, &done), 0);
  int passed = memory_ops()->fence_query(memory, fence);
  if (now_ns() - start < 30000000) { /* else this machine is later still */
    assert_int_equal(done, 0);
    assert_int_equal(passed, -EAGAIN);
  }
  assert_int_equal(await(ticket), 0);
  assert_true(now_ns() - start >= 30000000);
  memory_ops()->fence_release(memory, fence);
  close_late();
}

static void test_the_rate_holds(void **state)
{
  (void)state;
  open_late("0", "4000000");
  memset(staging.host, 5, LENGTH);
  uint64_t start = now_ns(), ticket = 0;
  for (int i = 0; i < 4; i++)
    ticket = copy(staging.address, normal.address, LENGTH);
  assert_int_equal(await(ticket), 0);
  assert_true(now_ns() - start >= UINT64_C(1000000000) * 4 * LENGTH / 4000000);
  close_late();
}

/* The race is the point; the sanitizer need not tell. */
__attribute__((no_sanitize("thread"))) static void spoil(volatile uint8_t *byte)
{
  *byte ^= 1;
}

static void test_a_source_given_away_too_early_is_caught(void **state)
{
  (void)state;
  open_late("100000000", "0");
  memset(staging.host, 5, LENGTH);
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  uint64_t ticket = copy(staging.address + 1000, normal.address, 1462);
  uint64_t next = copy(staging.address + 4000, normal.address + 4000, 1462);
  struct pst_fence *fence = NULL;
  assert_int_equal(memory_ops()->fence_record(memory, queue, NULL, &fence), 0);
  spoil((uint8_t *)staging.host + 1000 + 1461);
  assert_int_equal(await(ticket), -EIO);
  assert_int_equal(await(next), -EIO);
  assert_logged("0 copy batch 1: the source");
  assert_logged("changed between submission and execution");
  assert_int_equal(memory_ops()->fence_wait(memory, fence, NULL, NULL), -EIO);
  assert_int_equal(memory_ops()->fence_query(memory, fence), -EIO);
  struct pst_copy_row piece = {staging.address, normal.address, 10, 0, 0, 1, 0};
  assert_int_equal(memory_ops()->copy_rows(queue, &piece, 1, &ticket), -EIO);
  assert_int_equal(memory_ops()->verify_result(queue, &result), 0);
  memory_ops()->fence_release(memory, fence);
  close_late();
}

static void test_a_source_given_away_in_time_is_fine(void **state)
{
  (void)state;
  open_late("1000000", "0");
  uint8_t *bytes = staging.host;
  for (int i = 0; i < 50; i++) {
    memset(bytes, i, LENGTH);
    assert_int_equal(await(copy(staging.address, normal.address, LENGTH)), 0);
  }
  close_late();
}

/* A copy out and a copy back in of the same staging range: the source changes
 * between submission and execution, by rights. */
static void test_work_that_writes_its_source_first_is_fine(void **state)
{
  (void)state;
  open_late("5000000", "0");
  struct pst_payload_row payload = {normal.address, 1462, 3, 0, 1, 0};
  uint64_t ticket = 0;
  memset(staging.host, 0, LENGTH);
  assert_int_equal(memory_ops()->fill_rows(queue, 7, &payload, 1, &ticket), 0);
  copy(normal.address, staging.address, 1462);
  copy(staging.address, normal.address + 5000, 1462);
  payload.address += 5000;
  assert_int_equal(memory_ops()->verify_rows(queue, 7, &payload, 1, &ticket), 0);
  assert_int_equal(await(ticket), 0);
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  memory_ops()->verify_result(queue, &result);
  assert_int_equal(result.checked, 1);
  assert_int_equal(result.corrupted, 0);
  close_late();
}

static void test_addresses_that_are_not_its_own_are_refused(void **state)
{
  (void)state;
  open_late("0", "0");
  uint8_t foreign[2][64];
  uint64_t ticket = 0;
  struct pst_copy_row both = {(uintptr_t)foreign[0], (uintptr_t)foreign[1], 64, 0, 0, 1, 0};
  struct pst_copy_row beyond = {staging.address, normal.address + LENGTH - 10, 11, 0, 0, 1, 0};
  struct pst_payload_row outside = {(uintptr_t)foreign[0], 64, 0, 0, 1, 0};
  assert_int_equal(memory_ops()->copy_rows(queue, &both, 1, &ticket), -EINVAL);
  assert_int_equal(memory_ops()->copy_rows(queue, &beyond, 1, &ticket), -EINVAL);
  assert_int_equal(memory_ops()->fill_rows(queue, 1, &outside, 1, &ticket), -EINVAL);
  assert_int_equal(ticket, 0);
  close_late();
}

static void test_a_region_freed_under_work_is_reported(void **state)
{
  (void)state;
  open_late("20000000", "0");
  struct pst_region brief;
  assert_int_equal(allocate(memory, LENGTH, 0, 0, &brief), 0);
  memset(staging.host, 1, LENGTH);
  copy(staging.address, brief.address, LENGTH);
  memory_ops()->free_region(memory, &brief);
  assert_logged("freed while 1 pieces of work");
  close_late();
}

static void test_what_is_left_at_close_is_reported(void **state)
{
  (void)state;
  struct pst_fence *fence = NULL;
  open_late("0", "0");
  assert_int_equal(memory_ops()->fence_record(memory, queue, NULL, &fence), 0);
  close_late();
  assert_logged("closed with no region, no queue and 1 fences left");
  free(fence); /* its memory, as the plugin got it */
}

static void test_fences_have_a_limit(void **state)
{
  (void)state;
  enum { LIMIT = 4096 };
  static struct pst_fence *fences[LIMIT];
  struct pst_fence *more = NULL;
  open_late("0", "0");
  for (int i = 0; i < LIMIT; i++)
    assert_int_equal(memory_ops()->fence_record(memory, queue, NULL, &fences[i]), 0);
  assert_int_equal(memory_ops()->fence_record(memory, queue, NULL, &more), -ENOMEM);
  assert_null(more);
  memory_ops()->fence_release(memory, fences[0]);
  assert_int_equal(memory_ops()->fence_record(memory, queue, NULL, &fences[0]), 0);
  for (int i = 0; i < LIMIT; i++)
    memory_ops()->fence_release(memory, fences[i]);
  close_late();
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_cpu_cannot_touch_it),
      cmocka_unit_test(test_batches_are_late),
      cmocka_unit_test(test_the_rate_holds),
      cmocka_unit_test(test_a_source_given_away_too_early_is_caught),
      cmocka_unit_test(test_a_source_given_away_in_time_is_fine),
      cmocka_unit_test(test_work_that_writes_its_source_first_is_fine),
      cmocka_unit_test(test_addresses_that_are_not_its_own_are_refused),
      cmocka_unit_test(test_a_region_freed_under_work_is_reported),
      cmocka_unit_test(test_what_is_left_at_close_is_reported),
      cmocka_unit_test(test_fences_have_a_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
