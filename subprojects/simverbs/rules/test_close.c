/* SPDX-License-Identifier: Apache-2.0 */
/* A device that is closed with objects alive: they go with it, as the kernel does it, and peers
 * find nobody. */
#include "support.h"

/* A second context of this process, whose memory the first one's queue pair writes to. */
static void test_objects_go_with_the_device(void **state)
{
  (void)state;
  struct pair_attr pair_attr = pair_defaults();
  /* Static, so that objects which the test forgets stay in reach of a leak checker: forgetting them
   * is the test. */
  static struct pair theirs;
  struct pair ours;
  pair_make(&ours, &pair_attr);
  pair_make(&theirs, &pair_attr);
  struct end *ends[] = {&ours.a, &theirs.b};
  struct pair *pairs[] = {&ours, &theirs};
  for (int i = 0; i < 2; i++) {
    struct ibv_qp_attr attr;
    int mask = to_init(pairs[i], &attr);
    modify(ends[i]->qp, &attr, mask);
    mask = to_rtr(pairs[i], ends[!i], &attr);
    modify(ends[i]->qp, &attr, mask);
    mask = to_rts(pairs[i], &attr);
    modify(ends[i]->qp, &attr, mask);
  }
  struct ibv_sge sge;
  struct ibv_send_wr wr = request(&ours, IBV_WR_RDMA_WRITE, &sge, 8);
  wr.wr.rdma.remote_addr = (uintptr_t)theirs.b.bytes;
  wr.wr.rdma.rkey = theirs.b.mr->rkey;
  assert_int_equal(post(ours.a.qp, &wr), 0);
  expect_wc(ours.a.cq, 1, IBV_WC_SUCCESS);
  uint8_t *bytes[] = {theirs.a.bytes, theirs.b.bytes};
  assert_int_equal(ibv_close_device(theirs.context), 0);
  memset(ours.a.bytes, 1, 8);
  assert_int_equal(post(ours.a.qp, &wr), 0);
  expect_wc(ours.a.cq, 1, IBV_WC_RETRY_EXC_ERR);
  assert_int_equal(bytes[1][0], 0);
  for (int i = 0; i < 2; i++)
    free(bytes[i]);
  pair_close(&ours);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_objects_go_with_the_device),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
