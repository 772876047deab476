/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's entry: its table of operations. */
#include <penstock/transport-cpu.h>

#include "described.h"
#include "ops.h"

static const struct pst_transport_ops ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = UCX_CAPABILITIES,
    .open = ucx_open,
    .close = ucx_close,
    .limits = ucx_limits,
    .mr_register = ucx_mr_register,
    .mr_deregister = ucx_mr_deregister,
    .mr_pack = ucx_mr_pack,
    .remote_open = ucx_remote_open,
    .remote_close = ucx_remote_close,
    .worker_open = ucx_worker_open,
    .worker_close = ucx_worker_close,
    .arm = ucx_arm,
    .event_fd = ucx_event_fd,
    .ring_open = ucx_ring_open,
    .ring_close = ucx_ring_close,
    .endpoint_open = ucx_endpoint_open,
    .endpoint_address = ucx_endpoint_address,
    .endpoint_connect = ucx_endpoint_connect,
    .endpoint_path = ucx_endpoint_path,
    .post = ucx_post,
    .poll = ucx_poll,
    .release = ucx_release,
    .counters = ucx_counters,
    .describe = ucx_describe,
    .endpoint_close = pst_cpu_endpoint_close,
};

PST_PLUGIN(ucx_probe, &ops);
