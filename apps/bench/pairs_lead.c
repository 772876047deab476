/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 of `bench --all-pairs`: waits for all ranks, says in each round which two measure,
 * collects and shows what they measured. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "atomic_file.h"
#include "clock.h"
#include "json_put.h"
#include "log.h"
#include "pairs.h"
#include "result.h"
#include "result_file.h"
#include "signals.h"
#include "util/printable.h"

#define ANSWER_NS (10 * NS_PER_S) /* for what a rank only has to send */
#define SLACK_NS (120 * NS_PER_S) /* of a pair, beside what is measured: opening and failing */
#define LOOK_NS (50 * NS_PER_MS)
#define MISSING_SHOWN 16

static void bench_pairs_note(struct pairs *pairs, const struct pst_error *error)
{
  app_finding_add_error(app_result_errors(pairs->result), error, pairs->arguments);
  pairs->status = app_finding_worse(pairs->status,
                                    error->exit_status != 0 ? error->exit_status : PST_EXIT_FAILED);
}

static uint64_t bench_pairs_measure_ns(const struct pairs *pairs, uint64_t cases)
{
  return cases * (pairs->plan->duration_ns + bench_plan_warmup(pairs->plan)) + SLACK_NS;
}

/* ---- Until all are there ------------------------------------------------------------- */

static void bench_pairs_copy_plain(char *to, size_t size, const char *from)
{
  snprintf(to, size, "%.*s", (int)size - 1, from);
  pst_make_printable(to, strlen(to), '?');
}

static bool bench_pairs_has_ends(struct json_object *hello)
{
  struct json_object *ends = NULL;

  return json_object_object_get_ex(hello, "ends", &ends) && bench_endpoints_are(ends);
}

/* The exit status of a rank's trouble: never 0, which would be success. */
static int bench_pairs_trouble_status(struct json_object *hello)
{
  const uint64_t status = bench_link_number(hello, "trouble_status");

  return status >= PST_EXIT_FAILED && status <= PST_EXIT_EXPECT ? (int)status : PST_EXIT_FAILED;
}

/* NULL: the rank may take part. */
static const char *bench_pairs_why_not(struct pairs *pairs, struct json_object *hello,
                                       struct pst_error *error)
{
  const uint64_t rank = bench_link_number(hello, "rank");
  char text[512];

  if (bench_link_number(hello, "penstock_pairs") != PAIRS_VERSION)
    return "it is not a rank of penstock bench --all-pairs of this version";
  if (strcmp(bench_link_text(hello, "token"), pairs->token) != 0)
    return "it belongs to another job";
  bench_pairs_copy_plain(text, sizeof(text), bench_link_text(hello, "trouble"));
  if (rank == 0 || rank >= pairs->exchange.ranks ||
      bench_link_number(hello, "ranks") != pairs->exchange.ranks || pairs->ranks[rank].ends)
    app_log_fail(
        error, PST_EXIT_USAGE, -EEXIST,
        "bench: --all-pairs: a process says that it is rank %" PRIu64 " of %" PRIu64
        ", but another process is that rank already, or this job has %u ranks; give each process "
        "its own --rank, and all the same --ranks",
        rank, bench_link_number(hello, "ranks"), pairs->exchange.ranks);
  else if (text[0] != '\0')
    app_log_fail(error, bench_pairs_trouble_status(hello), -ENODEV,
                 "bench: rank %" PRIu64 " (%.60s): %s", rank, bench_link_text(hello, "hostname"),
                 text);
  else if (strcmp(bench_link_text(hello, "transport"), pairs->plan->side.transport) != 0)
    app_log_fail(error, PST_EXIT_USAGE, -EXDEV,
                 "bench: rank %" PRIu64 " has --transport %.60s, rank 0 %.60s; give all the same",
                 rank, bench_link_text(hello, "transport"), pairs->plan->side.transport);
  else if (!bench_pairs_has_ends(hello))
    return "it has no endpoints";
  return error->code < 0 ? error->text : NULL;
}

static void bench_pairs_admit(struct pairs *pairs, struct control_link *link,
                              struct json_object *hello, struct pst_error *error)
{
  const char *why = bench_pairs_why_not(pairs, hello, error);
  struct json_object *ends = NULL;

