/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues. */
#include "support.h"

static void test_served_and_full(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.srq = true;
  pair_attr.srq_wr = 2;
  pair_open(&pair, &pair_attr);
  assert_int_equal(post_srq(&pair, 5, 8), 0);
  assert_int_equal(post_srq(&pair, 6, 8), 0);
  assert_int_equal(post_srq(&pair, 7, 8), ENOMEM);
  /* Queue pairs of a shared queue have no receive queue of their own. */
  assert_int_equal(post_recv(&pair.b, 5, 8), EINVAL);
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  assert_int_equal(post_srq(&pair, 7, 8), ENOMEM);
  expect_wc(pair.b.cq, 5, IBV_WC_SUCCESS);
  assert_int_equal(post_srq(&pair, 7, 8), 0);
  pair_close(&pair);
}

static void test_limit(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.srq = true;
  pair_open(&pair, &pair_attr);
  for (uint64_t i = 0; i < 4; i++)
    assert_int_equal(post_srq(&pair, i, 8), 0);
  struct ibv_srq_attr attr = {.srq_limit = 3};
  assert_int_equal(ibv_modify_srq(pair.srq, &attr, IBV_SRQ_LIMIT), 0);
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  assert_int_equal(ibv_query_srq(pair.srq, &attr), 0);
  assert_int_equal(attr.srq_limit, 3);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_event(pair.context, IBV_EVENT_SRQ_LIMIT_REACHED);
  /* Once: it is to be armed again. */
  assert_int_equal(ibv_query_srq(pair.srq, &attr), 0);
  assert_int_equal(attr.srq_limit, 0);
  pair_close(&pair);
}

/* The receives of a shared queue are not one queue pair's to flush. */
static void test_not_flushed(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  pair_attr.srq = true;
  pair_open(&pair, &pair_attr);
  assert_int_equal(post_srq(&pair, 5, 8), 0);
  modify(pair.b.qp, &attr, IBV_QP_STATE);
  expect_event(pair.context, IBV_EVENT_QP_LAST_WQE_REACHED);
  no_wc(pair.b.cq);
  pair_close(&pair);
}

static void test_limits(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_device_attr device;
  pair_open(&pair, &pair_attr);
  assert_int_equal(ibv_query_device(pair.context, &device), 0);
  struct ibv_srq_init_attr init = {.attr = {.max_wr = (uint32_t)device.max_srq_wr + 1}};
  errno = 0;
  assert_null(ibv_create_srq(pair.pd, &init));
  assert_int_equal(errno, EINVAL);
  init.attr.max_wr = 1;
  init.attr.max_sge = (uint32_t)device.max_srq_sge + 1;
  assert_null(ibv_create_srq(pair.pd, &init));
  assert_int_equal(errno, EINVAL);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_served_and_full),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_not_flushed),
      cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
