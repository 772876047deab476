/* SPDX-License-Identifier: Apache-2.0 */
/* When frames arrived, by the device's stamps; and when they are to leave, by its clock. */
#include <time.h>
#include <unistd.h>

#include <rte_mbuf_dyn.h>

#include "port.h"

#define FIRST_US 10000u               /* between the two readings that give the first rate */
#define AGAIN_NS UINT64_C(1000000000) /* between later ones */
/* Longest between the readings of CLOCK_MONOTONIC before and after the card's. */
#define WINDOW_NS UINT64_C(20000)

static uint64_t eth_times_clock_ns(clockid_t clock)
{
  struct timespec now;

  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Writes the pair that nobody reads, then makes it the one that is read. 0; -EAGAIN: reading the
 * card's clock took longer than `window_ns`; -EIO: that clock stands still. */
static int eth_times_read_clocks(struct eth_port *port, uint64_t window_ns)
{
  struct eth_times *times = &port->times;
  struct eth_clock next = times->clocks[times->current];
  const uint64_t before = eth_times_clock_ns(CLOCK_MONOTONIC);
  uint64_t ticks, took, steady;

  if (rte_eth_read_clock(port->id, &ticks) != 0)
    return -EIO;
  took = eth_times_clock_ns(CLOCK_MONOTONIC) - before;
  if (took > window_ns)
    return -EAGAIN;
  steady = before + took / 2;
  if (!eth_clock_read(&next, ticks, steady,
                      eth_times_clock_ns(CLOCK_REALTIME) -
                          (eth_times_clock_ns(CLOCK_MONOTONIC) - steady)))
    return -EIO;
  times->clocks[1 - times->current] = next;
  __atomic_store_n(&times->current, 1 - times->current, __ATOMIC_RELEASE);
  return 0;
}

void eth_times_open(struct eth_port *port, bool is_live_pcap)
{
  struct eth_times *times = &port->times;
  uint64_t ticks;
  const bool has_clock =
      port->driver == &eth_drivers[ETH_DRIVER_PCI] && rte_eth_read_clock(port->id, &ticks) == 0;

  if (is_live_pcap)
    times->unit = ETH_TIMES_US;
  else if (has_clock && port->info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_TIMESTAMP)
    times->unit = ETH_TIMES_TICKS;
  if (times->unit && rte_mbuf_dyn_rx_timestamp_register(&times->offset, &times->flag) != 0)
    times->unit = ETH_TIMES_NONE;
  times->departs =
      has_clock && port->info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_SEND_ON_TIMESTAMP &&
      rte_mbuf_dyn_tx_timestamp_register(&times->departure_offset, &times->departure_flag) == 0;
}

static bool eth_times_has_clock(const struct eth_times *times)
{
  return times->unit == ETH_TIMES_TICKS || times->departs;
}

bool eth_times_start(struct eth_port *port)
{
  if (!eth_times_has_clock(&port->times))
    return true;
  if (eth_times_read_clocks(port, UINT64_MAX) < 0)
    return false;
  usleep(FIRST_US);
  port->times.due_ns = port->host->clock_ns(port->host) + AGAIN_NS;
  return eth_times_read_clocks(port, UINT64_MAX) == 0;
}

void eth_times_step(struct eth_port *port, uint64_t now_ns)
{
  struct eth_times *times = &port->times;
  uint64_t window_ns;

  if (!eth_times_has_clock(times) || now_ns < times->due_ns)
    return;
  /* A card that is always slow to read has its readings, too: each a second late. */
  window_ns = now_ns - times->due_ns < AGAIN_NS ? WINDOW_NS : UINT64_MAX;
  if (eth_times_read_clocks(port, window_ns) != -EAGAIN)
    times->due_ns = now_ns + AGAIN_NS;
}

void eth_time_departure(const struct eth_port *port, struct rte_mbuf *mbuf, uint64_t departure_ns)
{
  const struct eth_times *times = &port->times;
  const struct eth_clock *clock =
      &times->clocks[__atomic_load_n(&times->current, __ATOMIC_ACQUIRE)];

  if (!clock->rate)
    return; /* it stands still: at once */
  *RTE_MBUF_DYNFIELD(mbuf, times->departure_offset, rte_mbuf_timestamp_t *) =
      eth_clock_ticks(clock, departure_ns);
  mbuf->ol_flags |= times->departure_flag;
}

uint64_t eth_time_now(void)
{
  return eth_times_clock_ns(CLOCK_REALTIME);
}

uint64_t eth_time_of(const struct eth_port *port, const struct rte_mbuf *mbuf)
{
  const struct eth_times *times = &port->times;
  uint64_t stamp;

  if (!(mbuf->ol_flags & times->flag))
    return eth_time_now();
  stamp = *RTE_MBUF_DYNFIELD(mbuf, times->offset, const rte_mbuf_timestamp_t *);
  if (times->unit == ETH_TIMES_US)
    return stamp * 1000;
  stamp = eth_clock_ns(&times->clocks[__atomic_load_n(&times->current, __ATOMIC_ACQUIRE)], stamp);
  return stamp ? stamp : eth_time_now();
}
