/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inside.h"

/* dma-buf is exported by whole pages of the host's. */
static int export_dmabuf(struct pst_memory *memory, const struct cuda_block *block,
                         struct pst_export *made)
{
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t begin = block->address + made->offset, end = begin + made->length;
  uint64_t from = begin / page * page, to = cuda_round_up(end, page);
  int fd = -1;
  cuda_status status =
      memory->driver->MemGetHandleForAddressRange(&fd, from, to - from, CUDA_RANGE_DMABUF, 0);
  if (status != CUDA_SUCCESS) {
    cuda_error_log(memory,
                   "export: no dma-buf of %" PRIu64 " bytes: %s; it takes the open kernel modules "
                   "of NVIDIA's driver; nvidia-peermem is the other way",
                   to - from, cuda_status_text(memory->driver, status).text);
    return status == CUDA_NOT_SUPPORTED ? -EOPNOTSUPP : -EIO;
  }
  (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  made->fd = fd;
  made->offset = begin - from;
  made->base_address = from;
  made->base_length = to - from;
  return 0;
}

/* What the handle names is the whole allocation, which the driver may have cut from a
 * larger one of its own. */
static int export_ipc(struct pst_memory *memory, const struct cuda_block *block,
                      struct pst_export *made)
{
  struct cuda_ipc handle;
  cuda_pointer base = 0;
  size_t length = 0;
  cuda_status status = memory->driver->IpcGetMemHandle(&handle, block->base);
  if (status == CUDA_SUCCESS)
    status = memory->driver->MemGetAddressRange(&base, &length, block->base);
  if (status != CUDA_SUCCESS)
    return cuda_failed(memory, "export: cuIpcGetMemHandle", status);
  memcpy(made->handle, handle.reserved, sizeof(handle.reserved));
  made->handle_length = sizeof(handle.reserved);
  made->offset += block->address - base;
  made->base_address = base;
  made->base_length = length;
  return 0;
}

static int export_fd(struct pst_memory *memory, const struct cuda_block *block,
                     struct pst_export *made)
{
  made->fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 0);
  made->base_address = block->address;
  made->base_length = block->length;
  if (made->fd >= 0)
    return 0;
  int code = errno;
  cuda_error_log(memory, "export: cannot duplicate the region's descriptor: %s; raise ulimit -n",
                 strerror(code));
  return -code;
}

int cuda_export_region(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out)
{
  if (kind != PST_EXPORT_FD && kind != PST_EXPORT_DMABUF && kind != PST_EXPORT_IPC) {
    cuda_error_log(memory, "export: %" PRIu32 " is not a kind of export", kind);
    return -EINVAL;
  }
  if (region->memory != memory || !region->handle || length == 0 || offset > region->length ||
      length > region->length - offset || out->struct_size < CUDA_EXPORT_LEAST) {
    cuda_error_log(memory,
                   "export: %" PRIu64 " bytes from %" PRIu64 " are not in this region of %" PRIu64,
                   length, offset, region->length);
    return -EINVAL;
  }
  const struct cuda_block *block = region->handle;
  struct pst_export made = {.kind = kind, .fd = -1, .offset = offset, .length = length};
  if (!(block->exports & kind))
    return -EOPNOTSUPP;
  snprintf(made.device, sizeof(made.device), "%s", region->device);
  cuda_enter(memory);
  int code = kind == PST_EXPORT_FD       ? export_fd(memory, block, &made)
             : kind == PST_EXPORT_DMABUF ? export_dmabuf(memory, block, &made)
                                         : export_ipc(memory, block, &made);
  cuda_leave(memory);
  if (code == 0)
    pst_struct_write(out, &made, sizeof(made));
  return code;
}

static int check_import(const struct pst_memory *memory, const struct pst_export *from,
                        uint32_t region_size)
{
  if (from->kind != PST_EXPORT_IPC) {
    cuda_error_log(memory, "import: kind %" PRIu32 "; of CUDA memory only IPC handles (%d) are",
                   from->kind, PST_EXPORT_IPC);
    return -EOPNOTSUPP;
  }
  if (strncmp(from->device, memory->uuid, sizeof(from->device)) != 0) {
    cuda_error_log(memory, "import: refused: it is memory of %.47s, and this is %s",
                   from->device[0] ? from->device : "the host", memory->uuid);
    return -EXDEV;
  }
  if (from->handle_length != sizeof(struct cuda_ipc) || from->length == 0 ||
      from->offset > from->base_length || from->length > from->base_length - from->offset ||
      region_size < CUDA_REGION_LEAST) {
    cuda_error_log(memory,
                   "import: refused: %" PRIu64 " bytes from %" PRIu64 " of %" PRIu64
                   ", by a handle of %" PRIu32 " bytes",
                   from->length, from->offset, from->base_length, from->handle_length);
    return -EINVAL;
  }
  return 0;
}

int cuda_import_region(struct pst_memory *memory, const struct pst_export *caller,
                       struct pst_region *region)
{
  struct pst_export from;
  struct cuda_ipc handle;
  pst_struct_read(&from, sizeof(from), caller);
  int code = check_import(memory, &from, region->struct_size);
  if (code)
    return code;
  struct cuda_block *block = calloc(1, sizeof(*block));
  if (!block) {
    cuda_error_log(memory, "import: no memory for its description");
    return -ENOMEM;
  }
  *block = (struct cuda_block){.kind = CUDA_BLOCK_IPC,
                               .fd = -1,
                               .base_length = from.base_length,
                               .length = from.length,
                               .words = "imported by cuIpcOpenMemHandle"};
  memcpy(handle.reserved, from.handle, sizeof(handle.reserved));
  cuda_enter(memory);
  cuda_status status =
      memory->driver->IpcOpenMemHandle(&block->base, handle, CUDA_IPC_LAZY_PEER_ACCESS);
  if (status != CUDA_SUCCESS)
    code = cuda_failed(memory, "import: cuIpcOpenMemHandle", status);
  block->address = block->base + from.offset;
  if (code == 0) {
    code = cuda_range_add(memory, block->address, block->length, false, true);
    if (code)
      cuda_block_release(memory, block);
  }
  cuda_leave(memory);
  if (code) {
    free(block);
    return code;
  }
  cuda_region_fill(memory, block, PST_REGION_IMPORTED, region);
  return 0;
}
