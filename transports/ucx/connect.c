/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint_connect: the peer's address, how its death is noticed, and the way to it. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "described.h"
#include "device.h"
#include "endpoint.h"
#include "link.h"
#include "ops.h"
#include "stage.h"
#include "watch.h"
#include "wire.h"
#include "worker.h"

static int ucx_connect_refuse(const struct pst_endpoint *endpoint, const char *why)
{
  return UCX_REFUSE(endpoint, -EPROTO, "the peer's address cannot be used: %s", why);
}

static int ucx_connect_check_roles(const struct pst_endpoint *endpoint, uint32_t flags)
{
  const uint32_t roles = endpoint->cpu.params.roles;

  if ((roles & PST_ROLE_SENDER) && !(roles & PST_ROLE_RECEIVER) && !(flags & UCX_ADDRESS_RECEIVES))
    return ucx_connect_refuse(endpoint, "this end sends, and the peer does not receive");
  if ((roles & PST_ROLE_RECEIVER) && !(roles & PST_ROLE_SENDER) && !(flags & UCX_ADDRESS_SENDS))
    return ucx_connect_refuse(endpoint, "this end receives, and the peer does not send");
  return 0;
}

static int ucx_connect_read_address(const struct pst_endpoint *endpoint,
                                    const struct pst_blob *blob, struct ucx_address *address)
{
  if (!blob->bytes || blob->length <= sizeof(*address))
    return ucx_connect_refuse(endpoint, "it is cut short");
  memcpy(address, blob->bytes, sizeof(*address));
  if (address->magic != UCX_MAGIC)
    return ucx_connect_refuse(endpoint,
                              "it is not one of ucx's; both ends need the same transport");
  if (ucx_blob_sum(blob->bytes, blob->length, offsetof(struct ucx_address, sum)) != address->sum)
    return ucx_connect_refuse(endpoint, "it was damaged or cut short on the way");
  return ucx_connect_check_roles(endpoint, address->flags);
}

/* Shared memory has no failure handling in UCX: there each side watches the other's process. */
static int ucx_connect_choose_mode(struct pst_endpoint *endpoint, const struct ucx_address *address)
{
  const struct pst_device *device = endpoint->worker->device;
  struct ucx_link *link = endpoint->link;
  int rc = 0;

  link->peer.is_here = ucx_identity_is_near(&device->identity, &address->identity);
  if (device->peer_failure == UCX_FAILURE_OWN && !link->peer.is_here)
    return UCX_REFUSE(endpoint, -EHOSTUNREACH,
                      "peer_failure: own watches the peer's process, and the peer is on another "
                      "host, or in another PID namespace; set `peer_failure: auto` on both ends");
  link->peer.by_ucx = device->peer_failure == UCX_FAILURE_UCX || !link->peer.is_here ||
                      (device->peer_failure == UCX_FAILURE_AUTO &&
                       !(device->shares && (address->flags & UCX_ADDRESS_SHARES)));
  if (!link->peer.is_here)
    return 0;
  rc = ucx_watch_open(&device->identity, &address->identity, &link->peer.pidfd);
  if (rc == 0)
    rc = ucx_watch_begin(endpoint->worker->watch_fd, link->peer.pidfd, link);
  if (rc == -ECONNRESET)
    link->peer.has_died = true;
  else if (rc < 0 && rc != -EPROTO)
    UCX_TELL(endpoint, PST_LOG_WARN,
             "the peer's process cannot be watched (pidfd_open: %s): only the control channel "
             "shows its death. Allow pidfd_open (Linux 5.3) in the sandbox",
             strerror(-rc));
  return rc == -EPROTO ? ucx_connect_refuse(endpoint, "the peer's address has no process id") : 0;
}

int ucx_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *blob)
{
  struct ucx_link *link = endpoint->link;
  struct ucx_address address;
  int rc;

  if (endpoint->cpu.closing.mode)
    return -ENOTCONN;
  if (!blob)
    return -EINVAL;
  rc = ucx_connect_read_address(endpoint, blob, &address);
  if (rc < 0)
    return rc;
  if (link->stage.name != UCX_NEW)
    return -EALREADY;
  rc = ucx_connect_choose_mode(endpoint, &address);
  if (rc < 0)
    return rc;
  link->peer.nonce = address.nonce;
  endpoint->tx.must_fetch = address.flags & UCX_ADDRESS_FETCHES;
  rc = ucx_link_connect(link, (const uint8_t *)blob->bytes + sizeof(address),
                        blob->length - sizeof(address));
  if (rc < 0) {
    ucx_watch_forget(endpoint->worker->watch_fd, link->peer.pidfd);
    ucx_watch_end(link->peer.pidfd);
    link->peer.pidfd = -1;
    link->peer.has_died = false;
    return rc;
  }
  if (link->stage.name == UCX_NEW)
    ucx_enter(link, (struct ucx_stage){.name = UCX_CONNECTING, .greeting = {.hello = UCX_OWED}});
  return 0;
}
