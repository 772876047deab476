/* SPDX-License-Identifier: Apache-2.0 */
/* Posting: refused with the errno of mlx5, at the request that is at fault. */
#include "support.h"

static void test_no_sends_before_rts(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  struct ibv_qp_attr attr;
  pair_make(&pair, &pair_attr);
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), EINVAL);
  int mask = to_init(&pair, &attr);
  modify(pair.a.qp, &attr, mask);
  assert_int_equal(post(pair.a.qp, &wr), EINVAL);
  mask = to_rtr(&pair, &pair.b, &attr);
  modify(pair.a.qp, &attr, mask);
  assert_int_equal(post(pair.a.qp, &wr), EINVAL);
  pair_close(&pair);
}

static void test_no_receives_in_reset(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr;
  pair_make(&pair, &pair_attr);
  assert_int_equal(post_recv(&pair.b, 1, 8), EINVAL);
  int mask = to_init(&pair, &attr);
  modify(pair.b.qp, &attr, mask);
  assert_int_equal(post_recv(&pair.b, 1, 8), 0);
  pair_close(&pair);
}

static void test_full_queue_names_the_request(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.cap.max_send_wr = 3;
  pair_open(&pair, &pair_attr);
  struct ibv_send_wr wr[5], *bad = NULL;
  for (int i = 0; i < 5; i++) {
    wr[i] = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
    wr[i].wr_id = (uint64_t)i;
    wr[i].next = i < 4 ? &wr[i + 1] : NULL;
  }
  assert_int_equal(ibv_post_send(pair.a.qp, wr, &bad), ENOMEM);
  assert_ptr_equal(bad, &wr[3]);
  for (int i = 0; i < 3; i++)
    expect_wc(pair.a.cq, i, IBV_WC_SUCCESS);
  no_wc(pair.a.cq);
  pair_close(&pair);
}

/* Executed, and yet in the way, until a later one's completion is polled. */
static void test_unsignalled_requests_hold_their_room(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.cap.max_send_wr = 4;
  pair_open(&pair, &pair_attr);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  wr.send_flags = 0;
  const uint32_t room = pair.a.given.max_send_wr;
  for (uint32_t i = 1; i < room; i++)
    assert_int_equal(post(pair.a.qp, &wr), 0);
  wr.send_flags = IBV_SEND_SIGNALED;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  assert_int_equal(post(pair.a.qp, &wr), ENOMEM);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  for (uint32_t i = 0; i < room; i++)
    assert_int_equal(post(pair.a.qp, &wr), 0);
  assert_int_equal(post(pair.a.qp, &wr), ENOMEM);
  pair_close(&pair);
}

static void test_full_receive_queue(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.cap.max_recv_wr = 2;
  pair_open(&pair, &pair_attr);
  assert_int_equal(post_recv(&pair.b, 1, 8), 0);
  assert_int_equal(post_recv(&pair.b, 2, 8), 0);
  assert_int_equal(post_recv(&pair.b, 3, 8), ENOMEM);
  /* One that is filled still has its place, until its completion is polled. */
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  assert_int_equal(post_recv(&pair.b, 3, 8), ENOMEM);
  expect_wc(pair.b.cq, 1, IBV_WC_SUCCESS);
  assert_int_equal(post_recv(&pair.b, 3, 8), 0);
  pair_close(&pair);
}

static void test_too_many_entries(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge[3];
  pair_open(&pair, &pair_attr);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge[0], 8);
  sge[1] = sge[2] = sge[0];
  wr.num_sge = 3;
  assert_int_equal(post(pair.a.qp, &wr), ENOMEM);
  wr.num_sge = 2;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  struct ibv_recv_wr recv = {.sg_list = sge, .num_sge = 3}, *bad = NULL;
  assert_int_equal(ibv_post_recv(pair.b.qp, &recv, &bad), EINVAL);
  assert_ptr_equal(bad, &recv);
  pair_close(&pair);
}

/* Inline data need no key, are read at once, and have a limit. */
static void test_inline(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  uint8_t loose[1024];
  pair_open(&pair, &pair_attr);
  memset(loose, 7, sizeof(loose));
  const uint32_t most = pair.a.given.max_inline_data;
  assert_in_range(most, pair_attr.cap.max_inline_data, sizeof(loose) - 1);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, most + 1);
  sge.addr = (uintptr_t)loose;
  sge.lkey = 0;
  wr.send_flags |= IBV_SEND_INLINE;
  assert_int_equal(post(pair.a.qp, &wr), ENOMEM);
  sge.length = most;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  assert_memory_equal(pair.b.bytes, loose, most);
  assert_int_equal(pair.b.bytes[most], 0);
  wr.opcode = IBV_WR_RDMA_READ;
  assert_int_equal(post(pair.a.qp, &wr), EINVAL);
  pair_close(&pair);
}

static void test_an_operation_that_the_transport_has_not(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.type = IBV_QPT_UC;
  pair_open(&pair, &pair_attr);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_READ, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), EINVAL);
  wr = request(&pair, IBV_WR_ATOMIC_FETCH_AND_ADD, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), EINVAL);
  wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  pair_close(&pair);
}

static void test_everything_is_flushed_in_error(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  pair_open(&pair, &pair_attr);
  assert_int_equal(post_recv(&pair.b, 5, 8), 0);
  assert_int_equal(post_recv(&pair.b, 6, 8), 0);
  modify(pair.b.qp, &attr, IBV_QP_STATE);
  expect_wc(pair.b.cq, 5, IBV_WC_WR_FLUSH_ERR);
  expect_wc(pair.b.cq, 6, IBV_WC_WR_FLUSH_ERR);
  /* Requests that are posted later are flushed, too, signalled or not. */
  assert_int_equal(post_recv(&pair.b, 7, 8), 0);
  expect_wc(pair.b.cq, 7, IBV_WC_WR_FLUSH_ERR);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  wr.send_flags = 0;
  assert_int_equal(post(pair.b.qp, &wr), 0);
  expect_wc(pair.b.cq, 1, IBV_WC_WR_FLUSH_ERR);
  /* RESET takes back what is not polled. */
  assert_int_equal(post_recv(&pair.b, 8, 8), 0);
  attr.qp_state = IBV_QPS_RESET;
  modify(pair.b.qp, &attr, IBV_QP_STATE);
  no_wc(pair.b.cq);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_sends_before_rts),
      cmocka_unit_test(test_no_receives_in_reset),
      cmocka_unit_test(test_full_queue_names_the_request),
      cmocka_unit_test(test_unsignalled_requests_hold_their_room),
      cmocka_unit_test(test_full_receive_queue),
      cmocka_unit_test(test_too_many_entries),
      cmocka_unit_test(test_inline),
      cmocka_unit_test(test_an_operation_that_the_transport_has_not),
      cmocka_unit_test(test_everything_is_flushed_in_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
