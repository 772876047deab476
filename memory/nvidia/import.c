/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that another process has exported: descriptors of host memory are mapped here. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <penstock/page.h>

#include "block.h"
#include "context.h"
#include "failure.h"
#include "ops.h"
#include "plugin.h"
#include "va_range.h"

int cuda_refuse_range(const struct pst_memory *memory, const struct pst_export *from,
                      uint64_t base_length)
{
  cuda_error_log(memory,
                 "import: refused: %" PRIu64 " bytes from %" PRIu64 " are not in the %" PRIu64
                 " that were exported; both ends need the same release of Penstock",
                 from->length, from->offset, base_length);
  return -EINVAL;
}

bool cuda_export_holds(uint64_t base_length, const struct pst_export *from)
{
  return from->length && from->offset <= base_length && from->length <= base_length - from->offset;
}

static int cuda_import_check(const struct pst_memory *memory, const struct pst_export *from,
                             uint32_t region_size)
{
  if (!memchr(from->device, '\0', sizeof(from->device)) || region_size < PST_REGION_LEAST) {
    cuda_error_log(memory, "import: refused: the name of its device does not end");
    return -EINVAL;
  }
  int code = cuda_plugin.check_import(memory, from);
  if (code)
    return code;
  return cuda_export_holds(from->base_length, from) && from->base_length < CUDA_LENGTH_MAX
             ? 0
             : cuda_refuse_range(memory, from, from->base_length);
}

static int cuda_import_map_file(const struct pst_export *from, struct cuda_block *block)
{
  struct stat info;
  int seals = fcntl(from->fd, F_GET_SEALS);
  if (seals < 0 || !(seals & F_SEAL_SHRINK))
    return seals < 0 ? -errno : -EPERM;
  if (fstat(from->fd, &info) != 0 || info.st_size < 0 || (uint64_t)info.st_size < from->base_length)
    return -EINVAL;
  /* From its beginning: offsets into huge pages would have to be theirs. */
  void *at = mmap(NULL, block->base_length, PROT_READ | PROT_WRITE, MAP_SHARED, from->fd, 0);
  if (at == MAP_FAILED)
    return -errno;
  block->base = (uintptr_t)at;
  return 0;
}

static int cuda_import_file(struct pst_memory *memory, const struct pst_export *from,
                            struct cuda_block *block)
{
  uint64_t page = pst_page_size();
  int code = cuda_import_map_file(from, block);
  if (code) {
    cuda_error_log(memory,
                   "import: refused: the descriptor of %" PRIu64 " bytes cannot be mapped: %s; it "
                   "has to be sealed against shrinking",
                   from->base_length, strerror(-code));
    return code;
  }
  uint64_t first = (block->base + from->offset) / page * page;
  uint64_t end = cuda_round_up(block->base + from->offset + from->length, page);
  cuda_status status = memory->driver->MemHostRegister(
      (void *)(uintptr_t)first, end - first, CUDA_REGISTER_PORTABLE | CUDA_REGISTER_DEVICEMAP);
  block->kind = CUDA_BLOCK_FILE;
  block->words = "mapped, cuMemHostRegister";
  block->handle = first;
  if (status == CUDA_SUCCESS)
    return 0;
  munmap((void *)(uintptr_t)block->base, block->base_length);
  return cuda_refuse_pinned(memory, CUDA_ASKED("import", end - first), "cuMemHostRegister", status);
}

static int cuda_import_take(struct pst_memory *memory, const struct pst_export *from,
                            struct cuda_block *block)
{
  int code = from->kind == PST_EXPORT_FD ? cuda_import_file(memory, from, block)
                                         : cuda_plugin.import_block(memory, from, block);
  if (code)
    return code;
  block->address = block->base + from->offset;
  if (from->kind == PST_EXPORT_FD && block->device[0])
    code = cuda_block_see(memory, block);
  if (code == 0)
    code = cuda_block_note(memory, block);
  if (code)
    cuda_block_release(memory, block);
  return code;
}

int cuda_import_region(struct pst_memory *memory, const struct pst_export *caller,
                       struct pst_region *region)
{
  struct pst_export from;
  pst_struct_read(&from, sizeof(from), caller);
  int code = cuda_import_check(memory, &from, region->struct_size);
  if (code)
    return code;
  struct cuda_block *block = calloc(1, sizeof(*block));
  if (!block) {
    cuda_error_log(memory, "import: out of memory for its description");
    return -ENOMEM;
  }
  block->fd = -1;
  block->base_length = from.base_length;
  block->length = from.length;
  memcpy(block->device, from.device, sizeof(block->device));
  cuda_enter(memory);
  code = cuda_import_take(memory, &from, block);
  cuda_leave(memory);
  if (code) {
    free(block);
    return code;
  }
  cuda_region_fill(memory, block, region);
  return 0;
}
