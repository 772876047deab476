/* SPDX-License-Identifier: Apache-2.0 */
/* The device's primary context, which the CUDA runtime and every library on it share.
 * Threads get it for the length of a call and then have back what they had: the
 * application's own choice of device stays. */
#include <errno.h>
#include <stdio.h>

#include "inside.h"

void cuda_enter(const struct pst_memory *memory)
{
  memory->driver->CtxPushCurrent(memory->context);
}

void cuda_leave(const struct pst_memory *memory)
{
  cuda_context context;
  memory->driver->CtxPopCurrent(&context);
}

bool cuda_kernels_refused(const struct cuda_driver *driver, struct cuda_refusal *refusal)
{
  if (cuda_kernels_length == 0) {
    snprintf(refusal->reason, sizeof(refusal->reason),
             "its kernels were not built: nvcc was not there when Penstock was");
    snprintf(refusal->remedy, sizeof(refusal->remedy),
             "install the CUDA toolkit (nvcc on the PATH), then build Penstock anew");
    return true;
  }
  if (cuda_kernels_version / 1000 <= driver->version / 1000)
    return false;
  snprintf(refusal->reason, sizeof(refusal->reason),
           "its kernels were built by CUDA %d.%d, and this driver is for %d.%d",
           cuda_kernels_version / 1000, cuda_kernels_version % 1000 / 10, driver->version / 1000,
           driver->version % 1000 / 10);
  snprintf(refusal->remedy, sizeof(refusal->remedy),
           "update the driver, or build Penstock with a toolkit of CUDA %d",
           driver->version / 1000);
  return true;
}

static int open_kernels(struct pst_memory *memory, const struct cuda_place *place)
{
  const struct {
    const char *name;
    cuda_function *function;
  } wanted[] = {
      {"pst_gather", &memory->gather},           {"pst_fill", &memory->fill},
      {"pst_fill_wide", &memory->fill_wide},     {"pst_verify", &memory->verify},
      {"pst_verify_wide", &memory->verify_wide},
  };
  cuda_status status = memory->driver->ModuleLoadData(&memory->module, cuda_kernels_image);
  for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && status == CUDA_SUCCESS; i++)
    status = memory->driver->ModuleGetFunction(wanted[i].function, memory->module, wanted[i].name);
  if (status == CUDA_SUCCESS)
    return 0;
  cuda_error_log(memory,
                 "the kernels do not load on %s (compute capability %d.%d): %s; build Penstock "
                 "with an nvcc that knows this GPU and is no newer than the driver",
                 place->name, place->capability / 10, place->capability % 10,
                 cuda_status_text(memory->driver, status).text);
  return -ENODEV;
}

static int attribute(const struct pst_memory *memory, int which)
{
  int value = 0;
  return memory->driver->DeviceGetAttribute(&value, which, memory->device) == CUDA_SUCCESS ? value
                                                                                           : 0;
}

static void read_properties(struct pst_memory *memory)
{
  int pitch = attribute(memory, CUDA_ATTRIBUTE_MAX_PITCH);
  memory->has = (struct cuda_properties){
      .vmm = attribute(memory, CUDA_ATTRIBUTE_VMM),
      .posix_handles = attribute(memory, CUDA_ATTRIBUTE_POSIX_HANDLES),
      .rdma_with_vmm = attribute(memory, CUDA_ATTRIBUTE_RDMA_WITH_VMM),
      .rdma = attribute(memory, CUDA_ATTRIBUTE_RDMA),
      .dmabuf = attribute(memory, CUDA_ATTRIBUTE_DMABUF),
      .flush = attribute(memory, CUDA_ATTRIBUTE_WRITES_ORDERING) < CUDA_ORDERING_OWNER &&
               (attribute(memory, CUDA_ATTRIBUTE_FLUSH_OPTIONS) & CUDA_FLUSH_OPTION_HOST),
      .same_host_pointer = attribute(memory, CUDA_ATTRIBUTE_HOST_POINTER_SAME),
      .multiprocessors = attribute(memory, CUDA_ATTRIBUTE_MULTIPROCESSORS),
      .max_pitch = pitch > 0 ? (uint64_t)pitch : 0,
  };
}

int cuda_context_open(struct pst_memory *memory)
{
  struct cuda_place place;
  cuda_status status = cuda_place_read(memory->driver, memory->device, &place);
  if (status != CUDA_SUCCESS)
    return cuda_failed(memory, "reading the device's properties", status);
  snprintf(memory->uuid, sizeof(memory->uuid), "%s", place.uuid);
  snprintf(memory->name, sizeof(memory->name), "%s", place.name);
  read_properties(memory);
  status = memory->driver->DevicePrimaryCtxRetain(&memory->context, memory->device);
  if (status != CUDA_SUCCESS) {
    cuda_error_log(memory, "no CUDA context on %s (%s): %s; is it in exclusive mode, or full?",
                   place.name, place.pci, cuda_status_text(memory->driver, status).text);
    return status == CUDA_OUT_OF_MEMORY ? -ENOMEM : -EACCES;
  }
  cuda_enter(memory);
  int code = open_kernels(memory, &place);
  cuda_leave(memory);
  if (code)
    memory->driver->DevicePrimaryCtxRelease(memory->device);
  return code;
}

void cuda_context_close(struct pst_memory *memory)
{
  cuda_enter(memory);
  cuda_fences_close(memory);
  memory->driver->ModuleUnload(memory->module);
  cuda_leave(memory);
  memory->driver->DevicePrimaryCtxRelease(memory->device);
}
