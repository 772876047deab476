/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's address as it travels: read as written, and refused where a byte makes no sense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "connection.h"

static struct rc_blob whole(void)
{
  struct rc_blob blob = {.is_ethernet = true,
                         .gid_type = VB_GID_ROCE_V2,
                         .mtu = IBV_MTU_4096,
                         .rd_atomic = 16,
                         .lid = 0x1122,
                         .gid = {1, [15] = 16},
                         .ece = {0x15b3, 0x30000002},
                         .cm_port = 4791,
                         .cm_token = UINT64_C(0x0102030405060708),
                         .is_receiver = true,
                         .is_sender = true,
                         .reconnects = true,
                         .has_runs = 1,
                         .lanes = 2,
                         .initial = UINT64_C(0xfffffffffffffff0),
                         .control_receives = 32,
                         .control_bytes = 512,
                         .address = UINT64_C(0x7fff00001000),
                         .rkey = 0xdeadbeef,
                         .stride = 4096,
                         .payload_max = 4000,
                         .slots = 100,
                         .share = 40,
                         .run_count = 2,
                         .runs = {{10, 30}, {90, 10}}};
  for (uint32_t i = 0; i < RC_LANES_MAX; i++) {
    blob.responders[i] = (struct rc_qp_address){100 + i, 200 + i};
    blob.qps[i] = (struct rc_qp_address){0xabcdef + i, 0xffffff - i};
  }
  return blob;
}

static bool passes(const struct rc_blob *blob, struct rc_blob *read)
{
  uint8_t bytes[RC_BLOB_BYTES];
  rc_blob_write(blob, bytes);
  return rc_blob_read(bytes, sizeof(bytes), read);
}

static void blob_is_read_as_written(void **state)
{
  struct rc_blob blob, read;

  (void)state;
  memset(&blob, 0, sizeof(blob));
  blob = whole();
  assert_true(passes(&blob, &read));
  assert_int_equal(read.gid_type, blob.gid_type);
  assert_int_equal(read.mtu, blob.mtu);
  assert_int_equal(read.ece.vendor, blob.ece.vendor);
  assert_int_equal(read.ece.options, blob.ece.options);
  assert_int_equal(read.rd_atomic, blob.rd_atomic);
  assert_int_equal(read.lid, blob.lid);
  assert_memory_equal(read.gid, blob.gid, 16);
  assert_int_equal(read.cm_port, blob.cm_port);
  assert_int_equal(read.cm_token, blob.cm_token);
  assert_int_equal(read.lanes, blob.lanes);
  assert_int_equal(read.has_runs, 1);
  assert_memory_equal(read.qps, blob.qps, sizeof(blob.qps));
  assert_memory_equal(read.responders, blob.responders, sizeof(blob.responders));
  assert_int_equal(read.initial, blob.initial);
  assert_int_equal(read.control_receives, blob.control_receives);
  assert_int_equal(read.control_bytes, blob.control_bytes);
  assert_int_equal(read.address, blob.address);
  assert_int_equal(read.rkey, blob.rkey);
  assert_int_equal(read.stride, blob.stride);
  assert_int_equal(read.payload_max, blob.payload_max);
  assert_int_equal(read.slots, blob.slots);
  assert_int_equal(read.share, blob.share);
  assert_int_equal(read.run_count, blob.run_count);
  assert_memory_equal(read.runs, blob.runs, sizeof(blob.runs));
}

/* Eight of one byte: each alone arrives as itself. */
static void flags_stay_apart(void **state)
{
  struct rc_blob read;

  (void)state;
  for (uint32_t i = 0; i < 8; i++) {
    struct rc_blob blob = whole();
    bool *const flags[] = {&blob.is_ethernet, &blob.is_sender, &blob.is_receiver, &blob.is_rma,
                           &blob.is_cm,       &blob.sends,     &blob.reconnects,  &blob.is_split};
    for (uint32_t k = 0; k < 8; k++)
      *flags[k] = k == i;
    blob.is_rma |= i != 1 && i != 2; /* it has to be something */
    assert_true(passes(&blob, &read));
    const bool got[] = {read.is_ethernet, read.is_sender, read.is_receiver, read.is_rma,
                        read.is_cm,       read.sends,     read.reconnects,  read.is_split};
    for (uint32_t k = 0; k < 8; k++)
      assert_int_equal(got[k], k == i || (k == 3 && i != 1 && i != 2));
  }
}

#define REFUSED(change)                                                                            \
  do {                                                                                             \
    struct rc_blob blob = whole(), read_;                                                          \
    change;                                                                                        \
    assert_false(passes(&blob, &read_));                                                           \
  } while (0)
