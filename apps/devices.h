/* SPDX-License-Identifier: Apache-2.0 */
/* Transports' counters of their devices and workers: lines for `-v`, and `devices` of a result. */
#ifndef PST_APPS_DEVICES_H
#define PST_APPS_DEVICES_H

#include <penstock/penstock.h>

struct runner;
struct json_object;

/* While no thread is in the session. result may be NULL. */
void app_devices_report(const struct runner *runner, struct json_object *result);
/* Reports the devices of a node (NULL: it did not open). Call it on the node's thread, before the
 * node closes. */
void app_devices_report_node(struct pst_node *node, struct json_object *result);

#endif
