/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a JSON object as a result has them: what is not known is null. */
#ifndef APP_JSON_PUT_H
#define APP_JSON_PUT_H

#include <stdbool.h>
#include <stdint.h>

struct json_object;

/* NULL and "" become null. */
void app_json_put_text(struct json_object *object, const char *key, const char *text);
void app_json_put_bool(struct json_object *object, const char *key, bool value);
void app_json_put_uint(struct json_object *object, const char *key, uint64_t value);
void app_json_put_known(struct json_object *object, const char *key, bool known, uint64_t value);
/* Nine digits, or as many as a whole number has. */
void app_json_put_number(struct json_object *object, const char *key, double value);
/* Adds a share; one below 0 is unknown. */
void app_json_put_share(struct json_object *object, const char *key, double share);
void app_json_put_null(struct json_object *object, const char *key);

/* Makes each number of the object that is 0 null: nobody has counted. object may be NULL. */
void app_json_put_uncounted(struct json_object *object);

/* A distribution; count 0: null. */
struct json_times {
  uint64_t count;
  double min, mean, p50, p90, p99, p99_9, max;
};
void app_json_put_times(struct json_object *object, const char *key,
                        const struct json_times *times);

#endif
