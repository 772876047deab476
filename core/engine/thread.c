/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors on which a thread of a session or node sleeps. */
#include "thread.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "engine.h"

int engine_thread_open(struct engine_thread *thread)
{
  *thread = (struct engine_thread){.epoll_fd = epoll_create1(EPOLL_CLOEXEC)};
  int rc = thread->epoll_fd < 0 ? -errno : 0, opened = mailbox_open(&thread->mailbox);

  if (rc == 0)
    rc = opened;
  return rc < 0 ? rc : engine_thread_add_fd(thread, thread->mailbox.wake_fd);
}

void engine_thread_close(struct engine_thread *thread)
{
  mailbox_close(&thread->mailbox);
  free(thread->workers);
  if (thread->epoll_fd >= 0)
    close(thread->epoll_fd);
}

int engine_thread_add_fd(const struct engine_thread *thread, int fd)
{
  struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

  return epoll_ctl(thread->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int engine_thread_add(struct engine_thread *thread, struct engine_worker *worker)
{
  if (ARRAY_APPEND(thread->workers, thread->worker_count, worker) < 0)
    return -ENOMEM;
  if (worker->event_fd < 0 || engine_thread_add_fd(thread, worker->event_fd) < 0)
    worker->event_fd = -1;
  return 0;
}

int engine_thread_arm(const struct engine_thread *thread)
{
  int rc = 0;

  for (uint32_t i = 0; rc == 0 && i < thread->worker_count; i++) {
    const struct engine_worker *worker = thread->workers[i];
    if (worker->event_fd >= 0)
      rc = worker->ops->arm(worker->handle);
  }
  return rc;
}

static bool thread_naps(const struct engine_thread *thread)
{
  for (uint32_t i = 0; i < thread->worker_count; i++)
    if (thread->workers[i]->event_fd < 0)
      return true;
  return false;
}

bool engine_thread_sleep(struct engine_thread *thread, uint64_t now, uint64_t until)
{
  struct pollfd ready = {.fd = thread->epoll_fd, .events = POLLIN};

  if (thread_naps(thread) && until > now + ENGINE_NAP_NS)
    until = now + ENGINE_NAP_NS;
  if (until <= now || engine_thread_arm(thread) < 0 || mailbox_has_mail(&thread->mailbox))
    return false;
  const struct timespec timeout = {.tv_sec = (time_t)((until - now) / PST_NS_PER_S),
                                   .tv_nsec = (long)((until - now) % PST_NS_PER_S)};
  /* Kernels before 5.11 and valgrind have no epoll_pwait2; without it this would spin. */
  if (ppoll(&ready, 1, until == UINT64_MAX ? NULL : &timeout, NULL) > 0)
    mailbox_drain(&thread->mailbox);
  return true;
}
