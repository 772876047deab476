/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues, pools and offloads of a port whose devices, rings and endpoints are all known.
 *
 * A ring becomes the pool of a queue where it has the queue for itself, the driver takes a pool
 * that is not its own, and the sizes fit. Else the queue has memory of its own, and payloads are
 * copied.
 */
#include <stdio.h>

#include <rte_errno.h>

#include "eal.h"
#include "pool.h"
#include "port.h"

#define OUT_BEYOND 512u /* mbufs to send beyond what the queue holds */

/* What the devices of the port have opened. */
struct opened {
  uint32_t workers, rings;
  struct pst_ring *ring; /* the last one */
};

static void count_opened(const struct eth_port *port, struct opened *opened)
{
  memset(opened, 0, sizeof(*opened));
  for (uint32_t d = 0; d < port->device_count; d++)
    for (uint32_t w = 0; w < port->devices[d]->worker_count; w++) {
      const struct pst_worker *worker = port->devices[d]->workers[w];
      opened->workers++;
      for (uint32_t i = 0; i < worker->rings.room; i++)
        if (worker->rings.all[i].at) {
          opened->ring = worker->rings.all[i].at;
          opened->rings++;
        }
    }
}

#define FOR_EACH_WORKER(port, worker)                                                              \
  for (uint32_t d_ = 0; d_ < (port)->device_count; d_++)                                           \
    for (uint32_t w_ = 0; w_ < (port)->devices[d_]->worker_count; w_++)                            \
      for (struct pst_worker *worker = (port)->devices[d_]->workers[w_]; worker; worker = NULL)

/* Bytes of headers before the payload of a message of the ring's endpoint, the longest. */
static uint32_t headers_of(const struct pst_ring *ring)
{
  const struct pst_worker *worker = ring->worker;
  const struct eth_port *port = worker->device->port;
  uint32_t bytes = dg_header_bytes(worker->device->dg.framing, true);

  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    if (worker->endpoints[i]->dg.cpu.ring == &ring->cpu)
      bytes += worker->endpoints[i]->dg.family == AF_INET ? ETH_HEADER_MIN : 62;
  return bytes + (port->vlan == ETH_UNTAGGED ? 0 : 4);
}

static struct eth_descriptor_limits limits_of(const struct rte_eth_desc_lim *lim)
{
  return (struct eth_descriptor_limits){lim->nb_min, lim->nb_max ? lim->nb_max : UINT16_MAX,
                                        lim->nb_align};
}

/* Descriptors of a queue within what the driver can have. 0 or -EINVAL, logged. */
static int settle_descriptors(const struct eth_port *port, const char *queue,
                              const struct rte_eth_desc_lim *lim, uint32_t *descriptors)
{
  const struct eth_descriptor_limits limits = limits_of(lim);
  char why[ETH_SIZES_WHY];
  int rc = eth_descriptors_settle(&limits, queue, port->descriptors, port->descriptors_fixed,
                                  descriptors, why);

  if (rc < 0)
    return ETH_PORT_REFUSE(port, rc, "%s", why);
  if (rc > 0)
    ETH_PORT_LOG(port, port->descriptors_fixed ? PST_LOG_WARN : PST_LOG_DEBUG, "%s", why);
  return 0;
}

/* Why a ring cannot be the pool of a queue; NULL: it can. *descriptors may become fewer. */
static const char *judge_ring(const struct eth_port *port, const struct opened *opened,
                              uint32_t *descriptors, char why[ETH_SIZES_WHY])
{
  const struct pst_ring_params *ring = &opened->ring->cpu.params;
  const uint32_t lead = RTE_PKTMBUF_HEADROOM + headers_of(opened->ring);
  const uint64_t room = ring->payload_max + ring->tailroom - ETH_SLOT_SHIFT + lead;
  uint32_t frame = port->mtu + 18 + RTE_PKTMBUF_HEADROOM;

  if (port->driver->traits & ETH_TAKES_NO_POOL)
    return "its driver receives into memory of its own";
  if (opened->rings > 1)
    return "several rings share its queue";
  if (!(port->driver->traits & ETH_KEEPS_NO_MBUF)) {
    const struct eth_descriptor_limits limits = limits_of(&port->info.rx_desc_lim);
    if (!eth_ring_settle(&limits, ring->slots, port->descriptors_fixed, descriptors, why))
      return why;
  }
  if (port->driver == &eth_drivers[ETH_DRIVER_AF_PACKET])
    frame += 96; /* its own header lies in a frame of the kernel's ring */
  if (port->driver != &eth_drivers[ETH_DRIVER_MEMIF] && room < frame) {
    snprintf(why, ETH_SIZES_WHY,
             "a slot has room for %lu bytes, and a frame of this port's MTU of %u needs %u; a "
             "smaller `mtu` or a larger `message` helps",
             room, port->mtu, frame);
    return why;
  }
  return room > UINT16_MAX ? "a slot is longer than a buffer of DPDK (64 KiB)" : NULL;
}

