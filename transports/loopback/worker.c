/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: what one thread polls, and how it sleeps. */
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "endpoint.h"
#include "mr.h"
#include "registry.h"
#include "remote.h"
#include "rx.h"

#define LOOK_AGAIN_NS UINT64_C(1000000)
#define LOOK_SELDOM_NS UINT64_C(1000000000)

int lb_worker_watch_fd(struct pst_worker *worker, int fd, struct pst_endpoint *endpoint)
{
  /* Nobody reads the timerfd of a wake-up: edge-triggered, each expiry is reported once. */
  const uint32_t edge = endpoint ? 0 : (uint32_t)EPOLLET;
  struct epoll_event event = {.events = EPOLLIN | edge, .data.ptr = endpoint};
  return epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void lb_worker_unwatch_fd(struct pst_worker *worker, int fd)
{
  if (fd >= 0)
    epoll_ctl(worker->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int lb_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  if (device->sealed)
    return PST_REFUSE(device->host, -EPERM, "a worker cannot be opened after the start");
  if (index >= LB_WORKERS_MAX)
    return PST_REFUSE(device->host, -EINVAL, "worker %u: loopback has at most %u", index,
                      LB_WORKERS_MAX);
  struct pst_worker *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  int rc;
  made->device = device;
  made->guard_hits = atomic_load(&lb_guard_hits);
  made->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  made->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (made->epoll_fd < 0 || made->timer_fd < 0)
    rc = -errno;
  else
    rc = lb_worker_watch_fd(made, made->timer_fd, NULL);
  if (rc != 0) {
    lb_worker_close(made);
    return PST_REFUSE(device->host, rc, "epoll or timerfd for worker %u: %s; raise `ulimit -n`",
                      index, strerror(-rc));
  }
  *worker = made;
  return 0;
}

void lb_worker_close(struct pst_worker *worker)
{
  if (!worker)
    return;
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    lb_endpoint_free(worker->endpoints[i]);
  /* Closes rings that the host has left open, too. */
  for (uint32_t i = 0; i < worker->rx.room; i++)
    lb_rx_free(worker->rx.all[i].at);
  lb_fd_close(worker->timer_fd);
  lb_fd_close(worker->epoll_fd);
  free(worker->endpoints);
  free(worker->rx.all);
  free(worker);
}

/* One system call: wake-ups are taken off, deaths are noticed. */
void lb_worker_watch(struct pst_worker *worker)
{
  struct epoll_event events[16];
  int n = epoll_wait(worker->epoll_fd, events, 16, 0);
  for (int i = 0; i < n; i++) {
    struct pst_endpoint *endpoint = events[i].data.ptr;
    if (!endpoint)
      continue;
    lb_worker_unwatch_fd(worker, endpoint->peer_fd);
    lb_fd_close(endpoint->peer_fd);
    endpoint->peer_fd = -1;
    if (endpoint->stage.name == LB_CONNECTED)
      lb_enter(endpoint, (struct lb_stage){.name = LB_ORPHANED});
  }
}

static bool lb_worker_has_lost(const struct pst_endpoint *endpoint)
{
  const struct lb_link *peer = endpoint->peer;
  bool lost = lb_guard_hit(endpoint->own->port_map.guard) ||
              (endpoint->ring && endpoint->ring->mr && lb_guard_hit(endpoint->ring->mr->guard));
  if (peer && !peer->in_process)
    lost |= lb_guard_hit(peer->port_map.guard) || lb_guard_hit(peer->ring_map.guard);
  for (const struct pst_remote *remote = endpoint->remotes; remote && !lost; remote = remote->next)
    lost = lb_guard_hit(remote->gate_map.guard) || lb_guard_hit(remote->region_map.guard);
  return lost;
}

void lb_worker_lost(struct pst_worker *worker)
{
  worker->guard_hits = atomic_load(&lb_guard_hits);
  /* Nobody knows which peer took a registration away: any that was offered it may have. */
  const bool offered = lb_registry_lost(worker->device);
  for (uint32_t i = 0; i < worker->endpoint_count; i++) {
    struct pst_endpoint *endpoint = worker->endpoints[i];
    const bool others = endpoint->peer && !endpoint->peer->in_process;
    if (lb_worker_has_lost(endpoint) || (offered && others && (endpoint->roles & PST_ROLE_RMA)))
      lb_endpoint_fail(endpoint, -EFAULT, "");
  }
}

static uint32_t lb_worker_wanted(const struct pst_endpoint *endpoint)
{
  bool credit = endpoint->tx.blocked || endpoint->tx.tail != endpoint->tx.head;
  return LB_ARMED_ARRIVAL | (credit ? LB_ARMED_CREDIT : 0u);
}

static bool lb_worker_has_others(const struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->endpoint_count; i++) {
    const struct pst_endpoint *endpoint = worker->endpoints[i];
    if (endpoint->peer && !endpoint->peer->in_process && endpoint->stage.name != LB_GONE)
      return true;
  }
  return false;
}

/* When to look again for what another process did on a CPU that the barrier passed by: soon, then
 * seldom while nothing comes. */
static uint64_t lb_worker_look_again(struct pst_worker *worker)
{
  const struct pst_host *host = worker->device->host;
  if (!lb_worker_has_others(worker))
    return 0;
  worker->again_ns = worker->again_ns ? 2 * worker->again_ns : LOOK_AGAIN_NS;
  if (worker->again_ns > LOOK_SELDOM_NS)
    worker->again_ns = LOOK_SELDOM_NS;
  return host->clock_ns(host) + worker->again_ns;
}

/* Nobody else would wake us for that. */
static void lb_worker_set_timer(struct pst_worker *worker)
{
  uint64_t first = lb_worker_look_again(worker);
  for (uint32_t i = 0; i < worker->endpoint_count; i++) {
    const struct lb_stage *stage = &worker->endpoints[i]->stage;
    uint64_t deadline = stage->name == LB_CONNECTING ? stage->connecting.deadline_ns : 0;
    if (deadline && (first == 0 || deadline < first))
      first = deadline;
  }
  if (first == worker->timer_ns)
    return;
  struct itimerspec at = {.it_value = {.tv_sec = (time_t)(first / 1000000000u),
                                       .tv_nsec = (long)(first % 1000000000u)}};
  timerfd_settime(worker->timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
  worker->timer_ns = first;
}

int lb_arm(struct pst_worker *worker)
{
  lb_worker_watch(worker);
  if (lb_worker_is_hit(worker))
    lb_worker_lost(worker);
  if (worker->unlending && lb_worker_may_unlend(worker))
    return -EAGAIN;
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    if (lb_endpoint_pending(worker->endpoints[i]))
      return -EAGAIN;
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    atomic_store_explicit(&worker->endpoints[i]->own->port->armed,
                          lb_worker_wanted(worker->endpoints[i]), memory_order_relaxed);
  worker->armed = true;
  lb_worker_set_timer(worker);
  lb_barrier_heavy(worker->device->shared);
  /* Whatever came before the peers could see the flags. */
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    if (lb_endpoint_pending(worker->endpoints[i]))
      return -EAGAIN;
  return 0;
}

int lb_event_fd(struct pst_worker *worker)
{
  return worker->epoll_fd;
}
