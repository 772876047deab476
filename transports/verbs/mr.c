/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations with the device. */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <penstock/page.h>

#include "mr.h"
#include "status.h"

/* ---- All registrations ------------------------------------------------------------------- */

static struct ibv_mr *vb_mr_count(struct vb_mrs *mrs, struct ibv_mr *made)
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

#ifdef IBV_ACCESS_OPTIONAL_RANGE
#define OPTIONAL_ACCESS IBV_ACCESS_RELAXED_ORDERING
#else
#define OPTIONAL_ACCESS 0
#endif

/* A registration failed that may succeed without its optional flags. */
static bool vb_mr_may_do_without(int access)
{
  return (access & OPTIONAL_ACCESS) && (errno == EINVAL || errno == EOPNOTSUPP);
}

struct ibv_mr *vb_pin(struct vb_mrs *mrs, void *address, size_t length, int access)
{
  struct ibv_mr *made = ibv_reg_mr(mrs->pd, address, length, access);

  if (!made && vb_mr_may_do_without(access))
    made = ibv_reg_mr(mrs->pd, address, length, access & ~OPTIONAL_ACCESS);
  return vb_mr_count(mrs, made);
}

void vb_unpin(struct vb_mrs *mrs, struct ibv_mr *mr)
{
  ibv_dereg_mr(mr);
  atomic_fetch_sub_explicit(mrs->held, 1, memory_order_relaxed);
}

/* ENOMEM has several causes: the limit is looked at as the kernel does, then the device's number of
 * registrations; what cannot be looked at is what is left. */
static void vb_mr_no_room(const struct vb_mrs *mrs, uint64_t length, char *text, size_t size)
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
    vb_mr_no_room(mrs, length, text, size);
  else
    snprintf(text, size, "%s",
             error == EFAULT ? "the kernel finds no pages there" : strerror(error));
}

/* ---- Device memory ----------------------------------------------------------------------- */

static const char *vb_mr_dmabuf_refusal(int error)
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
static const char *vb_mr_plain_refusal(const struct vb_mrs *mrs, int error, uint64_t length,
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
static register_fd *vb_mr_find_register_fd(void)
{
  register_fd *found = NULL;

  *(void **)&found = dlsym(RTLD_DEFAULT, "ibv_reg_dmabuf_mr");
  return found;
}

static struct ibv_mr *vb_mr_register_dmabuf(register_fd *call, struct ibv_pd *pd,
                                            const struct pst_export *from, uint64_t length,
                                            uint64_t address, int access)
{
  struct ibv_mr *made = call(pd, from->offset, length, address, from->fd, access);

  if (!made && vb_mr_may_do_without(access))
    made = call(pd, from->offset, length, address, from->fd, access & ~OPTIONAL_ACCESS);
  return made;
}

/* A range to be registered, and how. */
struct range {
  const struct pst_host *host;
  struct vb_mrs *mrs;
  const struct pst_region *region;
  uint64_t offset, length;
  int access;
};

/* A way into a device's memory. NULL: `out` is registered; or why it is not, "" where there is no
 * such way. */
typedef const char *try_way(const struct range *range, struct vb_mr *out, char why[48]);

/* The exported range begins on a page; the device's address of it has the same place in one. */
static const char *vb_mr_try_dmabuf(const struct range *range, struct vb_mr *out, char why[48])
{
  struct pst_export export = {.struct_size = sizeof(export), .fd = -1};
  const struct pst_host *host = range->host;
  register_fd *call = vb_mr_find_register_fd();

  (void)why;
  if (!(range->region->exports & PST_EXPORT_DMABUF))
    return "its memory exports none";
  if (!call)
    return "this rdma-core has none, 34 has";
  int rc = host->region_export(host, range->region, PST_EXPORT_DMABUF, range->offset, range->length,
                               &export);
  if (rc < 0)
    return strerror(-rc);
  out->address = range->region->address + range->offset;
  out->mr =
      vb_mr_count(range->mrs, vb_mr_register_dmabuf(call, range->mrs->pd, &export, range->length,
                                                    out->address, range->access));
  int error = errno;
  close(export.fd); /* the registration keeps it */
  return out->mr ? NULL : vb_mr_dmabuf_refusal(error);
}

static const char *vb_mr_try_peermem(const struct range *range, struct vb_mr *out, char why[48])
{
  out->address = range->region->address + range->offset;
  out->mr = vb_pin(range->mrs, (void *)(uintptr_t)out->address, range->length, // NOLINT
                   range->access);
  if (out->mr)
    return NULL;
  return errno == EFAULT ? "not loaded (`modprobe nvidia-peermem`)"
                         : vb_mr_plain_refusal(range->mrs, errno, range->length, why);
}

static bool vb_mr_pin_host(const struct range *range, struct vb_mr *out)
{
  uint8_t *at = (uint8_t *)range->region->host + range->offset;

  out->address = (uint64_t)(uintptr_t)at;
  out->mr = vb_pin(range->mrs, at, range->length, range->access);
  return out->mr != NULL;
}

static const char *vb_mr_try_mapping(const struct range *range, struct vb_mr *out, char why[48])
{
  if (!range->region->host)
    return "";
  return vb_mr_pin_host(range, out) ? NULL
                                    : vb_mr_plain_refusal(range->mrs, errno, range->length, why);
}

/* Registers GPU memory by the first way that works. -EOPNOTSUPP: none does, and `reason` has each
 * way's own. */
static int vb_mr_register_device(const struct range *range, struct vb_mr *out, char reason[160])
{
  static const struct {
    const char *name;
    try_way *call;
  } ways[] = {{"dma-buf", vb_mr_try_dmabuf},
              {"peermem", vb_mr_try_peermem},
              {"host mapping", vb_mr_try_mapping}};
  const struct pst_region *region = range->region;
  char all[320] = "", text[48];

  for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
    const char *why = ways[i].call(range, out, text);
    snprintf(reason, 160, "%.159s", all);
    if (!why) {
      out->path = PST_PATH_DIRECT;
      snprintf(out->via, sizeof(out->via), "%s", ways[i].name);
      return 0;
    }
    if (why[0])
      vb_text_add(all, sizeof(all), "%s%s: %s", all[0] ? "; " : "", ways[i].name, why);
  }
  snprintf(reason, 160, "%.159s", all);
  /* No error: the host may stage. */
  range->host->log(range->host, PST_LOG_INFO, "%s cannot reach %llu bytes of %s (%s): %s",
                   ibv_get_device_name(range->mrs->pd->context->device),
                   (unsigned long long)range->length,
                   region->device[0] ? region->device : "device memory", region->backing, all);
  return -EOPNOTSUPP;
}

