/* SPDX-License-Identifier: Apache-2.0 */
/* assign.c: which ring has a queue, and why another has none. Pools are this file's. */
#include <rte_errno.h>

#include "pool.h"
#include "port.h"
#include "stack.h"
#include "stubs.h"
#include "support.h"

enum { RINGS = 3, SLOTS = 512 };

static struct eth_driver driver;
static struct eth_port port;
static struct eth_table table;
static struct pst_device owner, *owners[] = {&owner};
static struct pst_worker worker, *workers[] = {&worker};
static struct pst_place places[RINGS];
static struct pst_ring rings[RINGS];
static struct pst_endpoint endpoints[RINGS], *listed[RINGS];
static struct eth_opened opened;
static struct eth_pool pools[RINGS];
static uint32_t pool_count, left, spares;
static struct rte_mempool mempool;
static uint32_t made_count, made_room;
static int refusal; /* of DPDK's pools */

const struct eth_driver eth_drivers[ETH_DRIVERS] = {0};

void eth_name_make(char *name, size_t size)
{
  snprintf(name, size, "name");
}

enum rte_iova_mode rte_eal_iova_mode(void)
{
  return RTE_IOVA_VA;
}

int rte_eth_dev_socket_id(uint16_t id)
{
  (void)id;
  return 0;
}

struct rte_mempool *rte_pktmbuf_pool_create_by_ops(const char *name, unsigned n, unsigned cache,
                                                   uint16_t private, uint16_t room, int socket,
                                                   const char *ops)
{
  (void)name, (void)cache, (void)private, (void)socket;
  assert_string_equal(ops, ETH_STACK_OPS);
  made_count = n;
  made_room = room;
  rte_errno = refusal;
  return refusal ? NULL : &mempool;
}

void rte_mempool_free(struct rte_mempool *freed)
{
  assert_null(freed);
}

void eth_stack_share(struct rte_mempool *of, bool is_shared)
{
  (void)of, (void)is_shared;
}

struct rte_mempool *eth_keeper_make(const char *name, int socket)
{
  (void)name, (void)socket;
  return &mempool;
}

int eth_pool_open(struct pst_ring *ring, const struct eth_pool_params *params,
                  struct eth_pool **pool)
{
  spares = params->spares;
  pools[pool_count].ring = ring;
  *pool = &pools[pool_count++];
  return 0;
}

void eth_pool_leave(struct eth_pool *pool)
{
  pool->ring->pool = NULL;
  left++;
}

static const struct pst_host host = {.log = take_log};

static int open_port(void **state)
{
  (void)state;
  logged[0] = '\0';
  pool_count = left = spares = made_count = made_room = 0;
  refusal = 0;
  driver = (struct eth_driver){.name = "card", .traits = ETH_HAS_RULES, .bulk = 1};
  owner = (struct pst_device){
      .dg = {.host = &host}, .port = &port, .workers = workers, .worker_count = 1};
  port = (struct eth_port){.host = &host,
                           .driver = &driver,
                           .table = &table,
                           .devices = owners,
                           .device_count = 1,
                           .vlan = ETH_UNTAGGED,
                           .mtu = 1500,
                           .info = {.max_rx_queues = 8,
                                    .max_tx_queues = 8,
                                    .rx_desc_lim = {.nb_min = 32, .nb_max = 4096, .nb_align = 1}}};
  worker = (struct pst_worker){.device = &owner,
                               .rings = {.all = places, .room = RINGS},
                               .endpoints = listed,
                               .endpoint_count = RINGS};
  memset(places, 0, sizeof(places));
  memset(&table, 0, sizeof(table));
  for (uint32_t i = 0; i < RINGS; i++) {
    rings[i] = (struct pst_ring){.worker = &worker,
                                 .cpu.params = {.slots = SLOTS,
                                                .stride = 2048,
                                                .payload_max = 1500,
                                                .headroom = ETH_SLOT_HEADROOM,
                                                .tailroom = ETH_SLOT_MORE}};
    endpoints[i] = (struct pst_endpoint){.worker = &worker, .udp_port = (uint16_t)(5004 + i)};
    endpoints[i].dg.cpu.ring = &rings[i].cpu;
    endpoints[i].dg.family = AF_INET;
    listed[i] = &endpoints[i];
  }
  return 0;
}

