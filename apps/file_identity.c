/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two paths name one file. */
#include "file_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *file_identity_last_part(const char *path)
{
  const char *slash = strrchr(path, '/');
  return !slash ? path : slash + 1;
}

/* The folder that the last part of a path is looked up in; -1: there is none. */
static int file_identity_open_parent(const char *path)
{
  size_t length = (size_t)(file_identity_last_part(path) - path);
  char *folder = length == 0 ? strdup(".") : strndup(path, length);
  int fd = !folder ? -1 : open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);

  free(folder);
  return fd;
}

/* A file that is still to be made. */
static void file_identity_identify_name(const char *path, struct file_identity *identity)
{
  int parent = file_identity_open_parent(path);
  struct stat st;

  identity->name = file_identity_last_part(path);
  if (parent >= 0 && identity->name[0] != '\0' && fstat(parent, &st) == 0) {
    identity->is_known = true;
    identity->device = st.st_dev;
    identity->inode = st.st_ino;
  }
  if (parent >= 0)
    close(parent);
}

struct file_identity app_file_identity(const char *path)
{
  struct file_identity identity = {.is_known = false};
  struct stat st;

  if (stat(path, &st) < 0) {
    if (errno == ENOENT)
      file_identity_identify_name(path, &identity);
  } else if (S_ISREG(st.st_mode)) {
    identity = (struct file_identity){true, st.st_dev, st.st_ino, NULL};
  } else if (S_ISBLK(st.st_mode)) {
    identity = (struct file_identity){true, st.st_rdev, 0, NULL};
  }
  return identity;
}

bool app_file_identity_equal(const struct file_identity *a, const struct file_identity *b)
{
  if (!a->is_known || !b->is_known || a->device != b->device || a->inode != b->inode)
    return false;
  if (!a->name || !b->name)
    return a->name == b->name;
  return strcmp(a->name, b->name) == 0;
}

bool app_file_identity_same(const char *a, const char *b)
{
  const struct file_identity first = app_file_identity(a), second = app_file_identity(b);
  return app_file_identity_equal(&first, &second);
}

static bool file_identity_is_one(const struct stat *a, const struct stat *b)
{
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

bool app_file_identity_below(const char *path, const char *folder)
{
  struct stat wanted, here, above;
  int fd =
      stat(folder, &wanted) == 0 && S_ISDIR(wanted.st_mode) ? file_identity_open_parent(path) : -1;
  bool below = false, top = false;

  while (fd >= 0 && !below && !top && fstat(fd, &here) == 0) {
    below = file_identity_is_one(&here, &wanted);
    int parent = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    top = parent < 0 || fstat(parent, &above) < 0 || file_identity_is_one(&above, &here);
    close(fd);
    fd = parent;
  }
  if (fd >= 0)
    close(fd);
  return below;
}
