/* SPDX-License-Identifier: Apache-2.0 */
/* Parses frames that have arrived. */
#include "header_cache.h"
#include "layout.h"

#define EXTENSIONS_MAX 8u /* headers between IPv6's and UDP's */

/* One frame, as far as it is read. Offsets count from its first byte. */
struct reading {
  const uint8_t *bytes;
  uint32_t readable;
  uint32_t total;
  uint32_t end;    /* of the IP packet */
  uint32_t known;  /* enum eth_known */
  uint64_t pseudo; /* addresses of the pseudo-header */
  bool is_v4;
  struct eth_packet *packet;
};

/* Is it there, and may it be touched? */
static inline enum eth_verdict eth_parse_reach(const struct reading *r, uint32_t end)
{
  if (end > r->total)
    return ETH_TRUNCATED;
  return end > r->readable ? ETH_UNREADABLE : ETH_IS_UDP;
}

static inline void eth_parse_take_v4(const uint8_t *at, struct dg_source *to)
{
  static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

  memcpy(to->address, mapped, 12);
  memcpy(to->address + 12, at, 4);
  to->port = 0;
}

static inline void eth_parse_take_v6(const uint8_t *at, struct dg_source *to)
{
  memcpy(to->address, at, 16);
  to->port = 0;
}

/* The pseudo-header's sum, for a message of `length` bytes. */
static inline uint64_t eth_parse_pseudo_sum(const struct reading *r, uint32_t next, uint32_t length)
{
  return r->pseudo + eth_word(next) + eth_word(length);
}

/* Checks a UDP checksum that is not 0. */
static enum eth_verdict eth_parse_check_udp(const struct reading *r, uint32_t at, uint32_t length)
{
  const uint64_t pseudo = eth_parse_pseudo_sum(r, ETH_NEXT_UDP, length);
  const bool is_readable = at + length <= r->readable;
  uint16_t carried;

  memcpy(&carried, r->bytes + at + 6, 2);
  r->packet->sum = is_readable ? ETH_SUM_GOOD : ETH_SUM_UNCHECKED;
  if (is_readable && eth_sum_fold(eth_sum(r->bytes + at, length, pseudo)) == UINT16_MAX)
    return ETH_IS_UDP;
  if (r->known & ETH_PARTIAL_IS_GOOD && carried == eth_sum_fold(pseudo)) {
    r->packet->sum = ETH_SUM_PARTIAL;
    return ETH_IS_UDP;
  }
  return is_readable || r->known & ETH_UDP_IS_BAD ? ETH_BAD_CHECKSUM : ETH_IS_UDP;
}

static inline enum eth_verdict eth_parse_read_udp(struct reading *r, uint32_t at)
{
  const uint8_t *udp = r->bytes + at;
  enum eth_verdict verdict;

  if (r->end - at < ETH_UDP_BYTES)
    return ETH_BAD_LENGTH;
  if ((verdict = eth_parse_reach(r, at + ETH_UDP_BYTES)) != ETH_IS_UDP)
    return verdict;
  const uint32_t length = eth_get16(udp + 4);
  r->packet->from.port = (uint16_t)eth_get16(udp);
  r->packet->to.port = (uint16_t)eth_get16(udp + 2);
  if (length < ETH_UDP_BYTES || length > r->end - at)
    return ETH_BAD_LENGTH;
  r->packet->offset = at + ETH_UDP_BYTES;
  r->packet->length = length - ETH_UDP_BYTES;
  if (!(udp[6] | udp[7])) {
    r->packet->sum = ETH_SUM_ABSENT;
    return r->is_v4 ? ETH_IS_UDP : ETH_BAD_CHECKSUM;
  }
  if (r->known & ETH_UDP_IS_GOOD)
    return ETH_IS_UDP;
  return eth_parse_check_udp(r, at, length);
}

