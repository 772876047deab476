/* SPDX-License-Identifier: Apache-2.0 */
/* Rows: messages at equal distances, copied, filled and checked as one. */
#include "contract.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#define LENGTH (UINT64_C(1) << 18)
#define SEED UINT64_C(0x5eed)

static struct pst_region normal, staging;
static struct pst_queue *queue;
static uint8_t *from, *to, *found;

#define need_rows() need_capability(PST_MEMORY_CAP_COPY)
#define need_patterns() need_capability(PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_PATTERN)

static int setup(void **state)
{
  (void)state;
  if (!(contract.ops->capabilities & PST_MEMORY_CAP_COPY))
    return 0;
  normal = contract_alloc(PST_ALLOC_NORMAL, LENGTH, 0, 0);
  staging = contract_alloc(PST_ALLOC_STAGING, LENGTH, 0, 0);
  queue = contract_queue();
  from = malloc(LENGTH);
  to = malloc(LENGTH);
  found = malloc(LENGTH);
  for (uint64_t i = 0; i < LENGTH; i++) {
    from[i] = (uint8_t)contract_random();
    to[i] = (uint8_t)contract_random();
  }
  contract_put(&staging, 0, from, LENGTH);
  contract_put(&normal, 0, to, LENGTH);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  if (!(contract.ops->capabilities & PST_MEMORY_CAP_COPY))
    return 0;
  contract.ops->queue_close(queue);
  contract_free(&normal);
  contract_free(&staging);
  free(from);
  free(to);
  free(found);
  return 0;
}

/* ---- Copies --------------------------------------------------------------------- */

/* Addresses here are offsets: what is to be in normal memory, and then what is. */
static void copies(const struct pst_copy_row *rows, uint32_t n)
{
  struct pst_copy_row given[QUEUE_PIECES];
  uint64_t ticket = 0;
  for (uint32_t k = 0; k < n; k++) {
    given[k] = rows[k];
    given[k].source += staging.address;
    given[k].destination += normal.address;
    for (uint64_t i = 0; i < rows[k].count; i++)
      memcpy(to + (rows[k].destination + i * rows[k].destination_stride),
             from + (rows[k].source + i * rows[k].source_stride), rows[k].length);
  }
  assert_int_equal(contract.ops->copy_rows(queue, given, n, &ticket), 0);
  memset(given, 0xff, sizeof(given)); /* the caller's again */
  contract_finish(queue, ticket);
  contract_get(&normal, 0, found, LENGTH);
  for (uint64_t at = 0; at < LENGTH; at++)
    if (found[at] != to[at])
      fail_msg("byte %lu is %02x, not %02x", (unsigned long)at, found[at], to[at]);
}

