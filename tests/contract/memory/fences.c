/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of memories: fences. */
#include "contract.h"

#include <errno.h>
#include <sched.h>

#define LENGTH (UINT64_C(1) << 18)

static struct pst_region normal, staging;
static struct pst_queue *queue;

static bool usable(void)
{
  return (contract.ops->capabilities & PST_MEMORY_CAP_FENCE) &&
         (contract.ops->capabilities & PST_MEMORY_CAP_COPY);
}

static int setup(void **state)
{
  (void)state;
  if (!usable())
    return 0;
  normal = contract_alloc(PST_ALLOC_NORMAL, LENGTH, 0, 0);
  staging = contract_alloc(PST_ALLOC_STAGING, LENGTH, 0, 0);
  queue = contract_queue();
  memset(staging.host, 0, LENGTH);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  if (!usable())
    return 0;
  contract.ops->queue_close(queue);
  contract_free(&staging);
  contract_free(&normal);
  return 0;
}

#define need_fences() need_capability(PST_MEMORY_CAP_FENCE | PST_MEMORY_CAP_COPY)

static uint64_t copy(struct pst_queue *on, uint64_t from, uint64_t to, uint64_t length)
{
  struct pst_copy_row piece = {from, to, length, 0, 0, 1, 0};
  uint64_t ticket = 0;
  assert_int_equal(contract.ops->copy_rows(on, &piece, 1, &ticket), 0);
  return ticket;
}

static struct pst_fence *record(struct pst_queue *on)
{
  struct pst_fence *fence = NULL;
  assert_int_equal(contract.ops->fence_record(contract.memory, on, NULL, &fence), 0);
  return fence;
}

static void release(struct pst_fence *fence)
{
  contract.ops->fence_release(contract.memory, fence);
}

/* 0 or -EAGAIN; anything else fails. */
static int query(struct pst_fence *fence)
{
  int code = contract.ops->fence_query(contract.memory, fence);
  assert_true(code == 0 || code == -EAGAIN);
  return code;
}

static void await(struct pst_fence *fence)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (query(fence) == -EAGAIN) {
    contract_in_time(deadline, "a fence to pass");
    sched_yield();
  }
}

/* Work that takes a while, ahead of what is tried. */
static uint64_t heavy(struct pst_queue *on)
{
  struct pst_copy_row pieces[QUEUE_PIECES];
  uint64_t ticket = 0;
  for (uint32_t i = 0; i < QUEUE_PIECES; i++)
    pieces[i] = (struct pst_copy_row){
        staging.address + LENGTH / 2, normal.address + LENGTH / 2, LENGTH / 2, 0, 0, 1, 0};
  assert_int_equal(contract.ops->copy_rows(on, pieces, QUEUE_PIECES, &ticket), 0);
  return ticket;
}

/* Also without the capability, wherever the calls answer at all. */
static void test_no_fence_has_passed(void **state)
{
  contract_rule("The fence may be NULL, which has always passed.");
  (void)state;
  int code = contract.ops->fence_query(contract.memory, NULL);
  if (!(contract.ops->capabilities & PST_MEMORY_CAP_FENCE) && code == -EOPNOTSUPP)
    skip();
  assert_int_equal(code, 0);
  assert_int_equal(contract.ops->fence_wait(contract.memory, NULL, NULL, NULL), 0);
  struct pst_fence *fence = NULL;
  assert_int_equal(contract.ops->fence_record(contract.memory, NULL, NULL, &fence), 0);
  assert_int_equal(contract.ops->fence_query(contract.memory, fence), 0);
  contract.ops->fence_release(contract.memory, fence);
  contract.ops->fence_release(contract.memory, NULL);
}

