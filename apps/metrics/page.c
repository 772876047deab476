/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus' text format 0.0.4: families, each with its samples in one block. */
#include "page.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "clock.h"
#include "util/printable.h"

#define BUCKETS 256
#define LABELS_BYTES 2048
#define NAME_BYTES 128
#define HELP_BYTES 192

struct buffer {
  char *bytes;
  size_t length, capacity;
};

struct family {
  char name[NAME_BYTES], help[HELP_BYTES];
  enum metrics_type type;
  struct buffer samples;
  struct family *next, *next_in_bucket;
};

struct metrics_page {
  struct family *first, **last;
  struct family *buckets[BUCKETS];
  char labels[LABELS_BYTES];
  bool failed;
};

static void page_append(struct metrics_page *page, struct buffer *to, const char *bytes,
                        size_t length)
{
  if (length == 0)
    return;
  if (to->length + length > to->capacity) {
    size_t capacity = to->capacity * 2 + length + 256;
    char *larger = realloc(to->bytes, capacity);
    if (!larger) {
      page->failed = true;
      return;
    }
    to->bytes = larger;
    to->capacity = capacity;
  }
  memcpy(to->bytes + to->length, bytes, length);
  to->length += length;
}

struct metrics_page *metrics_page_new(void)
{
  struct metrics_page *page = calloc(1, sizeof(*page));

  if (page)
    page->last = &page->first;
  return page;
}

void metrics_page_free(struct metrics_page *page)
{
  struct family *next;

  for (struct family *family = page ? page->first : NULL; family; family = next) {
    next = family->next;
    free(family->samples.bytes);
    free(family);
  }
  free(page);
}

/* ---- Labels ---------------------------------------------------------------- */

/* As much of `name="value"` as fits in `size` bytes. Bytes that are not UTF-8 become '?'. */
static size_t page_write_label(char *at, size_t size, bool is_first, const char *name,
                               const char *value)
{
  int head = snprintf(at, size, "%s%s=\"", is_first ? "" : ",", name);
  size_t used = (size_t)head, left = strlen(value);
  uint32_t code;

  if (head < 0 || used + 2 > size) {
    at[0] = '\0';
    return 0;
  }
  while (left > 0) {
    size_t n = pst_utf8_decode(value, left, &code);
    const char *as = *value == '\\'   ? "\\\\"
                     : *value == '"'  ? "\\\""
                     : *value == '\n' ? "\\n"
                                      : "?";
    bool is_plain = n > 0 && *value != '\\' && *value != '"' && *value != '\n';
    size_t length = is_plain ? n : strlen(as);
    if (used + length + 2 > size)
      break;
    memcpy(at + used, is_plain ? value : as, length);
    used += length;
    value += n > 0 ? n : 1;
    left -= n > 0 ? n : 1;
  }
  at[used++] = '"';
  at[used] = '\0';
  return used;
}

void metrics_page_labels(struct metrics_page *page, ...)
{
  const char *name;
  size_t used = 0;
  va_list list;

  if (!page)
    return;
  page->labels[0] = '\0';
  va_start(list, page);
  while ((name = va_arg(list, const char *)) != NULL) {
    const char *value = va_arg(list, const char *);
    used += page_write_label(page->labels + used, sizeof(page->labels) - used, used == 0, name,
                             value ? value : "");
  }
  va_end(list);
}

/* ---- Samples --------------------------------------------------------------- */

static struct family *page_family(struct metrics_page *page, const struct metrics_name *name)
{
  uint32_t hash = 2166136261u;

  for (const char *c = name->name; *c != '\0'; c++)
    hash = (hash ^ (unsigned char)*c) * 16777619u;
  struct family **bucket = &page->buckets[hash % BUCKETS], *family = *bucket;
  while (family && strcmp(family->name, name->name) != 0)
    family = family->next_in_bucket;
  if (family)
    return family;
  family = calloc(1, sizeof(*family));
  if (!family) {
    page->failed = true;
    return NULL;
  }
  snprintf(family->name, sizeof(family->name), "%s", name->name);
  snprintf(family->help, sizeof(family->help), "%s", name->help);
  family->type = name->type;
  family->next_in_bucket = *bucket;
  *bucket = family;
  *page->last = family;
  page->last = &family->next;
  return family;
}

/* label NULL: no more than the page's. */
static void page_put(struct metrics_page *page, const struct metrics_name *name, const char *suffix,
                     const char *label, const char *value_of_label, const char *value)
{
  char line[NAME_BYTES + LABELS_BYTES + 512], more[384] = "";

  struct family *family = page ? page_family(page, name) : NULL;
  if (!family)
    return;
  if (label)
    page_write_label(more, sizeof(more), page->labels[0] == '\0', label, value_of_label);
  bool has_labels = page->labels[0] != '\0' || label;
  int length = snprintf(line, sizeof(line), "%s%s%s%s%s%s %s\n", family->name, suffix,
                        has_labels ? "{" : "", page->labels, more, has_labels ? "}" : "", value);
  page_append(page, &family->samples, line, (size_t)length);
}

