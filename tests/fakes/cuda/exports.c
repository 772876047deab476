/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that an application which is linked with libcuda calls by name, as cuda.h names
 * them. */
#include "fake.h"

#include <string.h>

#define SAME(name, exported, params, arguments)                                                    \
  PST_EXPORT cuda_status exported params;                                                          \
  PST_EXPORT cuda_status exported params                                                           \
  {                                                                                                \
    return fake_##name arguments;                                                                  \
  }

SAME(Init, cuInit, (unsigned int flags), (flags))
SAME(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (cuda_context * context, cuda_device device),
     (context, device))
SAME(CtxPushCurrent, cuCtxPushCurrent_v2, (cuda_context context), (context))
SAME(ModuleLoadData, cuModuleLoadData, (cuda_module * module, const void *image), (module, image))
SAME(ModuleGetFunction, cuModuleGetFunction,
     (cuda_function * function, cuda_module module, const char *name), (function, module, name))
SAME(StreamCreate, cuStreamCreate, (cuda_stream * stream, unsigned int flags), (stream, flags))
SAME(StreamSynchronize, cuStreamSynchronize, (cuda_stream stream), (stream))
SAME(StreamDestroy, cuStreamDestroy_v2, (cuda_stream stream), (stream))
SAME(MemHostAlloc, cuMemHostAlloc, (void **address, size_t length, unsigned int flags),
     (address, length, flags))
SAME(MemFreeHost, cuMemFreeHost, (void *address), (address))
SAME(MemAlloc, cuMemAlloc_v2, (cuda_pointer * address, size_t length), (address, length))
SAME(LaunchKernel, cuLaunchKernel,
     (cuda_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
      unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
      cuda_stream stream, void **params, void **extra),
     (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared, stream, params, extra))

#define WAIT_GEQ 0u
PST_EXPORT cuda_status cuStreamWaitValue32_v2(cuda_stream stream, cuda_pointer address,
                                              uint32_t value, unsigned int flags);

cuda_status cuStreamWaitValue32_v2(cuda_stream stream, cuda_pointer address, uint32_t value,
                                   unsigned int flags)
{
  return flags == WAIT_GEQ ? fake_stream_gate(stream, address, value) : CUDA_INVALID_VALUE;
}

PST_EXPORT cuda_status cuMemAllocManaged(cuda_pointer *address, size_t length, unsigned int flags);

cuda_status cuMemAllocManaged(cuda_pointer *address, size_t length, unsigned int flags)
{
  return flags == 1 /* CU_MEM_ATTACH_GLOBAL */ ? fake_MemAllocManaged(address, length)
                                               : CUDA_INVALID_VALUE;
}

/* As the driver's, they wait for no non-blocking stream. */
PST_EXPORT cuda_status cuMemsetD8_v2(cuda_pointer to, unsigned char value, size_t length);
PST_EXPORT cuda_status cuMemcpyDtoH_v2(void *to, cuda_pointer from, size_t length);

cuda_status cuMemsetD8_v2(cuda_pointer to, unsigned char value, size_t length)
{
  uint8_t *bytes = fake_reach(to, length);
  if (bytes)
    memset(bytes, value, length);
  return bytes ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

cuda_status cuMemcpyDtoH_v2(void *to, cuda_pointer from, size_t length)
{
  const uint8_t *bytes = fake_reach(from, length);
  if (bytes)
    memcpy(to, bytes, length);
  return bytes ? CUDA_SUCCESS : CUDA_INVALID_VALUE;
}

/* Done before it returns, and behind nothing of the stream's. */
PST_EXPORT cuda_status cuMemsetD8Async(cuda_pointer to, unsigned char value, size_t length,
                                       cuda_stream stream);

cuda_status cuMemsetD8Async(cuda_pointer to, unsigned char value, size_t length, cuda_stream stream)
{
  return stream ? cuMemsetD8_v2(to, value, length) : CUDA_INVALID_HANDLE;
}
