/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: whose, of what domain, how far, what for. The local ones end the request with a local
 * error, the remote ones both queue pairs, and the responder gets an event. */
#include "support.h"

static void ends_locally(struct pair *pair, struct ibv_send_wr *wr)
{
  assert_int_equal(post(pair->a.qp, wr), 0);
  expect_wc(pair->a.cq, 1, IBV_WC_LOC_PROT_ERR);
  assert_int_equal(state_of(pair->a.qp), IBV_QPS_ERR);
  assert_int_equal(state_of(pair->b.qp), IBV_QPS_RTS);
}

static void ends_remotely(struct pair *pair, struct ibv_send_wr *wr)
{
  uint8_t before[BYTES];
  memcpy(before, pair->b.bytes, BYTES);
  assert_int_equal(post(pair->a.qp, wr), 0);
  struct ibv_wc wc = wait_wc(pair->a.cq);
  assert_int_equal(wc.status, IBV_WC_REM_ACCESS_ERR);
  assert_int_equal(wc.vendor_err, 0x88);
  assert_int_equal(state_of(pair->a.qp), IBV_QPS_ERR);
  assert_int_equal(state_of(pair->b.qp), IBV_QPS_ERR);
  expect_event(pair->context, IBV_EVENT_QP_ACCESS_ERR);
  assert_memory_equal(before, pair->b.bytes, BYTES);
}

#define with_pair(opcode, length)                                                                  \
  struct pair_attr pair_attr = pair_defaults();                                                    \
  struct pair pair;                                                                                \
  struct ibv_sge sge;                                                                              \
  (void)state;                                                                                     \
  pair_open(&pair, &pair_attr);                                                                    \
  memset(pair.a.bytes, 9, BYTES);                                                                  \
  struct ibv_send_wr wr = request(&pair, opcode, &sge, length)

static void test_lkey_unknown(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 8);
  sge.lkey ^= 0x100000;
  ends_locally(&pair, &wr);
  pair_close(&pair);
}

static void test_lkey_stale(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 8);
  assert_int_equal(ibv_dereg_mr(pair.a.mr), 0);
  pair.a.mr = ibv_reg_mr(pair.pd, pair.a.bytes, BYTES, ALL_ACCESS);
  ends_locally(&pair, &wr);
  pair_close(&pair);
}

static void test_lkey_of_another_domain(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 8);
  struct ibv_pd *pd = ibv_alloc_pd(pair.context);
  struct ibv_mr *mr = ibv_reg_mr(pd, pair.a.bytes, BYTES, ALL_ACCESS);
  sge.lkey = mr->lkey;
  ends_locally(&pair, &wr);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  assert_int_equal(ibv_dealloc_pd(pd), 0);
  pair_close(&pair);
}

static void test_lkey_out_of_bounds(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 8);
  sge.addr += BYTES - 7;
  ends_locally(&pair, &wr);
  pair_close(&pair);
}

static void test_lkey_not_to_be_written(void **state)
{
  with_pair(IBV_WR_RDMA_READ, 8);
  struct ibv_mr *mr = ibv_reg_mr(pair.pd, pair.a.bytes, BYTES, 0);
  sge.lkey = mr->lkey;
  ends_locally(&pair, &wr);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  pair_close(&pair);
}

static void test_rkey_unknown(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 8);
  wr.wr.rdma.rkey ^= 0x100000;
  ends_remotely(&pair, &wr);
  pair_close(&pair);
}

static void test_rkey_stale(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 8);
  assert_int_equal(ibv_dereg_mr(pair.b.mr), 0);
  pair.b.mr = ibv_reg_mr(pair.pd, pair.b.bytes, BYTES, ALL_ACCESS);
  ends_remotely(&pair, &wr);
  pair_close(&pair);
}

