/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ring has a queue, and which memory each queue receives into.
 *
 * A ring becomes the pool of a queue where it has the queue for itself, the driver takes a pool
 * that is not its own, and the sizes fit. Else its frames come by the first queue, which has memory
 * of its own, and payloads are copied.
 */
#include <stdio.h>

#include <rte_errno.h>

#include "eal.h"
#include "pool.h"
#include "port.h"
#include "stack.h"

#define HUGE_PAGE (UINT64_C(2) << 20)
#define REST_DESCRIPTORS 256u /* of the first queue, where rules leave it little */

/* Bytes of headers before the payload of a message that has the nonce of a Penstock, or none. */
static uint32_t eth_assign_headers_before(const struct pst_endpoint *endpoint, bool has_nonce)
{
  const struct pst_device *device = endpoint->worker->device;

  return dg_header_bytes(device->dg.framing, has_nonce) +
         (device->dg.authenticates ? DG_TAG_BYTES : 0) +
         (endpoint->dg.family == AF_INET ? ETH_HEADER_MIN : 62u) +
         (device->port->vlan == ETH_UNTAGGED ? 0 : 4u);
}

/* The longest headers of the ring's endpoints. */
static uint32_t eth_assign_headers_of(const struct pst_ring *ring)
{
  const struct pst_worker *worker = ring->worker;
  uint32_t most = 0;

  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    if (worker->endpoints[i]->dg.cpu.ring == &ring->cpu)
      most = RTE_MAX(most, eth_assign_headers_before(worker->endpoints[i], true));
  return most;
}

/* ---- A ring that the CPU does not reach --------------------------------------------------------
 */

/* Has another ring's endpoint the same frames, as rules tell them? */
static bool eth_assign_meets_another(const struct eth_port *port,
                                     const struct pst_endpoint *endpoint)
{
  for (struct eth_match *at = port->table->chains[endpoint->udp_port]; at; at = at->next) {
    const struct pst_endpoint *other = eth_endpoint_of(at);
    if (other->dg.cpu.ring != endpoint->dg.cpu.ring &&
        memcmp(at->at, endpoint->match.at, sizeof(at->at)) == 0 &&
        eth_match_is_same_source(&other->dg.flow, &endpoint->dg.flow))
      return true;
  }
  return false;
}

/* Where its frames are split. NULL; or why they cannot be. */
static const char *eth_assign_settle_split(const struct eth_port *port, struct pst_ring *ring)
{
  const struct pst_worker *worker = ring->worker;
  uint32_t *headers = calloc(worker->endpoint_count + 1, sizeof(*headers)), count = 0;
  const char *why = NULL;

  if (!headers)
    return "out of memory";
  for (uint32_t i = 0; i < worker->endpoint_count; i++) {
    const struct pst_endpoint *endpoint = worker->endpoints[i];
    if (endpoint->dg.cpu.ring != &ring->cpu)
      continue;
    headers[count++] = eth_assign_headers_before(endpoint, !endpoint->is_foreign);
    if (eth_assign_meets_another(port, endpoint))
      why =
          "another ring's stream has the same `port` and `source`, and the CPU does not copy into "
          "this ring";
  }
  ring->split_point = eth_split_point(headers, count);
  free(headers);
  if (!ring->split_point)
    why = "streams that share it have headers of different lengths (`family`)";
  return port->by_rules ? why : port->no_rules[0] ? port->no_rules : "it has no flow rules";
}

static struct eth_descriptor_limits eth_assign_limits_of(const struct eth_port *port)
{
  const struct rte_eth_desc_lim *lim = &port->info.rx_desc_lim;

  return (struct eth_descriptor_limits){lim->nb_min, lim->nb_max ? lim->nb_max : UINT16_MAX,
                                        lim->nb_align};
}

/* A device with physical addresses, of a machine without IOMMU, writes a frame to what lies behind
 * its buffer's first byte there. Huge pages alone stay where they are. */
static const char *eth_assign_judge_pages(const struct pst_ring *ring, uint32_t lead)
{
  const struct pst_ring_params *params = &ring->cpu.params;
  const uint64_t page = ring->mr->page_size, from = params->headroom + ETH_SLOT_SHIFT - lead;
  const uint64_t to = (uint64_t)params->headroom + params->payload_max + params->tailroom;

  if (page < HUGE_PAGE)
    return "the device uses physical addresses, and the ring is not in huge pages (`backing: "
           "huge_2m`)";
  for (uint32_t i = 0; i < params->slots; i++) {
    const uint64_t slot = (uintptr_t)ring->cpu.base + params->base + i * params->stride;
    if ((slot + from) / page != (slot + to - 1) / page)
      return "the device uses physical addresses, and slots cross page boundaries (`stride: "
             "2048 B`)";
  }
  return NULL;
}

/* Why a ring cannot be the pool of a queue that it has for itself; NULL: it can. *descriptors may
 * become fewer. */
