/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's life on the wire: control.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "connection.h"
#include "protocol.h"
#include "streams.h"
#include "util/log.h"
#include "util/suggest.h"

/* A connector's streams are its own from the start, also while they wait. */
static bool stream_belongs(const struct connection *peer, const struct stream *s)
{
  return s->peer == peer || (peer->is_connector && s->role->connects);
}

static bool streams_has(const struct connection *peer, bool live_only)
{
  struct control *control = peer->control;

  for (const struct stream *s = control->streams->all; s < streams_end(control); s++) {
    if (stream_belongs(peer, s) && (live_only ? stream_is_live(s) : !stream_has_ended(s)))
      return true;
  }
  return false;
}

static void streams_fail_peer(struct connection *peer, int code, const char *text)
{
  struct control *control = peer->control;

  for (struct stream *s = control->streams->all; s < streams_end(control); s++)
    if (stream_belongs(peer, s))
      streams_fail(control, s, code, text, false, NULL);
}

/* Streams go back to waiting. */
static void streams_withdraw(struct connection *peer)
{
  struct control *control = peer->control;

  for (struct stream *s = control->streams->all; s < streams_end(control); s++) {
    if (s->peer != peer || s->state != STREAM_OFFERED)
      continue;
    stream_enter(s, STREAM_WAITING, NULL);
  }
}

/* ---- Out ------------------------------------------------------------------------------ */

/* REFUSE, or FAIL with last counts, or without. */
static void stream_send_failure(struct connection *peer, enum wire_type type, const char *name,
                                int code, const char *text, const struct control_totals *totals)
{
  struct wire_message *m = message_new_text(peer->control, type, code, text);

  snprintf(m->stream, sizeof(m->stream), "%s", name);
  m->has_totals = totals;
  if (totals)
    m->totals = *totals;
  connection_send(peer, m);
}

/* BEAT, FINISH and COUNTS; without totals OFFER, ACCEPT and ADDRESS. */
static void stream_send(struct stream *s, enum wire_type type, const struct control_totals *totals)
{
  struct wire_message *m = message_new(s->peer->control, type);

  memcpy(m->stream, s->name, sizeof(s->name));
  if (totals) {
    m->totals = *totals;
    connection_send(s->peer, m);
    return;
  }
  message_put_terms(m, type == WIRE_OFFER ? &s->terms : NULL,
                    type != WIRE_ADDRESS ? &s->params : NULL);
  message_send_blob(s->peer, m, &s->address);
}

static void streams_offer_all(struct connection *peer)
{
  struct control *control = peer->control;

  for (struct stream *s = control->streams->all; s < streams_end(control); s++) {
    if (!s->role->connects || s->state != STREAM_WAITING || peer->state != PEER_UP)
      continue;
    stream_enter(s, STREAM_OFFERED, peer);
    s->answer_by_ns = control->now_ns + control->limits.answer_ns;
    peer->had_stream = true;
    stream_send(s, WIRE_OFFER, NULL);
  }
}

/* COUNTS have gone by: the receiver's, then the sender's. */
static void stream_count(struct stream *s)
{
  if (s->state == STREAM_FINISHED) {
    stream_enter(s, STREAM_COUNTED, s->peer);
    return;
  }
  stream_enter(s, STREAM_OVER, NULL);
  pst_log(PST_LOG_DEBUG, "control: %s: over at the %s", s->name, s->role->name);
}

/* Sends what the session asked for before the stream's state permitted it. */
static void stream_send_wanted(struct stream *s)
{
  if (s->finish_wanted && s->state == s->role->finish_from) {
    stream_enter(s, STREAM_FINISHED, s->peer);
    stream_send(s, WIRE_FINISH, &s->finish);
  }
  if (s->counts_wanted && s->state == s->role->counts_from) {
    stream_send(s, WIRE_COUNTS, &s->counts);
    stream_count(s);
  }
}

static void stream_tell_last(const struct control *control, const struct stream *s,
                             const struct control_totals *totals)
{
  if (!control->quiet)
    streams_tell(control, s,
                 &(struct control_stream_message){.type = CONTROL_HEARD_LAST, .totals = totals});
}

/* A stream that failed has last counts to come or to go by that connection. */
static bool stream_is_last(const struct stream *s, const struct connection *peer)
{
  return s->peer == peer && stream_has_ended(s);
}

/* Nothing comes any more. */
static void streams_forget(struct connection *peer)
{
  struct control *control = peer->control;

  if (control->streams->link == peer)
    control->streams->link = NULL;
  for (struct stream *s = control->streams->all; s < streams_end(control); s++) {
    if (!stream_is_last(s, peer))
      continue;
    if (s->state == STREAM_FAILED_AWAITS)
      stream_tell_last(control, s, NULL);
    stream_enter(s, STREAM_FAILED, NULL);
  }
}

