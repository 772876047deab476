/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel of a session: what its streams say of themselves, and what their peers say,
 * which the control thread writes down and the end's thread acts on.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "receiver.h"
#include "sender.h"
#include "session.h"
#include "util/limit_remedy.h"

/* A callback of control, on its thread: it becomes mail for the thread of the end. */
static void control_mail_put(void *context, void *stream,
                             const struct control_stream_message *heard)
{
  struct session_end *end = stream;
  struct session_mail *mail = calloc(1, sizeof(*mail));

  (void)context;
  if (!mail) {
    pst_log(PST_LOG_ERROR, "stream %s: out of memory for a control message", end->name);
    if (heard->type != CONTROL_HEARD_FAIL)
      return;
    /* Lost, it would leave the stream waiting for ever. */
    mail = &end->fail_mail;
    *mail = (struct session_mail){.mail.is_kept = true};
  }
  mail->type = heard->type;
  mail->end = end;
  if (heard->type == CONTROL_HEARD_FAIL) {
    mail->code = heard->code < 0 ? heard->code : -EPROTO;
    snprintf(mail->text, sizeof(mail->text), "%s", heard->text);
    mail->is_unsaid = heard->is_unsaid;
  }
  if (heard->address)
    mail->code = blob_keep(heard->address, &mail->mail.blob);
  if (heard->peer) {
    snprintf(mail->text, sizeof(mail->text), "%s", heard->peer->text);
    mail->param_count = heard->peer->param_count < CONTROL_PARAMS_MAX ? heard->peer->param_count
                                                                      : CONTROL_PARAMS_MAX;
    memcpy(mail->params, heard->peer->params, mail->param_count * sizeof(*mail->params));
  }
  mail->has_totals = heard->totals;
  if (heard->totals)
    mail->totals = *heard->totals;
  mailbox_put(&end->thread->base.mailbox, &mail->mail, NULL);
}

int control_tell(struct session_end *end, end_say *say)
{
  struct control_totals totals;

  end->ops->totals(end, &totals);
  return say(end->session->control, end, &totals);
}

static void control_take_peer(struct session_end *end, const struct session_mail *mail)
{
  end_lock(end);
  snprintf(end->peer_text, sizeof(end->peer_text), "%.127s", mail->text);
  end_unlock(end);
  if (end->ops->met)
    end->ops->met(end, mail);
}

/* Sender: the receiver's counts end the stream, once ours are on their way. Receiver: the sender's
 * answer does. */
static void control_take_counts(struct session_end *end, const struct session_mail *mail)
{
  end_read_counters(end);
  end_note_peer(end, &mail->totals, END_PEER_FINAL);
  if (end->ops->counts)
    end->ops->counts(end);
  end_enter_control(end, END_CONTROL_OVER);
  end_state(end, PST_STATE_ENDED);
}

/* Takes the last counts of a peer that has failed, or that answers this end's failure. */
static void control_take_last(struct session_end *end, const struct session_mail *mail)
{
  if (mail->has_totals && mail->totals.messages != UINT64_MAX)
    end_note_peer(end, &mail->totals, END_PEER_FINAL);
}

void control_mail_read(const struct session_mail *mail)
{
  struct session_end *end = mail->end;

  if (end->control == END_CONTROL_AWAITS &&
      (mail->type == CONTROL_HEARD_LAST || mail->type == CONTROL_HEARD_FAIL)) {
    end_enter_control(end, END_CONTROL_OVER);
    control_take_last(end, mail);
  }
  if (end_is_over(end))
    return;
  if ((mail->type == CONTROL_HEARD_PEER || mail->type == CONTROL_HEARD_ADDRESS) && mail->code < 0) {
    end_fail_logged(end, mail->code, "this process cannot keep its peer's descriptors: %s%s",
                    strerror(-mail->code), limit_remedy(mail->code));
    return;
  }
  switch (mail->type) {
  case CONTROL_HEARD_PEER:
    control_take_peer(end, mail);
    end_connect(end, &mail->mail.blob);
    break;
  case CONTROL_HEARD_ADDRESS:
    end_connect(end, &mail->mail.blob);
    break;
  case CONTROL_HEARD_BEAT:
    end_note_peer(end, &mail->totals, END_PEER_HEARD);
    if (end->ops->beat)
      end->ops->beat(end);
    break;
  case CONTROL_HEARD_FINISH:
    if (end->ops->finish)
      end->ops->finish(end, &mail->totals);
    break;
  case CONTROL_HEARD_COUNTS:
    control_take_counts(end, mail);
    break;
  case CONTROL_HEARD_FAIL:
    /* An end that has failed already has reported its cause. */
    if (mail->is_unsaid)
      pst_log(PST_LOG_ERROR, "stream %s: %s", end->name, mail->text);
    end_peer_failed(end, mail->code, mail->text);
    control_take_last(end, mail);
    end_enter_control(end, mail->has_totals ? END_CONTROL_OWES : END_CONTROL_OVER);
    break;
  case CONTROL_HEARD_LAST:
    break;
  }
}

