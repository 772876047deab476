/* SPDX-License-Identifier: Apache-2.0 */
/* Files' reads and writes by an io_uring, or by threads; sums by threads. */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <liburing.h>

#define ENTRIES 256u          /* of the ring */
#define THREADS 4             /* started once there is something for them */
#define STACK (1u << 20)      /* memory is counted: the usual 8 MiB each are not needed */
#define STEP_MAX (1u << 30)   /* bytes of one call */
#define SUM_STEP (128u << 10) /* that stay in a cache between reading and summing */
/* Flags of sync_file_range(2): no metadata, that is what SYNC is for. */
#define OUT_FLAGS (SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)

struct list {
  struct io_request *first, **last;
};

struct io {
  int event_fd;
  bool has_ring;
  struct io_uring ring;
  struct list for_ring; /* waits for an entry */
  uint32_t in_ring;
  pthread_mutex_t lock; /* of what follows */
  pthread_cond_t begun;
  struct list waiting, ended;
  bool closing;
  uint32_t thread_count;
  pthread_t threads[THREADS];
  char name[96];
};

static void serve_io_push(struct list *list, struct io_request *request)
{
  request->next = NULL;
  if (!list->first)
    list->last = &list->first;
  *list->last = request;
  list->last = &request->next;
}

static struct io_request *serve_io_pull(struct list *list)
{
  struct io_request *request = list->first;

  if (request)
    list->first = request->next;
  return request;
}

/* Takes the outcome of one call: bytes moved or -errno. True: the request has ended. */
static bool serve_io_took(struct io_request *request, int64_t outcome)
{
  if (outcome == -EINTR || outcome == -EAGAIN)
    return false;
  /* A file system that cannot be asked for it writes out when it likes. */
  if (request->op == IO_OUT && (outcome >= 0 || outcome == -EINVAL || outcome == -ENOSYS))
    return true;
  if (outcome < 0 || request->op == IO_SYNC) {
    request->result = outcome;
    return true;
  }
  request->done += (uint64_t)outcome;
  request->result = (int64_t)request->done;
  /* A write that moves nothing, and says nothing of why, would go on for ever. */
  if (outcome == 0 && request->op == IO_WRITE && request->done < request->length)
    request->result = -EIO;
  if (request->result < 0 || request->done < request->length)
    return outcome == 0;
  if (request->op != IO_WRITE || request->length == 0)
    return true;
  request->op = IO_OUT;
  return false;
}

/* ---- The ring ----------------------------------------------------------------------------- */

/* liburing 2.3 declares its functions for this, and does not export them. */
static int serve_io_register(const struct io *io, unsigned opcode, const void *words, size_t count)
{
  return syscall(SYS_io_uring_register, io->ring.ring_fd, opcode, words, (unsigned)count) < 0
             ? -errno
             : 0;
}

static int serve_io_open_ring(struct io *io)
{
  /* Else it would be a way around the sandbox's filter of system calls. */
  struct io_uring_restriction only[] = {
      {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_READ},
      {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_WRITE},
      {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_FSYNC},
      {.opcode = IORING_RESTRICTION_SQE_OP, .sqe_op = IORING_OP_SYNC_FILE_RANGE},
  };
  int rc = io_uring_queue_init(ENTRIES, &io->ring, IORING_SETUP_CLAMP | IORING_SETUP_R_DISABLED);

  if (rc < 0)
    return rc;
  rc = io_uring_register_eventfd(&io->ring, io->event_fd);
  if (rc == 0)
    rc = serve_io_register(io, IORING_REGISTER_RESTRICTIONS, only, sizeof(only) / sizeof(only[0]));
  if (rc == 0)
    rc = serve_io_register(io, IORING_REGISTER_ENABLE_RINGS, NULL, 0);
  io->has_ring = rc == 0;
  if (rc < 0)
    io_uring_queue_exit(&io->ring);
  return rc;
}

static void serve_io_close_ring(struct io *io)
{
  struct io_uring_cqe *cqe;

  while (io->in_ring > 0) {
    int rc = io_uring_wait_cqe(&io->ring, &cqe);
    if (rc == -EINTR)
      continue;
    if (rc < 0)
      break;
    io_uring_cqe_seen(&io->ring, cqe);
    io->in_ring--;
  }
  io_uring_queue_exit(&io->ring);
}

