/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver API as the plugins use it: declarations of our own, so that they
 * build without CUDA's headers, and bound at run time, so that they load without a
 * driver. tests/unit/memory/cuda/declarations.c holds them against cuda.h.
 */
#ifndef CUDA_DRIVER_H
#define CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/plugin.h>

/* The oldest driver that has all that is used here: CUDA 11.7, for
 * cuMemGetHandleForAddressRange. */
#define CUDA_VERSION_LEAST 11070

typedef int cuda_status; /* CUresult */
typedef int cuda_device; /* CUdevice */
typedef uint64_t cuda_pointer;
typedef struct CUctx_st *cuda_context;
typedef struct CUmod_st *cuda_module;
typedef struct CUfunc_st *cuda_function;
typedef struct CUstream_st *cuda_stream;
typedef struct CUevent_st *cuda_event;
typedef uint64_t cuda_handle; /* CUmemGenericAllocationHandle */

enum {
  CUDA_SUCCESS = 0,
  CUDA_INVALID_VALUE = 1,
  CUDA_OUT_OF_MEMORY = 2,
  CUDA_NOT_INITIALIZED = 3,
  CUDA_DEINITIALIZED = 4,
  CUDA_STUB_LIBRARY = 34,
  CUDA_DEVICE_UNAVAILABLE = 46,
  CUDA_NO_DEVICE = 100,
  CUDA_INVALID_DEVICE = 101,
  CUDA_INVALID_IMAGE = 200,
  CUDA_INVALID_CONTEXT = 201,
  CUDA_MAP_FAILED = 205,
  CUDA_NO_BINARY_FOR_GPU = 209,
  CUDA_ECC_UNCORRECTABLE = 214,
  CUDA_PEER_ACCESS_UNSUPPORTED = 217,
  CUDA_NVLINK_UNCORRECTABLE = 220,
  CUDA_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_CONTAINED = 226,
  CUDA_OPERATING_SYSTEM = 304,
  CUDA_INVALID_HANDLE = 400,
  CUDA_NOT_FOUND = 500,
  CUDA_NOT_READY = 600,
  CUDA_ILLEGAL_ADDRESS = 700,
  CUDA_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_LAUNCH_TIMEOUT = 702,
  CUDA_PEER_ACCESS_ENABLED = 704,
  CUDA_PEER_ACCESS_NOT_ENABLED = 705,
  CUDA_CONTEXT_IS_DESTROYED = 709,
  CUDA_ASSERT = 710,
  CUDA_TOO_MANY_PEERS = 711,
  CUDA_ALREADY_REGISTERED = 712,
  CUDA_NOT_REGISTERED = 713,
  CUDA_HARDWARE_STACK_ERROR = 714,
  CUDA_ILLEGAL_INSTRUCTION = 715,
  CUDA_MISALIGNED_ADDRESS = 716,
  CUDA_INVALID_ADDRESS_SPACE = 717,
  CUDA_INVALID_PC = 718,
  CUDA_LAUNCH_FAILED = 719,
  CUDA_TENSOR_MEMORY_LEAK = 721,
  CUDA_NOT_PERMITTED = 800,
  CUDA_NOT_SUPPORTED = 801,
  CUDA_SYSTEM_NOT_READY = 802,
  CUDA_DRIVER_MISMATCH = 803,
  CUDA_MPS_CLIENT_TERMINATED = 810,
  CUDA_EXTERNAL_DEVICE = 911,
  CUDA_UNKNOWN = 999,
};

enum cuda_attribute { /* CUdevice_attribute */
                      CUDA_ATTRIBUTE_MAX_PITCH = 11,
                      CUDA_ATTRIBUTE_MULTIPROCESSORS = 16,
                      CUDA_ATTRIBUTE_INTEGRATED = 18,
                      CUDA_ATTRIBUTE_PCI_BUS = 33,
                      CUDA_ATTRIBUTE_PCI_DEVICE = 34,
                      CUDA_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
                      CUDA_ATTRIBUTE_PCI_DOMAIN = 50,
                      CUDA_ATTRIBUTE_CAPABILITY_MAJOR = 75,
                      CUDA_ATTRIBUTE_CAPABILITY_MINOR = 76,
                      CUDA_ATTRIBUTE_HOST_POINTER_SAME =
                          91, /* ..._CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM */
                      CUDA_ATTRIBUTE_HOST_REGISTER = 99,
                      CUDA_ATTRIBUTE_HOST_PAGE_TABLES =
                          100, /* ..._PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES */
                      CUDA_ATTRIBUTE_VMM = 102,
                      CUDA_ATTRIBUTE_POSIX_HANDLES = 103,
                      CUDA_ATTRIBUTE_RDMA_WITH_VMM = 110,
                      CUDA_ATTRIBUTE_RDMA = 116,
                      CUDA_ATTRIBUTE_FLUSH_OPTIONS = 117,
                      CUDA_ATTRIBUTE_WRITES_ORDERING = 118,
                      CUDA_ATTRIBUTE_DMABUF = 124,
                      CUDA_ATTRIBUTE_HOST_ALLOC_DMABUF = 146, /* CUDA 13 */
};