static const char *eth_assign_judge_ring(const struct eth_port *port, const struct pst_ring *ring,
                                         uint32_t *descriptors, char why[ETH_SIZES_WHY])
{
  const struct pst_ring_params *params = &ring->cpu.params;
  const uint32_t lead = RTE_PKTMBUF_HEADROOM + eth_assign_headers_of(ring);
  const uint64_t room = params->payload_max + params->tailroom - ETH_SLOT_SHIFT + lead;
  uint32_t frame = port->mtu + eth_frame_overhead(&port->info) + RTE_PKTMBUF_HEADROOM;

  if (port->driver->traits & ETH_TAKES_NO_POOL)
    return "its driver receives into memory of its own";
  if (!(port->driver->traits & ETH_KEEPS_NO_MBUF)) {
    const struct eth_descriptor_limits limits = eth_assign_limits_of(port);
    if (!eth_ring_settle(&limits, params->slots, port->descriptors_fixed, descriptors, why))
      return why;
  }
  if (port->driver->traits & ETH_IS_DMA && rte_eal_iova_mode() == RTE_IOVA_PA) {
    const char *wrong = eth_assign_judge_pages(ring, lead);
    if (wrong)
      return wrong;
  }
  if (ring->is_split)
    return NULL; /* a frame that is longer takes several slots, and is too long */
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

/* ---- Memory ------------------------------------------------------------------------------------
 */

static int eth_assign_keep_mempool(struct eth_port *port, struct rte_mempool *mempool)
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

int eth_port_make_mempool(struct eth_port *port, uint32_t count, uint32_t room,
                          struct rte_mempool **mempool)
{
  char name[RTE_MEMPOOL_NAMESIZE];
  int why;

  room += RTE_PKTMBUF_HEADROOM;
  eth_name_make(name, sizeof(name));
  *mempool = rte_pktmbuf_pool_create_by_ops(name, count, 0, ETH_MBUF_PRIVATE,
                                            (uint16_t)(room < UINT16_MAX ? room : UINT16_MAX),
                                            rte_eth_dev_socket_id(port->id), ETH_STACK_OPS);
  why = *mempool ? ENOMEM : rte_errno;
  if (*mempool)
    eth_stack_share(*mempool, port->is_shared);
  if (eth_assign_keep_mempool(port, *mempool) == 0)
    return 0;
  if (why != ENOMEM)
    return ETH_PORT_REFUSE(port, -why, "DPDK cannot create a pool of buffers%s: %s", eal_words(),
                           strerror(why));
  return ETH_PORT_REFUSE(
      port, -ENOMEM,
      "out of memory for %u buffers of %u bytes in DPDK's; make `descriptors` or `mtu` smaller, "
      "or grant more huge pages",
      count, room);
}

int eth_port_make_keeper(struct eth_port *port, struct rte_mempool **keeper)
{
  const uint32_t traits = port->driver->traits;
  char name[RTE_MEMPOOL_NAMESIZE];

  if (!(traits & ETH_DONE_AT_ONCE) || traits & ETH_SENDS_COPIES)
    return 0; /* it hands mbufs on, or holds them */
  eth_name_make(name, sizeof(name));
  *keeper = eth_keeper_make(name, rte_eth_dev_socket_id(port->id));
  if (eth_assign_keep_mempool(port, *keeper) == 0)
    return 0;
  return ETH_PORT_REFUSE(port, -ENOMEM, "DPDK cannot create a pool for sent packets%s",
                         eal_words());
}

static int eth_assign_give_own(struct eth_port *port, struct eth_rxq *queue, uint32_t inboxes,
                               uint32_t descriptors)
{
  queue->descriptors = descriptors;
  return eth_port_make_mempool(port, eth_own_buffers(descriptors, inboxes), port->mtu + 18 + 128,
                               &queue->own);
}

static int eth_assign_give_ring(struct eth_port *port, struct eth_rxq *queue, struct pst_ring *ring,
                                uint32_t descriptors)
{
  struct eth_pool_params params = {
      .lead = ring->is_split ? ETH_SLOT_SHIFT : RTE_PKTMBUF_HEADROOM + eth_assign_headers_of(ring),
      .spares = port->driver->bulk > 1 ? port->driver->bulk : 0,
      .is_shared = false,
      .is_physical = port->driver->traits & ETH_IS_DMA && rte_eal_iova_mode() == RTE_IOVA_PA,
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
  queue->descriptors = descriptors;
  queue->ring = ring;
  ring->queue = queue;
  if (!ring->is_split)
    return 0;
  return eth_port_make_mempool(port, eth_own_buffers(descriptors, 0), ring->split_point,
                               &queue->headers);
}

/* ---- Queues ------------------------------------------------------------------------------------
 */

/* A ring and the descriptors that it is to have. */
struct choice {
  struct pst_ring *ring;
  uint32_t descriptors;
};

/* Queues for rings: with rules, those behind the first. */
static uint32_t eth_assign_room_for_rings(const struct eth_port *port)
{
  uint32_t most = port->info.max_rx_queues;

  if (!port->by_rules)
    return 1;
  if (port->driver->traits & ETH_EQUAL_QUEUES && port->info.max_tx_queues < most)
    most = port->info.max_tx_queues;
  return most < 2 ? 0 : most > ETH_QUEUES_MAX ? ETH_QUEUES_MAX - 1 : most - 1;
}

/* Has the ring a queue for itself, as its pool? 1, 0, or -errno, logged. */
static int eth_assign_choose_for(const struct eth_port *port, const struct eth_opened *opened,
                                 struct pst_ring *ring, uint32_t room, uint32_t *descriptors)
{
  const uint32_t requested = ring->worker->device->receive;
  char text[ETH_SIZES_WHY], more[ETH_SIZES_WHY];
  const char *why = eth_assign_judge_ring(port, ring, descriptors, text);

  if (!why && !port->by_rules && opened->rings > 1) {
    snprintf(more, sizeof(more), "several rings share its queue%s%s", port->no_rules[0] ? ": " : "",
             port->no_rules);
    why = more;
  }
  if (!why && ring->is_split)
    why = eth_assign_settle_split(port, ring);
  if (!why && room == 0)
    why = "the port has fewer queues than there are rings; `receiver.share` lets streams have one";
  if (why && ring->is_split)
    return ETH_PORT_REFUSE(port, -EOPNOTSUPP,
                           "its card cannot split frames for a ring in device memory: %s; "
                           "`path: staged` receives into host memory",
                           why);
  if (requested == ETH_RECEIVE_COPY)
    why = "the option `receive` says so";
  else if (why && requested == ETH_RECEIVE_SLOTS)
    return ETH_PORT_REFUSE(port, -ENOSPC, "receive: slots is not possible: %s", why);
  ring->copy_reason[0] = '\0';
  if (why)
    snprintf(ring->copy_reason, sizeof(ring->copy_reason), "copied, since %.140s", why);
  return !why;
}

/* Chooses which rings have a queue. Returns how many, or -errno, logged. */
static int eth_assign_choose(const struct eth_port *port, const struct eth_opened *opened,
                             uint32_t descriptors, struct choice choices[ETH_QUEUES_MAX])
{
  const uint32_t most = eth_assign_room_for_rings(port);
  uint32_t count = 0;
  int rc = 0;

  ETH_FOR_EACH_WORKER(port, worker)
  for (uint32_t i = 0; rc >= 0 && i < worker->rings.room; i++) {
    struct pst_ring *ring = worker->rings.all[i].at;
    uint32_t fewer = descriptors;
    if (!ring)
      continue;
    rc = eth_assign_choose_for(port, opened, ring, most - count, &fewer);
    if (rc > 0)
      choices[count++] = (struct choice){ring, fewer};
  }
  return rc < 0 ? rc : (int)count;
}

static int eth_assign_make_queues(struct eth_port *port, uint32_t count)
{
  port->rxqs = calloc(count, sizeof(*port->rxqs));
  if (!port->rxqs)
    return -ENOMEM;
  port->rxq_count = count;
  for (uint32_t i = 0; i < count; i++) {
    port->rxqs[i].port = port;
    port->rxqs[i].index = (uint16_t)i;
    port->rxqs[i].is_shared = port->is_shared;
    rte_spinlock_init(&port->rxqs[i].lock);
  }
  return 0;
}

int eth_port_assign(struct eth_port *port, const struct eth_opened *opened, uint32_t descriptors)
{
  const uint32_t first = port->by_rules ? 1 : 0;
  struct choice choices[ETH_QUEUES_MAX];
  uint32_t rest = descriptors;
  int count, rc;

  if (port->driver->traits & ETH_FILLS_ONE && !port->descriptors_fixed)
    descriptors = ETH_BURST;
  count = eth_assign_choose(port, opened, descriptors, choices);
  if (count < 0)
    return count;
  rc = eth_assign_make_queues(port, first + (uint32_t)count > 1 ? first + (uint32_t)count : 1);
  if (rc == 0 && (port->by_rules || count == 0)) {
    if (port->by_rules && !port->descriptors_fixed && rest > REST_DESCRIPTORS)
      rest = REST_DESCRIPTORS;
    rc = eth_assign_give_own(port, &port->rxqs[0], opened->receivers, rest);
  }
  for (uint32_t i = 0; rc == 0 && i < (uint32_t)count; i++)
    rc =
        eth_assign_give_ring(port, &port->rxqs[first + i], choices[i].ring, choices[i].descriptors);
  return rc;
}

void eth_port_unassign(struct eth_port *port)
{
  for (uint32_t i = 0; i < port->rxq_count; i++) {
    eth_rxq_drop(&port->rxqs[i]);
    if (!port->rxqs[i].ring)
      continue;
    eth_pool_leave(port->rxqs[i].ring->pool);
    port->rxqs[i].ring->queue = NULL;
  }
  free(port->rxqs);
  free(port->txqs);
  port->rxqs = NULL;
  port->txqs = NULL;
  port->rxq_count = port->txq_count = 0;
}
