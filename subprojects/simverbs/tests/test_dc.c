/* SPDX-License-Identifier: Apache-2.0 */
/* A DC initiator sees the same of a wrong access key, a router, a GID of the other type and an MTU
 * that does not fit; each is counted apart. On paths.yaml. */
#include "rig.h"

#include <infiniband/mlx5dv.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 3000 };
#define ACCESS_KEY UINT64_C(0x1122334455667788)

struct dc {
  struct rig_end from, to; /* `to` has a DCT for a QP, and a shared receive queue */
  struct ibv_srq *srq;
  struct ibv_ah *ah;
};

/* Differences from an initiator and a target that understand each other. */
struct how {
  const char *to;
  uint64_t key;      /* 0: the right one */
  uint8_t hop_limit; /* in the initiator's address handle */
  uint8_t gid_index; /* 0: RIG_GID */
  enum ibv_mtu mtu;  /* of the initiator; 0: 1024 */
};

static void open_end(struct rig_end *end, const char *device)
{
  end->context = rig_device(device);
  assert_non_null(end->context);
  end->pd = ibv_alloc_pd(end->context);
  end->cq = ibv_create_cq(end->context, RIG_WRS, NULL, NULL, 0);
  end->bytes = calloc(1, RIG_BYTES);
  end->mr = ibv_reg_mr(end->pd, end->bytes, RIG_BYTES, IBV_ACCESS_LOCAL_WRITE);
  assert_non_null(end->mr);
}

static void open_target(struct dc *dc, const char *device)
{
  open_end(&dc->to, device);
  struct ibv_srq_init_attr shared = {.attr = {.max_wr = RIG_WRS, .max_sge = 1}};
  dc->srq = ibv_create_srq(dc->to.pd, &shared);
  struct ibv_qp_init_attr_ex attr = {.send_cq = dc->to.cq,
                                     .recv_cq = dc->to.cq,
                                     .srq = dc->srq,
                                     .qp_type = IBV_QPT_DRIVER,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD,
                                     .pd = dc->to.pd};
  struct mlx5dv_qp_init_attr dv = {
      .comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
      .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCT, .dct_access_key = ACCESS_KEY}};
  dc->to.qp = mlx5dv_create_qp(dc->to.context, &attr, &dv);
  assert_non_null(dc->to.qp);
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  struct ibv_qp_attr rtr = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = IBV_MTU_1024,
      .min_rnr_timer = 1,
      .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = RIG_GID, .hop_limit = 64}}};
  assert_int_equal(
      ibv_modify_qp(dc->to.qp, &init,
                    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
      0);
  assert_int_equal(ibv_modify_qp(dc->to.qp, &rtr,
                                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_MIN_RNR_TIMER),
                   0);
}

static void open_initiator(struct dc *dc, const struct how *how)
{
  open_end(&dc->from, "west0");
  struct ibv_qp_init_attr_ex attr = {.send_cq = dc->from.cq,
                                     .recv_cq = dc->from.cq,
                                     .cap = {.max_send_wr = RIG_WRS, .max_send_sge = 1},
                                     .qp_type = IBV_QPT_DRIVER,
                                     .sq_sig_all = 1,
                                     .comp_mask =
                                         IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                     .pd = dc->from.pd,
                                     .send_ops_flags = IBV_QP_EX_WITH_SEND};
  struct mlx5dv_qp_init_attr dv = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_DC,
                                   .dc_init_attr = {.dc_type = MLX5DV_DCTYPE_DCI}};
  dc->from.qp = mlx5dv_create_qp(dc->from.context, &attr, &dv);
  assert_non_null(dc->from.qp);
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
                            .path_mtu = how->mtu ? how->mtu : IBV_MTU_1024};
  struct ibv_qp_attr rts = {
      .qp_state = IBV_QPS_RTS, .timeout = 10, .retry_cnt = 1, .max_rd_atomic = 1};
  assert_int_equal(
      ibv_modify_qp(dc->from.qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT), 0);
  assert_int_equal(ibv_modify_qp(dc->from.qp, &rtr, IBV_QP_STATE | IBV_QP_PATH_MTU), 0);
  assert_int_equal(ibv_modify_qp(dc->from.qp, &rts,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                   0);
  struct ibv_ah_attr to = {.is_global = 1,
                           .port_num = 1,
                           .grh = {.dgid = rig_gid(&dc->to),
                                   .sgid_index = how->gid_index ? how->gid_index : RIG_GID,
                                   .hop_limit = how->hop_limit}};
  dc->ah = ibv_create_ah(dc->from.pd, &to);
  assert_non_null(dc->ah);
}

