/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations, and what a peer needs to reach them. */
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loopback.h"

#define VALID_BYTES 4096
#define LEAVE_NS UINT64_C(2000000000) /* many times what the longest copy takes */
#define REMOTE_ACCESS (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC)

int lb_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                   struct pst_mr **mr)
{
  struct pst_mr_params in;
  LB_TAKE(in, params);
  struct pst_region region;
  LB_TAKE(region, in.region);
  if (in.offset > region.length || in.length > region.length - in.offset) {
    LB_LOG(device, PST_LOG_ERROR,
           "registration of [%llu, +%llu) lies outside its region of %llu bytes",
           (unsigned long long)in.offset, (unsigned long long)in.length,
           (unsigned long long)region.length);
    return -EINVAL;
  }
  bool by_cpu = device->mode == LB_MODE_COPY || (in.access & REMOTE_ACCESS);
  if (!region.host && by_cpu) {
    struct pst_path_info path = {.reason = "the CPU cannot reach this memory, and loopback copies "
                                           "with the CPU"};
    if (in.path)
      LB_GIVE(in.path, path);
    return -EOPNOTSUPP;
  }
  struct lb_mr *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  atomic_init(&made->refs, 1);
  atomic_init(&made->gate.open, 1);
  made->device = device;
  made->id = lb_id_new();
  made->region = region;
  made->offset = in.offset;
  made->length = in.length;
  made->access = in.access;
  made->base = region.host ? (uint8_t *)region.host + in.offset : NULL;
  made->valid_fd = -1;
  made->region_fd = -1;
  if (in.path) {
    struct pst_path_info path;
    LB_TAKE(path, in.path);
    snprintf(path.via, sizeof(path.via), "%s", by_cpu ? "memcpy" : "reference");
    LB_GIVE(in.path, path);
  }
  lb_registry_add_mr(made);
  *mr = (struct pst_mr *)made;
  return 0;
}

void lb_mr_unref(struct lb_mr *mr)
{
  if (mr && atomic_fetch_sub_explicit(&mr->refs, 1, memory_order_acq_rel) == 1)
    free(mr);
}

/* A peer's thread may be in the middle of a copy; the memory is the caller's
 * again when we return. A process that died in there never counts itself out. */
static void shut_gate(struct pst_device *device, struct lb_gate *gate, uint64_t patience_ns)
{
  uint64_t began = device->host->clock_ns(device->host);
  atomic_store(&gate->open, 0);
  while (atomic_load(&gate->inside) != 0) {
    if (device->host->clock_ns(device->host) - began > patience_ns) {
      LB_LOG(device, PST_LOG_WARN,
             "a peer has not left memory that is deregistered; it died there, or is stopped");
      return;
    }
    sched_yield();
  }
}

void lb_mr_deregister(struct pst_device *device, struct pst_mr *handle)
{
  struct lb_mr *mr = lb_mr_of(handle);
  if (!mr)
    return;
  lb_registry_remove_mr(mr);
  shut_gate(device, &mr->gate, UINT64_MAX);
  if (mr->shared_gate) {
    shut_gate(device, mr->shared_gate, LEAVE_NS);
    munmap(mr->shared_gate, VALID_BYTES);
  }
  if (mr->valid_fd >= 0)
    close(mr->valid_fd);
  if (mr->region_fd >= 0)
    close(mr->region_fd);
  lb_mr_unref(mr);
}

static int make_gate(struct lb_mr *mr)
{
  int fd = memfd_create("penstock-loopback-mr", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0)
    return -errno;
  void *map = MAP_FAILED;
  if (ftruncate(fd, VALID_BYTES) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0)
    map = mmap(NULL, VALID_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) {
    int rc = -errno;
    close(fd);
    return rc;
  }
  mr->shared_gate = map;
  mr->valid_fd = fd;
  atomic_store(&mr->shared_gate->open, 1);
  return 0;
}

static int export_region(struct pst_device *device, struct lb_mr *mr)
{
  struct pst_export out = {.struct_size = sizeof(out)};
  int rc = device->host->region_export(device->host, &mr->region, PST_EXPORT_FD, mr->offset,
                                       mr->length, &out);
  if (rc != 0)
    return rc;
  mr->region_fd = out.fd;
  mr->region_fd_offset = out.offset;
  return 0;
}

