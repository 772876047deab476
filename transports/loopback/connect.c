/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting two endpoints, and describing them. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "address.h"
#include "endpoint.h"
#include "mr.h"
#include "registry.h"
#include "remote.h"
#include "rx.h"

/* The address has what a peer needs to map this end: its process, ring and descriptors. */
int lb_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  struct pst_device *device = endpoint->worker->device;
  const struct lb_link *own = endpoint->own;
  struct lb_address out = {
      .magic = LB_ADDRESS_MAGIC,
      .version = LB_VERSION,
      .mode = device->mode,
      .id = own->entry.id,
      .roles = endpoint->roles,
      .expedited = lb_barrier_expedited(),
      .slots = own->slots,
      .pid = (uint32_t)getpid(),
      .port_bytes = own->port_bytes,
  };
  lb_process_nonce(out.nonce);
  if (endpoint->ring) {
    out.ring_offset = endpoint->rx->payload_offset;
    if (device->shared)
      out.ring_offset += endpoint->ring->mr->out.offset;
    out.stride = own->stride;
    out.payload_max = own->payload_max;
  }
  int rc = pst_blob_write(address, &out, sizeof(out));
  if (rc != 0 || !device->shared)
    return rc;
  address->fds[LB_FD_PROCESS] = endpoint->process_fd;
  address->fds[LB_FD_WAKE] = own->wake_fd;
  address->fds[LB_FD_PORT] = own->port_fd;
  if (endpoint->ring)
    address->fds[LB_FD_RING] = endpoint->ring->mr->out.fd;
  address->fd_count = endpoint->ring ? 4 : 3;
  return 0;
}

static int lb_connect_refuse(const struct pst_endpoint *endpoint, const char *why)
{
  return LB_REFUSE(endpoint, -EPROTO, "the peer's address cannot be used: %s", why);
}

static int lb_connect_address_check(const struct pst_endpoint *endpoint,
                                    const struct pst_blob *blob, struct lb_address *in)
{
  struct pst_device *device = endpoint->worker->device;
  if (!pst_blob_read(blob, in, sizeof(*in)) || in->magic != LB_ADDRESS_MAGIC)
    return lb_connect_refuse(endpoint,
                             "it is not one of loopback's; both ends need the same transport");
  if (in->version != LB_VERSION)
    return lb_connect_refuse(endpoint,
                             "it is another version's; run the same Penstock on both ends");
  if (in->mode != (uint32_t)device->mode)
    return lb_connect_refuse(endpoint, "its `mode` differs from ours; give both ends the same");
  if ((endpoint->roles & PST_ROLE_SENDER) && !((in->roles & PST_ROLE_RECEIVER) && in->slots))
    return lb_connect_refuse(endpoint, "this end sends, and the peer does not receive");
  if ((endpoint->roles & PST_ROLE_RECEIVER) && !(in->roles & PST_ROLE_SENDER))
    return lb_connect_refuse(endpoint, "this end receives, and the peer does not send");
  return 0;
}

static int lb_connect_tx_open(struct pst_endpoint *endpoint)
{
  struct lb_tx *tx = &endpoint->tx;
  const struct lb_link *peer = endpoint->peer;
  if (!(endpoint->roles & PST_ROLE_SENDER))
    return 0;
  tx->stack = malloc(peer->slots * sizeof(*tx->stack));
  if (peer->payload_max < tx->message_max)
    tx->message_max = peer->payload_max;
  if (!tx->stack)
    return -ENOMEM;
  if (endpoint->worker->device->mode != LB_MODE_REFERENCE)
    return 0;
  tx->post_of = calloc(peer->slots, sizeof(*tx->post_of));
  tx->cookies = calloc(endpoint->dones.mask + 1, sizeof(*tx->cookies));
  tx->results = calloc(endpoint->dones.mask + 1, sizeof(*tx->results));
  return tx->post_of && tx->cookies && tx->results ? 0 : -ENOMEM;
}

