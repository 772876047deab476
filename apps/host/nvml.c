/* SPDX-License-Identifier: Apache-2.0 */
/* Asks NVML, which is bound when it is asked: the program runs where there is no driver. */
#include <dlfcn.h>
#include <json-c/json.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "json_put.h"
#include "sources.h"

#define SONAME "libnvidia-ml.so.1"

/* nvml.h of the NVML API reference, as far as it is used here. */
typedef void *nvml_device;
struct nvml_pci {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct nvml_bar1 {
  unsigned long long total, free, used;
};
struct nvml_memory {
  unsigned long long total, free, used;
};
#define NVML_UNCORRECTED 1
#define NVML_VOLATILE 0

struct nvml {
  int (*Init)(void);
  int (*Shutdown)(void);
  const char *(*ErrorString)(int status);
  int (*SystemGetDriverVersion)(char *version, unsigned length);
  int (*SystemGetCudaDriverVersion)(int *version);
  int (*DeviceGetCount)(unsigned *count);
  int (*DeviceGetHandleByIndex)(unsigned index, nvml_device *device);
  int (*DeviceGetName)(nvml_device device, char *name, unsigned length);
  int (*DeviceGetUUID)(nvml_device device, char *uuid, unsigned length);
  int (*DeviceGetPciInfo)(nvml_device device, struct nvml_pci *pci);
  int (*DeviceGetMemoryInfo)(nvml_device device, struct nvml_memory *memory);
  int (*DeviceGetBAR1MemoryInfo)(nvml_device device, struct nvml_bar1 *bar1);
  int (*DeviceGetPersistenceMode)(nvml_device device, int *mode);
  int (*DeviceGetEccMode)(nvml_device device, int *current, int *pending);
  int (*DeviceGetTotalEccErrors)(nvml_device device, int type, int since,
                                 unsigned long long *count);
  int (*DeviceGetMigMode)(nvml_device device, unsigned *current, unsigned *pending);
  int (*DeviceGetCurrentClocksThrottleReasons)(nvml_device device, unsigned long long *reasons);
};

/* False: the library is older than one of these calls. */
static bool nvml_bind(void *library, struct nvml *nvml)
{
  const struct {
    const char *name;
    void *to;
  } calls[] = {
      {"nvmlInit_v2", &nvml->Init},
      {"nvmlShutdown", &nvml->Shutdown},
      {"nvmlErrorString", &nvml->ErrorString},
      {"nvmlSystemGetDriverVersion", &nvml->SystemGetDriverVersion},
      {"nvmlSystemGetCudaDriverVersion", &nvml->SystemGetCudaDriverVersion},
      {"nvmlDeviceGetCount_v2", &nvml->DeviceGetCount},
      {"nvmlDeviceGetHandleByIndex_v2", &nvml->DeviceGetHandleByIndex},
      {"nvmlDeviceGetName", &nvml->DeviceGetName},
      {"nvmlDeviceGetUUID", &nvml->DeviceGetUUID},
      {"nvmlDeviceGetPciInfo_v3", &nvml->DeviceGetPciInfo},
      {"nvmlDeviceGetMemoryInfo", &nvml->DeviceGetMemoryInfo},
      {"nvmlDeviceGetBAR1MemoryInfo", &nvml->DeviceGetBAR1MemoryInfo},
      {"nvmlDeviceGetPersistenceMode", &nvml->DeviceGetPersistenceMode},
      {"nvmlDeviceGetEccMode", &nvml->DeviceGetEccMode},
      {"nvmlDeviceGetTotalEccErrors", &nvml->DeviceGetTotalEccErrors},
      {"nvmlDeviceGetMigMode", &nvml->DeviceGetMigMode},
  };
  /* Later drivers are to drop the name. */
  void *throttled = dlsym(library, "nvmlDeviceGetCurrentClocksThrottleReasons");

  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    void *found = dlsym(library, calls[i].name);
    if (!found)
      return false;
    memcpy(calls[i].to, &found, sizeof(found));
  }
  memcpy(&nvml->DeviceGetCurrentClocksThrottleReasons, &throttled, sizeof(throttled));
  return true;
}

