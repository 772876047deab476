/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames as a port gets them, each at the end of memory behind which nothing may be touched:
 * parsed, and handed to what speaks ARP, Neighbor Discovery, IGMP and MLD. An input is frames, each
 * behind a byte of circumstances, one of length, one of what is readable and one of the time that
 * passes.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ethernet/header_cache.h"
#include "ethernet/layout.h"
#include "ethernet/multicast.h"
#include "ethernet/neighbour.h"
#include "require.h"

/* Bits of the byte before a frame. */
enum {
  IS_MENDED = 1, /* its checksums are made right */
  IS_CUT = 2,    /* only a part of it is there */
  IS_SPLIT = 4,  /* only a part of it is readable */
  KNOWN = 8,     /* the lowest of four bits of enum eth_known */
  WAITS = 128,   /* seconds pass, not milliseconds */
};

#define ROOM 512u
#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)
/* The most that both can have to say of one frame, all groups and neighbours at once. */
#define SAID_MAX 400u

struct port {
  struct eth_neighbours *neighbours;
  struct eth_groups *groups;
  uint32_t asked[3];
  uint64_t now_ns;
  struct eth_header_cache seen; /* of the frame before */
};

static uint8_t *wall; /* behind the memory of frames */
static uint64_t frames, split_frames, next_frames;

static const uint8_t mac[ETH_MAC_BYTES] = {2, 0, 0, 0, 0, 0xa};
#define V4(last)                                                                                   \
  {                                                                                                \
    [10] = 0xff, 0xff, 10, 0, 0, last                                                              \
  }
#define V6(last)                                                                                   \
  {                                                                                                \
    0xfd, [15] = last                                                                              \
  }
static const uint8_t own[2][16] = {V4(1), V6(1)},
                     peers[3][16] = {V4(2), V6(2), {0xfe, 0x80, [15] = 2}},
                     groups[4][16] = {{[10] = 0xff, 0xff, 239, 1, 2, 3},
                                      {[10] = 0xff, 0xff, 232, 1, 2, 3},
                                      {0xff, 0x0e, [15] = 1},
                                      {0xff, 0x35, [15] = 1}};

static void tell_frames(void)
{
  fprintf(stderr, "stat::frames: %lu, %lu of them split, %lu like the one before\n", frames,
          split_frames, next_frames);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  uint8_t *area = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

  (void)argc, (void)argv;
  REQUIRE(area != MAP_FAILED && page >= ROOM);
  wall = area + page;
  REQUIRE(mprotect(wall, page, PROT_NONE) == 0);
  return atexit(tell_frames);
}

/* ---- Frames ------------------------------------------------------------------------------- */

static uint16_t plain_sum(const uint8_t *bytes, uint32_t length, uint32_t sum)
{
  for (uint32_t i = 0; i < length; i++)
    sum += i % 2 ? bytes[i] : (uint32_t)bytes[i] << 8;
  while (sum >> 16)
    sum = (sum & 0xffff) + (sum >> 16);
  return (uint16_t)sum;
}

/* Offset of the checksum in the payload of this IP protocol; 0: it has none that is known here. */
static uint32_t field_of(uint32_t next)
{
  return next == ETH_NEXT_UDP ? 6 : next == ETH_NEXT_ICMPV6 || next == ETH_NEXT_IGMP ? 2 : 0;
}

static void mend_message(uint8_t *bytes, uint32_t length, uint32_t next, uint32_t pseudo)
{
  const uint32_t field = field_of(next);

  if (!field || length < field + 2 || (next == ETH_NEXT_UDP && eth_get16(bytes + 4) > length))
    return;
  if (next == ETH_NEXT_UDP)
    length = eth_get16(bytes + 4);
  if (length < field + 2)
    return;
  eth_put16(bytes + field, 0);
  const uint16_t sum = (uint16_t)~plain_sum(bytes, length, pseudo + length);
  eth_put16(bytes + field, sum || next != ETH_NEXT_UDP ? sum : 0xffff);
}

