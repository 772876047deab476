/* SPDX-License-Identifier: Apache-2.0 */
/* Each thing that can be wrong with a frame has its verdict. */
#include "support.h"

static uint8_t frame[2000];
static struct eth_packet packet;

/* A frame of IPv4 with `ip` behind Ethernet, its header checksum made right. */
static uint32_t v4(const char *ip)
{
  const uint32_t length = hex("02000000000b 02000000000a 0800", frame);
  const uint32_t total = length + hex(ip, frame + length), header = (frame[14] & 15u) * 4;

  memset(frame + 24, 0, 2);
  const uint16_t sum = eth_sum_complement(eth_sum(frame + 14, header, 0));
  memcpy(frame + 24, &sum, 2);
  return total;
}

static uint32_t v6(const char *ip)
{
  const uint32_t length = hex("02000000000b 02000000000a 86dd", frame);

  return length + hex(ip, frame + length);
}

#define V6_ENDS "fd000000000000000000000000000001 fd000000000000000000000000000002"
/* A datagram of 4 bytes of payload between them. */
#define V6_UDP "0001 0002 000c 01c9 01020304"

static uint32_t good_v4(void)
{
  struct eth_template_params params = params_of("10.0.0.1", "10.0.0.2");

  return frame_of(&params, "0123456789abcdefghij", 20, frame);
}

static void resum_v4(void)
{
  memset(frame + 24, 0, 2);
  const uint16_t sum = eth_sum_complement(eth_sum(frame + 14, 20, 0));
  memcpy(frame + 24, &sum, 2);
}

static void other_protocols_are_other(void **state)
{
  (void)state;
  for (uint32_t type = 0; type < 0x10000; type++) {
    enum eth_verdict expected = ETH_IS_OTHER;
    good_v4();
    eth_put16(frame + 12, type);
    if (type == 0x0800)
      expected = ETH_IS_UDP;
    else if (type == 0x86dd)
      expected = ETH_BAD_HEADER;
    else if (type == 0x0806)
      expected = ETH_IS_ARP;
    else if (type == 0x88a8 || type == 0x9100)
      expected = ETH_IS_STACKED;
    else if (type == 0x8100)
      continue;
    assert_int_equal(parse(frame, 62, &packet), expected);
  }
  for (uint32_t next = 0; next < 256; next++) {
    good_v4();
    frame[23] = (uint8_t)next;
    resum_v4();
    /* IGMP of these bytes has a wrong checksum. */
    assert_int_equal(parse(frame, 62, &packet), next == 17  ? ETH_IS_UDP
                                                : next == 2 ? ETH_BAD_CHECKSUM
                                                            : ETH_IS_OTHER);
  }
}

static void one_tag_is_read_and_two_are_reported(void **state)
{
  struct eth_template_params params = params_of("fd00::1", "fd00::2");
  uint8_t stacked[200];

  (void)state;
  params.vlan = 7u << 13 | 4094;
  uint32_t total = frame_of(&params, "tagged", 6, frame);
  assert_int_equal(parse(frame, total, &packet), ETH_IS_UDP);
  assert_int_equal(packet.vlan, 7u << 13 | 4094);
  assert_int_equal(eth_packet_vlan(&packet), 4094);
  assert_int_equal(packet.ip_at, 18);
  memcpy(stacked, frame, 12);
  memcpy(stacked + 16, frame + 12, total - 12);
  for (uint32_t i = 0; i < 2; i++) {
    eth_put16(stacked + 12, i ? 0x88a8 : 0x8100);
    eth_put16(stacked + 14, 5);
    assert_int_equal(parse(stacked, total + 4, &packet), ETH_IS_STACKED);
  }
  params.vlan = 6u << 13; /* priority alone */
  total = frame_of(&params, "tagged", 6, frame);
  assert_int_equal(parse(frame, total, &packet), ETH_IS_UDP);
  assert_int_equal(eth_packet_vlan(&packet), 0);
}

/* A frame that ends too early anywhere is truncated; and of one that is cut by a split the same
 * headers are asked for, no byte more. */
