/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues, offloads and workers of a port whose devices, rings and endpoints are all known: with
 * rules where they are wanted and the driver takes them, else without.
 */
#include <stdio.h>

#include "eal.h"
#include "pool.h"
#include "port.h"

#define OUT_BEYOND 512u /* mbufs to send beyond what the queue holds */

static void eth_configure_count_opened(const struct eth_port *port, struct eth_opened *opened)
{
  memset(opened, 0, sizeof(*opened));
  ETH_FOR_EACH_WORKER(port, worker)
  {
    opened->workers++;
    for (uint32_t i = 0; i < worker->rings.room; i++) {
      const struct pst_ring *ring = worker->rings.all[i].at;
      opened->rings += ring != NULL;
      opened->splits += ring && ring->is_split;
    }
    for (uint32_t i = 0; i < worker->endpoint_count; i++)
      opened->receivers += worker->endpoints[i]->rx != NULL;
  }
}

/* Descriptors of a queue within what the driver can have. 0 or -EINVAL, logged. */
static int eth_configure_settle_descriptors(const struct eth_port *port, const char *queue,
                                            const struct rte_eth_desc_lim *lim,
                                            uint32_t *descriptors)
{
  const struct eth_descriptor_limits limits = {lim->nb_min, lim->nb_max ? lim->nb_max : UINT16_MAX,
                                               lim->nb_align};
  char why[ETH_SIZES_WHY];
  int rc = eth_descriptors_settle(&limits, queue, port->descriptors, port->descriptors_fixed,
                                  descriptors, why);

  if (rc < 0)
    return ETH_PORT_REFUSE(port, rc, "%s", why);
  if (rc > 0)
    ETH_PORT_LOG(port, port->descriptors_fixed ? PST_LOG_WARN : PST_LOG_DEBUG, "%s", why);
  return 0;
}

/* Rules where several rings would share a queue, and where the kernel has the interface, too: there
 * they bring what is the port's even where it has one queue. */
static bool eth_configure_want_rules(struct eth_port *port, const struct eth_opened *opened)
{
  if (opened->rings < 2 && !port->has_kernel && !opened->splits)
    return false;
  if (!port->wants_rules)
    snprintf(port->no_rules, sizeof(port->no_rules), "the option `rules` is off");
  else if (!(port->driver->traits & ETH_HAS_RULES))
    snprintf(port->no_rules, sizeof(port->no_rules), "its driver has no flow rules");
  return !port->no_rules[0] || (port->has_kernel && port->driver->traits & ETH_HAS_RULES);
}

/* Sending queues: one for each worker, as far as the port has so many; several share one else. */
static int eth_configure_make_txqs(struct eth_port *port, const struct eth_opened *opened)
{
  uint32_t count = 1;

  if (port->driver->traits & ETH_HAS_RULES && opened->workers)
    count = RTE_MIN(opened->workers, (uint32_t)port->info.max_tx_queues);
  if (port->driver->traits & ETH_EQUAL_QUEUES)
    count = port->rxq_count;
  port->txqs = calloc(count, sizeof(*port->txqs));
  if (!port->txqs)
    return -ENOMEM;
  port->txq_count = count;
  for (uint32_t i = 0; i < count; i++) {
    port->txqs[i].port = port;
    port->txqs[i].index = (uint16_t)i;
    port->txqs[i].is_shared = port->is_shared;
    rte_spinlock_init(&port->txqs[i].lock);
  }
  return 0;
}

/* Checksums that the card computes. */
static uint64_t eth_configure_choose_offloads(struct eth_port *port)
{
  const uint64_t can = port->info.tx_offload_capa;
  uint64_t use = can & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;

  if (port->times.departs)
    use |= RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP;
  port->ip_sum = ETH_CHECKSUM_SOFTWARE;
  port->udp_sum[0] = ETH_CHECKSUM_NONE;
  port->udp_sum[1] = ETH_CHECKSUM_SOFTWARE;
  if (port->driver->traits & ETH_VIRTUAL || (can & ETH_TX_SUMS) != ETH_TX_SUMS)
    return use;
  port->ip_sum = port->udp_sum[0] = port->udp_sum[1] = ETH_CHECKSUM_OFFLOAD;
  return use | ETH_TX_SUMS;
}

