/* SPDX-License-Identifier: Apache-2.0 */
/* What a device has no room for is refused when it is asked for. */
#include "support.h"

static void refused(struct pair *pair, struct ibv_qp_cap cap, enum ibv_qp_type type, int error)
{
  struct ibv_qp_init_attr init = {
      .send_cq = pair->a.cq, .recv_cq = pair->a.cq, .cap = cap, .qp_type = type};
  errno = 0;
  assert_null(ibv_create_qp(pair->pd, &init));
  assert_int_equal(errno, error);
}

static void test_queue_pairs(void **state)
{
  (void)state;
  struct wish wish = usual();
  struct pair pair;
  struct ibv_device_attr device;
  pair_open(&pair, &wish);
  assert_int_equal(ibv_query_device(pair.context, &device), 0);
  struct ibv_qp_cap cap = wish.cap;
  cap.max_send_wr = (uint32_t)device.max_qp_wr + 1;
  refused(&pair, cap, IBV_QPT_RC, EINVAL);
  cap = wish.cap;
  cap.max_recv_wr = (uint32_t)device.max_qp_wr + 1;
  refused(&pair, cap, IBV_QPT_RC, EINVAL);
  cap = wish.cap;
  cap.max_send_sge = (uint32_t)device.max_sge + 1;
  refused(&pair, cap, IBV_QPT_RC, EINVAL);
  cap = wish.cap;
  cap.max_recv_sge = (uint32_t)device.max_sge + 1;
  refused(&pair, cap, IBV_QPT_RC, EINVAL);
  cap = wish.cap;
  cap.max_inline_data = 4096;
  refused(&pair, cap, IBV_QPT_RC, EINVAL);
  refused(&pair, wish.cap, IBV_QPT_RAW_PACKET, EOPNOTSUPP);
  struct ibv_qp_init_attr init = {.cap = wish.cap, .qp_type = IBV_QPT_RC};
  errno = 0;
  assert_null(ibv_create_qp(pair.pd, &init));
  assert_int_equal(errno, EINVAL);
  pair_close(&pair);
}

static void test_completion_queues(void **state)
{
  (void)state;
  struct wish wish = usual();
  struct pair pair;
  struct ibv_device_attr device;
  pair_open(&pair, &wish);
  assert_int_equal(ibv_query_device(pair.context, &device), 0);
  errno = 0;
  assert_null(ibv_create_cq(pair.context, 0, NULL, NULL, 0));
  assert_int_equal(errno, EINVAL);
  assert_null(ibv_create_cq(pair.context, device.max_cqe + 1, NULL, NULL, 0));
  assert_int_equal(errno, EINVAL);
  assert_null(ibv_create_cq(pair.context, 1, NULL, NULL, pair.context->num_comp_vectors));
  assert_int_equal(errno, EINVAL);
  pair_close(&pair);
}

static void test_numbers_are_not_used_twice(void **state)
{
  (void)state;
  struct wish wish = usual();
  struct pair pair;
  pair_open(&pair, &wish);
  uint32_t last = 0;
  for (int i = 0; i < 300; i++) {
    struct ibv_qp_init_attr init = {
        .send_cq = pair.a.cq, .recv_cq = pair.a.cq, .cap = wish.cap, .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp(pair.pd, &init);
    assert_non_null(qp);
    assert_int_not_equal(qp->qp_num, last);
    last = qp->qp_num;
    assert_int_equal(ibv_destroy_qp(qp), 0);
  }
  pair_close(&pair);
}

static void test_address_handles(void **state)
{
  (void)state;
  struct wish wish = usual();
  struct pair pair;
  pair_open(&pair, &wish);
  struct ibv_ah_attr attr = {.is_global = 1, .port_num = 2};
  attr.grh.sgid_index = 3;
  errno = 0;
  assert_null(ibv_create_ah(pair.pd, &attr));
  assert_int_equal(errno, EINVAL);
  attr.port_num = 1;
  attr.is_global = 0;
  assert_null(ibv_create_ah(pair.pd, &attr));
  attr.is_global = 1;
  assert_int_equal(ibv_query_gid(pair.context, 1, 3, &attr.grh.dgid), 0);
  attr.grh.sgid_index = 12;
  assert_null(ibv_create_ah(pair.pd, &attr));
  assert_int_equal(errno, ENODATA);
  attr.grh.sgid_index = 3;
  attr.grh.dgid.raw[15] ^= 64;
  assert_null(ibv_create_ah(pair.pd, &attr));
  assert_int_equal(errno, ETIMEDOUT);
  attr.grh.dgid.raw[15] ^= 64;
  struct ibv_ah *ah = ibv_create_ah(pair.pd, &attr);
  assert_non_null(ah);
  assert_int_equal(ibv_dealloc_pd(pair.pd), EBUSY);
  assert_int_equal(ibv_destroy_ah(ah), 0);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_queue_pairs),
      cmocka_unit_test(test_completion_queues),
      cmocka_unit_test(test_numbers_are_not_used_twice),
      cmocka_unit_test(test_address_handles),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
