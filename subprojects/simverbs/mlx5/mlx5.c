// SPDX-License-Identifier: Apache-2.0
// The device as mlx5dv knows it: opened, asked, its clock.
#include "mlx5.h"
#include "front/refused.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

// Bytes of a completion queue's entry that mlx5 has.
enum {
  CQE_SHORT = 64,
  CQE_LONG = 128,
};

bool mlx5dv_is_supported(struct ibv_device *device)
{
  return sim_device_is_mlx5(sim_device_of(device));
}

struct ibv_context *mlx5dv_open_device(struct ibv_device *device, struct mlx5dv_context_attr *attr)
{
  if (attr->comp_mask)
    return SIM_FAIL(EINVAL, NULL);
  // DEVX is firmware's own command interface.
  if (attr->flags) {
    sim_refused("mlx5dv_open_device with MLX5DV_CONTEXT_FLAGS_DEVX");
    return NULL;
  }
  return ibv_open_device(device);
}

int mlx5dv_query_device(struct ibv_context *context, struct mlx5dv_context *attrs)
{
  return sim_query_mlx5(sim_context_of(context), attrs);
}

// A tick is a nanosecond: the conversion is 1 to 1.
int mlx5dv_get_clock_info(struct ibv_context *context, struct mlx5dv_clock_info *clock_info)
{
  uint64_t now_ns = sim_clock_ns(sim_context_of(context));

  *clock_info = (struct mlx5dv_clock_info){
      .nsec = now_ns,
      .last_cycles = now_ns,
      .mult = 1,
      .mask = UINT64_MAX,
  };
  return 0;
}

int _mlx5dv_query_port(struct ibv_context *context, uint32_t port_num, struct mlx5dv_port *info,
                       size_t info_len)
{
  struct ibv_port_attr attr;

  memset(info, 0, info_len);
  // mlx5dv reports a port's switch offload and LAG: none here, so only that it exists.
  return sim_query_port(sim_context_of(context), port_num, &attr);
}

struct ibv_cq_ex *mlx5dv_create_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *cq_attr,
                                   struct mlx5dv_cq_init_attr *mlx5_cq_attr)
{
  const uint64_t mask = mlx5_cq_attr ? mlx5_cq_attr->comp_mask : 0;

  // Compression and padding are not among the capabilities; how long an entry is no program sees.
  if (mask & ~(uint64_t)MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE)
    return SIM_FAIL(EOPNOTSUPP, NULL);
  if (mask && mlx5_cq_attr->cqe_size != CQE_SHORT && mlx5_cq_attr->cqe_size != CQE_LONG)
    return SIM_FAIL(EINVAL, NULL);
  return ibv_create_cq_ex(context, cq_attr);
}
