/* SPDX-License-Identifier: Apache-2.0 */
#include "file_identity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A file that is still to be made. */
static void identify_name(const char *path, struct file_identity *identity)
{
  const char *slash = strrchr(path, '/');
  char *folder = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
  struct stat st;

  identity->name = slash == NULL ? path : slash + 1;
  if (folder != NULL && identity->name[0] != '\0' && stat(folder, &st) == 0) {
    identity->is_known = true;
    identity->device = st.st_dev;
    identity->inode = st.st_ino;
  }
  free(folder);
}

struct file_identity file_identity(const char *path)
{
  struct file_identity identity = {.is_known = false};
  struct stat st;

  if (stat(path, &st) < 0) {
    if (errno == ENOENT)
      identify_name(path, &identity);
  } else if (S_ISREG(st.st_mode)) {
    identity = (struct file_identity){true, st.st_dev, st.st_ino, NULL};
  } else if (S_ISBLK(st.st_mode)) {
    identity = (struct file_identity){true, st.st_rdev, 0, NULL};
  }
  return identity;
}

bool file_identity_equal(const struct file_identity *a, const struct file_identity *b)
{
  if (!a->is_known || !b->is_known || a->device != b->device || a->inode != b->inode)
    return false;
  if (a->name == NULL || b->name == NULL)
    return a->name == b->name;
  return strcmp(a->name, b->name) == 0;
}
