/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process_vm_readv() without ASan's check, for LD_PRELOAD.
 *
 * UCX 1.22 asks whether cma reaches a peer with one iovec that names itself, for both ends
 * (cma_iface.c): the kernel overwrites the iovec with bytes of the peer. ASan then takes these
 * bytes for an address and a length, and reads its shadow of them: a report, a crash or a long
 * loop.
 */
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

__attribute__((visibility("default"))) ssize_t
process_vm_readv(pid_t pid, const struct iovec *local, unsigned long local_count,
                 const struct iovec *remote, unsigned long remote_count, unsigned long flags)
{
  return syscall(SYS_process_vm_readv, pid, local, local_count, remote, remote_count, flags);
}
