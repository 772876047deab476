/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's errors in words, and lost devices. */
#include <errno.h>
#include <stdio.h>

#include "context.h"
#include "failure.h"

struct cuda_text cuda_status_text(const struct cuda_driver *driver, cuda_status status)
{
  struct cuda_text out;
  const char *name = NULL, *text = NULL;
  driver->GetErrorName(status, &name);
  driver->GetErrorString(status, &text);
  if (name)
    snprintf(out.text, sizeof(out.text), "%s: %s", name, text ? text : "");
  else
    snprintf(out.text, sizeof(out.text), "CUDA error %d", status);
  return out;
}

static const char of_the_machine[] = "nothing more can be done on it in this process; dmesg (Xid) "
                                     "and nvidia-smi say what happened";
static const char of_a_kernel[] = "a kernel of this process has failed, and its context with it: "
                                  "end the process; compute-sanitizer names the access";
static const char of_peers[] = "nvidia-smi topo -p2p rw says which GPUs reach each other; give "
                               "both ends the same GPU, or two with NVLink";

/* Lost: cuda.h says of it that all further work returns the same, and that the process has to be
 * ended; or the context is gone. Other errors mean neither of these, and nothing more precise is
 * known of them. */
static const struct failure {
  cuda_status status;
  bool lost;
  int code;
  const char *remedy;
} failures[] = {
    {CUDA_INVALID_VALUE, false, -EINVAL,
     "the driver takes no such address, length or flag: is the memory still there?"},
    {CUDA_OUT_OF_MEMORY, false, -ENOMEM,
     "ask for less (ring, message, streams), or end what else uses it (nvidia-smi)"},
    {CUDA_DEINITIALIZED, true, -EIO,
     "the process is ending, and the driver has been unloaded: close memory before exit()"},
    {CUDA_DEVICE_UNAVAILABLE, false, -EBUSY,
     "another process has it for itself (nvidia-smi -q -d COMPUTE), or it is prohibited"},
    {CUDA_INVALID_CONTEXT, false, -EIO,
     "the device's primary context is not there: was it reset (cudaDeviceReset) meanwhile?"},
    {CUDA_MAP_FAILED, false, -EIO, "the driver cannot map it; dmesg (NVRM) says more"},
    {CUDA_NO_BINARY_FOR_GPU, false, -ENODEV, "build Penstock with an nvcc that knows this GPU"},
    {CUDA_ECC_UNCORRECTABLE, true, -EIO,
     "the GPU's memory has failed; nvidia-smi -q -d ECC says where"},
    {CUDA_PEER_ACCESS_UNSUPPORTED, false, -EXDEV, of_peers},
    {CUDA_NVLINK_UNCORRECTABLE, true, -EIO, "NVLink has failed; nvidia-smi nvlink -e says where"},
    {CUDA_CONTAINED, true, -EIO, of_the_machine},
    {CUDA_OPERATING_SYSTEM, false, -EIO,
     "the operating system refused the driver: check ulimit -a, the container's limits, dmesg"},
    {CUDA_INVALID_HANDLE, false, -EINVAL,
     "the stream, event or handle that was passed in does not belong to this process, or exists no "
     "longer"},
    {CUDA_ILLEGAL_ADDRESS, true, -EIO,
     "a copy or kernel touched memory that is not there: was a region freed too early? "
     "compute-sanitizer names the access"},
    {CUDA_LAUNCH_OUT_OF_RESOURCES, false, -EIO,
     "the kernel did not start, for it asks for more registers or threads than this GPU gives: "
     "build Penstock with an nvcc that knows this GPU"},
    {CUDA_LAUNCH_TIMEOUT, true, -EIO,
     "a kernel ran longer than a GPU with a display lets it: use one without a display"},
    {CUDA_PEER_ACCESS_NOT_ENABLED, false, -EXDEV, of_peers},
    {CUDA_CONTEXT_IS_DESTROYED, true, -EIO,
     "other code of this process has reset the device (cudaDeviceReset, "
     "cuDevicePrimaryCtxReset): let it do so after the memory is closed"},
    {CUDA_ASSERT, true, -EIO, of_a_kernel},
    {CUDA_TOO_MANY_PEERS, false, -EXDEV,
     "a GPU has access to a few peers at a time, eight without NVSwitch: use fewer of them in one "
     "process"},
    {CUDA_ALREADY_REGISTERED, false, -EBUSY,
     "other code of this process has pinned it or a part of it (cudaHostRegister): leave that to "
     "one of the two"},
    {CUDA_NOT_REGISTERED, false, -EINVAL, "other code of this process has unregistered it"},
    {CUDA_HARDWARE_STACK_ERROR, true, -EIO, of_a_kernel},
    {CUDA_ILLEGAL_INSTRUCTION, true, -EIO, of_a_kernel},
    {CUDA_MISALIGNED_ADDRESS, true, -EIO, of_a_kernel},
    {CUDA_INVALID_ADDRESS_SPACE, true, -EIO, of_a_kernel},
    {CUDA_INVALID_PC, true, -EIO, of_a_kernel},
    {CUDA_LAUNCH_FAILED, true, -EIO, of_the_machine},
    {CUDA_TENSOR_MEMORY_LEAK, true, -EIO, of_a_kernel},
    {CUDA_NOT_PERMITTED, false, -EPERM,
     "the driver forbids it here: check the container's devices and capabilities"},
    {CUDA_NOT_SUPPORTED, false, -EOPNOTSUPP, "this GPU, or its driver, cannot do that"},
    {CUDA_MPS_CLIENT_TERMINATED, true, -EIO,
     "the MPS server has ended this client: check its log, and start the process anew"},
    {CUDA_EXTERNAL_DEVICE, true, -EIO, of_the_machine},
    {CUDA_UNKNOWN, true, -EIO, of_the_machine},
};

