/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a control channel: copied, checked, and found again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "util/limit_remedy.h"
#include "util/log.h"

int flow_copy_pairs(const struct control_pair *from, uint32_t count, struct control_pair **to)
{
  *to = calloc(count ? count : 1, sizeof **to);
  if (!*to)
    return -ENOMEM;
  if (count > 0)
    memcpy(*to, from, count * sizeof **to);
  return 0;
}

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
  to->is_sender = from->is_sender;
  to->term_count = from->term_count;
  to->param_count = from->param_count;
  int rc = flow_copy_pairs(from->terms, from->term_count, &to->terms);
  if (rc == 0)
    rc = flow_copy_pairs(from->params, from->param_count, &to->params);
  if (rc == 0)
    rc = blob_copy(&from->address, &to->address);
  to->remote_length = from->remote_length;
  if (rc == 0 && from->remote_length > 0)
    rc = blob_copy(&from->remote, &to->remote);
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
    uint32_t ends[2] = {0};
    for (; entry < end && strcmp(entry->name, a->name) == 0; entry++)
      if (++ends[control->streams[entry->item].is_sender] > 1)
        return pst_fail(error, PST_EXIT_USAGE, -EEXIST, "stream '%s' is there twice", a->name);
    if (control->in_process && ends[!a->is_sender] == 0)
      return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                      "stream '%s' has a %s in this process but no %s", a->name,
                      a->is_sender ? "sender" : "receiver", a->is_sender ? "receiver" : "sender");
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
  for (uint32_t i = 0; control->streams && i < control->stream_count; i++) {
    free(control->streams[i].terms);
    free(control->streams[i].params);
    blob_free(&control->streams[i].address);
    blob_free(&control->streams[i].remote);
  }
  free(control->streams);
  free(control->names);
  free(control->contexts);
}

struct stream *streams_find(const struct control *control, const char *name, bool is_sender)
{
  const struct index_entry *end = &control->names[control->stream_count];
  const struct index_entry *entry =
      index_find(control->names, control->stream_count, name, strlen(name));

  for (; entry && entry < end && strcmp(entry->name, name) == 0; entry++)
    if (control->streams[entry->item].is_sender == is_sender)
      return &control->streams[entry->item];
  return NULL;
}

struct stream *streams_of_context(const struct control *control, void *context)
{
  struct stream key = {.context = context};
  const struct stream *wanted = &key;
  struct stream **found = bsearch(&wanted, control->contexts, control->stream_count,
                                  sizeof(struct stream *), by_context);

  return found ? *found : NULL;
}
