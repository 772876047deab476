/* SPDX-License-Identifier: Apache-2.0 */
/* The report for people, from the objects of the result, in which nothing is left to hide. */
#ifndef APP_HARDWARE_REPORT_H
#define APP_HARDWARE_REPORT_H

#include <stddef.h>
#include <stdio.h>

struct json_object;

void hardware_report_head(FILE *to, struct json_object *hardware);
/* Under a header that says between what, unless `header`, which has the last one, says so. */
void hardware_report_check(FILE *to, struct json_object *check, char *header, size_t size);

#endif
