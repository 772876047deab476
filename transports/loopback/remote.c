/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's memory, opened: found in this process, mapped for the CPU, or imported by the
 * memory that will copy there. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "address.h"
#include "endpoint.h"
#include "registry.h"
#include "remote.h"

static const char no_device[] = "the CPU cannot touch it, so only the same kind of memory can "
                                "reach it; give both sides the same `memory`";

/* Returns the near memory of an endpoint's copies if the CPU cannot reach that memory; else
 * NULL. */
static const struct pst_region *lb_remote_near_device(const struct pst_endpoint *endpoint)
{
  return endpoint->near && !endpoint->near->base ? &endpoint->near->region : NULL;
}

static int lb_remote_map_gate(struct pst_remote *remote, const struct lb_remote_blob *in,
                              const int32_t *fds, const char **why)
{
  uint64_t end;
  void *at;
  if (__builtin_add_overflow(in->offset, in->length, &end)) {
    *why = "its range makes no sense";
    return -EPROTO;
  }
  int rc = lb_fd_check(fds[LB_FD_VALID], sizeof(struct lb_gate_page), why);
  if (rc != 0)
    return rc;
  rc = lb_map_open(fds[LB_FD_VALID], 0, sizeof(struct lb_gate_page), PROT_READ | PROT_WRITE,
                   &remote->gate_map, &at);
  if (rc != 0)
    return rc;
  struct lb_gate_page *page = at;
  remote->gate = &page->gate;
  lb_seat_take(remote, page);
  return 0;
}

static int lb_remote_map_file(struct pst_remote *remote, const struct lb_remote_blob *in, int fd)
{
  int prot = PROT_READ;
  if (in->access & (PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC))
    prot |= PROT_WRITE;
  void *at;
  int rc = lb_map_open(fd, in->offset, in->length, prot, &remote->region_map, &at);
  if (rc != 0)
    return rc;
  remote->base = at;
  remote->address = (uintptr_t)at;
  remote->endpoint->mapped += remote->region_map.bytes;
  return 0;
}

/* By the memory of `near`, whose copies will go there. */
static int lb_remote_import(struct pst_remote *remote, const struct pst_region *near,
                            const struct pst_export *from)
{
  const struct pst_host *host = remote->endpoint->worker->device->host;
  struct pst_region far = {.struct_size = sizeof(far)};
  int rc = host->region_import(host, near, from, &far);
  if (rc != 0)
    return rc;
  remote->far = far;
  remote->base = far.host;
  remote->address = far.address;
  remote->via = lb_via(&far, from->kind, near->device);
  return 0;
}

static struct pst_export lb_remote_export_of(const struct lb_remote_blob *in, int fd,
                                             uint64_t file_bytes)
{
  struct pst_export from = {
      .struct_size = sizeof(from),
      .kind = in->kind,
      .fd = fd,
      .handle_length = in->handle_length,
      .offset = in->offset,
      .length = in->length,
      .base_address = in->base_address,
      .base_length = file_bytes ? file_bytes : in->base_length,
  };
  memcpy(from.device, in->device, sizeof(from.device));
  memcpy(from.handle, in->handle, sizeof(from.handle));
  return from;
}

/* Host memory: for the CPU here, or pinned for the device that copies to it. */
static int lb_remote_open_file(struct pst_remote *remote, const struct lb_remote_blob *in, int fd,
                               const char **why)
{
  const struct pst_region *near = lb_remote_near_device(remote->endpoint);
  int rc = lb_fd_check(fd, in->offset + in->length, why);
  if (rc != 0)
    return rc;
  if (in->length > lb_mapped_max() - remote->endpoint->mapped) {
    *why = "with what it has offered before it is more than this machine's memory; let it offer "
           "less at a time";
    return -ENOMEM;
  }
  if (!near)
    return lb_remote_map_file(remote, in, fd);
  const struct pst_export from = lb_remote_export_of(in, fd, in->offset + in->length);
  rc = lb_remote_import(remote, near, &from);
  if (rc == -EOPNOTSUPP)
    rc = lb_remote_map_file(remote, in, fd);
  remote->via = lb_via(near, 0, NULL);
  return rc == 0 ? lb_copier_open(remote->endpoint, near, &remote->copier) : rc;
}

/* Memory that only its vendor's import maps. */
static int lb_remote_open_device(struct pst_remote *remote, const struct lb_remote_blob *in, int fd,
                                 const char **why)
{
  const struct pst_region *near = lb_remote_near_device(remote->endpoint);
  const struct pst_export from = lb_remote_export_of(in, fd, 0);
  if (!near) {
    *why = no_device;
    return -EXDEV;
  }
  if (in->kind == PST_EXPORT_IPC)
    atomic_fetch_add(&remote->gate->imports, 1);
  int rc = lb_remote_import(remote, near, &from);
  if (rc != 0 && in->kind == PST_EXPORT_IPC)
    atomic_fetch_sub(&remote->gate->imports, 1);
  remote->counted = rc == 0 && in->kind == PST_EXPORT_IPC;
  *why = rc == -EOPNOTSUPP ? "this side's memory cannot import what the other's exports; give both "
                             "the same `memory`"
                           : "its memory's import was refused";
  return rc == 0 ? lb_copier_open(remote->endpoint, near, &remote->copier) : rc;
}

