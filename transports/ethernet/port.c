/* SPDX-License-Identifier: Apache-2.0 */
/* Ports by name: found, probed, started and closed. */
#include "port.h"

#include <net/if.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ring.h>

#include "eal.h"
#include "eal_thread.h"
#include "pool.h"

#define GREETING_MS 1000  /* of a server whose host is busy */
#define WIRE_FRAMES 4096u /* that lie in a ring of the driver of that name */

/* Device calls alone. */
static struct eth_port *ports;

static enum eth_role eth_port_role_of(const struct pst_device *device, enum eth_driver_kind driver,
                                      uint64_t option)
{
  if (option != ETH_ROLE_AUTO || (driver != ETH_DRIVER_MEMIF && driver != ETH_DRIVER_VIRTIO_USER))
    return (enum eth_role)option;
  return device->dg.plan.receivers ? ETH_ROLE_SERVER : ETH_ROLE_CLIENT;
}

static void eth_port_read_options(const struct pst_device *device,
                                  const struct pst_options *options, struct eth_port_options *out)
{
  const struct pst_host *host = device->dg.host;

  out->driver = (enum eth_driver_kind)host->option_uint(options, "driver");
  out->role = eth_port_role_of(device, out->driver, host->option_uint(options, "role"));
  out->device = host->option_string(options, "device");
  out->socket = host->option_string(options, "socket");
  out->netdev = host->option_string(options, "netdev");
  out->remote = host->option_string(options, "remote");
  out->rx_pcap = host->option_string(options, "rx_pcap");
  out->tx_pcap = host->option_string(options, "tx_pcap");
  out->devargs = host->option_string(options, "devargs");
  out->mac = host->option_string(options, "mac");
  out->mtu = (uint32_t)host->option_uint(options, "mtu");
  out->descriptors = (uint32_t)host->option_uint(options, "descriptors");
}

/* Does the PCI device need huge pages? One that the kernel's driver of mlx5 has does not. */
static bool eth_port_needs_huge(const struct pst_host *host, const struct pst_options *options,
                                const struct eth_port_options *port)
{
  static const enum { AUTO, NORMAL, HUGE } memory[] = {AUTO, NORMAL, HUGE};
  char path[160], link[256];
  ssize_t n;

  switch (memory[host->option_uint(options, "memory")]) {
  case NORMAL:
    return false;
  case HUGE:
    return true;
  default:
    break;
  }
  if (port->driver != ETH_DRIVER_PCI)
    return false;
  snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/driver", port->device);
  n = readlink(path, link, sizeof(link) - 1);
  link[n > 0 ? n : 0] = '\0';
  return !strstr(link, "mlx5_core");
}

/* The MTU of an interface; 0: there is none of that name. */
static uint32_t eth_port_netdev_mtu(const char *netdev)
{
  uint32_t index = if_nametoindex(netdev), mtu = 0;
  uint8_t mac[ETH_MAC_BYTES];
  bool is_up;

  return index && eth_netdev_look(index, mac, &mtu, &is_up) == 0 ? mtu : 0;
}

/* The interface of the kernel that is there before the port is; "": none. */
static const char *eth_port_netdev_below(const struct eth_port_options *options)
{
  const uint32_t traits = eth_drivers[options->driver].traits;

  return traits & ETH_MAKES_NETDEV ? options->remote
         : traits & ETH_HAS_NETDEV ? options->netdev
                                   : "";
}

/* Known before the device is: it decides the size of its buffers. */
static int eth_port_find_mtu(const struct eth_port *port, struct eth_port_options *options)
{
  const char *netdev = eth_port_netdev_below(options);

  if (!netdev[0]) {
    options->mtu = options->mtu ? options->mtu : RTE_ETHER_MTU;
    return 0;
  }
  uint32_t mtu = eth_port_netdev_mtu(netdev);
  if (!mtu)
    return ETH_PORT_REFUSE(port, -ENODEV,
                           "there is no interface %s; `ip link` lists those there are", netdev);
  if (options->mtu > mtu)
    return ETH_PORT_REFUSE(port, -ENODEV,
                           "mtu: %u is more than interface %s has: %u; `ip link set %s mtu %u`",
                           options->mtu, netdev, mtu, netdev, options->mtu);
  if (!options->mtu)
    options->mtu = port->has_remote ? RTE_MIN(mtu, RTE_ETHER_MTU) : mtu;
  return 0;
}