static void test_rkey_of_another_domain(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 8);
  struct ibv_pd *pd = ibv_alloc_pd(pair.context);
  struct ibv_mr *mr = ibv_reg_mr(pd, pair.b.bytes, BYTES, ALL_ACCESS);
  wr.wr.rdma.rkey = mr->rkey;
  ends_remotely(&pair, &wr);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  assert_int_equal(ibv_dealloc_pd(pd), 0);
  pair_close(&pair);
}

static void test_rkey_without_the_right(void **state)
{
  static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
                                               IBV_WR_ATOMIC_FETCH_AND_ADD};
  static const int rights[] = {IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
                               IBV_ACCESS_REMOTE_WRITE};
  for (int i = 0; i < 3; i++) {
    with_pair(opcodes[i], 8);
    struct ibv_mr *mr =
        ibv_reg_mr(pair.pd, pair.b.bytes, BYTES, rights[i] | IBV_ACCESS_LOCAL_WRITE);
    if (opcodes[i] == IBV_WR_ATOMIC_FETCH_AND_ADD)
      wr.wr.atomic.rkey = mr->rkey;
    else
      wr.wr.rdma.rkey = mr->rkey;
    ends_remotely(&pair, &wr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&pair);
  }
}

static void test_rkey_out_of_bounds(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 8);
  wr.wr.rdma.remote_addr += BYTES - 7;
  ends_remotely(&pair, &wr);
  pair_close(&pair);
}

static void test_rkey_before_the_region(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 8);
  wr.wr.rdma.remote_addr -= 1;
  ends_remotely(&pair, &wr);
  pair_close(&pair);
}

static void test_queue_pair_without_the_right(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.access = IBV_ACCESS_REMOTE_READ;
  pair_open(&pair, &pair_attr);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_REM_INV_REQ_ERR);
  expect_event(pair.context, IBV_EVENT_QP_REQ_ERR);
  pair_close(&pair);
}

/* Nothing is addressed, so no key is looked at. */
static void test_nothing_needs_no_key(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 0);
  wr.wr.rdma.rkey = 0;
  wr.num_sge = 0;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  pair_close(&pair);
}

static void test_errors_flush_what_follows(void **state)
{
  with_pair(IBV_WR_RDMA_WRITE, 8);
  struct ibv_send_wr second = wr, third = wr, *bad;
  assert_int_equal(post_recv(&pair.a, 20, 8), 0);
  assert_int_equal(post_recv(&pair.b, 30, 8), 0);
  wr.next = &second;
  second.next = &third;
  second.wr_id = 2;
  second.wr.rdma.rkey ^= 0x100000;
  third.wr_id = 3;
  third.send_flags = 0;
  assert_int_equal(ibv_post_send(pair.a.qp, &wr, &bad), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  expect_wc(pair.a.cq, 2, IBV_WC_REM_ACCESS_ERR);
  /* The queues are flushed each in its order, and to one another in any. */
  struct ibv_wc one = wait_wc(pair.a.cq), other = wait_wc(pair.a.cq);
  assert_int_equal(one.status, IBV_WC_WR_FLUSH_ERR);
  assert_int_equal(other.status, IBV_WC_WR_FLUSH_ERR);
  assert_int_equal(one.wr_id + other.wr_id, 23);
  expect_wc(pair.b.cq, 30, IBV_WC_WR_FLUSH_ERR);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_lkey_unknown),
      cmocka_unit_test(test_lkey_stale),
      cmocka_unit_test(test_lkey_of_another_domain),
      cmocka_unit_test(test_lkey_out_of_bounds),
      cmocka_unit_test(test_lkey_not_to_be_written),
      cmocka_unit_test(test_rkey_unknown),
      cmocka_unit_test(test_rkey_stale),
      cmocka_unit_test(test_rkey_of_another_domain),
      cmocka_unit_test(test_rkey_without_the_right),
      cmocka_unit_test(test_rkey_out_of_bounds),
      cmocka_unit_test(test_rkey_before_the_region),
      cmocka_unit_test(test_queue_pair_without_the_right),
      cmocka_unit_test(test_nothing_needs_no_key),
      cmocka_unit_test(test_errors_flush_what_follows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