static struct rte_mempool *eth_configure_memory_of(const struct eth_rxq *queue)
{
  return queue->ring ? queue->ring->pool->mempool : queue->own;
}

/* Checks the number of descriptors that the driver made: mlx5 rounds it up to a power of two. */
static int eth_configure_check_queue(const struct eth_port *port, const struct eth_rxq *queue)
{
  struct rte_eth_rxq_info made = {.nb_desc = 0};
  char why[ETH_SIZES_WHY];

  if (port->driver->traits & ETH_KEEPS_NO_MBUF ||
      rte_eth_rx_queue_info_get(port->id, queue->index, &made) < 0)
    return 0;
  return eth_queue_check(eth_configure_memory_of(queue)->populated_size, queue->descriptors,
                         made.nb_desc, why)
             ? 0
             : ETH_PORT_REFUSE(port, -ENOSPC, "%s", why);
}

/* Returns the offloads of a queue that must be the whole port's, since the driver has them for all
 * queues alone. */
static uint64_t eth_configure_split_offloads(const struct eth_port *port)
{
  const uint64_t all = RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT | RTE_ETH_RX_OFFLOAD_SCATTER;

  for (uint32_t i = 0; i < port->rxq_count; i++)
    if (port->rxqs[i].headers)
      return all & port->info.rx_offload_capa & ~port->info.rx_queue_offload_capa;
  return 0;
}

static int eth_configure_device(struct eth_port *port)
{
  struct rte_eth_conf conf = {.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE};

  conf.txmode.offloads = eth_configure_choose_offloads(port);
  if (!(port->driver->traits & ETH_VIRTUAL) && port->mtu <= port->info.max_mtu)
    conf.rxmode.mtu = port->mtu;
  conf.rxmode.offloads = port->info.rx_offload_capa &
                         (port->driver->traits & ETH_VIRTUAL ? 0 : RTE_ETH_RX_OFFLOAD_CHECKSUM);
  if (port->times.unit == ETH_TIMES_TICKS)
    conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_TIMESTAMP;
  conf.rxmode.offloads |= eth_configure_split_offloads(port);
  return rte_eth_dev_configure(port->id, (uint16_t)port->rxq_count, (uint16_t)port->txq_count,
                               &conf);
}

/* Sets the MTU of a card, or of the interface that a tap makes. The interface that a tap takes
 * frames from is left alone, though DPDK would set it, too. An MTU that the driver cannot
 * set stays as it is; a value that it refuses is an error. */
static int eth_configure_set_mtu(const struct eth_port *port)
{
  int rc = port->has_remote ? (port->mtu > RTE_ETHER_MTU ? -EINVAL : 0)
                            : rte_eth_dev_set_mtu(port->id, (uint16_t)port->mtu);

  if (rc != -EINVAL)
    return 0;
  return ETH_PORT_REFUSE(port, rc,
                         "mtu: %u is not possible: its driver takes frames of at most %u bytes; "
                         "make `mtu` smaller",
                         port->mtu, port->info.max_rx_pktlen);
}

/* Headers into one pool, payloads into the ring. */
static int eth_configure_setup_split(const struct eth_port *port, const struct eth_rxq *queue,
                                     unsigned socket)
{
  union rte_eth_rxseg segments[] = {
      {.split = {.mp = queue->headers, .length = (uint16_t)queue->ring->split_point}},
      {.split = {.mp = eth_configure_memory_of(queue)}}};
  struct rte_eth_rxconf conf = port->info.default_rxconf;

  conf.rx_seg = segments;
  conf.rx_nseg = 2;
  conf.offloads = (RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT | RTE_ETH_RX_OFFLOAD_SCATTER) &
                  port->info.rx_queue_offload_capa;
  return rte_eth_rx_queue_setup(port->id, queue->index, (uint16_t)queue->descriptors, socket, &conf,
                                NULL);
}

