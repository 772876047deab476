// SPDX-License-Identifier: Apache-2.0
// ibv_wr_*: a request is built in the QP, by a builder and its setters, and added to the batch when
// the next builder comes or ibv_wr_complete. The program may free its arguments when a setter
// returns, so they are copied.
#include "front.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct building {
  bool open; // a builder was called, and its request is not added yet
  uint32_t max_sge, max_inline;
  struct ibv_data_buf inline_buf;
  struct ibv_sge *sges; // max_sge of them
  char *inline_data;    // max_inline bytes
};

// Which operations a transport knows. DC has RC's.
static uint64_t front_qp_ex_supported_ops(enum sim_qp_kind kind)
{
  const uint64_t datagram = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
  const uint64_t unreliable = datagram | IBV_QP_EX_WITH_RDMA_WRITE |
                              IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_LOCAL_INV |
                              IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;
  const uint64_t reliable = unreliable | IBV_QP_EX_WITH_RDMA_READ |
                            IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

  return kind == SIM_UD ? datagram : kind == SIM_UC ? unreliable : reliable;
}

static struct sim_qp *front_qp_ex_of(struct ibv_qp_ex *ex)
{
  return sim_container_of(ex, struct sim_qp, ex);
}

static void front_qp_ex_fail(struct sim_qp *qp, int error)
{
  if (!qp->build_error)
    qp->build_error = error;
}

static void front_qp_ex_flush(struct sim_qp *qp)
{
  struct building *building = qp->front;

  if (!building->open)
    return;
  building->open = false;
  if (qp->build_error)
    return;
  int error = sim_post_add(qp, &qp->build);
  if (error)
    front_qp_ex_fail(qp, error);
}

static struct sim_wqe *front_qp_ex_begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
                                         uint64_t declared)
{
  struct sim_qp *qp = front_qp_ex_of(ex);
  struct building *building = qp->front;

  front_qp_ex_flush(qp);
  if (!(qp->send_ops & declared))
    front_qp_ex_fail(qp, EINVAL);
  building->open = true;
  qp->build = (struct sim_wqe){
      .wr_id = ex->wr_id,
      .opcode = opcode,
      // Inline is what ibv_wr_set_inline_data makes it.
      .flags = ex->wr_flags & ~(unsigned)IBV_SEND_INLINE,
  };
  return &qp->build;
}

static struct sim_wqe *front_qp_ex_begin_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode,
                                                uint64_t declared, uint32_t rkey,
                                                uint64_t remote_addr)
{
  struct sim_wqe *wqe = front_qp_ex_begin(ex, opcode, declared);

  wqe->rkey = rkey;
  wqe->remote_addr = remote_addr;
  return wqe;
}

static void front_qp_ex_wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                                          uint64_t compare, uint64_t swap)
{
  struct sim_wqe *wqe = front_qp_ex_begin_remote(
      ex, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, rkey, remote_addr);

  wqe->compare_add = compare;
  wqe->swap = swap;
}

static void front_qp_ex_wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey,
                                            uint64_t remote_addr, uint64_t add)
{
  front_qp_ex_begin_remote(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD,
                           rkey, remote_addr)
      ->compare_add = add;
}

static void front_qp_ex_wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
                                   const struct ibv_mw_bind_info *bind_info)
{
  struct sim_wqe *wqe = front_qp_ex_begin(ex, IBV_WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW);

  wqe->mw = mw;
  wqe->imm_or_rkey = rkey;
  wqe->bind = *bind_info;
}

static void front_qp_ex_wr_local_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
  front_qp_ex_begin(ex, IBV_WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV)->imm_or_rkey = invalidate_rkey;
}

static void front_qp_ex_wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
  front_qp_ex_begin_remote(ex, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ, rkey, remote_addr);
}

static void front_qp_ex_wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
  front_qp_ex_begin_remote(ex, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, rkey, remote_addr);
}

static void front_qp_ex_wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                                          __be32 imm)
{
  front_qp_ex_begin_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, rkey,
                           remote_addr)
      ->imm_or_rkey = imm;
}

static void front_qp_ex_wr_send(struct ibv_qp_ex *ex)
{
  front_qp_ex_begin(ex, IBV_WR_SEND, IBV_QP_EX_WITH_SEND);
}

static void front_qp_ex_wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
  front_qp_ex_begin(ex, IBV_WR_SEND_WITH_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM)->imm_or_rkey = imm;
}

static void front_qp_ex_wr_send_inv(struct ibv_qp_ex *ex, uint32_t invalidate_rkey)
{
  front_qp_ex_begin(ex, IBV_WR_SEND_WITH_INV, IBV_QP_EX_WITH_SEND_WITH_INV)->imm_or_rkey =
      invalidate_rkey;
}

// Declaring what a transport has not is refused at creation, so these were not declared.
static void front_qp_ex_wr_send_tso(struct ibv_qp_ex *ex, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
  (void)hdr;
  (void)hdr_sz;
  (void)mss;
  front_qp_ex_begin(ex, IBV_WR_TSO, IBV_QP_EX_WITH_TSO);
}

static void front_qp_ex_wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
                                        const void *atomic_wr)
{
  (void)atomic_wr;
  front_qp_ex_begin_remote(ex, IBV_WR_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE, rkey, remote_addr);
}

static void front_qp_ex_wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
  (void)remote_srqn;
  front_qp_ex_fail(front_qp_ex_of(ex), EOPNOTSUPP);
}

static void front_qp_ex_wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
                                       uint32_t remote_qkey)
{
  struct sim_qp *qp = front_qp_ex_of(ex);

  if (qp->kind != SIM_UD)
    front_qp_ex_fail(qp, EINVAL);
  qp->build.ah = ah;
  qp->build.remote_qpn = remote_qpn;
  qp->build.remote_qkey = remote_qkey;
}