static int close_port(void **state)
{
  (void)state;
  eth_port_unassign(&port);
  assert_int_equal(left, pool_count);
  for (uint32_t i = 0; i < RINGS; i++)
    assert_null(rings[i].queue);
  free(port.pools);
  free(port.mempools);
  return 0;
}

static int assign(uint32_t count, uint32_t descriptors)
{
  for (uint32_t i = 0; i < count; i++)
    places[i].at = &rings[i];
  opened = (struct eth_opened){.workers = 1, .rings = count, .receivers = count};
  return eth_port_assign(&port, &opened, descriptors);
}

static void a_lone_ring_is_the_pool_of_the_only_queue(void **state)
{
  (void)state;
  driver.bulk = 32;
  assert_int_equal(assign(1, 256), 0);
  assert_int_equal(port.rxq_count, 1);
  assert_ptr_equal(rings[0].queue, &port.rxqs[0]);
  assert_ptr_equal(port.rxqs[0].ring, &rings[0]);
  assert_null(port.rxqs[0].own);
  assert_int_equal(port.rxqs[0].descriptors, 256);
  assert_int_equal(spares, 32);
  assert_string_equal(rings[0].copy_reason, "");
}

static void rings_without_rules_share_a_queue_and_are_copied_into(void **state)
{
  (void)state;
  snprintf(port.no_rules, sizeof(port.no_rules), "its driver has no flow rules");
  assert_int_equal(assign(2, 256), 0);
  assert_int_equal(port.rxq_count, 1);
  assert_non_null(port.rxqs[0].own);
  assert_int_equal(made_count, eth_own_buffers(256, 2));
  for (uint32_t i = 0; i < 2; i++) {
    assert_null(rings[i].queue);
    assert_string_equal(
        rings[i].copy_reason,
        "copied, since several rings share its queue: its driver has no flow rules");
  }
}

static void rules_give_each_ring_a_queue_behind_the_first(void **state)
{
  (void)state;
  port.by_rules = true;
  assert_int_equal(assign(RINGS, 400), 0);
  assert_int_equal(port.rxq_count, 1 + RINGS);
  assert_non_null(port.rxqs[0].own);
  assert_int_equal(port.rxqs[0].descriptors, 256); /* what is left needs few */
  for (uint32_t i = 0; i < RINGS; i++) {
    assert_ptr_equal(rings[i].queue, &port.rxqs[1 + i]);
    assert_int_equal(port.rxqs[1 + i].descriptors, 400);
  }
}

static void more_rings_than_queues_share_the_first(void **state)
{
  (void)state;
  port.by_rules = true;
  port.info.max_rx_queues = 3;
  assert_int_equal(assign(RINGS, 256), 0);
  assert_int_equal(port.rxq_count, 3);
  assert_non_null(rings[1].queue);
  assert_null(rings[2].queue);
  assert_non_null(strstr(rings[2].copy_reason, "`receiver.share`"));
}

/* As many to send as to receive: those bound it, too. */
static void equal_queues_are_bounded_by_either(void **state)
{
  (void)state;
  port.by_rules = true;
  driver.traits |= ETH_EQUAL_QUEUES;
  port.info.max_tx_queues = 2;
  assert_int_equal(assign(RINGS, 256), 0);
  assert_int_equal(port.rxq_count, 2);
  assert_non_null(rings[0].queue);
  assert_null(rings[1].queue);
}

static void a_small_ring_has_fewer_descriptors(void **state)
{
  (void)state;
  rings[0].cpu.params.slots = 200;
  assert_int_equal(assign(1, 256), 0);
  assert_non_null(rings[0].queue);
  assert_int_equal(port.rxqs[0].descriptors, 128);
}

static void descriptors_of_the_file_stay_and_the_ring_is_copied_into(void **state)
{
  (void)state;
  rings[0].cpu.params.slots = 200;
  port.descriptors_fixed = true;
  assert_int_equal(assign(1, 256), 0);
  assert_null(rings[0].queue);
  assert_int_equal(port.rxqs[0].descriptors, 256);
  assert_non_null(strstr(rings[0].copy_reason, "the ring has 200 slots"));
}

