/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a control channel: copied, checked, and found again. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"
#include "streams.h"
#include "util/limit_remedy.h"
#include "util/log.h"

static int copy_stream(const struct control_stream *from, struct stream *to,
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
  snprintf(to->name, sizeof to->name, "%s", name);
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
static int check_pairs(const struct control *control, struct pst_error *error)
{
  for (uint32_t i = 0; i < control->stream_count; i++) {
    const struct stream *a = &control->streams[control->names[i].item];
    const struct index_entry *entry =
        index_find(control->names, control->stream_count, a->name, strlen(a->name));
    const struct index_entry *end = &control->names[control->stream_count];
    uint32_t alike = 0, others = 0;
    for (; entry < end && strcmp(entry->name, a->name) == 0; entry++)
      ++*(control->streams[entry->item].role == a->role ? &alike : &others);
    if (alike > 1)
      return pst_fail(error, PST_EXIT_USAGE, -EEXIST, "stream '%s' is there twice", a->name);
    if (control->in_process && others == 0)
      return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                      "stream '%s' has a %s in this process but no %s", a->name, a->role->name,
                      a->role->peer_name);
  }
  return 0;
}

static int by_context(const void *a, const void *b)
{
  const struct stream *const *x = a, *const *y = b;
  uintptr_t left = (uintptr_t)(*x)->context, right = (uintptr_t)(*y)->context;

  return (left > right) - (left < right);
}

int streams_copy(struct control *control, const struct control_stream *streams, uint32_t count,
                 struct pst_error *error)
{
  uint32_t room = count ? count : 1;
  int rc;

  control->streams = calloc(room, sizeof *control->streams);
  control->names = calloc(room, sizeof *control->names);
  control->contexts = calloc(room, sizeof(struct stream *));
  if (!control->streams || !control->names || !control->contexts)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "control: out of memory for %u streams",
                    count);
  while (control->stream_count < count) {
    uint32_t i = control->stream_count++;
    if ((rc = copy_stream(&streams[i], &control->streams[i], error)) < 0)
      return rc;
    control->names[i] = (struct index_entry){control->streams[i].name, i};
    control->contexts[i] = &control->streams[i];
  }
  index_sort(control->names, count);
  qsort(control->contexts, count, sizeof(struct stream *), by_context);
  return check_pairs(control, error);
}

void streams_free(struct control *control)
{
  for (uint32_t i = 0; i < control->stream_count; i++) {
    terms_free(&control->streams[i].terms);
    terms_free(&control->streams[i].params);
    blob_free(&control->streams[i].address);
  }
  free(control->streams);
  free(control->names);
  free(control->contexts);
}

struct stream *streams_find(const struct control *control, const char *name,
                            const struct stream_role *role)
{
  const struct index_entry *end = &control->names[control->stream_count];
  const struct index_entry *entry =
      index_find(control->names, control->stream_count, name, strlen(name));

  for (; entry && entry < end && strcmp(entry->name, name) == 0; entry++)
    if (control->streams[entry->item].role == role)
      return &control->streams[entry->item];
  return NULL;
}

bool streams_have(const struct control *control, const struct stream_role *role)
{
  for (const struct stream *s = control->streams; s < streams_end(control); s++)
    if (s->role == role)
      return true;
  return false;
}

struct stream *streams_of_context(const struct control *control, void *context)
{
  struct stream key = {.context = context};
  const struct stream *wanted = &key;
  struct stream **found = bsearch(&wanted, control->contexts, control->stream_count,
                                  sizeof(struct stream *), by_context);

  return found ? *found : NULL;
}

#define BIT(state) (1u << STREAM_##state)
#define FAILURES (BIT(FAILED) | BIT(FAILED_AWAITS) | BIT(FAILED_OWES))

void stream_enter(struct stream *s, enum stream_state state, struct peer *peer)
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
  assert((peer == NULL) == ((alone & 1u << state) != 0));
  s->state = state;
  s->peer = peer;
}

void streams_tell(const struct control *control, const struct stream *s,
                  const struct control_stream_message *message)
{
  assert(!control->quiet && control_is_own_thread(control));
  control->callbacks.heard(control->callbacks.context, s->context, message);
}

void streams_fail(struct control *control, struct stream *s, int code, const char *text,
                  bool is_unsaid, const struct control_totals *totals)
{
  if (stream_has_ended(s))
    return;
  stream_enter(s, STREAM_FAILED, NULL);
  s->fail_code = code;
  snprintf(s->fail_text, sizeof s->fail_text, "%s", text);
  streams_tell(control, s,
               &(struct control_stream_message){.type = CONTROL_HEARD_FAIL,
                                                .code = code,
                                                .text = text,
                                                .is_unsaid = is_unsaid,
                                                .totals = totals});
}

#define NAMES_SHOWN 8

/* Of that peer; NULL: those of that role that wait for one. */
static void names_list(const struct control *control, const struct peer *peer,
                       const struct stream_role *role, char *text, size_t size)
{
  uint32_t count = 0;
  size_t at = 0;

  text[0] = '\0';
  for (const struct stream *s = control->streams; s < streams_end(control); s++) {
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

void names_of_peer(const struct peer *peer, char *text, size_t size)
{
  names_list(peer->control, peer, NULL, text, size);
}
