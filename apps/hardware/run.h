/* SPDX-License-Identifier: Apache-2.0 */
/* Running checks, and what becomes of them: objects as the result has them. */
#ifndef APP_HARDWARE_RUN_H
#define APP_HARDWARE_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "remote.h"

struct json_object;

enum hardware_verdict { VERDICT_OK, VERDICT_SKIPPED, VERDICT_UNKNOWN, VERDICT_FAILED };
#define HARDWARE_VERDICTS 4

struct hardware_run {
  struct hardware_end near;
  struct hardware_remote far;
  const char *outage, *readdress; /* commands; NULL: not given */
  bool can_count;
};

/* One check of the transport, memory and devices of `of`; `blocked` NULL, or why it cannot be told.
 */
struct json_object *hardware_run_check(struct hardware_run *run, uint32_t check,
                                       const struct hardware_ask *of, const char *blocked,
                                       enum hardware_verdict *verdict);
/* A check that is not run, since what was asked for cannot be used. */
struct json_object *hardware_run_skipped(uint32_t check, const struct hardware_ask *of,
                                         const char *why);

#endif
