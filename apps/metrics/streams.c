/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, plugins and devices as metrics. docs/operations/monitoring.md lists all names. */
#include "streams.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "statistics.h"

#define GAUGE METRICS_GAUGE
#define COUNTER METRICS_COUNTER

void metrics_put_program(struct metrics_page *page, const char *command)
{
  static const struct metrics_name build = {GAUGE, "penstock_build_info", "The program; always 1."},
                                   now = {GAUGE, "penstock_snapshot_timestamp_seconds",
                                          "When these values were read, in Unix time."};

  metrics_page_labels(page, "version", pst_version(), "command", command, NULL);
  metrics_page_put(page, &build, 1);
  metrics_page_labels(page, NULL);
  metrics_page_put(page, &now, (uint64_t)time(NULL));
}

void metrics_put_plugin(struct metrics_page *page, const struct pst_plugin_info *info)
{
  static const struct metrics_name plugin = {GAUGE, "penstock_plugin_info",
                                             "A plugin in use; always 1."};

  metrics_page_labels(page, "kind", app_result_kind_name(info->kind, "unknown"), "name", info->name,
                      "version", info->version, "rung", info->rung, "path", info->path, NULL);
  metrics_page_put(page, &plugin, 1);
}

/* ---- A stream -------------------------------------------------------------- */

static void streams_put_info(struct metrics_page *page, const struct result_stream *stream)
{
  static const struct metrics_name info = {GAUGE, "penstock_stream_info",
                                           "How the bytes reach their memory; always 1."},
                                   size = {GAUGE, "penstock_stream_message_max_bytes",
                                           "The longest message (message)."},
                                   ring = {GAUGE, "penstock_stream_ring_slots",
                                           "Slots at each end (ring)."};
  const struct pst_path_info *path = &stream->account->path;

  metrics_page_labels(page, "stream", stream->name, "path",
                      path->path == PST_PATH_NONE ? "" : app_statistics_path(path->path), "via",
                      path->via, "carrier", path->carrier, "sender_memory", stream->sender_memory,
                      "receiver_memory", stream->receiver_memory, NULL);
  metrics_page_put(page, &info, 1);
  metrics_page_labels(page, "stream", stream->name, NULL);
  metrics_page_put(page, &size, stream->size_bytes);
  metrics_page_put(page, &ring, stream->ring_slots);
}

static void streams_keep_drops(struct metrics_kept *kept, const struct account *account)
{
  /* increase() needs a value from before the first loss. */
  if (account->lossy && kept->count == 0)
    snprintf(kept->causes[kept->count++].cause, sizeof(kept->causes[0].cause), "wire");
  for (uint32_t i = 0; i < account->drop_count; i++) {
    const struct pst_drop *drop = &account->drops[i];
    uint32_t at = 0;
    while (at < kept->count && strcmp(kept->causes[at].cause, drop->cause) != 0)
      at++;
    if (at == METRICS_CAUSES)
      continue;
    struct metrics_cause *cause = &kept->causes[at];
    if (at == kept->count)
      snprintf(kept->causes[kept->count++].cause, sizeof(cause->cause), "%s", drop->cause);
    if (drop->messages > cause->last)
      cause->dropped += drop->messages - cause->last;
    else
      cause->recovered += cause->last - drop->messages;
    cause->last = drop->messages;
  }
}

static void streams_put_account(struct metrics_page *page, const struct result_stream *stream,
                                struct metrics_kept *kept)
{
  static const struct metrics_name
      sent = {COUNTER, "penstock_sent_messages_total", "Messages sent, as far as is known here."},
      delivered = {COUNTER, "penstock_delivered_messages_total",
                   "Messages that the receiver handed over, as far as is known here."},
      dropped = {COUNTER, "penstock_dropped_messages_total", "Messages counted as lost, by cause."},
      recovered = {COUNTER, "penstock_recovered_messages_total",
                   "Messages that arrived after they had been counted as lost, by cause."},
      seconds = {COUNTER, "penstock_running_seconds_total", "Time since both ends connected."};
  const struct account *account = stream->account;

