/* SPDX-License-Identifier: Apache-2.0 */
/* The line that says how far a copy is. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "copy.h"
#include "log.h"
#include "size.h"
#include "statistics.h"

#define EVERY_NS (200 * NS_PER_MS)
#define BAR 30

static void serve_progress_put(const char *line)
{
  ssize_t written = write(STDERR_FILENO, line, strlen(line));
  (void)written; /* a bar that nobody sees */
}

struct unit {
  const char *name;
  double bytes;
};

/* The unit in which this number of bytes is easy to read. */
static struct unit serve_progress_unit_of(double bytes)
{
  return bytes >= 1e9   ? (struct unit){"GB", 1e9}
         : bytes >= 1e6 ? (struct unit){"MB", 1e6}
         : bytes >= 1e3 ? (struct unit){"kB", 1e3}
                        : (struct unit){"B", 1};
}

/* Counts the files that were begun: their total is not known yet. */
void serve_progress_show(struct copy *copy, uint64_t now)
{
  const struct copy_totals *totals = &copy->totals;
  char line[256], bar[BAR + 1];

  if (!copy->tty || totals->known == 0 || now - copy->shown_ns < EVERY_NS)
    return;
  const double seconds = (double)(now - copy->began_ns) / 1e9, bytes = (double)totals->bytes;
  const double known = (double)totals->known, share = bytes / known;
  const double rate = seconds > 0 ? bytes / seconds : 0;
  const struct unit all = serve_progress_unit_of(known), each = serve_progress_unit_of(rate);
  int full = (int)(share * BAR);
  memset(bar, '.', BAR);
  memset(bar, '#', (size_t)(full < BAR ? full : BAR));
  bar[BAR] = '\0';
  snprintf(line, sizeof(line),
           "\r[%s] %3.0f%% %.2f of %.2f %s, %.2f %s/s, %" PRIu64 " file%s done\033[K", bar,
           100 * share, bytes / all.bytes, known / all.bytes, all.name, rate / each.bytes,
           each.name, totals->files, app_plural(totals->files));
  serve_progress_put(line);
  copy->shown_ns = now;
}

void serve_progress_end(struct copy *copy)
{
  const struct copy_totals *totals = &copy->totals;
  char rate[STATISTICS_RATE_BYTES];
  char more[160] = "";
  int used = 0;

  if (copy->shown_ns != 0)
    serve_progress_put("\r\033[K");
  if (totals->resumed > 0)
    used += snprintf(more + used, sizeof(more) - (size_t)used, " | %" PRIu64 " byte%s were there",
                     totals->resumed, app_plural(totals->resumed));
  if (totals->skipped > 0)
    used += snprintf(more + used, sizeof(more) - (size_t)used, " | %" PRIu64 " left out",
                     totals->skipped);
  if (totals->failed > 0)
    snprintf(more + used, sizeof(more) - (size_t)used, " | %" PRIu64 " failed", totals->failed);
  if (!copy->params->quiet)
    app_log(PST_LOG_INFO, "%s %" PRIu64 " file%s, %" PRIu64 " byte%s in %.3f s = %s%s",
            copy->ops->verb, totals->files, app_plural(totals->files), totals->bytes,
            app_plural(totals->bytes), (double)copy->ns / 1e9,
            app_statistics_rate(totals->bytes, copy->ns, rate), more);
}
