/* SPDX-License-Identifier: Apache-2.0 */
/* How a run went: each stream's account, its lines, its part of the result. */
#ifndef APP_REPORT_H
#define APP_REPORT_H

#include "drive.h"

struct json_object;

/* Judge a stream that is over, say how it went, and add it to the result (may be
 * NULL). Sets flow->exit_status. */
void report_flow(struct flow *flow, struct json_object *result);
/* The worst of two exit statuses: a failed run hides an unmet `expect`. */
int report_worse(int a, int b);

#endif