  if (why) {
    if (error->code == 0)
      app_log(PST_LOG_WARN, "bench: %s is refused: %s", link->peer, why);
    bench_link_send(link, bench_link_object("error", json_object_new_string(why)));
    bench_link_close(link);
    return;
  }
  struct pairs_rank *rank = &pairs->ranks[bench_link_number(hello, "rank")];
  json_object_object_get_ex(hello, "ends", &ends);
  rank->ends = json_object_get(ends);
  rank->link = link;
  rank->pid = (int64_t)bench_link_number(hello, "pid");
  bench_pairs_copy_plain(rank->host, sizeof(rank->host), bench_link_text(hello, "hostname"));
}

/* "1, 4 and 6" */
static uint32_t bench_pairs_name_missing(const struct pairs *pairs, char *text, size_t size)
{
  uint32_t missing = 0;
  size_t used = 0;

  for (uint32_t i = 1; i < pairs->exchange.ranks; i++) {
    if (pairs->ranks[i].ends)
      continue;
    if (missing++ < MISSING_SHOWN && used < size)
      used += (size_t)snprintf(text + used, size - used, "%s%u", missing > 1 ? ", " : "", i);
  }
  if (missing > MISSING_SHOWN && used < size)
    snprintf(text + used, size - used, " and others");
  return missing;
}

/* 0, or reported in *error. */
static int bench_pairs_gather(struct pairs *pairs, struct pst_error *error)
{
  char missing[256] = "";
  uint32_t left = 0;

  while (error->code == 0 &&
         (left = bench_pairs_name_missing(pairs, missing, sizeof(missing))) > 0) {
    struct json_object *hello = NULL;
    struct control_link *link = NULL;
    if (app_signals_stop())
      return app_log_fail(error, PST_EXIT_FAILED, -EINTR,
                          "bench: stopped by %s while it waited for rank%s %s", app_signals_name(),
                          left == 1 ? "" : "s", missing);
    if (app_now_ns() >= pairs->until_ns)
      return app_log_fail(error, PST_EXIT_FAILED, -ETIMEDOUT,
                          "bench: rank%s %s of %u %s not come in time; see the output of %s, or "
                          "wait longer with --wait TIME",
                          left == 1 ? "" : "s", missing, pairs->exchange.ranks,
                          left == 1 ? "has" : "have", left == 1 ? "that rank" : "those ranks");
    if (bench_link_take(&pairs->server, LOOK_NS, &link) < 0)
      continue;
    if (bench_link_receive(link, ANSWER_NS, true, &hello) < 0) {
      bench_link_close(link);
      continue;
    }
    bench_pairs_admit(pairs, link, hello, error);
    json_object_put(hello);
  }
  return error->code;
}

static int bench_pairs_publish(struct pairs *pairs, struct pst_error *error)
{
  const char *host = pairs->endpoints[0].host;
  char text[EXCHANGE_TEXT_MAX];

  bench_case_make_token(pairs->token);
  snprintf(text, sizeof(text), "%s:0", host);
  int rc = bench_link_listen_for("bench", text, 0, &pairs->plan->access, pairs->plan->cpus[0],
                                 pairs->exchange.ranks, &pairs->server, error);
  if (rc < 0)
    return rc;
  snprintf(text, sizeof(text), "penstock-all-pairs %d %s %s:%u", PAIRS_VERSION, pairs->token, host,
           pst_node_port(pairs->server.node));
  return bench_exchange_put(&pairs->exchange, text, error);
}

/* Notes the adapter and the GPU of an end: only one pair of a round uses each. */
static int bench_pairs_share(struct pairs *pairs, uint32_t number, struct json_object *end)
{
  const char *host = pairs->ranks[number].host;
  int rc = bench_schedule_share(&pairs->schedule, number, host, bench_link_text(end, "adapter_id"));

  return rc < 0
             ? rc
             : bench_schedule_share(&pairs->schedule, number, host, bench_link_text(end, "gpu_id"));
}

static int bench_pairs_make_schedule(struct pairs *pairs, struct pst_error *error)
{
  int rc = bench_schedule_open(&pairs->schedule, pairs->exchange.ranks);

  pairs->partners = calloc(pairs->exchange.ranks, sizeof(*pairs->partners));
  if (!pairs->partners)
    rc = -ENOMEM;
  for (uint32_t i = 0; i < pairs->exchange.ranks && rc == 0; i++)
    for (size_t j = 0; j < json_object_array_length(pairs->ranks[i].ends) && rc == 0; j++)
      rc = bench_pairs_share(pairs, i, json_object_array_get_idx(pairs->ranks[i].ends, j));
  return rc < 0 ? app_log_fail(error, PST_EXIT_FAILED, rc, "bench: out of memory") : 0;
}

