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
#include "nodes.h"
#include "side.h"
#include "socket.h"
#include "util/index.h"
#include "wire.h"

#define PEER_TEXT_MAX 192
#define SIDE_QUEUE 16
#define REPORT_MAX 1024 /* a line for people, before it is cut for the wire */

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

enum watch_kind {
  WATCH_WAKE,
  WATCH_LISTENER,
  WATCH_SIDE_LISTENER,
  WATCH_PEER,
  WATCH_PEER_SIDE,
  WATCH_GUEST,
};

/* What epoll hands back. */
struct watch {
  enum watch_kind kind;
  int fd; /* -1: none */
  uint32_t events;
  void *owner;
};

enum stream_state {
  STREAM_WAITING, /* for a peer */
  STREAM_OFFERED, /* sender: for its answer */
  STREAM_LIVE,
  STREAM_OVER,
  STREAM_FAILED,
};

struct stream {
  char name[WIRE_STREAM_MAX + 1];
  void *context;
  bool is_sender;
  enum stream_state state;
  struct control_pair *terms;
  struct control_pair *params;
  uint32_t term_count;
  uint32_t param_count;
  struct pst_blob address; /* bytes and descriptors are ours */
  struct pst_blob remote;  /* likewise */
  uint64_t remote_length;
  struct peer *peer; /* OFFERED, LIVE */
  struct peer *last; /* FAILED: whose last counts may come, or, with `owes`, who wants ours */
  bool owes;
  uint64_t answer_by_ns; /* OFFERED */
  bool finish_wanted;    /* asked for by the session, perhaps too early to be sent */
  bool finish_done;      /* sender: sent; receiver: got */
  bool counts_wanted;
  bool counts_sent;
  bool counts_got;
  struct control_totals finish;
  struct control_totals counts;
  int fail_code;
  char fail_text[WIRE_TEXT_MAX + 1];
};

enum peer_state {
  PEER_CONNECTING, /* connector: TCP */
  PEER_HELLO,      /* for the other's HELLO */
  PEER_CLAIMING,   /* connector: for the answer by the side-socket */
  PEER_NAMING,     /* connector: for the other's identity */
  PEER_UP,
  PEER_CLOSING, /* our last bytes go out, what comes is thrown away */
  PEER_DEAD,    /* freed at the end of the round */
};

enum side_state {
  SIDE_NONE,     /* another host, another user's, or it has ended */
  SIDE_CLAIMING, /* connector: until it is answered */
  SIDE_OPEN,
};

enum node_state {
  NODE_STRANGE, /* no JOIN yet */
  NODE_JOINING, /* connector: until WELCOME; acceptor: until the node's thread has answered */
  NODE_JOINED,
  NODE_OVER, /* the node knows, or has said so */
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

struct node_region {
  uint32_t id; /* 0: a free place */
  bool is_withdrawn;
};

/* What nodes.c keeps of a peer. */
struct node_link {
  enum node_state state;
  uint64_t id;
  uint64_t by_ns; /* JOINING */
  struct node_join *join;
  /* What it offers, node_offers_max places: those that the node has not done with, since each
   * holds memory and descriptors of ours. */
  struct node_region *regions;
  uint32_t offered; /* ours that it has not answered */
};

struct side_out {
  struct side_out *next;
  struct side_fds batch;
};

struct peer {
  struct peer *next;
  struct control *control;
  bool is_connector; /* our senders' connection; else one that our listener took */
  bool in_process;
  bool must_show; /* its user by the side-socket, before it is believed */
  enum peer_state state;
  struct watch main;
  struct watch side;
  enum side_state side_state;
  char text[PEER_TEXT_MAX];
  char place[SOCKET_TEXT_MAX];
  uint8_t token[WIRE_TOKEN_BYTES]; /* what opens its side-socket, acceptor's choice */

  uint8_t *in;
  size_t in_length, in_capacity;
  bool awaits_fds; /* the next frame's descriptors are not here yet: reading stops */
  uint8_t *out;
  size_t out_at, out_length, out_capacity;
  bool out_broken; /* nobody takes it any more; reading will tell why */
  bool out_shut;
  bool is_silent; /* nobody is there to take what the kernel still holds */

  struct side_fds side_in[SIDE_QUEUE];
  uint32_t side_in_count;
  struct side_out *side_out;
  uint64_t side_id;

