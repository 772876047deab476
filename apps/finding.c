/* SPDX-License-Identifier: Apache-2.0 */
/* Findings about a configuration, with their places. */
#include "finding.h"

#include <ctype.h>
#include <errno.h>
#include <json-c/json.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARNINGS_MAX 64 /* keeps a result small, though a warning may be repeated for ever */

static const char *const names[FINDINGS] = {
    [FINDING_FAILED] = "failed",
    [FINDING_RUNNING] = "running",
    [FINDING_INTERRUPTED] = "interrupted",
    [FINDING_USAGE] = "usage",
    [FINDING_UNAVAILABLE] = "unavailable",
    [FINDING_EXPECT] = "expect",
    [FINDING_PEER] = "peer",
    [FINDING_STOPPED] = "stopped",
    [FINDING_NOTHING_ARRIVED] = "nothing_arrived",
    [FINDING_LOSS] = "loss",
    [FINDING_DUPLICATES] = "duplicates",
    [FINDING_REORDERED] = "reordered",
    [FINDING_CORRUPTED] = "corrupted",
    [FINDING_UNBALANCED] = "unbalanced",
    [FINDING_OUTPUT] = "output",
    [FINDING_NO_MAX_LOSS] = "no_max_loss",
    [FINDING_UNKNOWN_COUNTS] = "unknown_counts",
    [FINDING_RECORDING] = "recording",
    [FINDING_LEFT_OUT] = "left_out",
    [FINDING_SHARED_CPU] = "shared_cpu",
    [FINDING_UNNUMBERED] = "unnumbered",
    [FINDING_LOG] = "log",
};

static struct {
  pthread_mutex_t lock;
  struct warning {
    enum finding finding;
    char *where, *text;
  } kept[WARNINGS_MAX];
  unsigned count;
  bool more; /* than are kept */
} warnings = {.lock = PTHREAD_MUTEX_INITIALIZER};

enum finding app_finding_of(int exit_status, int code)
{
  switch (exit_status) {
  case PST_EXIT_USAGE:
    return FINDING_USAGE;
  case PST_EXIT_UNAVAILABLE:
    return FINDING_UNAVAILABLE;
  case PST_EXIT_EXPECT:
    return FINDING_EXPECT;
  default:
    break;
  }
  switch (code) {
  case -EINTR:
    return FINDING_STOPPED;
  case -ECONNREFUSED:
  case -EHOSTUNREACH:
  case -ENETUNREACH:
  case -ECONNRESET:
  case -ETIMEDOUT:
  case -ECANCELED:
  case -EPIPE:
  case -ESHUTDOWN:
    return FINDING_PEER;
  default:
    return FINDING_FAILED;
  }
}

int app_finding_worse(int a, int b)
{
  static const int order[] = {PST_EXIT_FAILED, PST_EXIT_UNAVAILABLE, PST_EXIT_USAGE,
                              PST_EXIT_EXPECT};
  for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
    if (a == order[i] || b == order[i])
      return order[i];
  }
  return PST_EXIT_OK;
}

/* ---- Lists ---------------------------------------------------------------------------------- */

static void finding_append(struct json_object *list, enum finding finding, const char *where,
                           size_t length, const char *text, size_t text_length)
{
  struct json_object *object = json_object_new_object();

  json_object_object_add(object, "code", json_object_new_string(names[finding]));
  json_object_object_add(object, "text", json_object_new_string_len(text, (int)text_length));
  json_object_object_add(object, "where",
                         where ? json_object_new_string_len(where, (int)length) : NULL);
  json_object_array_add(list, object);
}

void app_finding_add(struct json_object *list, enum finding finding, const char *where,
                     const char *text)
{
  while (list) {
    size_t length = strcspn(text, "\n");
    finding_append(list, finding, where, where ? strlen(where) : 0, text, length);
    if (text[length] == '\0')
      return;
    text += length + 1;
  }
}

/* The length of ":12:5" before ": ". Returns 0 if there is none. */
static size_t finding_line_and_column(const char *text)
{
  size_t at = 0;

  for (int i = 0; i < 2; i++) {
    if (text[at] != ':' || !isdigit((unsigned char)text[at + 1]))
      return 0;
    at++;
    at += strspn(text + at, "0123456789");
  }
  return at;
}

