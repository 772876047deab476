/* SPDX-License-Identifier: Apache-2.0 */
/* DPDK's log, which becomes the host's at debug level. */
#ifndef ETHERNET_EAL_LOG_H
#define ETHERNET_EAL_LOG_H

#include <penstock/plugin.h>

/* Before DPDK is started. 0 or -errno. */
int eal_log_open(const struct pst_host *host);

#endif
