/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: their room, their events, and who keeps them. */
#include "support.h"

#include <fcntl.h>
#include <poll.h>

static void test_overrun(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.cqe = 3;
  pair_open(&pair, &pair_attr);
  assert_int_equal(pair.a.cq->cqe, 3);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  for (int i = 0; i < 4; i++)
    assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_event(pair.context, IBV_EVENT_CQ_ERR);
  expect_event(pair.context, IBV_EVENT_QP_FATAL);
  assert_int_equal(state_of(pair.a.qp), IBV_QPS_ERR);
  pair_close(&pair);
}

static bool readable(int fd)
{
  struct pollfd at = {.fd = fd, .events = POLLIN};
  return poll(&at, 1, 0) == 1;
}

static void write_to_b(struct pair *pair, unsigned flags)
{
  struct ibv_sge sge;
  struct ibv_send_wr wr = request(pair, IBV_WR_SEND, &sge, 8);
  wr.send_flags |= flags;
  assert_int_equal(post_recv(&pair->b, 5, 8), 0);
  assert_int_equal(post(pair->a.qp, &wr), 0);
  expect_wc(pair->a.cq, 1, IBV_WC_SUCCESS);
}

static void expect_cq_event(struct pair *pair)
{
  struct ibv_cq *cq;
  void *context;
  assert_int_equal(ibv_get_cq_event(pair->channel, &cq, &context), 0);
  assert_ptr_equal(cq, pair->b.cq);
  ibv_ack_cq_events(cq, 1);
}

/* Armed, one event for the next completion, and none for what came before or comes after. */
static void test_one_event_for_one_arming(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_attr.channel = true;
  pair_open(&pair, &pair_attr);
  write_to_b(&pair, 0);
  assert_int_equal(ibv_req_notify_cq(pair.b.cq, 0), 0);
  assert_false(readable(pair.channel->fd));
  write_to_b(&pair, 0);
  write_to_b(&pair, 0);
  expect_cq_event(&pair);
  assert_false(readable(pair.channel->fd));
  pair_close(&pair);
}

static void test_solicited_only(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_attr.channel = true;
  pair_open(&pair, &pair_attr);
  assert_int_equal(ibv_req_notify_cq(pair.b.cq, 1), 0);
  write_to_b(&pair, 0);
  assert_int_equal(fcntl(pair.channel->fd, F_SETFL, O_NONBLOCK), 0);
  struct ibv_cq *cq;
  void *context;
  errno = 0;
  assert_int_equal(ibv_get_cq_event(pair.channel, &cq, &context), -1);
  assert_int_equal(errno, EAGAIN);
  assert_int_equal(fcntl(pair.channel->fd, F_SETFL, 0), 0);
  write_to_b(&pair, IBV_SEND_SOLICITED);
  expect_cq_event(&pair);
  pair_close(&pair);
}

static void test_an_error_is_always_solicited(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  pair_attr.channel = true;
  pair_open(&pair, &pair_attr);
  assert_int_equal(ibv_req_notify_cq(pair.b.cq, 1), 0);
  assert_int_equal(post_recv(&pair.b, 5, 8), 0);
  modify(pair.b.qp, &attr, IBV_QP_STATE);
  expect_cq_event(&pair);
  pair_close(&pair);
}

/* The responder's, where all is once the initiator has heard of it. */
static void test_resized_with_completions_in_it(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_open(&pair, &pair_attr);
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  for (uint64_t i = 0; i < 4; i++) {
    assert_int_equal(post_recv(&pair.b, i, 8), 0);
    assert_int_equal(post(pair.a.qp, &wr), 0);
    expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  }
  assert_int_equal(ibv_resize_cq(pair.b.cq, 2), EINVAL);
  assert_int_equal(ibv_resize_cq(pair.b.cq, 500), 0);
  assert_int_equal(pair.b.cq->cqe, 511);
  for (uint64_t i = 0; i < 4; i++)
    expect_wc(pair.b.cq, i, IBV_WC_SUCCESS);
  pair_close(&pair);
}

static void test_kept_by_those_who_use_it(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_attr.channel = pair_attr.srq = true;
  pair_open(&pair, &pair_attr);
  assert_int_equal(ibv_destroy_cq(pair.a.cq), EBUSY);
  assert_int_equal(ibv_destroy_srq(pair.srq), EBUSY);
  assert_int_equal(ibv_destroy_comp_channel(pair.channel), EBUSY);
  assert_int_equal(ibv_dealloc_pd(pair.pd), EBUSY);
  pair_close(&pair);
}

static void test_a_destroyed_queue_pairs_completions_go(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_open(&pair, &pair_attr);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  assert_int_equal(ibv_destroy_qp(pair.a.qp), 0);
  pair.a.qp = NULL;
  no_wc(pair.a.cq);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_overrun),
      cmocka_unit_test(test_one_event_for_one_arming),
      cmocka_unit_test(test_solicited_only),
      cmocka_unit_test(test_an_error_is_always_solicited),
      cmocka_unit_test(test_resized_with_completions_in_it),
      cmocka_unit_test(test_kept_by_those_who_use_it),
      cmocka_unit_test(test_a_destroyed_queue_pairs_completions_go),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
