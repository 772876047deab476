/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header-data split: the card writes headers into host memory and payloads into the slots of a
 * ring that the CPU does not reach, a GPU's. Needs no DPDK.
 *
 * The first segment of a frame is as long as the headers of the ring's endpoints; the second one is
 * a slot. Such a ring needs a queue for itself, and a flow rule that brings nothing else there:
 * nobody could copy a payload into it.
 */
#ifndef ETHERNET_SPLIT_H
#define ETHERNET_SPLIT_H

#include <stdbool.h>
#include <stdint.h>

#define ETH_SPLIT_WHY 128u /* bytes of a reason, with the end */

/* Facts that are known when a ring opens. */
struct eth_split_facts {
  bool is_card;          /* a device that reads and writes memory itself */
  bool has_split;        /* the driver has RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT */
  bool has_pools;        /* from several pools */
  uint32_t segments_max; /* of a frame that is split */
  bool wants_rules;      /* the option `rules` */
  bool wants_copy;       /* the option `receive` */
  bool has_tags;         /* the option `authenticate` */
  uint32_t queues;       /* of the port, to receive */
  uint32_t rings;        /* opened on the port before this one */
};

/* Can the card split frames for one more ring? NULL; or why not. */
const char *eth_split_judge(const struct eth_split_facts *facts, char why[ETH_SPLIT_WHY]);

/* The split point of a ring's endpoints, from the headers of each in front of the payload: all the
 * same, else 0. */
uint32_t eth_split_point(const uint32_t *headers, uint32_t count);

/* Where a payload begins that stands `offset` bytes behind the frame's first, split behind `point`
 * bytes: bytes into its slot. False: some of it lies before the split. */
bool eth_split_place(uint32_t point, uint32_t offset, uint32_t *at);

#endif
