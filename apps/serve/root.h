/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one folder in which names of a peer's are looked up. No name, link or mount leads
 * out of it: openat2(2) with RESOLVE_BENEATH walks each name from the folder's own
 * descriptor. Names are those that names.h has found legal. Blocks for the file system.
 */
#ifndef APP_SERVE_ROOT_H
#define APP_SERVE_ROOT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "wire.h"

struct partial_file;

/* Descriptor of the folder. -ENOSYS: the kernel lacks openat2(2), which came with Linux
 * 5.6; -ENOTDIR; -ENOENT; -EACCES; … */
int serve_root_open(const char *path);

/* A regular file, to read it; where links within the root lead. *stat is of it.
 * The descriptor; -EISDIR; -ENOTSUP: neither file nor folder; -EXDEV: a link leads out of
 * the root; -ESTALE: the root was removed; -ENOENT, -EACCES, -ELOOP, … */
int serve_root_open_file(int root, const char *name, struct stat *stat);

/* The file or folder that lstat(2) or a walk of the tree has seen, and no other: no link is
 * followed below the root, and a device that took its place meanwhile is not opened. root -1:
 * `name` is a path of the user's own, links in it are followed. The descriptor; -ESTALE: it was
 * exchanged; -ENOENT, -EACCES, … */
int serve_root_open_seen(int root, const char *name, const struct stat *seen, int flags);

/* Whether a file that is being read is another than it was: written to, or longer or shorter. */
bool serve_root_changed(int fd, const struct stat *was);

/* A folder ("": the root itself). The descriptor, or as above. */
int serve_root_open_folder(int root, const char *name);

/* The folder that a name lies in; *last is what the name is called there. */
int serve_root_open_parent(int root, const char *name, const char **last);

/* 0, also when the folder is there already; -ELOOP: a symbolic link is; -EEXIST: something else. */
int serve_root_make_folder(int root, const char *name, uint32_t mode);

/* Up to SERVE_ENTRIES_MAX entries of a folder that together have at most `bytes` bytes of
 * names, in the order in which the folder has them, from *cursor (0: the first). Leaves out
 * unfinished transfers; what no peer may name is SERVE_KIND_UNNAMED. *cursor: where the next call
 * goes on, 0: there are no more. `names` holds the names. How many, or -errno. */
int serve_root_list(int folder, uint64_t *cursor, struct serve_entry entries[SERVE_ENTRIES_MAX],
                    uint8_t *names, uint32_t bytes);

/* Where a file is known to have data; all zero: nowhere. To find its end again for each
 * chunk takes file systems that look page by page (tmpfs) longer than to copy it. */
struct root_data {
  uint64_t begin, end;
};

/* Finds the extent at an offset of a file: a hole (*hole), or data. Holes of less than 64
 * KiB count as data. Returns its bytes: of data, at most `length`; of a hole, up to its
 * end, at most to `size`. -ESTALE: the file ends at or before the offset. */
int64_t serve_root_extent(int fd, uint64_t offset, uint64_t length, uint64_t size,
                          struct root_data *known, bool *hole);

/* ---- Why a name below a root cannot be used, and what helps: the same words at both ends ---- */

#define FILE_ERROR_BYTES (SERVE_TEXT_MAX + 1)

enum file_error_use {
  FILE_ERROR_READ,   /* serve_root_open_file(), serve_root_open_folder() */
  FILE_ERROR_CREATE, /* serve_part_open() */
  FILE_ERROR_FOLDER, /* serve_root_make_folder() */
};

/* code: -errno of these functions. at_server: whose root it is. */
void serve_file_error_refused(enum file_error_use use, int code, const char *name, bool at_server,
                              char text[FILE_ERROR_BYTES]);
/* Why a file of `size` bytes cannot be read. result: -errno, or 0: it is shorter. Its code. */
int serve_file_error_unread(int64_t result, uint64_t size, bool at_server,
                            char text[FILE_ERROR_BYTES]);
/* The same of one that is written. Another write does not repair a failed one; if the disk is full,
 * the bytes written so far are removed, too, and leave room. */
void serve_file_error_unwritten(struct partial_file *part, int code, bool at_server,
                                char text[FILE_ERROR_BYTES]);

#endif