#define CUDA_HOSTALLOC_PORTABLE 1u
#define CUDA_HOSTALLOC_DEVICEMAP 2u
#define CUDA_HOSTALLOC_WRITECOMBINED 4u
#define CUDA_REGISTER_PORTABLE 1u
#define CUDA_REGISTER_DEVICEMAP 2u
#define CUDA_REGISTER_READ_ONLY 8u
#define CUDA_STREAM_NON_BLOCKING 1u
#define CUDA_EVENT_BLOCKING_SYNC 1u
#define CUDA_EVENT_DISABLE_TIMING 2u
#define CUDA_POINTER_MEMORY_TYPE 2
#define CUDA_POINTER_SYNC_MEMOPS 6
#define CUDA_POINTER_IS_MANAGED 8
#define CUDA_RANGE_DMABUF 1
#define CUDA_MEMORYTYPE_HOST 1
#define CUDA_MEMORYTYPE_DEVICE 2
#define CUDA_MEMORYTYPE_UNIFIED 4
#define CUDA_FLUSH_OPTION_HOST 1
#define CUDA_ORDERING_OWNER 100
#define CUDA_FLUSH_TARGET_CURRENT 0
#define CUDA_FLUSH_TO_OWNER 100
#define CUDA_IPC_LAZY_PEER_ACCESS 1u
#define CUDA_ALLOCATION_PINNED 1
#define CUDA_LOCATION_DEVICE 1
#define CUDA_HANDLE_POSIX 1
#define CUDA_ACCESS_READWRITE 3
#define CUDA_GRANULARITY_RECOMMENDED 1

struct cuda_uuid {
  unsigned char bytes[16];
};

struct cuda_ipc {
  unsigned char reserved[64];
};

struct cuda_copy_2d { /* CUDA_MEMCPY2D */
  size_t source_x, source_y;
  int source_type;
  const void *source_host;
  cuda_pointer source_device;
  void *source_array;
  size_t source_pitch;
  size_t destination_x, destination_y;
  int destination_type;
  void *destination_host;
  cuda_pointer destination_device;
  void *destination_array;
  size_t destination_pitch;
  size_t width, height;
};

struct cuda_location {
  int type;
  int id;
};

struct cuda_allocation { /* CUmemAllocationProp */
  int type;
  int handle_types;
  struct cuda_location location;
  void *win32;
  unsigned char compression;
  unsigned char rdma_capable;
  unsigned short usage;
  unsigned char reserved[4];
};

struct cuda_access { /* CUmemAccessDesc */
  struct cuda_location location;
  int flags;
};

