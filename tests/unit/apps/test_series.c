/* SPDX-License-Identifier: Apache-2.0 */
/* A series keeps what was counted, at bounded cost. */
#include <json-c/json.h>

#include "clock.h"
#include "series.h"
#include "support.h"

static struct json_object *list_of(struct json_object *series, const char *key)
{
  struct json_object *list = NULL;

  assert_true(json_object_object_get_ex(series, key, &list));
  return list;
}

static double number_at(struct json_object *list, size_t at)
{
  return json_object_get_double(json_object_array_get_idx(list, at));
}

/* A stream that began at 5 s and moves 10 messages of 100 bytes a second. */
static void add_seconds(struct series *series, uint64_t from, uint64_t to)
{
  for (uint64_t second = from; second <= to; second++) {
    const struct pst_stats stats = {.started_ns = 5 * NS_PER_S,
                                    .messages_delivered = 10 * second,
                                    .bytes_delivered = 1000 * second,
                                    .blocked_ns[PST_STAGE_EMPTY] = second * NS_PER_S / 2};
    const struct account account = {.delivered_known = true, .delivered = 10 * second};
    app_series_add(series, (5 + second) * NS_PER_S, NULL, &stats, &account);
  }
}

static void test_points(void **state)
{
  struct series *series = app_series_new();

  (void)state;
  assert_null(app_series_json(series));
  add_seconds(series, 1, 3);
  struct json_object *json = app_series_json(series);
  assert_int_equal(json_object_array_length(list_of(json, "at_seconds")), 3);
  assert_true(number_at(list_of(json, "at_seconds"), 2) == 3);
  assert_true(number_at(list_of(json, "messages_delivered"), 2) == 30);
  assert_null(json_object_array_get_idx(list_of(json, "messages_sent"), 2));
  assert_true(number_at(list_of(json, "bytes"), 0) == 1000);
  struct json_object *blocked = list_of(json, "blocked_seconds");
  assert_true(number_at(list_of(blocked, "empty"), 1) == 1);
  assert_null(json_object_array_get_idx(list_of(blocked, "rate"), 1));
  json_object_put(json);
  app_series_free(series);
}

/* A day has no more points than ten minutes; they are as far apart as `step_seconds` says, and none
 * of the counts is lost. */
static void test_bounded(void **state)
{
  struct series *series = app_series_new();
  const uint64_t day = 86400;

  (void)state;
  add_seconds(series, 1, SERIES_POINTS);
  struct json_object *json = app_series_json(series);
  assert_true(number_at(list_of(json, "at_seconds"), SERIES_POINTS - 1) == SERIES_POINTS);
  json_object_put(json);
  add_seconds(series, SERIES_POINTS + 1, day);
  json = app_series_json(series);
  struct json_object *at = list_of(json, "at_seconds");
  const double step = json_object_get_double(list_of(json, "step_seconds"));
  const size_t count = json_object_array_length(at);
  assert_true(step == 256);
  assert_in_range(count, SERIES_POINTS / 2, SERIES_POINTS);
  for (size_t i = 0; i < count; i++) {
    assert_true(number_at(at, i) == (double)(i + 1) * step);
    assert_true(number_at(list_of(json, "bytes"), i) == 1000 * number_at(at, i));
  }
  json_object_put(json);
  app_series_free(series);
}

/* The last point is there however near the one before is, and once. */
static void test_end(void **state)
{
  struct series *series = app_series_new();
  const struct pst_stats stats = {
      .started_ns = 5 * NS_PER_S, .ended_ns = 8 * NS_PER_S + 1000, .bytes_delivered = 7};
  const struct account account = {.dropped = 4};

  (void)state;
  add_seconds(series, 1, 3);
  app_series_end(series, 20 * NS_PER_S, NULL, &stats, &account);
  app_series_end(series, 30 * NS_PER_S, NULL, &stats, &account);
  struct json_object *json = app_series_json(series);
  assert_int_equal(json_object_array_length(list_of(json, "at_seconds")), 4);
  assert_true(number_at(list_of(json, "at_seconds"), 3) == 3.000001);
  assert_true(number_at(list_of(json, "dropped"), 3) == 4);
  json_object_put(json);
  app_series_free(series);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_points),
      cmocka_unit_test(test_bounded),
      cmocka_unit_test(test_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
