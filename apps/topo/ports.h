/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's view of each port: speed, MTU, addresses, neighbours. */
#ifndef APP_TOPO_PORTS_H
#define APP_TOPO_PORTS_H

#include "machine.h"

struct host;

/* Adds ports that are no PCI devices to those that the PCI tree has, and what is known of each; and
 * marks isolated CPUs. 0 or -ENOMEM. */
int topo_ports_read(struct host *host, struct topo_machine *machine);

#endif
