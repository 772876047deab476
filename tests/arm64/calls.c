/* SPDX-License-Identifier: Apache-2.0 */
/* System calls that Linux has and qemu-aarch64 7.2 does not pass on, by calls that it passes on:
 * for LD_PRELOAD. Without it a program gets the errors of an old kernel. Calls that no test needs
 * are not here. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define LINKS_MAX 40
#define ROBUST 0x10 /* of glibc's kinds of mutexes */

/* QEMU_SET_ENV sets it again for each program of arm64; the host's, which such programs start,
 * could not load this. */
__attribute__((constructor)) static void leave_no_trace(void)
{
  unsetenv("LD_PRELOAD");
}

/* ---- process_vm_readv(2), process_vm_writev(2): guest and host have the same addresses ---- */

static ssize_t move_bytes(pid_t pid, const struct iovec *local, unsigned long local_count,
                          const struct iovec *remote, unsigned long remote_count, bool writes)
{
  char path[32];
  ssize_t moved;

  if (remote_count != 1)
    return errno = ENOSYS, -1;
  snprintf(path, sizeof(path), "/proc/%d/mem", pid);
  int fd = open(path, (writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  if (fd < 0)
    return errno = errno == ENOENT ? ESRCH : errno == EACCES ? EPERM : errno, -1;
  off_t at = (off_t)(uintptr_t)remote->iov_base;
  moved =
      writes ? pwritev(fd, local, (int)local_count, at) : preadv(fd, local, (int)local_count, at);
  int error = moved < 0 && errno == EIO ? EFAULT : errno;
  close(fd);
  if (moved == 0 && remote->iov_len) /* it ends, and has no memory any more */
    return errno = ESRCH, -1;
  return errno = error, moved;
}

EXPORT ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                                const struct iovec *remote, unsigned long remote_count,
                                unsigned long flags)
{
  (void)flags;
  return move_bytes(pid, local, local_count, remote, remote_count, false);
}

EXPORT ssize_t process_vm_writev(pid_t pid, const struct iovec *local, unsigned long local_count,
                                 const struct iovec *remote, unsigned long remote_count,
                                 unsigned long flags)
{
  (void)flags;
  return move_bytes(pid, local, local_count, remote, remote_count, true);
}

/* ---- preadv2(2) with RWF_NOWAIT at the file's position, of a descriptor that poll(2) knows ----
 */

EXPORT ssize_t preadv2(int fd, const struct iovec *pieces, int count, off_t offset, int flags)
{
  struct pollfd look = {.fd = fd, .events = POLLIN};

  if (offset != -1 || flags != RWF_NOWAIT)
    return errno = EOPNOTSUPP, -1;
  if (poll(&look, 1, 0) == 0)
    return errno = EAGAIN, -1;
  return readv(fd, pieces, count);
}

EXPORT ssize_t preadv64v2(int fd, const struct iovec *pieces, int count, off64_t offset, int flags)
    __attribute__((alias("preadv2")));

/* ---- set_robust_list(2): the next one to lock looks whether the owner has died ---- */

#define LOOK_NS 20000000L

static bool is_dead(pid_t thread)
{
  char path[32], text[512];

  snprintf(path, sizeof(path), "/proc/%d/stat", thread);
  int fd = openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT;
  ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (length <= 0)
    return length < 0 && errno == ESRCH;
  text[length] = '\0';
  const char *name_end = strrchr(text, ')');
  return name_end && (name_end[2] == 'Z' || name_end[2] == 'X');
}

EXPORT int pthread_mutex_lock(pthread_mutex_t *mutex)
{
  static int (*next)(pthread_mutex_t *);
  int rc;

  if (!next)
    next = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_lock");
  if (!(mutex->__data.__kind & ROBUST))
    return next(mutex);
  for (;;) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    rc = pthread_mutex_timedlock(mutex, &until);
    if (rc != ETIMEDOUT)
      return rc;
    int held = __atomic_load_n(&mutex->__data.__lock, __ATOMIC_ACQUIRE);
    if (held & FUTEX_TID_MASK && is_dead(held & FUTEX_TID_MASK))
      __atomic_compare_exchange_n(&mutex->__data.__lock, &held,
                                  (int)(FUTEX_OWNER_DIED | (FUTEX_WAITERS & (unsigned)held)), false,
                                  __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
  }
}

/* ---- /proc/PID/stat of the process itself, which qemu makes up: its first thread's has the same
 * start ---- */

static int open_file(const char *path, int flags, mode_t mode)
{
  char own[64], task[64];

  snprintf(own, sizeof(own), "/proc/%d/stat", getpid());
  if (strcmp(path, own) == 0 || strcmp(path, "/proc/self/stat") == 0) {
    snprintf(task, sizeof(task), "/proc/self/task/%d/stat", getpid());
    path = task;
  }
  return openat(AT_FDCWD, path, flags, mode);
}

EXPORT int open(const char *path, int flags, ...)
{
  va_list list;

  va_start(list, flags);
  mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_file(path, flags, mode);
}

EXPORT int open64(const char *path, int flags, ...) __attribute__((alias("open")));

/* ---- SO_MEMINFO, which programs read often: /proc/net/udp has the drops ---- */

/* Behind the columns before: of the line that has this inode, the last number. */
static bool find_drops(const char *table, unsigned long inode, uint32_t *drops)
{
  static _Thread_local char text[1 << 16];
  int fd = openat(AT_FDCWD, table, O_RDONLY | O_CLOEXEC);
  size_t length = 0;
  ssize_t n;

  if (fd < 0)
    return false;
  while (length < sizeof(text) - 1 && (n = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
    length += (size_t)n;
  close(fd);
  text[length] = '\0';
  for (char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n')) {
    unsigned long its, count;
    if (sscanf(line, " %*s %*s %*s %*s %*s %*s %*s %*s %*s %lu %*s %*s %lu", &its, &count) == 2 &&
        its == inode) {
      *drops = (uint32_t)count;
      return true;
    }
  }
  return false;
}

static bool drops_of(int fd, uint32_t *drops)
{
  struct stat socket;

  return fstat(fd, &socket) == 0 && (find_drops("/proc/self/net/udp", socket.st_ino, drops) ||
                                     find_drops("/proc/self/net/udp6", socket.st_ino, drops));
}

/* ---- Options of sockets that qemu does not know: host_options.py sets or reads them ---- */

enum { READS, SETS, ASKS_ETHTOOL };

struct option_request {
  int32_t level, name, does;
  uint32_t length;
  unsigned char value[512];
};

struct option_answer {
  int32_t error;
  unsigned char value[512];
};

/* The length of the value in the answer, or -1: nobody answers. */
static ssize_t ask_host(int fd, const struct option_request *request, struct option_answer *answer)
{
  static const struct sockaddr_un address = {AF_UNIX, HOST_OPTIONS};
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fd))] = {0};
  struct iovec piece = {(void *)request, sizeof(*request)};
  struct msghdr message = {.msg_iov = &piece,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof(control)};
  ssize_t length = -1;

  *CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof(fd));
  int host = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (host < 0)
    return -1;
  if (connect(host, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
      sendmsg(host, &message, MSG_NOSIGNAL) == sizeof(*request))
    length = recv(host, answer, sizeof(*answer), 0);
  close(host);
  return length - (ssize_t)sizeof(answer->error);
}

