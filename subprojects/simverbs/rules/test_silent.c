/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a queue pair with a shared receive queue, on a device that says nothing of it. */
#include "support.h"

static void test_vendor(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_device_attr device;
  pair_open(&pair, &pair_attr);
  assert_int_equal(ibv_query_device(pair.context, &device), 0);
  assert_int_equal(device.vendor_id, 0xffffff);
  pair_close(&pair);
}

/* Twice an event of `end`, which has nothing posted: whatever came before the first one of them is
 * told before the second. */
static void only_drained(const struct pair *pair, const struct end *end)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
  modify(end->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
  expect_event(pair->context, IBV_EVENT_SQ_DRAINED);
  attr.qp_state = IBV_QPS_RTS;
  modify(end->qp, &attr, IBV_QP_STATE);
  attr.qp_state = IBV_QPS_SQD;
  modify(end->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
  expect_event(pair->context, IBV_EVENT_SQ_DRAINED);
}

/* The receive that was taken, then what was posted in RTS, then what was posted in ERR. */
static void test_receives_come_back_before_sends(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge there, back;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  pair_attr.srq = true;
  pair_attr.rnr_retry = 7; /* for a receive that is never posted */
  pair_open(&pair, &pair_attr);
  assert_int_equal(post_srq(&pair, 5, 8), 0);
  assert_int_equal(post_srq(&pair, 6, 8), 0);
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &there, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  back = (struct ibv_sge){(uintptr_t)pair.b.bytes, 8, pair.b.mr->lkey};
  wr = (struct ibv_send_wr){.wr_id = 7, .opcode = IBV_WR_SEND, .sg_list = &back, .num_sge = 1};
  assert_int_equal(post(pair.b.qp, &wr), 0);
  modify(pair.b.qp, &attr, IBV_QP_STATE);
  wr.wr_id = 8;
  wr.send_flags = IBV_SEND_SIGNALED;
  assert_int_equal(post(pair.b.qp, &wr), 0);
  expect_wc(pair.b.cq, 5, IBV_WC_SUCCESS);
  expect_wc(pair.b.cq, 7, IBV_WC_WR_FLUSH_ERR);
  expect_wc(pair.b.cq, 8, IBV_WC_WR_FLUSH_ERR);
  no_wc(pair.b.cq);
  only_drained(&pair, &pair.a);
  pair_close(&pair);
}

/* 8 tries of 8 us each would be over long before the peer is there. */
static void test_seven_retries_are_endless(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr;
  struct ibv_sge sge;
  pair_attr.timeout = 1;
  pair_attr.retry_cnt = 7;
  pair_make(&pair, &pair_attr);
  for (int i = 0; i < 2; i++) {
    const int mask = to_init(&pair, &attr);
    modify(i ? pair.b.qp : pair.a.qp, &attr, mask);
  }
  int mask = to_rtr(&pair, &pair.b, &attr);
  modify(pair.a.qp, &attr, mask);
  mask = to_rts(&pair, &attr);
  modify(pair.a.qp, &attr, mask);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  for (int i = 0; i < 20000; i++)
    no_wc(pair.a.cq);
  assert_int_equal(state_of(pair.a.qp), IBV_QPS_RTS);
  mask = to_rtr(&pair, &pair.a, &attr);
  modify(pair.b.qp, &attr, mask);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_vendor),
      cmocka_unit_test(test_receives_come_back_before_sends),
      cmocka_unit_test(test_seven_retries_are_endless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
