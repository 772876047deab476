/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a session, and each one's state. */
#ifndef PST_CONTROL_STREAMS_H
#define PST_CONTROL_STREAMS_H

#include "messages.h"

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
};

struct stream {
  char name[WIRE_STREAM_MAX + 1];
  void *context;
  bool is_sender;
  enum stream_state state;
  struct terms terms, params;
  struct pst_blob address; /* bytes and descriptors are ours */
  struct peer *peer;       /* NULL in WAITING, OVER and FAILED */
  uint64_t answer_by_ns;   /* OFFERED */
  bool finish_wanted;      /* asked for by the session, perhaps too early to be sent */
  bool counts_wanted;
  struct control_totals finish;
  struct control_totals counts;
  int fail_code;
  char fail_text[WIRE_TEXT_MAX + 1];
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
  return control->streams + control->stream_count;
}

/* With its peer, or NULL where the state has none. */
void stream_enter(struct stream *stream, enum stream_state state, struct peer *peer);

/* Their names and contexts do not change after open, so any thread may look them up. */
int streams_copy(struct control *control, const struct control_stream *streams, uint32_t count,
                 struct pst_error *error);
void streams_free(struct control *control);
struct stream *streams_find(const struct control *control, const char *name, bool is_sender);
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
/* The address of the senders' connection. */
int streams_resolve(struct control *control, const char *address, bool insecure,
                    struct pst_error *error);
/* The senders' connection has come to nothing before a stream was live. */
void streams_connect_again(struct control *control, const char *why);
extern const struct control_protocol stream_protocol;

/* "a, b and 3 more": streams of that side that wait for a peer (or of that peer). */
void names_waiting(const struct control *control, bool senders, char *text, size_t size);
void names_of_peer(const struct peer *peer, char *text, size_t size);

#endif
