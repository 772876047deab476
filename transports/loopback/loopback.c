/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's entry: its table of operations. */
#include "endpoint.h"
#include "mr.h"
#include "remote.h"
#include "rx.h"

static int lb_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host;
  probe->device(probe->context, "loopback", "this host");
  return 0;
}

static const struct pst_transport_ops ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = LB_CAPABILITIES,
    .open = lb_open,
    .close = lb_close,
    .limits = lb_limits,
    .mr_register = lb_mr_register,
    .mr_deregister = lb_mr_deregister,
    .mr_pack = lb_mr_pack,
    .remote_open = lb_remote_open,
    .remote_close = lb_remote_close,
    .worker_open = lb_worker_open,
    .worker_close = lb_worker_close,
    .arm = lb_arm,
    .event_fd = lb_event_fd,
    .ring_open = lb_ring_open,
    .ring_close = lb_ring_close,
    .endpoint_open = lb_endpoint_open,
    .endpoint_address = lb_endpoint_address,
    .endpoint_connect = lb_endpoint_connect,
    .endpoint_path = lb_endpoint_path,
    .post = lb_post,
    .poll = lb_poll,
    .release = lb_release,
    .counters = lb_counters,
    .describe = lb_describe,
    .start = lb_start,
    .endpoint_close = lb_endpoint_close,
};

PST_PLUGIN(lb_probe, &ops);