/* Bytes of the place that a line begins with: "b.yaml:12:5", without what follows; 0: none. */
static size_t finding_file_place(const char *line)
{
  const char *end = strstr(line, ": ");

  for (const char *at = line; end && at < end; at++) {
    size_t length = finding_line_and_column(at);
    if (length > 0 && at > line && at + length == end)
      return (size_t)(end - line);
  }
  return 0;
}

/* The same of one that was written as "--set X". */
static size_t finding_option_place(const char *line, const char *option, const char *const *words,
                                   size_t count)
{
  size_t length = strlen(option);

  if (strncmp(line, option, length) != 0)
    return 0;
  for (size_t i = 0; i < count; i++) {
    size_t word = strlen(words[i]), end = length + word;
    if (strncmp(line + length, words[i], word) != 0)
      continue;
    end += finding_line_and_column(line + end);
    if (strncmp(line + end, ": ", 2) == 0)
      return end;
  }
  return 0;
}

static size_t finding_place_of(const char *line, const struct arguments *a)
{
  size_t length = 0;

  if (a) {
    length = finding_option_place(line, "--set ", a->sets, a->set_count);
    length += finding_option_place(line, "--transport-option ", a->transport_options,
                                   a->transport_option_count);
    length +=
        finding_option_place(line, "--memory-option ", a->memory_options, a->memory_option_count);
  }
  if (strncmp(line, "client:", 7) == 0 || strncmp(line, "server:", 7) == 0) { /* get, put */
    const char *end = strstr(line, ": ");
    length = end ? (size_t)(end - line) : 0;
  }
  if (length == 0 && strncmp(line, "--", 2) == 0) { /* "--stream: FILE has no ..." */
    length = strcspn(line, ": ");
    length = strncmp(line + length, ": ", 2) == 0 ? length : 0;
  }
  return length > 0 ? length : finding_file_place(line);
}

void app_finding_add_error(struct json_object *list, const struct pst_error *error,
                           const struct arguments *arguments)
{
  enum finding finding = app_finding_of(error->exit_status, error->code);
  char copy[sizeof(error->text)], *rest = copy, *line;

  if (!list)
    return;
  snprintf(copy, sizeof(copy), "%s", error->text);
  while ((line = strsep(&rest, "\n"))) {
    size_t place = finding_place_of(line, arguments);
    const char *text = place > 0 ? line + place + 2 : line;
    if (*line != '\0')
      finding_append(list, finding, place > 0 ? line : NULL, place, text, strlen(text));
  }
}

/* ---- Warnings ------------------------------------------------------------------------------- */

static bool finding_is_noted(const char *text)
{
  for (unsigned i = 0; i < warnings.count; i++)
    if (strcmp(warnings.kept[i].text, text) == 0)
      return true;
  return false;
}

void app_finding_warn(enum finding finding, const char *where, const char *text)
{
  pthread_mutex_lock(&warnings.lock);
  if (finding_is_noted(text)) {
    ;
  } else if (warnings.count == WARNINGS_MAX) {
    warnings.more = true;
  } else {
    struct warning *warning = &warnings.kept[warnings.count];
    warning->finding = finding;
    warning->where = where ? strdup(where) : NULL;
    warning->text = strdup(text);
    warnings.count += warning->text != NULL;
  }
  pthread_mutex_unlock(&warnings.lock);
}

struct json_object *app_finding_take_warnings(unsigned most)
{
  struct json_object *list = json_object_new_array();
  unsigned n;

  pthread_mutex_lock(&warnings.lock);
  for (n = 0; n < warnings.count && n < most; n++) {
    struct warning *warning = &warnings.kept[n];
    app_finding_add(list, warning->finding, warning->where, warning->text);
    free(warning->where);
    free(warning->text);
  }
  warnings.count -= n;
  memmove(warnings.kept, warnings.kept + n, warnings.count * sizeof(warnings.kept[0]));
  pthread_mutex_unlock(&warnings.lock);
  return list;
}

struct json_object *app_finding_warnings(void)
{
  struct json_object *list = json_object_new_array();
  pthread_mutex_lock(&warnings.lock);
  for (unsigned i = 0; i < warnings.count; i++)
    app_finding_add(list, warnings.kept[i].finding, warnings.kept[i].where, warnings.kept[i].text);
  if (warnings.more)
    app_finding_add(list, FINDING_LOG, NULL, "further warnings are not listed");
  pthread_mutex_unlock(&warnings.lock);
  return list;
}
