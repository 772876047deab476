/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing files without waiting for them: by io_uring, or where the system
 * forbids that, by a few threads; these make all sums. One thread calls; no call blocks but
 * serve_io_close().
 */
#ifndef APP_SERVE_IO_H
#define APP_SERVE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* ---- digests.c: CRC32C of a chunk, SHA-256 of a range or a file ------------------------- */

/* CRC-32C (Castagnoli) of less than 2 GiB, as in iSCSI: RFC 3720, appendix B.4. */
uint32_t serve_digest_crc32c(const void *bytes, size_t length);

struct digest_sha256;                                 /* one that is being made */
struct digest_sha256 *serve_digest_sha256_open(void); /* NULL: out of memory */
void serve_digest_sha256_add(struct digest_sha256 *sum, const void *bytes, size_t length);
/* The sum of the bytes added until now; more may follow. Returns 0 or -ENOMEM. */
int serve_digest_sha256_so_far(const struct digest_sha256 *sum, uint8_t digest[SERVE_SHA256_BYTES]);
void serve_digest_sha256_close(struct digest_sha256 *sum); /* closing NULL is legal */
void serve_digest_sha256_of(const void *bytes, size_t length, uint8_t digest[SERVE_SHA256_BYTES]);

/* ---- io.c
 * ---------------------------------------------------------------------------------------- */

/* The struct of which `pointer` is the `member`: requests, questions and patterns are members of
 * larger structs. */
#define FROM(type, member, pointer) ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

struct io;

enum io_op {
  IO_READ = 1,
  IO_WRITE = 2, /* and out to the disk: no more waits for that than is under way */
  IO_SYNC = 3,  /* fsync: the file, and its length, are on the disk */
  IO_SUM = 4,   /* what is in the file is added to `sum` */
  IO_OUT = 5,   /* by io.c alone: the second half of a WRITE */
};

/* The caller's, untouched from serve_io_submit() until serve_io_poll() has handed it out. */
struct io_request {
  enum io_op op;
  int fd;
  uint8_t *bytes;            /* SUM: NULL */
  struct digest_sha256 *sum; /* SUM; nobody else's meanwhile */
  bool to_grow;              /* SUM: where the file ends, zeros are still to come */
  uint64_t length, offset;
  uint64_t done;  /* bytes moved */
  int64_t result; /* bytes, fewer than `length` only where a file ends; or -errno */
  struct io_request *next;
};

/* 0; -ENOMEM; -errno of pthread_create(3) or eventfd(2). */
int serve_io_open(struct io **io);
/* Waits for what is under way. Closing NULL is legal. */
void serve_io_close(struct io *io);
/* "io_uring", or "threads, since …". */
const char *serve_io_name(const struct io *io);
/* Without the reason: "threads". */
const char *serve_io_kind(const struct io *io);

void serve_io_submit(struct io *io, struct io_request *request);
/* Returns a request that has ended, or NULL. Continues those that have been done in part. */
struct io_request *serve_io_poll(struct io *io);
/* Readable once there may be something to poll. Read by serve_io_poll(). */
int serve_io_event_fd(const struct io *io);

#endif
