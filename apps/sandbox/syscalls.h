/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of system calls: seccomp(2), by libseccomp. */
#ifndef APP_SANDBOX_SYSCALLS_H
#define APP_SANDBOX_SYSCALLS_H

#include <stdbool.h>

struct syscalls_needs {
  bool opens_inet;  /* opens more sockets of IPv4 and IPv6 */
  bool has_unix;    /* Unix sockets of every type */
  bool reads_peers; /* memory of other processes: process_vm_readv(2) */
};

/* Restrict all threads to the system calls of the program and of `needs`; other calls fail with
 * EPERM. 0; -ENOSYS: built without libseccomp, or the kernel has no filters; or -errno. */
int syscalls_restrict(const struct syscalls_needs *needs);

#endif
