/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as hwloc knows it: nodes, CPUs, and the devices of the PCI tree. */
#ifndef APP_TOPO_TREE_H
#define APP_TOPO_TREE_H

#include "machine.h"

struct host;

/* Adds nodes, CPUs and PCI devices; their ports are not looked at. As topo_machine_read(). */
int topo_tree_read(struct host *host, struct topo_machine *machine, char why[TOPO_WHY_BYTES]);

#endif
