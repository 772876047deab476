/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <penstock/page.h>

#include "block.h"
#include "context.h"
#include "failure.h"
#include "ops.h"
#include "ranges.h"

void cuda_region_fill(struct pst_memory *memory, struct cuda_block *block,
                      struct pst_region *region)
{
  bool host = block->kind == CUDA_BLOCK_HOST || block->kind == CUDA_BLOCK_MEMFD ||
              block->kind == CUDA_BLOCK_FILE;
  struct pst_region made = {
      .kind = host ? PST_MEMORY_HOST : PST_MEMORY_CUDA,
      .address = block->address,
      .host = host ? (void *)(uintptr_t)block->address : NULL,
      .length = block->length,
      .page_size = host ? pst_page_size() : CUDA_PAGE,
      .exports = block->exports,
      .flags = PST_REGION_PINNED,
      .memory = memory,
      .handle = block,
  };
  snprintf(made.device, sizeof(made.device), "%s",
           host               ? ""
           : block->device[0] ? block->device
                              : memory->uuid);
  snprintf(made.backing, sizeof(made.backing), "%s", block->words);
  pst_struct_write(region, &made, sizeof(made));
}

/* A NIC reaches the GPU through a window that may be smaller than the GPU's memory: 256 MiB
 * on many boards. The driver would give the memory, and refuse the registration later. */
static int check_window(const struct pst_memory *memory, const struct pst_alloc_params *params)
{
  struct cuda_window window;
  if (params->purpose != PST_ALLOC_NORMAL || !(params->needs & PST_NEED_EXPORT_DMABUF) ||
      !cuda_window_read(memory, &window) || params->length <= window.free)
    return 0;
  cuda_error_log(memory,
                 "%s: cannot get %.1f MiB of %s for a NIC: of its BAR1, through which one writes, "
                 "%.1f of %.1f MiB are free: %s, end what else is "
                 "registered there (nvidia-smi -q -d MEMORY), let the firmware map all of the "
                 "GPU (Above 4G Decoding, Resizable BAR), or stage (`path: staged`)",
                 params->label, (double)params->length / 1048576.0, memory->name,
                 (double)window.free / 1048576.0, (double)window.total / 1048576.0,
                 cuda_lower_text(params).text);
  return -ENOMEM;
}

static int take_block(struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct cuda_block *block)
{
  if (params->purpose == PST_ALLOC_STAGING)
    return (params->needs & PST_NEED_EXPORT_FD ? cuda_block_memfd : cuda_block_host)(memory, params,
                                                                                     block);
  return (memory->allocator == CUDA_ALLOCATOR_VMM ? cuda_block_vmm
                                                  : cuda_block_malloc)(memory, params, block);
}

int cuda_alloc(struct pst_memory *memory, const struct pst_alloc_params *caller,
               struct pst_region *region)
{
  struct pst_alloc_params params;
  int code = pst_alloc_params_take(memory->host, caller, region, &params);
  if (code == 0)
    code = check_window(memory, &params);
  if (code)
    return code;
  struct cuda_block *block = calloc(1, sizeof(*block));
  if (!block || params.length >= CUDA_LENGTH_MAX || params.alignment >= CUDA_LENGTH_MAX) {
    cuda_error_log(memory, "%s: cannot get %.1f MiB: more than any machine has; ask for less",
                   params.label, (double)params.length / 1048576.0);
    free(block);
    return -ENOMEM;
  }
  cuda_enter(memory);
  code = take_block(memory, &params, block);
  if (code == 0)
    code = cuda_range_add(memory, block->address, block->length, false,
                          block->kind != CUDA_BLOCK_MEMFD || memory->has.same_host_pointer);
  if (code && block->length)
    cuda_block_release(memory, block);
  cuda_leave(memory);
  if (code) {
    free(block);
    return code;
  }
  cuda_region_fill(memory, block, region);
  return 0;
}

void cuda_free_region(struct pst_memory *memory, struct pst_region *region)
{
  if (!region || !region->handle)
    return;
  struct cuda_block *block = region->handle;
  cuda_range_remove(memory, block->address, block->length);
  cuda_enter(memory);
  cuda_block_release(memory, block);
  cuda_leave(memory);
  free(block);
  region->handle = NULL;
}
