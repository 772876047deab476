/* SPDX-License-Identifier: Apache-2.0 */
/* RFC 826 and RFC 5227; RFC 4861, sections 7.1.1 and 7.1.2. */
#include "claim.h"

static bool eth_claim_is_station(const uint8_t mac[ETH_MAC_BYTES])
{
  static const uint8_t none[ETH_MAC_BYTES];

  return !(mac[0] & 1) && memcmp(mac, none, ETH_MAC_BYTES) != 0;
}

static void eth_claim_mapped(const uint8_t v4[4], uint8_t address[16])
{
  memset(address, 0, 10);
  memset(address + 10, 0xff, 2);
  memcpy(address + 12, v4, 4);
}

static bool eth_claim_is_v4_broadcast(const uint8_t address[16])
{
  static const uint8_t all[4] = {0xff, 0xff, 0xff, 0xff};

  return memcmp(address + 12, all, 4) == 0;
}

static enum eth_claim_verdict eth_claim_read_arp(const uint8_t *arp, struct eth_claim *claim)
{
  static const uint8_t fixed[6] = {0, 1, 8, 0, ETH_MAC_BYTES, 4};
  const uint32_t operation = eth_get16(arp + 6);

  if (memcmp(arp, fixed, sizeof(fixed)) != 0 ||
      (operation != ETH_ARP_REQUEST && operation != ETH_ARP_REPLY) ||
      !eth_claim_is_station(arp + 8))
    return ETH_CLAIM_REFUSED;
  memcpy(claim->mac, arp + 8, ETH_MAC_BYTES);
  eth_claim_mapped(arp + 14, claim->sender);
  eth_claim_mapped(arp + 24, claim->target);
  if (eth_is_multicast(claim->sender) || eth_claim_is_v4_broadcast(claim->sender))
    return ETH_CLAIM_REFUSED;
  claim->has_sender = !eth_is_any(claim->sender);
  claim->asks = operation == ETH_ARP_REQUEST && !eth_is_same(claim->sender, claim->target);
  claim->overrides = true;
  memcpy(claim->reply_to, claim->sender, 16);
  memcpy(claim->reply_mac, claim->mac, ETH_MAC_BYTES);
  return ETH_CLAIM_TAKEN;
}

/* The MAC that an option of that type has. False: options overrun, or have no length. */
static bool eth_claim_read_options(const uint8_t *at, uint32_t length, uint8_t type,
                                   const uint8_t **mac)
{
  *mac = NULL;
  while (length) {
    if (length < 8 || at[1] == 0 || at[1] * 8u > length)
      return false;
    if (at[0] == type && at[1] == 1)
      *mac = at + 2;
    length -= at[1] * 8u;
    at += at[1] * 8u;
  }
  return !*mac || eth_claim_is_station(*mac);
}

static enum eth_claim_verdict eth_claim_read_solicitation(const struct eth_bytes *frame,
                                                          const struct eth_packet *packet,
                                                          struct eth_claim *claim)
{
  const uint8_t *nd = frame->bytes + packet->offset, *mac;
  const bool is_probe = eth_is_any(packet->from.address);
  uint8_t group[16];

  memcpy(claim->target, nd + 8, 16);
  if (!eth_claim_read_options(nd + 24, packet->length - 24, 1, &mac) ||
      eth_is_multicast(claim->target) || eth_is_multicast(packet->from.address))
    return ETH_CLAIM_REFUSED;
  eth_solicited_node(claim->target, group);
  if (is_probe && (mac || !eth_is_same(group, packet->to.address)))
    return ETH_CLAIM_REFUSED;
  claim->has_sender = !is_probe && mac;
  memcpy(claim->sender, packet->from.address, 16);
  claim->asks = true;
  claim->overrides = true;
  memcpy(claim->reply_to, packet->from.address, 16);
  memcpy(claim->reply_mac, mac ? mac : frame->bytes + 6, ETH_MAC_BYTES);
  memcpy(claim->mac, claim->reply_mac, ETH_MAC_BYTES);
  return eth_claim_is_station(claim->mac) ? ETH_CLAIM_TAKEN : ETH_CLAIM_REFUSED;
}

static enum eth_claim_verdict eth_claim_read_advertisement(const struct eth_bytes *frame,
                                                           const struct eth_packet *packet,
                                                           struct eth_claim *claim)
{
  enum { SOLICITED = 0x40, OVERRIDE = 0x20 };
  const uint8_t *nd = frame->bytes + packet->offset, *mac;

  memcpy(claim->sender, nd + 8, 16);
  memcpy(claim->target, nd + 8, 16);
  if (!eth_claim_read_options(nd + 24, packet->length - 24, 2, &mac) ||
      eth_is_multicast(claim->sender) || eth_is_any(claim->sender) ||
      (eth_is_multicast(packet->to.address) && nd[4] & SOLICITED))
    return ETH_CLAIM_REFUSED;
  claim->overrides = nd[4] & OVERRIDE;
  /* An answer to a request by unicast may leave the option out; the frame's source has it then. */
  memcpy(claim->mac, mac ? mac : frame->bytes + 6, ETH_MAC_BYTES);
  claim->has_sender = eth_claim_is_station(claim->mac) && (mac || nd[4] & SOLICITED);
  return ETH_CLAIM_TAKEN;
}

static enum eth_claim_verdict eth_claim_read_nd(const struct eth_bytes *frame,
                                                const struct eth_packet *packet,
                                                struct eth_claim *claim)
{
  const uint8_t *nd = frame->bytes + packet->offset;

  if (nd[0] < ETH_ND_ROUTER_SOLICITATION || nd[0] > ETH_ND_REDIRECT)
    return ETH_CLAIM_NONE;
  if (packet->hop_limit != 255 || nd[1] != 0)
    return ETH_CLAIM_REFUSED;
  if (nd[0] != ETH_ND_SOLICITATION && nd[0] != ETH_ND_ADVERTISEMENT)
    return ETH_CLAIM_IGNORED;
  if (packet->length < 24)
    return ETH_CLAIM_REFUSED;
  return nd[0] == ETH_ND_SOLICITATION ? eth_claim_read_solicitation(frame, packet, claim)
                                      : eth_claim_read_advertisement(frame, packet, claim);
}

enum eth_claim_verdict eth_claim_read(const struct eth_bytes *frame,
                                      const struct eth_packet *packet, struct eth_claim *claim)
{
  *claim = (struct eth_claim){0};
  if (packet->verdict == ETH_IS_ARP)
    return eth_claim_read_arp(frame->bytes + packet->offset, claim);
  return packet->verdict == ETH_IS_ICMPV6 ? eth_claim_read_nd(frame, packet, claim)
                                          : ETH_CLAIM_NONE;
}
