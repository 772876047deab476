/* SPDX-License-Identifier: Apache-2.0 */
/* Which GIDs are this namespace's addresses; of netdevs that every machine has, or none. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "gid.h"

static char loopback[] = "lo";
static struct sockaddr_in v4 = {.sin_family = AF_INET};
static struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
static struct ifaddrs own[] = {
    {.ifa_name = loopback}, /* a netdev without addresses, as getifaddrs tells it */
    {.ifa_name = loopback, .ifa_addr = (struct sockaddr *)&v4},
    {.ifa_name = loopback, .ifa_addr = (struct sockaddr *)&v6},
};

static struct vb_gid entry(enum vb_gid_type type, uint32_t netdev, const char *address)
{
  struct vb_gid gid = {.type = type, .netdev = netdev};
  assert_true(vb_gid_parse(address, gid.raw));
  return gid;
}

static void addresses_are_found(void **state)
{
  (void)state;
  const uint32_t lo = if_nametoindex("lo");
  struct vb_gid table[] = {
      entry(VB_GID_ROCE_V2, lo, "192.0.2.1"), entry(VB_GID_ROCE_V2, 77, "198.51.100.7"),
      entry(VB_GID_ROCE_V1, 0, "2001:db8::5"), entry(VB_GID_ROCE_V2, lo, "2001:db8::6"),
      entry(VB_GID_IB, 0, "2001:db8::5")};
  assert_int_not_equal(lo, 0);
  assert_int_equal(inet_pton(AF_INET, "198.51.100.7", &v4.sin_addr), 1);
  assert_int_equal(inet_pton(AF_INET6, "2001:db8::5", &v6.sin6_addr), 1);
  for (size_t i = 0; i + 1 < sizeof(own) / sizeof(own[0]); i++)
    own[i].ifa_next = &own[i + 1];
  vb_gid_find_homes(table, 5, own);
  assert_false(table[0].is_here); /* of another namespace, though the index is lo's here */
  assert_true(table[1].is_here);  /* whatever index it came with */
  assert_int_equal(table[1].netdev, lo);
  assert_true(table[2].is_here);
  assert_int_equal(table[2].netdev, lo);
  assert_false(table[3].is_here);
  assert_int_equal(table[3].netdev, lo);
  assert_false(table[4].is_here);
  assert_int_equal(table[4].netdev, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(addresses_are_found)};
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
