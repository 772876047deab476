/* SPDX-License-Identifier: Apache-2.0 */
/* A file that gets its name only when it is complete. */
#include "atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "errno_hint.h"
#include "log.h"
#include "signals.h"

#define MODE 0666
#define NAMES_TRIED 100
#define FIFO_PAUSE_NS 10000000 /* how soon to look again whether a FIFO has a reader */

static int atomic_file_fail(const struct atomic_file *output, const char *what, int exit_status,
                            const char *verb, int code, struct pst_error *error)
{
  return app_log_fail(error, exit_status, -code, "%s: cannot %s %s: %s; %s", what, verb,
                      output->path, strerror(code), app_errno_hint_folder(code));
}

/* Parent folder and name. "" for a path that ends in '/': no file is called that. */
static int atomic_file_split(struct atomic_file *output)
{
  const char *slash = strrchr(output->path, '/');
  char *folder = !slash ? strdup(".") : strndup(output->path, (size_t)(slash - output->path) + 1);

  output->name = strdup(!slash ? output->path : slash + 1);
  if (!folder || !output->name) {
    free(folder);
    return -ENOMEM;
  }
  /* To be read is what it takes to flush it. */
  output->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (output->folder < 0 && errno == EACCES)
    output->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
  int code = output->folder < 0 ? -errno : 0;
  free(folder);
  return code;
}

/* A dot-file beside the final one, whose name it has as far as that fits. NULL: out of memory. */
static char *atomic_file_dot_name(const struct atomic_file *output, const char *suffix)
{
  const int room = NAME_MAX - 1 - (int)strlen(suffix);
  char *name = NULL;

  return asprintf(&name, ".%.*s%s", room, output->name, suffix) < 0 ? NULL : name;
}

static int atomic_file_open_new(const struct atomic_file *output, const char *name)
{
  return openat(output->folder, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, MODE);
}

static int atomic_file_link_self(const struct atomic_file *output, const char *name)
{
  char self[64];

  snprintf(self, sizeof(self), "/proc/self/fd/%d", output->fd);
  return linkat(AT_FDCWD, self, output->folder, name, AT_SYMLINK_FOLLOW);
}

/* Calls make() with temporary names until one was free, which the output has then. Returns what
 * make() did, or -errno. */
static int atomic_file_make_temporary(struct atomic_file *output,
                                      int (*make)(const struct atomic_file *output,
                                                  const char *name))
{
  for (unsigned i = 0; i < NAMES_TRIED; i++) {
    char suffix[64];
    snprintf(suffix, sizeof(suffix), ".penstock-%ld-%u", (long)getpid(), i);
    char *name = atomic_file_dot_name(output, suffix);
    if (!name)
      return -ENOMEM;
    int made = make(output, name), code = errno;
    if (made >= 0) {
      output->temporary = name;
      return made;
    }
    free(name);
    if (code != EEXIST)
      return -code;
  }
  return -EEXIST;
}

static int atomic_file_open_unnamed(struct atomic_file *output)
{
  output->fd = openat(output->folder, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, MODE);
  if (output->fd >= 0)
    return 0;
  int code = errno;
  /* open(2): what file systems and kernels without O_TMPFILE answer. */
  if (code != EOPNOTSUPP && code != EISDIR && code != EINVAL && code != ENOENT)
    return -code;
  int fd = atomic_file_make_temporary(output, atomic_file_open_new);
  if (fd < 0)
    return fd;
  output->fd = fd;
  return 0;
}

/* In turns, as a signal just before a call that blocks would not end it. */
static int atomic_file_open_fifo(const struct atomic_file *output)
{
  const struct timespec pause = {.tv_nsec = FIFO_PAUSE_NS};
  bool heeds_stop = !output->last || !app_signals_stop();

  for (bool is_said = false;; is_said = true) {
    int fd = openat(output->folder, output->name, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0)
      return fcntl(fd, F_SETFL, 0) < 0 ? (close(fd), -1) : fd;
    if (errno != ENXIO)
      return -1;
    if (heeds_stop && app_signals_stop()) {
      errno = EINTR;
      return -1;
    }
    if (!is_said)
      app_log(PST_LOG_INFO, "waiting for a reader of the FIFO %s", output->path);
    nanosleep(&pause, NULL);
  }
}

