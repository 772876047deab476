/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's entry: its table of operations. */
#include "cm.h"
#include "completion.h"
#include "connection.h"
#include "multi_qp.h"
#include "ops.h"
#include "qp.h"

static int rc_plugin_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host;
  return vb_probe(probe);
}

static int rc_plugin_refuses(const struct pst_endpoint *endpoint)
{
  if (rc_is_over(endpoint))
    return -ECONNRESET;
  return rc_is_reconnecting(endpoint) ? -EAGAIN : -ENOTCONN;
}

static int rc_plugin_open_worker(struct pst_worker *worker)
{
  return worker->device->cm ? worker->device->cm->worker_open(worker, worker->index) : 0;
}

static void rc_plugin_close_worker(struct pst_worker *worker)
{
  worker->device->cm->worker_close(worker);
}

static void rc_plugin_look_at_worker(struct pst_worker *worker)
{
  worker->device->cm->events(worker);
}

static void rc_plugin_all_is_taken(struct pst_worker *worker)
{
  worker->device->cm->leave(worker);
}

static const struct vb_transport transport = {
    .limits = rc_limits,
    .plan_completions = rc_cq_size_completions,
    .sent = rc_sent,
    .received = rc_received,
    .work = rc_work,
    .notice = rc_notice,
    .look = rc_timers_poll,
    .failed = rc_fail,
    .refuses = rc_plugin_refuses,
    .free = rc_endpoint_free,
    .arrived = rc_lanes_arrived,
    .deliver = rc_lanes_deliver,
    .restore = rc_receives_restore,
    .worker_open = rc_plugin_open_worker,
    .worker_close = rc_plugin_close_worker,
    .worker_look = rc_plugin_look_at_worker,
    .worker_empty = rc_plugin_all_is_taken,
};

static int rc_plugin_open(const struct pst_host *host, const struct pst_open_params *params,
                          struct pst_device **device)
{
  return rc_open(host, &transport, params, device);
}

static const struct pst_transport_ops ops = {
    VB_OPS,
    .capabilities = RC_CAPABILITIES,
    .open = rc_plugin_open,
    .close = rc_close,
    .limits = rc_limits,
    .ring_open = vb_ring_open,
    .endpoint_open = rc_endpoint_open,
    .endpoint_address = rc_endpoint_address,
    .endpoint_connect = rc_endpoint_connect,
    .endpoint_path = rc_endpoint_path,
    .post = vb_post,
    .counters = rc_counters,
    .describe = rc_describe,
    .endpoint_close = rc_endpoint_close,
};

PST_PLUGIN(rc_plugin_probe, &ops);
