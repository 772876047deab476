/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mr.h"

void vb_mr_refusal(int error, uint64_t length, char *text, size_t size)
{
  struct rlimit limit = {0};

  switch (error) {
  case ENOMEM:
  case EPERM:
  case EAGAIN:
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < length)
      snprintf(text, size,
               "the locked-memory limit of %llu KiB is less than the %llu KiB wanted: raise it "
               "(`ulimit -l unlimited`, LimitMEMLOCK=infinity, a container's --ulimit memlock=-1)",
               (unsigned long long)limit.rlim_cur / 1024, (unsigned long long)length / 1024);
    else if (limit.rlim_cur != RLIM_INFINITY)
      snprintf(text, size,
               "the locked-memory limit of %llu KiB is used up, or the device's translation table "
               "is: raise `ulimit -l`, or register less",
               (unsigned long long)limit.rlim_cur / 1024);
    else
      snprintf(text, size,
               "no memory, or the device's translation table is used up: register "
               "less, or in larger pages");
    break;
  case EFAULT:
    snprintf(text, size, "the kernel finds no pages there");
    break;
  default:
    snprintf(text, size, "%s", strerror(error));
  }
}

/* ---- Device memory ------------------------------------------------------------------------ */

struct refusals {
  char text[160];
  size_t used;
};

static void refused(struct refusals *all, const char *way, const char *why)
{
  int n = snprintf(all->text + all->used, sizeof(all->text) - all->used, "%s%s: %s",
                   all->used ? "; " : "", way, why);
  all->used += n > 0 ? (size_t)n : 0;
  if (all->used > sizeof(all->text) - 1)
    all->used = sizeof(all->text) - 1;
}

static const char *dmabuf_refusal(int error)
{
  switch (error) {
  case EOPNOTSUPP:
  case EPROTONOSUPPORT:
  case ENOSYS:
    return "this device's driver takes none (Linux 5.12 and its driver's support are needed)";
  case ENOMEM:
    return "no room in the device's table or the GPU's BAR1 (`nvidia-smi -q -d MEMORY`)";
  default:
    return strerror(error);
  }
}

/* The exported range begins on a page; the device's address of it has the same place in one. */
static bool try_dmabuf(const struct pst_host *host, struct ibv_pd *pd,
                       const struct pst_region *region, uint64_t offset, uint64_t length,
                       int access, struct vb_mr *out, struct refusals *all)
{
  struct pst_export export = {.struct_size = sizeof(export), .fd = -1};

  if (!(region->exports & PST_EXPORT_DMABUF)) {
    refused(all, "dma-buf", "its memory exports none");
    return false;
  }
  int rc = host->region_export(host, region, PST_EXPORT_DMABUF, offset, length, &export);
  if (rc < 0) {
    refused(all, "dma-buf", strerror(-rc));
    return false;
  }
  out->address = region->address + offset;
  out->mr = ibv_reg_dmabuf_mr(pd, export.offset, length, out->address, export.fd, access);
  int error = errno;
  close(export.fd); /* the registration keeps it */
  if (!out->mr) {
    refused(all, "dma-buf", dmabuf_refusal(error));
    return false;
  }
  out->path = PST_PATH_DIRECT;
  snprintf(out->via, sizeof(out->via), "dma-buf");
  return true;
}

static bool try_peermem(struct ibv_pd *pd, const struct pst_region *region, uint64_t offset,
                        uint64_t length, int access, struct vb_mr *out, struct refusals *all)
{
  out->address = region->address + offset;
  out->mr = ibv_reg_mr(pd, (void *)(uintptr_t)out->address, length, access); // NOLINT
  if (!out->mr) {
    refused(all, "peermem",
            errno == EFAULT ? "not loaded (`modprobe nvidia-peermem`)" : strerror(errno));
    return false;
  }
  out->path = PST_PATH_DIRECT;
  snprintf(out->via, sizeof(out->via), "peermem");
  return true;
}

static int register_device(const struct pst_host *host, struct ibv_pd *pd,
                           const struct pst_region *region, uint64_t offset, uint64_t length,
                           int access, struct vb_mr *out, char reason[160])
{
  struct refusals all = {0};

  if (try_dmabuf(host, pd, region, offset, length, access, out, &all) ||
      try_peermem(pd, region, offset, length, access, out, &all)) {
    snprintf(reason, 160, "%s", all.text);
    return 0;
  }
  if (region->host) {
    out->address = (uint64_t)(uintptr_t)region->host + offset;
    out->mr = ibv_reg_mr(pd, (uint8_t *)region->host + offset, length, access);
    if (out->mr) {
      out->path = PST_PATH_MAPPED;
      snprintf(out->via, sizeof(out->via), "host mapping");
      snprintf(reason, 160, "%s", all.text);
      return 0;
    }
    refused(&all, "host mapping", strerror(errno));
  }
  snprintf(reason, 160, "%s", all.text);
  return -EOPNOTSUPP;
}

/* ---- Host memory ---------------------------------------------------------------------------- */

static int register_host(const struct pst_host *host, struct ibv_pd *pd,
                         const struct pst_region *region, uint64_t offset, uint64_t length,
                         int access, struct vb_mr *out)
{
  char why[320];

  out->address = (uint64_t)(uintptr_t)region->host + offset;
  out->mr = ibv_reg_mr(pd, (uint8_t *)region->host + offset, length, access);
  if (!out->mr) {
    int error = errno ? errno : EIO;
    vb_mr_refusal(error, length, why, sizeof(why));
    host->log(host, PST_LOG_ERROR,
              "%llu bytes of host memory (%s) cannot be registered with %s (ibv_reg_mr: %s): %s",
              (unsigned long long)length, region->backing, ibv_get_device_name(pd->context->device),
              strerror(error), why);
    return -error;
  }
  out->path = region->kind == PST_MEMORY_MAPPED ? PST_PATH_MAPPED : PST_PATH_DIRECT;
  snprintf(out->via, sizeof(out->via), "%s",
           region->kind == PST_MEMORY_MAPPED ? "host mapping" : "dma");
  return 0;
}

int vb_mr_register(const struct pst_host *host, struct ibv_pd *pd, const struct pst_region *region,
                   uint64_t offset, uint64_t length, int access, struct vb_mr *out,
                   char reason[160])
{
  struct vb_mr made = {0};
  int rc;

  reason[0] = '\0';
  if (region->kind == PST_MEMORY_CUDA || !region->host)
    rc = register_device(host, pd, region, offset, length, access, &made, reason);
  else
    rc = register_host(host, pd, region, offset, length, access, &made);
  if (rc == 0)
    *out = made;
  return rc;
}

void vb_mr_close(struct vb_mr *mr)
{
  if (mr->mr)
    ibv_dereg_mr(mr->mr);
  mr->mr = NULL;
}
