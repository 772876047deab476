/* SPDX-License-Identifier: Apache-2.0 */
/* A file that appears under its name whole, or not at all: it has no name while it
 * is written, so that also after kill -9 nothing of it is left. Devices and FIFOs
 * that exist are written to as they are. */
#ifndef APP_ATOMIC_FILE_H
#define APP_ATOMIC_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

struct atomic_file {
  int fd;
  int folder;      /* in which all names are looked up: opened once, and never by path again */
  bool in_place;   /* not a regular file: written to directly, no offsets */
  char *path;      /* for messages */
  char *name;      /* that it will have in the folder */
  char *temporary; /* that it has meanwhile, on filesystems without O_TMPFILE */
  bool overwrite, last, whole; /* as enum atomic_file_flags */
  int mode;                    /* of this user's file that it replaces; -1: it replaces none */
  bool partial;                /* as app_atomic_file_partial() */
};

enum atomic_file_flags {
  ATOMIC_FILE_OVERWRITE = 1,
  ATOMIC_FILE_LAST = 2,  /* a FIFO's reader is waited for though a signal has come already */
  ATOMIC_FILE_WHOLE = 4, /* where the name cannot be had, nothing of it is kept */
};

/* `what` is for messages: "stream 'packets': sink"; flags: of enum atomic_file_flags. -EEXIST: the
 * file exists and is not to be overwritten. -ELOOP: a symbolic link to a file, or to nothing;
 * overwriting never follows a link. Opening a FIFO waits until there is a reader, or a signal:
 * -EINTR. -EACCES: the FIFO is another user's in a sticky folder that others write to. */
int app_atomic_file_open(struct atomic_file *output, const char *what, const char *path,
                         unsigned flags, struct pst_error *error);
/* The same, and of a regular file that it would replace, looked up where it will be replaced: why
 * that must not be, or NULL: it may. fd reads it; -errno: it cannot be read. -EEXIST then. */
int app_atomic_file_open_over(struct atomic_file *output, const char *what, const char *path,
                              unsigned flags, const char *(*why_not)(int fd),
                              struct pst_error *error);
/* As app_atomic_file_open_over() asked, of an open file whose name may have been taken meanwhile.
 */
int app_atomic_file_look_again(const struct atomic_file *output, const char *what,
                               const char *(*why_not)(int fd), struct pst_error *error);
/* Looks whether such a FIFO is there, for a file that is opened much later. Returns 0, or -EACCES,
 * reported. */
int app_atomic_file_look(const char *what, const char *path, struct pst_error *error);
/* Flush to the disk and give it its name, and the permission bits of this user's file that it
 * replaces. Where the name cannot be had, which is a failure, it is kept as
 * app_atomic_file_partial(), unless ATOMIC_FILE_WHOLE. On any other failure nothing is left.
 * Closes. */
int app_atomic_file_commit(struct atomic_file *output, const char *what, struct pst_error *error);
/* Makes the file a part of what was to come, committed as `.NAME.penstock-part`, beside
 * where it would stand, in the place of an older part. 0 or -ENOMEM. */
int app_atomic_file_partial(struct atomic_file *output);
/* Throw it away. Legal after commit and for one that was never opened. */
void app_atomic_file_discard(struct atomic_file *output);
#define ATOMIC_FILE_INIT                                                                           \
  {                                                                                                \
    .fd = -1, .folder = -1, .mode = -1                                                             \
  }

#endif
