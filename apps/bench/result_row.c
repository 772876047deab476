/* SPDX-License-Identifier: Apache-2.0 */
/* A row of a benchmark's result, for people and as JSON. */
#include "result_row.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <string.h>

#include "json_put.h"
#include "result.h"
#include "size.h"
#include "statistics.h"

static const double percentiles[] = {0.5, 0.9, 0.99, 0.999};
#define PERCENTILES (sizeof(percentiles) / sizeof(percentiles[0]))

void bench_path_make(const struct pst_path_info *info, const char *via, const char *backing,
                     struct bench_path *path)
{
  snprintf(path->path, sizeof(path->path), "%s",
           info->path != PST_PATH_NONE ? app_statistics_path(info->path) : "");
  snprintf(path->reason, sizeof(path->reason), "%s", info->reason);
  snprintf(path->via, sizeof(path->via), "%s", via);
  snprintf(path->carrier, sizeof(path->carrier), "%s", info->carrier);
  snprintf(path->backing, sizeof(path->backing), "%s", backing);
}

void bench_path_of(const struct pst_stats *stats, struct bench_path *path)
{
  bench_path_make(&stats->path, stats->path.via, stats->memory_backing, path);
}

static double bench_row_seconds_of(const struct bench_row *row)
{
  return (double)row->taken.ns / 1e9;
}

static double bench_row_message_rate(const struct bench_row *row)
{
  return row->taken.ns > 0 ? (double)row->taken.messages / bench_row_seconds_of(row) : 0;
}

/* Returns the number by which a time in the histogram is divided. */
static double bench_row_parts_of(const struct bench_case *c)
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

void bench_show_title(FILE *to, const struct bench_case *c)
{
  static const struct {
    const char *title, *column, *verified, *touched;
  } kinds[BENCH_OPS][2] = {
      [BENCH_SEND] = {{"SEND bandwidth (payload, receiver's clock", "ring",
                       ", data filled and verified", ", data touched"},
                      {"SEND latency in us (half a round trip, client's clock", "round trips",
                       ", data filled and verified", ""}},
      [BENCH_WRITE] =
          {{"WRITE bandwidth (initiator's clock, until the last is placed (FLUSH)", "depth",
            ", data verified between rounds", ""},
           {"WRITE latency in us (initiator's clock, from the post until a FLUSH behind "
            "it",
            "writes", ", data verified between rounds", ""}},
      [BENCH_READ] = {{"READ bandwidth (initiator's clock, until the last is here", "depth",
                       ", data verified between rounds", ", data touched"},
                      {"READ latency in us (initiator's clock, from the post until the data",
                       "reads", ", data verified between rounds", ", data touched"}},
  };
  bool is_latency = c->measure == MEASURE_LATENCY;
  char hold[48] = "";
  const char *column = kinds[c->op][is_latency].column;

  if (c->hold_ns > 0)
    snprintf(hold, sizeof(hold), ", each kept for %g us", (double)c->hold_ns / 1e3);
  fprintf(to, "\n%s, %g s per size after %g ms warm-up%s%s)\n", kinds[c->op][is_latency].title,
          (double)c->duration_ns / 1e9, (double)c->warmup_ns / 1e6,
          c->verify  ? kinds[c->op][is_latency].verified
          : c->touch ? kinds[c->op][is_latency].touched
                     : "",
          hold);
  if (is_latency)
    fprintf(to, "%10s %9s %9s %9s %9s %9s %9s %12s  %s\n", "size", "min", "p50", "p90", "p99",
            "p99.9", "max", column, "path");
  else
    fprintf(to, "%10s %8s %14s %10s  %-14s  %s\n", "size", column, "messages/s", "Gbps",
            "limited by", "path");
  fflush(to); /* a pipe's reader knows what is measured before the first row */
}

/* By what the bytes went: by reference none was moved, and the rate is no bandwidth. */
static void bench_row_show_way(FILE *to, const struct bench_path *path)
{
  if (path->path[0] == '\0') { /* its end was gone before it told */
    fprintf(to, "  unknown path");
    return;
  }
  fprintf(to, "  %s, %s over %s", path->path, path->via[0] != '\0' ? path->via : "unknown means",
          path->carrier[0] != '\0' ? path->carrier : "an unknown carrier");
}

