/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/ethernet/checksum.c. */
#include "support.h"

/* Word by word, as RFC 1071 has it in section 4.1. */
static uint16_t plain_sum(const uint8_t *bytes, size_t length)
{
  uint32_t sum = 0;

  for (size_t i = 0; i < length; i++)
    sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
  while (sum >> 16)
    sum = (sum & 0xffff) + (sum >> 16);
  return (uint16_t)sum;
}

static uint32_t as_number(uint16_t word)
{
  return eth_get16((const uint8_t *)&word);
}

static void example_of_rfc_1071(void **state)
{
  static const uint8_t bytes[] = {0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7};

  (void)state;
  assert_int_equal(as_number(eth_sum_fold(eth_sum(bytes, sizeof(bytes), 0))), 0xddf2);
  assert_int_equal(as_number(eth_sum_complement(eth_sum(bytes, sizeof(bytes), 0))), 0x220d);
}

static void try_variant(eth_sum_fn *sum, const uint8_t *bytes, size_t room)
{
  for (size_t length = 0; length <= 700; length++)
    for (size_t at = 0; at < 9; at++) {
      const struct eth_bytes only = guarded(bytes + at, (uint32_t)length, (uint32_t)length);
      assert_int_equal(as_number(eth_sum_fold(sum(only.bytes, length, 0))),
                       plain_sum(bytes + at, length));
    }
  for (size_t length = 0; length <= 256; length++)
    for (size_t at = 0; at < 256; at++)
      assert_int_equal(as_number(eth_sum_fold(sum(bytes + at, length, 0))),
                       plain_sum(bytes + at, length));
  assert_int_equal(as_number(eth_sum_fold(sum(bytes, room, 0))), plain_sum(bytes, room));
}

static void every_variant_sums_what_words_sum(void **state)
{
  enum { ROOM = 65535 };
  uint8_t *bytes = malloc(ROOM);
  const char *name;
  eth_sum_fn *sum;

  (void)state;
  for (uint32_t i = 0; i < ROOM; i++)
    bytes[i] = (uint8_t)(rand() >> 5);
  try_variant((eth_sum_fn *)(void (*)(void))eth_sum, bytes, ROOM);
  for (unsigned i = 0; i < 3; i++)
    if ((sum = eth_sum_variant(i, &name)))
      try_variant(sum, bytes, ROOM);
  assert_non_null(eth_sum_variant(0, &name));
  assert_null(eth_sum_variant(3, &name));
  memset(bytes, 0xff, ROOM); /* every carry there can be */
  for (unsigned i = 0; i < 3; i++)
    if ((sum = eth_sum_variant(i, &name)))
      try_variant(sum, bytes, ROOM);
  free(bytes);
}

static void parts_add_up(void **state)
{
  uint8_t bytes[99];

  (void)state;
  for (uint32_t i = 0; i < sizeof(bytes); i++)
    bytes[i] = (uint8_t)(rand() >> 5);
  const uint16_t all = eth_sum_fold(eth_sum(bytes, sizeof(bytes), 0));
  for (uint32_t cut = 0; cut <= sizeof(bytes); cut++) {
    const uint64_t first = eth_sum(bytes, cut, 0), rest = eth_sum(bytes + cut, 99 - cut, 0);
    assert_int_equal(eth_sum_fold(first + (cut % 2 ? eth_sum_odd(rest) : rest)), all);
  }
}

/* A checksum that comes out as 0 is sent as its other form; RFC 768. */
static void udp_never_sends_zero(void **state)
{
  (void)state;
  assert_int_equal(eth_sum_udp(UINT16_MAX), UINT16_MAX);
  assert_int_equal(eth_sum_complement(UINT16_MAX), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(example_of_rfc_1071),
      cmocka_unit_test(every_variant_sums_what_words_sum),
      cmocka_unit_test(parts_add_up),
      cmocka_unit_test(udp_never_sends_zero),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
