/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait behind a FENCE, in post order. */
#ifndef UCX_FENCE_QUEUE_H
#define UCX_FENCE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/transport.h>

struct ucx_tx;

/* A request that waits for a FENCE. */
struct ucx_fence_queue {
  struct pst_request request;
  struct pst_piece *pieces;
};

int ucx_fence_queue_open(struct ucx_tx *tx, uint32_t requests, uint32_t pieces);
void ucx_fence_queue_close(struct ucx_tx *tx);
/* Must it wait, for what it asks or for those before it? */
bool ucx_fence_queue_must(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* 1; 0 with *why: a SEND without credit. */
uint32_t ucx_fence_queue_add(struct pst_endpoint *endpoint, const struct pst_request *request,
                             uint32_t *why);
/* Start those whose time has come. */
void ucx_fence_queue_step(struct pst_endpoint *endpoint);
void ucx_fence_queue_fail(struct pst_endpoint *endpoint, int32_t status);

#endif