static void bench_row_show_verdict(FILE *to, const struct bench_row *row)
{
  if (row->limited_by == PST_LIMIT_CPU) /* never blocked: there is no share */
    fprintf(to, "  %-14s", "CPU");
  else
    fprintf(to, "  %-9s %3.0f%%", pst_stage_name(row->limited_by), 100 * row->share);
}

static void bench_row_show_notes(FILE *to, const struct bench_row *row)
{
  char percent[STATISTICS_PERCENT_BYTES];

  if (row->stopped)
    fprintf(to, " (cut short)");
  else if (row->taken.ns < row->c.duration_ns / 2)
    fprintf(to, " (only %.*f ms of it were measured)", row->taken.ns < 100000000 ? 2 : 0,
            (double)row->taken.ns / 1e6);
  if (row->c.verify && row->taken.corrupted > 0)
    fprintf(to, " CORRUPTED %" PRIu64, row->taken.corrupted);
  if (row->c.measure == MEASURE_BANDWIDTH && !bench_is_one_sided(row->c.op) &&
      row->sent > row->taken.delivered)
    fprintf(to, " | LOSS %s",
            app_statistics_percent((double)(row->sent - row->taken.delivered) / (double)row->sent,
                                   percent));
  fprintf(to, "\n");
}

void bench_show_row(FILE *to, const struct bench_row *row)
{
  char size[SIZE_TEXT_BYTES];

  fprintf(to, "%10s", app_size_text(row->c.size, size));
  if (row->taken.messages == 0) {
    char first[sizeof(row->error)];
    snprintf(first, sizeof(first), "%s", row->error);
    first[strcspn(first, "\n")] = '\0';
    fprintf(to, " %s\n", first[0] != '\0' ? first : "nothing was measured");
  } else if (row->c.measure == MEASURE_BANDWIDTH) {
    double rate = bench_row_message_rate(row);
    fprintf(to, " %8u %14.*f %10.3f", row->c.ring, rate < 100 ? 2 : 0, rate,
            app_statistics_gbps(row->taken.bytes, row->taken.ns));
    bench_row_show_verdict(to, row);
    bench_row_show_way(to, &row->path);
    bench_row_show_notes(to, row);
  } else {
    double us = 1e3 * bench_row_parts_of(&row->c);
    fprintf(to, " %9.3f", (double)row->times.least / us);
    for (size_t i = 0; i < PERCENTILES; i++)
      fprintf(to, " %9.3f", (double)bench_histogram_at(&row->times, percentiles[i]) / us);
    fprintf(to, " %9.3f %12" PRIu64, (double)row->times.most / us, row->times.count);
    bench_row_show_way(to, &row->path);
    bench_row_show_notes(to, row);
  }
  fflush(to);
}

void bench_show_shared(FILE *to, uint32_t shared, uint32_t rows, double least)
{
  char text[256];

  snprintf(text, sizeof(text),
           "in %u of %u measurements a thread had less than a core (at the least %.0f%%), as other "
           "programs ran on its CPU: these numbers are too low. Pin both ends (--cpu A,B) or free "
           "cores.",
           shared, rows, 100 * least);
  fprintf(to, "\nwarning: %s\n", text);
  app_finding_warn(FINDING_SHARED_CPU, NULL, text);
}

/* ---- For machines --------------------------------------------------------------- */

static void bench_row_put_path(struct json_object *object, const struct bench_path *path)
{
  app_json_put_text(object, "path", path->path);
  app_json_put_text(object, "path_reason", path->reason);
  app_json_put_text(object, "via", path->via);
  app_json_put_text(object, "carrier", path->carrier);
  app_json_put_text(object, "memory_backing", path->backing);
}

struct json_object *bench_setting_json(const struct bench_setting *setting, const char *stopped)
{
  const struct bench_plan *plan = setting->plan;
  struct json_object *object = json_object_new_object();
  struct json_object *cpus = json_object_new_array();

