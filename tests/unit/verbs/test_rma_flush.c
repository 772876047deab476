/* SPDX-License-Identifier: Apache-2.0 */
/* Reads of a FLUSH, or of a fenced request, from the peer's ranges that were written. */
#include "request.h"
#include "support.h"

static struct ibv_mr scratch_mr = {.lkey = 66};
static uint8_t scratch[VB_SCRATCH_BYTES];
static struct pst_remote first, second, third;

static int begin(void **state)
{
  (void)state;
  start_support(1);
  worker.scratch = scratch;
  worker.scratch_mr = &scratch_mr;
  endpoint.sq.requests_max = endpoint.sq.posted_max =
      4; /* of 16: the others are the transport's own */
  first = second = third = remote;
  first.address += 0x1000;
  second.address += 0x2000;
  third.address += 0x3000;
  first.flush_rkey = 91;
  second.flush_rkey = 92;
  third.flush_rkey = 93;
  return 0;
}

static struct pst_request flush_of(struct pst_remote *of)
{
  return (struct pst_request){.opcode = PST_OP_FLUSH, .u.rma.remote = of};
}

static void expect_read(const struct ibv_send_wr *wr, const struct pst_remote *of)
{
  assert_int_equal(wr->opcode, IBV_WR_RDMA_READ);
  assert_int_equal(wr->wr.rdma.remote_addr, of->address);
  assert_int_equal(wr->wr.rdma.rkey, of->flush_rkey);
  assert_int_equal(wr->num_sge, 1);
  assert_int_equal(wr->sg_list[0].addr, (uintptr_t)scratch);
  assert_int_equal(wr->sg_list[0].length, 1);
  assert_int_equal(wr->sg_list[0].lkey, 66);
}

static const struct ibv_send_wr *build(struct pst_remote *of)
{
  const struct pst_request request = flush_of(of);
  struct ibv_send_wr *wr = endpoint.sq.wrs;

  wr->num_sge = 0;
  wr->wr.rdma.remote_addr = wr->wr.rdma.rkey = 1; /* of the request before */
  vb_flush_build(&endpoint, wr, &request);
  return wr;
}

static void expect_nothing_read(const struct ibv_send_wr *wr)
{
  assert_int_equal(wr->opcode, IBV_WR_RDMA_WRITE);
  assert_int_equal(wr->num_sge, 0);
  assert_int_equal(wr->wr.rdma.remote_addr, 0);
  assert_int_equal(wr->wr.rdma.rkey, 0);
}

static void flushes_are_checked(void **state)
{
  (void)state;
  struct pst_request request = flush_of(&first);
  assert_int_equal(vb_flush_check(&endpoint, &request), 0);
  first.endpoint = NULL;
  assert_int_equal(vb_flush_check(&endpoint, &request), -EINVAL);
  request.u.rma.remote = NULL;
  assert_int_equal(vb_flush_check(&endpoint, &request), 0);
  request.u.rma.reserved = 1;
  assert_int_equal(vb_flush_check(&endpoint, &request), -EINVAL);
  request.u.rma.reserved = 0;
  request.flags = PST_REQUEST_EXCLUSIVE;
  assert_int_equal(vb_flush_check(&endpoint, &request), -EINVAL);
}

static void nothing_written_is_an_empty_write(void **state)
{
  (void)state;
  expect_nothing_read(build(NULL));
}

static void what_was_written_is_read_once(void **state)
{
  (void)state;
  vb_written(&endpoint, &first);
  vb_written(&endpoint, &first);
  expect_read(build(NULL), &first);
  assert_null(endpoint.written); /* the next WRITE is to be read behind, too */
  assert_null(endpoint.unflushed);
  assert_false(first.is_unflushed);
  expect_nothing_read(build(NULL));
}

/* Whether it was written or not: another may have. */
static void the_range_that_a_flush_names_is_read(void **state)
{
  (void)state;
  vb_written(&endpoint, &first);
  vb_written(&endpoint, &second);
  vb_written(&endpoint, &third);
  expect_read(build(&second), &second);
  assert_ptr_equal(endpoint.unflushed, &third);
  assert_ptr_equal(third.next_unflushed, &first);
  expect_read(build(&second), &second);
  assert_ptr_equal(endpoint.unflushed, &third);
}

static void what_cannot_be_read_is_not(void **state)
{
  (void)state;
  first.has_flush = false;
  second.length = 0;
  vb_written(&endpoint, &first);
  vb_written(&endpoint, &second);
  assert_null(endpoint.unflushed);
  expect_nothing_read(build(&first));
  expect_nothing_read(build(&second));
  vb_written(&endpoint, &third);
  expect_read(build(&first), &third);
}

static bool needs_others(uint8_t opcode, uint8_t flags, struct pst_remote *of)
{
  struct pst_request request = {.opcode = opcode, .flags = flags};

  if (opcode == PST_OP_FETCH_ADD || opcode == PST_OP_COMPARE_SWAP)
    request.u.atomic.remote = of;
  else if (opcode != PST_OP_SEND)
    request.u.rma.remote = of;
  return vb_flush_needs_others(&endpoint, &request);
}

static void a_flush_of_all_needs_those_beside_its_own(void **state)
{
  (void)state;
  assert_false(needs_others(PST_OP_FLUSH, 0, NULL));
  vb_written(&endpoint, &first);
  assert_false(needs_others(PST_OP_FLUSH, 0, NULL));
  vb_written(&endpoint, &second);
  assert_true(needs_others(PST_OP_FLUSH, 0, NULL));
  assert_false(needs_others(PST_OP_FLUSH, 0, &first));
}

