/* SPDX-License-Identifier: Apache-2.0 */
/* The headers of frames that are sent, and addresses that follow from others. */
#include "frame.h"

#include <errno.h>

#include "layout.h"

static bool eth_frame_is_makeable(const struct eth_template_params *params)
{
  const bool is_v4 = eth_is_v4(params->from.address);

  return is_v4 == eth_is_v4(params->to.address) && !eth_is_multicast(params->from.address) &&
         !(params->mac_from[0] & 1) && params->hop_limit &&
         (params->vlan == ETH_UNTAGGED || (params->vlan & 0xfff) < 0xfff) &&
         params->ip_checksum <= ETH_CHECKSUM_OFFLOAD &&
         params->udp_checksum <= (is_v4 ? ETH_CHECKSUM_NONE : ETH_CHECKSUM_OFFLOAD);
}

uint32_t eth_ethernet_write(uint8_t *to, const uint8_t mac_to[ETH_MAC_BYTES],
                            const uint8_t mac_from[ETH_MAC_BYTES], uint16_t vlan, uint32_t type)
{
  uint32_t at = 12;

  memcpy(to, mac_to, ETH_MAC_BYTES);
  memcpy(to + 6, mac_from, ETH_MAC_BYTES);
  if (vlan != ETH_UNTAGGED) {
    eth_put16(to + 12, ETH_TYPE_VLAN);
    eth_put16(to + 14, vlan);
    at = 16;
  }
  eth_put16(to + at, type);
  return at + 2;
}

static void eth_frame_make_v4(const struct eth_template_params *params, uint8_t *ip)
{
  ip[0] = 0x45;
  ip[1] = params->traffic_class;
  eth_put16(ip + 6, params->may_fragment ? 0 : ETH_V4_DONT_FRAGMENT);
  ip[8] = params->hop_limit;
  ip[9] = ETH_NEXT_UDP;
  memcpy(ip + 12, params->from.address + 12, 4);
  memcpy(ip + 16, params->to.address + 12, 4);
}

static void eth_frame_make_v6(const struct eth_template_params *params, uint8_t *ip)
{
  ip[0] = (uint8_t)(0x60 | params->traffic_class >> 4);
  ip[1] = (uint8_t)(params->traffic_class << 4);
  ip[6] = ETH_NEXT_UDP;
  ip[7] = params->hop_limit;
  memcpy(ip + 8, params->from.address, 16);
  memcpy(ip + 24, params->to.address, 16);
}

int eth_template_make(const struct eth_template_params *params, struct eth_template *made)
{
  struct eth_template t = {.udp_checksum = params->udp_checksum};
  const uint16_t next = eth_word(ETH_NEXT_UDP);

  if (!eth_frame_is_makeable(params))
    return -EINVAL;
  t.is_v4 = eth_is_v4(params->from.address);
  t.ip_at = (uint8_t)eth_ethernet_write(t.bytes, params->mac_to, params->mac_from, params->vlan,
                                        t.is_v4 ? ETH_TYPE_V4 : ETH_TYPE_V6);
  uint8_t *ip = t.bytes + t.ip_at;
  if (t.is_v4) {
    eth_frame_make_v4(params, ip);
    t.udp_at = (uint8_t)(t.ip_at + ETH_V4_BYTES);
    t.sums_ip = params->ip_checksum == ETH_CHECKSUM_SOFTWARE;
    t.ip_sum = eth_sum(ip, ETH_V4_BYTES, 0);
    t.udp_sum = eth_sum(ip + 12, 8, next);
  } else {
    eth_frame_make_v6(params, ip);
    t.udp_at = (uint8_t)(t.ip_at + ETH_V6_BYTES);
    t.udp_sum = eth_sum(ip + 8, 32, next);
  }
  t.length = (uint8_t)(t.udp_at + ETH_UDP_BYTES);
  eth_put16(t.bytes + t.udp_at, params->from.port);
  eth_put16(t.bytes + t.udp_at + 2, params->to.port);
  *made = t;
  return 0;
}

void eth_multicast_mac(const uint8_t address[16], uint8_t mac[ETH_MAC_BYTES])
{
  static const uint8_t v4[3] = {0x01, 0x00, 0x5e}, v6[2] = {0x33, 0x33};

  if (eth_is_v4(address)) {
    memcpy(mac, v4, 3);
    memcpy(mac + 3, address + 13, 3);
    mac[3] &= 0x7f;
  } else {
    memcpy(mac, v6, 2);
    memcpy(mac + 2, address + 12, 4);
  }
}

void eth_link_local(const uint8_t mac[ETH_MAC_BYTES], uint8_t address[16])
{
  memset(address, 0, 16);
  address[0] = 0xfe;
  address[1] = 0x80;
  memcpy(address + 8, mac, 3);
  address[8] ^= 2;
  address[11] = 0xff;
  address[12] = 0xfe;
  memcpy(address + 13, mac + 3, 3);
}

void eth_solicited_node(const uint8_t address[16], uint8_t group[16])
{
  static const uint8_t prefix[13] = {0xff, 0x02, [11] = 0x01, [12] = 0xff};

  memcpy(group, prefix, sizeof(prefix));
  memcpy(group + 13, address + 13, 3);
}