static void test_a_fence_follows_the_work_before_it(void **state)
{
  contract_rule("Record a fence behind all work now on `queue`");
  (void)state;
  need_fences();
  uint8_t found[4096], expected[4096];
  contract_pattern(expected, sizeof(expected), 1, 1);
  memcpy(staging.host, expected, sizeof(expected));
  uint64_t first = copy(queue, staging.address, normal.address, LENGTH / 2);
  struct pst_fence *one = record(queue);
  uint64_t second = copy(queue, normal.address, staging.address + LENGTH / 2, LENGTH / 2);
  struct pst_fence *two = record(queue);
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  int passed;
  do {
    passed = query(two);
    if (passed == 0)
      assert_int_equal(query(one), 0);
    contract_in_time(deadline, "the second of two fences to pass");
    sched_yield();
  } while (passed == -EAGAIN);
  memcpy(found, (uint8_t *)staging.host + LENGTH / 2, sizeof(found));
  assert_memory_equal(found, expected, sizeof(found));
  uint64_t done = 0;
  assert_int_equal(contract.ops->queue_poll(queue, &done), 0);
  assert_int_equal(done, second);
  assert_int_equal(second, first + 1);
  release(one);
  release(two);
}

static void test_waiting_in_the_caller(void **state)
{
  contract_rule("If both are NULL the calling thread waits; only that call may block.");
  (void)state;
  need_fences();
  uint8_t expected[4096];
  for (uint64_t round = 0; round < 10; round++) {
    contract_pattern(expected, sizeof(expected), 1, 2 + round);
    memcpy(staging.host, expected, sizeof(expected));
    heavy(queue);
    copy(queue, staging.address, normal.address, 4096);
    uint64_t ticket = copy(queue, normal.address, staging.address + 8192, 4096);
    struct pst_fence *fence = record(queue);
    assert_int_equal(contract.ops->fence_wait(contract.memory, fence, NULL, NULL), 0);
    assert_int_equal(query(fence), 0);
    assert_memory_equal((uint8_t *)staging.host + 8192, expected, sizeof(expected));
    release(fence);
    contract_finish(queue, ticket);
  }
}

/* Behind a queue that is at work, another one's batches are under way for sure: no more
 * are taken than agreed, and polling does not wait for them. */
static void test_what_waits_is_under_way(void **state)
{
  contract_rule("-EAGAIN: params.batches are under way");
  (void)state;
  need_fences();
  struct pst_queue *other = contract_queue();
  uint32_t tried = 0, waited = 0, over = 0;
  for (uint64_t round = 0; round < 20; round++) {
    uint64_t ahead = heavy(queue), ticket = 0, next = 0, done = 0;
    struct pst_fence *fence = record(queue);
    assert_int_equal(contract.ops->fence_wait(contract.memory, fence, other, NULL), 0);
    for (uint32_t i = 0; i < QUEUE_BATCHES; i++)
      ticket = copy(other, normal.address, staging.address, 64);
    struct pst_copy_row piece = {normal.address, staging.address, 64, 0, 0, 1, 0};
    int code = contract.ops->copy_rows(other, &piece, 1, &next);
    bool behind = query(fence) == -EAGAIN;
    if (code == 0)
      ticket = next;
    over += behind && code != -EAGAIN;
    assert_int_equal(contract.ops->queue_poll(other, &done), 0);
    tried += behind;
    waited += behind && query(fence) == 0;
    contract_finish(queue, ahead);
    contract_finish(other, ticket);
    release(fence);
  }
  if (over)
    fail_msg("%u batches were taken where %u are agreed", QUEUE_BATCHES + 1, QUEUE_BATCHES);
  contract_rule(
      "*done = the last ticket up to which all batches are finished, or 0. Never blocks.");
  if (tried >= 5 && waited == tried)
    fail_msg("queue_poll() came back only when all was finished, %u times of %u: it never waits",
             waited, tried);
  contract.ops->queue_close(other);
}