static void bench_pairs_name_end(const struct pairs_rank *rank, struct json_object *said,
                                 struct matrix_end *end)
{
  memcpy(end->host, rank->host, sizeof(end->host));
  bench_pairs_copy_plain(end->address, sizeof(end->address), bench_link_text(said, "address"));
  bench_pairs_copy_plain(end->adapter, sizeof(end->adapter), bench_link_text(said, "adapter"));
  bench_pairs_copy_plain(end->gpu, sizeof(end->gpu), bench_link_text(said, "gpu"));
}

/* Names its ends. */
static int bench_pairs_make_matrix(struct pairs *pairs, struct pst_error *error)
{
  struct matrix *matrix = &pairs->matrix;
  uint64_t all = 0;

  for (uint32_t i = 0; i < pairs->exchange.ranks; i++) {
    pairs->ranks[i].first = (uint32_t)all;
    all += json_object_array_length(pairs->ranks[i].ends);
  }
  if (all > BENCH_RANKS_MAX || bench_matrix_open(matrix, (uint32_t)all) < 0)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM,
                        "bench: the matrix of %" PRIu64 " ends is too large; %u are the most", all,
                        BENCH_RANKS_MAX);
  matrix->c = pairs->c;
  matrix->ranks = pairs->exchange.ranks;
  for (uint32_t i = 0; i < pairs->exchange.ranks; i++) {
    const struct pairs_rank *rank = &pairs->ranks[i];
    const uint32_t count = (uint32_t)json_object_array_length(rank->ends);
    matrix->has_endpoints |= count > 1;
    for (uint32_t j = 0; j < count; j++) {
      struct matrix_end *end = &matrix->ends[rank->first + j];
      *end = (struct matrix_end){.rank = i, .endpoint = j};
      bench_pairs_name_end(rank, json_object_array_get_idx(rank->ends, j), end);
    }
  }
  return 0;
}

/* ---- The rounds --------------------------------------------------------------------- */

/* Gives up a rank that has died, hangs, or says what cannot be. Its partner of the round waits for
 * it no longer. */
static void bench_pairs_lose(struct pairs *pairs, uint32_t number, const char *why)
{
  struct pairs_rank *rank = &pairs->ranks[number];
  struct pst_error error = PST_ERROR_INIT;

  bench_schedule_lose(&pairs->schedule, number);
  app_log_fail(&error, PST_EXIT_FAILED, -ECONNRESET, "bench: rank %u (%s, pid %" PRId64 ") %s",
               number, rank->host, rank->pid, why);
  bench_pairs_note(pairs, &error);
  bench_link_close(rank->link);
  rank->link = NULL;
  struct control_link *partner = pairs->ranks[pairs->partners[number]].link;
  if (partner)
    bench_link_send(partner, bench_link_object("gone", json_object_new_boolean(true)));
}

static const char *bench_pairs_why_lost(int rc)
{
  return rc == -ETIMEDOUT    ? "does not answer any more: it hangs"
         : rc == -ECONNRESET ? "has gone: it was killed, crashed or lost its network"
                             : "breaks the protocol";
}

static struct json_object *bench_pairs_end_json(const struct matrix_end *end)
{
  struct json_object *object = json_object_new_object();

  app_json_put_uint(object, "rank", end->rank);
  app_json_put_uint(object, "endpoint", end->endpoint);
  return object;
}

/* Errors of a row say which pair it is, in words and by the row's number. */
static void bench_pairs_take_errors(struct pairs *pairs, const struct matrix_end *from,
                                    const struct matrix_end *to, struct json_object *row)
{
  struct json_object *errors = NULL;
  char where[32], text[2048];

  json_object_object_get_ex(row, "errors", &errors);
  snprintf(where, sizeof(where), "rows[%zu]",
           pairs->rows ? json_object_array_length(pairs->rows) : 0);
  for (size_t i = 0; i < json_object_array_length(errors); i++) {
    struct json_object *error = json_object_array_get_idx(errors, i);
    bench_pairs_copy_plain(text, sizeof(text), bench_link_text(error, "text"));
    app_json_put_text(error, "where", where);
    app_log(PST_LOG_ERROR, "bench: rank %u to rank %u: %s", from->rank, to->rank, text);
    pairs->status = app_finding_worse(pairs->status, PST_EXIT_FAILED);
  }
  app_result_add_errors(pairs->result, errors);
}

