/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of memories: copies. */
#include "contract.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <penstock/page.h>

#define LENGTH (UINT64_C(1) << 18)

/* A NORMAL and a STAGING region with the same random bytes as `far` and `near`. */
struct world {
  struct pst_region normal, staging;
  uint8_t *far, *near, *found;
};

static int setup(void **state)
{
  static struct world world;
  if (!(contract.ops->capabilities & PST_MEMORY_CAP_COPY))
    return 0;
  world.normal = contract_alloc(PST_ALLOC_NORMAL, LENGTH, 0, 0);
  world.staging = contract_alloc(PST_ALLOC_STAGING, LENGTH, 0, 0);
  world.far = malloc(LENGTH);
  world.near = malloc(LENGTH);
  world.found = malloc(LENGTH);
  for (uint64_t i = 0; i < LENGTH; i++) {
    world.far[i] = (uint8_t)contract_random();
    world.near[i] = (uint8_t)contract_random();
  }
  contract_put(&world.normal, 0, world.far, LENGTH);
  contract_put(&world.staging, 0, world.near, LENGTH);
  *state = &world;
  return 0;
}

static int teardown(void **state)
{
  struct world *w = *state;
  if (!w)
    return 0;
  contract_free(&w->normal);
  contract_free(&w->staging);
  free(w->far);
  free(w->near);
  free(w->found);
  return 0;
}

static void expect_bytes(const struct pst_region *region, const uint8_t *expected, uint8_t *found)
{
  contract_get(region, 0, found, LENGTH);
  for (uint64_t at = 0; at < LENGTH; at++)
    if (found[at] != expected[at])
      fail_msg("byte %lu is %02x, not %02x", (unsigned long)at, found[at], expected[at]);
}

/* Pieces that do not overlap: each from a stripe of its own, anywhere in it. */
static uint32_t random_pieces(struct pst_copy_row *pieces, uint64_t source, uint64_t destination)
{
  uint32_t n = 1 + (uint32_t)(contract_random() % QUEUE_PIECES);
  uint64_t stripe = LENGTH / n;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t length = contract_random() % (stripe / 2);
    uint64_t from = i * stripe + contract_random() % (stripe - length);
    uint64_t to = (n - 1 - i) * stripe + contract_random() % (stripe - length);
    if (contract_random() % 8 == 0)
      length = length < 9 ? length : contract_random() % 9;
    pieces[i] = (struct pst_copy_row){source + from, destination + to, length, 0, 0, 1, 0};
  }
  return n;
}

static void apply(const struct pst_copy_row *pieces, uint32_t n, uint64_t source,
                  const uint8_t *from, uint64_t destination, uint8_t *to)
{
  for (uint32_t i = 0; i < n; i++)
    memcpy(to + (pieces[i].destination - destination), from + (pieces[i].source - source),
           pieces[i].length);
}

static uint64_t submit(struct pst_queue *queue, const struct pst_copy_row *pieces, uint32_t n)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns, ticket = 0, done;
  int code;
  while ((code = contract.ops->copy_rows(queue, pieces, n, &ticket)) == -EAGAIN) {
    contract_in_time(deadline, "copy_rows to take %u pieces: it went on saying -EAGAIN", n);
    assert_int_equal(contract.ops->queue_poll(queue, &done), 0);
    sched_yield();
  }
  assert_int_equal(code, 0);
  return ticket;
}

static void test_random_pieces_both_ways(void **state)
{
  contract_rule(
      "Addresses are those of the plugin's device. At least one side is the plugin's own memory; the other may be pinned host memory.");
  need_capability(PST_MEMORY_CAP_COPY);
  struct world *w = *state;
  struct pst_queue *queue = contract_queue();
  struct pst_copy_row pieces[QUEUE_PIECES];
  uint64_t far = w->normal.address, near = w->staging.address, ticket = 0;
  for (int round = 0; round < 60; round++) {
    bool out = contract_random() % 2;
    uint32_t n = random_pieces(pieces, out ? far : near, out ? near : far);
    ticket = submit(queue, pieces, n);
    if (out)
      apply(pieces, n, far, w->far, near, w->near);
    else
      apply(pieces, n, near, w->near, far, w->far);
    memset(pieces, 0xff, sizeof(pieces)); /* the caller's again */
  }
  contract_finish(queue, ticket);
  expect_bytes(&w->normal, w->far, w->found);
  expect_bytes(&w->staging, w->near, w->found);
  contract.ops->queue_close(queue);
}

static void test_within_the_memory(void **state)
{
  contract_rule(
      "Addresses are those of the plugin's device. At least one side is the plugin's own memory; the other may be pinned host memory.");
  need_capability(PST_MEMORY_CAP_COPY);
  struct world *w = *state;
  struct pst_queue *queue = contract_queue();
  uint64_t half = LENGTH / 2;
  struct pst_copy_row piece = {
      w->normal.address + 3, w->normal.address + half + 1, half - 100, 0, 0, 1, 0};
  contract_finish(queue, submit(queue, &piece, 1));
  memcpy(w->far + half + 1, w->far + 3, half - 100);
  expect_bytes(&w->normal, w->far, w->found);
  contract.ops->queue_close(queue);
}