/* Finds one of the two rings between ends of a name; the first end makes them. */
static struct rte_ring *eth_port_find_wire(const char *name, const char *direction)
{
  char text[RTE_RING_NAMESIZE];
  struct rte_ring *ring;

  snprintf(text, sizeof(text), "pst.%.18s.%s", name, direction);
  ring = rte_ring_lookup(text);
  return ring ? ring : rte_ring_create(text, WIRE_FRAMES, SOCKET_ID_ANY, 0);
}

/* Frees the frames on the wire, which were sent to a port that is closed. */
static void eth_port_drain_wire(struct rte_ring *ring)
{
  void *mbuf;

  while (ring && rte_ring_dequeue(ring, &mbuf) == 0)
    rte_pktmbuf_free(mbuf);
}

/* Pools of closed ports that still have mbufs elsewhere in the process: with a port of the driver
 * ring that has not read them. */
static struct rte_mempool *retired[64];

/* Free it now, or as soon as a later call finds all its mbufs back. */
static void eth_port_retire(struct rte_mempool *mempool)
{
  for (size_t i = 0; i < sizeof(retired) / sizeof(retired[0]); i++) {
    if (retired[i] && rte_mempool_full(retired[i])) {
      rte_mempool_free(retired[i]);
      retired[i] = NULL;
    }
    if (!retired[i] && mempool) {
      retired[i] = mempool;
      mempool = NULL;
      i--; /* perhaps it is full */
    }
  }
}

/* A ring receives what it sends; server and client receive what the other sends. */
static int eth_port_probe_ring(struct eth_port *port, const struct eth_port_options *options)
{
  const char *name = options->device[0] ? options->device : "ring";
  const char *to = options->role == ETH_ROLE_CLIENT ? "s" : "c";
  const char *from = options->role == ETH_ROLE_CLIENT ? "c" : "s";
  struct rte_ring *rx, *tx;

  if (options->role == ETH_ROLE_AUTO)
    to = from = "l";
  tx = eth_port_find_wire(name, to);
  rx = eth_port_find_wire(name, from);
  if (!tx || !rx)
    return -ENOMEM;
  eth_port_drain_wire(rx);
  port->wire = rx;
  int id = rte_eth_from_rings(port->name + strlen("net_ring_"), &rx, 1, &tx, 1, 0);
  if (id < 0)
    return -rte_errno;
  port->id = (uint16_t)id;
  return rte_eth_dev_get_name_by_port(port->id, port->name);
}

/* A name that no device of DPDK's in this process has. */
static void eth_port_choose_name(struct eth_port *port, const char *base)
{
  uint16_t id;

  for (uint32_t i = 0;; i++) {
    snprintf(port->name, sizeof(port->name), "%.40s_pst%u", base, i);
    if (rte_eth_dev_get_port_by_name(port->name, &id) != 0)
      return;
  }
}

/*
 * A memif server that was closed leaves its listening socket with DPDK's interrupt thread (22.11:
 * the callback is not unregistered), which would call into freed memory. So servers are stopped and
 * kept, and the next port with the same arguments has it again.
 */
struct parked {
  struct parked *next;
  char name[RTE_ETH_NAME_MAX_LEN];
  char arguments[ETH_TEXT_MAX];
  char socket[108];
  uint16_t id;
  pid_t process;
};
static struct parked *parked;
static bool is_at_exit;

/* Clients reach a server that is parked no more, and would find no queues: its socket has another
 * name meanwhile. */
static void eth_port_show_socket(const struct eth_port *port, bool is_shown)
{
  char hidden[sizeof(port->socket) + 16];

  snprintf(hidden, sizeof(hidden), "%s.closed", port->socket);
  if (is_shown ? rename(hidden, port->socket) : rename(port->socket, hidden))
    ETH_PORT_LOG(port, PST_LOG_DEBUG, "%s is not renamed: %s", port->socket, strerror(errno));
}

static bool eth_port_is_kept(const struct eth_port *port)
{
  return port->driver == &eth_drivers[ETH_DRIVER_MEMIF] && !port->waits_for_server;
}

