/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/nearest.h"

static bool has_ended(const struct stream *s)
{
  return s->state == STREAM_OVER || s->state == STREAM_FAILED;
}

/* A connector's streams are its own from the start, also while they wait. */
static bool belongs(const struct peer *peer, const struct stream *s)
{
  return s->peer == peer || (peer->is_connector && s->is_sender);
}

static bool flow_has(const struct peer *peer, bool live_only)
{
  struct control *control = peer->control;

  for (uint32_t i = 0; i < control->stream_count; i++) {
    const struct stream *s = &control->streams[i];
    if (belongs(peer, s) && (live_only ? s->state == STREAM_LIVE : !has_ended(s)))
      return true;
  }
  return false;
}

static void end_failed(struct control *control, struct stream *s, int code, const char *text,
                       const struct control_totals *totals)
{
  if (has_ended(s))
    return;
  s->state = STREAM_FAILED;
  s->peer = NULL;
  s->fail_code = code;
  snprintf(s->fail_text, sizeof s->fail_text, "%s", text);
  if (!control->quiet)
    control->callbacks.fail(control->callbacks.context, s->context, code, s->fail_text, totals);
}

void flow_fail(struct control *control, struct stream *s, int code, const char *text)
{
  end_failed(control, s, code, text, NULL);
}

static void flow_fail_peer(struct peer *peer, int code, const char *text)
{
  struct control *control = peer->control;

  for (uint32_t i = 0; i < control->stream_count; i++) {
    if (belongs(peer, &control->streams[i]))
      flow_fail(control, &control->streams[i], code, text);
  }
}

/* Streams go back to waiting. */
static void flow_withdraw(struct peer *peer)
{
  struct control *control = peer->control;

  for (uint32_t i = 0; i < control->stream_count; i++) {
    struct stream *s = &control->streams[i];
    if (s->peer != peer || s->state != STREAM_OFFERED)
      continue;
    s->state = STREAM_WAITING;
    s->peer = NULL;
  }
}

/* ---- Out ------------------------------------------------------------------------------ */

static struct wire_message *new_message(struct control *control, enum wire_type type,
                                        const struct stream *s)
{
  struct wire_message *m = &control->say;

  memset(m, 0, sizeof *m);
  m->type = type;
  memcpy(m->stream, s->name, sizeof s->name);
  return m;
}

static void send_text(struct peer *peer, enum wire_type type, const char *name, int code,
                      const char *text)
{
  struct wire_message *m = &peer->control->say;

  memset(m, 0, sizeof *m);
  m->type = type;
  m->code = code;
  snprintf(m->stream, sizeof m->stream, "%s", name);
  snprintf(m->text, sizeof m->text, "%.*s", WIRE_TEXT_MAX, text);
  peer_send(peer, m);
}

static void send_totals(struct stream *s, enum wire_type type, const struct control_totals *totals)
{
  struct wire_message *m = new_message(s->peer->control, type, s);

  m->totals = *totals;
  peer_send(s->peer, m);
}

static void send_address(struct stream *s, enum wire_type type)
{
  struct wire_message *m = new_message(s->peer->control, type, s);

  if (type == WIRE_OFFER) {
    m->term_count = s->term_count;
    if (s->term_count > 0)
      memcpy(m->terms, s->terms, s->term_count * sizeof s->terms[0]);
  }
  if (type != WIRE_ADDRESS) {
    m->param_count = s->param_count;
    if (s->param_count > 0)
      memcpy(m->params, s->params, s->param_count * sizeof s->params[0]);
  }
  m->address = s->address.bytes;
  m->address_length = s->address.length;
  bool offers = type == WIRE_ACCEPT && s->remote_length > 0;
  if (offers) {
    m->remote = s->remote.bytes;
    m->remote_bytes = s->remote.length;
    m->remote_length = s->remote_length;
  }
  if (pass_send(s->peer, &s->address, offers ? &s->remote : NULL, m))
    peer_send(s->peer, m);
}

static void flow_offer_all(struct peer *peer)
{
  struct control *control = peer->control;

  for (uint32_t i = 0; i < control->stream_count; i++) {
    struct stream *s = &control->streams[i];
    if (!s->is_sender || s->state != STREAM_WAITING || peer->state != PEER_UP)
      continue;
    s->state = STREAM_OFFERED;
    s->peer = peer;
    s->answer_by_ns = control->now_ns + control->limits.answer_ns;
    peer->had_stream = true;
    send_address(s, WIRE_OFFER);
  }
}

