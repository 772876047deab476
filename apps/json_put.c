/* SPDX-License-Identifier: Apache-2.0 */
/* Members of JSON objects, by type. */
#include "json_put.h"

#include <json-c/json.h>
#include <stddef.h>
#include <stdio.h>

#define WHOLE_MAX ((double)(UINT64_C(1) << 53)) /* beyond it a double skips whole numbers */

void app_json_put_text(struct json_object *object, const char *key, const char *text)
{
  json_object_object_add(object, key,
                         text && text[0] != '\0' ? json_object_new_string(text) : NULL);
}

void app_json_put_bool(struct json_object *object, const char *key, bool value)
{
  json_object_object_add(object, key, json_object_new_boolean(value));
}

void app_json_put_uint(struct json_object *object, const char *key, uint64_t value)
{
  json_object_object_add(object, key, json_object_new_uint64(value));
}

void app_json_put_known(struct json_object *object, const char *key, bool known, uint64_t value)
{
  json_object_object_add(object, key, known ? json_object_new_uint64(value) : NULL);
}

void app_json_put_number(struct json_object *object, const char *key, double value)
{
  char text[32];

  if (value >= 0 && value < WHOLE_MAX && value == (double)(uint64_t)value) {
    app_json_put_uint(object, key, (uint64_t)value);
    return;
  }
  /* Nine digits are what was measured; 17 are noise to a reader. */
  snprintf(text, sizeof(text), "%.9g", value);
  json_object_object_add(object, key, json_object_new_double_s(value, text));
}

void app_json_put_share(struct json_object *object, const char *key, double share)
{
  if (share >= 0)
    app_json_put_number(object, key, share);
  else
    app_json_put_null(object, key);
}

void app_json_put_null(struct json_object *object, const char *key)
{
  json_object_object_add(object, key, NULL);
}

void app_json_put_uncounted(struct json_object *object)
{
  if (!object)
    return;
  json_object_object_foreach(object, key, value)
  {
    bool is_number =
        json_object_is_type(value, json_type_int) || json_object_is_type(value, json_type_double);
    if (is_number && json_object_get_double(value) == 0)
      app_json_put_null(object, key);
  }
}

void app_json_put_times(struct json_object *object, const char *key, const struct json_times *times)
{
  const struct {
    const char *key;
    double value;
  } values[] = {{"min", times->min}, {"mean", times->mean}, {"p50", times->p50},
                {"p90", times->p90}, {"p99", times->p99},   {"p99_9", times->p99_9},
                {"max", times->max}};
  struct json_object *made;

  if (times->count == 0) {
    app_json_put_null(object, key);
    return;
  }
  made = json_object_new_object();
  app_json_put_uint(made, "count", times->count);
  for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
    app_json_put_number(made, values[i].key, values[i].value);
  json_object_object_add(object, key, made);
}
