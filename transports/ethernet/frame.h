/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of Ethernet that carry UDP: the headers of those that are sent, and what those are that
 * arrive. No device, no memory of its own, no state.
 *
 * Addresses are struct dg_source: 16 bytes, IPv4 as ::ffff:a.b.c.d, and the port in host order. A
 * frame is as DPDK and AF_PACKET have it: from the destination MAC to the last byte, without
 * preamble and frame check sequence. All lengths are bytes.
 */
#ifndef ETHERNET_FRAME_H
#define ETHERNET_FRAME_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../datagram/flow.h"
#include "checksum.h"

#define ETH_MAC_BYTES 6u
#define ETH_HEADER_MIN 42u /* Ethernet, IPv4, UDP */
#define ETH_HEADER_MAX 66u /* Ethernet, one tag, IPv6, UDP */
#define ETH_FRAME_MIN 60u  /* what is shorter is padded with zeros */
#define ETH_UNTAGGED UINT16_MAX

static inline bool eth_is_v4(const uint8_t address[16])
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

  return memcmp(address, mapped, sizeof(mapped)) == 0;
}

static inline bool eth_is_multicast(const uint8_t address[16])
{
  return eth_is_v4(address) ? address[12] >> 4 == 0xe : address[0] == 0xff;
}

/* ---- Sending ------------------------------------------------------------------------------ */

/* Where the checksums of sent frames are computed. */
enum eth_checksum {
  ETH_CHECKSUM_SOFTWARE = 0, /* the CPU: the frame is complete */
  /* The device: IPv4's is 0, UDP's is the folded sum of the pseudo-header, length included, as
   * RTE_MBUF_F_TX_IP_CKSUM, RTE_MBUF_F_TX_UDP_CKSUM and virtio want them. */
  ETH_CHECKSUM_OFFLOAD = 1,
  ETH_CHECKSUM_NONE = 2, /* UDP over IPv4 alone: 0 */
};

struct eth_template_params {
  uint8_t mac_to[ETH_MAC_BYTES];
  uint8_t mac_from[ETH_MAC_BYTES];
  /* The tag (802.1Q): priority in the upper 3 bits, identifier in the lower 12; ETH_UNTAGGED: no
   * tag. */
  uint16_t vlan;
  struct dg_source from, to; /* both IPv4 or both IPv6 */
  uint8_t hop_limit;         /* from 1 */
  uint8_t traffic_class;     /* DSCP in the upper 6 bits */
  uint8_t ip_checksum;       /* enum eth_checksum, not NONE; without meaning for IPv6 */
  uint8_t udp_checksum;      /* enum eth_checksum */
  bool may_fragment;         /* IPv4: routers may; else its flag "don't fragment" is set */
};

/* Headers of one sender, ready but for what differs from message to message. Only
 * eth_template_make() and eth_template_mac() write them. */
struct eth_template {
  uint8_t bytes[ETH_HEADER_MAX];
  uint8_t length;       /* of all headers: 42, 46, 62 or 66 */
  uint8_t ip_at;        /* 14 or 18: DPDK's l2_len */
  uint8_t udp_at;       /* ip_at + 20 or 40: DPDK's l2_len + l3_len */
  uint8_t udp_checksum; /* enum eth_checksum */
  bool is_v4;
  bool sums_ip;
  uint64_t ip_sum;  /* of the IPv4 header with length, identifier and checksum 0 */
  uint64_t udp_sum; /* of the pseudo-header with length 0 */
};

/* 0; -EINVAL: addresses of two families, a multicast source (MAC or IP), hop_limit 0, the reserved
 * VLAN 4095, or a checksum NONE that IP does not allow. A caller checks its options before, to say
 * in words which it was. *made is untouched then. */
int eth_template_make(const struct eth_template_params *params, struct eth_template *made);

/* Another MAC of the next hop, for the messages that follow. */
static inline void eth_template_mac(struct eth_template *template,
                                    const uint8_t mac_to[ETH_MAC_BYTES])
{
  memcpy(template->bytes, mac_to, ETH_MAC_BYTES);
}

/* Bytes behind the UDP header that one frame can have, where the device's MTU (without Ethernet
 * header and tag) is so large. */
static inline uint32_t eth_payload_max(const struct eth_template *template, uint32_t mtu)
{
  const uint32_t headers = (uint32_t) template->length - template->ip_at;
  const uint32_t most = template->is_v4 ? 65535u - headers : 65535u - 8u;

  if (mtu <= headers)
    return 0;
  return mtu - headers < most ? mtu - headers : most;
}

