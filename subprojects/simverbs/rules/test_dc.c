/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamically connected initiators (DCI) and targets (DCT): what their making and their transitions
 * take, what a request needs, and how errors of one target reach the others. */
#include "support.h"

#include <infiniband/mlx5dv.h>
#include <time.h>

enum { KEY = 0x1234, STREAMS_LOG = 3, ERRORED_LOG = 2 };

/* One initiator, and as many targets as a test makes, all on one shared receive queue. */
struct dc {
  struct pair pair; /* its domain, buffers and CQs; its own queue pairs are RC and idle */
  struct ibv_srq *srq;
  struct ibv_qp *dci;
  struct ibv_ah *ah;
};

static struct ibv_qp_init_attr_ex dci_attr(const struct dc *dc)
{
  return (struct ibv_qp_init_attr_ex){
      .send_cq = dc->pair.a.cq,
      .recv_cq = dc->pair.a.cq,
      .cap = {.max_send_wr = 16, .max_send_sge = 2},
      .qp_type = IBV_QPT_DRIVER,
      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
      .pd = dc->pair.pd,
      .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND,
  };
}

static struct ibv_qp_init_attr_ex dct_attr(const struct dc *dc)
{
  return (struct ibv_qp_init_attr_ex){
      .send_cq = dc->pair.b.cq,
      .recv_cq = dc->pair.b.cq,
      .srq = dc->srq,
      .qp_type = IBV_QPT_DRIVER,
      .comp_mask = IBV_QP_INIT_ATTR_PD,
      .pd = dc->pair.pd,
  };
}

static struct mlx5dv_qp_init_attr dv_attr(enum mlx5dv_dc_type type)
{
  struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC};
  dv.dc_init_attr.dc_type = type;
  if (type == MLX5DV_DCTYPE_DCT)
    dv.dc_init_attr.dct_access_key = KEY;
  return dv;
}

static int initiator_to_init(struct ibv_qp *qp)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
}

static void initiator_with(struct ibv_qp *qp, uint8_t timeout, uint8_t rnr_retry)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};
  assert_int_equal(initiator_to_init(qp), 0);
  assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU), 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .timeout = timeout,
                              .retry_cnt = 1,
                              .rnr_retry = rnr_retry,
                              .max_rd_atomic = 1};
  assert_int_equal(ibv_modify_qp(qp, &attr,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_SQ_PSN),
                   0);
}

static void initiator_to_rts(struct ibv_qp *qp)
{
  initiator_with(qp, 1, 1);
}

static int target_to_init(struct ibv_qp *qp)
{
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static struct ibv_ah_attr way(const struct dc *dc)
{
  struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
  attr.grh.sgid_index = 3;
  attr.grh.hop_limit = 64;
  assert_int_equal(ibv_query_gid(dc->pair.context, 1, 3, &attr.grh.dgid), 0);
  return attr;
}

static int target_to_rtr(const struct dc *dc, struct ibv_qp *qp)
{
  struct ibv_qp_attr attr = {
      .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .min_rnr_timer = 1, .ah_attr = way(dc)};
  return ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_AV | IBV_QP_PATH_MTU);
}

static struct ibv_qp *make_dct(struct dc *dc)
{
  struct ibv_qp_init_attr_ex attr = dct_attr(dc);
  struct mlx5dv_qp_init_attr dv = dv_attr(MLX5DV_DCTYPE_DCT);
  struct ibv_qp *qp = mlx5dv_create_qp(dc->pair.context, &attr, &dv);
  assert_non_null(qp);
  return qp;
}

static struct ibv_qp *open_dct(struct dc *dc)
{
  struct ibv_qp *qp = make_dct(dc);
  assert_int_equal(target_to_init(qp), 0);
  assert_int_equal(target_to_rtr(dc, qp), 0);
  return qp;
}

static void dc_open(struct dc *dc, bool streams)
{
  struct pair_attr pair_attr = pair_defaults();
  struct ibv_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 1}};
  struct mlx5dv_qp_init_attr dv = dv_attr(MLX5DV_DCTYPE_DCI);
  pair_make(&dc->pair, &pair_attr);
  assert_non_null(dc->srq = ibv_create_srq(dc->pair.pd, &srq));
  if (streams) {
    dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
    dv.dc_init_attr.dci_streams.log_num_concurent = STREAMS_LOG;
    dv.dc_init_attr.dci_streams.log_num_errored = ERRORED_LOG;
  }
  struct ibv_qp_init_attr_ex attr = dci_attr(dc);
  assert_non_null(dc->dci = mlx5dv_create_qp(dc->pair.context, &attr, &dv));
  initiator_to_rts(dc->dci);
  struct ibv_ah_attr ah = way(dc);
  assert_non_null(dc->ah = ibv_create_ah(dc->pair.pd, &ah));
}

