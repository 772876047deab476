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
/* pins.c */
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
/* copy.c, pattern.c, sum.c */
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

#endif
