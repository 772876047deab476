/* SPDX-License-Identifier: Apache-2.0 */
/* What transports counted of devices and of their workers, in the result and in words. */
#ifndef APP_DEVICES_H
#define APP_DEVICES_H

struct drive;
struct json_object;

/* The session is open, and no thread is in it. result: NULL: in words alone. */
void devices_report(const struct drive *drive, struct json_object *result);

#endif