static void a_fence_needs_writes_into_other_ranges(void **state)
{
  static const uint8_t changes[] = {PST_OP_WRITE, PST_OP_FETCH_ADD, PST_OP_COMPARE_SWAP};

  for (uint32_t i = 0; i < 3; i++) {
    begin(state);
    assert_false(needs_others(changes[i], PST_REQUEST_FENCE, &first));
    vb_written(&endpoint, &first);
    assert_false(needs_others(changes[i], PST_REQUEST_FENCE, &first)); /* they keep their order */
    assert_true(needs_others(changes[i], PST_REQUEST_FENCE, &second));
    assert_false(needs_others(changes[i], 0, &second));
    first.is_relaxed = true;
    assert_true(needs_others(changes[i], PST_REQUEST_FENCE, &first));
    first.is_relaxed = false;
    vb_written(&endpoint, &second);
    assert_true(needs_others(changes[i], PST_REQUEST_FENCE, &second));
    stop_support(state);
  }
  begin(state);
  vb_written(&endpoint, &first);
  assert_false(needs_others(PST_OP_READ, PST_REQUEST_FENCE, &second));
}

/* By another queue pair a message does not come behind the WRITEs. */
static void a_fenced_message_needs_all_of_several_queue_pairs(void **state)
{
  (void)state;
  vb_written(&endpoint, &first);
  assert_false(needs_others(PST_OP_SEND, PST_REQUEST_FENCE, NULL));
  endpoint.lane_count = 2;
  assert_true(needs_others(PST_OP_SEND, PST_REQUEST_FENCE, NULL));
  assert_false(needs_others(PST_OP_SEND, 0, NULL));
  endpoint.unflushed = NULL;
  assert_false(needs_others(PST_OP_SEND, PST_REQUEST_FENCE, NULL));
}

static void write_three(void)
{
  vb_written(&endpoint, &first);
  vb_written(&endpoint, &second);
  vb_written(&endpoint, &third);
}

static void others_are_read_by_the_transport(void **state)
{
  (void)state;
  write_three();
  endpoint.sq.head = endpoint.sq.done = endpoint.sq.told = UINT64_C(0xfffffffff);
  endpoint.sq.sent[15] = (struct vb_sent){.opcode = PST_OP_WRITE, .cookie = 4};
  const struct pst_request flush = flush_of(NULL);
  assert_int_equal(vb_flush_others(&endpoint, &flush), 0);
  assert_int_equal(posted_count, 2); /* the FLUSH reads the last one */
  expect_read(&posted[0].wr, &third);
  expect_read(&posted[1].wr, &second);
  assert_int_equal(posted[0].wr.wr_id, WR_ID | 0xffffffff);
  assert_int_equal(posted[0].wr.send_flags, IBV_SEND_SIGNALED);
  assert_int_equal(posted[0].wr.imm_data, 0);
  assert_int_equal(endpoint.sq.head, UINT64_C(0x1000000001));
  assert_int_equal(endpoint.sq.sent[15].opcode, 0); /* nobody's request */
  assert_ptr_equal(endpoint.unflushed, &first);
  assert_int_equal(vb_flush_others(&endpoint, &flush), 0);
  assert_int_equal(posted_count, 2);
}

static void a_fence_reads_them_all(void **state)
{
  (void)state;
  write_three();
  const struct pst_request request = {
      .opcode = PST_OP_WRITE, .flags = PST_REQUEST_FENCE, .u.rma.remote = &remote};
  assert_int_equal(vb_flush_others(&endpoint, &request), 0);
  assert_int_equal(posted_count, 3);
  expect_read(&posted[2].wr, &first);
  assert_null(endpoint.unflushed);
}

/* Half of the spare sends are for credit, keepalives and the like. */
static void reads_leave_room_for_others(void **state)
{
  (void)state;
  write_three();
  endpoint.sq.head = QUEUE - 4 - VB_SPARE_SENDS / 2 - 1; /* 4 are for requests */
  const struct pst_request flush = flush_of(NULL);
  assert_int_equal(vb_flush_others(&endpoint, &flush), -EAGAIN);
  assert_int_equal(posted_count, 1);
  assert_ptr_equal(endpoint.unflushed, &second);
  endpoint.sq.told = 1; /* one more has come back */
  assert_int_equal(vb_flush_others(&endpoint, &flush), 0);
  assert_int_equal(posted_count, 2);
}

static void a_read_that_does_not_go_is_an_error(void **state)
{
  (void)state;
  write_three();
  posts_left = 0;
  const struct pst_request flush = flush_of(NULL);
  assert_int_equal(vb_flush_others(&endpoint, &flush), -ENOMEM);
  assert_int_equal(endpoint.sq.head, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, stop_support)
  const struct CMUnitTest tests[] = {
      CASE(flushes_are_checked),
      CASE(nothing_written_is_an_empty_write),
      CASE(what_was_written_is_read_once),
      CASE(the_range_that_a_flush_names_is_read),
      CASE(what_cannot_be_read_is_not),
      CASE(a_flush_of_all_needs_those_beside_its_own),
      CASE(a_fence_needs_writes_into_other_ranges),
      CASE(a_fenced_message_needs_all_of_several_queue_pairs),
      CASE(others_are_read_by_the_transport),
      CASE(a_fence_reads_them_all),
      CASE(reads_leave_room_for_others),
      CASE(a_read_that_does_not_go_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
