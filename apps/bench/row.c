/* SPDX-License-Identifier: Apache-2.0 */
#include "row.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "size.h"
#include "statistics.h"

static const struct percentile {
  const char *key;
  double share;
} percentiles[] = {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}, {"p99_9", 0.999}};
#define PERCENTILES (sizeof percentiles / sizeof percentiles[0])

void bench_path_of(const struct pst_stats *stats, struct bench_path *path)
{
  snprintf(path->path, sizeof path->path, "%s", statistics_path(stats->path.path));
  snprintf(path->reason, sizeof path->reason, "%s", stats->path.reason);
  snprintf(path->via, sizeof path->via, "%s", stats->path.via);
  snprintf(path->carrier, sizeof path->carrier, "%s", stats->path.carrier);
  snprintf(path->backing, sizeof path->backing, "%s", stats->memory_backing);
}

static double seconds_of(const struct bench_row *row)
{
  return (double)row->taken.ns / 1e9;
}

static double message_rate(const struct bench_row *row)
{
  return row->taken.ns > 0 ? (double)row->taken.messages / seconds_of(row) : 0;
}

/* What a time in the histogram has to be divided by. */
static double parts_of(const struct bench_case *c)
{
  return bench_is_one_sided(c->op) ? 1 : 2;
}

/* ---- For people ----------------------------------------------------------------- */

void bench_show_head(FILE *to, const struct bench_setting *setting)
{
  const struct environment *environment = &setting->environment;

  fprintf(to, "penstock %s bench | transport %s | memory %s\n", pst_version(), setting->transport,
          setting->memory);
  fprintf(to, "client: %s, %s, %ld cores, %s\n", environment->hostname,
          environment->cpu[0] != '\0' ? environment->cpu : "unknown CPU", environment->cores,
          environment->kernel);
  fprintf(to, "server: %s%s%s\n", setting->server, setting->server_cpu[0] != '\0' ? ", " : "",
          setting->server_cpu);
}

static void show_onesided_title(FILE *to, const struct bench_case *c)
{
  const char *name = bench_op_name(c->op), *note = "";
  double warmup_ms = (double)c->warmup_ns / 1e6, duration = (double)c->duration_ns / 1e9;
  bool is_write = c->op == BENCH_WRITE;

  if (c->verify)
    note = is_write ? "; filled, and verified at the target, between them"
                    : "; verified, between them";
  else if (c->touch && !is_write)
    note = "; a cache line of each is read";
  if (c->measure == MEASURE_BANDWIDTH)
    fprintf(to,
            "\n%s bandwidth: by the initiator's clock, after %g ms, from nothing under way until "
            "%s, %g s each%s\n%10s %8s %14s %10s  %-14s  %s\n",
            name, warmup_ms, is_write ? "the last is placed (FLUSH)" : "the last is here", duration,
            note, "size", "depth", "messages/s", "Gbps", "limited by", "path");
  else
    fprintf(to,
            "\n%s latency in us, by the initiator's clock, from the post until %s, all after %g "
            "ms; %g s each%s\n%10s %9s %9s %9s %9s %9s %9s %12s  %s\n",
            name, is_write ? "a FLUSH behind it is done" : "the data is here", warmup_ms, duration,
            note, "size", "min", "p50", "p90", "p99", "p99.9", "max", is_write ? "writes" : "reads",
            "path");
}

