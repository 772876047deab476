/* SPDX-License-Identifier: Apache-2.0 */
/* A file on its way: it is `.NAME.penstock-part` beside where it will stand, readable by
 * its owner alone, and locked by whoever writes it, until it is whole. The part of an
 * interrupted transfer keeps that name, and can be resumed. Blocks for the file system,
 * and only where it says so for the disk.
 */
#ifndef APP_SERVE_PARTIAL_FILE_H
#define APP_SERVE_PARTIAL_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

struct partial_file {
  int folder, fd; /* -1: closed */
  uint64_t size;  /* that it will have */
  uint64_t there; /* bytes that an older transfer may have left */
  uint32_t mode;
  bool overwrite;
  char name[NAMES_BYTES_MAX + 1]; /* within `folder` */
};
#define PARTIAL_FILE_INIT                                                                          \
  {                                                                                                \
    .folder = -1, .fd = -1                                                                         \
  }

/* Takes what an interrupted transfer left when `resume`, and begins anew else.
 * 0; -EEXIST: the file exists, and not `overwrite`; -EISDIR: a folder has that name; -EBUSY:
 * somebody else is writing it; -ENOTSUP: what is called like the part is no plain file;
 * -EPERM: the part is another user's; -EACCES: none can be made there; and as
 * serve_root_open_parent(). */
int serve_part_open(int root, const char *name, uint64_t size, uint32_t mode, bool overwrite,
                    bool resume, struct partial_file *part);

/* Once all bytes are written: its length and mode. The caller then fsyncs `fd`. */
int serve_part_prepare(struct partial_file *part);
/* Gives the part its final name; the caller fsyncs `folder` behind it. -EEXIST: one came
 * meanwhile. */
int serve_part_rename(struct partial_file *part);
/* For a range that is a hole: what an older transfer left may have data there. 0, or -errno. */
int serve_part_make_hole(const struct partial_file *part, uint64_t offset, uint64_t length);
/* Removes the part's name and bytes; the part stays open. */
void serve_part_remove(struct partial_file *part);
/* Without serve_part_rename: keep what is there for another attempt, or remove it. */
void serve_part_close(struct partial_file *part, bool remove);

/* ---- Which bytes of a file are there. All zero is: none. ----------------------------- */

#define EXTENTS_MAX 1024u /* runs with gaps between them: a sender goes from front to back */

struct extents {
  uint64_t covered; /* bytes */
  uint32_t count, room;
  struct extent {
    uint64_t begin, end;
  } * list; /* in order, with a gap between any two */
};

/* [begin, end) is there, whether or not some of it was before. 0; -ENOMEM; -ENOSPC: that
 * would be more than EXTENTS_MAX runs. */
int serve_extents_add(struct extents *extents, uint64_t begin, uint64_t end);
/* Bytes that are there from the beginning on, up to the first gap. */
uint64_t serve_extents_front(const struct extents *extents);
void serve_extents_free(struct extents *extents);

#endif