static int keep_mempool(struct eth_port *port, struct rte_mempool *mempool)
{
  struct rte_mempool **grown =
      mempool ? realloc(port->mempools, (port->mempool_count + 1) * sizeof(struct rte_mempool *))
              : NULL;

  if (!grown) {
    rte_mempool_free(mempool);
    return -ENOMEM;
  }
  port->mempools = grown;
  port->mempools[port->mempool_count++] = mempool;
  return 0;
}

static int make_mempool(struct eth_port *port, uint32_t count, uint32_t room,
                        struct rte_mempool **mempool)
{
  char name[RTE_MEMPOOL_NAMESIZE];

  room += RTE_PKTMBUF_HEADROOM;
  eth_name_make(name, sizeof(name));
  *mempool = rte_pktmbuf_pool_create(name, count, 0, ETH_MBUF_PRIVATE,
                                     (uint16_t)(room < UINT16_MAX ? room : UINT16_MAX),
                                     rte_eth_dev_socket_id(port->id));
  if (keep_mempool(port, *mempool) == 0)
    return 0;
  return ETH_PORT_REFUSE(port, -ENOMEM,
                         "no memory for %u buffers of %u bytes in DPDK's; make `descriptors` or "
                         "`mtu` smaller, or grant more huge pages",
                         count, room);
}

/* Memory of the queue's own. */
static int queue_own(struct eth_port *port, struct eth_rxq *queue, const struct opened *opened,
                     uint32_t descriptors)
{
  return make_mempool(port, eth_own_buffers(descriptors, opened->rings), port->mtu + 18 + 128,
                      &queue->own);
}

static int queue_ring(struct eth_port *port, struct eth_rxq *queue, struct pst_ring *ring)
{
  struct eth_pool_params params = {.lead = RTE_PKTMBUF_HEADROOM + headers_of(ring),
                                   .spares = port->driver->bulk > 1 ? port->driver->bulk : 0,
                                   .is_shared = false,
                                   .socket = rte_eth_dev_socket_id(port->id)};
  struct eth_pool **grown =
      realloc(port->pools, (port->pool_count + 1) * sizeof(struct eth_pool *));
  int rc;

  if (!grown)
    return -ENOMEM;
  port->pools = grown;
  rc = eth_pool_open(ring, &params, &ring->pool);
  if (rc < 0)
    return rc;
  port->pools[port->pool_count++] = ring->pool;
  queue->ring = ring;
  return 0;
}

/* The receiving queue: a ring, or memory of its own. */
static int choose_pool(struct eth_port *port, const struct opened *opened, uint32_t *descriptors)
{
  struct eth_rxq *queue = &port->rxqs[0];
  char text[ETH_SIZES_WHY];
  const char *why = "nothing is received for a stream";
  uint32_t wish = ETH_RECEIVE_AUTO;

  if (opened->rings)
    why = judge_ring(port, opened, descriptors, text);
  for (uint32_t d = 0; d < port->device_count; d++)
    if (port->devices[d]->receive != ETH_RECEIVE_AUTO && port->devices[d]->worker_count)
      wish = port->devices[d]->receive;
  if (opened->rings && wish == ETH_RECEIVE_COPY)
    why = "the option `receive` says so";
  if (opened->rings && why && wish == ETH_RECEIVE_SLOTS)
    return ETH_PORT_REFUSE(port, -ENOSPC, "receive: slots is not possible: %s", why);
  if (!why)
    return queue_ring(port, queue, opened->ring);
  snprintf(port->copy_reason, sizeof(port->copy_reason), "copied, since %.140s", why);
  return queue_own(port, queue, opened, *descriptors);
}

/* Checksums that the card computes. */
static uint64_t choose_offloads(struct eth_port *port)
{
  const uint64_t can = port->info.tx_offload_capa;
  uint64_t use = can & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  const uint64_t sums = RTE_ETH_TX_OFFLOAD_IPV4_CKSUM | RTE_ETH_TX_OFFLOAD_UDP_CKSUM;

  port->ip_sum = ETH_CHECKSUM_SOFTWARE;
  port->udp_sum[0] = ETH_CHECKSUM_NONE;
  port->udp_sum[1] = ETH_CHECKSUM_SOFTWARE;
  if (port->driver->traits & ETH_VIRTUAL || (can & sums) != sums)
    return use;
  port->ip_sum = port->udp_sum[0] = port->udp_sum[1] = ETH_CHECKSUM_OFFLOAD;
  return use | sums;
}

/* What the driver made of the descriptors: mlx5 rounds them up to a power of two. */
static int check_queue(const struct eth_port *port, const struct rte_mempool *pool,
                       uint32_t descriptors)
{
  struct rte_eth_rxq_info made = {.nb_desc = 0};
  char why[ETH_SIZES_WHY];

  if (port->driver->traits & ETH_KEEPS_NO_MBUF || rte_eth_rx_queue_info_get(port->id, 0, &made) < 0)
    return 0;
  return eth_queue_check(pool->populated_size, descriptors, made.nb_desc, why)
             ? 0
             : ETH_PORT_REFUSE(port, -ENOSPC, "%s", why);
}

