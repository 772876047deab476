/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that strict mode has something to say of, by name, or nothing. */
#include "support.h"

/* One send, with what `mode` says done to the receive's buffer before it. */
static void receive(const char *mode, bool shared)
{
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_sge sge;
  pair_attr.srq = shared;
  pair_open(&pair, &pair_attr);
  if (!strcmp(mode, "before"))
    pair.b.bytes[3] = 1;
  assert_int_equal(shared ? post_srq(&pair, 5, 64) : post_recv(&pair.b, 5, 64), 0);
  if (!strcmp(mode, "while"))
    pair.b.bytes[3] = 1;
  struct ibv_send_wr wr = request(&pair, IBV_WR_SEND, &sge, 8);
  assert_int_equal(post(pair.a.qp, &wr), 0);
  expect_wc(pair.a.cq, 1, IBV_WC_SUCCESS);
  expect_wc(pair.b.cq, 5, IBV_WC_SUCCESS);
  if (!strcmp(mode, "after"))
    pair.b.bytes[3] = 1;
  if (strcmp(mode, "left"))
    pair_close(&pair);
}

/* A receive that is flushed, its buffer written to before that. */
static void flushed(void)
{
  struct pair_attr pair_attr = pair_defaults();
  struct pair pair;
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
  pair_open(&pair, &pair_attr);
  assert_int_equal(post_recv(&pair.b, 5, 64), 0);
  assert_int_equal(post_recv(&pair.b, 6, 0), 0);
  pair.b.bytes[3] = 1;
  modify(pair.b.qp, &attr, IBV_QP_STATE);
  expect_wc(pair.b.cq, 5, IBV_WC_WR_FLUSH_ERR);
  expect_wc(pair.b.cq, 6, IBV_WC_WR_FLUSH_ERR);
  pair_close(&pair);
}

int main(int argc, char **argv)
{
  if (argc > 1 && !strcmp(argv[1], "flushed"))
    flushed();
  else
    receive(argc > 1 ? argv[1] : "", argc > 2 && !strcmp(argv[2], "shared"));
  return 0;
}
