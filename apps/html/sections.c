/* SPDX-License-Identifier: Apache-2.0 */
/* Sections of a page about several results, side by side. */
#include "sections.h"

#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot.h"

#define STREAMS 64  /* of a page */
#define POINTS 4096 /* of a line */
#define ROWS 4096   /* of a sweep */
#define CAUSES 15   /* of loss; more become "others" */
#define LISTED 100  /* errors of a result */

/* A stream of a result. */
struct section_stream {
  char name[160]; /* with the file's, where there are several */
  struct json_object *stream;
};

struct sections {
  const struct html_result *results;
  size_t count;
  struct section_stream streams[STREAMS];
  size_t stream_count;
};

static double sections_scaled(double value, double by)
{
  return value * by; /* NAN stays NAN */
}

static void sections_gather(struct sections *all)
{
  for (size_t i = 0; i < all->count; i++) {
    struct json_object *list = html_member(all->results[i].root, "streams");
    for (size_t j = 0; j < html_count(list, STREAMS) && all->stream_count < STREAMS; j++) {
      struct section_stream *to = &all->streams[all->stream_count++];
      to->stream = json_object_array_get_idx(list, j);
      snprintf(to->name, sizeof(to->name), "%s%s%s", html_text_of(to->stream, "name"),
               all->count > 1 ? ", " : "", all->count > 1 ? all->results[i].name : "");
    }
  }
}

/* ---- Tables ------------------------------------------------------------------ */

static void sections_cell(struct html *html, double value, const char *format, const char *unit)
{
  char text[64];

  snprintf(text, sizeof(text), format, value);
  html_put(html, "<td class=\"n\">%s%s</td>", isfinite(value) ? text : "–",
           isfinite(value) ? unit : "");
}

static void sections_text_cell(struct html *html, const char *text)
{
  html_put(html, "<td>");
  html_escaped(html, text[0] != '\0' ? text : "–");
  html_put(html, "</td>");
}

static void sections_results(struct html *html, const struct sections *all)
{
  html_put(html, "<section><h2>Results</h2><table><tr><th>file<th>command<th>ended<th>written"
                 "<th>penstock</tr>\n");
  for (size_t i = 0; i < all->count; i++) {
    struct json_object *root = all->results[i].root;
    bool is_ok = json_object_get_boolean(html_member(root, "ok"));
    html_put(html, "<tr>");
    sections_text_cell(html, all->results[i].name);
    html_put(html, "<td><code>");
    html_escaped(html, html_text_of(root, "command_line"));
    html_put(html, "</code></td><td class=\"%s\">%s</td>", is_ok ? "good" : "bad",
             is_ok                                                 ? "well"
             : strcmp(html_text_of(root, "state"), "running") == 0 ? "not yet"
                                                                   : "with errors");
    sections_text_cell(html, html_text_of(root, "written"));
    sections_text_cell(html, html_text_of(root, "penstock"));
    html_put(html, "</tr>\n");
  }
  html_put(html, "</table></section>\n");
}

static void sections_errors(struct html *html, const struct sections *all)
{
  static const char *const lists[] = {"errors", "warnings"};
  bool is_open = false;

  for (size_t i = 0; i < all->count * 2; i++) {
    const struct html_result *result = &all->results[i / 2];
    struct json_object *list = html_member(result->root, lists[i % 2]);
    for (size_t j = 0; j < html_count(list, LISTED); j++) {
      struct json_object *each = json_object_array_get_idx(list, j);
      html_put(html, "%s<li class=\"%s\"><b>",
               is_open ? "" : "<section><h2>Errors and warnings</h2><ul class=\"errors\">",
               i % 2 == 0 ? "bad" : "warn");
      html_escaped(html, html_text_of(each, "code"));
      html_put(html, "</b> ");
      html_escaped(html, result->name);
      html_put(html, ": ");
      html_escaped(html, html_text_of(each, "text"));
      html_put(html, "</li>\n");
      is_open = true;
    }
  }
  if (is_open)
    html_put(html, "</ul></section>\n");
}

static void sections_streams(struct html *html, const struct sections *all)
{
  if (all->stream_count == 0)
    return;
  html_put(html, "<section><h2>Streams</h2><table><tr><th>stream<th>Gbit/s<th>messages/s"
                 "<th>seconds<th>path<th>limited by</tr>\n");
  for (size_t i = 0; i < all->stream_count; i++) {
    struct json_object *stream = all->streams[i].stream;
    html_put(html, "<tr>");
    sections_text_cell(html, all->streams[i].name);
    sections_cell(html, html_number_of(stream, "gbps"), "%.3f", "");
    sections_cell(html, html_number_of(stream, "messages_per_second"), "%.0f", "");
    sections_cell(html, html_number_of(stream, "seconds"), "%.2f", "");
    sections_text_cell(html, html_text_of(stream, "path"));
    sections_text_cell(html, html_text_of(html_member(stream, "verdict"), "limited_by"));
    html_put(html, "</tr>\n");
  }
  html_put(html, "</table></section>\n");
}

