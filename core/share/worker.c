/* SPDX-License-Identifier: Apache-2.0 */
/* A client's worker: its memory, its thread, and how that thread sleeps. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/log.h"
#include "worker.h"

#define SPIN_NS (20 * PST_NS_PER_US) /* the thread sleeps after it was idle for so long */
#define NAP_MS 1                     /* the longest sleep if the transport has no wake-ups */

/* ---- The thread ----------------------------------------------------------------------- */

static void share_worker_answer(struct share_worker *worker)
{
  struct share_command *command = atomic_load(&worker->command);

  if (!command)
    return;
  /* Requests that the client submitted before this call go first. */
  while (share_submit_take(worker) > 0)
    ;
  atomic_store(&worker->command, NULL);
  share_call_run(worker, command);
  pthread_mutex_lock(&worker->lock);
  worker->is_answered = true;
  pthread_cond_signal(&worker->answered);
  pthread_mutex_unlock(&worker->lock);
}

/* Does one turn of the loop; returns whether there was something to do. */
static bool share_worker_turn(struct share_worker *worker)
{
  const uint32_t before = worker->complete_tail;

  share_worker_answer(worker);
  const uint32_t taken = share_submit_take(worker);
  const uint32_t posted = share_submit_post(worker);
  const uint32_t polled = share_complete_poll(worker);
  if (worker->complete_tail != before)
    share_complete_publish(worker);
  return taken || posted || polled;
}

static int share_worker_timeout(const struct share_worker *worker)
{
  const bool has_wakeup = worker->client->has_wakeup;

  return !has_wakeup || worker->active_count > 0 ? NAP_MS : -1;
}

/* Sleeps until the client or the transport has work. */
static void share_worker_sleep(struct share_worker *worker)
{
  struct pst_share_page *page = worker->page;
  const bool has_wakeup = worker->client->has_wakeup;
  struct epoll_event events[2];
  uint64_t count;

  pst_share_sleep(&page->router_sleeps);
  const bool has_room = share_complete_has_room(worker, 64);
  if (pst_share_load(&page->submit_tail) != worker->submit_head || atomic_load(&worker->command) ||
      atomic_load(&worker->is_stopping) ||
      (has_room && has_wakeup && worker->ops->arm(worker->inner) == -EAGAIN)) {
    if (!atomic_load_explicit(&worker->client->is_broken, memory_order_relaxed)) {
      pst_share_store(&page->router_sleeps, 0);
      return;
    }
  }
  epoll_wait(worker->epoll_fd, events, 2, has_room ? share_worker_timeout(worker) : NAP_MS);
  pst_share_store(&page->router_sleeps, 0);
  if (read(worker->own_event, &count, sizeof(count)) < 0)
    count = 0; /* the event was not written */
}

/* Wakes the thread from within the router. */
static void share_worker_wake(struct share_worker *worker)
{
  static const uint64_t one = 1;

  if (write(worker->own_event, &one, sizeof(one)) < 0 && errno != EAGAIN)
    pst_log(PST_LOG_ERROR, "the worker's thread cannot be woken: %s", strerror(errno));
}

static void *share_worker_run(void *arg)
{
  struct share_worker *worker = arg;
  uint64_t idle_since = 0;

  while (!atomic_load_explicit(&worker->is_stopping, memory_order_relaxed)) {
    if (share_worker_turn(worker)) {
      idle_since = 0;
      continue;
    }
    const uint64_t now = clock_now_ns();
    if (!idle_since)
      idle_since = now;
    else if (now - idle_since >= SPIN_NS) {
      share_worker_sleep(worker);
      idle_since = 0;
    }
  }
  share_call_close_all(worker);
  return NULL;
}

void share_worker_ask(struct share_worker *worker, struct share_command *command)
{
  worker->is_answered = false;
  atomic_store(&worker->command, command);
  share_worker_wake(worker);
  pthread_mutex_lock(&worker->lock);
  while (!worker->is_answered)
    pthread_cond_wait(&worker->answered, &worker->lock);
  pthread_mutex_unlock(&worker->lock);
}

/* ---- Opening and closing ----------------------------------------------------------------- */

