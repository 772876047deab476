/* SPDX-License-Identifier: Apache-2.0 */
/* The seccomp filter: system calls that are not listed fail with EPERM. */
#include "syscalls.h"

#include <errno.h>

#ifdef HAVE_SECCOMP
#include <asm/ioctls.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define SYSCALLS_FAIL SCMP_ACT_ERRNO(EPERM)
#define TYPE_MASK 0xfu /* of socket(2): the type without its flags */

/* The system calls that stay allowed. None of them starts a program or a process, loads code into
 * the kernel, mounts, traces or changes the process's user. Names that an architecture lacks are
 * skipped. */
static const char *const syscalls_allowed[] = {
    /* bytes */
    "ioctl",
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "preadv",
    "pwritev",
    "preadv2",
    "pwritev2",
    "lseek",
    "_llseek",
    "close",
    "close_range",
    "dup",
    "dup2",
    "dup3",
    "pipe",
    "pipe2",
    "fcntl",
    "fcntl64",
    "sendfile",
    "sendfile64",
    "splice",
    "tee",
    "vmsplice",
    "copy_file_range",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "sync_file_range2",
    "syncfs",
    "ftruncate",
    "ftruncate64",
    "truncate",
    "truncate64",
    "fallocate",
    "fadvise64",
    "fadvise64_64",
    "arm_fadvise64_64",
    "readahead",
    "io_uring_enter",
    "io_uring_register",
    /* events */
    "poll",
    "ppoll",
    "ppoll_time64",
    "select",
    "_newselect",
    "pselect6",
    "pselect6_time64",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd",
    "eventfd2",
    "signalfd",
    "signalfd4",
    "timerfd_create",
    "timerfd_settime",
    "timerfd_settime64",
    "timerfd_gettime",
    "timerfd_gettime64",
    "inotify_init",
    "inotify_init1",
    "inotify_add_watch",
    "inotify_rm_watch",
    /* files, within the rules of Landlock */
    "open",
    "openat",
    "openat2",
    "creat",
    "stat",
    "stat64",
    "lstat",
    "lstat64",
    "fstat",
    "fstat64",
    "newfstatat",
    "fstatat64",
    "statx",
    "statfs",
    "statfs64",
    "fstatfs",
    "fstatfs64",
    "access",
    "faccessat",
    "faccessat2",
    "readlink",
    "readlinkat",
    "getdents",
    "getdents64",
    "mkdir",
    "mkdirat",
    "rmdir",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "symlink",
    "symlinkat",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "utime",
    "utimes",
    "futimesat",
    "utimensat",
    "utimensat_time64",
    "getcwd",
    "umask",
    "flock",
    "getxattr",
    "lgetxattr",
    "fgetxattr",
    "listxattr",
    "llistxattr",
    "flistxattr",
    /* memory */
    "mmap",
    "mmap2",
    "munmap",
    "mremap",
    "mprotect",
    "madvise",
    "msync",
    "mincore",
    "mlock",
    "mlock2",
    "munlock",
    "mlockall",
    "munlockall",
    "brk",
    "memfd_create",
    "mbind",
    "get_mempolicy",
    "set_mempolicy",
    "move_pages",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "membarrier",
    /* threads, without new processes: clone() below */
    "futex",
    "futex_time64",
    "futex_waitv",
    "futex_wait",
    "futex_wake",
    "futex_requeue",
    "set_robust_list",
    "get_robust_list",
    "rseq",
    "set_tid_address",
    "gettid",
    "getpid",
    "getppid",
    "exit",
    "exit_group",
    "wait4",
    "waitid",
    "sched_yield",
    "sched_getaffinity",
    "sched_setaffinity",
    "sched_getparam",
    "sched_setparam",
    "sched_getscheduler",
    "sched_setscheduler",
    "sched_getattr",
    "sched_setattr",
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_rr_get_interval",
    "getpriority",
    "setpriority",
    "ioprio_get",
    "ioprio_set",
    "getcpu",
    "prctl",
    "arch_prctl",
    "set_thread_area",
    "get_thread_area",
    "kill",
    "tkill",
    "tgkill",
    "pidfd_open",
    "pidfd_send_signal",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "rt_sigpending",
    "rt_sigqueueinfo",
    "rt_tgsigqueueinfo",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_sigtimedwait_time64",
    "sigaltstack",
    "sigreturn",
    "restart_syscall",
    "pause",
    /* clocks */
    "nanosleep",
    "clock_nanosleep",
    "clock_nanosleep_time64",
    "clock_gettime",
    "clock_gettime64",
    "clock_getres",
    "clock_getres_time64",
    "gettimeofday",
    "time",
    "times",
    "getitimer",
    "setitimer",
    "alarm",
    "timer_create",
    "timer_settime",
    "timer_settime64",
    "timer_gettime",
    "timer_gettime64",
    "timer_getoverrun",
    "timer_delete",
    /* sockets: socket() below */
    "socketpair",
    "bind",
    "connect",
    "listen",
    "accept",
    "accept4",
    "getsockname",
    "getpeername",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "recvmmsg_time64",
    "shutdown",
    "setsockopt",
    "getsockopt",
    "send",
    "recv",
    /* the process's identity and limits */
    "getuid",
    "getuid32",
    "geteuid",
    "geteuid32",
    "getgid",
    "getgid32",
    "getegid",
    "getegid32",
    "getgroups",
    "getgroups32",
    "getresuid",
    "getresuid32",
    "getresgid",
    "getresgid32",
    "getpgrp",
    "getpgid",
    "getsid",
    "capget",
    "uname",
    "sysinfo",
    "getrlimit",
    "ugetrlimit",
    "setrlimit",
    "prlimit64",
    "getrusage",
    "getrandom",
};

