/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's entry: its table of operations. */
#include "ethernet.h"

#include <net/if.h>
#include <stdio.h>

/* DPDK cannot be asked without being started, which a probe must not do: it names
 * interfaces of the kernel, and cards by the kernel's list. */
static int eth_probe(const struct pst_host *host, struct pst_probe *probe)
{
  struct if_nameindex *all = if_nameindex();

  (void)host;
  for (const struct if_nameindex *at = all; at && at->if_index; at++) {
    char detail[64];
    snprintf(detail, sizeof(detail), "driver: af_packet, netdev: %s", at->if_name);
    probe->device(probe->context, at->if_name, detail);
  }
  if_freenameindex(all);
  return 0;
}

static const struct pst_transport_ops ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = ETH_CAPABILITIES | PST_CAP_DEPARTURE,
    .open = eth_open,
    .close = eth_close,
    .limits = eth_limits,
    .start = eth_start,
    .mr_register = eth_mr_register,
    .mr_deregister = eth_mr_deregister,
    .worker_open = eth_worker_open,
    .worker_close = eth_worker_close,
    .ring_open = eth_ring_open,
    .ring_close = eth_ring_close,
    .endpoint_open = eth_endpoint_open,
    .endpoint_address = eth_endpoint_address,
    .endpoint_connect = eth_endpoint_connect,
    .endpoint_path = eth_endpoint_path,
    .post = eth_post,
    .poll = eth_poll,
    .release = eth_release,
    .counters = eth_counters,
    .describe = eth_describe,
    .endpoint_close = pst_cpu_endpoint_close,
};

PST_PLUGIN(eth_probe, &ops);
