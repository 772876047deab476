/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's memory of another process, or another GPU's of this one: mapped for this memory's
 * device. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "device.h"
#include "device_memory.h"
#include "failure.h"

/* Among those that this process sees. */
static bool cuda_import_find_device(const struct cuda_driver *driver, const char *uuid,
                                    cuda_device *device)
{
  int count = 0;
  if (driver->DeviceGetCount(&count) != CUDA_SUCCESS)
    count = 0;
  for (int i = 0; i < count; i++) {
    struct cuda_place place;
    if (driver->DeviceGet(device, i) == CUDA_SUCCESS &&
        cuda_place_read(driver, *device, &place) == CUDA_SUCCESS && strcmp(place.uuid, uuid) == 0)
      return true;
  }
  return false;
}

/* By UUID, since indices are each process's own. */
static int cuda_import_check_device(const struct pst_memory *memory, const char *where)
{
  cuda_device owner;
  int can = 0;
  if (strcmp(where, memory->uuid) == 0)
    return 0;
  if (!cuda_import_find_device(memory->driver, where, &owner)) {
    cuda_error_log(memory,
                   "import: refused: it is memory of %s, which this process does not see; "
                   "CUDA_VISIBLE_DEVICES has to show it here too",
                   where[0] ? where : "the host");
    return -EXDEV;
  }
  if (memory->driver->DeviceCanAccessPeer(&can, memory->device, owner) == CUDA_SUCCESS && can)
    return 0;
  cuda_error_log(memory,
                 "import: refused: it is memory of %s, to which %s has no access as a peer "
                 "(nvidia-smi topo -p2p rw); give both ends the same GPU, or two with NVLink",
                 where, memory->uuid);
  return -EXDEV;
}

/* ---- IPC handles --------------------------------------------------------------- */

static int cuda_import_refuse_handle(struct pst_memory *memory, uint64_t length, cuda_status status)
{
  bool gone = status == CUDA_INVALID_VALUE || status == CUDA_INVALID_HANDLE ||
              status == CUDA_INVALID_CONTEXT || status == CUDA_MAP_FAILED ||
              status == CUDA_NOT_FOUND;
  if (!gone)
    return cuda_refuse_device(memory, CUDA_ASKED("import", length), "cuIpcOpenMemHandle", status);
  cuda_error_log(memory,
                 "import: refused: the handle names no memory any more: cuIpcOpenMemHandle: %s; "
                 "its process has freed it, or has ended",
                 cuda_status_text(memory->driver, status).text);
  return -ESTALE;
}

/* The truth is the driver's: the sender may be mistaken about its own. */
static int cuda_import_open_handle(struct pst_memory *memory, const struct pst_export *from,
                                   const struct cuda_ipc *handle, struct cuda_block *block)
{
  const struct cuda_driver *driver = memory->driver;
  cuda_pointer base = 0;
  size_t length = 0;
  cuda_status status = driver->IpcOpenMemHandle(&block->base, *handle, CUDA_IPC_LAZY_PEER_ACCESS);
  if (status != CUDA_SUCCESS)
    return cuda_import_refuse_handle(memory, from->base_length, status);
  block->kind = CUDA_BLOCK_IPC;
  block->words = "imported by cuIpcOpenMemHandle";
  status = driver->MemGetAddressRange(&base, &length, block->base);
  int code =
      status == CUDA_SUCCESS ? 0 : cuda_failed(memory, "import: cuMemGetAddressRange", status);
  if (code == 0 && !cuda_export_holds(base + length - block->base, from))
    code = cuda_refuse_range(memory, from, base + length - block->base);
  if (code)
    driver->IpcCloseMemHandle(block->base);
  return code;
}

static int cuda_import_use_own(struct pst_memory *memory, const struct pst_export *from,
                               const struct cuda_block *own, struct cuda_block *block)
{
  if (!cuda_export_holds(own->ipc_length, from))
    return cuda_refuse_range(memory, from, own->ipc_length);
  if (own->context != memory->shared->context) {
    cuda_status status = memory->driver->CtxEnablePeerAccess(own->context, 0);
    if (status != CUDA_SUCCESS && status != CUDA_PEER_ACCESS_ENABLED)
      return cuda_failed(memory, "import: cuCtxEnablePeerAccess", status);
  }
  block->kind = CUDA_BLOCK_ALIAS;
  block->words = "cuMemAlloc, of this process";
  block->base = own->ipc_base;
  return 0;
}

