/* SPDX-License-Identifier: Apache-2.0 */
/* Inside of the memory plugin `cuda`. */
#ifndef CUDA_INSIDE_H
#define CUDA_INSIDE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/memory-util.h>

#include "driver.h"
#include "kernels.h"
#include "wanted.h"

/* What a GPU's page table and nvidia-peermem work in. */
#define CUDA_PAGE UINT64_C(65536)
/* Recorded and not released: so many that only a leak has them. A receiver holds a thousand, and
 * many share a memory. */
#define CUDA_FENCES_MAX (1u << 20)
#define CUDA_LENGTH_MAX (UINT64_C(1) << 50)

/* In the order of the options' choices. */
enum cuda_allocator { CUDA_ALLOCATOR_MALLOC, CUDA_ALLOCATOR_VMM };
enum cuda_copies { CUDA_COPIES_AUTO, CUDA_COPIES_STRIDED, CUDA_COPIES_GATHER, CUDA_COPIES_EACH };

/* Memory that the driver knows as one. */
struct cuda_range {
  uint64_t begin, end;
  bool registered; /* by host_register(): one entry a call */
  bool reachable;  /* by a kernel, at these addresses */
};

struct cuda_properties {
  bool vmm, posix_handles, rdma_with_vmm, rdma, dmabuf, flush, same_host_pointer;
  int multiprocessors;
  uint64_t max_pitch;
};

/* What all of this process's memories of one device share. */
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
  enum cuda_allocator allocator;
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

/* An event, referred to by the caller's fence and by the batch that it ends. */
struct pst_fence {
  struct pst_fence *next;
  cuda_event event;
  uint32_t references;
};

enum cuda_block_kind {
  CUDA_BLOCK_MALLOC, /* cuMemAlloc */
  CUDA_BLOCK_VMM,
  CUDA_BLOCK_HOST,  /* cuMemHostAlloc */
  CUDA_BLOCK_MEMFD, /* mapped and registered */
  CUDA_BLOCK_IPC,   /* opened from another process */
  CUDA_BLOCK_ALIAS, /* another memory's of this process */
  CUDA_BLOCK_FILE,  /* another's descriptor, mapped and registered */
};

/* What a region's `handle` is. */
struct cuda_block {
  enum cuda_block_kind kind;
  uint64_t base, base_length; /* of the whole allocation */
  uint64_t address, length;   /* of the region in it */
  cuda_handle handle;         /* VMM; FILE: the first page registered */
  int fd;                     /* MEMFD; else -1 */
  uint32_t exports;
  const char *words;
  char device[48];               /* where it is; "": on the memory's own, or the host's */
  struct cuda_ipc ipc;           /* MALLOC, where it can be exported so */
  cuda_context context;          /* of `ipc`, for others of this process */
  uint64_t ipc_base, ipc_length; /* of what `ipc` names, once exported */
  struct cuda_block *next;
  bool listed; /* among those that this process has exported */
};

#define cuda_log(memory, level, ...) (memory)->host->log((memory)->host, (level), __VA_ARGS__)
#define cuda_error_log(memory, ...) cuda_log(memory, PST_LOG_ERROR, __VA_ARGS__)

/* error.c */
struct cuda_text {
  char text[160];
};
/* "CUDA_ERROR_OUT_OF_MEMORY: out of memory". */
struct cuda_text cuda_status_text(const struct cuda_driver *driver, cuda_status status);
/* The errno for a status that nobody else knows better, said with its remedy; a device that is
 * lost is said once: -EIO. */
int cuda_failed(struct pst_memory *memory, const char *call, cuda_status status);
bool cuda_is_lost(cuda_status status);
/* `length` bytes (0: not known how many) that the device, or pinned host memory, has not: says
 * what was asked, what is free, and the remedy: -ENOMEM. Another status: as cuda_failed(). */
/* "lower `ring` or `message`", by what the caller says. */
struct cuda_text cuda_lower_text(const struct pst_alloc_params *params);
#define CUDA_ASKED(what, bytes)                                                                    \
  (&(const struct pst_alloc_params){.label = (what), .length = (bytes)})
int cuda_refuse_device(struct pst_memory *memory, const struct pst_alloc_params *params,
                       const char *call, cuda_status status);
int cuda_refuse_pinned(struct pst_memory *memory, const struct pst_alloc_params *params,
                       const char *call, cuda_status status);