/* Returns whether a stream still waits for the last word over this connection. */
static bool streams_await_last(const struct connection *peer)
{
  for (const struct stream *s = peer->control->streams->all; s < streams_end(peer->control); s++)
    if (stream_is_last(s, peer))
      return true;
  return false;
}

/* As the session says it. */
static void stream_send_own_failure(struct connection *peer, const struct stream *s,
                                    const struct command *command)
{
  stream_send_failure(peer, WIRE_FAIL, s->name, command->say.code, command->text,
                      command->has_totals ? &command->totals : NULL);
}

/* This side has failed. The other knows its last counts once it has heard that. */
static void stream_fail_here(struct control *control, struct stream *s,
                             const struct command *command)
{
  struct connection *peer = s->peer;
  bool answers = stream_is_live(s) && command->has_totals;

  if (peer)
    stream_send_own_failure(peer, s, command);
  stream_enter(s, answers ? STREAM_FAILED_AWAITS : STREAM_FAILED, answers ? peer : NULL);
  s->fail_code = command->say.code;
  memcpy(s->fail_text, command->text, sizeof(s->fail_text));
  if (!answers)
    stream_tell_last(control, s, NULL);
}

/* Carries out what a stream's thread has asked for, as far as the stream's state permits. */
static void streams_command(struct control *control, struct command *command)
{
  struct stream *s = command->stream;

  if (stream_has_ended(s)) {
    if (command->say.type == WIRE_FAIL && s->state == STREAM_FAILED_OWES) {
      stream_send_own_failure(s->peer, s, command);
      stream_enter(s, STREAM_FAILED, NULL);
    }
    return;
  }
  switch (command->say.type) {
  case WIRE_ADDRESS: {
    struct pst_blob old = s->address;
    s->address = command->mail.blob;
    command->mail.blob = old;
    if (s->state == STREAM_OFFERED || stream_is_live(s))
      stream_send(s, WIRE_ADDRESS, NULL);
    break;
  }
  case WIRE_BEAT:
    /* One more of what a peer has not read yet would tell it nothing new. */
    if (stream_is_live(s) && s->peer->out_length == 0)
      stream_send(s, WIRE_BEAT, &command->totals);
    break;
  case WIRE_FINISH:
    s->finish_wanted = true;
    s->finish = command->totals;
    stream_send_wanted(s);
    break;
  case WIRE_COUNTS:
    s->counts_wanted = true;
    s->counts = command->totals;
    stream_send_wanted(s);
    break;
  default:
    stream_fail_here(control, s, command);
    break;
  }
}

static void streams_close_all(struct control *control)
{
  for (struct stream *s = control->streams->all; s < streams_end(control); s++) {
    if (!stream_has_ended(s) && s->peer)
      stream_send_failure(s->peer, WIRE_FAIL, s->name, -ECONNRESET,
                          "closed the stream before its end; check its log", NULL);
    if (!stream_has_ended(s))
      stream_enter(s, STREAM_FAILED, NULL);
  }
}

/* ---- In: OFFER and its answers ---------------------------------------------------------- */

static void stream_refuse(struct connection *peer, const char *name, int code, const char *text)
{
  control_complain(peer->control, PST_LOG_WARN, "control: refused stream '%s' of %s: %s", name,
                   peer->text, text);
  stream_send_failure(peer, WIRE_REFUSE, name, code, text, NULL);
  if (++peer->refusals > peer->control->limits.refusals_max)
    connection_drop(peer, -EPROTO, "offered more than %u streams that this end does not have",
                    peer->control->limits.refusals_max);
}

static void stream_refuse_unknown(struct connection *peer, const char *name)
{
  struct control *control = peer->control;
  const char *names[64];
  size_t count = 0;
  char text[REPORT_MAX];
  char list[256];

  for (const struct stream *s = control->streams->all; s < streams_end(control); s++)
    if (s->role == stream_role_with(peer) && count < sizeof(names) / sizeof(names[0]))
      names[count++] = s->name;
  const char *nearest = suggest_name(name, names, count);
  names_waiting(control, stream_role_with(peer), list, sizeof(list));
  snprintf(text, sizeof(text), "the receiver has no stream '%s'%s%s%s; it waits for: %s", name,
           nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'" : "",
           list[0] ? list : "none");
  stream_refuse(peer, name, -ENOENT, text);
}

