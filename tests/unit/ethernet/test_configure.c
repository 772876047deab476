/* SPDX-License-Identifier: Apache-2.0 */
/* configure.c: what becomes of a port whose rules are refused. The rest of the plugin and DPDK's
 * calls are this file's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "port.h"
#include "stubs.h"

/* Calls that the driver refuses, and those that it got. */
static bool refuses_isolation, refuses_rules;
static bool is_isolated, ran_open; /* it ran without isolation */
static uint32_t runs, set_ups;

const struct eth_driver eth_drivers[ETH_DRIVERS] = {
    [ETH_DRIVER_PCI] = {.name = "pci", .traits = ETH_HAS_RULES}};

int eth_port_isolate(struct eth_port *port, bool on, char why[ETH_SIZES_WHY])
{
  (void)port;
  if (on && refuses_isolation) {
    snprintf(why, ETH_SIZES_WHY, "no isolation");
    return -ENOTSUP;
  }
  is_isolated = on;
  return 0;
}

int eth_port_add_rules(struct eth_port *port, char why[ETH_SIZES_WHY])
{
  (void)port;
  if (!refuses_rules)
    return 0;
  snprintf(why, ETH_SIZES_WHY, "no such rule");
  return -EINVAL;
}

void eth_port_add_own_rule(struct eth_port *port, struct pst_endpoint *endpoint)
{
  (void)port, (void)endpoint;
  fail();
}

int eth_port_run(struct eth_port *port)
{
  port->stage = ETH_PORT_RUNNING;
  ran_open |= !is_isolated;
  runs++;
  return 0;
}

void eth_port_stop(struct eth_port *port)
{
  port->stage = ETH_PORT_CONFIGURED;
}

int eth_port_assign(struct eth_port *port, const struct eth_opened *opened, uint32_t descriptors)
{
  (void)port, (void)opened, (void)descriptors;
  return 0;
}

void eth_port_unassign(struct eth_port *port)
{
  free(port->txqs);
  port->txqs = NULL;
  port->txq_count = 0;
}

int rte_eth_dev_configure(uint16_t port, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf)
{
  (void)port, (void)rx, (void)tx, (void)conf;
  set_ups++;
  return 0;
}

int rte_eth_tx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, unsigned socket,
                           const struct rte_eth_txconf *conf)
{
  (void)port, (void)queue, (void)descriptors, (void)socket, (void)conf;
  return 0;
}

int rte_eth_dev_set_mtu(uint16_t port, uint16_t mtu)
{
  (void)port, (void)mtu;
  return 0;
}

int rte_eth_allmulticast_enable(uint16_t port)
{
  (void)port;
  return 0;
}

int rte_eth_dev_socket_id(uint16_t port)
{
  (void)port;
  return 0;
}

/* DPDK's calls for rings, workers and endpoints, of which these ports have none. */
int rte_eth_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors, unsigned socket,
                           const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
  (void)port, (void)queue, (void)descriptors, (void)socket, (void)conf, (void)pool;
  fail();
  return -EINVAL;
}

int rte_eth_rx_queue_info_get(uint16_t port, uint16_t queue, struct rte_eth_rxq_info *info)
{
  (void)port, (void)queue, (void)info;
  fail();
  return -EINVAL;
}

int eth_port_make_mempool(struct eth_port *port, uint32_t count, uint32_t room,
                          struct rte_mempool **mempool)
{
  (void)port, (void)count, (void)room, (void)mempool;
  fail();
  return -ENOMEM;
}

int eth_port_make_keeper(struct eth_port *port, struct rte_mempool **keeper)
{
  (void)port, (void)keeper;
  fail();
  return -ENOMEM;
}

int eth_rx_start(struct pst_endpoint *endpoint, bool has_inbox)
{
  (void)endpoint, (void)has_inbox;
  fail();
  return -ENOMEM;
}

int eth_tx_start(struct pst_endpoint *endpoint)
{
  (void)endpoint;
  fail();
  return -ENOMEM;
}

static const struct pst_host host = {.log = take_log};

static int configure(bool has_kernel, bool wants_rules)
{
  struct eth_port port = {.host = &host,
                          .identity = "0000:03:00.0",
                          .driver = &eth_drivers[ETH_DRIVER_PCI],
                          .descriptors = 1024,
                          .mtu = 1500,
                          .wants_rules = wants_rules,
                          .has_kernel = has_kernel};
  int rc;

  is_isolated = ran_open = false;
  runs = set_ups = 0;
  logged[0] = '\0';
  rc = eth_port_configure(&port);
  eth_port_unassign(&port);
  refuses_isolation = refuses_rules = false;
  return rc;
}

static void assert_refused(const char *why)
{
  assert_int_equal(logged_level, PST_LOG_ERROR);
  assert_non_null(strstr(logged, why));
  assert_non_null(strstr(logged, "`address`"));
  assert_false(ran_open);
}

static void kernels_card_runs_isolated(void **state)
{
  (void)state;
  assert_int_equal(configure(true, true), 0);
  assert_true(is_isolated);
  assert_int_equal(runs, 1);
  assert_string_equal(logged, "");
}

static void kernels_card_is_not_taken_without_isolation(void **state)
{
  (void)state;
  refuses_isolation = true;
  assert_int_equal(configure(true, true), -ENOTSUP);
  assert_refused("no isolation");
  assert_int_equal(set_ups, 0);
}

static void kernels_card_is_not_taken_when_a_rule_is_refused(void **state)
{
  (void)state;
  refuses_rules = true;
  assert_int_equal(configure(true, true), -ENOTSUP);
  assert_refused("no such rule");
  assert_int_equal(set_ups, 1); /* with the rules alone */
}

static void kernels_card_runs_isolated_with_rules_off(void **state)
{
  (void)state;
  assert_int_equal(configure(true, false), 0);
  assert_true(is_isolated);
  assert_int_equal(runs, 1);
  refuses_isolation = true;
  assert_int_equal(configure(true, false), -ENOTSUP);
  assert_refused("no isolation");
}

static void own_card_needs_no_rules(void **state)
{
  (void)state;
  refuses_rules = refuses_isolation = true;
  assert_int_equal(configure(false, true), 0);
  assert_int_equal(set_ups, 1);
  assert_int_equal(configure(false, false), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_card_runs_isolated),
      cmocka_unit_test(kernels_card_is_not_taken_without_isolation),
      cmocka_unit_test(kernels_card_is_not_taken_when_a_rule_is_refused),
      cmocka_unit_test(kernels_card_runs_isolated_with_rules_off),
      cmocka_unit_test(own_card_needs_no_rules),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
