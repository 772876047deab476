/* SPDX-License-Identifier: Apache-2.0 */
/* Queueing disciplines, as this kernel tells them: of lo, which every host has. */
#include "support.h"

#include "qdisc.h"

static union dg_address address_of(const char *text)
{
  union dg_address address;
  char zone[DG_ZONE_MAX];

  assert_true(dg_address_read(text, &address, zone));
  return address;
}

static void the_route_says_which_netdev(void **state)
{
  const union dg_address peers[] = {address_of("127.0.0.1:5004"), address_of("[::1]:5004")};
  struct udp_qdisc found;
  char root[UDP_QDISC_NAME_MAX];

  (void)state;
  for (int i = 0; i < 2; i++) {
    if (udp_qdisc_find(0, &peers[i], "none", &found) != 0 && i == 1)
      continue; /* a kernel without IPv6 */
    assert_string_equal(found.netdev, "lo");
    assert_false(found.is_there);
    memcpy(root, found.root, sizeof(root));
    assert_true(root[0] != '\0');
    assert_int_equal(udp_qdisc_find(0, &peers[i], root, &found), 0);
    assert_true(found.is_there);
  }
}

static void a_netdev_may_be_given(void **state)
{
  const union dg_address group = address_of("239.1.2.3:5004");
  struct udp_qdisc found;

  (void)state;
  assert_int_equal(udp_qdisc_find(1, &group, "fq", &found), 0);
  assert_string_equal(found.netdev, "lo");
  assert_false(found.is_there);
}

static void what_is_not_known_is_an_error(void **state)
{
  const union dg_address group = address_of("239.1.2.3:5004");
  struct udp_qdisc found = {.root = "kept"};

  (void)state;
  assert_int_equal(udp_qdisc_find(UINT32_C(0x7ffffff0), &group, "fq", &found), -ENODEV);
  assert_string_equal(found.root, "kept");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_route_says_which_netdev),
      cmocka_unit_test(a_netdev_may_be_given),
      cmocka_unit_test(what_is_not_known_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
