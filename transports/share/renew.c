/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints whose connection was lost: each leaves its router's endpoint for another one, and finds
 * its peer again by the epoch. See struct share_hello. */
#include <fcntl.h>
#include <unistd.h>

#include "worker.h"

#define EPOCH_MAX (UINT64_C(1) << 62)

/* ---- The peer's address ----------------------------------------------------------------- */

void share_renew_forget(struct pst_endpoint *endpoint)
{
  if (!endpoint->peer)
    return;
  for (uint32_t i = 0; i < endpoint->peer->blob.fd_count; i++)
    close(endpoint->peer->blob.fds[i]);
  free(endpoint->peer);
  endpoint->peer = NULL;
}

/* Keeps the address for an endpoint that is still to be opened. */
static int share_renew_keep(struct pst_endpoint *endpoint, const struct share_hello *hello,
                            const struct pst_blob *address)
{
  struct share_address *kept = malloc(sizeof(*kept) + address->length);

  if (!kept)
    return -ENOMEM;
  *kept = (struct share_address){.hello = *hello, .blob = *address};
  memcpy(kept->bytes, address->bytes, address->length);
  kept->blob.bytes = kept->bytes;
  kept->blob.fd_count = 0;
  share_renew_forget(endpoint);
  endpoint->peer = kept;
  for (uint32_t i = 0; i < address->fd_count; i++) {
    const int fd = fcntl(address->fds[i], F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
      return -errno;
    kept->blob.fds[kept->blob.fd_count++] = fd;
  }
  return 0;
}

/* Counts the messages that were sent before and have not arrived: they will not. */
static void share_renew_count_lost(struct pst_endpoint *endpoint, const struct share_hello *hello)
{
  const uint64_t capabilities = endpoint->worker->device->limits.capabilities;
  const uint64_t behind = endpoint->received ? endpoint->highest_sequence + 1 : 0;
  const uint64_t next = behind > endpoint->counted_next ? behind : endpoint->counted_next;

  if (capabilities & PST_CAP_RELIABLE)
    endpoint->lost = hello->sent > endpoint->received ? hello->sent - endpoint->received : 0;
  else if (hello->next > next) { /* what the network has lost before is counted elsewhere */
    endpoint->lost += hello->next - next;
    endpoint->counted_next = hello->next;
  }
}

static int share_renew_meet(struct pst_endpoint *endpoint, const struct share_hello *hello,
                            const struct pst_blob *address)
{
  const int rc = share_endpoint_ask_connect(endpoint, address);

  if (rc == 0 && endpoint->ring && endpoint->returns)
    share_renew_count_lost(endpoint, hello);
  return rc;
}

/* A router that has ended is no failure of an endpoint that finds its peer again: that loss leads
 * to the next epoch. */
static int share_renew_forgive(const struct pst_endpoint *endpoint, int rc)
{
  return rc == -ENOTCONN && endpoint->returns && endpoint->was_connected ? 0 : rc;
}

/* Connects to the address, keeps it until the endpoint is one of its epoch, or passes over one of
 * an epoch before. */
int share_renew_connect(struct pst_endpoint *endpoint, const struct pst_blob *caller)
{
  const bool is_fresh = endpoint->number && !endpoint->is_renewing && !endpoint->is_connecting &&
                        !endpoint->is_connected;
  const bool is_taken = endpoint->is_connecting || endpoint->is_connected;
  struct pst_blob address;
  struct share_hello hello;

  if (!caller)
    return -EINVAL;
  if (caller->length < sizeof(hello))
    return -EPROTO;
  memcpy(&hello, caller->bytes, sizeof(hello));
  if (hello.epoch > EPOCH_MAX)
    return -EPROTO;
  address = *caller;
  address.bytes = (char *)caller->bytes + sizeof(hello);
  address.length = address.capacity = caller->length - (uint32_t)sizeof(hello);
  if (hello.epoch < endpoint->epoch) /* the peer takes the address that this end has told */
    return 0;
  if (is_taken && hello.epoch == endpoint->epoch) /* the transport's own READDRESS */
    return endpoint->is_connecting
               ? -EALREADY
               : share_renew_forgive(endpoint, share_endpoint_ask_connect(endpoint, &address));
  if (is_taken && !endpoint->returns)
    return PST_REFUSE(endpoint->worker->device->host, -ECONNRESET,
                      "%s: the peer connects again after a restart of its router, but this end "
                      "has no option reconnect; set it at both ends",
                      endpoint->asked.label);
  const int rc = is_fresh
                     ? share_renew_forgive(endpoint, share_renew_meet(endpoint, &hello, &address))
                     : share_renew_keep(endpoint, &hello, &address);
  if (rc < 0)
    return rc;
  endpoint->tells_address |= is_fresh && hello.epoch > endpoint->epoch;
  endpoint->worker->is_unsettled = true;
  if (is_taken)
    share_renew(endpoint, hello.epoch);
  endpoint->epoch = hello.epoch;
  return 0;
}

/* ---- The loss --------------------------------------------------------------------------- */

static void share_renew_leave(struct pst_endpoint *endpoint)
{
  const struct pst_host *host = endpoint->worker->device->host;

  endpoint->is_connecting = endpoint->is_connected = endpoint->tells_address = false;
  endpoint->worker->is_unsettled = true;
  if (endpoint->was_connected && !endpoint->away_ns)
    endpoint->away_ns = host->clock_ns(host);
}

void share_renew(struct pst_endpoint *endpoint, uint64_t epoch)
{
  share_renew_leave(endpoint);
  if (endpoint->peer && endpoint->peer->hello.epoch != epoch)
    share_renew_forget(endpoint);
  endpoint->epoch = epoch;
  endpoint->is_renewing = true;
  share_endpoint_ask_close(endpoint, PST_CLOSE_ABORT, 0);
}

void share_renew_lost(struct pst_endpoint *endpoint)
{
  if (endpoint->number && !endpoint->is_renewing) { /* its address may have been told */
    endpoint->epoch++;
    share_renew_forget(endpoint);
  }
  endpoint->number = 0;
  endpoint->is_renewing = false;
  share_renew_leave(endpoint);
}

/* ---- The next connection ------------------------------------------------------------------ */

/* Does it find its peer again? */
static bool share_renew_returns(const struct pst_endpoint *endpoint)
{
  return endpoint->returns && !endpoint->is_disconnected && !endpoint->is_closing &&
         atomic_load(&endpoint->worker->device->state) != SHARE_ENDED;
}

/* Ends the requests that no router will end. */
static uint32_t share_renew_end_requests(struct pst_endpoint *endpoint, struct pst_completion *out,
                                         uint32_t max)
{
  const bool returns = share_renew_returns(endpoint);
  uint32_t n = 0;

  for (uint32_t opcode = PST_OP_SEND; opcode < SHARE_OPCODES; opcode++)
    if (!returns || opcode != PST_OP_FLUSH)
      n += share_endpoint_end(endpoint, opcode, returns ? 0 : -ECONNRESET, out + n, max - n);
  return n;
}

/* Opens the endpoint again, and connects it to the peer, if that was faster. 0 or -errno. */
static int share_renew_open(struct pst_endpoint *endpoint)
{
  const struct share_address *peer = endpoint->peer;

  int rc = share_endpoint_ask_open(endpoint);
  if (rc < 0)
    return rc == -ENOTCONN ? 0 : rc;
  endpoint->tells_address = true;
  if (peer && peer->hello.epoch == endpoint->epoch)
    rc = share_renew_meet(endpoint, &peer->hello, &peer->blob);
  share_renew_forget(endpoint);
  return rc == -ENOTCONN ? 0 : rc;
}

/* Returns the status with which the endpoint ends; 0: it does not end now. */
static int share_renew_advance(struct pst_endpoint *endpoint)
{
  const struct pst_worker *worker = endpoint->worker;
  const struct pst_host *host = worker->device->host;

  if (endpoint->is_disconnected || endpoint->is_closing)
    return 0;
  if (!share_renew_returns(endpoint))
    return endpoint->number ? 0 : -ECONNRESET;
  if (endpoint->away_ns &&
      host->clock_ns(host) - endpoint->away_ns > worker->device->reconnect_ns) {
    host->log(host, endpoint->has_left ? PST_LOG_DEBUG : PST_LOG_ERROR,
              "%s: not connected again within %.1f s (option reconnect) after the connection was "
              "lost; check that the routers of both ends serve, and set the option at both ends",
              endpoint->asked.label, (double)worker->device->reconnect_ns / 1e9);
    return -ETIMEDOUT;
  }
  if (endpoint->number || worker->is_lost || !share_is_up(worker))
    return 0;
  const int rc = share_renew_open(endpoint);
  if (rc < 0)
    host->log(host, PST_LOG_ERROR,
              "%s: the endpoint cannot be opened again: %s; start the program again",
              endpoint->asked.label, strerror(-rc));
  return rc;
}

/* Writes the events that are due. */
static uint32_t share_renew_tell(struct pst_endpoint *endpoint, struct pst_completion *out,
                                 uint32_t max)
{
  uint32_t n = 0;

  if (n < max && endpoint->tells_address) {
    endpoint->tells_address = false;
    pst_event_write(&out[n++], endpoint->cookie, PST_EVENT_READDRESS, 0);
  }
  while (n < max && endpoint->kept_flushes) {
    n += share_endpoint_end(endpoint, PST_OP_FLUSH, 0, out + n, 1);
    endpoint->kept_flushes--;
  }
  return n;
}

static uint32_t share_renew_settle_one(struct pst_endpoint *endpoint, struct pst_completion *out,
                                       uint32_t max)
{
  uint32_t n = 0;

  if (!endpoint->number)
    n = share_renew_end_requests(endpoint, out, max);
  if (n == max)
    return n;
  if (!endpoint->number && endpoint->is_closing) {
    if (!endpoint->outstanding) {
      pst_event_write(&out[n++], endpoint->cookie, PST_EVENT_CLOSED, 0);
      share_endpoint_free(endpoint);
    }
    return n;
  }
  const int status = share_renew_advance(endpoint);
  if (status < 0) {
    endpoint->is_disconnected = true;
    pst_event_write(&out[n++], endpoint->cookie, PST_EVENT_DISCONNECTED, status);
  }
  return n + share_renew_tell(endpoint, out + n, max - n);
}

static bool share_renew_is_unsettled(const struct pst_endpoint *endpoint)
{
  return !endpoint->number || endpoint->is_renewing ||
         (endpoint->away_ns && !endpoint->is_disconnected) || endpoint->tells_address ||
         endpoint->kept_flushes;
}

uint32_t share_renew_settle(struct pst_worker *worker, struct pst_completion *out, uint32_t max)
{
  struct pst_endpoint *next;
  uint32_t n = 0;

  worker->is_unsettled = false;
  for (struct pst_endpoint *endpoint = worker->all; endpoint; endpoint = next) {
    next = endpoint->next;
    n += share_renew_settle_one(endpoint, out + n, max - n);
  }
  for (const struct pst_endpoint *endpoint = worker->all; endpoint; endpoint = endpoint->next)
    worker->is_unsettled |= share_renew_is_unsettled(endpoint);
  return n;
}
