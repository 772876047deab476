/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned host memory that the GPU maps, and what is refused as such. */
#ifndef IGPU_MAPPED_H
#define IGPU_MAPPED_H

#include "block.h"

/* NORMAL memory. The context is current. Logs its errors. */
int igpu_alloc_mapped(struct pst_memory *memory, const struct pst_alloc_params *params,
                      struct cuda_block *block);
int igpu_check_import(const struct pst_memory *memory, const struct pst_export *from);
/* user_memory.c: -EOPNOTSUPP, and the log has the reason. */
int igpu_adopt_region(struct pst_memory *memory, const struct pst_adopt_params *params,
                      struct pst_region *region);

#endif
