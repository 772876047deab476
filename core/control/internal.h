/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel's inside. Everything here belongs to the control thread,
 * but for the mailbox of commands. A peer is freed only at the end of a round of
 * the loop (control.c), so that handlers may mark it dead anywhere.
 */
#ifndef PST_CONTROL_INTERNAL_H
#define PST_CONTROL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "nodes.h"
#include "side.h"
#include "socket.h"
#include "util/index.h"
#include "util/mailbox.h"
#include "wire.h"

#define REPORT_MAX 1024 /* a line for people, before it is cut for the wire */
#define GUESTS_MAX 64

struct peer;
struct stream;

/* What keeps a strange peer from harming others. */
struct control_limits {
  uint64_t answer_ns;    /* HELLO, a frame once begun, an answer to OFFER, descriptors */
  uint64_t idle_ns;      /* a peer that has no stream here */
  uint64_t drain_ns;     /* what a closing connection may still take */
  uint64_t notice_ns;    /* between two lines that say for whom we wait */
  uint32_t peers_max;    /* connections at a time */
  uint32_t refusals_max; /* OFFERs of one peer that were refused */
};
extern const struct control_limits control_default_limits;

/* Pairs of a key and a value: what both ends must have the same, or what one tells the other. */
struct terms {
  struct control_pair *pairs; /* ours */
  uint32_t count;
};

/* An attempt to connect to a node: its addresses are tried one after the other. */
struct node_join {
  uint64_t id;
  bool is_insecure;
  uint64_t by_ns;
  struct socket_addresses targets;
  uint32_t next;
  struct pst_blob address; /* of the endpoint; bytes and descriptors are ours */
  bool is_stale;           /* JOIN has told an older one */
  /* Hung up on before HELLO: the same target again at again_ns, until again_until_ns. */
  struct node_join *later;
  uint64_t again_ns, again_until_ns;
  char why[WIRE_WHY_MAX];
};

struct command {
  struct mail mail;                /* its blob: an address, a packed region, or a message's bytes */
  struct control_node_message say; /* of streams: type and code; text and blob are here */
  struct stream *stream;
  struct control_totals totals;
  bool has_totals;
  struct node_join *join;
  char text[WIRE_TEXT_MAX + 1];
};

/* A message that has come. */
struct message_in {
  struct peer *peer;
  struct stream *stream; /* which it names; NULL: none, or of nodes */
  const struct wire_message *message;
  const struct side_fds *fds; /* all of its descriptors, or none */
};

/* What peers talk about: streams (stream_proto.c), or a node's regions (node_proto.c). */
struct control_protocol {
  uint32_t connector, acceptor; /* enum wire_role */
  const char *connector_name, *acceptor_name;
  const char *what; /* its messages are for */
  const char *idle; /* what one has not done that is dropped for idleness */
  /* The connector's peer has said HELLO. */
  void (*up)(struct peer *peer);
  /* May it come now? Finds its stream. If not, its peer is dropped, or one of ours crossed it. */
  bool (*admits)(struct message_in *in);
  void (*got[WIRE_TYPES])(const struct message_in *in);
  /* Is there anything that needs this peer? */
  bool (*has)(const struct peer *peer, bool live_only);
  /* What, for people; NULL: peers that go are no error of ours. */
  void (*names)(const struct peer *peer, char *text, size_t size);
  void (*fail_peer)(struct peer *peer, int code, const char *text);
  /* A connector is lost before anything was live. */
  void (*retry)(struct peer *peer, int code, const char *why);
  void (*forget)(struct peer *peer); /* it is freed */
  void (*command)(struct control *control, struct command *command);
  void (*close_all)(struct control *control);
  void (*tick)(struct control *control); /* acts on what is due: control_is_due() */
};

/* How an address is named to whoever wrote it. */
struct connect_words {
  const char *listen, *connect;
  const char *insecure; /* what allows one beyond loopback */
  const char *is_set;   /* and what to call that */
  const char *check, *in_use, *not_ours;
};

