/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a run, as JSON. */
#include "result.h"

#include <json-c/json.h>
#include <string.h>
#include <time.h>

#include "environment.h"
#include "json_put.h"
#include "log.h"
#include "statistics.h"

#define FORMAT 1 /* of the result: docs/reference/result-json.md */

struct json_object *app_result_environment(void)
{
  struct json_object *object = json_object_new_object(), *huge = json_object_new_object();
  struct environment environment;

  app_environment_read(&environment);
  app_json_put_text(object, "hostname", environment.hostname);
  app_json_put_text(object, "kernel", environment.kernel);
  app_json_put_text(object, "kernel_version", environment.version);
  app_json_put_text(object, "cpu", environment.cpu);
  app_json_put_uint(object, "cores", environment.cores > 0 ? (uint64_t)environment.cores : 0);
  app_json_put_uint(object, "memory_bytes", environment.memory_bytes);
  app_json_put_uint(huge, "page_bytes", environment.huge_page_bytes);
  app_json_put_uint(huge, "total", environment.huge_pages);
  app_json_put_uint(huge, "free", environment.huge_pages_free);
  json_object_object_add(object, "huge_pages", huge);
  return object;
}

static struct json_object *result_config_json(const char *file, const struct pst_config *config)
{
  struct json_object *object = json_object_new_object();

  app_json_put_text(object, "file", file);
  app_json_put_text(object, "hash", config ? pst_config_hash(config) : NULL);
  return object;
}

/* The result of a command, with all keys and no streams. The caller owns it. NULL: out of
 * memory. */
struct json_object *app_result_new(const struct command *command, const struct arguments *arguments,
                                   const struct pst_config *config)
{
  /* Members that belong to one command, null until they are known. */
  static const struct {
    const char *command, *key;
  } parts[] = {{"bench", "bench"},           {"bench", "rows"},    {"hardware-check", "hardware"},
               {"hardware-check", "checks"}, {"doctor", "doctor"}, {"doctor", "findings"},
               {"request", "request"},       {"get", "copy"},      {"put", "copy"},
               {"serve", "serve"},           {"topo", "topo"}};
  struct json_object *result = json_object_new_object();
  char stamp[32] = "";
  time_t now = time(NULL);
  struct tm utc;

  if (!result)
    return NULL;
  if (gmtime_r(&now, &utc))
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &utc);
  json_object_object_add(result, "format", json_object_new_int(FORMAT));
  app_json_put_text(result, "penstock", pst_version());
  app_json_put_text(result, "command", command->name);
  app_json_put_text(result, "command_line", arguments->line);
  app_json_put_text(result, "written", stamp);
  app_json_put_text(result, "state", "running");
  app_json_put_bool(result, "ok", false);
  json_object_object_add(result, "exit_status", NULL);
  json_object_object_add(result, "errors", json_object_new_array());
  json_object_object_add(result, "warnings", json_object_new_array());
  json_object_object_add(result, "environment", app_result_environment());
  json_object_object_add(result, "plugins", json_object_new_array());
  if (command->roles != 0) {
    json_object_object_add(result, "config", result_config_json(arguments->operand, config));
    json_object_object_add(result, "streams", json_object_new_array());
  }
  if (strcmp(command->name, "bench") != 0 && strcmp(command->name, "hardware-check") != 0 &&
      strcmp(command->name, "topo") != 0 && strcmp(command->name, "doctor") != 0)
    json_object_object_add(result, "devices", json_object_new_array());
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
    if (strcmp(command->name, parts[i].command) == 0)
      app_json_put_null(result, parts[i].key);
  return result;
}

#define NAME_IN(names, value, otherwise)                                                           \
  ((value) < sizeof(names) / sizeof(names)[0] && (names)[value] ? (names)[value] : (otherwise))

const char *app_result_kind_name(uint32_t kind, const char *otherwise)
{
  static const char *const names[] = {[PST_KIND_TRANSPORT] = "transport",
                                      [PST_KIND_MEMORY] = "memory",
                                      [PST_KIND_FILTER] = "filter"};

  return NAME_IN(names, kind, otherwise);
}