void bench_show_title(FILE *to, const struct bench_case *c)
{
  double warmup_ms = (double)c->warmup_ns / 1e6, duration = (double)c->duration_ns / 1e9;

  if (bench_is_one_sided(c->op)) {
    show_onesided_title(to, c);
    return;
  }
  if (c->measure == MEASURE_BANDWIDTH) {
    fprintf(to,
            "\n%s bandwidth: payload at the receiver, by its clock, from %g ms after its first "
            "message on, for %g s each%s%s\n%10s %8s %14s %10s  %-14s  %s\n",
            bench_op_name(c->op), warmup_ms, duration,
            c->verify ? "; filled with the pattern and verified" : "",
            c->touch && !c->verify ? "; a cache line of each is read" : "", "size", "ring",
            "messages/s", "Gbps", "limited by", "path");
    return;
  }
  fprintf(to,
          "\n%s latency in us, half of a round trip by the client's clock, all after %g ms; %g s "
          "each%s\n%10s %9s %9s %9s %9s %9s %9s %12s  %s\n",
          bench_op_name(c->op), warmup_ms, duration,
          c->verify ? "; filled with the pattern and verified" : "", "size", "min", "p50", "p90",
          "p99", "p99.9", "max", "round trips", "path");
}

/* By what the bytes went: by reference none was moved, and the rate is no bandwidth. */
static void show_way(FILE *to, const struct bench_path *path)
{
  if (path->path[0] == '\0') { /* its end was gone before it told */
    fprintf(to, "  unknown path");
    return;
  }
  fprintf(to, "  %s, %s over %s", path->path, path->via[0] != '\0' ? path->via : "unknown means",
          path->carrier[0] != '\0' ? path->carrier : "an unknown carrier");
}

static void show_notes(FILE *to, const struct bench_row *row)
{
  if (row->stopped)
    fprintf(to, " (cut short)");
  else if (row->taken.ns < row->c.duration_ns / 2)
    fprintf(to, " (only %.*f ms of it were measured)", row->taken.ns < 100000000 ? 2 : 0,
            (double)row->taken.ns / 1e6);
  if (row->c.verify && row->taken.corrupted > 0)
    fprintf(to, " CORRUPTED %" PRIu64, row->taken.corrupted);
  if (row->c.measure == MEASURE_BANDWIDTH && !bench_is_one_sided(row->c.op) &&
      row->sent > row->taken.delivered)
    fprintf(to, " LOSS %.3g%%",
            100.0 * (double)(row->sent - row->taken.delivered) / (double)row->sent);
  fprintf(to, "\n");
}

void bench_show_row(FILE *to, const struct bench_row *row)
{
  char size[SIZE_TEXT_BYTES];

  fprintf(to, "%10s", size_text(row->c.size, size));
  if (row->taken.messages == 0) {
    char first[sizeof row->error];
    snprintf(first, sizeof first, "%s", row->error);
    first[strcspn(first, "\n")] = '\0';
    fprintf(to, " %s\n", first[0] != '\0' ? first : "nothing was measured");
  } else if (row->c.measure == MEASURE_BANDWIDTH) {
    double rate = message_rate(row);
    fprintf(to, " %8u %14.*f %10.3f", row->c.ring, rate < 100 ? 2 : 0, rate,
            statistics_gbps(row->taken.bytes, row->taken.ns));
    fprintf(to, "  %-9s %3.0f%%", pst_stage_name(row->limited_by), 100 * row->share);
    show_way(to, &row->path);
    show_notes(to, row);
  } else {
    double us = 1e3 * parts_of(&row->c);
    fprintf(to, " %9.3f", (double)row->times.least / us);
    for (size_t i = 0; i < PERCENTILES; i++)
      fprintf(to, " %9.3f", (double)histogram_at(&row->times, percentiles[i].share) / us);
    fprintf(to, " %9.3f %12" PRIu64, (double)row->times.most / us, row->times.count);
    show_way(to, &row->path);
    show_notes(to, row);
  }
  fflush(to);
}

void bench_show_shared(FILE *to, uint32_t shared, uint32_t rows, double least)
{
  fprintf(
      to,
      "\nwarning: in %u of %u measurements a thread had less than a core (at the least %.0f%%), "
      "as other programs ran on its CPU: these numbers are too low. Pin both ends (--cpu A,B) or "
      "free cores.\n",
      shared, rows, 100 * least);
}

/* ---- For machines --------------------------------------------------------------- */

