/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE, READ, atomics and FLUSH by UCX's puts, gets, atomics and flush. */
#ifndef UCX_RMA_H
#define UCX_RMA_H

#include <stdbool.h>
#include <stdint.h>

#include <ucp/api/ucp.h>

#include <penstock/transport.h>

struct ucx_link;

/* READs and atomics by messages, of one link, that are under way. */
#define UCX_ASKED_MAX 64u

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
  bool by_messages; /* UCX has nothing of it */
  uint64_t writes;  /* FLUSH: the UCX_WRITEs that the peer has to have */
  /* A READ or an atomic by messages: its number, the bytes to come, and where they go. */
  uint64_t number, length, bytes_left;
  uint32_t piece_count;
  ucp_dt_iov_t *pieces; /* room for as many as a request has */
};

int ucx_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* May one that has been judged start now? If not *why is PST_WAIT_QUEUE. */
bool ucx_rma_may_start(const struct pst_endpoint *endpoint, const struct pst_request *request,
                       uint32_t *why);
/* Start it. */
void ucx_rma_start(struct pst_endpoint *endpoint, const struct pst_request *request);
/* Place all WRITEs so far: tx.is_fencing until they are. */
void ucx_rma_fence(struct pst_endpoint *endpoint);
/* A READ or atomic is done with this status. */
void ucx_rma_end(struct ucx_op *op, int32_t status);
/* FLUSHes that the peer has answered. */
void ucx_rma_step(struct pst_endpoint *endpoint);
/* All that are under way end with this status; UCX's requests of them go on unheard. */
void ucx_rma_fail(struct pst_endpoint *endpoint, int32_t status);

#endif
