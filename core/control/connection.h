/* SPDX-License-Identifier: Apache-2.0 */
/* One connection of the control channel. */
#ifndef PST_CONTROL_PEER_H
#define PST_CONTROL_PEER_H

#include <assert.h>

#include "loop.h"
#include "tls.h"

#define PEER_TEXT_MAX 192
#define FD_CHANNEL_QUEUE 16
/* With so much unread by it, a peer is not listened to: its questions cannot pile
 * up answers here. */
#define PEER_BACKLOG_BYTES (256u * 1024)
#define PEER_INPUT_KEPT_BYTES 16384

enum peer_state {
  PEER_CONNECTING, /* connector: TCP */
  PEER_SECURING,   /* TLS: its handshake; without TLS nobody is in it */
  PEER_HELLO,      /* for the other's HELLO */
  PEER_CLAIMING,   /* connector: for the answer by the Unix socket */
  PEER_NAMING,     /* connector: for the other's identity */
  PEER_UP,
  PEER_CLOSING, /* our last bytes go out, what comes is thrown away */
  PEER_DEAD,    /* freed at the end of the round */
};

enum fd_channel_state {
  FD_CHANNEL_NONE,     /* another host, another user's, or it has ended */
  FD_CHANNEL_CLAIMING, /* connector: until it is answered */
  FD_CHANNEL_OPEN,
};

enum node_state {
  NODE_STRANGE, /* no JOIN yet */
  NODE_JOINING, /* connector: until WELCOME; acceptor: until the node's thread has answered */
  NODE_JOINED,
  NODE_OVER, /* the node knows, or has said so */
};

struct node_region {
  uint32_t id; /* 0: a free place */
  bool is_withdrawn;
};

/* State of a peer that node_proto.c keeps. */
struct node_link {
  enum node_state state;
  uint64_t id;
  uint64_t by_ns; /* JOINING */
  struct node_join *join;
  /* Regions that the peer offers, node_offers_max places: those that the node has not done with,
   * since each holds memory and descriptors of ours. */
  struct node_region *regions;
  uint32_t offered; /* ours that it has not answered */
  uint32_t held;    /* messages of its that the node has not taken */
  uint64_t sent;    /* ours that it has not taken */
};

struct fd_channel_out {
  struct fd_channel_out *next;
  uint64_t id;
  struct pst_blob fds; /* ours */
};

struct connection {
  struct connection *next;
  struct control *control;
  bool is_connector; /* our senders' connection; else one that our listener took */
  bool in_process;
  bool is_insecure;
  bool must_show; /* its user by the Unix socket, before it is believed */
  enum peer_state state;
  struct tls_session *tls; /* NULL: none */
  char *tls_host;          /* connector with TLS: what it connects to, "host:port" */
  bool tls_began;          /* bytes of it have come */
  int refusal;             /* -errno: let in by TLS alone to hear that there is no room for it */
  bool has_unread;         /* reading stopped before all that was received was read */
  struct watch main;
  struct watch fd_channel;
  enum fd_channel_state fd_channel_state;
  char text[PEER_TEXT_MAX];
  char place[SOCKET_TEXT_MAX];
  uint8_t token[WIRE_TOKEN_BYTES]; /* what opens its Unix socket, acceptor's choice */

  uint8_t *in;
  size_t in_length, in_capacity;
  bool awaits_fds; /* the next frame's descriptors are not here yet: reading stops */
  uint8_t *out;
  size_t out_at, out_length, out_capacity;
  bool out_broken; /* nobody takes it any more; reading will tell why */
  bool out_shut;
  bool is_silent; /* nobody is there to take what the kernel still holds */

