/* SPDX-License-Identifier: Apache-2.0 */
/* leave.c: what a ring or a receiver that leaves does to the port that goes on. DPDK's calls are
 * this file's. */
#include "port.h"
#include "support.h"

enum { QUEUES = 3 };

static struct eth_table table;
static struct eth_rxq rxqs[QUEUES];
static struct eth_txq txqs[2];
static struct eth_port port;
static struct pst_worker worker;
static struct eth_rxq *polled[QUEUES];
static struct pst_ring ring;
static struct eth_rx rx, other_rx;
static struct pst_endpoint endpoint, other;
static struct eth_driver driver;
static bool stops_alone;                   /* the driver stops a queue of several */
static uint32_t queue_stops, stops, drops; /* calls */

static bool all_are_free(void)
{
  bool is_held = rte_spinlock_is_locked(&port.control_lock);

  for (uint32_t i = 0; i < QUEUES; i++)
    is_held |= rte_spinlock_is_locked(&rxqs[i].lock);
  for (uint32_t i = 0; i < 2; i++)
    is_held |= rte_spinlock_is_locked(&txqs[i].lock);
  return !is_held;
}

static void assert_all_held(void)
{
  assert_true(rte_spinlock_is_locked(&port.control_lock));
  for (uint32_t i = 0; i < QUEUES; i++)
    assert_true(rte_spinlock_is_locked(&rxqs[i].lock));
  for (uint32_t i = 0; i < 2; i++)
    assert_true(rte_spinlock_is_locked(&txqs[i].lock));
}

int rte_eth_dev_rx_queue_stop(uint16_t id, uint16_t queue)
{
  (void)id;
  assert_all_held();
  assert_int_equal(queue, 1);
  queue_stops++;
  return stops_alone ? 0 : -ENOTSUP;
}

int rte_eth_dev_stop(uint16_t id)
{
  (void)id;
  assert_all_held();
  stops++;
  return 0;
}

void eth_port_drop_rule(struct eth_port *of, struct pst_endpoint *leaving)
{
  assert_ptr_equal(of, &port);
  assert_ptr_equal(leaving, &endpoint);
  assert_true(rte_spinlock_is_locked(&port.control_lock));
  drops++;
}

static int open_port(void **state)
{
  static struct pst_device device = {.port = &port};

  (void)state;
  memset(rxqs, 0, sizeof(rxqs));
  memset(txqs, 0, sizeof(txqs));
  memset(&table, 0, sizeof(table));
  queue_stops = stops = drops = 0;
  driver.traits = 0;
  port = (struct eth_port){.driver = &driver,
                           .rxqs = rxqs,
                           .rxq_count = QUEUES,
                           .txqs = txqs,
                           .txq_count = 2,
                           .table = &table,
                           .stage = ETH_PORT_RUNNING};
  for (uint32_t i = 0; i < QUEUES; i++) {
    rxqs[i].port = &port;
    rxqs[i].index = (uint16_t)i;
    polled[i] = &rxqs[i];
  }
  worker = (struct pst_worker){.device = &device, .rxqs = polled, .rxq_count = QUEUES};
  ring = (struct pst_ring){.worker = &worker, .queue = &rxqs[1]};
  rxqs[1].ring = &ring;
  rx = other_rx = (struct eth_rx){.is_listed = true, .is_started = true};
  endpoint = (struct pst_endpoint){.worker = &worker, .rx = &rx, .udp_port = 5004};
  other = (struct pst_endpoint){.worker = &worker, .rx = &other_rx, .udp_port = 5004};
  endpoint.dg.cpu.ring = other.dg.cpu.ring = &ring.cpu;
  table.chains[5004] = &other.match;
  other.match.next = &endpoint.match;
  rxqs[1].receivers = 2;
  return 0;
}

static void assert_ring_is_gone(void)
{
  assert_true(all_are_free());
  assert_true(rxqs[1].is_over);
  assert_null(rxqs[1].ring);
  assert_null(ring.queue);
  assert_int_equal(worker.rxq_count, QUEUES - 1);
  for (uint32_t i = 0; i < worker.rxq_count; i++)
    assert_ptr_not_equal(worker.rxqs[i], &rxqs[1]);
}

