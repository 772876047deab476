/* SPDX-License-Identifier: Apache-2.0 */
/* READ, WRITE and atomics: done within post(), by this side's CPU. */
#include "endpoint.h"
#include "remote.h"

/* A pst_mr_check. */
static bool lb_rma_holds_local(const void *context, struct pst_mr *handle, uint64_t offset,
                               uint64_t length, uint32_t right)
{
  const struct lb_mr *mr = lb_mr_of(handle);
  (void)context;
  return mr && (mr->access & right) && pst_range_holds(mr->length, offset, length);
}

/* Local side of a READ or WRITE. *reached: the CPU does, all of it. */
static int lb_rma_local_check(const struct pst_request *request, uint32_t access, bool *reached)
{
  struct pst_piece one;
  uint32_t count;
  if (request->piece_count == 0 && request->arg.length == 0 && !request->local.mr)
    return 0;
  int rc = pst_request_check(request, LB_PIECES_MAX, access, lb_rma_holds_local, NULL);
  if (rc != 0)
    return rc;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);
  for (uint32_t i = 0; i < count; i++)
    *reached &= lb_mr_of(pieces[i].mr)->base != NULL;
  return request->arg.length > LB_BYTES_MAX ? -EMSGSIZE : 0;
}

void lb_rma_leave(struct lb_peer_access *passage)
{
  if (passage->inside)
    lb_seat_out(passage->inside);
  passage->inside = NULL;
}

/* Hold the peer's range while it is used: its owner waits for us when it
 * deregisters. */
static inline int lb_rma_remote_enter(struct lb_peer_access *passage, struct pst_remote *remote,
                                      uint64_t bytes)
{
  if (passage->inside == remote && passage->bytes < LB_PEER_ACCESS_BYTES) {
    passage->bytes += bytes;
    return 0;
  }
  lb_rma_leave(passage);
  if (!lb_seat_in(remote, remote->endpoint->fenced))
    return -EACCES;
  *passage = (struct lb_peer_access){.inside = remote, .bytes = bytes};
  return 0;
}

static int lb_rma_remote_check(const struct pst_endpoint *endpoint, const struct pst_remote *remote,
                               uint64_t offset, uint64_t length, uint32_t access)
{
  if (!remote || remote->endpoint != endpoint)
    return -EINVAL;
  return (remote->access & access) && pst_range_holds(remote->length, offset, length) ? 0 : -EACCES;
}

static void lb_rma_move(uint8_t *local, uint8_t *far, uint64_t length, bool reading)
{
  if (length == 0)
    return;
  if (reading)
    memcpy(local, far, length);
  else
    memcpy(far, local, length);
}

static int lb_rma_check_read_or_write(const struct pst_endpoint *endpoint,
                                      const struct pst_request *request, bool *reached)
{
  bool reading = request->opcode == PST_OP_READ;
  const struct pst_remote *remote = request->u.rma.remote;
  if (request->u.rma.reserved)
    return -EINVAL;
  int rc = lb_rma_local_check(request, reading ? PST_ACCESS_LOCAL_WRITE : PST_ACCESS_LOCAL_READ,
                              reached);
  if (rc == 0)
    rc = lb_rma_remote_check(endpoint, remote, request->u.rma.offset, request->arg.length,
                             reading ? PST_ACCESS_REMOTE_READ : PST_ACCESS_REMOTE_WRITE);
  if (rc == 0)
    *reached &= remote->base != NULL;
  return rc;
}

static int lb_rma_read_or_write(struct pst_endpoint *endpoint, const struct pst_request *request,
                                struct lb_peer_access *passage)
{
  bool reading = request->opcode == PST_OP_READ, reached = true;
  struct pst_remote *remote = request->u.rma.remote;
  int rc = lb_rma_check_read_or_write(endpoint, request, &reached);
  if (rc == 0 && request->arg.length == 0)
    return atomic_load_explicit(&remote->gate->open, memory_order_relaxed) ? 0 : -EACCES;
  if (rc == 0 && !reached)
    rc = -EINVAL;
  if (rc == 0)
    rc = lb_rma_remote_enter(passage, remote, request->arg.length);
  if (rc != 0)
    return rc;
  uint8_t *far = remote->base + request->u.rma.offset;
  struct pst_piece one;
  uint32_t count;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);
  for (uint32_t i = 0; i < count; far += pieces[i++].length)
    lb_rma_move(lb_mr_of(pieces[i].mr)->base + pieces[i].offset, far, pieces[i].length, reading);
  return 0;
}