static void every_cut_is_reported(void **state)
{
  static const char *const ends[2][2] = {{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}};

  (void)state;
  for (uint32_t i = 0; i < 4; i++) {
    struct eth_template_params params = params_of(ends[i & 1][0], ends[i & 1][1]);
    params.vlan = i & 2 ? 5 : ETH_UNTAGGED;
    const uint32_t total = frame_of(&params, "0123456789abcdefghij", 20, frame);
    for (uint32_t cut = 0; cut < total; cut++) {
      struct eth_bytes split = guarded(frame, cut, cut);
      assert_int_equal(eth_parse(&split, 0, &packet), ETH_TRUNCATED);
      split = guarded(frame, cut, total);
      assert_int_equal(eth_parse(&split, 0, &packet),
                       cut < total - 20 ? ETH_UNREADABLE : ETH_IS_UDP);
      if (cut >= total - 20)
        assert_int_equal(packet.sum, ETH_SUM_UNCHECKED);
    }
  }
}

static void padding_is_no_payload(void **state)
{
  struct eth_template_params params = params_of("10.0.0.1", "10.0.0.2");
  const uint32_t length = frame_of(&params, "abc", 3, frame);

  (void)state;
  assert_int_equal(eth_padding(length), 15);
  memset(frame + length, 0x5a, 15);
  assert_int_equal(parse(frame, 60, &packet), ETH_IS_UDP);
  assert_int_equal(packet.length, 3);
  assert_int_equal(packet.offset, 42);
  assert_int_equal(packet.sum, ETH_SUM_GOOD);
}

static void each_bit_that_changes_is_noticed(void **state)
{
  (void)state;
  for (uint32_t bit = 14 * 8; bit < 62 * 8; bit++) {
    good_v4();
    frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
    const enum eth_verdict verdict = parse(frame, 62, &packet);
    assert_true(verdict == ETH_BAD_CHECKSUM || (bit / 8 == 14 && verdict == ETH_BAD_HEADER) ||
                (bit / 8 == 14 && verdict == ETH_TRUNCATED) ||
                (bit / 16 == 19 && verdict == ETH_BAD_LENGTH));
  }
}

static void assert_same_packet(const struct eth_packet *a, const struct eth_packet *b)
{
  assert_int_equal(a->verdict, b->verdict);
  if (a->verdict != ETH_IS_UDP)
    return;
  assert_int_equal(a->sum, b->sum);
  assert_int_equal(a->hop_limit, b->hop_limit);
  assert_int_equal(a->traffic_class, b->traffic_class);
  assert_int_equal(a->vlan, b->vlan);
  assert_int_equal(a->offset, b->offset);
  assert_int_equal(a->length, b->length);
  assert_memory_equal(&a->from, &b->from, sizeof(a->from));
  assert_memory_equal(&a->to, &b->to, sizeof(a->to));
}

/* Lengths, IPv4's identifier and the checksums differ between the frames of one stream. */
static bool may_differ(uint32_t at)
{
  return (at >= 16 && at < 20) || at == 24 || at == 25 || at >= 38;
}

/* Whatever the one before was, and however far it can be read. */
static void a_frame_like_the_last_is_judged_as_if_it_were_the_first(void **state)
{
  (void)state;
  for (uint32_t known = 0; known < 16; known++)
    for (uint32_t bit = 0; bit < 62 * 8; bit++)
      for (uint32_t readable = 62; readable >= 38; readable -= readable == 62 ? 15 : 1) {
        struct eth_header_cache seen = {0};
        struct eth_packet alone;
        struct eth_bytes at = {frame, 62, 62};
        bool is_same;
        good_v4();
        if (bit % 3 == 0)
          memset(frame + 40, 0, 2); /* no checksum of UDP */
        assert_int_equal(eth_parse_next(&at, 0, &seen, &is_same), ETH_IS_UDP);
        assert_false(is_same);
        assert_int_equal(eth_parse_next(&at, 0, &seen, &is_same), ETH_IS_UDP);
        assert_true(is_same);
        frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
        at = guarded(frame, readable, 62);
        eth_parse(&at, known, &alone);
        assert_int_equal(eth_parse_next(&at, known, &seen, &is_same), alone.verdict);
        assert_same_packet(&seen.packet, &alone);
        assert_false(is_same && !may_differ(bit / 8));
        good_v4();
        at = (struct eth_bytes){frame, 62, 62};
        assert_int_equal(eth_parse_next(&at, 0, &seen, &is_same), ETH_IS_UDP);
        assert_int_equal(parse(frame, 62, &alone), ETH_IS_UDP);
        assert_same_packet(&seen.packet, &alone);
      }
}

