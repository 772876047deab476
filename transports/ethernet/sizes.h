/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that are checked against each other when a port starts: descriptors, rings, pools and
 * bursts. Needs no DPDK. */
#ifndef ETHERNET_SIZES_H
#define ETHERNET_SIZES_H

#include <stdbool.h>
#include <stdint.h>

#define ETH_BURST 32u       /* frames at a time, either way */
#define ETH_INBOX 512u      /* frames that wait for a copy, of one receiver */
#define ETH_RING_BEYOND 64u /* slots that a ring has beyond those that the driver keeps filled */
#define ETH_SIZES_WHY 200u  /* bytes of a reason, with the end */

/* Descriptors that a queue of the driver may have: min to max, in steps of align. */
struct eth_descriptor_limits {
  uint32_t min, max, align;
};

/* The descriptors of a queue, from those that the option asks for. `is_fixed`: the file has the
 * option. 0; 1: another number than the file's, and `why` has both; -EINVAL: no queue has so many
 * or so few, and `why` says what to change. */
int eth_descriptors_settle(const struct eth_descriptor_limits *limits, const char *queue,
                           uint32_t wanted, bool is_fixed, uint32_t *descriptors,
                           char why[ETH_SIZES_WHY]);
/* Can a driver that keeps its descriptors filled have the ring as its pool? Descriptors that are
 * not fixed become fewer until it can. False: it would run dry, and `why` says what to change. */
bool eth_ring_settle(const struct eth_descriptor_limits *limits, uint32_t slots, bool is_fixed,
                     uint32_t *descriptors, char why[ETH_SIZES_WHY]);
/* Does the queue run, that the driver made with `made` descriptors? A driver may round them up.
 * False: they would hold more than the pool's buffers leave over, and `why` says what to change. */
bool eth_queue_check(uint32_t buffers, uint32_t descriptors, uint32_t made,
                     char why[ETH_SIZES_WHY]);
/* Buffers of a queue with memory of its own: for what the driver holds, what waits in the inboxes
 * of so many rings and in the batch, and a bulk that the driver takes at once. */
uint32_t eth_own_buffers(uint32_t descriptors, uint32_t rings);

#endif