/* Carries out a fetch-and-add or compare-and-swap on 8 bytes of host memory. The old value goes to
 * the local memory. */
static int lb_rma_atomic(struct pst_endpoint *endpoint, const struct pst_request *request,
                         struct lb_peer_access *passage)
{
  struct pst_remote *remote = request->u.atomic.remote;
  struct lb_mr *mr = lb_mr_of(request->local.mr);
  if (request->piece_count ||
      !lb_rma_holds_local(NULL, request->local.mr, request->offset, 8, PST_ACCESS_LOCAL_WRITE))
    return -EINVAL;
  int rc =
      lb_rma_remote_check(endpoint, remote, request->u.atomic.offset, 8, PST_ACCESS_REMOTE_ATOMIC);
  if (rc == 0 && (!remote->base || !mr->base))
    rc = -EOPNOTSUPP;
  if (rc != 0)
    return rc;
  uint8_t *at = remote->base + request->u.atomic.offset;
  if (request->u.atomic.offset % 8 != 0 || (uintptr_t)at % 8 != 0)
    return -EINVAL;
  rc = lb_rma_remote_enter(passage, remote, 8);
  if (rc != 0)
    return rc;
  _Atomic uint64_t *word = (_Atomic uint64_t *)(void *)at;
  uint64_t found;
  if (request->opcode == PST_OP_FETCH_ADD) {
    found = atomic_fetch_add(word, request->u.atomic.operand);
  } else {
    found = request->arg.compare;
    atomic_compare_exchange_strong(word, &found, request->u.atomic.operand);
  }
  memcpy(mr->base + request->offset, &found, sizeof(found));
  return 0;
}

/* Returns whether a copier can copy from or to this memory: its own memory's, or the host's. */
static bool lb_rma_is_copiers(const struct lb_copier *copier, const struct lb_mr *mr)
{
  return !mr || mr->base || mr->region.memory == copier->memory;
}

int lb_rma_check(const struct pst_endpoint *endpoint, const struct pst_request *request,
                 bool *by_copy)
{
  bool reached = true;
  if (request->opcode != PST_OP_READ && request->opcode != PST_OP_WRITE)
    return 0;
  if ((request->flags & ~PST_REQUEST_FENCE) || request->reserved0 ||
      !(endpoint->roles & PST_ROLE_RMA))
    return -EINVAL;
  int rc = lb_rma_check_read_or_write(endpoint, request, &reached);
  *by_copy = rc == 0 && !reached && request->arg.length;
  if (!*by_copy)
    return rc;
  const struct lb_copier *copier = request->u.rma.remote->copier;
  struct pst_piece one;
  uint32_t count;
  const struct pst_piece *pieces = pst_request_pieces(request, &one, &count);
  bool right = copier != NULL;
  for (uint32_t i = 0; i < count && right; i++)
    right = lb_rma_is_copiers(copier, lb_mr_of(pieces[i].mr));
  return right ? 0 : -EINVAL;
}

int lb_rma_execute(struct pst_endpoint *endpoint, const struct pst_request *request,
                   struct lb_peer_access *passage)
{
  if ((request->flags & ~PST_REQUEST_FENCE) || request->reserved0)
    return -EINVAL;
  if (request->opcode == PST_OP_FLUSH)
    return request->u.rma.remote && request->u.rma.remote->endpoint != endpoint
               ? -EINVAL
               : pst_flush_check(request, true);
  if (!(endpoint->roles & PST_ROLE_RMA))
    return -EINVAL;
  switch (request->opcode) {
  case PST_OP_READ:
  case PST_OP_WRITE:
    return lb_rma_read_or_write(endpoint, request, passage);
  case PST_OP_FETCH_ADD:
  case PST_OP_COMPARE_SWAP:
    return lb_rma_atomic(endpoint, request, passage);
  default:
    return -EINVAL;
  }
}
