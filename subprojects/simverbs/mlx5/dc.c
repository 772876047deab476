// SPDX-License-Identifier: Apache-2.0
// QPs made by mlx5dv_create_qp: dynamically connected initiators (DCI) and targets (DCT), and the
// others with mlx5's creation flags.
#include "mlx5.h"

#include <errno.h>

enum {
  QP_MASKS = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_DC |
             MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS,
  // How small messages travel inside the device: nothing that a program could see.
  QP_FLAGS = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE | MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE |
             MLX5DV_QP_CREATE_PACKET_BASED_CREDIT_MODE,
};

static void mlx5_dc_set_dc_addr_stream(struct mlx5dv_qp_ex *dv, struct ibv_ah *ah,
                                       uint32_t remote_dctn, uint64_t remote_dc_key,
                                       uint16_t stream_id)
{
  struct sim_qp *qp = sim_container_of(dv, struct sim_qp, dv);

  qp->build.ah = ah;
  qp->build.remote_qpn = remote_dctn;
  qp->build.dc_key = remote_dc_key;
  qp->build.stream = stream_id;
}

static void mlx5_dc_set_dc_addr(struct mlx5dv_qp_ex *dv, struct ibv_ah *ah, uint32_t remote_dctn,
                                uint64_t remote_dc_key)
{
  mlx5_dc_set_dc_addr_stream(dv, ah, remote_dctn, remote_dc_key, 0);
}

static int mlx5_dc_common_error(const struct ibv_qp_init_attr_ex *attr,
                                const struct mlx5dv_qp_init_attr *mlx5)
{
  const uint64_t mask = mlx5->comp_mask;
  const uint32_t flags = mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS ? mlx5->create_flags : 0;
  const uint32_t both =
      MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE | MLX5DV_QP_CREATE_ALLOW_SCATTER_TO_CQE;

  if (mask & ~(uint64_t)QP_MASKS || (flags & both) == both)
    return EINVAL;
  if (flags & ~(uint32_t)QP_FLAGS)
    return EOPNOTSUPP;
  // Memory keys made by work requests, raw ones.
  if (mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS && mlx5->send_ops_flags)
    return EOPNOTSUPP;
  if (attr->qp_type == IBV_QPT_DRIVER && !(mask & MLX5DV_QP_INIT_ATTR_MASK_DC))
    return EINVAL;
  if (attr->qp_type != IBV_QPT_DRIVER &&
      mask & (MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS))
    return EINVAL;
  return 0;
}

// A target is a place to send to: it has a receive queue that is shared, and no operations.
static int mlx5_dc_dct_error(const struct ibv_qp_init_attr_ex *attr,
                             const struct mlx5dv_qp_init_attr *mlx5)
{
  if (mlx5->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS)
    return EINVAL;
  if (attr->comp_mask != IBV_QP_INIT_ATTR_PD)
    return EINVAL;
  return attr->pd && attr->srq && attr->recv_cq ? 0 : EINVAL;
}

static int mlx5_dc_dci_error(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr,
                             const struct mlx5dv_qp_init_attr *mlx5)
{
  struct mlx5dv_context caps = {.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS};
  const struct mlx5dv_dci_streams *streams = &mlx5->dc_init_attr.dci_streams;

  if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->send_cq || attr->cap.max_recv_wr ||
      attr->cap.max_recv_sge)
    return EINVAL;
  if (!(mlx5->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS))
    return 0;
  int error = mlx5dv_query_device(context, &caps);
  if (error)
    return error;
  if (!(caps.comp_mask & MLX5DV_CONTEXT_MASK_DCI_STREAMS))
    return EOPNOTSUPP;
  return streams->log_num_concurent > caps.dci_streams_caps.max_log_num_concurent ||
                 streams->log_num_errored > caps.dci_streams_caps.max_log_num_errored
             ? EINVAL
             : 0;
}

static bool mlx5_dc_wants_no_scatter(const struct mlx5dv_qp_init_attr *mlx5)
{
  return (mlx5->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) &&
         (mlx5->create_flags & MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE);
}

static int mlx5_dc_describe(struct sim_qp_dv *dv, struct ibv_context *context,
                            const struct ibv_qp_init_attr_ex *attr,
                            const struct mlx5dv_qp_init_attr *mlx5)
{
  int error = 0;

  *dv = (struct sim_qp_dv){.kind = SIM_DCI};
  switch (mlx5->dc_init_attr.dc_type) {
  case MLX5DV_DCTYPE_DCT:
    error = mlx5_dc_dct_error(attr, mlx5);
    dv->kind = SIM_DCT;
    dv->dct_access_key = mlx5->dc_init_attr.dct_access_key;
    return error;
  case MLX5DV_DCTYPE_DCI:
    error = mlx5_dc_dci_error(context, attr, mlx5);
    if (mlx5->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS) {
      dv->log_num_concurrent = mlx5->dc_init_attr.dci_streams.log_num_concurent;
      dv->log_num_errored = mlx5->dc_init_attr.dci_streams.log_num_errored;
    }
    return error;
  default:
    return EINVAL;
  }
}

struct ibv_qp *mlx5dv_create_qp(struct ibv_context *context, struct ibv_qp_init_attr_ex *qp_attr,
                                struct mlx5dv_qp_init_attr *mlx5_qp_attr)
{
  struct sim_qp_dv dv;

  if (!mlx5_qp_attr)
    return ibv_create_qp_ex(context, qp_attr);
  int error = mlx5_dc_common_error(qp_attr, mlx5_qp_attr);
  if (error)
    return SIM_FAIL(error, NULL);
  if (qp_attr->qp_type != IBV_QPT_DRIVER)
    dv = (struct sim_qp_dv){.no_scatter = mlx5_dc_wants_no_scatter(mlx5_qp_attr)};
  else
    error = mlx5_dc_describe(&dv, context, qp_attr, mlx5_qp_attr);
  if (error)
    return SIM_FAIL(error, NULL);
  struct sim_qp *qp = sim_qp_create(sim_context_of(context), qp_attr, &dv);
  if (qp)
    qp = sim_front_qp(qp, qp_attr);
  if (!qp)
    return NULL;
  if (dv.kind == SIM_DCI) {
    qp->dv.wr_set_dc_addr = mlx5_dc_set_dc_addr;
    qp->dv.wr_set_dc_addr_stream = mlx5_dc_set_dc_addr_stream;
  }
  return &qp->qp;
}

struct mlx5dv_qp_ex *mlx5dv_qp_ex_from_ibv_qp_ex(struct ibv_qp_ex *qp)
{
  // perftest asks for that of a target, too, which has none, and does not use it.
  return qp ? &sim_container_of(qp, struct sim_qp, ex)->dv : NULL;
}

int mlx5dv_dci_stream_id_reset(struct ibv_qp *qp, uint16_t stream_id)
{
  struct sim_qp *sim = sim_qp_of(qp);

  return sim->kind == SIM_DCI ? sim_dci_stream_reset(sim, stream_id) : EINVAL;
}

// The source port only spreads flows over links, of which a simulated path has one: the rule that
// counts is who may ask.
int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport)
{
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;

  (void)udp_sport;
  if (qp->qp_type != IBV_QPT_RC && qp->qp_type != IBV_QPT_UC)
    return EOPNOTSUPP;
  int error = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
  return error || attr.qp_state == IBV_QPS_RTS ? error : EINVAL;
}
