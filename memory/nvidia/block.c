/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the driver has pinned. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/page.h>

#include "block.h"
#include "failure.h"
#include "plugin.h"

/* flags: besides PORTABLE and DEVICEMAP. */
int cuda_block_host(struct pst_memory *memory, const struct pst_alloc_params *params,
                    unsigned int flags, struct cuda_block *block)
{
  struct cuda_block made = {.kind = CUDA_BLOCK_HOST,
                            .fd = -1,
                            .words = flags & CUDA_HOSTALLOC_WRITECOMBINED
                                         ? "cuMemHostAlloc, write-combined"
                                         : "cuMemHostAlloc"};
  uint64_t page = pst_page_size();
  /* The driver cuts small ones from a page of its own. */
  uint64_t alignment = params->alignment < page ? page : params->alignment;
  void *at = NULL;
  made.length = cuda_round_up(params->length, page);
  made.base_length = made.length + alignment;
  cuda_status status = memory->driver->MemHostAlloc(
      &at, made.base_length, CUDA_HOSTALLOC_PORTABLE | CUDA_HOSTALLOC_DEVICEMAP | flags);
  if (status != CUDA_SUCCESS)
    return cuda_refuse_pinned(memory, params, "cuMemHostAlloc", status);
  made.base = (uintptr_t)at;
  made.address = cuda_round_up(made.base, alignment);
  *block = made;
  return 0;
}

/* Sealed in size, so that no holder of the descriptor can cut the memory away. */
static int cuda_block_open_memfd(struct cuda_block *made, const char *label)
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
static int cuda_block_map_memfd(struct cuda_block *made, uint64_t alignment)
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

/* Allocates host memory that another process can map, and registers it with CUDA. 0, or -errno
 * after a log. */
int cuda_block_memfd(struct pst_memory *memory, const struct pst_alloc_params *params,
                     struct cuda_block *block)
{
  struct cuda_block made = {
      .kind = CUDA_BLOCK_MEMFD, .exports = PST_EXPORT_FD, .words = "memfd, cuMemHostRegister"};
  uint64_t page = pst_page_size();
  uint64_t alignment = params->alignment < page ? page : params->alignment;
  made.length = cuda_round_up(params->length, page);
  made.base_length = made.length + alignment;
  int code = cuda_block_open_memfd(&made, params->label);
  if (code)
    return cuda_refuse_host(memory, params, "memfd_create", strerror(-code));
  code = cuda_block_map_memfd(&made, alignment);
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
      return cuda_block_host(memory, params, 0, block);
    return cuda_refuse_pinned(memory, params, "cuMemHostRegister", status);
  }
  *block = made;
  return 0;
}

int cuda_block_see(struct pst_memory *memory, struct cuda_block *block)
{
  cuda_status status =
      memory->driver->MemHostGetDevicePointer(&block->mapped, (void *)(uintptr_t)block->address, 0);
  return status == CUDA_SUCCESS ? 0 : cuda_failed(memory, "cuMemHostGetDevicePointer", status);
}

void cuda_block_release(struct pst_memory *memory, struct cuda_block *block)
{
  const struct cuda_driver *driver = memory->driver;
  switch (block->kind) {
  case CUDA_BLOCK_HOST:
    driver->MemFreeHost((void *)(uintptr_t)block->base);
    break;
  case CUDA_BLOCK_MEMFD:
    driver->MemHostUnregister((void *)(uintptr_t)block->address);
    munmap((void *)(uintptr_t)block->base, block->base_length);
    close(block->fd);
    break;
  case CUDA_BLOCK_FILE:
    driver->MemHostUnregister((void *)(uintptr_t)block->handle);
    munmap((void *)(uintptr_t)block->base, block->base_length);
    break;
  default:
    cuda_plugin.release(memory, block);
    break;
  }
}
