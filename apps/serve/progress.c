/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "copy.h"
#include "notice.h"

#define EVERY_NS (200 * NS_PER_MS)
#define BAR 30

static double seconds_of(const struct copy *copy, uint64_t now)
{
  return (double)(now - copy->began_ns) / 1e9;
}

static void put(const char *line)
{
  ssize_t written = write(STDERR_FILENO, line, strlen(line));
  (void)written; /* a bar that nobody sees */
}

/* Of the files that were begun: how many more there are nobody knows yet. */
void progress_show(struct copy *copy, uint64_t now)
{
  const struct copy_totals *totals = &copy->totals;
  char line[256], bar[BAR + 1];

  if (!copy->tty || now - copy->shown_ns < EVERY_NS)
    return;
  double share = totals->known > 0 ? (double)totals->bytes / (double)totals->known : 0;
  double seconds = seconds_of(copy, now);
  int full = (int)(share * BAR);
  memset(bar, '.', BAR);
  memset(bar, '#', (size_t)(full < BAR ? full : BAR));
  bar[BAR] = '\0';
  snprintf(line, sizeof line, "\r[%s] %3.0f%% %.2f of %.2f GB, %.2f GB/s, %" PRIu64 " files\033[K",
           bar, 100 * share, (double)totals->bytes / 1e9, (double)totals->known / 1e9,
           seconds > 0 ? (double)totals->bytes / 1e9 / seconds : 0, totals->files);
  put(line);
  copy->shown_ns = now;
}

void progress_end(struct copy *copy)
{
  const struct copy_totals *totals = &copy->totals;
  double seconds = (double)copy->ns / 1e9;
  char more[160] = "";
  int used = 0;

  if (copy->shown_ns != 0)
    put("\r\033[K");
  if (totals->resumed > 0)
    used += snprintf(more + used, sizeof more - (size_t)used, " | %" PRIu64 " bytes were there",
                     totals->resumed);
  if (totals->skipped > 0)
    used += snprintf(more + used, sizeof more - (size_t)used, " | %" PRIu64 " left out",
                     totals->skipped);
  if (totals->failed > 0)
    snprintf(more + used, sizeof more - (size_t)used, " | %" PRIu64 " failed", totals->failed);
  if (!copy->params->quiet)
    notice(PST_LOG_INFO, "%s %" PRIu64 " file%s, %" PRIu64 " bytes in %.2f seconds = %.2f MB/s%s",
           copy->ops->verb, totals->files, totals->files == 1 ? "" : "s", totals->bytes, seconds,
           seconds > 0 ? (double)totals->bytes / 1e6 / seconds : 0, more);
}
