/* SPDX-License-Identifier: Apache-2.0 */
/* Counts at each second, in memory that is bounded. */
#include "series.h"

#include <assert.h>
#include <json-c/json.h>
#include <stdlib.h>

#include "clock.h"
#include "json_put.h"

#define UNKNOWN UINT64_MAX
#define EARLY_NS (NS_PER_S / 8) /* a watcher that was late is early the next time */

struct point {
  uint64_t at_ns; /* since both ends connected */
  uint64_t sent, delivered, bytes, dropped;
  uint64_t blocked_ns[PST_STAGES];
};

struct series {
  uint32_t count, capacity;
  uint64_t step_ns; /* the least time between two points */
  struct point *points;
};

struct series *app_series_new(void)
{
  struct series *series = calloc(1, sizeof(*series));

  if (series)
    series->step_ns = NS_PER_S;
  return series;
}

void app_series_free(struct series *series)
{
  if (series)
    free(series->points);
  free(series);
}

/* The later of two neighbours stays: what is counted is counted from the beginning. */
static void series_halve(struct series *series)
{
  for (uint32_t i = 0; i < series->count / 2; i++)
    series->points[i] = series->points[2 * i + 1];
  series->count /= 2;
  series->step_ns *= 2;
}

static struct point *series_next(struct series *series)
{
  if (series->count == SERIES_POINTS)
    series_halve(series);
  if (series->count == series->capacity) {
    uint32_t capacity = series->capacity < 8 ? 16 : series->capacity * 2;
    if (capacity > SERIES_POINTS)
      capacity = SERIES_POINTS;
    struct point *larger = realloc(series->points, capacity * sizeof(*larger));
    if (!larger)
      return NULL;
    series->points = larger;
    series->capacity = capacity;
  }
  assert(series->count < SERIES_POINTS);
  return &series->points[series->count++];
}

/* The sender's stages from the sender, the receiver's from the receiver; copies of both. */
static uint64_t series_blocked_ns(int stage, const struct pst_stats *sender,
                                  const struct pst_stats *receiver)
{
  const struct pst_stats *own = stage <= PST_STAGE_TRANSPORT ? sender : receiver;
  uint64_t ns = own ? own->blocked_ns[stage] : 0;

  if (stage != PST_STAGE_STAGING)
    return own ? ns : UNKNOWN;
  return ns + (sender ? sender->blocked_ns[stage] : 0);
}

static void series_take(struct series *series, uint64_t at_ns, const struct pst_stats *sender,
                        const struct pst_stats *receiver, const struct account *account)
{
  struct point *point = series_next(series);

  if (!point)
    return; /* the plot has a gap */
  *point = (struct point){.at_ns = at_ns,
                          .sent = account->sent_known ? account->sent : UNKNOWN,
                          .delivered = account->delivered_known ? account->delivered : UNKNOWN,
                          .bytes = receiver ? receiver->bytes_delivered : sender->bytes_sent,
                          .dropped = account->dropped};
  for (int stage = 0; stage < PST_STAGES; stage++)
    point->blocked_ns[stage] = series_blocked_ns(stage, sender, receiver);
}

static uint64_t series_at_ns(uint64_t time_ns, const struct pst_stats *sender,
                             const struct pst_stats *receiver)
{
  const struct pst_stats *stats = receiver ? receiver : sender;

  if (stats->started_ns == 0 || time_ns <= stats->started_ns)
    return 0;
  return (stats->ended_ns != 0 && stats->ended_ns < time_ns ? stats->ended_ns : time_ns) -
         stats->started_ns;
}

void app_series_add(struct series *series, uint64_t time_ns, const struct pst_stats *sender,
                    const struct pst_stats *receiver, const struct account *account)
{
  if (!series)
    return;
  if (series->count == SERIES_POINTS)
    series_halve(series);
  uint64_t at_ns = series_at_ns(time_ns, sender, receiver);
  uint64_t last_ns = series->count > 0 ? series->points[series->count - 1].at_ns : 0;
  if (at_ns > last_ns && at_ns - last_ns >= series->step_ns - EARLY_NS)
    series_take(series, at_ns, sender, receiver, account);
}

void app_series_end(struct series *series, uint64_t time_ns, const struct pst_stats *sender,
                    const struct pst_stats *receiver, const struct account *account)
{
  if (!series)
    return;
  uint64_t at_ns = series_at_ns(time_ns, sender, receiver);
  if (at_ns == 0)
    return;
  if (series->count > 0 && series->points[series->count - 1].at_ns == at_ns)
    series->count--;
  series_take(series, at_ns, sender, receiver, account);
}

static struct json_object *series_known(uint64_t value)
{
  return value == UNKNOWN ? NULL : json_object_new_uint64(value);
}

static void series_add_seconds(struct json_object *list, uint64_t ns)
{
  struct json_object *holder = json_object_new_object(), *value = NULL;

  app_json_put_number(holder, "value", (double)ns / 1e9);
  json_object_object_get_ex(holder, "value", &value);
  json_object_array_add(list, ns == UNKNOWN ? NULL : json_object_get(value));
  json_object_put(holder);
}

struct json_object *app_series_json(const struct series *series)
{
  if (!series || series->count == 0)
    return NULL;
  struct json_object *object = json_object_new_object(), *blocked = json_object_new_object();
  struct json_object *at = json_object_new_array(), *sent = json_object_new_array();
  struct json_object *delivered = json_object_new_array(), *bytes = json_object_new_array();
  struct json_object *dropped = json_object_new_array();

  for (uint32_t i = 0; i < series->count; i++) {
    const struct point *point = &series->points[i];
    series_add_seconds(at, point->at_ns);
    json_object_array_add(sent, series_known(point->sent));
    json_object_array_add(delivered, series_known(point->delivered));
    json_object_array_add(bytes, json_object_new_uint64(point->bytes));
    json_object_array_add(dropped, json_object_new_uint64(point->dropped));
  }
  for (int stage = 0; stage < PST_STAGES; stage++) {
    struct json_object *list = json_object_new_array();
    for (uint32_t i = 0; i < series->count; i++)
      series_add_seconds(list, series->points[i].blocked_ns[stage]);
    json_object_object_add(blocked, pst_stage_name(stage), list);
  }
  app_json_put_number(object, "step_seconds", (double)series->step_ns / 1e9);
  json_object_object_add(object, "at_seconds", at);
  json_object_object_add(object, "messages_sent", sent);
  json_object_object_add(object, "messages_delivered", delivered);
  json_object_object_add(object, "bytes", bytes);
  json_object_object_add(object, "dropped", dropped);
  json_object_object_add(object, "blocked_seconds", blocked);
  return object;
}
