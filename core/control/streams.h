/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a session, and each one's state. */
#ifndef PST_CONTROL_STREAMS_H
#define PST_CONTROL_STREAMS_H

#include "messages.h"
#include "util/name_index.h"

/* WAITING ─▶ OFFERED (sender) ─▶ LIVE ─▶ FINISHED ─▶ COUNTED ─▶ OVER; from each but OVER to one of
 * the three FAILED. OFFERED goes back to WAITING when its peer is lost. */
enum stream_state {
  STREAM_WAITING, /* for a peer */
  STREAM_OFFERED, /* sender: for its answer */
  STREAM_LIVE,
  STREAM_FINISHED, /* FINISH has gone by: for the receiver's COUNTS */
  STREAM_COUNTED,  /* these too: for the sender's */
  STREAM_OVER,
  STREAM_FAILED,
  STREAM_FAILED_AWAITS, /* the peer's last counts may come */
  STREAM_FAILED_OWES,   /* the peer wants ours */
  STREAM_STATES,
};

/* The differences between a stream's two ends (stream_wait.c). */
struct stream_role {
  const char *name, *peer_name; /* for people */
  bool connects;                /* and offers its streams; else it listens, and takes them */
  /* The states in which FINISH and COUNTS go out and come in; STREAM_STATES: they never do. */
  enum stream_state finish_from, finish_heard_in;
  enum stream_state counts_from, counts_heard_in;
  const char *finish_unheard; /* what is wrong with a FINISH in another state */
  /* The address of those ends, which there are; and what is due while some of them wait. */
  int (*open)(struct control *control, const struct control_params *params,
              struct pst_error *error);
  void (*wait)(struct control *control);
};

struct stream {
  char name[WIRE_STREAM_MAX + 1];
  void *context;
  const struct stream_role *role;
  enum stream_state state;
  struct terms terms, params;
  struct pst_blob address; /* bytes and descriptors are ours */
  struct connection *peer; /* NULL in WAITING, OVER and FAILED */
  uint64_t answer_by_ns;   /* OFFERED */
  bool finish_wanted;      /* asked for by the session, perhaps too early to be sent */
  bool counts_wanted;
  struct control_totals finish;
  struct control_totals counts;
  int fail_code;
  char fail_text[WIRE_TEXT_MAX + 1];
};

/* State of a control channel of streams, beside the state that all channels have. */
struct stream_control {
  struct control_callbacks callbacks;
  struct stream *all;
  uint32_t count;
  struct name_index_entry *names; /* of the streams */
  struct stream **contexts;       /* the streams in the order of their contexts */
  uint64_t listen_notice_ns;      /* of receivers that wait: the next line */
  /* The senders' connection. */
  bool connect_insecure;
  char *connect_text;
  struct socket_addresses targets;
  uint32_t target_next;
  struct connection *link;
  uint64_t connect_at_ns; /* 0: not waiting to try again */
  uint64_t connect_pause_ns;
  uint64_t connect_notice_ns;
  char connect_why[WIRE_WHY_MAX]; /* of the last attempt */
};

static inline bool stream_is_live(const struct stream *stream)
{
  return stream->state >= STREAM_LIVE && stream->state <= STREAM_COUNTED;
}

static inline bool stream_has_ended(const struct stream *stream)
{
  return stream->state >= STREAM_OVER;
}

static inline struct stream *streams_end(const struct control *control)
{
  return control->streams->all + control->streams->count;
}

/* With its peer, or NULL where the state has none. */
void stream_enter(struct stream *stream, enum stream_state state, struct connection *peer);

/* Their names and contexts do not change after open, so any thread may look them up. */
int streams_copy(struct control *control, const struct control_stream *streams, uint32_t count,
                 const struct control_callbacks *callbacks, struct pst_error *error);
void streams_free(struct stream_control *own);
struct stream *streams_find(const struct control *control, const char *name,
                            const struct stream_role *role);
/* Whether there is an end of that role. */
bool streams_have(const struct control *control, const struct stream_role *role);
struct stream *streams_of_context(const struct control *control, void *context);

/* On the control thread. */
void streams_tell(const struct control *control, const struct stream *s,
                  const struct control_stream_message *message);

/* Ends one that has not ended, without a line: with is_unsaid it is whoever hears of it that writes
 * one, if it knows no cause yet. totals: the peer's last; NULL: it did not say. */
void streams_fail(struct control *control, struct stream *stream, int code, const char *text,
                  bool is_unsaid, const struct control_totals *totals);
/* Fails those that have waited too long for a peer, connects. */
void streams_wait(struct control *control);
/* Listens for the senders of its receivers, and resolves where its senders connect. */
int streams_open(struct control *control, const struct control_params *params,
                 struct pst_error *error);
/* The senders' connection has come to nothing before a stream was live. */
void streams_connect_again(struct control *control, const char *why);
/* The role of this end in streams with that peer. */
const struct stream_role *stream_role_with(const struct connection *peer);
extern const struct control_protocol stream_protocol;

/* Writes "a, b and 3 more": streams whose ends of that role wait for a peer. */
void names_waiting(const struct control *control, const struct stream_role *role, char *text,
                   size_t size);
/* Writes "a, b and 3 more": the streams of that peer. */
void names_of_peer(const struct connection *peer, char *text, size_t size);

#endif
