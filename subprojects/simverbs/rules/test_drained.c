/* SPDX-License-Identifier: Apache-2.0 */
/* The draining of a send queue. No program can know that a request has begun, unless the device
 * begins it in the call that posts it: these are for the eager engine. */
#include "support.h"

/* In SQD what has begun ends, and what has not waits for RTS. */
static void test_drained(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.rnr_retry = 7;
  pair_open(&pair, &pair_attr);
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  wr.wr_id = 2;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
  modify(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY);
  assert_int_equal(post_recv(&pair.b, 5, 8), 0);
  assert_int_equal(post_recv(&pair.b, 6, 8), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  expect_event(pair.context, IBV_EVENT_SQ_DRAINED);
  no_wc(pair.a.cq);
  attr.qp_state = IBV_QPS_RTS;
  modify(pair.a.qp, &attr, IBV_QP_STATE);
  expect_wc(pair.a.cq, 2, IBV_WC_SUCCESS);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_drained)};
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