static int eth_configure_setup_receiving(const struct eth_port *port, const struct eth_rxq *queue,
                                         unsigned socket)
{
  if (queue->headers)
    return eth_configure_setup_split(port, queue, socket);
  return rte_eth_rx_queue_setup(port->id, queue->index, (uint16_t)queue->descriptors, socket, NULL,
                                eth_configure_memory_of(queue));
}

static int eth_configure_setup_queues(struct eth_port *port, uint32_t tx)
{
  const unsigned socket = (unsigned)rte_eth_dev_socket_id(port->id);
  int rc = eth_configure_device(port);

  for (uint32_t i = 0; rc == 0 && i < port->rxq_count; i++)
    rc = eth_configure_setup_receiving(port, &port->rxqs[i], socket);
  for (uint32_t i = 0; rc == 0 && i < port->txq_count; i++)
    rc = rte_eth_tx_queue_setup(port->id, (uint16_t)i, (uint16_t)tx, socket, NULL);
  if (rc < 0)
    return ETH_PORT_REFUSE(port, rc, "its queues cannot be set up%s: %s%s", eal_words(),
                           strerror(-rc),
                           port->by_rules ? "; `rules: off` needs one queue alone" : "");
  if (!(port->driver->traits & ETH_VIRTUAL) || (port->driver->traits & ETH_MAKES_NETDEV))
    rc = eth_configure_set_mtu(port);
  if (!port->has_remote || !port->has_kernel) /* else the kernel joins there */
    rte_eth_allmulticast_enable(port->id);
  for (uint32_t i = 0; rc == 0 && i < port->rxq_count; i++)
    rc = eth_configure_check_queue(port, &port->rxqs[i]);
  return rc;
}

/* ---- Workers -----------------------------------------------------------------------------------
 */

/* Gives a worker the queues that it polls: those of its rings, and those without a ring. */
static int eth_configure_give_queues(struct eth_port *port, struct pst_worker *worker)
{
  worker->rxqs = calloc(port->rxq_count, sizeof(struct eth_rxq *));
  if (!worker->rxqs)
    return -ENOMEM;
  for (uint32_t i = 0; i < port->rxq_count; i++)
    if (!port->rxqs[i].ring || port->rxqs[i].ring->worker == worker)
      worker->rxqs[worker->rxq_count++] = &port->rxqs[i];
  return 0;
}

static int eth_configure_start_receiver(struct eth_port *port, struct pst_endpoint *endpoint)
{
  struct eth_rxq *queue = eth_ring_of(endpoint)->queue;
  int rc = eth_rx_start(endpoint, !queue || port->by_rules);

  if (rc < 0)
    return rc;
  endpoint->match.queue = queue;
  queue = queue ? queue : &port->rxqs[0];
  endpoint->rx->is_started = true;
  queue->only = queue->receivers++ || port->by_rules ? NULL : endpoint;
  eth_port_add_own_rule(port, endpoint);
  return 0;
}

/* A worker of a thread: where it sends, and which queues it polls. */
static int eth_configure_start_worker(struct eth_port *port, struct pst_worker *worker,
                                      uint32_t number, uint32_t descriptors)
{
  const bool is_copied = !port->reads_by_reference || (port->driver->traits & ETH_ONE_SEGMENT) ||
                         port->segments_max < 2;
  int rc = eth_port_make_mempool(port, descriptors + OUT_BEYOND,
                                 is_copied ? port->mtu + 18 : ETH_CONTROL_MAX, &worker->out);

  rc = rc ? rc : eth_port_make_keeper(port, &worker->keeper);
  rc = rc ? rc : eth_configure_give_queues(port, worker);
  for (uint32_t i = 0; rc == 0 && i < worker->endpoint_count; i++) {
    struct pst_endpoint *endpoint = worker->endpoints[i];
    rc = endpoint->rx ? eth_configure_start_receiver(port, endpoint) : eth_tx_start(endpoint);
  }
  if (rc == 0)
    worker->txq = &port->txqs[number % port->txq_count];
  return rc;
}

