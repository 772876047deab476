/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of libmlx5, looked up in the library that runs the device. */
#include "mlx5.h"

#include <dlfcn.h>

#define LIBRARY "libmlx5.so.1"

bool dc_mlx5_open(const struct pst_host *host, struct dc_mlx5 *mlx5, const char **missing)
{
  struct {
    const char *name;
    void *to;
  } calls[] = {
      {"mlx5dv_is_supported", &mlx5->is_supported},
      {"mlx5dv_query_device", &mlx5->query_device},
      {"mlx5dv_create_qp", &mlx5->create_qp},
      {"mlx5dv_qp_ex_from_ibv_qp_ex", &mlx5->qp_ex},
  };
  void *library;

  *missing = LIBRARY;
  if (host->library_open(host, LIBRARY, &library) < 0)
    return false;
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    void *found = dlsym(library, calls[i].name);
    if (!found) {
      *missing = calls[i].name;
      return false;
    }
    *(void **)calls[i].to = found;
  }
  *(void **)(void *)&mlx5->stream_reset = dlsym(library, "mlx5dv_dci_stream_id_reset");
  return true;
}