/* What the session asked for before its time had come. */
static void send_wanted(struct stream *s)
{
  if (s->state != STREAM_LIVE)
    return;
  if (s->is_sender && s->finish_wanted && !s->finish_done) {
    s->finish_done = true;
    send_totals(s, WIRE_FINISH, &s->finish);
  }
  bool may_count = s->is_sender ? s->counts_got : s->finish_done;
  if (s->counts_wanted && !s->counts_sent && may_count) {
    s->counts_sent = true;
    send_totals(s, WIRE_COUNTS, &s->counts);
  }
  if (s->counts_sent && s->counts_got) {
    s->state = STREAM_OVER;
    s->peer = NULL;
    pst_log(PST_LOG_DEBUG, "control: %s: over at the %s", s->name,
            s->is_sender ? "sender" : "receiver");
  }
}

/* Nothing comes any more, or here it is. */
static void tell_last(struct control *control, struct stream *s,
                      const struct control_totals *totals)
{
  bool asked = s->last == NULL || !s->owes;

  s->last = NULL;
  if (asked && !control->quiet && control->callbacks.last)
    control->callbacks.last(control->callbacks.context, s->context, totals);
}

static void flow_forget(struct peer *peer)
{
  struct control *control = peer->control;

  for (uint32_t i = 0; i < control->stream_count; i++)
    if (control->streams[i].last == peer)
      tell_last(control, &control->streams[i], NULL);
}

/* What would keep a connection over which no stream goes any more. */
static bool awaits_last(const struct peer *peer)
{
  for (uint32_t i = 0; i < peer->control->stream_count; i++)
    if (peer->control->streams[i].last == peer)
      return true;
  return false;
}

static void send_failure(struct peer *peer, const struct stream *s, const struct command *command)
{
  struct wire_message *m = new_message(peer->control, WIRE_FAIL, s);
  m->code = command->code;
  memcpy(m->text, command->text, sizeof m->text);
  m->has_totals = command->has_totals;
  m->totals = command->totals;
  peer_send(peer, m);
}

/* This side has failed. The other knows its last counts once it is told. */
static void fail_here(struct control *control, struct stream *s, const struct command *command)
{
  struct peer *peer = s->peer;
  bool answers = s->state == STREAM_LIVE && command->has_totals;

  if (peer)
    send_failure(peer, s, command);
  s->state = STREAM_FAILED;
  s->peer = NULL;
  s->fail_code = command->code;
  memcpy(s->fail_text, command->text, sizeof s->fail_text);
  if (answers)
    s->last = peer;
  else
    tell_last(control, s, NULL);
}

static void flow_command(struct control *control, struct command *command)
{
  struct stream *s = command->stream;

  if (has_ended(s)) {
    if (command->type == WIRE_FAIL && s->last && s->owes) {
      send_failure(s->last, s, command);
      s->last = NULL;
    }
    return;
  }
  switch (command->type) {
  case WIRE_ADDRESS: {
    struct pst_blob old = s->address;
    s->address = command->address;
    command->address = old;
    if (s->state == STREAM_OFFERED || s->state == STREAM_LIVE)
      send_address(s, WIRE_ADDRESS);
    break;
  }
  case WIRE_BEAT:
    /* One more of what a peer has not read yet would tell it nothing new. */
    if (s->state == STREAM_LIVE && s->peer->out_length == 0)
      send_totals(s, WIRE_BEAT, &command->totals);
    break;
  case WIRE_FINISH:
    s->finish_wanted = true;
    s->finish = command->totals;
    send_wanted(s);
    break;
  case WIRE_COUNTS:
    s->counts_wanted = true;
    s->counts = command->totals;
    send_wanted(s);
    break;
  default:
    fail_here(control, s, command);
    break;
  }
}

static void flow_close_all(struct control *control)
{
  for (uint32_t i = 0; i < control->stream_count; i++) {
    struct stream *s = &control->streams[i];
    if (!has_ended(s) && s->peer)
      send_text(s->peer, WIRE_FAIL, s->name, -ECONNRESET,
                "closed the stream before its end; check its log");
    if (!has_ended(s))
      s->state = STREAM_FAILED;
    s->peer = NULL;
  }
}