static void slots_that_cannot_be_are_refused(void **state)
{
  (void)state;
  owner.receive = ETH_RECEIVE_SLOTS;
  driver.traits |= ETH_TAKES_NO_POOL;
  assert_int_equal(assign(1, 256), -ENOSPC);
  assert_non_null(
      strstr(logged, "receive: slots is not possible: its driver receives into memory of its own"));
}

static void slots_that_are_too_short_are_told_with_both_numbers(void **state)
{
  (void)state;
  port.mtu = 4000;
  assert_int_equal(assign(1, 256), 0);
  assert_null(rings[0].queue);
  assert_non_null(strstr(rings[0].copy_reason, "a frame of this port's MTU of 4000 needs"));
}

static void the_option_copies(void **state)
{
  (void)state;
  owner.receive = ETH_RECEIVE_COPY;
  assert_int_equal(assign(1, 256), 0);
  assert_null(rings[0].queue);
  assert_string_equal(rings[0].copy_reason, "copied, since the option `receive` says so");
}

static void a_split_ring_needs_rules(void **state)
{
  (void)state;
  rings[0].is_split = true;
  assert_int_equal(assign(1, 256), -EOPNOTSUPP);
  assert_non_null(strstr(logged, "it has no flow rules; `path: staged` receives into host memory"));
}

static void a_split_ring_has_headers_elsewhere(void **state)
{
  (void)state;
  rings[0].is_split = port.by_rules = true;
  assert_int_equal(assign(1, 256), 0);
  assert_int_equal(port.rxq_count, 2);
  assert_non_null(port.rxqs[1].headers);
  assert_int_equal(made_room, rings[0].split_point + RTE_PKTMBUF_HEADROOM);
}

static void two_split_rings_of_one_match_are_refused(void **state)
{
  (void)state;
  rings[0].is_split = rings[1].is_split = port.by_rules = true;
  endpoints[1].udp_port = 5004;
  table.chains[5004] = &endpoints[0].match;
  endpoints[0].match.next = &endpoints[1].match;
  assert_int_equal(assign(2, 256), -EOPNOTSUPP);
  assert_non_null(strstr(logged, "another ring's stream has the same `port` and `source`"));
}

static void no_memory_says_what_to_make_smaller(void **state)
{
  (void)state;
  owner.receive = ETH_RECEIVE_COPY;
  refusal = ENOMEM;
  assert_int_equal(assign(1, 256), -ENOMEM);
  assert_non_null(strstr(logged, "make `descriptors` or `mtu` smaller"));
}

static void another_error_is_dpdks(void **state)
{
  (void)state;
  owner.receive = ETH_RECEIVE_COPY;
  refusal = EINVAL;
  assert_int_equal(assign(1, 256), -EINVAL);
  assert_non_null(strstr(logged, "DPDK cannot create a pool of buffers: DPDK's words"));
  assert_null(strstr(logged, "smaller"));
}

int main(void)
{
#define WITH_PORT(test) cmocka_unit_test_setup_teardown(test, open_port, close_port)
  const struct CMUnitTest tests[] = {
      WITH_PORT(a_lone_ring_is_the_pool_of_the_only_queue),
      WITH_PORT(rings_without_rules_share_a_queue_and_are_copied_into),
      WITH_PORT(rules_give_each_ring_a_queue_behind_the_first),
      WITH_PORT(more_rings_than_queues_share_the_first),
      WITH_PORT(equal_queues_are_bounded_by_either),
      WITH_PORT(a_small_ring_has_fewer_descriptors),
      WITH_PORT(descriptors_of_the_file_stay_and_the_ring_is_copied_into),
      WITH_PORT(slots_that_cannot_be_are_refused),
      WITH_PORT(slots_that_are_too_short_are_told_with_both_numbers),
      WITH_PORT(the_option_copies),
      WITH_PORT(a_split_ring_needs_rules),
      WITH_PORT(a_split_ring_has_headers_elsewhere),
      WITH_PORT(two_split_rings_of_one_match_are_refused),
      WITH_PORT(no_memory_says_what_to_make_smaller),
      WITH_PORT(another_error_is_dpdks),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
