/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin cuda: memory of an NVIDIA GPU. */
#include <errno.h>
#include <stdio.h>

#include "context.h"
#include "device_memory.h"
#include "failure.h"
#include "ops.h"
#include "plugin.h"

static int cuda_suits(const struct pst_host *host, const struct cuda_driver *driver,
                      cuda_device device, const struct cuda_place *place,
                      const struct pst_options *options, struct cuda_words *words,
                      struct cuda_refusal *refusal)
{
  (void)host, (void)place, (void)options, (void)refusal;
  if (cuda_device_is_integrated(driver, device))
    snprintf(words->text, sizeof(words->text),
             "integrated: memory igpu is what a NIC and its kernels both reach");
  return 0;
}

static void cuda_say_integrated(struct pst_memory *memory)
{
  char discrete[160];
  if (!cuda_device_is_integrated(memory->driver, memory->device))
    return;
  cuda_device_say_first(memory->driver, false, discrete, sizeof(discrete));
  cuda_log(memory, PST_LOG_WARN,
           "%s is integrated: no NIC writes into cuMemAlloc's memory there, so each message is "
           "copied within the memory that CPU and GPU share. Take memory igpu: the NIC writes its "
           "host memory, and kernels read it, without a copy. Discrete GPUs here: %s",
           memory->name, discrete);
}

static int cuda_open_device(struct pst_memory *memory, const struct pst_options *options)
{
  cuda_say_integrated(memory);
  memory->allocator = (unsigned int)memory->host->option_uint(options, "allocator");
  if (memory->allocator != CUDA_ALLOCATOR_VMM || memory->has.vmm)
    return 0;
  cuda_error_log(memory, "allocator: vmm: %s has no virtual memory management; write malloc",
                 memory->name);
  return -EOPNOTSUPP;
}

const struct cuda_plugin cuda_plugin = {
    .kind = PST_MEMORY_CUDA,
    .suits = cuda_suits,
    .open = cuda_open_device,
    .alloc = cuda_alloc_device,
    .release = cuda_release_device,
    .export_block = cuda_export_device,
    .check_import = cuda_check_import,
    .import_block = cuda_import_device,
};

/* Only GPUs whose order of a NIC's writes asks for it; others have nothing to do. */
static int cuda_flush(struct pst_memory *memory, const struct pst_region *region)
{
  if (!memory->has.flush || region->kind != PST_MEMORY_CUDA)
    return 0;
  cuda_enter(memory);
  cuda_status status =
      memory->driver->FlushGPUDirectRDMAWrites(CUDA_FLUSH_TARGET_CURRENT, CUDA_FLUSH_TO_OWNER);
  cuda_leave(memory);
  return status == CUDA_SUCCESS ? 0 : cuda_failed(memory, "cuFlushGPUDirectRDMAWrites", status);
}

static const struct pst_memory_ops ops = {
    CUDA_OPS,
    .capabilities = CUDA_CAPABILITIES | PST_MEMORY_CAP_FLUSH,
    .flush = cuda_flush,
};

PST_PLUGIN(cuda_probe, &ops);