static bool bench_pairs_are_errors(struct json_object *errors)
{
  if (!json_object_is_type(errors, json_type_array))
    return false;
  for (size_t i = 0; i < json_object_array_length(errors); i++)
    if (!json_object_is_type(json_object_array_get_idx(errors, i), json_type_object))
      return false;
  return true;
}

/* Takes a row that a rank has measured as the client of another. False: it is not what a rank
 * sends. */
static bool bench_pairs_take_row(struct pairs *pairs, uint32_t client, uint32_t server,
                                 struct json_object *said)
{
  struct matrix *matrix = &pairs->matrix;
  const struct pairs_rank *near = &pairs->ranks[client], *far = &pairs->ranks[server];
  const uint64_t i = bench_link_number(said, "from"), j = bench_link_number(said, "to");
  struct json_object *row = NULL, *errors = NULL;

  if (i >= json_object_array_length(near->ends) || j >= json_object_array_length(far->ends) ||
      !json_object_object_get_ex(said, "row", &row) ||
      !json_object_object_get_ex(row, "errors", &errors) || !bench_pairs_are_errors(errors))
    return false;
  const uint32_t from = near->first + (uint32_t)i, to = far->first + (uint32_t)j;
  bench_matrix_take(matrix, from, to, row);
  bench_pairs_take_errors(pairs, &matrix->ends[from], &matrix->ends[to], row);
  if (pairs->rows) {
    json_object_object_add(row, "from", bench_pairs_end_json(&matrix->ends[from]));
    json_object_object_add(row, "to", bench_pairs_end_json(&matrix->ends[to]));
    json_object_array_add(pairs->rows, json_object_get(row));
  }
  return true;
}

/* Gives up the ranks whose connection has ended. */
static void bench_pairs_bury(struct pairs *pairs)
{
  for (uint32_t i = 1; i < pairs->exchange.ranks; i++) {
    struct control_link *link = pairs->ranks[i].link;
    if (link && bench_link_look(link) == -ECONNRESET)
      bench_pairs_lose(pairs, i, bench_pairs_why_lost(-ECONNRESET));
  }
}

/* Until the rank says how many rows it has. */
static int bench_pairs_await(struct pairs *pairs, uint32_t number, uint64_t until_ns,
                             uint64_t *rows)
{
  struct json_object *said = NULL;
  int rc = -ETIMEDOUT;

  while (rc == -ETIMEDOUT && app_now_ns() < until_ns) {
    bench_pairs_bury(pairs);
    if (!pairs->ranks[number].link)
      return -EINTR; /* has been said */
    rc = bench_link_receive(pairs->ranks[number].link, LOOK_NS, true, &said);
  }
  if (rc == 0) {
    *rows = bench_link_number(said, "rows");
    json_object_put(said);
  }
  return rc;
}

static uint64_t bench_pairs_ends_of(const struct pairs *pairs, uint32_t number)
{
  return json_object_array_length(pairs->ranks[number].ends);
}

static void bench_pairs_collect(struct pairs *pairs, uint32_t number, uint64_t until_ns)
{
  const uint32_t partner = pairs->partners[number];
  const uint64_t most = bench_pairs_ends_of(pairs, number) * bench_pairs_ends_of(pairs, partner);
  struct json_object *said = NULL;
  uint64_t count = 0;

  int rc = bench_pairs_await(pairs, number, until_ns, &count);
  if (rc == 0 && count > most)
    rc = -EPROTO;
  for (uint64_t i = 0; i < count && rc == 0; i++) {
    struct control_link *link = pairs->ranks[number].link;
    struct json_object *row = NULL;
    rc = bench_link_send(link, bench_link_object("row", json_object_new_uint64(i)));
    if (rc == 0)
      rc = bench_link_receive(link, ANSWER_NS, true, &said);
    if (rc < 0)
      break;
    if (!json_object_object_get_ex(said, "row", &row) ||
        !bench_pairs_take_row(pairs, number, partner, row))
      rc = -EPROTO;
    json_object_put(said);
  }
  if (rc < 0 && rc != -EINTR)
    bench_pairs_lose(pairs, number, bench_pairs_why_lost(rc));
}

