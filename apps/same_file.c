/* SPDX-License-Identifier: Apache-2.0 */
#include "same_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/names.h"

static const char *same_file_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

/* The folder that the last part of `path` is looked up in. -1: there is none. */
static int same_file_folder(const char *path)
{
  size_t length = (size_t)(same_file_name(path) - path);
  char *folder = length == 0 ? strdup(".") : strndup(path, length);
  int fd = folder == NULL ? -1 : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

  free(folder);
  return fd;
}

static bool is_one(const struct stat *a, const struct stat *b)
{
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool same_file_place(const char *one, const char *other)
{
  struct stat a, b;
  int fd = same_file_folder(one), other_fd = same_file_folder(other);
  bool same = fd >= 0 && other_fd >= 0 && fstat(fd, &a) == 0 && fstat(other_fd, &b) == 0 &&
              is_one(&a, &b) && strcmp(same_file_name(one), same_file_name(other)) == 0;

  if (fd >= 0)
    close(fd);
  if (other_fd >= 0)
    close(other_fd);
  return same;
}

bool same_file(const char *one, const char *other)
{
  struct stat a, b;

  if (stat(one, &a) < 0 || stat(other, &b) < 0)
    return same_file_place(one, other);
  return (S_ISREG(a.st_mode) || S_ISFIFO(a.st_mode) || S_ISBLK(a.st_mode)) && is_one(&a, &b);
}

bool same_file_written(const char *path, const char *written)
{
  const char *name = same_file_name(written);
  char *part = NULL;

  if (same_file(path, written))
    return true;
  if (asprintf(&part, "%.*s.%s" NAMES_PART_SUFFIX, (int)(name - written), written, name) < 0)
    return false;
  bool same = same_file(path, part);
  free(part);
  return same;
}

bool same_file_below(const char *path, const char *folder)
{
  struct stat wanted, here, above;
  int fd = stat(folder, &wanted) == 0 && S_ISDIR(wanted.st_mode) ? same_file_folder(path) : -1;
  bool below = false, top = false;

  while (fd >= 0 && !below && !top && fstat(fd, &here) == 0) {
    below = is_one(&here, &wanted);
    int parent = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    top = parent < 0 || fstat(parent, &above) < 0 || is_one(&above, &here);
    close(fd);
    fd = parent;
  }
  if (fd >= 0)
    close(fd);
  return below;
}
