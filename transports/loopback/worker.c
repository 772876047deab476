/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: what one thread polls, and how it sleeps. */
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "loopback.h"
#include "registry.h"

int lb_worker_add_watch(struct pst_worker *worker, struct lb_watch *watch)
{
  /* A peer's wake-ups are never taken off: each is told once. */
  const uint32_t edge = watch->kind == LB_WATCH_WAKE ? (uint32_t)EPOLLET : 0;
  struct epoll_event event = {.events = EPOLLIN | edge, .data.ptr = watch};
  return epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, watch->fd, &event) == 0 ? 0 : -errno;
}

void lb_worker_drop_watch(struct pst_worker *worker, struct lb_watch *watch)
{
  if (watch->fd >= 0)
    epoll_ctl(worker->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
  watch->fd = -1;
}

int lb_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  if (device->sealed) {
    LB_LOG(device, PST_LOG_ERROR, "a worker was to be opened after start");
    return -EPERM;
  }
  if (index >= LB_WORKERS_MAX) {
    LB_LOG(device, PST_LOG_ERROR, "worker %u: loopback has at most %u", index, LB_WORKERS_MAX);
    return -EINVAL;
  }
  struct pst_worker *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  int rc;
  made->device = device;
  made->index = index;
  made->guard_hits = atomic_load(&lb_guard_hits);
  made->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  made->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  made->watch = (struct lb_watch){LB_WATCH_WORKER, made->event_fd, NULL};
  made->timer = (struct lb_watch){
      LB_WATCH_TIMER, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), NULL};
  if (made->epoll_fd < 0 || made->event_fd < 0 || made->timer.fd < 0)
    rc = -errno;
  else if ((rc = lb_worker_add_watch(made, &made->watch)) == 0)
    rc = lb_worker_add_watch(made, &made->timer);
  if (rc != 0) {
    LB_LOG(device, PST_LOG_ERROR, "epoll, eventfd or timerfd for worker %u: %s; raise `ulimit -n`",
           index, strerror(-rc));
    lb_worker_close(made);
    return rc;
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
  if (worker->event_fd >= 0)
    close(worker->event_fd);
  if (worker->timer.fd >= 0)
    close(worker->timer.fd);
  if (worker->epoll_fd >= 0)
    close(worker->epoll_fd);
  free(worker->endpoints);
  free(worker->rx.all);
  free(worker);
}

static void drain(const struct lb_watch *watch)
{
  uint64_t sink;
  ssize_t got = watch->kind == LB_WATCH_WAKE ? 0 : read(watch->fd, &sink, sizeof(sink));
  (void)got;
}

/* One system call: wake-ups are taken off, deaths are noticed. */
void lb_worker_watch(struct pst_worker *worker)
{
  struct epoll_event events[16];
  int n = epoll_wait(worker->epoll_fd, events, 16, 0);
  for (int i = 0; i < n; i++) {
    struct lb_watch *watch = events[i].data.ptr;
    if (watch->kind != LB_WATCH_PROCESS) {
      drain(watch);
      continue;
    }
    watch->endpoint->dead = true;
    watch->endpoint->attention = true;
    int fd = watch->fd;
    lb_worker_drop_watch(worker, watch);
    close(fd);
  }
}

static bool has_lost(const struct pst_endpoint *endpoint)
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
  /* Which peer took a registration away nobody knows: whoever may have been offered it. */
  const bool offered = lb_registry_lost(worker->device);
  for (uint32_t i = 0; i < worker->endpoint_count; i++) {
    struct pst_endpoint *endpoint = worker->endpoints[i];
    const bool others = endpoint->peer && !endpoint->peer->in_process;
    if (has_lost(endpoint) || (offered && others && (endpoint->roles & PST_ROLE_RMA)))
      lb_endpoint_fail(endpoint, -EFAULT, "");
  }
}

static uint32_t wanted(const struct pst_endpoint *endpoint)
{
  bool credit = endpoint->tx.blocked || endpoint->tx.tail != endpoint->tx.head;
  return LB_ARMED_ARRIVAL | (credit ? LB_ARMED_CREDIT : 0u);
}

/* Nobody else would wake us for that. */
static void set_timer(struct pst_worker *worker)
{
  uint64_t first = 0;
  for (uint32_t i = 0; i < worker->endpoint_count; i++) {
    uint64_t deadline = worker->endpoints[i]->connect_deadline_ns;
    if (deadline && (first == 0 || deadline < first))
      first = deadline;
  }
  if (first == worker->timer_ns)
    return;
  struct itimerspec at = {.it_value = {.tv_sec = (time_t)(first / 1000000000u),
                                       .tv_nsec = (long)(first % 1000000000u)}};
  timerfd_settime(worker->timer.fd, TFD_TIMER_ABSTIME, &at, NULL);
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
    atomic_store_explicit(&worker->endpoints[i]->own->port->armed, wanted(worker->endpoints[i]),
                          memory_order_relaxed);
  worker->armed = true;
  set_timer(worker);
  lb_barrier_heavy();
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
