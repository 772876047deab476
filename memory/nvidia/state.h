/* SPDX-License-Identifier: Apache-2.0 */
/* An opened memory, what all of its files begin with. */
#ifndef CUDA_STATE_H
#define CUDA_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/memory-util.h>

#include "driver.h"

/* Page size of a GPU's page table and of nvidia-peermem. */
#define CUDA_PAGE UINT64_C(65536)
#define CUDA_LENGTH_MAX (UINT64_C(1) << 50)

/* In the order of the options' choices. */
enum cuda_copies { CUDA_COPIES_AUTO, CUDA_COPIES_STRIDED, CUDA_COPIES_GATHER, CUDA_COPIES_EACH };

/* Memory that the driver knows as one. */
struct cuda_range {
  uint64_t begin, end;
  bool registered; /* by host_register(): one entry a call */
  bool reachable;  /* by a kernel, at these addresses */
};

struct cuda_properties {
  bool vmm, posix_handles, rdma_with_vmm, rdma, dmabuf, flush, same_host_pointer, host_register;
  int multiprocessors;
  uint64_t max_pitch;
};

/* State that all of this process's memories of one device share. */
struct cuda_shared {
  struct cuda_shared *next;
  uint32_t users;
  cuda_device device;
  cuda_context context;
  cuda_module module;
  cuda_function gather, fill, fill_wide, verify, verify_wide, sum;
};

struct pst_memory {
  const struct pst_host *host;
  const struct cuda_driver *driver;
  unsigned int allocator; /* an enum of the plugin's own */
  enum cuda_copies copies;
  cuda_device device;
  struct cuda_shared *shared;
  struct cuda_properties has;
  char uuid[48]; /* "GPU-…" */
  char name[96];

  pthread_mutex_t lock; /* of all below; never held while the driver is called, but to
                           make an event */
  struct cuda_range *ranges;
  uint32_t range_count;
  struct pst_fence *free_fences;
  uint32_t fences; /* handed out and not released */
  bool lost;       /* said in the log */
  bool pageable;   /* that there is host memory that cannot be pinned: said in the log */
};

#define cuda_log(memory, level, ...) (memory)->host->log((memory)->host, (level), __VA_ARGS__)
#define cuda_error_log(memory, ...) cuda_log(memory, PST_LOG_ERROR, __VA_ARGS__)

static inline uint64_t cuda_round_up(uint64_t value, uint64_t to)
{
  return (value + to - 1) / to * to;
}

#endif
