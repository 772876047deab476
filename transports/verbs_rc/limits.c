/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of a device. The device's own limits (`ibv_devinfo -v`) are shared by all processes: no
 * more than these can ever be had, and another process may have some of them.
 */
#include <stdio.h>
#include <unistd.h>

#include <penstock/page.h>

#include "../verbs/domain.h"
#include "../verbs/srq.h"
#include "endpoint.h"
#include "ops.h"
#include "qp.h"

/* At most as many endpoints as `each` of the device's `has`, but for those that are `taken`, allow.
 * 0: it does not say how many it has. */
static void rc_limits_bound(struct pst_limits *limits, const char *limit, int64_t has,
                            uint32_t taken, uint32_t each)
{
  const uint64_t most = has > taken ? (uint64_t)(has - taken) / each : 0;

  if (has <= 0 || most >= limits->device_endpoints_max)
    return;
  limits->device_endpoints_max = most ? (uint32_t)most : 1;
  snprintf(limits->endpoints_reason, sizeof(limits->endpoints_reason),
           "%s is %lld, of which each takes %u%s", limit, (long long)has, each,
           taken ? " and the device 1" : "");
}

static void rc_limits_bound_by_shared(struct pst_limits *limits, const struct pst_device *device,
                                      uint32_t receives)
{
  const uint64_t most = vb_srq_most(device, receives, limits->device_endpoints_max);
  const struct ibv_device_attr *attr = &device->attr;

  if (most >= limits->device_endpoints_max)
    return;
  limits->device_endpoints_max = most ? (uint32_t)most : 1;
  snprintf(limits->endpoints_reason, sizeof(limits->endpoints_reason),
           "max_srq is %d of max_srq_wr %d, of which each takes %u receives", attr->max_srq,
           attr->max_srq_wr, receives);
}

/* Peers' endpoints are alike, so that what each takes is known before there is one. */
static void rc_limits_bound_peers(const struct pst_device *device, struct pst_limits *limits)
{
  const struct ibv_device_attr *attr = &device->attr;
  const struct pst_plan *plan = &device->plan;
  struct pst_ring ring = {0};
  struct vb_rx rx = {.ring = &ring,
                     .share = vb_smaller(plan->ring_slots / plan->rings, limits->slots_max)};
  struct vb_tx tx = {0};
  struct rc_connection rc = {0};
  struct pst_endpoint like = {.rc = &rc,
                              .device = (struct pst_device *)device,
                              .tx = &tx,
                              .rx = &rx,
                              .sq.requests_max = vb_smaller(plan->requests, limits->requests_max),
                              .lane_count = device->qps};

  rc_queue_sizes(&like);
  rc_limits_bound(limits, "max_qp", attr->max_qp, 0, 2 * device->qps);
  if (!vb_domain_is_one(device))
    rc_limits_bound(limits, "max_pd", attr->max_pd, 1, 1);
  rc_limits_bound(limits, "max_mr", attr->max_mr, 0, 2); /* its ring, its credit */
  /* One worker has them all. */
  rc_limits_bound(limits, "max_cqe", attr->max_cqe, 0, like.completions);
  if (device->shares)
    rc_limits_bound_by_shared(limits, device, rc.lanes[0].rq.size);
}

static void rc_limits_bound_endpoints(const struct pst_device *device, struct pst_limits *limits)
{
  const struct ibv_device_attr *attr = &device->attr;
  const struct pst_plan *plan = &device->plan;
  /* `qps` adds no queue pairs to endpoints that have only one-sided access. */
  const bool has_messages = plan->senders || plan->receivers || !plan->rma;

  limits->device_endpoints_max = VB_WORKERS_MAX * VB_PLACES;
  if ((plan->flags & PST_PLAN_PEERS) && plan->rings)
    rc_limits_bound_peers(device, limits);
  rc_limits_bound(limits, "max_qp", attr->max_qp, 0, has_messages ? device->qps : 1);
  limits->endpoints_max = vb_smaller(limits->device_endpoints_max, VB_PLACES);
  if (!vb_domain_is_one(device) && attr->max_pd > 0)
    limits->domains_max = attr->max_pd > 1 ? (uint32_t)attr->max_pd - 1 : 1;
}

/* The limits of the device, less what the plugin itself needs of each queue. */
int rc_limits(struct pst_device *device, struct pst_limits *limits)
{
  const struct ibv_device_attr *attr = &device->attr;
  /* Beside the host's own a queue has room for credit, hellos and farewells. */
  const uint32_t own = VB_CONTROL_RECEIVES + VB_SPARE_SENDS + VB_SPARE_RECEIVES;
  uint32_t depth = (uint32_t)attr->max_qp_wr, room = depth > own ? depth - own : 1;
  uint32_t receives = device->shares ? (uint32_t)attr->max_srq_wr - VB_RECEIVES_BESIDE : room;
  struct pst_limits out = {
      .sequence_bits = 32,
      .capabilities = device->capabilities,
      .message_max = device->message_max,
      .rma_max = device->capabilities & PST_CAP_READ ? device->message_max : 0,
      .slot_alignment = 1,
      .slots_min = 1,
      .slots_max = vb_smaller(receives, VB_SLOTS_MAX),
      .workers_max = vb_smaller((uint64_t)attr->max_cq, VB_WORKERS_MAX),
      .requests_max = vb_smaller(room, RC_REQUESTS_MAX),
      .pieces_max = device->pieces_max,
      .ring_needs = PST_NEED_EXPORT_DMABUF,
      .send_needs = PST_NEED_EXPORT_DMABUF,
      .page_size = pst_page_size(),
      .address_max = RC_BLOB_BYTES,
      .remote_max = VB_REMOTE_BYTES,
  };

  rc_limits_bound_endpoints(device, &out);
  pst_struct_write(limits, &out, sizeof(out));
  return 0;
}