/* Handles an option that qemu refused as unknown, with this error. */
static int option_of_host(int fd, struct option_request *request, void *value, socklen_t *length,
                          int error)
{
  struct option_answer answer;

  if ((error != ENOPROTOOPT && error != EOPNOTSUPP) || *length > sizeof(request->value))
    return errno = error, -1;
  if (request->does == SETS)
    memcpy(request->value, value, *length);
  request->length = *length;
  ssize_t got = ask_host(fd, request, &answer);
  if (got < 0 || answer.error)
    return errno = got < 0 ? error : answer.error, -1;
  if (request->does == READS) {
    memcpy(value, answer.value, (size_t)got);
    *length = (socklen_t)got;
  }
  return 0;
}

EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
  static int (*next)(int, int, int, const void *, socklen_t);
  struct option_request request = {.level = level, .name = name, .does = SETS};

  if (!next)
    next = (int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");
  if (next(fd, level, name, value, length) == 0)
    return 0;
  return option_of_host(fd, &request, (void *)value, &length, errno);
}

EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
  static int (*next)(int, int, int, void *, socklen_t *);
  struct option_request request = {.level = level, .name = name};
  uint32_t info[SK_MEMINFO_VARS] = {0};

  if (!next)
    next = (int (*)(int, int, int, void *, socklen_t *))dlsym(RTLD_NEXT, "getsockopt");
  if (level == SOL_SOCKET && name == SO_MEMINFO && drops_of(fd, &info[SK_MEMINFO_DROPS])) {
    memcpy(value, info, *length < sizeof(info) ? *length : sizeof(info));
    return 0;
  }
  if (level == SOL_SOCKET && name == SO_NETNS_COOKIE) /* qemu reads it as an int */
    return option_of_host(fd, &request, value, length, ENOPROTOOPT);
  if (next(fd, level, name, value, length) == 0)
    return 0;
  return option_of_host(fd, &request, value, length, errno);
}