static void put_text(struct json_object *object, const char *key, const char *text)
{
  json_object_object_add(object, key,
                         text != NULL && text[0] != '\0' ? json_object_new_string(text) : NULL);
}

static void put_uint(struct json_object *object, const char *key, uint64_t value)
{
  json_object_object_add(object, key, json_object_new_uint64(value));
}

static void put_number(struct json_object *object, const char *key, double value)
{
  char text[32];

  snprintf(text, sizeof text, "%.9g", value);
  json_object_object_add(object, key, json_object_new_double_s(value, text));
}

static void put_bool(struct json_object *object, const char *key, bool value)
{
  json_object_object_add(object, key, json_object_new_boolean(value));
}

static void put_path(struct json_object *object, const struct bench_path *path)
{
  put_text(object, "path", path->path);
  put_text(object, "path_reason", path->reason);
  put_text(object, "via", path->via);
  put_text(object, "carrier", path->carrier);
  put_text(object, "memory_backing", path->backing);
}

struct json_object *bench_setting_json(const struct bench_setting *setting)
{
  const struct bench_plan *plan = setting->plan;
  struct json_object *object = json_object_new_object();
  struct json_object *cpus = json_object_new_array();

  put_text(object, "form", setting->form);
  put_text(object, "transport", plan->side.transport);
  put_text(object, "memory", plan->side.memory);
  put_text(object, "server", setting->server);
  put_text(object, "server_cpu", setting->server_cpu);
  for (int i = 0; i < 2 && plan->cpus[i] >= 0; i++)
    json_object_array_add(cpus, json_object_new_int(plan->cpus[i]));
  json_object_object_add(object, "pinned_cpus", cpus);
  put_number(object, "duration_seconds", (double)plan->duration_ns / 1e9);
  put_number(object, "warmup_seconds", (double)setting->warmup_ns / 1e9);
  return object;
}

static struct json_object *latency_json(const struct histogram *times, double parts)
{
  struct json_object *object = json_object_new_object();

  put_number(object, "min", (double)times->least / parts);
  put_number(object, "mean", times->count > 0 ? times->sum / (double)times->count / parts : 0);
  for (size_t i = 0; i < PERCENTILES; i++)
    put_number(object, percentiles[i].key,
               (double)histogram_at(times, percentiles[i].share) / parts);
  put_number(object, "max", (double)times->most / parts);
  return object;
}

static void put_counts(struct json_object *object, const struct bench_row *row)
{
  if (bench_is_one_sided(row->c.op)) {
    put_uint(object, "transfers_posted", row->sent);
    put_uint(object, "transfers_done", row->done);
    put_uint(object, "transfers_failed", row->failed);
  } else {
    put_uint(object, "messages_sent", row->sent);
    put_uint(object, "messages_delivered", row->taken.delivered);
  }
}

static struct json_object *errors_json(const struct bench_row *row, uint32_t number)
{
  struct json_object *errors = json_object_new_array();
  char where[32];

  snprintf(where, sizeof where, "rows[%u]", number);
  if (row->error[0] != '\0')
    finding_add(errors, row->finding, where, row->error);
  return errors;
}

struct json_object *bench_row_json(const struct bench_row *row, uint32_t number)
{
  const struct measure_taken *taken = &row->taken;
  struct json_object *object = json_object_new_object();
  bool bandwidth = row->c.measure == MEASURE_BANDWIDTH, one_sided = bench_is_one_sided(row->c.op);