static void bench_pairs_order(struct pairs *pairs, uint32_t number, uint32_t partner)
{
  struct pairs_rank *rank = &pairs->ranks[number];
  struct json_object *order =
      bench_link_object("meet", json_object_get(pairs->ranks[partner].ends));

  json_object_object_add(order, "goes_first", json_object_new_int(number < partner));
  json_object_object_add(order, "case", bench_case_write(&pairs->c));
  int rc = bench_link_send(rank->link, order);
  if (rc < 0)
    bench_pairs_lose(pairs, number, bench_pairs_why_lost(rc));
}

/* Rank 0's own. */
static void bench_pairs_meet(struct pairs *pairs, uint32_t partner)
{
  struct json_object *rows = json_object_new_array();
  struct bench_pair pair = {.endpoints = pairs->endpoints,
                            .count = pairs->endpoint_count,
                            .far = pairs->ranks[partner].ends,
                            .c = pairs->c,
                            .token = pairs->token,
                            .goes_first = true,
                            .watch = pairs->ranks[partner].link,
                            .rows = rows};

  bench_pair_run(&pair);
  for (size_t i = 0; i < json_object_array_length(rows); i++)
    bench_pairs_take_row(pairs, 0, partner, json_object_array_get_idx(rows, i));
  json_object_put(rows);
}

/* The longest that two ranks may take to measure each other, both ways. */
static uint64_t bench_pairs_round_ns(const struct pairs *pairs)
{
  uint64_t most = 0;

  for (uint32_t i = 0; i < pairs->exchange.ranks; i++)
    if (bench_pairs_ends_of(pairs, i) > most)
      most = bench_pairs_ends_of(pairs, i);
  return bench_pairs_measure_ns(pairs, 2 * most * most);
}

static void bench_pairs_run_round(struct pairs *pairs)
{
  const uint64_t until_ns = app_now_ns() + bench_pairs_round_ns(pairs);
  uint32_t *partners = pairs->partners;

  for (uint32_t i = 1; i < pairs->exchange.ranks; i++) {
    if (partners[i] != 0 && !pairs->ranks[partners[i]].link)
      partners[i] = i; /* its partner was lost a moment ago: it rests */
    if (partners[i] != i)
      bench_pairs_order(pairs, i, partners[i]);
  }
  if (partners[0] != 0 && pairs->ranks[partners[0]].link)
    bench_pairs_meet(pairs, partners[0]);
  for (uint32_t i = 1; i < pairs->exchange.ranks; i++)
    if (partners[i] != i && pairs->ranks[i].link)
      bench_pairs_collect(pairs, i, until_ns);
}

static void bench_pairs_run_rounds(struct pairs *pairs)
{
  const struct schedule *schedule = &pairs->schedule;
  struct pst_error error = PST_ERROR_INIT;

  app_log(PST_LOG_INFO, "bench: all %u ranks are here; %zu pairs to measure", pairs->exchange.ranks,
          schedule->left_count);
  while (!app_signals_stop() && bench_schedule_next(&pairs->schedule, pairs->partners))
    bench_pairs_run_round(pairs);
  if (!app_signals_stop())
    return;
  app_log_fail(&error, PST_EXIT_FAILED, -EINTR,
               "bench: stopped by %s in round %u, before %zu pairs had met", app_signals_name(),
               schedule->round, schedule->left_count);
  bench_pairs_note(pairs, &error);
}

/* ---- The end --------------------------------------------------------------------------
 */

static void bench_pairs_dismiss(struct pairs *pairs, const struct pst_error *why)
{
  for (uint32_t i = 1; pairs->ranks && i < pairs->exchange.ranks; i++) {
    struct pairs_rank *rank = &pairs->ranks[i];
    if (rank->link)
      bench_link_send(rank->link,
                      why->code < 0 ? bench_link_object("error", json_object_new_string(why->text))
                                    : bench_link_object("goodbye", json_object_new_boolean(true)));
    bench_link_close(rank->link);
    rank->link = NULL;
  }
}

static int bench_pairs_write_picture(const struct matrix *matrix, const char *path,
                                     struct pst_error *error)
{
  struct atomic_file output = ATOMIC_FILE_INIT;
  int rc = app_atomic_file_open(&output, "--heat-map", path, ATOMIC_FILE_OVERWRITE, error);

  if (rc < 0)
    return rc;
  FILE *file = fdopen(dup(output.fd), "w");
  if (file) {
    bench_matrix_draw(file, matrix);
    rc = fclose(file) != 0 ? -errno : 0;
  }
  if (!file || rc < 0)
    rc = app_log_fail(error, PST_EXIT_FAILED, -EIO, "bench: --heat-map %s: %s", path,
                      strerror(errno));
  if (rc == 0)
    rc = app_atomic_file_commit(&output, "--heat-map", error);
  app_atomic_file_discard(&output);
  return rc;
}

