/* SPDX-License-Identifier: Apache-2.0 */
/* The unreliable transports: what is lost is lost, and says nothing. */
#include "support.h"

static struct ibv_ah *address(struct pair *pair)
{
  struct ibv_qp_attr attr;
  to_rtr(pair, &pair->b, &attr);
  struct ibv_ah *ah = ibv_create_ah(pair->pd, &attr.ah_attr);
  assert_non_null(ah);
  return ah;
}

static void send_datagram(struct pair *pair, struct ibv_ah *ah, uint32_t length, uint32_t qkey)
{
  struct ibv_sge sge;
  struct ibv_send_wr wr = request(pair, IBV_WR_SEND, &sge, length);
  wr.wr.ud.ah = ah;
  wr.wr.ud.remote_qpn = pair->b.qp->qp_num;
  wr.wr.ud.remote_qkey = qkey;
  assert_int_equal(post(pair->a.qp, &wr), 0);
}

static void test_header_comes_first(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_attr.type = IBV_QPT_UD;
  pair_open(&pair, &pair_attr);
  struct ibv_ah *ah = address(&pair);
  memset(pair.a.bytes, 4, BYTES);
  assert_int_equal(post_recv(&pair.b, 5, 140), 0);
  send_datagram(&pair, ah, 100, 0x1234);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  struct ibv_wc wc = wait_wc(pair.b.cq);
  assert_int_equal(wc.status, IBV_WC_SUCCESS);
  assert_int_equal(wc.byte_len, 140);
  assert_int_equal(wc.src_qp, pair.a.qp->qp_num);
  assert_int_equal(wc.wc_flags & IBV_WC_GRH, IBV_WC_GRH);
  assert_int_equal(pair.b.bytes[20], 0x45); /* RoCEv2: an IPv4 header */
  assert_memory_equal(pair.b.bytes + 40, pair.a.bytes, 100);
  assert_int_equal(ibv_destroy_ah(ah), 0);
  pair_close(&pair);
}

static void test_key_and_no_receive(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_attr.type = IBV_QPT_UD;
  pair_open(&pair, &pair_attr);
  struct ibv_ah *ah = address(&pair);
  send_datagram(&pair, ah, 100, 0x1234); /* no receive */
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  assert_int_equal(post_recv(&pair.b, 5, 140), 0);
  send_datagram(&pair, ah, 100, 0x9999); /* another key */
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  no_wc(pair.b.cq);
  send_datagram(&pair, ah, 100, 0x1234);
  expect_wc(pair.b.cq, 5, IBV_WC_SUCCESS);
  assert_int_equal(ibv_destroy_ah(ah), 0);
  pair_close(&pair);
}

/* ConnectX reports in the place of a service level: UDP (8), and IPv6 (1), IPv4 (2) or a GRH. */
static void test_what_a_datagram_came_in(void **state)
{
  (void)state;
  static const struct {
    uint8_t gid, level;
  } all[] = {{0, 0}, {1, 8 | 1}, {2, 0}, {3, 8 | 2}};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    struct pair_attr pair_attr = pair_defaults();
    struct pair pair;
    struct ibv_qp_attr attr;
    pair_attr.type = IBV_QPT_UD;
    pair_open(&pair, &pair_attr);
    to_rtr(&pair, &pair.b, &attr);
    attr.ah_attr.grh.sgid_index = all[i].gid;
    attr.ah_attr.sl = 3;
    assert_int_equal(ibv_query_gid(pair.context, 1, all[i].gid, &attr.ah_attr.grh.dgid), 0);
    struct ibv_ah *ah = ibv_create_ah(pair.pd, &attr.ah_attr);
    assert_non_null(ah);
    assert_int_equal(post_recv(&pair.b, 5, 140), 0);
    send_datagram(&pair, ah, 100, 0x1234);
    expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
    const struct ibv_wc wc = wait_wc(pair.b.cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.sl, all[i].level);
    assert_int_equal(ibv_destroy_ah(ah), 0);
    pair_close(&pair);
  }
}

static void test_no_longer_than_a_packet(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_attr.type = IBV_QPT_UD;
  pair_open(&pair, &pair_attr);
  struct ibv_ah *ah = address(&pair);
  send_datagram(&pair, ah, 4097, 0x1234);
  expect_wc(pair.a.cq, 1, IBV_WC_LOC_LEN_ERR);
  assert_int_equal(state_of(pair.a.qp), IBV_QPS_SQE);
  /* Out of SQE it goes on. */
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
  modify(pair.a.qp, &attr, IBV_QP_STATE);
  send_datagram(&pair, ah, 4096, 0x1234);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  assert_int_equal(ibv_destroy_ah(ah), 0);
  pair_close(&pair);
}

static void test_unreliable_connection_loses_silently(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.type = IBV_QPT_UC;
  pair_open(&pair, &pair_attr);
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  wr.wr.rdma.rkey ^= 0x100000;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  assert_int_equal(state_of(pair.b.qp), IBV_QPS_RTS);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_header_comes_first),
      cmocka_unit_test(test_key_and_no_receive),
      cmocka_unit_test(test_what_a_datagram_came_in),
      cmocka_unit_test(test_no_longer_than_a_packet),
      cmocka_unit_test(test_unreliable_connection_loses_silently),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
