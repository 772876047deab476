/* SPDX-License-Identifier: Apache-2.0 */
/* Receives: there, long enough, and whose memory they are. */
#include "support.h"

#define with_pair(opcode, length)                                                                  \
  struct pair_attr pair_attr = pair_defaults();                                                    \
  struct pair pair;                                                                                \
  struct ibv_sge sge;                                                                              \
  (void)state;                                                                                     \
  pair_open(&pair, &pair_attr);                                                                    \
  memset(pair.a.bytes, 9, BYTES);                                                                  \
  struct ibv_send_wr wr = request(&pair, opcode, &sge, length)

static void test_send_and_receive(void **state)
{
  with_pair(IBV_WR_SEND_WITH_IMM, 3000);
  wr.imm_data = 0x11223344;
  assert_int_equal(post_recv(&pair.b, 5, BYTES), 0);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  struct ibv_wc wc = wait_wc(pair.b.cq);
  assert_int_equal(wc.status, IBV_WC_SUCCESS);
  assert_int_equal(wc.opcode, IBV_WC_RECV);
  assert_int_equal(wc.byte_len, 3000);
  assert_int_equal(wc.wr_id, 5);
  assert_int_equal(wc.qp_num, pair.b.qp->qp_num);
  assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
  assert_int_equal(wc.imm_data, 0x11223344);
  assert_memory_equal(pair.a.bytes, pair.b.bytes, 3000);
  assert_int_equal(pair.b.bytes[3000], 0);
  pair_close(&pair);
}

static void test_write_with_immediate_takes_a_receive(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE_WITH_IMM, 100);
  wr.imm_data = 5;
  assert_int_equal(post_recv(&pair.b, 5, 0), 0);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  struct ibv_wc wc = wait_wc(pair.b.cq);
  assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  assert_int_equal(wc.byte_len, 100);
  assert_memory_equal(pair.a.bytes, pair.b.bytes, 100);
  pair_close(&pair);
}

/* The CPU puts a small SEND's bytes in as its completion is polled, and no sooner; of two entries
 * here. The device has placed the bytes of a longer SEND before. */
static void test_small_sends_come_with_their_completion(void **state)
{
  (void)state;
  for (uint32_t length = 30; length < 35; length++) {
    with_pair(IBV_WR_SEND, length);
    struct ibv_sge to[2] = {
        {.addr = (uintptr_t)pair.b.bytes, .length = 20, .lkey = pair.b.mr->lkey},
        {(uintptr_t)pair.b.bytes + 100, 20, pair.b.mr->lkey}};
    struct ibv_recv_wr recv = {.wr_id = 5, .sg_list = to, .num_sge = 2}, *bad;
    assert_int_equal(ibv_post_recv(pair.b.qp, &recv, &bad), 0);
    assert_int_equal(post(pair.a.qp, &wr), 0);
    expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(pair.b.bytes[0], length <= 32 ? 0 : 9);
    expect_wc(pair.b.cq, 5, IBV_WC_SUCCESS);
    assert_memory_equal(pair.b.bytes, pair.a.bytes, 20);
    assert_int_equal(pair.b.bytes[20], 0);
    assert_memory_equal(pair.b.bytes + 100, pair.a.bytes, length - 20);
    assert_int_equal(pair.b.bytes[100 + length - 20], 0);
    pair_close(&pair);
  }
}

static void test_too_short(void **state)
{
  with_pair(IBV_WR_SEND, 9);
  assert_int_equal(post_recv(&pair.b, 5, 8), 0);
  assert_int_equal(post_recv(&pair.b, 6, 8), 0);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_REM_INV_REQ_ERR);
  expect_wc(pair.b.cq, 5, IBV_WC_LOC_LEN_ERR);
  expect_wc(pair.b.cq, 6, IBV_WC_WR_FLUSH_ERR);
  assert_int_equal(state_of(pair.b.qp), IBV_QPS_ERR);
  pair_close(&pair);
}

static void test_memory_not_registered(void **state)
{
  with_pair(IBV_WR_SEND, 8);
  struct ibv_mr *gone = ibv_reg_mr(pair.pd, pair.b.bytes, BYTES, ALL_ACCESS);
  struct ibv_sge to = {.addr = (uintptr_t)pair.b.bytes, .length = 8, .lkey = gone->lkey};
  struct ibv_recv_wr recv = {.wr_id = 5, .sg_list = &to, .num_sge = 1}, *bad;
  assert_int_equal(ibv_post_recv(pair.b.qp, &recv, &bad), 0);
  assert_int_equal(ibv_dereg_mr(gone), 0);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_REM_OP_ERR);
  expect_wc(pair.b.cq, 5, IBV_WC_LOC_PROT_ERR);
  pair_close(&pair);
}

static void test_none_posted(void **state)
{
  with_pair(IBV_WR_SEND, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
  assert_int_equal(state_of(pair.a.qp), IBV_QPS_ERR);
  /* The error was not the responder's fault. */
  assert_int_equal(state_of(pair.b.qp), IBV_QPS_RTS);
  pair_close(&pair);
}

static void test_posted_in_time(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.rnr_retry = 7; /* for ever */
  pair_open(&pair, &pair_attr);
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  for (int i = 0; i < 1000; i++)
    no_wc(pair.a.cq);
  assert_int_equal(post_recv(&pair.b, 5, 8), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  expect_wc(pair.b.cq, 5, IBV_WC_SUCCESS);
  pair_close(&pair);
}

/* Messages are received in order, whatever they wait for. */
static void test_order_is_kept_while_waiting(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.rnr_retry = 7;
  pair_open(&pair, &pair_attr);
  pair.a.bytes[0] = 1;
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  struct ibv_send_wr after = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  after.wr_id = 2;
  after.wr.rdma.remote_addr += 100;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  assert_int_equal(post(pair.a.qp, &after), 0);
  no_wc(pair.a.cq);
  assert_int_equal(pair.b.bytes[100], 0);
  assert_int_equal(post_recv(&pair.b, 5, 8), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  expect_wc(pair.a.cq, 2, IBV_WC_SUCCESS);
  assert_int_equal(pair.b.bytes[100], 1);
  pair_close(&pair);
}

static void test_scattered(void **state)
{
  with_pair(IBV_WR_SEND, 10);
  struct ibv_sge to[2] = {
      {.addr = (uintptr_t)pair.b.bytes + 50, .length = 4, .lkey = pair.b.mr->lkey},
      {.addr = (uintptr_t)pair.b.bytes, .length = 40, .lkey = pair.b.mr->lkey}};
  struct ibv_recv_wr recv = {.wr_id = 5, .sg_list = to, .num_sge = 2}, *bad;
  for (uint8_t i = 0; i < 10; i++)
    pair.a.bytes[i] = i;
  assert_int_equal(ibv_post_recv(pair.b.qp, &recv, &bad), 0);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.b.cq, 5, IBV_WC_SUCCESS);
  assert_memory_equal(pair.b.bytes + 50, pair.a.bytes, 4);
  assert_memory_equal(pair.b.bytes, pair.a.bytes + 4, 6);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_send_and_receive),
      cmocka_unit_test(test_write_with_immediate_takes_a_receive),
      cmocka_unit_test(test_small_sends_come_with_their_completion),
      cmocka_unit_test(test_too_short),
      cmocka_unit_test(test_memory_not_registered),
      cmocka_unit_test(test_none_posted),
      cmocka_unit_test(test_posted_in_time),
      cmocka_unit_test(test_order_is_kept_while_waiting),
      cmocka_unit_test(test_scattered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
