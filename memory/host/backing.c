/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of each kind: malloc, memfd, huge pages. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <penstock/page.h>

#include "format.h"
#include "meminfo.h"
#include "numa.h"
#include "state.h"

#define PAGE_SIZE_SHIFT 26 /* of the log2 in flags of mmap and memfd_create */
#define PLACE_TRIES 16

static uint64_t host_backing_round_up(uint64_t value, uint64_t to)
{
  return (value + to - 1) / to * to;
}

static int host_backing_log2_of(uint64_t power)
{
  return __builtin_ctzll(power);
}

static int host_backing_refuse(const struct pst_memory *memory,
                               const struct pst_alloc_params *params, const char *call, int code)
{
  host_error(memory, "%s: cannot allocate %s of host memory: %s: %s; %s: %s", params->label,
             host_size_text(params->length).text, call, strerror(code), host_room_text().text,
             host_remedy_text(params).text);
  return code == ENOMEM ? -ENOMEM : -code;
}

/* The kernel promises more than it has: without this a region too large would
 * not fail here but wake the OOM killer later. */
static int host_backing_check_available(const struct pst_memory *memory,
                                        const struct pst_alloc_params *params)
{
  bool at_once = memory->populate || memory->lock;
  uint64_t there = at_once ? host_available_bytes() : host_total_bytes();
  if (there == 0 || params->length <= there)
    return 0;
  return host_backing_refuse(memory, params, at_once ? "pages at once" : "pages and swap", ENOMEM);
}

/* mmap at an aligned address. The gap found for it is given back first and asked
 * for without replacing anything, so that a thread that is quicker costs a try
 * and not its mapping. */
static void *host_backing_map_aligned(uint64_t length, uint64_t alignment, uint64_t page_size,
                                      int flags, int fd)
{
  int access = PROT_READ | PROT_WRITE;
  if (alignment <= page_size)
    return mmap(NULL, length, access, flags, fd, 0);
  for (int i = 0; i < PLACE_TRIES; i++) {
    uint64_t span = length + alignment;
    void *gap = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (gap == MAP_FAILED)
      return gap;
    munmap(gap, span);
    void *hint = (void *)(uintptr_t)host_backing_round_up((uintptr_t)gap, alignment);
    void *at = mmap(hint, length, access, flags | MAP_FIXED_NOREPLACE, fd, 0);
    if (at == hint)
      return at;
    if (at != MAP_FAILED)
      munmap(at, length);
    else if (errno != EEXIST)
      return at;
  }
  errno = ENOMEM;
  return MAP_FAILED;
}

static int host_backing_map_block(struct host_block *block, uint64_t length, uint64_t alignment,
                                  int flags)
{
  void *at = host_backing_map_aligned(length, alignment, block->page_size, flags, block->fd);
  if (at == MAP_FAILED)
    return -errno;
  block->address = at;
  block->length = length;
  block->map = at;
  block->map_length = length;
  return 0;
}

int host_block_malloc(const struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct host_block *block)
{
  int code = host_backing_check_available(memory, params);
  if (code)
    return code;
  uint64_t length = params->length;
  uint64_t page = pst_page_size();
  /* Whole pages of its own: registration, locking and placing work on pages. */
  bool large = length >= HOST_PAGE_2M;
  uint64_t least = large ? HOST_PAGE_2M : page;
  void *at;
  length = host_backing_round_up(length, page);
  int failed = posix_memalign(&at, params->alignment > least ? params->alignment : least, length);
  if (failed)
    return host_backing_refuse(memory, params, "posix_memalign", failed);
  bool advised = large && madvise(at, length, MADV_HUGEPAGE) == 0;
  *block = (struct host_block){
      .address = at,
      .length = length,
      .page_size = page,
      .fd = -1,
      .heap = true,
      .words = advised ? "malloc, transparent huge pages advised" : "malloc",
  };
  return 0;
}

/* Sealed in size, so that no holder of the descriptor can cut the memory away under a reader. The
 * reader would die of SIGBUS. */
