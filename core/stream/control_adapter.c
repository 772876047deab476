/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the control channel of a session: what its streams say of themselves. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"

#include "control_mail.h"
#include "receiver.h"
#include "sender.h"
#include "session.h"

/* What both ends must have the same. */
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
  unsigned char address[CONTROL_ADDRESS_MAX];
};

static int adapter_describe_end(struct session_end *end, struct control_room *room,
                                struct control_stream *stream)
{
  *stream = (struct control_stream){.name = end->name,
                                    .context = end,
                                    .is_sender = end->ops->is_sender,
                                    .terms = room->terms,
                                    .params = room->params,
                                    .address = {.struct_size = sizeof(stream->address),
                                                .capacity = sizeof(room->address),
                                                .bytes = room->address}};
  stream->term_count = adapter_make_terms(end, room->terms);
  if (end->ops->params)
    stream->param_count = end->ops->params(end, room->params);
  return end->lane->ops->endpoint_address(end->endpoint, &stream->address);
}

static int adapter_describe_ends(struct pst_session *session, struct control_room *rooms,
                                 struct control_stream *streams, struct pst_error *error)
{
  uint32_t count = session->sender_count + session->receiver_count;

  for (uint32_t i = 0; i < count; i++) {
    struct session_end *end = i < session->sender_count
                                  ? &session->senders[i]->end
                                  : &session->receivers[i - session->sender_count]->end;
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
  for (uint32_t i = 0; i < session->thread_count; i++)
    for (uint32_t e = 0; e < session->threads[i]->end_count; e++) {
      struct session_end *end = session->threads[i]->ends[e];
      if (end->state != PST_STATE_FAILED || end->control != END_CONTROL_LIVE)
        continue;
      end->control = END_CONTROL_OVER;
      control_fail(session->control, end, end->error, end->error_text, NULL);
    }
}

int control_adapter_open(struct pst_session *session, struct pst_error *error)
{
  const struct config *config = session->config;
  uint32_t count = session->sender_count + session->receiver_count;
  struct control_stream *streams = calloc(count, sizeof(*streams));
  struct control_room *rooms = calloc(count, sizeof(*rooms));
  const struct control_callbacks callbacks = {.context = session, .heard = control_mail_put};
  struct control_params params = {.in_process =
                                      session->roles == (PST_SESSION_SENDER | PST_SESSION_RECEIVER),
                                  .listen = session->receiver_count ? config->control.listen : NULL,
                                  .connect = session->sender_count ? config->control.connect : NULL,
                                  .insecure = config->control.insecure,
                                  .connect_timeout_ns = config->control.connect_timeout_ns,
                                  .heartbeat_ns = config->control.heartbeat_ns,
                                  .peer_timeout_ns = UINT64_MAX};
  int rc = -ENOMEM;

  for (uint32_t i = 0; i < session->thread_count; i++)
    for (uint32_t e = 0; e < session->threads[i]->end_count; e++)
      if (session->threads[i]->ends[e]->config->timeout_ns < params.peer_timeout_ns)
        params.peer_timeout_ns = session->threads[i]->ends[e]->config->timeout_ns;
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
