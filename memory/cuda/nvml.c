/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's management library, which alone knows the state of BAR1. Bound at run time, by
 * declarations of our own (nvml.h of CUDA 12, which keeps these since NVML 3): a machine
 * without it is asked nothing. */
#include <dlfcn.h>
#include <string.h>

#include "device_memory.h"

#define SONAME "libnvidia-ml.so.1"

typedef struct nvmlDevice_st *nvml_device;
struct nvml_bar1 { /* nvmlBAR1Memory_t */
  unsigned long long total, free, used;
};

static struct {
  int (*init)(void);
  int (*handle)(const char *uuid, nvml_device *device);
  int (*bar1)(nvml_device device, struct nvml_bar1 *memory);
} nvml;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static enum { UNKNOWN, PRESENT, ABSENT } state;

static bool cuda_nvml_find(void *library, const char *name, void *function)
{
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof(symbol));
  return symbol;
}

static bool cuda_nvml_bind(const struct pst_host *host)
{
  void *library;
  return host->library_open(host, SONAME, &library) == 0 &&
         cuda_nvml_find(library, "nvmlInit_v2", &nvml.init) &&
         cuda_nvml_find(library, "nvmlDeviceGetHandleByUUID", &nvml.handle) &&
         cuda_nvml_find(library, "nvmlDeviceGetBAR1MemoryInfo", &nvml.bar1) && nvml.init() == 0;
}

bool cuda_window_read(const struct pst_memory *memory, struct cuda_window *window)
{
  struct nvml_bar1 found;
  nvml_device device;
  pthread_mutex_lock(&lock);
  if (state == UNKNOWN)
    state = cuda_nvml_bind(memory->host) ? PRESENT : ABSENT;
  bool there = state == PRESENT;
  pthread_mutex_unlock(&lock);
  if (!there || nvml.handle(memory->uuid, &device) != 0 || nvml.bar1(device, &found) != 0) {
    cuda_log(memory, PST_LOG_DEBUG, "NVML (" SONAME ") does not tell what BAR1 has free");
    return false;
  }
  *window = (struct cuda_window){.total = found.total, .free = found.free};
  return true;
}
