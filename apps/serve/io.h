/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading and writing files without waiting for them: by io_uring, or where the system
 * forbids that, by a few threads; these make all sums. One thread calls; no call blocks but
 * io_close().
 */
#ifndef APP_SERVE_IO_H
#define APP_SERVE_IO_H

#include <stdbool.h>
#include <stdint.h>

#include "sums.h"

struct io;

enum io_op {
  IO_READ = 1,
  IO_WRITE = 2, /* and out to the disk: no more waits for that than is under way */
  IO_SYNC = 3,  /* fsync: the file, and its length, are on the disk */
  IO_SUM = 4,   /* what is in the file is added to `sum` */
  IO_OUT = 5,   /* between io.c and its engines: the second half of a WRITE */
};

/* The caller's, untouched from io_submit() until io_poll() has handed it out. */
struct io_request {
  enum io_op op;
  int fd;
  uint8_t *bytes;          /* SUM: NULL */
  struct sums_sha256 *sum; /* SUM; nobody else's meanwhile */
  bool to_grow;            /* SUM: where the file ends, zeros are still to come */
  uint64_t length, offset;
  uint64_t done;  /* bytes moved */
  int64_t result; /* bytes, fewer than `length` only where a file ends; or -errno */
  void *owner;    /* the caller's own */
  struct io_request *next;
};

/* 0; -ENOMEM; -errno of pthread_create(3) or eventfd(2). */
int io_open(struct io **io);
/* Waits for what is under way. Closing NULL is legal. */
void io_close(struct io *io);
/* "io_uring", or "threads, since …". */
const char *io_name(const struct io *io);
/* Without the reason: "threads". */
const char *io_kind(const struct io *io);

void io_submit(struct io *io, struct io_request *request);
/* One that has ended, or NULL. Moves those on that have been done in part. */
struct io_request *io_poll(struct io *io);
/* Readable once there may be something to poll. Read by io_poll(). */
int io_event_fd(const struct io *io);

/* ---- Between io.c and its engines ------------------------------------------------ */

struct io_list {
  struct io_request *first, **last;
};
void io_push(struct io_list *list, struct io_request *request);
struct io_request *io_pull(struct io_list *list);

/* Of sync_file_range(2): no metadata, that is what SYNC is for. */
#define IO_OUT_FLAGS (SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)

/* Take the outcome of one call: bytes moved or -errno. True: it has ended. */
int io_took(struct io_request *request, int64_t outcome);

struct io_ring;
struct io_threads;

/* -errno: not here. `event_fd` is written to when something ends. */
int io_ring_open(int event_fd, struct io_ring **ring);
void io_ring_close(struct io_ring *ring);
void io_ring_submit(struct io_ring *ring, struct io_request *request);
struct io_request *io_ring_poll(struct io_ring *ring);

int io_threads_open(int event_fd, struct io_threads **threads);
void io_threads_close(struct io_threads *threads);
void io_threads_submit(struct io_threads *threads, struct io_request *request);
struct io_request *io_threads_poll(struct io_threads *threads);

#endif
