/* SPDX-License-Identifier: Apache-2.0 */
/* Rings and receivers that leave a port which other workers go on polling. */
#include <assert.h>

#include "pool.h"
#include "port.h"

/* ---- All queues at once ------------------------------------------------------------------------
 *
 * The order is: receiving queues by number, the control plane, sending queues by number. A thread
 * that polls holds one receiving queue, and may wait for the control plane and then for a sending
 * queue. A thread that holds the control plane may only try to lock receiving queues.
 */

static void eth_leave_lock_receiving(struct eth_port *port)
{
  for (uint32_t i = 0; i < port->rxq_count; i++)
    rte_spinlock_lock(&port->rxqs[i].lock);
}

static void eth_leave_unlock_receiving(struct eth_port *port)
{
  for (uint32_t i = port->rxq_count; i-- > 0;)
    rte_spinlock_unlock(&port->rxqs[i].lock);
}

static void eth_leave_lock_sending(struct eth_port *port)
{
  assert(rte_spinlock_is_locked(&port->control_lock));
  for (uint32_t i = 0; i < port->txq_count; i++)
    rte_spinlock_lock(&port->txqs[i].lock);
}

bool eth_port_try_lock(struct eth_port *port)
{
  assert(rte_spinlock_is_locked(&port->control_lock));
  for (uint32_t i = 0; i < port->rxq_count; i++)
    if (!rte_spinlock_trylock(&port->rxqs[i].lock)) {
      while (i-- > 0)
        rte_spinlock_unlock(&port->rxqs[i].lock);
      return false;
    }
  eth_leave_lock_sending(port);
  return true;
}

void eth_port_unlock(struct eth_port *port)
{
  for (uint32_t i = port->txq_count; i-- > 0;)
    rte_spinlock_unlock(&port->txqs[i].lock);
  eth_leave_unlock_receiving(port);
}

/* ---- Leaving a port
 * --------------------------------------------------------------------------------
 */

void eth_port_end_receiver(struct eth_port *port, struct pst_endpoint *endpoint)
{
  struct eth_match **at = &port->table->chains[endpoint->udp_port];
  struct eth_rxq *queue = NULL;

  if (!endpoint->rx->is_listed)
    return;
  if (endpoint->rx->is_started) {
    queue = eth_ring_of(endpoint)->queue ? eth_ring_of(endpoint)->queue : &port->rxqs[0];
    rte_spinlock_lock(&port->control_lock);
    eth_port_drop_rule(port, endpoint);
    rte_spinlock_unlock(&port->control_lock);
  }
  eth_leave_lock_receiving(port);
  rte_spinlock_lock(&port->control_lock); /* nobody looks for others of its rule meanwhile */
  while (*at != &endpoint->match)
    at = &(*at)->next;
  *at = endpoint->match.next;
  if (queue && queue->only == endpoint)
    queue->only = NULL;
  if (queue)
    queue->receivers--;
  rte_spinlock_unlock(&port->control_lock);
  eth_leave_unlock_receiving(port);
  endpoint->rx->is_listed = false;
}

/* False: this queue cannot be stopped alone. */
static bool eth_leave_stop_queue(struct eth_port *port, const struct eth_rxq *queue)
{
  return (port->driver->traits & ETH_KEEPS_NO_MBUF) ||
         rte_eth_dev_rx_queue_stop(port->id, queue->index) == 0;
}

void eth_port_end_ring(struct eth_port *port, struct pst_ring *ring)
{
  struct eth_rxq *queue = ring->queue;
  struct pst_worker *worker = ring->worker;

  if (!queue)
    return;
  eth_leave_lock_receiving(port);
  rte_spinlock_lock(&port->control_lock); /* nobody starts the port meanwhile */
  eth_leave_lock_sending(port);
  /* A driver that keeps mbufs would go on writing into slots. */
  if (eth_port_is_running(port) && !eth_leave_stop_queue(port, queue)) {
    rte_eth_dev_stop(port->id);
    __atomic_store_n(&port->stage, ETH_PORT_OVER, __ATOMIC_RELEASE);
  }
  eth_rxq_drop(queue);
  queue->ring = NULL;
  queue->is_over = true;
  rte_spinlock_unlock(&port->control_lock);
  eth_port_unlock(port);
  for (uint32_t i = 0; i < worker->rxq_count; i++)
    if (worker->rxqs[i] == queue)
      worker->rxqs[i] = worker->rxqs[--worker->rxq_count];
  ring->queue = NULL;
  ring->pool = NULL;
}