  if (account->sent_known)
    metrics_page_put(page, &sent, account->sent);
  if (account->delivered_known)
    metrics_page_put(page, &delivered, account->delivered);
  metrics_page_put_ns(page, &seconds, account->ns);
  streams_keep_drops(kept, account);
  for (uint32_t i = 0; i < kept->count; i++) {
    metrics_page_put_by(page, &dropped, "cause", kept->causes[i].cause, kept->causes[i].dropped);
    metrics_page_put_by(page, &recovered, "cause", kept->causes[i].cause,
                        kept->causes[i].recovered);
  }
}

static void streams_put_receiver(struct metrics_page *page, const struct pst_stats *stats)
{
  static const struct metrics_name bytes = {COUNTER, "penstock_delivered_bytes_total",
                                            "Payload that was handed over."},
                                   duplicates = {COUNTER, "penstock_duplicate_messages_total",
                                                 "Messages that arrived more than once."},
                                   reordered = {COUNTER, "penstock_reordered_messages_total",
                                                "Messages that arrived after later ones."},
                                   verified = {COUNTER, "penstock_verified_messages_total",
                                               "Messages whose every byte was compared."},
                                   corrupted = {COUNTER, "penstock_corrupted_messages_total",
                                                "Verified messages with a wrong byte."},
                                   frames = {
                                       COUNTER, "penstock_frames_total",
                                       "Frames: complete, handed over incomplete, dropped, lost."};

  metrics_page_put(page, &bytes, stats->bytes_delivered);
  metrics_page_put(page, &duplicates, stats->duplicates);
  metrics_page_put(page, &reordered, stats->reordered);
  metrics_page_put(page, &verified, stats->verified);
  metrics_page_put(page, &corrupted, stats->corrupted);
  if (stats->frame_packets == 0)
    return;
  metrics_page_put_by(page, &frames, "outcome", "complete", stats->frames_complete);
  metrics_page_put_by(page, &frames, "outcome", "incomplete", stats->frames_incomplete);
  metrics_page_put_by(page, &frames, "outcome", "dropped", stats->frames_dropped);
  metrics_page_put_by(page, &frames, "outcome", "lost", stats->frames_lost);
}

/* Nothing of it before the first interval. Their sum is the mean, which is rounded, times the
 * count: what is shown never falls. */
static void streams_put_intervals(struct metrics_page *page, const struct pst_times *times,
                                  struct metrics_kept *kept)
{
  const uint64_t sum_ns = times->count * times->mean_ns;

  static const struct metrics_name
      intervals = {METRICS_SUMMARY, "penstock_arrival_interval_seconds",
                   "Time between two arrivals, since the beginning; quantiles are up to 3.2% too "
                   "high."},
      least = {GAUGE, "penstock_arrival_interval_min_seconds", "The shortest of these times."},
      most = {GAUGE, "penstock_arrival_interval_max_seconds", "The longest of these times."};

  if (times->count == 0)
    return;
  metrics_page_put_ns_by(page, &intervals, "quantile", "0.5", times->p50_ns);
  metrics_page_put_ns_by(page, &intervals, "quantile", "0.9", times->p90_ns);
  metrics_page_put_ns_by(page, &intervals, "quantile", "0.99", times->p99_ns);
  metrics_page_put_ns_by(page, &intervals, "quantile", "0.999", times->p99_9_ns);
  if (sum_ns > kept->interval_sum_ns)
    kept->interval_sum_ns = sum_ns;
  metrics_page_put_sum_ns(page, &intervals, times->count, kept->interval_sum_ns);
  metrics_page_put_ns(page, &least, times->min_ns);
  metrics_page_put_ns(page, &most, times->max_ns);
}

