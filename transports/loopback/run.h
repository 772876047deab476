/* SPDX-License-Identifier: Apache-2.0 */
/* The READs and WRITEs that most are: of one piece, between the same two ranges as the one before.
 */
#ifndef LOOPBACK_RUN_H
#define LOOPBACK_RUN_H

#include "loopback.h"

/* What the plain requests of a run have in common: of one kind, between the same two ranges, each
 * of one piece, all that the CPU reaches. */
struct lb_run {
  uint64_t kind;
  const struct lb_mr *mr;
  struct pst_remote *remote;
  bool reading;
};

/* False: the first is not plain. Whatever is the matter with it is said by lb_rma_execute(). */
static inline bool lb_run_begin(const struct pst_endpoint *endpoint,
                                const struct pst_request *first, struct lb_run *run)
{
  struct pst_remote *remote = first->u.rma.remote;
  const struct lb_mr *mr = lb_mr_of(first->local.mr);
  const uint64_t kind = pst_request_head(first);
  const bool reading = kind == pst_request_head_of(PST_OP_READ, 0);
  const uint32_t near = reading ? PST_ACCESS_LOCAL_WRITE : PST_ACCESS_LOCAL_READ;
  const uint32_t far = reading ? PST_ACCESS_REMOTE_READ : PST_ACCESS_REMOTE_WRITE;
  /* Of several pieces, `local` is not an mr. */
  if (!(reading || kind == pst_request_head_of(PST_OP_WRITE, 0)) || !mr || !remote ||
      remote->endpoint != endpoint || !mr->base || !remote->base || !(mr->access & near) ||
      !(remote->access & far))
    return false;
  *run = (struct lb_run){kind, mr, remote, reading};
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
  return pst_request_head(request) == run->kind && lb_mr_of(request->local.mr) == run->mr &&
         request->u.rma.remote == run->remote && lb_run_holds(run, request);
}

static inline void lb_run_copy(const struct lb_run *run, const struct pst_request *request)
{
  uint8_t *near = run->mr->base + request->offset;
  uint8_t *far = run->remote->base + request->u.rma.offset;
  uint8_t *to = run->reading ? near : far;
  const uint8_t *from = run->reading ? far : near;
  memcpy(to, from, request->arg.length);
}

/* Execute a run at the front of n, at least 1. Returns how many it has: it is inside of the peer's
 * memory for one run, and ends after so many bytes, lest the owner wait long. */
static inline uint32_t lb_run_execute(struct pst_endpoint *endpoint,
                                      const struct pst_request *requests, uint32_t n)
{
  struct lb_run run;
  uint64_t bytes = 0;
  uint32_t i = 0;
  if (!(endpoint->roles & PST_ROLE_RMA) || !lb_run_begin(endpoint, requests, &run) ||
      !lb_run_holds(&run, requests) || !lb_seat_in(run.remote, endpoint->fenced))
    return 0;
  do {
    lb_run_copy(&run, &requests[i]);
    bytes += requests[i++].arg.length;
  } while (i < n && bytes < LB_PASSAGE_BYTES && lb_run_has(&run, &requests[i]));
  lb_seat_out(run.remote);
  return i;
}

#endif
