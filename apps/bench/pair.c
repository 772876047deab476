/* SPDX-License-Identifier: Apache-2.0 */
/* A rank as the client of its partner, and as its server. */
#include "pair.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "run.h"
#include "sessions.h"
#include "signals.h"

#define COME_NS (30 * NS_PER_S) /* for a partner that may fail to connect to an endpoint before */
#define LOOK_NS (50 * NS_PER_MS)

static void bench_pair_note(struct bench_row *row, const struct pst_error *error)
{
  if (row->error[0] != '\0')
    return;
  row->unreachable = true;
  row->exit_status = error->exit_status;
  row->finding = app_finding_of(error->exit_status, error->code);
  snprintf(row->error, sizeof(row->error), "%s", error->text);
}

/* The partner's server at `where` is asked for one case. False: nothing else will succeed. */
static bool bench_pair_measure(const struct bench_pair *pair, const struct bench_plan *plan,
                               const char *where, struct bench_row *row)
{
  struct pst_error error = PST_ERROR_INIT;
  struct bench_setting setting = {.plan = plan};
  struct control_link *link = NULL;

  snprintf(setting.token, sizeof(setting.token), "%s", pair->token);
  int rc = bench_link_connect("bench", where, 0, &plan->access, plan->cpus[0], &link, &error);
  if (rc == 0)
    rc = bench_greet(link, plan, &setting, &error);
  bool goes_on = rc == 0;
  if (rc < 0)
    bench_pair_note(row, &error);
  else if (bench_run_with(link, plan, row))
    bench_link_send(link, bench_link_object("goodbye", json_object_new_boolean(true)));
  else
    goes_on = false;
  bench_link_close(link);
  return goes_on;
}

static bool bench_pair_run_case(struct bench_pair *pair, uint32_t from, uint32_t to)
{
  const struct bench_plan *plan = &pair->endpoints[from].plan;
  const char *where = bench_link_text(json_object_array_get_idx(pair->far, to), "address");
  struct bench_row *row = calloc(1, sizeof(*row));

  if (!row)
    return false;
  row->c = pair->c;
  row->cpu_share = -1;
  bench_case_make_token(row->c.token);
  const bool goes_on = bench_pin(plan->cpus[0]) == 0 && bench_pair_measure(pair, plan, where, row);
  struct json_object *object = bench_link_object("from", json_object_new_int((int)from));
  json_object_object_add(object, "to", json_object_new_int((int)to));
  json_object_object_add(object, "row", bench_row_json(row, 0));
  json_object_array_add(pair->rows, object);
  free(row);
  return goes_on && !app_signals_stop();
}

/* The partner has died, or rank 0 has. */
static bool bench_pair_is_over(const struct bench_pair *pair)
{
  return app_signals_stop() || bench_link_look(pair->watch) != 0;
}

static void bench_pair_be_client(struct bench_pair *pair)
{
  const uint32_t far = (uint32_t)json_object_array_length(pair->far);

  for (uint32_t from = 0; from < pair->count; from++)
    for (uint32_t to = 0; to < far; to++)
      if (bench_pair_is_over(pair) || !bench_pair_run_case(pair, from, to))
        return;
}

/* One client that shows the token. False: it has not come, or has died. */
static bool bench_pair_serve_one(const struct bench_pair *pair, struct endpoint *endpoint)
{
  const uint64_t until_ns = app_now_ns() + COME_NS;

  while (!bench_pair_is_over(pair) && app_now_ns() < until_ns) {
    struct control_link *link;
    if (bench_link_take(&endpoint->server, LOOK_NS, &link) < 0)
      continue;
    int rc = bench_serve(link, &endpoint->plan, pair->token, 0, endpoint->plan.cpus[0]);
    bench_link_close(link);
    if (rc != -EACCES) /* else a stranger */
      return rc == 0;
  }
  return false;
}

/* In the order in which the partner asks. False: it has not asked for all. */
static bool bench_pair_be_server(struct bench_pair *pair)
{
  const uint32_t far = (uint32_t)json_object_array_length(pair->far);

  for (uint32_t from = 0; from < far; from++) {
    for (uint32_t to = 0; to < pair->count; to++) {
      struct endpoint *endpoint = &pair->endpoints[to];
      if (bench_pin(endpoint->plan.cpus[0]) < 0 || !bench_pair_serve_one(pair, endpoint))
        return false;
    }
  }
  return true;
}

void bench_pair_run(struct bench_pair *pair)
{
  if (pair->goes_first)
    bench_pair_be_client(pair);
  if (bench_pair_be_server(pair) && !pair->goes_first)
    bench_pair_be_client(pair);
}
