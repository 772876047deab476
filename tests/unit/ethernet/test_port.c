/* SPDX-License-Identifier: Apache-2.0 */
/* port.c: ports by name, what refuses them, and what a failure leaves. The rest of the plugin and
 * DPDK's calls are this file's. */
#include <net/if.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "eal_thread.h"
#include "pool.h"
#include "port.h"
#include "stubs.h"
#include "support.h"

/* Options, calls that DPDK refuses, and calls that it got. */
static struct pst_options {
  uint64_t driver, role, mtu;
  const char *socket, *netdev;
} options;
static int refuses_probe, refuses_info, refuses_configure, refuses_start;
static uint32_t probes, removals, closes, configures, starts, stops;
static uint32_t netdev_index, netdev_mtu;
static char folder[64], path[96];

static uint64_t option_uint(const struct pst_options *of, const char *name)
{
  return strcmp(name, "driver") == 0 ? of->driver
         : strcmp(name, "role") == 0 ? of->role
         : strcmp(name, "mtu") == 0  ? of->mtu
                                     : 0;
}

static const char *option_string(const struct pst_options *of, const char *name)
{
  const char *found = strcmp(name, "socket") == 0   ? of->socket
                      : strcmp(name, "netdev") == 0 ? of->netdev
                                                    : NULL;
  return found ? found : "";
}

static int option_is_set(const struct pst_options *of, const char *name)
{
  (void)of, (void)name;
  return 0;
}

static uint64_t now(const struct pst_host *host)
{
  (void)host;
  return 1;
}

static const struct pst_host host = {.clock_ns = now,
                                     .log = take_log,
                                     .option_uint = option_uint,
                                     .option_string = option_string,
                                     .option_is_set = option_is_set};

/* ---- The rest of the plugin -------------------------------------------------------------------
 */

int eal_start(const struct pst_host *of, const struct pst_options *with, bool is_huge)
{
  (void)of, (void)with;
  assert_false(is_huge);
  return 0;
}

void eal_words_clear(void)
{
}

void eal_thread_run(void (*work)(void *arg), void *arg)
{
  work(arg);
}

int eth_netdev_look(uint32_t netdev, uint8_t mac[ETH_MAC_BYTES], uint32_t *mtu, bool *is_up)
{
  (void)netdev, (void)mac;
  *mtu = netdev_mtu;
  *is_up = true;
  return 0;
}

unsigned if_nametoindex(const char *name)
{
  (void)name;
  return netdev_index;
}

int eth_port_find_networks(struct eth_port *port, const struct pst_options *with)
{
  (void)port, (void)with;
  return 0;
}

int eth_port_configure(struct eth_port *port)
{
  (void)port;
  configures++;
  return refuses_configure;
}

int eth_neighbours_open(const struct eth_neighbours_params *params, uint64_t now_ns,
                        struct eth_neighbours **neighbours)
{
  (void)params, (void)now_ns;
  *neighbours = NULL;
  return 0;
}

int eth_groups_open(const struct eth_groups_params *params, struct eth_groups **groups)
{
  (void)params;
  *groups = NULL;
  return 0;
}

void eth_neighbours_close(struct eth_neighbours *neighbours)
{
  assert_null(neighbours);
}

void eth_groups_close(struct eth_groups *groups)
{
  assert_null(groups);
}

void eth_times_open(struct eth_port *port, bool is_live_pcap)
{
  (void)port, (void)is_live_pcap;
}

bool eth_times_start(struct eth_port *port)
{
  (void)port;
  return true;
}

void eth_port_find_xstats(struct eth_port *port)
{
  (void)port;
}

bool eth_port_read_xstats(const struct eth_port *port, uint64_t sums[ETH_XSTATS])
{
  (void)port, (void)sums;
  return false;
}

void eth_pool_close(struct eth_pool *pool)
{
  assert_null(pool);
}

int eth_port_isolate(struct eth_port *port, bool on, char why[ETH_SIZES_WHY])
{
  (void)port, (void)on, (void)why;
  fail();
  return -EINVAL;
}

