/* SPDX-License-Identifier: Apache-2.0 */
/* Between the control thread and the threads that own ends: everything becomes
 * mail. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"

/* Its bytes go to `bytes`. Descriptors that it could not keep are left out. */
static int keep_blob(const struct pst_blob *from, void *bytes, struct pst_blob *to)
{
  *to = *from;
  to->struct_size = sizeof(*to);
  to->bytes = bytes;
  to->capacity = from->length;
  if (from->length)
    memcpy(bytes, from->bytes, from->length);
  for (to->fd_count = 0; to->fd_count < from->fd_count; to->fd_count++) {
    to->fds[to->fd_count] = fcntl(from->fds[to->fd_count], F_DUPFD_CLOEXEC, 3);
    if (to->fds[to->fd_count] < 0)
      return -errno;
  }
  return 0;
}

static struct session_mail *new_mail(struct session_end *end, enum mail_type type,
                                     const struct pst_blob *address, const struct pst_blob *remote)
{
  uint32_t length = address ? address->length : 0;
  struct session_mail *mail = calloc(1, sizeof(*mail) + length + (remote ? remote->length : 0));

  if (!mail) {
    pst_log(PST_LOG_ERROR, "stream %s: out of memory for a control message", end->name);
    return NULL;
  }
  mail->end = end;
  mail->type = type;
  if (address)
    mail->code = keep_blob(address, mail + 1, &mail->address);
  if (remote && mail->code == 0)
    mail->code = keep_blob(remote, (char *)(mail + 1) + length, &mail->remote);
  return mail;
}

void mail_free(struct session_mail *mail)
{
  for (uint32_t i = 0; i < mail->address.fd_count; i++)
    close(mail->address.fds[i]);
  for (uint32_t i = 0; i < mail->remote.fd_count; i++)
    close(mail->remote.fds[i]);
  if (!mail->is_kept)
    free(mail);
}

static void post(struct session_end *end, struct session_mail *mail)
{
  if (mail)
    thread_mail(end->thread, mail);
}

static void on_peer(void *context, void *stream, const struct control_peer *peer)
{
  struct session_mail *mail = new_mail(stream, MAIL_PEER, peer->address, peer->remote);

  (void)context;
  if (!mail)
    return;
  snprintf(mail->text, sizeof(mail->text), "%s", peer->text);
  mail->remote_length = peer->remote_length;
  mail->param_count =
      peer->param_count < CONTROL_PARAMS_MAX ? peer->param_count : CONTROL_PARAMS_MAX;
  memcpy(mail->params, peer->params, mail->param_count * sizeof(*mail->params));
  post(stream, mail);
}

static void on_address(void *context, void *stream, const struct pst_blob *address)
{
  (void)context;
  post(stream, new_mail(stream, MAIL_ADDRESS, address, NULL));
}

static void mail_totals(void *stream, enum mail_type type, const struct control_totals *totals)
{
  struct session_mail *mail = new_mail(stream, type, NULL, NULL);

  if (mail)
    mail->totals = *totals;
  post(stream, mail);
}

static void on_beat(void *context, void *stream, const struct control_totals *totals)
{
  (void)context;
  mail_totals(stream, MAIL_BEAT, totals);
}

static void on_finish(void *context, void *stream, const struct control_totals *totals)
{
  (void)context;
  mail_totals(stream, MAIL_FINISH, totals);
}

static void on_counts(void *context, void *stream, const struct control_totals *totals)
{
  (void)context;
  mail_totals(stream, MAIL_COUNTS, totals);
}

static void on_fail(void *context, void *stream, int code, const char *text,
                    const struct control_totals *totals)
{
  struct session_mail *mail = new_mail(stream, MAIL_FAIL, NULL, NULL);

  (void)context;
  if (!mail) {
    /* Lost, it would leave the stream waiting for ever. */
    mail = &((struct session_end *)stream)->fail_mail;
    *mail = (struct session_mail){.type = MAIL_FAIL, .is_kept = true, .end = stream};
  }
  mail->code = code < 0 ? code : -EPROTO;
  snprintf(mail->text, sizeof(mail->text), "%s", text);
  mail->has_totals = totals;
  if (totals)
    mail->totals = *totals;
  post(stream, mail);
}

