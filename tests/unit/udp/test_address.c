/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: as they are written, as they are printed, and those that this host has. */
#include "support.h"

#include <arpa/inet.h>
#include <stdlib.h>

/* 106 bytes, more than any address has. */
#define ONES "111111111111111111111111111111111111111111111111111"
#define LONGER_THAN_ANY ONES ONES "1111"

static void expect_read(const char *text, const char *printed, const char *zone)
{
  union dg_address address;
  char got[DG_ZONE_MAX], again[80];
  assert_true(dg_address_read(text, &address, got));
  assert_string_equal(got, zone);
  dg_address_print(&address, again, sizeof(again));
  assert_string_equal(again, printed);
}

static void each_way_to_write_one_is_read(void **state)
{
  (void)state;
  expect_read("192.0.2.1", "192.0.2.1:0", "");
  expect_read("192.0.2.1:5000", "192.0.2.1:5000", "");
  expect_read("192.0.2.1:65535", "192.0.2.1:65535", "");
  expect_read("2001:db8::1", "[2001:db8::1]:0", "");
  expect_read("::1", "[::1]:0", "");
  expect_read("[2001:db8::1]", "[2001:db8::1]:0", "");
  expect_read("[2001:db8::1]:5000", "[2001:db8::1]:5000", "");
  expect_read("fe80::1%eth0", "[fe80::1]:0", "eth0");
  expect_read("[fe80::1%eth0]:5000", "[fe80::1]:5000", "eth0");
  expect_read("fe80::1%abcdefghijklmno", "[fe80::1]:0", "abcdefghijklmno");
}

static void what_is_no_address_is_refused_and_leaves_the_output(void **state)
{
  static const char *const wrong[] = {
      "",
      "eth0",
      "camera.example",
      "192.0.2",
      "192.0.2.256",
      "192.0.2.1:",
      "192.0.2.1:65536",
      "192.0.2.1:-1",
      "192.0.2.1:+5",
      "192.0.2.1: 5",
      "192.0.2.1:5x",
      "192.0.2.1:99999999999999999999",
      "[192.0.2.1]:5000", /* brackets are IPv6's */
      "[2001:db8::1",
      "[2001:db8::1]5000",
      "[2001:db8::1]:",
      "[2001:db8::1]:65536",
      "2001:db8::1::2",
      "2001:5000",
      "fe80::1%",
      "fe80::1%abcdefghijklmnop", /* a netdev's name has 15 bytes */
      "192.0.2.1%eth0",
      (LONGER_THAN_ANY),
  };

  (void)state;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    union dg_address address = {.any.sa_family = 99};
    char zone[DG_ZONE_MAX];
    if (dg_address_read(wrong[i], &address, zone))
      fail_msg("\"%s\" was read", wrong[i]);
    assert_int_equal(address.any.sa_family, 99);
  }
}

static void zone_has_to_be_an_interface_here(void **state)
{
  union dg_address address;

  (void)state;
  assert_true(dg_address_parse("fe80::1%eth1", &address));
  assert_int_equal(address.v6.sin6_scope_id, 3);
  assert_false(dg_address_parse("fe80::1%eth7", &address));
}

static union dg_address parsed(const char *text)
{
  union dg_address address;
  assert_true(dg_address_parse(text, &address));
  return address;
}

static void kinds_of_addresses_are_told_apart(void **state)
{
  static const struct {
    const char *text;
    bool is_multicast, is_any, is_loopback;
  } all[] = {
      {"224.0.0.0", true, false, false},
      {"239.255.255.255", true, false, false},
      {"223.255.255.255", false, false, false},
      {"240.0.0.0", false, false, false},
      {"0.0.0.0", false, true, false},
      {"0.0.0.1", false, false, false},
      {"127.0.0.0", false, false, true},
      {"127.255.255.255", false, false, true},
      {"128.0.0.1", false, false, false},
      {"::", false, true, false},
      {"::1", false, false, true},
      {"ff02::1", true, false, false},
      {"fe80::1", false, false, false},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    union dg_address address = parsed(all[i].text);
    assert_int_equal(dg_address_is_multicast(&address), all[i].is_multicast);
    assert_int_equal(dg_address_is_any(&address), all[i].is_any);
    assert_int_equal(dg_address_is_loopback(&address), all[i].is_loopback);
  }
}