/* The process ends: as DPDK would, had the server been closed. */
static void eth_port_remove_sockets(void)
{
  for (const struct parked *at = parked; at; at = at->next)
    if (at->process == getpid()) {
      char hidden[sizeof(at->socket) + 16];
      snprintf(hidden, sizeof(hidden), "%s.closed", at->socket);
      unlink(hidden);
    }
}

static bool eth_port_park(const struct eth_port *port)
{
  struct parked *made = eth_port_is_kept(port) ? calloc(1, sizeof(*made)) : NULL;

  if (!made)
    return false;
  memcpy(made->name, port->name, sizeof(made->name));
  memcpy(made->arguments, port->arguments, sizeof(made->arguments));
  memcpy(made->socket, port->socket, sizeof(made->socket));
  made->id = port->id;
  made->process = getpid();
  if (!is_at_exit)
    atexit(eth_port_remove_sockets);
  is_at_exit = true;
  made->next = parked;
  parked = made;
  eth_port_show_socket(port, false);
  return true;
}

static bool eth_port_unpark(struct eth_port *port, const char *arguments)
{
  struct parked **at = &parked, *found;

  while (*at && strcmp((*at)->arguments, arguments) != 0)
    at = &(*at)->next;
  found = *at;
  if (!found || !eth_port_is_kept(port))
    return false;
  *at = found->next;
  memcpy(port->name, found->name, sizeof(port->name));
  port->id = found->id;
  free(found);
  port->was_parked = true;
  return true;
}

/* Removes the socket of a server that was killed. A connection of another type tells it from the
 * socket of a live server: both refuse it, with different errors, and it disturbs nobody. */
static int eth_port_check_socket(const struct eth_port *port)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  struct stat found;
  int fd, error;

  if (!eth_port_is_kept(port) || lstat(port->socket, &found) != 0)
    return 0;
  if (!S_ISSOCK(found.st_mode))
    return ETH_PORT_REFUSE(port, -EEXIST, "socket: %s is there, and no socket; choose another name",
                           port->socket);
  snprintf(address.sun_path, sizeof(address.sun_path), "%s", port->socket);
  fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  error = fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ? errno : 0;
  if (fd >= 0)
    close(fd);
  if (error == ECONNREFUSED)
    return unlink(port->socket) == 0 ? 0 : -errno;
  return ETH_PORT_REFUSE(
      port, -EADDRINUSE,
      "another program listens at %s; choose another `socket`, or `role: client` "
      "to connect to that program (`ss -xlp` names it)",
      port->socket);
}

/* Attaches the port to DPDK by its driver's name and arguments. 0, or -errno after a log with the
 * remedy. */
static int eth_port_probe(struct eth_port *port, const struct eth_port_options *options)
{
  char name[ETH_TEXT_MAX], *arguments = port->arguments;
  bool is_named = options->driver == ETH_DRIVER_PCI || options->driver == ETH_DRIVER_OTHER;
  int rc = eth_devargs(options, name, arguments);

  if (rc < 0)
    return ETH_PORT_REFUSE(port, rc, "its names and arguments have more than %u characters",
                           ETH_TEXT_MAX);
  if (is_named)
    snprintf(port->name, sizeof(port->name), "%.60s", name);
  else
    eth_port_choose_name(port, name);
  rc = eth_port_check_socket(port);
  if (rc < 0 || eth_port_unpark(port, arguments))
    return rc;
  eal_words_clear();
  if (options->driver == ETH_DRIVER_RING)
    rc = eth_port_probe_ring(port, options);
  else
    rc = rte_eal_hotplug_add(options->driver == ETH_DRIVER_PCI ? "pci" : "vdev", port->name,
                             arguments);
  if (rc == 0 && options->driver != ETH_DRIVER_RING &&
      rte_eth_dev_get_port_by_name(port->name, &port->id) != 0)
    rc = -ENODEV;
  if (rc == 0)
    return 0;
  return ETH_PORT_REFUSE(
      port, rc == -EINVAL ? -ENODEV : rc, "DPDK does not open it%s (%s)%s%s%s; %s", eal_words(),
      strerror(-rc), arguments[0] ? "; its arguments: " : "", arguments, "",
      options->driver == ETH_DRIVER_PCI
          ? "`dpdk-devbind.py -s` shows cards and drivers; `dpdk-devbind.py -b vfio-pci ADDRESS` "
            "(as root) gives a card to DPDK, mlx5 stays with the kernel's"
          : "interfaces of the kernel need CAP_NET_RAW, or root");
}

