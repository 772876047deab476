/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_cm for two ends in one process, on the simulated device, which has none: a plugin that asks
 * for librdmacm's calls finds those of the program that loads it. As Linux 6.1's: a request waits
 * with its listener's channel, the other end learns of the end of an id, a request of a queue pair
 * that still has a connection is refused as stale, and each connection has other first packet
 * numbers. Lost messages stay lost: nothing is sent again, as if nobody waited that long.
 */
#ifndef CONTRACT_SIMULATED_CM_H
#define CONTRACT_SIMULATED_CM_H

#include <stdint.h>

/* From now on one message of `one_of` between the two ends is lost; 0: none. */
void simulated_cm_loses(uint32_t one_of);
/* How many ids there are, listeners among them. */
uint32_t simulated_cm_ids(void);

#endif