#define TAKEN(change)                                                                              \
  do {                                                                                             \
    struct rc_blob blob = whole(), read_;                                                          \
    change;                                                                                        \
    assert_true(passes(&blob, &read_));                                                            \
  } while (0)

static void queue_pairs_that_cannot_be_are_refused(void **state)
{
  (void)state;
  REFUSED(blob.mtu = 0);
  REFUSED(blob.mtu = IBV_MTU_4096 + 1);
  REFUSED(blob.qps[0].qpn = 0x1000000);
  REFUSED(blob.qps[0].psn = 0x1000000);
  REFUSED(blob.gid_type = VB_GID_ROCE_V2 + 1);
  REFUSED(blob.has_runs = 2);
  REFUSED(blob.lanes = 0);
  REFUSED(blob.lanes = RC_LANES_MAX + 1);
  TAKEN(blob.lanes = RC_LANES_MAX);
  REFUSED(blob.qps[RC_LANES_MAX - 1].qpn = 0x1000000);
  REFUSED(blob.qps[1].psn = 0x1000000);
  REFUSED(blob.responders[RC_LANES_MAX - 1].qpn = 0x1000000);
  REFUSED(blob.responders[0].psn = 0x1000000);
  REFUSED((blob.is_sender = blob.is_receiver = false));
  TAKEN((blob.is_sender = blob.is_receiver = false, blob.is_rma = true));
}

static void senders_need_receives_for_credit(void **state)
{
  (void)state;
  REFUSED(blob.control_receives = 0);
  REFUSED(blob.control_bytes = sizeof(struct vb_run) - 1);
  TAKEN((blob.is_sender = false, blob.control_receives = 0));
}

/* A receiver accepts connections, so it has a port. */
static void receivers_by_rdma_cm_have_a_port(void **state)
{
  (void)state;
  TAKEN(blob.is_cm = true);
  REFUSED((blob.is_cm = true, blob.cm_port = 0));
  TAKEN((blob.is_cm = true, blob.cm_port = 0, blob.is_receiver = false));
}

static void slots_that_cannot_be_are_refused(void **state)
{
  (void)state;
  REFUSED(blob.slots = 0);
  REFUSED(blob.slots = VB_SLOTS_MAX + 1);
  REFUSED(blob.share = 0);
  REFUSED(blob.share = 101);
  REFUSED(blob.payload_max = 0);
  REFUSED(blob.stride = 3999);
  TAKEN(blob.stride = 4000);
  REFUSED(blob.stride = UINT64_MAX / VB_SLOTS_MAX + 1); /* a slot's place would pass 64 bits */
  TAKEN((blob.is_receiver = false, blob.slots = 0));
}

static void runs_lie_within_slots_and_share(void **state)
{
  (void)state;
  REFUSED(blob.run_count = RC_BLOB_RUNS + 1);
  REFUSED(blob.runs[1].first = 100);
  REFUSED(blob.runs[1].first = 91);
  REFUSED(blob.runs[1].first = UINT32_MAX - 4);
  REFUSED((blob.runs[0].first = 0, blob.runs[0].count = 31)); /* 41 of a share of 40 */
  REFUSED(blob.runs[0].count = UINT32_MAX);
  TAKEN(blob.runs[2].count = 999); /* not of the two */
}

static void other_bytes_are_no_address(void **state)
{
  const struct rc_blob blob = whole();
  uint8_t bytes[RC_BLOB_BYTES + 1] = {0};
  struct rc_blob read;

  (void)state;
  rc_blob_write(&blob, bytes);
  assert_false(rc_blob_read(bytes, RC_BLOB_BYTES - 1, &read));
  assert_false(rc_blob_read(bytes, RC_BLOB_BYTES + 1, &read));
  assert_false(rc_blob_read(bytes, 0, &read));
  for (uint32_t i = 0; i < 8; i++) {
    bytes[i] ^= 1;
    assert_false(rc_blob_read(bytes, RC_BLOB_BYTES, &read));
    bytes[i] ^= 1;
  }
  assert_true(rc_blob_read(bytes, RC_BLOB_BYTES, &read));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blob_is_read_as_written),
      cmocka_unit_test(flags_stay_apart),
      cmocka_unit_test(queue_pairs_that_cannot_be_are_refused),
      cmocka_unit_test(senders_need_receives_for_credit),
      cmocka_unit_test(receivers_by_rdma_cm_have_a_port),
      cmocka_unit_test(slots_that_cannot_be_are_refused),
      cmocka_unit_test(runs_lie_within_slots_and_share),
      cmocka_unit_test(other_bytes_are_no_address),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