static int share_worker_open_memory(struct share_worker *worker)
{
  worker->memory_fd = memfd_create("penstock-share", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  worker->own_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  worker->router_event = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  worker->client_event = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  worker->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (worker->memory_fd < 0 || worker->router_event < 0 || worker->client_event < 0 ||
      worker->own_event < 0 || worker->epoll_fd < 0 ||
      ftruncate(worker->memory_fd, PST_SHARE_MEMORY) != 0 ||
      fcntl(worker->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return -errno;
  void *map = mmap(NULL, PST_SHARE_MEMORY, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
                   worker->memory_fd, 0);
  if (map == MAP_FAILED)
    return -errno;
  worker->page = map;
  worker->submit = (struct pst_share_entry *)((char *)map + PST_SHARE_SUBMIT_AT);
  worker->complete = (struct pst_completion *)((char *)map + PST_SHARE_COMPLETE_AT);
  return 0;
}

static int share_worker_watch(struct share_worker *worker, int fd, uint32_t events)
{
  struct epoll_event event = {.events = events};

  return fd >= 0 && epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0 ? -errno : 0;
}

static int share_worker_begin(struct share_worker *worker, uint32_t index)
{
  struct share_client *client = worker->client;

  int rc = share_worker_open_memory(worker);
  worker->active = calloc(PST_SHARE_ENDPOINTS, sizeof(struct share_endpoint *));
  if (rc < 0 || !worker->active)
    return rc < 0 ? rc : -ENOMEM;
  rc = worker->ops->worker_open(client->device, index, &worker->inner);
  if (rc < 0)
    return rc;
  rc = share_worker_watch(worker, worker->own_event, EPOLLIN);
  if (rc == 0) /* edge-triggered and never read, since a read could block */
    rc = share_worker_watch(worker, worker->router_event, EPOLLIN | EPOLLET);
  if (rc == 0 && client->has_wakeup)
    rc = share_worker_watch(worker, worker->ops->event_fd(worker->inner), EPOLLIN);
  if (rc == 0)
    rc = -pthread_create(&worker->thread, NULL, share_worker_run, worker);
  worker->has_thread = rc == 0;
  return rc;
}

void share_worker_stop(struct share_worker *worker)
{
  atomic_store(&worker->is_stopping, true);
  share_worker_wake(worker);
}

void share_worker_close(struct share_worker *worker)
{
  if (worker->has_thread) {
    share_worker_stop(worker);
    pthread_join(worker->thread, NULL);
  }
  if (worker->inner) {
    loader_defer_drain(worker->client->share->transport);
    worker->ops->worker_close(worker->inner);
  }
  if (worker->page)
    munmap(worker->page, PST_SHARE_MEMORY);
  const int fds[] = {worker->memory_fd, worker->router_event, worker->client_event,
                     worker->epoll_fd, worker->own_event};
  for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
    if (fds[i] >= 0)
      close(fds[i]);
  share_user_give(worker->client->user, SHARE_WORKER);
  pthread_cond_destroy(&worker->answered);
  pthread_mutex_destroy(&worker->lock);
  free(worker->active);
  free(worker->endpoints.all);
  free(worker->rings.all);
  free(worker->remotes.all);
  free(worker);
}

int share_worker_open(struct share_client *client, struct share_command *command)
{
  const uint32_t index = command->request->object;
  char remedy[SHARE_REMEDY_BYTES];
  struct share_worker *worker;

  if (index >= SHARE_WORKERS_MAX || index >= client->limits.workers_max || client->workers[index] ||
      client->worker_count >= client->class->workers) {
    pst_log(PST_LOG_ERROR, "the router allows a client %u workers; %s", client->class->workers,
            share_class_remedy(client, "workers", remedy));
    return -ENOSPC;
  }
  int rc = 0;
  worker = share_user_alloc(client->user, SHARE_WORKER, sizeof(*worker), &rc);
  if (!worker)
    return rc;
  worker->client = client;
  worker->ops = client->share->transport->transport;
  worker->memory_fd = worker->router_event = worker->client_event = -1;
  worker->epoll_fd = worker->own_event = -1;
  pthread_mutex_init(&worker->lock, NULL);
  pthread_cond_init(&worker->answered, NULL);
  rc = share_worker_begin(worker, index);
  if (rc < 0) {
    share_worker_close(worker);
    return rc;
  }
  rc = share_command_add_fd(command, worker->memory_fd);
  if (rc == 0)
    rc = share_command_add_fd(command, worker->router_event);
  if (rc == 0)
    rc = share_command_add_fd(command, worker->client_event);
  if (rc < 0) {
    share_worker_close(worker);
    return rc;
  }
  client->workers[index] = worker;
  client->worker_count++;
  command->reply->object = index + 1;
  return 0;
}
