/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's own memory: cuMemAlloc's and cuMemCreate's. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "device_memory.h"
#include "failure.h"

/* Rounds up to the pages that a NIC or another process can map, with nobody else's bytes in them.
 */
static uint64_t cuda_device_page_up(uint64_t value)
{
  return cuda_round_up(value, CUDA_PAGE);
}

/* Else a synchronous copy may return before its bytes are where a NIC reads them. */
static void cuda_device_sync_memops(struct pst_memory *memory, uint64_t address)
{
  unsigned int on = 1;
  cuda_status status = memory->driver->PointerSetAttribute(&on, CUDA_POINTER_SYNC_MEMOPS, address);
  if (status != CUDA_SUCCESS)
    cuda_log(memory, PST_LOG_DEBUG, "SYNC_MEMOPS is not available: %s",
             cuda_status_text(memory->driver, status).text);
}

/* Containers and MIG may forbid it. */
static bool cuda_device_can_ipc(const struct pst_memory *memory, struct cuda_block *made)
{
  made->context = memory->shared->context;
  return memory->driver->IpcGetMemHandle(&made->ipc, made->base) == CUDA_SUCCESS;
}

static int cuda_device_block_malloc(struct pst_memory *memory,
                                    const struct pst_alloc_params *params, struct cuda_block *block)
{
  struct cuda_block made = {.kind = CUDA_BLOCK_MALLOC, .fd = -1, .words = "cuMemAlloc"};
  uint64_t alignment = params->alignment < CUDA_PAGE ? CUDA_PAGE : params->alignment;
  made.length = cuda_device_page_up(params->length);
  made.base_length = made.length + alignment;
  cuda_status status = memory->driver->MemAlloc(&made.base, made.base_length);
  if (status != CUDA_SUCCESS)
    return cuda_refuse_device(memory, params, "cuMemAlloc", status);
  made.address = cuda_round_up(made.base, alignment);
  made.exports = (cuda_device_can_ipc(memory, &made) ? PST_EXPORT_IPC : 0u) |
                 (memory->has.dmabuf ? PST_EXPORT_DMABUF : 0u);
  cuda_device_sync_memops(memory, made.base);
  *block = made;
  return 0;
}

static struct cuda_allocation cuda_device_allocation_of(const struct pst_memory *memory)
{
  return (struct cuda_allocation){
      .type = CUDA_ALLOCATION_PINNED,
      .handle_types = memory->has.posix_handles ? CUDA_HANDLE_POSIX : 0,
      .location = {CUDA_LOCATION_DEVICE, memory->device},
      .rdma_capable = memory->has.rdma_with_vmm,
  };
}

cuda_status cuda_map_device(struct pst_memory *memory, uint64_t alignment, struct cuda_block *made)
{
  const struct cuda_driver *driver = memory->driver;
  const struct cuda_access access = {{CUDA_LOCATION_DEVICE, memory->device}, CUDA_ACCESS_READWRITE};
  cuda_status status = driver->MemAddressReserve(&made->base, made->base_length, alignment, 0, 0);
  if (status != CUDA_SUCCESS)
    return status;
  status = driver->MemMap(made->base, made->base_length, 0, made->handle, 0);
  if (status == CUDA_SUCCESS) {
    status = driver->MemSetAccess(made->base, made->base_length, &access, 1);
    if (status == CUDA_SUCCESS)
      return status;
    driver->MemUnmap(made->base, made->base_length);
  }
  driver->MemAddressFree(made->base, made->base_length);
  return status;
}

/* Allocates by cuMemCreate and maps it, so that dma-buf and peers can reach it. 0, or -errno after
 * a log. */
static int cuda_device_block_vmm(struct pst_memory *memory, const struct pst_alloc_params *params,
                                 struct cuda_block *block)
{
  const struct cuda_allocation properties = cuda_device_allocation_of(memory);
  struct cuda_block made = {.kind = CUDA_BLOCK_VMM,
                            .fd = -1,
                            .words =
                                properties.rdma_capable ? "cuMemCreate, for RDMA" : "cuMemCreate"};
  size_t granularity = 0;
  cuda_status status = memory->driver->MemGetAllocationGranularity(&granularity, &properties,
                                                                   CUDA_GRANULARITY_RECOMMENDED);
  if (status != CUDA_SUCCESS)
    return cuda_refuse_device(memory, params, "cuMemGetAllocationGranularity", status);
  made.base_length = cuda_round_up(params->length, granularity);
  status = memory->driver->MemCreate(&made.handle, made.base_length, &properties, 0);
  if (status != CUDA_SUCCESS)
    return cuda_refuse_device(memory, params, "cuMemCreate", status);
  status = cuda_map_device(memory, params->alignment > granularity ? params->alignment : 0, &made);
  if (status != CUDA_SUCCESS) {
    memory->driver->MemRelease(made.handle);
    return cuda_refuse_device(memory, params, "cuMemMap", status);
  }
  made.address = made.base;
  made.length = made.base_length;
  made.exports = (memory->has.dmabuf && properties.rdma_capable ? PST_EXPORT_DMABUF : 0u) |
                 (properties.handle_types ? PST_EXPORT_VENDOR_FD : 0u);
  cuda_device_sync_memops(memory, made.base);
  *block = made;
  return 0;
}

/* A NIC reaches the GPU through a window that may be smaller than the GPU's memory: 256 MiB
 * on many boards. The driver would give the memory, and refuse the registration later. */
static int cuda_device_check_window(const struct pst_memory *memory,
                                    const struct pst_alloc_params *params)
{
  struct cuda_window window;
  if (params->purpose != PST_ALLOC_NORMAL || !(params->needs & PST_NEED_EXPORT_DMABUF) ||
      !cuda_window_read(memory, &window) || params->length <= window.free)
    return 0;
  cuda_error_log(memory,
                 "%s: cannot get %.1f MiB of %s for a NIC: of its BAR1, through which NICs write, "
                 "%.1f of %.1f MiB are free: %s, end what else is "
                 "registered there (nvidia-smi -q -d MEMORY), let the firmware map all of the "
                 "GPU (Above 4G Decoding, Resizable BAR), or stage (`path: staged`)",
                 params->label, (double)params->length / 1048576.0, memory->name,
                 (double)window.free / 1048576.0, (double)window.total / 1048576.0,
                 cuda_lower_text(params).text);
  return -ENOMEM;
}

int cuda_alloc_device(struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct cuda_block *block)
{
  int code = cuda_device_check_window(memory, params);
  if (code)
    return code;
  return (memory->allocator == CUDA_ALLOCATOR_VMM
              ? cuda_device_block_vmm
              : cuda_device_block_malloc)(memory, params, block);
}

void cuda_release_device(struct pst_memory *memory, struct cuda_block *block)
{
  const struct cuda_driver *driver = memory->driver;
  switch (block->kind) {
  case CUDA_BLOCK_MALLOC:
    cuda_exported_forget(block);
    driver->MemFree(block->base);
    break;
  case CUDA_BLOCK_VMM:
    driver->MemUnmap(block->base, block->base_length);
    driver->MemAddressFree(block->base, block->base_length);
    driver->MemRelease(block->handle);
    if (block->fd >= 0)
      close(block->fd);
    break;
  case CUDA_BLOCK_IPC:
    driver->IpcCloseMemHandle(block->base);
    break;
  default: /* another memory's: the block has nothing of its own */
    break;
  }
}
