/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that have DC, which is found out by taking a target to RTR, and what they allow. */
#include <stdio.h>
#include <sys/random.h>

#include <penstock/page.h>

#include "../verbs/open.h"
#include "address.h"
#include "described.h"
#include "ops.h"
#include "target.h"

#define CQ_LEAST 1024u
#define CQ_PEERS 16384u

enum ibv_mtu dc_mtu(const struct pst_device *device, const struct vb_port_address *where)
{
  const uint32_t requested = device->path.mtu;

  return requested && vb_mtu_of(requested) < where->mtu ? vb_mtu_of(requested) : where->mtu;
}

static int dc_device_has_no_dc(const struct pst_device *device, const char *step, int code)
{
  VB_LOG(device, PST_LOG_ERROR,
         "%s has no dynamically connected queue pairs (DC): %s: %s. They need a ConnectX-4 or "
         "later, a driver with DC, and on bonded ports (LAG) firmware that has both; use verbs_rc "
         "on this device",
         device->open.info->name, step, strerror(code));
  return -EOPNOTSUPP;
}

/* Refuses a device of which nothing more was to be had: that says nothing of DC. */
static int dc_device_is_full(const struct pst_device *device, const char *step, int code)
{
  char memlock[160];

  VB_LOG(device, PST_LOG_ERROR,
         "%s: %s: %s; `rdma resource` shows how many there are, the kernel's log (`dmesg`) why%s",
         device->open.info->name, step, strerror(code), vb_memlock_hint(code, memlock));
  return -code;
}

/* Tries out whether the device has DC: no bit shows it. */
static int dc_device_try_target(struct dc_device *dc)
{
  struct pst_device *device = &dc->device;
  struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};
  struct ibv_cq *cq = ibv_create_cq(device->open.context, 1, NULL, NULL, 0);
  struct ibv_srq *srq = cq ? ibv_create_srq(device->own.pd, &attr) : NULL;
  const char *step = cq ? "ibv_create_srq" : "ibv_create_cq";
  struct ibv_qp *target = srq ? dc_target_create(dc, cq, srq, NULL, &device->place, &step) : NULL;
  const int code = errno;

  if (target)
    ibv_destroy_qp(target);
  if (srq)
    ibv_destroy_srq(srq);
  if (cq)
    ibv_destroy_cq(cq);
  if (target)
    return 0;
  return code == ENOMEM ? dc_device_is_full(device, step, code)
                        : dc_device_has_no_dc(device, step, code);
}

static int dc_device_find_mlx5(struct dc_device *dc)
{
  struct pst_device *device = &dc->device;
  const char *missing;

  if (!dc_mlx5_open(device->host, &dc->mlx5, &missing)) {
    VB_LOG(device, PST_LOG_ERROR,
           "dynamically connected queue pairs need libmlx5 of rdma-core 28 or later: there is no "
           "%s; install it (Debian: ibverbs-providers)",
           missing);
    return -EOPNOTSUPP;
  }
  if (dc->mlx5.is_supported(device->open.context->device))
    return 0;
  return dc_device_has_no_dc(device, "mlx5 does not run it", EOPNOTSUPP);
}

/* How many READs and atomics of an initiator may be under way. Headers before rdma-core 48 do not
 * ask for what the device has for DC: then what it has for RC. */
static void dc_device_read_depth(struct dc_device *dc)
{
  uint64_t depth = (uint64_t)dc->device.attr.max_qp_rd_atom;
#ifdef DC_HAS_MAX_RD_ATOM
  struct mlx5dv_context asked = {.comp_mask = MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM};

  if (dc->mlx5.query_device(dc->device.open.context, &asked) == 0 &&
      (asked.comp_mask & MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM))
    depth = asked.max_dc_rd_atom;
#endif
  dc->rd_atomic = (uint8_t)vb_smaller(depth, 16);
  if (dc->rd_atomic == 0)
    dc->device.capabilities &= ~(uint64_t)(PST_CAP_READ | PST_CAP_WRITE | PST_CAP_ATOMIC);
}

/* Looks for DCI streams: an initiator needs as many as there are probes at a time. */
static void dc_device_find_streams(struct dc_device *dc, const struct pst_options *options)
{
  struct mlx5dv_context asked = {.comp_mask = MLX5DV_CONTEXT_MASK_DCI_STREAMS};
  const struct mlx5dv_dci_streams_caps *has = &asked.dci_streams_caps;

  if (!dc->device.host->option_uint(options, "streams") || !dc->mlx5.stream_reset ||
      dc->mlx5.query_device(dc->device.open.context, &asked) != 0 ||
      !(asked.comp_mask & MLX5DV_CONTEXT_MASK_DCI_STREAMS))
    return;
  dc->log_streams = (uint8_t)vb_smaller(has->max_log_num_concurent, DC_LOG_STREAMS);
  dc->log_errored = (uint8_t)vb_smaller(has->max_log_num_errored, DC_LOG_STREAMS);
}