  app_json_put_text(object, "stopped", stopped);
  app_json_put_text(object, "form", setting->form);
  app_json_put_text(object, "transport", plan->side.transport);
  app_json_put_text(object, "memory", plan->side.memory);
  app_json_put_text(object, "server", setting->server);
  app_json_put_text(object, "server_cpu", setting->server_cpu);
  for (int i = 0; i < 2 && plan->cpus[i] >= 0; i++)
    json_object_array_add(cpus, json_object_new_int(plan->cpus[i]));
  json_object_object_add(object, "pinned_cpus", cpus);
  app_json_put_number(object, "duration_seconds", (double)plan->duration_ns / 1e9);
  app_json_put_number(object, "warmup_seconds", (double)setting->warmup_ns / 1e9);
  app_json_put_null(object, "all_pairs");
  return object;
}

static void bench_row_put_counts(struct json_object *object, const struct bench_row *row)
{
  bool one_sided = bench_is_one_sided(row->c.op);

  app_json_put_known(object, "messages_sent", !one_sided, row->sent);
  app_json_put_known(object, "messages_delivered", !one_sided, row->taken.delivered);
  app_json_put_known(object, "transfers_posted", one_sided, row->sent);
  app_json_put_known(object, "transfers_done", one_sided, row->done);
  app_json_put_known(object, "transfers_failed", one_sided, row->failed);
}

static void bench_row_put_rate(struct json_object *object, const struct bench_row *row)
{
  bool bandwidth = row->c.measure == MEASURE_BANDWIDTH;

  app_json_put_share(object, "messages_per_second", bandwidth ? bench_row_message_rate(row) : -1);
  app_json_put_share(object, "gbps",
                     bandwidth ? app_statistics_gbps(row->taken.bytes, row->taken.ns) : -1);
  app_result_put_verdict(
      object, bandwidth && row->taken.messages > 0 ? pst_stage_name(row->limited_by) : NULL, NULL,
      row->limited_by != PST_LIMIT_CPU ? row->share : -1);
}

static void bench_row_put_latency(struct json_object *object, const struct bench_row *row)
{
  bool one_sided = bench_is_one_sided(row->c.op);
  struct json_times none = {0}, times = {0};

  if (row->c.measure == MEASURE_LATENCY && row->taken.messages > 0)
    times = bench_histogram_times(&row->times, bench_row_parts_of(&row->c));
  app_json_put_times(object, "half_round_trip_ns", one_sided ? &none : &times);
  app_json_put_times(object, "completion_ns", one_sided ? &times : &none);
}

/* As a stream's. */
static const char *bench_row_stopped_by(const struct bench_row *row)
{
  if (row->stopped)
    return "signal";
  if (row->error[0] == '\0' || row->taken.messages > 0)
    return row->finding == FINDING_PEER ? "peer" : "duration";
  return row->finding == FINDING_PEER ? "peer" : "failure";
}

static struct json_object *bench_row_errors_json(const struct bench_row *row, uint32_t number)
{
  struct json_object *errors = json_object_new_array();
  char where[32];

  snprintf(where, sizeof(where), "rows[%u]", number);
  if (row->error[0] != '\0')
    app_finding_add(errors, row->finding, where, row->error);
  return errors;
}

struct json_object *bench_row_json(const struct bench_row *row, uint32_t number)
{
  const struct measure_taken *taken = &row->taken;
  struct json_object *object = json_object_new_object();
  bool one_sided = bench_is_one_sided(row->c.op);

