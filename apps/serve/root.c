/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files below the server's root, and nothing outside it. */
#include "root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire.h"

#define HOLE_LEAST (64u << 10)
#define TRIES 8 /* openat2: EAGAIN when something is renamed meanwhile */

static int serve_root_open_resolved(int folder, const char *name, int flags, uint64_t resolve)
{
  const struct open_how how = {.flags = (uint64_t)(flags | O_CLOEXEC), .resolve = resolve};
  long fd = -1;

  for (int i = 0; i < TRIES; i++) {
    fd = syscall(SYS_openat2, folder, name, &how, sizeof(how));
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR))
      break;
  }
  return fd < 0 ? -errno : (int)fd;
}

static int serve_root_open_beneath(int folder, const char *name, int flags)
{
  return serve_root_open_resolved(folder, name, flags, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS);
}

int serve_root_open(const char *path)
{
  int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0)
    return -errno;
  int probe = serve_root_open_beneath(fd, ".", O_PATH | O_DIRECTORY);
  if (probe < 0) {
    close(fd);
    return probe;
  }
  close(probe);
  return fd;
}

/* To a program that has it open, a removed folder looks like an empty one. */
static bool serve_root_is_gone(int root)
{
  struct stat now;

  return fstat(root, &now) == 0 && now.st_nlink == 0;
}

/* First only looked at: to open a device, or a FIFO, may do something. */
int serve_root_open_file(int root, const char *name, struct stat *stat)
{
  struct stat seen;
  int fd = serve_root_open_beneath(root, name, O_PATH);

  if (fd < 0)
    return fd == -ENOENT && serve_root_is_gone(root) ? -ESTALE : fd;
  int rc = fstat(fd, &seen) < 0 ? -errno : 0;
  close(fd);
  if (rc == 0 && S_ISDIR(seen.st_mode))
    rc = -EISDIR;
  if (rc == 0 && !S_ISREG(seen.st_mode))
    rc = -ENOTSUP;
  if (rc < 0)
    return rc;
  fd = serve_root_open_beneath(root, name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return fd;
  if (fstat(fd, &seen) < 0)
    rc = -errno;
  else if (!S_ISREG(seen.st_mode)) /* exchanged meanwhile */
    rc = -ENOTSUP;
  if (rc < 0) {
    close(fd);
    return rc;
  }
  *stat = seen;
  return fd;
}

bool serve_root_changed(int fd, const struct stat *was)
{
  struct stat now;

  return fstat(fd, &now) < 0 || now.st_size != was->st_size ||
         now.st_mtim.tv_sec != was->st_mtim.tv_sec || now.st_mtim.tv_nsec != was->st_mtim.tv_nsec;
}

static int serve_root_check_seen(int fd, const struct stat *seen)
{
  struct stat now;

  if (fstat(fd, &now) < 0)
    return -errno;
  return now.st_dev == seen->st_dev && now.st_ino == seen->st_ino ? 0 : -ESTALE;
}

int serve_root_open_seen(int root, const char *name, const struct stat *seen, int flags)
{
  char self[64];
  int looked = root < 0 ? serve_root_open_resolved(AT_FDCWD, name, O_PATH, 0)
                        : serve_root_open_resolved(root, name, O_PATH,
                                                   RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);

  if (looked < 0)
    return looked == -ELOOP || looked == -EXDEV || looked == -ENOTDIR ? -ESTALE : looked;
  int fd = serve_root_check_seen(looked, seen);
  if (fd == 0) {
    snprintf(self, sizeof(self), "/proc/self/fd/%d", looked);
    fd = open(self, flags | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
      fd = -errno;
  }
  close(looked);
  return fd;
}

int serve_root_open_folder(int root, const char *name)
{
  if (serve_root_is_gone(root))
    return -ESTALE;
  return serve_root_open_beneath(root, name[0] != '\0' ? name : ".", O_RDONLY | O_DIRECTORY);
}

int serve_root_open_parent(int root, const char *name, const char **last)
{
  char folder[SERVE_NAME_MAX + 1];
  const char *slash = strrchr(name, '/');

  snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - name) : 0, name);
  int fd = serve_root_open_folder(root, folder);
  if (fd >= 0)
    *last = slash ? slash + 1 : name;
  return fd;
}

int serve_root_make_folder(int root, const char *name, uint32_t mode)
{
  const char *last = NULL;
  struct stat stat;
  int folder = serve_root_open_parent(root, name, &last), rc = 0;

  if (folder < 0)
    return folder;
  if (mkdirat(folder, last, mode) < 0)
    rc = -errno;
  if (rc == -EEXIST && fstatat(folder, last, &stat, AT_SYMLINK_NOFOLLOW) == 0)
    rc = S_ISDIR(stat.st_mode) ? 0 : S_ISLNK(stat.st_mode) ? -ELOOP : -EEXIST;
  close(folder);
  return rc;
}

