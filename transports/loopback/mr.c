/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations, and what a peer needs to reach them: remote.c. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "address.h"
#include "device.h"
#include "mr.h"
#include "registry.h"
#include "remote.h"

uint32_t lb_export_kind(const struct pst_region *region)
{
  return region->host                             ? region->exports & PST_EXPORT_FD
         : region->exports & PST_EXPORT_VENDOR_FD ? PST_EXPORT_VENDOR_FD
                                                  : region->exports & (uint32_t)PST_EXPORT_IPC;
}

const char *lb_via(const struct pst_region *region, uint32_t kind, const char *device)
{
  if (region->kind != PST_MEMORY_CUDA)
    return region->host ? "memcpy" : "device-copy";
  if (device && strcmp(device, region->device) != 0)
    return "cuda-peer";
  return kind == PST_EXPORT_VENDOR_FD ? "cuda-vmm"
         : kind == PST_EXPORT_IPC     ? "cuda-ipc"
                                      : "cuda-copy";
}

/* Returns how a region's bytes will be reached; NULL: not at all, *why says why. Bytes that the CPU
 * cannot touch are read and written by copies of their own memory plugin. */
static const char *lb_mr_register_via(const struct pst_device *device,
                                      const struct pst_region *region, uint32_t access,
                                      const char **why)
{
  bool one_sided =
      (access & (LB_REMOTE_ACCESS | PST_ACCESS_LOCAL_WRITE)) && !(access & PST_ACCESS_RING);
  bool by_cpu = device->mode == LB_MODE_COPY || (access & LB_REMOTE_ACCESS);
  if (region->host || !by_cpu)
    return by_cpu ? "memcpy" : "reference";
  *why = "the CPU cannot reach this memory, and loopback copies messages with the CPU";
  if (!one_sided)
    return NULL;
  *why = "the CPU cannot reach this memory, and its plugin copies nothing";
  if (!lb_copies_by(device, region))
    return NULL;
  uint32_t kind = device->shared ? lb_export_kind(region) : 0;
  *why = "this memory has neither a descriptor nor a handle for another process";
  if (device->shared && (access & LB_REMOTE_ACCESS) && !kind)
    return NULL;
  return lb_via(region, kind, NULL);
}

/* Registers memory for copies within this process and, where it can be exported, by peers. *in.path
 * says by what means, or why not. */
int lb_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                   struct pst_mr **mr)
{
  struct pst_mr_params in;
  LB_TAKE(in, params);
  struct pst_region region;
  LB_TAKE(region, in.region);
  int rc = pst_mr_params_check(device->host, &in, &region, NULL);
  if (rc != 0)
    return rc;
  const char *why = NULL, *via = lb_mr_register_via(device, &region, in.access, &why);
  if (!via) {
    pst_path_write(in.path, PST_PATH_NONE, "", "", why);
    return -EOPNOTSUPP;
  }
  struct lb_mr *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  atomic_init(&made->entry.refs, 1);
  atomic_init(&made->gate.open, 1);
  made->device = device;
  made->entry.id = lb_id_new();
  made->region = region;
  made->offset = in.offset;
  made->length = in.length;
  made->access = in.access;
  made->base = region.host ? (uint8_t *)region.host + in.offset : NULL;
  if (made->base)
    made->plain = (in.access & PST_ACCESS_LOCAL_READ ? 1u << PST_OP_WRITE : 0u) |
                  (in.access & PST_ACCESS_LOCAL_WRITE ? 1u << PST_OP_READ : 0u);
  made->valid_fd = -1;
  made->out = (struct pst_export){.struct_size = sizeof(made->out), .fd = -1};
  if (in.path) {
    struct pst_path_info path;
    LB_TAKE(path, in.path);
    snprintf(path.via, sizeof(path.via), "%s", via);
    LB_GIVE(in.path, path);
  }
  lb_registry_add(LB_ENTRY_MR, &made->entry);
  *mr = (struct pst_mr *)made;
  return 0;
}

void lb_mr_unref(struct lb_mr *mr)
{
  if (mr && lb_entry_unref(&mr->entry))
    free(mr);
}