/* Writes the terms that both ends must have the same. */
static uint32_t adapter_make_terms(const struct session_end *end, struct control_pair *terms)
{
  char text[CONTROL_VALUE_MAX + 1];
  uint32_t count = 0;

  snprintf(text, sizeof(text), "%lu B", end->config->message);
  control_pair_add(terms, &count, CONTROL_TERMS_MAX, "message", text);
  transport_terms_add(end->transport, terms, &count);
  return count;
}

struct control_room {
  struct control_pair terms[CONTROL_TERMS_MAX];
  struct control_pair params[CONTROL_PARAMS_MAX];
  struct engine_address address;
};

static int adapter_describe_end(struct session_end *end, struct control_room *room,
                                struct control_stream *stream)
{
  *stream = (struct control_stream){.name = end->name,
                                    .context = end,
                                    .role = end->ops->control_role,
                                    .terms = room->terms,
                                    .params = room->params};
  stream->term_count = adapter_make_terms(end, room->terms);
  if (end->ops->params)
    stream->param_count = end->ops->params(end, room->params);
  int rc = engine_endpoint_address(&end->endpoint, &room->address);
  stream->address = room->address.blob;
  return rc;
}

static int adapter_describe_ends(struct pst_session *session, struct control_room *rooms,
                                 struct control_stream *streams, struct pst_error *error)
{
  for (uint32_t i = 0; i < session->end_count; i++) {
    struct session_end *end = session->ends[i];
    int rc = adapter_describe_end(end, &rooms[i], &streams[i]);
    if (rc < 0)
      return pst_fail(error, PST_EXIT_FAILED, rc, "stream %s: no endpoint address: %s", end->name,
                      strerror(-rc));
  }
  return 0;
}

/* An abort before the start has told nobody yet. */
static void adapter_tell_failures(const struct pst_session *session)
{
  for (uint32_t i = 0; i < session->end_count; i++) {
    struct session_end *end = session->ends[i];
    if (end->state != PST_STATE_FAILED || end->control != END_CONTROL_LIVE)
      continue;
    end_enter_control(end, END_CONTROL_OVER);
    control_fail(session->control, end, end->error, end->error_text, NULL);
  }
}

int control_adapter_open(struct pst_session *session, struct pst_error *error)
{
  const struct config *config = session->config;
  const uint32_t count = session->end_count;
  struct control_stream *streams = calloc(count, sizeof(*streams));
  struct control_room *rooms = calloc(count, sizeof(*rooms));
  const struct control_callbacks callbacks = {.context = session, .heard = control_mail_put};
  struct control_params params = {
      .in_process = session_has_both(session),
      .listen = session->roles & PST_SESSION_RECEIVER ? config->control.listen : NULL,
      .connect = session->roles & PST_SESSION_SENDER ? config->control.connect : NULL,
      .insecure = config->control.insecure,
      .tls = config->control.tls,
      .connect_timeout_ns = config->control.connect_timeout_ns,
      .heartbeat_ns = config->control.heartbeat_ns,
      .peer_timeout_ns = UINT64_MAX};
  int rc = -ENOMEM;

  for (uint32_t i = 0; i < count; i++)
    if (session->ends[i]->config->timeout_ns < params.peer_timeout_ns)
      params.peer_timeout_ns = session->ends[i]->config->timeout_ns;
  if (!streams || !rooms)
    pst_fail(error, PST_EXIT_FAILED, rc, "out of memory");
  else
    rc = adapter_describe_ends(session, rooms, streams, error);
  if (rc == 0)
    rc = control_open(&params, &callbacks, streams, count, &session->control, error);
  if (rc == 0)
    adapter_tell_failures(session);
  free(rooms);
  free(streams);
  return rc;
}
