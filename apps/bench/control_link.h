/* SPDX-License-Identifier: Apache-2.0 */
/* Between a client and its server, of `bench` and of `hardware-check`: objects each way, as
 * messages of a node without a transport. They say what to measure and bring back what the other
 * end saw; what is measured goes over streams and nodes of its own. */
#ifndef APP_BENCH_CONTROL_LINK_H
#define APP_BENCH_CONTROL_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>

struct json_object;

#define LINK_MESSAGE_MAX 49152
#define LINK_QUEUE 8 /* objects that nobody has received */
#define LINK_TEXT_MAX 512

struct control_link_server;

/* Which peers beyond loopback may take part: all, those with TLS credentials, or none. */
struct link_access {
  bool insecure;
  const struct pst_tls_params *tls; /* NULL: no TLS */
};

struct control_link {
  struct control_link *next;          /* of those that wait to be served */
  struct control_link_server *server; /* NULL: this end has connected, and the node is its own */
  struct pst_node *node;
  struct pst_peer *far; /* NULL: it has left */
  bool has_joined;
  bool is_wrong; /* it has sent what is no object, or more than was received */
  int code;      /* it has left: why */
  char text[LINK_TEXT_MAX];
  uint64_t since_ns;
  char peer[80];              /* "127.0.0.1:41000", for messages */
  char local[72], remote[72]; /* numeric hosts, bracketed where IPv6 needs it */
  int64_t pid;                /* of the other end, as it says; 0: it has not */
  bool has_greeted;           /* a server's: its client, and was answered */
  bool has_asked;             /* a server's: its client, for something to measure */
  bool cause_is_said;         /* a server's: a stream or a region has said why it ended */
  struct json_object *said[LINK_QUEUE];
  uint32_t first, count;
};

struct control_link_server {
  struct pst_node *node;
  struct control_link *waiting;
};

/* "host:port", "host" or "[v6]:port"; the port is `port` where none is written. `command` is whose
 * server it is, for messages. Both refuse an address beyond loopback without `access` (NULL: none),
 * and report in *error; their threads run anywhere, though this one is pinned to `cpu`. May block
 * for a name.
 */
int bench_link_listen(const char *command, const char *where, uint16_t port,
                      const struct link_access *access, int cpu, struct control_link_server *server,
                      struct pst_error *error);
/* As bench_link_listen(), for this many clients at a time. */
int bench_link_listen_for(const char *command, const char *where, uint16_t port,
                          const struct link_access *access, int cpu, uint32_t clients,
                          struct control_link_server *server, struct pst_error *error);
void bench_link_unlisten(struct control_link_server *server);
/* A client that has said something. 0; -EAGAIN: none within timeout_ns. */
int bench_link_take(struct control_link_server *server, uint64_t timeout_ns,
                    struct control_link **link);

/* Waits some seconds for a server. */
int bench_link_connect(const char *command, const char *where, uint16_t port,
                       const struct link_access *access, int cpu, struct control_link **link,
                       struct pst_error *error);
/* NULL is legal. */
void bench_link_close(struct control_link *link);

/* {key: value}; takes `value` over. */
struct json_object *bench_link_object(const char *key, struct json_object *value);
/* The text of a member; "" if there is none. */
const char *bench_link_text(struct json_object *object, const char *key);
/* The number of a member; 0 if there is none. */
uint64_t bench_link_number(struct json_object *object, const char *key);
/* Parses a peer's message. Its texts are printable UTF-8, its numbers finite. Returns NULL if it is
 * no message, or out of memory. */
struct json_object *bench_link_parse(const struct pst_node_event *event);
/* As pst_peer_send(); -ENOMEM; -ENOTCONN: peer is NULL. */
int bench_link_post(struct pst_peer *peer, struct json_object *object);

/* Takes `object` over. 0, -ECONNRESET, -ENOMEM, -EMSGSIZE. */
int bench_link_send(struct control_link *link, struct json_object *object);
/* Waits for an object, until timeout_ns have passed, or a signal asks to stop and
 * `heeds_stop`. 0; -ETIMEDOUT; -EINTR; -ECONNRESET: the peer has gone; -EPROTO: it has sent what is
 * no object, or more than were received. */
int bench_link_receive(struct control_link *link, uint64_t timeout_ns, bool heeds_stop,
                       struct json_object **object);
/* Returns the message that the next bench_link_receive() returns, and leaves it there; NULL: none
 * has come. */
struct json_object *bench_link_first(const struct control_link *link);
/* 0: nothing to receive; 1: something; -ECONNRESET: the peer has gone. */
int bench_link_look(struct control_link *link);

/* A TCP port that nobody has at that numeric host now; 0: none. */
uint16_t bench_link_free_port(const char *host);
/* Such a port whose successor is free, too. */
uint16_t bench_link_free_ports(const char *host);

#endif