static void test_host_memory_of_others(void **state)
{
  contract_rule("not needed or not possible; copies work all the same.");
  need_capability(PST_MEMORY_CAP_COPY);
  struct world *w = *state;
  struct pst_queue *queue = contract_queue();
  uint8_t *foreign = aligned_alloc(pst_page_size(), LENGTH);
  assert_non_null(foreign);
  bool registered = contract.ops->host_register(contract.memory, foreign, LENGTH) == 0;
  memset(foreign, 0x6b, LENGTH);
  struct pst_copy_row in = {(uintptr_t)foreign, w->normal.address, LENGTH / 2, 0, 0, 1, 0};
  struct pst_copy_row out = {w->normal.address, (uintptr_t)foreign, LENGTH, 0, 0, 1, 0};
  contract_finish(queue, submit(queue, &in, 1));
  contract_finish(queue, submit(queue, &out, 1));
  memset(w->far, 0x6b, LENGTH / 2);
  assert_memory_equal(foreign, w->far, LENGTH);
  if (registered)
    contract.ops->host_unregister(contract.memory, foreign, LENGTH);
  free(foreign);
  contract.ops->queue_close(queue);
}

/* A chain through the same bytes is right only if the queue keeps its order. */
static void test_batches_run_in_order(void **state)
{
  contract_rule(
      "The next three submit n rows as one batch, in the queue's order, and return at once; the array is the caller's again.");
  need_capability(PST_MEMORY_CAP_COPY);
  struct world *w = *state;
  struct pst_queue *queue = contract_queue();
  uint64_t at = w->normal.address, size = 30000, ticket = 0;
  for (uint64_t i = 0; i < 7; i++) {
    struct pst_copy_row piece = {at + i * size, at + (i + 1) * size, size, 0, 0, 1, 0};
    ticket = submit(queue, &piece, 1);
    memcpy(w->far + (i + 1) * size, w->far + i * size, size);
  }
  contract_finish(queue, ticket);
  expect_bytes(&w->normal, w->far, w->found);
  contract.ops->queue_close(queue);
}

static void test_tickets_count_up(void **state)
{
  contract_rule("*ticket numbers the batch: 1, 2, 3, … over all calls that submit to this queue.");
  need_capability(PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_PATTERN);
  struct world *w = *state;
  struct pst_queue *queue = contract_queue();
  struct pst_copy_row piece = {w->normal.address, w->staging.address, 4096, 0, 0, 1, 0};
  struct pst_payload_row payload = {w->normal.address + 8192, 1462, 1, 0, 1, 0};
  uint64_t done = 9, last = 0, ticket = 0;
  assert_int_equal(contract.ops->queue_poll(queue, &done), 0);
  assert_int_equal(done, 0);
  for (uint64_t i = 1; i <= 30; i++) {
    int code;
    do {
      if (i % 3 == 0)
        code = contract.ops->copy_rows(queue, &piece, 1, &ticket);
      else if (i % 3 == 1)
        code = contract.ops->fill_rows(queue, 5, &payload, 1, &ticket);
      else
        code = contract.ops->verify_rows(queue, 5, &payload, 1, &ticket);
      if (code == -EAGAIN)
        assert_int_equal(ticket, i - 1);
      assert_int_equal(contract.ops->queue_poll(queue, &done), 0);
      assert_true(done >= last && done <= i);
      last = done;
    } while (code == -EAGAIN);
    assert_int_equal(code, 0);
    assert_int_equal(ticket, i);
  }
  contract_finish(queue, 30);
  contract.ops->queue_close(queue);
}

static void test_no_more_batches_than_agreed(void **state)
{
  contract_rule("-EAGAIN: params.batches are under way, or too many pieces: poll first");
  need_capability(PST_MEMORY_CAP_COPY);
  struct world *w = *state;
  struct pst_queue *queue = contract_queue();
  struct pst_copy_row piece = {w->staging.address, w->normal.address, LENGTH, 0, 0, 1, 0};
  uint64_t ticket = 0, done = 0;
  bool full = false;
  for (uint64_t i = 1; i <= 4 * QUEUE_BATCHES && !full; i++) {
    contract_errors_clear();
    int code = contract.ops->copy_rows(queue, &piece, 1, &ticket);
    full = code == -EAGAIN;
    if (full) {
      assert_true(ticket >= QUEUE_BATCHES);
      assert_int_equal(contract_errors(), 0);
      break;
    }
    assert_int_equal(code, 0);
    assert_int_equal(contract.ops->queue_poll(queue, &done), 0);
    assert_true(ticket - done <= QUEUE_BATCHES);
  }
  contract_finish(queue, ticket);
  uint64_t next = 0;
  assert_int_equal(contract.ops->copy_rows(queue, &piece, 1, &next), 0);
  assert_int_equal(next, ticket + 1);
  contract_finish(queue, next);
  contract.ops->queue_close(queue);
}

