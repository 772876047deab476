/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the plugins, by the files that they are in. */
#ifndef CUDA_OPS_H
#define CUDA_OPS_H

#include <penstock/memory.h>

/* open.c */
int cuda_probe(const struct pst_host *host, struct pst_probe *probe);
int cuda_open(const struct pst_host *host, const struct pst_memory_params *params,
              struct pst_memory **memory);
void cuda_close(struct pst_memory *memory);
int cuda_describe(struct pst_memory *memory, struct pst_memory_info *info);
/* alloc.c */
int cuda_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
               struct pst_region *region);
void cuda_free_region(struct pst_memory *memory, struct pst_region *region);
/* host_pin.c */
int cuda_host_register(struct pst_memory *memory, void *address, uint64_t length);
void cuda_host_unregister(struct pst_memory *memory, void *address, uint64_t length);
/* export.c, import.c */
int cuda_export_region(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out);
int cuda_import_region(struct pst_memory *memory, const struct pst_export *from,
                       struct pst_region *region);
/* queue.c */
int cuda_queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                    struct pst_queue **queue);
void cuda_queue_close(struct pst_queue *queue);
int cuda_queue_poll(struct pst_queue *queue, uint64_t *done);
int cuda_verify_result(struct pst_queue *queue, struct pst_verify_result *result);
/* copy.c, pattern.c, crc32c.c */
int cuda_copy_rows(struct pst_queue *queue, const struct pst_copy_row *rows, uint32_t n,
                   uint64_t *ticket);
int cuda_fill_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                   uint32_t n, uint64_t *ticket);
int cuda_verify_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket);
int cuda_sum_range(struct pst_queue *queue, uint64_t address, uint64_t length, uint32_t *crc32c,
                   uint64_t *ticket);
/* fence.c */
int cuda_fence_record(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence);
int cuda_fence_wait(struct pst_memory *memory, struct pst_fence *fence, struct pst_queue *queue,
                    void *native);
int cuda_fence_query(struct pst_memory *memory, struct pst_fence *fence);
void cuda_fence_release(struct pst_memory *memory, struct pst_fence *fence);

/* The part of a plugin's table that all have. */
#define CUDA_CAPABILITIES                                                                          \
  (PST_MEMORY_CAP_COPY | PST_MEMORY_CAP_PATTERN | PST_MEMORY_CAP_FENCE | PST_MEMORY_CAP_EXPORT |   \
   PST_MEMORY_CAP_IMPORT | PST_MEMORY_CAP_HOST_REGISTER | PST_MEMORY_CAP_CHECKSUM)
#define CUDA_OPS                                                                                   \
  .struct_size = sizeof(struct pst_memory_ops), .open = cuda_open, .close = cuda_close,            \
  .describe = cuda_describe, .alloc = cuda_alloc, .free_region = cuda_free_region,                 \
  .host_register = cuda_host_register, .host_unregister = cuda_host_unregister,                    \
  .export_region = cuda_export_region, .import_region = cuda_import_region,                        \
  .queue_open = cuda_queue_open, .queue_close = cuda_queue_close, .copy_rows = cuda_copy_rows,     \
  .fill_rows = cuda_fill_rows, .verify_rows = cuda_verify_rows, .queue_poll = cuda_queue_poll,     \
  .verify_result = cuda_verify_result, .fence_record = cuda_fence_record,                          \
  .fence_wait = cuda_fence_wait, .fence_query = cuda_fence_query,                                  \
  .fence_release = cuda_fence_release, .sum_range = cuda_sum_range

#endif
