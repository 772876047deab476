/* SPDX-License-Identifier: Apache-2.0 */
/* The library of mlx5, which is there where its provider is: looked up, so that nothing else needs
 * it. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

#include "mlx5.h"

#if __has_include(<infiniband/mlx5dv.h>) /* of an rdma-core that was built with mlx5 */
#include <infiniband/mlx5dv.h>
#define HAS_HEADER 1
#endif

#define LIBRARY "libmlx5.so.1"
#define VENDOR_MELLANOX 0x02c9u
#define FIRST_PART 4113u /* Connect-IB; older ones are mlx4's, which does not scatter */

static bool vb_mlx5_looks_like(const struct ibv_device_attr *attr)
{
  return attr->vendor_id == VENDOR_MELLANOX && attr->vendor_part_id >= FIRST_PART;
}

#ifdef HAS_HEADER
typedef bool is_supported(struct ibv_device *);
typedef struct ibv_qp *create_qp(struct ibv_context *, struct ibv_qp_init_attr_ex *,
                                 struct mlx5dv_qp_init_attr *);

static struct ibv_qp *vb_mlx5_create_by(void *library, struct ibv_context *context,
                                        struct ibv_qp_init_attr_ex *attr)
{
  struct mlx5dv_qp_init_attr own = {.comp_mask = MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS,
                                    .create_flags = MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE};
  is_supported *supports = NULL;
  create_qp *create = NULL;

  *(void **)&supports = dlsym(library, "mlx5dv_is_supported");
  *(void **)&create = dlsym(library, "mlx5dv_create_qp");
  if (supports && !supports(context->device))
    return ibv_create_qp_ex(context, attr);
  if (supports && create)
    return create(context, attr, &own);
  errno = EOPNOTSUPP;
  return NULL;
}
#else
static struct ibv_qp *vb_mlx5_create_by(void *library, struct ibv_context *context,
                                        struct ibv_qp_init_attr_ex *attr)
{
  (void)library;
  (void)context;
  (void)attr;
  errno = EOPNOTSUPP;
  return NULL;
}
#endif

struct ibv_qp *vb_mlx5_create_qp(const struct pst_device *device, struct ibv_context *context,
                                 struct ibv_qp_init_attr_ex *attr)
{
  const struct pst_host *host = device->host;
  void *library;

  if (!vb_mlx5_looks_like(&device->attr))
    return ibv_create_qp_ex(context, attr);
  /* The provider that runs the device is the same file. */
  if (host->library_open(host, LIBRARY, &library) == 0)
    return vb_mlx5_create_by(library, context, attr);
  errno = EOPNOTSUPP;
  return NULL;
}
