/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates host memory that the GPU maps. */
#include "mapped.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include <penstock/page.h>

#include "igpu_options.h"

/* The alignment is that of the GPU's address. Where the CPU's differs, the allocation has room to
 * align within. */
static int igpu_mapped_see_aligned(struct pst_memory *memory, uint64_t alignment,
                                   struct cuda_block *block)
{
  int code = cuda_block_see(memory, block);
  if (code)
    return code;
  cuda_pointer base = block->mapped - (block->address - block->base);
  block->mapped = cuda_round_up(base, alignment);
  block->address = block->base + (block->mapped - base);
  return 0;
}

static int igpu_mapped_take_host(struct pst_memory *memory, const struct pst_alloc_params *params,
                                 uint64_t alignment, struct cuda_block *block)
{
  unsigned int flags = memory->allocator == IGPU_WRITE_COMBINED ? CUDA_HOSTALLOC_WRITECOMBINED : 0;
  int code = cuda_block_host(memory, params, flags, block);
  return code ? code : igpu_mapped_see_aligned(memory, alignment, block);
}

/* Only cached memory has a descriptor, and begins where the memfd does. A descriptor is tried for,
 * not promised. */
int igpu_alloc_mapped(struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct cuda_block *block)
{
  uint64_t page = pst_page_size();
  uint64_t alignment = params->alignment < page ? page : params->alignment;
  if (memory->allocator == IGPU_WRITE_COMBINED || !(params->needs & PST_NEED_EXPORT_FD) ||
      !memory->has.host_register)
    return igpu_mapped_take_host(memory, params, alignment, block);
  int code = cuda_block_memfd(memory, params, block);
  if (code == 0)
    code = cuda_block_see(memory, block);
  if (code || block->mapped % alignment == 0)
    return code;
  cuda_block_release(memory, block);
  *block = (struct cuda_block){0};
  return igpu_mapped_take_host(memory, params, alignment, block);
}

int igpu_check_import(const struct pst_memory *memory, const struct pst_export *from)
{
  if (from->kind != PST_EXPORT_FD) {
    cuda_error_log(memory,
                   "import: kind %" PRIu32 " is refused: an IPC handle (%d) and cuMemCreate's "
                   "descriptor (%d) name memory of the GPU's own, in which no NIC of this machine "
                   "can write; give the other end memory igpu, whose descriptors are mapped (%d)",
                   from->kind, PST_EXPORT_IPC, PST_EXPORT_VENDOR_FD, PST_EXPORT_FD);
    return -EOPNOTSUPP;
  }
  if (from->device[0] == '\0' || strcmp(from->device, memory->uuid) == 0)
    return 0;
  cuda_error_log(memory,
                 "import: refused: it is memory that %s maps, and not %s; give both ends one GPU",
                 from->device, memory->uuid);
  return -EXDEV;
}