static void on_last(void *context, void *stream, const struct control_totals *totals)
{
  struct session_mail *mail = new_mail(stream, MAIL_LAST, NULL, NULL);

  (void)context;
  if (mail && totals) {
    mail->has_totals = true;
    mail->totals = *totals;
  }
  post(stream, mail);
}

static const struct control_callbacks callbacks = {.peer = on_peer,
                                                   .address = on_address,
                                                   .beat = on_beat,
                                                   .finish = on_finish,
                                                   .counts = on_counts,
                                                   .fail = on_fail,
                                                   .last = on_last};

/* ---- What a stream says of itself --------------------------------------------- */

void glue_add_pair(struct control_pair *pairs, uint32_t *count, uint32_t max, const char *key,
                   const char *value)
{
  if (*count == max)
    return;
  snprintf(pairs[*count].key, sizeof(pairs[*count].key), "%s", key);
  snprintf(pairs[*count].value, sizeof(pairs[*count].value), "%s", value);
  ++*count;
}

/* What one end can do and the other cannot would fail only when it is tried. */
static const char *operations_of(const struct session_end *end)
{
  static const char *const names[] = {
      "none",    "WRITE",          "READ",          "WRITE, READ",
      "atomics", "WRITE, atomics", "READ, atomics", "WRITE, READ, atomics"};
  uint64_t has = end->lane->device->limits.capabilities;

  return names[(has & PST_CAP_WRITE ? 1 : 0) | (has & PST_CAP_READ ? 2 : 0) |
               (has & PST_CAP_ATOMIC ? 4 : 0)];
}

void glue_transport_terms(const struct config_transport *transport, struct control_pair *terms,
                          uint32_t *count)
{
  const struct pst_option *table;
  char key[64], text[CONTROL_VALUE_MAX + 1];
  size_t options;

  glue_add_pair(terms, count, CONTROL_TERMS_MAX, "transport", transport->plugin.name);
  table = options_table(transport->plugin.options, &options);
  for (size_t i = 0; i < options; i++) {
    if (!(table[i].scope & PST_SCOPE_STREAM))
      continue;
    snprintf(key, sizeof(key), "transport.%s", table[i].name);
    if (options_text(transport->plugin.options, table[i].name, text, sizeof(text)) == 0)
      glue_add_pair(terms, count, CONTROL_TERMS_MAX, key, text);
  }
}

/* What both ends must have the same. */
static uint32_t make_terms(const struct session_end *end, struct control_pair *terms)
{
  const struct config_transport *transport =
      end->is_sender ? &end->config->sender.transport : &end->config->receiver.transport;
  char text[CONTROL_VALUE_MAX + 1];
  uint32_t count = 0;

  snprintf(text, sizeof(text), "%lu B",
           end->is_one_sided ? end->config->region : end->config->message);
  glue_add_pair(terms, &count, CONTROL_TERMS_MAX, end->is_one_sided ? "region" : "message", text);
  if (end->is_one_sided)
    glue_add_pair(terms, &count, CONTROL_TERMS_MAX, "one-sided operations", operations_of(end));
  glue_transport_terms(transport, terms, &count);
  return count;
}

static uint32_t make_params(const struct session_end *end, struct control_pair *params)
{
  const struct pst_sender *sender = (const struct pst_sender *)end;
  char text[32];
  uint32_t count = 0;

  if (!end->is_sender || end->is_one_sided)
    return 0;
  /* What is read from a file is no pattern, and nobody can verify it. */
  if (end->config->sender.source.type == CONFIG_SOURCE_PATTERN) {
    snprintf(text, sizeof(text), "%lu", sender->seed);
    glue_add_pair(params, &count, CONTROL_PARAMS_MAX, "pattern.seed", text);
  }
  if (sender->leader)
    sender = sender->leader;
  for (uint32_t i = 0; i < sender->param_count; i++)
    glue_add_pair(params, &count, CONTROL_PARAMS_MAX, sender->params[i].key,
                  sender->params[i].value);
  return count;
}

