/* SPDX-License-Identifier: Apache-2.0 */
/* The port's own addresses, and its UDP ports. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <stdio.h>
#include <unistd.h>

#include "port.h"

#define UDP_FIRST 49152u /* RFC 6335: the first port for programs that ask for a free one */

static const struct eth_network *eth_addresses_find_family(const struct eth_port *port, bool is_v4)
{
  for (uint32_t i = 0; i < port->network_count; i++)
    if (eth_is_v4(port->networks[i].address) == is_v4)
      return &port->networks[i];
  return NULL;
}

const struct eth_network *eth_port_network(const struct eth_port *port, int family)
{
  return eth_addresses_find_family(port, family == AF_INET);
}

static uint32_t eth_addresses_mask_bits(const struct sockaddr *mask, const uint8_t *bytes,
                                        uint32_t count)
{
  uint32_t bits = 0;

  for (uint32_t i = 0; mask && i < count; i++)
    bits += (uint32_t)__builtin_popcount(bytes[i]);
  return bits;
}

/* Reads the first address of each family that the kernel has there; for IPv6 a link-local one if
 * there is no other. */
static void eth_addresses_read_kernel(struct eth_port *port)
{
  char name[IF_NAMESIZE] = "";
  struct ifaddrs *list;

  if (!if_indextoname(port->netdev, name) || getifaddrs(&list) != 0)
    return;
  for (int pass = 0; pass < 2; pass++)
    for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
      struct eth_network network = {.prefix = 0};
      union dg_address address;
      struct dg_source source;
      if (!at->ifa_addr || strcmp(at->ifa_name, name) != 0 ||
          (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6))
        continue;
      bool is_v4 = at->ifa_addr->sa_family == AF_INET;
      memcpy(&address, at->ifa_addr, is_v4 ? sizeof(address.v4) : sizeof(address.v6));
      if (eth_addresses_find_family(port, is_v4) ||
          (pass == 0 && !is_v4 && IN6_IS_ADDR_LINKLOCAL(&address.v6.sin6_addr)))
        continue;
      dg_address_source(&address, &source);
      memcpy(network.address, source.address, sizeof(network.address));
      network.prefix =
          is_v4 ? eth_addresses_mask_bits(
                      at->ifa_netmask,
                      (uint8_t *)&((struct sockaddr_in *)at->ifa_netmask)->sin_addr, 4)
                : eth_addresses_mask_bits(
                      at->ifa_netmask,
                      (uint8_t *)&((struct sockaddr_in6 *)at->ifa_netmask)->sin6_addr, 16);
      port->networks[port->network_count++] = network;
    }
  freeifaddrs(list);
}

/* Adds link-local addresses: 169.254/16 by the MAC (RFC 3927), and fe80::/64. */
static void eth_addresses_add_link_local(struct eth_port *port)
{
  const uint8_t *mac = port->mac;
  struct eth_network *network;

  if (!eth_addresses_find_family(port, true)) {
    network = &port->networks[port->network_count++];
    memset(network, 0, sizeof(*network));
    memset(network->address + 10, 0xff, 2);
    network->address[12] = 169;
    network->address[13] = 254;
    network->address[14] = (uint8_t)(1 + (mac[0] ^ mac[2] ^ mac[4]) % 254);
    network->address[15] = (uint8_t)(1 + (mac[1] ^ mac[3] ^ mac[5]) % 254);
    network->prefix = 16;
  }
  if (!eth_addresses_find_family(port, false)) {
    network = &port->networks[port->network_count++];
    eth_link_local(mac, network->address);
    network->prefix = 64;
  }
}

/* Does the kernel's interface have this address? */
static bool eth_addresses_is_kernels(const struct eth_port *port, const uint8_t address[16])
{
  struct eth_port kernels = {.netdev = port->netdev};

  eth_addresses_read_kernel(&kernels);
  for (uint32_t i = 0; i < kernels.network_count; i++)
    if (memcmp(kernels.networks[i].address, address, 16) == 0)
      return true;
  return false;
}

static int eth_addresses_read_gateway(struct eth_port *port, const struct pst_options *options)
{
  const char *text = port->host->option_string(options, "gateway");
  uint8_t address[16];
  uint32_t prefix;

  if (text[0] && eth_network_read(text, address, &prefix))
    memcpy(port->gateways[eth_is_v4(address) ? 0 : 1], address, sizeof(address));
  return 0;
}

int eth_port_find_networks(struct eth_port *port, const struct pst_options *options)
{
  const struct pst_host *host = port->host;
  const char *text;

  for (uint32_t i = 0; (text = host->option_item(options, "address", i)); i++) {
    struct eth_network network;
    if (!eth_network_read(text, network.address, &network.prefix))
      return ETH_PORT_REFUSE(port, -EINVAL, "address: %s cannot be the address of a port", text);
    if (eth_addresses_find_family(port, eth_is_v4(network.address)))
      return ETH_PORT_REFUSE(
          port, -EINVAL,
          "address: %s is the second of its family; a port has one IPv4 and one IPv6 address",
          text);
    port->networks[port->network_count++] = network;
  }
  eth_addresses_read_gateway(port, options);
  if (port->network_count == 0 && port->netdev)
    eth_addresses_read_kernel(port);
  else if (port->netdev && !eth_addresses_is_kernels(port, port->networks[0].address))
    port->netdev = 0; /* only this port answers for it */
  if (!port->netdev)
    eth_addresses_add_link_local(port);
  if (port->network_count)
    return 0;
  return ETH_PORT_REFUSE(port, -EADDRNOTAVAIL,
                         "its interface has no address; `ip address add 192.0.2.1/24 dev NAME` "
                         "gives it one; the option `address` gives one to this port only");
}

