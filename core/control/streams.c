/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a control channel: copied, checked, and found again. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "streams.h"
#include "util/limit_remedy.h"
#include "util/log.h"

static int stream_copy(const struct control_stream *from, struct stream *to,
                       struct pst_error *error)
{
  const char *name = from->name ? from->name : "";

  if (!name[0] || strlen(name) > WIRE_STREAM_MAX)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "stream '%.40s': its name has %zu bytes; 1 to %d are legal", name, strlen(name),
                    WIRE_STREAM_MAX);
  if (from->term_count > CONTROL_TERMS_MAX || from->param_count > CONTROL_PARAMS_MAX)
    return pst_fail(error, PST_EXIT_USAGE, -E2BIG,
                    "stream '%s': %u terms and %u params; at most %d and %d", name,
                    from->term_count, from->param_count, CONTROL_TERMS_MAX, CONTROL_PARAMS_MAX);
  snprintf(to->name, sizeof(to->name), "%s", name);
  to->context = from->context;
  to->role = from->role;
  int rc = terms_copy(from->terms, from->term_count, &to->terms);
  if (rc == 0)
    rc = terms_copy(from->params, from->param_count, &to->params);
  if (rc == 0)
    rc = blob_copy(&from->address, CONTROL_ADDRESS_MAX, &to->address);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc,
                    "stream '%s': its endpoint's address (%u bytes, %u descriptors) cannot be "
                    "kept: %s%s",
                    name, from->address.length, from->address.fd_count, strerror(-rc),
                    limit_remedy(rc));
  return 0;
}

/* The two ends of a stream stand together in the index. */
static int stream_check_pairs(const struct control *control, struct pst_error *error)
{
  const struct stream_control *own = control->streams;
  const struct name_index_entry *end = &own->names[own->count];

  for (uint32_t i = 0; i < own->count; i++) {
    const struct stream *a = &own->all[own->names[i].item];
    const struct name_index_entry *entry =
        name_index_find(own->names, own->count, a->name, strlen(a->name));
    uint32_t alike = 0, others = 0;
    for (; entry < end && strcmp(entry->name, a->name) == 0; entry++)
      ++*(own->all[entry->item].role == a->role ? &alike : &others);
    if (alike > 1)
      return pst_fail(error, PST_EXIT_USAGE, -EEXIST, "stream '%s' appears twice", a->name);
    if (control->in_process && others == 0)
      return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                      "stream '%s' has a %s in this process but no %s", a->name, a->role->name,
                      a->role->peer_name);
  }
  return 0;
}

static int stream_by_context(const void *a, const void *b)
{
  const struct stream *const *x = a, *const *y = b;
  uintptr_t left = (uintptr_t)(*x)->context, right = (uintptr_t)(*y)->context;

  return (left > right) - (left < right);
}

int streams_copy(struct control *control, const struct control_stream *streams, uint32_t count,
                 const struct control_callbacks *callbacks, struct pst_error *error)
{
  struct stream_control *own = control->streams = calloc(1, sizeof(*own));
  uint32_t room = count ? count : 1;
  int rc;

  if (own) {
    own->callbacks = *callbacks;
    own->listen_notice_ns = control->now_ns;
    own->all = calloc(room, sizeof(*own->all));
    own->names = calloc(room, sizeof(*own->names));
    own->contexts = calloc(room, sizeof(struct stream *));
  }
  if (!own || !own->all || !own->names || !own->contexts)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "control: out of memory for %u streams",
                    count);
  while (own->count < count) {
    uint32_t i = own->count++;
    if ((rc = stream_copy(&streams[i], &own->all[i], error)) < 0)
      return rc;
    own->names[i] = (struct name_index_entry){own->all[i].name, i};
    own->contexts[i] = &own->all[i];
  }
  name_index_sort(own->names, count);
  qsort(own->contexts, count, sizeof(struct stream *), stream_by_context);
  return stream_check_pairs(control, error);
}

void streams_free(struct stream_control *own)
{
  if (!own)
    return;
  for (uint32_t i = 0; i < own->count; i++) {
    terms_free(&own->all[i].terms);
    terms_free(&own->all[i].params);
    blob_free(&own->all[i].address);
  }
  free(own->all);
  free(own->names);
  free(own->contexts);
  free(own->connect_text);
  free(own);
}

