/* SPDX-License-Identifier: Apache-2.0 */
#include "context.h"
#include "device.h"
#include "failure.h"
#include "ops.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CAPABILITY_LEAST 75 /* the oldest that the kernels are built for */

static int refuse(struct pst_probe *probe, const struct cuda_refusal *refusal)
{
  snprintf(probe->reason, sizeof(probe->reason), "%s", refusal->reason);
  snprintf(probe->remedy, sizeof(probe->remedy), "%s", refusal->remedy);
  return -ENODEV;
}

static bool report(const struct cuda_driver *driver, int index, struct pst_probe *probe)
{
  struct cuda_place place;
  cuda_device device;
  size_t bytes = 0;
  char detail[256];
  if (driver->DeviceGet(&device, index) != CUDA_SUCCESS ||
      cuda_place_read(driver, device, &place) != CUDA_SUCCESS ||
      place.capability < CAPABILITY_LEAST)
    return false;
  driver->DeviceTotalMem(&bytes, device);
  snprintf(detail, sizeof(detail), "%s, %zu MiB, %s, compute %d.%d, driver for CUDA %d.%d",
           place.name, bytes >> 20, place.pci, place.capability / 10, place.capability % 10,
           driver->version / 1000, driver->version % 1000 / 10);
  if (probe->device)
    probe->device(probe->context, place.uuid, detail);
  return true;
}

static int cuda_probe(const struct pst_host *host, struct pst_probe *probe)
{
  const struct cuda_driver *driver;
  struct cuda_refusal refusal = {
      .reason = "no GPU here is of compute capability 7.5 or later",
      .remedy = "Turing and what came after it can be used",
  };
  int count = 0;
  bool usable = false;
  if (cuda_driver_bind(host, &driver, &refusal) < 0 || cuda_kernels_refused(driver, &refusal))
    return refuse(probe, &refusal);
  if (driver->DeviceGetCount(&count) != CUDA_SUCCESS)
    count = 0;
  for (int i = 0; i < count; i++)
    usable |= report(driver, i, probe);
  return usable ? 0 : refuse(probe, &refusal);
}

static int cuda_open(const struct pst_host *host, const struct pst_memory_params *params,
                     struct pst_memory **memory)
{
  const struct pst_options *options = params->options;
  const struct cuda_driver *driver;
  struct cuda_refusal refusal;
  if (cuda_driver_bind(host, &driver, &refusal) < 0 || cuda_kernels_refused(driver, &refusal)) {
    host->log(host, PST_LOG_ERROR, "%s; %s", refusal.reason, refusal.remedy);
    return -ENODEV;
  }
  struct pst_memory *made = calloc(1, sizeof(*made));
  if (!made) {
    host->log(host, PST_LOG_ERROR, "no memory to open a GPU");
    return -ENOMEM;
  }
  made->host = host;
  made->driver = driver;
  made->allocator = (enum cuda_allocator)host->option_uint(options, "allocator");
  made->copies = (enum cuda_copies)host->option_uint(options, "copies");
  pthread_mutex_init(&made->lock, NULL);
  int code = cuda_device_find(host, driver, host->option_string(options, "device"), &made->device);
  if (code == 0)
    code = cuda_context_open(made);
  if (code == 0 && made->allocator == CUDA_ALLOCATOR_VMM && !made->has.vmm) {
    cuda_error_log(made, "allocator: vmm: %s has no virtual memory management; write malloc",
                   made->name);
    cuda_context_close(made);
    code = -EOPNOTSUPP;
  }
  if (code) {
    pthread_mutex_destroy(&made->lock);
    free(made);
    return code;
  }
  *memory = made;
  return 0;
}

static void cuda_close(struct pst_memory *memory)
{
  if (!memory)
    return;
  if (memory->range_count || memory->fences)
    cuda_error_log(memory, "closed with %u ranges of memory and %u fences left; free them before",
                   memory->range_count, memory->fences);
  cuda_context_close(memory);
  pthread_mutex_destroy(&memory->lock);
  free(memory->ranges);
  free(memory);
}

static int cuda_describe(struct pst_memory *memory, struct pst_memory_info *info)
{
  struct pst_memory_info made = {.kind = PST_MEMORY_CUDA};
  size_t available = 0, total;
  cuda_enter(memory);
  if (memory->driver->MemGetInfo(&available, &total) != CUDA_SUCCESS)
    available = 0;
  cuda_leave(memory);
  snprintf(made.device, sizeof(made.device), "%s", memory->uuid);
  snprintf(made.name, sizeof(made.name), "%s", memory->name);
  made.free_bytes = available;
  pst_struct_write(info, &made, sizeof(made));
  return 0;
}

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
    .struct_size = sizeof(ops),
    .capabilities = PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_PATTERN | PST_MEMORY_CAP_FENCE |
                    PST_MEMORY_CAP_EXPORT | PST_MEMORY_CAP_IMPORT | PST_MEMORY_CAP_HOST_REGISTER |
                    PST_MEMORY_CAP_FLUSH | PST_MEMORY_CAP_CHECKSUM,
    .open = cuda_open,
    .close = cuda_close,
    .describe = cuda_describe,
    .alloc = cuda_alloc,
    .free_region = cuda_free_region,
    .host_register = cuda_host_register,
    .host_unregister = cuda_host_unregister,
    .export_region = cuda_export_region,
    .import_region = cuda_import_region,
    .queue_open = cuda_queue_open,
    .queue_close = cuda_queue_close,
    .copy_rows = cuda_copy_rows,
    .fill_rows = cuda_fill_rows,
    .verify_rows = cuda_verify_rows,
    .queue_poll = cuda_queue_poll,
    .verify_result = cuda_verify_result,
    .fence_record = cuda_fence_record,
    .fence_wait = cuda_fence_wait,
    .fence_query = cuda_fence_query,
    .fence_release = cuda_fence_release,
    .flush = cuda_flush,
    .sum_range = cuda_sum_range,
};

PST_PLUGIN(cuda_probe, &ops);