/* ---- In: OFFER and its answers ---------------------------------------------------------- */

static const struct control_pair *pair_of(const struct control_pair *pairs, uint32_t count,
                                          const char *key)
{
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(pairs[i].key, key) == 0)
      return &pairs[i];
  }
  return NULL;
}

static void add_difference(char *text, size_t size, const char *key, const char *sender,
                           const char *receiver, const char *const ends[2])
{
  size_t at = strlen(text);

  snprintf(text + at, size - at, "%s%s: %s %s, %s %s", at ? "; " : "", key, ends[0],
           sender ? sender : "has none", ends[1], receiver ? receiver : "has none");
}

bool flow_compare_terms(const struct control_pair *terms, uint32_t count,
                        const struct wire_message *offer, const char *const ends[2], char *text,
                        size_t size)
{
  const struct control_pair *other;

  text[0] = '\0';
  for (uint32_t i = 0; i < offer->term_count; i++) {
    const struct control_pair *theirs = &offer->terms[i];
    other = pair_of(terms, count, theirs->key);
    if (!other || strcmp(other->value, theirs->value) != 0)
      add_difference(text, size, theirs->key, theirs->value, other ? other->value : NULL, ends);
  }
  for (uint32_t i = 0; i < count; i++) {
    if (!pair_of(offer->terms, offer->term_count, terms[i].key))
      add_difference(text, size, terms[i].key, NULL, terms[i].value, ends);
  }
  return text[0] == '\0';
}

static void refuse(struct peer *peer, const char *name, int code, const char *text)
{
  control_complain(peer->control, "control: refused stream '%s' of %s: %s", name, peer->text, text);
  send_text(peer, WIRE_REFUSE, name, code, text);
  if (++peer->refusals > peer->control->limits.refusals_max)
    peer_drop(peer, -EPROTO, "offered more than %u streams that this end does not have",
              peer->control->limits.refusals_max);
}

static void refuse_unknown(struct peer *peer, const char *name)
{
  struct control *control = peer->control;
  const char *names[64];
  size_t count = 0;
  char text[REPORT_MAX];
  char list[256];

  for (uint32_t i = 0; i < control->stream_count && count < sizeof names / sizeof names[0]; i++) {
    if (!control->streams[i].is_sender)
      names[count++] = control->streams[i].name;
  }
  const char *nearest = nearest_name(name, names, count);
  names_list(control, false, STREAM_WAITING, list, sizeof list);
  snprintf(text, sizeof text, "the receiver has no stream '%s'%s%s%s; it waits for: %s", name,
           nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'" : "",
           list[0] ? list : "none");
  refuse(peer, name, -ENOENT, text);
}

struct pst_blob flow_blob(const uint8_t *bytes, uint32_t length, const int *fds, uint32_t fd_count)
{
  struct pst_blob blob = {.struct_size = sizeof blob,
                          .length = length,
                          .capacity = length,
                          .fd_count = fd_count,
                          .bytes = (void *)(uintptr_t)bytes,
                          .fds = {-1, -1, -1, -1}};

  for (uint32_t i = 0; i < fd_count; i++)
    blob.fds[i] = fds[i];
  return blob;
}

/* All descriptors of a frame have come, or none has. */
static void tell_peer(struct control *control, struct stream *s, const struct wire_message *m,
                      const struct side_fds *fds, bool is_new)
{
  bool came = fds->count > 0;
  struct pst_blob address =
      flow_blob(m->address, m->address_length, fds->fds, came ? m->fd_count : 0);
  struct pst_blob remote =
      flow_blob(m->remote, m->remote_bytes, fds->fds + m->fd_count, came ? m->remote_fd_count : 0);
  struct control_peer peer = {.text = s->peer->text,
                              .params = m->params,
                              .param_count = m->param_count,
                              .address = &address,
                              .remote = m->remote_length > 0 ? &remote : NULL,
                              .remote_length = m->remote_length};

  if (control->quiet)
    return;
  if (is_new)
    control->callbacks.peer(control->callbacks.context, s->context, &peer);
  else
    control->callbacks.address(control->callbacks.context, s->context, &address);
}

