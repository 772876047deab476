/* SPDX-License-Identifier: Apache-2.0 */
/* Workers: a list of links, and the descriptors to sleep on. */
#include "worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <penstock/transport-util.h>

#include "device.h"
#include "linger.h"
#include "link.h"
#include "ops.h"
#include "timers.h"

static void ucx_worker_close_descriptors(struct pst_worker *worker)
{
  const int all[] = {worker->watch_fd, worker->sleep_fd, worker->timer_fd};

  for (int i = 0; i < 3; i++)
    if (all[i] >= 0)
      close(all[i]);
}

static int ucx_worker_open_sleep(struct pst_worker *worker)
{
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};

  worker->sleep_fd = epoll_create1(EPOLL_CLOEXEC);
  worker->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (worker->sleep_fd < 0 || worker->timer_fd < 0 ||
      epoll_ctl(worker->sleep_fd, EPOLL_CTL_ADD, worker->watch_fd, &event) != 0 ||
      epoll_ctl(worker->sleep_fd, EPOLL_CTL_ADD, worker->timer_fd, &event) != 0)
    return -errno;
  return 0;
}

int ucx_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  struct pst_worker *made = calloc(1, sizeof(*made));
  int rc = 0;

  (void)index;
  if (!made)
    return -ENOMEM;
  made->device = device;
  made->sleep_fd = made->timer_fd = -1;
  made->watch_fd = epoll_create1(EPOLL_CLOEXEC);
  if (made->watch_fd < 0)
    rc = -errno;
  else if (device->sleeps)
    rc = ucx_worker_open_sleep(made);
  if (rc < 0) {
    ucx_worker_close_descriptors(made);
    free(made);
    return PST_REFUSE(device->host, rc,
                      "a worker finds no descriptors: %s; raise `ulimit -n`, or use fewer threads",
                      strerror(-rc));
  }
  *worker = made;
  return 0;
}

/* Peers that live and take nothing get their BYE later. */
static void ucx_worker_hand_over(struct pst_worker *worker, uint64_t now_ns)
{
  struct ucx_link *link;

  while ((link = ucx_links_take_waiting(worker, now_ns)))
    if (!ucx_linger_take(worker->device, link))
      ucx_link_free(link);
}

/* Waits for leaving links: their last messages are on the way, and peers get the time to take
 * them. */
static void ucx_worker_let_leave(struct pst_worker *worker)
{
  while (worker->leaving) {
    const uint64_t now_ns = ucx_now_ns(worker->device);
    ucx_links_progress(worker);
    ucx_timers_poll(worker, now_ns);
    ucx_worker_hand_over(worker, now_ns);
    if (worker->leaving)
      usleep(200);
  }
}

void ucx_worker_close(struct pst_worker *worker)
{
  if (!worker)
    return;
  while (worker->endpoint_count)
    ucx_endpoint_free(worker->endpoints[0]);
  ucx_worker_let_leave(worker);
  ucx_links_free(worker);
  ucx_worker_close_descriptors(worker);
  free(worker->rings.all);
  free(worker->endpoints);
  free(worker);
}

int ucx_event_fd(struct pst_worker *worker)
{
  return worker->sleep_fd;
}