/* The most of a peer's memory to map: what is written there is charged to this process. A stream's
 * sender has the ring that its configuration names; a node trusts no peer's number. */
static uint64_t lb_connect_peer_most(const struct pst_endpoint *endpoint)
{
  const uint64_t all = lb_mapped_max(), floor = UINT64_C(64) << 20;
  if (endpoint->roles == PST_ROLE_SENDER)
    return all;
  const uint64_t most = floor + 8 * endpoint->tx.message_max * endpoint->dones.requests;
  return most < all ? most : all;
}

/* True for a kind of file that may be watched without waiting for a peer. */
static bool lb_connect_is_process(int fd)
{
  return syscall(SYS_pidfd_send_signal, fd, 0, NULL, 0) == 0 || errno != EBADF;
}

static int lb_connect_map_peer(struct pst_endpoint *endpoint, const struct lb_address *in,
                               const struct pst_blob *blob)
{
  const char *why = "out of memory";
  if (!endpoint->worker->device->shared)
    return lb_connect_refuse(endpoint, "it is in another process; this device is for one process");
  if (blob->fd_count == 0)
    return LB_REFUSE(endpoint, -EXDEV,
                     "loopback works only between processes of one host, of one user or with "
                     "`insecure: true` (the option --insecure) at both ends, and the peer is none "
                     "of these; use udp or verbs_rc");
  if (blob->fd_count != (in->slots ? 4u : 3u))
    return lb_connect_refuse(endpoint, "it lacks the descriptors that it needs");
  if (!lb_connect_is_process(blob->fds[LB_FD_PROCESS]))
    return lb_connect_refuse(endpoint, "its process descriptor is not a pidfd");
  int rc = lb_link_map(in, blob->fds, lb_connect_peer_most(endpoint), &endpoint->peer, &why);
  if (rc == -EPROTO)
    return lb_connect_refuse(endpoint, why);
  if (rc != 0)
    return LB_REFUSE(endpoint, rc, "the peer: %s: %s", why, strerror(-rc));
  endpoint->mapped = endpoint->peer->port_map.bytes + endpoint->peer->ring_map.bytes;
  endpoint->peer_fd = fcntl(blob->fds[LB_FD_PROCESS], F_DUPFD_CLOEXEC, 0);
  rc = endpoint->peer_fd < 0 ? -errno
                             : lb_worker_watch_fd(endpoint->worker, endpoint->peer_fd, endpoint);
  if (rc == 0)
    return 0;
  return LB_REFUSE(endpoint, rc, "the peer's process cannot be watched: %s; raise `ulimit -n`",
                   strerror(-rc));
}

/* An end's addresses never change, so the new one must be the old one. */
static int lb_connect_reconnect(struct pst_endpoint *endpoint, const struct lb_address *in)
{
  if (endpoint->stage.name != LB_CONNECTED)
    return -EALREADY;
  if (endpoint->peer->entry.id != in->id)
    return lb_connect_refuse(endpoint, "this endpoint has another peer already");
  lb_enter(endpoint, (struct lb_stage){.name = LB_RECONNECTING});
  return 0;
}

/* Attaches the peer that was found. Another endpoint may have it already. */
static void lb_connect_attach(struct pst_endpoint *endpoint, bool expedited)
{
  const struct pst_host *host = endpoint->worker->device->host;
  uint64_t none = 0, deadline_ns = 0;
  if (!atomic_compare_exchange_strong(&endpoint->peer->port->claimant, &none,
                                      endpoint->own->entry.id)) {
    lb_endpoint_fail(endpoint, -EADDRINUSE, "");
    return;
  }
  if (endpoint->timeout_ns)
    deadline_ns = host->clock_ns(host) + endpoint->timeout_ns;
  lb_enter(endpoint, (struct lb_stage){.name = LB_CONNECTING, .connecting = {deadline_ns}});
  endpoint->fenced = !(expedited && lb_barrier_expedited());
  if (endpoint->rx) {
    endpoint->rx->fenced = endpoint->fenced;
    endpoint->rx->peer = lb_link_ref(endpoint->peer);
  }
  atomic_fetch_or(&endpoint->own->port->state, LB_STATE_ATTACHED);
  lb_link_wake(endpoint->peer);
}

