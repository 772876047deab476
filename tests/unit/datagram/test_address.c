/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses as they are written, printed and told apart. */
#include "support.h"

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

static union dg_address parsed(const char *text)
{
  union dg_address address;
  char zone[DG_ZONE_MAX];
  assert_true(dg_address_read(text, &address, zone));
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

static void source_is_an_address_again(void **state)
{
  static const char *const all[] = {"192.0.2.7:5000", "[2001:db8::7]:80"};

  (void)state;
  for (int i = 0; i < 2; i++) {
    union dg_address address = parsed(all[i]), again;
    struct dg_source source;
    char text[DG_ADDRESS_TEXT];
    dg_address_source(&address, &source);
    dg_address_of_source(&source, i ? AF_INET6 : AF_INET, &again);
    dg_address_print(&again, text, sizeof(text));
    assert_string_equal(text, all[i]);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_way_to_write_one_is_read),
      cmocka_unit_test(what_is_no_address_is_refused_and_leaves_the_output),
      cmocka_unit_test(kinds_of_addresses_are_told_apart),
      cmocka_unit_test(source_of_ipv4_is_mapped),
      cmocka_unit_test(source_is_an_address_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