static void dc_device_size_queues(struct dc_device *dc)
{
  const struct pst_plan *plan = &dc->device.plan;
  const uint32_t depth = (uint32_t)dc->device.attr.max_qp_wr;
  const uint32_t most = depth > VB_SPARE_SENDS ? depth - VB_SPARE_SENDS : 1;
  const uint32_t requested = plan->requests ? plan->requests : DC_REQUESTS;

  dc->requests = vb_smaller(requested, vb_smaller(most, DC_REQUESTS_MAX));
}

static int dc_device_draw_key(struct dc_device *dc)
{
  if (getrandom(&dc->key, sizeof(dc->key), 0) == (ssize_t)sizeof(dc->key))
    return 0;
  VB_LOG(&dc->device, PST_LOG_ERROR, "getrandom of an access key: %s", strerror(errno));
  return -EIO;
}

/* Opens the device and checks that it has DC. On failure nothing is left. */
int dc_open(const struct pst_host *host, const struct vb_transport *transport,
            const struct pst_open_params *params, struct pst_device **device)
{
  struct pst_open_params in;
  struct dc_device *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  pthread_mutex_init(&made->handles_lock, NULL);
  made->device.is_two_sided = made->device.has_one_domain = true;
  made->device.keepalive_ns = host->option_uint(in.options, "keepalive");
  made->device.initial = host->option_uint(in.options, "first_sequence");
  made->initiators = (uint32_t)host->option_uint(in.options, "initiators");
  made->quota = (uint32_t)host->option_uint(in.options, "quota");
  int rc = vb_device_open(&made->device, host, transport, &in, DC_CAPABILITIES);
  if (rc == 0)
    rc = dc_device_find_mlx5(made);
  if (rc == 0)
    rc = dc_device_draw_key(made);
  if (rc == 0)
    rc = dc_device_try_target(made);
  if (rc < 0) {
    dc_close(&made->device);
    return rc;
  }
  dc_device_read_depth(made);
  dc_device_find_streams(made, in.options);
  dc_device_size_queues(made);
  *device = &made->device;
  return 0;
}

void dc_close(struct pst_device *device)
{
  struct dc_device *dc = dc_device_of(device);

  if (!device)
    return;
  vb_device_close(device);
  pthread_mutex_destroy(&dc->handles_lock);
  free(dc);
}

int dc_limits(struct pst_device *device, struct pst_limits *limits)
{
  const struct ibv_device_attr *attr = &device->attr;
  const struct dc_device *dc = dc_device_of(device);
  struct pst_limits out = {
      .sequence_bits = DC_SEQUENCE_BITS,
      .capabilities = device->capabilities,
      .message_max = device->message_max,
      .rma_max = device->capabilities & PST_CAP_READ ? device->message_max : 0,
      .slot_alignment = 1,
      .slots_min = 1,
      .slots_max = vb_smaller((uint64_t)attr->max_srq_wr, VB_SLOTS_MAX),
      .workers_max = vb_smaller((uint64_t)attr->max_cq, VB_WORKERS_MAX),
      .endpoints_max = DC_NUMBERS - 1,
      .requests_max = dc->requests,
      .pieces_max = device->pieces_max,
      .ring_needs = PST_NEED_EXPORT_DMABUF,
      .send_needs = PST_NEED_EXPORT_DMABUF,
      .page_size = pst_page_size(),
      .address_max = DC_BLOB_BYTES,
      .remote_max = VB_REMOTE_BYTES,
      .rings_max = attr->max_srq > 2 ? (uint32_t)attr->max_srq - 1 : 1,
  };

  pst_struct_write(limits, &out, sizeof(out));
  return 0;
}

struct vb_planned dc_plan_completions(const struct pst_device *device)
{
  const struct dc_device *dc = dc_device_of(device);
  const struct pst_plan *plan = &device->plan;
  const uint32_t most = (uint32_t)device->attr.max_cqe;
  const uint64_t sends = (uint64_t)dc_initiators(dc) * (dc->requests + VB_SPARE_SENDS);
  const uint64_t peers = (uint64_t)plan->senders + plan->receivers + plan->rma;
  const uint64_t words = DC_CONTROL_RECEIVES * peers;
  const uint64_t all = sends + plan->ring_slots + words;
  uint64_t first = sends + plan->ring_slots + vb_smaller(words, CQ_PEERS);

  first = first < CQ_LEAST ? CQ_LEAST : first;
  return (struct vb_planned){.first = vb_smaller(first, most),
                             .all = vb_smaller(all < first ? first : all, most)};
}
