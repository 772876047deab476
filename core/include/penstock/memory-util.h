/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Helpers that memory plugins compile in: checks of what the host hands over, and the arithmetic
 * of the pattern.
 *
 * All of it is static inline and no part of the ABI. memory/host and memory/nvidia are built with
 * it.
 */
#ifndef PENSTOCK_MEMORY_UTIL_H
#define PENSTOCK_MEMORY_UTIL_H

#include <errno.h>
#include <stdlib.h>

#include "memory.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Checks params that pst_struct_read() gave. NULL, or what the caller asked for that no memory has,
 * for the message behind which alloc() answers -EINVAL. */
PST_INLINE const char *pst_alloc_params_wrong(const struct pst_alloc_params *params)
{
  if (params->length == 0)
    return "a region of no bytes";
  if (params->purpose != PST_ALLOC_NORMAL && params->purpose != PST_ALLOC_STAGING)
    return "an unknown purpose";
  if (params->alignment & (params->alignment - 1))
    return "an alignment that is not a power of two";
  if ((params->needs & ~(uint32_t)(PST_NEED_PINNED * 2 - 1)) || params->reserved)
    return "an unknown need";
  return NULL;
}

/* Least struct_size of a caller's struct whose handle the plugin writes. */
#define PST_REGION_LEAST (offsetof(struct pst_region, handle) + sizeof(void *))
#define PST_EXPORT_LEAST (offsetof(struct pst_export, handle) + 64)

/* Checks and copies the parameters of alloc(), for a plugin that writes region.handle: *params are
 * the caller's, with a label. 0; -EINVAL, logged. */
PST_INLINE int pst_alloc_params_take(const struct pst_host *host,
                                     const struct pst_alloc_params *given,
                                     const struct pst_region *region,
                                     struct pst_alloc_params *params)
{
  const char *wrong;

  pst_struct_read(params, sizeof(*params), given);
  if (!params->label)
    params->label = "memory";
  wrong = pst_alloc_params_wrong(params);
  if (!wrong && region->struct_size < PST_REGION_LEAST)
    wrong = "a region struct too short to hold a handle";
  if (!wrong)
    return 0;
  return PST_REFUSE(host, -EINVAL, "%s: cannot allocate: the caller asked for %s", params->label,
                    wrong);
}

PST_INLINE int pst_export_kind_is_known(uint32_t kind)
{
  return kind == PST_EXPORT_FD || kind == PST_EXPORT_DMABUF || kind == PST_EXPORT_IPC ||
         kind == PST_EXPORT_VENDOR_FD;
}

/* Checks the arguments of export_region(). 0; -EINVAL, logged; -EOPNOTSUPP: not one of
 * region.exports. */
PST_INLINE int pst_export_check(const struct pst_host *host, const struct pst_memory *memory,
                                const struct pst_region *region, uint32_t kind, uint64_t offset,
                                uint64_t length, const struct pst_export *out)
{
  if (!pst_export_kind_is_known(kind))
    return PST_REFUSE(host, -EINVAL, "export: %u is not a kind of export", kind);
  if (region->memory != memory || !region->handle || length == 0 || offset > region->length ||
      length > region->length - offset || out->struct_size < PST_EXPORT_LEAST)
    return PST_REFUSE(host, -EINVAL, "export: %llu bytes from %llu are not in this region of %llu",
                      (unsigned long long)length, (unsigned long long)offset,
                      (unsigned long long)region->length);
  return region->exports & kind ? 0 : -EOPNOTSUPP;
}

/* The pieces of a batch. 0: none, or a row is wrong, which is -EINVAL as more than params.pieces
 * are. */
PST_INLINE uint64_t pst_copy_rows_count(const struct pst_copy_row *rows, uint32_t n)
{
  uint64_t pieces = 0, wrong = 0;
  uint32_t i;

  for (i = 0; i < n; i++) {
    pieces += rows[i].count;
    wrong |= rows[i].reserved | ((uint64_t)rows[i].count - 1) >> 32; /* not 0 for a count of 0 */
  }
  return wrong ? 0 : pieces;
}

PST_INLINE uint64_t pst_payload_rows_count(const struct pst_payload_row *rows, uint32_t n)
{
  uint64_t messages = 0, wrong = 0;
  uint32_t i;

  for (i = 0; i < n; i++) {
    messages += rows[i].count;
    wrong |= rows[i].reserved | ((uint64_t)rows[i].count - 1) >> 32;
  }
  return wrong ? 0 : messages;
}

