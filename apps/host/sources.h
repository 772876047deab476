/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of this machine that are no files: how each is asked for. */
#ifndef APP_HOST_SOURCES_H
#define APP_HOST_SOURCES_H

#include <stddef.h>

#include "host.h"

/* A new object, or NULL with `why`. */
typedef struct json_object *host_ask(char why[HOST_WHY_BYTES]);

struct host_source {
  const char *name; /* of host_facts() */
  host_ask *ask;
};
extern const struct host_source host_sources[];
extern const size_t host_source_count;

host_ask host_ask_network; /* libnl */
host_ask host_ask_nvml;    /* libnvidia-ml.so.1, bound when it is asked */
host_ask host_ask_plugins;
host_ask host_ask_devices;
host_ask host_ask_processes;
host_ask host_ask_clock;

/* Adds to a link of "network" what ethtool's and DCB's netlink know: pause, phc, pfc, driver,
 * firmware. Members that a driver does not have are left out. */
void host_add_ethtool(struct json_object *link, const char *name);

#endif
