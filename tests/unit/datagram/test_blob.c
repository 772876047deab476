/* SPDX-License-Identifier: Apache-2.0 */
/* The address that ends exchange, byte by byte. */
#include "support.h"

static const struct dg_blob whole = {.framing = DG_FRAMING_RTP,
                                     .family = 6,
                                     .is_receiver = true,
                                     .is_bound = true,
                                     .count = 1,
                                     .port = 0x1234,
                                     .initial = 0xa1a2a3a4,
                                     .ssrc = 0xb1b2b3b4,
                                     .nonce = UINT64_C(0xc1c2c3c4c5c6c7c8),
                                     .payload_type = 97,
                                     .identity = {1, 2, [23] = 24},
                                     .addresses = {{0x20, 1, [15] = 9}, [7] = {[15] = 0x77}}};

static void blob_has_its_bytes(void **state)
{
  static const uint8_t head[] = {'p',  's',  't',  'u',  'd',  'p',  0,    1,    2,    6,    1,
                                 1,    0x12, 0x34, 97,   1,    0xa1, 0xa2, 0xa3, 0xa4, 0xb1, 0xb2,
                                 0xb3, 0xb4, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7, 0xc8};
  uint8_t bytes[DG_BLOB_BYTES];

  (void)state;
  dg_blob_write(&whole, bytes);
  assert_memory_equal(bytes, head, sizeof(head));
  assert_memory_equal(bytes + 32, whole.identity, 24);
  assert_memory_equal(bytes + 56, whole.addresses, sizeof(whole.addresses));
}

static void blob_is_read_as_written(void **state)
{
  uint8_t bytes[DG_BLOB_BYTES];
  struct dg_blob blob;

  (void)state;
  dg_blob_write(&whole, bytes);
  assert_true(dg_blob_read(bytes, sizeof(bytes), &blob));
  assert_memory_equal(&blob, &whole, sizeof(blob));
}

static bool reads_with(uint32_t at, uint8_t value)
{
  uint8_t bytes[DG_BLOB_BYTES];
  struct dg_blob blob;
  dg_blob_write(&whole, bytes);
  bytes[at] = value;
  return dg_blob_read(bytes, sizeof(bytes), &blob);
}

/* Each byte of it came over a network. */
static void blob_with_a_wrong_byte_is_refused(void **state)
{
  uint8_t bytes[DG_BLOB_BYTES + 1];
  struct dg_blob blob;

  (void)state;
  for (uint32_t i = 0; i < 8; i++)
    assert_false(reads_with(i, 'q'));
  assert_false(reads_with(8, 3)); /* framing */
  assert_true(reads_with(8, 0));
  assert_false(reads_with(9, 5)); /* family */
  assert_false(reads_with(10, 2));
  assert_false(reads_with(15, 2));
  assert_false(reads_with(11, 0)); /* bound, to none */
  assert_false(reads_with(11, 2)); /* or to two */
  dg_blob_write(&whole, bytes);
  bytes[15] = 0;
  bytes[11] = DG_ADDRESSES_MAX;
  assert_true(dg_blob_read(bytes, DG_BLOB_BYTES, &blob));
  bytes[11] = DG_ADDRESSES_MAX + 1;
  assert_false(dg_blob_read(bytes, DG_BLOB_BYTES, &blob));
  bytes[11] = 1;
  assert_false(dg_blob_read(bytes, DG_BLOB_BYTES - 1, &blob));
  assert_false(dg_blob_read(bytes, DG_BLOB_BYTES + 1, &blob));
  assert_false(dg_blob_read(bytes, 0, &blob));
  bytes[12] = bytes[13] = 0; /* no port */
  assert_false(dg_blob_read(bytes, DG_BLOB_BYTES, &blob));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blob_has_its_bytes),
      cmocka_unit_test(blob_is_read_as_written),
      cmocka_unit_test(blob_with_a_wrong_byte_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
