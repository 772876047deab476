/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/page.h>

#include "block.h"
#include "failure.h"

/* Pages that a NIC or another process can be given, with nobody else's bytes in them. */
static uint64_t page_up(uint64_t value)
{
  return cuda_round_up(value, CUDA_PAGE);
}

/* Else a synchronous copy may return before its bytes are where a NIC reads them. */
static void sync_memops(struct pst_memory *memory, uint64_t address)
{
  unsigned int on = 1;
  cuda_status status = memory->driver->PointerSetAttribute(&on, CUDA_POINTER_SYNC_MEMOPS, address);
  if (status != CUDA_SUCCESS)
    cuda_log(memory, PST_LOG_DEBUG, "SYNC_MEMOPS is not available: %s",
             cuda_status_text(memory->driver, status).text);
}

/* Containers and MIG may forbid it. */
static bool can_ipc(const struct pst_memory *memory, struct cuda_block *made)
{
  made->context = memory->shared->context;
  return memory->driver->IpcGetMemHandle(&made->ipc, made->base) == CUDA_SUCCESS;
}

int cuda_block_malloc(struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct cuda_block *block)
{
  struct cuda_block made = {.kind = CUDA_BLOCK_MALLOC, .fd = -1, .words = "cuMemAlloc"};
  uint64_t alignment = params->alignment < CUDA_PAGE ? CUDA_PAGE : params->alignment;
  made.length = page_up(params->length);
  made.base_length = made.length + alignment;
  cuda_status status = memory->driver->MemAlloc(&made.base, made.base_length);
  if (status != CUDA_SUCCESS)
    return cuda_refuse_device(memory, params, "cuMemAlloc", status);
  made.address = cuda_round_up(made.base, alignment);
  made.exports = (can_ipc(memory, &made) ? PST_EXPORT_IPC : 0u) |
                 (memory->has.dmabuf ? PST_EXPORT_DMABUF : 0u);
  sync_memops(memory, made.base);
  *block = made;
  return 0;
}

static struct cuda_allocation allocation_of(const struct pst_memory *memory)
{
  return (struct cuda_allocation){
      .type = CUDA_ALLOCATION_PINNED,
      .handle_types = memory->has.posix_handles ? CUDA_HANDLE_POSIX : 0,
      .location = {CUDA_LOCATION_DEVICE, memory->device},
      .rdma_capable = memory->has.rdma_with_vmm,
  };
}

cuda_status cuda_block_map(struct pst_memory *memory, uint64_t alignment, struct cuda_block *made)
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

int cuda_block_vmm(struct pst_memory *memory, const struct pst_alloc_params *params,
                   struct cuda_block *block)
{
  const struct cuda_allocation properties = allocation_of(memory);
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
  status = cuda_block_map(memory, params->alignment > granularity ? params->alignment : 0, &made);
  if (status != CUDA_SUCCESS) {
    memory->driver->MemRelease(made.handle);
    return cuda_refuse_device(memory, params, "cuMemMap", status);
  }
  made.address = made.base;
  made.length = made.base_length;
  made.exports = (memory->has.dmabuf && properties.rdma_capable ? PST_EXPORT_DMABUF : 0u) |
                 (properties.handle_types ? PST_EXPORT_VENDOR_FD : 0u);
  sync_memops(memory, made.base);
  *block = made;
  return 0;
}

int cuda_block_host(struct pst_memory *memory, const struct pst_alloc_params *params,
                    struct cuda_block *block)
{
  struct cuda_block made = {.kind = CUDA_BLOCK_HOST, .fd = -1, .words = "cuMemHostAlloc"};
  uint64_t page = pst_page_size();
  /* The driver cuts small ones from a page of its own. */
  uint64_t alignment = params->alignment < page ? page : params->alignment;
  void *at = NULL;
  made.length = cuda_round_up(params->length, page);
  made.base_length = made.length + alignment;
  cuda_status status = memory->driver->MemHostAlloc(
      &at, made.base_length, CUDA_HOSTALLOC_PORTABLE | CUDA_HOSTALLOC_DEVICEMAP);
  if (status != CUDA_SUCCESS)
    return cuda_refuse_pinned(memory, params, "cuMemHostAlloc", status);
  made.base = (uintptr_t)at;
  made.address = cuda_round_up(made.base, alignment);
  *block = made;
  return 0;
}

/* Sealed in size, so that no holder of the descriptor can cut the memory away. */
static int open_memfd(struct cuda_block *made, const char *label)
{
  char name[64];
  snprintf(name, sizeof(name), "penstock:%s", label);
  made->fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (made->fd < 0)
    return -errno;
  if (ftruncate(made->fd, (off_t)made->length) != 0 ||
      fcntl(made->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    int code = -errno;
    close(made->fd);
    return code;
  }
  return 0;
}

/* The reserve is kept around it, so that an alignment costs no more than addresses. */
static int map_memfd(struct cuda_block *made, uint64_t alignment)
{
  void *at =
      mmap(NULL, made->base_length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED)
    return -errno;
  made->base = (uintptr_t)at;
  made->address = cuda_round_up(made->base, alignment);
  at = mmap((void *)(uintptr_t)made->address, made->length, PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_FIXED | MAP_POPULATE, made->fd, 0);
  if (at != MAP_FAILED)
    return 0;
  int code = -errno;
  munmap((void *)(uintptr_t)made->base, made->base_length);
  return code;
}

int cuda_block_memfd(struct pst_memory *memory, const struct pst_alloc_params *params,
                     struct cuda_block *block)
{
  struct cuda_block made = {
      .kind = CUDA_BLOCK_MEMFD, .exports = PST_EXPORT_FD, .words = "memfd, cuMemHostRegister"};
  uint64_t page = pst_page_size();
  uint64_t alignment = params->alignment < page ? page : params->alignment;
  made.length = cuda_round_up(params->length, page);
  made.base_length = made.length + alignment;
  int code = open_memfd(&made, params->label);
  if (code)
    return cuda_refuse_host(memory, params, "memfd_create", strerror(-code));
  code = map_memfd(&made, alignment);
  if (code) {
    close(made.fd);
    return cuda_refuse_host(memory, params, "mmap", strerror(-code));
  }
  cuda_status status =
      memory->driver->MemHostRegister((void *)(uintptr_t)made.address, made.length,
                                      CUDA_REGISTER_PORTABLE | CUDA_REGISTER_DEVICEMAP);
  if (status != CUDA_SUCCESS) {
    munmap((void *)(uintptr_t)made.base, made.base_length);
    close(made.fd);
    if (status == CUDA_NOT_SUPPORTED) /* a descriptor is wanted, not promised */
      return cuda_block_host(memory, params, block);
    return cuda_refuse_pinned(memory, params, "cuMemHostRegister", status);
  }
  *block = made;
  return 0;
}

void cuda_block_release(struct pst_memory *memory, struct cuda_block *block)
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
    break;
  case CUDA_BLOCK_HOST:
    driver->MemFreeHost((void *)(uintptr_t)block->base);
    break;
  case CUDA_BLOCK_MEMFD:
    driver->MemHostUnregister((void *)(uintptr_t)block->address);
    munmap((void *)(uintptr_t)block->base, block->base_length);
    close(block->fd);
    break;
  case CUDA_BLOCK_IPC:
    driver->IpcCloseMemHandle(block->base);
    break;
  case CUDA_BLOCK_ALIAS:
    break;
  case CUDA_BLOCK_FILE:
    driver->MemHostUnregister((void *)(uintptr_t)block->handle);
    munmap((void *)(uintptr_t)block->base, block->base_length);
    break;
  }
}