/* Another user's FIFO in a sticky folder that others write to: its reader would get what is
 * written. The kernel's fs.protected_fifos refuses this only to a program that opens with O_CREAT.
 * `where` leads to it through no link, and is spoiled; for a pipe without a name it is no path. */
static bool atomic_file_is_planted(char *where, const struct stat *fifo)
{
  struct stat folder;

  if (!S_ISFIFO(fifo->st_mode) || fifo->st_uid == geteuid() || where[0] != '/')
    return false;
  /* Where this user cannot look, the FIFO was opened by the program that started this one. */
  return stat(dirname(where), &folder) == 0 && (folder.st_mode & S_ISVTX) != 0 &&
         (folder.st_mode & (S_IWGRP | S_IWOTH)) != 0 && fifo->st_uid != folder.st_uid;
}

static int atomic_file_refuse_planted(const char *what, const char *path, const struct stat *fifo,
                                      struct pst_error *error)
{
  char where[PATH_MAX];

  if (!realpath(path, where) || !atomic_file_is_planted(where, fifo))
    return 0;
  return app_log_fail(error, PST_EXIT_USAGE, -EACCES,
                      "%s: %s is a FIFO of user %u in a sticky folder that others write to; name "
                      "one of your own",
                      what, path, (unsigned)fifo->st_uid);
}

int app_atomic_file_look(const char *what, const char *path, struct pst_error *error)
{
  struct stat st;

  return stat(path, &st) < 0 ? 0 : atomic_file_refuse_planted(what, path, &st, error);
}

/* A device or a FIFO, perhaps behind a link such as /dev/stdout: open(2) follows the link, so
 * that the kernel's fs.protected_symlinks guards it. */
static int atomic_file_open_in_place(struct atomic_file *output, bool is_fifo)
{
  char self[64], where[PATH_MAX] = "";
  struct stat opened;

  output->in_place = true;
  output->fd = is_fifo ? atomic_file_open_fifo(output)
                       : openat(output->folder, output->name, O_WRONLY | O_CLOEXEC | O_NOCTTY);
  if (output->fd < 0 || fstat(output->fd, &opened) < 0)
    return -errno;
  snprintf(self, sizeof(self), "/proc/self/fd/%d", output->fd);
  if (readlink(self, where, sizeof(where) - 1) > 0 && atomic_file_is_planted(where, &opened))
    return -EACCES;
  return S_ISREG(opened.st_mode) ? -ELOOP : 0; /* exchanged meanwhile */
}

