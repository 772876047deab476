/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/verbs/gid.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "gid.h"

#define ETH0 2
#define VLAN 5

static struct vb_gid entry(uint32_t index, uint32_t type, uint32_t netdev, const char *address)
{
  struct vb_gid gid = {.index = index, .type = type, .netdev = netdev};
  assert_true(vb_gid_parse(address, gid.raw));
  return gid;
}

static const struct vb_gid_request any = {.is_ethernet = true, .index = -1};

static char reason[256];

static uint32_t chosen(const struct vb_gid *table, uint32_t count, struct vb_gid_request requested)
{
  uint32_t at = 99;
  memset(reason, '#', sizeof(reason));
  assert_int_equal(vb_gid_choose(table, count, &requested, &at, reason, sizeof(reason)), 0);
  assert_non_null(memchr(reason, 0, sizeof(reason)));
  return table[at].index;
}

static void refused(const struct vb_gid *table, uint32_t count, struct vb_gid_request requested)
{
  uint32_t at = 99;
  assert_int_equal(vb_gid_choose(table, count, &requested, &at, reason, sizeof(reason)), -ENOENT);
  assert_int_equal(at, 99);
}

/* As mlx5 and rxe fill it: each address once for each RoCE version, a VLAN's behind. */
static uint32_t two_addresses_and_a_vlan(struct vb_gid table[10])
{
  table[0] = entry(0, VB_GID_ROCE_V1, ETH0, "fe80::1");
  table[1] = entry(1, VB_GID_ROCE_V2, ETH0, "fe80::1");
  table[2] = entry(2, VB_GID_ROCE_V1, ETH0, "192.0.2.1");
  table[3] = entry(3, VB_GID_ROCE_V2, ETH0, "192.0.2.1");
  table[4] = entry(4, VB_GID_ROCE_V1, ETH0, "198.51.100.1");
  table[5] = entry(5, VB_GID_ROCE_V2, ETH0, "198.51.100.1");
  table[6] = entry(8, VB_GID_ROCE_V1, VLAN, "203.0.113.1");
  table[7] = entry(9, VB_GID_ROCE_V2, VLAN, "203.0.113.1");
  table[8] = entry(10, VB_GID_ROCE_V1, ETH0, "2001:db8::1");
  table[9] = entry(11, VB_GID_ROCE_V2, ETH0, "2001:db8::1");
  return 10;
}

static void first_ipv4_of_roce_v2_by_default(void **state)
{
  (void)state;
  struct vb_gid table[10];
  uint32_t count = two_addresses_and_a_vlan(table);
  assert_int_equal(chosen(table, count, any), 3);
  assert_non_null(strstr(reason, "GID 3"));
  assert_non_null(strstr(reason, "192.0.2.1 (RoCE v2)"));
  assert_non_null(strstr(reason, "several addresses"));
}

static void address_chooses(void **state)
{
  (void)state;
  static const struct {
    const char *address;
    uint32_t index;
  } each[] = {{"192.0.2.1", 3},
              {"198.51.100.1", 5},
              {"203.0.113.1", 9},
              {"2001:db8::1", 11},
              {"fe80::1", 1}};
  struct vb_gid table[10];
  uint32_t count = two_addresses_and_a_vlan(table);
  for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
    struct vb_gid_request requested = any;
    requested.has_address = vb_gid_parse(each[i].address, requested.address);
    assert_int_equal(chosen(table, count, requested), each[i].index);
    assert_non_null(strstr(reason, each[i].address));
  }
  struct vb_gid_request requested = any;
  requested.has_address = vb_gid_parse("192.0.2.77", requested.address);
  refused(table, count, requested);
  assert_non_null(strstr(reason, "192.0.2.77"));
  assert_non_null(strstr(reason, "198.51.100.1"));
}

static void netdev_chooses(void **state)
{
  (void)state;
  struct vb_gid table[10];
  uint32_t count = two_addresses_and_a_vlan(table);
  struct vb_gid_request requested = any;
  requested.netdev = VLAN;
  assert_int_equal(chosen(table, count, requested), 9);
  requested.netdev = 77;
  refused(table, count, requested);
}

static void index_overrides(void **state)
{
  (void)state;
  struct vb_gid table[10];
  uint32_t count = two_addresses_and_a_vlan(table);
  struct vb_gid_request requested = any;
  requested.index = 8;
  assert_int_equal(chosen(table, count, requested), 8);
  assert_non_null(strstr(reason, "gid_index"));
  requested.index = 6; /* there is a hole */
  refused(table, count, requested);
  assert_non_null(strstr(reason, "no entry 6"));
}