static void stream_hear(const struct message_in *in, enum control_heard type)
{
  const struct wire_message *m = in->message;
  const struct pst_blob address = message_blob(in);
  const struct control_peer peer = {
      .text = in->peer->text, .params = m->params, .param_count = m->param_count};

  streams_tell(in->peer->control, in->stream,
               &(struct control_stream_message){.type = type,
                                                .peer = type == CONTROL_HEARD_PEER ? &peer : NULL,
                                                .address = m->blob ? &address : NULL,
                                                .totals = m->has_totals ? &m->totals : NULL});
}

/* Handles OFFER: compares the terms of both ends, then takes the sender or refuses it with the
 * reason. */
static void stream_got_offer(const struct message_in *in)
{
  static const char *const ends[2] = {"sender", "receiver"};
  struct connection *peer = in->peer;
  const struct wire_message *m = in->message;
  struct stream *s = in->stream;
  char text[REPORT_MAX];

  if (peer->is_connector) {
    connection_drop(peer, -EPROTO, "sent an OFFER, which only senders do");
  } else if (!s) {
    stream_refuse_unknown(peer, m->stream);
  } else if (stream_is_live(s)) {
    snprintf(text, sizeof(text), "it is taken already, by %s; give each sender a stream of its own",
             s->peer->text);
    stream_refuse(peer, s->name, -EBUSY, text);
  } else if (s->state == STREAM_OVER) {
    stream_refuse(peer, s->name, -EALREADY, "it is over; start the receiver again");
  } else if (stream_has_ended(s)) {
    snprintf(text, sizeof(text), "it has failed at the receiver: %s", s->fail_text);
    stream_refuse(peer, s->name, -ECONNRESET, text);
  } else if (!terms_compare(&s->terms, m, ends, text, sizeof(text))) {
    char report[2 * REPORT_MAX], reason[REPORT_MAX + 64];
    snprintf(reason, sizeof(reason), "%s; give both ends the same configuration", text);
    snprintf(report, sizeof(report), "%s does not agree: %s", peer->text, reason);
    pst_log(PST_LOG_ERROR, "%s: %s", s->name, report);
    stream_send_failure(peer, WIRE_REFUSE, s->name, -EPROTO, reason, NULL);
    streams_fail(peer->control, s, -EPROTO, report, false, NULL);
  } else {
    stream_enter(s, STREAM_LIVE, peer);
    peer->had_stream = true;
    stream_send(s, WIRE_ACCEPT, NULL);
    if (s->state != STREAM_LIVE)
      return;
    pst_log(PST_LOG_DEBUG, "control: %s: %s", s->name, peer->text);
    stream_hear(in, CONTROL_HEARD_PEER);
  }
}

static void stream_got_accept(const struct message_in *in)
{
  struct stream *s = in->stream;

  if (s->state != STREAM_OFFERED) {
    connection_drop(s->peer, -EPROTO, "accepted the stream '%s', which was not on offer", s->name);
    return;
  }
  stream_enter(s, STREAM_LIVE, s->peer);
  stream_hear(in, CONTROL_HEARD_PEER);
  stream_send_wanted(s);
}

/* REFUSE and FAIL. */
static void stream_got_failure(const struct message_in *in)
{
  const struct wire_message *m = in->message;
  struct stream *s = in->stream;
  struct connection *peer = s->peer;
  char text[REPORT_MAX];
  const bool owes = m->type == WIRE_FAIL && m->has_totals;

  if (m->type == WIRE_REFUSE)
    snprintf(text, sizeof(text), "refused by %s: %s", peer->text, m->text);
  else
    snprintf(text, sizeof(text), "%s reports: %s", peer->text, m->text);
  pst_log(PST_LOG_DEBUG, "stream %s: %s", s->name, text);
  /* In one process whoever failed has said it. */
  streams_fail(peer->control, s, m->code, text, !peer->in_process,
               m->has_totals ? &m->totals : NULL);
  if (owes)
    stream_enter(s, STREAM_FAILED_OWES, peer);
}

/* ---- In: the rest -------------------------------------------------------------------------- */

static void stream_got_address(const struct message_in *in)
{
  stream_hear(in, CONTROL_HEARD_ADDRESS);
}

static void stream_got_beat(const struct message_in *in)
{
  stream_hear(in, CONTROL_HEARD_BEAT);
}

static void stream_got_finish(const struct message_in *in)
{
  struct stream *s = in->stream;

  if (s->state != s->role->finish_heard_in) {
    connection_drop(s->peer, -EPROTO, "sent FINISH of '%s' %s", s->name, s->role->finish_unheard);
    return;
  }
  stream_enter(s, STREAM_FINISHED, s->peer);
  stream_hear(in, CONTROL_HEARD_FINISH);
  stream_send_wanted(s);
}