static void eth_port_unplug(struct eth_port *port)
{
  bool is_pci = port->driver == &eth_drivers[ETH_DRIVER_PCI];

  rte_eth_dev_close(port->id);
  rte_eal_hotplug_remove(is_pci ? "pci" : "vdev", port->name);
}

/* Reads the device's MAC, MTU and limits. */
static int eth_port_look_at_device(struct eth_port *port, const struct eth_port_options *options)
{
  struct rte_ether_addr mac;
  uint16_t mtu = 0;
  int rc = rte_eth_dev_info_get(port->id, &port->info);

  if (rc == 0)
    rc = rte_eth_macaddr_get(port->id, &mac);
  if (rc < 0)
    return ETH_PORT_REFUSE(port, rc, "DPDK knows nothing of it: %s", strerror(-rc));
  memcpy(port->mac, mac.addr_bytes, sizeof(port->mac));
  port->mtu = options->mtu;
  if (options->driver == ETH_DRIVER_PCI && rte_eth_dev_get_mtu(port->id, &mtu) == 0 && mtu &&
      !port->wants_mtu)
    port->mtu = mtu;
  port->segments_max =
      port->info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS
          ? (port->info.tx_desc_lim.nb_mtu_seg_max ? port->info.tx_desc_lim.nb_mtu_seg_max : 8)
          : 1;
  port->reads_by_reference =
      !(port->driver->traits & ETH_SENDS_COPIES) && rte_eal_iova_mode() == RTE_IOVA_VA;
  /* The interface of a tap has DPDK's MAC, and the host behind it cannot have the same. */
  if (options->driver == ETH_DRIVER_TAP && !port->has_remote &&
      !eth_mac_read(options->mac, port->mac))
    port->mac[5] ^= 1;
  /* A ring has no MAC of its own that differs from others'. */
  if (port->driver == &eth_drivers[ETH_DRIVER_RING]) {
    port->mac[0] = 0x02;
    for (int i = 1; i < 5; i++)
      port->mac[i] =
          (uint8_t)(options->device[0] ? options->device[i % strlen(options->device)] : i);
    port->mac[5] = (uint8_t)(options->role + 1);
  }
  return 0;
}

static int eth_port_open_control(struct eth_port *port)
{
  struct eth_neighbours_params neighbours = {.vlan = port->vlan, .own_count = port->network_count};
  struct eth_groups_params groups = {.vlan = port->vlan};
  uint64_t seed = 0;

  rte_spinlock_init(&port->control_lock);
  if (port->netdev)
    return 0; /* the kernel answers, asks and joins */
  if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) < 0)
    seed = port->host->clock_ns(port->host);
  memcpy(neighbours.mac, port->mac, sizeof(neighbours.mac));
  memcpy(groups.mac, port->mac, sizeof(groups.mac));
  memset(groups.own_v4 + 10, 0xff, 2);
  for (uint32_t i = 0; i < port->network_count; i++) {
    memcpy(neighbours.own[i], port->networks[i].address, sizeof(neighbours.own[i]));
    if (eth_is_v4(port->networks[i].address))
      memcpy(groups.own_v4, port->networks[i].address, sizeof(groups.own_v4));
  }
  neighbours.seed = groups.seed = seed;
  int rc = eth_neighbours_open(&neighbours, port->host->clock_ns(port->host), &port->neighbours);
  if (rc == 0)
    rc = eth_groups_open(&groups, &port->groups);
  return rc < 0 ? ETH_PORT_REFUSE(port, rc, "its addresses cannot be used: %s", strerror(-rc)) : 0;
}

static void eth_port_free(struct eth_port *port)
{
  eth_neighbours_close(port->neighbours);
  eth_groups_close(port->groups);
  free(port->devices);
  free(port->rxqs);
  free(port->txqs);
  free(port->table);
  free(port->pools);
  for (uint32_t i = 0; i < port->mempool_count; i++)
    eth_port_retire(port->mempools[i]);
  free(port->mempools);
  free(port->xstat_ids);
  free(port->xstat_kinds);
  free(port);
}

/* A tap takes all frames off `remote` until it is isolated. DPDK 22.11 isolates a tap that has a
 * queue; one that has none stays as it is, and DPDK says nothing. */
