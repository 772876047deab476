/* SPDX-License-Identifier: Apache-2.0 */
/* The services that the host offers a plugin. */
#ifndef PST_LOADER_HOST_H
#define PST_LOADER_HOST_H

#include <penstock/plugin.h>

/* label: "transport loopback"; lives as long as the host. */
const struct pst_host *host_new(const char *label);
/* Keep the real path of a library of the plugin's. */
int host_library_add(const struct pst_host *table, void *handle);

#endif
