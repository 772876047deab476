/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU's own memory, and how others get it. */
#ifndef CUDA_DEVICE_MEMORY_H
#define CUDA_DEVICE_MEMORY_H

#include "block.h"

/* In the order of the option's choices. */
enum cuda_allocator { CUDA_ALLOCATOR_MALLOC, CUDA_ALLOCATOR_VMM };

/* NORMAL memory. Logs its errors. */
int cuda_alloc_device(struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct cuda_block *block);
void cuda_release_device(struct pst_memory *memory, struct cuda_block *block);
/* Map physical memory at addresses of its own, for this memory's device. */
cuda_status cuda_map_device(struct pst_memory *memory, uint64_t alignment, struct cuda_block *made);

/* Export by made->kind, which is not FD; import of those kinds. */
int cuda_export_device(struct pst_memory *memory, struct cuda_block *block,
                       struct pst_export *made);
int cuda_check_import(const struct pst_memory *memory, const struct pst_export *from);
int cuda_import_device(struct pst_memory *memory, const struct pst_export *from,
                       struct cuda_block *block);

/* The block that this process has exported by that handle, or NULL. It lives as long as its
 * exporter lets it: an importer closes first. */
const struct cuda_block *cuda_exported_find(const struct cuda_ipc *handle);
void cuda_exported_forget(struct cuda_block *block);

/* Bytes of the window by which a NIC reaches the GPU (BAR1), in all and free. False: NVML is not
 * here, or does not tell. */
struct cuda_window {
  uint64_t total, free;
};
bool cuda_window_read(const struct pst_memory *memory, struct cuda_window *window);

#endif
