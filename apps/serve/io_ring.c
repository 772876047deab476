/* SPDX-License-Identifier: Apache-2.0 */
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include <liburing.h>

#define ENTRIES 256u
#define STEP_MAX (1u << 30) /* bytes of one call */

struct io_ring {
  struct io_uring uring;
  struct io_list waiting; /* for an entry */
  uint32_t under_way;
};

int io_ring_open(int event_fd, struct io_ring **out)
{
  struct io_ring *ring = calloc(1, sizeof *ring);

  if (ring == NULL)
    return -ENOMEM;
  int rc = io_uring_queue_init(ENTRIES, &ring->uring, IORING_SETUP_CLAMP);
  if (rc < 0) {
    free(ring);
    return rc;
  }
  rc = io_uring_register_eventfd(&ring->uring, event_fd);
  if (rc < 0) {
    io_ring_close(ring);
    return rc;
  }
  *out = ring;
  return 0;
}

void io_ring_close(struct io_ring *ring)
{
  struct io_uring_cqe *cqe;

  if (ring == NULL)
    return;
  while (ring->under_way > 0) {
    int rc = io_uring_wait_cqe(&ring->uring, &cqe);
    if (rc == -EINTR)
      continue;
    if (rc < 0)
      break;
    io_uring_cqe_seen(&ring->uring, cqe);
    ring->under_way--;
  }
  io_uring_queue_exit(&ring->uring);
  free(ring);
}

static void prepare(struct io_uring_sqe *sqe, struct io_request *request)
{
  uint64_t left = request->length - request->done;
  unsigned step = left < STEP_MAX ? (unsigned)left : STEP_MAX;

  if (request->op == IO_READ)
    io_uring_prep_read(sqe, request->fd, request->bytes + request->done, step,
                       request->offset + request->done);
  else if (request->op == IO_WRITE)
    io_uring_prep_write(sqe, request->fd, request->bytes + request->done, step,
                        request->offset + request->done);
  else if (request->op == IO_OUT)
    io_uring_prep_sync_file_range(sqe, request->fd, (unsigned)request->length, request->offset,
                                  IO_OUT_FLAGS);
  else
    io_uring_prep_fsync(sqe, request->fd, 0);
  io_uring_sqe_set_data(sqe, request);
}

/* No more are under way than the completion queue holds. What the kernel does not take at once
 * stays in the submission queue for the next call. */
static void push_on(struct io_ring *ring)
{
  while (ring->waiting.first != NULL && ring->under_way < ENTRIES) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
    if (sqe == NULL)
      break;
    prepare(sqe, io_pull(&ring->waiting));
    ring->under_way++;
  }
  if (io_uring_sq_ready(&ring->uring) > 0)
    io_uring_submit(&ring->uring);
}

void io_ring_submit(struct io_ring *ring, struct io_request *request)
{
  io_push(&ring->waiting, request);
  push_on(ring);
}

struct io_request *io_ring_poll(struct io_ring *ring)
{
  struct io_uring_cqe *cqe = NULL;

  push_on(ring);
  while (io_uring_peek_cqe(&ring->uring, &cqe) == 0) {
    struct io_request *request = io_uring_cqe_get_data(cqe);
    int64_t outcome = cqe->res;
    io_uring_cqe_seen(&ring->uring, cqe);
    ring->under_way--;
    if (io_took(request, outcome))
      return request;
    io_ring_submit(ring, request);
  }
  return NULL;
}