/* ---- SIOCETHTOOL, of which the host sees what fits into a request: the name, then the data ----
 */

static size_t ethtool_size(uint32_t command)
{
  switch (command) {
  case ETHTOOL_GET_TS_INFO:
    return sizeof(struct ethtool_ts_info);
  case ETHTOOL_STXCSUM:
    return sizeof(struct ethtool_value);
  default:
    return 0;
  }
}

EXPORT int ioctl(int fd, unsigned long name, ...)
{
  static int (*next)(int, unsigned long, ...);
  struct option_request request = {.does = ASKS_ETHTOOL};
  struct option_answer answer;
  va_list list;

  va_start(list, name);
  void *argument = va_arg(list, void *);
  va_end(list);
  if (!next)
    next = (int (*)(int, unsigned long, ...))dlsym(RTLD_NEXT, "ioctl");
  struct ifreq *device = argument;
  size_t size = name == SIOCETHTOOL ? ethtool_size(*(uint32_t *)device->ifr_data) : 0;
  if (size == 0)
    return next(fd, name, argument);
  request.length = (uint32_t)size;
  memcpy(request.value, device->ifr_name, IFNAMSIZ);
  memcpy(request.value + IFNAMSIZ, device->ifr_data, size);
  ssize_t got = ask_host(fd, &request, &answer);
  if (got < 0 || answer.error)
    return errno = got < 0 ? ENOSYS : answer.error, -1;
  memcpy(device->ifr_data, answer.value, (size_t)got);
  return 0;
}

/* ---- MAP_LOCKED of packet sockets' rings: they are the kernel's own memory, and root of
 * enter.py's namespace has a limit ---- */

EXPORT void *mmap(void *at, size_t length, int rights, int flags, int fd, off_t offset)
{
  static void *(*next)(void *, size_t, int, int, int, off_t);

  if (!next)
    next = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  return next(at, length, rights, fd < 0 ? flags : flags & ~MAP_LOCKED, fd, offset);
}

EXPORT void *mmap64(void *at, size_t length, int rights, int flags, int fd, off64_t offset)
    __attribute__((alias("mmap")));

/* ---- rtnetlink: qemu knows some messages and changes them, where host and program have one byte
 * order for nothing. It knows none on a socket that came as SCM_RIGHTS. ---- */

static int pass_to_oneself(int fd, int flags)
{
  int pair[2], passed = -1;
  char byte = 0;
  _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fd))] = {0};
  struct iovec piece = {&byte, 1};
  struct msghdr message = {.msg_iov = &piece,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof(control)};

  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) != 0)
    return -1;
  *CMSG_FIRSTHDR(&message) = (struct cmsghdr){CMSG_LEN(sizeof(fd)), SOL_SOCKET, SCM_RIGHTS};
  memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &fd, sizeof(fd));
  if (sendmsg(pair[0], &message, 0) == 1 &&
      recvmsg(pair[1], &message, flags & SOCK_CLOEXEC ? MSG_CMSG_CLOEXEC : 0) == 1)
    memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(passed));
  close(pair[0]);
  close(pair[1]);
  return passed;
}

EXPORT int socket(int domain, int type, int protocol)
{
  static int (*next)(int, int, int);

  if (!next)
    next = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
  int fd = next(domain, type, protocol);
  if (fd < 0 || domain != AF_NETLINK)
    return fd;
  int passed = pass_to_oneself(fd, type);
  close(fd);
  return passed;
}

/* ---- sendmmsg(2): qemu refuses a message that has no pieces ---- */

