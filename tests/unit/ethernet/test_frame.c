/* SPDX-License-Identifier: Apache-2.0 */
/* Headers that are made: byte by byte, and read again. */
#include "support.h"

/* The packet that many texts have as example of IPv4's checksum: b861 over this header. */
static void v4_header_is_the_known_one(void **state)
{
  static const char expected[] = "02000000000b 02000000000a 0800"
                                 "4500 0073 0000 4000 4011 b861 c0a80001 c0a800c7"
                                 "0fa0 138c 005f";
  struct eth_template_params params = params_of("192.168.0.1", "192.168.0.199");
  struct eth_template template;
  uint8_t frame[200] = {0}, bytes[64];

  (void)state;
  assert_int_equal(eth_template_make(&params, &template), 0);
  assert_int_equal(template.length, 42);
  eth_template_write(&template, frame, 0x73 - 28, 0, 0);
  assert_memory_equal(frame, bytes, hex(expected, bytes));
}

/* RFC 8200, sections 3 and 8.1; the checksum was computed by another program. */
static void v6_header_is_as_the_rfc_says(void **state)
{
  static const char expected[] = "02000000000b 02000000000a 8100 6064 86dd"
                                 "6b800000 0009 11 40 20010db8000000000000000000000001"
                                 "20010db8000000000000000000000002 0fa0 138c 0009 403b 41";
  struct eth_template_params params = params_of("2001:db8::1", "2001:db8::2");
  uint8_t frame[200] = {0}, bytes[100];

  (void)state;
  params.vlan = 3u << 13 | 100;
  params.traffic_class = 0xb8;
  assert_int_equal(frame_of(&params, "A", 1, frame), 67);
  assert_int_equal(hex(expected, bytes), 67);
  assert_memory_equal(frame, bytes, 67);
}

static void every_message_is_read_again(const struct eth_template_params *params)
{
  static uint8_t payload[9000], frame[9100];
  struct eth_packet packet;

  for (uint32_t i = 0; i < sizeof(payload); i++)
    payload[i] = (uint8_t)(i * 7 + i / 256);
  for (uint32_t length = 0; length <= sizeof(payload); length += 1 + length / 16) {
    const uint32_t total = frame_of(params, payload, length, frame);
    assert_int_equal(parse(frame, total, &packet), ETH_IS_UDP);
    assert_int_equal(packet.sum, params->udp_checksum ? ETH_SUM_ABSENT : ETH_SUM_GOOD);
    assert_int_equal(packet.length, length);
    assert_int_equal(packet.offset + length, total);
    assert_int_equal(packet.vlan, params->vlan);
    assert_int_equal(packet.hop_limit, params->hop_limit);
    assert_int_equal(packet.traffic_class, params->traffic_class);
    assert_memory_equal(packet.from.address, params->from.address, 16);
    assert_memory_equal(packet.to.address, params->to.address, 16);
    assert_int_equal(packet.from.port, params->from.port);
    assert_int_equal(packet.to.port, params->to.port);
  }
}

static void what_is_made_is_read(void **state)
{
  struct eth_template_params v4 = params_of("10.0.0.1", "10.0.0.2"),
                             v6 = params_of("fd00::1", "ff05::123");

  (void)state;
  v4.traffic_class = 0x28;
  every_message_is_read_again(&v4);
  every_message_is_read_again(&v6);
  v4.vlan = v6.vlan = 0x0fa0;
  v4.udp_checksum = ETH_CHECKSUM_NONE;
  every_message_is_read_again(&v4);
  every_message_is_read_again(&v6);
}

/* Not a byte outside its headers, wherever they lie. */
static void exactly_the_headers_are_written(void **state)
{
  static const uint16_t tags[2] = {ETH_UNTAGGED, 5};
  uint8_t room[128];

  (void)state;
  for (uint32_t i = 0; i < 4; i++) {
    struct eth_template_params params =
        i & 1 ? params_of("fd00::1", "fd00::2") : params_of("10.0.0.1", "10.0.0.2");
    struct eth_template template;
    params.vlan = tags[i >> 1];
    assert_int_equal(eth_template_make(&params, &template), 0);
    assert_int_equal(template.length, 42 + (i & 1) * 20 + (i >> 1) * 4);
    for (uint32_t at = 8; at < 24; at++) {
      memset(room, 0xee, sizeof(room));
      eth_template_write(&template, room + at, 100, 1, 0);
      for (uint32_t j = 0; j < sizeof(room); j++)
        assert_true((j >= at && j < at + template.length) || room[j] == 0xee);
      assert_memory_equal(room + at, template.bytes, template.ip_at);
    }
  }
}