int eth_port_make_mempool(struct eth_port *port, uint32_t count, uint32_t room,
                          struct rte_mempool **mempool)
{
  (void)port, (void)count, (void)room, (void)mempool;
  fail();
  return -EINVAL;
}

/* ---- DPDK -------------------------------------------------------------------------------------
 */

static char known[8][RTE_ETH_NAME_MAX_LEN]; /* by id */

static int find_device(const char *name)
{
  for (int i = 0; i < 8; i++)
    if (strcmp(known[i], name) == 0)
      return i;
  return -ENODEV;
}

int rte_eal_hotplug_add(const char *bus, const char *name, const char *arguments)
{
  (void)arguments;
  assert_string_equal(bus, "vdev");
  assert_int_equal(find_device(name), -ENODEV);
  probes++;
  if (!refuses_probe)
    snprintf(known[find_device("")], sizeof(known[0]), "%s", name);
  return refuses_probe;
}

int rte_eal_hotplug_remove(const char *bus, const char *name)
{
  assert_string_equal(bus, "vdev");
  known[find_device(name)][0] = '\0';
  removals++;
  return 0;
}

int rte_eth_dev_get_port_by_name(const char *name, uint16_t *id)
{
  const int found = find_device(name);

  *id = (uint16_t)RTE_MAX(found, 0);
  return RTE_MIN(found, 0);
}

int rte_eth_dev_close(uint16_t id)
{
  (void)id;
  closes++;
  return 0;
}

int rte_eth_dev_info_get(uint16_t id, struct rte_eth_dev_info *info)
{
  (void)id;
  memset(info, 0, sizeof(*info));
  return refuses_info;
}

int rte_eth_macaddr_get(uint16_t id, struct rte_ether_addr *mac)
{
  (void)id;
  memset(mac, 2, sizeof(*mac));
  return 0;
}

int rte_eth_dev_start(uint16_t id)
{
  (void)id;
  starts++;
  return refuses_start;
}

int rte_eth_dev_stop(uint16_t id)
{
  (void)id;
  stops++;
  return 0;
}

int rte_eth_stats_get(uint16_t id, struct rte_eth_stats *stats)
{
  (void)id, (void)stats;
  return 0;
}

/* ---- Devices ----------------------------------------------------------------------------------
 */

static struct pst_device devices[3];

static int open_device(struct pst_device *device)
{
  *device = (struct pst_device){.dg = {.host = &host}};
  device->dg.plan.receivers = 1;
  return eth_port_open(device, &options, &device->port);
}

static int start_device(struct pst_device *device)
{
  device->is_started = true;
  return eth_port_start(device->port);
}

static int set_up(void **state)
{
  (void)state;
  options = (struct pst_options){.driver = ETH_DRIVER_NULL};
  refuses_probe = refuses_info = refuses_configure = refuses_start = 0;
  probes = removals = closes = configures = starts = stops = 0;
  netdev_index = 0;
  logged[0] = '\0';
  snprintf(folder, sizeof(folder), "/tmp/port-XXXXXX");
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/link", folder);
  return 0;
}

static int tear_down(void **state)
{
  char hidden[112];

  (void)state;
  snprintf(hidden, sizeof(hidden), "%s.closed", path);
  unlink(path);
  unlink(hidden);
  return rmdir(folder);
}

static void devices_of_a_name_share_a_port_that_starts_with_the_last(void **state)
{
  (void)state;
  assert_int_equal(open_device(&devices[0]), 0);
  assert_int_equal(open_device(&devices[1]), 0);
  assert_ptr_equal(devices[0].port, devices[1].port);
  assert_int_equal(probes, 1);
  assert_false(eth_port_is_sealed(devices[0].port));
  assert_int_equal(start_device(&devices[0]), 0);
  assert_int_equal(configures, 0);
  assert_int_equal(start_device(&devices[1]), 0);
  assert_int_equal(configures, 1);
  assert_int_equal(starts, 1);
  assert_true(eth_port_is_running(devices[0].port));
  eth_port_leave(devices[0].port, &devices[0]);
  assert_int_equal(closes, 0);
  eth_port_leave(devices[1].port, &devices[1]);
  assert_int_equal(stops, 1);
  assert_int_equal(closes, 1);
  assert_int_equal(removals, 1);
}

