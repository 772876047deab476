/* SPDX-License-Identifier: Apache-2.0 */
/* Landlock rules, by the system calls themselves: the C library does not wrap them. */
#include "landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif
#define CREATE_VERSION 1u
#define RULE_PATH 1
#define RULE_PORT 2
#define PORT_LISTEN 1u
#define PORT_CONNECT 2u
#define SCOPE_ABSTRACT_SOCKETS 1u
#define SCOPE_SIGNALS 2u
#define RIGHTS_OF_FILES                                                                            \
  (LANDLOCK_EXECUTE | LANDLOCK_WRITE_FILE | LANDLOCK_READ_FILE | LANDLOCK_TRUNCATE |               \
   LANDLOCK_IOCTL_DEV)

/* The kernel's struct landlock_ruleset_attr. Older versions get a shorter one. */
struct ruleset {
  uint64_t files;
  uint64_t ports;  /* from version 4 */
  uint64_t scoped; /* from version 6 */
};

struct path_rule {
  uint64_t allowed;
  int32_t parent;
} __attribute__((packed));

struct port_rule {
  uint64_t allowed;
  uint64_t port;
};

/* Returns the version of the kernel's interface; 0: it has no Landlock. */
static int landlock_version(void)
{
  long version = syscall(SYS_landlock_create_ruleset, NULL, 0, CREATE_VERSION);

  return version < 0 ? 0 : (int)version;
}

/* Returns the rights on files that a version knows. */
static uint64_t landlock_rights(int version)
{
  const unsigned bits = version >= 5 ? 16 : version >= 3 ? 15 : version == 2 ? 14 : 13;

  return (UINT64_C(1) << bits) - 1;
}

static int landlock_new_ruleset(int version, bool is_tcp)
{
  struct ruleset set = {.files = landlock_rights(version)};
  size_t size = version >= 6 ? sizeof(set) : version >= 4 ? 2 * sizeof(uint64_t) : sizeof(uint64_t);

  if (version >= 4 && is_tcp)
    set.ports = PORT_LISTEN | PORT_CONNECT;
  if (version >= 6)
    set.scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS;
  long fd = syscall(SYS_landlock_create_ruleset, &set, size, 0);
  return fd < 0 ? -errno : (int)fd;
}

static int landlock_add_path(int ruleset, int version, const struct landlock_path *path)
{
  struct stat is;
  int fd = open(path->path, O_PATH | O_CLOEXEC);
  int rc = 0;

  if (fd < 0 || fstat(fd, &is) < 0) {
    if (fd >= 0)
      close(fd);
    return 0;
  }
  struct path_rule rule = {path->access & landlock_rights(version), fd};
  if (!S_ISDIR(is.st_mode))
    rule.allowed &= RIGHTS_OF_FILES;
  if (rule.allowed != 0 && syscall(SYS_landlock_add_rule, ruleset, RULE_PATH, &rule, 0) < 0)
    rc = errno == EBADFD ? 0 : -errno; /* a pipe or a socket needs no rule, and can have none */
  close(fd);
  return rc;
}

static int landlock_add_port(int ruleset, const struct landlock_port *port)
{
  const struct port_rule rule = {port->to_listen ? PORT_LISTEN : PORT_CONNECT, port->port};

  return syscall(SYS_landlock_add_rule, ruleset, RULE_PORT, &rule, 0) < 0 ? -errno : 0;
}

/* ---- Whether the rules hold ------------------------------------------------------------ */

struct trial {
  int ruleset;
  const struct landlock_path *paths;
  size_t count;
  const char *refused; /* the first path that cannot be read; NULL: none */
  int rc;
};

/* Can the path be read? Opens only files and folders, since to open a device or a FIFO has effects.
 */
static int landlock_open(const struct landlock_path *path)
{
  struct stat is;

  if ((path->access & LANDLOCK_READ_FILE) == 0 || stat(path->path, &is) < 0 ||
      (!S_ISREG(is.st_mode) && !S_ISDIR(is.st_mode)))
    return -ENOENT;
  int fd = open(path->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  close(fd);
  return 0;
}

/* Tries the rules in a thread, since a ruleset cannot be left again. */
static void *landlock_run_trial(void *context)
{
  struct trial *trial = context;
  bool *opened = calloc(trial->count + 1, sizeof(*opened));

  for (size_t i = 0; opened && i < trial->count; i++)
    opened[i] = landlock_open(&trial->paths[i]) == 0;
  if (!opened)
    trial->rc = -ENOMEM;
  else if (syscall(SYS_landlock_restrict_self, trial->ruleset, 0) < 0)
    trial->rc = -errno;
  for (size_t i = 0; trial->rc == 0 && i < trial->count; i++)
    if (opened[i] && landlock_open(&trial->paths[i]) == -EACCES) {
      trial->refused = trial->paths[i].path;
      trial->rc = -ESTALE;
    }
  free(opened);
  return NULL;
}

/* Finds file systems on which Landlock would refuse everything. A rule belongs to an inode, and
 * some file systems, such as 9p without a cache, make new inodes at each lookup. */
static int landlock_try(struct trial *trial)
{
  pthread_t thread;
  int code = pthread_create(&thread, NULL, landlock_run_trial, trial);

  if (code != 0)
    return -code;
  pthread_join(thread, NULL);
  return trial->rc;
}

int landlock_restrict(const struct landlock_path *paths, size_t path_count, bool is_tcp,
                      const struct landlock_port *ports, size_t port_count, const char **refused)
{
  const int version = landlock_version();
  int ruleset = version > 0 ? landlock_new_ruleset(version, is_tcp) : -ENOSYS;
  int rc = ruleset < 0 ? ruleset : 0;

  for (size_t i = 0; rc == 0 && i < path_count; i++)
    rc = landlock_add_path(ruleset, version, &paths[i]);
  for (size_t i = 0; rc == 0 && is_tcp && version >= 4 && i < port_count; i++)
    rc = landlock_add_port(ruleset, &ports[i]);
  if (rc == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
    rc = -errno;
  struct trial trial = {.ruleset = ruleset, .paths = paths, .count = path_count};
  if (rc == 0)
    rc = landlock_try(&trial);
  *refused = trial.refused;
  if (rc == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
    rc = -errno;
  if (ruleset >= 0)
    close(ruleset);
  return rc;
}
