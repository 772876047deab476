/* SPDX-License-Identifier: Apache-2.0 */
/* From options to DPDK's names and arguments, and addresses as they are written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "described.h"

static struct eth_port_options options_of(enum eth_driver_kind driver)
{
  return (struct eth_port_options){.driver = driver,
                                   .device = "",
                                   .socket = "",
                                   .netdev = "",
                                   .remote = "",
                                   .rx_pcap = "",
                                   .tx_pcap = "",
                                   .devargs = "",
                                   .mac = "",
                                   .mtu = 1500,
                                   .descriptors = 1024};
}

static char name[ETH_TEXT_MAX], arguments[ETH_TEXT_MAX];

static unsigned number_behind(const char *key)
{
  const char *at = strstr(arguments, key);

  assert_non_null(at);
  return (unsigned)strtoul(at + strlen(key), NULL, 10);
}

/* Both ends may be in one process, where DPDK has one end of a path. */
static void ends_of_a_memif_spell_their_socket_apart(void **state)
{
  (void)state;
  struct eth_port_options options = options_of(ETH_DRIVER_MEMIF);
  options.socket = "/run/x/link";
  options.role = ETH_ROLE_SERVER;
  assert_int_equal(eth_devargs(&options, name, arguments), 0);
  assert_string_equal(name, "net_memif");
  assert_string_equal(arguments, "role=server,socket=/run/x/link,socket-abstract=no,rsize=10,"
                                 "bsize=1536");
  options.role = ETH_ROLE_CLIENT;
  options.mac = "02:00:00:00:00:09";
  options.devargs = "id=3";
  assert_int_equal(eth_devargs(&options, name, arguments), 0);
  assert_string_equal(arguments, "role=client,socket=/run/x/./link,socket-abstract=no,rsize=10,"
                                 "bsize=1536,mac=02:00:00:00:00:09,id=3");
}

/* DPDK takes frames to lie one behind the other, the kernel takes whole pages. */
static void frames_of_af_packet_fill_their_blocks(void **state)
{
  (void)state;
  struct eth_port_options options = options_of(ETH_DRIVER_AF_PACKET);
  options.netdev = "eth0";
  for (uint32_t mtu = 576; mtu <= 9000; mtu += 13)
    for (uint32_t descriptors = 32; descriptors <= 16384; descriptors = descriptors * 3 + 1) {
      options.mtu = mtu;
      options.descriptors = descriptors;
      assert_int_equal(eth_devargs(&options, name, arguments), 0);
      unsigned frame = number_behind("framesz="), block = number_behind("blocksz=");
      unsigned count = number_behind("framecnt=");
      assert_true(frame >= mtu + 18 + 66 && frame % 16 == 0);
      assert_int_equal(block % frame, 0);
      assert_int_equal(block % 4096, 0);
      assert_true(count >= descriptors);
      assert_int_equal(count % (block / frame), 0);
    }
}

static void a_tap_names_the_interface_that_it_shares(void **state)
{
  (void)state;
  struct eth_port_options options = options_of(ETH_DRIVER_TAP);
  options.netdev = "pst0";
  assert_int_equal(eth_devargs(&options, name, arguments), 0);
  assert_string_equal(name, "net_tap");
  assert_string_equal(arguments, "iface=pst0");
  options.remote = "eth0";
  assert_int_equal(eth_devargs(&options, name, arguments), 0);
  assert_string_equal(arguments, "iface=pst0,remote=eth0");
}

static void a_port_of_another_driver_is_what_devargs_say(void **state)
{
  (void)state;
  struct eth_port_options options = options_of(ETH_DRIVER_OTHER);
  options.devargs = "net_null7,size=64,copy=0";
  assert_int_equal(eth_devargs(&options, name, arguments), 0);
  assert_string_equal(name, "net_null7");
  assert_string_equal(arguments, "size=64,copy=0");
  options.devargs = "net_null7";
  assert_int_equal(eth_devargs(&options, name, arguments), 0);
  assert_string_equal(arguments, "");
}

static void arguments_that_are_too_long_are_refused(void **state)
{
  (void)state;
  struct eth_port_options options = options_of(ETH_DRIVER_PCAP);
  char path[ETH_TEXT_MAX];
  memset(path, 'x', sizeof(path) - 1);
  path[sizeof(path) - 1] = '\0';
  options.rx_pcap = path;
  assert_int_equal(eth_devargs(&options, name, arguments), -7); /* E2BIG */
}

static void ports_are_told_apart(void **state)
{
  (void)state;
  struct eth_port_options options = options_of(ETH_DRIVER_MEMIF);
  char first[ETH_TEXT_MAX], second[ETH_TEXT_MAX];
  options.socket = "/a";
  options.role = ETH_ROLE_SERVER;
  eth_port_identity(&options, first);
  assert_string_equal(first, "memif /a/server");
  options.role = ETH_ROLE_CLIENT;
  eth_port_identity(&options, second);
  assert_string_not_equal(first, second);
  options = options_of(ETH_DRIVER_PCI);
  options.device = "0000:03:00.0";
  eth_port_identity(&options, second);
  assert_string_equal(second, "pci 0000:03:00.0");
}

static void networks_are_read(void **state)
{
  (void)state;
  static const char *const wrong[] = {"",
                                      "192.0.2.1/0",
                                      "192.0.2.1/33",
                                      "192.0.2.1/",
                                      "192.0.2",
                                      "127.0.0.1/8",
                                      "224.0.0.1/24",
                                      "0.0.0.0/24",
                                      "::1/64",
                                      "::/64",
                                      "ff02::1/64",
                                      "2001:db8::1/129",
                                      "192.0.2.1/+8"};
  uint8_t address[16], v4[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};
  uint32_t prefix = 0;
  assert_true(eth_network_read("192.0.2.1/25", address, &prefix));
  assert_memory_equal(address, v4, sizeof(v4));
  assert_int_equal(prefix, 25);
  assert_true(eth_network_read("192.0.2.1", address, &prefix));
  assert_int_equal(prefix, 24);
  assert_true(eth_network_read("2001:db8::1/48", address, &prefix));
  assert_int_equal(prefix, 48);
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
    if (eth_network_read(wrong[i], address, &prefix))
      fail_msg("%s was taken", wrong[i]);
}

static void macs_are_read(void **state)
{
  (void)state;
  static const char *const wrong[] = {"",
                                      "02:00:00:00:00",
                                      "02:00:00:00:00:01:02",
                                      "01:00:00:00:00:01",
                                      "00:00:00:00:00:00",
                                      "02:00:00:00:00:1g",
                                      "02:00:00:00:00:001",
                                      " 2:00:00:00:00:01"};
  uint8_t mac[6];
  assert_true(eth_mac_read("02:0a:00:FF:00:01", mac));
  assert_memory_equal(mac, ((uint8_t[]){2, 10, 0, 255, 0, 1}), 6);
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
    if (eth_mac_read(wrong[i], mac))
      fail_msg("%s was taken", wrong[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ends_of_a_memif_spell_their_socket_apart),
      cmocka_unit_test(frames_of_af_packet_fill_their_blocks),
      cmocka_unit_test(a_tap_names_the_interface_that_it_shares),
      cmocka_unit_test(a_port_of_another_driver_is_what_devargs_say),
      cmocka_unit_test(arguments_that_are_too_long_are_refused),
      cmocka_unit_test(ports_are_told_apart),
      cmocka_unit_test(networks_are_read),
      cmocka_unit_test(macs_are_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
