/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel of a session: who is there, what both ends agree on,
 * endpoint addresses with descriptors, heartbeats, final counts.
 *
 * One thread of its own. The receiver binds, the sender connects and goes on
 * trying until connect_timeout_ns. Within one process both ends talk over a
 * socketpair. Callbacks come on the control thread and must not block; calls may
 * come from any thread, do not block, and copy what they are given.
 *
 * A stream's life on the wire:
 *   sender                          receiver
 *                                   ← HELLO        version, role, Unix socket, token
 *   (claims by the Unix socket      ↔)             which user, which connection: unix_fd.h
 *   HELLO   →                       ← HELLO        version, roles, host, pid
 *   OFFER(terms, params, address)   →              one a stream
 *                                   ← ACCEPT(params, address) | REFUSE(why)
 *   ADDRESS                         ↔              when an endpoint's has changed
 *   BEAT(counts)                    ↔              every heartbeat_ns
 *   FINISH(totals)                  →              with why there are no more, `stopped`
 *                                   ← COUNTS(totals)
 *   COUNTS(totals)                  →              then the stream is over
 *   FAIL(code, text, counts)        ↔              ends a stream early; the other side answers with
 *                                                  a FAIL that has its own last counts
 */
#ifndef PST_CONTROL_CONTROL_H
#define PST_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include <penstock/penstock.h>
#include <penstock/transport.h>

struct control;
struct control_limits;
struct stream_role;

/* The two roles of a stream's ends (streams.h). */
extern const struct stream_role stream_sender, stream_receiver;

#define CONTROL_TERMS_MAX 64  /* agreed values of a stream */
#define CONTROL_PARAMS_MAX 16 /* told by the sender */
#define CONTROL_ADDRESS_MAX 16384
#define CONTROL_MESSAGE_MAX 49152 /* bytes of a message between nodes without a transport */
/* Terms: the wire form, which both ends have the same; the transport's name, which tells a reader
 * whose it is; and before each option of the transport's, which is compared where both have it. */
#define CONTROL_TERM_WIRE "wire"
#define CONTROL_TERM_TRANSPORT "transport"
#define CONTROL_TERM_OPTION "transport."
#define CONTROL_KEY_MAX 63 /* bytes without NUL */
#define CONTROL_VALUE_MAX 255

struct control_pair {
  char key[CONTROL_KEY_MAX + 1];
  char value[CONTROL_VALUE_MAX + 1];
};

/* One stream as one side sees it. Terms are compared key by key, as text; a
 * difference is named with both values ("message: sender 8192 B, receiver 4096
 * B"), also a key that one side lacks. */
struct control_stream {
  const char *name;
  void *context; /* for the callbacks */
  const struct stream_role *role;
  const struct control_pair *terms; /* both must have the same */
  uint32_t term_count;
  const struct control_pair *params; /* what this side tells the other */
  uint32_t param_count;
  struct pst_blob address; /* of the endpoint; fds are duplicated here */
};

/* A side's account of a stream. Unknown is UINT64_MAX. */
struct control_totals {
  uint64_t messages; /* sender: sent; receiver: delivered without duplicates */
  uint64_t bytes;
  uint64_t last_sequence; /* sender: of the last message; UINT64_MAX when none */
  uint64_t duplicates;
  uint64_t reordered;
  uint64_t verified;
  uint64_t corrupted;
  uint64_t running_ns;
  uint32_t stopped; /* sender: enum pst_stop, why its messages have ended; 0: they have not */
  uint64_t blocked_ns[PST_STAGES];
  uint32_t drop_count;
  struct pst_drop drops[16];
};

struct control_peer {
  const char *text;                       /* "host, pid 4711, 127.0.0.1:41000" */
  const char *local_place, *remote_place; /* of a node's connection: "127.0.0.1:41000" */
  const struct control_pair *params;
  uint32_t param_count;
};