/* What a node's control channel has more. */
struct node_control {
  struct control_node_params asked; /* without what it points to, but for the context */
  struct connect_words words;       /* with the program's own word for `insecure` */
  char insecure_text[64];
  struct terms terms, params;
  uint64_t last_id;        /* of the peers that came */
  struct node_join *later; /* between two tries */
};

enum watch_kind {
  WATCH_WAKE,
  WATCH_LISTENER,
  WATCH_SIDE_LISTENER,
  WATCH_PEER,
  WATCH_PEER_SIDE,
  WATCH_GUEST,
};

/* A descriptor that the control thread waits for: what epoll hands back. */
struct watch {
  enum watch_kind kind;
  int fd; /* -1: none */
  uint32_t events;
  void *owner;
};

/* A connection to the side-socket that has not made its claim. */
struct guest {
  struct watch watch; /* without a descriptor: a free place */
  uint64_t number;    /* in the order of their coming */
  uint64_t claim_by_ns;
};

struct control {
  const struct control_protocol *protocol;
  const struct connect_words *words;
  struct node_control node;
  struct control_callbacks callbacks;
  struct control_limits limits;
  bool in_process;
  uint64_t connect_timeout_ns;
  uint64_t heartbeat_ns;
  uint64_t peer_timeout_ns;
  struct stream *streams;
  uint32_t stream_count;
  struct index_entry *names; /* of the streams */
  struct stream **contexts;  /* the streams in the order of their contexts */
  bool quiet;                /* closing: no more callbacks */
  uint64_t opened_ns;
  uint64_t now_ns;  /* of this round */
  uint64_t next_ns; /* of the next: control_is_due() */

  int epoll_fd;
  struct watch wake;
  struct peer *peers;
  uint32_t peer_count;
  struct guest guests[GUESTS_MAX];
  uint64_t guest_last;
  char host[WIRE_HOST_MAX + 1];

  /* Receivers. */
  char *listen_text;
  struct watch listeners[SOCKET_ADDRESSES_MAX];
  uint32_t listener_count;
  uint32_t listeners_ready; /* bits: in this round */
  bool listen_insecure;
  struct watch side_watch;
  struct side_listener side;
  uint64_t accept_again_ns; /* out of descriptors: not before; 0: accepting */
  int spare_fd;             /* given up to tell one that there are no more; -1 */
  uint64_t listen_notice_ns;

  /* Senders. */
  bool connect_insecure;
  char *connect_text;
  struct socket_addresses targets;
  uint32_t target_next;
  struct peer *link;
  uint64_t connect_at_ns; /* 0: not waiting to try again */
  uint64_t connect_pause_ns;
  uint64_t connect_notice_ns;
  char connect_why[WIRE_WHY_MAX]; /* of the last attempt */

  /* Lines about peers without streams: a bucket, or one flood would bury the log. */
  uint32_t complaints_left;
  uint32_t complaints_hidden;
  uint64_t complaints_refill_ns;

  /* Too large for the stack. */
  struct wire_message got;
  struct wire_message say;
  uint8_t frame[WIRE_FRAME_MAX];

  pthread_t thread;
  struct mailbox commands;
  atomic_bool is_stopping;
};

/* ---- control.c ---- */
static inline bool control_is_own_thread(const struct control *control)
{
  return pthread_equal(pthread_self(), control->thread);
}
/* Of either protocol, without its thread. */
int control_new(const struct control_params *params, const struct control_protocol *protocol,
                struct control **control, struct pst_error *error);
/* If rc, of what is peculiar to the protocol, is 0, begin the thread; or free it. */
int control_start(struct control *control, int rc, struct control **result,
                  struct pst_error *error);
/* Hands over a copy of a command, with what it points to. Any thread. 0; -ENOMEM, -EMFILE,
 * -E2BIG. */
int commands_say(struct control *control, const struct command *what);