int cuda_refuse_host(struct pst_memory *memory, const struct pst_alloc_params *params,
                     const char *call, const char *why);

/* device.c: devices by the names that people have for them. */
struct cuda_place {
  char uuid[48];
  char pci[16]; /* "0000:b7:00.0" */
  char name[96];
  int capability; /* 90 for 9.0 */
};
/* Does the device at `index` go by that name? */
bool cuda_wanted_is(const struct cuda_wanted *wanted, int index, const struct cuda_place *place);
cuda_status cuda_place_read(const struct cuda_driver *driver, cuda_device device,
                            struct cuda_place *place);
/* 0 and *device, or -ENODEV or -EINVAL, logged. */
int cuda_device_find(const struct pst_host *host, const struct cuda_driver *driver,
                     const char *text, cuda_device *device);

/* context.c: the primary context, current for the calling thread between the two. */
void cuda_enter(const struct pst_memory *memory);
void cuda_leave(const struct pst_memory *memory);
int cuda_context_open(struct pst_memory *memory);
void cuda_context_close(struct pst_memory *memory);
/* Why the kernels that were built cannot run with this driver; false: they can. */
bool cuda_kernels_refused(const struct cuda_driver *driver, struct cuda_refusal *refusal);

/* block.c: memory itself. All log their errors. */
int cuda_block_malloc(struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct cuda_block *block);
int cuda_block_vmm(struct pst_memory *memory, const struct pst_alloc_params *params,
                   struct cuda_block *block);
int cuda_block_host(struct pst_memory *memory, const struct pst_alloc_params *params,
                    struct cuda_block *block);
int cuda_block_memfd(struct pst_memory *memory, const struct pst_alloc_params *params,
                     struct cuda_block *block);
/* Map physical memory at addresses of its own, for this memory's device. */
cuda_status cuda_block_map(struct pst_memory *memory, uint64_t alignment, struct cuda_block *made);
void cuda_block_release(struct pst_memory *memory, struct cuda_block *block);

/* alloc.c */
int cuda_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
               struct pst_region *region);
void cuda_free_region(struct pst_memory *memory, struct pst_region *region);
void cuda_region_fill(struct pst_memory *memory, struct cuda_block *block,
                      struct pst_region *region);

/* ranges.c */
int cuda_range_add(struct pst_memory *memory, uint64_t begin, uint64_t length, bool registered,
                   bool reachable);
void cuda_range_remove(struct pst_memory *memory, uint64_t begin, uint64_t length);
/* May a kernel read and write all of these? */
bool cuda_ranges_reach(struct pst_memory *memory, const struct pst_copy_row *rows, uint32_t n);
bool cuda_ranges_hold(struct pst_memory *memory, const struct pst_payload_row *rows, uint32_t n);
/* Is it all in one range? */
bool cuda_ranges_whole(struct pst_memory *memory, uint64_t begin, uint64_t length);
/* How many of these bytes a copy of the driver's may take at once: it takes memory that is of
 * one range, or of none, on either side. */
uint64_t cuda_ranges_part(struct pst_memory *memory, uint64_t destination, uint64_t source,
                          uint64_t length);
bool cuda_range_is_registered(struct pst_memory *memory, uint64_t begin, uint64_t length);

/* pins.c: host memory of others, pinned. */
int cuda_host_register(struct pst_memory *memory, void *address, uint64_t length);
void cuda_host_unregister(struct pst_memory *memory, void *address, uint64_t length);

/* export.c */
/* The block that this process has exported by that handle, or NULL. It lives as long as its
 * exporter lets it: whoever imports it closes first. */
const struct cuda_block *cuda_exported_find(const struct cuda_ipc *handle);
void cuda_exported_forget(struct cuda_block *block);
int cuda_export_region(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out);
/* import.c */
int cuda_import_region(struct pst_memory *memory, const struct pst_export *from,
                       struct pst_region *region);

/* nvml.c */
/* What a NIC's window into the GPU (BAR1) has free. False: NVML is not here, or does not tell. */
struct cuda_window {
  uint64_t total, free;
};
bool cuda_window_read(const struct pst_memory *memory, struct cuda_window *window);

/* fence.c */
int cuda_fence_record(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence);
int cuda_fence_wait(struct pst_memory *memory, struct pst_fence *fence, struct pst_queue *queue,
                    void *native);