/* Memory of other processes. */
static const char *const syscalls_shared[] = {
    "process_vm_readv", "process_vm_writev", "shmget", "shmat", "shmdt", "shmctl"};

/* The leak check of the address sanitizer clones a process, which stops and traces this one. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SYSCALLS_HAS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SYSCALLS_HAS_SANITIZER 1
#endif
#endif

static int syscalls_allow(scmp_filter_ctx filter, const char *name)
{
  const int number = seccomp_syscall_resolve_name(name);

  /* A negative number belongs to another architecture; libseccomp skips it. */
  return number == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
}

/* Allows Unix sockets of the control channel's type alone: services of the host use other types,
 * and some start programs on request. Refuses MPTCP, which Landlock does not treat as TCP. */
static int syscalls_allow_sockets(scmp_filter_ctx filter, const struct syscalls_needs *needs)
{
  static const struct {
    int family;
    unsigned type;
    bool is_inet, is_plain;
  } sockets[] = {
      {AF_UNIX, SOCK_SEQPACKET, false, false}, {AF_NETLINK, SOCK_RAW, false, false},
      {AF_NETLINK, SOCK_DGRAM, false, false},  {AF_INET, SOCK_DGRAM, true, false},
      {AF_INET6, SOCK_DGRAM, true, false},     {AF_INET, SOCK_STREAM, true, true},
      {AF_INET6, SOCK_STREAM, true, true},
  };
  int rc = 0;

  for (size_t i = 0; rc == 0 && i < sizeof(sockets) / sizeof(sockets[0]); i++) {
    const scmp_datum_t family = (scmp_datum_t)sockets[i].family;
    if (sockets[i].is_inet && !needs->opens_inet)
      continue;
    for (scmp_datum_t protocol = 0; rc == 0 && protocol <= IPPROTO_TCP; protocol += IPPROTO_TCP)
      rc = sockets[i].is_plain
               ? seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 3,
                                  SCMP_A0(SCMP_CMP_EQ, family),
                                  SCMP_A1(SCMP_CMP_MASKED_EQ, TYPE_MASK, sockets[i].type),
                                  SCMP_A2(SCMP_CMP_EQ, protocol))
               : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
                                  SCMP_A0(SCMP_CMP_EQ, family),
                                  SCMP_A1(SCMP_CMP_MASKED_EQ, TYPE_MASK, sockets[i].type));
  }
  static const unsigned others[] = {SOCK_STREAM, SOCK_DGRAM};
  for (size_t i = 0; rc == 0 && needs->has_unix && i < sizeof(others) / sizeof(others[0]); i++)
    rc =
        seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_UNIX),
                         SCMP_A1(SCMP_CMP_MASKED_EQ, TYPE_MASK, others[i]));
  /* With MSG_FASTOPEN a send connects, which Landlock does not see. */
  if (rc == 0)
    rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendto), 1,
                          SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
  if (rc == 0)
    rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendmsg), 1,
                          SCMP_A2(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
  return rc < 0 ? rc
                : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(sendmmsg), 1,
                                   SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
}

/* Refuses clone3(), since a filter cannot read its flags; the C library then calls clone(). */
static int syscalls_allow_threads(scmp_filter_ctx filter)
{
#ifdef __s390__
#error "clone() has its flags in the second argument here"
#endif
#ifdef SYSCALLS_HAS_SANITIZER
  int rc = syscalls_allow(filter, "clone");

  if (rc == 0)
    rc = syscalls_allow(filter, "ptrace");
#else
  int rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                            SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
#endif
  return rc < 0 ? rc : seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

/* Refuses the two requests that put input into a terminal, where a shell would execute it. They
 * have a filter of their own: if a process has several filters, the strictest result counts. The
 * kernel compares the lower 32 bits alone. */
static int syscalls_refuse_terminal(void)
{
  static const unsigned requests[] = {TIOCSTI, TIOCLINUX};
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
  int rc = !filter ? -ENOMEM : seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);

  for (size_t i = 0; rc == 0 && i < sizeof(requests) / sizeof(requests[0]); i++)
    rc = seccomp_rule_add(filter, SYSCALLS_FAIL, SCMP_SYS(ioctl), 1,
                          SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, requests[i]));
  if (rc == 0)
    rc = seccomp_load(filter);
  seccomp_release(filter);
  return rc;
}

int syscalls_restrict(const struct syscalls_needs *needs)
{
  scmp_filter_ctx filter = seccomp_init(SYSCALLS_FAIL);
  int rc = !filter ? -ENOMEM : syscalls_refuse_terminal();

  if (rc == 0)
    rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
  for (size_t i = 0; rc == 0 && i < sizeof(syscalls_allowed) / sizeof(syscalls_allowed[0]); i++)
    rc = syscalls_allow(filter, syscalls_allowed[i]);
  if (rc == 0)
    rc = syscalls_allow_sockets(filter, needs);
  if (rc == 0)
    rc = syscalls_allow_threads(filter);
  for (size_t i = 0;
       rc == 0 && needs->reads_peers && i < sizeof(syscalls_shared) / sizeof(syscalls_shared[0]);
       i++)
    rc = syscalls_allow(filter, syscalls_shared[i]);
  if (rc == 0)
    rc = seccomp_load(filter);
  seccomp_release(filter);
  return rc;
}

#else
int syscalls_restrict(const struct syscalls_needs *needs)
{
  (void)needs;
  return -ENOSYS;
}
#endif
