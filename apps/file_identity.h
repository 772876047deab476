/* SPDX-License-Identifier: Apache-2.0 */
/* Identity of the file that a path names, to compare many; the file need not exist. */
#ifndef APP_FILE_IDENTITY_H
#define APP_FILE_IDENTITY_H

#include <stdbool.h>
#include <sys/types.h>

/* An existing file is its device and inode, so that links are followed; any other is its folder's,
 * and its name there. */
struct file_identity {
  bool is_known; /* a regular file, a block device, or a name to be taken */
  dev_t device;
  ino_t inode;
  const char *name; /* in the folder; NULL: the file exists. Points into the path */
};

/* Not known: a FIFO, a socket, a character device or a directory, which no writer replaces; and a
 * path that leads nowhere. */
struct file_identity app_file_identity(const char *path);
/* False where one of them is not known. */
bool app_file_identity_equal(const struct file_identity *a, const struct file_identity *b);

/* Do two paths name one file? */
bool app_file_identity_same(const char *a, const char *b);
/* Does the file `path` lie in `folder`, or in a folder below it? */
bool app_file_identity_below(const char *path, const char *folder);

#endif
