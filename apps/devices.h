/* SPDX-License-Identifier: Apache-2.0 */
/* What transports counted of their devices and workers: lines for `-v`, and `devices` of a result.
 */
#ifndef PST_APPS_DEVICES_H
#define PST_APPS_DEVICES_H

#include <penstock/penstock.h>

struct runner;
struct json_object;

/* While no thread is in the session. result may be NULL. */
void app_devices_report(const struct runner *runner, struct json_object *result);
/* Of a node, which is NULL where it did not open. On its thread, before it closes. */
void app_devices_report_node(struct pst_node *node, struct json_object *result);

#endif
