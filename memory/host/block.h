/* SPDX-License-Identifier: Apache-2.0 */
/* Memory as the kernel gives it, unplaced. */
#ifndef HOST_BLOCK_H
#define HOST_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/memory.h>

#define HOST_PAGE_2M (UINT64_C(1) << 21)
#define HOST_PAGE_1G (UINT64_C(1) << 30)

/* A region's `handle`: its memory and how to free it. */
struct host_block {
  uint8_t *address;
  uint64_t length; /* whole pages */
  uint64_t page_size;
  int fd;       /* -1: not exportable */
  bool heap;    /* from malloc, else mapped */
  bool adopted; /* neither: it is the caller's */
  bool locked;  /* by mlock */
  bool bound;   /* to a NUMA node */
  void *map;    /* mapped: all of the mapping, which may begin before `address` */
  uint64_t map_length;
  const char *words;  /* region.backing */
  uint64_t fd_offset; /* adopted: of `address` in fd, and how long that is */
  uint64_t fd_size;
};

/* Allocates by malloc(). 0, or -errno after a log. */
int host_block_malloc(const struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct host_block *block);
/* Allocates by memfd_create(). 0, or -errno after a log. */
int host_block_memfd(const struct pst_memory *memory, const struct pst_alloc_params *params,
                     struct host_block *block);
/* Allocates huge pages. 0, or -errno after a log; with `quiet` -ENOMEM is not logged, and means to
 * try another backing. */
int host_block_huge(const struct pst_memory *memory, uint64_t page_size, bool memfd,
                    const struct pst_alloc_params *params, bool quiet, struct host_block *block);
void host_block_release(struct host_block *block);

/* Describe a block to the caller, who has set region->struct_size. */
void host_region_fill(struct pst_memory *memory, struct host_block *block, uint8_t *address,
                      uint64_t length, struct pst_region *region);

#endif
