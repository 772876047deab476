/* SPDX-License-Identifier: Apache-2.0 */
/* TCP addresses and sockets of the control channel. */
#include "socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/host_port.h"

#define HOST_MAX 255
#define BACKLOG 256

static int socket_split(const char *host_port, char host[HOST_MAX + 1], char port[8])
{
  struct pst_host_port parts;
  char *rest;

  if (!pst_host_port_split(host_port, &parts) || !parts.port || parts.host_length > HOST_MAX ||
      strlen(parts.port) > 5)
    return -EINVAL;
  memcpy(host, parts.host, parts.host_length);
  host[parts.host_length] = '\0';
  unsigned long value = strtoul(parts.port, &rest, 10);
  if (*rest != '\0' || parts.port[0] < '0' || parts.port[0] > '9' || value > 65535)
    return -EINVAL;
  snprintf(port, 8, "%lu", value);
  return 0;
}

int socket_resolve(const char *host_port, bool listener, struct socket_addresses *addresses,
                   char *why, size_t why_size)
{
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *found = NULL;
  char host[HOST_MAX + 1];
  char port[8];

  if (!host_port || socket_split(host_port, host, port) < 0) {
    snprintf(why, why_size,
             "'%s' is not an address: write host:port, such as 127.0.0.1:18515 or [::1]:18515",
             host_port ? host_port : "");
    return -EINVAL;
  }
  bool every = host[0] == '\0' || strcmp(host, "*") == 0;
  if (every && !listener) {
    snprintf(why, why_size, "'%s' names no host to connect to: write host:port", host_port);
    return -EINVAL;
  }
  if (every)
    hints.ai_flags |= AI_PASSIVE;

  int rc = getaddrinfo(every ? NULL : host, port, &hints, &found);
  if (rc != 0) {
    bool later = rc == EAI_AGAIN || rc == EAI_MEMORY || rc == EAI_SYSTEM;
    snprintf(why, why_size, "the name '%s' is not found: %s; check the name, or write the address",
             host, gai_strerror(rc));
    return later ? -EHOSTUNREACH : -ENOENT;
  }
  struct socket_addresses result = {.count = 0};
  for (struct addrinfo *a = found; a && result.count < SOCKET_ADDRESSES_MAX; a = a->ai_next) {
    if (a->ai_family != AF_INET && a->ai_family != AF_INET6)
      continue;
    memcpy(&result.at[result.count].storage, a->ai_addr, a->ai_addrlen);
    result.at[result.count++].length = a->ai_addrlen;
  }
  freeaddrinfo(found);
  if (result.count == 0) {
    snprintf(why, why_size, "the name '%s' has no IPv4 or IPv6 address", host);
    return -ENOENT;
  }
  *addresses = result;
  return 0;
}

struct socket_place socket_place(const struct socket_address *address)
{
  const struct sockaddr_in *in = (const struct sockaddr_in *)&address->storage;
  const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address->storage;
  struct socket_place place = {.host.s6_addr = {[10] = 0xff, [11] = 0xff}, .port = in->sin_port};

  if (address->storage.ss_family != AF_INET)
    return (struct socket_place){in6->sin6_addr, in6->sin6_port};
  memcpy(&place.host.s6_addr[12], &in->sin_addr, sizeof(in->sin_addr));
  return place;
}

bool socket_is_remote(const struct socket_address *address)
{
  const struct in6_addr host = socket_place(address).host;

  return IN6_IS_ADDR_V4MAPPED(&host) ? host.s6_addr[12] != 127 : !IN6_IS_ADDR_LOOPBACK(&host);
}

bool socket_is_any(const struct socket_address *address)
{
  const struct in6_addr host = socket_place(address).host;

  return IN6_IS_ADDR_V4MAPPED(&host) ? host.s6_addr32[3] == 0 : IN6_IS_ADDR_UNSPECIFIED(&host);
}

int socket_end(int fd, bool of_peer, struct socket_address *address)
{
  struct sockaddr *at = (struct sockaddr *)&address->storage;

  *address = (struct socket_address){.length = sizeof(address->storage)};
  return (of_peer ? getpeername : getsockname)(fd, at, &address->length) < 0 ? -errno : 0;
}

bool socket_is_local(int fd)
{
  struct socket_address ends[2];

  if (socket_end(fd, false, &ends[0]) < 0 || socket_end(fd, true, &ends[1]) < 0)
    return false;
  const struct in6_addr here = socket_place(&ends[0]).host, there = socket_place(&ends[1]).host;
  return !socket_is_remote(&ends[1]) || IN6_ARE_ADDR_EQUAL(&here, &there);
}

void socket_text(const struct socket_address *address, char text[SOCKET_TEXT_MAX])
{
  char host[INET6_ADDRSTRLEN + 1];
  char port[8];

  text[0] = '\0';
  if (getnameinfo((const struct sockaddr *)&address->storage, address->length, host, sizeof(host),
                  port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return;
  bool is_v6 = address->storage.ss_family == AF_INET6;
  snprintf(text, SOCKET_TEXT_MAX, is_v6 ? "[%s]:%s" : "%s:%s", host, port);
}

void socket_end_text(int fd, bool of_peer, char text[SOCKET_TEXT_MAX])
{
  struct socket_address address;

  text[0] = '\0';
  if (socket_end(fd, of_peer, &address) == 0)
    socket_text(&address, text);
}

uint16_t socket_port(int fd)
{
  struct socket_address address;

  return socket_end(fd, false, &address) < 0 ? 0 : ntohs(socket_place(&address).port);
}

static int socket_new(const struct socket_address *address)
{
  int fd = socket(address->storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

  return fd < 0 ? -errno : fd;
}

static void socket_set_flag(int fd, int level, int name)
{
  int on = 1;

  setsockopt(fd, level, name, &on, sizeof(on));
}

int socket_listen(const struct socket_address *address)
{
  int fd = socket_new(address);

  if (fd < 0)
    return fd;
  /* Or a port would stay taken for a minute after each run. */
  socket_set_flag(fd, SOL_SOCKET, SO_REUSEADDR);
  if (address->storage.ss_family == AF_INET6)
    socket_set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY);
  if (bind(fd, (const struct sockaddr *)&address->storage, address->length) < 0 ||
      listen(fd, BACKLOG) < 0) {
    int rc = -errno;
    close(fd);
    return rc;
  }
  return fd;
}

int socket_accept(int listener)
{
  int fd;

  do {
    fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (fd < 0)
    return -errno;
  socket_set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
  return fd;
}

int socket_connect(const struct socket_address *address)
{
  int fd = socket_new(address);

  if (fd < 0)
    return fd;
  socket_set_flag(fd, IPPROTO_TCP, TCP_NODELAY);
  if (connect(fd, (const struct sockaddr *)&address->storage, address->length) < 0 &&
      errno != EINPROGRESS) {
    int rc = -errno;
    close(fd);
    return rc;
  }
  return fd;
}

int socket_error(int fd)
{
  int error = 0;
  socklen_t size = sizeof(error);

  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
    return -errno;
  return -error;
}