static int host_backing_memfd_sized(uint64_t length, const char *label, unsigned int flags)
{
  char name[64];
  snprintf(name, sizeof(name), "penstock:%s", label);
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | flags);
  if (fd < 0)
    return -errno;
  if (ftruncate(fd, (off_t)length) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    int code = -errno;
    close(fd);
    return code;
  }
  return fd;
}

int host_block_memfd(const struct pst_memory *memory, const struct pst_alloc_params *params,
                     struct host_block *block)
{
  int code = host_backing_check_available(memory, params);
  if (code)
    return code;
  struct host_block made = {.page_size = pst_page_size(), .words = "memfd"};
  uint64_t length = host_backing_round_up(params->length, made.page_size);
  made.fd = host_backing_memfd_sized(length, params->label, 0);
  if (made.fd < 0)
    return host_backing_refuse(memory, params, "memfd_create", -made.fd);
  code = host_backing_map_block(&made, length, params->alignment, MAP_SHARED);
  if (code) {
    close(made.fd);
    return host_backing_refuse(memory, params, "mmap", -code);
  }
  *block = made;
  return 0;
}

static int host_backing_refuse_huge(const struct pst_memory *memory, uint64_t page_size,
                                    uint64_t length, const char *label, int code)
{
  struct host_text asked = host_size_text(length), page = host_size_text(page_size);
  struct host_pages pages;
  uint64_t wanted = length / page_size;
  if (!host_pages_read(HOST_PAGES_ROOT, page_size, &pages))
    host_error(memory,
               "%s: %s asked for in %s pages, but this machine has none of that size (%s); write "
               "another backing, or auto",
               label, asked.text, page.text, HOST_PAGES_ROOT);
  else if (pages.free < wanted)
    host_error(memory,
               "%s: %s asked for in %s pages: %" PRIu64 " needed, %" PRIu64 " of %" PRIu64
               " free; as root: echo %" PRIu64 " > %s",
               label, asked.text, page.text, wanted, pages.free, pages.total,
               pages.total + wanted - pages.free, pages.control);
  else
    host_error(memory,
               "%s: %s asked for in %s pages: %" PRIu64 " needed, %" PRIu64
               " are free, but: %s; check the hugetlb limit of this process's control group",
               label, asked.text, page.text, wanted, pages.free, strerror(code));
  return -ENOMEM;
}

int host_block_huge(const struct pst_memory *memory, uint64_t page_size, bool memfd,
                    const struct pst_alloc_params *params, bool quiet, struct host_block *block)
{
  struct host_block made = {
      .page_size = page_size,
      .fd = -1,
      .words = page_size == HOST_PAGE_2M ? memfd ? "2 MiB pages, memfd" : "2 MiB pages"
               : memfd                   ? "1 GiB pages, memfd"
                                         : "1 GiB pages",
  };
  int size_flag = host_backing_log2_of(page_size) << PAGE_SIZE_SHIFT;
  int code;
  uint64_t length = host_backing_round_up(params->length, page_size);
  if (memfd) {
    made.fd =
        host_backing_memfd_sized(length, params->label, MFD_HUGETLB | (unsigned int)size_flag);
    code = made.fd < 0 ? made.fd
                       : host_backing_map_block(&made, length, params->alignment, MAP_SHARED);
  } else {
    code = host_backing_map_block(&made, length, params->alignment,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | size_flag);
  }
  if (code == 0) {
    *block = made;
    return 0;
  }
  if (made.fd >= 0)
    close(made.fd);
  return quiet ? -ENOMEM
               : host_backing_refuse_huge(memory, page_size, length, params->label, -code);
}

void host_block_release(struct host_block *block)
{
  assert(block->heap + block->adopted + (block->map != NULL) == 1); /* one of the three */
  if (block->heap) {
    if (block->locked)
      munlock(block->address, block->length);
    /* Memory that malloc returns later must not inherit the placement. */
    if (block->bound)
      host_block_unbind(block);
    free(block->address);
  } else if (!block->adopted) {
    munmap(block->map, block->map_length);
  }
  if (block->fd >= 0)
    close(block->fd);
}