static void serve_io_prepare(struct io_uring_sqe *sqe, struct io_request *request)
{
  uint64_t left = request->length - request->done, offset = request->offset + request->done;
  unsigned step = left < STEP_MAX ? (unsigned)left : STEP_MAX;

  if (request->op == IO_READ)
    io_uring_prep_read(sqe, request->fd, request->bytes + request->done, step, offset);
  else if (request->op == IO_WRITE)
    io_uring_prep_write(sqe, request->fd, request->bytes + request->done, step, offset);
  else if (request->op == IO_OUT)
    io_uring_prep_sync_file_range(sqe, request->fd, (unsigned)request->length, request->offset,
                                  OUT_FLAGS);
  else
    io_uring_prep_fsync(sqe, request->fd, 0);
  io_uring_sqe_set_data(sqe, request);
}

/* Submits queued requests to io_uring, no more than its completion queue holds. Entries that the
 * kernel does not take at once stay in the submission queue for the next call. */
static void serve_io_fill_ring(struct io *io)
{
  while (io->for_ring.first && io->in_ring < ENTRIES) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&io->ring);
    if (!sqe)
      break;
    serve_io_prepare(sqe, serve_io_pull(&io->for_ring));
    io->in_ring++;
  }
  if (io_uring_sq_ready(&io->ring) > 0)
    io_uring_submit(&io->ring);
}

static struct io_request *serve_io_poll_ring(struct io *io)
{
  struct io_uring_cqe *cqe = NULL;

  serve_io_fill_ring(io);
  while (io_uring_peek_cqe(&io->ring, &cqe) == 0) {
    struct io_request *request = io_uring_cqe_get_data(cqe);
    int64_t outcome = cqe->res;
    io_uring_cqe_seen(&io->ring, cqe);
    io->in_ring--;
    if (serve_io_took(request, outcome))
      return request;
    serve_io_push(&io->for_ring, request);
    serve_io_fill_ring(io);
  }
  return NULL;
}

/* ---- The threads -------------------------------------------------------------------------- */

/* Bytes that were added. */
static int64_t serve_io_add_to_sum(const struct io_request *request, uint8_t buffer[SUM_STEP])
{
  uint64_t left = request->length - request->done;
  size_t step = left < SUM_STEP ? left : SUM_STEP;
  ssize_t got = pread(request->fd, buffer, step, (off_t)(request->offset + request->done));

  if (got == 0 && request->to_grow) {
    memset(buffer, 0, step);
    got = (ssize_t)step;
  }
  if (got > 0)
    serve_digest_sha256_add(request->sum, buffer, (size_t)got);
  return got < 0 ? -errno : got;
}

static int64_t serve_io_call(const struct io_request *request, uint8_t buffer[SUM_STEP])
{
  uint64_t left = request->length - request->done, offset = request->offset + request->done;
  size_t step = left < STEP_MAX ? left : STEP_MAX;
  ssize_t moved;

  if (request->op == IO_SUM)
    return serve_io_add_to_sum(request, buffer);
  if (request->op == IO_READ)
    moved = pread(request->fd, request->bytes + request->done, step, (off_t)offset);
  else if (request->op == IO_WRITE)
    moved = pwrite(request->fd, request->bytes + request->done, step, (off_t)offset);
  else if (request->op == IO_OUT)
    moved = sync_file_range(request->fd, (off_t)request->offset, (off_t)request->length, OUT_FLAGS);
  else
    moved = fsync(request->fd);
  return moved < 0 ? -errno : moved;
}

/* True: it has ended. A sum lets others go first between its steps. */
static bool serve_io_go_on(struct io_request *request, uint8_t buffer[SUM_STEP])
{
  bool ended = serve_io_took(request, serve_io_call(request, buffer));

  while (!ended && request->op != IO_SUM)
    ended = serve_io_took(request, serve_io_call(request, buffer));
  return ended;
}