static void sections_messages(struct html *html, const struct sections *all)
{
  if (all->stream_count == 0)
    return;
  html_put(html, "<section><h2>Messages</h2><table><tr><th>stream<th>sent<th>delivered<th>loss"
                 "<th>corrupted<th>duplicates<th>reordered</tr>\n");
  for (size_t i = 0; i < all->stream_count; i++) {
    struct json_object *stream = all->streams[i].stream;
    html_put(html, "<tr>");
    sections_text_cell(html, all->streams[i].name);
    sections_cell(html, html_number_of(stream, "messages_sent"), "%.0f", "");
    sections_cell(html, html_number_of(stream, "messages_delivered"), "%.0f", "");
    sections_cell(html, sections_scaled(html_number_of(stream, "loss"), 100), "%.4g", " %");
    sections_cell(html, html_number_of(stream, "corrupted"), "%.0f", "");
    sections_cell(html, html_number_of(stream, "duplicates"), "%.0f", "");
    sections_cell(html, html_number_of(stream, "reordered"), "%.0f", "");
    html_put(html, "</tr>\n");
  }
  html_put(html, "</table></section>\n");
}

/* Writes the machines' properties, a column each; rows that differ are marked. */
static void sections_machines(struct html *html, const struct sections *all)
{
  static const struct {
    const char *key, *title;
  } rows[] = {{"hostname", "host"}, {"cpu", "CPU"},
              {"cores", "cores"},   {"memory_bytes", "memory, bytes"},
              {"kernel", "kernel"}, {"kernel_version", "kernel's build"}};

  html_put(html, "<section><h2>Machines</h2><table><tr><th>");
  for (size_t i = 0; i < all->count; i++) {
    html_put(html, "<th>");
    html_escaped(html, all->results[i].name);
  }
  html_put(html, "</tr>\n");
  for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
    char first[128] = "", text[128];
    bool differs = false;
    for (size_t i = 0; i < 2 * all->count; i++) {
      struct json_object *value =
          html_member(html_member(all->results[i % all->count].root, "environment"), rows[row].key);
      bool is_plain =
          json_object_is_type(value, json_type_string) || json_object_is_type(value, json_type_int);
      snprintf(text, sizeof(text), "%s", is_plain ? json_object_get_string(value) : "");
      if (i == 0)
        snprintf(first, sizeof(first), "%s", text);
      differs |= strcmp(first, text) != 0;
      if (i == all->count)
        html_put(html, "<tr%s><th>%s</th>", differs ? " class=\"differs\"" : "", rows[row].title);
      if (i >= all->count)
        sections_text_cell(html, text);
    }
    html_put(html, "</tr>\n");
  }
  html_put(html, "</table></section>\n");
}

/* ---- Lines --------------------------------------------------------------------- */

/* 0, or less than 0: out of memory. */
static bool sections_line(struct html_line *line, const char *name, size_t points)
{
  *line = (struct html_line){
      .count = 0, .x = calloc(points + 1, sizeof(double)), .y = calloc(points + 1, sizeof(double))};
  snprintf(line->name, sizeof(line->name), "%s", name);
  return line->x && line->y;
}

static void sections_free(struct html_line *lines, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    free(lines[i].x);
    free(lines[i].y);
  }
}

/* The growth of a count from point to point, per second. */
static void sections_rate_line(struct json_object *series, const char *key, double scale,
                               struct html_line *line)
{
  struct json_object *at = html_member(series, "at_seconds"), *list = html_member(series, key);
  double last_at = 0, last = 0;

  for (size_t i = 0; i < html_count(at, POINTS); i++) {
    double now_at = html_number_at(at, i), now = html_number_at(list, i);
    /* The last point may be a moment behind the one before. */
    if (i > 0 && !(now_at - last_at > 0.2))
      continue;
    line->x[line->count] = now_at;
    line->y[line->count++] = now >= last ? (now - last) / (now_at - last_at) * scale : NAN;
    last_at = now_at;
    last = isfinite(now) ? now : last;
  }
}

static void sections_rates(struct html *html, const struct sections *all, const char *key,
                           double scale, const struct html_axes *axes)
{
  struct html_line lines[STREAMS] = {0};
  size_t count = 0;

  for (size_t i = 0; i < all->stream_count; i++) {
    struct json_object *series = html_member(all->streams[i].stream, "series");
    size_t points = html_count(html_member(series, "at_seconds"), POINTS);
    if (points == 0)
      continue;
    html->failed |= !sections_line(&lines[count++], all->streams[i].name, points);
    if (!html->failed)
      sections_rate_line(series, key, scale, &lines[count - 1]);
  }
  if (!html->failed)
    html_plot(html, axes, lines, count);
  sections_free(lines, count);
}

