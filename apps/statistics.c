/* SPDX-License-Identifier: Apache-2.0 */
/* The line of a running stream: rate, counts, path. */
#include "statistics.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "size.h"

const char *app_statistics_path(uint32_t path)
{
  static const char *const names[] = {
      [PST_PATH_DIRECT] = "direct", [PST_PATH_MAPPED] = "mapped", [PST_PATH_STAGED] = "staged"};

  return path < sizeof(names) / sizeof(names[0]) && names[path] ? names[path] : "unknown path";
}

const char *app_statistics_path_by(uint32_t path, const char *staged_by,
                                   char text[STATISTICS_PATH_BYTES])
{
  if (path != PST_PATH_STAGED || !staged_by)
    return app_statistics_path(path);
  snprintf(text, STATISTICS_PATH_BYTES, "staged by %s%s",
           strcmp(staged_by, "both") == 0 ? "" : "the ", staged_by);
  return text;
}

double app_statistics_gbps(uint64_t bytes, uint64_t ns)
{
  return ns > 0 ? (double)bytes * 8.0 / (double)ns : 0.0; /* bits per ns are gigabits per s */
}

uint64_t app_statistics_dropped(const struct pst_stats *stats)
{
  uint64_t sum = 0;
  uint32_t count = stats->drop_count;

  if (count > sizeof(stats->drops) / sizeof(stats->drops[0]))
    count = sizeof(stats->drops) / sizeof(stats->drops[0]);
  for (uint32_t i = 0; i < count; i++)
    sum += stats->drops[i].messages;
  return sum;
}

const char *app_statistics_rate(uint64_t bytes, uint64_t ns, char text[STATISTICS_RATE_BYTES])
{
  double gbps = app_statistics_gbps(bytes, ns);

  if (gbps > 0 && gbps < 0.1)
    snprintf(text, STATISTICS_RATE_BYTES, "%.2f Mbps", gbps * 1e3);
  else
    snprintf(text, STATISTICS_RATE_BYTES, "%.2f Gbps", gbps);
  return text;
}

const char *app_statistics_percent(double share, char text[STATISTICS_PERCENT_BYTES])
{
  double percent = share * 100, rest = percent < 50 ? percent : 100 - percent;
  double shown = percent < 50 ? 10 : 1; /* two digits of little, one of what lacks to all */
  int decimals = 0;

  for (; rest > 0 && rest < shown && decimals < 12; shown /= 10)
    decimals++;
  snprintf(text, STATISTICS_PERCENT_BYTES, "%.*f", decimals, percent);
  if (decimals > 0 && percent < 50) { /* "1.0" is "1" */
    char *end = text + strlen(text);
    while (end[-1] == '0')
      *--end = '\0';
    if (end[-1] == '.')
      end[-1] = '\0';
  }
  return strcat(text, "%");
}

void app_statistics_line(const struct statistics_sample *sample, char *line, size_t size)
{
  char rate[STATISTICS_RATE_BYTES], path[STATISTICS_PATH_BYTES];
  char dropped[48] = "", restarts[48] = "", jitter[48] = "", between[48] = "";

  if (sample->dropped > 0 || !sample->loss_unknown)
    snprintf(dropped, sizeof(dropped), "%" PRIu64 " dropped%s", sample->dropped,
             sample->loss_unknown ? ", " : "");
  if (sample->restarts > 0)
    snprintf(restarts, sizeof(restarts), " | %" PRIu64 " restart%s", sample->restarts,
             app_plural(sample->restarts));
  if (sample->jitter_ns > 0)
    snprintf(jitter, sizeof(jitter), " | jitter %.3f ms", (double)sample->jitter_ns / 1e6);
  if (sample->p99_ns > 0)
    snprintf(between, sizeof(between), " | 99%% within %.3f ms", (double)sample->p99_ns / 1e6);
  snprintf(
      line, size, "%s: %s %" PRIu64 " %spacket%s | %s during %.2f sec | %s%s | %s%s%s%s",
      sample->stream, sample->sent ? "Sent" : "Got", sample->messages, sample->gpu ? "GPU " : "",
      app_plural(sample->messages), app_statistics_rate(sample->bytes, sample->interval_ns, rate),
      (double)sample->interval_ns / 1e9, dropped, sample->loss_unknown ? "loss ?" : "",
      app_statistics_path_by(sample->path, sample->staged_by, path), restarts, jitter, between);
}

double app_statistics_cpu_share(const struct pst_stats *stats)
{
  if (!stats || stats->cpu_span_ns == 0 || stats->cpu_wait_ns == UINT64_MAX)
    return -1;
  double wanted = (double)stats->cpu_ns + (double)stats->cpu_wait_ns;
  return wanted > 0 ? (double)stats->cpu_ns / wanted : 1;
}

double app_statistics_cpu_least(const struct pst_stats *sender, const struct pst_stats *receiver)
{
  double out = app_statistics_cpu_share(sender), in = app_statistics_cpu_share(receiver);

  if (out < 0)
    out = 1;
  return in >= 0 && in < out ? in : out;
}

const struct pst_counter_value *app_statistics_counter(const struct pst_counter_value *values,
                                                       uint32_t count, const char *name)
{
  for (uint32_t i = 0; i < count; i++) {
    if (strcmp(values[i].name, name) == 0)
      return &values[i];
  }
  return NULL;
}

/* A count may be corrected downwards (a late message was no loss after all). */
static uint64_t statistics_growth(uint64_t now, uint64_t before)
{
  return now > before ? now - before : 0;
}

void app_statistics_since(struct statistics_mark *mark, const struct pst_stats *stats, bool sent,
                          uint64_t time_ns, struct statistics_sample *sample)
{
  struct statistics_mark now = {
      .time_ns = time_ns,
      .messages = sent ? stats->messages_sent : stats->messages_delivered,
      .bytes = sent ? stats->bytes_sent : stats->bytes_delivered,
      .dropped = app_statistics_dropped(stats),
  };

  sample->sent = sent;
  sample->messages = statistics_growth(now.messages, mark->messages);
  sample->bytes = statistics_growth(now.bytes, mark->bytes);
  sample->dropped = statistics_growth(now.dropped, mark->dropped);
  sample->interval_ns = statistics_growth(now.time_ns, mark->time_ns);
  sample->path = stats->path.path;
  *mark = now;
}
