/* SPDX-License-Identifier: Apache-2.0 */
#include "result.h"

#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "notice.h"
#include "statistics.h"

#define FORMAT 1 /* of the result: docs/result-json.md */

static void put_text(struct json_object *object, const char *key, const char *text)
{
  json_object_object_add(object, key, text != NULL ? json_object_new_string(text) : NULL);
}

static void put_uint(struct json_object *object, const char *key, uint64_t value)
{
  json_object_object_add(object, key, json_object_new_uint64(value));
}

/* null where it is not known. */
static void put_known(struct json_object *object, const char *key, bool known, uint64_t value)
{
  json_object_object_add(object, key, known ? json_object_new_uint64(value) : NULL);
}

static void put_number(struct json_object *object, const char *key, double value)
{
  char text[32];

  /* Nine digits are what was measured; 17 are noise to a reader. */
  snprintf(text, sizeof text, "%.9g", value);
  json_object_object_add(object, key, json_object_new_double_s(value, text));
}

/* null where it is not known, which is less than 0. */
static void put_share(struct json_object *object, const char *key, double share)
{
  if (share >= 0)
    put_number(object, key, share);
  else
    json_object_object_add(object, key, NULL);
}

static void put_bool(struct json_object *object, const char *key, bool value)
{
  json_object_object_add(object, key, json_object_new_boolean(value));
}

static struct json_object *environment_json(const struct environment *environment)
{
  struct json_object *object = json_object_new_object(), *huge = json_object_new_object();

  put_text(object, "hostname", environment->hostname);
  put_text(object, "kernel", environment->kernel);
  put_text(object, "kernel_version", environment->version);
  put_text(object, "cpu", environment->cpu);
  put_uint(object, "cores", environment->cores > 0 ? (uint64_t)environment->cores : 0);
  put_uint(object, "memory_bytes", environment->memory_bytes);
  put_uint(huge, "page_bytes", environment->huge_page_bytes);
  put_uint(huge, "total", environment->huge_pages);
  put_uint(huge, "free", environment->huge_pages_free);
  json_object_object_add(object, "huge_pages", huge);
  return object;
}

static struct json_object *config_json(const struct result_head *head)
{
  struct json_object *config = json_object_new_object();

  put_text(config, "file", head->config_file);
  put_text(config, "hash", head->config_hash);
  return config;
}

struct json_object *result_new(const struct result_head *head)
{
  struct json_object *result = json_object_new_object();
  char stamp[32] = "";
  time_t now = time(NULL);
  struct tm utc;

  if (result == NULL)
    return NULL;
  if (gmtime_r(&now, &utc) != NULL)
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", &utc);
  json_object_object_add(result, "format", json_object_new_int(FORMAT));
  put_text(result, "penstock", head->version);
  put_text(result, "command", head->command);
  put_text(result, "command_line", head->command_line);
  put_text(result, "written", stamp);
  put_text(result, "state", "running");
  put_bool(result, "ok", false);
  json_object_object_add(result, "exit_status", NULL);
  json_object_object_add(result, "errors", json_object_new_array());
  json_object_object_add(result, "warnings", json_object_new_array());
  if (head->streams)
    json_object_object_add(result, "config", config_json(head));
  json_object_object_add(result, "environment", environment_json(head->environment));
  json_object_object_add(result, "plugins", json_object_new_array());
  if (head->streams)
    json_object_object_add(result, "streams", json_object_new_array());
  return result;
}

static const char *kind_name(uint32_t kind)
{
  switch (kind) {
  case PST_KIND_TRANSPORT:
    return "transport";
  case PST_KIND_MEMORY:
    return "memory";
  case PST_KIND_FILTER:
    return "filter";
  default:
    return "unknown";
  }
}

void result_add_plugin(struct json_object *result, const struct pst_plugin_info *info)
{
  struct json_object *plugins, *plugin, *libraries;

  if (result == NULL || !json_object_object_get_ex(result, "plugins", &plugins))
    return;
  plugin = json_object_new_object();
  libraries = json_object_new_array();
  put_text(plugin, "kind", kind_name(info->kind));
  put_text(plugin, "name", info->description != NULL ? info->description->name : NULL);
  put_text(plugin, "version", info->description != NULL ? info->description->version : NULL);
  put_text(plugin, "rung", info->description != NULL ? info->description->rung : NULL);
  put_text(plugin, "path", info->path);
  for (const char *const *library = info->libraries; library != NULL && *library != NULL; library++)
    json_object_array_add(libraries, json_object_new_string(*library));
  json_object_object_add(plugin, "libraries", libraries);
  json_object_array_add(plugins, plugin);
}

static const char *basis_name(uint32_t basis)
{
  switch (basis) {
  case PST_SENT_COUNTED:
    return "counted";
  case PST_SENT_HEARTBEAT:
    return "heartbeat";
  case PST_SENT_SEQUENCE:
    return "sequence";
  default:
    return "unknown";
  }
}