/* ---- Bars ---------------------------------------------------------------------- */

/* A bar for each stream, of the causes that any of them has. */
static void sections_loss(struct html *html, const struct sections *all)
{
  const char *causes[CAUSES + 1] = {NULL};
  struct html_bar bars[STREAMS] = {0};
  size_t count = 0;
  bool has_others = false;

  for (size_t i = 0; i < all->stream_count; i++) {
    struct json_object *dropped = html_member(all->streams[i].stream, "dropped");
    snprintf(bars[i].name, sizeof(bars[i].name), "%.32s", all->streams[i].name);
    if (!json_object_is_type(dropped, json_type_object))
      continue;
    json_object_object_foreach(dropped, cause, unused)
    {
      size_t at = 0;
      (void)unused;
      while (at < count && strcmp(causes[at], cause) != 0)
        at++;
      if (at == count && count < CAUSES)
        causes[count++] = cause;
      double messages = html_number_of(dropped, cause);
      if (isfinite(messages))
        bars[i].parts[at] += messages;
      has_others |= at == CAUSES;
    }
  }
  causes[count] = "others";
  html_bars(html, "Lost messages by cause", "messages", causes, count + has_others, bars,
            all->stream_count);
}

/* Shares of the running time, of the ends that are known. */
static void sections_stages(struct html *html, const struct sections *all, bool is_sender)
{
  static const char *const of_sender[] = {"source", "rate", "credit", "transport"},
                           *const of_receiver[] = {"empty", "sink", "staging"};
  const char *const *stages = is_sender ? of_sender : of_receiver;
  const size_t stage_count = is_sender ? 4 : 3;
  struct html_bar bars[STREAMS] = {0};

  for (size_t i = 0; i < all->stream_count; i++) {
    struct json_object *blocked = html_member(all->streams[i].stream, "blocked_seconds");
    double seconds = html_number_of(all->streams[i].stream, "seconds");
    snprintf(bars[i].name, sizeof(bars[i].name), "%.32s", all->streams[i].name);
    for (size_t j = 0; j < stage_count && seconds > 0; j++)
      bars[i].parts[j] = sections_scaled(html_number_of(blocked, stages[j]), 100 / seconds);
  }
  html_bars(html,
            is_sender ? "Where the sender waited, share of the time"
                      : "Where the receiver waited, share of the time",
            "%", stages, stage_count, bars, all->stream_count);
}

/* ---- Latency ------------------------------------------------------------------- */

static const char *const quantile_keys[] = {"min", "p50", "p90", "p99", "p99_9", "max"};
static const char *const quantile_names[] = {"min", "50%", "90%", "99%", "99.9%", "max"};
#define QUANTILES (sizeof(quantile_keys) / sizeof(quantile_keys[0]))

/* Appends the quantiles of `times`, if there are any. */
static void sections_add_times(struct html *html, struct json_object *times, const char *name,
                               struct html_line *lines, size_t *count)
{
  if (!times || *count == STREAMS)
    return;
  struct html_line *line = &lines[(*count)++];
  html->failed |= !sections_line(line, name, QUANTILES);
  for (size_t i = 0; i < QUANTILES && !html->failed; i++) {
    line->x[i] = (double)i;
    line->y[i] = sections_scaled(html_number_of(times, quantile_keys[i]), 1e-3);
    line->count++;
  }
}

/* Distributions: of streams the times between arrivals, of requests their latency. */
static void sections_latency(struct html *html, const struct sections *all)
{
  static const struct html_axes arrivals = {.title = "Time between arrivals, distribution",
                                            .x = "share of the samples that take no longer",
                                            .y = "time, µs",
                                            .log_y = true,
                                            .names = quantile_names,
                                            .name_count = QUANTILES},
                                requests = {.title = "Requests: latency distribution",
                                            .x = "share of the samples that take no longer",
                                            .y = "time, µs",
                                            .log_y = true,
                                            .names = quantile_names,
                                            .name_count = QUANTILES};
  static const char *const kinds[] = {"completion_ns", "round_trip_ns"};
  struct html_line lines[STREAMS] = {0};
  char name[160];
  size_t count = 0;

  for (size_t i = 0; i < all->stream_count; i++)
    sections_add_times(html, html_member(all->streams[i].stream, "intervals_ns"),
                       all->streams[i].name, lines, &count);
  html_plot(html, &arrivals, lines, html->failed ? 0 : count);
  sections_free(lines, count);
  count = 0;
  for (size_t i = 0; i < 2 * all->count; i++) {
    struct json_object *request = html_member(all->results[i / 2].root, "request");
    snprintf(name, sizeof(name), "%s, %s", i % 2 == 0 ? "completion" : "round trip",
             all->results[i / 2].name);
    sections_add_times(html, html_member(request, kinds[i % 2]), name, lines, &count);
  }
  html_plot(html, &requests, lines, html->failed ? 0 : count);
  sections_free(lines, count);
}

