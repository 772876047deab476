/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that this host has. */
#include "support.h"

#include <arpa/inet.h>

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
  assert_int_equal(udp_addresses_own(AF_INET, false, own, 4), 1);
  assert_int_equal(ntohl(own[0].v4.sin_addr.s_addr), 0xc0000201);
  assert_int_equal(udp_addresses_own(AF_INET6, false, own, 4), 2);
  assert_int_equal(udp_addresses_own(AF_INET6, false, own, 1), 1);
}

static void sender_may_have_any_but_127_0_0_1(void **state)
{
  union dg_address own[4];
  char text[DG_ADDRESS_TEXT];

  (void)state;
  assert_int_equal(udp_addresses_own(AF_INET, true, own, 4), 2);
  dg_address_print(&own[1], text, sizeof(text));
  assert_string_equal(text, "198.51.100.77:0");
  assert_int_equal(udp_addresses_own(AF_INET6, true, own, 4), 3);
  dg_address_print(&own[1], text, sizeof(text));
  assert_string_equal(text, "[fe80::5]:0");
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
      CASE(zone_has_to_be_an_interface_here),
      CASE(device_is_an_interface_or_an_address),
      CASE(global_address_goes_before_a_link_local_one),
      CASE(unknown_device_is_refused_with_those_there_are),
      CASE(own_addresses_leave_out_loopback_and_links),
      CASE(sender_may_have_any_but_127_0_0_1),
      CASE(near_is_what_a_netmask_covers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
