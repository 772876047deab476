/* SPDX-License-Identifier: Apache-2.0 */
/* Registration: what may be registered, and what a registration is good for. */
#include "support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static struct ibv_mr *refused(struct pair *pair, void *at, size_t length, int access, int error)
{
  errno = 0;
  struct ibv_mr *mr = ibv_reg_mr(pair->pd, at, length, access);
  assert_null(mr);
  assert_int_equal(errno, error);
  return mr;
}

static void test_access_flags(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_open(&pair, &pair_attr);
  refused(&pair, pair.a.bytes, 8, IBV_ACCESS_REMOTE_WRITE, EINVAL);
  refused(&pair, pair.a.bytes, 8, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
  refused(&pair, pair.a.bytes, 8, 1 << 18, EINVAL);
  refused(&pair, pair.a.bytes, 8, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP);
  refused(&pair, pair.a.bytes, 0, 0, EINVAL);
  pair_close(&pair);
}

static void test_pages_that_are_not_there(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_open(&pair, &pair_attr);
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char *at = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_ptr_not_equal(at, MAP_FAILED);
  assert_int_equal(munmap(at + page, page), 0);
  refused(&pair, at, 3 * page, IBV_ACCESS_LOCAL_WRITE, EFAULT);
  assert_int_equal(mprotect(at, page, PROT_READ), 0);
  refused(&pair, at, page, IBV_ACCESS_LOCAL_WRITE, EFAULT);
  struct ibv_mr *mr = ibv_reg_mr(pair.pd, at, page, IBV_ACCESS_REMOTE_READ);
  assert_non_null(mr);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  munmap(at, page);
  munmap(at + 2 * page, page);
  pair_close(&pair);
}

static void test_keys_are_not_used_twice(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_open(&pair, &pair_attr);
  uint32_t last = 0;
  for (int i = 0; i < 1000; i++) {
    struct ibv_mr *mr = ibv_reg_mr(pair.pd, pair.a.bytes, 8, 0);
    assert_non_null(mr);
    assert_int_not_equal(mr->rkey, last);
    last = mr->rkey;
    assert_int_equal(ibv_dereg_mr(mr), 0);
  }
  pair_close(&pair);
}

static void test_iova(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_open(&pair, &pair_attr);
  uint64_t iova = 0x100000000000;
  struct ibv_mr *mr = ibv_reg_mr_iova(pair.pd, pair.b.bytes, BYTES, iova, ALL_ACCESS);
  assert_non_null(mr);
  memset(pair.a.bytes, 3, BYTES);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  wr.wr.rdma.remote_addr = iova + 16;
  wr.wr.rdma.rkey = mr->rkey;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  assert_memory_equal(pair.b.bytes + 16, pair.a.bytes, 8);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  pair_close(&pair);
}

/* A dma-buf stands for memory that the device alone knows. */
static void test_dmabuf(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_open(&pair, &pair_attr);
  int fd = memfd_create("dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, 3 * BYTES), 0);
  errno = 0;
  assert_null(ibv_reg_dmabuf_mr(pair.pd, 4096, BYTES, 0x7000, fd, ALL_ACCESS));
  assert_int_equal(errno, EINVAL); /* it could shrink, as no dma-buf does */
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  assert_null(ibv_reg_dmabuf_mr(pair.pd, 4096, BYTES, 0x7001, fd, ALL_ACCESS));
  assert_int_equal(errno, EINVAL); /* not at the same place in their pages */
  assert_null(ibv_reg_dmabuf_mr(pair.pd, 4096, 3 * BYTES, 0x7000, fd, ALL_ACCESS));
  assert_int_equal(errno, EINVAL); /* beyond its end */
  struct ibv_mr *mr = ibv_reg_dmabuf_mr(pair.pd, 4096 + 8, BYTES, 0x7008, fd, ALL_ACCESS);
  assert_non_null(mr);
  memset(pair.a.bytes, 3, BYTES);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 8);
  wr.wr.rdma.remote_addr = 0x7008 + 16;
  wr.wr.rdma.rkey = mr->rkey;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  uint8_t got[8];
  assert_int_equal(pread(fd, got, 8, 4096 + 8 + 16), 8);
  assert_memory_equal(got, pair.a.bytes, 8);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  close(fd);
  pair_close(&pair);
}

static void test_reregistered(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_open(&pair, &pair_attr);
  assert_int_equal(
      ibv_rereg_mr(pair.b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ),
      0);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_READ, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  wr.opcode = IBV_WR_RDMA_WRITE;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_REM_ACCESS_ERR);
  pair_close(&pair);
}

/* A window opens a part of a region, until it is taken back; the region stays as long. */
static void test_window(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_open(&pair, &pair_attr);
  struct ibv_mr *mr =
      ibv_reg_mr(pair.pd, pair.b.bytes, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1);
  assert_non_null(mr);
  assert_non_null(mw);
  struct ibv_mw_bind bind = {.wr_id = 9,
                             .send_flags = IBV_SEND_SIGNALED,
                             .bind_info = {.mr = mr,
                                           .addr = (uintptr_t)pair.b.bytes,
                                           .length = 16,
                                           .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
  uint32_t before = mw->rkey;
  assert_int_equal(ibv_bind_mw(pair.b.qp, mw, &bind), 0);
  expect_wc(pair.b.cq, 9, IBV_WC_SUCCESS);
  assert_int_not_equal(mw->rkey, before);
  assert_int_equal(ibv_dereg_mr(mr), EBUSY);
  struct ibv_send_wr wr = request(&pair, IBV_WR_RDMA_WRITE, &sge, 16);
  wr.wr.rdma.rkey = mw->rkey;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  sge.length = 17;
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_REM_ACCESS_ERR);
  assert_int_equal(ibv_dealloc_mw(mw), 0);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  pair_close(&pair);
}

static void test_window_over_what_may_not_be_bound(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  pair_open(&pair, &pair_attr);
  struct ibv_mw *mw = ibv_alloc_mw(pair.pd, IBV_MW_TYPE_1);
  struct ibv_mw_bind bind = {.wr_id = 9,
                             .send_flags = IBV_SEND_SIGNALED,
                             .bind_info = {.mr = pair.b.mr,
                                           .addr = (uintptr_t)pair.b.bytes,
                                           .length = 16,
                                           .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
  assert_int_equal(ibv_bind_mw(pair.b.qp, mw, &bind), 0);
  expect_wc(pair.b.cq, 9, IBV_WC_MW_BIND_ERR);
  assert_int_equal(ibv_dealloc_mw(mw), 0);
  pair_close(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_access_flags),
      cmocka_unit_test(test_pages_that_are_not_there),
      cmocka_unit_test(test_keys_are_not_used_twice),
      cmocka_unit_test(test_iova),
      cmocka_unit_test(test_dmabuf),
      cmocka_unit_test(test_reregistered),
      cmocka_unit_test(test_window),
      cmocka_unit_test(test_window_over_what_may_not_be_bound),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