/* ---- Folders -------------------------------------------------------------------------- */

static uint32_t serve_root_kind_of(int folder, const struct dirent *entry)
{
  struct stat stat;
  unsigned char type = entry->d_type;

  if (type == DT_UNKNOWN && fstatat(folder, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0)
    type = IFTODT(stat.st_mode);
  return type == DT_REG ? SERVE_KIND_FILE : type == DT_DIR ? SERVE_KIND_FOLDER : SERVE_KIND_OTHER;
}

/* Itself and the folder above it, and what unfinished transfers write to. */
static bool serve_root_is_hidden(const char *name)
{
  return strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
         serve_path_is_part((const uint8_t *)name, strlen(name));
}

/* Returns an entry of a folder, and copies its name to `name`, with '?' for each control character.
 */
static struct serve_entry serve_root_take_entry(int folder, const struct dirent *entry,
                                                uint32_t length, uint8_t *name)
{
  char checked[SERVE_NAME_MAX + 1];
  const char *why = NULL;

  memcpy(name, entry->d_name, length);
  if (serve_path_check_part(name, length, checked, &why) == 0)
    return (struct serve_entry){serve_root_kind_of(folder, entry), length, name};
  for (uint32_t i = 0; i < length; i++)
    memset(name + i, '?', serve_path_control(name + i, length - i));
  return (struct serve_entry){SERVE_KIND_UNNAMED, length, name};
}

static int serve_root_read_entries(DIR *listing, uint64_t *cursor, struct serve_entry *entries,
                                   uint8_t *names, uint32_t bytes)
{
  const struct dirent *entry;
  uint32_t count = 0, used = 0;
  long at = telldir(listing);

  for (errno = 0; (entry = readdir(listing)) != NULL; at = telldir(listing), errno = 0) {
    if (serve_root_is_hidden(entry->d_name))
      continue;
    uint32_t length = (uint32_t)strlen(entry->d_name);
    if (count == SERVE_ENTRIES_MAX || length > bytes - used)
      break;
    entries[count++] = serve_root_take_entry(dirfd(listing), entry, length, names + used);
    used += length;
  }
  if (!entry && errno != 0)
    return -errno;
  *cursor = entry ? (uint64_t)at : 0;
  return (int)count;
}

int serve_root_list(int folder, uint64_t *cursor, struct serve_entry entries[SERVE_ENTRIES_MAX],
                    uint8_t *names, uint32_t bytes)
{
  int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *listing = fd >= 0 ? fdopendir(fd) : NULL;

  if (!listing) {
    int code = -errno;
    if (fd >= 0)
      close(fd);
    return code;
  }
  if (*cursor != 0)
    seekdir(listing, (long)*cursor);
  int count = serve_root_read_entries(listing, cursor, entries, names, bytes);
  closedir(listing);
  return count;
}

/* ---- Holes ------------------------------------------------------------------------------ */

/* Where data begins, at or behind `at`; `size` when there is none any more. */
static int64_t serve_root_data_from(int fd, uint64_t at, uint64_t size)
{
  off_t found = lseek(fd, (off_t)at, SEEK_DATA);

  if (found >= 0)
    return (uint64_t)found < size ? (int64_t)found : (int64_t)size;
  return errno == ENXIO ? (int64_t)size : -errno;
}

int64_t serve_root_extent(int fd, uint64_t offset, uint64_t length, uint64_t size,
                          struct root_data *known, bool *hole)
{
  uint64_t end = offset + length < size ? offset + length : size;
  struct stat stat;

  if (fstat(fd, &stat) < 0)
    return -errno;
  if (offset >= size || (uint64_t)stat.st_size <= offset)
    return -ESTALE;
  if (offset >= known->begin && offset < known->end) {
    *hole = false;
    return (int64_t)((end < known->end ? end : known->end) - offset);
  }
  int64_t data = serve_root_data_from(fd, offset, size);
  if (data == -EINVAL) /* a file system that knows of no holes */
    data = (int64_t)offset;
  if (data < 0)
    return data;
  uint64_t gap = (uint64_t)data - offset;
  *hole = gap >= HOLE_LEAST || (gap > 0 && (uint64_t)data == size);
  if (*hole)
    return (int64_t)gap;
  for (uint64_t at = (uint64_t)data; at < end;) {
    off_t next = lseek(fd, (off_t)at, SEEK_HOLE);
    if (next > (off_t)at)
      *known = (struct root_data){at, (uint64_t)next};
    if (next < 0 || (uint64_t)next >= end)
      break;
    data = serve_root_data_from(fd, (uint64_t)next, size);
    if (data < 0)
      break;
    if ((uint64_t)data - (uint64_t)next >= HOLE_LEAST || (uint64_t)data == size) {
      end = (uint64_t)next;
      break;
    }
    at = (uint64_t)data;
  }
  return (int64_t)(end - offset);
}
