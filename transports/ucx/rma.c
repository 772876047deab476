/* SPDX-License-Identifier: Apache-2.0 */
/* WRITE, READ, atomics and FLUSH by UCX's puts, gets, atomics and flush. */
#include "rma.h"

#include <errno.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "am.h"
#include "described.h"
#include "endpoint.h"
#include "fail.h"
#include "link.h"
#include "mr.h"
#include "remote.h"
#include "rma_am.h"
#include "send.h"
#include "units.h"
#include "wire.h"

static int ucx_rma_check_atomic(const struct pst_endpoint *endpoint,
                                const struct pst_request *request)
{
  const struct pst_remote *remote = request->u.atomic.remote;
  const struct pst_mr *mr = request->local.mr;

  if ((request->flags & ~(uint32_t)PST_REQUEST_FENCE) || request->reserved0 ||
      request->piece_count || !remote || remote->link != endpoint->link ||
      (request->u.atomic.offset & 7) || !mr ||
      !pst_cpu_mr_holds(NULL, request->local.mr, request->offset, 8, PST_ACCESS_LOCAL_WRITE))
    return -EINVAL;
  if (!(remote->access & PST_ACCESS_REMOTE_ATOMIC) ||
      !pst_range_holds(remote->length, request->u.atomic.offset, 8))
    return -EACCES;
  return mr->by_cpu ? 0 : -EOPNOTSUPP;
}

/* Checks a one-sided request against its memories and the peer's permissions, before anything is
 * posted. 0 or -errno. */
int ucx_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request)
{
  const struct pst_remote *remote = request->u.rma.remote;
  const bool is_read = request->opcode == PST_OP_READ;
  int rc;

  if (request->opcode == PST_OP_FLUSH) {
    if (remote && remote->link != endpoint->link)
      return -EINVAL;
    return pst_flush_check(request, true);
  }
  if (!(endpoint->cpu.params.roles & PST_ROLE_RMA))
    return -EINVAL;
  if (request->opcode == PST_OP_FETCH_ADD || request->opcode == PST_OP_COMPARE_SWAP)
    return ucx_rma_check_atomic(endpoint, request);
  if (request->opcode != PST_OP_WRITE && !is_read)
    return -EINVAL;
  rc = pst_request_check(request, endpoint->pieces_max,
                         is_read ? PST_ACCESS_LOCAL_WRITE : PST_ACCESS_LOCAL_READ, pst_cpu_mr_holds,
                         NULL);
  if (rc < 0)
    return rc;
  if (!remote || remote->link != endpoint->link || request->u.rma.reserved ||
      (request->flags & PST_REQUEST_EXCLUSIVE))
    return -EINVAL;
  if (request->arg.length > UCX_MESSAGE_MAX)
    return -EMSGSIZE;
  if (!(remote->access & (is_read ? PST_ACCESS_REMOTE_READ : PST_ACCESS_REMOTE_WRITE)) ||
      !pst_range_holds(remote->length, request->u.rma.offset, request->arg.length))
    return -EACCES;
  return 0;
}

/* ---- Operations under way ------------------------------------------------------------------ */

static struct ucx_op *ucx_rma_take_op(struct pst_endpoint *endpoint,
                                      const struct pst_request *request)
{
  struct ucx_op *op = endpoint->link->free_ops;
  ucp_dt_iov_t *pieces = op->pieces;

  endpoint->link->free_ops = op->next;
  endpoint->link->ops_under_way++;
  memset(op, 0, sizeof(*op));
  op->link = endpoint->link;
  op->pieces = pieces;
  op->left = 1;
  op->is_taken = true;
  if (request) {
    op->opcode = request->opcode;
    op->cookie = request->cookie;
  }
  return op;
}

static void ucx_rma_give_op(struct ucx_op *op)
{
  op->is_taken = false;
  op->link->ops_under_way--;
  op->next = op->link->free_ops;
  op->link->free_ops = op;
}

/* UCX has ended all parts. A FLUSH waits for the peer, too: ucx_rma_step(). */
static void ucx_rma_finish(struct ucx_op *op)
{
  struct pst_endpoint *endpoint = op->link->endpoint;

  if (endpoint && op->opcode == PST_OP_FLUSH) {
    if (op->puts > endpoint->tx.puts_flushed)
      endpoint->tx.puts_flushed = op->puts;
    return;
  }
  if (endpoint && op->opcode == PST_OP_WRITE) {
    ucx_unit_end(&endpoint->tx.writes, op->unit, op->status);
  } else if (endpoint && op->opcode == 0) {
    endpoint->tx.is_fencing = false;
    if (op->puts > endpoint->tx.puts_flushed)
      endpoint->tx.puts_flushed = op->puts;
  } else if (endpoint) {
    endpoint->tx.fetching--;
    pst_dones_push(&endpoint->cpu.dones, op->opcode, op->status, op->cookie, 1);
  }
  ucx_rma_give_op(op);
}

