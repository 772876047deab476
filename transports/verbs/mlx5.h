/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of queue pairs that only mlx5's own library reveals. */
#ifndef VB_MLX5_H
#define VB_MLX5_H

#include "transport.h"

/* A queue pair into whose receives the device alone writes. A ConnectX else puts SENDs of up to 32
 * bytes (64 with completions of 128) into the completion, and ibv_poll_cq copies them by the CPU to
 * the receive's address, which faults where that is a GPU's: mlx5dv_create_qp(3),
 * MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE. On another vendor's device ibv_create_qp_ex.
 * NULL: errno; EOPNOTSUPP: the device is mlx5's, and its library cannot be asked. */
struct ibv_qp *vb_mlx5_create_qp(const struct pst_device *device, struct ibv_context *context,
                                 struct ibv_qp_init_attr_ex *attr);

#endif
