// SPDX-License-Identifier: Apache-2.0
// ibv_post_send and ibv_post_recv: lists of work requests into the simulator's own form.
#include "front.h"

#include <errno.h>

static void front_post_take_operands(struct sim_wqe *wqe, const struct ibv_send_wr *wr)
{
  switch (wr->opcode) {
  case IBV_WR_RDMA_WRITE:
  case IBV_WR_RDMA_WRITE_WITH_IMM:
  case IBV_WR_RDMA_READ:
    wqe->rkey = wr->wr.rdma.rkey;
    wqe->remote_addr = wr->wr.rdma.remote_addr;
    break;
  case IBV_WR_ATOMIC_CMP_AND_SWP:
  case IBV_WR_ATOMIC_FETCH_AND_ADD:
    wqe->rkey = wr->wr.atomic.rkey;
    wqe->remote_addr = wr->wr.atomic.remote_addr;
    wqe->compare_add = wr->wr.atomic.compare_add;
    wqe->swap = wr->wr.atomic.swap;
    break;
  case IBV_WR_BIND_MW:
    wqe->mw = wr->bind_mw.mw;
    wqe->imm_or_rkey = wr->bind_mw.rkey;
    wqe->bind = wr->bind_mw.bind_info;
    break;
  default: // sends have none; what is no operation of the transport is refused where it is added
    break;
  }
}

static void front_post_wqe_of(struct sim_wqe *wqe, const struct sim_qp *qp,
                              const struct ibv_send_wr *wr)
{
  *wqe = (struct sim_wqe){
      .wr_id = wr->wr_id,
      .opcode = wr->opcode,
      .flags = wr->send_flags,
      .imm_or_rkey = wr->imm_data, // in one place with invalidate_rkey
      .num_sge = wr->num_sge < 0 ? UINT32_MAX : (uint32_t)wr->num_sge,
      .sges = wr->sg_list,
  };
  if (qp->kind == SIM_UD) {
    wqe->ah = wr->wr.ud.ah;
    wqe->remote_qpn = wr->wr.ud.remote_qpn;
    wqe->remote_qkey = wr->wr.ud.remote_qkey;
  } else {
    front_post_take_operands(wqe, wr);
  }
}

int front_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
  struct sim_qp *qp = sim_qp_of(ibqp);
  int error = 0;

  // A DC request names its target by mlx5dv_wr_set_dc_addr, which this form has no room for.
  if (qp->kind == SIM_DCI || qp->kind == SIM_DCT) {
    *bad = wr;
    return EINVAL;
  }
  sim_post_begin(qp);
  for (; wr; wr = wr->next) {
    struct sim_wqe wqe;
    front_post_wqe_of(&wqe, qp, wr);
    error = sim_post_add(qp, &wqe);
    if (error) {
      *bad = wr;
      break;
    }
  }
  sim_post_end(qp);
  return error;
}

int front_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
  return sim_qp_post_recv(sim_qp_of(qp), wr, bad);
}

int front_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
  return sim_srq_post(sim_srq_of(srq), wr, bad);
}