static void v4_fragments_are_reported(void **state)
{
  static const struct {
    uint32_t field;
    enum eth_verdict verdict;
  } cases[] = {{0x0000, ETH_IS_UDP},      {0x4000, ETH_IS_UDP},      {0x8000, ETH_IS_UDP},
               {0x2000, ETH_IS_FRAGMENT}, {0x0001, ETH_IS_FRAGMENT}, {0x3fff, ETH_IS_FRAGMENT}};

  (void)state;
  for (uint32_t i = 0; i < LENGTH(cases); i++) {
    good_v4();
    eth_put16(frame + 20, cases[i].field);
    resum_v4();
    assert_int_equal(parse(frame, 62, &packet), cases[i].verdict);
    assert_memory_equal(packet.from.address, AT("10.0.0.1"), 16);
  }
}

static void v4_options_are_passed_over(void **state)
{
  static const struct {
    const char *options; /* of 8 bytes */
    enum eth_verdict verdict;
  } cases[] = {{"01010101 01010101", ETH_IS_UDP},     {"00ffffff ffffffff", ETH_IS_UDP},
               {"94040000 01010101", ETH_IS_UDP},     {"83070810 00000100", ETH_IS_UDP},
               {"83070410 00000100", ETH_IS_ROUTED},  {"89070410 00000100", ETH_IS_ROUTED},
               {"07090000 00000000", ETH_BAD_HEADER}, {"07010000 00000000", ETH_BAD_HEADER},
               {"01010101 01010107", ETH_BAD_HEADER}};

  (void)state;
  for (uint32_t i = 0; i < LENGTH(cases); i++) {
    char text[200];
    snprintf(text, sizeof(text),
             "47000028 00000000 40110000 0a000001 0a000002 %s 00010002000c0000 01020304",
             cases[i].options);
    assert_int_equal(parse(frame, v4(text), &packet), cases[i].verdict);
    if (cases[i].verdict == ETH_IS_UDP) {
      assert_int_equal(packet.offset, 14 + 28 + 8);
      assert_int_equal(packet.sum, ETH_SUM_ABSENT);
    }
  }
}

static void v4_headers_that_cannot_be(void **state)
{
  static const struct {
    const char *ip;
    enum eth_verdict verdict;
  } cases[] = {
      {"55000020 00000000 40110000 0a000001 0a000002 00010002000c0000 01020304", ETH_BAD_HEADER},
      {"44000020 00000000 40110000 0a000001 0a000002 00010002000c0000 01020304", ETH_BAD_HEADER},
      {"45000013 00000000 40110000 0a000001 0a000002 00010002000c0000 01020304", ETH_BAD_HEADER},
      {"45000021 00000000 40110000 0a000001 0a000002 00010002000c0000 01020304", ETH_TRUNCATED},
      {"45000014 00000000 40110000 0a000001 0a000002 00010002000c0000 01020304", ETH_BAD_LENGTH},
      {"4500001b 00000000 40110000 0a000001 0a000002 00010002000c0000 01020304", ETH_BAD_LENGTH},
      {"45000020 00000000 40110000 0a000001 0a000002 0001000200070000 01020304", ETH_BAD_LENGTH},
      {"45000020 00000000 40110000 0a000001 0a000002 00010002000d0000 01020304", ETH_BAD_LENGTH},
      {"45000020 00000000 40110000 0a000001 0a000002 00010002000c0000 01020304", ETH_IS_UDP},
      /* RFC 9868: what lies between UDP's end and IP's is no payload. */
      {"45000020 00000000 40110000 0a000001 0a000002 00010002000a0000 01020304", ETH_IS_UDP},
      {"45000020 00000000 40110000 0a000001 0a000002 0001000200080000 01020304", ETH_IS_UDP},
  };

  (void)state;
  for (uint32_t i = 0; i < LENGTH(cases); i++)
    assert_int_equal(parse(frame, v4(cases[i].ip), &packet), cases[i].verdict);
  assert_int_equal(packet.length, 0);
}

