/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of ARP, Neighbor Discovery, IGMP and MLD. */
#include "message.h"

static const uint8_t broadcast[ETH_MAC_BYTES] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

uint32_t eth_arp_write(uint8_t *frame, const struct eth_link *link, const uint8_t *mac_to,
                       uint32_t operation, const uint8_t from[16], const uint8_t target[16],
                       const uint8_t *mac_target)
{
  const uint32_t at =
      eth_ethernet_write(frame, mac_to ? mac_to : broadcast, link->mac, link->vlan, ETH_TYPE_ARP);
  uint8_t *arp = frame + at;

  eth_put16(arp, 1); /* Ethernet */
  eth_put16(arp + 2, ETH_TYPE_V4);
  arp[4] = ETH_MAC_BYTES;
  arp[5] = 4;
  eth_put16(arp + 6, operation);
  memcpy(arp + 8, link->mac, ETH_MAC_BYTES);
  memcpy(arp + 14, from + 12, 4);
  memset(arp + 18, 0, ETH_MAC_BYTES);
  if (mac_target)
    memcpy(arp + 18, mac_target, ETH_MAC_BYTES);
  memcpy(arp + 24, target + 12, 4);
  return at + ETH_ARP_BYTES;
}

/* Writes a whole frame of ICMPv6 and returns its bytes. `frame` has room for the largest that
 * eth_icmpv6 describes. */
uint32_t eth_icmpv6_write(uint8_t *frame, const struct eth_link *link,
                          const struct eth_icmpv6 *packet)
{
  static const uint8_t alert[8] = {ETH_NEXT_ICMPV6, 0, ETH_V6_ROUTER_ALERT, 2, 0, 0, 1, 0};
  const uint32_t options = packet->has_alert ? sizeof(alert) : 0;
  uint8_t group[ETH_MAC_BYTES];
  const uint8_t *mac_to = packet->mac_to;

  if (!mac_to) {
    eth_multicast_mac(packet->to, group);
    mac_to = group;
  }
  const uint32_t at = eth_ethernet_write(frame, mac_to, link->mac, link->vlan, ETH_TYPE_V6);
  uint8_t *ip = frame + at;
  memset(ip, 0, ETH_V6_BYTES);
  ip[0] = 0x60;
  eth_put16(ip + 4, options + packet->length);
  ip[6] = options ? ETH_NEXT_HOP_OPTIONS : ETH_NEXT_ICMPV6;
  ip[7] = packet->hop_limit;
  memcpy(ip + 8, packet->from, 16);
  memcpy(ip + 24, packet->to, 16);
  memcpy(ip + ETH_V6_BYTES, alert, options);
  memset(packet->message + 2, 0, 2);
  const uint16_t sum = eth_sum_complement(
      eth_sum(packet->message, packet->length,
              eth_sum(ip + 8, 32, 0) + eth_word(ETH_NEXT_ICMPV6) + eth_word(packet->length)));
  memcpy(packet->message + 2, &sum, 2);
  memcpy(ip + ETH_V6_BYTES + options, packet->message, packet->length);
  return at + ETH_V6_BYTES + options + packet->length;
}

uint32_t eth_igmp_write(uint8_t *frame, const struct eth_link *link, const uint8_t from[16],
                        const uint8_t to[16], uint8_t *message, uint32_t length)
{
  enum { HEADER = ETH_V4_BYTES + 4 };
  uint8_t group[ETH_MAC_BYTES];

  eth_multicast_mac(to, group);
  const uint32_t at = eth_ethernet_write(frame, group, link->mac, link->vlan, ETH_TYPE_V4);
  uint8_t *ip = frame + at;
  memset(ip, 0, HEADER);
  ip[0] = 0x40 | HEADER / 4;
  ip[1] = 0xc0; /* RFC 3376, section 4: internetwork control */
  eth_put16(ip + 2, HEADER + length);
  eth_put16(ip + 6, ETH_V4_DONT_FRAGMENT);
  ip[8] = 1;
  ip[9] = ETH_NEXT_IGMP;
  memcpy(ip + 12, from + 12, 4);
  memcpy(ip + 16, to + 12, 4);
  ip[20] = ETH_V4_ROUTER_ALERT;
  ip[21] = 4;
  uint16_t sum = eth_sum_complement(eth_sum(ip, HEADER, 0));
  memcpy(ip + 10, &sum, 2);
  memset(message + 2, 0, 2);
  sum = eth_sum_complement(eth_sum(message, length, 0));
  memcpy(message + 2, &sum, 2);
  memcpy(ip + HEADER, message, length);
  return at + HEADER + length;
}
