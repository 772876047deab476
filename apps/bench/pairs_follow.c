/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of `bench --all-pairs` other than rank 0: finds rank 0, and measures with whom it says. */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "json_put.h"
#include "log.h"
#include "pairs.h"
#include "result.h"
#include "signals.h"

#define ORDER_NS (3600 * NS_PER_S)
#define AGAIN_S 1 /* between two looks for rank 0 */

/* 0: said hello to the rank 0 that `text` names. */
static int bench_pairs_connect(struct pairs *pairs, const char *text, const char *trouble,
                               struct pst_error *error)
{
  char where[EXCHANGE_TEXT_MAX];

  if (sscanf(text, "penstock-all-pairs 2 %31[0-9a-f] %200s", pairs->token, where) != 2)
    return app_log_fail(error, PST_EXIT_FAILED, -EPROTO,
                        "bench: rank 0 runs another version of penstock, which published: %.80s",
                        text);
  int rc = bench_link_connect("bench", where, 0, &pairs->plan->access, pairs->plan->cpus[0],
                              &pairs->to_first, error);
  if (rc < 0)
    return rc;
  struct json_object *hello =
      bench_link_object("penstock_pairs", json_object_new_int(PAIRS_VERSION));
  app_json_put_text(hello, "token", pairs->token);
  app_json_put_uint(hello, "rank", pairs->exchange.rank);
  app_json_put_uint(hello, "ranks", pairs->exchange.ranks);
  app_json_put_text(hello, "hostname", pairs->environment.hostname);
  app_json_put_uint(hello, "pid", (uint64_t)getpid());
  app_json_put_text(hello, "transport", pairs->plan->side.transport);
  app_json_put_text(hello, "trouble", trouble);
  app_json_put_uint(hello, "trouble_status", (uint64_t)pairs->status);
  json_object_object_add(hello, "ends",
                         bench_endpoints_json(pairs->endpoints, pairs->endpoint_count));
  return bench_link_send(pairs->to_first, hello);
}

/* Returns whether a connection failed as one to a host or port that rank 0 no longer has. */
static bool bench_pairs_is_old_file(int rc)
{
  return rc == -ECONNREFUSED || rc == -ECONNRESET || rc == -EHOSTUNREACH || rc == -ENETUNREACH ||
         rc == -ETIMEDOUT;
}

int bench_pairs_find_first(struct pairs *pairs, const char *trouble)
{
  struct pst_error error = PST_ERROR_INIT;
  const struct timespec pause = {.tv_sec = AGAIN_S};
  char text[EXCHANGE_TEXT_MAX];
  int rc = -EAGAIN;

  while (rc < 0) {
    if (rc != -EAGAIN)
      nanosleep(&pause, NULL);
    bench_link_close(pairs->to_first);
    pairs->to_first = NULL;
    error = (struct pst_error)PST_ERROR_INIT;
    rc = bench_exchange_get(&pairs->exchange, pairs->until_ns, text, &error);
    if (rc == 0)
      rc = bench_pairs_connect(pairs, text, trouble, &error);
    if (rc == -ETIMEDOUT && error.code == 0)
      app_log_fail(&error, PST_EXIT_FAILED, rc,
                   "bench: rank %u: rank 0 did not start in time; --wait TIME waits longer",
                   pairs->exchange.rank);
    if (rc < 0 && (app_signals_stop() || app_now_ns() >= pairs->until_ns || pairs->exchange.pmix ||
                   !bench_pairs_is_old_file(rc)))
      break;
  }
  if (rc < 0)
    pairs->status = app_finding_worse(pairs->status,
                                      error.exit_status != 0 ? error.exit_status : PST_EXIT_FAILED);
  return rc;
}

static void bench_pairs_obey_meet(struct pairs *pairs, struct json_object *said,
                                  struct json_object *order)
{
  struct bench_pair pair = {.endpoints = pairs->endpoints,
                            .count = pairs->endpoint_count,
                            .token = pairs->token,
                            .goes_first = bench_link_number(said, "goes_first") == 1,
                            .watch = pairs->to_first};
  struct json_object *c = NULL;
  char why[256];

  json_object_put(pairs->measured);
  pairs->measured = pair.rows = json_object_new_array();
  json_object_object_get_ex(said, "case", &c);
  pair.far = order;
  if (bench_case_read(c, &pair.c, why, sizeof(why)) < 0)
    app_log(PST_LOG_ERROR, "bench: rank 0 asks for an impossible measurement: %s", why);
  else
    bench_pair_run(&pair);
  bench_link_send(pairs->to_first,
                  bench_link_object(
                      "rows", json_object_new_int64((int64_t)json_object_array_length(pair.rows))));
}

/* False: it was the last. */
static bool bench_pairs_obey(struct pairs *pairs, struct json_object *said)
{
  struct json_object *order = NULL;

  if (json_object_object_get_ex(said, "meet", &order) && bench_endpoints_are(order)) {
    bench_pairs_obey_meet(pairs, said, order);
    return true;
  }
  if (pairs->measured && json_object_object_get_ex(said, "row", &order)) {
    struct json_object *row =
        json_object_array_get_idx(pairs->measured, (size_t)json_object_get_int64(order));
    bench_link_send(pairs->to_first, bench_link_object("row", json_object_get(row)));
    return true;
  }
  if (json_object_object_get_ex(said, "gone", NULL))
    return true; /* of a partner that this rank waits for no longer */
  if (!json_object_object_get_ex(said, "goodbye", NULL)) {
    const bool is_end = json_object_object_get_ex(said, "error", NULL);
    app_log(PST_LOG_ERROR, "bench: rank %u: rank 0 %s%s", pairs->exchange.rank,
            is_end ? "ends the job: " : "breaks the protocol", bench_link_text(said, "error"));
    pairs->status = app_finding_worse(pairs->status, PST_EXIT_FAILED);
  }
  return false;
}

void bench_pairs_follow(struct pairs *pairs)
{
  struct json_object *said = NULL;
  bool goes_on = true;

  while (goes_on) {
    int rc = bench_link_receive(pairs->to_first, ORDER_NS, true, &said);
    if (rc == -ETIMEDOUT) /* its connection lives: others take long */
      continue;
    if (rc < 0) {
      app_log(PST_LOG_ERROR, "bench: rank %u: %s", pairs->exchange.rank,
              rc == -EINTR ? "stopped by a signal" : "rank 0 has gone");
      pairs->status = app_finding_worse(pairs->status, PST_EXIT_FAILED);
      return;
    }
    goes_on = bench_pairs_obey(pairs, said);
    json_object_put(said);
  }
}