static void mend_v4(uint8_t *ip, uint32_t left)
{
  const uint32_t header = (ip[0] & 15u) * 4, total = eth_get16(ip + 2);

  if (header < 20 || header > left || total < header || total > left)
    return;
  eth_put16(ip + 10, 0);
  eth_put16(ip + 10, (uint16_t)~plain_sum(ip, header, 0));
  if (ip[9] == ETH_NEXT_IGMP)
    mend_message(ip + header, total - header, ETH_NEXT_IGMP, 0u - (total - header));
  else if (ip[9] == ETH_NEXT_UDP)
    mend_message(ip + header, total - header, ETH_NEXT_UDP, plain_sum(ip + 12, 8, ETH_NEXT_UDP));
}

/* Behind one header of options at most. */
static void mend_v6(uint8_t *ip, uint32_t left)
{
  uint32_t at = 40, next = ip[6];

  if (left < 40 || 40 + eth_get16(ip + 4) > left)
    return;
  left = 40 + eth_get16(ip + 4);
  if (next == ETH_NEXT_HOP_OPTIONS && left >= 48) {
    next = ip[40];
    at += (ip[41] + 1u) * 8;
  }
  if (at < left)
    mend_message(ip + at, left - at, next, plain_sum(ip + 8, 32, next));
}

static void mend(uint8_t *bytes, uint32_t length)
{
  uint32_t at = 14;

  if (length < 38)
    return;
  if (eth_get16(bytes + 12) == ETH_TYPE_VLAN)
    at = 18;
  if (eth_get16(bytes + at - 2) == ETH_TYPE_V4)
    mend_v4(bytes + at, length - at);
  else if (eth_get16(bytes + at - 2) == ETH_TYPE_V6)
    mend_v6(bytes + at, length - at);
}

/* ---- Invariants --------------------------------------------------------------------------- */

static void check_udp(const struct eth_bytes *frame, uint32_t known,
                      const struct eth_packet *packet)
{
  const bool is_v4 = eth_is_v4(packet->from.address);
  const uint32_t at = packet->offset - 8, length = packet->length + 8;

  REQUIRE(packet->offset <= frame->readable && packet->length <= frame->total - packet->offset);
  REQUIRE(packet->from.port == eth_get16(frame->bytes + at));
  REQUIRE(packet->sum != ETH_SUM_ABSENT || is_v4);
  REQUIRE(packet->sum != ETH_SUM_PARTIAL || known & ETH_PARTIAL_IS_GOOD);
  REQUIRE(packet->sum != ETH_SUM_UNCHECKED || at + length > frame->readable);
  if (packet->sum != ETH_SUM_GOOD || known & ETH_UDP_IS_GOOD)
    return;
  const uint8_t *ip = frame->bytes + packet->ip_at;
  const uint32_t pseudo = plain_sum(ip + (is_v4 ? 12 : 8), is_v4 ? 8 : 32, ETH_NEXT_UDP + length);
  REQUIRE(plain_sum(frame->bytes + at, length, pseudo) == 0xffff);
}

/* A frame of which less is readable has the verdict of the whole one, or none. */
static void check_whole(const uint8_t *bytes, uint32_t total, uint32_t known,
                        enum eth_verdict of_split, const struct eth_packet *split)
{
  const struct eth_bytes frame = {bytes, total, total};
  struct eth_packet packet;
  const enum eth_verdict verdict = eth_parse(&frame, known, &packet);

  REQUIRE(verdict != ETH_UNREADABLE);
  if (of_split == ETH_IS_UDP && split->sum == ETH_SUM_UNCHECKED)
    REQUIRE(verdict == ETH_IS_UDP || verdict == ETH_BAD_CHECKSUM);
  else if (of_split != ETH_UNREADABLE && !(known & ETH_UDP_IS_BAD))
    REQUIRE(verdict == of_split && packet.offset == split->offset);
}

