/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided access: ranges as they travel, checks, work requests, and what a FLUSH reads. */
#include <endian.h>

#include "ops.h"
#include "request.h"
#include "support.h"

/* Where a packed range has them. */
enum { AT_ADDRESS = 8, AT_LENGTH = 16, AT_ACCESS = 28, AT_FLAGS = 36 };

static uint8_t bytes[VB_REMOTE_BYTES + 1];
static struct pst_blob blob;
static struct ibv_mr scratch_mr = {.lkey = 66};
static uint8_t scratch[VB_SCRATCH_BYTES];
static struct pst_mr offered; /* of this end */
static struct ibv_mr flush_mr = {.rkey = 34};

static int begin(void **state)
{
  (void)state;
  start_support(1);
  blob = (struct pst_blob){.capacity = VB_REMOTE_BYTES, .bytes = bytes};
  worker.scratch = scratch;
  worker.scratch_mr = &scratch_mr;
  offered = memory;
  offered.access = VB_REMOTE_ACCESS;
  return 0;
}

static int end(void **state)
{
  while (endpoint.remotes)
    vb_remote_close(&endpoint, endpoint.remotes);
  return stop_support(state);
}

/* ---- Ranges as they travel ------------------------------------------------------------------ */

static struct pst_remote *pack_and_open(void)
{
  struct pst_remote *opened = NULL;

  assert_int_equal(vb_mr_pack(&device, &offered, &blob), 0);
  assert_int_equal(blob.length, VB_REMOTE_BYTES);
  assert_int_equal(vb_remote_open(&endpoint, &blob, &opened), 0);
  assert_ptr_equal(endpoint.remotes, opened);
  return opened;
}

static void what_is_packed_is_opened(void **state)
{
  (void)state;
  const struct pst_remote *opened = pack_and_open();
  assert_ptr_equal(opened->endpoint, &endpoint);
  assert_int_equal(opened->address, MEMORY);
  assert_int_equal(opened->length, LENGTH);
  assert_int_equal(opened->rkey, 78);
  assert_int_equal(opened->access, VB_REMOTE_ACCESS);
  assert_false(opened->is_relaxed || opened->is_unflushed);
  /* Local rights do not travel. */
  offered.access = PST_ACCESS_REMOTE_ATOMIC | PST_ACCESS_LOCAL_WRITE;
  device.relaxed_offered = IBV_ACCESS_RELAXED_ORDERING;
  opened = pack_and_open();
  assert_int_equal(opened->access, PST_ACCESS_REMOTE_ATOMIC);
  assert_true(opened->is_relaxed);
}

/* The range's own key where it may be read, else that of its first byte, or none. */
static void flushes_have_a_key_to_read_by(void **state)
{
  (void)state;
  const struct pst_remote *opened = pack_and_open();
  assert_true(opened->has_flush);
  assert_int_equal(opened->flush_rkey, 78);
  offered.access = PST_ACCESS_REMOTE_WRITE;
  opened = pack_and_open();
  assert_false(opened->has_flush);
  assert_int_equal(opened->flush_rkey, 0);
  offered.has_flush = true;
  offered.flush.mr = &flush_mr;
  opened = pack_and_open();
  assert_true(opened->has_flush);
  assert_int_equal(opened->rkey, 78);
  assert_int_equal(opened->flush_rkey, 34);
}

static void what_no_flush_reads_needs_no_scratch(void **state)
{
  (void)state;
  worker.scratch = NULL;
  worker.scratch_mr = NULL; /* there is no device to register another with */
  offered.access = PST_ACCESS_REMOTE_WRITE;
  pack_and_open();
  assert_null(worker.scratch);
}

static void only_remote_rights_are_packed(void **state)
{
  (void)state;
  offered.access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING;
  assert_int_equal(vb_mr_pack(&device, &offered, &blob), -EACCES);
  assert_int_equal(blob.length, 0);
  offered.access = VB_REMOTE_ACCESS;
  blob.capacity = VB_REMOTE_BYTES - 1;
  assert_int_equal(vb_mr_pack(&device, &offered, &blob), -ENOSPC);
}