static void dc_close(struct dc *dc)
{
  assert_int_equal(ibv_destroy_ah(dc->ah), 0);
  assert_int_equal(ibv_destroy_qp(dc->dci), 0);
  assert_int_equal(ibv_destroy_srq(dc->srq), 0);
  pair_close(&dc->pair);
}

/* A WRITE of 8 bytes to b's buffer; lkey 0 is nobody's. */
static void build_write(struct dc *dc, uint32_t lkey, uint32_t dctn, uint64_t key, uint16_t stream)
{
  struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(dc->dci);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp, dc->pair.b.mr->rkey, (uintptr_t)dc->pair.b.bytes);
  ibv_wr_set_sge(qp, lkey, (uintptr_t)dc->pair.a.bytes, 8);
  mlx5dv_wr_set_dc_addr_stream(mlx5dv_qp_ex_from_ibv_qp_ex(qp), dc->ah, dctn, key, stream);
}

static void post_write(struct dc *dc, uint64_t id, uint32_t lkey, uint32_t dctn, uint64_t key,
                       uint16_t stream)
{
  struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(dc->dci);
  ibv_wr_start(qp);
  qp->wr_id = id;
  build_write(dc, lkey, dctn, key, stream);
  assert_int_equal(ibv_wr_complete(qp), 0);
}

static void test_what_a_target_needs(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, false);
  struct mlx5dv_qp_init_attr dv = dv_attr(MLX5DV_DCTYPE_DCT);
  struct ibv_qp_init_attr_ex attr = dct_attr(&dc);
  attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  assert_null(mlx5dv_create_qp(dc.pair.context, &attr, &dv));
  assert_int_equal(errno, EINVAL);
  attr = dct_attr(&dc);
  attr.srq = NULL;
  assert_null(mlx5dv_create_qp(dc.pair.context, &attr, &dv));
  assert_int_equal(errno, EINVAL);
  attr = dct_attr(&dc);
  attr.recv_cq = NULL;
  assert_null(mlx5dv_create_qp(dc.pair.context, &attr, &dv));
  assert_int_equal(errno, EINVAL);
  attr = dct_attr(&dc);
  dv.comp_mask = 0;
  assert_null(mlx5dv_create_qp(dc.pair.context, &attr, &dv));
  assert_int_equal(errno, EINVAL);
  dc_close(&dc);
}

static void test_what_an_initiator_needs(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, false);
  struct mlx5dv_qp_init_attr dv = dv_attr(MLX5DV_DCTYPE_DCI);
  struct ibv_qp_init_attr_ex attr = dci_attr(&dc);
  attr.cap.max_recv_wr = 1;
  assert_null(mlx5dv_create_qp(dc.pair.context, &attr, &dv));
  assert_int_equal(errno, EINVAL);
  attr = dci_attr(&dc);
  attr.send_ops_flags |= IBV_QP_EX_WITH_TSO;
  assert_null(mlx5dv_create_qp(dc.pair.context, &attr, &dv));
  assert_int_equal(errno, EOPNOTSUPP);
  attr = dci_attr(&dc);
  dv.comp_mask |= MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
  dv.dc_init_attr.dci_streams.log_num_concurent = 200;
  assert_null(mlx5dv_create_qp(dc.pair.context, &attr, &dv));
  assert_int_equal(errno, EINVAL);
  dc_close(&dc);
}

static void test_transitions_take_their_attributes_alone(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, false);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  modify(dc.dci, &attr, IBV_QP_STATE);
  assert_int_equal(target_to_init(dc.dci), EINVAL); /* access flags are a target's */
  assert_int_equal(initiator_to_init(dc.dci), 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = 1};
  assert_int_equal(ibv_modify_qp(dc.dci, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN),
                   EINVAL);
  struct ibv_qp *dct = make_dct(&dc);
  assert_int_equal(initiator_to_init(dct), EINVAL);
  assert_int_equal(target_to_init(dct), 0);
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024};
  assert_int_equal(ibv_modify_qp(dct, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU), EINVAL);
  assert_int_equal(target_to_rtr(&dc, dct), 0);
  /* A target that went wrong is made anew: it has no way back. */
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RESET};
  assert_int_equal(ibv_modify_qp(dct, &attr, IBV_QP_STATE), EINVAL);
  assert_int_equal(ibv_destroy_qp(dct), 0);
  dc_close(&dc);
}

