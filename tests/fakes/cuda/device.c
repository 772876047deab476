/* SPDX-License-Identifier: Apache-2.0 */
/* The fake CUDA driver: devices, contexts, errors. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fake fake = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
struct fake_config fake_config;

static struct CUctx_st contexts[FAKE_DEVICES_MAX];
static uint32_t retained[FAKE_DEVICES_MAX];
static _Thread_local cuda_context stack[16];
static _Thread_local unsigned int depth;

static uint64_t setting(const char *name, uint64_t otherwise)
{
  const char *text = getenv("FAKE_CUDA");
  size_t length = strlen(name);
  while (text && *text) {
    if (strncmp(text, name, length) == 0 &&
        (text[length] == '=' || text[length] == ',' || text[length] == '\0'))
      return text[length] == '=' ? strtoull(text + length + 1, NULL, 0) : 1;
    text = strchr(text, ',');
    if (text)
      text++;
  }
  return otherwise;
}

static void configure(void)
{
  fake_config = (struct fake_config){
      .delay_ns = setting("delay_us", 200) * 1000,
      .memory = setting("memory_mib", 2048) << 20,
      .host_memory = setting("host_mib", 4096) << 20,
      .lost_after = setting("lost_after", 0),
      .spoil = setting("spoil", 0),
      .together = setting("together", 1),
      .devices = (int)setting("devices", 1),
      .first = (int)setting("first", 0),
      .capability = (int)setting("capability", 90),
      .version = (int)setting("version", 13000),
      .init = (int)setting("init", 0),
      .integrated = (int)setting("integrated", 0),
      .page_tables = setting("page_tables", 0),
      .host_dmabuf = setting("host_dmabuf", 0),
      .no_copies = setting("no_copies", 0),
      .apart = setting("apart", 0),
      .no_dmabuf = setting("no_dmabuf", 0),
      .no_vmm = setting("no_vmm", 0),
      .no_posix = setting("no_posix", 0),
      .ipc_refused = setting("ipc_refused", 0),
      .no_peer = setting("no_peer", 0),
      .no_register = setting("no_register", 0),
      .no_kernels = setting("no_kernels", 0),
      .no_flush = setting("no_flush", 0),
      .late_writes = setting("late_writes", 0),
  };
  if (fake_config.devices > FAKE_DEVICES_MAX)
    fake_config.devices = FAKE_DEVICES_MAX;
  fake_config.devices -= fake_config.first < fake_config.devices ? fake_config.first : 0;
}

static pthread_once_t configured = PTHREAD_ONCE_INIT;

cuda_status fake_Init(unsigned int flags)
{
  pthread_once(&configured, configure);
  if (flags)
    return CUDA_INVALID_VALUE;
  if (fake_config.init)
    return fake_config.init;
  if (fake_config.devices == 0)
    return CUDA_NO_DEVICE;
  fake.initialised = true;
  return CUDA_SUCCESS;
}

cuda_status fake_DriverGetVersion(int *version)
{
  pthread_once(&configured, configure);
  *version = fake_config.version;
  return CUDA_SUCCESS;
}

static const struct {
  cuda_status status;
  const char *name, *text;
} statuses[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {CUDA_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
     "peer access is not supported between these two devices"},
    {CUDA_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS",
     "an illegal memory access was encountered"},
    {CUDA_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "part or all of the requested memory range is already mapped"},
    {CUDA_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "pointer does not correspond to a registered memory region"},
    {CUDA_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {CUDA_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

static cuda_status status_text(cuda_status status, const char **out, bool name)
{
  for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
    if (statuses[i].status == status) {
      *out = name ? statuses[i].name : statuses[i].text;
      return CUDA_SUCCESS;
    }
  *out = NULL;
  return CUDA_INVALID_VALUE;
}

cuda_status fake_GetErrorName(cuda_status status, const char **name)
{
  return status_text(status, name, true);
}

cuda_status fake_GetErrorString(cuda_status status, const char **text)
{
  return status_text(status, text, false);
}

static bool is_device(cuda_device device)
{
  return fake.initialised && device >= 0 && device < fake_config.devices;
}

cuda_status fake_DeviceGetCount(int *count)
{
  *count = fake_config.devices;
  return fake.initialised ? CUDA_SUCCESS : CUDA_NOT_INITIALIZED;
}

cuda_status fake_DeviceGet(cuda_device *device, int ordinal)
{
  if (!is_device(ordinal))
    return CUDA_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

cuda_status fake_DeviceGetName(char *name, int length, cuda_device device)
{
  if (!is_device(device))
    return CUDA_INVALID_DEVICE;
  snprintf(name, (size_t)length, "Fake GPU");
  return CUDA_SUCCESS;
}

cuda_status fake_DeviceGetUuid(struct cuda_uuid *uuid, cuda_device device)
{
  if (!is_device(device))
    return CUDA_INVALID_DEVICE;
  for (int i = 0; i < 16; i++)
    uuid->bytes[i] =
        (unsigned char)(0xfa + 17 * i + (i == 0 ? 16 * (device + fake_config.first) : 0));
  return CUDA_SUCCESS;
}

cuda_status fake_DeviceCanAccessPeer(int *can, cuda_device device, cuda_device peer)
{
  *can = device != peer && !fake_config.no_peer;
  return is_device(device) && is_device(peer) ? CUDA_SUCCESS : CUDA_INVALID_DEVICE;
}

cuda_status fake_DeviceTotalMem(size_t *bytes, cuda_device device)
{
  *bytes = fake_config.memory;
  return is_device(device) ? CUDA_SUCCESS : CUDA_INVALID_DEVICE;
}

cuda_status fake_DeviceGetAttribute(int *value, int attribute, cuda_device device)
{
  if (!is_device(device))
    return CUDA_INVALID_DEVICE;
  switch (attribute) {
  case CUDA_ATTRIBUTE_MAX_PITCH:
    *value = INT32_MAX;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_MULTIPROCESSORS:
    *value = 4;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_PCI_BUS:
    *value = 0xb7 + device + fake_config.first;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_PCI_DEVICE:
  case CUDA_ATTRIBUTE_PCI_DOMAIN:
    *value = 0;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_INTEGRATED:
    *value = device < fake_config.integrated;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_HOST_PAGE_TABLES:
    *value = fake_config.page_tables;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_HOST_ALLOC_DMABUF:
    *value = fake_config.host_dmabuf;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_HOST_REGISTER:
    *value = !fake_config.no_register;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_HOST_POINTER_SAME:
    *value = !fake_config.apart;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CUDA_ATTRIBUTE_RDMA:
    *value = 1;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_CAPABILITY_MAJOR:
    *value = fake_config.capability / 10;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_CAPABILITY_MINOR:
    *value = fake_config.capability % 10;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_VMM:
  case CUDA_ATTRIBUTE_RDMA_WITH_VMM:
    *value = !fake_config.no_vmm;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_POSIX_HANDLES:
    *value = !fake_config.no_posix;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_FLUSH_OPTIONS:
    *value = fake_config.no_flush ? 0 : CUDA_FLUSH_OPTION_HOST;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_WRITES_ORDERING:
    *value = 0;
    return CUDA_SUCCESS;
  case CUDA_ATTRIBUTE_DMABUF:
    *value = !fake_config.no_dmabuf;
    return CUDA_SUCCESS;
  }
  return CUDA_INVALID_VALUE;
}

/* ---- Contexts ---------------------------------------------------------------- */

