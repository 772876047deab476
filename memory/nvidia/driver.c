/* SPDX-License-Identifier: Apache-2.0 */
/* Binds CUDA's driver at run time. */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SONAME "libcuda.so.1"

/* CUDA 11.3's; 12.0 gave a longer one under a versioned name and keeps this. */
typedef cuda_status get_address(const char *name, void **address, int version, uint64_t flags);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cuda_driver bound;

static int cuda_driver_refuse(struct cuda_refusal *refusal, const char *reason, const char *remedy)
{
  snprintf(refusal->reason, sizeof(refusal->reason), "%s", reason);
  snprintf(refusal->remedy, sizeof(refusal->remedy), "%s", remedy);
  return -ENODEV;
}

/* Why cuInit() failed, and the remedy, by status. */
static int cuda_driver_refuse_init(const struct cuda_driver *driver, cuda_status status,
                                   struct cuda_refusal *refusal)
{
  const char *name = NULL, *text = NULL;
  switch (status) {
  case CUDA_NO_DEVICE:
    return cuda_driver_refuse(
        refusal, "the NVIDIA driver finds no CUDA device (CUDA_ERROR_NO_DEVICE)",
        "check nvidia-smi and CUDA_VISIBLE_DEVICES; in a container, start it with --gpus all");
  case CUDA_DRIVER_MISMATCH:
    return cuda_driver_refuse(refusal,
                              "libcuda.so.1 and the NVIDIA kernel module are of different versions "
                              "(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)",
                              "after a driver update, reload the kernel module or reboot");
  case CUDA_STUB_LIBRARY:
    return cuda_driver_refuse(refusal,
                              "libcuda.so.1 is the toolkit's stub, not the driver's library",
                              "take the toolkit's lib64/stubs off LD_LIBRARY_PATH");
  case CUDA_UNKNOWN:
  case CUDA_OPERATING_SYSTEM:
    return cuda_driver_refuse(
        refusal, "the NVIDIA driver does not start (CUDA_ERROR_UNKNOWN)",
        "is the kernel module loaded (lsmod | grep nvidia) and may this user open "
        "/dev/nvidia*? nvidia-smi says more");
  default:
    driver->GetErrorName(status, &name);
    driver->GetErrorString(status, &text);
    snprintf(refusal->reason, sizeof(refusal->reason), "cuInit: %s (%d): %s", name ? name : "error",
             status, text ? text : "unknown to this driver");
    snprintf(refusal->remedy, sizeof(refusal->remedy), "nvidia-smi says more");
    return -ENODEV;
  }
}

static int cuda_driver_refuse_version(int version, struct cuda_refusal *refusal)
{
  snprintf(refusal->reason, sizeof(refusal->reason),
           "the NVIDIA driver is for CUDA %d.%d; 11.7 or later is needed", version / 1000,
           version % 1000 / 10);
  snprintf(refusal->remedy, sizeof(refusal->remedy), "install driver 515 or later");
  return -ENODEV;
}

static int cuda_driver_bind_calls(get_address *address_of, struct cuda_driver *driver,
                                  struct cuda_refusal *refusal)
{
  const struct {
    const char *name;
    size_t at;
  } calls[] = {
#define X(name, params) {"cu" #name, offsetof(struct cuda_driver, name)},
      CUDA_CALLS(X)
#undef X
  };
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    void *address = NULL;
    if (address_of(calls[i].name, &address, CUDA_VERSION_LEAST, 0) != CUDA_SUCCESS || !address) {
      snprintf(refusal->reason, sizeof(refusal->reason), "libcuda.so.1 has no %s", calls[i].name);
      snprintf(refusal->remedy, sizeof(refusal->remedy), "install driver 515 or later");
      return -ENODEV;
    }
    memcpy((char *)driver + calls[i].at, &address, sizeof(address));
  }
  return 0;
}

static int cuda_driver_bind_library(const struct pst_host *host, struct cuda_driver *driver,
                                    struct cuda_refusal *refusal)
{
  void *library;
  if (host->library_open(host, SONAME, &library) < 0)
    return cuda_driver_refuse(
        refusal, "libcuda.so.1 is not installed: there is no NVIDIA driver here",
        "install NVIDIA's driver, 515 or later; in a container, start it with --gpus all");
  cuda_status (*version_of)(int *) = NULL;
  get_address *address_of = NULL;
  void *symbol = dlsym(library, "cuDriverGetVersion");
  memcpy(&version_of, &symbol, sizeof(symbol));
  symbol = dlsym(library, "cuGetProcAddress");
  memcpy(&address_of, &symbol, sizeof(symbol));
  if (!version_of || version_of(&driver->version) != CUDA_SUCCESS)
    return cuda_driver_refuse(refusal,
                              "libcuda.so.1 does not tell its version: it is not NVIDIA's driver",
                              "look which one is found: ldconfig -p | grep libcuda");
  if (driver->version < CUDA_VERSION_LEAST || !address_of)
    return cuda_driver_refuse_version(driver->version, refusal);
  int code = cuda_driver_bind_calls(address_of, driver, refusal);
  if (code)
    return code;
  cuda_status status = driver->Init(0);
  return status == CUDA_SUCCESS ? 0 : cuda_driver_refuse_init(driver, status, refusal);
}

int cuda_driver_bind(const struct pst_host *host, const struct cuda_driver **driver,
                     struct cuda_refusal *refusal)
{
  int code = 0;
  pthread_mutex_lock(&lock);
  if (bound.version == 0) {
    struct cuda_driver made = {0};
    code = cuda_driver_bind_library(host, &made, refusal);
    if (code == 0)
      bound = made;
  }
  pthread_mutex_unlock(&lock);
  if (code == 0)
    *driver = &bound;
  return code;
}
