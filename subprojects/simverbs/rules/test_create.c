/* SPDX-License-Identifier: Apache-2.0 */
/* A request that a device has no room for is refused when it is made. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

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
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_device_attr device;
  pair_open(&pair, &pair_attr);
  assert_int_equal(ibv_query_device(pair.context, &device), 0);
  struct ibv_qp_cap cap = pair_attr.cap;
  cap.max_send_wr = (uint32_t)device.max_qp_wr + 1;
  refused(&pair, cap, IBV_QPT_RC, EINVAL);
  cap = pair_attr.cap;
  cap.max_recv_wr = (uint32_t)device.max_qp_wr + 1;
  refused(&pair, cap, IBV_QPT_RC, EINVAL);
  cap = pair_attr.cap;
  cap.max_send_sge = (uint32_t)device.max_sge + 1;
  refused(&pair, cap, IBV_QPT_RC, EINVAL);
  cap = pair_attr.cap;
  cap.max_recv_sge = (uint32_t)device.max_sge + 1;
  refused(&pair, cap, IBV_QPT_RC, EINVAL);
  cap = pair_attr.cap;
  cap.max_inline_data = 4096;
  refused(&pair, cap, IBV_QPT_RC, EINVAL);
  refused(&pair, pair_attr.cap, IBV_QPT_RAW_PACKET, EOPNOTSUPP);
  struct ibv_qp_init_attr init = {.cap = pair_attr.cap, .qp_type = IBV_QPT_RC};
  errno = 0;
  assert_null(ibv_create_qp(pair.pd, &init));
  assert_int_equal(errno, EINVAL);
  pair_close(&pair);
}

#define MESSAGES                                                                                   \
  (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |                \
   IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ)
#define ATOMICS (MESSAGES | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

/* As many sends fit, and not one more; of so many inline bytes. */
static void fits(struct pair *pair, uint64_t ops, uint32_t pieces, uint32_t inline_bytes,
                 uint32_t most, uint32_t gives_inline)
{
  for (uint32_t more = 0; more < 2; more++) {
    struct ibv_qp_init_attr_ex init = {.send_cq = pair->a.cq,
                                       .recv_cq = pair->a.cq,
                                       .cap = {.max_send_wr = most + more,
                                               .max_recv_wr = 1,
                                               .max_send_sge = pieces,
                                               .max_recv_sge = 1,
                                               .max_inline_data = inline_bytes},
                                       .qp_type = IBV_QPT_RC,
                                       .comp_mask = IBV_QP_INIT_ATTR_PD |
                                                    (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
                                       .pd = pair->pd,
                                       .send_ops_flags = ops};
    errno = 0;
    struct ibv_qp *qp = ibv_create_qp_ex(pair->context, &init);
    if (more) {
      assert_null(qp);
      assert_int_equal(errno, EINVAL);
      continue;
    }
    assert_non_null(qp);
    assert_int_equal(init.cap.max_send_wr, most);
    assert_int_equal(init.cap.max_inline_data, gives_inline);
    assert_int_equal(ibv_destroy_qp(qp), 0);
  }
}

static void test_send_queues_are_of_blocks(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_open(&pair, &pair_attr);
  fits(&pair, 0, 1, 128, 5461, 188);
  fits(&pair, 0, 1, 64, 6553, 124);
  fits(&pair, 0, 1, 0, 8192, 60);
  fits(&pair, 0, 16, 64, 4681, 252);
  fits(&pair, 0, 30, 64, 2978, 508);
  fits(&pair, MESSAGES, 1, 28, 32768, 28);
  fits(&pair, MESSAGES, 1, 92, 16384, 92);
  fits(&pair, MESSAGES, 30, 92, 4096, 476);
  fits(&pair, ATOMICS, 1, 128, 10922, 140);
  fits(&pair, ATOMICS, 1, 64, 16384, 76);
  pair_close(&pair);
}

static void test_completion_queues(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_device_attr device;
  pair_open(&pair, &pair_attr);
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
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_open(&pair, &pair_attr);
  uint32_t last = 0;
  for (int i = 0; i < 300; i++) {
    struct ibv_qp_init_attr init = {
        .send_cq = pair.a.cq, .recv_cq = pair.a.cq, .cap = pair_attr.cap, .qp_type = IBV_QPT_RC};
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
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_open(&pair, &pair_attr);
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

/* Checks the one line that stderr has had since the last check. */
static void heard(int log, const char *what)
{
  char text[512] = "", wanted[128];
  const ssize_t n = pread(log, text, sizeof(text) - 1, 0);
  snprintf(wanted, sizeof(wanted), "simverbs: %s is not simulated: EOPNOTSUPP\n", what);
  assert_int_equal(ftruncate(log, 0), 0);
  assert_true(n >= 0);
  assert_string_equal(text, wanted);
}

#define IS_REFUSED(call, what)                                                                     \
  do {                                                                                             \
    errno = 0;                                                                                     \
    assert_null(call);                                                                             \
    assert_int_equal(errno, EOPNOTSUPP);                                                           \
    heard(log, what);                                                                              \
  } while (0)

/* By PENSTOCK_SIMVERBS_LOG=2, whoever refuses it. */
static void test_what_is_not_simulated_is_named(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_xrcd_init_attr xrcd = {0};
  struct ibv_flow_attr flow = {0};
  struct ibv_alloc_dm_attr memory = {.length = 64};
  struct ibv_wq_init_attr wq = {0};
  struct ibv_counters_init_attr counters = {0};
  struct ibv_qp_init_attr raw = {.cap = pair_attr.cap, .qp_type = IBV_QPT_RAW_PACKET};
  struct ibv_srq_init_attr_ex tags = {.comp_mask = IBV_SRQ_INIT_ATTR_TYPE, .srq_type = IBV_SRQT_TM};
  pair_open(&pair, &pair_attr);
  raw.send_cq = raw.recv_cq = pair.a.cq;
  const int log = memfd_create("log", MFD_CLOEXEC), before = dup(STDERR_FILENO);
  assert_true(log >= 0 && before >= 0 && fcntl(log, F_SETFL, O_APPEND) == 0);
  assert_int_equal(setenv("PENSTOCK_SIMVERBS_LOG", "2", 1), 0);
  fflush(stderr);
  assert_true(dup2(log, STDERR_FILENO) >= 0);
  IS_REFUSED(ibv_open_xrcd(pair.context, &xrcd), "ibv_open_xrcd");
  IS_REFUSED(ibv_create_flow(pair.a.qp, &flow), "ibv_create_flow");
  IS_REFUSED(ibv_alloc_dm(pair.context, &memory), "ibv_alloc_dm");
  IS_REFUSED(ibv_create_wq(pair.context, &wq), "ibv_create_wq");
  IS_REFUSED(ibv_create_counters(pair.context, &counters), "ibv_create_counters");
  IS_REFUSED(ibv_alloc_null_mr(pair.pd), "ibv_alloc_null_mr");
  IS_REFUSED(ibv_create_qp(pair.pd, &raw), "a queue pair that is not RC, UC, UD or DC");
  IS_REFUSED(ibv_reg_mr(pair.pd, pair.a.bytes, 8, IBV_ACCESS_ON_DEMAND), "IBV_ACCESS_ON_DEMAND");
  IS_REFUSED(ibv_create_srq_ex(pair.context, &tags), "a shared receive queue of XRC, or for tags");
  unsetenv("PENSTOCK_SIMVERBS_LOG");
  assert_true(dup2(before, STDERR_FILENO) >= 0);
  close(before);
  close(log);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_queue_pairs),
      cmocka_unit_test(test_send_queues_are_of_blocks),
      cmocka_unit_test(test_completion_queues),
      cmocka_unit_test(test_numbers_are_not_used_twice),
      cmocka_unit_test(test_address_handles),
      cmocka_unit_test(test_what_is_not_simulated_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