static const char *state_name(uint32_t state)
{
  switch (state) {
  case PST_STATE_WAITING:
    return "waiting";
  case PST_STATE_CONNECTED:
    return "connected";
  case PST_STATE_ENDING:
    return "ending";
  case PST_STATE_ENDED:
    return "ended";
  case PST_STATE_FAILED:
    return "failed";
  default:
    return "unknown";
  }
}

/* What a side was blocked in a stage, or what its peer was told of that; -1: nobody knows. */
static double blocked_seconds(const struct pst_stats *own, const struct pst_stats *other, int stage)
{
  if (own != NULL)
    return (double)own->blocked_ns[stage] / 1e9;
  return other != NULL && other->peer_known ? (double)other->peer_blocked_ns[stage] / 1e9 : -1;
}

/* Seconds by stage: the sender's stages from the sender, the receiver's from the receiver, and
 * staging, which either may be blocked in, from both. */
static struct json_object *blocked_json(const struct result_stream *stream)
{
  struct json_object *blocked = json_object_new_object();

  for (int stage = 0; stage < PST_STAGES; stage++) {
    double sender = blocked_seconds(stream->sender, stream->receiver, stage);
    double receiver = blocked_seconds(stream->receiver, stream->sender, stage);
    double seconds = stage <= PST_STAGE_TRANSPORT ? sender : receiver;

    if (stage == PST_STAGE_STAGING && sender > 0)
      seconds = sender + (receiver > 0 ? receiver : 0);
    put_share(blocked, stream->stage_name(stage), seconds);
  }
  return blocked;
}

/* A list, not an object: a ledger has the same name for each of its entries. */
static struct json_object *counters_json(const struct result_counters *counters)
{
  struct json_object *list = json_object_new_array();
  for (uint32_t i = 0; i < counters->count; i++) {
    const struct pst_counter_value *value = &counters->values[i];
    struct json_object *counter = json_object_new_object();
    put_text(counter, "name", value->name);
    put_uint(counter, "value", value->value);
    if (value->cause[0] != '\0')
      put_text(counter, "cause", value->cause);
    json_object_array_add(list, counter);
  }
  return list;
}

static struct json_object *side_json(const struct pst_stats *stats, const char *memory,
                                     const char *kind, const char *type,
                                     const struct result_counters *counters)
{
  if (stats == NULL)
    return NULL;
  struct json_object *side = json_object_new_object();
  put_text(side, "state", state_name(stats->state));
  put_text(side, "memory", memory);
  put_text(side, "memory_backing", stats->memory_backing);
  put_text(side, kind, type);
  put_text(side, "peer", stats->peer);
  put_share(side, "cpu_share", statistics_cpu_share(stats));
  put_known(side, "involuntary_switches", stats->cpu_span_ns != 0, stats->involuntary_switches);
  put_uint(side, "messages",
           strcmp(kind, "source") == 0 ? stats->messages_sent : stats->messages_delivered);
  put_known(side, "peer_delivered", stats->peer_known && strcmp(kind, "source") == 0,
            stats->peer_delivered);
  json_object_object_add(side, "counters", counters_json(counters));
  return side;
}

static struct json_object *dropped_json(const struct account *account)
{
  struct json_object *dropped = json_object_new_object();
  for (uint32_t i = 0; i < account->drop_count; i++)
    put_uint(dropped, account->drops[i].cause, account->drops[i].messages);
  return dropped;
}

static struct json_object *expects_json(const struct expect_result *expects, size_t count)
{
  struct json_object *list = json_object_new_array();
  for (size_t i = 0; i < count; i++) {
    struct json_object *expect = json_object_new_object();
    put_text(expect, "key", expects[i].key);
    put_text(expect, "expected", expects[i].expected);
    put_text(expect, "got", expects[i].got);
    json_object_object_add(expect, "met",
                           expects[i].checked ? json_object_new_boolean(expects[i].met) : NULL);
    json_object_array_add(list, expect);
  }
  return list;
}

static void put_counts(struct json_object *object, const struct account *account)
{
  bool receiver = account->receiver_known;

  put_known(object, "messages_sent", account->sent_known, account->sent);
  put_text(object, "sent_basis",
           basis_name(account->sent > 0 || account->sent_known ? account->sent_basis : 0));
  put_known(object, "messages_delivered", account->delivered_known, account->delivered);
  json_object_object_add(object, "dropped", dropped_json(account));
  put_text(object, "dropped_basis", account->dropped_at_least ? "at_least" : "counted");
  put_share(object, "loss", accounting_loss(account));
  put_known(object, "duplicates", receiver, account->duplicates);
  put_known(object, "reordered", receiver, account->reordered);
  put_known(object, "verified", receiver, account->verified);
  put_known(object, "corrupted", receiver, account->corrupted);
  /* A sender alone knows the bytes delivered only when none of them was lost. */
  put_known(object, "bytes_delivered", receiver || accounting_loss(account) == 0, account->bytes);
  put_number(object, "seconds", (double)account->ns / 1e9);
  put_number(object, "gbps", statistics_gbps(account->bytes, account->ns));
  json_object_object_add(object, "wire_gbps", NULL);
}