/* Zeros that follow a frame of `length` bytes, where the device does not add them itself. */
static inline uint32_t eth_padding(uint32_t length)
{
  return length < ETH_FRAME_MIN ? ETH_FRAME_MIN - length : 0;
}

static inline void eth_put16(uint8_t *at, uint32_t value)
{
  const uint8_t bytes[2] = {(uint8_t)(value >> 8), (uint8_t)value};

  memcpy(at, bytes, 2);
}

static inline uint32_t eth_get16(const uint8_t *at)
{
  return (uint32_t)at[0] << 8 | at[1];
}

/* The word of a number, as it lies in memory. */
static inline uint16_t eth_word(uint32_t value)
{
  uint16_t word;

  eth_put16((uint8_t *)&word, value);
  return word;
}

/* 42 to 66 bytes, in copies of fixed size that overlap. */
static inline void eth_template_copy(uint8_t *to, const struct eth_template *template)
{
  const uint32_t length = template->length;

  memcpy(to, template->bytes, 32);
  memcpy(to + length / 2 - 8, template->bytes + length / 2 - 8, 16);
  memcpy(to + length - 32, template->bytes + length - 32, 32);
}

/*
 * Write the headers of one message: exactly template->length bytes at `to`, at any address.
 * `payload` is what follows the UDP header, header of the framing included: eth_payload_max() at
 * most. `identifier` is IPv4's (without fragmentation any number will do: RFC 6864). `payload_sum`
 * is eth_sum() of all of the payload; it is read with udp_checksum SOFTWARE alone.
 */
static inline void eth_template_write(const struct eth_template *template, uint8_t *to,
                                      uint32_t payload, uint16_t identifier, uint64_t payload_sum)
{
  const uint32_t datagram = payload + 8, length = template->udp_at - template->ip_at + datagram;
  uint8_t *ip = to + template->ip_at, *udp = to + template->udp_at;
  const uint64_t sum = template->udp_sum + eth_word(datagram); /* the length in the pseudo-header */
  uint16_t made;

  eth_template_copy(to, template);
  if (template->is_v4) {
    eth_put16(ip + 2, length);
    eth_put16(ip + 4, identifier);
    if (template->sums_ip) {
      made = eth_sum_complement(template->ip_sum + eth_word(length) + eth_word(identifier));
      memcpy(ip + 10, &made, 2);
    }
  } else {
    eth_put16(ip + 4, datagram);
  }
  eth_put16(udp + 4, datagram);
  if (template->udp_checksum == ETH_CHECKSUM_NONE)
    return;
  if (template->udp_checksum == ETH_CHECKSUM_SOFTWARE) {
    uint16_t ports[2];
    memcpy(ports, udp, sizeof(ports));
    made = eth_sum_udp(sum + ports[0] + ports[1] + eth_word(datagram) + payload_sum);
  } else {
    made = eth_sum_fold(sum);
  }
  memcpy(udp + 6, &made, 2);
}

/* ---- Receiving ---------------------------------------------------------------------------- */

/* A frame as it lies. Behind a split, or in the first segment of several, fewer bytes are readable
 * than there are; nothing beyond `readable` is touched. readable <= total. */
struct eth_bytes {
  const uint8_t *bytes;
  uint32_t readable;
  uint32_t total;
};

/* Facts about a frame's checksums that the caller knows: bits. */
enum eth_known {
  ETH_IP_IS_GOOD = 1u << 0, /* the device has found it right: it is not computed again */
  ETH_UDP_IS_GOOD =
      1u << 1, /* the device has found it right; ICMPv6's and IGMP's are always computed */
  /* The device has found it wrong. It is computed again where all is readable, since devices call
   * UDP's 0 wrong, too. */
  ETH_UDP_IS_BAD = 1u << 2,
  /* A virtual link: a sender on this host leaves UDP's checksum to a device that the frame never
   * meets (CHECKSUM_PARTIAL), so that it is the pseudo-header's alone. Such a frame is taken. */
  ETH_PARTIAL_IS_GOOD = 1u << 3,
};

