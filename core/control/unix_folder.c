/* SPDX-License-Identifier: Apache-2.0 */
/* Where the Unix socket lies, and who is at its other end. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "unix_fd.h"
#include "util/closer.h"

#define PREFIX "penstock-unix-" /* used for nothing else: leftovers of it are swept */
#define SOCKET_NAME "s"
#define BACKLOG 1024
#define TRIES 8
#define SWEPT_MAX 4096 /* entries of a folder that are looked at for those of the dead */

_Static_assert(WIRE_UNIX_PATH_MAX < sizeof(((struct sockaddr_un *)0)->sun_path), "a path fits");

static int unix_new_socket(void)
{
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

  return fd < 0 ? -errno : fd;
}

static struct sockaddr_un unix_address_of(const char *path)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};

  snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
  return address;
}

/* A folder in which nobody else makes or removes names. */
static bool unix_is_kept(const struct stat *folder, uid_t uid)
{
  return S_ISDIR(folder->st_mode) && folder->st_uid == uid && (folder->st_mode & 022) == 0;
}

static bool unix_is_ours(const struct stat *folder)
{
  return unix_is_kept(folder, geteuid());
}

static const char *unix_parent(bool is_open)
{
  const char *path = secure_getenv("XDG_RUNTIME_DIR");
  struct stat folder;
  bool fits = path && path[0] == '/' &&
              strlen(path) + sizeof("/" PREFIX "XXXXXX/" SOCKET_NAME) <= WIRE_UNIX_PATH_MAX;

  return fits && stat(path, &folder) == 0 && unix_is_ours(&folder) &&
                 (is_open ? folder.st_mode & 001 : (folder.st_mode & 077) == 0) &&
                 access(path, W_OK | X_OK) == 0
             ? path
             : "/tmp";
}

/* ---- Folders of processes that were killed ----------------------------------------- */

/* Removes the folder of a process that has ended: a living one holds the lock. */
static void unix_sweep_one(int parent_fd, const char *name)
{
  struct stat is;
  int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

  if (fd < 0)
    return;
  if (fstat(fd, &is) == 0 && unix_is_ours(&is) && flock(fd, LOCK_EX | LOCK_NB) == 0) {
    unlinkat(fd, SOCKET_NAME, 0);
    unlinkat(parent_fd, name, AT_REMOVEDIR);
  }
  close(fd);
}

static void unix_sweep(const char *path)
{
  DIR *folder = opendir(path);
  const struct dirent *entry;

  for (int i = 0; folder && i < SWEPT_MAX && (entry = readdir(folder)); i++)
    if (strncmp(entry->d_name, PREFIX, sizeof(PREFIX) - 1) == 0)
      unix_sweep_one(dirfd(folder), entry->d_name);
  if (folder)
    closedir(folder);
}

/* ---- Listening --------------------------------------------------------------------- */

/* A descriptor, or -errno; -EAGAIN: somebody swept it between its making and its lock. */
static int unix_make_folder(char *path)
{
  struct stat here, there;

  if (!mkdtemp(path))
    return -errno;
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0)
    return errno == ENOENT ? -EAGAIN : -errno;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &here) == 0 && unix_is_ours(&here) &&
      stat(path, &there) == 0 && here.st_ino == there.st_ino && here.st_dev == there.st_dev)
    return fd;
  close(fd);
  rmdir(path);
  return -EAGAIN;
}

static int unix_listen_in(const char *above, bool is_open, struct unix_listener *made)
{
  struct sockaddr_un address;
  int length = snprintf(made->path, sizeof(made->path), "%s/" PREFIX "XXXXXX", above);

  made->folder_fd = unix_make_folder(made->path);
  if (made->folder_fd < 0)
    return made->folder_fd;
  strcpy(made->path + length, "/" SOCKET_NAME); /* unix_parent() saw to the room */
  address = unix_address_of(made->path);
  made->fd = unix_new_socket();
  if (made->fd >= 0 && bind(made->fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
      (!is_open || (chmod(made->path, 0666) == 0 && fchmod(made->folder_fd, 0711) == 0)) &&
      listen(made->fd, BACKLOG) == 0)
    return 0;
  int rc = made->fd < 0 ? made->fd : -errno;
  unix_unlisten(made);
  return rc;
}

int unix_listen(bool is_open, struct unix_listener *listener)
{
  const char *above = unix_parent(is_open);
  int rc = -EAGAIN;

  unix_sweep(above);
  for (int i = 0; i < TRIES && rc == -EAGAIN; i++) {
    struct unix_listener made = {.fd = -1, .folder_fd = -1};
    rc = unix_listen_in(above, is_open, &made);
    if (rc == 0)
      *listener = made;
  }
  return rc;
}

void unix_unlisten(struct unix_listener *listener)
{
  char folder[WIRE_UNIX_PATH_MAX + 1];

  /* Closing it closes what waits unread in the connections that nobody has accepted. */
  closer_close(listener->fd);
  if (listener->path[0]) {
    snprintf(folder, sizeof(folder), "%s", listener->path);
    *strrchr(folder, '/') = '\0';
    unlink(listener->path);
    rmdir(folder);
  }
  if (listener->folder_fd >= 0)
    close(listener->folder_fd);
  *listener = (struct unix_listener){.fd = -1, .folder_fd = -1};
}

/* ---- The other end ----------------------------------------------------------------- */

static int unix_check_user(int fd, bool is_open, uint32_t *uid)
{
  struct ucred credentials = {0};
  socklen_t size = sizeof(credentials);

  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
    return -errno;
  *uid = credentials.uid;
  return is_open || credentials.uid == geteuid() ? 0 : -EACCES;
}

int unix_accept(int listener, bool is_open, uint32_t *uid)
{
  int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

  if (fd < 0)
    return -errno;
  int rc = unix_check_user(fd, is_open, uid);
  if (rc == 0)
    return fd;
  closer_close(fd);
  return rc;
}

/* A peer names it: nothing but such a socket is connected to. */
static int unix_check_path(const char *path, bool is_open, uint32_t *uid)
{
  char folder[WIRE_UNIX_PATH_MAX + 1];
  struct stat is;

  if (path[0] != '/' || strlen(path) > WIRE_UNIX_PATH_MAX)
    return -EINVAL;
  snprintf(folder, sizeof(folder), "%s", path);
  char *name = strrchr(folder, '/');
  if (strcmp(name, "/" SOCKET_NAME) != 0)
    return -EINVAL;
  *name = '\0';
  const char *own = strrchr(folder, '/');
  if (!own || strncmp(own + 1, PREFIX, sizeof(PREFIX) - 1) != 0)
    return -EINVAL;
  if (lstat(folder, &is) < 0)
    return errno == EACCES ? -ENOENT : -errno;
  *uid = is.st_uid;
  return unix_is_kept(&is, is_open ? is.st_uid : geteuid()) ? 0 : -EACCES;
}

int unix_connect(const char *path, bool is_open, uint32_t *uid)
{
  struct sockaddr_un address = unix_address_of(path);
  int rc = unix_check_path(path, is_open, uid);
  int fd = rc < 0 ? rc : unix_new_socket();

  if (fd < 0)
    return fd;
  if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
    rc = -errno;
  if (rc == 0)
    rc = unix_check_user(fd, is_open, uid);
  if (rc == 0)
    return fd;
  close(fd);
  return rc;
}
