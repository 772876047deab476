/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums, against RFC 3720's own examples and against one bit after the other. */
#include "contract.h"

#include <errno.h>
#include <stdlib.h>

#define LENGTH (UINT64_C(600) << 10)

static struct pst_region region;
static struct pst_queue *queue;
static uint8_t *bytes; /* the region's contents */

static bool usable(void)
{
  return (contract.ops->capabilities & PST_MEMORY_CAP_CHECKSUM) &&
         (contract.ops->capabilities & PST_MEMORY_CAP_COPY);
}

static int setup(void **state)
{
  uint64_t x = 88172645463325252u;
  (void)state;
  if (!usable())
    return 0;
  region = contract_alloc(PST_ALLOC_NORMAL, LENGTH, 0, 0);
  queue = contract_queue();
  bytes = malloc(LENGTH);
  for (uint64_t i = 0; i < LENGTH; i++) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    bytes[i] = (uint8_t)(x >> 32);
  }
  contract_put(&region, 0, bytes, LENGTH);
  return 0;
}

static int teardown(void **state)
{
  (void)state;
  if (!usable())
    return 0;
  contract.ops->queue_close(queue);
  contract_free(&region);
  free(bytes);
  return 0;
}

#define need_sums() need_capability(PST_MEMORY_CAP_CHECKSUM | PST_MEMORY_CAP_COPY)

static uint32_t bit_by_bit(const uint8_t *at, uint64_t length)
{
  uint32_t crc = UINT32_MAX;
  for (uint64_t i = 0; i < length; i++) {
    crc ^= at[i];
    for (int bit = 0; bit < 8; bit++)
      crc = crc & 1 ? crc >> 1 ^ 0x82f63b78 : crc >> 1;
  }
  return ~crc;
}

/* A range of the region, and what its checksum came to. */
struct sum {
  uint64_t offset, length, ticket;
  uint32_t crc32c;
};

static int submit(struct sum *sum)
{
  return contract.ops->sum_range(queue, region.address + sum->offset, sum->length, &sum->crc32c,
                                 &sum->ticket);
}

static struct sum run(uint64_t offset, uint64_t length)
{
  struct sum sum = {.offset = offset, .length = length};
  assert_int_equal(submit(&sum), 0);
  contract_finish(queue, sum.ticket);
  return sum;
}

static void expect(const struct sum *sum)
{
  uint32_t right = bit_by_bit(bytes + sum->offset, sum->length);
  if (sum->crc32c != right)
    fail_msg("the CRC32C of %lu bytes at %lu is %08x, not %08x", (unsigned long)sum->length,
             (unsigned long)sum->offset, right, sum->crc32c);
}

/* RFC 3720, appendix B.4, whose bytes are the number's from the lowest. */
static void test_the_examples_of_the_rfc(void **state)
{
  contract_rule(
      "Compute the CRC-32C (Castagnoli; RFC 3720, appendix B.4) of `length` bytes at `address`, where the bytes are.");
  (void)state;
  need_sums();
  static const uint8_t read_pdu[48] = {
      0x01, 0xc0, [16] = 0x14, [22] = 0x04, [27] = 0x14, [31] = 0x18, 0x28, [40] = 0x02};
  static const uint32_t right[5] = {0x8a9136aa, 0x62a8ab43, 0x46dd794e, 0x113fdb5c, 0xd9963a56};
  memset(bytes, 0, 32);
  memset(bytes + 32, 0xff, 32);
  for (uint8_t i = 0; i < 32; i++) {
    bytes[64 + i] = i;
    bytes[96 + i] = 31 - i;
  }
  memcpy(bytes + 128, read_pdu, sizeof(read_pdu));
  contract_put(&region, 0, bytes, 256);
  for (uint32_t i = 0; i < 5; i++)
    assert_int_equal(run(32 * i, i < 4 ? 32 : sizeof(read_pdu)).crc32c, right[i]);
}

static void test_any_length_at_any_place(void **state)
{
  contract_rule(
      "Compute the CRC-32C (Castagnoli; RFC 3720, appendix B.4) of `length` bytes at `address`, where the bytes are.");
  (void)state;
  need_sums();
  static const uint64_t lengths[] = {0,     1,     2,     3,      4,      5,      8,
                                     63,    1024,  1462,  4095,   65531,  65532,  65533,
                                     65536, 65537, 70001, 131068, 131072, 131073, 500000};
  for (uint64_t place = 0; place < 5; place++)
    for (uint32_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
      const struct sum sum = run(1000 + place + 7 * i, lengths[i]);
      expect(&sum);
    }
}

static void test_they_are_written_by_the_poll_that_tells(void **state)
{
  contract_rule("*crc32c is written before queue_poll reports the ticket");
  (void)state;
  need_sums();
  struct sum sums[QUEUE_BATCHES];
  for (uint32_t i = 0; i < QUEUE_BATCHES; i++) {
    sums[i] = (struct sum){.offset = i, .length = 200000 + i};
    assert_int_equal(submit(&sums[i]), 0);
    assert_int_equal(sums[i].ticket, i + 1);
  }
  contract_finish(queue, QUEUE_BATCHES);
  for (uint32_t i = 0; i < QUEUE_BATCHES; i++)
    expect(&sums[i]);
}

static void test_they_are_of_what_was_copied_before(void **state)
{
  contract_rule(
      "It is a batch of one piece, whose ticket continues the count of copy_rows, fill_rows and verify_rows.");
  (void)state;
  need_sums();
  struct pst_copy_row piece = {region.address + 300000, region.address + 1, 100000, 0, 0, 1, 0};
  uint64_t ticket;
  assert_int_equal(contract.ops->copy_rows(queue, &piece, 1, &ticket), 0);
  const struct sum sum = run(1, 100000);
  assert_int_equal(sum.ticket, ticket + 1);
  assert_int_equal(sum.crc32c, bit_by_bit(bytes + 300000, 100000));
}

static void test_a_full_queue_takes_no_more(void **state)
{
  contract_rule("-EAGAIN: params.batches are under way");
  (void)state;
  need_sums();
  struct sum sum = {.offset = 3, .length = 100000};
  for (uint32_t i = 0; i <= QUEUE_BATCHES; i++) {
    int code = submit(&sum);
    if (code && i == QUEUE_BATCHES)
      assert_int_equal(code, -EAGAIN);
    else
      assert_int_equal(code, 0);
  }
  contract_finish(queue, sum.ticket);
  expect(&sum);
  assert_int_equal(submit(&sum), 0);
  contract_finish(queue, sum.ticket);
}

int contract_sums(void)
{
  const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
      CASE(test_the_examples_of_the_rfc),
      CASE(test_any_length_at_any_place),
      CASE(test_they_are_written_by_the_poll_that_tells),
      CASE(test_they_are_of_what_was_copied_before),
      CASE(test_a_full_queue_takes_no_more),
#undef CASE
  };
  return contract_group("checksums", tests, sizeof(tests) / sizeof(tests[0]), contract_watch);
}
