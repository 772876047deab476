/* SPDX-License-Identifier: Apache-2.0 */
/* The way to a sender's peer: the MAC of the next hop, and the headers that follow from it. */
#include <stdio.h>

#include "port.h"

static void eth_peer_print(const struct pst_endpoint *endpoint, char text[DG_ADDRESS_TEXT])
{
  dg_address_print(&endpoint->dg.peer, text, DG_ADDRESS_TEXT);
}

/* All is known: from now on there are headers. */
static int eth_peer_make_template(struct pst_endpoint *endpoint)
{
  const struct eth_port *port = endpoint->worker->device->port;
  const struct eth_tx *tx = endpoint->tx;
  struct eth_template_params params = {.vlan = port->vlan,
                                       .hop_limit = tx->hop_limit,
                                       .traffic_class = tx->traffic_class,
                                       .ip_checksum = port->ip_sum};

  memcpy(params.mac_to, tx->mac, sizeof(params.mac_to));
  memcpy(params.mac_from, port->mac, sizeof(params.mac_from));
  memcpy(params.from.address, endpoint->own, sizeof(params.from.address));
  params.from.port = endpoint->udp_port;
  dg_address_source(&endpoint->dg.peer, &params.to);
  params.udp_checksum = port->udp_sum[eth_is_v4(params.to.address) ? 0 : 1];
  if (endpoint->worker->device->udp_sum == ETH_SUM_SOFTWARE)
    params.udp_checksum = ETH_CHECKSUM_SOFTWARE;
  else if (endpoint->worker->device->udp_sum == ETH_SUM_NONE && eth_is_v4(params.to.address))
    params.udp_checksum = ETH_CHECKSUM_NONE;
  int rc = eth_template_make(&params, &endpoint->tx->template);
  uint32_t most = rc ? 0 : eth_payload_max(&endpoint->tx->template, port->mtu);
  if (rc == 0 && endpoint->dg.message_max + endpoint->dg.header_bytes > most)
    rc =
        DG_REFUSE(&endpoint->dg, -EMSGSIZE,
                  "a packet of port %s has room for %u bytes behind its headers, the %u of the "
                  "framing included (MTU %u); make `message` smaller, or `mtu` larger at both ends",
                  port->identity, most, endpoint->dg.header_bytes, port->mtu);
  return rc;
}

/* Ask by ARP or ND of the port's own. */
static int eth_peer_ask(struct pst_endpoint *endpoint, const uint8_t to[16])
{
  struct eth_port *port = endpoint->worker->device->port;
  const bool is_v4 = eth_is_v4(to);
  const struct eth_network *network = eth_port_network(port, endpoint->dg.family);
  const uint8_t *gateway = port->gateways[is_v4 ? 0 : 1];
  const struct pst_host *host = port->host;
  static const uint8_t none[16];
  char text[DG_ADDRESS_TEXT];
  int rc;

  eth_peer_print(endpoint, text);
  const uint8_t *hop = eth_next_hop(network->address, network->prefix,
                                    memcmp(gateway, none, sizeof(none)) ? gateway : NULL, to);
  if (!hop)
    return DG_REFUSE(
        &endpoint->dg, -ENETUNREACH,
        "%s is in none of the networks of port %s, and there is no router; see its options "
        "`address` (with the length of the network) and `gateway`",
        text, port->identity);
  rte_spinlock_lock(&port->control_lock);
  rc = eth_neighbours_ask(port->neighbours, hop, host->clock_ns(host), &endpoint->tx->neighbour);
  rte_spinlock_unlock(&port->control_lock);
  if (rc < 0)
    return DG_REFUSE(&endpoint->dg, rc, "cannot ask for the MAC of %s: %s; set it by `to_mac`",
                     text, strerror(-rc));
  endpoint->tx->is_asked = true;
  return 1;
}

static int eth_peer_ask_kernel(struct pst_endpoint *endpoint, const uint8_t to[16])
{
  struct eth_port *port = endpoint->worker->device->port;
  char why[ETH_WHY_MAX];
  int rc = eth_kernel_open(port->netdev, to, NULL, &endpoint->tx->kernel, why);

  return rc < 0 ? DG_REFUSE(&endpoint->dg, rc, "%s", why) : 1;
}

