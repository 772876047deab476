/* SPDX-License-Identifier: Apache-2.0 */
/* The operations, each named by its file. */
#ifndef HOST_OPS_H
#define HOST_OPS_H

#include <penstock/memory.h>

/* alloc.c */
int host_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
               struct pst_region *region);
void host_free_region(struct pst_memory *memory, struct pst_region *region);

/* user_memory.c */
int host_adopt_region(struct pst_memory *memory, const struct pst_adopt_params *params,
                      struct pst_region *region);

/* export.c */
int host_export_region(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out);
int host_import_region(struct pst_memory *memory, const struct pst_export *from,
                       struct pst_region *region);

/* queue.c */
int host_queue_open(struct pst_memory *memory, const struct pst_queue_params *params,
                    struct pst_queue **queue);
void host_queue_close(struct pst_queue *queue);
int host_fill_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                   uint32_t n, uint64_t *ticket);
int host_verify_rows(struct pst_queue *queue, uint64_t seed, const struct pst_payload_row *rows,
                     uint32_t n, uint64_t *ticket);
int host_sum_range(struct pst_queue *queue, uint64_t address, uint64_t length, uint32_t *crc32c,
                   uint64_t *ticket);
int host_queue_poll(struct pst_queue *queue, uint64_t *done);
int host_verify_result(struct pst_queue *queue, struct pst_verify_result *result);
int host_fence_record(struct pst_memory *memory, struct pst_queue *queue, void *native,
                      struct pst_fence **fence);
int host_fence_wait(struct pst_memory *memory, struct pst_fence *fence, struct pst_queue *queue,
                    void *native);
int host_fence_query(struct pst_memory *memory, struct pst_fence *fence);
void host_fence_release(struct pst_memory *memory, struct pst_fence *fence);

#endif
