/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opened, watched, closed. connect.c has how they meet. */
#include <assert.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "endpoint.h"
#include "mr.h"
#include "registry.h"
#include "remote.h"
#include "rx.h"

static uint32_t lb_endpoint_parts_live(const struct pst_ring *ring)
{
  uint32_t live = 0;
  for (uint32_t i = 0; i < ring->params.endpoints; i++)
    live += ring->parts[i] && ring->parts[i]->endpoint;
  return live;
}

static int lb_endpoint_params_check(struct pst_worker *worker, const struct pst_endpoint_params *in)
{
  const struct pst_ring *ring = in->ring;
  const char *wrong = NULL;
  struct pst_limits limits = {.struct_size = sizeof(limits)};
  lb_limits(worker->device, &limits);
  if (ring && ring->worker != worker)
    wrong = "its ring is another worker's";
  else if (ring && lb_endpoint_parts_live(ring) >= ring->params.endpoints)
    wrong = "more endpoints on a ring than ring_open asked for";
  return pst_endpoint_params_check(worker->device->host, in, ring ? ring->params.payload_max : 0,
                                   &limits, wrong);
}

static int lb_endpoint_add_slot(struct pst_worker *worker)
{
  if (worker->endpoint_count >= LB_ENDPOINTS_MAX)
    return PST_REFUSE(worker->device->host, -ENOSPC,
                      "no more endpoints: a worker of loopback has at most %u at a time",
                      LB_ENDPOINTS_MAX);
  void *grown =
      realloc(worker->endpoints, (worker->endpoint_count + 1) * sizeof(struct pst_endpoint *));
  if (!grown)
    return -ENOMEM;
  worker->endpoints = grown;
  return 0;
}

static int lb_endpoint_open_wake(struct pst_endpoint *endpoint)
{
  struct lb_link *own = endpoint->own;
  own->wake_fd = lb_wake_open();
  return own->wake_fd < 0 ? own->wake_fd : lb_worker_watch_fd(endpoint->worker, own->wake_fd, NULL);
}

static int lb_endpoint_open_port(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;
  struct pst_device *device = worker->device;
  if (!endpoint->ring) {
    endpoint->own = lb_link_new(0, device->shared, false);
    return endpoint->own ? 0 : -errno;
  }
  struct lb_rx *rx;
  int rc = lb_rx_open(endpoint->ring, &rx);
  if (rc != 0)
    return rc;
  rx->endpoint = endpoint;
  endpoint->rx = rx;
  endpoint->own = lb_link_ref(rx->own);
  return 0;
}

/* Opens the endpoint with its port, and enters it in the worker's table. On failure nothing is
 * left. */
int lb_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint)
{
  struct pst_device *device = worker->device;
  struct pst_endpoint_params in;
  LB_TAKE(in, params);
  int rc = lb_endpoint_params_check(worker, &in);
  if (rc == 0)
    rc = lb_endpoint_add_slot(worker);
  if (rc != 0)
    return rc;
  struct pst_endpoint *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->worker = worker;
  made->cookie = in.cookie;
  made->roles = in.roles;
  made->ring = in.ring;
  made->timeout_ns = in.timeout_ns;
  if (in.mr && (in.roles & PST_ROLE_RMA)) {
    made->near = lb_mr_of(in.mr);
    lb_entry_ref(&made->near->entry);
  }
  made->tx.message_max = in.message_max ? in.message_max : LB_BYTES_MAX;
  made->peer_fd = made->process_fd = -1;
  snprintf(made->label, sizeof(made->label), "%s", in.label ? in.label : "endpoint");
  if ((rc = pst_dones_open(&made->dones, in.requests)) != 0 ||
      (rc = lb_endpoint_open_port(made)) != 0 || (rc = lb_endpoint_open_wake(made)) != 0 ||
      (device->shared && (rc = made->process_fd = lb_process_open()) < 0)) {
    LB_TELL(made, PST_LOG_ERROR, "endpoint: %s; raise `ulimit -n` or the memory limit",
            strerror(-rc));
    lb_endpoint_free(made);
    return rc;
  }
  lb_registry_add(LB_ENTRY_LINK, &made->own->entry);
  worker->endpoints[worker->endpoint_count++] = made;
  *endpoint = made;
  return 0;
}

/* Frees all that the endpoint has. The receive half keeps the peer's pidfd until its last slot is
 * back. */
void lb_endpoint_free(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;
  lb_worker_unwatch_fd(worker, endpoint->peer_fd);
  if (endpoint->rx)
    endpoint->rx->process_fd = endpoint->peer_fd;
  else
    lb_fd_close(endpoint->peer_fd);
  lb_fd_close(endpoint->process_fd);
  lb_copy_end(endpoint);
  while (endpoint->remotes) /* void from CLOSED on */
    lb_remote_close(endpoint, endpoint->remotes);
  if (endpoint->rx)
    endpoint->rx->endpoint = NULL;
  if (endpoint->own) {
    lb_worker_unwatch_fd(worker, endpoint->own->wake_fd);
    lb_registry_remove(LB_ENTRY_LINK, &endpoint->own->entry);
    atomic_fetch_or(&endpoint->own->port->state, LB_STATE_CLOSED);
  }
  lb_link_unref(endpoint->own);
  lb_link_unref(endpoint->peer);
  free(endpoint->tx.stack);
  free(endpoint->tx.post_of);
  free(endpoint->tx.cookies);
  free(endpoint->tx.results);
  pst_dones_close(&endpoint->dones);
  lb_copy_free(endpoint);
  lb_mr_unref(endpoint->near);
  free(endpoint);
}

