/* SPDX-License-Identifier: Apache-2.0 */
/* rules.c: which rules a port asks its driver for, where receivers share an address and UDP port.
 * DPDK's calls are this file's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>
#include <rte_flow.h>

#include "port.h"
#include "stubs.h"

RTE_DEFINE_PER_LCORE(int, _rte_errno);

enum { MOST = 3 };

/* A rule as the driver has it. */
struct rte_flow {
  bool is_there;
  uint32_t priority;
  uint16_t queues[MOST], source_port;
  uint32_t queue_count; /* of RSS; 0: one queue, queues[0] */
  uint64_t types;
  bool has_source;
};

static struct rte_flow made[8];
static uint32_t made_count;
static bool refuses_rss, refuses_all;

struct rte_flow *rte_flow_create(uint16_t port, const struct rte_flow_attr *attr,
                                 const struct rte_flow_item pattern[],
                                 const struct rte_flow_action actions[],
                                 struct rte_flow_error *error)
{
  struct rte_flow *flow = &made[made_count];

  (void)port;
  assert_true(made_count < sizeof(made) / sizeof(made[0]));
  *flow = (struct rte_flow){.is_there = true, .priority = attr->priority};
  for (; pattern->type != RTE_FLOW_ITEM_TYPE_END; pattern++) {
    if (pattern->type == RTE_FLOW_ITEM_TYPE_IPV4)
      flow->has_source = ((const struct rte_flow_item_ipv4 *)pattern->mask)->hdr.src_addr != 0;
    if (pattern->type == RTE_FLOW_ITEM_TYPE_UDP)
      flow->source_port =
          rte_be_to_cpu_16(((const struct rte_flow_item_udp *)pattern->spec)->hdr.src_port);
  }
  if (actions->type == RTE_FLOW_ACTION_TYPE_RSS) {
    const struct rte_flow_action_rss *rss = actions->conf;
    assert_true(rss->queue_num <= MOST);
    flow->queue_count = rss->queue_num;
    flow->types = rss->types;
    memcpy(flow->queues, rss->queue, rss->queue_num * sizeof(flow->queues[0]));
  } else {
    flow->queues[0] = ((const struct rte_flow_action_queue *)actions->conf)->index;
  }
  if (refuses_all || (refuses_rss && flow->queue_count)) {
    rte_errno = ENOTSUP;
    error->message = "no such action";
    return NULL;
  }
  made_count++;
  return flow;
}

int rte_flow_destroy(uint16_t port, struct rte_flow *flow, struct rte_flow_error *error)
{
  (void)port, (void)error;
  assert_true(flow->is_there);
  flow->is_there = false;
  return 0;
}

int rte_flow_isolate(uint16_t port, int set, struct rte_flow_error *error)
{
  (void)port, (void)set, (void)error;
  return 0;
}

static const struct pst_host host = {.log = take_log};

/* A port with a queue for each of its rings, and a receiver on each ring. */
static struct eth_table table;
static struct dg_device dg_device = {.host = &host};
static struct pst_device device = {.dg.host = &host};
static struct pst_device *devices[] = {&device};
static struct eth_rxq queues[MOST];
static struct pst_ring rings[MOST];
static struct eth_rx rx[MOST];
static struct pst_endpoint endpoints[MOST], *list[MOST];
static struct pst_worker worker = {.device = &device, .endpoints = list};
static struct pst_worker *workers[] = {&worker};
static struct eth_port port;

static void open_port(uint32_t count, uint16_t udp_port)
{
  static const uint8_t at[16] = {[10] = 0xff, 0xff, 192, 0, 2, 1};

  memset(made, 0, sizeof(made));
  made_count = 0;
  refuses_rss = refuses_all = false;
  memset(&table, 0, sizeof(table));
  memset(rx, 0, sizeof(rx));
  memset(endpoints, 0, sizeof(endpoints));
  port = (struct eth_port){.host = &host,
                           .vlan = ETH_UNTAGGED,
                           .devices = devices,
                           .device_count = 1,
                           .table = &table,
                           .by_rules = true};
  device.workers = workers;
  device.worker_count = 1;
  worker.endpoint_count = count;
  for (uint32_t i = 0; i < count; i++) {
    queues[i].index = (uint16_t)(i + 1);
    rings[i].queue = &queues[i];
    list[i] = &endpoints[i];
    endpoints[i].rx = &rx[i];
    endpoints[i].worker = &worker;
    endpoints[i].dg.device = &dg_device;
    endpoints[i].dg.cpu.ring = &rings[i].cpu;
    endpoints[i].udp_port = udp_port;
    memcpy(endpoints[i].match.at, at, sizeof(at));
    endpoints[i].match.next = table.chains[udp_port];
    table.chains[udp_port] = &endpoints[i].match;
  }
}