int lb_mr_pack(struct pst_device *device, struct pst_mr *handle, struct pst_blob *blob)
{
  struct lb_mr *mr = lb_mr_of(handle);
  if (!(mr->access & REMOTE_ACCESS)) {
    LB_LOG(device, PST_LOG_ERROR,
           "a registration without remote access was to be offered to a peer");
    return -EACCES;
  }
  if (blob->capacity < sizeof(struct lb_remote_blob))
    return -ENOSPC;
  if (device->shared) {
    int rc = mr->shared_gate ? 0 : make_gate(mr);
    if (rc == 0 && mr->region_fd < 0)
      rc = export_region(device, mr);
    if (rc != 0)
      return rc;
  }
  struct lb_remote_blob out = {
      .magic = LB_REMOTE_MAGIC,
      .version = LB_VERSION,
      .access = mr->access & REMOTE_ACCESS,
      .id = mr->id,
      .offset = mr->region_fd_offset,
      .length = mr->length,
  };
  lb_process_nonce(out.nonce);
  memcpy(blob->bytes, &out, sizeof(out));
  blob->length = sizeof(out);
  blob->fd_count = 0;
  if (device->shared) {
    blob->fds[LB_FD_VALID] = mr->valid_fd;
    blob->fds[LB_FD_REGION] = mr->region_fd;
    blob->fd_count = 2;
  }
  return 0;
}

static int remote_map(struct pst_remote *remote, const struct lb_remote_blob *in,
                      const int32_t *fds, const char **why)
{
  uint64_t end, size;
  if (__builtin_add_overflow(in->offset, in->length, &end)) {
    *why = "its range makes no sense";
    return -EPROTO;
  }
  int rc = lb_fd_check(fds[LB_FD_VALID], VALID_BYTES, &size, why);
  if (rc == 0)
    rc = lb_fd_check(fds[LB_FD_REGION], end, &remote->region_map_bytes, why);
  if (rc != 0)
    return rc;
  void *map = mmap(NULL, VALID_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[LB_FD_VALID], 0);
  if (map == MAP_FAILED)
    return -errno;
  remote->valid_map = map;
  remote->gate = map;
  int prot = PROT_READ;
  if (in->access & (PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC))
    prot |= PROT_WRITE;
  map = mmap(NULL, remote->region_map_bytes, prot, MAP_SHARED, fds[LB_FD_REGION], 0);
  if (map == MAP_FAILED)
    return -errno;
  remote->region_map = map;
  remote->base = (uint8_t *)map + in->offset;
  remote->length = in->length;
  return 0;
}

static int remote_find(struct pst_remote *remote, uint64_t id, const char **why)
{
  remote->mr = lb_registry_find_mr(id);
  if (!remote->mr) {
    *why = "its registration has been withdrawn";
    return -EXDEV;
  }
  remote->base = remote->mr->base;
  remote->length = remote->mr->length;
  remote->gate = &remote->mr->gate;
  return 0;
}

int lb_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                   struct pst_remote **remote)
{
  struct pst_device *device = endpoint->worker->device;
  struct lb_remote_blob in;
  if (blob->length != sizeof(in))
    goto garbage;
  memcpy(&in, blob->bytes, sizeof(in));
  if (in.magic != LB_REMOTE_MAGIC || in.version != LB_VERSION || (in.access & ~REMOTE_ACCESS))
    goto garbage;
  if (!endpoint->peer || endpoint->close_mode)
    return -ENOTCONN;

  struct pst_remote *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->endpoint = endpoint;
  made->access = in.access;
  made->next = endpoint->remotes;
  endpoint->remotes = made;
  uint64_t nonce[2];
  lb_process_nonce(nonce);
  const char *why = "it came without its descriptors";
  int rc = -EXDEV;
  if (memcmp(nonce, in.nonce, sizeof(nonce)) == 0)
    rc = remote_find(made, in.id, &why);
  else if (blob->fd_count == 2)
    rc = remote_map(made, &in, blob->fds, &why);
  if (rc != 0) {
    LB_LOG(device, PST_LOG_ERROR, "%s: the peer's memory cannot be reached: %s", endpoint->label,
           why);
    lb_remote_close(endpoint, made);
    return rc;
  }
  *remote = made;
  return 0;

garbage:
  LB_LOG(device, PST_LOG_ERROR,
         "%s: what the peer sent is not a memory handle of loopback version %u; both ends need "
         "the same transport and version",
         endpoint->label, LB_VERSION);
  return -EPROTO;
}

void lb_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  struct pst_remote **at = &endpoint->remotes;
  if (!remote)
    return;
  while (*at && *at != remote)
    at = &(*at)->next;
  if (*at)
    *at = remote->next;
  if (remote->valid_map)
    munmap(remote->valid_map, VALID_BYTES);
  if (remote->region_map)
    munmap(remote->region_map, remote->region_map_bytes);
  lb_mr_unref(remote->mr);
  free(remote);
}
