/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a run as JSON. */
#ifndef APP_RESULT_H
#define APP_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "accounting.h"
#include "arguments.h"
#include "expect.h"

struct json_object;

#define COUNTERS_MAX 128 /* of one side of a stream */

/* Counters of a transport on one side. */
struct result_counters {
  const struct pst_counter_value *values; /* NULL when there are none */
  uint32_t count;
};

#define RESULT_NEVER_RAN (-3) /* as limited_by: there is no verdict */

struct result_stream {
  const char *name;
  const struct pst_stats *sender;   /* NULL: not here */
  const struct pst_stats *receiver; /* NULL: not here */
  struct result_counters sender_counters, receiver_counters;
  const struct account *account;
  const struct expect_result *expects;
  size_t expect_count;
  const char *source, *sink;                   /* their types; NULL: not here */
  const char *sender_memory, *receiver_memory; /* plugins; NULL: not here */
  uint64_t size_bytes, ring_slots;
  int limited_by; /* as pst_verdict, or RESULT_NEVER_RAN */
  double share;
  const char *stopped;        /* by what; NULL: nobody knows */
  struct json_object *errors; /* becomes the result's; NULL: none */
  struct json_object *series; /* becomes the result's; NULL: none */
  bool ok;
};

/* A result of a command that has not ended; config: of one with `roles`, NULL: it has none yet.
 * NULL: out of memory; the others then do nothing. json_object_put() it. */
struct json_object *app_result_new(const struct command *command, const struct arguments *arguments,
                                   const struct pst_config *config);
/* This machine. */
struct json_object *app_result_environment(void);
/* Keeps as many of `values` as a call returned, at most COUNTERS_MAX; a negative number counts as
 * none. */
struct result_counters app_result_counters(const struct pst_counter_value *values, int count);
/* An object of names and values. */
struct json_object *app_result_counters_json(const struct result_counters *counters);
/* enum pst_kind in a word. */
const char *app_result_kind_name(uint32_t kind, const char *otherwise);
void app_result_add_plugin(struct json_object *result, const struct pst_plugin_info *info);
/* Appends a stream's or a measurement's errors to the result's own list. */
void app_result_add_errors(struct json_object *result, struct json_object *errors);
/* The result's own list of errors, for app_finding_add(). NULL: there is no result. */
struct json_object *app_result_errors(struct json_object *result);
struct json_object *app_result_add_stream(struct json_object *result,
                                          const struct result_stream *stream);
/* Says what limited a stream or a measurement (NULL: nothing ran), on which side of the staging,
 * and for which share of the time (below 0: no stage was blocked). */
void app_result_put_verdict(struct json_object *object, const char *limited_by, const char *side,
                            double share);
/* A result that failed without an error gets the program's last line as its error. */
void app_result_finish(struct json_object *result, int exit_status);

/* Writes to a file, which appears whole or not at all, or to stdout ("-"). */
int app_result_write(struct json_object *result, const char *path, struct pst_error *error);

#endif
