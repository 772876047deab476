/* SPDX-License-Identifier: Apache-2.0 */
/* The port's control plane: neighbours, memberships and the link. */
#include <stdio.h>

#include "port.h"

#define LINK_DOWN_NS UINT64_C(10000000)   /* between looks at the link */
#define RECONNECT_NS UINT64_C(1000000000) /* a busy server has greeted by then */
#define LINK_UP_NS UINT64_C(500000000)

static void eth_control_mac_print(const uint8_t mac[ETH_MAC_BYTES], char text[18])
{
  snprintf(text, 18, "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
           mac[5]);
}

static void eth_control_tell_event(const struct eth_port *port,
                                   const struct eth_neighbour_event *event)
{
  const struct dg_source source = {.port = 0};
  struct dg_source named = source;
  union dg_address address;
  char text[DG_ADDRESS_TEXT], mac[18], before[18];

  memcpy(named.address, event->address, sizeof(named.address));
  dg_address_of_source(&named, eth_is_v4(event->address) ? AF_INET : AF_INET6, &address);
  dg_address_print(&address, text, sizeof(text));
  eth_control_mac_print(event->mac, mac);
  eth_control_mac_print(event->before, before);
  if (event->kind == ETH_NEIGHBOUR_MOVED)
    ETH_PORT_LOG(port, PST_LOG_INFO, "%s has the MAC %s now, and had %s", text, mac, before);
  else if (event->kind == ETH_NEIGHBOUR_TWO)
    ETH_PORT_LOG(
        port, PST_LOG_WARN,
        "two hosts answer for %s: %s, which is used, and %s; give each host an address of its own",
        text, before, mac);
  else
    ETH_PORT_LOG(port, PST_LOG_WARN,
                 "%s claims %s, which is this port's address; give one of them another `address`",
                 mac, text);
}

/* A memif client connects once, when it starts: after it was turned away, or its server has gone,
 * it is started again. Other workers are in no burst meanwhile: they look whether it runs with the
 * queue's lock. */
static void eth_control_reconnect(struct eth_port *port, uint64_t now_ns)
{
  if (port->is_up || !port->waits_for_server) {
    port->down_since_ns = 0;
    return;
  }
  if (!port->down_since_ns)
    port->down_since_ns = now_ns;
  if (now_ns - port->down_since_ns < RECONNECT_NS)
    return;
  /* A thread that polls may wait for the control lock, which is held here: the next look is
   * soon. */
  if (!eth_port_try_lock(port))
    return;
  port->down_since_ns = 0;
  eth_port_stop(port);
  eth_port_unlock(port);
}

/* Some drivers notice that the peer has gone only when they are asked. */
static void eth_control_look_at_link(struct eth_port *port, uint64_t now_ns)
{
  struct rte_eth_link link = {.link_status = RTE_ETH_LINK_DOWN};

  if (now_ns < port->link_due_ns || rte_eth_link_get_nowait(port->id, &link) != 0)
    return;
  if (port->is_up != (link.link_status == RTE_ETH_LINK_UP))
    ETH_PORT_LOG(port, PST_LOG_DEBUG, "the link is %s", link.link_status ? "up" : "down");
  port->is_up = link.link_status == RTE_ETH_LINK_UP;
  port->link_due_ns = now_ns + (port->is_up ? LINK_UP_NS : LINK_DOWN_NS);
  eth_control_reconnect(port, now_ns);
}

/* The peer may have come by now. */
static void eth_control_try_to_run(struct eth_port *port, uint64_t now_ns)
{
  if (now_ns < port->link_due_ns || port->stage != ETH_PORT_CONFIGURED)
    return;
  port->link_due_ns = eth_port_run(port) == 0 ? 0 : now_ns + LINK_DOWN_NS;
}

static void eth_control_send_due(struct pst_worker *worker, uint64_t now_ns)
{
  struct eth_port *port = worker->device->port;
  struct eth_neighbour_event event;
  uint8_t frame[ETH_CONTROL_MAX];
  uint32_t length;

  if (port->neighbours && eth_neighbours_due(port->neighbours) <= now_ns)
    while ((length = eth_neighbours_next(port->neighbours, now_ns, frame)) > 0)
      eth_send_control(worker, frame, length);
  while (port->neighbours && eth_neighbours_event(port->neighbours, &event))
    eth_control_tell_event(port, &event);
  if (port->groups && eth_groups_due(port->groups) <= now_ns)
    while ((length = eth_groups_next(port->groups, now_ns, frame)) > 0)
      eth_send_control(worker, frame, length);
}

void eth_port_step(struct pst_worker *worker, uint64_t now_ns)
{
  struct eth_port *port = worker->device->port;

  if (!rte_spinlock_trylock(&port->control_lock))
    return;
  if (eth_port_is_running(port))
    eth_control_look_at_link(port, now_ns);
  else
    eth_control_try_to_run(port, now_ns);
  if (eth_port_is_running(port))
    eth_times_step(port, now_ns);
  if (port->is_up) /* else it would be lost */
    eth_control_send_due(worker, now_ns);
  rte_spinlock_unlock(&port->control_lock);
}

void eth_port_control(struct pst_worker *worker, const struct eth_bytes *frame,
                      const struct eth_packet *packet)
{
  struct eth_port *port = worker->device->port;
  uint64_t now_ns = port->host->clock_ns(port->host);

  rte_spinlock_lock(&port->control_lock);
  bool is_taken = port->neighbours && packet->verdict != ETH_IS_IGMP &&
                  eth_neighbours_take(port->neighbours, frame, packet, now_ns);
  if (!is_taken && port->groups && packet->verdict != ETH_IS_ARP)
    eth_groups_take(port->groups, frame, packet, now_ns);
  eth_control_send_due(worker, now_ns);
  rte_spinlock_unlock(&port->control_lock);
}
