/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE, READ, atomics, FLUSH, and the flush that a FENCE waits for. */
#ifndef UCX_RMA_H
#define UCX_RMA_H

#include "ucx.h"

int ucx_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* Start one that has been judged. */
void ucx_rma_start(struct pst_endpoint *endpoint, const struct pst_request *request);
/* Place all WRITEs so far: tx.is_fencing until they are. */
void ucx_rma_fence(struct pst_endpoint *endpoint);
/* FLUSHes that the peer has answered. */
void ucx_rma_step(struct pst_endpoint *endpoint);
/* All that are under way end with this status; UCX's requests of them go on unheard. */
void ucx_rma_fail(struct pst_endpoint *endpoint, int32_t status);

#endif