static void streams_put_state(struct metrics_page *page, uint32_t state)
{
  static const struct metrics_name name = {GAUGE, "penstock_stream_state",
                                           "1 for the state that the end is in, 0 for the others."};
  static const char *const states[] = {[PST_STATE_WAITING] = "waiting",
                                       [PST_STATE_CONNECTED] = "connected",
                                       [PST_STATE_ENDING] = "ending",
                                       [PST_STATE_ENDED] = "ended",
                                       [PST_STATE_FAILED] = "failed"};

  for (uint32_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
    if (states[i])
      metrics_page_put_by(page, &name, "state", states[i], i == state);
}

/* Writes the counters of one end, its transport's included; nothing if the end is not in this
 * process. */
static void streams_put_side(struct metrics_page *page, const char *stream, bool sends,
                             const struct pst_stats *stats, const struct result_counters *counters,
                             struct metrics_kept *kept)
{
  static const struct metrics_name
      bytes = {COUNTER, "penstock_sent_bytes_total", "Payload that was sent."},
      blocked = {COUNTER, "penstock_blocked_seconds_total",
                 "Time in which the end was blocked, by the stage that it waited for."},
      cpu = {COUNTER, "penstock_cpu_seconds_total", "CPU time of the end's thread."},
      wait = {COUNTER, "penstock_cpu_wait_seconds_total",
              "Time that the end's thread was ready to run while other threads had the CPU."},
      switches = {COUNTER, "penstock_cpu_involuntary_switches_total",
                  "How often the end's thread lost its CPU."};

  if (!stats)
    return;
  metrics_page_labels(page, "stream", stream, NULL);
  if (sends)
    metrics_page_put(page, &bytes, stats->bytes_sent);
  else
    streams_put_receiver(page, stats);
  if (!sends)
    streams_put_intervals(page, &stats->intervals, kept);
  metrics_page_labels(page, "stream", stream, "side", sends ? "sender" : "receiver", NULL);
  streams_put_state(page, stats->state);
  for (int stage = 0; stage < PST_STAGES; stage++)
    if (stage == PST_STAGE_STAGING || (stage <= PST_STAGE_TRANSPORT) == sends)
      metrics_page_put_ns_by(page, &blocked, "stage", pst_stage_name(stage),
                             stats->blocked_ns[stage]);
  if (stats->cpu_span_ns > 0) {
    metrics_page_put_ns(page, &cpu, stats->cpu_ns);
    if (stats->cpu_wait_ns != UINT64_MAX)
      metrics_page_put_ns(page, &wait, stats->cpu_wait_ns);
    metrics_page_put(page, &switches, stats->involuntary_switches);
  }
  /* A filter may count under a name that its transport has: their sum is what a result has, too. */
  for (uint32_t i = 0; i < counters->count; i++) {
    struct pst_counter_value sum = counters->values[i];
    bool is_second = false;
    for (uint32_t j = 0; j < counters->count; j++) {
      if (j == i || strcmp(counters->values[j].name, sum.name) != 0)
        continue;
      is_second |= j < i;
      sum.value += counters->values[j].value;
    }
    if (!is_second)
      metrics_page_put_counter(page, "transport", &sum);
  }
}

void metrics_put_stream(struct metrics_page *page, const struct result_stream *stream,
                        struct metrics_kept *kept)
{
  if (!stream->sender && !stream->receiver)
    return;
  streams_put_info(page, stream);
  streams_put_account(page, stream, kept);
  streams_put_side(page, stream->name, true, stream->sender, &stream->sender_counters, kept);
  streams_put_side(page, stream->name, false, stream->receiver, &stream->receiver_counters, kept);
}

/* ---- Devices --------------------------------------------------------------- */

void metrics_put_counters(struct metrics_page *page, const char *prefix,
                          const struct pst_counter_value *values, int count)
{
  const struct result_counters counters = app_result_counters(values, count);

  for (uint32_t i = 0; i < counters.count; i++)
    metrics_page_put_counter(page, prefix, &values[i]);
}

void metrics_put_devices(struct metrics_page *page, struct pst_session *session)
{
  struct pst_device_info info = {.struct_size = sizeof(info)};
  struct pst_counter_value values[COUNTERS_MAX];
  char number[16], worker[16];

  for (uint32_t i = 0; pst_session_device(session, i, &info) == 0; i++) {
    snprintf(number, sizeof(number), "%u", i);
    metrics_page_labels(page, "transport", info.transport, "device", info.device, "number", number,
                        NULL);
    metrics_put_counters(page, "device", values,
                         pst_session_device_counters(session, i, values, COUNTERS_MAX));
    for (uint32_t thread = 0; thread < pst_session_threads(session); thread++) {
      int count = pst_session_worker_counters(session, i, thread, values, COUNTERS_MAX);
      snprintf(worker, sizeof(worker), "%u", thread);
      metrics_page_labels(page, "transport", info.transport, "device", info.device, "number",
                          number, "thread", worker, NULL);
      metrics_put_counters(page, "worker", values, count);
    }
  }
}