static void v6_extensions_have_their_verdicts(void **state)
{
  static const struct {
    const char *ip;
    enum eth_verdict verdict;
  } cases[] = {
      {"60000000 000c1140" V6_ENDS V6_UDP, ETH_IS_UDP},
      {"60000000 000c1140" V6_ENDS "0001 0002 000c 0000 01020304", ETH_BAD_CHECKSUM},
      {"60000000 000c1140" V6_ENDS "0001 0002 000c 01ca 01020304", ETH_BAD_CHECKSUM},
      {"50000000 000c1140" V6_ENDS V6_UDP, ETH_BAD_HEADER},
      {"60000000 000d1140" V6_ENDS V6_UDP, ETH_TRUNCATED},
      {"60000000 00001140" V6_ENDS V6_UDP, ETH_BAD_LENGTH},
      {"60000000 000c3b40" V6_ENDS V6_UDP, ETH_IS_OTHER},
      /* Hop-by-hop options: padding; a jumbogram; unknown, passed over and not; overrun. */
      {"60000000 00140040" V6_ENDS "1100 010400000000" V6_UDP, ETH_IS_UDP},
      {"60000000 00140040" V6_ENDS "1100 c20400000014" V6_UDP, ETH_BAD_HEADER},
      {"60000000 00000040" V6_ENDS "1100 c20400000014" V6_UDP, ETH_BAD_HEADER},
      {"60000000 00140040" V6_ENDS "1100 1e0400000000" V6_UDP, ETH_IS_UDP},
      {"60000000 00140040" V6_ENDS "1100 9e0400000000" V6_UDP, ETH_IS_OTHER},
      {"60000000 00140040" V6_ENDS "1100 010500000000" V6_UDP, ETH_BAD_HEADER},
      {"60000000 00140040" V6_ENDS "1100 000000000001" V6_UDP, ETH_BAD_HEADER},
      {"60000000 00140040" V6_ENDS "1102 010400000000" V6_UDP, ETH_BAD_HEADER},
      {"60000000 00040040" V6_ENDS "11000104", ETH_BAD_HEADER},
      /* Hop-by-hop options anywhere but first. */
      {"60000000 001c3c40" V6_ENDS "0000 010400000000 1100 010400000000" V6_UDP, ETH_BAD_HEADER},
      {"60000000 001c0040" V6_ENDS "3c00 010400000000 1100 010400000000" V6_UDP, ETH_IS_UDP},
      /* Routing: done, and not. */
      {"60000000 00142b40" V6_ENDS "1100 0400 00000000" V6_UDP, ETH_IS_UDP},
      {"60000000 00142b40" V6_ENDS "1100 0401 00000000" V6_UDP, ETH_IS_ROUTED},
      /* Fragments: atomic, first, later. */
      {"60000000 00142c40" V6_ENDS "1100 0000 12345678" V6_UDP, ETH_IS_UDP},
      {"60000000 00142c40" V6_ENDS "1100 0001 12345678" V6_UDP, ETH_IS_FRAGMENT},
      {"60000000 00142c40" V6_ENDS "1100 0008 12345678" V6_UDP, ETH_IS_FRAGMENT},
      /* Encrypted, authenticated. */
      {"60000000 00143240" V6_ENDS "1100 0000 12345678" V6_UDP, ETH_IS_OTHER},
      {"60000000 00143340" V6_ENDS "1100 0000 12345678" V6_UDP, ETH_IS_OTHER},
  };

  (void)state;
  for (uint32_t i = 0; i < LENGTH(cases); i++) {
    const enum eth_verdict verdict = parse(frame, v6(cases[i].ip), &packet);
    if (verdict != cases[i].verdict)
      print_error("%s\n", cases[i].ip);
    assert_int_equal(verdict, cases[i].verdict);
    if (verdict == ETH_IS_UDP) {
      assert_int_equal(packet.length, 4);
      assert_int_equal(frame[packet.offset], 1);
    }
  }
}

static void extension_headers_are_counted(void **state)
{
  (void)state;
  for (uint32_t count = 0; count < 12; count++) {
    char text[800];
    int used = snprintf(text, sizeof(text), "60000000 %04x%s40" V6_ENDS, 12 + count * 8,
                        count ? "3c" : "11");
    for (uint32_t i = 0; i < count; i++)
      used += snprintf(text + used, sizeof(text) - (size_t)used, "%s00010400000000",
                       i + 1 < count ? "3c" : "11");
    snprintf(text + used, sizeof(text) - (size_t)used, V6_UDP);
    assert_int_equal(parse(frame, v6(text), &packet), count > 8 ? ETH_BAD_HEADER : ETH_IS_UDP);
  }
}