static int setup_queues(struct eth_port *port, uint32_t rx, uint32_t tx)
{
  const int socket = rte_eth_dev_socket_id(port->id);
  struct rte_mempool *pool =
      port->rxqs[0].ring ? port->rxqs[0].ring->pool->mempool : port->rxqs[0].own;
  struct rte_eth_conf conf = {.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE};
  int rc;

  conf.txmode.offloads = choose_offloads(port);
  if (!(port->driver->traits & ETH_VIRTUAL) && port->mtu <= port->info.max_mtu)
    conf.rxmode.mtu = port->mtu;
  conf.rxmode.offloads = port->info.rx_offload_capa &
                         (port->driver->traits & ETH_VIRTUAL ? 0 : RTE_ETH_RX_OFFLOAD_CHECKSUM);
  rc = rte_eth_dev_configure(port->id, 1, 1, &conf);
  if (rc == 0)
    rc = rte_eth_rx_queue_setup(port->id, 0, (uint16_t)rx, (unsigned)socket, NULL, pool);
  if (rc == 0)
    rc = rte_eth_tx_queue_setup(port->id, 0, (uint16_t)tx, (unsigned)socket, NULL);
  if (rc < 0)
    return ETH_PORT_REFUSE(port, rc, "its queues cannot be set up%s: %s", eal_words(),
                           strerror(-rc));
  if (!(port->driver->traits & ETH_VIRTUAL) || (port->driver->traits & ETH_MAKES_NETDEV))
    rte_eth_dev_set_mtu(port->id, (uint16_t)port->mtu);
  rte_eth_allmulticast_enable(port->id);
  return check_queue(port, pool, rx);
}

/* A worker of a thread: where it sends, and which queues it polls. */
static int start_worker(struct eth_port *port, struct pst_worker *worker, uint32_t descriptors)
{
  const bool is_copied = !port->reads_by_reference || (port->driver->traits & ETH_ONE_SEGMENT) ||
                         port->segments_max < 2;
  struct eth_rxq *queue = &port->rxqs[0];
  int rc = make_mempool(port, descriptors + OUT_BEYOND,
                        is_copied ? port->mtu + 18 : ETH_CONTROL_MAX, &worker->out);

  worker->txq = &port->txqs[0];
  if (!queue->ring || queue->ring->worker == worker)
    worker->rxq = queue;
  for (uint32_t i = 0; rc == 0 && i < worker->endpoint_count; i++) {
    struct pst_endpoint *endpoint = worker->endpoints[i];
    rc = endpoint->rx ? eth_rx_start(endpoint, queue) : eth_tx_start(endpoint);
    if (rc == 0 && endpoint->rx) {
      endpoint->next = port->table->chains[endpoint->udp_port];
      port->table->chains[endpoint->udp_port] = endpoint;
      queue->only = queue->receivers++ ? NULL : endpoint;
    }
  }
  return rc;
}

int eth_port_configure(struct eth_port *port)
{
  struct opened opened;
  uint32_t rx = 0, tx = 0;
  int rc;

  count_opened(port, &opened);
  port->rxqs = calloc(1, sizeof(*port->rxqs));
  port->txqs = calloc(1, sizeof(*port->txqs));
  if (!port->rxqs || !port->txqs)
    return -ENOMEM;
  port->rxq_count = port->txq_count = 1;
  port->is_shared = opened.workers > 1;
  port->rxqs[0].port = port;
  port->rxqs[0].is_shared = port->txqs[0].is_shared = port->is_shared;
  rte_spinlock_init(&port->rxqs[0].lock);
  rte_spinlock_init(&port->txqs[0].lock);
  rc = settle_descriptors(port, "receiving", &port->info.rx_desc_lim, &rx);
  rc = rc ? rc : settle_descriptors(port, "sending", &port->info.tx_desc_lim, &tx);
  rc = rc ? rc : choose_pool(port, &opened, &rx);
  rc = rc ? rc : setup_queues(port, rx, tx);
  FOR_EACH_WORKER(port, worker)
  rc = rc ? rc : start_worker(port, worker, tx);
  return rc;
}

void eth_port_end_receiver(struct eth_port *port, struct pst_endpoint *endpoint)
{
  struct eth_rxq *queue = endpoint->rx->queue;
  struct pst_endpoint **at = &port->table->chains[endpoint->udp_port];

  if (!queue)
    return; /* the port has not started */
  rte_spinlock_lock(&queue->lock);
  while (*at && *at != endpoint)
    at = &(*at)->next;
  if (*at)
    *at = endpoint->next;
  if (queue->only == endpoint)
    queue->only = NULL;
  queue->receivers--;
  rte_spinlock_unlock(&queue->lock);
}

void eth_port_end_ring(struct eth_port *port, struct pst_ring *ring)
{
  struct eth_rxq *queue = &port->rxqs[0];

  if (!ring->pool)
    return;
  /* A driver that keeps mbufs would go on writing into slots. */
  if (!(port->driver->traits & ETH_KEEPS_NO_MBUF) &&
      rte_eth_dev_rx_queue_stop(port->id, queue->index) != 0) {
    rte_eth_dev_stop(port->id);
    port->is_running = false;
  }
  eth_rxq_drop(queue);
  queue->ring = NULL;
  ring->worker->rxq = NULL;
  ring->pool = NULL;
}
