/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of streams and of nodes: how they are made, sent and passed on, and the terms that both
 * ends must have the same. */

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "messages.h"
#include "protocol.h"
#include "util/clock.h"

int blob_copy(const struct pst_blob *from, uint32_t length_max, struct pst_blob *to)
{
  return from->length > length_max || from->fd_count > WIRE_FDS_MAX ? -E2BIG : blob_keep(from, to);
}

struct wire_message *message_new(struct control *control, enum wire_type type)
{
  struct wire_message *m = &control->say;

  memset(m, 0, sizeof(*m));
  m->type = type;
  return m;
}

struct wire_message *message_new_text(struct control *control, enum wire_type type, int code,
                                      const char *text)
{
  struct wire_message *m = message_new(control, type);

  m->code = code;
  if (text)
    snprintf(m->text, sizeof(m->text), "%.*s", WIRE_TEXT_MAX, text);
  return m;
}

void message_put_terms(struct wire_message *m, const struct terms *terms,
                       const struct terms *params)
{
  if (terms) {
    m->term_count = terms->count;
    memcpy(m->terms, terms->pairs, terms->count * sizeof(m->terms[0]));
  }
  if (params) {
    m->param_count = params->count;
    memcpy(m->params, params->pairs, params->count * sizeof(m->params[0]));
  }
}

void message_send_blob(struct connection *peer, struct wire_message *m, const struct pst_blob *blob)
{
  m->blob = blob->bytes;
  m->blob_length = blob->length;
  if (fd_channel_send(peer, blob, m))
    connection_send(peer, m);
}

struct pst_blob message_blob(const struct message_in *in)
{
  const struct wire_message *m = in->message;
  struct pst_blob blob = {.struct_size = sizeof(blob),
                          .length = m->blob_length,
                          .capacity = m->blob_length,
                          .fd_count = in->fds->count > 0 ? m->fd_count : 0,
                          .bytes = (void *)(uintptr_t)m->blob,
                          .fds = {-1, -1, -1, -1}};

  for (uint32_t i = 0; i < blob.fd_count; i++)
    blob.fds[i] = in->fds->fds[i];
  return blob;
}

void message_got(struct connection *peer, const struct wire_message *m, const struct unix_fds *fds)
{
  const struct control_protocol *protocol = peer->control->protocol;
  struct message_in in = {.peer = peer, .message = m, .fds = fds};

  /* Callbacks are over by then: connections that close read nothing. */
  assert(!peer->control->quiet && control_is_own_thread(peer->control));
  if (m->type == WIRE_KEEP || (m->type != WIRE_BYE && !protocol->admits(&in)))
    return;
  if (protocol->got[m->type])
    protocol->got[m->type](&in);
  else
    connection_drop(peer, -EPROTO, "sent a %s, which is not for %s", wire_type_name(m->type),
                    protocol->what);
}

void seconds_text(uint64_t ns, char text[24])
{
  double seconds = (double)ns / (double)PST_NS_PER_S;

  snprintf(text, 24, seconds < 1 ? "%.3g s" : "%.4g s", seconds);
}

/* ---- Terms ---------------------------------------------------------------------------- */

static const char *message_value_of(const struct control_pair *pairs, uint32_t count,
                                    const char *key)
{
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(pairs[i].key, key) == 0)
      return pairs[i].value;
  return NULL;
}

static void message_add_difference(char *text, size_t size, const char *key, const char *sender,
                                   const char *receiver, const char *const ends[2])
{
  size_t at = strlen(text);

  snprintf(text + at, size - at, "%s%s: %s %s, %s %s", at ? "; " : "", key, ends[0],
           sender ? sender : "has none", ends[1], receiver ? receiver : "has none");
}

/* "udp (wire form penstock-datagram)" */
static const char *message_transport_words(const struct control_pair *terms, uint32_t count,
                                           char *text, size_t size)
{
  const char *name = message_value_of(terms, count, CONTROL_TERM_TRANSPORT);
  const char *wire = message_value_of(terms, count, CONTROL_TERM_WIRE);

  if (!wire || !name || strcmp(wire, name) == 0)
    return wire;
  snprintf(text, size, "%s (wire form %s)", name, wire);
  return text;
}

static bool message_is_option(const char *key)
{
  return strncmp(key, CONTROL_TERM_OPTION, strlen(CONTROL_TERM_OPTION)) == 0;
}

/* One line for both. */
static bool message_names_transport(const char *key)
{
  return strcmp(key, CONTROL_TERM_WIRE) == 0 || strcmp(key, CONTROL_TERM_TRANSPORT) == 0;
}

bool terms_compare(const struct terms *terms, const struct wire_message *offer,
                   const char *const ends[2], char *text, size_t size)
{
  const char *const wire = message_value_of(terms->pairs, terms->count, CONTROL_TERM_WIRE);
  const char *const its_wire = message_value_of(offer->terms, offer->term_count, CONTROL_TERM_WIRE);
  const bool one_wire = wire && its_wire ? strcmp(wire, its_wire) == 0 : wire == its_wire;
  char words[2][2 * CONTROL_VALUE_MAX + 32];
  const char *other;

  text[0] = '\0';
  if (!one_wire)
    message_add_difference(
        text, size, CONTROL_TERM_TRANSPORT,
        message_transport_words(offer->terms, offer->term_count, words[0], sizeof(words[0])),
        message_transport_words(terms->pairs, terms->count, words[1], sizeof(words[1])), ends);
  for (uint32_t i = 0; i < offer->term_count; i++) {
    const struct control_pair *theirs = &offer->terms[i];
    other = message_value_of(terms->pairs, terms->count, theirs->key);
    if (message_names_transport(theirs->key) ||
        (message_is_option(theirs->key) && (!one_wire || !other)))
      continue;
    if (!other || strcmp(other, theirs->value) != 0)
      message_add_difference(text, size, theirs->key, theirs->value, other, ends);
  }
  for (uint32_t i = 0; i < terms->count; i++) {
    const struct control_pair *ours = &terms->pairs[i];
    if (!message_names_transport(ours->key) && !message_is_option(ours->key) &&
        !message_value_of(offer->terms, offer->term_count, ours->key))
      message_add_difference(text, size, ours->key, NULL, ours->value, ends);
  }
  return text[0] == '\0';
}

int terms_copy(const struct control_pair *from, uint32_t count, struct terms *to)
{
  to->pairs = calloc(count ? count : 1, sizeof(*to->pairs));
  if (!to->pairs)
    return -ENOMEM;
  if (count > 0)
    memcpy(to->pairs, from, count * sizeof(*to->pairs));
  to->count = count;
  return 0;
}

void terms_free(struct terms *terms)
{
  free(terms->pairs);
}