static void name_source(uint32_t i, uint16_t source_port)
{
  struct dg_flow_params *flow = &endpoints[i].dg.flow;

  flow->address_is_fixed = true;
  memcpy(flow->source.address, endpoints[i].match.at, sizeof(flow->source.address));
  flow->source.address[15] = 9;
  flow->source.port = source_port;
  flow->port_is_fixed = source_port != 0;
}

static void add(void)
{
  char why[ETH_SIZES_WHY];

  assert_int_equal(eth_port_add_rules(&port, why), 0);
}

static uint32_t count_there(void)
{
  uint32_t n = 0;

  for (uint32_t i = 0; i < made_count; i++)
    n += made[i].is_there;
  return n;
}

static void receivers_of_other_ports_have_a_queue_each(void **state)
{
  (void)state;
  open_port(1, 5004);
  add();
  assert_int_equal(made_count, 1);
  assert_int_equal(made[0].queue_count, 0);
  assert_int_equal(made[0].queues[0], 1);
  assert_int_equal(made[0].priority, 0);
  assert_false(made[0].has_source);
}

static void those_of_one_match_share_it_by_rss(void **state)
{
  (void)state;
  open_port(3, 5004);
  add();
  assert_int_equal(made_count, 1);
  assert_int_equal(made[0].queue_count, 3);
  assert_int_equal(made[0].types, RTE_ETH_RSS_NONFRAG_IPV4_UDP);
  assert_int_equal(made[0].queues[0] + made[0].queues[1] + made[0].queues[2], 1 + 2 + 3);
}

static void without_rss_the_first_queue_has_them(void **state)
{
  (void)state;
  open_port(3, 5004);
  refuses_rss = true;
  add();
  assert_int_equal(made_count, 1);
  assert_int_equal(made[0].queue_count, 0);
  assert_int_equal(made[0].queues[0], 0);
}

static void a_driver_that_refuses_all_leaves_none(void **state)
{
  char why[ETH_SIZES_WHY];

  (void)state;
  open_port(3, 5004);
  refuses_all = true;
  assert_int_equal(eth_port_add_rules(&port, why), -ENOTSUP);
  assert_non_null(strstr(why, "no such action"));
  assert_null(rx[0].rule);
}

/* A source goes before the rest, and with its port before the address alone. */
static void sources_have_rules_of_their_own(void **state)
{
  (void)state;
  open_port(3, 5004);
  name_source(0, 4000);
  name_source(1, 0);
  add();
  assert_int_equal(made_count, 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(made[i].queue_count, 0);
    assert_int_equal(made[i].queues[0], i + 1);
    assert_int_equal(made[i].priority, i);
    assert_int_equal(made[i].has_source, i < 2);
    assert_int_equal(made[i].source_port, i == 0 ? 4000 : 0);
  }
}

static void a_sender_that_is_met_has_a_rule(void **state)
{
  struct dg_flow_params wants = {.numbered = true, .port_is_fixed = true, .source.port = 4000};

  (void)state;
  open_port(2, 5004);
  rx[1].is_started = true;
  add();
  eth_match_meet(&endpoints[1].match, &wants);
  eth_port_add_own_rule(&port, &endpoints[1]);
  assert_int_equal(made_count, 1); /* its address is not known */
  wants.address_is_fixed = true;
  eth_match_meet(&endpoints[1].match, &wants);
  eth_port_add_own_rule(&port, &endpoints[1]);
  assert_int_equal(made_count, 2);
  assert_int_equal(made[1].queues[0], 2);
  assert_int_equal(made[1].source_port, 4000);
  assert_true(made[1].priority < made[0].priority);
  eth_port_drop_rule(&port, &endpoints[1]);
  assert_null(rx[1].own_rule);
}

/* The queue of a ring that is gone is polled by nobody. */
static void who_leaves_takes_its_queue_away(void **state)
{
  (void)state;
  open_port(3, 5004);
  add();
  eth_port_drop_rule(&port, &endpoints[1]);
  assert_int_equal(made_count, 2);
  assert_int_equal(count_there(), 1);
  assert_int_equal(made[1].queue_count, 2);
  assert_int_equal(made[1].queues[0] + made[1].queues[1], 1 + 3);
  table.chains[5004] = &endpoints[2].match;
  endpoints[2].match.next = &endpoints[0].match;
  eth_port_drop_rule(&port, &endpoints[2]);
  endpoints[2].match.next = NULL;
  table.chains[5004] = &endpoints[0].match;
  assert_int_equal(made[2].queue_count, 0);
  assert_int_equal(made[2].queues[0], 1);
  eth_port_drop_rule(&port, &endpoints[0]);
  assert_int_equal(count_there(), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(receivers_of_other_ports_have_a_queue_each),
      cmocka_unit_test(those_of_one_match_share_it_by_rss),
      cmocka_unit_test(without_rss_the_first_queue_has_them),
      cmocka_unit_test(a_driver_that_refuses_all_leaves_none),
      cmocka_unit_test(sources_have_rules_of_their_own),
      cmocka_unit_test(a_sender_that_is_met_has_a_rule),
      cmocka_unit_test(who_leaves_takes_its_queue_away),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