static inline uint64_t sooner(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* Is it that late? If so, what is done now may make more due, and the thread comes again at once;
 * if not, by then. */
static inline bool control_is_due(struct control *control, uint64_t at_ns)
{
  const bool is_due = control->now_ns >= at_ns;

  control->next_ns = sooner(control->next_ns, is_due ? control->now_ns : at_ns);
  return is_due;
}

/* ---- epoll.c ---- */
int watch_set(struct control *control, struct watch *watch, uint32_t events);
/* Its descriptor, which is watched no longer; -1. */
int watch_release(struct control *control, struct watch *watch);
void watch_close(struct control *control, struct watch *watch);
/* As watch_close(), but another thread closes it: unread descriptors of a peer's may be in it. */
void watch_discard(struct control *control, struct watch *watch);

/* ---- rate_limited_log.c ---- */
/* A line about somebody who has no stream here, rate-limited. */
void control_complain(struct control *control, int level, const char *format, ...) PST_PRINTF(3, 4);

/* ---- messages.c: what those of streams and of nodes have alike ---- */
/* Cleared. The control thread makes one message at a time. */
struct wire_message *message_new(struct control *control, enum wire_type type);
/* With -errno and why. */
struct wire_message *message_new_text(struct control *control, enum wire_type type, int code,
                                      const char *text);
/* Either may be NULL: it has none. */
void message_put_terms(struct wire_message *message, const struct terms *terms,
                       const struct terms *params);
/* Send it with an address, or a packed region, and the blob's descriptors. */
void message_send_blob(struct peer *peer, struct wire_message *message,
                       const struct pst_blob *blob);
/* The address or region in a message; its descriptors are closed after the handler. */
struct pst_blob message_blob(const struct message_in *in);
/* Give a message of a connection that is up to its handler in the protocol's table. */
void message_got(struct peer *peer, const struct wire_message *message, const struct side_fds *fds);
int blob_copy(const struct pst_blob *from, uint32_t length_max, struct pst_blob *to);
/* What differs, in words; the connector's are the `sender`'s. "": nothing. */
bool terms_compare(const struct terms *terms, const struct wire_message *offer,
                   const char *const ends[2], char *text, size_t size);
int terms_copy(const struct control_pair *from, uint32_t count, struct terms *to);
void terms_free(struct terms *terms);
void seconds_text(uint64_t ns, char text[24]);

/* ---- listener.c ---- */
extern const struct connect_words address_stream_words;
/* The addresses behind "host:port", if they may be used; any thread. */
int address_resolve(const struct control *control, const char *address, bool listener,
                    bool insecure, struct socket_addresses *addresses, struct pst_error *error);
int listener_open(struct control *control, const char *address, bool insecure,
                  struct pst_error *error);
void listener_accept(struct control *control, struct watch *listener);
/* There was a spare descriptor, and its place is free. */
bool listener_use_spare(struct control *control);
/* Nobody can be let in there, by `code`: not watched for a while. */
void listener_pause(struct control *control, struct watch *watches, uint32_t count, int code);
/* The same without a line in the log. */
void listener_rest(struct control *control, struct watch *watches, uint32_t count);
void listener_tick(struct control *control);

/* ---- node_proto.c, nodes.c ---- */
extern const struct control_protocol node_protocol;
/* Tries the next address; there is none: the attempt ends as the last one did, by `code` and
 * `why`. Takes `join` over. */
void node_dial(struct control *control, struct node_join *join, int code, const char *why);
/* The connection is lost before WELCOME. */
void node_dial_retry(struct peer *peer, int code, const char *why);
/* For a peer that is between two tries. */
void node_dial_command(struct control *control, struct command *command);
void node_dial_tick(struct control *control);
void node_dial_close_all(struct control *control);
void node_join_free(struct node_join *join);
/* Before WELCOME, which belongs to the address that JOIN told. Takes the blob over. */
void node_keep_address(struct node_join *join, struct pst_blob *address);
void node_tell_gone(struct control *control, uint64_t id, int code, const char *text);

#endif