struct stream *streams_find(const struct control *control, const char *name,
                            const struct stream_role *role)
{
  const struct stream_control *own = control->streams;
  const struct name_index_entry *end = &own->names[own->count];
  const struct name_index_entry *entry =
      name_index_find(own->names, own->count, name, strlen(name));

  for (; entry && entry < end && strcmp(entry->name, name) == 0; entry++)
    if (own->all[entry->item].role == role)
      return &own->all[entry->item];
  return NULL;
}

bool streams_have(const struct control *control, const struct stream_role *role)
{
  for (const struct stream *s = control->streams->all; s < streams_end(control); s++)
    if (s->role == role)
      return true;
  return false;
}

struct stream *streams_of_context(const struct control *control, void *context)
{
  struct stream key = {.context = context};
  const struct stream *wanted = &key;
  struct stream **found = bsearch(&wanted, control->streams->contexts, control->streams->count,
                                  sizeof(struct stream *), stream_by_context);

  return found ? *found : NULL;
}

#define BIT(state) (1u << STREAM_##state)
#define FAILURES (BIT(FAILED) | BIT(FAILED_AWAITS) | BIT(FAILED_OWES))

void stream_enter(struct stream *s, enum stream_state state, struct connection *peer)
{
  static const uint32_t successors[] __attribute__((unused)) = {
      [STREAM_WAITING] = BIT(OFFERED) | BIT(LIVE) | FAILURES,
      [STREAM_OFFERED] = BIT(WAITING) | BIT(LIVE) | FAILURES,
      [STREAM_LIVE] = BIT(FINISHED) | FAILURES,
      [STREAM_FINISHED] = BIT(COUNTED) | FAILURES,
      [STREAM_COUNTED] = BIT(OVER) | FAILURES,
      [STREAM_OVER] = 0,
      [STREAM_FAILED] = BIT(FAILED_OWES),
      [STREAM_FAILED_AWAITS] = BIT(FAILED),
      [STREAM_FAILED_OWES] = BIT(FAILED),
  };
  const uint32_t alone __attribute__((unused)) = BIT(WAITING) | BIT(OVER) | BIT(FAILED);

  assert(successors[s->state] & 1u << state);
  assert((!peer) == ((alone & 1u << state) != 0));
  s->state = state;
  s->peer = peer;
}

void streams_tell(const struct control *control, const struct stream *s,
                  const struct control_stream_message *message)
{
  assert(!control->quiet && control_is_own_thread(control));
  const struct control_callbacks *callbacks = &control->streams->callbacks;

  callbacks->heard(callbacks->context, s->context, message);
}

void streams_fail(struct control *control, struct stream *s, int code, const char *text,
                  bool is_unsaid, const struct control_totals *totals)
{
  if (stream_has_ended(s))
    return;
  stream_enter(s, STREAM_FAILED, NULL);
  s->fail_code = code;
  snprintf(s->fail_text, sizeof(s->fail_text), "%s", text);
  streams_tell(control, s,
               &(struct control_stream_message){.type = CONTROL_HEARD_FAIL,
                                                .code = code,
                                                .text = text,
                                                .is_unsaid = is_unsaid,
                                                .totals = totals});
}

#define NAMES_SHOWN 8

/* Lists the streams of a peer; NULL: the streams of that role that wait for a peer. */
static void names_list(const struct control *control, const struct connection *peer,
                       const struct stream_role *role, char *text, size_t size)
{
  uint32_t count = 0;
  size_t at = 0;

  text[0] = '\0';
  for (const struct stream *s = control->streams->all; s < streams_end(control); s++) {
    if (peer ? s->peer != peer || stream_has_ended(s)
             : s->role != role || s->state != STREAM_WAITING)
      continue;
    if (count++ < NAMES_SHOWN && at < size)
      at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", s->name);
  }
  if (count > NAMES_SHOWN && at < size)
    snprintf(text + at, size - at, " and %u more", count - NAMES_SHOWN);
}

void names_waiting(const struct control *control, const struct stream_role *role, char *text,
                   size_t size)
{
  names_list(control, NULL, role, text, size);
}

void names_of_peer(const struct connection *peer, char *text, size_t size)
{
  names_list(peer->control, peer, NULL, text, size);
}