static void what_the_device_found_counts(void **state)
{
  const uint32_t total = good_v4();
  struct eth_bytes whole;

  (void)state;
  frame[50] ^= 1;
  whole = guarded(frame, total, total);
  assert_int_equal(eth_parse(&whole, 0, &packet), ETH_BAD_CHECKSUM);
  assert_int_equal(eth_parse(&whole, ETH_UDP_IS_GOOD, &packet), ETH_IS_UDP);
  frame[50] ^= 1;
  whole = guarded(frame, total, total);
  assert_int_equal(eth_parse(&whole, ETH_UDP_IS_BAD, &packet), ETH_IS_UDP);
  assert_int_equal(packet.sum, ETH_SUM_GOOD);
  whole = guarded(frame, 42, total);
  assert_int_equal(eth_parse(&whole, ETH_UDP_IS_BAD, &packet), ETH_BAD_CHECKSUM);
  assert_int_equal(eth_parse(&whole, ETH_UDP_IS_GOOD, &packet), ETH_IS_UDP);
  assert_int_equal(packet.sum, ETH_SUM_GOOD);
  memset(frame + 40, 0, 2);
  whole = guarded(frame, 42, total);
  assert_int_equal(eth_parse(&whole, ETH_UDP_IS_BAD, &packet), ETH_IS_UDP);
  assert_int_equal(packet.sum, ETH_SUM_ABSENT);
  frame[24] ^= 1;
  whole = guarded(frame, 42, total);
  assert_int_equal(eth_parse(&whole, 0, &packet), ETH_BAD_CHECKSUM);
  assert_int_equal(eth_parse(&whole, ETH_IP_IS_GOOD, &packet), ETH_IS_UDP);
}

/* A sender on this host leaves the checksum to a device that the frame never meets. */
static void a_partial_checksum_is_taken_where_it_may_be(void **state)
{
  struct eth_template_params params = params_of("10.0.0.1", "10.0.0.2");
  struct eth_bytes whole;

  (void)state;
  params.udp_checksum = ETH_CHECKSUM_OFFLOAD;
  const uint32_t total = frame_of(&params, "0123456789", 10, frame);
  for (uint32_t readable = 42; readable <= total; readable += total - 42) {
    whole = guarded(frame, readable, total);
    assert_int_equal(eth_parse(&whole, ETH_PARTIAL_IS_GOOD, &packet), ETH_IS_UDP);
    assert_int_equal(packet.sum, ETH_SUM_PARTIAL);
  }
  assert_int_equal(eth_parse(&whole, 0, &packet), ETH_BAD_CHECKSUM);
  frame[41] ^= 1;
  whole = guarded(frame, total, total);
  assert_int_equal(eth_parse(&whole, ETH_PARTIAL_IS_GOOD, &packet), ETH_BAD_CHECKSUM);
}

static void control_messages_are_whole_or_nothing(void **state)
{
  /* A general query of IGMPv3, and a neighbour solicitation: packets of other programs. */
  static const char query[] = "46c00024 00000000 01020000 c0a80001 e0000001 94040000 "
                              "1164ec1e 00000000 027d0000";

  (void)state;
  const uint32_t total = v4(query);
  assert_int_equal(parse(frame, total, &packet), ETH_IS_IGMP);
  assert_true(packet.has_alert);
  assert_int_equal(packet.offset, 38);
  assert_int_equal(packet.length, 12);
  struct eth_bytes split = guarded(frame, total - 1, total);
  assert_int_equal(eth_parse(&split, 0, &packet), ETH_UNREADABLE);
  frame[45] ^= 1;
  assert_int_equal(parse(frame, total, &packet), ETH_BAD_CHECKSUM);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(other_protocols_are_other),
      cmocka_unit_test(one_tag_is_read_and_two_are_reported),
      cmocka_unit_test(every_cut_is_reported),
      cmocka_unit_test(padding_is_no_payload),
      cmocka_unit_test(each_bit_that_changes_is_noticed),
      cmocka_unit_test(a_frame_like_the_last_is_judged_as_if_it_were_the_first),
      cmocka_unit_test(v4_fragments_are_reported),
      cmocka_unit_test(v4_options_are_passed_over),
      cmocka_unit_test(v4_headers_that_cannot_be),
      cmocka_unit_test(v6_extensions_have_their_verdicts),
      cmocka_unit_test(extension_headers_are_counted),
      cmocka_unit_test(what_the_device_found_counts),
      cmocka_unit_test(a_partial_checksum_is_taken_where_it_may_be),
      cmocka_unit_test(control_messages_are_whole_or_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
