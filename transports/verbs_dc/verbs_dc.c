/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's entry: its table of operations. */
#include <stdio.h>

#include "described.h"
#include "endpoint.h"
#include "ops.h"
#include "probe.h"
#include "target.h"

/* Is there any device that mlx5 runs? Whether it has DC, opening it tells. */
static bool dc_plugin_any_is_mlx5(const struct dc_mlx5 *mlx5)
{
  int count = 0;
  struct ibv_device **all = ibv_get_device_list(&count);
  bool is_any = false;

  for (int i = 0; i < count && !is_any; i++)
    is_any = mlx5->is_supported(all[i]);
  if (all)
    ibv_free_device_list(all);
  return is_any;
}

static int dc_plugin_probe(const struct pst_host *host, struct pst_probe *probe)
{
  struct dc_mlx5 mlx5;
  const char *missing;

  if (!dc_mlx5_open(host, &mlx5, &missing)) {
    snprintf(probe->reason, sizeof(probe->reason), "there is no %s, which makes DC queue pairs",
             missing);
    snprintf(probe->remedy, sizeof(probe->remedy),
             "install rdma-core 28 or later with mlx5 (Debian: ibverbs-providers)");
    return -ENOENT;
  }
  if (!dc_plugin_any_is_mlx5(&mlx5)) {
    snprintf(probe->reason, sizeof(probe->reason),
             "no RDMA device here uses mlx5, the only driver with DC (soft-RoCE has none)");
    snprintf(probe->remedy, sizeof(probe->remedy),
             "a ConnectX-4 or later, with its driver (`rdma link`); verbs_rc runs on any device");
    return -ENODEV;
  }
  return vb_probe(probe);
}

static int dc_plugin_refuses(const struct pst_endpoint *endpoint)
{
  return dc_is_over(dc_of(endpoint)) ? -ECONNRESET : -ENOTCONN;
}

/* Notes the failure of a queue pair for its worker, which makes a target anew. If one initiator
 * fails for good, so do all endpoints. */
static void dc_plugin_queue_event(struct pst_device *device, const struct ibv_async_event *event)
{
  struct vb_queue *queue = event->element.qp->qp_context;

  if (!queue || event->event_type != IBV_EVENT_QP_FATAL) {
    char text[512];
    vb_event_text((int)event->event_type, text, sizeof(text));
    VB_LOG(device, PST_LOG_WARN, "%s: QP %u: %s", device->open.info->name,
           event->element.qp->qp_num, text);
    return;
  }
  struct dc_worker *pool = dc_worker_of(queue->worker);
  atomic_store_explicit(&queue->event, (int)event->event_type + 1, memory_order_release);
  if (queue != &pool->queue)
    atomic_store_explicit(&pool->has_lost_target, true, memory_order_release);
  vb_notify(queue->worker);
}

static void dc_plugin_took_all(struct pst_worker *worker)
{
  const struct dc_worker *pool = dc_worker_of(worker);

  if (__builtin_expect(atomic_load_explicit(&pool->has_lost_target, memory_order_acquire), 0))
    dc_target_mend(worker);
}

static const struct vb_transport transport = {
    .limits = dc_limits,
    .plan_completions = dc_plan_completions,
    .sent = dc_sent,
    .received = dc_received,
    .whose = dc_whose,
    .work = dc_work,
    .notice = dc_notice,
    .look = dc_look,
    .failed = dc_fail,
    .refuses = dc_plugin_refuses,
    .free = dc_endpoint_free,
    .queue_event = dc_plugin_queue_event,
    .worker_open = dc_worker_open,
    .worker_close = dc_worker_close,
    .worker_look = dc_probe_look,
    .worker_empty = dc_plugin_took_all,
};

static int dc_plugin_open(const struct pst_host *host, const struct pst_open_params *params,
                          struct pst_device **device)
{
  return dc_open(host, &transport, params, device);
}

static const struct pst_transport_ops ops = {
    VB_OPS,
    .capabilities = DC_CAPABILITIES,
    .open = dc_plugin_open,
    .close = dc_close,
    .limits = dc_limits,
    .ring_open = dc_ring_open,
    .endpoint_open = dc_endpoint_open,
    .endpoint_address = dc_endpoint_address,
    .endpoint_connect = dc_endpoint_connect,
    .endpoint_path = dc_endpoint_path,
    .post = dc_post,
    .counters = dc_counters,
    .describe = dc_describe,
    .endpoint_close = dc_endpoint_close,
};

PST_PLUGIN(dc_plugin_probe, &ops);