static void test_nothing_is_left_of_queues_and_fences(void **state)
{
  contract_rule("Give the fence back to the plugin; it need not have passed.");
  (void)state;
  need_fences();
  enum { WARM = 50, ROUNDS = 400 };
  uint64_t heap = 0;
  for (int i = 0; i < WARM + ROUNDS; i++) {
    struct pst_queue *brief = contract_queue();
    copy(brief, staging.address, normal.address, 64);
    struct pst_fence *fence = record(brief);
    uint64_t ticket = copy(brief, staging.address, normal.address, 64);
    if (i % 2)
      contract_finish(brief, ticket);
    contract.ops->queue_close(brief);
    release(fence);
    if (i == WARM - 1)
      heap = contract_heap_bytes();
  }
  contract_heap_is_at_most(heap + CONTRACT_HEAP_NOISE_BYTES);
}

static void test_waiting_in_another_queue(void **state)
{
  contract_rule("Make later work on `queue`, or on `native`, wait for the fence on the device.");
  (void)state;
  need_fences();
  struct pst_queue *other = contract_queue();
  uint8_t expected[4096];
  for (uint64_t round = 0; round < 20; round++) {
    contract_pattern(expected, sizeof(expected), 1, 10 + round);
    memcpy(staging.host, expected, sizeof(expected));
    copy(queue, staging.address, normal.address + LENGTH / 2, LENGTH / 2);
    uint64_t sent = copy(queue, staging.address, normal.address, 4096);
    struct pst_fence *fence = record(queue);
    assert_int_equal(contract.ops->fence_wait(contract.memory, fence, other, NULL), 0);
    release(fence); /* it need not have passed, nor the wait */
    uint64_t ticket = copy(other, normal.address, staging.address + LENGTH / 2, 4096);
    contract_finish(other, ticket);
    assert_memory_equal((uint8_t *)staging.host + LENGTH / 2, expected, sizeof(expected));
    contract_finish(queue, sent);
  }
  contract.ops->queue_close(other);
}

static void test_a_fence_on_an_idle_queue_passes(void **state)
{
  contract_rule("0: passed; -EAGAIN: not yet; -EIO: the device is lost. Never blocks.");
  (void)state;
  need_fences();
  struct pst_fence *fence = record(queue);
  await(fence);
  release(fence);
}

static void test_released_fences_come_back(void **state)
{
  contract_rule("Give the fence back to the plugin; it need not have passed.");
  (void)state;
  need_fences();
  uint64_t ticket = 0;
  for (int i = 0; i < 20000; i++) {
    if (i % 1000 == 0) {
      contract_finish(queue, ticket);
      ticket = copy(queue, staging.address, normal.address, 100);
    }
    release(record(queue));
  }
  contract_finish(queue, ticket);
}

static void test_a_fence_outlives_its_queue(void **state)
{
  contract_rule("A fence outlives its queue.");
  (void)state;
  need_fences();
  struct pst_queue *brief = contract_queue();
  copy(brief, staging.address, normal.address, LENGTH);
  struct pst_fence *fence = record(brief);
  contract.ops->queue_close(brief);
  await(fence);
  release(fence);
}

static void test_flush(void **state)
{
  contract_rule("Make what a NIC wrote into the region visible to the device's later work");
  (void)state;
  need_capability(PST_MEMORY_CAP_FLUSH);
  struct pst_region region = contract_alloc(PST_ALLOC_NORMAL, 4096, 0, 0);
  assert_int_equal(contract.ops->flush(contract.memory, &region), 0);
  contract_free(&region);
}

int contract_fences(void)
{
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
      cmocka_unit_test(test_no_fence_has_passed), CASE(test_a_fence_follows_the_work_before_it),
      CASE(test_waiting_in_the_caller),           CASE(test_waiting_in_another_queue),
      CASE(test_a_fence_on_an_idle_queue_passes), CASE(test_released_fences_come_back),
      CASE(test_what_waits_is_under_way),         CASE(test_nothing_is_left_of_queues_and_fences),
      CASE(test_a_fence_outlives_its_queue),      cmocka_unit_test(test_flush),
#undef CASE
  };
  return contract_group("fences", tests, sizeof(tests) / sizeof(tests[0]), contract_watch);
}
