/* SPDX-License-Identifier: Apache-2.0 */
/* Lines, metrics and series of a run, from one reading of the statistics a second. */
#include "watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "accounting.h"
#include "clock.h"
#include "live.h"
#include "log.h"
#include "metrics/server.h"
#include "metrics/streams.h"
#include "result.h"
#include "series.h"

#define LINE_BYTES 256

struct watched {
  struct statistics_mark mark;
  struct series *series; /* NULL without --series */
  struct metrics_kept kept;
  char line[LINE_BYTES];      /* the last line; "": none yet */
  bool has_line, has_loss;    /* of this second */
  double rates[LIVE_SAMPLES]; /* the oldest first */
  uint32_t rate_count;
};

struct watch {
  struct metrics_server *server;
  struct watched *streams; /* as runner->streams */
  uint32_t count;
  bool is_live;
};

/* A reading of both ends. */
struct reading {
  struct pst_stats sender_stats, receiver_stats;
  const struct pst_stats *sender, *receiver; /* NULL: that end is in another process */
  struct account account;
};

static bool watch_read(const struct app_stream *stream, uint64_t now, struct reading *reading)
{
  memset(reading, 0, sizeof(*reading));
  reading->sender_stats.struct_size = reading->receiver_stats.struct_size =
      sizeof(struct pst_stats);
  if (stream->sender.handle && pst_sender_stats(stream->sender.handle, &reading->sender_stats) == 0)
    reading->sender = &reading->sender_stats;
  if (stream->receiver.handle &&
      pst_receiver_stats(stream->receiver.handle, &reading->receiver_stats) == 0)
    reading->receiver = &reading->receiver_stats;
  if (!reading->sender && !reading->receiver)
    return false;
  app_accounting_gather(reading->sender, reading->receiver, &reading->account);
  const struct pst_stats *stats = reading->receiver ? reading->receiver : reading->sender;
  if (stats->ended_ns == 0 && stats->started_ns != 0 && now > stats->started_ns)
    reading->account.ns = now - stats->started_ns; /* still running */
  return true;
}

/* ---- Lines ------------------------------------------------------------------ */

/* A counter of the receiver's transport; 0: there is none. */
static uint64_t watch_counted(const struct app_stream *stream, const char *name)
{
  struct pst_counter_value values[COUNTERS_MAX];

  if (!stream->receiver.handle)
    return 0;
  const struct result_counters counters = app_result_counters(
      values, pst_receiver_counters(stream->receiver.handle, values, COUNTERS_MAX));
  const struct pst_counter_value *counter =
      app_statistics_counter(counters.values, counters.count, name);
  return counter ? counter->value : 0;
}

/* A sender knows of loss only what its receiver reports. A receiver to which nothing came can
 * report none. */
static bool watch_loss_unknown(const struct app_stream *stream, const struct pst_stats *stats,
                               bool sent)
{
  if (stream->foreign)
    return sent || stats->sent_basis == PST_SENT_UNKNOWN;
  if ((stats->capabilities & PST_CAP_RELIABLE) != 0)
    return false;
  return sent ? !stats->peer_known || stats->peer_delivered == 0 : stats->messages_delivered == 0;
}

static void watch_add_rate(struct watched *watched, double rate)
{
  if (watched->rate_count == LIVE_SAMPLES)
    memmove(watched->rates, watched->rates + 1, (LIVE_SAMPLES - 1) * sizeof(watched->rates[0]));
  else
    watched->rate_count++;
  watched->rates[watched->rate_count - 1] = rate;
}

/* The line of a second, for a stream that is under way. */
static void watch_make_line(const struct app_stream *stream, const struct reading *reading,
                            uint64_t now, struct watched *watched)
{
  const bool sent = !reading->receiver;
  const struct pst_stats *stats = sent ? reading->sender : reading->receiver;
  struct statistics_mark *mark = &watched->mark;
  struct statistics_sample sample = {.stream = stream->name};

  watched->has_line = false;
  if (stats->started_ns == 0 || (stats->ended_ns != 0 && stats->ended_ns <= mark->time_ns))
    return;
  if (mark->time_ns < stats->started_ns)
    mark->time_ns = stats->started_ns;
  sample.gpu = stats->memory_kind == PST_MEMORY_CUDA;
  sample.loss_unknown = watch_loss_unknown(stream, stats, sent);
  if (stream->foreign)
    sample.restarts = watch_counted(stream, "restarts");
  if (stream->runner->arguments->verbose > 0) {
    sample.jitter_ns = watch_counted(stream, "jitter_ns");
    sample.p99_ns = stats->intervals.p99_ns;
  }
  app_statistics_since(mark, stats, sent, stats->ended_ns != 0 ? stats->ended_ns : now, &sample);
  sample.path = reading->account.path.path;
  sample.staged_by = reading->account.staged_by;
  app_statistics_line(&sample, watched->line, sizeof(watched->line));
  watched->has_line = true;
  watched->has_loss = sample.dropped > 0;
  watch_add_rate(watched, app_statistics_gbps(sample.bytes, sample.interval_ns));
}