int eth_peer_find(struct dg_endpoint *dg, const union dg_address *address)
{
  struct pst_endpoint *endpoint = (struct pst_endpoint *)dg;
  struct eth_port *port = endpoint->worker->device->port;
  struct eth_tx *tx = endpoint->tx;
  struct dg_source to;
  int rc = 0;

  dg->peer = *address;
  dg_address_source(address, &to);
  tx->asked_ns = port->host->clock_ns(port->host);
  if (tx->has_mac) {
    /* as the option says */
  } else if (eth_is_multicast(to.address)) {
    eth_multicast_mac(to.address, tx->mac);
  } else if (memcmp(to.address, endpoint->own, sizeof(to.address)) == 0) {
    memcpy(tx->mac, port->mac, sizeof(tx->mac)); /* a port that receives what it sends */
  } else {
    rc = port->neighbours ? eth_peer_ask(endpoint, to.address)
                          : eth_peer_ask_kernel(endpoint, to.address);
  }
  return rc == 0 ? eth_peer_make_template(endpoint) : rc;
}

void eth_peer_forget(struct pst_endpoint *endpoint)
{
  struct eth_tx *tx = endpoint->tx;
  struct eth_port *port = endpoint->worker->device->port;

  eth_kernel_close(tx->kernel);
  tx->kernel = NULL;
  if (!tx->is_asked)
    return;
  rte_spinlock_lock(&port->control_lock);
  eth_neighbours_forget(port->neighbours, tx->neighbour);
  rte_spinlock_unlock(&port->control_lock);
  tx->is_asked = false;
}

/* 1: there is a MAC; 0: not yet; else -errno, and why. */
static int eth_peer_look_for_mac(struct pst_endpoint *endpoint, uint64_t now_ns,
                                 uint8_t mac[ETH_MAC_BYTES], char why[ETH_WHY_MAX])
{
  struct eth_port *port = endpoint->worker->device->port;
  struct eth_tx *tx = endpoint->tx;
  enum eth_neighbour_state state;
  char text[DG_ADDRESS_TEXT];

  if (tx->kernel)
    return eth_kernel_due(tx->kernel) > now_ns && dg_is_connected(&endpoint->dg)
               ? 0
               : eth_kernel_step(tx->kernel, now_ns, mac, why);
  if (!rte_spinlock_trylock(&port->control_lock))
    return 0;
  state = eth_neighbours_look(port->neighbours, tx->neighbour, mac);
  rte_spinlock_unlock(&port->control_lock);
  if (state != ETH_NEIGHBOUR_UNANSWERED)
    return state == ETH_NEIGHBOUR_ASKED ? 0 : 1;
  eth_peer_print(endpoint, text);
  snprintf(why, ETH_WHY_MAX,
           "nobody answers for %s on port %.60s (the link is %s); compare VLAN and network of both "
           "ends, or give `to_mac`",
           text, port->identity, port->is_up ? "up" : "down");
  return -EHOSTUNREACH;
}

/* The first MAC connects the endpoint, a later one changes the headers. */
static void eth_peer_use_mac(struct pst_endpoint *endpoint, const uint8_t mac[ETH_MAC_BYTES])
{
  if (dg_is_connected(&endpoint->dg)) {
    if (memcmp(endpoint->tx->mac, mac, ETH_MAC_BYTES) != 0)
      eth_template_mac(&endpoint->tx->template, mac);
    memcpy(endpoint->tx->mac, mac, ETH_MAC_BYTES);
    return;
  }
  memcpy(endpoint->tx->mac, mac, ETH_MAC_BYTES);
  int rc = eth_peer_make_template(endpoint);
  if (rc < 0)
    pst_cpu_endpoint_down(&endpoint->dg.cpu, rc);
  else
    pst_cpu_endpoint_up(&endpoint->dg.cpu);
}

void eth_peer_look(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  struct eth_tx *tx = endpoint->tx;
  const uint64_t timeout = endpoint->dg.cpu.params.timeout_ns;
  uint8_t mac[ETH_MAC_BYTES];
  char why[ETH_WHY_MAX];

  if ((!tx->is_asked && !tx->kernel) || endpoint->dg.cpu.state == PST_CPU_DOWN)
    return; /* an answer that comes after the timeout changes nothing */
  int rc = eth_peer_look_for_mac(endpoint, now_ns, mac, why);
  if (rc == 1) {
    eth_peer_use_mac(endpoint, mac);
  } else if (rc < 0 && !tx->told_silent) {
    tx->told_silent = true;
    DG_TELL(&endpoint->dg, PST_LOG_WARN, "%s", why);
  }
  if (endpoint->dg.cpu.state == PST_CPU_MEETING && timeout && now_ns - tx->asked_ns > timeout)
    pst_cpu_endpoint_down(&endpoint->dg.cpu, -ETIMEDOUT);
}
