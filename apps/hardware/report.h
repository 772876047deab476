/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people, from the objects of the result, in which nothing is left to hide. */
#ifndef APP_HARDWARE_REPORT_H
#define APP_HARDWARE_REPORT_H

#include <stdio.h>

struct json_object;

void hardware_report_head(FILE *to, struct json_object *hardware);
/* Before the checks of a pair of adapters; `check` is the first. */
void hardware_report_pair(FILE *to, struct json_object *check);
void hardware_report_check(FILE *to, struct json_object *check);

#endif