static const struct failure *cuda_error_failure_of(cuda_status status)
{
  static const struct failure other = {.code = -EIO, .remedy = "dmesg (NVRM) may say more"};
  for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
    if (failures[i].status == status)
      return &failures[i];
  return &other;
}

bool cuda_is_lost(cuda_status status)
{
  return cuda_error_failure_of(status)->lost;
}

static int cuda_error_say_lost(struct pst_memory *memory, const char *call, cuda_status status)
{
  pthread_mutex_lock(&memory->lock);
  bool said = memory->lost;
  memory->lost = true;
  pthread_mutex_unlock(&memory->lock);
  if (!said)
    cuda_error_log(memory, "%s: %s is lost: %s; %s", call, memory->uuid,
                   cuda_status_text(memory->driver, status).text,
                   cuda_error_failure_of(status)->remedy);
  return -EIO;
}

int cuda_failed(struct pst_memory *memory, const char *call, cuda_status status)
{
  const struct failure *failure = cuda_error_failure_of(status);
  if (failure->lost)
    return cuda_error_say_lost(memory, call, status);
  if (status == CUDA_OUT_OF_MEMORY)
    return cuda_refuse_device(memory, CUDA_ASKED(call, 0), "the driver", status);
  cuda_error_log(memory, "%s: %s; %s", call, cuda_status_text(memory->driver, status).text,
                 failure->remedy);
  return failure->code;
}

#define MIB(bytes) ((double)(bytes) / 1048576.0)

/* "23.0 MiB of", or what a call takes for itself. */
static struct cuda_text cuda_error_amount(uint64_t length)
{
  struct cuda_text out = {"the memory it needs of"};
  if (length)
    snprintf(out.text, sizeof(out.text), "%.1f MiB of", MIB(length));
  return out;
}

struct cuda_text cuda_lower_text(const struct pst_alloc_params *params)
{
  struct cuda_text out = {"ask for less"};
  if (params->lower)
    snprintf(out.text, sizeof(out.text), "lower %s", params->lower);
  return out;
}

int cuda_refuse_device(struct pst_memory *memory, const struct pst_alloc_params *params,
                       const char *call, cuda_status status)
{
  size_t available = 0, total = 0;
  if (status != CUDA_OUT_OF_MEMORY)
    return cuda_failed(memory, call, status);
  if (memory->shared) {
    cuda_enter(memory);
    memory->driver->MemGetInfo(&available, &total);
    cuda_leave(memory);
  }
  cuda_error_log(memory,
                 "%s: cannot get %s %s: %s: %s; %.1f of %.1f MiB are free: %s, or end what else "
                 "uses the GPU (nvidia-smi)",
                 params->label, cuda_error_amount(params->length).text, memory->name, call,
                 cuda_status_text(memory->driver, status).text, MIB(available), MIB(total),
                 cuda_lower_text(params).text);
  return -ENOMEM;
}

/* MemAvailable of /proc/meminfo, in bytes; 0: not known. */
static uint64_t cuda_error_host_available(void)
{
  unsigned long long kib = 0;
  char line[128];
  FILE *file = fopen("/proc/meminfo", "re");
  while (file && kib == 0 && fgets(line, sizeof(line), file))
    if (sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
      kib = 0;
  if (file)
    fclose(file);
  return kib << 10;
}

int cuda_refuse_host(struct pst_memory *memory, const struct pst_alloc_params *params,
                     const char *call, const char *why)
{
  cuda_error_log(memory,
                 "%s: cannot get %.1f MiB of pinned host memory: %s: %s; the machine has %.1f MiB "
                 "available: %s, free host memory, or raise the container's limit",
                 params->label, MIB(params->length), call, why, MIB(cuda_error_host_available()),
                 cuda_lower_text(params).text);
  return -ENOMEM;
}

int cuda_refuse_pinned(struct pst_memory *memory, const struct pst_alloc_params *params,
                       const char *call, cuda_status status)
{
  if (status != CUDA_OUT_OF_MEMORY)
    return cuda_failed(memory, call, status);
  return cuda_refuse_host(memory, params, call, cuda_status_text(memory->driver, status).text);
}
