/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's entry: its table of operations. */
#include "ops.h"

static int probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host;
  return vb_probe(probe);
}

static const struct pst_transport_ops ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = RC_CAPABILITIES,
    .open = rc_open,
    .close = rc_close,
    .limits = rc_limits,
    .mr_register = rc_mr_register,
    .mr_deregister = rc_mr_deregister,
    .mr_pack = rc_mr_pack,
    .remote_open = rc_remote_open,
    .remote_close = rc_remote_close,
    .worker_open = rc_worker_open,
    .worker_close = rc_worker_close,
    .arm = rc_arm,
    .event_fd = rc_event_fd,
    .ring_open = rc_ring_open,
    .ring_close = rc_ring_close,
    .endpoint_open = rc_endpoint_open,
    .endpoint_address = rc_endpoint_address,
    .endpoint_connect = rc_endpoint_connect,
    .endpoint_path = rc_endpoint_path,
    .post = rc_post,
    .poll = rc_poll,
    .release = rc_release,
    .counters = rc_counters,
    .describe = rc_describe,
    .endpoint_close = rc_endpoint_close,
};

PST_PLUGIN(probe, &ops);
