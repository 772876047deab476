/* SPDX-License-Identifier: Apache-2.0 */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS 4
#define STACK (1u << 20)      /* memory is counted: the usual 8 MiB each are not needed */
#define STEP_MAX (1u << 30)   /* bytes of one call */
#define SUM_STEP (128u << 10) /* that stay in a cache between reading and summing */

struct io_threads {
  pthread_mutex_t lock;
  pthread_cond_t begun;
  struct io_list waiting, ended;
  bool closing;
  int event_fd;
  uint32_t count;
  pthread_t threads[THREADS];
};

/* Bytes that were added. */
static int64_t add_to_sum(const struct io_request *request, uint8_t buffer[SUM_STEP])
{
  uint64_t left = request->length - request->done;
  size_t step = left < SUM_STEP ? left : SUM_STEP;
  ssize_t got = pread(request->fd, buffer, step, (off_t)(request->offset + request->done));

  if (got == 0 && request->to_grow) {
    memset(buffer, 0, step);
    got = (ssize_t)step;
  }
  if (got > 0)
    sums_sha256_add(request->sum, buffer, (size_t)got);
  return got < 0 ? -errno : got;
}

static int64_t call(const struct io_request *request, uint8_t buffer[SUM_STEP])
{
  uint64_t left = request->length - request->done, offset = request->offset + request->done;
  size_t step = left < STEP_MAX ? left : STEP_MAX;
  ssize_t moved;

  if (request->op == IO_SUM)
    return add_to_sum(request, buffer);
  if (request->op == IO_READ)
    moved = pread(request->fd, request->bytes + request->done, step, (off_t)offset);
  else if (request->op == IO_WRITE)
    moved = pwrite(request->fd, request->bytes + request->done, step, (off_t)offset);
  else if (request->op == IO_OUT)
    moved =
        sync_file_range(request->fd, (off_t)request->offset, (off_t)request->length, IO_OUT_FLAGS);
  else
    moved = fsync(request->fd);
  return moved < 0 ? -errno : moved;
}

/* True: it has ended. A sum lets others go first between its steps. */
static bool go_on(struct io_request *request, uint8_t buffer[SUM_STEP])
{
  if (request->op == IO_SUM)
    return io_took(request, call(request, buffer));
  while (!io_took(request, call(request, buffer)))
    ;
  return true;
}

static void *work(void *context)
{
  struct io_threads *t = context;
  uint8_t buffer[SUM_STEP];
  uint64_t one = 1;

  pthread_mutex_lock(&t->lock);
  for (;;) {
    struct io_request *request = io_pull(&t->waiting);
    if (request == NULL && t->closing)
      break;
    if (request == NULL) {
      pthread_cond_wait(&t->begun, &t->lock);
      continue;
    }
    pthread_mutex_unlock(&t->lock);
    bool ended = go_on(request, buffer);
    pthread_mutex_lock(&t->lock);
    if (!ended) {
      io_push(&t->waiting, request);
      continue;
    }
    io_push(&t->ended, request);
    ssize_t written = write(t->event_fd, &one, sizeof one);
    (void)written; /* a counter that is full wakes all the same */
  }
  pthread_mutex_unlock(&t->lock);
  return NULL;
}

int io_threads_open(int event_fd, struct io_threads **out)
{
  struct io_threads *t = calloc(1, sizeof *t);
  pthread_attr_t attributes;
  int rc = 0;

  if (t == NULL)
    return -ENOMEM;
  t->event_fd = event_fd;
  pthread_mutex_init(&t->lock, NULL);
  pthread_cond_init(&t->begun, NULL);
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK);
  while (t->count < THREADS && rc == 0) {
    rc = -pthread_create(&t->threads[t->count], &attributes, work, t);
    t->count += rc == 0;
  }
  pthread_attr_destroy(&attributes);
  if (t->count == 0) {
    io_threads_close(t);
    return rc;
  }
  *out = t;
  return 0;
}

void io_threads_close(struct io_threads *t)
{
  if (t == NULL)
    return;
  pthread_mutex_lock(&t->lock);
  t->closing = true;
  pthread_cond_broadcast(&t->begun);
  pthread_mutex_unlock(&t->lock);
  for (uint32_t i = 0; i < t->count; i++)
    pthread_join(t->threads[i], NULL);
  pthread_cond_destroy(&t->begun);
  pthread_mutex_destroy(&t->lock);
  free(t);
}

void io_threads_submit(struct io_threads *t, struct io_request *request)
{
  pthread_mutex_lock(&t->lock);
  io_push(&t->waiting, request);
  pthread_cond_signal(&t->begun);
  pthread_mutex_unlock(&t->lock);
}

struct io_request *io_threads_poll(struct io_threads *t)
{
  pthread_mutex_lock(&t->lock);
  struct io_request *request = io_pull(&t->ended);
  pthread_mutex_unlock(&t->lock);
  return request;
}