#define BIT(name) (1u << LB_##name)

/* An assertion alone reads it. */
static const uint32_t successors[] __attribute__((unused)) = {
    [LB_NEW] = BIT(CONNECTING) | BIT(LOST) | BIT(SHUT),
    [LB_CONNECTING] = BIT(CONNECTED) | BIT(LOST) | BIT(SHUT),
    [LB_CONNECTED] = BIT(RECONNECTING) | BIT(ORPHANED) | BIT(LOST) | BIT(SHUT),
    [LB_RECONNECTING] = BIT(CONNECTED) | BIT(LOST) | BIT(SHUT),
    [LB_ORPHANED] = BIT(LOST) | BIT(SHUT),
    [LB_LOST] = BIT(GONE),
    [LB_GONE] = BIT(SHUT),
    [LB_SHUT] = BIT(FREED),
    [LB_FREED] = 0,
};

void lb_enter(struct pst_endpoint *endpoint, struct lb_stage stage)
{
  assert(successors[endpoint->stage.name] & 1u << stage.name);
  assert(stage.name < LB_SHUT || endpoint->closing.mode);
  endpoint->stage = stage;
}

void lb_endpoint_fail(struct pst_endpoint *endpoint, int status, const char *what)
{
  if (endpoint->stage.name >= LB_LOST)
    return;
  lb_enter(endpoint,
           (struct lb_stage){.name = LB_LOST, .lost = {status, lb_was_connected(endpoint)}});
  if (status == -EPROTO)
    LB_TELL(endpoint, PST_LOG_ERROR,
            "the peer (process %u) %s; it is not a loopback endpoint of ours, or its memory was "
            "overwritten",
            endpoint->peer_pid, what);
  if (status == -EFAULT)
    LB_TELL(endpoint, PST_LOG_ERROR,
            "memory shared with the peer (process %u) is gone (SIGBUS): the peer punched it, or "
            "no page could be had for it; check huge pages, the limits of the control group and "
            "vm.overcommit_memory",
            endpoint->peer_pid);
  if (status == -ETIMEDOUT)
    LB_TELL(endpoint, PST_LOG_ERROR,
            "the peer (process %u) has not connected within %llu ms: is it stopped, or too busy?",
            endpoint->peer_pid, (unsigned long long)(endpoint->timeout_ns / 1000000u));
}

bool lb_endpoint_pending(struct pst_endpoint *endpoint)
{
  const struct lb_rx *rx = endpoint->rx;
  struct lb_tx *tx = &endpoint->tx;
  if (lb_has_changed(endpoint) || !pst_dones_is_empty(&endpoint->dones) ||
      lb_copy_pending(endpoint))
    return true;
  if (!endpoint->peer)
    return false;
  if (lb_is_connecting(endpoint))
    return lb_peer_is_dead(endpoint) || lb_link_is(endpoint->peer, LB_STATE_ATTACHED) ||
           lb_link_is(endpoint->peer, LB_STATE_CLOSED);
  if (endpoint->stage.name == LB_GONE)
    return tx->tail != tx->head && lb_link_is(endpoint->peer, LB_STATE_VOID);
  if (rx && !lb_rx_drained(rx))
    return true;
  if (!tx->stack)
    return false;
  bool back =
      (tx->blocked && tx->credits) ||
      atomic_load_explicit(&endpoint->peer->port->free_head, memory_order_acquire) != tx->free_tail;
  if (!back)
    return false;
  bool wanted = tx->blocked || tx->tail != tx->head;
  tx->blocked = false; /* told; the next post may ask again */
  return wanted;
}

/* Has the peer gone, and has all that it left behind been handed over? */
static bool lb_endpoint_peer_is_over(const struct pst_endpoint *endpoint)
{
  if (!endpoint->peer ||
      (!lb_peer_is_dead(endpoint) && !lb_link_is(endpoint->peer, LB_STATE_CLOSED)))
    return false;
  return !endpoint->rx || !lb_was_connected(endpoint) || lb_rx_drained(endpoint->rx);
}

