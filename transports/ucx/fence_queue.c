/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait behind a FENCE, in post order. UCX's lanes have no common order, so that a
 * FENCE behind a WRITE waits until the peer has it. */
#include "fence_queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/transport-util.h>

#include "endpoint.h"
#include "link.h"
#include "rma.h"
#include "rma_am.h"
#include "send.h"
#include "units.h"

int ucx_fence_queue_open(struct ucx_tx *tx, uint32_t requests, uint32_t pieces)
{
  uint64_t size = 1;

  while (size < requests)
    size <<= 1;
  tx->held_mask = size - 1;
  tx->held = calloc(size, sizeof(*tx->held));
  tx->held_pieces = calloc(size * pieces, sizeof(*tx->held_pieces));
  if (!tx->held || !tx->held_pieces)
    return -ENOMEM;
  for (uint64_t i = 0; i < size; i++)
    tx->held[i].pieces = tx->held_pieces + i * pieces;
  return 0;
}

void ucx_fence_queue_close(struct ucx_tx *tx)
{
  free(tx->held);
  free(tx->held_pieces);
}

/* UCX's own puts, gets and atomics may pass WRITEs that went as messages; messages do not. */
static bool ucx_fence_queue_may_pass_writes(const struct pst_endpoint *endpoint,
                                            const struct pst_request *request)
{
  return endpoint->link->writes_begun != endpoint->tx.writes_known &&
         request->opcode != PST_OP_SEND && request->opcode != PST_OP_FLUSH &&
         !ucx_rma_am_serves(endpoint, request);
}

static bool ucx_fence_queue_must_wait(const struct pst_endpoint *endpoint,
                                      const struct pst_request *request)
{
  const struct ucx_tx *tx = &endpoint->tx;

  return (request->flags & PST_REQUEST_FENCE) &&
         (tx->fetching || tx->puts != tx->puts_flushed || tx->is_fencing ||
          ucx_fence_queue_may_pass_writes(endpoint, request));
}

bool ucx_fence_queue_must(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  return endpoint->tx.held_head != endpoint->tx.held_tail ||
         ucx_fence_queue_must_wait(endpoint, request);
}

uint32_t ucx_fence_queue_add(struct pst_endpoint *endpoint, const struct pst_request *request,
                             uint32_t *why)
{
  struct ucx_tx *tx = &endpoint->tx;
  struct ucx_fence_queue *held = &tx->held[tx->held_head & tx->held_mask];

  if (request->opcode == PST_OP_SEND) {
    if (tx->limit - tx->position <= tx->held_sends) {
      *why = PST_WAIT_CREDIT;
      return 0;
    }
    tx->held_sends++;
  }
  held->request = *request;
  if (request->piece_count && request->opcode <= PST_OP_READ) {
    memcpy(held->pieces, request->local.pieces, request->piece_count * sizeof(*held->pieces));
    held->request.local.pieces = held->pieces;
  }
  tx->held_head++;
  ucx_fence_queue_step(endpoint);
  return 1;
}

void ucx_fence_queue_step(struct pst_endpoint *endpoint)
{
  struct ucx_tx *tx = &endpoint->tx;
  uint32_t why;

  while (tx->held_tail != tx->held_head && !ucx_link_is_lost(endpoint->link)) {
    const struct pst_request *request = &tx->held[tx->held_tail & tx->held_mask].request;
    if (ucx_fence_queue_must_wait(endpoint, request)) {
      if (!tx->fetching && !tx->is_fencing)
        ucx_rma_fence(endpoint);
      if (ucx_fence_queue_must_wait(endpoint, request))
        return;
    }
    if (request->opcode == PST_OP_SEND) {
      if (!ucx_send_start(endpoint, request, 1, &why))
        return;
      tx->held_sends--;
    } else {
      if (!ucx_rma_may_start(endpoint, request, &why))
        return;
      ucx_rma_start(endpoint, request);
    }
    tx->held_tail++;
  }
}

void ucx_fence_queue_fail(struct pst_endpoint *endpoint, int32_t status)
{
  struct ucx_tx *tx = &endpoint->tx;

  for (; tx->held_tail != tx->held_head; tx->held_tail++) {
    const struct pst_request *request = &tx->held[tx->held_tail & tx->held_mask].request;
    if (request->opcode == PST_OP_SEND || request->opcode == PST_OP_WRITE) {
      struct ucx_units *units = request->opcode == PST_OP_SEND ? &tx->sends : &tx->writes;
      ucx_unit_end(units, ucx_unit_begin(units, request->cookie, 1), status);
    } else {
      pst_dones_push(&endpoint->cpu.dones, request->opcode, status, request->cookie, 1);
    }
  }
  tx->held_sends = 0;
}