/* Connects to the peer of this address, or again to the same peer, which has moved. -EALREADY: it
 * connects already. */
int lb_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  struct lb_address in;
  uint64_t nonce[2];
  if (!address || !address->bytes)
    return -EINVAL;
  if (endpoint->closing.mode)
    return -ENOTCONN;
  int rc = lb_connect_address_check(endpoint, address, &in);
  if (rc != 0)
    return rc;
  if (endpoint->stage.name != LB_NEW)
    return lb_connect_reconnect(endpoint, &in);
  lb_process_nonce(nonce);
  if (memcmp(nonce, in.nonce, sizeof(nonce)) == 0) {
    endpoint->peer = lb_registry_find(LB_ENTRY_LINK, in.id);
  } else {
    rc = lb_connect_map_peer(endpoint, &in, address);
  }
  if (rc == 0 && endpoint->peer)
    rc = lb_connect_tx_open(endpoint);
  if (rc != 0) {
    lb_worker_unwatch_fd(endpoint->worker, endpoint->peer_fd);
    lb_fd_close(endpoint->peer_fd);
    endpoint->peer_fd = -1;
    lb_link_unref(endpoint->peer);
    endpoint->peer = NULL;
    return rc;
  }
  endpoint->peer_pid = in.pid;
  if (endpoint->peer)
    lb_connect_attach(endpoint, in.expedited);
  else
    lb_endpoint_fail(endpoint, -ECONNREFUSED, "");
  return 0;
}

int lb_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  const struct pst_device *device = endpoint->worker->device;
  const bool shared = endpoint->peer ? !endpoint->peer->in_process : device->shared;
  /* READ and WRITE copy in any mode. The registration or the remotes say from and to which
   * memory. */
  const char *via = endpoint->roles == PST_ROLE_RMA ? "" : lb_via_of(device->mode);
  if (endpoint->remotes && endpoint->remotes->copier)
    via = endpoint->remotes->via;
  lb_path_fill(path, via, shared);
  return 0;
}

int lb_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct lb_link *peer = endpoint->peer;
  if (size == 0)
    return -EINVAL;
  if (!peer)
    snprintf(text, size, "not connected");
  else
    snprintf(text, size, "%s process %u, %s; %u slots to send into, %u credits; %u to receive in",
             peer->in_process ? "this" : "with", endpoint->peer_pid,
             peer->in_process ? "plain memory" : "shared memory", peer->slots, endpoint->tx.credits,
             endpoint->own->slots);
  return 0;
}

int lb_counters(struct pst_device *device, struct pst_worker *worker, struct pst_endpoint *endpoint,
                struct pst_counter *counters, uint32_t max)
{
  struct pst_counter_list list = {counters, max, 0};
  (void)device;
  if (endpoint) {
    const struct lb_rx *rx = endpoint->rx;
    pst_counter_add(&list, "messages_sent", NULL, endpoint->tx.messages, 0);
    pst_counter_add(&list, "bytes_sent", NULL, endpoint->tx.bytes, 0);
    pst_counter_add(&list, "messages_received", NULL, rx ? rx->messages : 0, 0);
    pst_counter_add(&list, "bytes_received", NULL, rx ? rx->bytes : 0, 0);
    pst_counter_add(&list, "credits", NULL, endpoint->tx.credits, PST_COUNTER_GAUGE);
  } else if (worker) {
    pst_counter_add(&list, "sleeps", NULL, worker->wakeups, 0);
  }
  return (int)list.count;
}
