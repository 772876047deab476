/* SPDX-License-Identifier: Apache-2.0 */
/* times.c: when a card's clock is read, and which readings count. DPDK's calls and the clocks are
 * this file's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <rte_mbuf_dyn.h>

#include "port.h"

#define SECOND UINT64_C(1000000000)
#define BOOTED (UINT64_C(1795000000) * SECOND) /* CLOCK_REALTIME when CLOCK_MONOTONIC was 0 */
#define HZ UINT64_C(156250000)                 /* 6.4 ns a tick */
#define RATE ((uint64_t)(6.4 * 4294967296.0))

static uint64_t now_ns, slow_ns; /* the time; how long the card's clock takes to answer */
static uint32_t reads;

const struct eth_driver eth_drivers[ETH_DRIVERS];

/* Functions that libdpdk and libc define elsewhere. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_usleep(useconds_t us);

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
  const uint64_t ns = now_ns + (clock == CLOCK_REALTIME ? BOOTED : 0);

  *now = (struct timespec){.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
  return 0;
}

int __wrap_usleep(useconds_t us)
{
  now_ns += us * UINT64_C(1000);
  return 0;
}

/* The answer is of the moment at which the call begins. */
int rte_eth_read_clock(uint16_t port, uint64_t *ticks)
{
  (void)port;
  *ticks = (uint64_t)((unsigned __int128)now_ns * HZ / SECOND);
  now_ns += slow_ns;
  reads++;
  return 0;
}

int rte_mbuf_dyn_rx_timestamp_register(int *offset, uint64_t *flag)
{
  (void)offset, (void)flag;
  return 0;
}

#define TX_FLAG (UINT64_C(1) << 40)

int rte_mbuf_dyn_tx_timestamp_register(int *offset, uint64_t *flag)
{
  *offset = RTE_ALIGN_CEIL(offsetof(struct rte_mbuf, dynfield1), sizeof(uint64_t));
  *flag = TX_FLAG;
  return 0;
}

static uint64_t host_clock(const struct pst_host *host)
{
  (void)host;
  return now_ns;
}

static const struct pst_host host = {.clock_ns = host_clock};

static void start(struct eth_port *port)
{
  now_ns = 5000 * SECOND;
  slow_ns = reads = 0;
  *port = (struct eth_port){.host = &host, .times = {.unit = ETH_TIMES_TICKS}};
  assert_true(eth_times_start(port));
  assert_int_equal(reads, 2);
}

static void assert_rate(const struct eth_port *port)
{
  const uint64_t rate = port->times.clocks[port->times.current].rate;

  assert_in_range(rate, RATE - RATE / 100000, RATE + RATE / 100000);
}

static void first_rate_stays_for_a_second(void **state)
{
  struct eth_port port;

  (void)state;
  start(&port);
  assert_rate(&port);
  now_ns += 100000; /* the first poll */
  eth_times_step(&port, now_ns);
  assert_int_equal(reads, 2);
  now_ns += SECOND;
  eth_times_step(&port, now_ns);
  assert_int_equal(reads, 3);
  assert_rate(&port);
}

/* A thread that was preempted between two clocks tries again at its next step. */
static void reading_that_took_long_is_none(void **state)
{
  struct eth_port port;
  struct eth_clock before;

  (void)state;
  start(&port);
  before = port.times.clocks[port.times.current];
  now_ns += SECOND;
  slow_ns = 3000000;
  eth_times_step(&port, now_ns);
  assert_int_equal(reads, 3);
  assert_memory_equal(&port.times.clocks[port.times.current], &before, sizeof(before));
  slow_ns = 1000;
  eth_times_step(&port, now_ns);
  assert_int_equal(reads, 4);
  assert_rate(&port);
  assert_true(port.times.clocks[port.times.current].ticks > before.ticks);
  eth_times_step(&port, now_ns);
  assert_int_equal(reads, 4);
}

static void card_that_is_always_slow_is_read_all_the_same(void **state)
{
  struct eth_port port;
  struct eth_clock before;

  (void)state;
  start(&port);
  before = port.times.clocks[port.times.current];
  slow_ns = 100000;
  now_ns += SECOND;
  eth_times_step(&port, now_ns);
  now_ns += SECOND;
  eth_times_step(&port, now_ns);
  assert_int_equal(reads, 4);
  assert_true(port.times.clocks[port.times.current].ticks > before.ticks);
}

static uint64_t time_of(struct eth_port *port, uint64_t stamp)
{
  struct rte_mbuf mbuf = {.ol_flags = 1};

  port->times.flag = 1;
  port->times.offset = RTE_ALIGN_CEIL(offsetof(struct rte_mbuf, dynfield1), sizeof(stamp));
  *RTE_MBUF_DYNFIELD(&mbuf, port->times.offset, rte_mbuf_timestamp_t *) = stamp;
  return eth_time_of(port, &mbuf);
}

static void stamp_is_ticks_or_the_time_or_none(void **state)
{
  struct eth_port port;
  uint64_t stamp;

  (void)state;
  start(&port);
  stamp = port.times.clocks[port.times.current].ticks - HZ / 2;
  assert_in_range(time_of(&port, stamp), BOOTED + now_ns - SECOND / 2 - 5000,
                  BOOTED + now_ns - SECOND / 2 + 5000);
  assert_int_equal(time_of(&port, BOOTED + now_ns - 700), BOOTED + now_ns - 700);
  assert_int_equal(time_of(&port, 1), BOOTED + now_ns);
  assert_int_equal(time_of(&port, BOOTED + now_ns + 3600 * SECOND), BOOTED + now_ns);
}

/* By the card's clock, of which it is read what CLOCK_MONOTONIC says. */
static void departures_become_ticks(void **state)
{
  struct eth_port port;
  struct rte_mbuf mbuf = {.ol_flags = 0};
  uint64_t at, ticks;

  (void)state;
  start(&port);
  port.driver = &eth_drivers[ETH_DRIVER_PCI];
  eth_times_open(&port, false);
  assert_false(port.times.departs); /* this card has no such offload */
  port.info.tx_offload_capa = RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP;
  eth_times_open(&port, false);
  assert_true(port.times.departs);
  at = now_ns + 2000000;
  eth_time_departure(&port, &mbuf, at);
  assert_int_equal(mbuf.ol_flags, TX_FLAG);
  ticks = *RTE_MBUF_DYNFIELD(&mbuf, port.times.departure_offset, rte_mbuf_timestamp_t *);
  assert_in_range(ticks, at * 1.0 / SECOND * HZ - 10, at * 1.0 / SECOND * HZ + 10);
}

/* A port that only sends by the card's clock has that clock read, too. */
static void clock_is_read_for_departures_alone(void **state)
{
  struct eth_port port = {.host = &host, .times = {.departs = true}};
  struct rte_mbuf mbuf = {.ol_flags = 0};

  (void)state;
  eth_time_departure(&port, &mbuf, now_ns);
  assert_int_equal(mbuf.ol_flags, 0); /* no rate is known: it leaves at once */
  reads = 0;
  assert_true(eth_times_start(&port));
  assert_int_equal(reads, 2);
  now_ns += 2 * SECOND;
  eth_times_step(&port, now_ns);
  assert_int_equal(reads, 3);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_rate_stays_for_a_second),
      cmocka_unit_test(reading_that_took_long_is_none),
      cmocka_unit_test(card_that_is_always_slow_is_read_all_the_same),
      cmocka_unit_test(stamp_is_ticks_or_the_time_or_none),
      cmocka_unit_test(departures_become_ticks),
      cmocka_unit_test(clock_is_read_for_departures_alone),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
