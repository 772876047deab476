/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opened, met and freed. */
#include <stdio.h>
#include <unistd.h>

#include "pool.h"
#include "port.h"

static int eth_endpoint_open_common(struct pst_endpoint *endpoint,
                                    const struct pst_endpoint_params *params)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};

  eth_limits(endpoint->worker->device, &limits);
  return dg_endpoint_open(&endpoint->dg, &endpoint->worker->device->dg, &endpoint->worker->rings,
                          &limits, params);
}

/* Finds the endpoint's own address: that of the port in its family. */
static int eth_endpoint_find_own(struct pst_endpoint *endpoint)
{
  const struct eth_port *port = endpoint->worker->device->port;
  const struct eth_network *network;
  struct dg_source source = {.port = 0};
  union dg_address own;
  int family = dg_endpoint_family(&endpoint->dg);

  if (family == AF_UNSPEC)
    family = eth_port_network(port, AF_INET) ? AF_INET : AF_INET6;
  network = eth_port_network(port, family);
  if (!network)
    return DG_REFUSE(&endpoint->dg, -EADDRNOTAVAIL,
                     "port %s has no address of %s; see its option `address`, or `family`",
                     port->identity, family == AF_INET ? "IPv4" : "IPv6");
  memcpy(source.address, network->address, sizeof(source.address));
  memcpy(endpoint->own, network->address, sizeof(endpoint->own));
  memcpy(endpoint->match.at, network->address, sizeof(endpoint->match.at));
  dg_address_of_source(&source, family, &own);
  dg_endpoint_place(&endpoint->dg, &own, port->netdev);
  if (endpoint->dg.group.any.sa_family != AF_UNSPEC) {
    dg_address_source(&endpoint->dg.group, &source);
    memcpy(endpoint->match.at, source.address, sizeof(endpoint->match.at));
  }
  return dg_endpoint_check(&endpoint->dg);
}

static const uint8_t *eth_endpoint_group_source(const struct pst_endpoint *endpoint,
                                                struct dg_source *source)
{
  if (endpoint->dg.source.any.sa_family == AF_UNSPEC)
    return NULL;
  dg_address_source(&endpoint->dg.source, source);
  return source->address;
}

/* By the kernel where the port has an interface of its, else by reports of our own. */
static int eth_endpoint_join_group(struct pst_endpoint *endpoint)
{
  struct eth_port *port = endpoint->worker->device->port;
  const struct pst_host *host = port->host;
  struct dg_source source;
  const uint8_t *from = eth_endpoint_group_source(endpoint, &source);
  char why[ETH_WHY_MAX];
  int rc;

  if (!eth_is_multicast(endpoint->match.at))
    return 0;
  if (port->netdev) {
    rc = eth_join_kernel(port->netdev, endpoint->match.at, from, why);
    if (rc < 0)
      return DG_REFUSE(&endpoint->dg, rc, "group: %s", why);
    endpoint->rx->joined_fd = rc;
    return 0;
  }
  rte_spinlock_lock(&port->control_lock);
  rc = eth_groups_join(port->groups, endpoint->match.at, from, host->clock_ns(host));
  rte_spinlock_unlock(&port->control_lock);
  if (rc < 0)
    return DG_REFUSE(&endpoint->dg, rc, "group: it cannot be joined: %s", strerror(-rc));
  endpoint->rx->is_joined = true;
  return 0;
}

static void eth_endpoint_leave_group(struct pst_endpoint *endpoint)
{
  struct eth_port *port = endpoint->worker->device->port;
  struct dg_source source;

  if (!endpoint->rx || !endpoint->rx->is_joined)
    return;
  rte_spinlock_lock(&port->control_lock);
  eth_groups_leave(port->groups, endpoint->match.at, eth_endpoint_group_source(endpoint, &source),
                   port->host->clock_ns(port->host));
  rte_spinlock_unlock(&port->control_lock);
}

static int eth_endpoint_open_parts(struct pst_endpoint *endpoint,
                                   const struct pst_endpoint_params *in)
{
  const struct pst_host *host = endpoint->dg.device->host;
  int rc = in->ring ? eth_rx_open(endpoint) : eth_tx_open(endpoint, in->options);

  rc = rc ? rc : eth_endpoint_find_own(endpoint);
  if (rc == 0)
    rc = eth_port_take_udp(
        endpoint, (uint16_t)host->option_uint(in->options, in->ring ? "port" : "source_port"));
  if (rc == 0 && in->ring)
    rc = eth_endpoint_join_group(endpoint);
  return rc;
}

static int eth_endpoint_join_worker(struct pst_worker *worker, struct pst_endpoint *endpoint)
{
  struct pst_endpoint **grown =
      realloc(worker->endpoints, (worker->endpoint_count + 1) * sizeof(struct pst_endpoint *));

  if (!grown)
    return -ENOMEM;
  worker->endpoints = grown;
  worker->endpoints[worker->endpoint_count++] = endpoint;
  return 0;
}

int eth_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                      struct pst_endpoint **endpoint)
{
  struct pst_endpoint_params in;
  struct pst_endpoint *made;
  int rc;

  if (eth_port_is_sealed(worker->device->port))
    return -EBUSY;
  made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  made->worker = worker;
  made->udp_fd = -1;
  made->is_foreign = in.is_foreign;
  rc = eth_endpoint_open_common(made, &in);
  rc = rc ? rc : eth_endpoint_open_parts(made, &in);
  rc = rc ? rc : eth_endpoint_join_worker(worker, made);
  if (rc < 0) {
    eth_endpoint_free(made);
    return rc;
  }
  *endpoint = made;
  return 0;
}

void eth_endpoint_free(struct pst_endpoint *endpoint)
{
  if (endpoint->rx) {
    eth_endpoint_leave_group(endpoint);
    eth_port_end_receiver(endpoint->worker->device->port, endpoint);
  }
  eth_rx_close(endpoint);
  eth_tx_close(endpoint);
  if (endpoint->udp_fd >= 0)
    close(endpoint->udp_fd);
  pst_cpu_endpoint_end(&endpoint->dg.cpu);
  free(endpoint);
}

int eth_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  return dg_endpoint_address(&endpoint->dg, NULL, 0, address);
}

/* In the network of the port's own address? */
static bool eth_endpoint_is_near(const struct dg_endpoint *dg, const union dg_address *address)
{
  const struct pst_endpoint *endpoint = (const struct pst_endpoint *)dg;
  const struct eth_network *network =
      eth_port_network(endpoint->worker->device->port, endpoint->dg.family);
  struct dg_source to;

  dg_address_source(address, &to);
  return network && eth_next_hop(network->address, network->prefix, NULL, to.address);
}

int eth_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  static const struct dg_reach reach = {
      .has_loopback = false, .is_near = eth_endpoint_is_near, .connect = eth_peer_find};

  int rc = dg_endpoint_connect(&endpoint->dg, address, &reach);
  if (rc == 0 && endpoint->rx && endpoint->match.kind == ETH_MATCH_UNMET) {
    eth_match_meet(&endpoint->match, &endpoint->rx->receiver.flow.params);
    eth_port_add_own_rule(endpoint->worker->device->port, endpoint);
  }
  return rc;
}

int eth_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  eth_path_fill((const struct pst_ring *)endpoint->dg.cpu.ring, endpoint->worker->device->port,
                path);
  return 0;
}
