/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's entry: its table of operations. */
#include <stdio.h>
#include <unistd.h>

#include "address.h"
#include "described.h"
#include "ops.h"

static int udp_probe(const struct pst_host *host, struct pst_probe *probe)
{
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  int rc = fd < 0 ? -errno : 0;

  (void)host;
  if (rc < 0) {
    snprintf(probe->reason, sizeof(probe->reason), "no UDP socket can be opened: %s",
             strerror(-rc));
    snprintf(probe->remedy, sizeof(probe->remedy),
             "allow socket(AF_INET, SOCK_DGRAM) in the sandbox, or raise `ulimit -n`");
    return rc;
  }
  close(fd);
  udp_devices_tell(probe);
  return 0;
}

static const struct pst_transport_ops ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = UDP_CAPABILITIES | PST_CAP_DEPARTURE,
    .open = udp_open,
    .close = udp_close,
    .limits = udp_limits,
    .mr_register = udp_mr_register,
    .mr_deregister = pst_cpu_mr_deregister,
    .worker_open = udp_worker_open,
    .worker_close = udp_worker_close,
    .arm = udp_arm,
    .event_fd = udp_event_fd,
    .ring_open = udp_ring_open,
    .ring_close = udp_ring_close,
    .endpoint_open = udp_endpoint_open,
    .endpoint_address = udp_endpoint_address,
    .endpoint_connect = udp_endpoint_connect,
    .endpoint_path = udp_endpoint_path,
    .post = udp_post,
    .poll = udp_poll,
    .release = udp_release,
    .counters = udp_counters,
    .describe = udp_describe,
    .endpoint_close = pst_cpu_endpoint_close,
};

PST_PLUGIN(udp_probe, &ops);
