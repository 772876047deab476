/* SPDX-License-Identifier: Apache-2.0 */
/* What Linux does and qemu-aarch64 7.2 does not hand on, by calls that it hands on: for LD_PRELOAD.
 * Without it a program gets the errors of an old kernel. What is not needed by a test is not here.
 */
#include <time.h> /* before errqueue.h, which lacks it */

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/errqueue.h>
#include <linux/futex.h>
#include <linux/openat2.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
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

/* ---- SO_RXQ_OVFL and SO_MEMINFO: /proc/net/udp has the drops; SO_TIMESTAMPING: SO_TIMESTAMP, to a
 * microsecond ---- */

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

EXPORT int setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
  static int (*next)(int, int, int, const void *, socklen_t);

  if (!next)
    next = (int (*)(int, int, int, const void *, socklen_t))dlsym(RTLD_NEXT, "setsockopt");
  if (level == SOL_SOCKET && name == SO_RXQ_OVFL)
    return 0;
  if (level == SOL_SOCKET && name == SO_TIMESTAMPING)
    return next(fd, level, SO_TIMESTAMP, value, length);
  if ((level == IPPROTO_IP && name == IP_MULTICAST_IF) ||
      (level == IPPROTO_IPV6 &&
       name == IPV6_MULTICAST_IF)) /* of one host's tests it is the route's */
    return 0;
  return next(fd, level, name, value, length);
}

EXPORT int getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
  static int (*next)(int, int, int, void *, socklen_t *);
  uint32_t info[SK_MEMINFO_VARS] = {0};

  if (!next)
    next = (int (*)(int, int, int, void *, socklen_t *))dlsym(RTLD_NEXT, "getsockopt");
  if (level != SOL_SOCKET || name != SO_MEMINFO || !drops_of(fd, &info[SK_MEMINFO_DROPS]))
    return next(fd, level, name, value, length);
  memcpy(value, info, *length < sizeof(info) ? *length : sizeof(info));
  return 0;
}

static size_t put(char *control, size_t at, int type, const void *value, size_t length)
{
  struct cmsghdr *message = (struct cmsghdr *)(control + at);

  *message = (struct cmsghdr){CMSG_LEN(length), SOL_SOCKET, type};
  memcpy(CMSG_DATA(message), value, length);
  return at + CMSG_SPACE(length);
}

/* What came, the stamp as SO_TIMESTAMPING has it; then the drops, if there were any: with none the
 * kernel says nothing. */
static void complete(struct msghdr *header, size_t room, uint32_t drops)
{
  _Alignas(struct cmsghdr) char made[512];
  size_t at = 0;

  for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c && at < sizeof(made) / 2;
       c = CMSG_NXTHDR(header, c)) {
    if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_TIMESTAMP) {
      struct scm_timestamping stamps = {0};
      struct timeval came;
      memcpy(&came, CMSG_DATA(c), sizeof(came));
      stamps.ts[0] = (struct timespec){came.tv_sec, came.tv_usec * 1000};
      at = put(made, at, SO_TIMESTAMPING, &stamps, sizeof(stamps));
    } else if (c->cmsg_len <= 64) {
      memcpy(made + at, c, c->cmsg_len);
      at += CMSG_ALIGN(c->cmsg_len);
    }
  }
  if (drops)
    at = put(made, at, SO_RXQ_OVFL, &drops, sizeof(drops));
  if (!header->msg_control || at > room)
    return;
  memcpy(header->msg_control, made, at);
  header->msg_controllen = at;
}

EXPORT int recvmmsg(int fd, struct mmsghdr *messages, unsigned int count, int flags,
                    struct timespec *timeout)
{
  static int (*next)(int, struct mmsghdr *, unsigned int, int, struct timespec *);
  size_t room[1024];
  uint32_t drops = 0;

  if (!next)
    next = (int (*)(int, struct mmsghdr *, unsigned int, int, struct timespec *))dlsym(RTLD_NEXT,
                                                                                       "recvmmsg");
  count = count < 1024 ? count : 1024;
  for (unsigned int i = 0; i < count; i++)
    room[i] = messages[i].msg_hdr.msg_controllen;
  int n = next(fd, messages, count, flags, timeout);
  if (n > 0)
    drops_of(fd, &drops);
  for (int i = 0; i < n; i++)
    complete(&messages[i].msg_hdr, room[i], drops);
  return n;
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

/* ---- openat2(2), of which RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS and RESOLVE_NO_MAGICLINKS are
 * known ---- */

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
    if (target[0] == '/')
      return -EXDEV;
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
    if (walk->depth == 0)
      return -EXDEV;
    leave(walk, walk->depth - 1);
  } else if (strcmp(part, ".") != 0) {
    return enter(walk, part, rest, how, links);
  }
  return step(walk, rest, how, links);
}

static long open_beneath(int folder, const char *name, const struct open_how *how)
{
  struct walk walk = {.folder = {folder}};
  char rest[2 * PATH_MAX];

  if (*name == '/')
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
  if (number == SYS_openat2 && how->resolve & RESOLVE_BENEATH)
    return open_beneath((int)a[0], (const char *)a[1], how);
  if (number == SYS_openat2)
    return openat((int)a[0], (const char *)a[1], (int)how->flags, (mode_t)how->mode);
  if (!next)
    next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