void app_result_add_plugin(struct json_object *result, const struct pst_plugin_info *info)
{
  struct json_object *plugins, *plugin, *libraries;

  if (!result || !json_object_object_get_ex(result, "plugins", &plugins))
    return;
  plugin = json_object_new_object();
  libraries = json_object_new_array();
  app_json_put_text(plugin, "kind", app_result_kind_name(info->kind, "unknown"));
  app_json_put_text(plugin, "name", info->name);
  app_json_put_text(plugin, "version", info->version);
  app_json_put_text(plugin, "rung", info->rung);
  app_json_put_text(plugin, "path", info->path);
  for (const char *const *library = info->libraries; library && *library; library++)
    json_object_array_add(libraries, json_object_new_string(*library));
  json_object_object_add(plugin, "libraries", libraries);
  json_object_array_add(plugins, plugin);
}

static const char *const basis_names[] = {[PST_SENT_COUNTED] = "counted",
                                          [PST_SENT_HEARTBEAT] = "heartbeat",
                                          [PST_SENT_SEQUENCE] = "sequence"};
static const char *const state_names[] = {
    [PST_STATE_WAITING] = "waiting", [PST_STATE_CONNECTED] = "connected",
    [PST_STATE_ENDING] = "ending",   [PST_STATE_ENDED] = "ended",
    [PST_STATE_FAILED] = "failed",
};

/* How long a side was blocked in a stage, by its own times or its peer's report; -1: unknown. */
static double result_blocked_seconds(const struct pst_stats *own, const struct pst_stats *other,
                                     int stage)
{
  if (own)
    return (double)own->blocked_ns[stage] / 1e9;
  return other && other->peer_known ? (double)other->peer_blocked_ns[stage] / 1e9 : -1;
}

/* Seconds by stage: the sender's stages from the sender, the receiver's from the receiver, and
 * staging, which either may be blocked in, from both. */
static struct json_object *result_blocked_json(const struct result_stream *stream)
{
  struct json_object *blocked = json_object_new_object();

  for (int stage = 0; stage < PST_STAGES; stage++) {
    double sender = result_blocked_seconds(stream->sender, stream->receiver, stage);
    double receiver = result_blocked_seconds(stream->receiver, stream->sender, stage);
    double seconds = stage <= PST_STAGE_TRANSPORT ? sender : receiver;

    if (stage == PST_STAGE_STAGING && sender > 0)
      seconds = sender + (receiver > 0 ? receiver : 0);
    app_json_put_share(blocked, pst_stage_name(stage), seconds);
  }
  return blocked;
}

struct result_counters app_result_counters(const struct pst_counter_value *values, int count)
{
  uint32_t known = count < 0 ? 0 : (uint32_t)count;
  return (struct result_counters){values, known < COUNTERS_MAX ? known : COUNTERS_MAX};
}

/* An entry joins the list of its name. A filter may count under the name that its transport has. */
static void result_add_counter(struct json_object *object, const struct pst_counter_value *counter)
{
  struct json_object *there = NULL;

  json_object_object_get_ex(object, counter->name, &there);
  if (counter->flags & PST_COUNTER_ENTRY) {
    if (!json_object_is_type(there, json_type_array))
      json_object_object_add(object, counter->name, there = json_object_new_array());
    json_object_array_add(there, json_object_new_uint64(counter->value));
  } else {
    app_json_put_uint(object, counter->name,
                      counter->value + (json_object_is_type(there, json_type_int)
                                            ? json_object_get_uint64(there)
                                            : 0));
  }
}

struct json_object *app_result_counters_json(const struct result_counters *counters)
{
  struct json_object *object = json_object_new_object();

  for (uint32_t i = 0; i < counters->count; i++)
    result_add_counter(object, &counters->values[i]);
  return object;
}

static struct json_object *result_side_json(const struct pst_stats *stats, const char *memory,
                                            const char *kind, const char *type,
                                            const struct result_counters *counters)
{
  if (!stats)
    return NULL;
  struct json_object *side = json_object_new_object();
  app_json_put_text(side, "state", NAME_IN(state_names, stats->state, "unknown"));
  app_json_put_text(side, "memory", memory);
  app_json_put_text(side, "memory_backing", stats->memory_backing);
  app_json_put_text(side, kind, type);
  app_json_put_text(side, "peer", stats->peer);
  app_json_put_share(side, "cpu_share", app_statistics_cpu_share(stats));
  app_json_put_known(side, "involuntary_switches", stats->cpu_span_ns != 0,
                     stats->involuntary_switches);
  app_json_put_known(side, "peer_delivered", stats->peer_known && strcmp(kind, "source") == 0,
                     stats->peer_delivered);
  json_object_object_add(side, "counters", app_result_counters_json(counters));
  return side;
}