/* After whatever frame it comes. */
static void check_next(const struct eth_bytes *frame, uint32_t known, struct eth_header_cache *seen,
                       const struct eth_packet *alone)
{
  const struct eth_packet *next = &seen->packet;
  uint32_t length = 0;
  bool is_same, is_next = eth_header_cache_is_next(frame, known, seen, &length);

  next_frames += is_next;
  if (is_next)
    REQUIRE(alone->verdict == ETH_IS_UDP && alone->offset == ETH_HEADER_MIN &&
            alone->length == length && alone->sum != ETH_SUM_PARTIAL &&
            memcmp(&next->from, &alone->from, sizeof(next->from)) == 0 &&
            memcmp(&next->to, &alone->to, sizeof(next->to)) == 0);
  REQUIRE(eth_parse_next(frame, known, seen, &is_same) == (enum eth_verdict)alone->verdict);
  if (alone->verdict == ETH_IS_UDP)
    REQUIRE(next->offset == alone->offset && next->length == alone->length &&
            next->sum == alone->sum && next->vlan == alone->vlan &&
            next->hop_limit == alone->hop_limit && next->traffic_class == alone->traffic_class &&
            memcmp(&next->from, &alone->from, sizeof(next->from)) == 0 &&
            memcmp(&next->to, &alone->to, sizeof(next->to)) == 0);
}

/* One that has the same headers but for what may differ: lengths, identifier and checksums. */
static void check_like(const uint8_t *bytes, uint32_t length, uint32_t readable, uint32_t known,
                       uint32_t how, struct eth_header_cache *seen)
{
  uint8_t like[ROOM];
  struct eth_bytes frame = {wall - readable, readable, length};
  struct eth_packet packet;

  if (length < ETH_HEADER_MIN)
    return;
  memcpy(like, bytes, length);
  like[17] = (uint8_t)(like[17] + (how & 3) - (how >> 2 & 1));
  like[19] = (uint8_t)how;
  like[39] = (uint8_t)(like[39] + (how >> 3 & 3) - (how >> 5 & 1));
  if (how & 128)
    mend(like, length);
  if (how & 64) /* no checksum of UDP */
    memset(like + 40, 0, 2);
  memcpy(wall - readable, like, readable);
  eth_parse(&frame, known, &packet);
  check_next(&frame, known, seen, &packet);
}

static void check_said(const uint8_t *bytes, uint32_t length)
{
  const struct eth_bytes frame = {bytes, length, length};
  struct eth_packet packet;
  const enum eth_verdict verdict = eth_parse(&frame, 0, &packet);

  REQUIRE(length <= ETH_CONTROL_MAX);
  REQUIRE(verdict == ETH_IS_ARP || verdict == ETH_IS_ICMPV6 || verdict == ETH_IS_IGMP);
  REQUIRE(memcmp(bytes + 6, mac, ETH_MAC_BYTES) == 0);
}

/* All that is due is said, and then nothing is. */
static void listen_to(struct port *port)
{
  uint8_t said[ETH_CONTROL_MAX], found[ETH_MAC_BYTES];
  struct eth_neighbour_event event;
  uint32_t count = 0, length;

  while ((length = eth_neighbours_next(port->neighbours, port->now_ns, said)) ||
         (length = eth_groups_next(port->groups, port->now_ns, said))) {
    check_said(said, length);
    REQUIRE(++count <= SAID_MAX);
  }
  REQUIRE(eth_neighbours_due(port->neighbours) > port->now_ns);
  REQUIRE(eth_groups_due(port->groups) > port->now_ns);
  while (eth_neighbours_event(port->neighbours, &event))
    REQUIRE(event.kind >= ETH_NEIGHBOUR_MOVED && event.kind <= ETH_NEIGHBOUR_OURS &&
            memcmp(event.mac, mac, ETH_MAC_BYTES) != 0);
  for (uint32_t i = 0; i < 3; i++) {
    memset(found, 0xff, sizeof(found));
    const enum eth_neighbour_state state =
        eth_neighbours_look(port->neighbours, port->asked[i], found);
    REQUIRE((state == ETH_NEIGHBOUR_KNOWN || state == ETH_NEIGHBOUR_SILENT) == !(found[0] & 1));
  }
}

