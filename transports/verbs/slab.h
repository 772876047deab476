/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs: memory of the transport's own, each registered once for many endpoints of a worker. */
#ifndef VERBS_SLAB_H
#define VERBS_SLAB_H

#include "worker.h"

/* Takes bytes that requests of the domain may name, for an endpoint of that label. Returns 0, or
 * -errno, logged. The bytes are not zeroed. */
int vb_slab_take(struct pst_worker *worker, struct vb_domain *domain, const char *label,
                 uint32_t bytes, uint8_t **at, struct ibv_mr **mr);
/* NULL: there is nothing to give. */
void vb_slab_give(struct pst_worker *worker, const uint8_t *at, uint32_t bytes);

#endif
