/* SPDX-License-Identifier: Apache-2.0 */
/* A libnvidia-ml.so.1: BAR1 of the fake devices. FAKE_CUDA has bar1_mib=N, of which 16 MiB
 * are in use, and no_nvml, with which it does not start. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define USED (UINT64_C(16) << 20)

enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_FOUND = 6, DRIVER_NOT_LOADED = 9 };

struct bar1 {
  unsigned long long total, free, used;
};

int nvmlInit_v2(void);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device);
int nvmlDeviceGetBAR1MemoryInfo(void *device, struct bar1 *memory);

static int started;
static char device_;

EXPORT int nvmlInit_v2(void)
{
  const char *script = getenv("FAKE_CUDA");
  started = !script || !strstr(script, "no_nvml");
  return started ? SUCCESS : DRIVER_NOT_LOADED;
}

EXPORT int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{
  if (!started)
    return UNINITIALIZED;
  if (strncmp(uuid, "GPU-", 4) != 0)
    return NOT_FOUND;
  *device = &device_;
  return SUCCESS;
}

EXPORT int nvmlDeviceGetBAR1MemoryInfo(void *device, struct bar1 *memory)
{
  const char *script = getenv("FAKE_CUDA");
  const char *size = script ? strstr(script, "bar1_mib=") : NULL;
  if (device != &device_)
    return NOT_FOUND;
  memory->total = (size ? strtoull(size + 9, NULL, 10) : 65536) << 20;
  memory->used = USED;
  memory->free = memory->total > USED ? memory->total - USED : 0;
  return SUCCESS;
}
