/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates regions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <penstock/page.h>

#include "block.h"
#include "context.h"
#include "failure.h"
#include "ops.h"
#include "plugin.h"
#include "va_range.h"

void cuda_region_fill(struct pst_memory *memory, struct cuda_block *block,
                      struct pst_region *region)
{
  bool host = block->kind == CUDA_BLOCK_HOST || block->kind == CUDA_BLOCK_MEMFD ||
              block->kind == CUDA_BLOCK_FILE;
  struct pst_region made = {
      .kind = block->mapped ? PST_MEMORY_MAPPED
              : host        ? PST_MEMORY_HOST
                            : PST_MEMORY_CUDA,
      .address = block->mapped ? block->mapped : block->address,
      .host = host ? (void *)(uintptr_t)block->address : NULL,
      .length = block->length,
      .page_size = host ? pst_page_size() : CUDA_PAGE,
      .exports = block->exports,
      .flags = PST_REGION_PINNED,
      .memory = memory,
      .handle = block,
  };
  const char *device = host && !block->mapped ? "" : memory->uuid;
  snprintf(made.device, sizeof(made.device), "%s", block->device[0] ? block->device : device);
  snprintf(made.backing, sizeof(made.backing), "%s", block->words);
  pst_struct_write(region, &made, sizeof(made));
}

static int cuda_alloc_take_block(struct pst_memory *memory, const struct pst_alloc_params *params,
                                 struct cuda_block *block)
{
  if (params->purpose != PST_ALLOC_STAGING)
    return cuda_plugin.alloc(memory, params, block);
  return params->needs & PST_NEED_EXPORT_FD ? cuda_block_memfd(memory, params, block)
                                            : cuda_block_host(memory, params, 0, block);
}

int cuda_block_note(struct pst_memory *memory, const struct cuda_block *block)
{
  bool is_registered = block->kind == CUDA_BLOCK_MEMFD || block->kind == CUDA_BLOCK_FILE;
  return cuda_range_add(memory, block->mapped ? block->mapped : block->address, block->length,
                        false, block->mapped || !is_registered || memory->has.same_host_pointer);
}

int cuda_alloc(struct pst_memory *memory, const struct pst_alloc_params *caller,
               struct pst_region *region)
{
  struct pst_alloc_params params;
  int code = pst_alloc_params_take(memory->host, caller, region, &params);
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
  code = cuda_alloc_take_block(memory, &params, block);
  if (code == 0)
    code = cuda_block_note(memory, block);
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
  cuda_range_remove(memory, region->address, block->length);
  cuda_enter(memory);
  cuda_block_release(memory, block);
  cuda_leave(memory);
  free(block);
  region->handle = NULL;
}
