/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Send queues as mlx5 sizes them: in blocks of 64 bytes, so that how many requests there are
 * depends on what each of them may hold. rdma-core 65, providers/mlx5/verbs.c: _sq_overhead,
 * mlx5_calc_send_wqe, mlx5_calc_sq_size; providers/mlx5/wqe.h for the segments' sizes.
 */
#include "objects.h"

#include <errno.h>

enum {
  BLOCK = 64,
  WQE_MAX = 1024, /* max_sq_desc_sz of ConnectX-5 and later */
  CTRL = 16,
  RADDR = 16,
  ATOMIC = 16,
  DATAGRAM = 48,
  DATA = 16,
  INLINE = 4,
  UMR_CTRL = 48,
  MKEY = 64,
  KLM = 64, /* of a UMR, padded */
};

static uint32_t sim_wqe_round_up(uint32_t n, uint32_t to)
{
  return (n + to - 1) / to * to;
}

/* Returns the operations that a queue pair of a plain ibv_create_qp is taken to need: all of its
 * transport's. */
static uint64_t sim_wqe_all_ops(enum sim_qp_kind kind)
{
  return kind == SIM_UD ? IBV_QP_EX_WITH_SEND : UINT64_MAX;
}

/* Bytes of a request before its data. */
static uint32_t sim_wqe_overhead(enum sim_qp_kind kind, uint64_t ops)
{
  uint32_t size = CTRL;
  if (ops &
      (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ))
    size = CTRL + RADDR;
  if (ops & (IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD))
    size = CTRL + RADDR + ATOMIC;
  if (ops & (IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV))
    size = CTRL + UMR_CTRL + MKEY + KLM;
  return size + (kind == SIM_UD || kind == SIM_DCI ? DATAGRAM : 0);
}

int sim_wqe_size(const struct fab_caps *caps, enum sim_qp_kind kind, uint64_t ops,
                 struct ibv_qp_cap *cap)
{
  const uint32_t before = sim_wqe_overhead(kind, ops ? ops : sim_wqe_all_ops(kind));
  uint32_t size = before + cap->max_send_sge * DATA;
  uint64_t bytes = 1;
  if (!caps->wqe_blocks || kind == SIM_DCT || !cap->max_send_wr)
    return 0;
  if (cap->max_inline_data) {
    const uint32_t with = before + sim_wqe_round_up(INLINE + cap->max_inline_data, 16);
    size = size > with ? size : with;
  }
  if (size > WQE_MAX)
    return EINVAL;
  size = sim_wqe_round_up(size, BLOCK);
  while (bytes < (uint64_t)cap->max_send_wr * size)
    bytes *= 2;
  if (bytes / BLOCK > caps->wqe_blocks)
    return EINVAL;
  cap->max_send_wr = (uint32_t)(bytes / size);
  cap->max_inline_data = size - before - INLINE;
  if (cap->max_inline_data > caps->max_inline)
    cap->max_inline_data = caps->max_inline;
  return 0;
}
