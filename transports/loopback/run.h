/* SPDX-License-Identifier: Apache-2.0 */
/* The READs and WRITEs that most are: of one piece, between the same two ranges as the one before.
 */
#ifndef LOOPBACK_RUN_H
#define LOOPBACK_RUN_H

#include "remote.h"
#include "send_copy.h"

/* Members that the plain requests of a run have in common: they are of one kind, between the same
 * two ranges, each of one piece, in memory that the CPU reaches. */
struct lb_run {
  uint64_t head;
  const struct lb_mr *mr;
  struct pst_remote *remote;
  bool reading;
};

/* False: the first is not plain. lb_rma_execute() then finds and reports what is wrong with it. */
static inline bool lb_run_begin(const struct pst_endpoint *endpoint,
                                const struct pst_request *first, struct lb_run *run)
{
  const uint8_t opcode = first->opcode;
  struct pst_remote *remote = first->u.rma.remote;
  const struct lb_mr *mr = lb_mr_of(first->local.mr);
  /* With several pieces `local` is not an mr; with another opcode u has no remote. */
  if (pst_request_head(first) != pst_request_head_of(opcode, 0) || opcode >= 32 || !mr ||
      !(mr->plain >> opcode & 1) || !remote || remote->endpoint != endpoint ||
      !(remote->plain >> opcode & 1))
    return false;
  *run = (struct lb_run){pst_request_head(first), mr, remote, opcode == PST_OP_READ};
  return true;
}

static inline bool lb_run_holds(const struct lb_run *run, const struct pst_request *request)
{
  const uint64_t length = request->arg.length;
  return length - 1 < LB_BYTES_MAX && pst_range_holds(run->mr->length, request->offset, length) &&
         pst_range_holds(run->remote->length, request->u.rma.offset, length) &&
         !request->u.rma.reserved;
}

static inline bool lb_run_has(const struct lb_run *run, const struct pst_request *request)
{
  return pst_request_head(request) == run->head && lb_mr_of(request->local.mr) == run->mr &&
         request->u.rma.remote == run->remote && lb_run_holds(run, request);
}

static inline void lb_run_copy(const struct lb_run *run, const struct pst_request *request)
{
  uint8_t *near = run->mr->base + request->offset;
  uint8_t *far = run->remote->base + request->u.rma.offset;
  uint8_t *to = run->reading ? near : far;
  const uint8_t *from = run->reading ? far : near;
  if (!lb_copy_short(to, from, request->arg.length))
    memcpy(to, from, request->arg.length);
}

/* Executes a run at the front of n, at least 1. Returns how many requests it has. The thread is
 * inside of the peer's memory for one run, which ends after a number of bytes, lest the owner wait
 * long. */
static LB_ALWAYS_INLINE uint32_t lb_run_execute(const struct pst_endpoint *endpoint,
                                                const struct pst_request *requests, uint32_t n)
{
  struct lb_run run;
  uint64_t bytes = 0;
  uint32_t i = 0;
  if (!lb_run_begin(endpoint, requests, &run) || !lb_run_holds(&run, requests) ||
      !lb_seat_in(run.remote, endpoint->fenced))
    return 0;
  do {
    lb_run_copy(&run, &requests[i]);
    bytes += requests[i++].arg.length;
  } while (i < n && bytes < LB_PEER_ACCESS_BYTES && lb_run_has(&run, &requests[i]));
  lb_seat_out(run.remote);
  return i;
}

#endif