EXPORT int sendmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags)
{
  static int (*next)(int, struct mmsghdr *, unsigned int, int);
  static struct iovec nothing;

  if (!next)
    next = (int (*)(int, struct mmsghdr *, unsigned int, int))dlsym(RTLD_NEXT, "sendmmsg");
  for (unsigned int i = 0; i < count; i++)
    if (messages[i].msg_hdr.msg_iovlen == 0) {
      messages[i].msg_hdr.msg_iov = &nothing;
      messages[i].msg_hdr.msg_iovlen = 1;
    }
  return next(fd, messages, count, flags);
}

/* ---- openat2(2), of which RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_NO_SYMLINKS and
 * RESOLVE_NO_MAGICLINKS are known ---- */

static bool is_link(int folder, const char *name, char *target)
{
  ssize_t length = readlinkat(folder, name, target, PATH_MAX - 1);

  if (length >= 0)
    target[length] = '\0';
  return length >= 0;
}

/* Folders on the way are held open, so that ".." leads to where it was. */
struct walk {
  int folder[PATH_MAX / 2];
  int depth;
};

static void leave(struct walk *walk, int depth)
{
  while (walk->depth > depth)
    close(walk->folder[walk->depth--]);
}

static int step(struct walk *walk, char *rest, const struct open_how *how, int links);

/* Opens the last part as `how` wants it; goes on from a folder before it. */
static int enter(struct walk *walk, const char *part, char *rest, const struct open_how *how,
                 int links)
{
  char target[2 * PATH_MAX];
  bool is_last = *rest == '\0';
  int at = walk->folder[walk->depth];

  if (is_link(at, part, target) && !(is_last && how->flags & (O_NOFOLLOW))) {
    if (how->resolve & RESOLVE_NO_SYMLINKS || links == LINKS_MAX)
      return -ELOOP;
    if (target[0] == '/' && !(how->resolve & RESOLVE_IN_ROOT))
      return -EXDEV;
    if (target[0] == '/')
      leave(walk, 0);
    snprintf(target + strlen(target), PATH_MAX, "/%s", rest);
    return step(walk, target, how, links + 1);
  }
  int flags =
      is_last ? (int)how->flags | O_NOFOLLOW : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = openat(at, part, flags, (mode_t)how->mode);
  if (fd < 0)
    return -errno;
  if (is_last)
    return fd;
  walk->folder[++walk->depth] = fd;
  return step(walk, rest, how, links);
}

static int step(struct walk *walk, char *rest, const struct open_how *how, int links)
{
  char *part = rest + strspn(rest, "/");
  size_t length = strcspn(part, "/");

  if (length == 0)
    return openat(walk->folder[walk->depth], ".", (int)how->flags, (mode_t)how->mode);
  rest = part + length;
  if (*rest)
    *rest++ = '\0';
  rest += strspn(rest, "/");
  if (strcmp(part, "..") == 0) {
    if (walk->depth == 0 && !(how->resolve & RESOLVE_IN_ROOT))
      return -EXDEV;
    leave(walk, walk->depth ? walk->depth - 1 : 0);
  } else if (strcmp(part, ".") != 0) {
    return enter(walk, part, rest, how, links);
  }
  return step(walk, rest, how, links);
}

static long open_beneath(int folder, const char *name, const struct open_how *how)
{
  struct walk walk = {.folder = {folder}};
  char rest[2 * PATH_MAX];

  if (*name == '/' && !(how->resolve & RESOLVE_IN_ROOT))
    return errno = EXDEV, -1;
  if (*name == '\0')
    return errno = ENOENT, -1;
  snprintf(rest, sizeof(rest), "%s", name);
  int fd = step(&walk, rest, how, 0);
  leave(&walk, 0);
  if (fd < 0)
    errno = fd == -1 ? errno : -fd;
  return fd < 0 ? -1 : fd;
}

EXPORT long syscall(long number, ...)
{
  static long (*next)(long, ...);
  long a[6];
  va_list list;

  va_start(list, number);
  for (int i = 0; i < 6; i++)
    a[i] = va_arg(list, long);
  va_end(list);
  const struct open_how *how = (const struct open_how *)a[2];
  if (number == SYS_openat2 && how->resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT))
    return open_beneath((int)a[0], (const char *)a[1], how);
  if (number == SYS_openat2)
    return openat((int)a[0], (const char *)a[1], (int)how->flags, (mode_t)how->mode);
  if (!next)
    next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