/* The name, what it returns is always a status, and its parameters. */
#define CUDA_CALLS(X)                                                                              \
  X(Init, (unsigned int flags))                                                                    \
  X(DriverGetVersion, (int *version))                                                              \
  X(GetErrorName, (cuda_status status, const char **name))                                         \
  X(GetErrorString, (cuda_status status, const char **text))                                       \
  X(DeviceGetCount, (int *count))                                                                  \
  X(DeviceGet, (cuda_device * device, int ordinal))                                                \
  X(DeviceGetName, (char *name, int length, cuda_device device))                                   \
  X(DeviceGetUuid, (struct cuda_uuid * uuid, cuda_device device))                                  \
  X(DeviceGetAttribute, (int *value, int attribute, cuda_device device))                           \
  X(DeviceTotalMem, (size_t * bytes, cuda_device device))                                          \
  X(DevicePrimaryCtxRetain, (cuda_context * context, cuda_device device))                          \
  X(DevicePrimaryCtxRelease, (cuda_device device))                                                 \
  X(DeviceCanAccessPeer, (int *can, cuda_device device, cuda_device peer))                         \
  X(CtxGetCurrent, (cuda_context * context))                                                       \
  X(CtxEnablePeerAccess, (cuda_context peer, unsigned int flags))                                  \
  X(CtxPushCurrent, (cuda_context context))                                                        \
  X(CtxPopCurrent, (cuda_context * context))                                                       \
  X(MemGetInfo, (size_t * free, size_t * total))                                                   \
  X(MemAlloc, (cuda_pointer * address, size_t length))                                             \
  X(MemFree, (cuda_pointer address))                                                               \
  X(MemGetAddressRange, (cuda_pointer * base, size_t * length, cuda_pointer address))              \
  X(MemHostAlloc, (void **address, size_t length, unsigned int flags))                             \
  X(MemFreeHost, (void *address))                                                                  \
  X(MemHostRegister, (void *address, size_t length, unsigned int flags))                           \
  X(MemHostGetDevicePointer, (cuda_pointer * address, void *host, unsigned int flags))             \
  X(MemHostUnregister, (void *address))                                                            \
  X(PointerGetAttribute, (void *value, int attribute, cuda_pointer address))                       \
  X(PointerSetAttribute, (const void *value, int attribute, cuda_pointer address))                 \
  X(MemGetHandleForAddressRange,                                                                   \
    (void *handle, cuda_pointer address, size_t length, int type, unsigned long long flags))       \
  X(MemGetAllocationGranularity,                                                                   \
    (size_t * granularity, const struct cuda_allocation *properties, int option))                  \
  X(MemCreate, (cuda_handle * handle, size_t length, const struct cuda_allocation *properties,     \
                unsigned long long flags))                                                         \
  X(MemRelease, (cuda_handle handle))                                                              \
  X(MemAddressReserve, (cuda_pointer * address, size_t length, size_t alignment,                   \
                        cuda_pointer hint, unsigned long long flags))                              \
  X(MemAddressFree, (cuda_pointer address, size_t length))                                         \
  X(MemMap, (cuda_pointer address, size_t length, size_t offset, cuda_handle handle,               \
             unsigned long long flags))                                                            \
  X(MemUnmap, (cuda_pointer address, size_t length))                                               \
  X(MemSetAccess,                                                                                  \
    (cuda_pointer address, size_t length, const struct cuda_access *access, size_t count))         \
  X(MemExportToShareableHandle,                                                                    \
    (void *shareable, cuda_handle handle, int type, unsigned long long flags))                     \
  X(MemImportFromShareableHandle, (cuda_handle * handle, void *shareable, int type))               \
  X(IpcGetMemHandle, (struct cuda_ipc * handle, cuda_pointer address))                             \
  X(IpcOpenMemHandle, (cuda_pointer * address, struct cuda_ipc handle, unsigned int flags))        \
  X(IpcCloseMemHandle, (cuda_pointer address))                                                     \
  X(FlushGPUDirectRDMAWrites, (int target, int scope))                                             \
  X(StreamCreate, (cuda_stream * stream, unsigned int flags))                                      \
  X(StreamDestroy, (cuda_stream stream))                                                           \
  X(StreamSynchronize, (cuda_stream stream))                                                       \
  X(StreamWaitEvent, (cuda_stream stream, cuda_event event, unsigned int flags))                   \
  X(EventCreate, (cuda_event * event, unsigned int flags))                                         \
  X(EventDestroy, (cuda_event event))                                                              \
  X(EventRecord, (cuda_event event, cuda_stream stream))                                           \
  X(EventQuery, (cuda_event event))                                                                \
  X(EventSynchronize, (cuda_event event))                                                          \
  X(MemcpyAsync,                                                                                   \
    (cuda_pointer destination, cuda_pointer source, size_t length, cuda_stream stream))            \
  X(Memcpy2DAsync, (const struct cuda_copy_2d *copy, cuda_stream stream))                          \
  X(ModuleLoadData, (cuda_module * module, const void *image))                                     \
  X(ModuleUnload, (cuda_module module))                                                            \
  X(ModuleGetFunction, (cuda_function * function, cuda_module module, const char *name))           \
  X(LaunchKernel,                                                                                  \
    (cuda_function function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,        \
     unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,        \
     cuda_stream stream, void **params, void **extra))

struct cuda_driver {
#define X(name, params) cuda_status(*name) params;
  CUDA_CALLS(X)
#undef X
  int version; /* 12040 is CUDA 12.4 */
};

/* Why there is no driver to use, and what to do about it. */
struct cuda_refusal {
  char reason[256];
  char remedy[256];
};

/* The driver, bound and initialised at the first call that succeeds; for the
 * process's life. 0; -ENODEV with *refusal; logs nothing. */
int cuda_driver_bind(const struct pst_host *host, const struct cuda_driver **driver,
                     struct cuda_refusal *refusal);

#endif