/* Kinds of frames. The first four are whole, and their checksums are right as far as `sum` says. */
enum eth_verdict {
  ETH_IS_UDP = 0,
  ETH_IS_ARP,    /* an EtherType: whether it is one that can be meant says neighbour.h */
  ETH_IS_ICMPV6, /* for neighbour.h and multicast.h */
  ETH_IS_IGMP,   /* for multicast.h */
  /* Whole as far as it was read, but none of ours: */
  ETH_IS_OTHER,    /* another EtherType, protocol or next header (ESP among them); 802.3's length */
  ETH_IS_STACKED,  /* a second tag, or one of 802.1ad; the one tag there may be is 0x8100 */
  ETH_IS_FRAGMENT, /* of IPv4 or IPv6; an atomic one (RFC 6946) is none */
  ETH_IS_ROUTED,   /* IPv6: a routing header with segments left */
  /* Damaged: */
  ETH_TRUNCATED,    /* fewer bytes than its headers need, or the IP length says */
  ETH_BAD_HEADER,   /* a version or header length that cannot be, a jumbogram, options that overrun,
                       more than eight extension headers */
  ETH_BAD_LENGTH,   /* UDP's is less than its header, or more than IP has */
  ETH_BAD_CHECKSUM, /* of IPv4, UDP, ICMPv6 or IGMP; UDP over IPv6 without one (RFC 8200, 8.1) */
  /* Headers, or an ICMPv6 or IGMP message, reach beyond `readable`: */
  ETH_UNREADABLE,
  ETH_VERDICTS,
};

/* States of a UDP checksum. */
enum eth_sum_state {
  ETH_SUM_GOOD = 0,
  ETH_SUM_ABSENT,    /* 0, over IPv4 */
  ETH_SUM_PARTIAL,   /* the pseudo-header's alone: ETH_PARTIAL_IS_GOOD */
  ETH_SUM_UNCHECKED, /* the payload is not readable, and the device says nothing */
};

struct eth_packet {
  uint8_t verdict; /* enum eth_verdict */
  uint8_t sum;     /* IS_UDP: enum eth_sum_state */
  uint8_t hop_limit;
  uint8_t traffic_class;
  uint16_t vlan;   /* the tag; ETH_UNTAGGED: none in the frame (a device may have taken it off) */
  uint8_t ip_at;   /* of the IP header in the frame */
  bool has_alert;  /* ICMPv6, IGMP: the option Router Alert is there */
  uint32_t offset; /* in the frame: of UDP's payload, ARP's packet, the ICMPv6 or IGMP message */
  uint32_t length; /* of that; bytes behind are padding, or UDP options, and no part of it */
  struct dg_source from, to; /* ports: IS_UDP alone */
};

/* Identifier of the tag; 0: none, or one of priority alone. Compare it with the port's. */
static inline uint32_t eth_packet_vlan(const struct eth_packet *packet)
{
  return packet->vlan == ETH_UNTAGGED ? 0 : packet->vlan & 0xfffu;
}

/*
 * Parses a frame. Returns packet->verdict. Beyond the first four verdicts, only verdict and vlan
 * of *packet are valid; for a first fragment, BAD_LENGTH and BAD_CHECKSUM addresses, too. The MACs
 * are the first 12 bytes: the caller checks whether the frame is for this port. A UDP checksum is
 * computed where `known` says nothing and all of the datagram is readable.
 */
enum eth_verdict eth_parse(const struct eth_bytes *frame, uint32_t known,
                           struct eth_packet *packet);

/* Result of eth_parse(), kept for the next frame with the same headers: over IPv4 without options
 * and tag, all but lengths, identifier and checksums. Begins as zeros. */
struct eth_header_cache {
  struct eth_packet packet;
  uint64_t words[5];
  uint64_t ip_sum; /* of the IPv4 header without what may differ */
  bool is_there;
};

/* eth_parse() of all frames, into seen->packet: with less work where it is as the one before.
 * *is_same: MACs, addresses, ports and fragment bits are, and both are ETH_IS_UDP. */
enum eth_verdict eth_parse_next(const struct eth_bytes *frame, uint32_t known,
                                struct eth_header_cache *seen, bool *is_same);

/* ---- MACs --------------------------------------------------------------------------------- */

/* The MAC of a multicast address: RFC 1112, section 6.4, and RFC 2464, section 7. Several addresses
 * have the same one, so that frames that arrive for it are not yet the group's. */
void eth_multicast_mac(const uint8_t address[16], uint8_t mac[ETH_MAC_BYTES]);
/* fe80::/64 with the modified EUI-64 of the MAC (RFC 2464, section 4; RFC 4291, appendix A). */
void eth_link_local(const uint8_t mac[ETH_MAC_BYTES], uint8_t address[16]);
/* ff02::1:ffXX:XXXX of an address (RFC 4291, section 2.7.1). */
void eth_solicited_node(const uint8_t address[16], uint8_t group[16]);

#endif