/* The peer sees CLOSED before it writes again, or we see that it writes. */
static bool lb_endpoint_shut(struct pst_endpoint *endpoint, bool expired)
{
  if (endpoint->stage.name != LB_SHUT) {
    lb_enter(endpoint, (struct lb_stage){.name = LB_SHUT});
    if (endpoint->rx)
      lb_rx_return(endpoint->rx);
    atomic_fetch_or(&endpoint->own->port->state, LB_STATE_CLOSED);
    lb_barrier_heavy(endpoint->worker->device->shared);
    if (endpoint->peer)
      lb_link_wake(endpoint->peer);
  }
  while (atomic_load_explicit(&endpoint->own->posting, memory_order_acquire)) {
    if (!expired)
      return false;
    sched_yield(); /* for one post at most; the memory must not be freed under it */
  }
  return true;
}

/* No more comes out of regions lent to us: they go back with their last token. */
static void lb_endpoint_rx_over(struct pst_endpoint *endpoint)
{
  if (!endpoint->rx || !endpoint->rx->buffer_count)
    return;
  endpoint->rx->over = true;
  endpoint->worker->unlending = true;
}

static uint32_t lb_endpoint_progress_close(struct pst_endpoint *endpoint,
                                           struct pst_completion *out)
{
  const struct pst_host *host = endpoint->worker->device->host;
  enum pst_closing_step step = pst_closing_look(&endpoint->closing, host->clock_ns(host));
  bool expired = step == PST_CLOSING_OVER;
  struct lb_tx *tx = &endpoint->tx;
  if (expired && lb_copy_pending(endpoint))
    lb_copy_end(endpoint);
  if (expired)
    lb_tx_settle(endpoint, -ECANCELED, -EBUSY);
  else if (step == PST_CLOSING_ABORT)
    lb_tx_settle(endpoint, -ECANCELED, LB_PENDING);
  /* An endpoint that was just found to break the rules is disconnected first. */
  if (endpoint->stage.name == LB_LOST || tx->tail != tx->head || lb_copy_pending(endpoint) ||
      !lb_endpoint_shut(endpoint, expired) || !pst_dones_is_empty(&endpoint->dones))
    return 0;
  lb_endpoint_rx_over(endpoint);
  pst_event_write(out, endpoint->cookie, PST_EVENT_CLOSED, 0);
  lb_enter(endpoint, (struct lb_stage){.name = LB_FREED});
  endpoint->worker->closed++;
  return 1;
}

/* Orderly or not, tell the host once; and a peer that broke the rules, too. */
static void lb_endpoint_disconnect(struct pst_endpoint *endpoint, struct pst_completion *out)
{
  const struct lb_stage lost = endpoint->stage;
  const int status = lb_lost_status(endpoint);
  lb_tx_settle(endpoint, -ECONNRESET, LB_PENDING);
  if (status == -EPROTO || status == -ETIMEDOUT || status == -EFAULT) {
    atomic_fetch_or(&endpoint->own->port->state, LB_STATE_CLOSED);
    if (endpoint->peer)
      lb_link_wake(endpoint->peer);
  }
  lb_endpoint_rx_over(endpoint);
  lb_enter(endpoint, (struct lb_stage){.name = LB_GONE, .lost = lost.lost});
  pst_event_write(out, endpoint->cookie, PST_EVENT_DISCONNECTED, status);
}

/* A peer that has mapped us and died since is one that was connected. */
static void lb_endpoint_connected(struct pst_endpoint *endpoint, struct pst_completion *out)
{
  lb_enter(endpoint, (struct lb_stage){.name = LB_CONNECTED});
  if (lb_peer_is_dead(endpoint))
    lb_enter(endpoint, (struct lb_stage){.name = LB_ORPHANED});
  pst_event_write(out, endpoint->cookie, PST_EVENT_CONNECTED, 0);
}

static bool lb_endpoint_is_overdue(const struct pst_endpoint *endpoint)
{
  const struct pst_host *host = endpoint->worker->device->host;
  return endpoint->stage.name == LB_CONNECTING && endpoint->stage.connecting.deadline_ns &&
         host->clock_ns(host) >= endpoint->stage.connecting.deadline_ns;
}

uint32_t lb_endpoint_progress(struct pst_endpoint *endpoint, struct pst_completion *out,
                              uint32_t max)
{
  uint32_t n = 0;
  if (max == 0)
    return 0;
  if (lb_is_connecting(endpoint) && !endpoint->closing.mode &&
      lb_link_is(endpoint->peer, LB_STATE_ATTACHED))
    lb_endpoint_connected(endpoint, &out[n++]);
  else if (lb_endpoint_is_overdue(endpoint))
    lb_endpoint_fail(endpoint, -ETIMEDOUT, "");
  if (endpoint->stage.name < LB_LOST && lb_endpoint_peer_is_over(endpoint))
    lb_endpoint_fail(endpoint, lb_link_is(endpoint->peer, LB_STATE_CLOSED) ? 0 : -ECONNRESET, "");
  if (endpoint->stage.name == LB_LOST && n < max)
    lb_endpoint_disconnect(endpoint, &out[n++]);
  if (endpoint->closing.mode && n < max)
    n += lb_endpoint_progress_close(endpoint, out + n);
  return n;
}

int lb_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  return pst_closing_begin(&endpoint->closing, mode, deadline_ns);
}
