/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common part of `get` and `put`: one region of slots that the server reads and
 * writes, files that are under way, and which of them uses which slot.
 *
 * A transfer goes on by call backs. Where it is and what it waits for lies in it; it ends by
 * serve_transfer_end() once no slot is its own any more.
 */
#ifndef APP_SERVE_COPY_H
#define APP_SERVE_COPY_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include <penstock/penstock.h>

#include "client_connection.h"
#include "partial_file.h"
#include "root.h"

struct json_object;

#define COPY_DEPTH_MAX 64u
#define COPY_FILES 8u /* under way at a time: small ones are all waiting */

/* The errors of files that a result lists, at most: a folder may have a million of them. */
#define COPY_ERRORS 1000u
#define COPY_WHERE_BYTES (PATH_MAX + 16) /* "client:PATH" */

struct copy;
struct transfer;
struct slot;

struct copy_params {
  struct remote_params remote;
  const char *const *names; /* what is copied */
  uint32_t name_count;
  const char *to; /* NULL */
  bool recursive, overwrite, resume, sha256, quiet;
  uint64_t chunk, depth;
};

/* Where an error is: a path here, or a name at the server. */
enum copy_end { COPY_CLIENT, COPY_SERVER };

struct copy_totals {
  uint64_t files, folders, skipped, failed;
  uint64_t bytes;   /* of files that are done or under way, with holes and what was resumed */
  uint64_t moved;   /* that came or went */
  uint64_t resumed; /* that were there already */
  uint64_t known;   /* sizes of all files that were begun */
};

/* The direction. */
struct copy_ops {
  const char *verb; /* "got" */
  enum copy_end to;
  int (*open)(struct copy *copy);
  void (*close)(struct copy *copy);
  /* The next one to begin: 0; -ENODATA: there is none any more; -EAGAIN: not yet. */
  int (*next)(struct copy *copy, struct transfer *transfer);
  void (*begin)(struct transfer *transfer);
  /* Give it a slot: false: it has nothing to do with one. */
  bool (*feed)(struct transfer *transfer, struct slot *slot);
  /* All of it is there: what comes then ends by serve_transfer_end(). */
  void (*finish)(struct transfer *transfer);
  /* Another process was writing the file a moment ago: try once more. */
  void (*retry)(struct transfer *transfer);
};

/* One chunk on its way. */
struct slot {
  struct serve_pending pending;
  struct work work;
  struct transfer *transfer; /* NULL: free */
  uint8_t *bytes;            /* where the CPU has it: the region itself, or beside it */
  uint64_t place;            /* in the region */
  uint64_t offset, length;   /* in the file */
  bool is_hole;              /* put */
  uint32_t crc;
  uint8_t sha256[SERVE_SHA256_BYTES];
  void (*differs)(struct slot *slot);
  struct slot *next;
};

struct transfer {
  struct copy *copy;
  struct transfer *next;
  bool used, running, failed, ended;
  char name[SERVE_NAME_MAX + 1]; /* at the server */
  char local[PATH_MAX];          /* get: below copy->root; put: as it was named */
  struct serve_pending pending;
  struct work work;
  bool folder;    /* it is none, and is listed instead */
  bool existing;  /* --resume: it has its name at the destination already, and is compared */
  uint32_t strip; /* as of its pending name */
  bool open;      /* at the server: `file` */
  uint32_t file, slots, mode;
  int fd;
  struct stat stat;
  struct root_data data;
  struct partial_file part;
  uint64_t size, at, there, counted;
  uint64_t busy_ns, retry_ns; /* another process writes: since when, when to try again; or 0 */
  struct extents extents;
  /* --sha256: the file as it lies here, and at the server: how far each has come. */
  struct digest_sha256 *sum;
  struct work sum_work;
  struct serve_pending sum_pending;
  bool summing, asking;
  uint64_t summed, asked;
  uint8_t ours[SERVE_SHA256_BYTES], theirs[SERVE_SHA256_BYTES];
};

/* A name that is still to be looked at. */
struct pending {
  struct pending *next;
  uint32_t kind;  /* enum serve_kind; 0: not known */
  uint32_t strip; /* bytes of the name that it loses at its destination */
  char name[];
};

struct copy {
  const struct copy_params *params;
  const struct copy_ops *ops;
  struct connection remote;
  struct pst_area *area;
  uint32_t region;
  bool direct; /* slots' bytes are the region's */
  uint64_t chunk;
  struct slot *slots, *free;
  struct transfer transfers[COPY_FILES];
  struct transfer *first, **last; /* under way, oldest first */
  uint32_t active;
  int root;                        /* get: where files go; -1 */
  char single[SERVE_NAME_MAX + 1]; /* what the only file is called there; "" */
  struct pending *pending;
  uint32_t pending_count;
  struct serve_pending list; /* a folder of the server's is listed, or made */
  uint64_t list_cursor;      /* the listing goes on there once fewer names are pending; 0: now */
  bool listing;
  char folder_name[SERVE_NAME_MAX + 1];
  uint32_t folder_strip;
  void *walk;    /* put: an FTS, */
  void *entry;   /* and its last FTSENT */
  int walk_root; /* the folder that its present part began at, or -1 */
  struct copy_totals totals;
  uint64_t began_ns, shown_ns, ns; /* ns: all of it took */
  bool tty, stopped;
  uint32_t cut; /* that a signal, or the server's end, did not let through; and one of them */
  char cut_where[COPY_WHERE_BYTES];
  struct json_object *errors; /* of files, as a result lists them */
  uint64_t unlisted;          /* errors beyond COPY_ERRORS */
  struct pst_error error;     /* what ended all; without a text: it is among `errors` */
};