/* Word 0 of the pattern of a message. */
PST_INLINE uint64_t pst_pattern_first(uint64_t seed, uint64_t sequence)
{
  uint64_t z = seed + sequence * PST_PATTERN_SEQUENCE;

  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

/* The byte at `offset` of a message with that word 0. */
PST_INLINE uint8_t pst_pattern_byte(uint64_t first, uint64_t offset)
{
  return (uint8_t)((first + offset / 8 * PST_PATTERN_STEP) >> (offset % 8 * 8));
}

/* ---- Queues of memory that the CPU reads and writes -----------------------------------------
 *
 * A batch is done when the call returns. A plugin's pst_memory begins with its
 * `const struct pst_host *`, and its pst_queue with a pst_cpu_queue.
 */

struct pst_cpu_queue {
  struct pst_memory *memory;
  uint32_t pieces;  /* of one batch, at most */
  uint64_t tickets; /* batches so far */
};

PST_INLINE void *pst_cpu_pointer(uint64_t address)
{
  return (void *)(uintptr_t)address; /* NOLINT(performance-no-int-to-ptr) */
}

PST_INLINE const struct pst_host *pst_cpu_queue_host(const struct pst_cpu_queue *queue)
{
  return *(const struct pst_host *const *)queue->memory;
}

/* Checks the parameters of queue_open(), and initialises `queue`. 0; -EINVAL, logged. */
PST_INLINE int pst_cpu_queue_begin(struct pst_cpu_queue *queue, struct pst_memory *memory,
                                   const struct pst_queue_params *params)
{
  struct pst_queue_params in;

  pst_struct_read(&in, sizeof(in), params);
  queue->memory = memory;
  queue->pieces = in.pieces;
  queue->tickets = 0;
  if (in.batches && in.pieces && !in.reserved)
    return 0;
  return PST_REFUSE(pst_cpu_queue_host(queue), -EINVAL,
                    "queue: %u batches of %u pieces; both must be at least 1", in.batches,
                    in.pieces);
}

/* queue_open() of a plugin whose pst_queue is a pst_cpu_queue: -EINVAL, logged; -ENOMEM. */
PST_INLINE int pst_cpu_queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                                  struct pst_queue **queue)
{
  struct pst_cpu_queue *made = (struct pst_cpu_queue *)malloc(sizeof(*made));
  int rc = made ? pst_cpu_queue_begin(made, memory, params) : -ENOMEM;

  if (rc == 0)
    *queue = (struct pst_queue *)made;
  else
    free(made);
  return rc;
}

PST_INLINE void pst_cpu_queue_close(struct pst_queue *queue)
{
  free(queue);
}

PST_INLINE int pst_cpu_queue_poll(struct pst_queue *queue, uint64_t *done)
{
  *done = ((const struct pst_cpu_queue *)queue)->tickets;
  return 0;
}

/* A batch of so many pieces, as the two above count them, and done: its ticket. 0; -EINVAL,
 * logged. */
PST_INLINE int pst_cpu_queue_add(struct pst_cpu_queue *queue, const char *call, uint64_t pieces,
                                 uint64_t *ticket)
{
  if (pieces == 0 || pieces > queue->pieces)
    return PST_REFUSE(pst_cpu_queue_host(queue), -EINVAL,
                      "%s: a batch without pieces, with more than %u, or with a reserved field "
                      "that is not 0",
                      call, queue->pieces);
  *ticket = ++queue->tickets;
  return 0;
}

/* copy_rows() of such a plugin. */
PST_INLINE int pst_cpu_copy_rows(struct pst_queue *queue, const struct pst_copy_row *rows,
                                 uint32_t n, uint64_t *ticket)
{
  const struct pst_copy_row *row;
  uint32_t i;
  int rc = pst_cpu_queue_add((struct pst_cpu_queue *)queue, "copy", pst_copy_rows_count(rows, n),
                             ticket);

  for (row = rows; rc == 0 && row < rows + n; row++)
    if (row->count == 1 && row->length) /* scattered pieces, in the shortest way */
      memcpy(pst_cpu_pointer(row->destination), pst_cpu_pointer(row->source), row->length);
    else
      for (i = 0; i < row->count && row->length; i++)
        memcpy(pst_cpu_pointer(row->destination + i * row->destination_stride),
               pst_cpu_pointer(row->source + i * row->source_stride), row->length);
  return rc;
}

#ifdef __cplusplus
}
#endif
#endif
