/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the caller has already. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <penstock/page.h>

#include "block.h"
#include "ops.h"
#include "state.h"

struct range {
  uint64_t begin, end;
};

static int host_user_refuse(const struct pst_memory *memory, const struct pst_adopt_params *params,
                            int code, const char *why)
{
  host_error(memory, "%s: cannot take %" PRIu64 " bytes at 0x%" PRIx64 ": %s", params->label,
             params->length, params->address, why);
  return code;
}

static int host_user_check_params(const struct pst_memory *memory,
                                  const struct pst_adopt_params *params, uint32_t region_size)
{
  if (params->length == 0 || params->address == 0 || params->length > UINT64_MAX - params->address)
    return host_user_refuse(memory, params, -EINVAL, "the range is empty or wraps around");
  if (params->fd < -1 || params->reserved || (params->fd == -1 && params->fd_offset != 0))
    return host_user_refuse(memory, params, -EINVAL,
                            "a descriptor is -1 or one that is open, and what is reserved is 0");
  if (region_size < PST_REGION_LEAST)
    return host_user_refuse(memory, params, -EINVAL, "a region struct too short to hold a handle");
  return 0;
}

static struct range host_user_pages_of(const struct pst_adopt_params *params)
{
  const uint64_t page = pst_page_size();
  const uint64_t end = params->address + params->length;

  return (struct range){params->address / page * page, (end + page - 1) / page * page};
}

/* One line of /proc/self/maps: whether it maps this file so that `address` is at `fd_offset`. */
static bool host_user_maps_it(const char *line, const struct stat *file,
                              const struct pst_adopt_params *params, struct range *mapped)
{
  uint64_t offset, inode;
  unsigned high, low;
  char rights[5];

  return sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64, &mapped->begin,
                &mapped->end, rights, &offset, &high, &low, &inode) == 7 &&
         rights[3] == 's' && inode == file->st_ino && makedev(high, low) == file->st_dev &&
         mapped->begin - offset == params->address - params->fd_offset;
}

/* A peer that maps the descriptor must find what we find at the address. */
static bool host_user_is_mapped_there(const struct stat *file,
                                      const struct pst_adopt_params *params)
{
  struct range wanted = host_user_pages_of(params), mapped;
  FILE *maps = fopen("/proc/self/maps", "re");
  char *line = NULL;
  size_t size = 0;

  while (maps && wanted.begin < wanted.end && getline(&line, &size, maps) > 0)
    if (host_user_maps_it(line, file, params, &mapped) && mapped.begin <= wanted.begin &&
        wanted.begin < mapped.end)
      wanted.begin = mapped.end;
  free(line);
  if (maps)
    fclose(maps);
  return maps && wanted.begin >= wanted.end;
}

static int host_user_check_descriptor(const struct pst_memory *memory,
                                      const struct pst_adopt_params *params,
                                      struct host_block *block)
{
  struct stat file;
  int seals = fcntl(params->fd, F_GET_SEALS);

  if (fstat(params->fd, &file) != 0)
    return host_user_refuse(memory, params, -EINVAL, "its descriptor is not open");
  if (seals < 0 || !(seals & F_SEAL_SHRINK))
    return host_user_refuse(
        memory, params, -EINVAL,
        "its descriptor must be a memfd that is sealed against shrinking: memfd_create() with "
        "MFD_ALLOW_SEALING, then F_ADD_SEALS with F_SEAL_SHRINK");
  if (!host_user_is_mapped_there(&file, params))
    return host_user_refuse(memory, params, -EINVAL,
                            "its descriptor is not mapped there, shared, from fd_offset on");
  block->page_size = (uint64_t)file.st_blksize;
  block->fd_size = (uint64_t)file.st_size;
  block->fd_offset = params->fd_offset;
  block->words = "the application's memfd";
  block->fd = fcntl(params->fd, F_DUPFD_CLOEXEC, 3);
  return block->fd < 0 ? host_user_refuse(memory, params, -errno, "no descriptor is left") : 0;
}

int host_adopt_region(struct pst_memory *memory, const struct pst_adopt_params *caller,
                      struct pst_region *region)
{
  struct pst_adopt_params params;

  pst_struct_read(&params, sizeof(params), caller);
  if (!params.label)
    params.label = "memory";
  int code = host_user_check_params(memory, &params, region->struct_size);
  if (code)
    return code;
  struct range pages = host_user_pages_of(&params);
  void *first = (void *)(uintptr_t)pages.begin; /* NOLINT(performance-no-int-to-ptr) */
  if (msync(first, pages.end - pages.begin, MS_ASYNC) != 0)
    return host_user_refuse(memory, &params, -EFAULT, "not all of it is mapped");
  struct host_block *block = calloc(1, sizeof(*block));
  if (!block)
    return host_user_refuse(memory, &params, -ENOMEM, "out of memory for its description");
  *block = (struct host_block){.address = (uint8_t *)first + (params.address - pages.begin),
                               .length = params.length,
                               .page_size = pst_page_size(),
                               .fd = -1,
                               .adopted = true,
                               .words = "the application's"};
  code = params.fd >= 0 ? host_user_check_descriptor(memory, &params, block) : 0;
  if (code) {
    free(block);
    return code;
  }
  host_region_fill(memory, block, block->address, block->length, region);
  return 0;
}