static void close_all(struct dc *dc)
{
  assert_int_equal(ibv_destroy_ah(dc->ah), 0);
  assert_int_equal(ibv_destroy_qp(dc->to.qp), 0);
  assert_int_equal(ibv_destroy_srq(dc->srq), 0);
  assert_int_equal(ibv_destroy_qp(dc->from.qp), 0);
  for (struct rig_end *end = &dc->from; end; end = end == &dc->from ? &dc->to : NULL) {
    assert_int_equal(ibv_dereg_mr(end->mr), 0);
    assert_int_equal(ibv_destroy_cq(end->cq), 0);
    assert_int_equal(ibv_dealloc_pd(end->pd), 0);
    assert_int_equal(ibv_close_device(end->context), 0);
    free(end->bytes);
  }
}

static enum ibv_wc_status send_one(struct dc *dc, uint64_t key)
{
  struct ibv_sge sge = {(uintptr_t)dc->to.bytes, BYTES, dc->to.mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1}, *bad;
  assert_int_equal(ibv_post_srq_recv(dc->srq, &wr, &bad), 0);
  memset(dc->from.bytes, 0x5a, BYTES);
  struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(dc->from.qp);
  ibv_wr_start(qp);
  qp->wr_id = 2;
  ibv_wr_send(qp);
  mlx5dv_wr_set_dc_addr(mlx5dv_qp_ex_from_ibv_qp_ex(qp), dc->ah, dc->to.qp->qp_num, key);
  ibv_wr_set_sge(qp, dc->from.mr->lkey, (uintptr_t)dc->from.bytes, BYTES);
  assert_int_equal(ibv_wr_complete(qp), 0);
  enum ibv_wc_status status = rig_wait(&dc->from).status;
  if (status == IBV_WC_SUCCESS) {
    assert_int_equal(rig_wait(&dc->to).status, IBV_WC_SUCCESS);
    assert_memory_equal(dc->from.bytes, dc->to.bytes, BYTES);
  } else {
    assert_true(rig_is_quiet(&dc->to));
  }
  return status;
}

static enum ibv_wc_status try(const struct how *how)
{
  struct dc dc;
  open_target(&dc, how->to);
  open_initiator(&dc, how);
  enum ibv_wc_status status = send_one(&dc, how->key ? how->key : ACCESS_KEY);
  close_all(&dc);
  return status;
}

/* One try and one retry are lost, and counted as this and as nothing else. */
static void assert_lost(const struct how *how, const char *counter)
{
  static const char *const all[] = {"lost_key",     "lost_hop_limit", "lost_gid_type", "lost_mtu",
                                    "lost_no_path", "lost_no_qp",     "lost_qp_state"};
  enum { N = sizeof(all) / sizeof(all[0]) };
  uint64_t before[N];
  for (unsigned i = 0; i < N; i++)
    before[i] = rig_counter(all[i]);
  assert_int_equal(try(how), IBV_WC_RETRY_EXC_ERR);
  for (unsigned i = 0; i < N; i++)
    assert_int_equal(rig_counter(all[i]), before[i] + (strcmp(all[i], counter) ? 0 : 2));
}

static void access_key(void **state)
{
  (void)state;
  assert_int_equal(try(&(struct how){.to = "west1"}), IBV_WC_SUCCESS);
  assert_lost(&(struct how){.to = "west1", .key = ACCESS_KEY + 1}, "lost_key");
}

static void hop_limit(void **state)
{
  (void)state;
  assert_lost(&(struct how){.to = "east0", .hop_limit = 1}, "lost_hop_limit");
  assert_int_equal(try(&(struct how){.to = "east0", .hop_limit = 2}), IBV_WC_SUCCESS);
}

static void gid_type(void **state)
{
  (void)state;
  assert_lost(&(struct how){.to = "west1", .gid_index = 2}, "lost_gid_type");
}

static void path_mtu(void **state)
{
  (void)state;
  assert_lost(&(struct how){.to = "west1", .mtu = IBV_MTU_2048}, "lost_mtu");
}

/* A target fails as a message comes, and its program hears of it. Another is made, and is there. */
static void target_fails(void **state)
{
  (void)state;
  struct dc dc;
  const struct how how = {.to = "west1"};
  open_target(&dc, how.to);
  open_initiator(&dc, &how);
  rig_ctl("target-error h/west1 --after 1 --count 1");
  assert_int_equal(send_one(&dc, ACCESS_KEY), IBV_WC_SUCCESS);
  const uint64_t lost = rig_counter("lost_fault"), later = rig_counter("lost_qp_state");
  assert_int_equal(send_one(&dc, ACCESS_KEY), IBV_WC_RETRY_EXC_ERR);
  assert_int_equal(rig_counter("lost_fault"), lost + 1);
  assert_int_equal(rig_counter("lost_qp_state"), later + 1); /* the retry */
  assert_int_equal(rig_event(dc.to.context), IBV_EVENT_QP_FATAL);
  close_all(&dc);
  assert_int_equal(try(&how), IBV_WC_SUCCESS);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(access_key), cmocka_unit_test(hop_limit),    cmocka_unit_test(gid_type),
      cmocka_unit_test(path_mtu),   cmocka_unit_test(target_fails),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