static void test_batches_that_are_refused(void **state)
{
  contract_rule(
      "-EINVAL: no pieces, more than params.pieces, a row without pieces, or a reserved member that is not 0");
  need_capability(PST_MEMORY_CAP_COPY);
  struct world *w = *state;
  struct pst_queue *queue = contract_queue();
  struct pst_copy_row pieces[QUEUE_PIECES + 1];
  uint64_t ticket = 42;
  for (uint32_t i = 0; i <= QUEUE_PIECES; i++)
    pieces[i] = (struct pst_copy_row){
        w->staging.address + i * 64, w->normal.address + i * 64, 64, 0, 0, 1, 0};
  assert_refused(-EINVAL, contract.ops->copy_rows(queue, pieces, 0, &ticket));
  assert_refused(-EINVAL, contract.ops->copy_rows(queue, pieces, QUEUE_PIECES + 1, &ticket));
  contract_rule(
      "Unknown opcodes and flags and reserved members that are not zero are refused with -EINVAL, never ignored.");
  pieces[1].reserved = 1;
  assert_refused(-EINVAL, contract.ops->copy_rows(queue, pieces, 2, &ticket));
  contract_rule("Out-parameters stay untouched on failure.");
  assert_int_equal(ticket, 42);
  contract_rule("*ticket numbers the batch: 1, 2, 3, … over all calls that submit to this queue.");
  assert_int_equal(contract.ops->copy_rows(queue, pieces, 1, &ticket), 0);
  assert_int_equal(ticket, 1); /* a refused batch has no number */
  contract_finish(queue, ticket);
  contract.ops->queue_close(queue);
}

static void test_queues_that_are_refused(void **state)
{
  contract_rule("-EINVAL: no batches or no pieces.");
  (void)state;
  need_capability(PST_MEMORY_CAP_COPY);
  struct pst_queue *queue = NULL;
  struct pst_queue_params params = {sizeof(params), 0, 1, 0};
  assert_refused(-EINVAL, contract.ops->queue_open(contract.memory, &params, &queue));
  params = (struct pst_queue_params){sizeof(params), 1, 0, 0};
  assert_refused(-EINVAL, contract.ops->queue_open(contract.memory, &params, &queue));
  contract_rule(
      "Unknown opcodes and flags and reserved members that are not zero are refused with -EINVAL, never ignored.");
  params = (struct pst_queue_params){sizeof(params), 1, 1, 1};
  assert_refused(-EINVAL, contract.ops->queue_open(contract.memory, &params, &queue));
  contract_untouched(queue, NULL, "queue_open");
}

static void test_close_waits_for_work(void **state)
{
  contract_rule("Wait for work under way, and drop its results.");
  need_capability(PST_MEMORY_CAP_COPY);
  struct world *w = *state;
  struct pst_queue *queue = contract_queue();
  struct pst_copy_row piece = {w->staging.address, w->normal.address, LENGTH, 0, 0, 1, 0};
  submit(queue, &piece, 1);
  contract.ops->queue_close(queue);
  memset(w->staging.host, 0, LENGTH); /* nobody reads it any more */
  expect_bytes(&w->normal, w->near, w->found);
}

static void test_queues_number_their_own(void **state)
{
  contract_rule("*ticket numbers the batch: 1, 2, 3, … over all calls that submit to this queue.");
  need_capability(PST_MEMORY_CAP_COPY);
  struct world *w = *state;
  struct pst_queue *a = contract_queue(), *b = contract_queue();
  struct pst_copy_row first = {w->staging.address, w->normal.address, 1000, 0, 0, 1, 0};
  struct pst_copy_row second = {
      w->staging.address + 1000, w->normal.address + 1000, 1000, 0, 0, 1, 0};
  assert_int_equal(submit(a, &first, 1), 1);
  assert_int_equal(submit(a, &first, 1), 2);
  assert_int_equal(submit(b, &second, 1), 1);
  contract_finish(b, 1);
  contract_finish(a, 2);
  memcpy(w->far, w->near, 2000);
  expect_bytes(&w->normal, w->far, w->found);
  contract.ops->queue_close(b);
  contract.ops->queue_close(a);
}

int contract_copies(void)
{
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
      CASE(test_random_pieces_both_ways),  CASE(test_within_the_memory),
      CASE(test_host_memory_of_others),    CASE(test_batches_run_in_order),
      CASE(test_tickets_count_up),         CASE(test_no_more_batches_than_agreed),
      CASE(test_batches_that_are_refused), CASE(test_queues_that_are_refused),
      CASE(test_close_waits_for_work),     CASE(test_queues_number_their_own),
#undef CASE
  };
  return contract_group("copies", tests, sizeof(tests) / sizeof(tests[0]), contract_watch);
}
