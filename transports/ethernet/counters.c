/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, and the description of an endpoint in words. */
#include <stdio.h>

#include "../datagram/counters.h"
#include "pool.h"
#include "port.h"

static void eth_counters_add_sender(struct pst_counter_list *list, const struct eth_tx *tx)
{
  pst_counter_add(list, "messages_sent", NULL, tx->messages, 0);
  pst_counter_add(list, "bytes_sent", NULL, tx->bytes, 0);
  pst_counter_add(list, "device_full", "device_full", tx->device_full, PST_COUNTER_DROP);
}

static void eth_counters_add_receiver(struct pst_counter_list *list, struct pst_endpoint *endpoint)
{
  const struct eth_rx *rx = endpoint->rx;
  struct dg_losses losses = {.no_gap = 0};

  if (dg_is_connected(&endpoint->dg))
    dg_losses_tail(&endpoint->dg, &losses);
  dg_losses_count(&rx->receiver, &losses);
  dg_counters_receiver(list, &endpoint->dg, &losses);
  pst_counter_add(list, "copied", NULL, rx->counts.copied, 0);
}

void eth_port_find_xstats(struct eth_port *port)
{
  const int count = rte_eth_xstats_get_names_by_id(port->id, NULL, 0, NULL);
  struct rte_eth_xstat_name *names = count > 0 ? calloc((size_t)count, sizeof(*names)) : NULL;

  port->xstat_ids = names ? calloc((size_t)count, sizeof(*port->xstat_ids)) : NULL;
  port->xstat_kinds = names ? calloc((size_t)count, sizeof(*port->xstat_kinds)) : NULL;
  if (port->xstat_ids && port->xstat_kinds &&
      rte_eth_xstats_get_names_by_id(port->id, names, (unsigned)count, NULL) == count)
    for (int i = 0; i < count; i++) {
      const enum eth_xstat kind = eth_xstat_of(names[i].name);
      if (kind == ETH_XSTATS)
        continue;
      port->xstat_ids[port->xstat_count] = (uint64_t)i;
      port->xstat_kinds[port->xstat_count++] = kind;
    }
  free(names);
}

bool eth_port_read_xstats(const struct eth_port *port, uint64_t sums[ETH_XSTATS])
{
  uint64_t *values = port->xstat_count ? calloc(port->xstat_count, sizeof(*values)) : NULL;
  bool is_read = values && rte_eth_xstats_get_by_id(port->id, port->xstat_ids, values,
                                                    port->xstat_count) == (int)port->xstat_count;

  if (is_read)
    eth_xstats_sum(port->xstat_kinds, values, port->xstat_count, sums);
  free(values);
  return is_read;
}

/* PHY discards are messages that are lost; pauses explain what is slow. Told once. */
static void eth_counters_add_xstats(struct pst_counter_list *list, struct eth_port *port)
{
  uint64_t now[ETH_XSTATS];
  char text[400];

  if (!eth_port_is_running(port) || !eth_port_read_xstats(port, now))
    return;
  for (uint32_t kind = 0; kind < ETH_XSTATS; kind++) {
    bool is_there = false, is_drop = kind == ETH_XSTAT_PHY_DISCARDS;
    for (uint32_t i = 0; i < port->xstat_count; i++)
      is_there |= port->xstat_kinds[i] == kind;
    if (is_there)
      pst_counter_add(list, eth_xstat_names[kind], is_drop ? eth_xstat_names[kind] : NULL,
                      now[kind] - port->xstats_before[kind], is_drop ? PST_COUNTER_DROP : 0);
  }
  eth_xstats_tell(port->xstats_before, now, text, sizeof(text));
  if (text[0] && !port->told_xstats)
    ETH_PORT_LOG(
        port, PST_LOG_WARN,
        "%s; docs/howto/ethernet.md says what helps. This warning appears once; the counters go on",
        text);
  port->told_xstats |= text[0] != '\0';
}

/* Adds what the driver has lost since the port started, if the driver counts that; a missing
 * counter is not reported as 0. */
static void eth_counters_add_port(struct pst_counter_list *list, const struct eth_port *port)
{
  const struct rte_eth_stats *before = &port->before;
  uint64_t not_ours = 0, other = 0, damaged = 0;
  struct rte_eth_stats now;

  for (uint32_t i = 0; i < port->rxq_count; i++) {
    not_ours += port->rxqs[i].not_ours;
    other += port->rxqs[i].other;
    damaged += port->rxqs[i].damaged;
  }
  if (eth_port_is_running(port) && (port->driver->traits & ETH_COUNTS_LOSS) &&
      rte_eth_stats_get(port->id, &now) == 0) {
    pst_counter_add(list, "nic_missed", "nic_missed", now.imissed - before->imissed,
                    PST_COUNTER_DROP);
    pst_counter_add(list, "no_mbuf", "no_mbuf", now.rx_nombuf - before->rx_nombuf,
                    PST_COUNTER_DROP);
    pst_counter_add(list, "bad_frames", "bad_frames", now.ierrors - before->ierrors,
                    PST_COUNTER_DROP);
  }
  pst_counter_add(list, "damaged", "damaged", damaged, PST_COUNTER_DROP);
  pst_counter_add(list, "not_ours", NULL, not_ours, 0);
  pst_counter_add(list, "other_frames", NULL, other, 0);
}

int eth_counters(struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max)
{
  struct pst_counter_list list = {counters, max, 0};

  if (endpoint && endpoint->tx)
    eth_counters_add_sender(&list, endpoint->tx);
  else if (endpoint)
    eth_counters_add_receiver(&list, endpoint);
  else if (!worker) {
    eth_counters_add_port(&list, device->port);
    eth_counters_add_xstats(&list, device->port);
  }
  return (int)list.count;
}

int eth_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct eth_port *port = endpoint->worker->device->port;
  char local[DG_ADDRESS_TEXT], peer[DG_ADDRESS_TEXT];

  if (size == 0)
    return -EINVAL;
  dg_address_print(&endpoint->dg.local, local, sizeof(local));
  if (endpoint->rx) {
    snprintf(text, size, "listening on %s of port %s (ring %u, MTU %u)", local, port->identity,
             endpoint->dg.cpu.ring->params.slots, port->mtu);
  } else if (!dg_is_connected(&endpoint->dg)) {
    snprintf(text, size, "from %s of port %s, not connected", local, port->identity);
  } else {
    dg_address_print(&endpoint->dg.peer, peer, sizeof(peer));
    snprintf(text, size, "sending from %s of port %s to %s", local, port->identity, peer);
  }
  return 0;
}