static int eth_port_isolate_tap(struct eth_port *port)
{
  const struct rte_eth_conf conf = {.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE};
  char why[ETH_SIZES_WHY] = "DPDK gives it no queue";
  struct rte_mempool *mempool;
  int rc = eth_port_make_mempool(port, 2 * ETH_BURST, port->mtu + 18, &mempool);

  rc = rc ? rc : rte_eth_dev_configure(port->id, 1, 1, &conf);
  rc = rc ? rc : rte_eth_rx_queue_setup(port->id, 0, ETH_BURST, SOCKET_ID_ANY, NULL, mempool);
  rc = rc ? rc : eth_port_isolate(port, true, why);
  return rc < 0 ? ETH_PORT_REFUSE(port, rc, "%s%s", why, eal_words()) : 0;
}

/* Probes, configures and starts the port. On failure the caller closes what is open. */
static int eth_port_make(struct pst_device *device, const struct pst_options *options,
                         struct eth_port_options *in, struct eth_port *port)
{
  const struct pst_host *host = device->dg.host;
  uint64_t vlan = host->option_uint(options, "vlan");
  int rc;

  port->driver = &eth_drivers[in->driver];
  snprintf(port->socket, sizeof(port->socket), "%s", in->socket);
  port->waits_for_server = in->driver == ETH_DRIVER_MEMIF && in->role == ETH_ROLE_CLIENT;
  port->vlan = vlan ? (uint16_t)vlan : ETH_UNTAGGED;
  port->descriptors = in->descriptors;
  port->descriptors_fixed = host->option_is_set(options, "descriptors");
  port->wants_mtu = in->mtu != 0;
  port->wants_rules = host->option_uint(options, "rules") == 0;
  port->has_remote = in->remote[0] != '\0';
  rc = eth_port_find_mtu(port, in);
  rc = rc ? rc : eal_start(host, options, eth_port_needs_huge(host, options, in));
  rc = rc ? rc : eth_port_probe(port, in);
  if (rc < 0)
    return rc;
  rc = eth_port_look_at_device(port, in);
  if (in->remote[0] || in->netdev[0])
    port->netdev = if_nametoindex(in->remote[0] ? in->remote : in->netdev);
  else if (rc == 0)
    port->netdev = port->info.if_index;
  rc = rc ? rc : eth_port_find_networks(port, options);
  if (rc == 0)
    eth_times_open(port, in->driver == ETH_DRIVER_PCAP && in->netdev[0]);
  port->has_kernel =
      (in->driver == ETH_DRIVER_PCI || port->has_remote) && port->netdev && port->info.if_index;
  if (rc == 0 && port->has_remote && port->has_kernel)
    rc = eth_port_isolate_tap(port);
  rc = rc ? rc : eth_port_open_control(port);
  port->table = rc ? NULL : calloc(1, sizeof(*port->table));
  if (rc == 0 && !port->table)
    rc = -ENOMEM;
  if (rc < 0)
    eth_port_unplug(port);
  return rc;
}

static struct eth_port *eth_port_find(const char *identity)
{
  struct eth_port *port = ports;

  while (port && strcmp(port->identity, identity) != 0)
    port = port->next;
  return port;
}

static int eth_port_join(struct eth_port *port, struct pst_device *device)
{
  struct pst_device **grown =
      realloc(port->devices, (port->device_count + 1) * sizeof(struct pst_device *));

  if (!grown)
    return -ENOMEM;
  port->devices = grown;
  port->devices[port->device_count++] = device;
  return 0;
}

int eth_port_open(struct pst_device *device, const struct pst_options *options,
                  struct eth_port **port)
{
  const struct pst_host *host = device->dg.host;
  struct eth_port_options in;
  char identity[ETH_TEXT_MAX];
  struct eth_port *found;
  int rc;