static void watch_show_lines(const struct runner *runner)
{
  const struct watch *watch = runner->watch;
  struct live_line *lines = watch->is_live ? calloc(watch->count, sizeof(*lines)) : NULL;
  uint32_t count = 0;

  for (uint32_t i = 0; i < watch->count; i++) {
    const struct watched *watched = &watch->streams[i];
    if (!watch->is_live && watched->has_line)
      app_log(PST_LOG_INFO, "%s", watched->line);
    if (lines && watched->line[0] != '\0')
      lines[count++] =
          (struct live_line){.text = watched->line,
                             .insert_at = (uint32_t)strlen(runner->streams[i].name) + 2,
                             .rates = watched->rates,
                             .rate_count = watched->rate_count,
                             .has_loss = watched->has_loss};
  }
  if (count > 0)
    app_live_show(lines, count);
  free(lines);
}

/* ---- Metrics ---------------------------------------------------------------- */

static void watch_put_stream(struct metrics_page *page, const struct app_stream *stream,
                             const struct reading *reading, struct metrics_kept *kept)
{
  struct pst_counter_value sent[COUNTERS_MAX], received[COUNTERS_MAX];
  struct result_stream entry = {.name = stream->name,
                                .sender = reading->sender,
                                .receiver = reading->receiver,
                                .account = &reading->account,
                                .sender_memory = stream->sender.memory,
                                .receiver_memory = stream->receiver.memory,
                                .size_bytes = stream->message,
                                .ring_slots = stream->ring};

  if (reading->sender)
    entry.sender_counters =
        app_result_counters(sent, pst_sender_counters(stream->sender.handle, sent, COUNTERS_MAX));
  if (reading->receiver)
    entry.receiver_counters = app_result_counters(
        received, pst_receiver_counters(stream->receiver.handle, received, COUNTERS_MAX));
  metrics_put_stream(page, &entry, kept);
}

static struct metrics_page *watch_begin_page(const struct runner *runner)
{
  struct metrics_page *page = runner->watch->server ? metrics_page_new() : NULL;

  if (!page)
    return NULL;
  metrics_put_program(page, runner->command->name);
  for (uint32_t i = 0; i < pst_session_plugins(runner->session); i++) {
    struct pst_plugin_info info = {.struct_size = sizeof(info)};
    if (pst_session_plugin(runner->session, i, &info) == 0)
      metrics_put_plugin(page, &info);
  }
  return page;
}

/* ---- Once a second ----------------------------------------------------------- */

static void watch_look(struct runner *runner, uint64_t now, bool is_last)
{
  struct watch *watch = runner->watch;
  struct metrics_page *page = watch_begin_page(runner);
  struct reading reading;

  for (uint32_t i = 0; i < watch->count; i++) {
    const struct app_stream *stream = &runner->streams[i];
    struct watched *watched = &watch->streams[i];
    if (!watch_read(stream, now, &reading))
      continue;
    if (is_last)
      app_series_end(watched->series, now, reading.sender, reading.receiver, &reading.account);
    else
      app_series_add(watched->series, now, reading.sender, reading.receiver, &reading.account);
    if (!is_last)
      watch_make_line(stream, &reading, now, watched);
    if (page)
      watch_put_stream(page, stream, &reading, &watched->kept);
  }
  if (page)
    metrics_put_devices(page, runner->session);
  metrics_server_publish(watch->server, page);
}

void app_watch_second(struct runner *runner, uint64_t now)
{
  watch_look(runner, now, false);
  watch_show_lines(runner);
}

void app_watch_end(struct runner *runner)
{
  if (runner->watch->is_live)
    app_live_close();
  runner->watch->is_live = false;
  watch_look(runner, app_now_ns(), true);
}

/* ---- Opening ------------------------------------------------------------------ */

int app_watch_open(struct runner *runner)
{
  runner->watch = calloc(1, sizeof(*runner->watch));
  if (!runner->watch)
    return app_log_fail(&runner->error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  return metrics_server_open(runner->arguments, &runner->watch->server, &runner->error);
}

int app_watch_begin(struct runner *runner)
{
  struct watch *watch = runner->watch;

  watch->streams = calloc(runner->stream_count, sizeof(*watch->streams));
  if (!watch->streams)
    return -ENOMEM;
  watch->count = runner->stream_count;
  for (uint32_t i = 0; i < watch->count && runner->arguments->series; i++)
    if (!(watch->streams[i].series = app_series_new()))
      return -ENOMEM;
  watch->is_live = !runner->arguments->quiet && app_live_open();
  watch_look(runner, app_now_ns(), false);
  return 0;
}

struct json_object *app_watch_series(const struct app_stream *stream)
{
  const struct watch *watch = stream->runner->watch;
  const ptrdiff_t at = stream - stream->runner->streams;

  return watch && watch->streams ? app_series_json(watch->streams[at].series) : NULL;
}

void app_watch_close(struct runner *runner)
{
  struct watch *watch = runner->watch;

  if (!watch)
    return;
  metrics_server_close(watch->server);
  if (watch->is_live)
    app_live_close();
  for (uint32_t i = 0; i < watch->count; i++)
    app_series_free(watch->streams[i].series);
  free(watch->streams);
  free(watch);
  runner->watch = NULL;
}
