/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plugin whose work is late: regions. */
#include "late.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NEEDS_KNOWN                                                                                \
  (PST_NEED_CPU_ACCESS | PST_NEED_EXPORT_FD | PST_NEED_EXPORT_DMABUF | PST_NEED_PINNED)

static uint64_t round_up(uint64_t value, uint64_t to)
{
  return (value + to - 1) / to * to;
}

/* An aligned address to give out: for NORMAL it stays as it is, untouchable, and
 * the bytes are elsewhere; STAGING is mapped over it. */
static int reserve(struct late_region *region, uint64_t alignment)
{
  region->reserved_length = region->length + alignment;
  region->reserved = mmap(NULL, region->reserved_length, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region->reserved == MAP_FAILED)
    return -errno;
  region->address = round_up((uintptr_t)region->reserved, alignment);
  return 0;
}

static int map_normal(struct late_region *region)
{
  region->bytes =
      mmap(NULL, region->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return region->bytes == MAP_FAILED ? -errno : 0;
}

static int map_staging(struct late_region *region)
{
  region->fd = memfd_create("penstock:late", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (region->fd < 0)
    return -errno;
  region->bytes = MAP_FAILED;
  if (ftruncate(region->fd, (off_t)region->length) == 0 &&
      fcntl(region->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
    region->bytes = mmap((void *)(uintptr_t)region->address, region->length, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, region->fd, 0);
  if (region->bytes != MAP_FAILED)
    return 0;
  int code = -errno;
  close(region->fd);
  return code;
}

static void describe(struct pst_memory *memory, struct late_region *made, struct pst_region *region)
{
  bool staging = made->fd >= 0;
  struct pst_region out = {
      .kind = PST_MEMORY_HOST,
      .address = made->address,
      .host = staging ? made->bytes : NULL,
      .length = made->length,
      .page_size = (uint64_t)sysconf(_SC_PAGESIZE),
      .exports = staging ? PST_EXPORT_FD : 0,
      .flags = staging ? 0 : PST_REGION_PINNED,
      .memory = memory,
      .handle = made,
  };
  snprintf(out.device, sizeof(out.device), "%s", staging ? "" : "late");
  snprintf(out.backing, sizeof(out.backing), "%s", staging ? "memfd" : "late");
  pst_struct_write(region, &out, sizeof(out));
}

int late_alloc(struct pst_memory *memory, const struct pst_alloc_params *caller,
               struct pst_region *region)
{
  struct pst_alloc_params params;
  pst_struct_read(&params, sizeof(params), caller);
  const char *label = params.label ? params.label : "memory";
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  if (params.length == 0 || params.purpose > PST_ALLOC_STAGING ||
      params.alignment & (params.alignment - 1) || params.needs & ~(uint32_t)NEEDS_KNOWN ||
      params.reserved || region->struct_size < sizeof(*region)) {
    late_error(memory, "%s: parameters of alloc() that its contract forbids", label);
    return -EINVAL;
  }
  struct late_region *made = calloc(1, sizeof(*made));
  int code = -ENOMEM;
  if (!made || params.length > UINT64_C(1) << 46)
    goto failed;
  made->fd = -1;
  made->length = round_up(params.length, page);
  uint64_t alignment = params.alignment > page ? params.alignment : page;
  code = reserve(made, alignment);
  if (code)
    goto failed;
  code = params.purpose == PST_ALLOC_STAGING ? map_staging(made) : map_normal(made);
  if (code)
    goto not_mapped;
  pthread_mutex_lock(&memory->mutex);
  made->next = memory->regions;
  memory->regions = made;
  pthread_mutex_unlock(&memory->mutex);
  describe(memory, made, region);
  return 0;

not_mapped:
  munmap(made->reserved, made->reserved_length);
failed:
  late_error(memory, "%s: cannot get %" PRIu64 " B aligned to %" PRIu64 ": %s; ask for less", label,
             params.length, params.alignment, strerror(-code));
  free(made);
  return code;
}

void late_free_region(struct pst_memory *memory, struct pst_region *region)
{
  if (!region || !region->handle)
    return;
  struct late_region *made = region->handle;
  pthread_mutex_lock(&memory->mutex);
  if (made->under_way)
    late_error(memory, "a region is freed while %" PRIu32 " pieces of work in it are under way",
               made->under_way);
  while (made->under_way)
    pthread_cond_wait(&memory->changed, &memory->mutex);
  struct late_region **at = &memory->regions;
  while (*at != made)
    at = &(*at)->next;
  *at = made->next;
  pthread_mutex_unlock(&memory->mutex);
  if (made->fd >= 0)
    close(made->fd);
  else
    munmap(made->bytes, made->length);
  munmap(made->reserved, made->reserved_length);
  free(made);
  region->handle = NULL;
}

struct late_region *late_region_find(const struct pst_memory *memory, uint64_t address,
                                     uint64_t length, bool *partly)
{
  *partly = false;
  for (struct late_region *r = memory->regions; r; r = r->next) {
    if (address >= r->address && address - r->address <= r->length &&
        length <= r->length - (address - r->address))
      return r;
    if (address < r->address + r->length && address + length > r->address)
      *partly = true;
  }
  return NULL;
}

int late_export_region(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out)
{
  int rc = pst_export_check(memory->host, memory, region, kind, offset, length, out);
  if (rc < 0)
    return rc;
  const struct late_region *made = region->handle;
  int fd = fcntl(made->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    int code = -errno;
    late_error(memory, "export: cannot duplicate a descriptor: %s", strerror(-code));
    return code;
  }
  struct pst_export made_export = {
      .kind = PST_EXPORT_FD,
      .fd = fd,
      .offset = offset,
      .length = length,
      .base_address = made->address,
      .base_length = made->length,
  };
  pst_struct_write(out, &made_export, sizeof(made_export));
  return 0;
}
