/* SPDX-License-Identifier: Apache-2.0 */
/* Between a bench client and its server: a line of JSON each way at a time, over TCP
 * or, on one machine, a socketpair. It says what to measure and brings back what the
 * other end saw; the messages that are measured go over streams of their own. */
#ifndef APP_BENCH_LINK_H
#define APP_BENCH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

struct json_object;

#define LINK_LINE_MAX 65536
#define LINK_ADDRESS_MAX 128

struct link {
  int fd;
  char peer[LINK_ADDRESS_MAX]; /* for messages */
  char local[64], remote[64];  /* numeric hosts, bracketed where IPv6 needs it */
  char *line;                  /* LINK_LINE_MAX, of which `filled` are read */
  size_t filled;
  struct json_object *returned; /* NULL */
};

struct link_listener {
  int fd;
  uint16_t port;
};

/* "host:port", "host" or "[v6]:port"; the port is `port` where none is written.
 * Both refuse an address beyond loopback without `insecure`, and report in *error.
 * May block for a name. */
int link_listen(const char *where, uint16_t port, bool insecure, struct link_listener *listener,
                struct pst_error *error);
int link_connect(const char *where, uint16_t port, bool insecure, struct link *link,
                 struct pst_error *error);
/* Of a TCP connection. Takes fd over. */
int link_take(int fd, struct link *link);
/* Is its other end on this host? */
bool link_is_local(int fd);
/* Of a socketpair to process `pid`; 0: to a thread of this one. Takes fd over. */
int link_pair(int fd, long pid, struct link *link);
void link_close(struct link *link);

/* Takes `object` over. 0, -ECONNRESET, -ENOMEM. */
int link_send(struct link *link, struct json_object *object);
/* Waits for a line, until timeout_ns have passed, or a signal asks to stop and
 * `heeds_stop`. 0; -ETIMEDOUT; -EINTR; -ECONNRESET: the peer has gone; -EPROTO: no object, or too
 * long. */
int link_receive(struct link *link, uint64_t timeout_ns, bool heeds_stop,
                 struct json_object **object);
/* Has the next link_receive give this object, which it takes over. */
void link_return(struct link *link, struct json_object *object);
/* 0: nothing to read; 1: something; -ECONNRESET: the peer has gone. */
int link_look(const struct link *link);

/* A TCP port that nobody has at that numeric host now; 0: none. */
uint16_t link_free_port(const char *host);

#endif
