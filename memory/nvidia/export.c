/* SPDX-License-Identifier: Apache-2.0 */
/* Exports regions to other processes and devices. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "block.h"
#include "context.h"
#include "failure.h"
#include "ops.h"
#include "plugin.h"

static int cuda_export_fd(struct pst_memory *memory, const struct cuda_block *block,
                          struct pst_export *made)
{
  made->fd = fcntl(block->fd, F_DUPFD_CLOEXEC, 0);
  made->base_address = block->address;
  made->base_length = block->length;
  if (made->fd >= 0)
    return 0;
  int code = errno;
  cuda_error_log(memory, "export: cannot duplicate the region's descriptor: %s; raise ulimit -n",
                 strerror(code));
  return -code;
}

int cuda_export_region(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out)
{
  int code = pst_export_check(memory->host, memory, region, kind, offset, length, out);
  if (code)
    return code;
  struct cuda_block *block = region->handle;
  struct pst_export made = {.kind = kind, .fd = -1, .offset = offset, .length = length};
  snprintf(made.device, sizeof(made.device), "%s", region->device);
  cuda_enter(memory);
  code = kind == PST_EXPORT_FD ? cuda_export_fd(memory, block, &made)
                               : cuda_plugin.export_block(memory, block, &made);
  cuda_leave(memory);
  if (code == 0)
    pst_struct_write(out, &made, sizeof(made));
  return code;
}
