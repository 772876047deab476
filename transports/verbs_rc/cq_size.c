/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completions that a worker will have room for. A completion queue is made for what is planned, and
 * grows for what is more: not all providers have ibv_resize_cq (erdma, hns, ionic, mana and qedr of
 * rdma-core 65 do not), and one in use is best left alone.
 */
#include "qp.h"

#define CQ_LEAST 1024u
#define CQ_PEERS 16384u /* of peers that may never come: 1 MiB of mlx5's */

/* Completions of an endpoint with these parts; one that receives has `share` slots. */
static uint64_t rc_cq_size_completions_of(const struct pst_device *device, bool sends,
                                          bool receives, uint32_t share)
{
  const struct pst_plan *plan = &device->plan;
  struct pst_ring ring = {0};
  struct vb_rx rx = {.ring = &ring, .share = share, .sends = device->sends && !sends};
  struct vb_tx tx = {0};
  struct rc_connection rc = {0};
  struct pst_endpoint like = {.rc = &rc,
                              .device = (struct pst_device *)device,
                              .tx = sends ? &tx : NULL,
                              .rx = receives ? &rx : NULL,
                              .sq.requests_max = vb_smaller(plan->requests, RC_REQUESTS_MAX),
                              .lane_count = sends || receives ? device->qps : 1};

  rc_queue_sizes(&like);
  return like.completions;
}

/* Completions of all endpoints; *largest: of the largest one. */
static uint64_t rc_cq_size_all_of(const struct pst_device *device, uint64_t *largest)
{
  const struct pst_plan *plan = &device->plan;
  const uint32_t rings = plan->rings ? plan->rings : 1;
  const uint32_t share = vb_smaller((plan->ring_slots + rings - 1) / rings, VB_SLOTS_MAX);
  const uint64_t sender = rc_cq_size_completions_of(device, true, false, 0);
  const uint64_t receiver = rc_cq_size_completions_of(device, false, true, share);

  if ((plan->flags & PST_PLAN_PEERS) && plan->rings) {
    *largest = rc_cq_size_completions_of(device, true, true, share);
    return *largest * plan->rings;
  }
  *largest = (plan->senders ? sender : 0) + (plan->receivers ? receiver : 0);
  return plan->senders * sender + plan->receivers * receiver +
         (plan->rma ? plan->rma * rc_cq_size_completions_of(device, false, false, 0) : 0) +
         (device->shares && device->sends ? plan->ring_slots : 0);
}

struct vb_planned rc_cq_size_completions(const struct pst_device *device)
{
  const struct pst_plan *plan = &device->plan;
  const uint32_t most = (uint32_t)device->attr.max_cqe;
  uint64_t largest = 0;
  const uint64_t all = rc_cq_size_all_of(device, &largest);
  uint64_t first = plan->workers > 1 ? all / plan->workers : all;

  if (plan->flags & PST_PLAN_PEERS)
    first = vb_smaller(first, CQ_PEERS);
  first = first < largest ? largest : first;
  first = first < CQ_LEAST ? CQ_LEAST : first;
  return (struct vb_planned){.first = vb_smaller(first, most),
                             .all = vb_smaller(all < first ? first : all, most)};
}
