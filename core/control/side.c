/* SPDX-License-Identifier: Apache-2.0 */
#include "side.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/closer.h"

/* What the kernel lets one message carry at most, so that none is cut off
 * unseen: those too many are closed here. */
#define KERNEL_FDS_MAX 253

int side_random(void *bytes, size_t length)
{
  return getrandom(bytes, length, 0) == (ssize_t)length ? 0 : -EIO;
}

int side_pair(int fds[2])
{
  return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0 ? -errno
                                                                                        : 0;
}

/* ---- Claims ----------------------------------------------------------------------- */

/* An IPv4 address as IPv6 has it, so that both ends write it in one form. */
static uint8_t *put_address(uint8_t *at, const struct sockaddr_storage *address)
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

  if (address->ss_family == AF_INET) {
    const struct sockaddr_in *in = (const struct sockaddr_in *)address;
    memcpy(at, mapped, sizeof mapped);
    memcpy(at + 12, &in->sin_addr, 4);
    memcpy(at + 16, &in->sin_port, 2);
  } else {
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    memcpy(at, &in6->sin6_addr, 16);
    memcpy(at + 16, &in6->sin6_port, 2);
  }
  return at + 18;
}

int side_claim_make(int tcp_fd, bool has_connected, const uint8_t token[WIRE_TOKEN_BYTES],
                    struct side_claim *claim)
{
  struct sockaddr_storage local = {0}, remote = {0};
  socklen_t local_size = sizeof local, remote_size = sizeof remote;
  uint64_t network = 0; /* Linux before 5.14 does not tell */
  socklen_t size = sizeof network;

  if (getsockname(tcp_fd, (struct sockaddr *)&local, &local_size) < 0 ||
      getpeername(tcp_fd, (struct sockaddr *)&remote, &remote_size) < 0)
    return -errno;
  getsockopt(tcp_fd, SOL_SOCKET, SO_NETNS_COOKIE, &network, &size);
  memcpy(claim->bytes, token, WIRE_TOKEN_BYTES);
  memcpy(claim->bytes + WIRE_TOKEN_BYTES, &network, sizeof network);
  uint8_t *at = claim->bytes + WIRE_TOKEN_BYTES + sizeof network;
  at = put_address(at, has_connected ? &local : &remote);
  put_address(at, has_connected ? &remote : &local);
  return 0;
}

int side_send_claim(int fd, const struct side_claim *claim)
{
  ssize_t n = send(fd, claim->bytes, sizeof claim->bytes, MSG_NOSIGNAL);

  return n == sizeof claim->bytes ? 0 : n < 0 ? -errno : -EIO;
}

/* ---- Messages --------------------------------------------------------------------- */

union fd_space {
  struct cmsghdr align;
  char bytes[CMSG_SPACE(KERNEL_FDS_MAX * sizeof(int))];
};

int side_send_fds(int fd, const struct side_fds *batch)
{
  union fd_space space = {0};
  uint8_t id[8];
  struct iovec piece = {.iov_base = id, .iov_len = sizeof id};
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

/* One message; descriptors beyond SIDE_FDS_MAX are closed, *all counts them. */
static ssize_t receive(int fd, void *bytes, size_t size, struct side_fds *batch, uint32_t *all,
                       int *flags)
{
  union fd_space space;
  struct iovec piece = {.iov_base = bytes, .iov_len = size};
  struct msghdr message = {
      .msg_iov = &piece,
      .msg_iovlen = 1,
      .msg_control = space.bytes,
      .msg_controllen = sizeof space.bytes,
  };
  ssize_t n;

  batch->count = 0;
  *all = 0;
  do {
    n = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0)
    return -errno;
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS)
      continue;
    size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int got;
      memcpy(&got, CMSG_DATA(h) + i * sizeof got, sizeof got);
      if (batch->count < SIDE_FDS_MAX)
        batch->fds[batch->count++] = got;
      else
        closer_close(got);
      (*all)++;
    }
  }
  *flags = message.msg_flags;
  return n;
}

int side_receive_claim(int fd, struct side_claim *claim)
{
  struct side_claim got;
  struct side_fds unwanted;
  uint32_t all;
  int flags = 0;
  ssize_t n = receive(fd, got.bytes, sizeof got.bytes, &unwanted, &all, &flags);

  if (n < 0)
    return (int)n;
  side_close_fds(&unwanted);
  if (n == 0)
    return -ECONNRESET;
  if (n != sizeof got.bytes || all > 0 || (flags & (MSG_TRUNC | MSG_CTRUNC)))
    return -EPROTO;
  *claim = got;
  return 0;
}

int side_receive_fds(int fd, struct side_fds *batch)
{
  struct side_fds got = {0};
  uint8_t id[8];
  uint32_t all;
  int flags = 0;
  ssize_t n = receive(fd, id, sizeof id, &got, &all, &flags);

  if (n < 0)
    return (int)n;
  if (n == 0) {
    side_close_fds(&got);
    return -ECONNRESET;
  }
  /* There is room for all that a message may carry, so that only a limit of our own cuts. */
  if (flags & MSG_CTRUNC) {
    side_close_fds(&got);
    return -EMFILE;
  }
  if (n != sizeof id || all < 1 || all > SIDE_FDS_MAX || (flags & MSG_TRUNC)) {
    side_close_fds(&got);
    return -EPROTO;
  }
  for (int i = 0; i < 8; i++)
    got.id = got.id << 8 | id[i];
  *batch = got;
  return 0;
}

void side_close_fds(struct side_fds *batch)
{
  for (uint32_t i = 0; i < batch->count; i++)
    closer_close(batch->fds[i]);
  batch->count = 0;
}
