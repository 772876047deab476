/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the kernel's view of each port, and the ports that are no PCI devices. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "host/network.h"
#include "ports.h"

#define ARPHRD_LOOPBACK 772
#define ARPHRD_INFINIBAND 32

static struct topo_adapter *ports_of_netdev(struct topo_machine *machine, const char *netdev)
{
  for (size_t i = 0; i < machine->adapter_count; i++)
    if (netdev[0] && strcmp(machine->adapters[i].netdev, netdev) == 0)
      return &machine->adapters[i];
  return NULL;
}

static bool ports_has_rdma(const struct topo_machine *machine, const char *rdma)
{
  for (size_t i = 0; i < machine->adapter_count; i++)
    if (strcmp(machine->adapters[i].rdma, rdma) == 0)
      return true;
  return false;
}

/* A VLAN, a bond, a bridge: it is where the first interface below it is. */
static void ports_place_over(struct host *host, struct topo_machine *machine,
                             struct topo_adapter *adapter)
{
  static const char lower[] = "lower_";
  const struct host_names *files = host_list(host, "sys/class/net/%s", adapter->netdev);

  for (size_t i = 0; i < files->count && !adapter->over[0]; i++) {
    if (strncmp(files->names[i], lower, sizeof(lower) - 1) != 0)
      continue;
    const struct topo_adapter *below =
        ports_of_netdev(machine, files->names[i] + sizeof(lower) - 1);
    if (!below)
      continue;
    adapter->place = below->place;
    snprintf(adapter->over, sizeof(adapter->over), "%s", below->netdev);
  }
}

static int ports_add_netdev(struct host *host, struct topo_machine *machine, const char *netdev)
{
  if (ports_of_netdev(machine, netdev))
    return 0;
  struct topo_adapter *adapter =
      topo_grow((void **)&machine->adapters, &machine->adapter_count, sizeof(*adapter));
  if (!adapter)
    return -ENOMEM;
  adapter->place.node = -1;
  snprintf(adapter->netdev, sizeof(adapter->netdev), "%s", netdev);
  memcpy(adapter->name, adapter->netdev, sizeof(adapter->netdev));
  ports_place_over(host, machine, adapter);
  return 0;
}

/* bonding_masters is a file there, and no netdev. */
static int ports_add_others(struct host *host, struct topo_machine *machine,
                            const struct host_network *network)
{
  const struct host_names *netdevs = host_list(host, "sys/class/net");
  int rc = 0;

  for (size_t i = 0; i < netdevs->count && rc == 0; i++)
    if (host_has(host, "sys/class/net/%s/ifindex", netdevs->names[i]))
      rc = ports_add_netdev(host, machine, netdevs->names[i]);
  for (size_t i = 0; i < network->link_count && rc == 0; i++)
    rc = ports_add_netdev(host, machine, network->links[i].name);
  return rc;
}

/* An RDMA device belongs to the netdev of its GIDs; soft-RoCE has no other tie. */
static int ports_add_rdma(struct host *host, struct topo_machine *machine)
{
  const struct host_names *devices = host_list(host, "sys/class/infiniband");

  for (size_t i = 0; i < devices->count; i++) {
    const char *rdma = devices->names[i];
    if (ports_has_rdma(machine, rdma))
      continue;
    const char *netdev = host_text(host, "sys/class/infiniband/%s/parent", rdma);
    if (!netdev)
      netdev = host_text(host, "sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/0", rdma);
    struct topo_adapter *adapter = ports_of_netdev(machine, netdev ? netdev : "");
    if (!adapter && !(adapter = topo_grow((void **)&machine->adapters, &machine->adapter_count,
                                          sizeof(*adapter))))
      return -ENOMEM;
    if (!adapter->name[0]) {
      adapter->place.node = -1;
      snprintf(adapter->name, sizeof(adapter->name), "%s", rdma);
    }
    snprintf(adapter->rdma, sizeof(adapter->rdma), "%s", rdma);
  }
  return 0;
}