/* A message of ICMPv6 or IGMP is small, and read as a whole. */
static enum eth_verdict eth_parse_read_control(struct reading *r, uint32_t at, uint32_t least,
                                               uint64_t sum, enum eth_verdict is)
{
  const uint32_t length = r->end - at;
  enum eth_verdict verdict;

  if (length < least)
    return ETH_BAD_LENGTH;
  if ((verdict = eth_parse_reach(r, r->end)) != ETH_IS_UDP)
    return verdict;
  if (eth_sum_fold(eth_sum(r->bytes + at, length, sum)) != UINT16_MAX)
    return ETH_BAD_CHECKSUM;
  r->packet->offset = at;
  r->packet->length = length;
  return is;
}

/* IPv4's options: they fit, and none routes the packet further. */
static enum eth_verdict eth_parse_read_v4_options(struct reading *r, uint32_t at, uint32_t end)
{
  while (at < end && r->bytes[at] != 0) {
    const uint8_t *option = r->bytes + at;
    uint32_t length = 1;
    if (option[0] != 1) {
      if (end - at < 2 || option[1] < 2 || option[1] > end - at)
        return ETH_BAD_HEADER;
      length = option[1];
    }
    if (option[0] == ETH_V4_ROUTER_ALERT && length == 4)
      r->packet->has_alert = true;
    if ((option[0] == ETH_V4_LOOSE_ROUTE || option[0] == ETH_V4_STRICT_ROUTE) && length > 3 &&
        option[2] <= length)
      return ETH_IS_ROUTED;
    at += length;
  }
  return ETH_IS_UDP;
}

static inline uint64_t eth_parse_sum_v4(const uint8_t *ip, uint32_t header)
{
  const uint64_t sum = eth_sum_words(ip, ETH_V4_BYTES);

  return header == ETH_V4_BYTES ? sum : eth_sum(ip + ETH_V4_BYTES, header - ETH_V4_BYTES, sum);
}

static inline enum eth_verdict eth_parse_read_v4_header(struct reading *r, uint32_t at,
                                                        uint32_t *next)
{
  const uint8_t *ip = r->bytes + at;
  enum eth_verdict verdict = eth_parse_reach(r, at + ETH_V4_BYTES);

  if (verdict != ETH_IS_UDP)
    return verdict;
  const uint32_t header = (ip[0] & 15u) * 4;
  if (ip[0] >> 4 != 4 || header < ETH_V4_BYTES)
    return ETH_BAD_HEADER;
  if ((verdict = eth_parse_reach(r, at + header)) != ETH_IS_UDP)
    return verdict;
  if (!(r->known & ETH_IP_IS_GOOD) && eth_sum_fold(eth_parse_sum_v4(ip, header)) != UINT16_MAX)
    return ETH_BAD_CHECKSUM;
  const uint32_t length = eth_get16(ip + 2);
  if (length < header)
    return ETH_BAD_HEADER;
  if (at + length > r->total)
    return ETH_TRUNCATED;
  r->end = at + length;
  *next = at + header;
  return header > ETH_V4_BYTES ? eth_parse_read_v4_options(r, at + ETH_V4_BYTES, at + header)
                               : ETH_IS_UDP;
}

static inline enum eth_verdict eth_parse_read_v4(struct reading *r, uint32_t at)
{
  const uint8_t *ip = r->bytes + at;
  uint32_t next = 0;
  const enum eth_verdict verdict = eth_parse_read_v4_header(r, at, &next);

  if (verdict != ETH_IS_UDP)
    return verdict;
  r->is_v4 = true;
  r->packet->traffic_class = ip[1];
  r->packet->hop_limit = ip[8];
  eth_parse_take_v4(ip + 12, &r->packet->from);
  eth_parse_take_v4(ip + 16, &r->packet->to);
  if (eth_get16(ip + 6) & ETH_V4_FRAGMENT_MASK)
    return ETH_IS_FRAGMENT;
  if (ip[9] == ETH_NEXT_UDP) {
    r->pseudo = eth_sum_words(ip + 12, 8);
    return eth_parse_read_udp(r, next);
  }
  return ip[9] == ETH_NEXT_IGMP ? eth_parse_read_control(r, next, 8, 0, ETH_IS_IGMP) : ETH_IS_OTHER;
}