static struct json_object *result_dropped_json(const struct account *account)
{
  struct json_object *dropped = json_object_new_object();
  for (uint32_t i = 0; i < account->drop_count; i++)
    app_json_put_uint(dropped, account->drops[i].cause, account->drops[i].messages);
  return dropped;
}

static void result_put_value(struct json_object *object, const char *key,
                             const struct expect_judged *value)
{
  switch (value->kind) {
  case EXPECT_WORD:
    app_json_put_text(object, key, value->word);
    break;
  case EXPECT_NUMBER:
    app_json_put_number(object, key, value->number);
    break;
  case EXPECT_BOOL:
    app_json_put_bool(object, key, value->number != 0);
    break;
  default:
    app_json_put_null(object, key);
  }
}

static struct json_object *result_expects_json(const struct expect_result *expects, size_t count)
{
  struct json_object *list = json_object_new_array();
  for (size_t i = 0; i < count; i++) {
    struct json_object *expect = json_object_new_object();
    app_json_put_text(expect, "key", expects[i].key);
    result_put_value(expect, "expected", &expects[i].wanted);
    result_put_value(expect, "got", &expects[i].found);
    json_object_object_add(expect, "met",
                           expects[i].checked ? json_object_new_boolean(expects[i].met) : NULL);
    json_object_array_add(list, expect);
  }
  return list;
}

/* The rate of the messages whose bytes are in `gbps`. */
static double result_messages_per_second(const struct account *account)
{
  uint64_t messages =
      account->receiver_known || account->receiver_here ? account->delivered : account->sent;

  return account->ns > 0 ? (double)messages * 1e9 / (double)account->ns : 0;
}

static void result_put_counts(struct json_object *object, const struct account *account)
{
  bool receiver = account->receiver_known;
  uint32_t basis = account->sent > 0 || account->sent_known ? account->sent_basis : 0;

  app_json_put_known(object, "messages_sent", account->sent_known, account->sent);
  app_json_put_text(object, "sent_basis", NAME_IN(basis_names, basis, "unknown"));
  app_json_put_known(object, "messages_delivered", account->delivered_known, account->delivered);
  json_object_object_add(object, "dropped", result_dropped_json(account));
  app_json_put_text(object, "dropped_basis", account->dropped_at_least ? "at_least" : "counted");
  app_json_put_share(object, "loss", app_accounting_loss(account));
  app_json_put_known(object, "duplicates", receiver, account->duplicates);
  app_json_put_known(object, "reordered", receiver, account->reordered);
  app_json_put_known(object, "verified", receiver, account->verified);
  app_json_put_known(object, "corrupted", receiver, account->corrupted);
  /* A sender alone knows the bytes delivered only when none of them was lost. */
  app_json_put_known(object, "bytes_delivered", receiver || app_accounting_loss(account) == 0,
                     account->bytes);
  app_json_put_number(object, "seconds", (double)account->ns / 1e9);
  app_json_put_number(object, "messages_per_second", result_messages_per_second(account));
  app_json_put_number(object, "gbps", app_statistics_gbps(account->bytes, account->ns));
}

static struct json_object *result_frames_json(const struct pst_stats *receiver)
{
  if (!receiver || receiver->frame_packets == 0)
    return NULL;
  struct json_object *frames = json_object_new_object();
  app_json_put_uint(frames, "packets", receiver->frame_packets);
  app_json_put_uint(frames, "complete", receiver->frames_complete);
  app_json_put_uint(frames, "incomplete", receiver->frames_incomplete);
  app_json_put_uint(frames, "dropped", receiver->frames_dropped);
  app_json_put_uint(frames, "lost", receiver->frames_lost);
  return frames;
}

static void result_put_intervals(struct json_object *object, const struct pst_stats *receiver)
{
  struct json_times times = {0};

  if (receiver)
    times = (struct json_times){.count = receiver->intervals.count,
                                .min = (double)receiver->intervals.min_ns,
                                .mean = (double)receiver->intervals.mean_ns,
                                .p50 = (double)receiver->intervals.p50_ns,
                                .p90 = (double)receiver->intervals.p90_ns,
                                .p99 = (double)receiver->intervals.p99_ns,
                                .p99_9 = (double)receiver->intervals.p99_9_ns,
                                .max = (double)receiver->intervals.max_ns};
  app_json_put_times(object, "intervals_ns", &times);
}

