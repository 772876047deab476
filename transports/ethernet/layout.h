/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of the headers, as the RFCs and IANA have them; and what writes the first of them. */
#ifndef ETHERNET_LAYOUT_H
#define ETHERNET_LAYOUT_H

#include "frame.h"

enum {
  ETH_TYPE_V4 = 0x0800,
  ETH_TYPE_ARP = 0x0806,
  ETH_TYPE_VLAN = 0x8100,
  ETH_TYPE_V6 = 0x86dd,
  ETH_TYPE_SERVICE = 0x88a8, /* the outer tag of 802.1ad */
  ETH_TYPE_QINQ = 0x9100,    /* the outer tag, before there was 802.1ad */

  ETH_NEXT_HOP_OPTIONS = 0,
  ETH_NEXT_IGMP = 2,
  ETH_NEXT_UDP = 17,
  ETH_NEXT_ROUTING = 43,
  ETH_NEXT_FRAGMENT = 44,
  ETH_NEXT_ICMPV6 = 58,
  ETH_NEXT_OPTIONS = 60,

  ETH_V4_DONT_FRAGMENT = 0x4000,
  ETH_V4_FRAGMENT_MASK = 0x3fff, /* more fragments, and the offset */
  ETH_V4_LOOSE_ROUTE = 0x83,
  ETH_V4_STRICT_ROUTE = 0x89,
  ETH_V4_ROUTER_ALERT = 0x94, /* RFC 2113 */
  ETH_V6_ROUTER_ALERT = 5,    /* RFC 2711 */
  ETH_V6_JUMBO = 0xc2,        /* RFC 2675 */

  ETH_V4_BYTES = 20,
  ETH_V6_BYTES = 40,
  ETH_UDP_BYTES = 8,
  ETH_ARP_BYTES = 28,
};

/* MACs, tag and EtherType; returns how many bytes. */
uint32_t eth_ethernet_write(uint8_t *to, const uint8_t mac_to[ETH_MAC_BYTES],
                            const uint8_t mac_from[ETH_MAC_BYTES], uint16_t vlan, uint32_t type);

#endif