/* The kernel's socket of that address: it reserves the UDP port, and keeps the kernel from
 * answering that nobody listens there. A filter refuses every datagram. */
static int eth_addresses_hold_in_kernel(struct pst_endpoint *endpoint, uint16_t *port, int *fd)
{
  struct sock_filter refuse[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  struct sock_fprog filter = {1, refuse};
  union dg_address local = endpoint->dg.local;
  socklen_t length = sizeof(local);
  int made = socket(endpoint->dg.family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int on = 1;

  if (made < 0)
    return -errno;
  dg_address_port_set(&local, *port);
  if (local.any.sa_family == AF_INET6)
    local.v6.sin6_scope_id = endpoint->worker->device->port->netdev;
  setsockopt(made, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter));
  if (local.any.sa_family == AF_INET6)
    setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
  if (bind(made, &local.any, dg_address_length(&local)) != 0 ||
      getsockname(made, &local.any, &length) != 0) {
    int rc = -errno;
    close(made);
    return rc;
  }
  *port = dg_address_port(&local);
  *fd = made;
  return 0;
}

/* A sender's. */
static bool eth_addresses_is_source_taken(const struct eth_port *port,
                                          const struct pst_endpoint *mine, uint16_t udp)
{
  for (uint32_t d = 0; d < port->device_count; d++)
    for (uint32_t w = 0; w < port->devices[d]->worker_count; w++) {
      const struct pst_worker *worker = port->devices[d]->workers[w];
      for (uint32_t i = 0; i < worker->endpoint_count; i++)
        if (worker->endpoints[i] != mine && worker->endpoints[i]->udp_port == udp &&
            worker->endpoints[i]->tx &&
            memcmp(worker->endpoints[i]->own, mine->own, sizeof(mine->own)) == 0)
          return true;
    }
  return false;
}

/* Finds the first other receiver at the same address and UDP port. */
static struct pst_endpoint *eth_addresses_find_beside(const struct eth_port *port,
                                                      const struct pst_endpoint *mine, uint16_t udp)
{
  struct eth_match *at = port->table->chains[udp];

  while (at && memcmp(at->at, mine->match.at, sizeof(at->at)) != 0)
    at = at->next;
  return at ? eth_endpoint_of(at) : NULL;
}

/* True if there is a receiver that no frame could tell from this one. */
static bool eth_addresses_has_twin(const struct eth_port *port, const struct pst_endpoint *mine,
                                   uint16_t udp)
{
  if (!eth_match_is_exact(&mine->dg.flow))
    return false;
  for (struct eth_match *at = port->table->chains[udp]; at; at = at->next)
    if (memcmp(at->at, mine->match.at, sizeof(at->at)) == 0 &&
        eth_match_is_same_source(&eth_endpoint_of(at)->dg.flow, &mine->dg.flow))
      return true;
  return false;
}

static bool eth_addresses_is_taken(const struct eth_port *port, const struct pst_endpoint *mine,
                                   uint16_t udp)
{
  return mine->tx ? eth_addresses_is_source_taken(port, mine, udp)
                  : eth_addresses_find_beside(port, mine, udp) != NULL;
}

static void eth_addresses_list(struct eth_port *port, struct pst_endpoint *endpoint, uint16_t udp)
{
  struct eth_match **at = &port->table->chains[udp];

  while (*at)
    at = &(*at)->next;
  *at = &endpoint->match;
  endpoint->rx->is_listed = true;
}

static int eth_addresses_take_of_kernel(struct pst_endpoint *endpoint, uint16_t *udp)
{
  const struct pst_endpoint *beside =
      *udp && endpoint->rx
          ? eth_addresses_find_beside(endpoint->worker->device->port, endpoint, *udp)
          : NULL;

  if (!beside || beside->udp_fd < 0)
    return eth_addresses_hold_in_kernel(endpoint, udp, &endpoint->udp_fd);
  endpoint->udp_fd = fcntl(beside->udp_fd, F_DUPFD_CLOEXEC, 0);
  return endpoint->udp_fd < 0 ? -errno : 0;
}

int eth_port_take_udp(struct pst_endpoint *endpoint, uint16_t wanted)
{
  struct eth_port *port = endpoint->worker->device->port;
  const bool is_kernels = port->netdev && !eth_is_multicast(endpoint->match.at);
  uint16_t udp = wanted;
  int rc = 0;

  for (uint32_t i = 0; !wanted && !is_kernels && i <= UINT16_MAX - UDP_FIRST &&
                       (!udp || eth_addresses_is_taken(port, endpoint, udp));
       i++)
    udp = (uint16_t)(UDP_FIRST + port->next_port++ % (UINT16_MAX - UDP_FIRST + 1));
  if (is_kernels)
    rc = eth_addresses_take_of_kernel(endpoint, &udp);
  if (rc == 0 && endpoint->tx && eth_addresses_is_source_taken(port, endpoint, udp))
    rc = -EADDRINUSE;
  endpoint->udp_port = udp;
  dg_address_port_set(&endpoint->dg.local, udp);
  if (rc == 0 && endpoint->rx && eth_addresses_has_twin(port, endpoint, udp))
    return DG_REFUSE(&endpoint->dg, -EADDRINUSE,
                     "UDP port %u of port %s has a receiver of the same `source` already: no frame "
                     "tells the two apart; name another sender, or choose another `port`",
                     udp, port->identity);
  if (rc == 0 && endpoint->rx)
    eth_addresses_list(port, endpoint, udp);
  if (rc == 0)
    return 0;
  return DG_REFUSE(&endpoint->dg, rc, "UDP port %u of port %s cannot be taken: %s; %s", wanted,
                   port->identity, strerror(-rc),
                   rc == -EADDRINUSE ? "another endpoint or program has it" : "choose another");
}
