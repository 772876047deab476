/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair changes its state with the attributes that the specification requires, with none
 * that it does not allow, and with values in their range. */
#include "support.h"

/* Takes one required bit away at a time, and adds one foreign bit at a time. */
static void check_masks(struct ibv_qp *qp, struct ibv_qp_attr *attr, int required, int optional)
{
  for (int bit = 1; bit <= IBV_QP_DEST_QPN; bit <<= 1) {
    if (bit == IBV_QP_STATE)
      continue;
    if (required & bit)
      assert_int_equal(ibv_modify_qp(qp, attr, required & ~bit), EINVAL);
    else if (!(optional & bit))
      assert_int_equal(ibv_modify_qp(qp, attr, required | bit), EINVAL);
  }
}

static void masks(enum ibv_qp_type type, int rtr_optional, int rts_optional)
{
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr;
  pair_attr.type = type;
  pair_make(&pair, &pair_attr);
  struct ibv_qp *qp = pair.a.qp;
  int mask = to_init(&pair, &attr);
  check_masks(qp, &attr, mask, 0);
  assert_int_equal(state_of(qp), IBV_QPS_RESET);
  modify(qp, &attr, mask);
  mask = to_rtr(&pair, &pair.b, &attr);
  check_masks(qp, &attr, mask, rtr_optional);
  assert_int_equal(state_of(qp), IBV_QPS_INIT);
  modify(qp, &attr, mask);
  mask = to_rts(&pair, &attr);
  check_masks(qp, &attr, mask, rts_optional);
  assert_int_equal(state_of(qp), IBV_QPS_RTR);
  modify(qp, &attr, mask);
  assert_int_equal(state_of(qp), IBV_QPS_RTS);
  pair_close(&pair);
}

static void test_masks_rc(void **state)
{
  (void)state;
  masks(IBV_QPT_RC, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
        IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE);
}

static void test_masks_uc(void **state)
{
  (void)state;
  masks(IBV_QPT_UC, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
        IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MIG_STATE);
}

static void test_masks_ud(void **state)
{
  (void)state;
  masks(IBV_QPT_UD, IBV_QP_QKEY | IBV_QP_PKEY_INDEX, IBV_QP_CUR_STATE | IBV_QP_QKEY);
}

static void test_no_state_is_left_out(void **state)
{
  (void)state;
  static const enum ibv_qp_state all[] = {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE};
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_make(&pair, &pair_attr);
  for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    struct ibv_qp_attr attr = {.qp_state = all[i]};
    assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), EINVAL);
  }
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE), EINVAL);
  int mask = to_init(&pair, &attr);
  modify(pair.a.qp, &attr, mask);
  /* Out of ERR there is only RESET. */
  attr.qp_state = IBV_QPS_ERR;
  modify(pair.a.qp, &attr, IBV_QP_STATE);
  mask = to_init(&pair, &attr);
  assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, mask), EINVAL);
  attr.qp_state = IBV_QPS_RESET;
  modify(pair.a.qp, &attr, IBV_QP_STATE);
  mask = to_init(&pair, &attr);
  modify(pair.a.qp, &attr, mask);
  pair_close(&pair);
}

static void test_current_state_must_be_it(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_open(&pair, &pair_attr);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD};
  assert_int_equal(ibv_modify_qp(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
  attr.cur_qp_state = IBV_QPS_RTS;
  modify(pair.a.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE);
  pair_close(&pair);
}

#define refused(qp, base, mask, field, value)                                                      \
  do {                                                                                             \
    struct ibv_qp_attr bad_ = base;                                                                \
    bad_.field = value;                                                                            \
    assert_int_equal(ibv_modify_qp(qp, &bad_, mask), EINVAL);                                      \
  } while (0)

static void test_ranges(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr;
  pair_make(&pair, &pair_attr);
  struct ibv_qp *qp = pair.a.qp;
  int mask = to_init(&pair, &attr);
  refused(qp, attr, mask, port_num, 0);
  refused(qp, attr, mask, port_num, 2);
  refused(qp, attr, mask, pkey_index, 1);
  modify(qp, &attr, mask);
  mask = to_rtr(&pair, &pair.b, &attr);
  refused(qp, attr, mask, path_mtu, 0);
  refused(qp, attr, mask, path_mtu, 6);
  refused(qp, attr, mask, dest_qp_num, 0x1000000);
  refused(qp, attr, mask, min_rnr_timer, 32);
  refused(qp, attr, mask, max_dest_rd_atomic, 200);
  refused(qp, attr, mask, ah_attr.port_num, 0);
  refused(qp, attr, mask, ah_attr.is_global, 0); /* Ethernet needs a GRH */
  modify(qp, &attr, mask);
  mask = to_rts(&pair, &attr);
  refused(qp, attr, mask, timeout, 32);
  refused(qp, attr, mask, retry_cnt, 8);
  refused(qp, attr, mask, rnr_retry, 8);
  refused(qp, attr, mask, max_rd_atomic, 200);
  modify(qp, &attr, mask);
  pair_close(&pair);
}

#define unresolved(qp, base, mask, field, value, error)                                            \
  do {                                                                                             \
    struct ibv_qp_attr bad_ = base;                                                                \
    bad_.field = value;                                                                            \
    assert_int_equal(ibv_modify_qp(qp, &bad_, mask), error);                                       \
  } while (0)

/* The kernel resolves a RoCE path before the device is asked. */
static void test_addresses_are_resolved(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr;
  pair_make(&pair, &pair_attr);
  struct ibv_qp *qp = pair.a.qp;
  int mask = to_init(&pair, &attr);
  modify(qp, &attr, mask);
  mask = to_rtr(&pair, &pair.b, &attr);
  unresolved(qp, attr, mask, ah_attr.grh.sgid_index, 9, ENODATA);
  unresolved(qp, attr, mask, ah_attr.grh.sgid_index, 99, ENODATA);
  unresolved(qp, attr, mask, ah_attr.grh.sgid_index, 1, EINVAL); /* IPv6, and the peer IPv4 */
  unresolved(qp, attr, mask, ah_attr.grh.dgid, (union ibv_gid){0}, EINVAL);
  unresolved(qp, attr, mask, ah_attr.grh.dgid.raw[15], 77, ETIMEDOUT); /* nobody's */
  modify(qp, &attr, mask);
  pair_close(&pair);
}

static void test_query_gives_what_was_set(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_open(&pair, &pair_attr);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  assert_int_equal(ibv_query_qp(pair.a.qp, &attr, IBV_QP_STATE, &init), 0);
  assert_int_equal(attr.dest_qp_num, pair.b.qp->qp_num);
  assert_int_equal(attr.path_mtu, IBV_MTU_1024);
  assert_int_equal(attr.sq_psn, 7);
  assert_int_equal(attr.timeout, pair_attr.timeout);
  assert_int_equal(init.cap.max_send_wr, pair.a.given.max_send_wr);
  assert_ptr_equal(init.send_cq, pair.a.cq);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_masks_rc),
      cmocka_unit_test(test_masks_uc),
      cmocka_unit_test(test_masks_ud),
      cmocka_unit_test(test_no_state_is_left_out),
      cmocka_unit_test(test_current_state_must_be_it),
      cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_addresses_are_resolved),
      cmocka_unit_test(test_query_gives_what_was_set),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
