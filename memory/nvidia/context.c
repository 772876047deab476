/* SPDX-License-Identifier: Apache-2.0 */
/* The device's primary context, which the CUDA runtime and every library on it share.
 * Threads get it for the length of a call and then have back what they had: the
 * application's own choice of device stays. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "context.h"
#include "device.h"
#include "failure.h"
#include "kernels.h"
#include "queue.h"

void cuda_enter(const struct pst_memory *memory)
{
  memory->driver->CtxPushCurrent(memory->shared->context);
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

static int cuda_context_open_kernels(struct pst_memory *memory, struct cuda_shared *shared,
                                     const struct cuda_place *place)
{
  const struct {
    const char *name;
    cuda_function *function;
  } wanted[] = {
      {"pst_gather", &shared->gather},           {"pst_fill", &shared->fill},
      {"pst_fill_wide", &shared->fill_wide},     {"pst_verify", &shared->verify},
      {"pst_verify_wide", &shared->verify_wide}, {"pst_crc32c", &shared->sum},
  };
  cuda_status status = memory->driver->ModuleLoadData(&shared->module, cuda_kernels_image);
  for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && status == CUDA_SUCCESS; i++)
    status = memory->driver->ModuleGetFunction(wanted[i].function, shared->module, wanted[i].name);
  if (status == CUDA_SUCCESS)
    return 0;
  if (shared->module)
    memory->driver->ModuleUnload(shared->module);
  cuda_error_log(memory,
                 "the kernels do not load on %s (compute capability %d.%d): %s; build Penstock "
                 "with an nvcc that knows this GPU and is no newer than the driver",
                 place->name, place->capability / 10, place->capability % 10,
                 cuda_status_text(memory->driver, status).text);
  return -ENODEV;
}

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_shared *all_shared;

/* With the context and the kernels; the lock is held. */
static int cuda_context_shared_new(struct pst_memory *memory, const struct cuda_place *place,
                                   struct cuda_shared **out)
{
  struct cuda_shared *made = calloc(1, sizeof(*made));
  if (!made) {
    cuda_error_log(memory, "no memory to open a GPU");
    return -ENOMEM;
  }
  made->device = memory->device;
  cuda_status status = memory->driver->DevicePrimaryCtxRetain(&made->context, made->device);
  if (status != CUDA_SUCCESS) {
    cuda_error_log(memory, "no CUDA context on %s (%s): %s; is it in exclusive mode, or full?",
                   place->name, place->pci, cuda_status_text(memory->driver, status).text);
    free(made);
    return status == CUDA_OUT_OF_MEMORY ? -ENOMEM : -EACCES;
  }
  memory->shared = made;
  cuda_enter(memory);
  int code = cuda_context_open_kernels(memory, made, place);
  cuda_leave(memory);
  if (code) {
    memory->driver->DevicePrimaryCtxRelease(made->device);
    free(made);
    return code;
  }
  made->next = all_shared;
  all_shared = made;
  *out = made;
  return 0;
}

static int cuda_context_shared_open(struct pst_memory *memory, const struct cuda_place *place)
{
  int code = 0;
  pthread_mutex_lock(&shared_lock);
  struct cuda_shared *found = all_shared;
  while (found && found->device != memory->device)
    found = found->next;
  if (!found)
    code = cuda_context_shared_new(memory, place, &found);
  if (code == 0) {
    found->users++;
    memory->shared = found;
  }
  pthread_mutex_unlock(&shared_lock);
  return code;
}

static void cuda_context_shared_close(struct pst_memory *memory)
{
  struct cuda_shared *shared = memory->shared;
  pthread_mutex_lock(&shared_lock);
  assert(shared->users > 0);
  if (--shared->users == 0) {
    struct cuda_shared **at = &all_shared;
    while (*at != shared)
      at = &(*at)->next;
    *at = shared->next;
    cuda_enter(memory);
    memory->driver->ModuleUnload(shared->module);
    cuda_leave(memory);
    memory->driver->DevicePrimaryCtxRelease(shared->device);
    free(shared);
  }
  pthread_mutex_unlock(&shared_lock);
}

static int cuda_context_attribute(const struct pst_memory *memory, int which)
{
  int value = 0;
  return memory->driver->DeviceGetAttribute(&value, which, memory->device) == CUDA_SUCCESS ? value
                                                                                           : 0;
}

static void cuda_context_read_properties(struct pst_memory *memory)
{
  int pitch = cuda_context_attribute(memory, CUDA_ATTRIBUTE_MAX_PITCH);
  const bool needs_flush =
      cuda_context_attribute(memory, CUDA_ATTRIBUTE_WRITES_ORDERING) < CUDA_ORDERING_OWNER;
  const bool has_flush =
      cuda_context_attribute(memory, CUDA_ATTRIBUTE_FLUSH_OPTIONS) & CUDA_FLUSH_OPTION_HOST;
  memory->has = (struct cuda_properties){
      .vmm = cuda_context_attribute(memory, CUDA_ATTRIBUTE_VMM),
      .posix_handles = cuda_context_attribute(memory, CUDA_ATTRIBUTE_POSIX_HANDLES),
      .rdma_with_vmm = cuda_context_attribute(memory, CUDA_ATTRIBUTE_RDMA_WITH_VMM),
      .rdma = cuda_context_attribute(memory, CUDA_ATTRIBUTE_RDMA),
      .dmabuf = cuda_context_attribute(memory, CUDA_ATTRIBUTE_DMABUF),
      .flush = needs_flush && has_flush,
      .same_host_pointer = cuda_context_attribute(memory, CUDA_ATTRIBUTE_HOST_POINTER_SAME),
      .host_register = cuda_context_attribute(memory, CUDA_ATTRIBUTE_HOST_REGISTER),
      .multiprocessors = cuda_context_attribute(memory, CUDA_ATTRIBUTE_MULTIPROCESSORS),
      .max_pitch = pitch > 0 ? (uint64_t)pitch : 0,
  };
  if (needs_flush && !has_flush && memory->has.rdma &&
      !cuda_device_is_integrated(memory->driver, memory->device))
    cuda_log(
        memory, PST_LOG_WARN,
        "%s does not order an adapter's writes before its own work, and the CPU cannot have it "
        "flush them (GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS without HOST): messages that an "
        "adapter writes there may be seen too early; take `path: staged`",
        memory->name);
}

int cuda_context_open(struct pst_memory *memory)
{
  struct cuda_place place;
  cuda_status status = cuda_place_read(memory->driver, memory->device, &place);
  if (status != CUDA_SUCCESS)
    return cuda_failed(memory, "reading the device's properties", status);
  snprintf(memory->uuid, sizeof(memory->uuid), "%s", place.uuid);
  snprintf(memory->name, sizeof(memory->name), "%s", place.name);
  cuda_context_read_properties(memory);
  return cuda_context_shared_open(memory, &place);
}

void cuda_context_close(struct pst_memory *memory)
{
  cuda_enter(memory);
  cuda_fences_close(memory);
  cuda_leave(memory);
  cuda_context_shared_close(memory);
}
