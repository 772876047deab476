/* SPDX-License-Identifier: Apache-2.0 */
/* The control group of a client. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "classes.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* Opens a pidfd of the process that has connected. Kernels before 6.5 know its number alone, which
 * another process may have by now if it has ended. No other failure may fall back to the number. */
static int share_cgroup_pidfd(int fd, pid_t pid)
{
  int pidfd = -1;
  socklen_t length = sizeof(pidfd);

  if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &length) == 0)
    return pidfd;
  if (errno != ENOPROTOOPT)
    return -errno;
  pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  return pidfd < 0 ? -errno : pidfd;
}

static int share_cgroup_read(pid_t pid, char *path, size_t size)
{
  char name[64], line[4096];
  int rc = -ENOENT;

  snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
  FILE *file = fopen(name, "re");
  if (!file)
    return -errno;
  while (rc == -ENOENT && fgets(line, sizeof(line), file)) {
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, "0::/", 4) == 0)
      rc = strlen(line + 3) < size ? 0 : -ENAMETOOLONG;
  }
  fclose(file);
  if (rc == 0)
    snprintf(path, size, "%s", line + 3);
  return rc;
}

int share_cgroup_of(int fd, pid_t pid, char *path, size_t size)
{
  struct pollfd process = {.fd = share_cgroup_pidfd(fd, pid), .events = POLLIN};

  if (process.fd < 0)
    return process.fd;
  int rc = share_cgroup_read(pid, path, size);
  if (rc == 0 && poll(&process, 1, 0) != 0)
    rc = -ESRCH; /* it has ended: the file may be another's */
  close(process.fd);
  return rc;
}
