/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <penstock/page.h>

#include "memlock.h"
#include "mr.h"

/* ---- All registrations ------------------------------------------------------------------------
 */

static struct ibv_mr *count(struct vb_mrs *mrs, struct ibv_mr *made)
{
  if (made)
    atomic_fetch_add_explicit(mrs->held, 1, memory_order_relaxed);
  return made;
}

void *vb_pages_alloc(size_t bytes)
{
  const size_t page = pst_page_size();
  return aligned_alloc(page, (bytes + page - 1) / page * page);
}

struct ibv_mr *vb_pin(struct vb_mrs *mrs, void *address, size_t length, int access)
{
  return count(mrs, ibv_reg_mr(mrs->pd, address, length, access));
}

void vb_unpin(struct vb_mrs *mrs, struct ibv_mr *mr)
{
  ibv_dereg_mr(mr);
  atomic_fetch_sub_explicit(mrs->held, 1, memory_order_relaxed);
}

/* ENOMEM has several causes: the limit is looked at as the kernel does, then the device's number of
 * registrations; what cannot be looked at is what is left. */
static void no_room(const struct vb_mrs *mrs, uint64_t length, char *text, size_t size)
{
  uint32_t held = atomic_load_explicit(mrs->held, memory_order_relaxed);
  struct vb_memlock now;
  char innocent[96];

  vb_memlock_read(&now);
  if (vb_memlock_exceeded(&now, length)) {
    vb_memlock_words(&now, length, text, size);
    return;
  }
  vb_memlock_innocent(&now, innocent, sizeof(innocent));
  if (mrs->max && held >= mrs->max)
    snprintf(text, size,
             "the device has room for %u registrations (`ibv_devinfo -v`: max_mr), and this "
             "process holds %u: run fewer streams in it (%s)",
             mrs->max, held, innocent);
  else
    snprintf(text, size,
             "no memory in the kernel (`dmesg`), or the device's tables are full: `rdma resource` "
             "has all processes' registrations, of at most %u (max_mr), this one's are %u; "
             "register less, or in larger pages (%s)",
             mrs->max, held, innocent);
}

void vb_mr_refusal(const struct vb_mrs *mrs, int error, uint64_t length, char *text, size_t size)
{
  if (error == ENOMEM || error == EPERM || error == EAGAIN)
    no_room(mrs, length, text, size);
  else
    snprintf(text, size, "%s",
             error == EFAULT ? "the kernel finds no pages there" : strerror(error));
}

/* ---- Device memory ------------------------------------------------------------------------ */

struct refusals {
  char text[320];
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
    return "this device's driver takes none (see Linux 5.12)";
  case ENOMEM:
    return "BAR1 or device table full (`nvidia-smi -q`)";
  default:
    return strerror(error);
  }
}

/* In few words: three of them have to fit. */
static const char *plain_refusal(const struct vb_mrs *mrs, int error, uint64_t length,
                                 char text[48])
{
  struct vb_memlock now;

  vb_memlock_read(&now);
  if (error != ENOMEM && error != EPERM && error != EAGAIN)
    snprintf(text, 48, "%s", strerror(error));
  else if (vb_memlock_exceeded(&now, length))
    snprintf(text, 48, "memlock %llu KiB (`ulimit -l`)", (unsigned long long)now.limit / 1024);
  else if (mrs->max && atomic_load_explicit(mrs->held, memory_order_relaxed) >= mrs->max)
    snprintf(text, 48, "max_mr is %u", mrs->max);
  else
    snprintf(text, 48, "device table full");
  return text;
}

typedef struct ibv_mr *register_fd(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int);

/* Looked up, so that this runs with an rdma-core before 34. */
static register_fd *find_register_fd(void)
{
  register_fd *found = NULL;

  *(void **)&found = dlsym(RTLD_DEFAULT, "ibv_reg_dmabuf_mr");
  return found;
}

/* Relaxed ordering is a wish. */
static struct ibv_mr *register_dmabuf(register_fd *call, struct ibv_pd *pd,
                                      const struct pst_export *from, uint64_t length,
                                      uint64_t address, int access)
{
  struct ibv_mr *made = call(pd, from->offset, length, address, from->fd, access);
#ifdef IBV_ACCESS_OPTIONAL_RANGE
  if (!made && (access & IBV_ACCESS_RELAXED_ORDERING) && (errno == EINVAL || errno == EOPNOTSUPP))
    made = call(pd, from->offset, length, address, from->fd, access & ~IBV_ACCESS_RELAXED_ORDERING);
#endif
  return made;
}

