/* SPDX-License-Identifier: Apache-2.0 */
/* The server's reads and writes of files: each ends when, and as, the input says. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "serve/io.h"
#include "server_world.h"

#define REQUESTS 1024u
#define REALLY (64u << 10)      /* bytes at most that are moved; more would only take time */
#define REALLY_UP_TO (1u << 20) /* and of the file's first bytes */

struct io {
  int event_fd;
};

static struct io the_io;
static struct io_request *requests[REQUESTS], *ended[REQUESTS];
static uint32_t request_count, ended_count;
static bool draining;

void world_io_drain(bool on)
{
  draining = on;
}

int serve_io_open(struct io **io)
{
  REQUIRE(request_count == 0 && ended_count == 0);
  the_io.event_fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK); /* readable for ever */
  REQUIRE(the_io.event_fd >= 0);
  *io = &the_io;
  return 0;
}

void serve_io_close(struct io *io)
{
  REQUIRE(io && request_count == 0 && ended_count == 0);
  close(io->event_fd);
}

int serve_io_event_fd(const struct io *io)
{
  return io->event_fd;
}

void serve_io_submit(struct io *io, struct io_request *request)
{
  REQUIRE(io == &the_io && request_count < REQUESTS);
  REQUIRE(fcntl(request->fd, F_GETFD) >= 0);
  request->done = 0;
  request->result = 0;
  if (request->op == IO_READ || request->op == IO_WRITE) {
    REQUIRE(request->length > 0 && world_owns(request->bytes, request->length));
    world_require_unused(request->bytes, request->length);
    world_io_require_unused(request->bytes, request->length);
  }
  /* A file that gets its name next has all its bytes. */
  for (uint32_t i = 0; i < request_count && request->op == IO_SYNC; i++)
    REQUIRE(requests[i]->op != IO_WRITE || requests[i]->fd != request->fd);
  /* A sum is nobody else's meanwhile. */
  for (uint32_t i = 0; i < request_count && request->op == IO_SUM; i++)
    REQUIRE(requests[i]->sum != request->sum);
  world_require_asked(request);
  requests[request_count++] = request;
}

uint32_t world_io_under_way(void)
{
  return request_count + ended_count;
}

void world_io_require_unused(const uint8_t *bytes, uint64_t length)
{
  for (uint32_t i = 0; i < request_count; i++)
    if (requests[i]->bytes)
      REQUIRE(bytes + length <= requests[i]->bytes ||
              requests[i]->bytes + requests[i]->length <= bytes);
}

static int64_t sum(const struct io_request *r)
{
  static const uint8_t zeros[WORLD_SUMMED];
  uint8_t bytes[WORLD_SUMMED];
  ssize_t got =
      pread(r->fd, bytes, r->length < WORLD_SUMMED ? r->length : WORLD_SUMMED, (off_t)r->offset);

  if (got > 0)
    serve_digest_sha256_add(r->sum, bytes, (size_t)got);
  else if (r->to_grow)
    serve_digest_sha256_add(r->sum, zeros, r->length < WORLD_SUMMED ? r->length : WORLD_SUMMED);
  else
    return 0;
  return (int64_t)r->length;
}

static int64_t perform(const struct io_request *r)
{
  bool really = r->length <= REALLY && r->offset <= REALLY_UP_TO;
  ssize_t moved = (ssize_t)r->length;

  REQUIRE(fcntl(r->fd, F_GETFD) >= 0);
  if (r->op == IO_SUM)
    return sum(r);
  if (r->op == IO_SYNC)
    return 0;
  if (really)
    moved = r->op == IO_READ ? pread(r->fd, r->bytes, r->length, (off_t)r->offset)
                             : pwrite(r->fd, r->bytes, r->length, (off_t)r->offset);
  return moved < 0 ? -errno : moved;
}

void world_io_end(uint32_t which, enum world_end how)
{
  if (request_count == 0)
    return;
  which %= request_count;
  struct io_request *r = requests[which];
  memmove(&requests[which], &requests[which + 1],
          (--request_count - which) * sizeof(struct io_request *));
  if (how == WORLD_IO_FAILS)
    r->result = -EIO;
  else if (how == WORLD_IO_IS_FULL)
    r->result = r->op == IO_READ || r->op == IO_SUM ? -EIO : -ENOSPC;
  else if (how == WORLD_IO_IS_SHORT && (r->op == IO_READ || r->op == IO_SUM))
    r->result = (int64_t)r->length / 2;
  else
    r->result = perform(r);
  ended[ended_count++] = r;
}

struct io_request *serve_io_poll(struct io *io)
{
  REQUIRE(io == &the_io);
  if (ended_count == 0 && draining)
    world_io_end(0, WORLD_IO_ENDS);
  if (ended_count == 0)
    return NULL;
  struct io_request *r = ended[0];
  memmove(ended, ended + 1, --ended_count * sizeof(struct io_request *));
  world_io_ended(r);
  return r;
}