static void nvml_add_modes(const struct nvml *nvml, nvml_device device, struct json_object *object)
{
  int current, pending;
  unsigned now, then;
  unsigned long long errors, reasons;

  if (nvml->DeviceGetPersistenceMode(device, &current) == 0)
    app_json_put_bool(object, "persistence", current != 0);
  if (nvml->DeviceGetEccMode(device, &current, &pending) == 0) {
    app_json_put_bool(object, "ecc", current != 0);
    app_json_put_bool(object, "ecc_pending", pending != 0);
  }
  if (nvml->DeviceGetTotalEccErrors(device, NVML_UNCORRECTED, NVML_VOLATILE, &errors) == 0)
    app_json_put_uint(object, "ecc_errors", errors);
  if (nvml->DeviceGetMigMode(device, &now, &then) == 0)
    app_json_put_bool(object, "mig", now != 0);
  if (nvml->DeviceGetCurrentClocksThrottleReasons &&
      nvml->DeviceGetCurrentClocksThrottleReasons(device, &reasons) == 0)
    app_json_put_uint(object, "throttled", reasons);
}

/* Reads a GPU; values that NVML has no answer for are left out. */
static struct json_object *nvml_gpu(const struct nvml *nvml, unsigned index)
{
  struct json_object *object = json_object_new_object();
  struct nvml_pci pci = {0};
  struct nvml_memory memory;
  struct nvml_bar1 bar1;
  nvml_device device;
  char text[96];

  app_json_put_uint(object, "index", index);
  if (nvml->DeviceGetHandleByIndex(index, &device) != 0)
    return object;
  if (nvml->DeviceGetName(device, text, sizeof(text)) == 0)
    app_json_put_text(object, "name", text);
  if (nvml->DeviceGetUUID(device, text, sizeof(text)) == 0)
    app_json_put_text(object, "uuid", text);
  if (nvml->DeviceGetPciInfo(device, &pci) == 0)
    app_json_put_text(object, "pci", pci.bus_id);
  if (nvml->DeviceGetMemoryInfo(device, &memory) == 0)
    app_json_put_uint(object, "memory_bytes", memory.total);
  if (nvml->DeviceGetBAR1MemoryInfo(device, &bar1) == 0) {
    app_json_put_uint(object, "bar1_bytes", bar1.total);
    app_json_put_uint(object, "bar1_used", bar1.used);
  }
  nvml_add_modes(nvml, device, object);
  return object;
}

static struct json_object *nvml_ask_all(const struct nvml *nvml)
{
  struct json_object *object = json_object_new_object(), *list = json_object_new_array();
  unsigned count = 0;
  int cuda;
  char text[96];

  if (nvml->SystemGetDriverVersion(text, sizeof(text)) == 0)
    app_json_put_text(object, "driver", text);
  if (nvml->SystemGetCudaDriverVersion(&cuda) == 0)
    app_json_put_uint(object, "cuda", (uint64_t)cuda);
  if (nvml->DeviceGetCount(&count) == 0)
    for (unsigned i = 0; i < count; i++)
      json_object_array_add(list, nvml_gpu(nvml, i));
  json_object_object_add(object, "gpus", list);
  return object;
}

struct json_object *host_ask_nvml(char why[HOST_WHY_BYTES])
{
  void *library = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
  struct json_object *object;
  struct nvml nvml;
  int status;

  if (!library) {
    snprintf(why, HOST_WHY_BYTES, "there is no " SONAME ": the NVIDIA driver's library");
    return NULL;
  }
  /* The library stays: its threads and handlers may outlive a dlclose(). */
  if (!nvml_bind(library, &nvml)) {
    snprintf(why, HOST_WHY_BYTES, SONAME " is older than driver 450");
    return NULL;
  }
  if ((status = nvml.Init()) != 0) {
    snprintf(why, HOST_WHY_BYTES, "nvmlInit: %s", nvml.ErrorString(status));
    return NULL;
  }
  object = nvml_ask_all(&nvml);
  nvml.Shutdown();
  return object;
}