  struct unix_fds fd_channel_in[FD_CHANNEL_QUEUE];
  uint32_t fd_channel_in_count;
  struct fd_channel_out *fd_channel_out;
  uint64_t fd_channel_id;

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

/* ---- connection.c: its life, and what goes out ---- */
/* Takes the descriptor over. NULL: out of memory. */
struct connection *connection_new(struct control *control, int fd, enum peer_state state,
                                  bool is_connector);
/* A peer that connects there, to one of the addresses of host_port; NULL: -errno in *code. */
struct connection *connection_connect(struct control *control, const struct socket_address *target,
                                      const char *host_port, bool insecure, int *code);
/* Enters a state, which only goes forward. */
static inline void peer_enter(struct connection *peer, enum peer_state state)
{
  assert(state >= peer->state);
  peer->state = state;
}

void connection_free(struct connection *peer);
/* Queue a frame; what goes wrong shows when the peer is next read. */
void connection_send(struct connection *peer, const struct wire_message *message);
void connection_watch(struct connection *peer);
/* Say BYE (code 0: without a reason), let the last bytes out, then close. */
void connection_close(struct connection *peer, int code, const char *text);
/* End it for a fault of the peer: one line is logged, its streams fail, and the peer learns why. */
void connection_drop(struct connection *peer, int code, const char *format, ...) PST_PRINTF(3, 4);
/* End it for -errno of this process, which `what` names: "has no room for it". */
void connection_fail(struct connection *peer, int code, const char *what);
/* Ends a connection that is gone: one line, its streams fail; a connector without live ones tries
 * again. */
void connection_gone(struct connection *peer, int code, const char *why);
/* BYE alone; the connection stays. */
void connection_send_bye(struct connection *peer, int code, const char *text);
void connection_flush(struct connection *peer);
/* Queue bytes for the socket as they are. 0, -ENOMEM. */
int connection_queue(struct connection *peer, const uint8_t *bytes, size_t length);
/* Queue what TLS has for the peer. 0; -ENOMEM: the connection is broken off. */
int connection_queue_tls(struct connection *peer);
bool connection_is_reading(const struct connection *peer);
void connection_free_input(struct connection *peer);

/* ---- connection_events.c: what comes in ---- */
void connection_event(struct connection *peer, uint32_t events);
void connection_unix_event(struct connection *peer, uint32_t events);
/* The socket has ended, with 0 or -errno. */
void connection_read_lost(struct connection *peer, int code);
/* Acts on what is due. */
void connection_tick(struct connection *peer);

/* ---- connection_tls.c: TLS, where this end has it ---- */
/* Before HELLO. False: it is dead. */
bool connection_begin_tls(struct connection *peer);
/* Goes on with the handshake. */
void connection_secure(struct connection *peer);
/* As recv(2): how many bytes; 0: its end; -errno; -EACCES with why: TLS is broken. */
ssize_t connection_receive(struct connection *peer, void *to, size_t size, char why[TLS_WHY_MAX]);
/* Drops a peer whose time for the handshake is over, or that has begun no TLS in half of it.
 * Whether it was dropped. */
bool connection_check_tls(struct connection *peer);

/* ---- handshake.c: HELLO ---- */
void handshake_open(struct connection *peer);
void handshake_got_hello(struct connection *peer, const struct wire_message *hello);
/* Connector: the Unix socket is open, or (rc < 0) will not be. */
void handshake_side(struct connection *peer, int rc);
/* Connector: its time is over. Whether the Unix socket was closed on it; then it is dropped. */
bool handshake_has_no_reason(struct connection *peer);

/* ---- fd_channel.c: descriptors by the Unix socket ---- */
/* Descriptors of the frame to be sent next: sets fd_id and fd_count, to none where there is no
 * Unix socket. False: the peer is ended. */
bool fd_channel_send(struct connection *peer, const struct pst_blob *blob,
                     struct wire_message *message);
/* The descriptors of a frame. 0; -EAGAIN: still on their way; -EPROTO. */
int fd_channel_take(struct connection *peer, const struct wire_message *message,
                    struct unix_fds *batch);
/* Handles events of the descriptor channel, which is open. False: that was its end, or the
 * peer's. */
bool fd_channel_event(struct connection *peer, uint32_t events);
void fd_channel_watch(struct connection *peer);
void fd_channel_close(struct connection *peer);
/* Connector: makes its claim at the Unix socket of that path. 0: the answer follows;
 * or -errno, -EACCES with *uid: another user's. */
int fd_channel_claim(struct connection *peer, const char *path, uint32_t *uid);
/* The answer, in *code: 0, or -errno. False: it has not come yet. */
bool fd_channel_got_answer(struct connection *peer, int *code);

/* ---- unix_pending.c: connections to the Unix socket before their claim ---- */
void unix_pending_accept(struct control *control);
void unix_pending_event(struct control *control, struct unix_pending *pending);
/* Closes those too slow. */
void unix_pending_tick(struct control *control);
void unix_pending_close(struct control *control);
void unix_pending_unlisten(struct control *control);

#endif
