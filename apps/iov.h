/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of buffers that one system call reads or writes in part. */
#ifndef APP_IOV_H
#define APP_IOV_H

#include <stddef.h>
#include <sys/uio.h>

/* Skips the first `bytes` of the list. */
static inline void iov_skip(struct iovec **iov, int *count, size_t bytes)
{
  while (bytes > 0) {
    const size_t part = bytes < (*iov)->iov_len ? bytes : (*iov)->iov_len;

    (*iov)->iov_base = (char *)(*iov)->iov_base + part;
    (*iov)->iov_len -= part;
    bytes -= part;
    if ((*iov)->iov_len == 0) {
      ++*iov;
      --*count;
    }
  }
}

#endif