static void front_qp_ex_wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
                                                const struct ibv_data_buf *buf_list)
{
  struct sim_qp *qp = front_qp_ex_of(ex);
  struct building *building = qp->front;
  size_t length = 0;

  for (size_t i = 0; i < num_buf; i++) {
    if (buf_list[i].length > building->max_inline - length) {
      front_qp_ex_fail(qp, ENOMEM); // mlx5 says so of too much inline data
      return;
    }
    memcpy(building->inline_data + length, buf_list[i].addr, buf_list[i].length);
    length += buf_list[i].length;
  }
  building->inline_buf = (struct ibv_data_buf){building->inline_data, length};
  qp->build.flags |= IBV_SEND_INLINE;
  qp->build.num_buf = 1;
  qp->build.bufs = &building->inline_buf;
}

static void front_qp_ex_wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
  const struct ibv_data_buf buf = {addr, length};

  front_qp_ex_wr_set_inline_data_list(ex, 1, &buf);
}

static void front_qp_ex_wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge,
                                        const struct ibv_sge *sg_list)
{
  struct sim_qp *qp = front_qp_ex_of(ex);
  struct building *building = qp->front;

  if (num_sge > building->max_sge) {
    front_qp_ex_fail(qp, ENOMEM);
    return;
  }
  if (num_sge) /* a list of none may be NULL */
    memcpy(building->sges, sg_list, num_sge * sizeof(*sg_list));
  qp->build.num_sge = (uint32_t)num_sge;
  qp->build.sges = building->sges;
}

static void front_qp_ex_wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
                                   uint32_t length)
{
  const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

  front_qp_ex_wr_set_sge_list(ex, 1, &sge);
}

static void front_qp_ex_wr_start(struct ibv_qp_ex *ex)
{
  struct sim_qp *qp = front_qp_ex_of(ex);
  struct building *building = qp->front;

  sim_post_begin(qp);
  qp->build_error = 0;
  building->open = false;
}

static int front_qp_ex_wr_complete(struct ibv_qp_ex *ex)
{
  struct sim_qp *qp = front_qp_ex_of(ex);

  front_qp_ex_flush(qp);
  int error = qp->build_error;
  if (error)
    sim_post_abort(qp);
  else
    sim_post_end(qp);
  return error;
}

static void front_qp_ex_wr_abort(struct ibv_qp_ex *ex)
{
  struct sim_qp *qp = front_qp_ex_of(ex);
  struct building *building = qp->front;

  building->open = false;
  sim_post_abort(qp);
}

static void front_qp_ex_fill(struct ibv_qp_ex *ex)
{
  ex->wr_atomic_cmp_swp = front_qp_ex_wr_atomic_cmp_swp;
  ex->wr_atomic_fetch_add = front_qp_ex_wr_atomic_fetch_add;
  ex->wr_bind_mw = front_qp_ex_wr_bind_mw;
  ex->wr_local_inv = front_qp_ex_wr_local_inv;
  ex->wr_rdma_read = front_qp_ex_wr_rdma_read;
  ex->wr_rdma_write = front_qp_ex_wr_rdma_write;
  ex->wr_rdma_write_imm = front_qp_ex_wr_rdma_write_imm;
  ex->wr_send = front_qp_ex_wr_send;
  ex->wr_send_imm = front_qp_ex_wr_send_imm;
  ex->wr_send_inv = front_qp_ex_wr_send_inv;
  ex->wr_send_tso = front_qp_ex_wr_send_tso;
  ex->wr_set_ud_addr = front_qp_ex_wr_set_ud_addr;
  ex->wr_set_xrc_srqn = front_qp_ex_wr_set_xrc_srqn;
  ex->wr_set_inline_data = front_qp_ex_wr_set_inline_data;
  ex->wr_set_inline_data_list = front_qp_ex_wr_set_inline_data_list;
  ex->wr_set_sge = front_qp_ex_wr_set_sge;
  ex->wr_set_sge_list = front_qp_ex_wr_set_sge_list;
  ex->wr_start = front_qp_ex_wr_start;
  ex->wr_complete = front_qp_ex_wr_complete;
  ex->wr_abort = front_qp_ex_wr_abort;
  ex->wr_atomic_write = front_qp_ex_wr_atomic_write;
}

// One block: the structure, the sges, the inline bytes.
static struct building *front_qp_ex_building_new(const struct ibv_qp_cap *cap)
{
  size_t sges_len = cap->max_send_sge * sizeof(struct ibv_sge);
  struct building *building = calloc(1, sizeof(*building) + sges_len + cap->max_inline_data);

  if (!building)
    return NULL;
  building->max_sge = cap->max_send_sge;
  building->max_inline = cap->max_inline_data;
  building->sges = (struct ibv_sge *)(building + 1);
  building->inline_data = (char *)building->sges + sges_len;
  return building;
}

struct sim_qp *sim_front_qp(struct sim_qp *qp, const struct ibv_qp_init_attr_ex *attr)
{
  int error = 0;

  if (!(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
    return qp;
  if (attr->send_ops_flags & ~front_qp_ex_supported_ops(qp->kind))
    error = EOPNOTSUPP;
  qp->front = error ? NULL : front_qp_ex_building_new(&attr->cap);
  if (!error && !qp->front)
    error = ENOMEM;
  if (error) {
    sim_qp_destroy(qp);
    return SIM_FAIL(error, NULL);
  }
  front_qp_ex_fill(&qp->ex);
  return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
  return sim_qp_of(qp)->front ? &sim_qp_of(qp)->ex : SIM_FAIL(EOPNOTSUPP, NULL);
}