static void *serve_io_work(void *context)
{
  struct io *io = context;
  uint8_t buffer[SUM_STEP];

  pthread_mutex_lock(&io->lock);
  for (;;) {
    struct io_request *request = serve_io_pull(&io->waiting);
    if (!request && io->closing)
      break;
    if (!request) {
      pthread_cond_wait(&io->begun, &io->lock);
      continue;
    }
    pthread_mutex_unlock(&io->lock);
    bool ended = serve_io_go_on(request, buffer);
    pthread_mutex_lock(&io->lock);
    serve_io_push(ended ? &io->ended : &io->waiting, request);
    if (ended)
      eventfd_write(io->event_fd, 1);
  }
  pthread_mutex_unlock(&io->lock);
  return NULL;
}

/* 0: there is one at least. */
static int serve_io_start_threads(struct io *io)
{
  pthread_attr_t attributes;
  int rc = 0;

  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK);
  while (io->thread_count < THREADS && rc == 0) {
    rc = -pthread_create(&io->threads[io->thread_count], &attributes, serve_io_work, io);
    io->thread_count += rc == 0;
  }
  pthread_attr_destroy(&attributes);
  return io->thread_count > 0 ? 0 : rc;
}

static void serve_io_stop_threads(struct io *io)
{
  pthread_mutex_lock(&io->lock);
  io->closing = true;
  pthread_cond_broadcast(&io->begun);
  pthread_mutex_unlock(&io->lock);
  for (uint32_t i = 0; i < io->thread_count; i++)
    pthread_join(io->threads[i], NULL);
}

static void serve_io_submit_to_threads(struct io *io, struct io_request *request)
{
  int rc = io->thread_count > 0 ? 0 : serve_io_start_threads(io);

  request->result = rc;
  pthread_mutex_lock(&io->lock);
  serve_io_push(rc == 0 ? &io->waiting : &io->ended, request);
  pthread_cond_signal(&io->begun);
  pthread_mutex_unlock(&io->lock);
  if (rc < 0)
    eventfd_write(io->event_fd, 1);
}

/* ---- Both --------------------------------------------------------------------------------- */

int serve_io_open(struct io **out)
{
  struct io *io = calloc(1, sizeof(*io));

  if (!io)
    return -ENOMEM;
  pthread_mutex_init(&io->lock, NULL);
  pthread_cond_init(&io->begun, NULL);
  io->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int rc = io->event_fd < 0 ? -errno : serve_io_open_ring(io);
  if (rc == 0) {
    snprintf(io->name, sizeof(io->name), "io_uring");
  } else if (io->event_fd >= 0) {
    snprintf(io->name, sizeof(io->name), "threads, since io_uring is not available: %s",
             strerror(-rc));
    rc = serve_io_start_threads(io);
  }
  if (rc < 0) {
    serve_io_close(io);
    return rc;
  }
  *out = io;
  return 0;
}

void serve_io_close(struct io *io)
{
  if (!io)
    return;
  if (io->has_ring)
    serve_io_close_ring(io);
  serve_io_stop_threads(io);
  pthread_cond_destroy(&io->begun);
  pthread_mutex_destroy(&io->lock);
  if (io->event_fd >= 0)
    close(io->event_fd);
  free(io);
}

const char *serve_io_name(const struct io *io)
{
  return io->name;
}

const char *serve_io_kind(const struct io *io)
{
  return io->has_ring ? "io_uring" : "threads";
}

int serve_io_event_fd(const struct io *io)
{
  return io->event_fd;
}

void serve_io_submit(struct io *io, struct io_request *request)
{
  request->done = 0;
  request->result = 0;
  if (!io->has_ring || request->op == IO_SUM) {
    serve_io_submit_to_threads(io, request);
    return;
  }
  serve_io_push(&io->for_ring, request);
  serve_io_fill_ring(io);
}

static struct io_request *serve_io_poll_all(struct io *io)
{
  struct io_request *request = io->has_ring ? serve_io_poll_ring(io) : NULL;

  /* Without threads, `ended` holds the requests that no thread could take. */
  if (request || (io->thread_count == 0 && !io->ended.first))
    return request;
  pthread_mutex_lock(&io->lock);
  request = serve_io_pull(&io->ended);
  pthread_mutex_unlock(&io->lock);
  return request;
}

struct io_request *serve_io_poll(struct io *io)
{
  struct io_request *request = serve_io_poll_all(io);
  uint64_t told;

  if (request)
    return request;
  /* Told of what was polled meanwhile: cleared, then looked at once more. */
  if (read(io->event_fd, &told, sizeof(told)) < 0)
    return NULL;
  return serve_io_poll_all(io);
}
