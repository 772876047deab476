/* SPDX-License-Identifier: Apache-2.0 */
/* An unfinished file, `.NAME.penstock-part`: opened, locked, renamed. */
#include "partial_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "root.h"

#define TRIES 8
#define NAME_BYTES (NAMES_BYTES_MAX + sizeof(NAMES_PART_SUFFIX) + 1)

static void serve_part_name(const struct partial_file *part, char name[NAME_BYTES])
{
  snprintf(name, NAME_BYTES, ".%s" NAMES_PART_SUFFIX, part->name);
}

static int serve_part_check_final(const struct partial_file *part)
{
  struct stat stat;

  if (fstatat(part->folder, part->name, &stat, AT_SYMLINK_NOFOLLOW) < 0)
    return errno == ENOENT ? 0 : -errno;
  if (S_ISDIR(stat.st_mode))
    return -EISDIR;
  return part->overwrite ? 0 : -EEXIST;
}

/* Another may have finished, or removed, what was opened here before it was locked. */
static int serve_part_lock(const struct partial_file *part, const char *name, bool *gone)
{
  struct stat ours, named;

  if (flock(part->fd, LOCK_EX | LOCK_NB) < 0)
    return errno == EWOULDBLOCK ? -EBUSY : -errno;
  if (fstat(part->fd, &ours) < 0)
    return -errno;
  *gone = fstatat(part->folder, name, &named, AT_SYMLINK_NOFOLLOW) < 0 ||
          named.st_ino != ours.st_ino || named.st_dev != ours.st_dev;
  return 0;
}

/* Made by this user: in a folder that others may write to, one of them may have made it first,
 * to read or change what is written. -EPERM: so it is. A second link may be anywhere. */
static int serve_part_check_ours(int fd)
{
  struct stat stat;

  if (fstat(fd, &stat) < 0)
    return -errno;
  if (!S_ISREG(stat.st_mode) || stat.st_nlink > 1)
    return -ENOTSUP;
  return stat.st_uid == geteuid() ? 0 : -EPERM;
}

/* A file of this user that others could read or write is never written to: a program that has it
 * open keeps it. */
static bool serve_part_is_private(int fd)
{
  struct stat stat;

  return fstat(fd, &stat) == 0 && (stat.st_mode & 077) == 0;
}