static const char *page_seconds(uint64_t ns, char text[48])
{
  snprintf(text, 48, "%" PRIu64 ".%09" PRIu64, ns / NS_PER_S, ns % NS_PER_S);
  return text;
}

static const char *page_whole(uint64_t value, char text[48])
{
  snprintf(text, 48, "%" PRIu64, value);
  return text;
}

void metrics_page_put(struct metrics_page *page, const struct metrics_name *name, uint64_t value)
{
  char text[48];
  page_put(page, name, "", NULL, NULL, page_whole(value, text));
}

void metrics_page_put_ns(struct metrics_page *page, const struct metrics_name *name, uint64_t ns)
{
  char text[48];
  page_put(page, name, "", NULL, NULL, page_seconds(ns, text));
}

void metrics_page_put_real(struct metrics_page *page, const struct metrics_name *name, double value)
{
  char text[48];
  snprintf(text, sizeof(text), "%.9g", value);
  page_put(page, name, "", NULL, NULL, text);
}

void metrics_page_put_by(struct metrics_page *page, const struct metrics_name *name,
                         const char *label, const char *value_of_label, uint64_t value)
{
  char text[48];
  page_put(page, name, "", label, value_of_label, page_whole(value, text));
}

void metrics_page_put_ns_by(struct metrics_page *page, const struct metrics_name *name,
                            const char *label, const char *value_of_label, uint64_t ns)
{
  char text[48];
  page_put(page, name, "", label, value_of_label, page_seconds(ns, text));
}

void metrics_page_put_sum_ns(struct metrics_page *page, const struct metrics_name *name,
                             uint64_t count, uint64_t sum_ns)
{
  char text[48];
  page_put(page, name, "_sum", NULL, NULL, page_seconds(sum_ns, text));
  page_put(page, name, "_count", NULL, NULL, page_whole(count, text));
}

/* ---- Counters of plugins --------------------------------------------------- */

static bool page_cut(char *name, const char *end)
{
  size_t length = strlen(name), of_end = strlen(end);

  if (length <= of_end || strcmp(name + length - of_end, end) != 0)
    return false;
  name[length - of_end] = '\0';
  return true;
}

void metrics_page_put_counter(struct metrics_page *page, const char *prefix,
                              const struct pst_counter_value *counter)
{
  static const struct {
    const char *end;
    uint64_t ns;
  } times[] = {{"_ns", 1}, {"_us", 1000}, {"_ms", NS_PER_MS}};
  const bool is_gauge = (counter->flags & PST_COUNTER_GAUGE) != 0;
  char own[48], name[NAME_BYTES], help[HELP_BYTES], text[48];
  uint64_t unit_ns = 0;

  if ((counter->flags & PST_COUNTER_ENTRY) != 0)
    return; /* a number of a message, and no count */
  snprintf(own, sizeof(own), "%.47s", counter->name);
  for (char *c = own; *c != '\0'; c++)
    if (!((*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9')))
      *c = '_';
  for (size_t i = 0; i < sizeof(times) / sizeof(times[0]) && unit_ns == 0; i++)
    unit_ns = page_cut(own, times[i].end) ? times[i].ns : 0;
  /* These ends are reserved. */
  while (page_cut(own, "_total") || page_cut(own, "_count") || page_cut(own, "_sum"))
    ;
  snprintf(name, sizeof(name), "penstock_%s_%s%s%s", prefix, own, unit_ns > 0 ? "_seconds" : "",
           is_gauge ? "" : "_total");
  snprintf(help, sizeof(help), "%s %.47s of the %s; its plugin's page says what it is.",
           is_gauge ? "Level" : "Count", own, prefix);
  const struct metrics_name family = {is_gauge ? METRICS_GAUGE : METRICS_COUNTER, name, help};
  page_put(page, &family, "", NULL, NULL,
           unit_ns > 0 ? page_seconds(counter->value * unit_ns, text)
                       : page_whole(counter->value, text));
}

/* ---- The whole ------------------------------------------------------------- */

char *metrics_page_text(struct metrics_page *page, size_t *length)
{
  static const char *const types[] = {
      [METRICS_COUNTER] = "counter", [METRICS_GAUGE] = "gauge", [METRICS_SUMMARY] = "summary"};
  struct buffer text = {.length = 0};
  char head[2 * NAME_BYTES + HELP_BYTES + 64];

  if (!page)
    return NULL;
  for (struct family *family = page->first; family; family = family->next) {
    int n = snprintf(head, sizeof(head), "# HELP %s %s\n# TYPE %s %s\n", family->name, family->help,
                     family->name, types[family->type]);
    page_append(page, &text, head, (size_t)n);
    page_append(page, &text, family->samples.bytes, family->samples.length);
  }
  page_append(page, &text, "", 1);
  bool failed = page->failed;
  metrics_page_free(page);
  if (failed) {
    free(text.bytes);
    return NULL;
  }
  *length = text.length - 1;
  return text.bytes;
}
