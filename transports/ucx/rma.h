/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE, READ, atomics and FLUSH by UCX's puts, gets, atomics and flush. */
#ifndef UCX_RMA_H
#define UCX_RMA_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/transport.h>

struct ucx_link;

/* A WRITE, READ, atomic or FLUSH under way. */
struct ucx_op {
  struct ucx_link *link;
  struct ucx_op *next;
  uint64_t cookie;
  uint64_t unit;     /* a WRITE's */
  uint64_t position; /* FLUSH: the SENDs that the peer has to have */
  uint64_t puts;     /* FLUSH: the WRITEs that are placed by then */
  uint64_t operand;  /* atomics: what UCX reads */
  uint32_t left;     /* parts that UCX has not ended */
  int32_t status;
  uint8_t opcode; /* 0: a flush that a FENCE waits for */
  bool is_taken;
};

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