static void source_of_ipv4_is_mapped(void **state)
{
  static const uint8_t mapped[16] = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 7};
  union dg_address v4 = parsed("192.0.2.7:5000"), v6 = parsed("[2001:db8::7]:80");
  struct dg_source source;

  (void)state;
  dg_address_source(&v4, &source);
  assert_memory_equal(source.address, mapped, 16);
  assert_int_equal(source.port, 5000);
  dg_address_source(&v6, &source);
  assert_memory_equal(source.address, &v6.v6.sin6_addr, 16);
  assert_int_equal(source.port, 80);
}

/* ---- This host's ------------------------------------------------------------------------------
 */

static struct udp_device_name find(const char *name, int family)
{
  struct pst_device device = {.dg.host = &fake_host};
  struct udp_device_name found;
  assert_int_equal(udp_device_find(&device, name, family, &found), 0);
  return found;
}

static void expect_device(const char *name, int family, uint32_t index, const char *printed)
{
  struct udp_device_name found = find(name, family);
  char text[80];
  assert_true(found.is_set);
  assert_int_equal(found.index, index);
  dg_address_print(&found.address, text, sizeof(text));
  assert_string_equal(text, printed);
}

static void device_is_an_interface_or_an_address(void **state)
{
  (void)state;
  expect_device("eth0", AF_UNSPEC, 2, "192.0.2.1:0");
  expect_device("eth0", AF_INET6, 2, "[2001:db8::1]:0");
  expect_device("192.0.2.1", AF_UNSPEC, 2, "192.0.2.1:0");
  expect_device("2001:db8:1::5", AF_UNSPEC, 3, "[2001:db8:1::5]:0");
  expect_device("127.0.0.2", AF_UNSPEC, 1, "127.0.0.2:0"); /* lo's, though not listed */
  assert_false(find("", AF_UNSPEC).is_set);
  assert_false(find("any", AF_UNSPEC).is_set);
}

/* An address that holds on one link only is the last resort. */
static void global_address_goes_before_a_link_local_one(void **state)
{
  (void)state;
  expect_device("eth1", AF_UNSPEC, 3, "[2001:db8:1::5]:0");
}

static void unknown_device_is_refused_with_those_there_are(void **state)
{
  static const char *const unknown[] = {"eth7", "192.0.2.2", "2001:db8::2", "tun0"};
  struct pst_device device = {.dg.host = &fake_host};
  struct udp_device_name found = {.index = 99};

  (void)state;
  for (int i = 0; i < 4; i++) {
    fake_log_clear();
    assert_int_equal(udp_device_find(&device, unknown[i], AF_UNSPEC, &found), -ENODEV);
    assert_non_null(strstr(fake_log(), "neither an address nor an interface that is up here; there "
                                       "are: lo (127.0.0.1), lo (::1), eth0 (192.0.2.1), "));
    assert_null(strstr(fake_log(), "down0"));
  }
  fake_log_clear();
  assert_int_equal(udp_device_find(&device, "eth1", AF_INET, &found), -ENODEV);
  assert_non_null(strstr(fake_log(), "an interface without an address of that family"));
  assert_int_equal(udp_device_find(&device, "down0", AF_UNSPEC, &found), -ENODEV);
  assert_int_equal(found.index, 99);
}

static void own_addresses_leave_out_loopback_and_links(void **state)
{
  union dg_address own[4];

  (void)state;
  assert_int_equal(udp_addresses_own(AF_INET, own, 4), 1);
  assert_int_equal(ntohl(own[0].v4.sin_addr.s_addr), 0xc0000201);
  assert_int_equal(udp_addresses_own(AF_INET6, own, 4), 2);
  assert_int_equal(udp_addresses_own(AF_INET6, own, 1), 1);
}

static void near_is_what_a_netmask_covers(void **state)
{
  static const struct {
    const char *text;
    bool is_near;
  } all[] = {{"192.0.2.255", true},    {"192.0.3.1", false},       {"127.5.5.5", true},
             {"198.51.100.7", false}, /* its interface is down */
             {"2001:db8::ffff", true}, {"2001:db8:0:1::1", false}, {"::2", false}};

  (void)state;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    union dg_address address = parsed(all[i].text);
    assert_int_equal(udp_address_is_near(&address), all[i].is_near);
  }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(each_way_to_write_one_is_read),
      CASE(what_is_no_address_is_refused_and_leaves_the_output),
      CASE(zone_has_to_be_an_interface_here),
      CASE(kinds_of_addresses_are_told_apart),
      CASE(source_of_ipv4_is_mapped),
      CASE(device_is_an_interface_or_an_address),
      CASE(global_address_goes_before_a_link_local_one),
      CASE(unknown_device_is_refused_with_those_there_are),
      CASE(own_addresses_leave_out_loopback_and_links),
      CASE(near_is_what_a_netmask_covers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