static int cuda_import_ipc(struct pst_memory *memory, const struct pst_export *from,
                           struct cuda_block *block)
{
  struct cuda_ipc handle;
  memcpy(handle.reserved, from->handle, sizeof(handle.reserved));
  const struct cuda_block *own = cuda_exported_find(&handle);
  return own ? cuda_import_use_own(memory, from, own, block)
             : cuda_import_open_handle(memory, from, &handle, block);
}

/* ---- Descriptors ----------------------------------------------------------------- */

/* Imports and maps the handle, which block->fd is. 0, or -errno after a log. */
static int cuda_import_map_vendor_fd(struct pst_memory *memory, const struct pst_export *from,
                                     struct cuda_block *block)
{
  const struct cuda_driver *driver = memory->driver;
  cuda_status status = driver->MemImportFromShareableHandle(
      &block->handle, (void *)(intptr_t)block->fd, CUDA_HANDLE_POSIX);
  if (status != CUDA_SUCCESS)
    return cuda_failed(memory, "import: cuMemImportFromShareableHandle", status);
  block->kind = CUDA_BLOCK_VMM;
  block->words = "imported by cuMemImportFromShareableHandle";
  status = cuda_map_device(memory, 0, block);
  if (status == CUDA_SUCCESS)
    return 0;
  driver->MemRelease(block->handle);
  /* 580.159 says NOT_SUPPORTED of more bytes than there are. */
  return status == CUDA_INVALID_VALUE || status == CUDA_NOT_SUPPORTED
             ? cuda_refuse_range(memory, from, from->base_length)
             : cuda_refuse_device(memory, CUDA_ASKED("import", block->base_length), "cuMemMap",
                                  status);
}

/* Imports memory by a descriptor, which is kept, so that it can be exported again: the driver does
 * not say whether it exports memory that it has imported. */
static int cuda_import_vendor_fd(struct pst_memory *memory, const struct pst_export *from,
                                 struct cuda_block *block)
{
  if (!memory->has.vmm || from->fd < 0) {
    cuda_error_log(memory, "import: refused: %s",
                   from->fd < 0 ? "no descriptor came"
                                : "this GPU has no virtual memory management; allocator: malloc "
                                  "at the other end");
    return from->fd < 0 ? -EBADF : -EOPNOTSUPP;
  }
  block->fd = fcntl(from->fd, F_DUPFD_CLOEXEC, 3);
  if (block->fd < 0) {
    int code = errno;
    cuda_error_log(memory, "import: refused: its descriptor: %s", strerror(code));
    return -code;
  }
  block->exports = PST_EXPORT_VENDOR_FD;
  int code = cuda_import_map_vendor_fd(memory, from, block);
  if (code)
    close(block->fd);
  return code;
}

int cuda_check_import(const struct pst_memory *memory, const struct pst_export *from)
{
  if (from->kind != PST_EXPORT_IPC && from->kind != PST_EXPORT_VENDOR_FD &&
      from->kind != PST_EXPORT_FD) {
    cuda_error_log(memory,
                   "import: kind %" PRIu32
                   " is unknown; CUDA memory has IPC handles (%d) and descriptors of cuMemCreate "
                   "(%d), host memory has descriptors to map (%d)",
                   from->kind, PST_EXPORT_IPC, PST_EXPORT_VENDOR_FD, PST_EXPORT_FD);
    return -EOPNOTSUPP;
  }
  if (from->kind == PST_EXPORT_IPC && from->handle_length != sizeof(struct cuda_ipc)) {
    cuda_error_log(memory, "import: refused: the handle does not have the length of a CUDA handle");
    return -EINVAL;
  }
  if (from->kind != PST_EXPORT_FD)
    return cuda_import_check_device(memory, from->device);
  if (from->device[0] == '\0')
    return 0;
  cuda_error_log(
      memory, "import: refused: a descriptor to map must be of host memory, and this one is of %s",
      from->device);
  return -EXDEV;
}

int cuda_import_device(struct pst_memory *memory, const struct pst_export *from,
                       struct cuda_block *block)
{
  return from->kind == PST_EXPORT_IPC ? cuda_import_ipc(memory, from, block)
                                      : cuda_import_vendor_fd(memory, from, block);
}