static void a_driver_without_mbufs_is_stopped_nowhere(void **state)
{
  (void)state;
  driver.traits = ETH_KEEPS_NO_MBUF;
  eth_port_end_ring(&port, &ring);
  assert_ring_is_gone();
  assert_int_equal(queue_stops + stops, 0);
  assert_int_equal(port.stage, ETH_PORT_RUNNING);
}

static void a_queue_is_stopped_alone(void **state)
{
  (void)state;
  stops_alone = true;
  eth_port_end_ring(&port, &ring);
  assert_ring_is_gone();
  assert_int_equal(queue_stops, 1);
  assert_int_equal(stops, 0);
  assert_int_equal(port.stage, ETH_PORT_RUNNING);
}

/* Else it would go on writing into memory that is given back. */
static void a_device_that_stops_no_queue_is_stopped_for_good(void **state)
{
  (void)state;
  stops_alone = false;
  eth_port_end_ring(&port, &ring);
  assert_ring_is_gone();
  assert_int_equal(stops, 1);
  assert_int_equal(port.stage, ETH_PORT_OVER);
}

static void a_port_that_stands_still_is_not_stopped_again(void **state)
{
  (void)state;
  stops_alone = false;
  port.stage = ETH_PORT_CONFIGURED;
  eth_port_end_ring(&port, &ring);
  assert_ring_is_gone();
  assert_int_equal(queue_stops + stops, 0);
  eth_port_end_ring(&port, &ring); /* it has no queue any more */
  assert_int_equal(worker.rxq_count, QUEUES - 1);
}

static void a_receiver_leaves_the_others_where_they_are(void **state)
{
  (void)state;
  rxqs[1].only = &other;
  eth_port_end_receiver(&port, &endpoint);
  assert_true(all_are_free());
  assert_ptr_equal(table.chains[5004], &other.match);
  assert_null(other.match.next);
  assert_int_equal(drops, 1);
  assert_int_equal(rxqs[1].receivers, 1);
  assert_ptr_equal(rxqs[1].only, &other);
  assert_false(rx.is_listed);
  eth_port_end_receiver(&port, &endpoint); /* again: nothing is left to do */
  assert_int_equal(drops, 1);
  assert_int_equal(rxqs[1].receivers, 1);
}

static void the_only_receiver_leaves_its_queue(void **state)
{
  (void)state;
  rxqs[1].only = &endpoint;
  eth_port_end_receiver(&port, &endpoint);
  assert_null(rxqs[1].only);
}

static void one_without_a_queue_counts_on_the_first(void **state)
{
  (void)state;
  ring.queue = NULL;
  rxqs[0].receivers = 1;
  eth_port_end_receiver(&port, &endpoint);
  assert_int_equal(rxqs[0].receivers, 0);
  assert_int_equal(rxqs[1].receivers, 2);
}

static void one_that_never_started_has_no_rule(void **state)
{
  (void)state;
  rx.is_started = false;
  eth_port_end_receiver(&port, &endpoint);
  assert_null(other.match.next);
  assert_int_equal(drops, 0);
  assert_int_equal(rxqs[1].receivers, 2);
}

static void all_queues_are_locked_or_none(void **state)
{
  (void)state;
  rte_spinlock_lock(&port.control_lock);
  rte_spinlock_lock(&rxqs[2].lock);
  assert_false(eth_port_try_lock(&port));
  rte_spinlock_unlock(&rxqs[2].lock);
  rte_spinlock_unlock(&port.control_lock);
  assert_true(all_are_free());
  rte_spinlock_lock(&port.control_lock);
  assert_true(eth_port_try_lock(&port));
  assert_all_held();
  eth_port_unlock(&port);
  rte_spinlock_unlock(&port.control_lock);
  assert_true(all_are_free());
}

int main(void)
{
#define WITH_PORT(test) cmocka_unit_test_setup(test, open_port)
  const struct CMUnitTest tests[] = {
      WITH_PORT(a_driver_without_mbufs_is_stopped_nowhere),
      WITH_PORT(a_queue_is_stopped_alone),
      WITH_PORT(a_device_that_stops_no_queue_is_stopped_for_good),
      WITH_PORT(a_port_that_stands_still_is_not_stopped_again),
      WITH_PORT(a_receiver_leaves_the_others_where_they_are),
      WITH_PORT(the_only_receiver_leaves_its_queue),
      WITH_PORT(one_without_a_queue_counts_on_the_first),
      WITH_PORT(one_that_never_started_has_no_rule),
      WITH_PORT(all_queues_are_locked_or_none),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
