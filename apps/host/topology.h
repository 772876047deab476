/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc's tree of a machine: NUMA nodes, cores, caches, PCI devices with their network devices and
 * GPUs. */
#ifndef APP_HOST_TOPOLOGY_H
#define APP_HOST_TOPOLOGY_H

#include "host.h"

#ifdef HAVE_HWLOC
#include <hwloc.h>

/* This machine's, or a recording's: from its penstock/topology.xml alone (hwloc's own form, as
 * `lstopo topology.xml` writes; without it there is none). PCI devices are kept as far as they
 * matter (hwloc's HWLOC_TYPE_FILTER_KEEP_IMPORTANT), bridges all. NULL: `why` says why not. The
 * caller ends it by hwloc_topology_destroy(). */
hwloc_topology_t host_topology(struct host *host, char why[HOST_WHY_BYTES]);
/* Writes penstock/topology.xml, without serial numbers, below a folder that host_record() has made.
 * 0, or -errno. */
int host_topology_record(struct host *host, const char *folder);
#endif

#endif
