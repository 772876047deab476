/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's entry. */
#include <sys/socket.h>
#include <unistd.h>

#include "worker.h"

static int share_probe(const struct pst_host *host, struct pst_probe *probe)
{
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const int rc = fd < 0 ? -errno : 0;

  (void)host;
  if (rc < 0) {
    pst_text_write(probe->reason, sizeof(probe->reason), "no Unix socket can be opened");
    pst_text_write(probe->remedy, sizeof(probe->remedy),
                   "allow socket(AF_UNIX, SOCK_SEQPACKET) in the sandbox");
    return rc;
  }
  close(fd);
  return 0;
}

/* Capabilities that a client can have; the router's transport decides which of these it has. */
#define SHARE_CAPABILITIES                                                                         \
  (PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC | PST_CAP_RELIABLE |               \
   PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_META | PST_CAP_TIME | PST_CAP_SHARED_RING |        \
   PST_CAP_WAKEUP | PST_CAP_DYNAMIC | PST_CAP_DEVICE_RMA | PST_CAP_DESCRIPTORS |                   \
   PST_CAP_DEPARTURE | PST_CAP_TWO_SIDED | PST_CAP_QUEUES)

static const struct pst_transport_ops ops = {
    .struct_size = sizeof(struct pst_transport_ops),
    .capabilities = SHARE_CAPABILITIES,
    .open = share_open,
    .close = share_close,
    .limits = share_limits,
    .mr_register = share_mr_register,
    .mr_deregister = share_mr_deregister,
    .mr_pack = share_mr_pack,
    .remote_open = share_remote_open,
    .remote_close = share_remote_close,
    .worker_open = share_worker_open,
    .worker_close = share_worker_close,
    .arm = share_arm,
    .event_fd = share_event_fd,
    .ring_open = share_ring_open,
    .ring_close = share_ring_close,
    .endpoint_open = share_endpoint_open,
    .endpoint_address = share_endpoint_address,
    .endpoint_connect = share_endpoint_connect,
    .endpoint_path = share_endpoint_path,
    .post = share_post,
    .poll = share_poll,
    .release = share_release,
    .counters = share_counters,
    .describe = share_describe,
    .start = share_start,
    .endpoint_close = share_endpoint_close,
};

PST_PLUGIN(share_probe, &ops);
