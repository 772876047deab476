/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait behind a FENCE, in post order. */
#ifndef UCX_HELD_H
#define UCX_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/transport.h>

struct ucx_tx;

/* A request that waits for a FENCE. */
struct ucx_held {
  struct pst_request request;
  struct pst_piece *pieces;
};

int ucx_held_open(struct ucx_tx *tx, uint32_t requests, uint32_t pieces);
void ucx_held_close(struct ucx_tx *tx);
/* Must it wait, for what it asks or for those before it? */
bool ucx_held_must(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* 1; 0 with *why: a SEND without credit. */
uint32_t ucx_held_add(struct pst_endpoint *endpoint, const struct pst_request *request,
                      uint32_t *why);
/* Start those whose time has come. */
void ucx_held_step(struct pst_endpoint *endpoint);
void ucx_held_fail(struct pst_endpoint *endpoint, int32_t status);

#endif
