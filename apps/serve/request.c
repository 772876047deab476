/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock request`: a region of ours, which the server writes or reads, again and again. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/histogram.h"
#include "cli.h"
#include "clock.h"
#include "commands.h"
#include "devices.h"
#include "json_put.h"
#include "log.h"
#include "result_file.h"
#include "segments.h"
#include "signals.h"
#include "size.h"
#include "statistics.h"

struct request;

/* A place in the region, and the iteration that uses it. */
struct place {
  struct serve_pending pending;
  struct pattern_work pattern;
  struct request *request;
  uint64_t offset, iteration, asked_ns;
};

struct request {
  struct remote_params params;
  struct connection remote;
  struct pst_area *area;
  struct patterns patterns;
  uint32_t region, op;
  uint64_t pieces, depth, size, offset, count, duration_ns;
  bool verify;
  struct move_plan plan;
  struct place *places;
  uint64_t asked, done, verified, began_ns, ended_ns;
  uint32_t under_way;
  struct histogram moves, rounds; /* by the server's clock; round trips by ours */
  struct pst_error error;
};

/* ---- One iteration ------------------------------------------------------------------- */

/* The segments of this iteration. */
static uint32_t serve_request_next_parts(const struct pattern_work *work, uint64_t *next,
                                         struct pst_area_pattern *parts, uint32_t n)
{
  const struct place *place = FROM(const struct place, pattern, work);
  const struct move_plan *plan = &place->request->plan;
  uint64_t offset, length;
  uint32_t made = 0;

  for (; made < n && *next < plan->candidates; ++*next)
    if (serve_move_segment(plan, *next, &offset, &length))
      parts[made++] =
          (struct pst_area_pattern){.offset = place->offset + offset,
                                    .length = length,
                                    .pattern = serve_move_pattern(plan, place->iteration, *next)};
  return made;
}

/* Begins to fill or verify the segments of a place, beside other iterations' segments. */
static void serve_request_begin_pattern(struct place *place, bool verifies,
                                        void (*ended)(struct pattern_work *work, int status))
{
  place->pattern = (struct pattern_work){
      .parts = serve_request_next_parts, .verifies = verifies, .ended = ended};
  serve_patterns_begin(&place->request->patterns, &place->pattern);
}

static void serve_request_fail(struct request *r, int rc, const char *format, ...) PST_PRINTF(3, 4);

static void serve_request_fail(struct request *r, int rc, const char *format, ...)
{
  char what[SERVE_TEXT_MAX + 128];
  va_list args;

  if (r->error.code != 0)
    return;
  va_start(args, format);
  vsnprintf(what, sizeof(what), format, args);
  va_end(args);
  /* An error whose text begins with an option has its place already. */
  app_log_fail(&r->error, PST_EXIT_FAILED, rc, "%s%s",
               strncmp(what, "--", 2) == 0 ? "" : "request: ", what);
}

static bool serve_request_goes_on(const struct request *r, uint64_t now)
{
  if (r->error.code != 0 || app_signals_stop())
    return false;
  return r->duration_ns > 0 ? now - r->began_ns < r->duration_ns : r->asked < r->count;
}

static serve_pending_answered serve_request_moved;

static void serve_request_ask_move(struct place *place)
{
  struct request *r = place->request;
  const struct serve_message message = {.type = SERVE_MOVE,
                                        .region = r->region,
                                        .place = place->offset,
                                        .op = r->op,
                                        .length = r->size,
                                        .pieces = (uint32_t)r->pieces,
                                        .iteration = place->iteration,
                                        .flags = r->verify ? SERVE_FLAG_VERIFY : 0};

  place->asked_ns = app_now_ns();
  serve_connection_ask(&r->remote, &place->pending, SERVE_MOVED, &message, serve_request_moved);
}

static void serve_request_filled(struct pattern_work *work, int status)
{
  struct place *place = FROM(struct place, pattern, work);

  if (status < 0) {
    place->request->under_way--;
    serve_request_fail(place->request, status, "the memory cannot make the pattern: %s",
                       strerror(-status));
  } else {
    serve_request_ask_move(place);
  }
}

static void serve_request_begin(struct place *place)
{
  struct request *r = place->request;

  place->iteration = r->asked++;
  r->under_way++;
  if (r->verify && r->op == SERVE_OP_READ)
    serve_request_begin_pattern(place, false, serve_request_filled);
  else
    serve_request_ask_move(place);
}

static void serve_request_end(struct place *place)
{
  struct request *r = place->request;

  r->under_way--;
  r->ended_ns = app_now_ns();
  if (serve_request_goes_on(r, r->ended_ns))
    serve_request_begin(place);
}

static void serve_request_verified(struct pattern_work *work, int status)
{
  struct place *place = FROM(struct place, pattern, work);
  struct request *r = place->request;

  if (status < 0)
    serve_request_fail(r, status,
                       "iteration %" PRIu64 ": what the server wrote is not the pattern: %s",
                       place->iteration, strerror(-status));
  else
    r->verified += r->size;
  serve_request_end(place);
}

static void serve_request_moved(struct serve_pending *pending, const struct serve_message *answer)
{
  struct place *place = FROM(struct place, pending, pending);
  struct request *r = place->request;

  if (answer->type == SERVE_REFUSE) {
    r->under_way--;
    serve_request_fail(r, -(int)answer->code, "%s%s",
                       strncmp(answer->text, "--", 2) == 0 ? "" : "refused: ", answer->text);
    return;
  }
  r->done++;
  bench_histogram_add(&r->moves, answer->ns);
  bench_histogram_add(&r->rounds, app_now_ns() - place->asked_ns);
  if (r->verify && r->op == SERVE_OP_WRITE) {
    serve_request_begin_pattern(place, true, serve_request_verified);
    return;
  }
  r->verified += r->verify ? r->size : 0; /* by the server */
  serve_request_end(place);
}

/* ---- All of them --------------------------------------------------------------------- */

static int serve_request_open_places(struct request *r)
{
  uint32_t access = r->op == SERVE_OP_WRITE ? PST_ACCESS_REMOTE_WRITE : PST_ACCESS_REMOTE_READ;
  int rc = serve_connection_offer(&r->remote, &r->params, r->offset + r->size * r->depth, access,
                                  &r->area, &r->region, &r->error);

  if (rc < 0)
    return rc;
  r->patterns.area = r->area;
  r->places = calloc(r->depth, sizeof(*r->places));
  if (!r->places)
    return app_log_fail(&r->error, PST_EXIT_FAILED, -ENOMEM, "request: out of memory");
  for (uint32_t i = 0; i < r->depth; i++) {
    r->places[i].request = r;
    r->places[i].offset = r->offset + i * r->size;
  }
  serve_move_plan(r->size, (uint32_t)r->pieces, &r->plan);
  return 0;
}

/* A signal may have come before all that was asked for was through. */
static void serve_request_check_stopped(struct request *r)
{
  const uint64_t ns = r->ended_ns - r->began_ns;

  if (app_signals_stop() && r->duration_ns > 0 && ns < r->duration_ns)
    serve_request_fail(r, -EINTR,
                       "stopped by %s after %.1f of %.1f seconds; give a shorter --duration",
                       app_signals_name(), (double)ns / 1e9, (double)r->duration_ns / 1e9);
  else if (app_signals_stop() && r->duration_ns == 0 && r->done < r->count)
    serve_request_fail(r, -EINTR,
                       "stopped by %s after %" PRIu64 " of %" PRIu64
                       " iterations; give a smaller --count",
                       app_signals_name(), r->done, r->count);
}

static int serve_request_move_all(struct request *r)
{
  r->began_ns = r->ended_ns = app_now_ns();
  for (uint32_t i = 0; i < r->depth && serve_request_goes_on(r, app_now_ns()); i++)
    serve_request_begin(&r->places[i]);
  while (r->under_way > 0) {
    serve_patterns_poll(&r->patterns);
    r->remote.awake = r->patterns.first != NULL;
    int rc = r->under_way > 0 ? serve_connection_step(&r->remote) : 0;
    if (rc < 0) {
      serve_request_fail(r, rc, "%s", r->remote.text);
      return rc;
    }
  }
  serve_request_check_stopped(r);
  return r->error.code;
}

static double serve_request_seconds_of(const struct request *r)
{
  double seconds = (double)(r->ended_ns - r->began_ns) / 1e9;
  return seconds > 0 ? seconds : 1e-9;
}

static void serve_request_print(const struct request *r, FILE *to)
{
  const struct {
    const char *name;
    const struct histogram *times;
  } all[] = {{r->op == SERVE_OP_WRITE ? "WRITE, at the server" : "READ, at the server", &r->moves},
             {"round trip, at the client", &r->rounds}};
  uint64_t bytes = r->done * r->size, ns = r->ended_ns - r->began_ns;
  double seconds = serve_request_seconds_of(r);
  char rate[STATISTICS_RATE_BYTES];

  fprintf(to, "%" PRIu64 " byte%s in %.3f s = %s\n", bytes, app_plural(bytes), seconds,
          app_statistics_rate(bytes, ns, rate));
  fprintf(to, "%" PRIu64 " iteration%s in %.3f s = %.2f us each\n", r->done, app_plural(r->done),
          seconds, r->done > 0 ? seconds * 1e6 / (double)r->done : 0);
  for (size_t i = 0; i < 2 && r->done > 0; i++) /* of nothing there are no times */
    fprintf(
        to, "%s (us): min %.2f, p50 %.2f, p90 %.2f, p99 %.2f, p99.9 %.2f, max %.2f\n", all[i].name,
        (double)all[i].times->least / 1e3, (double)bench_histogram_at(all[i].times, 0.5) / 1e3,
        (double)bench_histogram_at(all[i].times, 0.9) / 1e3,
        (double)bench_histogram_at(all[i].times, 0.99) / 1e3,
        (double)bench_histogram_at(all[i].times, 0.999) / 1e3, (double)all[i].times->most / 1e3);
  if (r->verify)
    fprintf(to, "%" PRIu64 " byte%s verified\n", r->verified, app_plural(r->verified));
}

static struct json_object *serve_request_json(const struct request *r)
{
  struct json_object *object = json_object_new_object();
  struct json_times moves = bench_histogram_times(&r->moves, 1),
                    rounds = bench_histogram_times(&r->rounds, 1);

  app_json_put_text(object, "op", r->op == SERVE_OP_WRITE ? "write" : "read");
  app_json_put_uint(object, "size_bytes", r->size);
  app_json_put_uint(object, "pieces", r->pieces);
  app_json_put_uint(object, "depth", r->depth);
  app_json_put_text(object, "stopped",
                    serve_cli_stopped_by(&r->error, r->duration_ns > 0 ? "duration" : "count"));
  app_json_put_uint(object, "iterations", r->done);
  app_json_put_uint(object, "bytes_delivered", r->done * r->size);
  app_json_put_uint(object, "bytes_verified", r->verified);
  app_json_put_number(object, "seconds", (double)(r->ended_ns - r->began_ns) / 1e9);
  app_json_put_number(object, "iterations_per_second",
                      (double)r->done / serve_request_seconds_of(r));
  app_json_put_number(object, "gbps",
                      app_statistics_gbps(r->done * r->size, r->ended_ns - r->began_ns));
  app_json_put_times(object, "completion_ns", &moves);
  app_json_put_times(object, "round_trip_ns", &rounds);
  return object;
}

/* Adds the request's parameters, which no thread changes, to the result of an interrupted run. */
static void serve_request_add_interrupted(void *context, struct json_object *result)
{
  const struct request *r = context;
  static struct request asked;

  asked = (struct request){.op = r->op,
                           .size = r->size,
                           .pieces = r->pieces,
                           .depth = r->depth,
                           .error = {.code = -EINTR, .exit_status = PST_EXIT_FAILED}};
  struct json_object *object = serve_request_json(&asked);
  app_json_put_uncounted(object);
  json_object_object_add(result, "request", object);
}

static int serve_request_ask_all(const struct command *command, const struct arguments *arguments,
                                 struct request *r, int event_fd)
{
  bool json_out = arguments->json && strcmp(arguments->json, "-") == 0;

  app_result_interrupted(serve_request_add_interrupted, r);
  int rc = serve_connection_open(&r->params, event_fd, &r->remote, &r->error);
  if (rc == 0)
    rc = serve_request_open_places(r);
  if (rc == 0)
    rc = serve_request_move_all(r);
  struct json_object *result = serve_cli_result(command, arguments, r->remote.node);
  if (rc == 0 || r->done > 0)
    serve_request_print(r, json_out ? stderr : stdout);
  if (result)
    json_object_object_add(result, "request", serve_request_json(r));
  app_devices_report_node(r->remote.node, result);
  serve_connection_close(&r->remote);
  free(r->places);
  int status = rc == 0                     ? PST_EXIT_OK
               : r->error.exit_status != 0 ? r->error.exit_status
                                           : PST_EXIT_FAILED;
  return serve_cli_finish(arguments, result, status, &r->error);
}

/* ---- The command line ---------------------------------------------------------------- */

/* Reads the operands and options of `penstock request`. -EINVAL: reported as wrong usage. */
static int serve_request_read(const struct command *command, const struct arguments *arguments,
                              struct request *r)
{
  const char *const *words = arguments->node;
  const char *op = arguments->operands[0];
  bool write = strcmp(op, "write") == 0;
  const struct cli_value values[] = {
      {"size", words[NODE_SIZE], app_arguments_size, 1, INT64_MAX / COPY_DEPTH_MAX / 2, &r->size},
      {"offset", words[NODE_OFFSET], app_arguments_size, 0, INT64_MAX / 2, &r->offset},
      {"pieces", words[NODE_PIECES], app_arguments_count, 1, MOVE_PIECES_MAX, &r->pieces},
      {"depth", words[NODE_DEPTH], app_arguments_count, 1, COPY_DEPTH_MAX, &r->depth},
  };
  const char *wrong = NULL;

  *r = (struct request){.op = write ? SERVE_OP_WRITE : SERVE_OP_READ,
                        .pieces = 1,
                        .depth = 1,
                        .size = 4096,
                        .count = arguments->count_set ? arguments->count : 1000,
                        .duration_ns = arguments->duration_set ? arguments->duration_ns : 0,
                        .verify = !words[NODE_NO_VERIFY],
                        .error = PST_ERROR_INIT};
  if (serve_cli_side_read(command, arguments, &r->params.node, &r->params.area) < 0)
    return -EINVAL;
  r->params.address = arguments->operands[1];
  r->params.area.lower = "`--size` or `--depth`";
  if (!write && strcmp(op, "read") != 0)
    wrong = "the first argument must be write or read: what the server does";
  else if (arguments->count_set && arguments->duration_set)
    wrong = "--count and --duration exclude each other";
  else if (serve_cli_values(command, values, sizeof(values) / sizeof(values[0])) < 0)
    return -EINVAL;
  else if (r->pieces > r->size)
    wrong = "--pieces is more than the bytes of --size; lower it";
  if (wrong)
    app_arguments_wrong(command, "%s", wrong);
  return wrong ? -EINVAL : 0;
}

static int serve_request_run(const struct command *command, const struct arguments *arguments)
{
  struct request *r = malloc(sizeof(*r));
  int status = PST_EXIT_USAGE;

  if (!r)
    return PST_EXIT_FAILED;
  if (serve_request_read(command, arguments, r) == 0) {
    int event_fd = serve_cli_start(command, arguments);
    status =
        event_fd < 0 ? PST_EXIT_FAILED : serve_request_ask_all(command, arguments, r, event_fd);
  }
  serve_cli_side_free(&r->params.node, &r->params.area);
  free(r);
  return status;
}

const struct command app_command_request = {
    .name = "request",
    .operand = "write|read HOST:PORT",
    .need = OPERAND_REQUIRED,
    .operands_least = 2,
    .operands_most = 2,
    .options = OPTION_NODE | OPTION_TLS | OPTION_REQUEST | OPTION_JSON | OPTION_PLUGIN_PATH |
               OPTION_QUIET | OPTION_VERBOSE,
    .summary = "measure a `penstock serve` that writes or reads a region",
    .help = "Offers a region of host or GPU memory to a `penstock serve`, which writes into the "
            "region\n"
            "(`write`) or reads from it (`read`) by RDMA. Each iteration's bytes are checked where "
            "they\n"
            "arrived. The result goes to standard output. ^C before the end gives status 1.\n"
            "\n"
            "Examples:\n"
            "  penstock request write 127.0.0.1:18530 --size 1MiB --count 1000 --depth 4\n"
            "  penstock request read 127.0.0.1:18530 --size 64KiB --pieces 10 --duration 10",
    .run = serve_request_run,
};
