/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock rules, for each version of the kernel's interface:
 * Documentation/userspace-api/landlock.rst. */
#ifndef APP_SANDBOX_LANDLOCK_H
#define APP_SANDBOX_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* <linux/landlock.h> of Debian 12 ends at version 2. */
#define LANDLOCK_EXECUTE (UINT64_C(1) << 0)
#define LANDLOCK_WRITE_FILE (UINT64_C(1) << 1)
#define LANDLOCK_READ_FILE (UINT64_C(1) << 2)
#define LANDLOCK_READ_DIR (UINT64_C(1) << 3)
#define LANDLOCK_REMOVE_DIR (UINT64_C(1) << 4)
#define LANDLOCK_REMOVE_FILE (UINT64_C(1) << 5)
#define LANDLOCK_MAKE_DIR (UINT64_C(1) << 7)
#define LANDLOCK_MAKE_REG (UINT64_C(1) << 8)
#define LANDLOCK_MAKE_SOCK (UINT64_C(1) << 9)
#define LANDLOCK_MAKE_FIFO (UINT64_C(1) << 10)
#define LANDLOCK_MAKE_SYM (UINT64_C(1) << 12)
#define LANDLOCK_REFER (UINT64_C(1) << 13)
#define LANDLOCK_TRUNCATE (UINT64_C(1) << 14)
#define LANDLOCK_IOCTL_DEV (UINT64_C(1) << 15)

struct landlock_path {
  const char *path;
  uint64_t access; /* LANDLOCK_…; rights that the kernel or the file type lacks are ignored */
};

struct landlock_port {
  uint16_t port;
  bool to_listen; /* else to connect to it */
};

/* Confine the calling thread, and threads that it starts, to `paths` and, with is_tcp, to `ports`.
 * Paths that do not exist are ignored. The rules are tried in another thread first.
 * 0; -ENOSYS: the kernel has no Landlock; -ESTALE: *refused is a path that the rules should allow
 * and do not, since its file system keeps no inodes; or -errno. On failure only no_new_privs is
 * set. */
int landlock_restrict(const struct landlock_path *paths, size_t path_count, bool is_tcp,
                      const struct landlock_port *ports, size_t port_count, const char **refused);

#endif