/* The device adds the datagram, the field included, and complements. */
static void offload_finishes_to_the_same_checksum(void **state)
{
  static const char *const ends[2][2] = {{"10.0.0.1", "10.0.0.2"}, {"fd00::1", "fd00::2"}};
  uint8_t whole[200], left[200];

  (void)state;
  for (uint32_t i = 0; i < 2; i++) {
    struct eth_template_params params = params_of(ends[i][0], ends[i][1]);
    const uint32_t total = frame_of(&params, "penstock", 8, whole), udp_at = total - 16;
    params.udp_checksum = params.ip_checksum = ETH_CHECKSUM_OFFLOAD;
    assert_int_equal(frame_of(&params, "penstock", 8, left), total);
    const uint16_t made = eth_sum_udp(eth_sum(left + udp_at, 16, 0));
    memcpy(left + udp_at + 6, &made, 2);
    if (i == 0) {
      assert_int_equal(eth_get16(left + 24), 0);
      const uint16_t ip = eth_sum_complement(eth_sum(left + 14, 20, 0));
      memcpy(left + 24, &ip, 2);
    }
    assert_memory_equal(left, whole, total);
  }
}

static void zero_checksum_is_sent_as_ones(void **state)
{
  struct eth_template_params params = params_of("fd00::1", "fd00::2");
  uint8_t frame[100], payload[2] = {0, 0};
  struct eth_packet packet;

  (void)state;
  frame_of(&params, payload, 2, frame);
  memcpy(payload, frame + 60, 2); /* brings the sum to ones */
  const uint32_t total = frame_of(&params, payload, 2, frame);
  assert_int_equal(eth_get16(frame + 60), 0xffff);
  assert_int_equal(parse(frame, total, &packet), ETH_IS_UDP);
  assert_int_equal(packet.sum, ETH_SUM_GOOD);
}

static void what_cannot_be_is_refused(void **state)
{
  const struct eth_template_params good = params_of("10.0.0.1", "10.0.0.2");
  struct eth_template_params bad[7];
  struct eth_template template, before;

  (void)state;
  for (uint32_t i = 0; i < LENGTH(bad); i++)
    bad[i] = good;
  bad[0].to = end_of("fd00::1", 1);
  bad[1].from = end_of("224.0.0.5", 1);
  bad[2].mac_from[0] = 1;
  bad[3].hop_limit = 0;
  bad[4].vlan = 0x0fff;
  bad[5].ip_checksum = ETH_CHECKSUM_NONE;
  bad[6] = params_of("fd00::1", "fd00::2");
  bad[6].udp_checksum = ETH_CHECKSUM_NONE;
  memset(&template, 0x55, sizeof(template));
  before = template;
  for (uint32_t i = 0; i < LENGTH(bad); i++) {
    assert_int_equal(eth_template_make(&bad[i], &template), -EINVAL);
    assert_memory_equal(&template, &before, sizeof(template));
  }
  assert_int_equal(eth_template_make(&good, &template), 0);
}

static void payload_fits_the_mtu_and_the_lengths(void **state)
{
  struct eth_template_params v4 = params_of("10.0.0.1", "10.0.0.2"),
                             v6 = params_of("fd00::1", "fd00::2");
  struct eth_template four, six;

  (void)state;
  v4.vlan = 9;
  assert_int_equal(eth_template_make(&v4, &four), 0);
  assert_int_equal(eth_template_make(&v6, &six), 0);
  assert_int_equal(eth_payload_max(&four, 1500), 1472);
  assert_int_equal(eth_payload_max(&six, 1500), 1452);
  assert_int_equal(eth_payload_max(&four, 28), 0);
  assert_int_equal(eth_payload_max(&four, 100000), 65507);
  assert_int_equal(eth_payload_max(&six, 100000), 65527);
  assert_int_equal(eth_padding(42), 18);
  assert_int_equal(eth_padding(60), 0);
}

/* RFC 1112, section 6.4; RFC 2464, sections 4 and 7; RFC 4291, section 2.7.1: their examples. */
static void macs_follow_from_addresses(void **state)
{
  static const uint8_t v4[6] = {1, 0, 0x5e, 0x40, 1, 2},
                       v6[6] = {0x33, 0x33, 0xff, 0x0e, 0x8c, 0x6c};
  static const uint8_t mac[6] = {0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde};
  uint8_t made[6], address[16], group[16];

  (void)state;
  eth_multicast_mac(AT("239.192.1.2"), made);
  assert_memory_equal(made, v4, 6);
  eth_multicast_mac(AT("224.64.1.2"), made);
  assert_memory_equal(made, v4, 6);
  eth_solicited_node(AT("4037::01:800:200e:8c6c"), group);
  assert_memory_equal(group, AT("ff02::1:ff0e:8c6c"), 16);
  eth_multicast_mac(group, made);
  assert_memory_equal(made, v6, 6);
  eth_link_local(mac, address);
  assert_memory_equal(address, AT("fe80::3656:78ff:fe9a:bcde"), 16);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(v4_header_is_the_known_one),
      cmocka_unit_test(v6_header_is_as_the_rfc_says),
      cmocka_unit_test(what_is_made_is_read),
      cmocka_unit_test(exactly_the_headers_are_written),
      cmocka_unit_test(offload_finishes_to_the_same_checksum),
      cmocka_unit_test(zero_checksum_is_sent_as_ones),
      cmocka_unit_test(what_cannot_be_is_refused),
      cmocka_unit_test(payload_fits_the_mtu_and_the_lengths),
      cmocka_unit_test(macs_follow_from_addresses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