enum control_heard {
  CONTROL_HEARD_PEER,    /* the peer is there and agrees: connect the endpoint to its address */
  CONTROL_HEARD_ADDRESS, /* its endpoint has another address now */
  CONTROL_HEARD_BEAT,    /* its counts so far */
  CONTROL_HEARD_FINISH,  /* receiver: the sender has posted its last message */
  /* The peer's final counts. Sender: the receiver has everything it will get. Receiver: the sender
   * agrees; the stream is over. */
  CONTROL_HEARD_COUNTS,
  /* The stream has failed: refused, timed out, peer dead, or the peer's own word
   * (its code). Once; nothing follows. Already logged, with the peer's name. Not
   * heard of what this side itself said by control_fail. -EPROTO: terms differ,
   * or the peer broke the protocol; -EBUSY: taken by another sender; -ENOENT: the
   * receiver has no such stream; -EALREADY: it is over; -ETIMEDOUT: nobody came,
   * or the peer fell silent; -ECONNRESET: it died or left. `totals`: the peer's own
   * counts, its last, which it wants to have answered by control_fail() with this side's;
   * NULL: it did not say. */
  CONTROL_HEARD_FAIL,
  /* After control_fail(): the other side's last counts, which it has answered; NULL: there is
   * nobody who will. Once, unless FAIL has come instead. */
  CONTROL_HEARD_LAST,
};

/* A message about a stream, for the callback. Pointers are valid until the callback returns. */
struct control_stream_message {
  enum control_heard type;
  int code;                            /* FAIL */
  const char *text;                    /* FAIL */
  bool is_unsaid;                      /* FAIL: another process's word, which is in no log here */
  const struct control_peer *peer;     /* PEER */
  const struct pst_blob *address;      /* PEER, ADDRESS: its fds are closed after the callback */
  const struct control_totals *totals; /* BEAT, FINISH, COUNTS; FAIL, LAST: or NULL */
};

struct control_callbacks {
  void *context; /* the session's */
  void (*heard)(void *context, void *stream, const struct control_stream_message *message);
};

struct control_params {
  bool in_process;                     /* both ends here: no socket, no port */
  const char *listen;                  /* receivers: "host:port" */
  const char *connect;                 /* senders */
  bool insecure;                       /* beyond loopback, and of whatever user */
  const struct pst_tls_params *tls;    /* of both ways; NULL: none; not with in_process */
  uint64_t connect_timeout_ns;         /* 0: none */
  uint64_t heartbeat_ns;               /* 0: a second; at most a third of peer_timeout_ns is used */
  uint64_t peer_timeout_ns;            /* nothing heard for so long: dead; 0: never */
  const struct control_limits *limits; /* NULL: the usual ones */
};

/* Resolve and bind, start the thread; the streams are copied. *control is set before
 * the first callback comes. In *error: -EADDRINUSE, -EADDRNOTAVAIL, -EACCES
 * (binding); -EINVAL, -ENOENT, -EHOSTUNREACH (addresses, or
 * a stream without its other end in_process); -EPERM (beyond loopback without
 * `insecure`); -EEXIST (a stream twice); -E2BIG; -ENOMEM; -EMFILE. */
int control_open(const struct control_params *params, const struct control_callbacks *callbacks,
                 const struct control_stream *streams, uint32_t stream_count,
                 struct control **control, struct pst_error *error);
/* Returns the port of the first address that this end listens at; 0: it listens at none. */
uint16_t control_port(const struct control *control);
/* Tells peers of streams that are not over; joins the thread; callbacks have
 * ended when it returns. Messages of earlier calls still go out, which
 * control_close() awaits for at most a second. Not from a callback. Closing NULL
 * is legal. */
void control_close(struct control *control);

/* Sends the stream's new address to the peer. This and the next four name a stream by its context.
 * 0; -ENOENT: no such stream; -E2BIG; -ENOMEM. After the stream's end a call does nothing. */
int control_readdress(struct control *control, void *stream, const struct pst_blob *address);
/* Sends a heartbeat with the totals. Errors as control_readdress(). */
int control_beat(struct control *control, void *stream, const struct control_totals *totals);
/* Says that the sender has ended, with its totals; kept until the peer is there. -EINVAL: the
 * stream is a receiver; otherwise as control_readdress(). */
int control_finish(struct control *control, void *stream, const struct control_totals *totals);
/* Sends the final counts; kept until it is their turn. Errors as control_readdress(). */
int control_counts(struct control *control, void *stream, const struct control_totals *totals);
/* Says that the stream has failed. `totals` NULL: nothing is known. Errors as
 * control_readdress(). */
int control_fail(struct control *control, void *stream, int code, const char *text,
                 const struct control_totals *totals); /* NULL: nothing is known */

#endif