/* Adds a counter that only some transports have. */
static void result_put_counter(struct json_object *object, const char *name,
                               const struct result_counters *counters)
{
  const struct pst_counter_value *counter =
      app_statistics_counter(counters->values, counters->count, name);
  app_json_put_known(object, name, counter != NULL, counter ? counter->value : 0);
}

void app_result_put_verdict(struct json_object *object, const char *limited_by, const char *side,
                            double share)
{
  struct json_object *verdict = json_object_new_object();

  app_json_put_text(verdict, "limited_by", limited_by);
  app_json_put_text(verdict, "side", side);
  app_json_put_share(verdict, "share", limited_by ? share : -1);
  json_object_object_add(object, "verdict", verdict);
}

struct json_object *app_result_errors(struct json_object *result)
{
  struct json_object *errors = NULL;

  if (result)
    json_object_object_get_ex(result, "errors", &errors);
  return errors;
}

void app_result_add_errors(struct json_object *result, struct json_object *errors)
{
  struct json_object *all = app_result_errors(result);

  for (size_t i = 0; all && errors && i < json_object_array_length(errors); i++)
    json_object_array_add(all, json_object_get(json_object_array_get_idx(errors, i)));
}

/* Adds a stream, and takes over the arrays in *stream. Returns the stream's object, which `result`
 * owns. */
struct json_object *app_result_add_stream(struct json_object *result,
                                          const struct result_stream *stream)
{
  struct json_object *streams, *object;
  const struct account *account = stream->account;

  if (!result || !json_object_object_get_ex(result, "streams", &streams))
    return NULL;
  object = json_object_new_object();
  app_json_put_text(object, "name", stream->name);
  app_json_put_bool(object, "ok", stream->ok);
  app_result_add_errors(result, stream->errors);
  json_object_object_add(object, "errors",
                         stream->errors ? stream->errors : json_object_new_array());
  app_json_put_text(object, "stopped", stream->stopped);
  app_json_put_uint(object, "size_bytes", stream->size_bytes);
  app_json_put_uint(object, "ring_slots", stream->ring_slots);
  result_put_counts(object, account);
  json_object_object_add(object, "frames", result_frames_json(stream->receiver));
  result_put_counter(object, "restarts", &stream->receiver_counters);
  result_put_counter(object, "jitter_ns", &stream->receiver_counters);
  result_put_intervals(object, stream->receiver);
  json_object_object_add(object, "series", stream->series);
  app_json_put_text(object, "path",
                    account->path.path != PST_PATH_NONE ? app_statistics_path(account->path.path)
                                                        : NULL);
  app_json_put_text(object, "staged_by", account->staged_by);
  app_json_put_text(object, "path_reason", account->path.reason);
  app_json_put_text(object, "via", account->path.via);
  app_json_put_text(object, "carrier", account->path.carrier);
  json_object_object_add(object, "blocked_seconds", result_blocked_json(stream));
  app_result_put_verdict(
      object, stream->limited_by == RESULT_NEVER_RAN ? NULL : pst_stage_name(stream->limited_by),
      stream->limited_by == PST_STAGE_STAGING
          ? app_accounting_stager(stream->sender, stream->receiver)
          : NULL,
      stream->limited_by != PST_LIMIT_CPU ? stream->share : -1);
  json_object_object_add(object, "expect",
                         result_expects_json(stream->expects, stream->expect_count));
  json_object_object_add(object, "sender",
                         result_side_json(stream->sender, stream->sender_memory, "source",
                                          stream->source, &stream->sender_counters));
  json_object_object_add(object, "receiver",
                         result_side_json(stream->receiver, stream->receiver_memory, "sink",
                                          stream->sink, &stream->receiver_counters));
  json_object_array_add(streams, object);
  return object;
}

void app_result_finish(struct json_object *result, int exit_status)
{
  struct json_object *errors = app_result_errors(result);

  if (!result)
    return;
  if (exit_status != PST_EXIT_OK && json_object_array_length(errors) == 0)
    app_finding_add(errors, app_finding_of(exit_status, 0), app_log_last_where(),
                    app_log_last_error()[0] != '\0' ? app_log_last_error()
                                                    : "standard error says why");
  app_json_put_text(result, "state", "ended");
  app_json_put_bool(result, "ok", exit_status == PST_EXIT_OK);
  json_object_object_add(result, "exit_status", json_object_new_int(exit_status));
  json_object_object_add(result, "warnings", app_finding_warnings());
}
