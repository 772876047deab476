/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's address as it travels: read as written, and refused where a byte makes no sense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "../verbs/gid.h"
#include "address.h"

static const struct dc_blob whole = {.is_ethernet = true,
                                     .is_sender = true,
                                     .is_receiver = true,
                                     .gid_type = VB_GID_ROCE_V2,
                                     .mtu = IBV_MTU_4096,
                                     .rd_atomic = 16,
                                     .lid = 0x1122,
                                     .number = 0xfedc,
                                     .gid = {1, [15] = 16},
                                     .control = 0xabcdef,
                                     .data = 0x123456,
                                     .key = UINT64_C(0x0102030405060708),
                                     .initial = UINT64_C(0xfffffffffffffff0),
                                     .payload_max = 4000,
                                     .credits = 100,
                                     .messages = UINT64_C(0x1122334455667788),
                                     .heard = 0x99aabbcc};

static bool passes(const struct dc_blob *blob, struct dc_blob *read)
{
  uint8_t bytes[DC_BLOB_BYTES];

  dc_blob_write(blob, bytes);
  return dc_blob_read(bytes, sizeof(bytes), read);
}

static void blob_is_read_as_written(void **state)
{
  struct dc_blob blob, read;

  (void)state;
  memcpy(&blob, &whole, sizeof(blob));
  assert_true(passes(&blob, &read));
  assert_memory_equal(&read.gid, &whole.gid, sizeof(read.gid));
  assert_true(read.is_ethernet && read.is_sender && read.is_receiver && !read.is_rma);
  assert_int_equal(read.gid_type, whole.gid_type);
  assert_int_equal(read.mtu, whole.mtu);
  assert_int_equal(read.rd_atomic, whole.rd_atomic);
  assert_int_equal(read.lid, whole.lid);
  assert_int_equal(read.number, whole.number);
  assert_int_equal(read.control, whole.control);
  assert_int_equal(read.data, whole.data);
  assert_true(read.key == whole.key && read.initial == whole.initial);
  assert_int_equal(read.payload_max, whole.payload_max);
  assert_int_equal(read.credits, whole.credits);
  assert_true(read.messages == whole.messages && read.heard == whole.heard);
}

static void blob_of_another_is_refused(void **state)
{
  uint8_t bytes[DC_BLOB_BYTES + 1];
  struct dc_blob read;

  (void)state;
  dc_blob_write(&whole, bytes);
  assert_false(dc_blob_read(bytes, DC_BLOB_BYTES + 1, &read));
  assert_false(dc_blob_read(bytes, DC_BLOB_BYTES - 1, &read));
  for (uint32_t i = 0; i < 8; i++) {
    bytes[i] ^= 1;
    assert_false(dc_blob_read(bytes, DC_BLOB_BYTES, &read));
    bytes[i] ^= 1;
  }
  assert_true(dc_blob_read(bytes, DC_BLOB_BYTES, &read));
}

#define REFUSED(member, value)                                                                     \
  do {                                                                                             \
    struct dc_blob wrong = whole, read;                                                            \
    wrong.member = (value);                                                                        \
    assert_false(passes(&wrong, &read));                                                           \
  } while (0)

static void values_without_sense_are_refused(void **state)
{
  (void)state;
  REFUSED(mtu, 0);
  REFUSED(mtu, IBV_MTU_4096 + 1);
  REFUSED(gid_type, VB_GID_ROCE_V2 + 1);
  REFUSED(control, 0);
  REFUSED(control, 0x1000000);
  REFUSED(data, 0);
  REFUSED(data, 0x1000000);
  REFUSED(payload_max, 0);
  REFUSED(credits, DC_CREDITS_MAX + 1);
  struct dc_blob nobody = whole, read;
  nobody.is_sender = nobody.is_receiver = nobody.is_rma = false;
  assert_false(passes(&nobody, &read));
}

static void proof_tells_addresses_apart(void **state)
{
  struct dc_blob other = whole;

  (void)state;
  assert_in_range(dc_blob_proof(&whole), 0, 0x1fff);
  other.number++;
  assert_int_not_equal(dc_blob_proof(&other), dc_blob_proof(&whole));
  other = whole;
  other.control++; /* made anew */
  assert_int_equal(dc_blob_proof(&other), dc_blob_proof(&whole));
  other.key++;
  assert_int_not_equal(dc_blob_proof(&other), dc_blob_proof(&whole));
}

int main(void)
{
  const struct CMUnitTest cases[] = {
      cmocka_unit_test(blob_is_read_as_written),
      cmocka_unit_test(blob_of_another_is_refused),
      cmocka_unit_test(values_without_sense_are_refused),
      cmocka_unit_test(proof_tells_addresses_apart),
  };

  return cmocka_run_group_tests(cases, NULL, NULL) ? 1 : 0;
}
