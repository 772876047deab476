/* SPDX-License-Identifier: Apache-2.0 */
/* ibv_wr_*: what a batch takes, when it is dropped, and that nothing of the program's is needed
 * after a setter; the extended CQ that such programs read. */
#include "support.h"

#include <infiniband/mlx5dv.h>

static const uint64_t OPS = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND;

/* A queue pair that a's end gets in place of its own. */
static void reopen(struct pair *pair, uint64_t ops)
{
  struct pair_attr pair_attr = pair_defaults();
  pair_make(pair, &pair_attr);
  assert_int_equal(ibv_destroy_qp(pair->a.qp), 0);
  struct ibv_qp_init_attr_ex attr = {.send_cq = pair->a.cq,
                                     .recv_cq = pair->a.cq,
                                     .cap = pair_attr.cap,
                                     .qp_type = IBV_QPT_RC,
                                     .comp_mask =
                                         IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                     .pd = pair->pd,
                                     .send_ops_flags = ops};
  assert_non_null(pair->a.qp = ibv_create_qp_ex(pair->context, &attr));
  pair_connect(pair);
}

static struct ibv_qp_ex *start(struct pair *pair)
{
  struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair->a.qp);
  assert_non_null(qp);
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  return qp;
}

static void build_write(struct pair *pair, struct ibv_qp_ex *qp, uint64_t id, size_t offset)
{
  qp->wr_id = id;
  ibv_wr_rdma_write(qp, pair->b.mr->rkey, (uintptr_t)pair->b.bytes + offset);
  ibv_wr_set_sge(qp, pair->a.mr->lkey, (uintptr_t)pair->a.bytes + offset, 8);
}

static void test_a_batch_goes_as_one(void **state)
{
  (void)state;
  struct pair pair;
  reopen(&pair, OPS);
  memset(pair.a.bytes, 7, 32);
  struct ibv_qp_ex *qp = start(&pair);
  for (uint64_t i = 0; i < 4; i++)
    build_write(&pair, qp, i, i * 8);
  no_wc(pair.a.cq);
  assert_int_equal(ibv_wr_complete(qp), 0);
  for (uint64_t i = 0; i < 4; i++)
    expect_wc(pair.a.cq, i, IBV_WC_SUCCESS);
  assert_memory_equal(pair.a.bytes, pair.b.bytes, 32);
  pair_close(&pair);
}

static void test_an_aborted_batch_was_never(void **state)
{
  (void)state;
  struct pair pair;
  reopen(&pair, OPS);
  memset(pair.a.bytes, 7, 8);
  struct ibv_qp_ex *qp = start(&pair);
  build_write(&pair, qp, 1, 0);
  ibv_wr_abort(qp);
  no_wc(pair.a.cq);
  assert_int_equal(pair.b.bytes[0], 0);
  qp = start(&pair);
  build_write(&pair, qp, 2, 0);
  assert_int_equal(ibv_wr_complete(qp), 0);
  expect_wc(pair.a.cq, 2, IBV_WC_SUCCESS);
  pair_close(&pair);
}

static void test_one_too_many_drops_the_batch(void **state)
{
  (void)state;
  struct pair pair;
  reopen(&pair, OPS);
  struct ibv_qp_ex *qp = start(&pair);
  for (uint64_t i = 0; i <= pair_defaults().cap.max_send_wr; i++)
    build_write(&pair, qp, i, 0);
  assert_int_equal(ibv_wr_complete(qp), ENOMEM);
  no_wc(pair.a.cq);
  qp = start(&pair);
  for (uint64_t i = 0; i < pair_defaults().cap.max_send_wr; i++)
    build_write(&pair, qp, i, 0);
  assert_int_equal(ibv_wr_complete(qp), 0);
  pair_close(&pair);
}

static void test_only_what_was_declared(void **state)
{
  (void)state;
  struct pair pair;
  reopen(&pair, IBV_QP_EX_WITH_RDMA_WRITE);
  struct ibv_qp_ex *qp = start(&pair);
  ibv_wr_send(qp);
  ibv_wr_set_sge(qp, pair.a.mr->lkey, (uintptr_t)pair.a.bytes, 8);
  assert_int_equal(ibv_wr_complete(qp), EINVAL);
  pair_close(&pair);
}

static void test_declaring_what_a_transport_has_not(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_make(&pair, &pair_attr);
  struct ibv_qp_init_attr_ex attr = {.send_cq = pair.a.cq,
                                     .recv_cq = pair.a.cq,
                                     .cap = pair_attr.cap,
                                     .qp_type = IBV_QPT_UD,
                                     .comp_mask =
                                         IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                     .pd = pair.pd,
                                     .send_ops_flags = IBV_QP_EX_WITH_RDMA_READ};
  assert_null(ibv_create_qp_ex(pair.context, &attr));
  assert_int_equal(errno, EOPNOTSUPP);
  /* Without any, there is no such interface to it. */
  assert_null(ibv_qp_to_qp_ex(pair.a.qp));
  pair_close(&pair);
}

