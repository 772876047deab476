/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the host registers. */
#include "domain.h"
#include "ops.h"

/* Registered for a ring and nothing else: as the ring will be, which then takes it, and is
 * registered no second time, if it takes all of it. */
static bool vb_register_is_ring_alone(uint32_t access)
{
  return access == (PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING);
}

int vb_relaxed(const struct pst_device *device, uint32_t access)
{
  return access & (PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC) ? device->relaxed_offered
                                                                       : device->relaxed;
}

static int vb_register_rights(const struct pst_device *device, uint32_t access)
{
  const uint32_t writes =
      PST_ACCESS_LOCAL_WRITE | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC;

  if (vb_register_is_ring_alone(access))
    return vb_ring_rights(device);
  /* Else a ring has a registration of its own, which alone its peers can write to. */
  return vb_relaxed(device, access) | (access & writes ? IBV_ACCESS_LOCAL_WRITE : 0) |
         (access & PST_ACCESS_REMOTE_READ ? IBV_ACCESS_REMOTE_READ : 0) |
         (access & PST_ACCESS_REMOTE_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
         (access & PST_ACCESS_REMOTE_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC : 0);
}

static void vb_register_tell_path(struct pst_path_info *path, const struct pst_device *device,
                                  const struct vb_mr *mr, const char *reason)
{
  pst_path_write(path, mr->path, mr->via, device->carrier, reason);
}

static int vb_register_check(const struct pst_device *device, const struct pst_mr_params *in,
                             const struct pst_region *region)
{
  const char *wrong = NULL;

  if (in->length == 0)
    wrong = "it is empty";
  else if ((in->access & PST_ACCESS_REMOTE_ATOMIC) && !(device->capabilities & PST_CAP_ATOMIC))
    wrong = "the device has no atomics";
  return pst_mr_params_check(device->host, in, region, wrong);
}

/* A FLUSH is a READ behind the WRITEs. If the peer may write the memory and not read it, one byte
 * is registered for that READ. */
static int vb_register_flush(struct pst_device *device, const struct pst_mr_params *in,
                             struct pst_mr *mr, char reason[160])
{
  const uint32_t changes = PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC;

  if (!(in->access & changes) || (in->access & PST_ACCESS_REMOTE_READ))
    return 0;
  int rc = vb_mr_register(device->host, &mr->domain->mrs, in->region, in->offset, 1,
                          IBV_ACCESS_REMOTE_READ, false, &mr->flush, reason);
  mr->has_flush = rc == 0;
  return rc;
}

/* Registers memory by dma-buf, peermem or its address. The path says which, or why none works. */
int vb_register(struct pst_device *device, const struct pst_mr_params *params, struct pst_mr **mr)
{
  struct pst_mr_params in;
  struct pst_region region;
  char reason[160];

  pst_struct_read(&in, sizeof(in), params);
  pst_struct_read(&region, sizeof(region), in.region);
  int rc = vb_register_check(device, &in, &region);
  if (rc < 0)
    return rc;
  struct pst_mr *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  const bool is_reached = in.access & (VB_REMOTE_ACCESS | PST_ACCESS_RING);
  rc = vb_domain_take(device, is_reached ? in.domain : 0, &made->domain);
  if (rc < 0) {
    free(made);
    return rc;
  }
  /* A peer's range is not shared: it is taken away when it is closed, though another peer may have
   * an equal one. */
  rc = vb_mr_register(device->host, &made->domain->mrs, in.region, in.offset, in.length,
                      vb_register_rights(device, in.access), !(in.access & VB_REMOTE_ACCESS),
                      &made->verbs, reason);
  if (rc < 0) {
    vb_register_tell_path(in.path, device, &made->verbs, reason);
    vb_domain_give(made->domain);
    free(made);
    return rc;
  }
  rc = vb_register_flush(device, &in, made, reason);
  if (rc < 0) {
    vb_register_tell_path(in.path, device, &made->verbs, reason);
    vb_deregister(device, made);
    return rc;
  }
  made->length = in.length;
  made->offset = in.offset;
  made->access = in.access;
  made->lkey = made->verbs.mr->lkey;
  made->is_cpu_readable = region.host && region.kind != PST_MEMORY_CUDA;
  made->region = in.region;
  vb_register_tell_path(in.path, device, &made->verbs, reason);
  *mr = made;
  return 0;
}

void vb_deregister(struct pst_device *device, struct pst_mr *mr)
{
  (void)device;
  if (!mr)
    return;
  if (mr->has_flush)
    vb_mr_close(&mr->flush);
  vb_mr_close(&mr->verbs);
  vb_domain_give(mr->domain);
  free(mr);
}
