/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/verbs/device_select.c. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "device.h"

static struct vb_device *all; /* three: RoCE with two ports, InfiniBand down, soft-RoCE */
static struct vb_match found;
static char why[1280];

static void add_port(struct vb_device *device, enum ibv_port_state state, bool is_ethernet,
                     uint32_t netdev, const char *address)
{
  struct vb_port *port = &device->ports[device->port_count++];
  port->number = device->port_count;
  port->state = state;
  port->is_ethernet = is_ethernet;
  port->gids[0].type = is_ethernet ? VB_GID_ROCE_V2 : VB_GID_IB;
  port->gids[0].netdev = netdev;
  assert_true(vb_gid_parse(address, port->gids[0].raw));
  port->gid_count = 1;
}

static int set_up(void **state)
{
  (void)state;
  all = calloc(3, sizeof(*all));
  assert_non_null(all);
  snprintf(all[0].name, sizeof(all[0].name), "mlx5_0");
  snprintf(all[0].pci, sizeof(all[0].pci), "0000:3b:00.0");
  add_port(&all[0], IBV_PORT_DOWN, true, 2, "192.0.2.1");
  add_port(&all[0], IBV_PORT_ACTIVE, true, 3, "192.0.2.2");
  snprintf(all[1].name, sizeof(all[1].name), "mlx5_1");
  add_port(&all[1], IBV_PORT_DOWN, false, 0, "fe80::9");
  snprintf(all[2].name, sizeof(all[2].name), "rxe0");
  add_port(&all[2], IBV_PORT_ACTIVE, true, 4, "2001:db8::4");
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  free(all);
  return 0;
}

static int match(uint32_t count, const char *name, uint32_t port, uint32_t netdev)
{
  return vb_match(all, count, name, port, netdev, &found, why, sizeof(why));
}

static void is(uint32_t device, uint32_t port)
{
  assert_int_equal(found.device, device);
  assert_int_equal(found.port, port);
  assert_int_equal(found.requested.is_ethernet, all[device].ports[port].is_ethernet);
}

static void by_name_and_port(void **state)
{
  (void)state;
  assert_int_equal(match(3, "mlx5_0", 0, 0), 0);
  is(0, 1); /* the active one */
  assert_int_equal(match(3, "mlx5_0", 1, 0), 0);
  is(0, 0);
  assert_int_equal(match(3, "mlx5_1", 0, 0), 0);
  is(1, 0);
  assert_false(found.requested.has_address);
  assert_int_equal(found.requested.netdev, 0);
  assert_int_equal(found.requested.index, -1);
}

static void by_pci_address(void **state)
{
  (void)state;
  assert_int_equal(match(3, "0000:3b:00.0", 2, 0), 0);
  is(0, 1);
  assert_int_equal(match(3, "3B:00.0", 0, 0), 0);
  is(0, 1);
}

static void by_address(void **state)
{
  (void)state;
  assert_int_equal(match(3, "192.0.2.1", 0, 0), 0);
  is(0, 0);
  assert_true(found.requested.has_address);
  assert_int_equal(match(3, "2001:db8::4", 0, 9), 0);
  is(2, 0);
  assert_int_equal(found.requested.netdev, 0);
  assert_int_equal(match(3, "192.0.2.1", 2, 0), -ENODEV);
}

static void by_netdev(void **state)
{
  (void)state;
  assert_int_equal(match(3, "eth1", 0, 3), 0);
  is(0, 1);
  assert_int_equal(found.requested.netdev, 3);
  assert_int_equal(match(3, "lo", 0, 1), -ENODEV);
}

/* The first device has a netdev of index 4, too, in another namespace. */
static void by_netdev_of_this_namespace(void **state)
{
  (void)state;
  all[0].ports[1].gids[0].netdev = 4;
  assert_int_equal(match(3, "net1", 0, 4), 0);
  is(0, 1);
  all[2].ports[0].gids[0].is_here = true;
  assert_int_equal(match(3, "net1", 0, 4), 0);
  is(2, 0);
  all[2].ports[0].gids[0].is_here = false;
  all[0].ports[1].gids[0].netdev = 3;
}

static void a_device_that_cannot_be_opened(void **state)
{
  (void)state;
  const struct vb_device before = all[1];
  all[1].error = EACCES;
  all[1].port_count = 0;
  assert_int_equal(match(3, "mlx5_1", 0, 0), -ENODEV);
  assert_non_null(strstr(why, "mlx5_1 cannot be opened: Permission denied; give this user"));
  assert_int_equal(match(3, "mlx5_9", 0, 0), -ENODEV);
  assert_non_null(strstr(why, "mlx5_1, which cannot be opened: Permission denied"));
  all[1] = before;
}

/* One without RC is not chosen unless it is named. */
static void of_another_transport(void **state)
{
  (void)state;
  all[2].transport = IBV_TRANSPORT_IWARP;
  assert_int_equal(match(3, "", 0, 0), 0);
  is(0, 1);
  assert_int_equal(match(3, "rxe0", 0, 0), 0);
  is(2, 0);
  all[2].transport = IBV_TRANSPORT_IB;
}

static void nothing_said(void **state)
{
  (void)state;
  assert_int_equal(match(2, "", 0, 0), 0);
  is(0, 1); /* the only active one */
  assert_int_equal(match(3, "", 1, 0), 0);
  is(2, 0);
  found.device = 99;
  assert_int_equal(match(3, "", 0, 0), -ENODEV);
  assert_non_null(strstr(why, "several"));
  assert_non_null(strstr(why, "rxe0: port 1 active, Ethernet, 2001:db8::4 (RoCE v2)"));
  assert_int_equal(match(0, "", 0, 0), -ENODEV);
  assert_non_null(strstr(why, "no port is active"));
  assert_int_equal(found.device, 99);
}

static void unknown_name_lists_what_there_is(void **state)
{
  (void)state;
  assert_int_equal(match(3, "mlx5_7", 0, 0), -ENODEV);
  assert_non_null(strstr(why, "mlx5_7"));
  assert_non_null(strstr(why, "mlx5_1: port 1 down, InfiniBand"));
  assert_int_equal(match(3, "mlx5_1", 2, 0), -ENODEV);
}

static void rates(void **state)
{
  (void)state;
  assert_int_equal(vb_port_mbps(2, 32), 100000);
  assert_int_equal(vb_port_mbps(1, 1), 2500);
  assert_int_equal(vb_port_mbps(16, 128), 200000);
  assert_int_equal(vb_port_mbps(2, 256), 800000); /* of active_speed_ex */
  assert_int_equal(vb_port_mbps(3, 1), 0);
  assert_int_equal(vb_port_mbps(200, 1), 0);
  assert_int_equal(vb_port_mbps(2, 77), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(by_name_and_port),
      cmocka_unit_test(by_pci_address),
      cmocka_unit_test(by_address),
      cmocka_unit_test(by_netdev),
      cmocka_unit_test(by_netdev_of_this_namespace),
      cmocka_unit_test(a_device_that_cannot_be_opened),
      cmocka_unit_test(of_another_transport),
      cmocka_unit_test(nothing_said),
      cmocka_unit_test(unknown_name_lists_what_there_is),
      cmocka_unit_test(rates),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down) ? 1 : 0;
}