static void ucx_rma_end_part(struct ucx_op *op, ucs_status_t status)
{
  struct ucx_link *link = op->link;

  if (status != UCS_OK && op->status == 0) {
    ucx_link_fail(link, status, "a one-sided request");
    op->status = ucx_link_status(link) ? ucx_link_status(link) : -ECANCELED;
  }
  if (op->left > 0 && --op->left == 0)
    ucx_rma_finish(op);
}

static void ucx_rma_ended(void *request, ucs_status_t status, void *arg)
{
  ucp_request_free(request);
  ucx_rma_end_part(arg, status);
}

static void ucx_rma_begun(struct ucx_op *op, ucs_status_ptr_t request)
{
  if (!request)
    ucx_rma_end_part(op, UCS_OK);
  else if (UCS_PTR_IS_ERR(request))
    ucx_rma_end_part(op, UCS_PTR_STATUS(request));
}

/* ---- To UCX -------------------------------------------------------------------------------- */

static void ucx_rma_start_piece(struct ucx_op *op, const struct pst_request *request,
                                const struct pst_piece *piece, uint64_t at)
{
  const struct pst_remote *remote = request->u.rma.remote;
  const struct pst_mr *mr = piece->mr;
  void *local = mr->cpu.base + piece->offset;
  const uint64_t address = remote->address + request->u.rma.offset + at;
  const ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                      UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FIELD_MEMH,
      .cb.send = ucx_rma_ended,
      .user_data = op,
      .memory_type = mr->type,
      .memh = mr->memh,
  };

  op->left++;
  ucx_rma_begun(
      op, request->opcode == PST_OP_READ
              ? ucp_get_nbx(op->link->ep, local, piece->length, address, remote->rkey, &param)
              : ucp_put_nbx(op->link->ep, local, piece->length, address, remote->rkey, &param));
}

/* Done at once where there are no bytes. */
static void ucx_rma_start_by_messages(struct pst_endpoint *endpoint,
                                      const struct pst_request *request)
{
  struct ucx_op *op;

  if (request->opcode == PST_OP_WRITE && request->arg.length) {
    ucx_send_write(endpoint, request);
    return;
  }
  if (request->opcode == PST_OP_WRITE) {
    ucx_unit_end(&endpoint->tx.writes, ucx_unit_begin(&endpoint->tx.writes, request->cookie, 1), 0);
    return;
  }
  op = ucx_rma_take_op(endpoint, request);
  endpoint->tx.fetching++;
  if (request->opcode == PST_OP_READ && request->arg.length == 0)
    ucx_rma_end_part(op, UCS_OK);
  else
    ucx_rma_am_ask(endpoint, op, request);
}

void ucx_rma_end(struct ucx_op *op, int32_t status)
{
  op->status = status;
  op->left = 0;
  ucx_rma_finish(op);
}

static void ucx_rma_start_copy(struct pst_endpoint *endpoint, const struct pst_request *request)
{
  struct ucx_op *op = ucx_rma_take_op(endpoint, request);
  struct pst_piece one;
  uint32_t count;
  uint64_t at = 0;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);

  if (request->opcode == PST_OP_WRITE) {
    op->unit = ucx_unit_begin(&endpoint->tx.writes, request->cookie, 1);
    endpoint->tx.puts++;
  } else {
    endpoint->tx.fetching++;
  }
  for (uint32_t i = 0; i < count; at += pieces[i++].length)
    if (pieces[i].length && !ucx_link_is_lost(endpoint->link))
      ucx_rma_start_piece(op, request, &pieces[i], at);
  ucx_rma_end_part(op, UCS_OK);
}

static void ucx_rma_start_atomic(struct pst_endpoint *endpoint, const struct pst_request *request)
{
  struct ucx_op *op = ucx_rma_take_op(endpoint, request);
  const struct pst_remote *remote = request->u.atomic.remote;
  const bool is_swap = request->opcode == PST_OP_COMPARE_SWAP;
  void *found = pst_cpu_mr_of(request->local.mr)->base + request->offset;
  const ucp_request_param_t param = {
      .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                      UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_REPLY_BUFFER,
      .cb.send = ucx_rma_ended,
      .user_data = op,
      .datatype = ucp_dt_make_contig(8),
      .reply_buffer = found,
  };

  endpoint->tx.fetching++;
  op->operand = is_swap ? request->arg.compare : request->u.atomic.operand;
  if (is_swap) /* UCX finds the new value where it puts the old one */
    memcpy(found, &request->u.atomic.operand, 8);
  ucx_rma_begun(op,
                ucp_atomic_op_nbx(op->link->ep, is_swap ? UCP_ATOMIC_OP_CSWAP : UCP_ATOMIC_OP_ADD,
                                  &op->operand, 1, remote->address + request->u.atomic.offset,
                                  remote->rkey, &param));
}