static void a_port_that_runs_is_refused_in_words(void **state)
{
  (void)state;
  assert_int_equal(open_device(&devices[0]), 0);
  assert_int_equal(start_device(&devices[0]), 0);
  assert_int_equal(open_device(&devices[1]), -EBUSY);
  assert_non_null(strstr(logged, "runs already, for other streams of this process"));
  assert_true(eth_port_is_sealed(devices[0].port));
  assert_non_null(strstr(logged, "takes no further worker, ring or endpoint"));
  eth_port_leave(devices[0].port, &devices[0]);
  assert_int_equal(open_device(&devices[1]), 0); /* it is closed: its name is free */
  eth_port_leave(devices[1].port, &devices[1]);
}

static void what_dpdk_does_not_open_leaves_nothing(void **state)
{
  (void)state;
  refuses_probe = -EINVAL;
  assert_int_equal(open_device(&devices[0]), -ENODEV);
  assert_non_null(strstr(logged, "DPDK does not open it: DPDK's words"));
  assert_int_equal(removals + closes, 0);
  refuses_probe = 0;
  assert_int_equal(open_device(&devices[0]), 0); /* no port of that name is listed */
  eth_port_leave(devices[0].port, &devices[0]);
}

static void a_device_that_says_nothing_is_unplugged(void **state)
{
  (void)state;
  refuses_info = -EIO;
  assert_int_equal(open_device(&devices[0]), -EIO);
  assert_int_equal(closes, 1);
  assert_int_equal(removals, 1);
}

static void a_port_that_is_not_configured_does_not_run(void **state)
{
  (void)state;
  refuses_configure = -ENOSPC;
  assert_int_equal(open_device(&devices[0]), 0);
  assert_int_equal(start_device(&devices[0]), -ENOSPC);
  assert_int_equal(starts, 0);
  assert_false(eth_port_is_running(devices[0].port));
  eth_port_leave(devices[0].port, &devices[0]);
  assert_int_equal(stops, 0);
  assert_int_equal(closes, 1);
}

static void a_device_that_does_not_start_is_an_error(void **state)
{
  (void)state;
  refuses_start = -EIO;
  assert_int_equal(open_device(&devices[0]), 0);
  assert_int_equal(start_device(&devices[0]), -EIO);
  assert_non_null(strstr(logged, "it does not start: DPDK's words"));
  eth_port_leave(devices[0].port, &devices[0]);
}

/* Its server may come later: the control plane tries again. */
static void a_memif_client_waits_for_its_server(void **state)
{
  (void)state;
  options =
      (struct pst_options){.driver = ETH_DRIVER_MEMIF, .role = ETH_ROLE_CLIENT, .socket = path};
  refuses_start = -ECONNREFUSED;
  assert_int_equal(open_device(&devices[0]), 0);
  assert_int_equal(start_device(&devices[0]), 0);
  assert_false(eth_port_is_running(devices[0].port));
  eth_port_leave(devices[0].port, &devices[0]);
  assert_int_equal(removals, 1);
}

static void an_interface_that_is_not_there_is_named(void **state)
{
  (void)state;
  options = (struct pst_options){.driver = ETH_DRIVER_AF_PACKET, .netdev = "eth7"};
  assert_int_equal(open_device(&devices[0]), -ENODEV);
  assert_non_null(strstr(logged, "there is no interface eth7; `ip link` lists"));
  assert_int_equal(probes, 0);
}