static void test_a_target_has_its_number_in_rtr(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, false);
  struct ibv_qp *dct = make_dct(&dc);
  uint32_t before = dct->qp_num;
  assert_int_equal(target_to_init(dct), 0);
  assert_int_equal(dct->qp_num, before);
  assert_int_equal(target_to_rtr(&dc, dct), 0);
  assert_int_not_equal(dct->qp_num, before);
  post_write(&dc, 1, dc.pair.a.mr->lkey, before, KEY, 0);
  expect_wc(dc.pair.a.cq, 1, IBV_WC_RETRY_EXC_ERR);
  assert_int_equal(ibv_destroy_qp(dct), 0);
  dc_close(&dc);
}

static void test_one_initiator_reaches_several_targets(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, false);
  struct ibv_qp *targets[] = {open_dct(&dc), open_dct(&dc)};
  assert_int_not_equal(targets[0]->qp_num, targets[1]->qp_num);
  for (uint8_t i = 0; i < 2; i++) {
    memset(dc.pair.a.bytes, 0x30 + i, 8);
    post_write(&dc, i, dc.pair.a.mr->lkey, targets[i]->qp_num, KEY, 0);
    expect_wc(dc.pair.a.cq, i, IBV_WC_SUCCESS);
    assert_memory_equal(dc.pair.b.bytes, dc.pair.a.bytes, 8);
  }
  for (int i = 0; i < 2; i++)
    assert_int_equal(ibv_destroy_qp(targets[i]), 0);
  dc_close(&dc);
}

static void check_looks_dead(struct dc *dc, uint32_t dctn, uint64_t key)
{
  post_write(dc, 1, dc->pair.a.mr->lkey, dctn, key, 0);
  struct ibv_wc wc = wait_wc(dc->pair.a.cq);
  assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
  assert_int_equal(wc.vendor_err, 0x81);
  assert_int_equal(state_of(dc->dci), IBV_QPS_ERR);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  modify(dc->dci, &attr, IBV_QP_STATE);
  initiator_to_rts(dc->dci);
}

/* A wrong key, a wrong number, a target that is gone: one and the same from here. */
static void test_wrong_keys_and_numbers_look_like_dead_peers(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, false);
  struct ibv_qp *dct = open_dct(&dc);
  uint32_t number = dct->qp_num;
  check_looks_dead(&dc, number, KEY + 1);
  check_looks_dead(&dc, number + 1, KEY);
  /* The initiator is repaired each time, and the target has not noticed. */
  post_write(&dc, 2, dc.pair.a.mr->lkey, number, KEY, 0);
  expect_wc(dc.pair.a.cq, 2, IBV_WC_SUCCESS);
  assert_int_equal(ibv_destroy_qp(dct), 0);
  check_looks_dead(&dc, number, KEY);
  dc_close(&dc);
}

static void test_every_request_names_its_target(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, false);
  struct ibv_qp *dct = open_dct(&dc);
  struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(dc.dci);
  ibv_wr_start(qp);
  qp->wr_id = 1;
  build_write(&dc, dc.pair.a.mr->lkey, dct->qp_num, KEY, 0);
  ibv_wr_rdma_write(qp, dc.pair.b.mr->rkey, (uintptr_t)dc.pair.b.bytes);
  ibv_wr_set_sge(qp, dc.pair.a.mr->lkey, (uintptr_t)dc.pair.a.bytes, 8);
  /* The whole batch is dropped, the good one too. */
  assert_int_equal(ibv_wr_complete(qp), EINVAL);
  no_wc(dc.pair.a.cq);
  struct ibv_sge sge;
  struct ibv_send_wr wr = request(&dc.pair, IBV_WR_RDMA_WRITE, &sge, 8);
  assert_int_equal(post(dc.dci, &wr), EINVAL);
  assert_int_equal(ibv_destroy_qp(dct), 0);
  dc_close(&dc);
}

