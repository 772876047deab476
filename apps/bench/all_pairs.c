/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock bench --all-pairs`: opens and closes what each rank needs. */
#include "all_pairs.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "pairs.h"
#include "result.h"

#define WAIT_NS (60 * NS_PER_S) /* how long to wait for all ranks, without --wait */

/* The endpoints, each of which opens what it will measure with. 0, or reported in *error. */
static int bench_pairs_open(struct pairs *pairs, struct pst_error *error)
{
  int rc = bench_endpoints_open(pairs->arguments, pairs->plan, &pairs->endpoints,
                                &pairs->endpoint_count, error);

  for (uint32_t i = 0; i < pairs->endpoint_count && rc == 0; i++) {
    struct bench_probe look;
    rc = bench_probe(&pairs->endpoints[i].plan, &pairs->setting, i == 0 ? pairs->result : NULL,
                     &look, error);
    if (i == 0)
      pairs->look = look;
  }
  if (rc == 0 && pairs->look.no_send_latency && (pairs->plan->measures & MEASURE_LATENCY) != 0 &&
      (pairs->plan->ops & 1u << BENCH_SEND) != 0)
    rc = app_log_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                      "bench: --latency: transport %s may lose messages, and the wait for a lost "
                      "reply would never end; choose a reliable transport, or leave out --latency",
                      pairs->plan->side.transport);
  return rc;
}

static void bench_pairs_begin_result(struct pairs *pairs)
{
  pairs->table =
      pairs->arguments->json && strcmp(pairs->arguments->json, "-") == 0 ? stderr : stdout;
  pairs->setting.plan = pairs->plan;
  pairs->setting.form = "ranks";
  pairs->setting.warmup_ns = bench_plan_warmup(pairs->plan);
  if (!pairs->arguments->json)
    return;
  pairs->result = app_result_new(pairs->command, pairs->arguments, NULL);
  if (!pairs->result)
    return;
  pairs->rows = json_object_new_array();
  json_object_object_add(pairs->result, "rows", pairs->rows);
}

int bench_all_pairs(const struct command *command, const struct arguments *arguments,
                    const struct bench_plan *plan)
{
  struct pairs pairs = {.command = command, .arguments = arguments, .plan = plan};
  struct pst_error error = PST_ERROR_INIT;

  pairs.until_ns = app_now_ns() + (plan->wait_ns != 0 ? plan->wait_ns : WAIT_NS);
  bench_pairs_begin_result(&pairs);
  app_environment_read(&pairs.environment);
  pairs.setting.environment = pairs.environment;
  int rc = bench_exchange_open(arguments, &pairs.exchange, &error);
  bool has_job = rc == 0;
  if (has_job)
    rc = bench_pairs_open(&pairs, &error);
  if (!has_job || pairs.exchange.rank == 0) {
    bench_pairs_lead(&pairs, &error);
  } else {
    if (rc < 0)
      pairs.status = error.exit_status;
    if (bench_pairs_find_first(&pairs, rc < 0 ? error.text : NULL) == 0)
      bench_pairs_follow(&pairs);
    bench_link_close(pairs.to_first);
    json_object_put(pairs.measured);
  }
  bench_endpoints_close(pairs.endpoints, pairs.endpoint_count);
  bench_exchange_close(&pairs.exchange);
  return pairs.status;
}

bool bench_all_pairs_is_silent(const struct arguments *arguments)
{
  uint32_t rank = 0;

  return arguments->bench[BENCH_ALL_PAIRS] && bench_exchange_rank(arguments, &rank) && rank > 0;
}