static void ucx_rma_flush_puts(struct ucx_op *op)
{
  const struct ucx_tx *tx = &op->link->endpoint->tx;
  const ucp_request_param_t param = {.op_attr_mask =
                                         UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                     .cb.send = ucx_rma_ended,
                                     .user_data = op};

  op->puts = tx->puts;
  if (tx->puts != tx->puts_flushed && !ucx_link_is_lost(op->link))
    ucx_rma_begun(op, ucp_ep_flush_nbx(op->link->ep, &param));
  else
    ucx_rma_end_part(op, UCS_OK);
}

static void ucx_rma_start_flush(struct pst_endpoint *endpoint, const struct pst_request *request)
{
  struct ucx_tx *tx = &endpoint->tx;
  struct ucx_op *op = ucx_rma_take_op(endpoint, request);

  op->position = tx->position;
  op->writes = endpoint->link->writes_begun;
  *tx->flushing_end = op;
  tx->flushing_end = &op->next;
  if (op->position > tx->flush_known || op->writes > tx->writes_known)
    tx->owes_flush = true;
  ucx_rma_flush_puts(op);
  ucx_rma_step(endpoint);
}

bool ucx_rma_may_start(const struct pst_endpoint *endpoint, const struct pst_request *request,
                       uint32_t *why)
{
  if (!ucx_rma_am_serves(endpoint, request) || ucx_rma_am_may_start(endpoint, request))
    return true;
  *why = PST_WAIT_QUEUE;
  return false;
}

void ucx_rma_start(struct pst_endpoint *endpoint, const struct pst_request *request)
{
  if (request->opcode == PST_OP_FLUSH)
    ucx_rma_start_flush(endpoint, request);
  else if (ucx_rma_am_serves(endpoint, request))
    ucx_rma_start_by_messages(endpoint, request);
  else if (request->opcode == PST_OP_WRITE || request->opcode == PST_OP_READ)
    ucx_rma_start_copy(endpoint, request);
  else
    ucx_rma_start_atomic(endpoint, request);
}

void ucx_rma_fence(struct pst_endpoint *endpoint)
{
  endpoint->tx.is_fencing = true;
  if (endpoint->link->writes_begun != endpoint->tx.writes_known)
    endpoint->tx.owes_flush = true;
  ucx_rma_flush_puts(ucx_rma_take_op(endpoint, NULL));
}

static void ucx_rma_end_flush(struct pst_endpoint *endpoint, int32_t status)
{
  struct ucx_tx *tx = &endpoint->tx;
  struct ucx_op *op = tx->flushing;

  tx->flushing = op->next;
  if (!tx->flushing)
    tx->flushing_end = &tx->flushing;
  pst_dones_push(&endpoint->cpu.dones, PST_OP_FLUSH, status, op->cookie, 1);
  if (op->left == 0)
    ucx_rma_give_op(op);
  else
    op->opcode = 0; /* UCX still has it */
}

void ucx_rma_step(struct pst_endpoint *endpoint)
{
  struct ucx_tx *tx = &endpoint->tx;

  if (tx->owes_flush && !ucx_link_is_lost(endpoint->link)) {
    const struct ucx_header ask = {.kind = UCX_FLUSH, .position = tx->position};
    tx->owes_flush = !ucx_am_control(endpoint->link, &ask);
  }
  while (tx->flushing && tx->flushing->left == 0 && tx->flushing->position <= tx->flush_known &&
         tx->flushing->writes <= tx->writes_known)
    ucx_rma_end_flush(endpoint, tx->flushing->status);
}

void ucx_rma_fail(struct pst_endpoint *endpoint, int32_t status)
{
  struct ucx_link *link = endpoint->link;

  while (endpoint->tx.flushing)
    ucx_rma_end_flush(endpoint, status);
  for (uint32_t i = 0; i < link->op_count; i++) {
    struct ucx_op *op = &link->ops[i];
    if (!op->is_taken || op->opcode == 0)
      continue;
    if (op->by_messages) {
      ucx_rma_end(op, status);
      continue;
    }
    if (op->opcode != PST_OP_WRITE) {
      endpoint->tx.fetching--;
      pst_dones_push(&endpoint->cpu.dones, op->opcode, status, op->cookie, 1);
    }
    op->opcode = 0;
  }
  ucx_units_fail(&endpoint->tx.writes, status);
}
