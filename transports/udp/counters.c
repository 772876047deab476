/* SPDX-License-Identifier: Apache-2.0 */
/* Counters, and the description of an endpoint in words. */
#include <stdio.h>

#include "../datagram/counters.h"
#include "endpoint.h"
#include "ops.h"
#include "receive.h"
#include "send.h"

static void udp_counters_add_sender(struct pst_counter_list *list,
                                    const struct pst_endpoint *endpoint)
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

/* The kernel counts buffers. A gap in the numbers shows how many messages one had beyond the first.
 * Where there are no numbers, only the most that it can have had is known. */
static void udp_counters_add_coalesced(struct pst_counter_list *list, const char *name,
                                       const char *cause, uint64_t buffers, uint32_t segments_max)
{
  if (segments_max > 1)
    pst_counter_add(list, name, cause, buffers * (segments_max - 1),
                    PST_COUNTER_DROP | PST_COUNTER_GAUGE);
}

static uint64_t udp_counters_lesser(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

/* Drops behind the last message that had a wrong checksum come off the tail, where numbers show
 * gaps; returns how many. Once a message has brought a count of drops, none of these drops is in
 * the tail. */
static uint64_t udp_counters_take_bad_tail(struct udp_rx *rx, const struct udp_drops_news *news,
                                           struct dg_losses *losses)
{
  uint64_t tail = losses->tail[UDP_LOST_KERNEL] + losses->tail[UDP_LOST_NO_BUFFER], left;

  if (rx->drops_seen >= news->known)
    rx->bad_tail = 0;
  rx->bad_tail = udp_counters_lesser(rx->bad_tail + news->bad_sums, tail);
  left = rx->bad_tail;
  for (int i = UDP_LOST_KERNEL; i <= UDP_LOST_NO_BUFFER; i++) {
    uint64_t n = udp_counters_lesser(left, losses->tail[i]);
    losses->tail[i] -= n;
    left -= n;
  }
  return rx->bad_tail;
}

/* How many of the messages that are known as the kernel's had a wrong checksum: what full buffers
 * do not explain, the newest. Never less than before. */
static uint64_t udp_counters_bad_of_kernel(struct udp_rx *rx, const struct udp_drops_news *news,
                                           uint64_t no_buffer, uint64_t kernel)
{
  uint64_t newly = kernel > rx->kernel_seen ? kernel - rx->kernel_seen : 0;
  uint64_t starved = no_buffer > rx->no_buffer_seen ? no_buffer - rx->no_buffer_seen : 0;
  uint64_t full = (rx->full_due + news->full) * rx->dg.flow.unit_max;

  full -= udp_counters_lesser(full, starved);
  rx->kernel_seen += newly;
  rx->no_buffer_seen += starved;
  rx->kernel_bad_sums += udp_counters_lesser(newly - udp_counters_lesser(newly, full),
                                             rx->bad_sums - rx->sums_before - rx->kernel_bad_sums);
  full -= udp_counters_lesser(full, newly);
  /* Drops that left no gap until the next look were of another stream. */
  rx->full_due = news->full ? full / rx->dg.flow.unit_max : 0;
  return udp_counters_lesser(rx->kernel_bad_sums, kernel);
}

/* Sums are checked as datagrams are read, and a message carries the drops from before it came: most
 * of the damaged ones leave a gap that nothing explains. Drops that neither gaps nor such messages
 * account for lie behind the last message, as far as there are drops behind it. */
static void udp_counters_split_numbered(struct udp_rx *rx, const struct udp_drops_news *news,
                                        struct dg_losses *losses)
{
  const struct dg_counts *counts = &rx->dg.flow.counts;
  uint64_t tail = udp_counters_take_bad_tail(rx, news, losses);
  uint64_t of_kernel = udp_counters_bad_of_kernel(rx, news, counts->lost[UDP_LOST_NO_BUFFER],
                                                  counts->lost[UDP_LOST_KERNEL]);
  uint64_t left = rx->bad_sums - rx->sums_before - rx->kernel_bad_sums;
  uint64_t in_gaps = udp_counters_lesser(left, counts->unexplained);

  losses->tail[UDP_LOST_CHECKSUM] = udp_counters_lesser(tail, left - in_gaps);
  dg_losses_count(&rx->dg, losses);
  losses->behind[UDP_LOST_CHECKSUM] = /* such a datagram is never coalesced with others */
      rx->dg.flow.params.numbered ? losses->tail[UDP_LOST_CHECKSUM] : 0;
  losses->messages[UDP_LOST_KERNEL] -= of_kernel;
  losses->messages[UDP_LOST_CHECKSUM] += of_kernel + in_gaps;
}

/* Without numbers each drop is a message. */
static void udp_counters_split_plain(struct udp_rx *rx, const struct udp_drops_news *news,
                                     struct dg_losses *losses)
{
  uint64_t bad;

  dg_losses_count(&rx->dg, losses);
  bad = udp_counters_bad_of_kernel(rx, news, losses->messages[UDP_LOST_NO_BUFFER],
                                   losses->messages[UDP_LOST_KERNEL]);
  losses->messages[UDP_LOST_KERNEL] -= bad;
  losses->messages[UDP_LOST_CHECKSUM] += bad;
}

static void udp_counters_count_losses(struct pst_endpoint *endpoint, uint32_t drops,
                                      struct dg_losses *losses)
{
  struct udp_rx *rx = endpoint->rx;
  struct udp_drops_news news = udp_drops_look(endpoint, drops);
  bool is_numbered = rx->dg.flow.params.framing != DG_FRAMING_NONE;

  dg_losses_tail(&endpoint->dg, losses);
  if (dg_is_connected(&endpoint->dg))
    losses->tail[rx->starved ? UDP_LOST_NO_BUFFER : UDP_LOST_KERNEL] += drops - rx->drops_seen;
  if (is_numbered && !rx->dg.flow.begun)
    rx->sums_before = rx->bad_sums;
  if (is_numbered)
    udp_counters_split_numbered(rx, &news, losses);
  else
    udp_counters_split_plain(rx, &news, losses);
}

static void udp_counters_add_receiver(struct pst_counter_list *list, struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;
  const struct dg_flow *flow = &rx->dg.flow;
  uint32_t drops = udp_socket_drops(endpoint);
  struct dg_losses losses;

  udp_counters_count_losses(endpoint, drops, &losses);
  dg_counters_receiver(list, &endpoint->dg, &losses);
  if (flow->params.framing == DG_FRAMING_NONE) {
    udp_counters_add_coalesced(list, "kernel_coalesced", "kernel", losses.messages[UDP_LOST_KERNEL],
                               flow->unit_max);
    udp_counters_add_coalesced(list, "no_buffer_coalesced", "no_buffer",
                               losses.messages[UDP_LOST_NO_BUFFER], flow->unit_max);
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
    udp_counters_add_sender(&list, endpoint);
  else if (endpoint)
    udp_counters_add_receiver(&list, endpoint);
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
