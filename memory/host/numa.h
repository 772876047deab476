/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pages of a block lie. All log their errors. */
#ifndef HOST_PLACE_H
#define HOST_PLACE_H

#include "block.h"

bool host_node_parse(const struct pst_host *host, const char *text, int *node, int *error);
int host_block_bind(const struct pst_memory *memory, struct host_block *block, const char *label);
void host_block_unbind(struct host_block *block);
int host_block_lock(const struct pst_memory *memory, struct host_block *block, const char *label,
                    bool required);
int host_block_populate(const struct pst_memory *memory, struct host_block *block,
                        const struct pst_alloc_params *params);

#endif