static void test_a_stream_fails_alone(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, true);
  struct ibv_qp *dct = open_dct(&dc);
  uint32_t lkey = dc.pair.a.mr->lkey;
  post_write(&dc, 1, 0, dct->qp_num, KEY, 1);
  expect_wc(dc.pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
  assert_int_equal(state_of(dc.dci), IBV_QPS_RTS);
  post_write(&dc, 2, lkey, dct->qp_num, KEY, 2);
  expect_wc(dc.pair.a.cq, 2, IBV_WC_SUCCESS);
  post_write(&dc, 3, lkey, dct->qp_num, KEY, 1);
  expect_wc(dc.pair.a.cq, 3, IBV_WC_WR_FLUSH_ERR);
  assert_int_equal(mlx5dv_dci_stream_id_reset(dc.dci, 2), EINVAL); /* it has not failed */
  assert_int_equal(mlx5dv_dci_stream_id_reset(dc.dci, 1), 0);
  post_write(&dc, 4, lkey, dct->qp_num, KEY, 1);
  expect_wc(dc.pair.a.cq, 4, IBV_WC_SUCCESS);
  assert_int_equal(ibv_destroy_qp(dct), 0);
  dc_close(&dc);
}

static void test_too_many_failed_streams_fail_the_initiator(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, true);
  struct ibv_qp *dct = open_dct(&dc);
  for (uint16_t i = 1; i <= 1 << ERRORED_LOG; i++) {
    assert_int_equal(state_of(dc.dci), IBV_QPS_RTS);
    post_write(&dc, i, 0, dct->qp_num, KEY, i);
    expect_wc(dc.pair.a.cq, i, IBV_WC_LOC_PROT_ERR);
  }
  assert_int_equal(state_of(dc.dci), IBV_QPS_ERR);
  assert_int_equal(mlx5dv_dci_stream_id_reset(dc.dci, 1), EINVAL);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  modify(dc.dci, &attr, IBV_QP_STATE);
  initiator_to_rts(dc.dci);
  post_write(&dc, 9, dc.pair.a.mr->lkey, dct->qp_num, KEY, 1);
  expect_wc(dc.pair.a.cq, 9, IBV_WC_SUCCESS);
  assert_int_equal(ibv_destroy_qp(dct), 0);
  dc_close(&dc);
}

/* An initiator with another time for acknowledgements. */
static void begin_again(struct dc *dc, uint8_t timeout)
{
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  modify(dc->dci, &attr, IBV_QP_STATE);
  initiator_with(dc->dci, timeout, 1);
}

enum { HALF_A_SECOND = 16 }; /* 4.096 us x 2^16, twice */

static void test_a_silent_stream_holds_up_no_other(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, true);
  begin_again(&dc, HALF_A_SECOND);
  struct ibv_qp *dct = open_dct(&dc);
  uint32_t lkey = dc.pair.a.mr->lkey;
  post_write(&dc, 1, lkey, dct->qp_num, KEY + 1, 1);
  post_write(&dc, 2, lkey, dct->qp_num, KEY, 1); /* behind it */
  post_write(&dc, 3, lkey, dct->qp_num, KEY, 2);
  expect_wc(dc.pair.a.cq, 3, IBV_WC_SUCCESS);
  expect_wc(dc.pair.a.cq, 1, IBV_WC_RETRY_EXC_ERR);
  expect_wc(dc.pair.a.cq, 2, IBV_WC_WR_FLUSH_ERR);
  assert_int_equal(state_of(dc.dci), IBV_QPS_RTS);
  assert_int_equal(mlx5dv_dci_stream_id_reset(dc.dci, 1), 0);
  assert_int_equal(ibv_destroy_qp(dct), 0);
  dc_close(&dc);
}

static void test_a_device_serves_so_many_streams_at_a_time(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, true);
  begin_again(&dc, HALF_A_SECOND);
  struct ibv_qp *dct = open_dct(&dc);
  uint32_t lkey = dc.pair.a.mr->lkey;
  uint16_t silent = 0;
  for (; silent < (1 << STREAMS_LOG) - 1; silent++)
    post_write(&dc, 1, lkey, dct->qp_num, KEY + 1, silent);
  post_write(&dc, 2, lkey, dct->qp_num, KEY, silent);
  expect_wc(dc.pair.a.cq, 2, IBV_WC_SUCCESS); /* by the last one */
  post_write(&dc, 1, lkey, dct->qp_num, KEY + 1, silent);
  post_write(&dc, 3, lkey, dct->qp_num, KEY, silent + 1);
  for (int failed = 0; failed < 1 << ERRORED_LOG;) {
    struct ibv_wc wc = wait_wc(dc.pair.a.cq);
    if (wc.wr_id == 3 && failed) /* in the place of one that has failed */
      continue;
    assert_int_equal(wc.wr_id, 1);
    assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
    failed++;
  }
  assert_int_equal(state_of(dc.dci), IBV_QPS_ERR);
  assert_int_equal(ibv_destroy_qp(dct), 0);
  dc_close(&dc);
}