static void got_offer(struct peer *peer, const struct wire_message *m, const struct side_fds *fds)
{
  static const char *const ends[2] = {"sender", "receiver"};
  struct control *control = peer->control;
  struct stream *s = peer->is_connector ? NULL : streams_find(control, m->stream, false);
  char text[REPORT_MAX];

  if (peer->is_connector) {
    peer_drop(peer, -EPROTO, "sent an OFFER, which only senders do");
  } else if (!s) {
    refuse_unknown(peer, m->stream);
  } else if (s->state == STREAM_LIVE) {
    snprintf(text, sizeof text, "it is taken already, by %s; give each sender a stream of its own",
             s->peer->text);
    refuse(peer, s->name, -EBUSY, text);
  } else if (s->state == STREAM_OVER) {
    refuse(peer, s->name, -EALREADY, "it is over; start the receiver again");
  } else if (s->state == STREAM_FAILED) {
    snprintf(text, sizeof text, "it has failed at the receiver: %s", s->fail_text);
    refuse(peer, s->name, -ECONNRESET, text);
  } else if (!flow_compare_terms(s->terms, s->term_count, m, ends, text, sizeof text)) {
    char report[2 * REPORT_MAX];
    snprintf(report, sizeof report, "%s does not agree: %s; give both ends the same configuration",
             peer->text, text);
    pst_log(PST_LOG_ERROR, "%s: %s", s->name, report);
    send_text(peer, WIRE_REFUSE, s->name, -EPROTO, text);
    flow_fail(control, s, -EPROTO, report);
  } else {
    s->state = STREAM_LIVE;
    s->peer = peer;
    peer->had_stream = true;
    send_address(s, WIRE_ACCEPT);
    if (s->state != STREAM_LIVE)
      return;
    pst_log(PST_LOG_DEBUG, "control: %s: %s", s->name, peer->text);
    tell_peer(control, s, m, fds, true);
  }
}

static void got_accept(struct stream *s, const struct wire_message *m, const struct side_fds *fds)
{
  struct control *control = s->peer->control;

  if (!s->is_sender || s->state != STREAM_OFFERED) {
    peer_drop(s->peer, -EPROTO, "accepted the stream '%s', which was not on offer", s->name);
    return;
  }
  s->state = STREAM_LIVE;
  tell_peer(control, s, m, fds, true);
  send_wanted(s);
}

/* REFUSE and FAIL. */
static void got_failure(struct stream *s, const struct wire_message *m)
{
  struct peer *peer = s->peer;
  char text[REPORT_MAX];
  /* In one process whoever failed has said it; and a stream that has failed here has its cause. */
  bool said = peer->in_process || has_ended(s);

  if (m->type == WIRE_REFUSE)
    snprintf(text, sizeof text, "refused by %s: %s", peer->text, m->text);
  else
    snprintf(text, sizeof text, "%s reports: %s", peer->text, m->text);
  pst_log(said ? PST_LOG_DEBUG : PST_LOG_ERROR, "stream %s: %s", s->name, text);
  s->owes = m->type == WIRE_FAIL && m->has_totals;
  s->last = s->owes ? peer : NULL;
  end_failed(peer->control, s, m->code, text, m->has_totals ? &m->totals : NULL);
}

/* ---- In: the rest -------------------------------------------------------------------------- */

static void got_finish(struct control *control, struct stream *s, const struct wire_message *m)
{
  if (s->is_sender || s->finish_done) {
    peer_drop(s->peer, -EPROTO, "sent FINISH of '%s' %s", s->name,
              s->is_sender ? "though it receives it" : "twice");
    return;
  }
  s->finish_done = true;
  if (!control->quiet)
    control->callbacks.finish(control->callbacks.context, s->context, &m->totals);
  send_wanted(s);
}

static void got_counts(struct control *control, struct stream *s, const struct wire_message *m)
{
  bool expected = s->is_sender ? s->finish_done : s->counts_sent;

  if (!expected || s->counts_got) {
    peer_drop(s->peer, -EPROTO, "sent COUNTS of '%s' %s", s->name,
              s->counts_got ? "twice" : "before it was their turn");
    return;
  }
  s->counts_got = true;
  if (!control->quiet)
    control->callbacks.counts(control->callbacks.context, s->context, &m->totals);
  send_wanted(s);
}