  uint64_t born_ns;
  uint64_t answer_by_ns; /* handshake, or the end of closing */
  uint64_t frame_by_ns;  /* 0: no frame begun */
  uint64_t fds_by_ns;
  uint64_t heard_ns;
  uint64_t sent_ns;
  uint64_t taken_ns;      /* when it last took bytes of ours, or there were none */
  uint64_t idle_since_ns; /* 0: it has streams */
  uint32_t refusals;
  bool had_stream;
  struct node_link node;
};

/* A connection to the side-socket that has not made its claim. */
struct guest {
  struct guest *next;
  struct control *control;
  struct watch watch;
  uint64_t claim_by_ns;
};

struct command {
  struct command *next;
  enum wire_type type;
  struct stream *stream;
  struct control_totals totals;
  bool has_totals;
  struct pst_blob address;
  uint64_t node; /* of nodes: the peer */
  uint32_t region;
  uint32_t access;
  uint64_t length;
  struct node_join *join;
  int code;
  char text[WIRE_TEXT_MAX + 1];
};

/* What peers talk about: streams (flow.c), or a node's regions (nodes.c). */
struct control_flow {
  uint32_t connector, acceptor; /* enum wire_role */
  bool is_quiet;                /* peers that go are no error of ours */
  const char *idle;             /* what one has not done that is dropped for idleness */
  /* The connector's peer has said HELLO. */
  void (*up)(struct peer *peer);
  void (*got)(struct peer *peer, const struct wire_message *message, const struct side_fds *fds);
  /* Is there anything that needs this peer? */
  bool (*has)(const struct peer *peer, bool live_only);
  /* What, for people. */
  void (*names)(const struct control *control, const struct peer *peer, char *text, size_t size);
  void (*fail_peer)(struct peer *peer, int code, const char *text);
  /* A connector is lost before anything was live. */
  void (*retry)(struct peer *peer, int code, const char *why);
  void (*forget)(struct peer *peer); /* it is freed; may be NULL */
  void (*command)(struct control *control, struct command *command);
  void (*close_all)(struct control *control);
  uint64_t (*tick)(struct control *control);
};

/* How an address is named to whoever wrote it. */
struct connect_words {
  const char *listen, *connect;
  const char *insecure; /* what allows one beyond loopback */
  const char *is_set;   /* and what to call that */
  const char *check, *in_use, *not_ours;
};

struct control {
  const struct control_flow *flow;
  const struct connect_words *words;
  struct control_node_callbacks node_callbacks;
  struct control_pair *node_terms;
  struct control_pair *node_params;
  uint32_t node_term_count, node_param_count;
  uint32_t node_offers_max;
  bool node_needs_fds;
  uint64_t node_last; /* of the peers that came */
  struct node_join *node_later;
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
/* Of either flow, when what is peculiar to it is there: listens, begins the thread. */
struct control *control_new(const struct control_params *params,
                            const struct control_limits *limits, const struct control_flow *flow);
int control_ready(struct control *control, struct pst_error *error);
int control_run(struct control *control, struct control **result, struct pst_error *error);
void control_free(struct control *control);
/* Takes the command over. */
void control_submit(struct control *control, struct command *command);
/* A warning about somebody who has no stream here, rate-limited. */
void control_complain(struct control *control, const char *format, ...) PST_PRINTF(2, 3);
/* An error of this process, of which nobody else here is told. Likewise. */
void control_own_fault(struct control *control, const char *format, ...) PST_PRINTF(2, 3);

/* ---- streams.c: they do not change after open, so any thread may look them up ---- */
int streams_copy(struct control *control, const struct control_stream *streams, uint32_t count,
                 struct pst_error *error);
void streams_free(struct control *control);
struct stream *streams_find(const struct control *control, const char *name, bool is_sender);
struct stream *streams_of_context(const struct control *control, void *context);

/* ---- watch.c ---- */
int watch_set(struct control *control, struct watch *watch, uint32_t events);
void watch_close(struct control *control, struct watch *watch);
/* Likewise, but another thread closes it: unread descriptors of a peer's may be in it. */
void watch_discard(struct control *control, struct watch *watch);

/* ---- names.c ---- */
/* "a, b and 3 more": streams of that side in that state (or of that peer). */
void names_list(const struct control *control, bool senders, enum stream_state state, char *text,
                size_t size);
void names_of_peer(const struct control *control, const struct peer *peer, char *text, size_t size);
void seconds_text(uint64_t ns, char text[24]);
int blob_copy(const struct pst_blob *from, struct pst_blob *to);
void blob_free(struct pst_blob *blob);

/* ---- connect.c: listening, connecting, the waiting for each other ---- */
int connect_listen(struct control *control, const char *address, bool insecure,
                   struct pst_error *error);
int connect_resolve(struct control *control, const char *address, bool insecure,
                    struct pst_error *error);
/* The addresses of one to connect to; any thread. */
int connect_targets(const struct control *control, const char *address, bool insecure,
                    struct socket_addresses *targets, struct pst_error *error);
/* A peer that connects there; NULL: -errno in *code. */
struct peer *connect_begin(struct control *control, const struct socket_address *target,
                           bool insecure, int *code);
extern const struct connect_words connect_stream_words;
void connect_accept(struct control *control, struct watch *listener);
/* The senders' connection has come to nothing before a stream was live. */
void connect_again(struct control *control, const char *why);
/* There was a spare descriptor, and its place is free. */
bool connect_use_spare(struct control *control);
/* As the peers' and flow's below: acts on what is due, returns when to come again. */
uint64_t connect_tick(struct control *control);

/* ---- peer.c: a connection's bytes and its life ---- */
struct peer *peer_new(struct control *control, int fd, bool is_connector);
void peer_free(struct peer *peer);
void peer_event(struct peer *peer, uint32_t events);
uint64_t peer_tick(struct peer *peer);
void peer_process(struct peer *peer);
/* Queue a frame; what goes wrong shows when the peer is next read. */
void peer_send(struct peer *peer, const struct wire_message *message);
void peer_watch(struct peer *peer);
/* Say BYE (code 0: without a reason), let the last bytes out, then close. */
void peer_close(struct peer *peer, int code, const char *text);
/* End it for a fault of its own: one line, its streams fail, it is told. */
void peer_drop(struct peer *peer, int code, const char *format, ...) PST_PRINTF(3, 4);
/* End it for -errno of this process, which `what`: "has no room for it". Likewise. */
void peer_fail(struct peer *peer, int code, const char *what);
/* It is gone: one line, its streams fail; a connector without live ones tries
 * again. */
void peer_gone(struct peer *peer, int code, const char *why);

/* ---- handshake.c: HELLO ---- */
void handshake_open(struct peer *peer);
void handshake_got_hello(struct peer *peer, const struct wire_message *hello);
/* Connector: the side-socket is open, or (rc < 0) will not be. */
void handshake_side(struct peer *peer, int rc);
/* Connector: its time is over. Whether the side-socket was closed on it; then it is dropped. */
bool handshake_has_no_reason(struct peer *peer);

/* ---- pass.c: descriptors by the side-socket ---- */
/* Descriptors of the frame to be sent next: sets fd_id and the counts, to none where
 * there is no side-socket. remote NULL: there is none. False: the peer is ended. */
bool pass_send(struct peer *peer, const struct pst_blob *address, const struct pst_blob *remote,
               struct wire_message *message);
/* The descriptors of a frame. 0; -EAGAIN: still on their way; -EPROTO. */
int pass_take(struct peer *peer, const struct wire_message *message, struct side_fds *batch);
void pass_event(struct peer *peer, uint32_t events);
void pass_close(struct peer *peer);
/* Connector: makes its claim at the side-socket of that path. 0: the answer comes by
 * handshake_side(); or -errno, -EACCES with *uid: another user's. */
int pass_claim(struct peer *peer, const char *path, uint32_t *uid);
void pass_accept(struct control *control);
void pass_guest_event(struct guest *guest);
/* Frees guests that are through, closes those too slow. */
uint64_t pass_tick(struct control *control);
void pass_close_guests(struct control *control);
void pass_unlisten(struct control *control);

/* ---- flow.c: a stream's life ---- */
extern const struct control_flow flow_streams;
/* Without a line. */
void flow_fail(struct control *control, struct stream *stream, int code, const char *text);
/* What differs, in words; the connector's are the `sender`'s. "": nothing. */
bool flow_compare_terms(const struct control_pair *terms, uint32_t count,
                        const struct wire_message *offer, const char *const ends[2], char *text,
                        size_t size);
struct pst_blob flow_blob(const uint8_t *bytes, uint32_t length, const int *fds, uint32_t fd_count);
int flow_copy_pairs(const struct control_pair *from, uint32_t count, struct control_pair **to);

/* ---- nodes.c: peers that come and go ---- */
extern const struct control_flow flow_nodes;
void node_join_free(struct node_join *join);

static inline uint64_t sooner(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

#endif