static void test_without_streams_one_error_fails_all(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, false);
  struct ibv_qp *dct = open_dct(&dc);
  post_write(&dc, 1, 0, dct->qp_num, KEY, 1);
  expect_wc(dc.pair.a.cq, 1, IBV_WC_LOC_PROT_ERR);
  assert_int_equal(state_of(dc.dci), IBV_QPS_ERR);
  post_write(&dc, 2, dc.pair.a.mr->lkey, dct->qp_num, KEY, 2);
  expect_wc(dc.pair.a.cq, 2, IBV_WC_WR_FLUSH_ERR);
  assert_int_equal(mlx5dv_dci_stream_id_reset(dc.dci, 1), EINVAL);
  assert_int_equal(ibv_destroy_qp(dct), 0);
  dc_close(&dc);
}

static void post_send_to(struct dc *dc, uint64_t id, uint32_t dctn)
{
  struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(dc->dci);
  ibv_wr_start(qp);
  qp->wr_id = id;
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, dc->pair.a.mr->lkey, (uintptr_t)dc->pair.a.bytes, 8);
  mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(qp), dc->ah, dctn, KEY);
  assert_int_equal(ibv_wr_complete(qp), 0);
}

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* rnr_retry 7 is for ever: nothing says that the target's queue is empty. Two tries say how long
 * one takes, and nothing comes in the time of 32. */
static void test_an_empty_queue_is_tried_again_or_for_ever(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, false);
  struct ibv_qp *dct = open_dct(&dc);
  const uint64_t begun = now_ns();
  post_send_to(&dc, 1, dct->qp_num);
  expect_wc(dc.pair.a.cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
  const uint64_t two = now_ns() - begun;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
  modify(dc.dci, &attr, IBV_QP_STATE);
  initiator_with(dc.dci, 1, 7);
  post_send_to(&dc, 2, dct->qp_num);
  for (const uint64_t until = now_ns() + 16 * two; now_ns() < until;)
    no_wc(dc.pair.a.cq);
  struct ibv_sge sge = {(uintptr_t)dc.pair.b.bytes, 8, dc.pair.b.mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1}, *bad;
  assert_int_equal(ibv_post_srq_recv(dc.srq, &wr, &bad), 0);
  expect_wc(dc.pair.a.cq, 2, IBV_WC_SUCCESS);
  expect_wc(dc.pair.b.cq, 3, IBV_WC_SUCCESS);
  assert_int_equal(ibv_destroy_qp(dct), 0);
  dc_close(&dc);
}

static void test_source_ports_are_for_connected_queue_pairs(void **state)
{
  (void)state;
  struct dc dc;
  dc_open(&dc, false);
  assert_int_equal(mlx5dv_modify_qp_udp_sport(dc.dci, 50000), EOPNOTSUPP);
  dc_close(&dc);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_what_a_target_needs),
      cmocka_unit_test(test_what_an_initiator_needs),
      cmocka_unit_test(test_transitions_take_their_attributes_alone),
      cmocka_unit_test(test_a_target_has_its_number_in_rtr),
      cmocka_unit_test(test_one_initiator_reaches_several_targets),
      cmocka_unit_test(test_wrong_keys_and_numbers_look_like_dead_peers),
      cmocka_unit_test(test_every_request_names_its_target),
      cmocka_unit_test(test_a_stream_fails_alone),
      cmocka_unit_test(test_a_silent_stream_holds_up_no_other),
      cmocka_unit_test(test_a_device_serves_so_many_streams_at_a_time),
      cmocka_unit_test(test_too_many_failed_streams_fail_the_initiator),
      cmocka_unit_test(test_without_streams_one_error_fails_all),
      cmocka_unit_test(test_an_empty_queue_is_tried_again_or_for_ever),
      cmocka_unit_test(test_source_ports_are_for_connected_queue_pairs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
