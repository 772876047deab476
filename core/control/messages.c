/* SPDX-License-Identifier: Apache-2.0 */
/* What the messages of streams and of nodes have alike: how they are made, sent and handed on. */
#include "messages.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"
#include "peer.h"
#include "terms.h"

int blob_copy(const struct pst_blob *from, uint32_t length_max, struct pst_blob *to)
{
  struct pst_blob copy;

  if (from->length > length_max || from->fd_count > WIRE_FDS_MAX)
    return -E2BIG;
  int rc = blob_keep(from, &copy);
  if (rc == 0)
    *to = copy;
  return rc;
}

struct pst_blob blob_view(const uint8_t *bytes, uint32_t length, const int *fds, uint32_t fd_count)
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

struct wire_message *message_new(struct control *control, enum wire_type type)
{
  struct wire_message *m = &control->say;

  memset(m, 0, sizeof *m);
  m->type = type;
  return m;
}

struct wire_message *message_new_text(struct control *control, enum wire_type type, int code,
                                      const char *text)
{
  struct wire_message *m = message_new(control, type);

  m->code = code;
  if (text)
    snprintf(m->text, sizeof m->text, "%.*s", WIRE_TEXT_MAX, text);
  return m;
}

void message_put_terms(struct wire_message *m, const struct terms *terms)
{
  m->term_count = terms->count;
  if (terms->count > 0)
    memcpy(m->terms, terms->pairs, terms->count * sizeof m->terms[0]);
}

void message_put_params(struct wire_message *m, const struct terms *params)
{
  m->param_count = params->count;
  if (params->count > 0)
    memcpy(m->params, params->pairs, params->count * sizeof m->params[0]);
}

void message_send_blob(struct peer *peer, struct wire_message *m, const struct pst_blob *blob)
{
  m->blob = blob->bytes;
  m->blob_length = blob->length;
  if (fd_channel_send(peer, blob, m))
    peer_send(peer, m);
}

struct pst_blob message_blob(const struct message_in *in)
{
  const struct wire_message *m = in->message;

  return blob_view(m->blob, m->blob_length, in->fds->fds, in->fds->count > 0 ? m->fd_count : 0);
}

void message_got(struct peer *peer, const struct wire_message *m, const struct side_fds *fds)
{
  const struct control_protocol *protocol = peer->control->protocol;
  struct message_in in = {.peer = peer, .message = m, .fds = fds};

  /* Callbacks are over by then: connections that close read nothing. */
  assert(!peer->control->quiet);
  if (m->type == WIRE_KEEP || (m->type != WIRE_BYE && !protocol->admits(&in)))
    return;
  if (protocol->got[m->type])
    protocol->got[m->type](&in);
  else
    peer_drop(peer, -EPROTO, "sent a %s, which is not for %s", wire_type_name(m->type),
              protocol->what);
}