static void ports_read_netdev(struct host *host, struct topo_adapter *adapter)
{
  const char *netdev = adapter->netdev;
  int64_t type = 0, mtu = 0, speed = 0;

  host_number(host, &type, "sys/class/net/%s/type", netdev);
  host_number(host, &mtu, "sys/class/net/%s/mtu", netdev);
  host_number(host, &speed, "sys/class/net/%s/speed", netdev);
  const char *state = host_text(host, "sys/class/net/%s/operstate", netdev);
  adapter->is_loopback = type == ARPHRD_LOOPBACK;
  adapter->is_infiniband = type == ARPHRD_INFINIBAND;
  adapter->mtu = mtu > 0 ? (uint32_t)mtu : 0;
  adapter->speed_mbps = speed > 0 ? (uint64_t)speed : 0;
  snprintf(adapter->state, sizeof(adapter->state), "%s", state ? state : "");
}

/* rate: "100 Gb/sec (4X EDR)", of the first port. */
static void ports_read_rdma(struct host *host, struct topo_adapter *adapter)
{
  const char *rate = host_text(host, "sys/class/infiniband/%s/ports/1/rate", adapter->rdma);
  const char *layer = host_text(host, "sys/class/infiniband/%s/ports/1/link_layer", adapter->rdma);

  if (adapter->speed_mbps == 0 && rate)
    adapter->speed_mbps = (uint64_t)(1000 * strtod(rate, NULL));
  adapter->is_infiniband |= layer && strcmp(layer, "InfiniBand") == 0;
}

static int ports_add_address(struct topo_adapter *adapter, const char *text)
{
  struct topo_address *address =
      topo_grow((void **)&adapter->addresses, &adapter->address_count, sizeof(*address));

  if (!address)
    return -ENOMEM;
  snprintf(address->text, sizeof(address->text), "%s", text);
  address->is_ipv6 = strchr(text, ':') != NULL;
  address->is_link_local = strncmp(text, "fe80:", 5) == 0;
  return 0;
}

/* Reads by netlink what the files do not have. */
static int ports_read_link(const struct host_network *network, const struct host_link *link,
                           struct topo_adapter *adapter)
{
  int rc = 0;

  if (adapter->mtu == 0)
    adapter->mtu = link->mtu;
  if (adapter->speed_mbps == 0 && link->speed_mbps > 0)
    adapter->speed_mbps = (uint64_t)link->speed_mbps;
  if (!adapter->state[0])
    snprintf(adapter->state, sizeof(adapter->state), "%s",
             link->up && link->carrier ? "up" : "down");
  adapter->is_loopback |= link->is_loopback;
  for (size_t i = 0; i < link->address_count && rc == 0; i++)
    rc = ports_add_address(adapter, link->addresses[i]);
  for (size_t i = 0; i < network->neighbour_count && rc == 0; i++) {
    const struct host_neighbour *from = &network->neighbours[i];
    if (strcmp(from->link, adapter->netdev) != 0)
      continue;
    struct topo_neighbour *to =
        topo_grow((void **)&adapter->neighbours, &adapter->neighbour_count, sizeof(*to));
    if (!to)
      return -ENOMEM;
    snprintf(to->address, sizeof(to->address), "%s", from->address);
    snprintf(to->mac, sizeof(to->mac), "%s", from->mac);
    snprintf(to->state, sizeof(to->state), "%s", from->state);
  }
  return rc;
}

/* "2-5,8" of the kernel's. */
static void ports_read_isolated(struct host *host, struct topo_machine *machine)
{
  const char *text = host_text(host, "sys/devices/system/cpu/isolated");

  while (text && *text >= '0' && *text <= '9') {
    char *end;
    const long first = strtol(text, &end, 10),
               last = *end == '-' ? strtol(end + 1, &end, 10) : first;
    for (size_t i = 0; i < machine->cpu_count; i++)
      machine->cpus[i].is_isolated |=
          machine->cpus[i].number >= first && machine->cpus[i].number <= last;
    text = end + (*end == ',');
  }
}

int topo_ports_read(struct host *host, struct topo_machine *machine)
{
  struct host_network network = {.known = false};

  host_network_read(host, &network);
  int rc = ports_add_others(host, machine, &network);
  if (rc == 0)
    rc = ports_add_rdma(host, machine);
  for (size_t i = 0; rc == 0 && i < machine->adapter_count; i++) {
    struct topo_adapter *adapter = &machine->adapters[i];
    const struct host_link *link = host_link_find(&network, adapter->netdev);
    if (adapter->netdev[0])
      ports_read_netdev(host, adapter);
    if (adapter->rdma[0])
      ports_read_rdma(host, adapter);
    if (link)
      rc = ports_read_link(&network, link, adapter);
  }
  ports_read_isolated(host, machine);
  host_network_free(&network);
  return rc;
}
