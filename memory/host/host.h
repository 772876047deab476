/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the memory plugin `host`. */
#ifndef HOST_HOST_H
#define HOST_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/memory-util.h>

#include "pattern.h"

/* In the order of the option's choices. */
enum host_backing {
  HOST_BACKING_AUTO,
  HOST_BACKING_MALLOC,
  HOST_BACKING_MEMFD,
  HOST_BACKING_HUGE_2M,
  HOST_BACKING_HUGE_1G,
};

#define HOST_PAGE_2M (UINT64_C(1) << 21)
#define HOST_PAGE_1G (UINT64_C(1) << 30)

struct pst_memory {
  const struct pst_host *host;
  const struct pattern_variant *pattern;
  enum host_backing backing;
  int numa_node; /* -1: auto */
  bool lock;
  bool populate;
};

/* What a region's `handle` is: its memory and how to give it back. */
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

#define host_error(memory, ...) (memory)->host->log((memory)->host, PST_LOG_ERROR, __VA_ARGS__)
#define host_info(memory, ...) (memory)->host->log((memory)->host, PST_LOG_INFO, __VA_ARGS__)
#define host_debug(memory, ...) (memory)->host->log((memory)->host, PST_LOG_DEBUG, __VA_ARGS__)

/* text.c: sizes for messages ("512 MiB"), and small files of /proc and /sys. */
struct host_text {
  char text[32];
};
struct host_text host_size_text(uint64_t bytes);
/* What bounds an allocation, "19.6 GiB are available", and its remedy. */
struct host_line {
  char text[112];
};
struct host_line host_room_text(void);
struct host_line host_remedy_text(const struct pst_alloc_params *params);
/* The number a file holds; false when there is no such file or number. */
bool host_read_number(const char *path, uint64_t *value);
/* What can be had without swapping, and all that the machine has, swap included;
 * 0: unknown. */
uint64_t host_available_bytes(void);
uint64_t host_total_bytes(void);

/* backing.c: the kernel's reserved huge pages, counted in /sys. */
struct host_pages {
  uint64_t total;    /* nr_hugepages */
  uint64_t free;     /* neither used nor promised to somebody */
  char control[128]; /* the file that sets their number */
};
/* root: "/sys/kernel/mm/hugepages". False: the kernel has no such size. */
bool host_pages_read(const char *root, uint64_t page_size, struct host_pages *pages);
#define HOST_PAGES_ROOT "/sys/kernel/mm/hugepages"

/* place.c: where the pages of a block lie. All log their errors. */
bool host_node_parse(const struct pst_host *host, const char *text, int *node, int *error);
int host_block_bind(const struct pst_memory *memory, struct host_block *block, const char *label);
void host_block_unbind(struct host_block *block);
int host_block_lock(const struct pst_memory *memory, struct host_block *block, const char *label,
                    bool required);
int host_block_populate(const struct pst_memory *memory, struct host_block *block,
                        const struct pst_alloc_params *params);

/* backing.c: memory itself, unplaced. All log their errors, except huge ones
 * when `quiet`: -ENOMEM then means to try another backing. */
int host_block_malloc(const struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct host_block *block);
int host_block_memfd(const struct pst_memory *memory, const struct pst_alloc_params *params,
                     struct host_block *block);
int host_block_huge(const struct pst_memory *memory, uint64_t page_size, bool memfd,
                    const struct pst_alloc_params *params, bool quiet, struct host_block *block);
void host_block_release(struct host_block *block);

/* alloc.c */
int host_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
               struct pst_region *region);
void host_free_region(struct pst_memory *memory, struct pst_region *region);
/* Describe a block to the caller, who has set region->struct_size. */
void host_region_fill(struct pst_memory *memory, struct host_block *block, uint8_t *address,
                      uint64_t length, struct pst_region *region);

/* adopt.c */
int host_adopt_region(struct pst_memory *memory, const struct pst_adopt_params *params,
                      struct pst_region *region);

/* export.c */
int host_export_region(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out);
int host_import_region(struct pst_memory *memory, const struct pst_export *from,
                       struct pst_region *region);

/* queue.c */
int host_queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                    struct pst_queue **queue);
void host_queue_close(struct pst_queue *queue);
int host_fill_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                   uint32_t n, uint64_t *ticket);
int host_verify_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket);
int host_sum_range(struct pst_queue *queue, uint64_t address, uint64_t length, uint32_t *crc32c,
                   uint64_t *ticket);
int host_queue_poll(struct pst_queue *queue, uint64_t *done);
int host_verify_result(struct pst_queue *queue, struct pst_verify_result *result);
int host_fence_record(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence);
int host_fence_wait(struct pst_memory *memory, struct pst_fence *fence, struct pst_queue *queue,
                    void *native);
int host_fence_query(struct pst_memory *memory, struct pst_fence *fence);
void host_fence_release(struct pst_memory *memory, struct pst_fence *fence);

#endif