/* All of it: connects, copies, says how it went. *error has the first failure. */
int serve_copy_run(const struct copy_params *params, const struct copy_ops *ops, int event_fd,
                   struct copy *copy);
void serve_copy_close(struct copy *copy);
/* Get's and put's own. */
extern const struct copy_ops serve_copy_get, serve_copy_put;
int serve_get_open(struct copy *copy);
void serve_get_close(struct copy *copy);
int serve_get_next(struct copy *copy, struct transfer *t);
void serve_get_push(struct copy *copy, const char *name, uint32_t strip, uint32_t kind);
int serve_put_open(struct copy *copy);
int serve_put_next(struct copy *copy, struct transfer *t);
void serve_put_close(struct copy *copy);

/* Bytes of a path without its last slashes; at least 1, but for "". */
size_t serve_copy_unslashed(const char *path);

/* One file or folder fails; the others go on. name: at that end; get: here, below copy->root. */
void serve_copy_fail(struct copy *copy, enum copy_end end, const char *name, int code,
                     const char *format, ...) PST_PRINTF(5, 6);
/* The command line is wrong, at `where`: "--to". Returns code. */
int serve_copy_wrong(struct copy *copy, const char *where, int code, const char *format, ...)
    PST_PRINTF(4, 5);

/* Fails the transfers under way, with an error at copy->cut_where. Returns code. */
int serve_copy_cut_short(struct copy *copy, int code, const char *cause);

/* Ends this file with an error; other files go on. The first reason counts. */
void serve_transfer_fail(struct transfer *t, enum copy_end end, int code, const char *format, ...)
    PST_PRINTF(4, 5);
/* Ends this file because the server has refused it. */
void serve_transfer_refused(struct transfer *t, const struct serve_message *answer);
/* Ends this file because it cannot be read here; the reason is serve_file_error_unread()'s. */
void serve_transfer_unread(struct transfer *t, int64_t result);
/* Ends this file because it cannot be written here; the reason is serve_file_error_unwritten()'s.
 */
void serve_transfer_unwritten(struct transfer *t, int code);
/* Another process writes the file. True: it may just have been killed, and its end is not noticed
 * yet; the transfer tries again. */
bool serve_transfer_waits(struct transfer *t);
/* Ends this transfer for a reason that ends all of them, which is reported once. */
void serve_transfer_cut(struct transfer *t);
/* The bytes of a slot are done. */
void serve_transfer_covered(struct transfer *t, uint64_t offset, uint64_t length);
/* The slot has done what it was taken for. */
void serve_slot_through(struct slot *slot);
void serve_slot_free(struct slot *slot);
/* Asks the server something of the transfer. */
void serve_transfer_ask(struct transfer *t, uint32_t type, uint32_t wanted,
                        serve_pending_answered *answered);
/* Asks the server something of a slot's chunk. */
void serve_slot_ask(struct slot *slot, uint32_t type, uint32_t wanted,
                    serve_pending_answered *answered);
void serve_transfer_end(struct transfer *t);
/* The same, once the server has closed the file that is open there. */
void serve_transfer_abandon(struct transfer *t);

/* copy_sum.c: --sha256. Both ends sum what is there while the rest is still on its way. */
bool serve_transfer_has_sum(const struct transfer *t);
/* Goes on with it. True: nothing is under way, and all of it is summed unless it has failed. */
bool serve_transfer_summed(struct transfer *t);
/* To `ours`. False: out of memory, and the transfer has failed. */
bool serve_transfer_sum(struct transfer *t);
/* --resume has found the file at both ends, with one size: sums both instead of sending. */
void serve_transfer_compare(struct transfer *t);
/* The server has answered. `exists`: the files differ, for this reason. */
void serve_transfer_compared(struct transfer *t, const char *exists);
/* Compares this slot's bytes of a chunk that may be there already with the server's. If they are
 * equal the slot is done; otherwise `differs` is called. */
void serve_slot_compare(struct slot *slot, void (*differs)(struct slot *slot));

/* Copies a slot's bytes from the region to where the CPU has them, with the CRC32C of the region's
 * bytes. 0; -EBADMSG: what arrived has another CRC32C; -errno: the transfer has failed. */
int serve_slot_fetch(struct slot *slot, uint64_t length, uint32_t *crc);
/* Copies a slot's bytes from where the CPU has them to the region. 0; -EBADMSG or -errno: the
 * transfer has failed. */
int serve_slot_push(struct slot *slot, uint64_t length);

/* progress.c: one line on a terminal. */
void serve_progress_show(struct copy *copy, uint64_t now);
/* The last line, also where there is no terminal. */
void serve_progress_end(struct copy *copy);

#endif
