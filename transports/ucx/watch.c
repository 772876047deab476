/* SPDX-License-Identifier: Apache-2.0 */
/* Watching a peer's process on this host. */
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link.h"
#include "wire.h"

static ssize_t ucx_watch_read_file(const char *path, char *text, size_t size)
{
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = -1;

  if (fd >= 0) {
    length = read(fd, text, size - 1);
    close(fd);
  }
  if (length >= 0)
    text[length] = 0;
  return length;
}

/* proc(5): field 22 of /proc/PID/stat. The name, field 2, may have blanks and parentheses. */
static bool ucx_watch_read_start(uint64_t pid, uint64_t *started)
{
  char path[64], text[1024];
  const char *at;

  snprintf(path, sizeof(path), "/proc/%llu/stat", (unsigned long long)pid);
  if (ucx_watch_read_file(path, text, sizeof(text)) <= 0)
    return false;
  at = strrchr(text, ')');
  for (int field = 2; at && field < 22; field++)
    at = strchr(at + 1, ' ');
  if (!at)
    return false;
  *started = strtoull(at, NULL, 10);
  return true;
}

static bool ucx_watch_read_boot(uint8_t boot[16])
{
  char text[64];
  const char *at = text;
  unsigned int byte;

  if (ucx_watch_read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text)) < 36)
    return false;
  for (int i = 0; i < 16; i++) {
    at += *at == '-';
    if (sscanf(at, "%2x", &byte) != 1)
      return false;
    boot[i] = (uint8_t)byte;
    at += 2;
  }
  return true;
}

bool ucx_identity_read(struct ucx_identity *identity)
{
  struct stat status;

  memset(identity, 0, sizeof(*identity));
  if (stat("/proc/self/ns/pid", &status) != 0 || !ucx_watch_read_boot(identity->boot))
    return false;
  identity->pid_namespace = status.st_ino;
  identity->pid = (uint64_t)getpid();
  return ucx_watch_read_start(identity->pid, &identity->started);
}

bool ucx_identity_is_near(const struct ucx_identity *own, const struct ucx_identity *peer)
{
  return own->pid && peer->pid && own->pid_namespace == peer->pid_namespace &&
         memcmp(own->boot, peer->boot, sizeof(own->boot)) == 0;
}

int ucx_watch_open(const struct ucx_identity *own, const struct ucx_identity *peer, int *pidfd)
{
  uint64_t started = 0;
  int fd;

  if (peer->pid == own->pid) {
    *pidfd = -1;
    return 0;
  }
  if (peer->pid > INT32_MAX)
    return -EPROTO;
  fd = (int)syscall(SYS_pidfd_open, (pid_t)peer->pid, 0);
  if (fd < 0)
    return errno == ESRCH ? -ECONNRESET : -errno;
  /* The peer's number may be another process's by now. */
  if (!ucx_watch_read_start(peer->pid, &started) || started != peer->started) {
    close(fd);
    return -ECONNRESET;
  }
  *pidfd = fd;
  return 0;
}

int ucx_watch_begin(int watch_fd, int pidfd, struct ucx_link *link)
{
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = link};

  if (pidfd < 0)
    return 0;
  return epoll_ctl(watch_fd, EPOLL_CTL_ADD, pidfd, &event) == 0 ? 0 : -errno;
}

void ucx_watch_forget(int watch_fd, int pidfd)
{
  if (pidfd >= 0)
    epoll_ctl(watch_fd, EPOLL_CTL_DEL, pidfd, NULL);
}

void ucx_watch_end(int pidfd)
{
  if (pidfd >= 0)
    close(pidfd);
}

void ucx_watch_look(int watch_fd)
{
  struct epoll_event events[16];
  const int n = epoll_wait(watch_fd, events, 16, 0);

  for (int i = 0; i < n; i++) {
    struct ucx_link *link = events[i].data.ptr;
    link->peer.has_died = true;
    ucx_watch_forget(watch_fd, link->peer.pidfd);
  }
}
