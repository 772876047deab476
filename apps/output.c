/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "notice.h"
#include "remedy.h"

#define MODE 0666
#define NAMES_TRIED 100

static int fail(const struct output *output, const char *what, int exit_status, const char *verb,
                int code, struct pst_error *error)
{
  return notice_fail(error, exit_status, -code, "%s: cannot %s %s: %s; %s", what, verb,
                     output->path, strerror(code), remedy_of_folder(code));
}

static char *folder_of(const char *path)
{
  char *copy = strdup(path);
  char *folder = copy != NULL ? strdup(dirname(copy)) : NULL;
  free(copy);
  return folder;
}

/* A dot-file beside the final one; what it is called changes from try to try. */
static char *temporary_name(const char *path, unsigned number)
{
  char *folder = folder_of(path), *copy = strdup(path), *name = NULL;

  if (folder == NULL || copy == NULL ||
      asprintf(&name, "%s/.%s.penstock-%ld-%u", folder, basename(copy), (long)getpid(), number) < 0)
    name = NULL;
  free(folder);
  free(copy);
  return name;
}

static int open_named(struct output *output)
{
  for (unsigned i = 0; i < NAMES_TRIED; i++) {
    char *name = temporary_name(output->path, i);
    if (name == NULL)
      return -ENOMEM;
    output->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
    if (output->fd >= 0) {
      output->temporary = name;
      return 0;
    }
    int code = errno;
    free(name);
    if (code != EEXIST)
      return -code;
  }
  return -EEXIST;
}

static int open_unnamed(struct output *output)
{
  char *folder = folder_of(output->path);
  if (folder == NULL)
    return -ENOMEM;
  output->fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, MODE);
  int code = errno;
  free(folder);
  if (output->fd >= 0)
    return 0;
  /* What filesystems and kernels without it say: open(2). */
  if (code == EOPNOTSUPP || code == EISDIR || code == EINVAL || code == ENOENT)
    return open_named(output);
  return -code;
}

int output_open(struct output *output, const char *what, const char *path, bool overwrite,
                struct pst_error *error)
{
  struct stat st;

  memset(output, 0, sizeof *output);
  output->fd = -1;
  output->overwrite = overwrite;
  /* Behind a link stands what is to be replaced, not the link. */
  output->path = overwrite ? realpath(path, NULL) : NULL;
  if (output->path == NULL)
    output->path = strdup(path);
  if (output->path == NULL)
    return notice_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");

  int result = 0;
  if (stat(path, &st) == 0) {
    if (S_ISDIR(st.st_mode)) {
      result = fail(output, what, PST_EXIT_USAGE, "write to", EISDIR, error);
    } else if (!S_ISREG(st.st_mode)) {
      output->in_place = true;
      output->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
      if (output->fd < 0)
        result = fail(output, what, PST_EXIT_USAGE, "open", errno, error);
    } else if (!overwrite) {
      result = notice_fail(error, PST_EXIT_USAGE, -EEXIST,
                           "%s: %s exists; name another file, or allow it with overwrite: true",
                           what, path);
    }
  }
  if (result == 0 && !output->in_place) {
    result = open_unnamed(output);
    if (result < 0)
      result = fail(output, what, PST_EXIT_USAGE, "create", -result, error);
  }
  if (result < 0)
    output_discard(output);
  return result;
}

static int link_unnamed(struct output *output)
{
  char self[64];

  snprintf(self, sizeof self, "/proc/self/fd/%d", output->fd);
  if (linkat(AT_FDCWD, self, AT_FDCWD, output->path, AT_SYMLINK_FOLLOW) == 0)
    return 0;
  if (errno != EEXIST || !output->overwrite)
    return -errno;
  /* A link cannot replace, a rename can. */
  for (unsigned i = 0; i < NAMES_TRIED; i++) {
    output->temporary = temporary_name(output->path, i);
    if (output->temporary == NULL)
      return -ENOMEM;
    if (linkat(AT_FDCWD, self, AT_FDCWD, output->temporary, AT_SYMLINK_FOLLOW) == 0)
      return 0;
    int code = errno;
    free(output->temporary);
    output->temporary = NULL;
    if (code != EEXIST)
      return -code;
  }
  return -EEXIST;
}

static int rename_temporary(struct output *output)
{
  unsigned flags = output->overwrite ? 0 : RENAME_NOREPLACE;
  int result = renameat2(AT_FDCWD, output->temporary, AT_FDCWD, output->path, flags);

  if (result < 0 && errno == EINVAL && flags != 0) /* a filesystem without the flag */
    result = link(output->temporary, output->path) == 0 ? unlink(output->temporary) : -1;
  if (result < 0)
    return -errno;
  free(output->temporary);
  output->temporary = NULL;
  return 0;
}

int output_partial(struct output *output)
{
  if (output->fd < 0 || output->in_place || output->partial)
    return 0;
  char *folder = folder_of(output->path), *copy = strdup(output->path), *part = NULL;
  int result = 0;
  if (folder == NULL || copy == NULL ||
      asprintf(&part, "%s/.%s.penstock-part", folder, basename(copy)) < 0) {
    result = -ENOMEM;
  } else {
    free(output->path);
    output->path = part;
    output->overwrite = output->partial = true;
  }
  free(folder);
  free(copy);
  return result;
}

static void sync_folder(const char *path)
{
  char *folder = folder_of(path);
  int fd = folder != NULL ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
  if (fd >= 0) {
    fsync(fd);
    close(fd);
  }
  free(folder);
}

int output_commit(struct output *output, const char *what, struct pst_error *error)
{
  int result = 0;

  if (output->fd < 0)
    return 0;
  if (!output->in_place) {
    if (fsync(output->fd) < 0) {
      result = fail(output, what, PST_EXIT_FAILED, "write", errno, error);
      goto out;
    }
    if (output->temporary == NULL)
      result = link_unnamed(output);
    if (result == 0 && output->temporary != NULL)
      result = rename_temporary(output);
    if (result < 0) {
      result =
          fail(output, what, PST_EXIT_FAILED, "give the finished file its name", -result, error);
      goto out;
    }
    sync_folder(output->path);
  }
out:
  output_discard(output);
  return result;
}

void output_discard(struct output *output)
{
  if (output->fd >= 0)
    close(output->fd);
  output->fd = -1;
  if (output->temporary != NULL)
    unlink(output->temporary);
  free(output->temporary);
  free(output->path);
  output->temporary = output->path = NULL;
}
