/* SPDX-License-Identifier: Apache-2.0 */
/* A worker, polled by one thread: its endpoints' sockets, and their events. */
#include <sys/epoll.h>
#include <unistd.h>

#include "endpoint.h"
#include "ops.h"
#include "receive.h"
#include "ring.h"
#include "send.h"
#include "socket.h"

int udp_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  struct pst_worker *made = calloc(1, sizeof(*made));

  (void)index;
  if (!made)
    return -ENOMEM;
  made->device = device;
  made->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (made->epoll_fd < 0) {
    int rc = -errno;
    free(made);
    return PST_REFUSE(device->dg.host, rc, "no descriptor for a worker: %s; raise `ulimit -n`",
                      strerror(-rc));
  }
  *worker = made;
  return 0;
}

void udp_worker_close(struct pst_worker *worker)
{
  if (!worker)
    return;
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    udp_endpoint_free(worker->endpoints[i]);
  for (uint32_t i = 0; i < worker->rings.room; i++)
    udp_ring_close(worker, worker->rings.all[i].at);
  close(worker->epoll_fd);
  free(worker->endpoints);
  free(worker->rings.all);
  free(worker);
}

int udp_event_fd(struct pst_worker *worker)
{
  return worker->epoll_fd;
}

static uint32_t udp_worker_poll_endpoint(struct pst_endpoint *endpoint, struct pst_completion *out,
                                         uint32_t max)
{
  if (endpoint->has_error)
    udp_socket_errors(endpoint);
  uint32_t n = pst_cpu_endpoint_poll(&endpoint->dg.cpu, out, max);
  if (endpoint->rx && dg_is_connected(&endpoint->dg))
    n += udp_rx_poll(endpoint, out + n, max - n);
  return n;
}

static void udp_worker_disarm(struct pst_worker *worker)
{
  struct epoll_event events[16];
  int n = epoll_wait(worker->epoll_fd, events, 16, 0);

  worker->armed = false;
  for (int i = 0; i < n; i++)
    if (events[i].events & (EPOLLERR | EPOLLHUP))
      ((struct pst_endpoint *)events[i].data.ptr)->has_error = true;
}

/* Backwards, since what is closed leaves the array. */
static uint32_t udp_worker_close_endpoints(struct pst_worker *worker, struct pst_completion *out,
                                           uint32_t max)
{
  uint32_t n = 0;

  for (uint32_t i = worker->endpoint_count; i-- > 0 && n < max;) {
    struct pst_endpoint *endpoint = worker->endpoints[i];
    n += pst_cpu_endpoint_poll_end(&endpoint->dg.cpu, out + n, max - n);
    if (endpoint->dg.cpu.state != PST_CPU_CLOSED)
      continue;
    udp_endpoint_free(endpoint);
    worker->endpoints[i] = worker->endpoints[--worker->endpoint_count];
  }
  return n;
}

int udp_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  uint32_t n = 0, count = worker->endpoint_count;
  bool closing = false;

  if (worker->armed)
    udp_worker_disarm(worker);
  for (uint32_t i = 0; i < count && n < max; i++) {
    struct pst_endpoint *endpoint = worker->endpoints[(worker->turn + i) % count];
    n += udp_worker_poll_endpoint(endpoint, completions + n, max - n);
    closing |= endpoint->dg.cpu.closing.mode != 0;
  }
  worker->turn++;
  if (closing)
    n += udp_worker_close_endpoints(worker, completions + n, max - n);
  return (int)n;
}

/* Level-triggered, and only what poll() or post() could take. */
static uint32_t udp_worker_interest_of(const struct pst_endpoint *endpoint)
{
  if (endpoint->tx)
    return endpoint->tx->blocked ? EPOLLOUT : 0;
  return dg_is_connected(&endpoint->dg) && udp_rx_has_room(endpoint) ? EPOLLIN : 0;
}

static bool udp_worker_is_pending(const struct pst_endpoint *endpoint)
{
  return pst_cpu_endpoint_is_pending(&endpoint->dg.cpu) || endpoint->has_error ||
         (endpoint->tx && endpoint->tx->is_throttled) || (endpoint->rx && udp_rx_pending(endpoint));
}

int udp_arm(struct pst_worker *worker)
{
  struct epoll_event events[1];

  for (uint32_t i = 0; i < worker->endpoint_count; i++) {
    struct pst_endpoint *endpoint = worker->endpoints[i];
    struct epoll_event wanted = {.events = udp_worker_interest_of(endpoint), .data.ptr = endpoint};
    if (udp_worker_is_pending(endpoint))
      return -EAGAIN;
    if (wanted.events == endpoint->interest)
      continue;
    if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_MOD, endpoint->fd, &wanted) != 0)
      return -EAGAIN;
    endpoint->interest = wanted.events;
  }
  worker->armed = true;
  if (epoll_wait(worker->epoll_fd, events, 1, 0) == 0)
    return 0;
  /* Room that post() has not been told of yet: asked again, it takes. */
  struct pst_endpoint *ready = events[0].data.ptr;
  if (ready->tx)
    ready->tx->blocked = false;
  if (events[0].events & EPOLLERR)
    ready->has_error = true;
  return -EAGAIN;
}
