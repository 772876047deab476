/* SPDX-License-Identifier: Apache-2.0 */
/* Atomics and reads. */
#include "support.h"

#define with_pair(opcode, length)                                                                  \
  struct pair pair;                                                                                \
  struct ibv_sge sge;                                                                              \
  pair_open(&pair, &pair_attr);                                                                    \
  struct ibv_send_wr wr = request(&pair, opcode, &sge, length)

static uint64_t value_at(const uint8_t *bytes)
{
  uint64_t value;
  memcpy(&value, bytes, sizeof(value));
  return value;
}

static void set(uint8_t *bytes, uint64_t value)
{
  memcpy(bytes, &value, sizeof(value));
}

static void test_add(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  with_pair(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
  set(pair.b.bytes, 40);
  wr.wr.atomic.compare_add = 2;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  assert_int_equal(value_at(pair.b.bytes), 42);
  assert_int_equal(value_at(pair.a.bytes), 40);
  pair_close(&pair);
}

static void test_compare_and_swap(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  with_pair(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
  set(pair.b.bytes, 40);
  wr.wr.atomic.compare_add = 41;
  wr.wr.atomic.swap = 7;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  assert_int_equal(value_at(pair.b.bytes), 40);
  wr.wr.atomic.compare_add = 40;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  assert_int_equal(value_at(pair.b.bytes), 7);
  assert_int_equal(value_at(pair.a.bytes), 40);
  pair_close(&pair);
}

static void test_alignment(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  with_pair(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
  wr.wr.atomic.remote_addr += 4;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_REM_INV_REQ_ERR);
  pair_close(&pair);
}

static void test_eight_bytes(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  with_pair(IBV_WR_ATOMIC_FETCH_AND_ADD, 4);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_LOC_LEN_ERR);
  pair_close(&pair);
}

static void test_initiator_has_none(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  pair_attr.rd_atomic = 0;
  with_pair(IBV_WR_RDMA_READ, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_LOC_QP_OP_ERR);
  pair_close(&pair);
}

static void test_responder_has_none(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  pair_attr.dest_rd_atomic = 0;
  with_pair(IBV_WR_RDMA_READ, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_REM_INV_REQ_ERR);
  pair_close(&pair);
}

static void test_read(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  with_pair(IBV_WR_RDMA_READ, 5000);
  memset(pair.b.bytes, 6, BYTES);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  struct ibv_wc wc = wait_wc(pair.a.cq);
  assert_int_equal(wc.status, IBV_WC_SUCCESS);
  assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
  assert_int_equal(wc.byte_len, 5000);
  assert_memory_equal(pair.a.bytes, pair.b.bytes, 5000);
  assert_int_equal(pair.a.bytes[5000], 0);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_add),
      cmocka_unit_test(test_compare_and_swap),
      cmocka_unit_test(test_alignment),
      cmocka_unit_test(test_eight_bytes),
      cmocka_unit_test(test_initiator_has_none),
      cmocka_unit_test(test_responder_has_none),
      cmocka_unit_test(test_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
