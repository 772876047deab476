/* SPDX-License-Identifier: Apache-2.0 */
/* A router that was started again: connects to it, and opens there what the program has open. */
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "worker.h"

#define TRY_NS 50000000u /* how often a router is looked for */

/* ---- The device ------------------------------------------------------------------------- */

/* The state TRYING ends here without a router. */
static void share_reconnect_fail(struct pst_device *device, int rc)
{
  const struct pst_host *host = device->host;
  const bool is_absent = rc == -ENOENT || rc == -ECONNREFUSED || rc == -EAGAIN || rc == -ENOTCONN;
  /* A router that has disconnected this program may still hold what it had open. */
  const bool may_come = !atomic_load(&device->is_wrong) && (is_absent || rc == -ENOSPC);
  const uint64_t now = host->clock_ns(host);

  shutdown(device->fd, SHUT_RDWR); /* the router gives back what it has opened so far */
  if (may_come && now - atomic_load(&device->away_ns) < device->reconnect_ns) {
    atomic_store(&device->try_ns, now + TRY_NS);
    atomic_store(&device->state, SHARE_AWAY);
    return;
  }
  if (may_come && is_absent)
    host->log(host, PST_LOG_ERROR,
              "no router has served at %s within %.1f s (option reconnect): %s; start `penstock "
              "share` again, then this program",
              device->socket, (double)device->reconnect_ns / 1e9, strerror(-rc));
  else
    host->log(host, PST_LOG_ERROR,
              "the router at %s was started again, but this program cannot go on with it: %s; "
              "start the program again",
              device->socket, strerror(-rc));
  atomic_store(&device->state, SHARE_ENDED);
}

/* The host has planned with the limits of the router before. */
static int share_reconnect_check_limits(struct pst_device *device, struct pst_limits *limits)
{
  const struct pst_limits *had = &device->router_limits;

  memcpy(limits->endpoints_reason, had->endpoints_reason, sizeof(limits->endpoints_reason));
  if (memcmp(limits, had, sizeof(*had)) == 0)
    return 0;
  return PST_REFUSE(device->host, -EINVAL,
                    "the router at %s has other limits than before (messages of %llu bytes, were "
                    "%llu; %u endpoints, were %u; capabilities %#llx, were %#llx); give `penstock "
                    "share` the same transport and options",
                    device->socket, (unsigned long long)limits->message_max,
                    (unsigned long long)had->message_max, limits->endpoints_max, had->endpoints_max,
                    (unsigned long long)limits->capabilities,
                    (unsigned long long)had->capabilities);
}

static int share_reconnect_ask_all(struct pst_device *device)
{
  struct pst_limits limits;

  int rc = share_ask_open(device, true, &limits);
  if (rc == 0)
    rc = share_reconnect_check_limits(device, &limits);
  for (struct pst_mr *mr = device->mrs; mr && rc == 0; mr = mr->next)
    rc = share_mr_restore(device, mr);
  for (struct pst_worker *worker = device->workers; worker && rc == 0; worker = worker->next)
    rc = share_worker_reopen(worker);
  if (rc == 0 && device->is_started)
    rc = share_ask_start(device, true);
  return rc;
}

/* A work of host->defer(): the router registers memory, which takes its time. */
static void share_reconnect_restore(void *context)
{
  struct pst_device *device = context;
  const struct pst_host *host = device->host;

  pthread_mutex_lock(&device->objects_lock);
  const int rc = share_reconnect_ask_all(device);
  if (rc == 0) {
    device->refusal[0] = '\0';
    host->log(host, PST_LOG_INFO, "the router at %s serves again", device->socket);
    /* The thread that leaves the state UP sets the link to 0 again. */
    atomic_store(&device->link, atomic_fetch_add(&device->last_link, 1) + 1);
    atomic_store(&device->state, SHARE_UP);
  }
  pthread_mutex_unlock(&device->objects_lock);
  if (rc < 0)
    share_reconnect_fail(device, rc);
  else if (atomic_load(&device->is_wrong)) /* found meanwhile, in what the old router left */
    share_distrust(device);
}

/* Looks for a router, if it is time to. */
static void share_reconnect_try(struct pst_device *device)
{
  const struct pst_host *host = device->host;
  int away = SHARE_AWAY;

  if (host->clock_ns(host) < atomic_load(&device->try_ns) ||
      !atomic_compare_exchange_strong(&device->state, &away, SHARE_TRYING))
    return;
  int rc = atomic_load(&device->is_wrong) ? -EPROTO : share_connect_again(device);
  if (rc == 0)
    rc = host->defer(host, device, share_reconnect_restore, device);
  if (rc < 0)
    share_reconnect_fail(device, rc);
}

/* ---- The worker ------------------------------------------------------------------------- */

static void share_reconnect_lose_worker(struct pst_worker *worker)
{
  worker->is_lost = true;
  epoll_ctl(worker->epoll_fd, EPOLL_CTL_DEL, worker->device->fd, NULL);
  memset(worker->endpoints, 0, sizeof(worker->endpoints));
  for (struct pst_endpoint *endpoint = worker->all; endpoint; endpoint = endpoint->next)
    share_renew_lost(endpoint);
}

/* Endpoints follow by themselves. */
static void share_reconnect_restore_worker(struct pst_worker *worker)
{
  struct pst_device *device = worker->device;

  const int rc = share_worker_restore(worker);
  if (rc == 0)
    worker->is_lost = false;
  if (rc == 0 || rc == -ENOTCONN)
    return;
  device->host->log(device->host, PST_LOG_ERROR,
                    "the router at %s was started again, but does not let this program go on: %s; "
                    "start the program again",
                    device->socket, strerror(-rc));
  share_end(device);
}

bool share_worker_away(struct pst_worker *worker)
{
  struct pst_device *device = worker->device;

  if (!atomic_load_explicit(&device->is_wrong, memory_order_relaxed) &&
      pst_share_load(&worker->page->complete_tail) != worker->complete_head)
    return false;
  if (!worker->is_lost)
    share_reconnect_lose_worker(worker);
  worker->is_unsettled = true;
  share_reconnect_try(device);
  /* A new router takes all slots for free ones. */
  if (atomic_load(&device->link) && !share_worker_has_messages(worker))
    share_reconnect_restore_worker(worker);
  return true;
}
