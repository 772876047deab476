/* SPDX-License-Identifier: Apache-2.0 */
/* Exports and imports regions as sealed memfds. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <penstock/page.h>

#include "block.h"
#include "format.h"
#include "ops.h"
#include "state.h"

/* linux/magic.h */
#define HUGETLB_MAGIC 0x958458f6

int host_export_region(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out)
{
  int code = pst_export_check(memory->host, memory, region, kind, offset, length, out);
  if (code)
    return code;
  const struct host_block *block = region->handle;
  int fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) {
    code = errno;
    host_error(memory, "export: cannot duplicate the region's descriptor: %s; raise ulimit -n",
               strerror(code));
    return -code;
  }
  struct pst_export made = {
      .kind = PST_EXPORT_FD,
      .fd = fd,
      .offset = block->fd_offset + offset,
      .length = length,
      .base_address = region->address - block->fd_offset,
      .base_length = block->adopted ? block->fd_size : block->length,
  };
  pst_struct_write(out, &made, sizeof(made));
  return 0;
}

static int host_export_refuse_import(const struct pst_memory *memory, int code, const char *why)
{
  host_error(memory, "import: refused: %s", why);
  return code;
}

/* Only a descriptor that cannot shrink is safe to map: another holder could otherwise turn each
 * access into SIGBUS. */
static int host_export_check_descriptor(const struct pst_memory *memory,
                                        const struct pst_export *from, uint64_t *page_size)
{
  struct stat status;
  struct statfs system;
  char why[160];
  if (fstat(from->fd, &status) != 0 || fstatfs(from->fd, &system) != 0) {
    int code = errno;
    snprintf(why, sizeof(why), "descriptor %" PRId32 ": %s", from->fd, strerror(code));
    return host_export_refuse_import(memory, -code, why);
  }
  int seals = fcntl(from->fd, F_GET_SEALS);
  if (seals < 0)
    return host_export_refuse_import(memory, -EINVAL, "the descriptor is not a memfd");
  if (!(seals & F_SEAL_SHRINK))
    return host_export_refuse_import(memory, -EINVAL,
                                     "the memfd is not sealed against shrinking (F_SEAL_SHRINK)");
  uint64_t size = (uint64_t)status.st_size;
  if (from->length == 0 || from->offset > size || from->length > size - from->offset ||
      from->base_length > size) {
    snprintf(why, sizeof(why),
             "%" PRIu64 " bytes from %" PRIu64 " of %" PRIu64 " are not in a memfd of %" PRIu64,
             from->length, from->offset, from->base_length, size);
    return host_export_refuse_import(memory, -EINVAL, why);
  }
  *page_size = system.f_type == HUGETLB_MAGIC ? (uint64_t)system.f_bsize : pst_page_size();
  return 0;
}

static int host_export_check_import(const struct pst_memory *memory, const struct pst_export *from,
                                    uint32_t region_size)
{
  char why[160];
  if (from->kind != PST_EXPORT_FD) {
    snprintf(why, sizeof(why), "export kind %" PRIu32 "; host memory imports descriptors (%d) only",
             from->kind, PST_EXPORT_FD);
    return host_export_refuse_import(memory, -EOPNOTSUPP, why);
  }
  if (from->device[0] != '\0') {
    snprintf(why, sizeof(why), "it is memory of %.47s, not host memory", from->device);
    return host_export_refuse_import(memory, -EXDEV, why);
  }
  if (region_size < PST_REGION_LEAST)
    return host_export_refuse_import(memory, -EINVAL, "a region struct too short to hold a handle");
  return 0;
}

static const char *host_export_words_of(uint64_t page_size)
{
  return page_size == HOST_PAGE_2M   ? "2 MiB pages, imported memfd"
         : page_size == HOST_PAGE_1G ? "1 GiB pages, imported memfd"
                                     : "imported memfd";
}

/* Maps the memfd that another process has exported. The block owns the mapping; the caller keeps
 * its descriptor. */
int host_import_region(struct pst_memory *memory, const struct pst_export *caller,
                       struct pst_region *region)
{
  struct pst_export from;
  uint64_t page_size = 1;
  pst_struct_read(&from, sizeof(from), caller);
  int code = host_export_check_import(memory, &from, region->struct_size);
  if (code == 0)
    code = host_export_check_descriptor(memory, &from, &page_size);
  if (code)
    return code;
  struct host_block *block = calloc(1, sizeof(*block));
  if (!block)
    return host_export_refuse_import(memory, -ENOMEM, "out of memory for its description");
  uint64_t lead = from.offset % page_size;
  block->fd = -1;
  block->page_size = page_size;
  block->words = host_export_words_of(page_size);
  block->map_length = (lead + from.length + page_size - 1) / page_size * page_size;
  block->map = mmap(NULL, block->map_length, PROT_READ | PROT_WRITE, MAP_SHARED, from.fd,
                    (off_t)(from.offset - lead));
  if (block->map == MAP_FAILED) {
    char why[160];
    code = errno;
    snprintf(why, sizeof(why), "mmap of %s: %s", host_size_text(block->map_length).text,
             strerror(code));
    free(block);
    return host_export_refuse_import(memory, -code, why);
  }
  block->address = block->map;
  block->length = block->map_length;
  host_region_fill(memory, block, block->address + lead, from.length, region);
  return 0;
}
