/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of memories: the test pattern. */
#include "contract.h"

#include <errno.h>
#include <sched.h>

#define LENGTH (UINT64_C(1) << 17)
#define SEED UINT64_C(0x5eed)
#define MESSAGE 1462u
#define STRIDE 1501u /* odd: payloads at every alignment */
#define COUNT 64u

static struct pst_region region;
static struct pst_queue *queue;
static struct pst_payload_row payloads[COUNT];

static bool usable(void)
{
  return (contract.ops->capabilities & PST_MEMORY_CAP_PATTERN) &&
         (contract.ops->capabilities & PST_MEMORY_CAP_COPY);
}

static int setup(void **state)
{
  (void)state;
  if (!usable())
    return 0;
  region = contract_alloc(PST_ALLOC_NORMAL, LENGTH, 0, 0);
  queue = contract_queue();
  for (uint32_t i = 0; i < COUNT; i++)
    payloads[i] = (struct pst_payload_row){region.address + i * STRIDE, MESSAGE, 1000 + i, 0, 1, 0};
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  if (!usable())
    return 0;
  contract.ops->queue_close(queue);
  contract_free(&region);
  return 0;
}

typedef int batch_call(struct pst_queue *, uint64_t, const struct pst_payload_row *, uint32_t,
                       uint64_t *);

static void run(batch_call *call, uint64_t seed, const struct pst_payload_row *list, uint32_t n)
{
  uint64_t ticket = 0;
  assert_int_equal(call(queue, seed, list, n, &ticket), 0);
  contract_finish(queue, ticket);
}

static struct pst_verify_result result(void)
{
  struct pst_verify_result out = {.struct_size = sizeof(out)};
  assert_int_equal(contract.ops->verify_result(queue, &out), 0);
  return out;
}

static void expect_result(uint64_t checked, uint64_t corrupted)
{
  struct pst_verify_result out = result();
  assert_int_equal(out.checked, checked);
  assert_int_equal(out.corrupted, corrupted);
}

#define need_pattern() need_capability(PST_MEMORY_CAP_PATTERN | PST_MEMORY_CAP_COPY)

static void test_fill_is_the_pattern(void **state)
{
  contract_rule("word[i] = h + i * PST_PATTERN_STEP (mod 2^64)");
  (void)state;
  need_pattern();
  static const uint64_t lengths[] = {0, 1, 7, 8, 9, 63, 64, 65, 255, 1462, 4096, 9000};
  uint8_t expected[9000 + 64], found[9000 + 64];
  for (uint64_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    for (uint64_t alignment = 0; alignment < 9; alignment++) {
      struct pst_payload_row payload = {region.address + 32 + alignment, lengths[i], i, 0, 1, 0};
      memset(expected, 0xcc, sizeof(expected));
      contract_put(&region, 0, expected, sizeof(expected));
      run(contract.ops->fill_rows, SEED, &payload, 1);
      contract_pattern(expected + 32 + alignment, lengths[i], SEED, i);
      contract_get(&region, 0, found, sizeof(found));
      assert_memory_equal(found, expected, sizeof(found));
    }
  }
}

static void test_what_was_filled_verifies(void **state)
{
  contract_rule("Writes what verify_rows has found on a queue since queue_open()");
  (void)state;
  need_pattern();
  run(contract.ops->fill_rows, SEED, payloads, COUNT);
  run(contract.ops->verify_rows, SEED, payloads, COUNT);
  expect_result(COUNT, 0);
  run(contract.ops->verify_rows, SEED, payloads, 3);
  expect_result(COUNT + 3, 0);
  struct pst_payload_row empty = {region.address, 0, 1, 0, 1, 0};
  run(contract.ops->verify_rows, SEED, &empty, 1);
  expect_result(COUNT + 4, 0);
}

static void test_a_wrong_bit_is_found_where_it_is(void **state)
{
  contract_rule("The first mismatch found, meaningful when corrupted > 0.");
  (void)state;
  need_pattern();
  static const uint64_t offsets[] = {0, 1, 7, 8, 511, 512, 1023, 1455, 1456, MESSAGE - 1};
  run(contract.ops->fill_rows, SEED, payloads, COUNT);
  for (uint32_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
    uint64_t at = i * 6 * STRIDE + offsets[i];
    uint8_t right, wrong;
    contract_get(&region, at, &right, 1);
    wrong = right ^ (uint8_t)(1u << i % 8);
    contract_put(&region, at, &wrong, 1);
    contract.ops->queue_close(queue);
    queue = contract_queue();
    run(contract.ops->verify_rows, SEED, payloads, COUNT);
    struct pst_verify_result out = result();
    assert_int_equal(out.checked, COUNT);
    assert_int_equal(out.corrupted, 1);
    assert_int_equal(out.sequence, 1000 + i * 6);
    assert_int_equal(out.offset, offsets[i]);
    assert_int_equal(out.expected, right);
    assert_int_equal(out.found, wrong);
    contract_put(&region, at, &right, 1);
  }
}

