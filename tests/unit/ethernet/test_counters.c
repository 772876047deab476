/* SPDX-License-Identifier: Apache-2.0 */
/* counters.c: what a port counts, and what its driver knows. DPDK's statistics are this file's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "../datagram/counters.h"
#include "port.h"
#include "stubs.h"

static struct rte_eth_stats stats;
static uint64_t discards, pauses;
static bool has_xstats, fails;

static const struct eth_driver card = {.name = "pci", .traits = ETH_COUNTS_LOSS},
                               link_of_host = {.name = "memif"};
static struct eth_rxq queues[2];
static struct eth_tx tx;
static struct eth_port port;
static struct pst_device device = {.port = &port};
static struct pst_worker worker = {.device = &device};
static struct pst_endpoint sender = {.worker = &worker, .tx = &tx};
static struct pst_counter got[32];

int rte_eth_stats_get(uint16_t id, struct rte_eth_stats *now)
{
  (void)id;
  *now = stats;
  return fails ? -EIO : 0;
}

int rte_eth_xstats_get_names_by_id(uint16_t id, struct rte_eth_xstat_name *names, unsigned size,
                                   uint64_t *ids)
{
  (void)id, (void)ids;
  if (!names || size < 3)
    return has_xstats ? 3 : 0;
  snprintf(names[0].name, sizeof(names[0].name), "rx_good_packets");
  snprintf(names[1].name, sizeof(names[1].name), "rx_phy_discard_packets");
  snprintf(names[2].name, sizeof(names[2].name), "rx_flow_control_xon_packets");
  return 3;
}

int rte_eth_xstats_get_by_id(uint16_t id, const uint64_t *ids, uint64_t *values, unsigned n)
{
  (void)id;
  for (unsigned i = 0; i < n; i++)
    values[i] = ids[i] == 1 ? discards : pauses;
  return fails ? -EIO : (int)n;
}

/* These cases have no receivers. */
void dg_losses_tail(const struct dg_endpoint *endpoint, struct dg_losses *losses)
{
  (void)endpoint, (void)losses;
  fail();
}

void dg_losses_count(const struct dg_receiver *receiver, struct dg_losses *losses)
{
  (void)receiver, (void)losses;
  fail();
}

void dg_counters_receiver(struct pst_counter_list *list, struct dg_endpoint *endpoint,
                          const struct dg_losses *losses)
{
  (void)list, (void)endpoint, (void)losses;
  fail();
}

void dg_address_print(const union dg_address *address, char *text, size_t size)
{
  (void)address;
  snprintf(text, size, "address");
}

static const struct pst_host host = {.log = take_log};

static void start(const struct eth_driver *driver)
{
  port = (struct eth_port){.host = &host,
                           .identity = "p",
                           .driver = driver,
                           .stage = ETH_PORT_RUNNING,
                           .rxqs = queues,
                           .rxq_count = 2};
  fails = false;
  warnings = 0;
  rte_eth_stats_get(0, &port.before);
  eth_port_find_xstats(&port);
  eth_port_read_xstats(&port, port.xstats_before);
}

static void stop(void)
{
  free(port.xstat_ids);
  free(port.xstat_kinds);
}

/* The counter of that name; UINT64_MAX: there is none. *cause: what it explains, or NULL. */
static uint64_t value_of(const char *name, const char **cause)
{
  const int n = eth_counters(&device, NULL, NULL, got, 32);

  for (int i = 0; i < n; i++)
    if (strcmp(got[i].name, name) == 0) {
      *cause = got[i].flags & PST_COUNTER_DROP ? got[i].cause : NULL;
      return got[i].value;
    }
  return UINT64_MAX;
}

static void losses_of_a_card_count_from_its_start(void **state)
{
  const char *cause;

  (void)state;
  stats = (struct rte_eth_stats){.imissed = 7, .rx_nombuf = 1, .ierrors = 2};
  start(&card);
  assert_int_equal(value_of("nic_missed", &cause), 0);
  stats.imissed += 5;
  stats.rx_nombuf += 6;
  stats.ierrors += 8;
  assert_int_equal(value_of("nic_missed", &cause), 5);
  assert_string_equal(cause, "nic_missed");
  assert_int_equal(value_of("no_mbuf", &cause), 6);
  assert_int_equal(value_of("bad_frames", &cause), 8);
  stop();
}

/* A counter that the driver does not have is not reported as 0. */
static void a_driver_that_counts_no_loss_has_no_such_counter(void **state)
{
  const char *cause;

  (void)state;
  start(&link_of_host);
  assert_int_equal(value_of("nic_missed", &cause), UINT64_MAX);
  stop();
  start(&card);
  fails = true;
  assert_int_equal(value_of("nic_missed", &cause), UINT64_MAX);
  fails = false;
  port.stage = ETH_PORT_CONFIGURED;
  assert_int_equal(value_of("nic_missed", &cause), UINT64_MAX);
  stop();
}

static void queues_add_up(void **state)
{
  const char *cause;

  (void)state;
  start(&link_of_host);
  for (uint32_t i = 0; i < 2; i++) {
    queues[i].not_ours = 10 + i;
    queues[i].other = 20 + i;
    queues[i].damaged = 30 + i;
  }
  assert_int_equal(value_of("not_ours", &cause), 21);
  assert_null(cause);
  assert_int_equal(value_of("other_frames", &cause), 41);
  assert_null(cause);
  assert_int_equal(value_of("damaged", &cause), 61);
  assert_string_equal(cause, "damaged");
  stop();
}

static void discards_of_the_phy_are_lost_messages_and_reported_once(void **state)
{
  const char *cause;

  (void)state;
  has_xstats = true;
  discards = 100;
  start(&card);
  assert_int_equal(value_of("phy_discards", &cause), 0);
  assert_int_equal(warnings, 0);
  discards += 4;
  assert_int_equal(value_of("phy_discards", &cause), 4);
  assert_string_equal(cause, "phy_discards");
  assert_int_equal(warnings, 1);
  assert_non_null(strstr(logged, "docs/howto/ethernet.md"));
  discards += 4;
  assert_int_equal(value_of("phy_discards", &cause), 8);
  assert_int_equal(warnings, 1);
  fails = true;
  assert_int_equal(value_of("phy_discards", &cause), UINT64_MAX);
  has_xstats = false;
  stop();
}

static void a_sender_counts_what_it_dropped(void **state)
{
  (void)state;
  tx = (struct eth_tx){.messages = 3, .bytes = 300, .device_full = 2};
  assert_int_equal(eth_counters(&device, &worker, &sender, got, 32), 3);
  assert_string_equal(got[2].name, "device_full");
  assert_string_equal(got[2].cause, "device_full");
  assert_int_equal(got[2].value, 2);
  assert_true(got[2].flags & PST_COUNTER_DROP);
  assert_int_equal(eth_counters(&device, &worker, NULL, got, 32), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(losses_of_a_card_count_from_its_start),
      cmocka_unit_test(a_driver_that_counts_no_loss_has_no_such_counter),
      cmocka_unit_test(queues_add_up),
      cmocka_unit_test(discards_of_the_phy_are_lost_messages_and_reported_once),
      cmocka_unit_test(a_sender_counts_what_it_dropped),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
