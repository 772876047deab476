/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA context of the GPU whose memory UCX copies. */
#include "cuda.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define CUDA_POINTER_DEVICE_ORDINAL 9 /* CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL */

/* CUresult and CUdevice are int, CUcontext is a pointer, CUdeviceptr has 64 bits. */
struct ucx_cuda {
  void *library;
  void *context;
  int device;
  int (*pointer_attributes)(unsigned int count, int *attributes, void **values, uint64_t address);
  int (*device_get)(int *device, int ordinal);
  int (*retain)(void **context, int device);
  int (*release)(int device);
  int (*push)(void *context);
  int (*pop)(void **context);
};

static bool ucx_cuda_bind(struct ucx_cuda *cuda)
{
  const struct {
    const char *name;
    void *call;
  } calls[] = {
      {"cuPointerGetAttributes", &cuda->pointer_attributes},
      {"cuDeviceGet", &cuda->device_get},
      {"cuDevicePrimaryCtxRetain", &cuda->retain},
      {"cuDevicePrimaryCtxRelease_v2", &cuda->release},
      {"cuCtxPushCurrent_v2", &cuda->push},
      {"cuCtxPopCurrent_v2", &cuda->pop},
  };

  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    void *symbol = dlsym(cuda->library, calls[i].name);
    if (!symbol)
      return false;
    memcpy(calls[i].call, &symbol, sizeof(symbol));
  }
  return true;
}

/* cuPointerGetAttribute() would need a current context. */
static bool ucx_cuda_retain(struct ucx_cuda *cuda, uint64_t address)
{
  int ordinal = 0, attribute = CUDA_POINTER_DEVICE_ORDINAL;
  void *value = &ordinal;

  return cuda->pointer_attributes(1, &attribute, &value, address) == 0 &&
         cuda->device_get(&cuda->device, ordinal) == 0 &&
         cuda->retain(&cuda->context, cuda->device) == 0;
}

struct ucx_cuda *ucx_cuda_open(uint64_t address)
{
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  struct ucx_cuda *made = library ? calloc(1, sizeof(*made)) : NULL;

  if (made) {
    made->library = library;
    if (ucx_cuda_bind(made) && ucx_cuda_retain(made, address))
      return made;
  }
  free(made);
  if (library)
    dlclose(library);
  return NULL;
}

void ucx_cuda_close(struct ucx_cuda *cuda)
{
  if (!cuda)
    return;
  cuda->release(cuda->device);
  dlclose(cuda->library);
  free(cuda);
}

void ucx_cuda_push(const struct ucx_cuda *cuda)
{
  cuda->push(cuda->context);
}

void ucx_cuda_pop(const struct ucx_cuda *cuda)
{
  void *context;

  cuda->pop(&context);
}
