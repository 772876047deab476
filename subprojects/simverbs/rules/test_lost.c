/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a peer does not answer looks alike: the retries run out. */
#include "support.h"

static void nobody_answers(struct pair *pair)
{
  struct ibv_sge sge;
  struct ibv_send_wr wr = request(pair, IBV_WR_RDMA_WRITE, &sge, 8);
  pair->a.bytes[0] = 1;
  assert_int_equal(post(pair->a.qp, &wr), 0);
  struct ibv_wc wc = wait_wc(pair->a.cq);
  assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
  assert_int_equal(wc.vendor_err, 0x81);
  assert_int_equal(state_of(pair->a.qp), IBV_QPS_ERR);
  assert_int_equal(pair->b.bytes[0], 0);
}

/* Both in RTS, after what `change` did to one attribute of a transition of a's. */
static void connect_with(struct pair *pair, void (*change)(struct ibv_qp_attr *attr))
{
  struct pair_attr pair_attr = pair_defaults();
  struct ibv_qp_attr attr;
  pair_make(pair, &pair_attr);
  struct end *ends[] = {&pair->a, &pair->b};
  for (int i = 0; i < 2; i++) {
    int mask = to_init(pair, &attr);
    modify(ends[i]->qp, &attr, mask);
    mask = to_rtr(pair, ends[!i], &attr);
    if (!i)
      change(&attr);
    modify(ends[i]->qp, &attr, mask);
    mask = to_rts(pair, &attr);
    if (!i)
      change(&attr);
    modify(ends[i]->qp, &attr, mask);
  }
}

static void other_sq_psn(struct ibv_qp_attr *attr)
{
  attr->sq_psn++;
}

static void other_qpn(struct ibv_qp_attr *attr)
{
  attr->dest_qp_num += 5;
}

static void other_gid_type(struct ibv_qp_attr *attr)
{
  if (attr->qp_state == IBV_QPS_RTR)
    attr->ah_attr.grh.sgid_index = 2; /* the same address, RoCEv1 */
}

static void no_change(struct ibv_qp_attr *attr)
{
  (void)attr;
}

static void lost_with(void (*change)(struct ibv_qp_attr *attr))
{
  struct pair pair;
  connect_with(&pair, change);
  nobody_answers(&pair);
  pair_close(&pair);
}

static void test_packet_number(void **state)
{
  (void)state;
  lost_with(other_sq_psn);
}

static void test_queue_pair_number(void **state)
{
  (void)state;
  lost_with(other_qpn);
}

static void test_address_type(void **state)
{
  (void)state;
  lost_with(other_gid_type);
}

static void test_peer_in_init(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr;
  pair_make(&pair, &pair_attr);
  int mask = to_init(&pair, &attr);
  modify(pair.b.qp, &attr, mask);
  modify(pair.a.qp, &attr, mask);
  mask = to_rtr(&pair, &pair.b, &attr);
  modify(pair.a.qp, &attr, mask);
  mask = to_rts(&pair, &attr);
  modify(pair.a.qp, &attr, mask);
  nobody_answers(&pair);
  pair_close(&pair);
}

static void test_peer_destroyed(void **state)
{
  (void)state;
  struct pair pair;
  connect_with(&pair, no_change);
  assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
  pair.b.qp = NULL;
  nobody_answers(&pair);
  pair_close(&pair);
}

static void test_peer_in_error(void **state)
{
  (void)state;
  struct pair pair;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  connect_with(&pair, no_change);
  modify(pair.b.qp, &attr, IBV_QP_STATE);
  nobody_answers(&pair);
  pair_close(&pair);
}

/* One message of two packets; with one packet nobody could tell. */
static void test_path_mtu(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr;
  struct ibv_sge sge;
  pair_make(&pair, &pair_attr);
  struct end *ends[] = {&pair.a, &pair.b};
  for (int i = 0; i < 2; i++) {
    int mask = to_init(&pair, &attr);
    modify(ends[i]->qp, &attr, mask);
    mask = to_rtr(&pair, ends[!i], &attr);
    attr.path_mtu = i ? IBV_MTU_512 : IBV_MTU_1024;
    modify(ends[i]->qp, &attr, mask);
    mask = to_rts(&pair, &attr);
    modify(ends[i]->qp, &attr, mask);
  }
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 512);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  sge.length = 1025;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_RETRY_EXC_ERR);
  pair_close(&pair);
}

/* The responder's number goes on by packets, as the initiator's does. */
static void test_packet_numbers_wrap(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr;
  struct ibv_sge sge;
  pair_make(&pair, &pair_attr);
  struct end *ends[] = {&pair.a, &pair.b};
  for (int i = 0; i < 2; i++) {
    int mask = to_init(&pair, &attr);
    modify(ends[i]->qp, &attr, mask);
    mask = to_rtr(&pair, ends[!i], &attr);
    attr.rq_psn = 0xfffffe;
    modify(ends[i]->qp, &attr, mask);
    mask = to_rts(&pair, &attr);
    attr.sq_psn = 0xfffffe;
    modify(ends[i]->qp, &attr, mask);
  }
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 4096);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(post(pair.a.qp, &wr), 0);
    expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  }
  struct ibv_qp_init_attr init;
  assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_SQ_PSN, &init), 0);
  assert_int_equal(attr.sq_psn, 10);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_packet_number),  cmocka_unit_test(test_queue_pair_number),
      cmocka_unit_test(test_address_type),   cmocka_unit_test(test_peer_in_init),
      cmocka_unit_test(test_peer_destroyed), cmocka_unit_test(test_peer_in_error),
      cmocka_unit_test(test_path_mtu),       cmocka_unit_test(test_packet_numbers_wrap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
