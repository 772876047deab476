/* SPDX-License-Identifier: Apache-2.0 */
#include "side.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define NONCE_BYTES 16
#define BACKLOG 64
/* What the kernel lets one message carry at most, so that none is cut off
 * unseen: those too many are closed here. */
#define KERNEL_FDS_MAX 253

int side_random(void *bytes, size_t length)
{
  return getrandom(bytes, length, 0) == (ssize_t)length ? 0 : -EIO;
}

void side_boot_id(char *boot_id, size_t size)
{
  ssize_t n = -1;
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

  if (fd >= 0) {
    n = read(fd, boot_id, size - 1);
    close(fd);
  }
  boot_id[n > 0 ? n : 0] = '\0';
  boot_id[strcspn(boot_id, "\n")] = '\0';
}

static socklen_t abstract(struct sockaddr_un *address, const char *name)
{
  size_t length = strnlen(name, WIRE_SIDE_MAX);

  *address = (struct sockaddr_un){.sun_family = AF_UNIX};
  memcpy(address->sun_path + 1, name, length);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int new_socket(void)
{
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

  return fd < 0 ? -errno : fd;
}

int side_listen(char name[WIRE_SIDE_MAX + 1])
{
  struct sockaddr_un address;
  uint8_t nonce[NONCE_BYTES];
  char text[WIRE_SIDE_MAX + 1] = "penstock-";
  int rc = side_random(nonce, sizeof nonce);

  if (rc < 0)
    return rc;
  for (size_t i = 0, at = strlen(text); i < sizeof nonce; i++, at += 2)
    snprintf(text + at, sizeof text - at, "%02x", nonce[i]);
  int fd = new_socket();
  if (fd < 0)
    return fd;
  socklen_t length = abstract(&address, text);
  if (bind(fd, (struct sockaddr *)&address, length) < 0 || listen(fd, BACKLOG) < 0) {
    rc = -errno;
    close(fd);
    return rc;
  }
  memcpy(name, text, sizeof text);
  return fd;
}

int side_accept(int listener)
{
  int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

  return fd < 0 ? -errno : fd;
}

int side_connect(const char *name)
{
  struct sockaddr_un address;
  int fd = new_socket();

  if (fd < 0)
    return fd;
  socklen_t length = abstract(&address, name);
  if (connect(fd, (struct sockaddr *)&address, length) < 0) {
    int rc = -errno;
    close(fd);
    return rc;
  }
  return fd;
}

int side_pair(int fds[2])
{
  return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0 ? -errno
                                                                                        : 0;
}

int side_check_peer(int fd, uint32_t *uid)
{
  struct ucred credentials = {0};
  socklen_t size = sizeof credentials;

  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0)
    return -errno;
  *uid = credentials.uid;
  return credentials.uid == geteuid() || credentials.uid == 0 ? 0 : -EACCES;
}

int side_send_token(int fd, const uint8_t token[WIRE_TOKEN_BYTES])
{
  ssize_t n = send(fd, token, WIRE_TOKEN_BYTES, MSG_NOSIGNAL);

  return n == WIRE_TOKEN_BYTES ? 0 : n < 0 ? -errno : -EIO;
}

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
        close(got);
      (*all)++;
    }
  }
  *flags = message.msg_flags;
  return n;
}

int side_receive_token(int fd, uint8_t token[WIRE_TOKEN_BYTES])
{
  struct side_fds unwanted;
  uint8_t bytes[WIRE_TOKEN_BYTES];
  uint32_t all;
  int flags = 0;
  ssize_t n = receive(fd, bytes, sizeof bytes, &unwanted, &all, &flags);

  if (n < 0)
    return (int)n;
  side_close_fds(&unwanted);
  if (n == 0)
    return -ECONNRESET;
  if (n != WIRE_TOKEN_BYTES || all > 0 || (flags & (MSG_TRUNC | MSG_CTRUNC)))
    return -EPROTO;
  memcpy(token, bytes, sizeof bytes);
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
  if (n != sizeof id || all < 1 || all > SIDE_FDS_MAX || (flags & (MSG_TRUNC | MSG_CTRUNC))) {
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
    close(batch->fds[i]);
  batch->count = 0;
}
