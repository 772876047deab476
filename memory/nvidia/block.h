/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks: what the regions are of. */
#ifndef CUDA_BLOCK_H
#define CUDA_BLOCK_H

#include "state.h"

enum cuda_block_kind {
  CUDA_BLOCK_MALLOC, /* cuMemAlloc */
  CUDA_BLOCK_VMM,
  CUDA_BLOCK_HOST,  /* cuMemHostAlloc */
  CUDA_BLOCK_MEMFD, /* mapped and registered */
  CUDA_BLOCK_IPC,   /* opened from another process */
  CUDA_BLOCK_ALIAS, /* another memory's of this process */
  CUDA_BLOCK_FILE,  /* another's descriptor, mapped and registered */
};

/* A region's `handle`. */
struct cuda_block {
  enum cuda_block_kind kind;
  uint64_t base, base_length; /* of the whole allocation */
  uint64_t address, length;   /* of the region in it, as the CPU has it where it is the host's */
  cuda_pointer mapped;        /* the region is MAPPED: its address as the device has it; else 0 */
  cuda_handle handle;         /* VMM; FILE: the first page registered */
  int fd;                     /* MEMFD; VMM: as it came from another process; else -1 */
  uint32_t exports;
  const char *words;
  char device[48];               /* where it is; "": on the memory's own, or the host's */
  struct cuda_ipc ipc;           /* MALLOC, where it can be exported so */
  cuda_context context;          /* of `ipc`, for others of this process */
  uint64_t ipc_base, ipc_length; /* of what `ipc` names, once exported */
  struct cuda_block *next;
  bool listed; /* among those that this process has exported */
};

/* Allocates host memory by cuMemHostAlloc. 0, or -errno after a log. */
int cuda_block_host(struct pst_memory *memory, const struct pst_alloc_params *params,
                    unsigned int flags, struct cuda_block *block);
/* Allocates a memfd that the driver pins. 0, or -errno after a log. */
int cuda_block_memfd(struct pst_memory *memory, const struct pst_alloc_params *params,
                     struct cuda_block *block);
/* Make it MAPPED: it has its address and length. 0 or -errno, logged. */
int cuda_block_see(struct pst_memory *memory, struct cuda_block *block);
void cuda_block_release(struct pst_memory *memory, struct cuda_block *block);

/* Whether the exported range is within `base_length` bytes. */
bool cuda_export_holds(uint64_t base_length, const struct pst_export *from);
/* Logs that the exported range is not within the allocation. Returns -EINVAL. */
int cuda_refuse_range(const struct pst_memory *memory, const struct pst_export *from,
                      uint64_t base_length);

/* Note the region for copies and kernels. */
int cuda_block_note(struct pst_memory *memory, const struct cuda_block *block);
void cuda_region_fill(struct pst_memory *memory, struct cuda_block *block,
                      struct pst_region *region);

#endif
