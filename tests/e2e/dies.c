/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded, it kills its process right before the DIES_AT-th call on files, counted from the
 * first one that opens a name with DIES_FROM in it. io_uring is forbidden where the kernel has it,
 * so that every step is a call of the C library's.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <penstock/plugin.h>

static _Atomic long left;
static _Atomic bool counting;
static const char *from;

__attribute__((constructor)) static void begin(void)
{
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
  const char *at = getenv("DIES_AT");

  from = getenv("DIES_FROM");
  left = at ? atol(at) : 0;
  if (!at || !from)
    abort();
  if (syscall(SYS_io_uring_setup, 0, NULL) < 0 && errno == ENOSYS)
    return;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
    abort();
}

static void step(const char *name)
{
  if (name && strstr(name, from))
    counting = true;
  if (counting && --left == 0)
    kill(getpid(), SIGKILL);
}

static void *real(const char *name)
{
  void *found = dlsym(RTLD_NEXT, name);

  if (!found)
    abort();
  return found;
}

#define STEP(type, name, parameters, arguments)                                                    \
  PST_EXPORT type name parameters;                                                                 \
  type name parameters                                                                             \
  {                                                                                                \
    static type(*next) parameters;                                                                 \
    step(NULL);                                                                                    \
    if (!next)                                                                                     \
      next = (type(*) parameters)real(#name);                                                      \
    return next arguments;                                                                         \
  }

STEP(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t o), (fd, b, n, o))
STEP(ssize_t, pread, (int fd, void *b, size_t n, off_t o), (fd, b, n, o))
STEP(int, fsync, (int fd), (fd))
STEP(int, sync_file_range, (int fd, off_t o, off_t n, unsigned f), (fd, o, n, f))
STEP(int, ftruncate, (int fd, off_t n), (fd, n))
STEP(int, fchmod, (int fd, mode_t mode), (fd, mode))
STEP(int, flock, (int fd, int operation), (fd, operation))
STEP(int, renameat2, (int a, const char *b, int c, const char *d, unsigned f), (a, b, c, d, f))
STEP(int, unlinkat, (int fd, const char *name, int flags), (fd, name, flags))

PST_EXPORT int openat(int folder, const char *name, int flags, ...);

int openat(int folder, const char *name, int flags, ...)
{
  va_list list;

  va_start(list, flags);
  mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  step(name);
  int (*next)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...))real("openat");
  return next(folder, name, flags, mode);
}

PST_EXPORT int open(const char *name, int flags, ...);

int open(const char *name, int flags, ...)
{
  va_list list;

  va_start(list, flags);
  mode_t mode = flags & O_CREAT ? va_arg(list, mode_t) : 0;
  va_end(list);
  step(name);
  int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))real("open");
  return next(name, flags, mode);
}

PST_EXPORT long syscall(long number, ...);

long syscall(long number, ...)
{
  static long (*next)(long, ...);
  long a[6];
  va_list list;

  va_start(list, number);
  for (int i = 0; i < 6; i++)
    a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_openat2)
    step((const char *)a[1]);
  if (!next)
    next = (long (*)(long, ...))real("syscall");
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
