/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of libmlx5 that make queue pairs of DC, looked up in the library that runs the device. */
#ifndef DC_MLX5_H
#define DC_MLX5_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <penstock/plugin.h>
#include <stdbool.h>

struct dc_mlx5 {
  bool (*is_supported)(struct ibv_device *device);
  int (*query_device)(struct ibv_context *context, struct mlx5dv_context *out);
  struct ibv_qp *(*create_qp)(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
                              struct mlx5dv_qp_init_attr *own);
  struct mlx5dv_qp_ex *(*qp_ex)(struct ibv_qp_ex *qp);
  int (*stream_reset)(struct ibv_qp *qp, uint16_t stream); /* NULL: before rdma-core 36 */
};

/* False: the library is not there, or older; *missing says what. */
bool dc_mlx5_open(const struct pst_host *host, struct dc_mlx5 *mlx5, const char **missing);

#endif
