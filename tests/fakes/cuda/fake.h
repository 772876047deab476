/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libcuda.so.1 for machines without a GPU: as much of the driver API as the memory
 * plugin cuda calls, by the rules of NVIDIA's documentation that matter to it.
 *
 * Device memory has addresses that fault when the CPU touches them; its bytes are in
 * mappings of the fake's own. Streams are threads, which do their work in order and no
 * sooner than `delay_us` after it was submitted; an event is done when its stream has got
 * there. Kernels go by name: for each there is a reference in C. Work that touches what
 * is not mapped for the device ends the context for good, as the driver's does.
 *
 * Freeing, unmapping, unregistering or unloading an object that queued work touches ends the
 * process, with a message: cuda.h promises of none of these calls that it waits for that work. (Of
 * cuMemFree it says that it may.)
 *
 * The environment variable FAKE_CUDA scripts it, as in "delay_us=500,no_dmabuf":
 *   delay_us=N      (200)    the least time from submission to execution
 *   devices=N       (1)      how many there are, at b7:00.0, b8:00.0, …
 *   first=N         (0)      of these the first that this process sees, as device 0
 *   memory_mib=N    (2048)   of each
 *   capability=N    (90)     compute capability
 *   version=N       (13000)  of the driver, as cuDriverGetVersion tells it
 *   init=N          (0)      what cuInit returns
 *   lost_after=N    (never)  the N-th piece of work fails, and the device with it
 *   together=N      (1)      kernels run in groups of N, none before all of its group are
 *                            submitted: who waits for each before the next waits for ever
 *   spoil=N         (never)  the N-th copy of a page and more changes its first byte
 *   host_mib=N      (4096)   what can be pinned
 *   bar1_mib=N      (65536)  of each, by the fake NVML beside this
 *   no_dmabuf, no_vmm, no_posix, ipc_refused, no_peer, no_nvml,
 *   no_register (of host memory: cuMemHostRegister)
 *   integrated=N    (0)      so many of the devices, from the first on, share the host's memory
 *   page_tables     the device reads the host's memory by the host's page tables
 *   host_dmabuf     of cuMemHostAlloc's memory a dma-buf could be had
 *   no_copies       copies, and the kernel that gathers, are refused
 *   apart           the device has other addresses for registered and for write-combined memory
 *                   than the CPU has
 *   no_kernels (cuModuleGetFunction finds none)
 *   no_flush (a NIC's writes are flushed by work on streams alone)
 *   late_writes  what others write by a dma-buf the device sees after
 *                cuFlushGPUDirectRDMAWrites, and not before
 * Two processes of one script share device memory by handles and descriptors, since its
 * bytes are in memfds.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <pthread.h>
#include <stdbool.h>

#include <driver.h>
#include <kernels.h>
#include <penstock/memory.h>

#define FAKE_DEVICES_MAX 8

/* Identity of a device for all processes: its place among `devices`. */
#define FAKE_NAME "fake-cuda-%d"

enum fake_kind { FAKE_DEVICE, FAKE_VMM, FAKE_IPC, FAKE_HOST, FAKE_REGISTERED, FAKE_MANAGED };

/* Memory that the device reaches. */
struct fake_range {
  struct fake_range *next;
  enum fake_kind kind;
  uint64_t address, length;
  uint8_t *bytes;       /* where the fake touches it; of host memory the CPU's address */
  void *reserved, *map; /* mappings to undo */
  size_t reserved_length, map_length;
  int fd; /* of the bytes, or -1 */
  int device;
  int context; /* the device's whose context has it; VMM: any has */
  /* late_writes: where a NIC writes, and what of that the device has seen; `nic_length` each. */
  uint8_t *nic, *seen;
  uint64_t nic_length;
  int nic_fd;
};

struct fake_config {
  uint64_t delay_ns, memory, host_memory, lost_after, spoil, together;
  int devices, first, capability, version, init, integrated;
  bool page_tables, host_dmabuf, no_copies, apart;
  bool no_dmabuf, no_vmm, no_posix, ipc_refused, no_peer, no_register, no_kernels, no_flush;
  bool late_writes;
};

struct fake {
  pthread_mutex_t mutex; /* of all below; never held while bytes move */
  pthread_cond_t changed;
  bool initialised;
  cuda_status lost; /* what every call answers from then on */
  uint64_t submitted, kernels;
  uint64_t used[FAKE_DEVICES_MAX], host_used;
  struct fake_range *ranges;
  struct CUstream_st *streams;
};
extern struct fake fake;
extern struct fake_config fake_config;

struct CUctx_st {
  int device;
};

struct CUevent_st {
  uint64_t recorded, done;
  uint32_t under_way; /* jobs that mark it or wait for it */
  bool destroyed;
};

enum fake_work { FAKE_COPY, FAKE_COPY_2D, FAKE_KERNEL, FAKE_MARK, FAKE_WAIT, FAKE_GATE };

typedef bool fake_kernel(const void *args);
/* Called with each range that a piece of work reads or writes. */
typedef void fake_visit(void *context, uint64_t address, uint64_t length, bool writes);
typedef void fake_ranges(const void *args, fake_visit *visit, void *context);
struct CUfunc_st {
  const char *name;
  size_t args_size;
  fake_kernel *run;
  fake_ranges *ranges; /* the mutex is held */
  cuda_module module;
};

struct fake_job {
  struct fake_job *next;
  enum fake_work work;
  uint64_t due_ns;
  uint64_t group;           /* KERNEL: not before so many have been submitted */
  struct cuda_copy_2d copy; /* COPY: one row */
  const struct CUfunc_st *function;
  unsigned char args[512];
  cuda_event event;
  uint64_t generation;
  uint64_t address; /* GATE: of a word that has to be `value` at least */
  uint32_t value;
};

struct CUstream_st {
  struct CUstream_st *next;
  struct CUctx_st *context;
  pthread_t thread;
  bool closing;
  struct fake_job *first;
  struct fake_job **last;
};

cuda_status fake_MemAllocManaged(cuda_pointer *address, size_t length);
/* The device's context that is current for this thread, or NULL. */
cuda_context fake_current(void);
/* CUDA_SUCCESS, or why a call that needs a context cannot be. */
cuda_status fake_usable(void);

/* memory.c. The CPU's pointer to all of the range, or NULL; the mutex is held. */
uint8_t *fake_bytes(uint64_t address, uint64_t length);
/* As the device has it, what the CPU has at `address`; the mutex is held. */
uint64_t fake_seen(uint64_t address);
/* The device whose bytes the memfd has, as this process numbers it; -1: not seen. */
int fake_device_of(int fd);
int fake_bytes_new(uint64_t length, int device);
/* nic.c. Where others write by a dma-buf; the mutex is held. -1: no memory. */
int fake_nic_fd(struct fake_range *range);
void fake_nic_free(struct fake_range *range);
/* The device has written there. */
void fake_wrote(uint64_t address, uint64_t length);
/* check.c. Before it goes: ends the process where queued work touches it. */
void fake_check_range(const char *call, uint64_t address, uint64_t length);
void fake_check_module(cuda_module module);
/* stream.c. All ranges of a copy or kernel; the mutex is held. */
cuda_status fake_stream_gate(cuda_stream stream, uint64_t address, uint32_t value);
void fake_job_ranges(const struct fake_job *job, fake_visit *visit, void *context);
/* kernels.c: the device's context has ended; the mutex is held. */
void fake_modules_end(int device);
/* fake_bytes(), the mutex not held. */
uint8_t *fake_reach(uint64_t address, uint64_t length);
void fake_spoil(uint8_t *copied, uint64_t length);

#define X(name, params) cuda_status fake_##name params;
CUDA_CALLS(X)
#undef X

#endif
