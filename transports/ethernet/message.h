/* SPDX-License-Identifier: Apache-2.0 */
/* Frames around the messages of ARP, ICMPv6 and IGMP, which ports without a kernel send. */
#ifndef ETHERNET_MESSAGE_H
#define ETHERNET_MESSAGE_H

#include "layout.h"

/* Facts of the link that a port is on. */
struct eth_link {
  uint8_t mac[ETH_MAC_BYTES];
  uint16_t vlan;
};

enum {
  ETH_ARP_REQUEST = 1,
  ETH_ARP_REPLY = 2,

  ETH_IGMP_QUERY = 0x11,
  ETH_IGMP1_REPORT = 0x12,
  ETH_IGMP2_REPORT = 0x16,
  ETH_IGMP2_LEAVE = 0x17,
  ETH_IGMP3_REPORT = 0x22,

  ETH_MLD_QUERY = 130,
  ETH_MLD1_REPORT = 131,
  ETH_MLD1_DONE = 132,
  ETH_ND_ROUTER_SOLICITATION = 133,
  ETH_ND_SOLICITATION = 135,
  ETH_ND_ADVERTISEMENT = 136,
  ETH_ND_REDIRECT = 137,
  ETH_MLD2_REPORT = 143,
};

/* One IPv6 packet of ICMPv6. */
struct eth_icmpv6 {
  const uint8_t *mac_to; /* NULL: by `to`, a multicast group */
  const uint8_t *from, *to;
  uint8_t hop_limit;
  bool has_alert;   /* an option Router Alert, of value 0: MLD */
  uint8_t *message; /* its checksum is put in */
  uint32_t length;
};

/* Each writes a whole frame of ETH_CONTROL_MAX at most, and returns its length. Addresses are of 16
 * bytes. */

/* Writes a frame of ARP and returns its bytes. mac_to NULL: to all; mac_target: the field of the
 * target, zeros in a request. */
uint32_t eth_arp_write(uint8_t *frame, const struct eth_link *link, const uint8_t *mac_to,
                       uint32_t operation, const uint8_t from[16], const uint8_t target[16],
                       const uint8_t *mac_target);
/* Writes a frame of ICMPv6 and returns its bytes. */
uint32_t eth_icmpv6_write(uint8_t *frame, const struct eth_link *link,
                          const struct eth_icmpv6 *packet);
/* With Router Alert, and a TTL of 1; `message` gets its checksum. */
uint32_t eth_igmp_write(uint8_t *frame, const struct eth_link *link, const uint8_t from[16],
                        const uint8_t to[16], uint8_t *message, uint32_t length);

/* A sequence of numbers that others cannot follow by chance: for delays. Not 0 at first. */
static inline uint64_t eth_random(uint64_t *state)
{
  uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* From 0 to `bound` - 1; 0 where `bound` is. */
static inline uint64_t eth_random_below(uint64_t *state, uint64_t bound)
{
  return bound ? eth_random(state) % bound : 0;
}

static inline bool eth_is_any(const uint8_t address[16])
{
  static const uint8_t none[16];

  return memcmp(address + (eth_is_v4(address) ? 12 : 0), none, eth_is_v4(address) ? 4 : 16) == 0;
}

static inline bool eth_is_same(const uint8_t a[16], const uint8_t b[16])
{
  return memcmp(a, b, 16) == 0;
}

#endif
