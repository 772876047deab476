/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, ends and queue pairs for the tests of rules. */
#include "support.h"

#include <poll.h>
#include <time.h>

enum { PATIENCE_S = 20 };

struct pair_attr pair_defaults(void)
{
  return (struct pair_attr){.type = IBV_QPT_RC,
                            .cap = {.max_send_wr = 8,
                                    .max_recv_wr = 8,
                                    .max_send_sge = 2,
                                    .max_recv_sge = 2,
                                    .max_inline_data = 64},
                            .cqe = 63,
                            .srq_wr = 8,
                            .access = ALL_ACCESS & ~IBV_ACCESS_LOCAL_WRITE,
                            .timeout = 1, /* 8 us */
                            .retry_cnt = 2,
                            .rnr_retry = 2,
                            .min_rnr_timer = 1,
                            .rd_atomic = 1,
                            .dest_rd_atomic = 1};
}

static struct ibv_context *open_device(const char *name)
{
  int count, at = 0;
  struct ibv_device **devices = ibv_get_device_list(&count);
  assert_non_null(devices);
  assert_true(count > 0);
  while (name && at < count && strcmp(ibv_get_device_name(devices[at]), name))
    at++;
  assert_true(at < count);
  struct ibv_context *context = ibv_open_device(devices[at]);
  assert_non_null(context);
  ibv_free_device_list(devices);
  return context;
}

static void make_end(struct pair *pair, struct end *end, bool responder)
{
  const struct pair_attr *pair_attr = &pair->attr;
  end->bytes = calloc(1, BYTES);
  assert_non_null(end->bytes);
  end->mr = ibv_reg_mr(pair->pd, end->bytes, BYTES, ALL_ACCESS);
  assert_non_null(end->mr);
  end->cq =
      ibv_create_cq(pair->context, (int)pair_attr->cqe, NULL, responder ? pair->channel : NULL, 0);
  assert_non_null(end->cq);
  struct ibv_qp_init_attr init = {.send_cq = end->cq,
                                  .recv_cq = end->cq,
                                  .srq = responder ? pair->srq : NULL,
                                  .cap = pair_attr->cap,
                                  .qp_type = pair_attr->type,
                                  .sq_sig_all = pair_attr->sig_all};
  end->qp = ibv_create_qp(pair->pd, &init);
  assert_non_null(end->qp);
  end->given = init.cap;
}

void pair_make(struct pair *pair, const struct pair_attr *pair_attr)
{
  memset(pair, 0, sizeof(*pair));
  pair->attr = *pair_attr;
  pair->context = open_device(pair_attr->device);
  pair->pd = ibv_alloc_pd(pair->context);
  assert_non_null(pair->pd);
  if (pair_attr->channel)
    assert_non_null(pair->channel = ibv_create_comp_channel(pair->context));
  if (pair_attr->srq) {
    struct ibv_srq_init_attr init = {.attr = {.max_wr = pair_attr->srq_wr, .max_sge = 1}};
    assert_non_null(pair->srq = ibv_create_srq(pair->pd, &init));
  }
  make_end(pair, &pair->a, false);
  make_end(pair, &pair->b, true);
}

int to_init(const struct pair *pair, struct ibv_qp_attr *attr)
{
  *attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234};
  attr->qp_access_flags = pair->attr.access;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  return mask | (pair->attr.type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
}

int to_rtr(const struct pair *pair, const struct end *peer, struct ibv_qp_attr *attr)
{
  *attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_1024,
                               .dest_qp_num = peer->qp->qp_num,
                               .rq_psn = 7,
                               .max_dest_rd_atomic = pair->attr.dest_rd_atomic,
                               .min_rnr_timer = pair->attr.min_rnr_timer,
                               .ah_attr = {.is_global = 1, .port_num = 1}};
  attr->ah_attr.grh.sgid_index = 3;
  attr->ah_attr.grh.hop_limit = 64;
  assert_int_equal(ibv_query_gid(pair->context, 1, 3, &attr->ah_attr.grh.dgid), 0);
  if (pair->attr.type == IBV_QPT_UD)
    return IBV_QP_STATE;
  int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (pair->attr.type == IBV_QPT_RC)
    mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  return mask;
}

