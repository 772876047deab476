/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sending from memory that the CPU does not reach, a GPU's: the headers are a segment of host
 * memory, and the card reads the payload as the segments behind it. Needs no DPDK.
 *
 * Neither the plugin nor the driver may read such a payload. mlx5's driver copies short packets and
 * beginnings of others into its descriptors, unless a packet has a flag of its own.
 */
#ifndef ETHERNET_PAYLOAD_H
#define ETHERNET_PAYLOAD_H

#include <stdbool.h>
#include <stdint.h>

/* Facts that are known when memory is registered. */
struct eth_payload_facts {
  bool is_card;          /* a device that reads memory itself, by virtual addresses */
  bool has_no_inline;    /* its driver can be kept from copying payloads */
  uint32_t inline_min;   /* bytes of each packet that its driver copies in any case */
  uint32_t segments_max; /* of a packet that it sends */
  bool sums_bytes;       /* framing `sequence` with its checksum */
  bool has_tags;         /* the option `authenticate` */
  bool sums_udp;         /* the option `udp_checksum` is software */
  bool offloads_udp;     /* the card computes UDP's checksum */
  bool may_be_ipv6;      /* an endpoint of the device may be */
};

#define ETH_INLINE_MOST 42u /* headers of the shortest packet: Ethernet, IPv4, UDP */

/* Returns the value of mlx5's argument `txq_inline_min`; 0: it is not there. The largest of
 * several. */
uint32_t eth_payload_inline_min(const char *devargs);

/* Can the card send payloads from there? NULL; or why not, in 80 bytes at most. */
const char *eth_payload_judge(const struct eth_payload_facts *facts);

#endif