  put_text(object, "op", bench_op_name(row->c.op));
  put_text(object, "measure", bench_measure_name(row->c.measure));
  put_uint(object, "size_bytes", row->c.size);
  put_uint(object, one_sided ? "depth" : "ring_slots", row->c.ring);
  if (one_sided)
    put_uint(object, "places", bench_places(&row->c));
  put_bool(object, "ok", row->error[0] == '\0');
  json_object_object_add(object, "errors", errors_json(row, number));
  put_bool(object, "stopped", row->stopped);
  put_number(object, "cpu_share", row->cpu_share);
  put_counts(object, row);
  put_uint(object, "messages_measured", taken->messages);
  put_uint(object, "bytes_measured", taken->bytes);
  put_number(object, "seconds", seconds_of(row));
  if (bandwidth) {
    put_number(object, "messages_per_second", message_rate(row));
    put_number(object, "gbps", statistics_gbps(taken->bytes, taken->ns));
    put_text(object, "limited_by", pst_stage_name(row->limited_by));
    put_number(object, "limited_by_share", row->share);
  } else {
    json_object_object_add(object, one_sided ? "completion_ns" : "half_round_trip_ns",
                           taken->messages > 0 ? latency_json(&row->times, parts_of(&row->c))
                                               : NULL);
  }
  put_bool(object, "touched", taken->touched);
  put_uint(object, "verified", taken->verified);
  put_uint(object, "corrupted", taken->corrupted);
  put_path(object, &row->path);
  if (!bandwidth && !one_sided) {
    struct json_object *back = json_object_new_object();
    put_path(back, &row->back);
    json_object_object_add(object, "back", back);
  }
  return object;
}

/* ---- Between server and client --------------------------------------------------- */

struct json_object *bench_taken_write(const struct measure_taken *taken,
                                      const struct bench_path *path)
{
  struct json_object *object = json_object_new_object();

  if (object == NULL)
    return NULL;
  put_uint(object, "delivered", taken->delivered);
  put_uint(object, "messages", taken->messages);
  put_uint(object, "bytes", taken->bytes);
  put_uint(object, "ns", taken->ns);
  put_uint(object, "verified", taken->verified);
  put_uint(object, "corrupted", taken->corrupted);
  put_bool(object, "touched", taken->touched);
  put_number(object, "cpu_share", taken->cpu_share);
  put_path(object, path);
  return object;
}

static int get_uint(struct json_object *from, const char *key, uint64_t *value)
{
  struct json_object *member = NULL;

  if (!json_object_object_get_ex(from, key, &member) || !json_object_is_type(member, json_type_int))
    return -EPROTO;
  *value = json_object_get_uint64(member);
  return 0;
}

static void get_text(struct json_object *from, const char *key, char *text, size_t size)
{
  struct json_object *member = NULL;

  if (json_object_object_get_ex(from, key, &member) &&
      json_object_is_type(member, json_type_string))
    snprintf(text, size, "%s", json_object_get_string(member));
  for (char *c = text; *c != '\0'; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f)
      *c = '?'; /* it goes to a terminal */
}

int bench_taken_read(struct json_object *from, struct measure_taken *taken, struct bench_path *path)
{
  struct measure_taken in = {0};
  struct json_object *touched = NULL, *cpu_share = NULL;

  if (get_uint(from, "delivered", &in.delivered) < 0 ||
      get_uint(from, "messages", &in.messages) < 0 || get_uint(from, "bytes", &in.bytes) < 0 ||
      get_uint(from, "ns", &in.ns) < 0 || get_uint(from, "verified", &in.verified) < 0 ||
      get_uint(from, "corrupted", &in.corrupted) < 0)
    return -EPROTO;
  in.touched =
      json_object_object_get_ex(from, "touched", &touched) && json_object_get_boolean(touched);
  in.cpu_share = json_object_object_get_ex(from, "cpu_share", &cpu_share)
                     ? json_object_get_double(cpu_share)
                     : -1;
  get_text(from, "path", path->path, sizeof path->path);
  get_text(from, "path_reason", path->reason, sizeof path->reason);
  get_text(from, "via", path->via, sizeof path->via);
  get_text(from, "carrier", path->carrier, sizeof path->carrier);
  get_text(from, "memory_backing", path->backing, sizeof path->backing);
  *taken = in;
  return 0;
}