  app_json_put_text(object, "op", bench_op_name(row->c.op));
  app_json_put_null(object, "from");
  app_json_put_null(object, "to");
  app_json_put_text(object, "measure", bench_measure_name(row->c.measure));
  app_json_put_uint(object, "size_bytes", row->c.size);
  app_json_put_known(object, "ring_slots", !one_sided, row->c.ring);
  app_json_put_known(object, "hold_ns", !one_sided, row->c.hold_ns);
  app_json_put_known(object, "depth", one_sided, row->c.ring);
  app_json_put_known(object, "places", one_sided, one_sided ? bench_places(&row->c) : 0);
  app_json_put_bool(object, "ok", row->error[0] == '\0');
  json_object_object_add(object, "errors", bench_row_errors_json(row, number));
  app_json_put_text(object, "stopped", bench_row_stopped_by(row));
  app_json_put_share(object, "cpu_share", row->cpu_share);
  bench_row_put_counts(object, row);
  app_json_put_uint(object, "messages_measured", taken->messages);
  app_json_put_uint(object, "bytes_measured", taken->bytes);
  app_json_put_number(object, "seconds", bench_row_seconds_of(row));
  bench_row_put_rate(object, row);
  bench_row_put_latency(object, row);
  app_json_put_bool(object, "touched", taken->touched);
  app_json_put_uint(object, "verified", taken->verified);
  app_json_put_uint(object, "corrupted", taken->corrupted);
  bench_row_put_path(object, &row->path);
  app_json_put_null(object, "back");
  if (row->c.measure == MEASURE_LATENCY && !one_sided) {
    struct json_object *back = json_object_new_object();
    bench_row_put_path(back, &row->back);
    json_object_object_add(object, "back", back);
  }
  return object;
}

/* ---- Between server and client --------------------------------------------------- */

struct json_object *bench_taken_write(const struct measure_taken *taken,
                                      const struct bench_path *path)
{
  struct json_object *object = json_object_new_object();

  if (!object)
    return NULL;
  app_json_put_uint(object, "delivered", taken->delivered);
  app_json_put_uint(object, "messages", taken->messages);
  app_json_put_uint(object, "bytes", taken->bytes);
  app_json_put_uint(object, "ns", taken->ns);
  app_json_put_uint(object, "verified", taken->verified);
  app_json_put_uint(object, "corrupted", taken->corrupted);
  app_json_put_bool(object, "touched", taken->touched);
  app_json_put_number(object, "cpu_share", taken->cpu_share);
  bench_row_put_path(object, path);
  return object;
}

static int bench_row_get_uint(struct json_object *from, const char *key, uint64_t *value)
{
  struct json_object *member = NULL;

  if (!json_object_object_get_ex(from, key, &member) || !json_object_is_type(member, json_type_int))
    return -EPROTO;
  *value = json_object_get_uint64(member);
  return 0;
}

static void bench_row_get_text(struct json_object *from, const char *key, char *text, size_t size)
{
  snprintf(text, size, "%s", bench_link_text(from, key));
  for (char *c = text; *c != '\0'; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f)
      *c = '?'; /* it goes to a terminal */
}

int bench_taken_read(struct json_object *from, struct measure_taken *taken, struct bench_path *path)
{
  struct measure_taken in = {0};
  struct json_object *touched = NULL, *cpu_share = NULL;

  if (bench_row_get_uint(from, "delivered", &in.delivered) < 0 ||
      bench_row_get_uint(from, "messages", &in.messages) < 0 ||
      bench_row_get_uint(from, "bytes", &in.bytes) < 0 ||
      bench_row_get_uint(from, "ns", &in.ns) < 0 ||
      bench_row_get_uint(from, "verified", &in.verified) < 0 ||
      bench_row_get_uint(from, "corrupted", &in.corrupted) < 0)
    return -EPROTO;
  in.touched =
      json_object_object_get_ex(from, "touched", &touched) && json_object_get_boolean(touched);
  in.cpu_share = json_object_object_get_ex(from, "cpu_share", &cpu_share)
                     ? json_object_get_double(cpu_share)
                     : -1;
  bench_row_get_text(from, "path", path->path, sizeof(path->path));
  bench_row_get_text(from, "path_reason", path->reason, sizeof(path->reason));
  bench_row_get_text(from, "via", path->via, sizeof(path->via));
  bench_row_get_text(from, "carrier", path->carrier, sizeof(path->carrier));
  bench_row_get_text(from, "memory_backing", path->backing, sizeof(path->backing));
  *taken = in;
  return 0;
}
