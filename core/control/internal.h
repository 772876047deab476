/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel's inside. Everything here belongs to the control thread,
 * but for the queue of commands behind the mutex. A peer is freed only at the end
 * of a round of the loop (control.c), so that handlers may mark it dead anywhere.
 */
#ifndef PST_CONTROL_INTERNAL_H
#define PST_CONTROL_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "epoll.h"
#include "messages.h"
#include "nodes.h"
#include "side.h"
#include "socket.h"
#include "terms.h"
#include "util/blob.h"
#include "util/index.h"
#include "wire.h"

#define REPORT_MAX 1024 /* a line for people, before it is cut for the wire */

struct guest;
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
  struct command *next;
  enum wire_type type;
  struct stream *stream;
  struct control_totals totals;
  bool has_totals;
  struct pst_blob blob; /* an address, a packed region, or a message's bytes */
  uint64_t node;        /* of nodes: the peer */
  uint32_t region;
  uint32_t access;
  uint32_t count;
  uint64_t length;
  struct node_join *join;
  int code;
  char text[WIRE_TEXT_MAX + 1];
};

/* What peers talk about: streams (stream_proto.c), or a node's regions (node_proto.c). */
struct control_protocol {
  uint32_t connector, acceptor; /* enum wire_role */
  const char *what;             /* its messages are for */
  const char *idle;             /* what one has not done that is dropped for idleness */
  /* The connector's peer has said HELLO. */
  void (*up)(struct peer *peer);
  /* May it come now? Finds its stream. If not, its peer is dropped, or one of ours crossed it. */
  bool (*admits)(struct message_in *in);
  void (*got[WIRE_TYPES])(const struct message_in *in);
  /* Is there anything that needs this peer? */
  bool (*has)(const struct peer *peer, bool live_only);
  /* What, for people; NULL: peers that go are no error of ours. */
  void (*names)(const struct control *control, const struct peer *peer, char *text, size_t size);
  void (*fail_peer)(struct peer *peer, int code, const char *text);
  /* A connector is lost before anything was live. */
  void (*retry)(struct peer *peer, int code, const char *why);
  void (*forget)(struct peer *peer); /* it is freed; may be NULL */
  void (*command)(struct control *control, struct command *command);
  void (*close_all)(struct control *control);
  uint64_t (*tick)(struct control *control);
  /* Acts for want of peers, returns when to come again; may be NULL. */
  uint64_t (*wait)(struct control *control);
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
  void (*heard)(void *context, const struct control_node_message *message);
  void *context;
  struct connect_words words; /* with the program's own word for `insecure` */
  char insecure_text[64];
  struct terms terms, params;
  uint32_t offers_max, messages_max;
  bool needs_fds;
  uint64_t last_id;        /* of the peers that came */
  struct node_join *later; /* between two tries */
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
  uint64_t now_ns; /* of this round */

  int epoll_fd;
  struct watch wake;
  struct peer *peers;
  uint32_t peer_count;
  struct guest *guests;
  uint32_t guest_count;
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
  pthread_mutex_t mutex;
  struct command *commands; /* under the mutex, as are the two below */
  struct command **commands_end;
  bool stopping;
};

/* ---- control.c ---- */
int control_open_limited(const struct control_params *params, const struct control_limits *limits,
                         const struct control_callbacks *callbacks,
                         const struct control_stream *streams, uint32_t stream_count,
                         struct control **control, struct pst_error *error);
/* Of the first listener; 0: none. Safe once open. */
uint16_t control_port(const struct control *control);
/* Of either protocol, when what is peculiar to it is there: listens, begins the thread. */
struct control *control_new(const struct control_params *params,
                            const struct control_limits *limits,
                            const struct control_protocol *protocol);
int control_ready(struct control *control, struct pst_error *error);
int control_run(struct control *control, struct control **result, struct pst_error *error);
void control_free(struct control *control);
/* ---- control.c ---- */
/* Hands over a copy of a command, with copies of a blob and a text, or without. Any thread.
 * 0; -ENOMEM, -EMFILE, -E2BIG. */
int commands_say(struct control *control, const struct command *what, const struct pst_blob *blob,
                 const char *text);
/* Takes the command over; any thread. */
void commands_submit(struct control *control, struct command *command);
void command_free(struct command *command);

/* ---- rate_limited_log.c ---- */
/* A warning about somebody who has no stream here, rate-limited. */
void control_complain(struct control *control, const char *format, ...) PST_PRINTF(2, 3);
/* An error of this process, of which nobody else here is told. Likewise. */
void control_own_fault(struct control *control, const char *format, ...) PST_PRINTF(2, 3);

/* ---- messages.c ---- */
int blob_copy(const struct pst_blob *from, uint32_t length_max, struct pst_blob *to);
/* Of what somebody else keeps. */
struct pst_blob blob_view(const uint8_t *bytes, uint32_t length, const int *fds, uint32_t fd_count);

void seconds_text(uint64_t ns, char text[24]);

static inline uint64_t sooner(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

#endif