static struct json_object *frames_json(const struct pst_stats *receiver)
{
  if (receiver == NULL || receiver->frame_packets == 0)
    return NULL;
  struct json_object *frames = json_object_new_object();
  put_uint(frames, "packets", receiver->frame_packets);
  put_uint(frames, "complete", receiver->frames_complete);
  put_uint(frames, "incomplete", receiver->frames_incomplete);
  put_uint(frames, "dropped", receiver->frames_dropped);
  put_uint(frames, "lost", receiver->frames_lost);
  return frames;
}

static struct json_object *intervals_json(const struct pst_stats *receiver)
{
  if (receiver == NULL || receiver->intervals.count == 0)
    return NULL;
  const struct pst_times *times = &receiver->intervals;
  struct json_object *object = json_object_new_object();
  put_uint(object, "count", times->count);
  put_uint(object, "min", times->min_ns);
  put_uint(object, "mean", times->mean_ns);
  put_uint(object, "p50", times->p50_ns);
  put_uint(object, "p90", times->p90_ns);
  put_uint(object, "p99", times->p99_ns);
  put_uint(object, "p99_9", times->p99_9_ns);
  put_uint(object, "max", times->max_ns);
  return object;
}

/* What only some transports count. */
static void put_counter(struct json_object *object, const char *name,
                        const struct result_counters *counters)
{
  const struct pst_counter_value *counter =
      statistics_counter(counters->values, counters->count, name);
  put_known(object, name, counter != NULL, counter != NULL ? counter->value : 0);
}

struct json_object *result_errors(struct json_object *result)
{
  struct json_object *errors = NULL;

  if (result != NULL)
    json_object_object_get_ex(result, "errors", &errors);
  return errors;
}

void result_add_errors(struct json_object *result, struct json_object *errors)
{
  struct json_object *all = result_errors(result);

  for (size_t i = 0; all != NULL && errors != NULL && i < json_object_array_length(errors); i++)
    json_object_array_add(all, json_object_get(json_object_array_get_idx(errors, i)));
}

void result_add_stream(struct json_object *result, const struct result_stream *stream)
{
  struct json_object *streams, *object, *verdict;
  const struct account *account = stream->account;

  if (result == NULL || !json_object_object_get_ex(result, "streams", &streams))
    return;
  object = json_object_new_object();
  put_text(object, "name", stream->name);
  put_bool(object, "ok", stream->ok);
  result_add_errors(result, stream->errors);
  json_object_object_add(object, "errors",
                         stream->errors != NULL ? stream->errors : json_object_new_array());
  put_text(object, "stopped", stream->stopped);
  put_uint(object, "message_bytes", stream->message_bytes);
  put_uint(object, "ring_slots", stream->ring_slots);
  put_counts(object, account);
  json_object_object_add(object, "frames", frames_json(stream->receiver));
  put_counter(object, "restarts", &stream->receiver_counters);
  put_counter(object, "jitter_ns", &stream->receiver_counters);
  json_object_object_add(object, "intervals_ns", intervals_json(stream->receiver));
  put_text(object, "path", statistics_path(account->path.path));
  put_text(object, "staged_by", account->staged_by);
  put_text(object, "path_reason", account->path.reason);
  put_text(object, "via", account->path.via);
  put_text(object, "carrier", account->path.carrier);
  json_object_object_add(object, "blocked", blocked_json(stream));
  verdict = json_object_new_object();
  put_text(verdict, "limited_by",
           stream->limited_by == RESULT_NEVER_RAN ? NULL : stream->stage_name(stream->limited_by));
  put_text(verdict, "side",
           stream->limited_by == PST_STAGE_STAGING
               ? accounting_stager(stream->sender, stream->receiver)
               : NULL);
  put_number(verdict, "share",
             stream->limited_by != RESULT_NEVER_RAN && stream->limited_by != PST_LIMIT_CPU
                 ? stream->share
                 : 0);
  json_object_object_add(object, "verdict", verdict);
  json_object_object_add(object, "expect", expects_json(stream->expects, stream->expect_count));
  json_object_object_add(object, "sender",
                         side_json(stream->sender, stream->sender_memory, "source", stream->source,
                                   &stream->sender_counters));
  json_object_object_add(object, "receiver",
                         side_json(stream->receiver, stream->receiver_memory, "sink", stream->sink,
                                   &stream->receiver_counters));
  json_object_array_add(streams, object);
}

void result_finish(struct json_object *result, int exit_status)
{
  struct json_object *errors = result_errors(result);

  if (result == NULL)
    return;
  if (exit_status != PST_EXIT_OK && json_object_array_length(errors) == 0)
    finding_add(errors, finding_of(exit_status, 0), NULL,
                notice_last_error()[0] != '\0' ? notice_last_error() : "standard error says why");
  put_text(result, "state", "ended");
  put_bool(result, "ok", exit_status == PST_EXIT_OK);
  json_object_object_add(result, "exit_status", json_object_new_int(exit_status));
  json_object_object_add(result, "warnings", finding_warnings());
}