/* Options of IPv6: those that are not known say by two bits whether they may be passed over. */
static enum eth_verdict eth_parse_read_v6_options(struct reading *r, uint32_t at, uint32_t end)
{
  while (at < end) {
    const uint8_t *option = r->bytes + at;
    if (option[0] == 0) {
      at++;
      continue;
    }
    if (end - at < 2 || option[1] > end - at - 2)
      return ETH_BAD_HEADER;
    if (option[0] == ETH_V6_JUMBO)
      return ETH_BAD_HEADER;
    if (option[0] >> 6)
      return ETH_IS_OTHER;
    if (option[0] == ETH_V6_ROUTER_ALERT && option[1] == 2)
      r->packet->has_alert = true;
    at += 2 + option[1];
  }
  return ETH_IS_UDP;
}

static bool eth_parse_is_extension(uint32_t next)
{
  return next == ETH_NEXT_HOP_OPTIONS || next == ETH_NEXT_OPTIONS || next == ETH_NEXT_ROUTING ||
         next == ETH_NEXT_FRAGMENT;
}

/* One extension header: *at and *next go on behind it. */
static enum eth_verdict eth_parse_read_extension(struct reading *r, uint32_t *at, uint32_t *next)
{
  const uint8_t *header = r->bytes + *at;
  enum eth_verdict verdict = ETH_IS_UDP;

  if (r->end - *at < 8)
    return ETH_BAD_HEADER;
  if ((verdict = eth_parse_reach(r, *at + 8)) != ETH_IS_UDP)
    return verdict;
  const uint32_t length = *next == ETH_NEXT_FRAGMENT ? 8 : (header[1] + 1u) * 8;
  if (length > r->end - *at)
    return ETH_BAD_HEADER;
  if ((verdict = eth_parse_reach(r, *at + length)) != ETH_IS_UDP)
    return verdict;
  if (*next == ETH_NEXT_FRAGMENT && eth_get16(header + 2) & 0xfff9)
    return ETH_IS_FRAGMENT;
  if (*next == ETH_NEXT_ROUTING && header[3])
    return ETH_IS_ROUTED;
  if (*next == ETH_NEXT_HOP_OPTIONS || *next == ETH_NEXT_OPTIONS)
    verdict = eth_parse_read_v6_options(r, *at + 2, *at + length);
  *next = header[0];
  *at += length;
  return verdict;
}

static enum eth_verdict eth_parse_read_extensions(struct reading *r, uint32_t *at, uint32_t *next)
{
  for (uint32_t i = 0; eth_parse_is_extension(*next); i++) {
    if (i == EXTENSIONS_MAX || (*next == ETH_NEXT_HOP_OPTIONS && i > 0))
      return ETH_BAD_HEADER;
    const enum eth_verdict verdict = eth_parse_read_extension(r, at, next);
    if (verdict != ETH_IS_UDP)
      return verdict;
  }
  return ETH_IS_UDP;
}

static inline enum eth_verdict eth_parse_read_v6(struct reading *r, uint32_t at)
{
  const uint8_t *ip = r->bytes + at;
  enum eth_verdict verdict = eth_parse_reach(r, at + ETH_V6_BYTES);

  if (verdict != ETH_IS_UDP)
    return verdict;
  if (ip[0] >> 4 != 6)
    return ETH_BAD_HEADER;
  r->packet->traffic_class = (uint8_t)(ip[0] << 4 | ip[1] >> 4);
  r->packet->hop_limit = ip[7];
  eth_parse_take_v6(ip + 8, &r->packet->from);
  eth_parse_take_v6(ip + 24, &r->packet->to);
  r->end = at + ETH_V6_BYTES + eth_get16(ip + 4);
  if (r->end > r->total)
    return ETH_TRUNCATED;
  uint32_t next = ip[6];
  at += ETH_V6_BYTES;
  if (next != ETH_NEXT_UDP && (verdict = eth_parse_read_extensions(r, &at, &next)) != ETH_IS_UDP)
    return verdict;
  if (next != ETH_NEXT_UDP && next != ETH_NEXT_ICMPV6)
    return ETH_IS_OTHER;
  r->pseudo = eth_sum_words(ip + 8, 32);
  if (next == ETH_NEXT_UDP)
    return eth_parse_read_udp(r, at);
  return eth_parse_read_control(r, at, 4, eth_parse_pseudo_sum(r, ETH_NEXT_ICMPV6, r->end - at),
                                ETH_IS_ICMPV6);
}