  eth_port_read_options(device, options, &in);
  eth_port_identity(&in, identity);
  found = eth_port_find(identity);
  if (found && found->stage != ETH_PORT_OPEN)
    return PST_REFUSE(host, -EBUSY,
                      "port %s runs already, for other streams of this process: its queues are "
                      "fixed when it starts; open all its streams in one session, or close those "
                      "first",
                      identity);
  if (found) {
    *port = found;
    return eth_port_join(found, device);
  }
  found = calloc(1, sizeof(*found));
  if (!found)
    return -ENOMEM;
  found->host = host;
  memcpy(found->identity, identity, sizeof(identity));
  rc = eth_port_make(device, options, &in, found);
  if (rc == 0 && (rc = eth_port_join(found, device)) < 0)
    eth_port_unplug(found);
  if (rc < 0) {
    eth_port_free(found);
    return rc;
  }
  found->next = ports;
  ports = found;
  *port = found;
  return 0;
}

/* A memif client that leaves before the server has greeted it ends the server's process: DPDK 22.11
 * closes the connection, does not forget it, and panics. The server greets within a millisecond or
 * two, unless its host is busy. */
static void eth_port_await_greeting(const struct eth_port *port)
{
  struct rte_eth_link link = {.link_status = RTE_ETH_LINK_DOWN};

  for (int i = 0; i < GREETING_MS && port->waits_for_server && eth_port_is_running(port); i++) {
    rte_eth_link_get_nowait(port->id, &link);
    if (link.link_status == RTE_ETH_LINK_UP)
      return;
    usleep(1000);
  }
}

/* On DPDK's thread, which ends a memif, too, when its peer leaves: the two would not wait for each
 * other. */
static void eth_port_stop_device(void *arg)
{
  struct eth_port *port = arg;

  if (eth_port_is_running(port))
    rte_eth_dev_stop(port->id);
}

void eth_port_stop(struct eth_port *port)
{
  eal_thread_run(eth_port_stop_device, port);
  if (eth_port_is_running(port))
    __atomic_store_n(&port->stage, ETH_PORT_CONFIGURED, __ATOMIC_RELEASE);
}

static void eth_port_close(struct eth_port *port)
{
  struct eth_port **at = &ports;

  for (uint32_t i = 0; i < port->rxq_count; i++)
    eth_rxq_drop(&port->rxqs[i]);
  eth_port_await_greeting(port);
  eth_port_stop(port);
  if (!eth_port_park(port))
    eth_port_unplug(port);
  for (uint32_t i = 0; i < port->pool_count; i++)
    eth_pool_close(port->pools[i]);
  eth_port_drain_wire(port->wire);
  while (*at != port)
    at = &(*at)->next;
  *at = port->next;
  eth_port_free(port);
}

void eth_port_leave(struct eth_port *port, struct pst_device *device)
{
  for (uint32_t i = 0; i < port->device_count; i++)
    if (port->devices[i] == device)
      port->devices[i] = port->devices[--port->device_count];
  if (port->device_count == 0)
    eth_port_close(port);
}

int eth_port_start(struct eth_port *port)
{
  int rc = 0;

  for (uint32_t i = 0; i < port->device_count; i++)
    if (!port->devices[i]->is_started)
      return 0;
  eal_words_clear();
  port->stage = ETH_PORT_CONFIGURED;
  rc = eth_port_configure(port);
  if (rc < 0)
    return rc;
  if (port->was_parked)
    eth_port_show_socket(port, true);
  rc = eth_port_is_running(port) ? 0 : eth_port_run(port);
  if (rc == 0 || port->waits_for_server)
    return 0;
  return ETH_PORT_REFUSE(port, rc, "it does not start%s: %s", eal_words(), strerror(-rc));
}

bool eth_port_is_sealed(const struct eth_port *port)
{
  if (port->stage != ETH_PORT_OPEN)
    ETH_PORT_LOG(
        port, PST_LOG_ERROR,
        "it runs, and takes no further worker, ring or endpoint: its queues are fixed when "
        "it starts; a bug of the host");
  return port->stage != ETH_PORT_OPEN;
}

int eth_port_run(struct eth_port *port)
{
  int rc = rte_eth_dev_start(port->id);

  if (rc < 0)
    return rc;
  rte_eth_stats_get(port->id, &port->before);
  if (!port->xstat_ids)
    eth_port_find_xstats(port);
  eth_port_read_xstats(port, port->xstats_before);
  if (!eth_times_start(port))
    ETH_PORT_LOG(port, PST_LOG_WARN,
                 "the card's clock stands still: messages have the time at which they are taken");
  __atomic_store_n(&port->stage, ETH_PORT_RUNNING, __ATOMIC_RELEASE);
  return 0;
}