int to_rts(const struct pair *pair, struct ibv_qp_attr *attr)
{
  *attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                               .timeout = pair->attr.timeout,
                               .retry_cnt = pair->attr.retry_cnt,
                               .rnr_retry = pair->attr.rnr_retry,
                               .sq_psn = 7,
                               .max_rd_atomic = pair->attr.rd_atomic};
  if (pair->attr.type != IBV_QPT_RC)
    return IBV_QP_STATE | IBV_QP_SQ_PSN;
  return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC;
}

void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
  assert_int_equal(ibv_modify_qp(qp, attr, mask), 0);
}

void pair_connect(struct pair *pair)
{
  struct end *ends[] = {&pair->a, &pair->b};
  for (int i = 0; i < 2; i++) {
    struct ibv_qp_attr attr;
    int mask = to_init(pair, &attr);
    modify(ends[i]->qp, &attr, mask);
    mask = to_rtr(pair, ends[!i], &attr);
    modify(ends[i]->qp, &attr, mask);
    mask = to_rts(pair, &attr);
    modify(ends[i]->qp, &attr, mask);
  }
}

void pair_open(struct pair *pair, const struct pair_attr *pair_attr)
{
  pair_make(pair, pair_attr);
  pair_connect(pair);
}

static void close_end(struct end *end)
{
  if (end->qp)
    assert_int_equal(ibv_destroy_qp(end->qp), 0);
  assert_int_equal(ibv_destroy_cq(end->cq), 0);
  if (end->mr)
    assert_int_equal(ibv_dereg_mr(end->mr), 0);
  free(end->bytes);
}

void pair_close(struct pair *pair)
{
  close_end(&pair->a);
  close_end(&pair->b);
  if (pair->srq)
    assert_int_equal(ibv_destroy_srq(pair->srq), 0);
  if (pair->channel)
    assert_int_equal(ibv_destroy_comp_channel(pair->channel), 0);
  assert_int_equal(ibv_dealloc_pd(pair->pd), 0);
  assert_int_equal(ibv_close_device(pair->context), 0);
}

enum ibv_qp_state state_of(struct ibv_qp *qp)
{
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  return attr.qp_state;
}

struct ibv_send_wr request(const struct pair *pair, enum ibv_wr_opcode opcode, struct ibv_sge *sge,
                           uint32_t length)
{
  *sge = (struct ibv_sge){
      .addr = (uintptr_t)pair->a.bytes, .length = length, .lkey = pair->a.mr->lkey};
  struct ibv_send_wr wr = {
      .wr_id = 1, .sg_list = sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
  if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr.wr.atomic.remote_addr = (uintptr_t)pair->b.bytes;
    wr.wr.atomic.rkey = pair->b.mr->rkey;
  } else {
    wr.wr.rdma.remote_addr = (uintptr_t)pair->b.bytes;
    wr.wr.rdma.rkey = pair->b.mr->rkey;
  }
  return wr;
}

int post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
  struct ibv_send_wr *bad = NULL;
  int error = ibv_post_send(qp, wr, &bad);
  if (error)
    assert_non_null(bad);
  return error;
}

int post_recv(struct end *end, uint64_t wr_id, uint32_t length)
{
  struct ibv_sge sge = {.addr = (uintptr_t)end->bytes, .length = length, .lkey = end->mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_recv(end->qp, &wr, &bad);
}

int post_srq(struct pair *pair, uint64_t wr_id, uint32_t length)
{
  struct ibv_sge sge = {
      .addr = (uintptr_t)pair->b.bytes, .length = length, .lkey = pair->b.mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
  return ibv_post_srq_recv(pair->srq, &wr, &bad);
}

struct ibv_wc wait_wc(struct ibv_cq *cq)
{
  struct ibv_wc wc;
  time_t end = time(NULL) + PATIENCE_S;
  int got;
  while (!(got = ibv_poll_cq(cq, 1, &wc)) && time(NULL) < end)
    ;
  assert_int_equal(got, 1);
  return wc;
}

void no_wc(struct ibv_cq *cq)
{
  struct ibv_wc wc;
  assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

void expect_event(struct ibv_context *context, enum ibv_event_type type)
{
  struct pollfd fd = {.fd = context->async_fd, .events = POLLIN};
  assert_int_equal(poll(&fd, 1, PATIENCE_S * 1000), 1);
  struct ibv_async_event event;
  assert_int_equal(ibv_get_async_event(context, &event), 0);
  enum ibv_event_type got = event.event_type;
  ibv_ack_async_event(&event);
  assert_string_equal(ibv_event_type_str(got), ibv_event_type_str(type));
}