static void bench_pairs_show(struct pairs *pairs)
{
  const char *picture = pairs->arguments->bench[BENCH_HEAT_MAP];
  struct pst_error error = PST_ERROR_INIT;

  if (bench_matrix_judge(&pairs->matrix) < 0)
    app_log_fail(&error, PST_EXIT_FAILED, -ENOMEM, "bench: out of memory");
  else
    bench_matrix_show(pairs->table, &pairs->matrix);
  if (picture && error.code == 0)
    bench_pairs_write_picture(&pairs->matrix, picture, &error);
  if (error.code < 0)
    bench_pairs_note(pairs, &error);
}

static void bench_pairs_end_result(struct pairs *pairs)
{
  if (!pairs->arguments->json)
    return;
  if (pairs->result) {
    const char *stopped = app_signals_stop()   ? "signal"
                          : pairs->status == 0 ? "source_end"
                                               : "failure";
    struct json_object *setting = bench_setting_json(&pairs->setting, stopped);
    if (pairs->matrix.count > 0)
      json_object_object_add(setting, "all_pairs", bench_matrix_json(&pairs->matrix));
    json_object_object_add(pairs->result, "bench", setting);
  }
  pairs->status = app_result_conclude(pairs->result, pairs->arguments->json, pairs->status);
}

static int bench_pairs_begin_first(struct pairs *pairs, struct pst_error *error)
{
  pairs->ranks = calloc(pairs->exchange.ranks, sizeof(*pairs->ranks));
  if (!pairs->ranks)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "bench: out of memory");
  pairs->ranks[0].ends = bench_endpoints_json(pairs->endpoints, pairs->endpoint_count);
  pairs->ranks[0].pid = getpid();
  bench_pairs_copy_plain(pairs->ranks[0].host, sizeof(pairs->ranks[0].host),
                         pairs->environment.hostname);
  enum bench_op op = BENCH_SEND;
  while ((pairs->plan->ops & 1u << op) == 0)
    op = (enum bench_op)(op + 1);
  bench_case_make(pairs->plan, &pairs->look, op, (enum bench_measure)pairs->plan->measures,
                  pairs->plan->sizes[0], &pairs->c);
  pairs->c.back_port = 1; /* each client has one of its own */
  return bench_pairs_publish(pairs, error);
}

/* Refuses each other rank, with the reason, so that none waits for rank 0. */
static void bench_pairs_turn_away(struct pairs *pairs, const char *why)
{
  struct pst_error error = PST_ERROR_INIT;
  uint32_t left = pairs->exchange.ranks - 1;

  if (pairs->endpoint_count == 0 || pairs->endpoints[0].host[0] == '\0' ||
      bench_pairs_publish(pairs, &error) < 0)
    return;
  while (left > 0 && !app_signals_stop() && app_now_ns() < pairs->until_ns) {
    struct control_link *link = NULL;
    if (bench_link_take(&pairs->server, LOOK_NS, &link) < 0)
      continue;
    left--;
    bench_link_send(link, bench_link_object("error", json_object_new_string(why)));
    bench_link_close(link);
  }
}

void bench_pairs_lead(struct pairs *pairs, struct pst_error *error)
{
  if (error->code == 0)
    bench_pairs_begin_first(pairs, error);
  else
    bench_pairs_turn_away(pairs, error->text);
  if (error->code == 0)
    bench_pairs_gather(pairs, error);
  if (error->code == 0)
    bench_pairs_make_matrix(pairs, error);
  if (error->code == 0)
    bench_pairs_make_schedule(pairs, error);
  if (error->code == 0)
    bench_pairs_run_rounds(pairs);
  else
    bench_pairs_note(pairs, error);
  bench_pairs_dismiss(pairs, error);
  bench_link_unlisten(&pairs->server);
  if (pairs->matrix.count > 0)
    bench_pairs_show(pairs);
  bench_pairs_end_result(pairs);
  for (uint32_t i = 0; pairs->ranks && i < pairs->exchange.ranks; i++)
    json_object_put(pairs->ranks[i].ends);
  free(pairs->ranks);
  free(pairs->partners);
  bench_schedule_close(&pairs->schedule);
  bench_matrix_close(&pairs->matrix);
}