static int lb_remote_open_shared(struct pst_remote *remote, const struct lb_remote_blob *in,
                                 const struct pst_blob *blob, const char **why)
{
  uint32_t fds = in->kind == PST_EXPORT_IPC ? 1 : 2;
  if (in->kind != PST_EXPORT_FD && in->kind != PST_EXPORT_IPC && in->kind != PST_EXPORT_VENDOR_FD) {
    *why = "it is not for other processes";
    return -EPROTO;
  }
  if (blob->fd_count != fds) {
    *why = "it came without its descriptors";
    return -EXDEV;
  }
  int rc = lb_remote_map_gate(remote, in, blob->fds, why);
  if (rc != 0)
    return rc;
  remote->length = in->length;
  int fd = fds == 2 ? blob->fds[LB_FD_REGION] : -1;
  return in->kind == PST_EXPORT_FD ? lb_remote_open_file(remote, in, fd, why)
                                   : lb_remote_open_device(remote, in, fd, why);
}

/* Another memory's of this process, of another GPU perhaps: what it exports, ours imports. */
static int lb_remote_import_own(struct pst_remote *remote, const struct pst_region *near,
                                const char **why)
{
  const struct pst_host *host = remote->endpoint->worker->device->host;
  const struct lb_mr *mr = remote->mr;
  struct pst_export out = {.struct_size = sizeof(out), .fd = -1};
  uint32_t kind = lb_export_kind(&mr->region);
  *why = "neither of the two memories can reach the other";
  if (!lb_gate_enter(remote->gate))
    return -EXDEV;
  int rc = host->region_export(host, &mr->region, kind ? kind : PST_EXPORT_IPC, mr->offset,
                               mr->length, &out);
  if (rc == 0)
    rc = lb_remote_import(remote, near, &out);
  if (rc == 0) /* no other process has a part in it */
    remote->via = lb_via(&remote->far, 0, near->device);
  atomic_fetch_sub(&remote->gate->inside, 1);
  if (out.fd >= 0)
    close(out.fd);
  return rc;
}

/* Opens memory of this process by its number, if the peer may have it. *why says what forbids
 * it. */
static int lb_remote_open_own(struct pst_remote *remote, uint64_t id, const char **why)
{
  const struct pst_region *near = lb_remote_near_device(remote->endpoint);
  remote->mr = lb_registry_find(LB_ENTRY_MR, id);
  if (!remote->mr) {
    *why = "its registration has been withdrawn";
    return -EXDEV;
  }
  const struct lb_mr *mr = remote->mr;
  /* A peer elsewhere has nothing here, whatever number it has guessed or overheard; and nobody
   * has more than was registered for others. */
  if (!remote->endpoint->peer->in_process || (remote->access & ~mr->access)) {
    *why = "it names memory of this process that is not the peer's to offer";
    return -EACCES;
  }
  remote->base = mr->base;
  remote->address = mr->region.address + mr->offset;
  remote->length = mr->length;
  remote->gate = &remote->mr->gate;
  lb_seat_take(remote, NULL);
  if (mr->base && !near)
    return 0;
  /* Other devices of this process may close their memory before us: treat it as another process's.
   */
  const struct pst_device *device = remote->endpoint->worker->device;
  if (!near && device->shared && mr->device != device) {
    *why = no_device;
    return -EXDEV;
  }
  const struct pst_region *copies = near ? near : &mr->region;
  int rc = 0;
  remote->via = lb_via(copies, 0, NULL);
  if (near && !mr->base && near->memory != mr->region.memory)
    rc = lb_remote_import_own(remote, near, why);
  return rc == 0 ? lb_copier_open(remote->endpoint, copies, &remote->copier) : rc;
}

/* Opens memory that a peer offers, of this process or another one. A blob that is not of this
 * version is -EPROTO. */
int lb_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                   struct pst_remote **remote)
{
  struct pst_device *device = endpoint->worker->device;
  struct lb_remote_blob in;
  if (blob->length != sizeof(in))
    goto garbage;
  memcpy(&in, blob->bytes, sizeof(in));
  if (in.magic != LB_REMOTE_MAGIC || in.version != LB_VERSION || (in.access & ~LB_REMOTE_ACCESS))
    goto garbage;
  if (!endpoint->peer || endpoint->closing.mode)
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
  const char *why = "the memory for it";
  int rc = memcmp(nonce, in.nonce, sizeof(nonce)) == 0
               ? lb_remote_open_own(made, in.id, &why)
               : lb_remote_open_shared(made, &in, blob, &why);
  if (rc != 0) {
    LB_LOG(device, PST_LOG_ERROR, "%s: the peer's memory cannot be reached: %s (%s)",
           endpoint->label, why, strerror(-rc));
    lb_remote_close(endpoint, made);
    return rc;
  }
  if (made->base && (endpoint->roles & PST_ROLE_RMA))
    made->plain = (made->access & PST_ACCESS_REMOTE_WRITE ? 1u << PST_OP_WRITE : 0u) |
                  (made->access & PST_ACCESS_REMOTE_READ ? 1u << PST_OP_READ : 0u);
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
  const struct pst_host *host = endpoint->worker->device->host;
  struct pst_remote **at = &endpoint->remotes;
  if (!remote)
    return;
  while (*at && *at != remote)
    at = &(*at)->next;
  if (*at)
    *at = remote->next;
  if (remote->far.memory)
    host->region_release(host, &remote->far);
  if (remote->counted)
    atomic_fetch_sub(&remote->gate->imports, 1);
  lb_seat_leave(remote);
  endpoint->mapped -= remote->region_map.bytes;
  lb_map_close(&remote->gate_map);
  lb_map_close(&remote->region_map);
  lb_mr_unref(remote->mr);
  free(remote);
}