static inline bool eth_parse_is_tag(uint32_t type)
{
  return type == ETH_TYPE_VLAN || type == ETH_TYPE_SERVICE || type == ETH_TYPE_QINQ;
}

/* ARP's header of fixed size, for Ethernet and IPv4. */
static enum eth_verdict eth_parse_read_arp(struct reading *r, uint32_t at)
{
  const enum eth_verdict verdict = eth_parse_reach(r, at + ETH_ARP_BYTES);

  if (verdict != ETH_IS_UDP)
    return verdict;
  r->packet->offset = at;
  r->packet->length = ETH_ARP_BYTES;
  return ETH_IS_ARP;
}

static inline enum eth_verdict eth_parse_read_ethernet(struct reading *r)
{
  uint32_t at = 14;
  enum eth_verdict verdict = eth_parse_reach(r, at);

  if (verdict != ETH_IS_UDP)
    return verdict;
  uint32_t type = eth_get16(r->bytes + 12);
  if (type == ETH_TYPE_VLAN) {
    if ((verdict = eth_parse_reach(r, at + 4)) != ETH_IS_UDP)
      return verdict;
    r->packet->vlan = (uint16_t)eth_get16(r->bytes + 14);
    type = eth_get16(r->bytes + 16);
    at += 4;
  }
  r->packet->ip_at = (uint8_t)at;
  if (type == ETH_TYPE_V4)
    return eth_parse_read_v4(r, at);
  if (type == ETH_TYPE_V6)
    return eth_parse_read_v6(r, at);
  if (type == ETH_TYPE_ARP)
    return eth_parse_read_arp(r, at);
  return eth_parse_is_tag(type) ? ETH_IS_STACKED : ETH_IS_OTHER;
}

enum eth_verdict eth_parse(const struct eth_bytes *frame, uint32_t known, struct eth_packet *packet)
{
  struct reading r = {.bytes = frame->bytes,
                      .readable = frame->readable,
                      .total = frame->total,
                      .known = known,
                      .packet = packet};

  *packet = (struct eth_packet){.vlan = ETH_UNTAGGED};
  const enum eth_verdict verdict = eth_parse_read_ethernet(&r);
  packet->verdict = (uint8_t)verdict;
  return verdict;
}

/* ---- One like the last ------------------------------------------------------------------------
 */

static void eth_parse_note_seen(const struct eth_bytes *frame, struct eth_header_cache *seen)
{
  uint8_t ip[ETH_V4_BYTES];

  seen->is_there = seen->packet.verdict == ETH_IS_UDP && seen->packet.offset == ETH_HEADER_MIN &&
                   eth_get16(frame->bytes + 12) == ETH_TYPE_V4;
  if (!seen->is_there)
    return;
  eth_header_cache_words(frame->bytes, seen->words);
  memcpy(ip, frame->bytes + 14, sizeof(ip));
  memset(ip + 2, 0, 4);
  memset(ip + 10, 0, 2);
  seen->ip_sum = eth_sum_words(ip, sizeof(ip));
}

enum eth_verdict eth_parse_next(const struct eth_bytes *frame, uint32_t known,
                                struct eth_header_cache *seen, bool *is_same)
{
  *is_same = eth_header_cache_is_same(frame, known, seen);
  if (!*is_same) {
    enum eth_verdict verdict = eth_parse(frame, known, &seen->packet);
    eth_parse_note_seen(frame, seen);
    return verdict;
  }
  struct reading r = {.bytes = frame->bytes,
                      .readable = frame->readable,
                      .total = frame->total,
                      .end = 14 + eth_get16(frame->bytes + 16),
                      .known = known,
                      .is_v4 = true,
                      .packet = &seen->packet};
  r.pseudo = eth_sum_words(frame->bytes + 26, 8);
  seen->packet.sum = ETH_SUM_GOOD;
  const enum eth_verdict verdict = eth_parse_read_udp(&r, 34);
  seen->packet.verdict = (uint8_t)verdict;
  if (verdict != ETH_IS_UDP)
    seen->is_there = *is_same = false;
  return verdict;
}
