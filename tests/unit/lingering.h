/* SPDX-License-Identifier: Apache-2.0 */
/* Sockets whose last close waits, as a hostile peer passes them. */
#ifndef TESTS_UNIT_LINGERING_H
#define TESTS_UNIT_LINGERING_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

/* One descriptor beside some bytes. Whether it was taken. */
static inline bool send_descriptor(int to, const void *bytes, size_t length, int fd)
{
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
  } space = {0};
  struct iovec piece = {(void *)(uintptr_t)bytes, length};
  struct msghdr message = {.msg_iov = &piece,
                           .msg_iovlen = 1,
                           .msg_control = space.bytes,
                           .msg_controllen = sizeof(space.bytes)};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);

  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof(fd));
  return sendmsg(to, &message, MSG_NOSIGNAL) == (ssize_t)length;
}

/* A TCP socket with bytes that nobody reads: its last close waits for an hour, or until *other,
 * which has them, is closed. */
static inline int lingering_open(int *other)
{
  const struct linger hour = {.l_onoff = 1, .l_linger = 3600};
  struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof(place);
  static uint8_t bytes[65536];
  int small = 1;
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

  assert_int_equal(bind(listener, (struct sockaddr *)&place, size), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&place, &size), 0);
  setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
  assert_int_equal(connect(fd, (struct sockaddr *)&place, size), 0);
  *other = accept(listener, NULL, NULL);
  assert_true(*other >= 0);
  while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {
  }
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)), 0);
  close(listener);
  return fd;
}

/* A socket with the last descriptor of such a one unread in it. */
static inline int lingering_in_a_socket(int *other)
{
  int ends[2], held = lingering_open(other);

  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  assert_true(send_descriptor(ends[0], "", 1, held));
  close(held); /* what is on its way holds it */
  close(ends[0]);
  return ends[1];
}

#endif