int cuda_fence_query(struct pst_memory *memory, struct pst_fence *fence);
void cuda_fence_release(struct pst_memory *memory, struct pst_fence *fence);
/* An event nobody uses, with one reference; or NULL, logged. The context is current. */
struct pst_fence *cuda_fence_take(struct pst_memory *memory);
void cuda_fence_drop(struct pst_memory *memory, struct pst_fence *fence);
void cuda_fences_close(struct pst_memory *memory);

/* copy.c: rows as at most as many, in which lone pieces that are contiguous are one piece, and
 * others of one length at equal strides one row. Returns how many rows. */
uint32_t cuda_plan_make(const struct pst_copy_row *given, uint32_t n, uint64_t max_pitch,
                        struct pst_copy_row *rows);
/* One copy of the driver's does for the row: its pieces lie apart, forward, and not too far. */
/* Of so many bytes a copy of the driver's own is worth it. */
#define CUDA_RUN_BYTES (UINT64_C(128) << 10)
/* One kernel, rather than a copy for each row, or for each piece of those that are not strided? */
bool cuda_rows_gather(const struct pst_copy_row *rows, uint32_t n, uint64_t max_pitch);

/* queue.c */
struct cuda_batch {
  struct pst_fence *end;
  uint64_t descriptors; /* queue.descriptors_tail behind this batch */
  uint32_t checked;     /* messages; 0: no verify */
  uint64_t seed;
  const struct cuda_message *payloads; /* verify: the descriptors, or NULL: */
  struct pst_payload_row row[CUDA_PATTERN_ROWS];
  uint32_t *crc32c; /* sum: the caller's; else NULL */
};

struct pst_queue {
  struct pst_memory *memory;
  cuda_stream stream;
  uint32_t batches, pieces;
  uint64_t submitted, finished; /* tickets */
  bool failed;
  bool waits;               /* the stream waits for a fence behind the last batch */
  struct cuda_batch *batch; /* ticket modulo `batches` */
  struct cuda_slot *slots;
  /* Pieces and payloads of batches under way, in pinned memory: a ring, in which a
   * batch's lie in one go. */
  void *descriptors;
  uint64_t descriptors_size, descriptors_head, descriptors_tail;
  void *pinned;
  struct pst_copy_row *rows; /* `pieces` of them, to merge a batch's rows into */
  struct pst_verify_result found;
  struct pst_verify_result reported;
};

int cuda_queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                    struct pst_queue **queue);
void cuda_queue_close(struct pst_queue *queue);
int cuda_queue_poll(struct pst_queue *queue, uint64_t *done);
int cuda_verify_result(struct pst_queue *queue, struct pst_verify_result *result);
/* May a batch of n begin? 0, and cuda_queue_next() is a blank one; -EAGAIN, -EIO; or -EINVAL,
 * logged. */
int cuda_queue_begin(struct pst_queue *queue, const char *call, uint64_t n, uint64_t reserved);
/* Room for n descriptors in one go, or NULL. */
void *cuda_queue_room(struct pst_queue *queue, uint32_t n);
/* The batch that comes next; cuda_queue_end() makes it one and gives it its ticket. */
struct cuda_batch *cuda_queue_next(struct pst_queue *queue);
struct cuda_slot *cuda_queue_slot(struct pst_queue *queue);
int cuda_queue_end(struct pst_queue *queue, cuda_status status, const char *call, uint64_t *ticket);

/* The blocks of a kernel that gives each of n items a warp, or a block. */
unsigned int cuda_grid(const struct pst_memory *memory, uint32_t n, bool wide);

/* copy.c, pattern.c */
int cuda_copy_rows(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                   uint64_t *ticket);
int cuda_fill_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                   uint32_t n, uint64_t *ticket);
int cuda_verify_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket);

/* sum.c */
int cuda_sum_range(struct pst_queue *queue, uint64_t address, uint64_t length, uint32_t *crc32c,
                   uint64_t *ticket);

/* A host gives no less. */
#define CUDA_REGION_LEAST (offsetof(struct pst_region, handle) + sizeof(void *))
#define CUDA_EXPORT_LEAST (offsetof(struct pst_export, handle) + 64)

static inline uint64_t cuda_round_up(uint64_t value, uint64_t to)
{
  return (value + to - 1) / to * to;
}

#endif