static void expect_refused(void)
{
  struct pst_remote *opened = &remote;

  fake_log_clear();
  assert_int_equal(vb_remote_open(&endpoint, &blob, &opened), -EPROTO);
  assert_ptr_equal(opened, &remote);
  assert_null(endpoint.remotes);
  assert_non_null(
      strstr(fake_log(), "camera: the description of the peer's memory is not one of verbs_rc's"));
}

static void put32(uint32_t at, uint32_t value)
{
  value = htobe32(value);
  memcpy(bytes + at, &value, sizeof(value));
}

static void put64(uint32_t at, uint64_t value)
{
  value = htobe64(value);
  memcpy(bytes + at, &value, sizeof(value));
}

static void other_bytes_are_refused(void **state)
{
  (void)state;
  vb_remote_close(&endpoint, pack_and_open());
  for (uint32_t i = 0; i < 8; i++) {
    bytes[i] ^= 1;
    expect_refused();
    bytes[i] ^= 1;
  }
  for (uint32_t length = VB_REMOTE_BYTES - 1; length <= VB_REMOTE_BYTES + 1; length += 2) {
    blob.length = length;
    expect_refused();
  }
  blob.length = VB_REMOTE_BYTES;
  put32(AT_FLAGS, 4);
  expect_refused();
  put32(AT_FLAGS, 3);
  put32(AT_ACCESS, VB_REMOTE_ACCESS | PST_ACCESS_LOCAL_READ);
  expect_refused();
  put32(AT_ACCESS, UINT32_MAX);
  expect_refused();
  put32(AT_ACCESS, VB_REMOTE_ACCESS);
  put64(AT_ADDRESS, UINT64_MAX - LENGTH + 1);
  expect_refused();
  put64(AT_ADDRESS, 1);
  put64(AT_LENGTH, UINT64_MAX);
  expect_refused();
  put64(AT_LENGTH, UINT64_MAX - 1); /* as long as a range may be */
  struct pst_remote *opened;
  assert_int_equal(vb_remote_open(&endpoint, &blob, &opened), 0);
}

static void a_closed_range_is_forgotten(void **state)
{
  (void)state;
  struct pst_remote *first = pack_and_open(), *second = pack_and_open(), *third = pack_and_open();
  vb_written(&endpoint, first);
  vb_written(&endpoint, third);
  vb_written(&endpoint, second);
  vb_remote_close(&endpoint, third); /* the middle of what is unflushed */
  assert_ptr_equal(endpoint.unflushed, second);
  assert_ptr_equal(second->next_unflushed, first);
  assert_null(first->next_unflushed);
  assert_ptr_equal(endpoint.remotes, second);
  vb_remote_close(&endpoint, second);
  assert_null(endpoint.written);
  assert_ptr_equal(endpoint.unflushed, first);
  vb_remote_close(&endpoint, &remote); /* which it has not */
  assert_ptr_equal(endpoint.remotes, first);
}

/* ---- Checks --------------------------------------------------------------------------------- */

static struct pst_request request_of(uint8_t opcode)
{
  struct pst_request request = {
      .opcode = opcode, .local.mr = &memory, .offset = 100, .arg.length = 200, .cookie = 5};

  if (opcode == PST_OP_FETCH_ADD || opcode == PST_OP_COMPARE_SWAP) {
    request.arg.compare = 11;
    request.u.atomic = (struct pst_atomic_target){.remote = &remote, .offset = 16, .operand = 12};
  } else
    request.u.rma = (struct pst_rma_target){.remote = &remote, .offset = 1000};
  return request;
}

