/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links whose worker is closed, and whose peers live and have no room for the BYE.
 *
 * UCX sends what it could not send in its progress alone, and wakes nobody for the room. A thread
 * of the device looks every few milliseconds. It begins with the first such link, and ends when the
 * device closes.
 */
#include "linger.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "device.h"
#include "link.h"
#include "timers.h"
#include "watch.h"
#include "worker.h"

#define KEEPER_PAUSE_NS 5000000

struct ucx_linger {
  struct pst_worker worker; /* has no endpoints, and nobody sleeps on it */
  pthread_t thread;
  pthread_cond_t changed; /* with the device's keeper_lock: closing, or a link has come */
  bool is_closing;
};

static void ucx_linger_wait_for(struct ucx_linger *keeper, pthread_mutex_t *lock)
{
  struct timespec until;

  if (!keeper->worker.leaving) {
    pthread_cond_wait(&keeper->changed, lock);
    return;
  }
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_nsec += KEEPER_PAUSE_NS;
  until.tv_sec += until.tv_nsec / 1000000000;
  until.tv_nsec %= 1000000000;
  pthread_cond_timedwait(&keeper->changed, lock, &until);
}

static void *ucx_linger_keep(void *arg)
{
  struct ucx_linger *keeper = arg;
  struct pst_device *device = keeper->worker.device;

  pthread_mutex_lock(&device->keeper_lock);
  while (!keeper->is_closing) {
    ucx_links_progress(&keeper->worker);
    ucx_timers_poll(&keeper->worker, ucx_now_ns(device));
    ucx_linger_wait_for(keeper, &device->keeper_lock);
  }
  pthread_mutex_unlock(&device->keeper_lock);
  return NULL;
}

/* Signals are for the host's threads. */
static bool ucx_linger_start_thread(struct ucx_linger *keeper)
{
  sigset_t all, before;
  bool is_started;

  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  is_started = pthread_create(&keeper->thread, NULL, ucx_linger_keep, keeper) == 0;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return is_started;
}

static struct ucx_linger *ucx_linger_open(struct pst_device *device)
{
  struct ucx_linger *keeper = calloc(1, sizeof(*keeper));
  pthread_condattr_t by_clock;

  if (!keeper)
    return NULL;
  keeper->worker.device = device;
  keeper->worker.sleep_fd = keeper->worker.timer_fd = -1;
  keeper->worker.watch_fd = epoll_create1(EPOLL_CLOEXEC);
  pthread_condattr_init(&by_clock);
  pthread_condattr_setclock(&by_clock, CLOCK_MONOTONIC);
  pthread_cond_init(&keeper->changed, &by_clock);
  pthread_condattr_destroy(&by_clock);
  if (keeper->worker.watch_fd >= 0 && ucx_linger_start_thread(keeper))
    return keeper;
  if (keeper->worker.watch_fd >= 0)
    close(keeper->worker.watch_fd);
  pthread_cond_destroy(&keeper->changed);
  free(keeper);
  return NULL;
}

bool ucx_linger_take(struct pst_device *device, struct ucx_link *link)
{
  struct ucx_linger *keeper;
  bool is_taken;

  pthread_mutex_lock(&device->keeper_lock);
  if (!device->keeper)
    device->keeper = ucx_linger_open(device);
  keeper = device->keeper;
  is_taken = keeper && ucx_watch_begin(keeper->worker.watch_fd, link->peer.pidfd, link) == 0;
  if (is_taken) {
    link->worker = &keeper->worker;
    link->next = keeper->worker.leaving;
    keeper->worker.leaving = link;
    pthread_cond_signal(&keeper->changed);
  }
  pthread_mutex_unlock(&device->keeper_lock);
  return is_taken;
}

/* Links leave in the order of their clocks now, whether their peers live or not. */
static void ucx_linger_give_up(struct ucx_linger *keeper)
{
  struct pst_device *device = keeper->worker.device;
  uint32_t count = 0;

  while (keeper->worker.leaving && ucx_now_ns(device) < ucx_links_clock_ns(&keeper->worker)) {
    ucx_links_progress(&keeper->worker);
    ucx_timers_poll(&keeper->worker, ucx_now_ns(device));
    if (keeper->worker.leaving)
      usleep(1000);
  }
  for (const struct ucx_link *link = keeper->worker.leaving; link; link = link->next)
    count++;
  if (count)
    UCX_LOG(device, PST_LOG_WARN,
            "%u peers are alive and have accepted nothing for %llu ms. They learn from the control "
            "channel, or from the end of this process, that this end has closed; `linger` sets the "
            "time",
            count, (unsigned long long)(device->linger_ns / 1000000));
  ucx_links_free(&keeper->worker);
}

void ucx_linger_close(struct pst_device *device)
{
  struct ucx_linger *keeper = device->keeper;

  if (!keeper)
    return;
  pthread_mutex_lock(&device->keeper_lock);
  keeper->is_closing = true;
  pthread_cond_signal(&keeper->changed);
  pthread_mutex_unlock(&device->keeper_lock);
  pthread_join(keeper->thread, NULL);
  ucx_linger_give_up(keeper);
  device->keeper = NULL;
  close(keeper->worker.watch_fd);
  pthread_cond_destroy(&keeper->changed);
  free(keeper);
}
