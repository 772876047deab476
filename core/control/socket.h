/* SPDX-License-Identifier: Apache-2.0 */
/* "host:port" and the TCP sockets behind it. Sockets are non-blocking and
 * close-on-exec. */
#ifndef PST_CONTROL_SOCKET_H
#define PST_CONTROL_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define SOCKET_ADDRESSES_MAX 8
#define SOCKET_TEXT_MAX 72 /* "[scoped IPv6 address]:port" with NUL */

struct socket_address {
  struct sockaddr_storage storage;
  socklen_t length;
};

/* An address as IPv6 has it, so that both ends of a connection write it in one form. */
struct socket_place {
  struct in6_addr host;
  in_port_t port; /* in network byte order */
};

struct socket_addresses {
  struct socket_address at[SOCKET_ADDRESSES_MAX];
  uint32_t count;
};

/* "host:port", "[IPv6]:port"; an empty host or "*" is every address of this host
 * (for a listener). May block on name servers. 0; -EINVAL: not of that form;
 * -ENOENT: no such name; -EHOSTUNREACH: it cannot be asked now. `why` says it in
 * words. */
int socket_resolve(const char *host_port, bool listener, struct socket_addresses *addresses,
                   char *why, size_t why_size);
/* Whether the address is outside 127.0.0.0/8 and ::1. An IPv4 address within IPv6 counts as
 * itself. */
bool socket_is_remote(const struct socket_address *address);
/* Whether the address is 0.0.0.0 or ::. */
bool socket_is_any(const struct socket_address *address);
/* Whether both ends of a connection are on this host. */
bool socket_is_local(int fd);
void socket_text(const struct socket_address *address, char text[SOCKET_TEXT_MAX]);
struct socket_place socket_place(const struct socket_address *address);
/* The address of this end of a connection, or of the peer. 0, or -errno: the connection is gone. */
int socket_end(int fd, bool of_peer, struct socket_address *address);
void socket_end_text(int fd, bool of_peer, char text[SOCKET_TEXT_MAX]); /* ""; it has gone */
uint16_t socket_port(int fd);

/* A descriptor or -errno. */
int socket_listen(const struct socket_address *address);
/* -EAGAIN: nobody there yet. */
int socket_accept(int listener);
/* Connects in the background: once the descriptor is writable, socket_error() has the outcome.
 * Returns the descriptor or -errno. */
int socket_connect(const struct socket_address *address);
/* The pending error of a socket (SO_ERROR), as -errno or 0. */
int socket_error(int fd);

#endif
