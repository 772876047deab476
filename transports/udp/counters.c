/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted, and an endpoint in words. */
#include <stdio.h>

#include "../datagram/counters.h"
#include "receive.h"
#include "send.h"
#include "udp.h"

static void add_sender(struct pst_counter_list *list, const struct pst_endpoint *endpoint)
{
  const struct udp_tx *tx = endpoint->tx;

  pst_counter_add(list, "messages_sent", NULL, tx->messages, 0);
  pst_counter_add(list, "bytes_sent", NULL, tx->bytes, 0);
  pst_counter_add(list, "unreachable", "unreachable", tx->unreachable, PST_COUNTER_DROP);
  pst_counter_add(list, "refused", NULL, tx->refused, 0);
  pst_counter_add(list, "device_busy", NULL, tx->throttled, 0);
  pst_counter_add(list, "path_mtu_payload", NULL, tx->mtu, PST_COUNTER_GAUGE);
  if (endpoint->worker->device->departure == UDP_DEPARTURE_OFF)
    return;
  pst_counter_add(list, "departure_missed", "departure_missed", tx->departures.missed,
                  PST_COUNTER_DROP);
  pst_counter_add(list, "departure_refused", NULL, tx->departures.refused, 0);
}

/* The kernel counts buffers. How many messages one had beyond the first, a gap in the
 * numbers tells; where there are none, only that it had so many at most. */
static void add_coalesced(struct pst_counter_list *list, const char *name, const char *cause,
                          uint64_t buffers, uint32_t segments_max)
{
  if (segments_max > 1)
    pst_counter_add(list, name, cause, buffers * (segments_max - 1),
                    PST_COUNTER_DROP | PST_COUNTER_GAUGE);
}

/* How many of the messages that the kernel dropped had a wrong UDP checksum: the newest, as far as
 * there are such drops. Neither count ever becomes less. */
static uint64_t bad_sums_of(struct udp_rx *rx, uint64_t kernel, uint64_t bad_sums)
{
  uint64_t newly = kernel > rx->kernel_seen ? kernel - rx->kernel_seen : 0;
  uint64_t left = bad_sums - rx->kernel_bad_sums;

  rx->kernel_seen += newly;
  rx->kernel_bad_sums += newly < left ? newly : left;
  return rx->kernel_bad_sums < kernel ? rx->kernel_bad_sums : kernel;
}

/* Sums are checked as datagrams are read: those before the last message have left their gaps,
 * though the message carries an older count. */
static void take_bad_tail(struct udp_rx *rx, uint64_t newly, struct dg_losses *losses)
{
  uint64_t tail = losses->tail[UDP_LOST_KERNEL] + losses->tail[UDP_LOST_NO_BUFFER], left;

  rx->bad_tail += newly;
  rx->bad_tail = rx->bad_tail < tail ? rx->bad_tail : tail;
  if (rx->dg.flow.params.framing == DG_FRAMING_NONE)
    return;
  left = rx->bad_tail;
  for (int i = UDP_LOST_KERNEL; i <= UDP_LOST_NO_BUFFER; i++) {
    uint64_t n = left < losses->tail[i] ? left : losses->tail[i];
    losses->tail[i] -= n;
    left -= n;
  }
}

static void add_receiver(struct pst_counter_list *list, struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;
  const struct dg_flow *flow = &rx->dg.flow;
  uint32_t drops = udp_socket_drops(endpoint);
  uint64_t bad_before = rx->bad_sums, bad_sums = udp_drops_look(endpoint, drops);
  struct dg_losses losses;

  dg_losses_tail(&endpoint->dg, &losses);
  if (dg_is_connected(&endpoint->dg))
    losses.tail[rx->starved ? UDP_LOST_NO_BUFFER : UDP_LOST_KERNEL] += drops - rx->drops_seen;
  take_bad_tail(rx, bad_sums - bad_before, &losses);
  dg_losses_count(&rx->dg, &losses);
  losses.messages[UDP_LOST_CHECKSUM] = bad_sums_of(rx, losses.messages[UDP_LOST_KERNEL], bad_sums);
  losses.messages[UDP_LOST_KERNEL] -= losses.messages[UDP_LOST_CHECKSUM];
  dg_counters_receiver(list, &endpoint->dg, &losses);
  if (flow->params.framing == DG_FRAMING_NONE) {
    add_coalesced(list, "kernel_coalesced", "kernel", losses.messages[UDP_LOST_KERNEL],
                  flow->unit_max);
    add_coalesced(list, "no_buffer_coalesced", "no_buffer", losses.messages[UDP_LOST_NO_BUFFER],
                  flow->unit_max);
  }
  pst_counter_add(list, "socket_drops", NULL, drops, 0);
  pst_counter_add(list, "copied", NULL, rx->copied, 0);
  if (endpoint->worker->device->timestamps == UDP_TIME_HARDWARE)
    pst_counter_add(list, "software_stamps", NULL, rx->software_stamps, 0);
}

int udp_counters(struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max)
{
  struct pst_counter_list list = {counters, max, 0};

  (void)device;
  if (endpoint && endpoint->tx && endpoint->tx->departures.is_tai)
    udp_socket_errors(endpoint);
  if (endpoint && endpoint->tx)
    add_sender(&list, endpoint);
  else if (endpoint)
    add_receiver(&list, endpoint);
  else if (worker)
    pst_counter_add(&list, "sockets", NULL, worker->endpoint_count, PST_COUNTER_GAUGE);
  return (int)list.count;
}

int udp_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  char local[DG_ADDRESS_TEXT], peer[DG_ADDRESS_TEXT];

  if (size == 0)
    return -EINVAL;
  dg_address_print(&endpoint->dg.local, local, sizeof(local));
  if (endpoint->rx)
    snprintf(text, size, "listening on %s (ring %u, GRO %s)", local,
             endpoint->rx->ring->cpu.params.slots, endpoint->rx->gro ? "on" : "off");
  else if (!dg_is_connected(&endpoint->dg))
    snprintf(text, size, "from %s, not connected", local);
  else {
    dg_address_print(&endpoint->dg.peer, peer, sizeof(peer));
    snprintf(text, size, "sending from %s to %s (GSO %s)", local, peer,
             endpoint->tx->gso ? "on" : "off");
  }
  return 0;
}
