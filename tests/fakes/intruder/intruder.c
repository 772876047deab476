/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A planted exploit, for tests: code that runs within a process, by LD_PRELOAD, and tries at a
 * SIGUSR1 what an intruder would. A line of standard error for each attempt: "intruder TID: NAME:
 * ERRNO", 0: it was let through.
 *
 *   INTRUDER_READ, INTRUDER_WRITE   files that it tries to open so; several, with ':' between them
 *   INTRUDER_PORT                   TCP port of this host that it tries to connect to
 *   INTRUDER_SERVICE                Unix socket of a service that it tries to connect to
 *   INTRUDER_HIDES_LANDLOCK         set: the kernel has no Landlock, as far as this process sees
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LANDLOCK_CREATE 444
#define NO_PROCESS 0x3fffffff

static void intruder_tell(const char *name, int code)
{
  char line[256];
  int length = snprintf(line, sizeof(line), "intruder %d: %s: %d\n", (int)gettid(), name, code);
  ssize_t written = write(STDERR_FILENO, line, (size_t)length);

  (void)written;
}

static int intruder_keep(int fd)
{
  int code = fd < 0 ? errno : 0;

  if (fd >= 0)
    close(fd);
  return code;
}

static void intruder_open(const char *verb, const char *files, int flags)
{
  char copy[4096], name[256], *rest = NULL;

  snprintf(copy, sizeof(copy), "%s", files ? files : "");
  for (char *path = strtok_r(copy, ":", &rest); path; path = strtok_r(NULL, ":", &rest)) {
    snprintf(name, sizeof(name), "%s %s", verb, path);
    intruder_tell(name, intruder_keep(open(path, flags | O_CLOEXEC, 0600)));
  }
}

static void intruder_connect(const char *port)
{
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  if (!port)
    return;
  to.sin_port = htons((uint16_t)atoi(port));
  int rc = fd < 0 ? fd : connect(fd, (const struct sockaddr *)&to, sizeof(to));
  intruder_tell("connect", rc < 0 ? errno : 0);
  if (fd >= 0)
    close(fd);
}

/* Ways to a TCP port that are not connect() of a TCP socket, and to a service of this host. */
static void intruder_go_around(const char *port, const char *service)
{
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  struct sockaddr_un near = {.sun_family = AF_UNIX};

  to.sin_port = htons((uint16_t)atoi(port ? port : "1"));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_MPTCP);
  int rc = fd < 0 ? fd : connect(fd, (const struct sockaddr *)&to, sizeof(to));
  intruder_tell("multipath", rc < 0 ? errno : 0);
  intruder_keep(fd);
  fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ssize_t sent = fd < 0 ? -1
                        : sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL,
                                 (const struct sockaddr *)&to, sizeof(to));
  intruder_tell("fast open", sent < 0 ? errno : 0);
  intruder_keep(fd);
  snprintf(near.sun_path, sizeof(near.sun_path), "%s", service ? service : "");
  fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rc = fd < 0 ? fd : connect(fd, (const struct sockaddr *)&near, sizeof(near));
  intruder_tell("service", rc < 0 ? errno : 0);
  intruder_keep(fd);
}

/* By the system call: fork() takes locks, of which this thread may hold one where the signal found
 * it, as that of malloc(). */
static void intruder_fork(void)
{
  const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  int code = child < 0 ? errno : 0;

  if (child == 0)
    _exit(0);
  if (child > 0)
    waitpid(child, NULL, 0);
  intruder_tell("fork", code);
}

/* Where a call is let through, it fails for a reason of its own. */
static void intruder_call(const char *name, long rc, int own)
{
  intruder_tell(name, rc >= 0 || errno == own ? 0 : errno);
}

static void intruder_act(int number)
{
  char *const none[] = {NULL};
  const int code = errno;

  (void)number;
  intruder_open("read", getenv("INTRUDER_READ"), O_RDONLY);
  intruder_open("write", getenv("INTRUDER_WRITE"), O_WRONLY | O_CREAT);
  intruder_connect(getenv("INTRUDER_PORT"));
  intruder_go_around(getenv("INTRUDER_PORT"), getenv("INTRUDER_SERVICE"));
  intruder_tell("packets", intruder_keep(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0)));
  intruder_fork();
  intruder_call("exec", execve("/no/such/program", none, none), ENOENT);
  intruder_call("trace", ptrace(PTRACE_ATTACH, NO_PROCESS, NULL, NULL), ESRCH);
  intruder_call("signal", kill(getppid(), 0), 0);
  intruder_call("unshare", unshare(0), 0);
  intruder_call("terminal", ioctl(STDIN_FILENO, TIOCSTI, "x"), ENOTTY);
  intruder_tell("end", 0);
  errno = code;
}

static long (*next)(long number, ...);

static void intruder_find_next(void)
{
  *(void **)&next = dlsym(RTLD_NEXT, "syscall");
}

/* The program finds Landlock by its number. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
  va_list list;
  long words[6];

  if (!next) /* another library's constructor */
    intruder_find_next();
  if (number == LANDLOCK_CREATE && getenv("INTRUDER_HIDES_LANDLOCK")) {
    errno = ENOSYS;
    return -1;
  }
  va_start(list, number);
  for (int i = 0; i < 6; i++)
    words[i] = va_arg(list, long);
  va_end(list);
  return next(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}

__attribute__((constructor)) static void intruder_settle(void)
{
  struct sigaction action = {.sa_handler = intruder_act};

  intruder_find_next(); /* dlsym() takes locks, too */
  sigaction(SIGUSR1, &action, NULL);
}
