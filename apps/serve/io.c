/* SPDX-License-Identifier: Apache-2.0 */
#include "io.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct io {
  int event_fd;
  struct io_ring *ring;       /* NULL: threads */
  struct io_threads *threads; /* beside a ring: once there is something to sum */
  struct io_list failed;      /* for want of threads */
  char name[96];
};

void io_push(struct io_list *list, struct io_request *request)
{
  request->next = NULL;
  if (list->last == NULL)
    list->last = &list->first;
  *list->last = request;
  list->last = &request->next;
}

struct io_request *io_pull(struct io_list *list)
{
  struct io_request *request = list->first;

  if (request == NULL)
    return NULL;
  list->first = request->next;
  if (list->first == NULL)
    list->last = &list->first;
  return request;
}

int io_took(struct io_request *request, int64_t outcome)
{
  if (outcome == -EINTR || outcome == -EAGAIN)
    return 0;
  /* A file system that cannot be asked for it writes out when it likes. */
  if (request->op == IO_OUT && (outcome >= 0 || outcome == -EINVAL || outcome == -ENOSYS))
    return 1;
  if (outcome < 0 || request->op == IO_SYNC) {
    request->result = outcome;
    return 1;
  }
  request->done += (uint64_t)outcome;
  request->result = (int64_t)request->done;
  /* A write that moves nothing, and says nothing of why, would go on for ever. */
  if (outcome == 0 && request->op == IO_WRITE && request->done < request->length)
    request->result = -EIO;
  if (request->result < 0 || request->done < request->length)
    return outcome == 0;
  if (request->op != IO_WRITE || request->length == 0)
    return 1;
  request->op = IO_OUT;
  return 0;
}

int io_open(struct io **out)
{
  struct io *io = calloc(1, sizeof *io);

  if (io == NULL)
    return -ENOMEM;
  io->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int rc = io->event_fd < 0 ? -errno : io_ring_open(io->event_fd, &io->ring);
  if (rc == 0) {
    snprintf(io->name, sizeof io->name, "io_uring");
  } else if (io->event_fd >= 0) {
    snprintf(io->name, sizeof io->name, "threads, since io_uring is not available: %s",
             strerror(-rc));
    rc = io_threads_open(io->event_fd, &io->threads);
  }
  if (rc < 0) {
    io_close(io);
    return rc;
  }
  *out = io;
  return 0;
}

void io_close(struct io *io)
{
  if (io == NULL)
    return;
  io_ring_close(io->ring);
  io_threads_close(io->threads);
  if (io->event_fd >= 0)
    close(io->event_fd);
  free(io);
}

const char *io_name(const struct io *io)
{
  return io->name;
}

const char *io_kind(const struct io *io)
{
  return strncmp(io->name, "threads", strlen("threads")) == 0 ? "threads" : io->name;
}

int io_event_fd(const struct io *io)
{
  return io->event_fd;
}

static void submit_to_threads(struct io *io, struct io_request *request)
{
  int rc = io->threads != NULL ? 0 : io_threads_open(io->event_fd, &io->threads);

  if (rc == 0) {
    io_threads_submit(io->threads, request);
    return;
  }
  request->result = rc;
  io_push(&io->failed, request);
  eventfd_write(io->event_fd, 1);
}

void io_submit(struct io *io, struct io_request *request)
{
  request->done = 0;
  request->result = 0;
  if (io->ring != NULL && request->op != IO_SUM)
    io_ring_submit(io->ring, request);
  else
    submit_to_threads(io, request);
}

static struct io_request *poll_all(struct io *io)
{
  struct io_request *request = io_pull(&io->failed);

  if (request == NULL && io->ring != NULL)
    request = io_ring_poll(io->ring);
  if (request == NULL && io->threads != NULL)
    request = io_threads_poll(io->threads);
  return request;
}

struct io_request *io_poll(struct io *io)
{
  struct io_request *request = poll_all(io);
  uint64_t told;

  if (request != NULL)
    return request;
  /* Told of what was polled meanwhile: cleared, then looked at once more. */
  if (read(io->event_fd, &told, sizeof told) < 0)
    return NULL;
  return poll_all(io);
}