#define EXPECT(opcode_, code, spoil)                                                               \
  do {                                                                                             \
    begin(NULL);                                                                                   \
    struct pst_request r = request_of(opcode_);                                                    \
    spoil;                                                                                         \
    const int rc_ = vb_rma_check(&endpoint, &r);                                                   \
    if (rc_ != (code))                                                                             \
      fail_msg("%d instead of %d: %s", rc_, (code), #spoil);                                       \
  } while (0)

static void writes_and_reads_are_checked(void **state)
{
  static const uint8_t both[] = {PST_OP_WRITE, PST_OP_READ};
  static struct vb_domain stranger;

  (void)state;
  for (uint32_t i = 0; i < 2; i++) {
    const uint8_t op = both[i];
    EXPECT(op, 0, (void)0);
    EXPECT(op, 0, r.flags = PST_REQUEST_FENCE);
    EXPECT(op, -EINVAL, r.flags = PST_REQUEST_EXCLUSIVE);
    EXPECT(op, -EINVAL, endpoint.roles = PST_ROLE_SENDER);
    EXPECT(op, -EINVAL, r.u.rma.reserved = 1);
    EXPECT(op, -EINVAL, r.local.mr = NULL);
    EXPECT(op, 0, (r.local.mr = NULL, r.arg.length = 0));
    EXPECT(op, -EINVAL, r.offset = LENGTH - 199);
    EXPECT(op, 0, r.offset = LENGTH - 200);
    EXPECT(op, -EINVAL, memory.domain = &stranger);
    EXPECT(op, -E2BIG, r.piece_count = PIECES + 1);
    EXPECT(op, -EINVAL, r.u.rma.remote = NULL);
    EXPECT(op, -EINVAL, remote.endpoint = NULL);
    EXPECT(op, -EACCES, r.u.rma.offset = LENGTH - 199);
    EXPECT(op, 0, r.u.rma.offset = LENGTH - 200);
    EXPECT(op, -EACCES, r.u.rma.offset = UINT64_MAX - 50);
    EXPECT(op, -EMSGSIZE, r.arg.length = device.message_max + 1);
    EXPECT(op, 0, r.arg.length = device.message_max);
  }
  /* Each needs rights of its own, at either end. */
  EXPECT(PST_OP_WRITE, -EACCES, remote.access &= ~(uint32_t)PST_ACCESS_REMOTE_WRITE);
  EXPECT(PST_OP_WRITE, 0, remote.access = PST_ACCESS_REMOTE_WRITE);
  EXPECT(PST_OP_WRITE, -EINVAL, memory.access = PST_ACCESS_LOCAL_WRITE);
  EXPECT(PST_OP_READ, -EACCES, remote.access &= ~(uint32_t)PST_ACCESS_REMOTE_READ);
  EXPECT(PST_OP_READ, 0, remote.access = PST_ACCESS_REMOTE_READ);
  EXPECT(PST_OP_READ, -EINVAL, memory.access = PST_ACCESS_LOCAL_READ);
}

static void atomics_are_checked(void **state)
{
  static const uint8_t both[] = {PST_OP_FETCH_ADD, PST_OP_COMPARE_SWAP};

  (void)state;
  for (uint32_t i = 0; i < 2; i++) {
    const uint8_t op = both[i];
    EXPECT(op, 0, (void)0);
    EXPECT(op, -EINVAL, endpoint.roles = PST_ROLE_SENDER);
    EXPECT(op, -EOPNOTSUPP, device.capabilities &= ~(uint64_t)PST_CAP_ATOMIC);
    EXPECT(op, -EINVAL, r.piece_count = 1);
    EXPECT(op, -EINVAL, r.local.mr = NULL);
    EXPECT(op, -EINVAL, memory.access = PST_ACCESS_LOCAL_READ);
    EXPECT(op, -EINVAL, r.offset = LENGTH - 7);
    EXPECT(op, 0, r.offset = LENGTH - 8);
    EXPECT(op, -EINVAL, r.u.atomic.remote = NULL);
    EXPECT(op, -EINVAL, remote.endpoint = NULL);
    EXPECT(op, -EACCES, remote.access &= ~(uint32_t)PST_ACCESS_REMOTE_ATOMIC);
    EXPECT(op, -EACCES, r.u.atomic.offset = LENGTH);
    EXPECT(op, 0, r.u.atomic.offset = LENGTH - 8);
    EXPECT(op, -EINVAL, r.u.atomic.offset = 12);
    EXPECT(op, -EINVAL, remote.address += 4); /* it is the sum that counts */
    EXPECT(op, 0, (remote.address += 4, r.u.atomic.offset = 12));
  }
}

/* ---- Work requests -------------------------------------------------------------------------- */

static struct ibv_send_wr *build(const struct pst_request *request)
{
  struct ibv_send_wr *wr = endpoint.sq.wrs;

  wr->num_sge = 0;
  wr->send_flags = 0;
  vb_rma_build(&endpoint, wr, request);
  return wr;
}

static void expect_piece(const struct ibv_send_wr *wr, int i, uint64_t address, uint32_t length)
{
  assert_int_equal(wr->sg_list[i].addr, address);
  assert_int_equal(wr->sg_list[i].length, length);
  assert_int_equal(wr->sg_list[i].lkey, 77);
}

static void writes_and_reads_are_built(void **state)
{
  static const struct pst_piece pieces[] = {
      {&memory, 0, 8, 0}, {&memory, 300, 0, 0}, {&memory, 64, 16, 0}};

  (void)state;
  struct pst_request request = request_of(PST_OP_WRITE);
  const struct ibv_send_wr *wr = build(&request);
  assert_int_equal(wr->opcode, IBV_WR_RDMA_WRITE);
  assert_int_equal(wr->wr.rdma.remote_addr, REMOTE + 1000);
  assert_int_equal(wr->wr.rdma.rkey, 87);
  assert_int_equal(wr->num_sge, 1);
  assert_int_equal(wr->send_flags, 0);
  expect_piece(wr, 0, MEMORY + 100, 200);
  request.local.pieces = pieces;
  request.piece_count = 3;
  request.arg.length = 24;
  wr = build(&request);
  assert_int_equal(wr->num_sge, 2); /* a piece without bytes goes nowhere */
  assert_int_equal(wr->send_flags, IBV_SEND_INLINE);
  expect_piece(wr, 0, MEMORY, 8);
  expect_piece(wr, 1, MEMORY + 64, 16);
  memory.is_cpu_readable = false;
  assert_int_equal(build(&request)->send_flags, 0);
  assert_ptr_equal(endpoint.written, &remote);
  assert_ptr_equal(endpoint.unflushed, &remote);
  begin(NULL);
  request.opcode = PST_OP_READ;
  wr = build(&request);
  assert_int_equal(wr->opcode, IBV_WR_RDMA_READ);
  assert_int_equal(wr->wr.rdma.remote_addr, REMOTE + 1000);
  assert_int_equal(wr->wr.rdma.rkey, 87);
  assert_int_equal(wr->num_sge, 2);
  assert_int_equal(wr->send_flags, 0); /* never inline: bytes come */
  assert_null(endpoint.unflushed);
}

static void writes_without_bytes_are_not_inline(void **state)
{
  (void)state;
  struct pst_request request = request_of(PST_OP_WRITE);
  request.arg.length = 0;
  assert_int_equal(build(&request)->num_sge, 0);
  assert_int_equal(build(&request)->send_flags, 0);
}

static void atomics_are_built(void **state)
{
  (void)state;
  struct pst_request request = request_of(PST_OP_FETCH_ADD);
  const struct ibv_send_wr *wr = build(&request);
  assert_int_equal(wr->opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
  assert_int_equal(wr->wr.atomic.remote_addr, REMOTE + 16);
  assert_int_equal(wr->wr.atomic.rkey, 87);
  assert_int_equal(wr->wr.atomic.compare_add, 12);
  assert_int_equal(wr->wr.atomic.swap, 0);
  assert_int_equal(wr->num_sge, 1);
  expect_piece(wr, 0, MEMORY + 100, 8);
  assert_ptr_equal(endpoint.unflushed, &remote);
  assert_null(endpoint.written); /* a right to write was not looked at */
  request = request_of(PST_OP_COMPARE_SWAP);
  wr = build(&request);
  assert_int_equal(wr->opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
  assert_int_equal(wr->wr.atomic.remote_addr, REMOTE + 16);
  assert_int_equal(wr->wr.atomic.compare_add, 11);
  assert_int_equal(wr->wr.atomic.swap, 12);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      CASE(what_is_packed_is_opened),
      CASE(flushes_have_a_key_to_read_by),
      CASE(what_no_flush_reads_needs_no_scratch),
      CASE(only_remote_rights_are_packed),
      CASE(other_bytes_are_refused),
      CASE(a_closed_range_is_forgotten),
      CASE(writes_and_reads_are_checked),
      CASE(atomics_are_checked),
      CASE(writes_and_reads_are_built),
      CASE(writes_without_bytes_are_not_inline),
      CASE(atomics_are_built),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
