/* SPDX-License-Identifier: Apache-2.0 */
/* The errors and warnings that a result lists, each {code, text, where}. */
#ifndef APP_FINDING_H
#define APP_FINDING_H

#include <penstock/penstock.h>

#include "arguments.h"

struct json_object;

/* Scripts rely on these: docs/reference/result-json.md says what each means. */
enum finding {
  FINDING_NONE = -1,
  FINDING_FAILED, /* none of the others */
  FINDING_RUNNING,
  FINDING_INTERRUPTED,
  FINDING_USAGE,
  FINDING_UNAVAILABLE,
  FINDING_EXPECT,
  FINDING_PEER,
  FINDING_STOPPED,
  FINDING_NOTHING_ARRIVED,
  FINDING_LOSS,
  FINDING_DUPLICATES,
  FINDING_REORDERED,
  FINDING_CORRUPTED,
  FINDING_UNBALANCED,
  FINDING_OUTPUT,
  /* Warnings. */
  FINDING_NO_MAX_LOSS,
  FINDING_UNKNOWN_COUNTS,
  FINDING_RECORDING,
  FINDING_LEFT_OUT,
  FINDING_SHARED_CPU,
  FINDING_UNNUMBERED,
  FINDING_LOG,
  FINDINGS,
};

/* By a failure's exit status, and its -errno where that says more. */
enum finding app_finding_of(int exit_status, int code);
/* The worst of two exit statuses: a failed run hides an unmet `expect`. */
int app_finding_worse(int a, int b);

/* Appends to `list`, one for each line of `text`; where NULL: all of the command. NULL is legal. */
void app_finding_add(struct json_object *list, enum finding finding, const char *where,
                     const char *text);
/* The same of an error, whose lines may begin with their place: a file's, or an option of
 * `arguments`, which may be NULL. */
void app_finding_add_error(struct json_object *list, const struct pst_error *error,
                           const struct arguments *arguments);

/* Notes a warning for the result; one of the same text is noted once. Any thread. */
void app_finding_warn(enum finding finding, const char *where, const char *text);
/* All of them, a new list. */
struct json_object *app_finding_warnings(void);
/* The first `most`, a new list: they are forgotten here. */
struct json_object *app_finding_take_warnings(unsigned most);

#endif