/* errno, of open(2), where the part cannot be opened. */
static int serve_part_refusal_of(const struct partial_file *part, const char *name)
{
  const int code = errno;
  struct stat there;

  if (code == ELOOP || code == ENXIO || code == EISDIR)
    return -ENOTSUP;
  /* To whom it is closed, it does not belong; else it is the folder that is closed. */
  if (code == EACCES && fstatat(part->folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0)
    return -EPERM;
  return -code;
}

/* Opens the part of that name that is kept to resume; or makes a new one in its place. */
static int serve_part_open_locked(struct partial_file *part, bool resume)
{
  const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  char name[NAME_BYTES];

  serve_part_name(part, name);
  for (int i = 0; i < TRIES; i++) {
    bool gone = true, made = false;
    if (part->fd >= 0)
      close(part->fd);
    part->fd = openat(part->folder, name, flags);
    if (part->fd < 0 && errno == ENOENT) {
      part->fd = openat(part->folder, name, flags | O_CREAT | O_EXCL, 0600);
      made = part->fd >= 0;
      if (!made && errno == EEXIST)
        continue;
    }
    if (part->fd < 0)
      return serve_part_refusal_of(part, name);
    int rc = serve_part_check_ours(part->fd);
    if (rc == 0)
      rc = serve_part_lock(part, name, &gone);
    if (rc < 0)
      return rc;
    if (gone)
      continue;
    if (made || (resume && serve_part_is_private(part->fd)))
      return 0;
    /* Locked, so that nobody else writes it. */
    if (unlinkat(part->folder, name, 0) < 0 && errno != ENOENT)
      return -errno;
  }
  return -EBUSY;
}

static int serve_part_open_in(struct partial_file *part, bool resume)
{
  struct stat stat;
  int rc = serve_part_check_final(part);

  if (rc == 0)
    rc = serve_part_open_locked(part, resume);
  if (rc < 0)
    return rc;
  if (fstat(part->fd, &stat) < 0)
    return -errno;
  part->there = (uint64_t)stat.st_size;
  return 0;
}

int serve_part_open(int root, const char *name, uint64_t size, uint32_t mode, bool overwrite,
                    bool resume, struct partial_file *part)
{
  const char *last = NULL;

  *part = (struct partial_file){
      .folder = -1, .fd = -1, .size = size, .mode = mode, .overwrite = overwrite};
  int folder = serve_root_open_parent(root, name, &last);
  if (folder < 0)
    return folder;
  part->folder = folder;
  snprintf(part->name, sizeof(part->name), "%s", last);
  int rc = serve_part_open_in(part, resume);
  if (rc < 0)
    serve_part_close(part, false);
  return rc;
}

/* The process's own, which can only be read by setting it: once. */
static mode_t serve_part_creation_mask(void)
{
  static mode_t mask;
  static bool known;

  if (!known) {
    mask = umask(0);
    umask(mask);
    known = true;
  }
  return mask;
}

int serve_part_prepare(struct partial_file *part)
{
  if (ftruncate(part->fd, (off_t)part->size) < 0 ||
      fchmod(part->fd, (mode_t)part->mode & 0777 & ~serve_part_creation_mask()) < 0)
    return -errno;
  return 0;
}

int serve_part_rename(struct partial_file *part)
{
  char name[NAME_BYTES];
  unsigned flags = part->overwrite ? 0 : RENAME_NOREPLACE;

  serve_part_name(part, name);
  int rc = renameat2(part->folder, name, part->folder, part->name, flags);
  if (rc < 0 && errno == EINVAL && flags != 0) /* a file system without the flag */
    rc = linkat(part->folder, name, part->folder, part->name, 0) < 0
             ? -1
             : unlinkat(part->folder, name, 0);
  return rc < 0 ? -errno : 0;
}

int serve_part_make_hole(const struct partial_file *part, uint64_t offset, uint64_t length)
{
  if (offset >= part->there)
    return 0;
  return fallocate(part->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                   (off_t)length) < 0
             ? -errno
             : 0;
}

/* Cut too, since its blocks are the file system's again only once nobody has it open. */
void serve_part_remove(struct partial_file *part)
{
  char name[NAME_BYTES];

  serve_part_name(part, name);
  unlinkat(part->folder, name, 0);
  if (ftruncate(part->fd, 0) < 0)
    return; /* then they are when it is closed */
}

void serve_part_close(struct partial_file *part, bool remove)
{
  if (part->fd >= 0 && remove)
    serve_part_remove(part);
  if (part->fd >= 0)
    close(part->fd);
  if (part->folder >= 0)
    close(part->folder);
  part->fd = part->folder = -1;
}

/* ---- Which bytes are there ----------------------------------------------------------- */

/* The first run that ends at or behind `at`. */
static uint32_t serve_part_find(const struct extents *e, uint64_t at)
{
  uint32_t low = 0, high = e->count;

  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (e->list[middle].end < at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static int serve_part_make_room(struct extents *e)
{
  if (e->count == EXTENTS_MAX)
    return -ENOSPC;
  if (e->count < e->room)
    return 0;
  uint32_t room = e->room > 0 ? 2 * e->room : 16;
  struct extent *longer = reallocarray(e->list, room, sizeof(*longer));
  if (!longer)
    return -ENOMEM;
  e->list = longer;
  e->room = room;
  return 0;
}

int serve_extents_add(struct extents *e, uint64_t begin, uint64_t end)
{
  uint32_t first = serve_part_find(e, begin), last = first;
  struct extent whole = {begin, end};

  if (begin >= end)
    return 0;
  for (; last < e->count && e->list[last].begin <= end; last++) {
    const struct extent *run = &e->list[last];
    whole.begin = run->begin < whole.begin ? run->begin : whole.begin;
    whole.end = run->end > whole.end ? run->end : whole.end;
    e->covered -= run->end - run->begin;
  }
  int rc = first == last ? serve_part_make_room(e) : 0;
  if (rc < 0)
    return rc;
  memmove(e->list + first + 1, e->list + last, (e->count - last) * sizeof(*e->list));
  e->list[first] = whole;
  e->covered += whole.end - whole.begin;
  e->count = e->count + 1 - (last - first);
  return 0;
}

uint64_t serve_extents_front(const struct extents *e)
{
  return e->count > 0 && e->list[0].begin == 0 ? e->list[0].end : 0;
}

void serve_extents_free(struct extents *e)
{
  free(e->list);
  *e = (struct extents){0};
}
