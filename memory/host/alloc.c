/* SPDX-License-Identifier: Apache-2.0 */
/* Allocates regions of host memory by the option `backing`. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "format.h"
#include "meminfo.h"
#include "numa.h"
#include "ops.h"
#include "state.h"

#define LENGTH_MAX (UINT64_C(1) << 62)

/* Under `auto`, unused huge pages are left for large regions: a small one would waste most of a
 * page. */
static bool host_alloc_huge_pages_suffice(const struct pst_memory *memory, uint64_t length)
{
  struct host_pages pages;
  if (length < HOST_PAGE_2M || !host_pages_read(HOST_PAGES_ROOT, HOST_PAGE_2M, &pages) ||
      pages.total == 0)
    return false;
  uint64_t wanted = (length - 1) / HOST_PAGE_2M + 1;
  if (pages.free >= wanted)
    return true;
  host_info(memory,
            "a region of %s uses ordinary pages: %" PRIu64 " pages of 2 MiB needed, %" PRIu64
            " of %" PRIu64 " free",
            host_size_text(length).text, wanted, pages.free, pages.total);
  return false;
}

static int host_alloc_take_auto(const struct pst_memory *memory,
                                const struct pst_alloc_params *params, struct host_block *block)
{
  if (params->needs & PST_NEED_EXPORT_FD)
    return host_block_memfd(memory, params, block);
  if (host_alloc_huge_pages_suffice(memory, params->length)) {
    if (host_block_huge(memory, HOST_PAGE_2M, false, params, true, block) == 0)
      return 0;
    host_info(memory, "%s: the free 2 MiB pages cannot be allocated; using ordinary pages",
              params->label);
  }
  return host_block_malloc(memory, params, block);
}

static int host_alloc_take_block(const struct pst_memory *memory,
                                 const struct pst_alloc_params *params, struct host_block *block)
{
  bool exported = params->needs & PST_NEED_EXPORT_FD;
  switch (memory->backing) {
  case HOST_BACKING_MALLOC:
    return host_block_malloc(memory, params, block);
  case HOST_BACKING_MEMFD:
    return host_block_memfd(memory, params, block);
  case HOST_BACKING_HUGE_2M:
    return host_block_huge(memory, HOST_PAGE_2M, exported, params, false, block);
  case HOST_BACKING_HUGE_1G:
    return host_block_huge(memory, HOST_PAGE_1G, exported, params, false, block);
  case HOST_BACKING_AUTO:
    break;
  }
  return host_alloc_take_auto(memory, params, block);
}

static int host_alloc_place_block(const struct pst_memory *memory,
                                  const struct pst_alloc_params *params, struct host_block *block)
{
  int code = host_block_bind(memory, block, params->label);
  if (code)
    return code;
  /* A bound huge page that its node does not have is SIGBUS when touched; here it
   * is an error. */
  bool must = block->bound && block->page_size >= HOST_PAGE_2M;
  if (memory->populate || memory->lock || must)
    code = host_block_populate(memory, block, params);
  if (code)
    return code;
  if (memory->lock || params->needs & PST_NEED_PINNED)
    code = host_block_lock(memory, block, params->label, memory->lock);
  return code;
}

void host_region_fill(struct pst_memory *memory, struct host_block *block, uint8_t *address,
                      uint64_t length, struct pst_region *region)
{
  struct pst_region made = {
      .kind = PST_MEMORY_HOST,
      .address = (uintptr_t)address,
      .host = address,
      .length = length,
      .page_size = block->page_size,
      .exports = block->fd >= 0 ? PST_EXPORT_FD : 0,
      .flags = block->locked ? PST_REGION_PINNED : 0,
      .memory = memory,
      .handle = block,
  };
  snprintf(made.backing, sizeof(made.backing), "%s", block->words);
  pst_struct_write(region, &made, sizeof(made));
}

int host_alloc(struct pst_memory *memory, const struct pst_alloc_params *caller,
               struct pst_region *region)
{
  struct pst_alloc_params params;
  int code = pst_alloc_params_take(memory->host, caller, region, &params);
  if (code)
    return code;
  struct host_block *block = malloc(sizeof(*block));
  if (!block || params.length > LENGTH_MAX || params.alignment > LENGTH_MAX) {
    host_error(memory, "%s: cannot get %s of host memory, aligned to %s: more than there is",
               params.label, host_size_text(params.length).text,
               host_size_text(params.alignment).text);
    free(block);
    return -ENOMEM;
  }
  code = host_alloc_take_block(memory, &params, block);
  if (code)
    goto no_block;
  code = host_alloc_place_block(memory, &params, block);
  if (code)
    goto not_placed;
  host_region_fill(memory, block, block->address, block->length, region);
  return 0;

not_placed:
  host_block_release(block);
no_block:
  free(block);
  return code;
}

void host_free_region(struct pst_memory *memory, struct pst_region *region)
{
  (void)memory;
  if (!region || !region->handle)
    return;
  host_block_release(region->handle);
  free(region->handle);
  region->handle = NULL;
}