/* ---- Sweeps -------------------------------------------------------------------- */

/* Draws a line: `value` of each row of one operation and one result, by size. */
static void sections_sweep_line(struct json_object *rows, const char *op, const char *object,
                                const char *key, double scale, struct html_line *line)
{
  for (size_t i = 0; i < html_count(rows, ROWS); i++) {
    struct json_object *row = json_object_array_get_idx(rows, i);
    double value = html_number_of(object ? html_member(row, object) : row, key);
    if (strcmp(html_text_of(row, "op"), op) != 0 || !isfinite(value))
      continue;
    line->x[line->count] = html_number_of(row, "size_bytes");
    line->y[line->count++] = value * scale;
  }
}

/* Rows of --all-pairs are of one size: its result is a matrix and no sweep. */
static struct json_object *sections_sweep_rows(const struct html_result *result)
{
  struct json_object *bench = html_member(result->root, "bench");

  return html_member(bench, "all_pairs") ? NULL : html_member(result->root, "rows");
}

static void sections_sweep(struct html *html, const struct sections *all, const char *key,
                           double scale, bool is_latency, const struct html_axes *axes)
{
  static const char *const ops[] = {"send", "write", "read"};
  struct html_line lines[STREAMS] = {0};
  char name[160];
  size_t count = 0;

  for (size_t i = 0; i < 3 * all->count && count < STREAMS && !html->failed; i++) {
    const struct html_result *result = &all->results[i / 3];
    const char *op = ops[i % 3];
    struct json_object *rows = sections_sweep_rows(result);
    snprintf(name, sizeof(name), "%s%s%s", op, all->count > 1 ? ", " : "",
             all->count > 1 ? result->name : "");
    html->failed |= !sections_line(&lines[count++], name, html_count(rows, ROWS));
    if (html->failed)
      break;
    const char *object = !is_latency ? NULL : i % 3 == 0 ? "half_round_trip_ns" : "completion_ns";
    sections_sweep_line(rows, op, object, key, scale, &lines[count - 1]);
    if (lines[count - 1].count == 0)
      sections_free(&lines[--count], 1);
  }
  if (!html->failed)
    html_plot(html, axes, lines, count);
  sections_free(lines, count);
}

/* Sweeps, each result and operation a line. */
static void sections_bench(struct html *html, const struct sections *all)
{
  static const struct html_axes
      rate = {.title = "Bandwidth by size",
              .x = "size",
              .y = "Gbit/s",
              .log_x = true,
              .binary_x = true},
      messages = {.title = "Messages or transfers by size",
                  .x = "size",
                  .y = "per second",
                  .log_x = true,
                  .log_y = true,
                  .binary_x = true},
      median = {.title = "Latency by size, median (send: half of a round trip)",
                .x = "size",
                .y = "time, µs",
                .log_x = true,
                .log_y = true,
                .binary_x = true},
      tail = {.title = "Latency by size, 99% (send: half of a round trip)",
              .x = "size",
              .y = "time, µs",
              .log_x = true,
              .log_y = true,
              .binary_x = true};

  sections_sweep(html, all, "gbps", 1, false, &rate);
  sections_sweep(html, all, "messages_per_second", 1, false, &messages);
  sections_sweep(html, all, "p50", 1e-3, true, &median);
  sections_sweep(html, all, "p99", 1e-3, true, &tail);
}

void html_sections(struct html *html, const struct html_result *results, size_t count)
{
  static const struct html_axes rate = {.title = "Rate over time",
                                        .x = "seconds since both ends connected",
                                        .y = "Gbit/s"},
                                loss = {.title = "Loss over time",
                                        .x = "seconds since both ends connected",
                                        .y = "lost messages/s"};
  struct sections *all = calloc(1, sizeof(*all));

  if (!all) {
    html->failed = true;
    return;
  }
  all->results = results;
  all->count = count;
  sections_gather(all);
  sections_results(html, all);
  sections_errors(html, all);
  sections_streams(html, all);
  sections_messages(html, all);
  html_put(html, "<section><h2>Plots</h2>\n");
  sections_rates(html, all, "bytes", 8e-9, &rate);
  sections_rates(html, all, "dropped", 1, &loss);
  sections_loss(html, all);
  sections_stages(html, all, true);
  sections_stages(html, all, false);
  sections_latency(html, all);
  sections_bench(html, all);
  html_put(html, "</section>\n");
  sections_machines(html, all);
  free(all);
}
