/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations. UCX gets the kind of each memory, and never guesses. */
#include "mr.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-util.h>

#include "cuda.h"
#include "device.h"
#include "ops.h"
#include "path.h"
#include "status.h"

static int ucx_mr_refuse_kind(struct pst_path_info *path)
{
  unsigned int major, minor, release;
  char reason[160];

  ucp_get_version(&major, &minor, &release);
  snprintf(reason, sizeof(reason),
           "this UCX, %u.%u.%u, has no CUDA support; put one that has, such as libucx-cu13, first "
           "on LD_LIBRARY_PATH",
           major, minor, release);
  pst_path_write(path, PST_PATH_NONE, "", "", reason);
  return -EOPNOTSUPP;
}

static int ucx_mr_map(const struct pst_device *device, struct pst_mr *mr, uint32_t access)
{
  const ucp_mem_map_params_t params = {
      .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                    UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
      .address = mr->cpu.base,
      .length = mr->cpu.length,
      .memory_type = mr->type,
  };
  ucs_status_t status;

  (void)access;
  if (mr->cpu.length == 0)
    return 0;
  status = ucp_mem_map(device->context, &params, &mr->memh);
  if (status == UCS_OK)
    return 0;
  mr->memh = NULL;
  return PST_REFUSE(device->host, ucx_status_errno(status),
                    "UCX cannot register %llu bytes of %s memory: %s; %s",
                    (unsigned long long)mr->cpu.length, mr->by_cpu ? "host" : "CUDA",
                    ucs_status_string(status), ucx_status_remedy(status));
}

static void ucx_mr_add_to_device(struct pst_device *device, struct pst_mr *mr)
{
  pthread_rwlock_wrlock(&device->mr_lock);
  mr->next = device->mrs;
  device->mrs = mr;
  if (!mr->by_cpu && !device->cuda)
    __atomic_store_n(&device->cuda, ucx_cuda_open((uintptr_t)mr->cpu.base), __ATOMIC_RELEASE);
  pthread_rwlock_unlock(&device->mr_lock);
}

static void ucx_mr_take_from_device(struct pst_device *device, const struct pst_mr *mr)
{
  struct pst_mr **at;

  pthread_rwlock_wrlock(&device->mr_lock);
  for (at = &device->mrs; *at && *at != mr;)
    at = &(*at)->next;
  if (*at)
    *at = mr->next;
  pthread_rwlock_unlock(&device->mr_lock);
}

void *ucx_mr_enter(struct pst_device *device, uint64_t address, uint64_t length, uint32_t access)
{
  pthread_rwlock_rdlock(&device->mr_lock);
  for (const struct pst_mr *mr = device->mrs; mr; mr = mr->next) {
    const uint64_t base = (uintptr_t)mr->cpu.base;
    if (mr->by_cpu && (mr->cpu.access & access) == access && address >= base &&
        pst_range_holds(mr->cpu.length, address - base, length))
      return mr->cpu.base + (address - base);
  }
  pthread_rwlock_unlock(&device->mr_lock);
  return NULL;
}

void ucx_mr_leave(struct pst_device *device)
{
  pthread_rwlock_unlock(&device->mr_lock);
}

int ucx_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                    struct pst_mr **mr)
{
  struct pst_mr_params in;
  struct pst_region region;
  struct pst_mr *made;
  int rc;

  pst_struct_read(&in, sizeof(in), params);
  pst_struct_read(&region, sizeof(region), in.region);
  rc = pst_mr_params_check(device->host, &in, &region, NULL);
  if (rc < 0)
    return rc;
  if (!region.host && !(device->memory_types & (1u << UCS_MEMORY_TYPE_CUDA)))
    return ucx_mr_refuse_kind(in.path);
  if (!region.host && in.send_max && ucx_path_stages(device, in.send_max, "out of", in.path))
    return -EOPNOTSUPP;
  made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->by_cpu = region.host != NULL;
  made->is_pinned = region.flags & PST_REGION_PINNED;
  made->type = made->by_cpu ? UCS_MEMORY_TYPE_HOST : UCS_MEMORY_TYPE_CUDA;
  made->cpu.base =
      (made->by_cpu ? (uint8_t *)region.host : (uint8_t *)(uintptr_t)region.address) + in.offset;
  made->cpu.length = in.length;
  made->cpu.access = in.access;
  rc = ucx_mr_map(device, made, in.access);
  if (rc < 0) {
    free(made);
    return rc;
  }
  ucx_mr_add_to_device(device, made);
  pst_path_write(in.path, PST_PATH_DIRECT, "", "", "");
  *mr = made;
  return 0;
}

void ucx_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  if (!mr)
    return;
  ucx_mr_take_from_device(device, mr);
  if (mr->memh)
    ucp_mem_unmap(device->context, mr->memh);
  free(mr);
}