static void got_bye(struct peer *peer, const struct wire_message *m)
{
  struct control *control = peer->control;
  char text[REPORT_MAX];
  char names[512];

  if (m->code == 0 && peer->is_connector && !flow_has(peer, true)) {
    flow_withdraw(peer);
    peer_close(peer, 0, NULL);
    if (flow_has(peer, false))
      connect_again(control, "it has closed");
    return;
  }
  if (m->code == 0)
    snprintf(text, sizeof text, "%s left before the end; check its log", peer->text);
  else
    snprintf(text, sizeof text, "%s dropped this end and says: %s", peer->text, m->text);
  if (flow_has(peer, false) || m->code != 0) {
    names_of_peer(control, peer, names, sizeof names);
    pst_log(PST_LOG_ERROR, "control: %s%s%s", text, names[0] ? "; streams: " : "", names);
    flow_fail_peer(peer, m->code ? m->code : -ECONNRESET, text);
  }
  peer_close(peer, 0, NULL);
}

static void flow_got(struct peer *peer, const struct wire_message *m, const struct side_fds *fds)
{
  struct control *control = peer->control;

  if (m->type == WIRE_KEEP)
    return;
  if (m->type == WIRE_BYE) {
    got_bye(peer, m);
    return;
  }
  if (m->type == WIRE_OFFER) {
    got_offer(peer, m, fds);
    return;
  }
  struct stream *s = streams_find(control, m->stream, peer->is_connector);
  if (s && s->last == peer && !s->owes && m->type == WIRE_FAIL) {
    tell_last(control, s, m->has_totals ? &m->totals : NULL);
    return;
  }
  /* Not with this peer: our own end of it has crossed the message on its way. */
  if (!s || s->peer != peer)
    return;
  if (s->state == STREAM_OFFERED && m->type != WIRE_ACCEPT && m->type != WIRE_REFUSE) {
    peer_drop(peer, -EPROTO, "sent a %s of '%s' before it took it", wire_type_name(m->type),
              s->name);
    return;
  }
  switch (m->type) {
  case WIRE_ACCEPT:
    got_accept(s, m, fds);
    break;
  case WIRE_REFUSE:
  case WIRE_FAIL:
    got_failure(s, m);
    break;
  case WIRE_ADDRESS:
    tell_peer(control, s, m, fds, false);
    break;
  case WIRE_BEAT:
    if (!control->quiet)
      control->callbacks.beat(control->callbacks.context, s->context, &m->totals);
    break;
  case WIRE_FINISH:
    got_finish(control, s, m);
    break;
  default:
    got_counts(control, s, m);
    break;
  }
}

static uint64_t flow_tick(struct control *control)
{
  uint64_t next = UINT64_MAX;
  char seconds[24];

  for (uint32_t i = 0; i < control->stream_count; i++) {
    struct stream *s = &control->streams[i];
    if (s->state != STREAM_OFFERED)
      continue;
    if (control->now_ns < s->answer_by_ns) {
      next = sooner(next, s->answer_by_ns);
      continue;
    }
    seconds_text(control->limits.answer_ns, seconds);
    peer_drop(s->peer, -ETIMEDOUT, "did not answer the offer of '%s' within %s", s->name, seconds);
  }
  struct peer *link = control->link;
  if (link && link->state == PEER_UP && !flow_has(link, false) && !awaits_last(link))
    peer_close(link, 0, NULL);
  return next;
}

static void flow_retry(struct peer *peer, int code, const char *why)
{
  (void)code;
  flow_withdraw(peer);
  if (flow_has(peer, false))
    connect_again(peer->control, why);
}

const struct control_flow flow_streams = {.connector = WIRE_SENDER,
                                          .acceptor = WIRE_RECEIVER,
                                          .idle = "offered no stream",
                                          .up = flow_offer_all,
                                          .got = flow_got,
                                          .has = flow_has,
                                          .names = names_of_peer,
                                          .fail_peer = flow_fail_peer,
                                          .retry = flow_retry,
                                          .forget = flow_forget,
                                          .command = flow_command,
                                          .close_all = flow_close_all,
                                          .tick = flow_tick};
