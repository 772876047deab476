/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the application has already, which this plugin refuses, with the reason. */
#include "mapped.h"

#include <errno.h>
#include <inttypes.h>

#include "context.h"
#include "failure.h"

static bool igpu_user_has_attribute(const struct pst_memory *memory, int which,
                                    cuda_pointer address, unsigned int wanted)
{
  unsigned int value = 0;
  cuda_status status = memory->driver->PointerGetAttribute(&value, which, address);
  return status == CUDA_SUCCESS && value == wanted;
}

static const char *igpu_user_reason_of(const struct pst_memory *memory, cuda_pointer address)
{
  if (igpu_user_has_attribute(memory, CUDA_POINTER_IS_MANAGED, address, 1))
    return "managed memory (cuMemAllocManaged), whose pages the driver moves while a NIC writes them";
  if (igpu_user_has_attribute(memory, CUDA_POINTER_MEMORY_TYPE, address, CUDA_MEMORYTYPE_DEVICE))
    return "the GPU's own memory (cuMemAlloc), in which no NIC of a machine with an integrated GPU "
           "can write";
  return "host memory of another owner, who could unpin it under a kernel";
}

int igpu_adopt_region(struct pst_memory *memory, const struct pst_adopt_params *caller,
                      struct pst_region *region)
{
  struct pst_adopt_params params;
  (void)region;
  pst_struct_read(&params, sizeof(params), caller);
  cuda_enter(memory);
  const char *reason = igpu_user_reason_of(memory, params.address);
  cuda_leave(memory);
  cuda_error_log(memory,
                 "%s: cannot take %" PRIu64 " bytes at 0x%" PRIx64
                 ": they are %s; use memory that this plugin allocates: pst_node_alloc() with "
                 "memory igpu",
                 params.label ? params.label : "memory", params.length, params.address, reason);
  return -EOPNOTSUPP;
}