static int eth_configure_start_workers(struct eth_port *port, uint32_t descriptors)
{
  uint32_t number = 0;
  int rc = 0;

  ETH_FOR_EACH_WORKER(port, worker)
  rc = rc ? rc : eth_configure_start_worker(port, worker, number++, descriptors);
  return rc;
}

/* ---- The port ----------------------------------------------------------------------------------
 */

static int eth_configure_set_up(struct eth_port *port, const struct eth_opened *opened, uint32_t rx,
                                uint32_t tx)
{
  int rc = eth_port_assign(port, opened, rx);

  rc = rc ? rc : eth_configure_make_txqs(port, opened);
  return rc ? rc : eth_configure_setup_queues(port, tx);
}

/* Back to where it was before eth_configure_set_up(), as far as DPDK has that. */
static void eth_configure_tear_down(struct eth_port *port)
{
  eth_port_stop(port);
  eth_port_unassign(port);
  port->by_rules = false;
}

/* Rules are there only on a port that runs. 1: it runs with them; 0: they are refused, and the port
 * is as before; -errno, logged. */
static int eth_configure_try_rules(struct eth_port *port, const struct eth_opened *opened,
                                   uint32_t rx, uint32_t tx, char why[ETH_SIZES_WHY])
{
  int rc;

  if (port->has_kernel && eth_port_isolate(port, true, why) < 0)
    return 0;
  port->by_rules = opened->rings != 0 && !port->no_rules[0];
  rc = eth_configure_set_up(port, opened, rx, tx);
  if (rc < 0)
    return rc;
  rc = eth_port_run(port);
  if (rc < 0)
    snprintf(why, ETH_SIZES_WHY, "with %u queues it does not start: %s", port->rxq_count,
             strerror(-rc));
  else
    rc = eth_port_add_rules(port, why);
  if (rc == 0)
    return 1;
  eth_configure_tear_down(port);
  if (port->has_kernel)
    eth_port_isolate(port, false, (char[ETH_SIZES_WHY]){""});
  return 0;
}

/* Without rules such a port takes all that comes for its MAC, and broadcasts: what is for the
 * kernel's programs, and the answers to ARP that the plugin has the kernel ask for. */
static int eth_configure_refuse_whole_card(const struct eth_port *port, const char *why)
{
  return ETH_PORT_REFUSE(
      port, -ENOTSUP,
      "the kernel has this card and the address, too, and would receive nothing on it any more: "
      "%s; give the port an `address` that the card's interface does not have, and control the "
      "host by another card",
      why);
}

static int eth_configure_set_up_port(struct eth_port *port, const struct eth_opened *opened,
                                     uint32_t rx, uint32_t tx)
{
  char why[ETH_SIZES_WHY] = "";

  if (eth_configure_want_rules(port, opened)) {
    int rc = eth_configure_try_rules(port, opened, rx, tx, why);
    if (rc != 0)
      return rc < 0 ? rc : 0;
    if (port->has_kernel)
      return eth_configure_refuse_whole_card(port, why);
    snprintf(port->no_rules, sizeof(port->no_rules), "%.127s", why);
    ETH_PORT_LOG(port, PST_LOG_INFO, "%s; software sorts packets by stream", why);
  }
  if (port->has_kernel)
    return eth_configure_refuse_whole_card(port, port->no_rules);
  return eth_configure_set_up(port, opened, rx, tx);
}

int eth_port_configure(struct eth_port *port)
{
  struct eth_opened opened;
  uint32_t rx = 0, tx = 0;
  int rc;

  eth_configure_count_opened(port, &opened);
  port->is_shared = opened.workers > 1;
  port->has_receivers = opened.receivers != 0;
  rc = eth_configure_settle_descriptors(port, "receiving", &port->info.rx_desc_lim, &rx);
  rc = rc ? rc : eth_configure_settle_descriptors(port, "sending", &port->info.tx_desc_lim, &tx);
  rc = rc ? rc : eth_configure_set_up_port(port, &opened, rx, tx);
  return rc ? rc : eth_configure_start_workers(port, tx);
}