static void the_best_there_is(void **state)
{
  (void)state;
  struct vb_gid table[] = {
      entry(0, VB_GID_ROCE_V1, ETH0, "192.0.2.1"), entry(1, VB_GID_ROCE_V2, ETH0, "fe80::1"),
      entry(2, VB_GID_ROCE_V2, ETH0, "2001:db8::1"), entry(3, VB_GID_ROCE_V2, ETH0, "169.254.3.4")};
  assert_int_equal(chosen(table, 4, any), 2);
  assert_non_null(strstr(reason, "only routable"));
  assert_int_equal(chosen(table, 2, any), 1);
  assert_non_null(strstr(reason, "link-local"));
  assert_int_equal(chosen(table, 1, any), 0);
  assert_int_equal(chosen(table + 3, 1, any), 3);
  assert_non_null(strstr(reason, "link-local"));
}

/* Addresses on a VLAN alone, as many clusters have them. */
static void a_vlan_before_what_is_link_local(void **state)
{
  (void)state;
  struct vb_gid table[] = {
      entry(0, VB_GID_ROCE_V1, ETH0, "fe80::1"),     entry(1, VB_GID_ROCE_V2, ETH0, "fe80::1"),
      entry(2, VB_GID_ROCE_V1, VLAN, "fe80::1"),     entry(3, VB_GID_ROCE_V2, VLAN, "fe80::1"),
      entry(4, VB_GID_ROCE_V1, VLAN, "203.0.113.1"), entry(5, VB_GID_ROCE_V2, VLAN, "203.0.113.1")};
  assert_int_equal(chosen(table, 6, any), 5);
  assert_non_null(strstr(reason, "a VLAN's"));
}

/* In a pod: those of the host and of other pods are in the table, too. */
static void another_namespace_is_last(void **state)
{
  (void)state;
  struct vb_gid table[] = {
      entry(0, VB_GID_ROCE_V2, ETH0, "fe80::1"),   entry(1, VB_GID_ROCE_V2, ETH0, "192.0.2.1"),
      entry(2, VB_GID_ROCE_V2, 3, "192.0.2.7"),    entry(3, VB_GID_ROCE_V2, 3, "fe80::7"),
      entry(4, VB_GID_ROCE_V2, 3, "198.51.100.9"),
  };
  struct vb_gid_request requested = any;
  assert_int_equal(chosen(table, 5, any), 1);
  table[3].is_here = table[4].is_here = true;
  assert_int_equal(chosen(table, 5, any), 4);
  assert_non_null(strstr(reason, "only routable"));
  requested.netdev = 3; /* ours, and of a netdev of another namespace */
  assert_int_equal(chosen(table, 5, requested), 4);
}

static void infiniband_has_one(void **state)
{
  (void)state;
  struct vb_gid table[] = {entry(0, VB_GID_IB, 0, "fe80::2:c903:1:2")};
  struct vb_gid_request requested = {.index = -1};
  assert_int_equal(chosen(table, 1, requested), 0);
  assert_null(strstr(reason, "subnet"));
  refused(table, 0, requested);
  assert_non_null(strstr(reason, "empty"));
}

static void texts(void **state)
{
  (void)state;
  char text[VB_GID_TEXT];
  struct vb_gid gid = entry(0, VB_GID_ROCE_V2, 0, "192.0.2.1");
  vb_gid_print(&gid, text);
  assert_string_equal(text, "192.0.2.1 (RoCE v2)");
  gid = entry(0, 77, 0, "2001:db8:1111:2222:3333:4444:5555:6666");
  vb_gid_print(&gid, text);
  assert_string_equal(text, "2001:db8:1111:2222:3333:4444:5555:6666 (?)");
  uint8_t raw[16];
  assert_false(vb_gid_parse("eth0", raw));
  assert_false(vb_gid_parse("", raw));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_ipv4_of_roce_v2_by_default),
      cmocka_unit_test(address_chooses),
      cmocka_unit_test(netdev_chooses),
      cmocka_unit_test(index_overrides),
      cmocka_unit_test(the_best_there_is),
      cmocka_unit_test(a_vlan_before_what_is_link_local),
      cmocka_unit_test(another_namespace_is_last),
      cmocka_unit_test(infiniband_has_one),
      cmocka_unit_test(texts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