/* The exported range begins on a page; the device's address of it has the same place in one. */
static bool try_dmabuf(const struct pst_host *host, struct vb_mrs *mrs,
                       const struct pst_region *region, uint64_t offset, uint64_t length,
                       int access, struct vb_mr *out, struct refusals *all)
{
  struct pst_export export = {.struct_size = sizeof(export), .fd = -1};

  if (!(region->exports & PST_EXPORT_DMABUF)) {
    refused(all, "dma-buf", "its memory exports none");
    return false;
  }
  register_fd *call = find_register_fd();
  if (!call) {
    refused(all, "dma-buf", "this rdma-core has none, 34 has");
    return false;
  }
  int rc = host->region_export(host, region, PST_EXPORT_DMABUF, offset, length, &export);
  if (rc < 0) {
    refused(all, "dma-buf", strerror(-rc));
    return false;
  }
  out->address = region->address + offset;
  out->mr = count(mrs, register_dmabuf(call, mrs->pd, &export, length, out->address, access));
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

static bool try_peermem(struct vb_mrs *mrs, const struct pst_region *region, uint64_t offset,
                        uint64_t length, int access, struct vb_mr *out, struct refusals *all)
{
  char why[48];

  out->address = region->address + offset;
  out->mr = vb_pin(mrs, (void *)(uintptr_t)out->address, length, access); // NOLINT
  if (!out->mr) {
    refused(all, "peermem",
            errno == EFAULT ? "not loaded (`modprobe nvidia-peermem`)"
                            : plain_refusal(mrs, errno, length, why));
    return false;
  }
  out->path = PST_PATH_DIRECT;
  snprintf(out->via, sizeof(out->via), "peermem");
  return true;
}

static int register_device(const struct pst_host *host, struct vb_mrs *mrs,
                           const struct pst_region *region, uint64_t offset, uint64_t length,
                           int access, struct vb_mr *out, char reason[160])
{
  struct refusals all = {0};
  char why[48];

  if (try_dmabuf(host, mrs, region, offset, length, access, out, &all) ||
      try_peermem(mrs, region, offset, length, access, out, &all)) {
    snprintf(reason, 160, "%.159s", all.text);
    return 0;
  }
  if (region->host) {
    out->address = (uint64_t)(uintptr_t)region->host + offset;
    out->mr = vb_pin(mrs, (uint8_t *)region->host + offset, length, access);
    if (out->mr) {
      out->path = PST_PATH_DIRECT;
      snprintf(out->via, sizeof(out->via), "host mapping");
      snprintf(reason, 160, "%.159s", all.text);
      return 0;
    }
    refused(&all, "host mapping", plain_refusal(mrs, errno, length, why));
  }
  snprintf(reason, 160, "%.159s", all.text);
  /* No error: the host may stage. */
  host->log(host, PST_LOG_INFO, "%s has no way into %llu bytes of %s (%s): %s",
            ibv_get_device_name(mrs->pd->context->device), (unsigned long long)length,
            region->device[0] ? region->device : "device memory", region->backing, all.text);
  return -EOPNOTSUPP;
}

/* ---- Host memory ---------------------------------------------------------------------------- */

static int register_host(const struct pst_host *host, struct vb_mrs *mrs,
                         const struct pst_region *region, uint64_t offset, uint64_t length,
                         int access, struct vb_mr *out)
{
  char why[400];

  out->address = (uint64_t)(uintptr_t)region->host + offset;
  out->mr = vb_pin(mrs, (uint8_t *)region->host + offset, length, access);
  if (!out->mr) {
    int error = errno ? errno : EIO;
    vb_mr_refusal(mrs, error, length, why, sizeof(why));
    host->log(host, PST_LOG_ERROR,
              "%llu bytes of host memory (%s) cannot be registered with %s (ibv_reg_mr: %s): %s",
              (unsigned long long)length, region->backing,
              ibv_get_device_name(mrs->pd->context->device), strerror(error), why);
    return -error;
  }
  out->path = PST_PATH_DIRECT;
  snprintf(out->via, sizeof(out->via), "dma");
  return 0;
}

/* ---- Those that share ------------------------------------------------------------------------ */

struct vb_shared {
  struct vb_shared *next;
  const struct pst_memory *memory; /* whose the region is; with the address, which one */
  uint64_t region_address;
  uint32_t kind;
  int access;
  uint64_t offset, length;
  uint32_t users;
  struct vb_mr made;
  char reason[160];
};

void vb_mrs_open(struct vb_mrs *mrs, struct ibv_pd *pd, int max, atomic_uint *held)
{
  *mrs = (struct vb_mrs){.pd = pd, .max = max > 0 ? (uint32_t)max : 0, .held = held};
  pthread_mutex_init(&mrs->lock, NULL);
}

void vb_mrs_close(struct vb_mrs *mrs)
{
  pthread_mutex_destroy(&mrs->lock);
}

static int register_range(const struct pst_host *host, struct vb_mrs *mrs,
                          const struct pst_region *region, uint64_t offset, uint64_t length,
                          int access, struct vb_mr *made, char reason[160])
{
  reason[0] = '\0';
  if (region->kind == PST_MEMORY_CUDA || !region->host)
    return register_device(host, mrs, region, offset, length, access, made, reason);
  return register_host(host, mrs, region, offset, length, access, made);
}

static struct vb_shared *find(const struct vb_mrs *mrs, const struct vb_shared *like)
{
  struct vb_shared *at = mrs->shared;

  while (at && (at->memory != like->memory || at->region_address != like->region_address ||
                at->kind != like->kind || at->access != like->access ||
                at->offset != like->offset || at->length != like->length))
    at = at->next;
  return at;
}

static int add(const struct pst_host *host, struct vb_mrs *mrs, const struct pst_region *region,
               const struct vb_shared *like, struct vb_shared **added, char reason[160])
{
  struct vb_shared *made = malloc(sizeof(*made));

  if (!made)
    return -ENOMEM;
  *made = *like;
  int rc = register_range(host, mrs, region, like->offset, like->length, like->access, &made->made,
                          made->reason);
  if (rc < 0) {
    memcpy(reason, made->reason, sizeof(made->reason));
    free(made);
    return rc;
  }
  made->made.mrs = mrs;
  made->made.shared = made;
  made->next = mrs->shared;
  mrs->shared = made;
  *added = made;
  return 0;
}

static int share(const struct pst_host *host, struct vb_mrs *mrs, const struct pst_region *region,
                 const struct vb_shared *like, struct vb_mr *out, char reason[160])
{
  int rc = 0;

  reason[0] = '\0';
  pthread_mutex_lock(&mrs->lock);
  struct vb_shared *found = find(mrs, like);
  if (!found)
    rc = add(host, mrs, region, like, &found, reason);
  if (rc == 0) {
    found->users++;
    memcpy(reason, found->reason, sizeof(found->reason));
    *out = found->made;
  }
  pthread_mutex_unlock(&mrs->lock);
  return rc;
}

int vb_mr_register(const struct pst_host *host, struct vb_mrs *mrs, const struct pst_region *region,
                   uint64_t offset, uint64_t length, int access, bool may_share, struct vb_mr *out,
                   char reason[160])
{
  struct vb_mr made = {.mrs = mrs};
  const struct vb_shared like = {.memory = region->memory,
                                 .region_address = region->address,
                                 .kind = region->kind,
                                 .access = access,
                                 .offset = offset,
                                 .length = length};

  if (may_share)
    return share(host, mrs, region, &like, out, reason);
  int rc = register_range(host, mrs, region, offset, length, access, &made, reason);
  if (rc == 0)
    *out = made;
  return rc;
}

static void give_up(struct vb_shared *shared)
{
  struct vb_mrs *mrs = shared->made.mrs;
  struct vb_shared **at = &mrs->shared;

  pthread_mutex_lock(&mrs->lock);
  bool is_last = --shared->users == 0;
  while (is_last && *at != shared)
    at = &(*at)->next;
  if (is_last) {
    *at = shared->next;
    vb_unpin(mrs, shared->made.mr);
    free(shared);
  }
  pthread_mutex_unlock(&mrs->lock);
}

void vb_mr_close(struct vb_mr *mr)
{
  if (mr->mr && mr->shared)
    give_up(mr->shared);
  else if (mr->mr)
    vb_unpin(mr->mrs, mr->mr);
  mr->mr = NULL;
}
