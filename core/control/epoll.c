/* SPDX-License-Identifier: Apache-2.0 */
/* epoll, with a callback for each descriptor. */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop.h"
#include "util/closer.h"

/* `events` of UINT32_MAX is a watch that epoll does not know yet. */
int watch_set(struct control *control, struct watch *watch, uint32_t events)
{
  struct epoll_event event = {.events = events, .data.ptr = watch};
  int operation = watch->events == UINT32_MAX ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;

  if (watch->fd < 0 || watch->events == events)
    return 0;
  if (epoll_ctl(control->epoll_fd, operation, watch->fd, &event) < 0)
    return -errno;
  watch->events = events;
  return 0;
}

int watch_release(struct control *control, struct watch *watch)
{
  int fd = watch->fd;

  if (fd >= 0 && watch->events != UINT32_MAX)
    epoll_ctl(control->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
  watch->fd = -1;
  watch->events = UINT32_MAX;
  return fd;
}

void watch_close(struct control *control, struct watch *watch)
{
  int fd = watch_release(control, watch);

  if (fd >= 0)
    close(fd);
}

void watch_discard(struct control *control, struct watch *watch)
{
  int fd = watch_release(control, watch);

  if (fd < 0)
    return;
  shutdown(fd, SHUT_RDWR); /* the other end sees it, when closes are held up too */
  closer_close(fd);
}