static int atomic_file_look_inside(const struct atomic_file *output, const char *what,
                                   const char *(*why_not)(int fd), struct pst_error *error)
{
  int fd = openat(output->folder, output->name,
                  O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

  if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
    return atomic_file_fail(output, what, PST_EXIT_USAGE, "create", errno, error);
  const char *why = why_not(fd < 0 ? -errno : fd);
  if (fd >= 0)
    close(fd);
  return !why ? 0
              : app_log_fail(error, PST_EXIT_USAGE, -EEXIST, "%s: %s %s; name another file", what,
                             output->path, why);
}

/* 0: nothing is there, or what may be replaced; 1: opened in place. A link to a file is refused:
 * another user may have planted it, and the kernel does not guard a rename. */
static int atomic_file_take_name(struct atomic_file *output, const char *what,
                                 const char *(*why_not)(int fd), struct pst_error *error)
{
  struct stat named, reached;

  if (output->name[0] == '\0')
    return atomic_file_fail(output, what, PST_EXIT_USAGE, "write to", EISDIR, error);
  if (fstatat(output->folder, output->name, &named, AT_SYMLINK_NOFOLLOW) < 0)
    return errno == ENOENT
               ? 0
               : atomic_file_fail(output, what, PST_EXIT_USAGE, "look at", errno, error);
  reached = named;
  bool leads = S_ISLNK(named.st_mode) && fstatat(output->folder, output->name, &reached, 0) == 0;
  if (S_ISDIR(reached.st_mode))
    return atomic_file_fail(output, what, PST_EXIT_USAGE, "write to", EISDIR, error);
  if (S_ISLNK(named.st_mode) && (!leads || S_ISREG(reached.st_mode)))
    return app_log_fail(error, PST_EXIT_USAGE, -ELOOP,
                        "%s: %s is a symbolic link; name the file itself, or remove the link", what,
                        output->path);
  /* A disk's content is a file's; what reads a FIFO or a terminal loses nothing. */
  if (S_ISBLK(reached.st_mode) && !output->overwrite)
    return app_log_fail(error, PST_EXIT_USAGE, -EEXIST,
                        "%s: %s is a block device, whose content would be lost; name a file, or "
                        "allow it with overwrite: true",
                        what, output->path);
  int code = atomic_file_refuse_planted(what, output->path, &reached, error);
  if (code < 0)
    return code;
  if (!S_ISREG(reached.st_mode)) {
    code = atomic_file_open_in_place(output, S_ISFIFO(reached.st_mode));
    if (code == -EINTR)
      return app_log_fail(error, PST_EXIT_FAILED, code,
                          "%s: stopped by %s while %s had no reader; open its other end first",
                          what, app_signals_name(), output->path);
    return code < 0 ? atomic_file_fail(output, what, app_errno_hint_exit_status(-code), "open",
                                       -code, error)
                    : 1;
  }
  if (!output->overwrite)
    return app_log_fail(error, PST_EXIT_USAGE, -EEXIST,
                        "%s: %s exists; name another file, or allow it with overwrite: true", what,
                        output->path);
  if (named.st_uid == geteuid())
    output->mode = (int)(named.st_mode & 0777);
  return !why_not ? 0 : atomic_file_look_inside(output, what, why_not, error);
}

int app_atomic_file_look_again(const struct atomic_file *output, const char *what,
                               const char *(*why_not)(int fd), struct pst_error *error)
{
  struct stat named;

  if (fstatat(output->folder, output->name, &named, AT_SYMLINK_NOFOLLOW) < 0)
    return errno == ENOENT
               ? 0
               : atomic_file_fail(output, what, PST_EXIT_FAILED, "look at", errno, error);
  if (!S_ISREG(named.st_mode))
    return app_log_fail(error, PST_EXIT_FAILED, -EEXIST,
                        "%s: %s is no regular file any more; name another file", what,
                        output->path);
  return atomic_file_look_inside(output, what, why_not, error);
}

/* Sets the mode of the file that is replaced, so that the new one opens to nobody whom the old one
 * was closed to. */
static int atomic_file_take_mode(const struct atomic_file *output)
{
  return output->mode >= 0 && fchmod(output->fd, (mode_t)output->mode) < 0 ? -errno : 0;
}

int app_atomic_file_open(struct atomic_file *output, const char *what, const char *path,
                         unsigned flags, struct pst_error *error)
{
  return app_atomic_file_open_over(output, what, path, flags, NULL, error);
}

int app_atomic_file_open_over(struct atomic_file *output, const char *what, const char *path,
                              unsigned flags, const char *(*why_not)(int fd),
                              struct pst_error *error)
{
  *output = (struct atomic_file)ATOMIC_FILE_INIT;
  output->overwrite = (flags & ATOMIC_FILE_OVERWRITE) != 0;
  output->last = (flags & ATOMIC_FILE_LAST) != 0;
  output->whole = (flags & ATOMIC_FILE_WHOLE) != 0;
  output->path = strdup(path);
  int rc = !output->path ? -ENOMEM : atomic_file_split(output);
  if (rc == -ENOMEM)
    app_log_fail(error, PST_EXIT_FAILED, rc, "out of memory");
  else if (rc < 0)
    rc = atomic_file_fail(output, what, PST_EXIT_USAGE, "create", -rc, error);
  else
    rc = atomic_file_take_name(output, what, why_not, error);
  if (rc == 0) {
    rc = atomic_file_open_unnamed(output);
    if (rc == 0)
      rc = atomic_file_take_mode(output);
    if (rc < 0)
      rc = atomic_file_fail(output, what, PST_EXIT_USAGE, "create", -rc, error);
  }
  if (rc < 0)
    app_atomic_file_discard(output);
  return rc < 0 ? rc : 0;
}

static int atomic_file_link_unnamed(struct atomic_file *output)
{
  if (atomic_file_link_self(output, output->name) == 0)
    return 0;
  if (errno != EEXIST || !output->overwrite)
    return -errno;
  /* A link cannot replace, a rename can. */
  return atomic_file_make_temporary(output, atomic_file_link_self);
}

static int atomic_file_rename_temporary(struct atomic_file *output)
{
  unsigned flags = output->overwrite ? 0 : RENAME_NOREPLACE;
  const int folder = output->folder;
  int rc = renameat2(folder, output->temporary, folder, output->name, flags);

  if (rc < 0 && errno == EINVAL && flags != 0) /* a filesystem without the flag */
    rc = linkat(folder, output->temporary, folder, output->name, 0) == 0
             ? unlinkat(folder, output->temporary, 0)
             : -1;
  if (rc < 0)
    return -errno;
  free(output->temporary);
  output->temporary = NULL;
  return 0;
}

int app_atomic_file_partial(struct atomic_file *output)
{
  char *name, *path = NULL;

  if (output->fd < 0 || output->in_place || output->partial)
    return 0;
  name = atomic_file_dot_name(output, ".penstock-part");
  if (!name)
    return -ENOMEM;
  size_t folder = strlen(output->path) - strlen(output->name);
  if (asprintf(&path, "%.*s%s", (int)folder, output->path, name) < 0) {
    free(name);
    return -ENOMEM;
  }
  free(output->name);
  free(output->path);
  output->name = name;
  output->path = path;
  output->overwrite = output->partial = true;
  return 0;
}

static int atomic_file_give_name(struct atomic_file *output)
{
  int rc = !output->temporary ? atomic_file_link_unnamed(output) : 0;

  return rc == 0 && output->temporary ? atomic_file_rename_temporary(output) : rc;
}

/* `code` is why it cannot have its name: another program has taken it meanwhile, say. */
static void atomic_file_keep_unnamed(struct atomic_file *output, const char *what, int code,
                                     struct pst_error *error)
{
  if (output->whole) {
    app_log_fail(error, PST_EXIT_FAILED, code, "%s: cannot replace %s: %s; %s", what, output->path,
                 strerror(-code),
                 code == -EPERM
                     ? "it belongs to another user in a folder that all write to: name a "
                       "file elsewhere"
                     : app_errno_hint_folder(-code));
    return;
  }
  if (output->partial) {
    app_log_fail(error, PST_EXIT_FAILED, code, "%s: cannot keep the part that came as %s: %s; %s",
                 what, output->path, strerror(-code), app_errno_hint_folder(-code));
    return;
  }
  char *wanted = strdup(output->path);
  int kept = !wanted ? -ENOMEM : app_atomic_file_partial(output);

  if (kept == 0)
    kept = atomic_file_give_name(output);
  if (kept == 0)
    app_log_fail(error, PST_EXIT_FAILED, code,
                 "%s: cannot give the finished file its name %s: %s; it is kept as %s, rename it",
                 what, wanted, strerror(-code), output->path);
  else
    app_log_fail(error, PST_EXIT_FAILED, code,
                 "%s: cannot give the finished file its name %s: %s; it is lost, %s", what,
                 wanted ? wanted : output->path, strerror(-code), app_errno_hint_folder(-code));
  free(wanted);
}

int app_atomic_file_commit(struct atomic_file *output, const char *what, struct pst_error *error)
{
  int rc = 0;

  if (output->fd >= 0 && !output->in_place) {
    rc = fsync(output->fd) < 0 ? -errno : 0;
    if (rc < 0) {
      atomic_file_fail(output, what, PST_EXIT_FAILED, "write", -rc, error);
    } else {
      rc = atomic_file_give_name(output);
      if (rc < 0)
        atomic_file_keep_unnamed(output, what, rc, error);
      fsync(output->folder);
    }
  }
  app_atomic_file_discard(output);
  return rc;
}

void app_atomic_file_discard(struct atomic_file *output)
{
  if (output->fd >= 0)
    close(output->fd);
  if (output->temporary)
    unlinkat(output->folder, output->temporary, 0);
  if (output->folder >= 0)
    close(output->folder);
  free(output->temporary);
  free(output->name);
  free(output->path);
  *output = (struct atomic_file)ATOMIC_FILE_INIT;
}
