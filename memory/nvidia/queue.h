/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: their batches under way, and the fences behind them. */
#ifndef CUDA_QUEUE_H
#define CUDA_QUEUE_H

#include "kernels.h"
#include "state.h"

/* An event, referred to by the caller's fence and by the batch that it ends. */
struct pst_fence {
  struct pst_fence *next;
  cuda_event event;
  uint32_t references;
};

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

/* An event nobody uses, with one reference; or NULL, logged. The context is current. */
struct pst_fence *cuda_fence_take(struct pst_memory *memory);
void cuda_fence_drop(struct pst_memory *memory, struct pst_fence *fence);
void cuda_fences_close(struct pst_memory *memory);

#endif