static void test_setters_copy(void **state)
{
  (void)state;
  struct pair pair;
  reopen(&pair, OPS);
  char text[] = "inline";
  struct ibv_sge sges[2] = {{(uintptr_t)pair.a.bytes, 4, pair.a.mr->lkey},
                            {(uintptr_t)pair.a.bytes + 16, 4, pair.a.mr->lkey}};
  memcpy(pair.a.bytes, "ABCD", 4);
  memcpy(pair.a.bytes + 16, "EFGH", 4);
  struct ibv_qp_ex *qp = start(&pair);
  ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.bytes);
  ibv_wr_set_inline_data(qp, text, sizeof(text));
  memset(text, 'x', sizeof(text));
  ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.bytes + 32);
  ibv_wr_set_sge_list(qp, 2, sges);
  memset(sges, 0, sizeof(sges));
  assert_int_equal(ibv_wr_complete(qp), 0);
  wait_wc(pair.a.cq);
  expect_wc(pair.a.cq, qp->wr_id, IBV_WC_SUCCESS);
  assert_string_equal((char *)pair.b.bytes, "inline");
  assert_memory_equal(pair.b.bytes + 32, "ABCDEFGH", 8);
  pair_close(&pair);
}

static void test_too_much_for_a_request(void **state)
{
  (void)state;
  struct pair pair;
  reopen(&pair, OPS);
  struct ibv_sge sges[3] = {0};
  struct ibv_qp_ex *qp = start(&pair);
  ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.bytes);
  ibv_wr_set_sge_list(qp, 3, sges);
  assert_int_equal(ibv_wr_complete(qp), ENOMEM);
  struct ibv_qp_init_attr init;
  struct ibv_qp_attr attr;
  assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_CAP, &init), 0);
  qp = start(&pair);
  ibv_wr_rdma_write(qp, pair.b.mr->rkey, (uintptr_t)pair.b.bytes);
  ibv_wr_set_inline_data(qp, pair.a.bytes, init.cap.max_inline_data + 1);
  assert_int_equal(ibv_wr_complete(qp), ENOMEM);
  no_wc(pair.a.cq);
  pair_close(&pair);
}

static void test_extended_cq(void **state)
{
  (void)state;
  struct pair pair;
  reopen(&pair, OPS);
  struct ibv_cq_init_attr_ex unknown = {.cqe = 8, .wc_flags = IBV_WC_EX_WITH_CVLAN};
  assert_null(ibv_create_cq_ex(pair.context, &unknown));
  assert_int_equal(errno, EOPNOTSUPP);
  struct ibv_cq_init_attr_ex init = {
      .cqe = 8, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
  struct ibv_cq_ex *cq = ibv_create_cq_ex(pair.context, &init);
  assert_non_null(cq);
  assert_null(cq->read_slid); /* not asked for */
  struct ibv_poll_cq_attr attr = {0}, wrong = {.comp_mask = 1};
  assert_int_equal(ibv_start_poll(cq, &wrong), EINVAL);
  assert_int_equal(ibv_start_poll(cq, &attr), ENOENT);
  assert_int_equal(ibv_start_poll(cq, &attr), ENOENT); /* nothing to end */
  assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
  pair_close(&pair);
}

/* The region's addresses are not the CPU's, as with GPU memory. */
static void test_small_sends_by_the_device_alone(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  const uint64_t iova = UINT64_C(1) << 50;
  pair_make(&pair, &pair_attr);
  assert_int_equal(ibv_destroy_qp(pair.b.qp), 0);
  struct ibv_qp_init_attr_ex attr = {.send_cq = pair.b.cq,
                                     .recv_cq = pair.b.cq,
                                     .cap = pair_attr.cap,
                                     .qp_type = IBV_QPT_RC,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD,
                                     .pd = pair.pd};
  struct mlx5dv_qp_init_attr own = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
                                    .create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE};
  assert_non_null(pair.b.qp = mlx5dv_create_qp(pair.context, &attr, &own));
  pair_connect(&pair);
  struct ibv_mr *mr = ibv_reg_mr_iova(pair.pd, pair.b.bytes, BYTES, iova, ALL_ACCESS);
  assert_non_null(mr);
  struct ibv_sge to = {.addr = iova + 8, .length = 100, .lkey = mr->lkey};
  struct ibv_recv_wr recv = {.wr_id = 5, .sg_list = &to, .num_sge = 1}, *bad;
  assert_int_equal(ibv_post_recv(pair.b.qp, &recv, &bad), 0);
  memset(pair.a.bytes, 9, 20);
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 20);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  expect_wc(pair.b.cq, 5, IBV_WC_SUCCESS);
  assert_memory_equal(pair.b.bytes + 8, pair.a.bytes, 20);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_small_sends_by_the_device_alone),
      cmocka_unit_test(test_a_batch_goes_as_one),
      cmocka_unit_test(test_an_aborted_batch_was_never),
      cmocka_unit_test(test_one_too_many_drops_the_batch),
      cmocka_unit_test(test_only_what_was_declared),
      cmocka_unit_test(test_declaring_what_a_transport_has_not),
      cmocka_unit_test(test_setters_copy),
      cmocka_unit_test(test_too_much_for_a_request),
      cmocka_unit_test(test_extended_cq),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