/* ---- Host memory ------------------------------------------------------------------------- */

static int vb_mr_register_host(const struct range *range, struct vb_mr *out)
{
  const struct pst_host *host = range->host;
  char why[400];

  if (!vb_mr_pin_host(range, out)) {
    int error = errno ? errno : EIO;
    vb_mr_refusal(range->mrs, error, range->length, why, sizeof(why));
    host->log(host, PST_LOG_ERROR,
              "%llu bytes of host memory (%s) cannot be registered with %s (ibv_reg_mr: %s): %s",
              (unsigned long long)range->length, range->region->backing,
              ibv_get_device_name(range->mrs->pd->context->device), strerror(error), why);
    return -error;
  }
  out->path = PST_PATH_DIRECT;
  snprintf(out->via, sizeof(out->via), "dma");
  return 0;
}

static int vb_mr_register_range(const struct range *range, struct vb_mr *made, char reason[160])
{
  reason[0] = '\0';
  made->mrs = range->mrs;
  return range->region->kind == PST_MEMORY_CUDA || !range->region->host
             ? vb_mr_register_device(range, made, reason)
             : vb_mr_register_host(range, made);
}

/* ---- Those that share -------------------------------------------------------------------- */

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

static struct vb_shared *vb_mr_find(const struct range *range)
{
  const struct pst_region *region = range->region;
  struct vb_shared *at = range->mrs->shared;

  while (at && (at->memory != region->memory || at->region_address != region->address ||
                at->kind != region->kind || at->access != range->access ||
                at->offset != range->offset || at->length != range->length))
    at = at->next;
  return at;
}

static int vb_mr_add(const struct range *range, struct vb_shared **added, char reason[160])
{
  struct vb_shared *made = malloc(sizeof(*made));

  if (!made)
    return -ENOMEM;
  *made = (struct vb_shared){.next = range->mrs->shared,
                             .memory = range->region->memory,
                             .region_address = range->region->address,
                             .kind = range->region->kind,
                             .access = range->access,
                             .offset = range->offset,
                             .length = range->length};
  int rc = vb_mr_register_range(range, &made->made, made->reason);
  if (rc < 0) {
    memcpy(reason, made->reason, sizeof(made->reason));
    free(made);
    return rc;
  }
  made->made.shared = made;
  range->mrs->shared = made;
  *added = made;
  return 0;
}

static int vb_mr_share(const struct range *range, struct vb_mr *out, char reason[160])
{
  int rc = 0;

  reason[0] = '\0';
  pthread_mutex_lock(&range->mrs->lock);
  struct vb_shared *found = vb_mr_find(range);
  if (!found)
    rc = vb_mr_add(range, &found, reason);
  if (rc == 0) {
    found->users++;
    memcpy(reason, found->reason, sizeof(found->reason));
    *out = found->made;
  }
  pthread_mutex_unlock(&range->mrs->lock);
  return rc;
}

int vb_mr_register(const struct pst_host *host, struct vb_mrs *mrs, const struct pst_region *region,
                   uint64_t offset, uint64_t length, int access, bool may_share, struct vb_mr *out,
                   char reason[160])
{
  const struct range range = {host, mrs, region, offset, length, access};
  struct vb_mr made = {0};

  if (may_share)
    return vb_mr_share(&range, out, reason);
  int rc = vb_mr_register_range(&range, &made, reason);
  if (rc == 0)
    *out = made;
  return rc;
}

static void vb_mr_give_up(struct vb_shared *shared)
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
    vb_mr_give_up(mr->shared);
  else if (mr->mr)
    vb_unpin(mr->mrs, mr->mr);
  mr->mr = NULL;
}