static void stream_got_counts(const struct message_in *in)
{
  struct stream *s = in->stream;

  if (s->state != s->role->counts_heard_in) {
    connection_drop(s->peer, -EPROTO, "sent COUNTS of '%s' %s", s->name,
                    s->state == STREAM_COUNTED ? "twice" : "before it was their turn");
    return;
  }
  stream_hear(in, CONTROL_HEARD_COUNTS);
  stream_count(s);
  stream_send_wanted(s);
}

static void streams_got_bye(const struct message_in *in)
{
  const struct wire_message *m = in->message;
  struct connection *peer = in->peer;
  struct control *control = peer->control;
  char text[REPORT_MAX];
  char names[512];

  if (m->code == 0 && peer->is_connector && !streams_has(peer, true)) {
    streams_withdraw(peer);
    connection_close(peer, 0, NULL);
    if (streams_has(peer, false))
      streams_connect_again(control, "it has closed");
    return;
  }
  if (m->code == 0)
    snprintf(text, sizeof(text), "%s left before the end; check its log", peer->text);
  else
    snprintf(text, sizeof(text), "%s dropped this end and says: %s", peer->text, m->text);
  if (streams_has(peer, false) || m->code != 0) {
    names_of_peer(peer, names, sizeof(names));
    pst_log(PST_LOG_ERROR, "control: %s%s%s", text, names[0] ? "; streams: " : "", names);
    streams_fail_peer(peer, m->code ? m->code : -ECONNRESET, text);
  }
  connection_close(peer, 0, NULL);
}

static bool streams_admit(struct message_in *in)
{
  const struct wire_message *m = in->message;
  struct connection *peer = in->peer;
  struct stream *s = streams_find(peer->control, m->stream, stream_role_with(peer));

  in->stream = s;
  if (m->type == WIRE_OFFER)
    return true;
  if (s && s->state == STREAM_FAILED_AWAITS && s->peer == peer && m->type == WIRE_FAIL) {
    stream_enter(s, STREAM_FAILED, NULL);
    stream_tell_last(peer->control, s, m->has_totals ? &m->totals : NULL);
    return false;
  }
  /* Not with this peer: our own end of it has crossed the message on its way. */
  if (!s || s->peer != peer || stream_has_ended(s))
    return false;
  if (s->state != STREAM_OFFERED || m->type == WIRE_ACCEPT || m->type == WIRE_REFUSE)
    return true;
  connection_drop(peer, -EPROTO, "sent a %s of '%s' before it took it", wire_type_name(m->type),
                  s->name);
  return false;
}

static void streams_tick(struct control *control)
{
  char seconds[24];

  for (struct stream *s = control->streams->all; s < streams_end(control); s++) {
    if (s->state != STREAM_OFFERED || !control_is_due(control, s->answer_by_ns))
      continue;
    seconds_text(control->limits.answer_ns, seconds);
    connection_drop(s->peer, -ETIMEDOUT, "did not answer the offer of '%s' within %s", s->name,
                    seconds);
  }
  struct connection *link = control->streams->link;
  if (link && link->state == PEER_UP && !streams_has(link, false) && !streams_await_last(link))
    connection_close(link, 0, NULL);
  if (!control->quiet)
    streams_wait(control);
}

static void streams_retry(struct connection *peer, int code, const char *why)
{
  (void)code;
  streams_withdraw(peer);
  if (streams_has(peer, false))
    streams_connect_again(peer->control, why);
}

const struct control_protocol stream_protocol = {
    .connector = WIRE_SENDER,
    .acceptor = WIRE_RECEIVER,
    .connector_name = "sender",
    .acceptor_name = "receiver",
    .what = "streams",
    .idle = "offered no stream",
    .up = streams_offer_all,
    .admits = streams_admit,
    .got = {[WIRE_OFFER] = stream_got_offer,
            [WIRE_ACCEPT] = stream_got_accept,
            [WIRE_REFUSE] = stream_got_failure,
            [WIRE_FAIL] = stream_got_failure,
            [WIRE_ADDRESS] = stream_got_address,
            [WIRE_BEAT] = stream_got_beat,
            [WIRE_FINISH] = stream_got_finish,
            [WIRE_COUNTS] = stream_got_counts,
            [WIRE_BYE] = streams_got_bye},
    .has = streams_has,
    .names = names_of_peer,
    .fail_peer = streams_fail_peer,
    .retry = streams_retry,
    .forget = streams_forget,
    .command = streams_command,
    .close_all = streams_close_all,
    .tick = streams_tick,
};