static void test_the_first_mismatch_is_kept_and_all_are_counted(void **state)
{
  contract_rule("The first mismatch found, meaningful when corrupted > 0.");
  (void)state;
  need_pattern();
  uint8_t zero[2] = {0, 0}, right;
  run(contract.ops->fill_rows, SEED, payloads, COUNT);
  contract_get(&region, 5 * STRIDE + 17, &right, 1);
  uint8_t wrong = right ^ 0xff;
  contract_put(&region, 5 * STRIDE + 17, &wrong, 1);
  run(contract.ops->verify_rows, SEED, payloads, COUNT);
  contract_put(&region, 2 * STRIDE + 200, zero, 2);
  run(contract.ops->verify_rows, SEED, payloads, COUNT);
  struct pst_verify_result out = result();
  assert_int_equal(out.checked, 2 * COUNT);
  assert_int_equal(out.corrupted, 3);
  assert_int_equal(out.sequence, 1005);
  assert_int_equal(out.offset, 17);
}

static void test_wrong_places_are_found(void **state)
{
  contract_rule("a byte at the wrong offset, slot, order or value does not pass.");
  (void)state;
  need_pattern();
  run(contract.ops->fill_rows, SEED, payloads, COUNT);
  struct pst_payload_row wrong[2] = {payloads[3], payloads[4]};
  wrong[0].sequence = 1004; /* swapped */
  wrong[1].sequence = 1003;
  run(contract.ops->verify_rows, SEED, wrong, 2);
  expect_result(2, 2);
  wrong[0] = payloads[7];
  wrong[0].address += 8; /* shifted by a word */
  wrong[0].length -= 8;
  run(contract.ops->verify_rows, SEED, wrong, 1);
  expect_result(3, 3);
  run(contract.ops->verify_rows, SEED + 1, payloads, COUNT);
  expect_result(3 + COUNT, 3 + COUNT);
}

static void test_results_are_of_reported_work(void **state)
{
  contract_rule(
      "Writes what verify_rows has found on a queue since queue_open(), in batches that queue_poll() has reported.");
  (void)state;
  need_pattern();
  uint64_t ticket = 0;
  run(contract.ops->fill_rows, SEED, payloads, COUNT);
  assert_int_equal(contract.ops->verify_rows(queue, SEED, payloads, COUNT, &ticket), 0);
  if (contract.ops->capabilities & PST_MEMORY_CAP_FENCE) {
    struct pst_fence *fence = NULL;
    assert_int_equal(contract.ops->fence_record(contract.memory, queue, NULL, &fence), 0);
    assert_int_equal(contract.ops->fence_wait(contract.memory, fence, NULL, NULL), 0);
    contract.ops->fence_release(contract.memory, fence);
  }
  expect_result(0, 0);
  contract_finish(queue, ticket);
  expect_result(COUNT, 0);
  contract_rule(
      "The writer of an out-struct writes no more than the `struct_size` that the caller set.");
  struct pst_verify_result brief = {.struct_size = offsetof(struct pst_verify_result, corrupted)};
  brief.corrupted = 99;
  assert_int_equal(contract.ops->verify_result(queue, &brief), 0);
  assert_int_equal(brief.checked, COUNT);
  assert_int_equal(brief.corrupted, 99);
}

static void test_payloads_that_are_refused(void **state)
{
  contract_rule(
      "-EINVAL: no pieces, more than params.pieces, a row without pieces, or a reserved member that is not 0");
  (void)state;
  need_pattern();
  struct pst_payload_row many[QUEUE_PIECES + 1] = {payloads[0]};
  batch_call *const calls[] = {contract.ops->fill_rows, contract.ops->verify_rows};
  uint64_t ticket = 42;
  for (uint32_t i = 0; i <= QUEUE_PIECES; i++)
    many[i] = payloads[0];
  for (int i = 0; i < 2; i++) {
    assert_refused(-EINVAL, calls[i](queue, SEED, many, 0, &ticket));
    assert_refused(-EINVAL, calls[i](queue, SEED, many, QUEUE_PIECES + 1, &ticket));
    many[0].reserved = 1;
    assert_refused(-EINVAL, calls[i](queue, SEED, many, 1, &ticket));
    many[0].reserved = 0;
  }
  assert_int_equal(ticket, 42);
  expect_result(0, 0);
}

int contract_patterns(void)
{
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
      CASE(test_fill_is_the_pattern),
      CASE(test_what_was_filled_verifies),
      CASE(test_a_wrong_bit_is_found_where_it_is),
      CASE(test_the_first_mismatch_is_kept_and_all_are_counted),
      CASE(test_wrong_places_are_found),
      CASE(test_results_are_of_reported_work),
      CASE(test_payloads_that_are_refused),
#undef CASE
  };
  return contract_group("patterns", tests, sizeof(tests) / sizeof(tests[0]), contract_watch);
}
