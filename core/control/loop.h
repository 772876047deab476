/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control channel, and its thread's loop. Everything here belongs to that thread, but for the
 * mailbox of commands. A peer is freed only at the end of a round (control.c), so that handlers may
 * mark it dead anywhere.
 */
#ifndef PST_CONTROL_LOOP_H
#define PST_CONTROL_LOOP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "control.h"
#include "socket.h"
#include "unix_fd.h"
#include "util/mailbox.h"
#include "wire.h"

#define UNIX_PENDING_MAX 64

struct connect_words;
struct tls_context;
struct control_protocol;
struct node_control;
struct connection;
struct stream_control;

/* Limits that keep a strange peer from harming others. */
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
  WATCH_UNIX_LISTENER,
  WATCH_PEER,
  WATCH_FD_CHANNEL,
  WATCH_UNIX_PENDING,
};

/* A descriptor that the control thread waits for: what epoll hands back. */
struct watch {
  enum watch_kind kind;
  int fd; /* -1: none */
  uint32_t events;
  void *owner;
};

/* A connection to the Unix socket that has not made its claim. */
struct unix_pending {
  struct watch watch; /* without a descriptor: a free place */
  uint64_t number;    /* in the order of their coming */
  uint64_t claim_by_ns;
};

struct control {
  const struct control_protocol *protocol;
  const struct connect_words *words;
  struct stream_control *streams; /* NULL: of a node */
  struct node_control *node;      /* NULL: of streams */
  struct control_limits limits;
  bool in_process;
  struct tls_context *tls; /* NULL: connections have none */
  uint64_t connect_timeout_ns;
  uint64_t heartbeat_ns;
  uint64_t peer_timeout_ns;
  bool quiet; /* closing: no more callbacks */
  uint64_t opened_ns;
  uint64_t now_ns;  /* of this round */
  uint64_t next_ns; /* of the next: control_is_due() */

  int epoll_fd;
  struct watch wake;
  struct connection *peers;
  uint32_t peer_count;
  struct unix_pending pending[UNIX_PENDING_MAX];
  uint64_t pending_last;
  char host[WIRE_HOST_MAX + 1];

  char *listen_text;
  struct watch listeners[SOCKET_ADDRESSES_MAX];
  uint32_t listener_count;
  uint32_t listeners_ready; /* bits: in this round */
  bool listen_insecure;
  struct watch unix_listener_watch;
  struct unix_listener unix_listener;
  uint64_t accept_again_ns; /* out of descriptors: not before; 0: accepting */
  int spare_fd;             /* given up to tell one that there are no more; -1 */

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

static inline bool control_is_own_thread(const struct control *control)
{
  return pthread_equal(pthread_self(), control->thread);
}
static inline uint64_t control_sooner(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* Is it that late? If so, what is done now may make more due, and the thread comes again at once;
 * if not, by then. */
static inline bool control_is_due(struct control *control, uint64_t at_ns)
{
  const bool is_due = control->now_ns >= at_ns;

  control->next_ns = control_sooner(control->next_ns, is_due ? control->now_ns : at_ns);
  return is_due;
}

/* ---- epoll.c ---- */
int watch_set(struct control *control, struct watch *watch, uint32_t events);
/* Returns the watch's descriptor, which is watched no longer; -1. */
int watch_release(struct control *control, struct watch *watch);
void watch_close(struct control *control, struct watch *watch);
/* As watch_close(), but another thread closes it: unread descriptors of a peer's may be in it. */
void watch_discard(struct control *control, struct watch *watch);

/* ---- rate_limited_log.c ---- */
/* A line about somebody who has no stream here, rate-limited. */
void control_complain(struct control *control, int level, const char *format, ...) PST_PRINTF(3, 4);

#endif
