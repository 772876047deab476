/* SPDX-License-Identifier: Apache-2.0 */
/* The Unix socket by which processes of one host pass descriptors. */
#include "unix_fd.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "socket.h"
#include "util/closer.h"

/* The most descriptors that the kernel lets one message carry, so that none is cut off unseen:
 * surplus ones are closed here. */
#define KERNEL_FDS_MAX 253

int unix_random(void *bytes, size_t length)
{
  return getrandom(bytes, length, 0) == (ssize_t)length ? 0 : -EIO;
}

/* ---- Claims ----------------------------------------------------------------------- */

static uint8_t *unix_put_place(uint8_t *at, const struct socket_address *address)
{
  const struct socket_place place = socket_place(address);

  memcpy(at, &place.host, sizeof(place.host));
  memcpy(at + sizeof(place.host), &place.port, sizeof(place.port));
  return at + sizeof(place.host) + sizeof(place.port);
}

int unix_claim_make(int tcp_fd, bool has_connected, const uint8_t token[WIRE_TOKEN_BYTES],
                    struct unix_claim *claim)
{
  struct socket_address connector, acceptor;
  uint64_t network = 0; /* Linux before 5.14 does not tell */
  socklen_t size = sizeof(network);
  int rc = socket_end(tcp_fd, !has_connected, &connector);

  if (rc == 0)
    rc = socket_end(tcp_fd, has_connected, &acceptor);
  if (rc < 0)
    return rc;
  getsockopt(tcp_fd, SOL_SOCKET, SO_NETNS_COOKIE, &network, &size);
  memcpy(claim->bytes, token, WIRE_TOKEN_BYTES);
  memcpy(claim->bytes + WIRE_TOKEN_BYTES, &network, sizeof(network));
  unix_put_place(unix_put_place(claim->bytes + WIRE_TOKEN_BYTES + sizeof(network), &connector),
                 &acceptor);
  return 0;
}

int unix_send_claim(int fd, const struct unix_claim *claim)
{
  ssize_t n = send(fd, claim->bytes, sizeof(claim->bytes), MSG_NOSIGNAL);

  return n == sizeof(claim->bytes) ? 0 : n < 0 ? -errno : -EIO;
}

/* ---- Messages --------------------------------------------------------------------- */

union fd_space {
  struct cmsghdr align;
  char bytes[CMSG_SPACE(KERNEL_FDS_MAX * sizeof(int))];
};

int unix_send_fds(int fd, const struct unix_fds *batch)
{
  union fd_space space = {0};
  uint8_t id[8];
  struct iovec piece = {.iov_base = id, .iov_len = sizeof(id)};
  size_t size = batch->count * sizeof(int);
  struct msghdr message = {
      .msg_iov = &piece,
      .msg_iovlen = 1,
      .msg_control = space.bytes,
      .msg_controllen = CMSG_SPACE(size),
  };

  for (int i = 0; i < 8; i++)
    id[i] = (uint8_t)(batch->id >> (56 - 8 * i));
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(size);
  memcpy(CMSG_DATA(header), batch->fds, size);
  return sendmsg(fd, &message, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* The descriptors of a message. False: more than so many, the others are closed. */
static bool unix_take_fds(struct msghdr *message, uint32_t most, struct unix_fds *batch)
{
  bool have_room = true;

  batch->count = 0;
  for (struct cmsghdr *h = CMSG_FIRSTHDR(message); h; h = CMSG_NXTHDR(message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
      continue;
    size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int got;
      memcpy(&got, CMSG_DATA(h) + i * sizeof(got), sizeof(got));
      have_room &= batch->count < most;
      if (have_room)
        batch->fds[batch->count++] = got;
      else
        closer_close(got);
    }
  }
  return have_room;
}

/* A message of that size with at most so many descriptors, the caller's then. 0; -EAGAIN;
 * -ECONNRESET; -EMFILE: this process has too many open; -EPROTO: something else came. */
static int unix_receive(int fd, void *bytes, size_t size, uint32_t most, struct unix_fds *batch)
{
  union fd_space space;
  struct iovec piece = {.iov_base = bytes, .iov_len = size};
  struct msghdr message = {
      .msg_iov = &piece,
      .msg_iovlen = 1,
      .msg_control = space.bytes,
      .msg_controllen = sizeof(space.bytes),
  };
  ssize_t n;
  int rc = 0;

  do {
    n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0)
    return -errno;
  const bool have_room = unix_take_fds(&message, most, batch);
  if (n == 0)
    rc = -ECONNRESET;
  else if (message.msg_flags & MSG_CTRUNC) /* by a limit of our own: there is room for all */
    rc = -EMFILE;
  else if ((size_t)n != size || !have_room || message.msg_flags & MSG_TRUNC)
    rc = -EPROTO;
  if (rc < 0)
    unix_close_fds(batch);
  return rc;
}

int unix_receive_claim(int fd, struct unix_claim *claim)
{
  struct unix_claim got;
  struct unix_fds none;
  int rc = unix_receive(fd, got.bytes, sizeof(got.bytes), 0, &none);

  if (rc == 0)
    *claim = got;
  return rc == -EMFILE ? -EPROTO : rc;
}

int unix_receive_fds(int fd, struct unix_fds *batch)
{
  struct unix_fds got = {0};
  uint8_t id[8];
  int rc = unix_receive(fd, id, sizeof(id), UNIX_FDS_MAX, &got);

  if (rc < 0 || got.count == 0)
    return rc < 0 ? rc : -EPROTO;
  for (int i = 0; i < 8; i++)
    got.id = got.id << 8 | id[i];
  *batch = got;
  return 0;
}

void unix_close_fds(struct unix_fds *batch)
{
  for (uint32_t i = 0; i < batch->count; i++)
    closer_close(batch->fds[i]);
  batch->count = 0;
}