cuda_status fake_DevicePrimaryCtxRetain(cuda_context *context, cuda_device device)
{
  if (!is_device(device))
    return CUDA_INVALID_DEVICE;
  pthread_mutex_lock(&fake.mutex);
  retained[device]++;
  contexts[device].device = device;
  pthread_mutex_unlock(&fake.mutex);
  *context = &contexts[device];
  return CUDA_SUCCESS;
}

cuda_status fake_DevicePrimaryCtxRelease(cuda_device device)
{
  if (!is_device(device) || retained[device] == 0)
    return CUDA_INVALID_CONTEXT;
  pthread_mutex_lock(&fake.mutex);
  if (--retained[device] == 0)
    fake_modules_end(device);
  pthread_mutex_unlock(&fake.mutex);
  return CUDA_SUCCESS;
}

cuda_context fake_current(void)
{
  return depth ? stack[depth - 1] : NULL;
}

cuda_status fake_usable(void)
{
  if (!fake.initialised)
    return CUDA_NOT_INITIALIZED;
  if (!fake_current() || retained[fake_current()->device] == 0)
    return CUDA_INVALID_CONTEXT;
  pthread_mutex_lock(&fake.mutex);
  cuda_status status = fake.lost;
  pthread_mutex_unlock(&fake.mutex);
  return status;
}

cuda_status fake_CtxGetCurrent(cuda_context *context)
{
  *context = fake_current();
  return CUDA_SUCCESS;
}

cuda_status fake_CtxPushCurrent(cuda_context context)
{
  if (depth == sizeof(stack) / sizeof(stack[0]))
    return CUDA_INVALID_CONTEXT;
  stack[depth++] = context;
  return CUDA_SUCCESS;
}

cuda_status fake_CtxPopCurrent(cuda_context *context)
{
  if (depth == 0)
    return CUDA_INVALID_CONTEXT;
  *context = stack[--depth];
  return CUDA_SUCCESS;
}

cuda_status fake_CtxEnablePeerAccess(cuda_context peer, unsigned int flags)
{
  static bool enabled[FAKE_DEVICES_MAX][FAKE_DEVICES_MAX];
  cuda_status status = fake_usable();
  if (status != CUDA_SUCCESS)
    return status;
  if (flags || !peer || peer == fake_current())
    return CUDA_INVALID_VALUE;
  if (fake_config.no_peer)
    return CUDA_PEER_ACCESS_UNSUPPORTED;
  pthread_mutex_lock(&fake.mutex);
  bool *there = &enabled[fake_current()->device][peer->device];
  status = *there ? CUDA_PEER_ACCESS_ENABLED : CUDA_SUCCESS;
  *there = true;
  pthread_mutex_unlock(&fake.mutex);
  return status;
}

/* ---- Functions that the plugin finds by dlsym --------------------------------- */

cuda_status cuGetProcAddress(const char *name, void **address, int version, uint64_t flags);
cuda_status cuDriverGetVersion(int *version);

PST_EXPORT cuda_status cuDriverGetVersion(int *version)
{
  return fake_DriverGetVersion(version);
}

PST_EXPORT cuda_status cuGetProcAddress(const char *name, void **address, int version,
                                        uint64_t flags)
{
  static const struct {
    const char *name;
    void *address;
  } calls[] = {
#define X(call, params) {"cu" #call, (void *)fake_##call},
      CUDA_CALLS(X)
#undef X
  };
  (void)flags;
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
    if (strcmp(calls[i].name, name) == 0 && version <= fake_config.version) {
      *address = calls[i].address;
      return CUDA_SUCCESS;
    }
  *address = NULL;
  return CUDA_NOT_FOUND;
}
