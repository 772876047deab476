/* SPDX-License-Identifier: Apache-2.0 */
/* Exports a GPU's memory: dma-buf, IPC handle, descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include <penstock/page.h>

#include "device_memory.h"
#include "failure.h"

/* dma-buf is exported by whole pages of the host's. */
static int cuda_export_dmabuf(struct pst_memory *memory, const struct cuda_block *block,
                              struct pst_export *made)
{
  uint64_t page = pst_page_size();
  uint64_t begin = block->address + made->offset, end = begin + made->length;
  uint64_t from = begin / page * page, to = cuda_round_up(end, page);
  int fd = -1;
  cuda_status status =
      memory->driver->MemGetHandleForAddressRange(&fd, from, to - from, CUDA_RANGE_DMABUF, 0);
  if (status != CUDA_SUCCESS) {
    cuda_error_log(memory,
                   "export: no dma-buf of %" PRIu64
                   " bytes: %s; load the open kernel modules of NVIDIA's driver, or nvidia-peermem",
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

/* The driver opens no handle in the process that made it: there the block itself is found.
 * All exports of a block have the one handle that the block got when it was made. */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_block *list;

static void cuda_export_list_add(struct cuda_block *block, uint64_t base, uint64_t length)
{
  pthread_mutex_lock(&list_lock);
  block->ipc_base = base;
  block->ipc_length = length;
  if (!block->listed) {
    block->next = list;
    list = block;
    block->listed = true;
  }
  pthread_mutex_unlock(&list_lock);
}

const struct cuda_block *cuda_exported_find(const struct cuda_ipc *handle)
{
  pthread_mutex_lock(&list_lock);
  const struct cuda_block *found = list;
  while (found && memcmp(&found->ipc, handle, sizeof(*handle)) != 0)
    found = found->next;
  pthread_mutex_unlock(&list_lock);
  return found;
}

void cuda_exported_forget(struct cuda_block *block)
{
  pthread_mutex_lock(&list_lock);
  for (struct cuda_block **at = &list; block->listed && *at; at = &(*at)->next)
    if (*at == block) {
      *at = block->next;
      break;
    }
  block->listed = false;
  pthread_mutex_unlock(&list_lock);
}

/* Exports an allocation by IPC. The handle names the whole allocation, which the driver may have
 * cut from a larger one of its own. */
static int cuda_export_ipc(struct pst_memory *memory, struct cuda_block *block,
                           struct pst_export *made)
{
  cuda_pointer base = 0;
  size_t length = 0;
  cuda_status status = memory->driver->MemGetAddressRange(&base, &length, block->base);
  if (status != CUDA_SUCCESS)
    return cuda_failed(memory, "export: cuMemGetAddressRange", status);
  cuda_export_list_add(block, base, length);
  memcpy(made->handle, block->ipc.reserved, sizeof(made->handle));
  made->handle_length = sizeof(block->ipc.reserved);
  made->offset += block->address - base;
  made->base_address = base;
  made->base_length = length;
  return 0;
}

/* Without cuMemCreate's POSIX handle type it would be refused; then it is not announced. */
static int cuda_export_vendor_fd(struct pst_memory *memory, const struct cuda_block *block,
                                 struct pst_export *made)
{
  int fd = -1;
  if (block->fd >= 0) { /* imported: as it came */
    fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 3);
    int code = errno;
    if (fd < 0) {
      cuda_error_log(memory,
                     "export: cannot duplicate the region's descriptor: %s; raise ulimit -n",
                     strerror(code));
      return -code;
    }
  } else {
    cuda_status status =
        memory->driver->MemExportToShareableHandle(&fd, block->handle, CUDA_HANDLE_POSIX, 0);
    if (status != CUDA_SUCCESS)
      return cuda_failed(memory, "export: cuMemExportToShareableHandle", status);
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  made->fd = fd;
  made->offset += block->address - block->base;
  made->base_address = block->base;
  made->base_length = block->base_length;
  return 0;
}

int cuda_export_device(struct pst_memory *memory, struct cuda_block *block, struct pst_export *made)
{
  return made->kind == PST_EXPORT_DMABUF ? cuda_export_dmabuf(memory, block, made)
         : made->kind == PST_EXPORT_IPC  ? cuda_export_ipc(memory, block, made)
                                         : cuda_export_vendor_fd(memory, block, made);
}
