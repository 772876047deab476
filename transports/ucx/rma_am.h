/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE, READ and atomics by active messages: of ours, and of the peer's on our memory. */
#ifndef UCX_RMA_AM_H
#define UCX_RMA_AM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include <penstock/transport.h>

#include "wire.h"

struct ucx_link;
struct ucx_op;

/* A READ or an atomic of the peer's that is not answered yet. */
struct ucx_asked {
  struct ucx_header header;
  uint64_t offset; /* bytes of a READ that went */
};

/* 0 or -ENOMEM. A link that can answer. */
int ucx_rma_am_open(struct ucx_link *link);
void ucx_rma_am_close(struct ucx_link *link);

/* Do messages serve this request, since both ends' CPUs reach the memory? */
bool ucx_rma_am_serves(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* Is there room for it now? */
bool ucx_rma_am_may_start(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* Ask the peer for what this READ or atomic wants. There is room. */
void ucx_rma_am_ask(struct pst_endpoint *endpoint, struct ucx_op *op,
                    const struct pst_request *request);

/* Messages of the peer's. UCX_OK, or NULL and what rule it breaks. */
const char *ucx_rma_am_receive(struct ucx_link *link, const struct ucx_header *header,
                               const void *data, size_t bytes);
/* Is there something to answer? */
bool ucx_rma_am_owes(const struct ucx_link *link);
/* Answer what the peer has asked for, as far as there is room. */
void ucx_rma_am_step(struct pst_endpoint *endpoint);

#endif
