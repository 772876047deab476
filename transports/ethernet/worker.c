/* SPDX-License-Identifier: Apache-2.0 */
/* A worker, polled by one thread: its queues, its endpoints, and now and then the port. */
#include "pool.h"
#include "port.h"

#define STEP_POLLS 16u /* polls from one look at what is due to the next */
#define IDLE_POLLS 4u  /* and from one look at queues by which nothing but answers can come */

int eth_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  if (eth_port_is_sealed(device->port))
    return -EBUSY;
  struct pst_worker **grown =
      realloc(device->workers, (device->worker_count + 1) * sizeof(struct pst_worker *));
  struct pst_worker *made;

  (void)index;
  if (!grown)
    return -ENOMEM;
  device->workers = grown;
  made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->device = device;
  device->workers[device->worker_count++] = made;
  *worker = made;
  return 0;
}

void eth_worker_close(struct pst_worker *worker)
{
  struct pst_device *device;

  if (!worker)
    return;
  device = worker->device;
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    eth_endpoint_free(worker->endpoints[i]);
  for (uint32_t i = 0; i < worker->rings.room; i++)
    eth_ring_close(worker, worker->rings.all[i].at);
  for (uint32_t i = 0; i < device->worker_count; i++)
    if (device->workers[i] == worker)
      device->workers[i] = device->workers[--device->worker_count];
  eth_tx_drop_mbufs(worker);
  free(worker->endpoints);
  free(worker->rings.all);
  free(worker->rxqs);
  free(worker);
}

static uint32_t eth_worker_poll_endpoint(struct pst_endpoint *endpoint, struct pst_completion *out,
                                         uint32_t max)
{
  struct eth_rx *rx = endpoint->rx;

  if (endpoint->tx && endpoint->tx->flights)
    eth_tx_reap(endpoint);
  uint32_t n = pst_cpu_endpoint_poll(&endpoint->dg.cpu, out, max);
  if (!rx || !dg_is_connected(&endpoint->dg))
    return n;
  n += dg_receiver_poll(&rx->receiver, out + n, max - n);
  if (rx->inbox && n < max && !rx->receiver.is_parked)
    n += eth_rx_copy(endpoint, out + n, max - n);
  return n;
}

/* Backwards, since what is closed leaves the array. */
static uint32_t eth_worker_close_endpoints(struct pst_worker *worker, struct pst_completion *out,
                                           uint32_t max)
{
  uint32_t n = 0;

  for (uint32_t i = worker->endpoint_count; i-- > 0 && n < max;) {
    struct pst_endpoint *endpoint = worker->endpoints[i];
    n += pst_cpu_endpoint_poll_end(&endpoint->dg.cpu, out + n, max - n);
    if (endpoint->dg.cpu.state != PST_CPU_CLOSED)
      continue;
    eth_endpoint_free(endpoint);
    worker->endpoints[i] = worker->endpoints[--worker->endpoint_count];
  }
  return n;
}

/* Slots that were released are the driver's again. */
static void eth_worker_refill_rings(struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->rxq_count; i++) {
    const struct pst_ring *ring = worker->rxqs[i]->ring;
    if (ring && ring->worker == worker && ring->cpu.slots.free_count)
      eth_pool_refill(ring->pool);
  }
}

static bool eth_worker_is_parked(const struct pst_worker *worker)
{
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    if (worker->endpoints[i]->rx && worker->endpoints[i]->rx->receiver.is_parked)
      return true;
  return false;
}

/* The queues, each poll from another one on, as long as there is room. */
static uint32_t eth_worker_poll_queues(struct pst_worker *worker, struct pst_completion *out,
                                       uint32_t max)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < worker->rxq_count && n < max; i++)
    n += eth_rxq_poll(worker->rxqs[(worker->turn + i) % worker->rxq_count], worker, out + n,
                      max - n);
  return n;
}

/* Does the work that is due only now and then: once in STEP_POLLS polls. */
static void eth_worker_step(struct pst_worker *worker)
{
  const struct pst_host *host = worker->device->dg.host;
  uint64_t now_ns;

  if (worker->polls++ % STEP_POLLS)
    return;
  now_ns = host->clock_ns(host);
  eth_port_step(worker, now_ns);
  for (uint32_t i = 0; i < worker->endpoint_count; i++)
    if (worker->endpoints[i]->tx)
      eth_peer_look(worker->endpoints[i], now_ns);
}

int eth_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  uint32_t n = 0, count = worker->endpoint_count, closing = 0;
  bool ends = false;

  if (worker->txq)
    eth_worker_step(worker);
  eth_worker_refill_rings(worker);
  for (uint32_t i = 0; i < count && n < max; i++) {
    struct pst_endpoint *endpoint = worker->endpoints[(worker->turn + i) % count];
    n += eth_worker_poll_endpoint(endpoint, completions + n, max - n);
    closing += endpoint->dg.cpu.closing.mode != 0;
    ends |= endpoint->dg.cpu.closing.mode || endpoint->dg.cpu.owes_disconnected;
  }
  worker->turn++;
  /* Nothing more is wanted where all close; DPDK's memif is then best left alone, since its peer
   * may be leaving, too, and its memory with it. */
  if (worker->rxq_count && n < max && closing < count && !eth_worker_is_parked(worker) &&
      (worker->device->port->has_receivers || worker->turn % IDLE_POLLS == 0))
    n += eth_worker_poll_queues(worker, completions + n, max - n);
  /* Nothing came: what shares this CPU's core, a sender perhaps, has it meanwhile. */
  if (n == 0 && worker->device->port->has_receivers)
    rte_pause();
  if (ends)
    n += eth_worker_close_endpoints(worker, completions + n, max - n);
  return (int)n;
}