/* ---- An input ----------------------------------------------------------------------------- */

static void open_port(struct port *port)
{
  struct eth_neighbours_params params = {.vlan = ETH_UNTAGGED, .own_count = 2, .seed = 1};
  struct eth_groups_params others = {.vlan = ETH_UNTAGGED, .seed = 2};

  memcpy(params.mac, mac, sizeof(mac));
  memcpy(params.own, own, sizeof(own));
  memcpy(others.mac, mac, sizeof(mac));
  memcpy(others.own_v4, own[0], 16);
  REQUIRE(eth_neighbours_open(&params, port->now_ns, &port->neighbours) == 0);
  REQUIRE(eth_groups_open(&others, &port->groups) == 0);
  for (uint32_t i = 0; i < 3; i++)
    REQUIRE(eth_neighbours_ask(port->neighbours, peers[i], port->now_ns, &port->asked[i]) == 0);
  for (uint32_t i = 0; i < 4; i++)
    REQUIRE(eth_groups_join(port->groups, groups[i], i & 1 ? peers[i >> 1] : NULL, port->now_ns) ==
            0);
  listen_to(port);
}

static void take_frame(struct port *port, const uint8_t *bytes, uint32_t length, uint32_t bits,
                       uint32_t part)
{
  const uint32_t known = bits / KNOWN & 15;
  uint8_t whole[ROOM];
  struct eth_packet packet;

  memcpy(whole, bytes, length);
  if (bits & IS_MENDED)
    mend(whole, length);
  if (bits & IS_CUT && part < length)
    length = part;
  const uint32_t readable = bits & IS_SPLIT && part < length ? part : length;
  struct eth_bytes frame = {wall - readable, readable, length};
  memcpy(wall - readable, whole, readable);
  frames++;
  split_frames += readable < length;
  const enum eth_verdict verdict = eth_parse(&frame, known, &packet);
  REQUIRE((uint32_t)verdict < ETH_VERDICTS && packet.verdict == verdict);
  check_next(&frame, known, &port->seen, &packet);
  check_like(whole, length, readable, known, part, &port->seen);
  memcpy(wall - readable, whole, readable);
  REQUIRE(verdict != ETH_UNREADABLE || readable < length);
  check_whole(whole, length, known, verdict, &packet);
  if (verdict == ETH_IS_UDP)
    check_udp(&frame, known, &packet);
  if (verdict != ETH_IS_ARP && verdict != ETH_IS_ICMPV6 && verdict != ETH_IS_IGMP)
    return;
  REQUIRE(packet.offset <= readable && packet.length <= readable - packet.offset);
  const bool is_neighbours = eth_neighbours_take(port->neighbours, &frame, &packet, port->now_ns);
  const bool is_groups = eth_groups_take(port->groups, &frame, &packet, port->now_ns);
  REQUIRE(!is_neighbours || !is_groups);
  REQUIRE(verdict != ETH_IS_ARP || is_neighbours);
  REQUIRE(verdict != ETH_IS_IGMP || is_groups);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  struct port port = {.now_ns = 1000 * SECOND};

  open_port(&port);
  while (size >= 4) {
    const uint32_t left = (uint32_t)(size - 4 < ROOM ? size - 4 : ROOM);
    const uint32_t length = data[1] < left ? data[1] : left;
    take_frame(&port, data + 4, length, data[0], data[2]);
    port.now_ns += data[3] * (data[0] & WAITS ? SECOND : MS);
    listen_to(&port);
    data += 4 + length;
    size -= 4 + length;
  }
  eth_neighbours_close(port.neighbours);
  for (uint32_t i = 0; i < 4; i++)
    REQUIRE(eth_groups_leave(port.groups, groups[i], i & 1 ? peers[i >> 1] : NULL, port.now_ns) ==
            0);
  eth_groups_close(port.groups);
  return 0;
}