static void an_mtu_beyond_the_interfaces_has_the_command(void **state)
{
  (void)state;
  options = (struct pst_options){.driver = ETH_DRIVER_AF_PACKET, .netdev = "eth7", .mtu = 9000};
  netdev_index = 3;
  netdev_mtu = 1500;
  assert_int_equal(open_device(&devices[0]), -ENODEV);
  assert_non_null(strstr(logged, "`ip link set eth7 mtu 9000`"));
  options.mtu = 0;
  assert_int_equal(open_device(&devices[0]), 0);
  assert_int_equal(devices[0].port->mtu, 1500);
  eth_port_leave(devices[0].port, &devices[0]);
}

/* ---- A memif server's socket ------------------------------------------------------------------
 */

static int listen_at(const char *name)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

  snprintf(address.sun_path, sizeof(address.sun_path), "%s", name);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
  assert_int_equal(listen(fd, 1), 0);
  return fd;
}

static bool is_there(const char *suffix)
{
  char name[112];

  snprintf(name, sizeof(name), "%s%s", path, suffix);
  return access(name, F_OK) == 0;
}

static void a_server_that_was_killed_leaves_no_obstacle(void **state)
{
  (void)state;
  options = (struct pst_options){
      .driver = ETH_DRIVER_MEMIF, .role = ETH_ROLE_SERVER, .socket = path, .mtu = 1501};
  close(listen_at(path)); /* its file stays */
  assert_true(is_there(""));
  assert_int_equal(open_device(&devices[0]), 0);
  assert_false(is_there(""));
  eth_port_leave(devices[0].port, &devices[0]);
}

static void a_server_that_listens_is_not_disturbed(void **state)
{
  (void)state;
  options = (struct pst_options){
      .driver = ETH_DRIVER_MEMIF, .role = ETH_ROLE_SERVER, .socket = path, .mtu = 1502};
  int fd = listen_at(path);
  assert_int_equal(open_device(&devices[0]), -EADDRINUSE);
  assert_non_null(strstr(logged, "another program listens at"));
  assert_true(is_there(""));
  close(fd);
  unlink(path);
  assert_int_equal(mkdir(path, 0700), 0); /* whatever else is there stays */
  assert_int_equal(open_device(&devices[0]), -EEXIST);
  assert_int_equal(rmdir(path), 0);
}

/* DPDK 22.11 frees what its interrupt thread goes on using: the server is kept, and hidden. */
static void a_server_is_parked_and_used_again(void **state)
{
  (void)state;
  options = (struct pst_options){
      .driver = ETH_DRIVER_MEMIF, .role = ETH_ROLE_SERVER, .socket = path, .mtu = 1503};
  assert_int_equal(open_device(&devices[0]), 0);
  int fd = listen_at(path); /* as DPDK does */
  assert_int_equal(start_device(&devices[0]), 0);
  const uint16_t id = devices[0].port->id;
  eth_port_leave(devices[0].port, &devices[0]);
  assert_int_equal(closes + removals, 0);
  assert_true(is_there(".closed") && !is_there(""));
  assert_int_equal(open_device(&devices[1]), 0);
  assert_int_equal(probes, 1);
  assert_int_equal(devices[1].port->id, id);
  assert_int_equal(start_device(&devices[1]), 0);
  assert_true(is_there("") && !is_there(".closed"));
  eth_port_leave(devices[1].port, &devices[1]);
  close(fd);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      IN_FOLDER(devices_of_a_name_share_a_port_that_starts_with_the_last),
      IN_FOLDER(a_port_that_runs_is_refused_in_words),
      IN_FOLDER(what_dpdk_does_not_open_leaves_nothing),
      IN_FOLDER(a_device_that_says_nothing_is_unplugged),
      IN_FOLDER(a_port_that_is_not_configured_does_not_run),
      IN_FOLDER(a_device_that_does_not_start_is_an_error),
      IN_FOLDER(a_memif_client_waits_for_its_server),
      IN_FOLDER(an_interface_that_is_not_there_is_named),
      IN_FOLDER(an_mtu_beyond_the_interfaces_has_the_command),
      IN_FOLDER(a_server_that_was_killed_leaves_no_obstacle),
      IN_FOLDER(a_server_that_listens_is_not_disturbed),
      IN_FOLDER(a_server_is_parked_and_used_again),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