/* A handle is closed before its memory is freed, where peers are there to do so. */
static void lb_mr_await_imports(struct pst_device *device, struct lb_gate *gate)
{
  if (atomic_load(&gate->imports) == 0)
    return;
  const uint64_t began = device->host->clock_ns(device->host);
  const uint64_t patience_ns = lb_wait_budget_left(device);
  uint64_t waited_ns = 0;
  while (atomic_load(&gate->imports) != 0 && waited_ns < patience_ns) {
    sched_yield();
    waited_ns = device->host->clock_ns(device->host) - began;
  }
  lb_wait_budget_spend(device, waited_ns);
}

void lb_mr_deregister(struct pst_device *device, struct pst_mr *handle)
{
  struct lb_mr *mr = lb_mr_of(handle);
  if (!mr)
    return;
  lb_registry_remove(LB_ENTRY_MR, &mr->entry);
  lb_gates_shut(mr);
  lb_guard_close(mr->guard);
  if (mr->shared_gate) {
    lb_mr_await_imports(device, &mr->shared_gate->gate);
    lb_map_close(&mr->gate_map);
  }
  lb_fd_close(mr->valid_fd);
  lb_fd_close(mr->out.fd);
  lb_mr_unref(mr);
}

static int lb_mr_make_gate(struct lb_mr *mr)
{
  mr->shared_gate =
      lb_memfd_open("penstock-loopback-mr", sizeof(*mr->shared_gate), &mr->gate_map, &mr->valid_fd);
  if (!mr->shared_gate)
    return -errno;
  atomic_store(&mr->shared_gate->gate.open, 1);
  return 0;
}

int lb_mr_share(struct lb_mr *mr)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* rings of several workers */
  const struct pst_host *host = mr->device->host;
  const uint32_t kind = lb_export_kind(&mr->region);
  struct pst_export out = {.struct_size = sizeof(out), .fd = -1};
  int rc = 0;
  pthread_mutex_lock(&lock);
  if (!mr->out.kind) {
    rc = host->region_export(host, &mr->region, kind ? kind : PST_EXPORT_FD, mr->offset, mr->length,
                             &out);
    if (rc == 0)
      mr->out = out;
  }
  if (rc == 0 && !mr->guard && mr->base && mr->length)
    rc = lb_guard_open(mr->base, mr->length, mr->region.page_size, &mr->guard);
  pthread_mutex_unlock(&lock);
  return rc;
}

/* Writes what a peer needs to open this memory. With `shared` it first makes the guard page and
 * shares the descriptors. */
int lb_mr_pack(struct pst_device *device, struct pst_mr *handle, struct pst_blob *blob)
{
  struct lb_mr *mr = lb_mr_of(handle);
  if (!(mr->access & LB_REMOTE_ACCESS))
    return PST_REFUSE(device->host, -EACCES,
                      "a registration without remote access was to be offered to a peer");
  if (device->shared) {
    int rc = mr->shared_gate ? 0 : lb_mr_make_gate(mr);
    if (rc == 0)
      rc = lb_mr_share(mr);
    if (rc != 0)
      return rc;
  }
  struct lb_remote_blob out = {
      .magic = LB_REMOTE_MAGIC,
      .version = LB_VERSION,
      .access = mr->access & LB_REMOTE_ACCESS,
      .id = mr->entry.id,
      .offset = mr->out.offset,
      .length = mr->length,
      .kind = mr->out.kind,
      .handle_length = mr->out.handle_length,
      .base_address = mr->out.base_address,
      .base_length = mr->out.base_length,
  };
  memcpy(out.device, mr->out.device, sizeof(out.device));
  memcpy(out.handle, mr->out.handle, sizeof(out.handle));
  lb_process_nonce(out.nonce);
  int rc = pst_blob_write(blob, &out, sizeof(out));
  if (rc == 0 && device->shared) {
    blob->fds[LB_FD_VALID] = mr->valid_fd;
    blob->fd_count = 1;
    if (mr->out.fd >= 0)
      blob->fds[blob->fd_count++] = mr->out.fd;
  }
  return rc;
}