static void test_a_row_is_its_pieces(void **state)
{
  contract_rule(
      "piece i goes from source + i * source_stride to destination + i * destination_stride, modulo 2^64, so that a stride may lead backward.");
  (void)state;
  need_rows();
  static const struct pst_copy_row rows[] = {
      {0, 0, 1462, 1472, 1472, QUEUE_PIECES, 0},      /* slots side by side */
      {0, 0, 1462, 1472, 1462, QUEUE_PIECES, 0},      /* and a frame of them */
      {7, 3, 1000, 1000, 1000, QUEUE_PIECES, 0},      /* all contiguous */
      {5, 9, 33, 4000, 41, QUEUE_PIECES, 0},          /* gaps */
      {100000, 0, 1462, -UINT64_C(1472), 1472, 9, 0}, /* backward: the one, the other, both */
      {0, 100000, 1462, 1472, -UINT64_C(1472), 9, 0},
      {100000, 90000, 1462, -UINT64_C(1472), -UINT64_C(1500), 9, 0},
      {50, 60, 777, 0, 800, 30, 0},         /* one source for all */
      {1, 2, 100, 60, 100, 30, 0},          /* sources that overlap */
      {11, 13, 500, 1, 2, 1, 0},            /* of one, strides mean nothing */
      {0, 0, 0, 1472, 1472, 20, 0},         /* empty ones */
      {0, 0, 130000, 131000, 131000, 2, 0}, /* large ones */
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
    copies(&rows[i], 1);
}

static void test_several_rows_are_one_batch(void **state)
{
  contract_rule("The pieces of all rows together number at least 1 and at most params.pieces.");
  (void)state;
  need_rows();
  /* A ring that wraps, on either side. */
  static const struct pst_copy_row wraps[] = {{1472 * 40, 1472 * 10, 1462, 1472, 1472, 20, 0},
                                              {0, 1472 * 30, 1462, 1472, 1472, 10, 0},
                                              {1472 * 10, 0, 1462, 1472, 1472, 10, 0}};
  copies(wraps, 3);
  /* Rows of all lengths, forward and backward, short and long, empty. */
  for (int round = 0; round < 40; round++) {
    struct pst_copy_row rows[QUEUE_PIECES];
    uint32_t n = 0, pieces = 0, most = round % 2 ? 2 : 12;
    uint64_t at = 0;
    while (pieces < QUEUE_PIECES) {
      uint32_t count = 1 + (uint32_t)(contract_random() % most);
      uint64_t length = contract_random() % 5 ? contract_random() % 1500 : 0;
      uint64_t step = length + contract_random() % 50;
      bool back = contract_random() % 3 == 0;
      if (count > QUEUE_PIECES - pieces)
        count = QUEUE_PIECES - pieces;
      rows[n++] = (struct pst_copy_row){
          .source = (LENGTH / 2 + contract_random() % (LENGTH / 4)),
          .destination = at + (back ? (count - 1) * step : 0),
          .length = length,
          .source_stride = contract_random() % 2 ? step : -(contract_random() % 1500),
          .destination_stride = back ? -step : step,
          .count = count};
      pieces += count;
      at += count * step;
    }
    copies(rows, n);
  }
}

/* ---- The pattern ---------------------------------------------------------------- */

static void fill(const struct pst_payload_row *row)
{
  for (uint64_t i = 0; i < row->count; i++) {
    uint64_t at = row->address + i * row->stride - normal.address;
    contract_pattern(to + at, row->length, SEED, row->sequence + i);
  }
  contract_put(&normal, 0, to, LENGTH);
}

static struct pst_verify_result verify(const struct pst_payload_row *rows, uint32_t n)
{
  struct pst_verify_result out = {.struct_size = sizeof(out)};
  uint64_t ticket = 0;
  assert_int_equal(contract.ops->verify_rows(queue, SEED, rows, n, &ticket), 0);
  contract_finish(queue, ticket);
  assert_int_equal(contract.ops->verify_result(queue, &out), 0);
  return out;
}

static void spoil(uint64_t address)
{
  uint64_t at = address - normal.address;
  to[at] ^= 0x20;
  contract_put(&normal, at, &to[at], 1);
}

/* Three rows: forward, backward and with a gap. */
#define ROWS 3u
static uint32_t make_rows(struct pst_payload_row *rows)
{
  const struct pst_payload_row made[ROWS] = {
      {normal.address + 1, 1462, 500, 1501, 20, 0},
      {normal.address + 100000, 700, 9000, -UINT64_C(711), 30, 0},
      {normal.address + 150000, 9000, 3, 12000, 5, 0},
  };
  uint32_t messages = 0;
  for (uint32_t k = 0; k < ROWS; k++) {
    rows[k] = made[k];
    fill(&rows[k]);
    messages += rows[k].count;
  }
  return messages;
}

static void test_a_row_is_filled(void **state)
{
  contract_rule("message i has the sequence number sequence + i and lies at address + i * stride.");
  (void)state;
  need_patterns();
  const struct pst_payload_row rows[] = {
      {normal.address + 1, 1462, 500, 1501, 20, 0},
      {normal.address + 100000, 700, 9000, -UINT64_C(711), 30, 0},
      {normal.address + 150000, 9000, 3, 0, 1, 0},
  };
  const uint32_t n = sizeof(rows) / sizeof(rows[0]);
  uint64_t ticket = 0;
  assert_int_equal(contract.ops->fill_rows(queue, SEED, rows, n, &ticket), 0);
  contract_finish(queue, ticket);
  for (uint32_t k = 0; k < n; k++)
    for (uint64_t i = 0; i < rows[k].count; i++)
      contract_pattern(to + (rows[k].address + i * rows[k].stride - normal.address), rows[k].length,
                       SEED, rows[k].sequence + i);
  contract_get(&normal, 0, found, LENGTH);
  for (uint64_t at = 0; at < LENGTH; at++)
    if (found[at] != to[at])
      fail_msg("byte %lu is %02x, not %02x", (unsigned long)at, found[at], to[at]);
}

static void test_a_mismatch_is_found_anywhere_in_a_row(void **state)
{
  contract_rule("message i has the sequence number sequence + i and lies at address + i * stride.");
  (void)state;
  need_patterns();
  struct pst_payload_row rows[ROWS];
  uint32_t messages = make_rows(rows);
  struct pst_verify_result out = verify(rows, ROWS);
  assert_int_equal(out.checked, messages);
  assert_int_equal(out.corrupted, 0);
  for (uint32_t k = 0; k < ROWS; k++)
    for (uint32_t i = 0; i<rows[k].count; i += rows[k].count> 1 ? (rows[k].count - 1) / 2 : 1) {
      uint64_t offset = i * 97 % rows[k].length;
      uint64_t at = rows[k].address + i * rows[k].stride + offset;
      contract.ops->queue_close(queue);
      queue = contract_queue();
      spoil(at);
      out = verify(rows, ROWS);
      assert_int_equal(out.checked, messages);
      assert_int_equal(out.corrupted, 1);
      assert_int_equal(out.sequence, rows[k].sequence + i);
      assert_int_equal(out.offset, offset);
      assert_int_equal(out.found, to[at - normal.address]);
      assert_int_equal(out.expected, to[at - normal.address] ^ 0x20);
      spoil(at);
    }
}

static void test_the_first_of_several_mismatches_is_told(void **state)
{
  contract_rule("The first mismatch found, meaningful when corrupted > 0.");
  (void)state;
  need_patterns();
  struct pst_payload_row rows[ROWS];
  uint32_t messages = make_rows(rows);
  spoil(rows[2].address + 2 * rows[2].stride + 5);
  spoil(rows[1].address + 7 * rows[1].stride + 600);
  spoil(rows[1].address + 7 * rows[1].stride + 601);
  spoil(rows[1].address + 29 * rows[1].stride);
  struct pst_verify_result out = verify(rows, ROWS);
  assert_int_equal(out.checked, messages);
  assert_int_equal(out.corrupted, 3);
  assert_int_equal(out.sequence, 9007);
  assert_int_equal(out.offset, 600);
}

/* No two messages of a row pass for each other. */
static void test_a_row_has_consecutive_numbers(void **state)
{
  contract_rule("message i has the sequence number sequence + i and lies at address + i * stride.");
  (void)state;
  need_patterns();
  struct pst_payload_row rows[ROWS];
  make_rows(rows);
  rows[0].sequence++;
  struct pst_verify_result out = verify(rows, 1);
  assert_int_equal(out.checked, 20);
  assert_int_equal(out.corrupted, 20);
  assert_int_equal(out.sequence, 501);
  rows[0].length = 0;
  out = verify(rows, 1);
  assert_int_equal(out.checked, 40);
  assert_int_equal(out.corrupted, 20);
}

/* ---- Refusals ------------------------------------------------------------------- */

static void test_copies_that_are_refused(void **state)
{
  contract_rule(
      "-EINVAL: no pieces, more than params.pieces, a row without pieces, or a reserved member that is not 0");
  (void)state;
  need_rows();
  struct pst_copy_row rows[2] = {{staging.address, normal.address, 64, 64, 64, 5, 0},
                                 {staging.address + 4096, normal.address + 4096, 64, 64, 64, 5, 0}};
  uint64_t ticket = 42;
  assert_refused(-EINVAL, contract.ops->copy_rows(queue, rows, 0, &ticket));
  rows[1].count = 0;
  assert_refused(-EINVAL, contract.ops->copy_rows(queue, rows, 2, &ticket));
  rows[1].count = QUEUE_PIECES - 4;
  assert_refused(-EINVAL, contract.ops->copy_rows(queue, rows, 2, &ticket));
  rows[1].count = UINT32_MAX - 4; /* together 2^32: none, to a careless eye */
  assert_refused(-EINVAL, contract.ops->copy_rows(queue, rows, 2, &ticket));
  rows[1].count = 5;
  rows[1].reserved = 1;
  assert_refused(-EINVAL, contract.ops->copy_rows(queue, rows, 2, &ticket));
  assert_int_equal(ticket, 42);
}

static void test_checks_that_are_refused(void **state)
{
  contract_rule(
      "-EINVAL: no pieces, more than params.pieces, a row without pieces, or a reserved member that is not 0");
  (void)state;
  need_patterns();
  struct pst_payload_row rows[2] = {{normal.address, 64, 1, 64, 5, 0},
                                    {normal.address + 4096, 64, 1, 64, 5, 0}};
  struct pst_verify_result out = {.struct_size = sizeof(out)};
  uint64_t ticket = 42;
  assert_refused(-EINVAL, contract.ops->verify_rows(queue, SEED, rows, 0, &ticket));
  rows[1].count = 0;
  assert_refused(-EINVAL, contract.ops->verify_rows(queue, SEED, rows, 2, &ticket));
  rows[1].count = QUEUE_PIECES - 4;
  assert_refused(-EINVAL, contract.ops->verify_rows(queue, SEED, rows, 2, &ticket));
  rows[1].count = UINT32_MAX - 4;
  assert_refused(-EINVAL, contract.ops->verify_rows(queue, SEED, rows, 2, &ticket));
  rows[1].count = 5;
  rows[1].reserved = 1;
  assert_refused(-EINVAL, contract.ops->verify_rows(queue, SEED, rows, 2, &ticket));
  assert_int_equal(ticket, 42);
  assert_int_equal(contract.ops->verify_result(queue, &out), 0);
  assert_int_equal(out.checked, 0);
}

/* As many batches as the queue takes, and so many pieces in each. */
static void test_a_full_queue_says_so(void **state)
{
  contract_rule("*ticket numbers the batch: 1, 2, 3, … over all calls that submit to this queue.");
  (void)state;
  need_rows();
  struct pst_copy_row row = {staging.address, normal.address, 64, 64, 64, QUEUE_PIECES, 0};
  uint64_t deadline = contract_now_ns() + contract_deadline_ns, ticket = 0, done = 0;
  for (uint64_t i = 0; i < 3 * QUEUE_BATCHES; i++) {
    int code;
    while ((code = contract.ops->copy_rows(queue, &row, 1, &ticket)) == -EAGAIN) {
      contract_in_time(deadline, "copy_rows to take a batch: it went on saying -EAGAIN");
      assert_int_equal(contract.ops->queue_poll(queue, &done), 0);
      sched_yield();
    }
    assert_int_equal(code, 0);
    assert_int_equal(ticket, i + 1);
  }
  contract_finish(queue, ticket);
}

int contract_rows(void)
{
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
      CASE(test_a_row_is_its_pieces),
      CASE(test_several_rows_are_one_batch),
      CASE(test_a_row_is_filled),
      CASE(test_a_mismatch_is_found_anywhere_in_a_row),
      CASE(test_the_first_of_several_mismatches_is_told),
      CASE(test_a_row_has_consecutive_numbers),
      CASE(test_copies_that_are_refused),
      CASE(test_checks_that_are_refused),
      CASE(test_a_full_queue_says_so),
#undef CASE
  };
  return contract_group("rows", tests, sizeof(tests) / sizeof(tests[0]), contract_watch);
}