struct glue_stream {
  struct control_pair terms[CONTROL_TERMS_MAX];
  struct control_pair params[CONTROL_PARAMS_MAX];
  unsigned char address[CONTROL_ADDRESS_MAX];
};

static int describe_end(struct session_end *end, struct glue_stream *room,
                        struct control_stream *stream)
{
  *stream = (struct control_stream){.name = end->name,
                                    .context = end,
                                    .is_sender = end->is_sender,
                                    .terms = room->terms,
                                    .params = room->params,
                                    .address = {.struct_size = sizeof(stream->address),
                                                .capacity = sizeof(room->address),
                                                .bytes = room->address}};
  if (end->is_one_sided && !end->is_sender) {
    stream->remote = ((struct pst_target *)end)->offer;
    stream->remote_length = ((struct pst_target *)end)->own.length;
  }
  stream->term_count = make_terms(end, room->terms);
  stream->param_count = make_params(end, room->params);
  return end->lane->ops->endpoint_address(end->endpoint, &stream->address);
}

static int describe_ends(struct pst_session *session, struct glue_stream *rooms,
                         struct control_stream *streams, struct pst_error *error)
{
  uint32_t count = session->out_count + session->in_count;

  for (uint32_t i = 0; i < count; i++) {
    struct session_end *end =
        i < session->out_count ? session->outs[i] : session->ins[i - session->out_count];
    int rc = describe_end(end, &rooms[i], &streams[i]);
    if (rc < 0)
      return pst_fail(error, PST_EXIT_FAILED, rc, "stream %s: no endpoint address: %s", end->name,
                      strerror(-rc));
  }
  return 0;
}

/* An abort before the start has told nobody yet. */
static void tell_failures(const struct pst_session *session)
{
  for (uint32_t i = 0; i < session->thread_count; i++)
    for (uint32_t e = 0; e < session->threads[i]->end_count; e++) {
      struct session_end *end = session->threads[i]->ends[e];
      if (end->state != PST_STATE_FAILED || end->control_over)
        continue;
      end->control_over = true;
      control_fail(session->control, end, end->error, end->error_text, NULL);
    }
}

int glue_open(struct pst_session *session, struct pst_error *error)
{
  const struct config *config = session->config;
  uint32_t count = session->out_count + session->in_count;
  struct control_stream *streams = calloc(count, sizeof(*streams));
  struct glue_stream *rooms = calloc(count, sizeof(*rooms));
  struct control_callbacks with_context = callbacks;
  struct control_params params = {.in_process =
                                      session->roles == (PST_SESSION_SENDER | PST_SESSION_RECEIVER),
                                  .listen = session->in_count ? config->control.listen : NULL,
                                  .connect = session->out_count ? config->control.connect : NULL,
                                  .insecure = config->control.insecure,
                                  .connect_timeout_ns = config->control.connect_timeout_ns,
                                  .heartbeat_ns = config->control.heartbeat_ns,
                                  .peer_timeout_ns = UINT64_MAX};
  int rc = -ENOMEM;

  with_context.context = session;
  for (uint32_t i = 0; i < session->thread_count; i++)
    for (uint32_t e = 0; e < session->threads[i]->end_count; e++)
      if (session->threads[i]->ends[e]->config->timeout_ns < params.peer_timeout_ns)
        params.peer_timeout_ns = session->threads[i]->ends[e]->config->timeout_ns;
  if (!streams || !rooms)
    pst_fail(error, PST_EXIT_FAILED, rc, "out of memory");
  else
    rc = describe_ends(session, rooms, streams, error);
  if (rc == 0)
    rc = control_open(&params, &with_context, streams, count, &session->control, error);
  if (rc == 0)
    tell_failures(session);
  free(rooms);
  free(streams);
  return rc;
}
