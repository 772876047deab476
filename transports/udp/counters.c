/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted, and an endpoint in words. */
#include <stdio.h>

#include "address.h"
#include "receive.h"
#include "send.h"
#include "udp.h"

static void add_sender(struct pst_counter_list *list, const struct udp_tx *tx)
{
  pst_counter_add(list, "messages_sent", NULL, tx->messages, 0);
  pst_counter_add(list, "bytes_sent", NULL, tx->bytes, 0);
  pst_counter_add(list, "unreachable", "unreachable", tx->unreachable, PST_COUNTER_DROP);
  pst_counter_add(list, "refused", NULL, tx->refused, 0);
  pst_counter_add(list, "device_busy", NULL, tx->throttled, 0);
  pst_counter_add(list, "path_mtu_payload", NULL, tx->mtu, PST_COUNTER_GAUGE);
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

#define USELESS_MIN 8u /* in a row: fewer may be strays */

/* Datagrams come, and none is a message: says so once, with what they are. Once the stream has
 * begun, those of strangers do not count. */
static void tell_useless(struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;
  const struct dg_counts *counts = &rx->flow.counts;
  if (counts->messages != rx->messages)
    rx->heard = counts->heard;
  rx->messages = counts->messages;
  uint64_t useless = counts->messages ? counts->heard - rx->heard : counts->datagrams;
  if (rx->told_useless || useless < USELESS_MIN)
    return;
  rx->told_useless = true;
  UDP_TELL(endpoint, PST_LOG_WARN,
           "datagrams come, and none is a message of this stream: of %lu so far %lu are longer "
           "than `message` (%lu bytes), %lu have a bad header, %lu a bad checksum, %lu another "
           "source, SSRC or payload type, %lu a number too far ahead or back; compare `framing`, "
           "`message`, `source`, `ssrc` and `payload_type` with the sender's",
           counts->datagrams, counts->too_long, endpoint->message_max, counts->bad_header,
           counts->bad_checksum, counts->not_ours + counts->wrong_nonce + counts->displaced,
           counts->too_late + counts->too_far + rx->flow.holds);
}

/* Somebody sends in the sender's name: says so once. */
static void tell_wrong_nonce(struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;

  if (rx->told_nonce || rx->flow.counts.wrong_nonce == 0)
    return;
  rx->told_nonce = true;
  UDP_TELL(endpoint, PST_LOG_WARN,
           "datagrams from the sender's port lack the nonce of this stream: a program that had "
           "the port before still sends, or somebody forges them. They are ignored and counted as "
           "wrong_nonce; `tcpdump -e udp dst port %u` shows them",
           udp_address_port(&endpoint->local));
}

/* Somebody sends in a foreign sender's name, or its datagrams are very late: says so once. */
static void tell_strays(struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;
  const struct dg_counts *counts = &rx->flow.counts;

  if (rx->told_strays || rx->flow.params.numbered || counts->too_far + counts->too_late == 0)
    return;
  rx->told_strays = true;
  UDP_TELL(endpoint, PST_LOG_WARN,
           "datagrams from the sender's address have numbers that it cannot have now: %lu so far "
           "lie too far ahead, and %lu further back than `reorder` (%u): they are ignored and "
           "counted as too_far and too_late; `tcpdump -e udp dst port %u` shows who sends them",
           counts->too_far, counts->too_late, rx->flow.params.reorder,
           udp_address_port(&endpoint->local));
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

/* datagrams == messages_received + bad_header + bad_checksum + too_long + not_ours + wrong_nonce
 *              + displaced + too_late + too_far + held */
static void add_receiver(struct pst_counter_list *list, struct pst_endpoint *endpoint)
{
  struct udp_rx *rx = endpoint->rx;
  const struct dg_flow *flow = &rx->flow;
  const struct dg_counts *counts = &flow->counts;
  uint32_t drops = udp_socket_drops(endpoint);
  uint64_t bad_before = rx->bad_sums, bad_sums = udp_drops_look(endpoint, drops);
  /* Behind the last message there is no gap to say how many a buffer had. */
  uint64_t tail =
      udp_is_connected(endpoint) ? flow->credit + (uint32_t)(drops - rx->drops_seen) : 0;
  bool has_total = flow->params.numbered;
  /* Sums are checked as datagrams are read: those before the last message have left their gaps,
   * though the message carries an older count. */
  rx->bad_tail += bad_sums - bad_before;
  rx->bad_tail = rx->bad_tail < tail ? rx->bad_tail : tail;
  if (flow->params.framing != DG_FRAMING_NONE)
    tail -= rx->bad_tail;
  uint64_t unnumbered = has_total || !(flow->begun || flow->params.framing == DG_FRAMING_NONE)
                            ? 0
                            : tail; /* nobody else tells that they are missing */
  uint64_t behind = flow->params.framing == DG_FRAMING_NONE ? 0
                    : has_total                             ? tail * flow->unit_max
                                                            : unnumbered * (flow->unit_max - 1);
  uint64_t kernel = counts->lost[UDP_LOST_KERNEL] + (rx->starved ? 0 : unnumbered);
  uint64_t no_buffer = counts->lost[UDP_LOST_NO_BUFFER] + (rx->starved ? unnumbered : 0);

  uint64_t sums = bad_sums_of(rx, kernel, bad_sums);
  tell_useless(endpoint);
  tell_wrong_nonce(endpoint);
  tell_strays(endpoint);
  pst_counter_add(list, "datagrams", NULL, counts->datagrams, 0);
  pst_counter_add(list, "messages_received", NULL, counts->messages, 0);
  pst_counter_add(list, "bytes_received", NULL, counts->bytes, 0);
  kernel -= sums;
  pst_counter_add(list, "kernel", "kernel", kernel, PST_COUNTER_DROP);
  pst_counter_add(list, "udp_checksum", "udp_checksum", sums, PST_COUNTER_DROP);
  pst_counter_add(list, "no_buffer", "no_buffer", no_buffer, PST_COUNTER_DROP);
  if (flow->params.framing == DG_FRAMING_NONE) {
    add_coalesced(list, "kernel_coalesced", "kernel", kernel, flow->unit_max);
    add_coalesced(list, "no_buffer_coalesced", "no_buffer", no_buffer, flow->unit_max);
  }
  pst_counter_add(list, "behind_last", rx->starved ? "no_buffer" : "kernel", behind,
                  PST_COUNTER_DROP | PST_COUNTER_GAUGE);
  pst_counter_add(list, "bad_header", "bad_header", counts->bad_header, PST_COUNTER_DROP);
  pst_counter_add(list, "bad_checksum", "bad_checksum", counts->bad_checksum, PST_COUNTER_DROP);
  pst_counter_add(list, "too_long", "too_long", counts->too_long, PST_COUNTER_DROP);
  pst_counter_add(list, "too_late", "too_late", counts->too_late, PST_COUNTER_DROP);
  pst_counter_add(list, "too_far", "too_far", counts->too_far, PST_COUNTER_DROP);
  pst_counter_add(list, "displaced", "displaced", counts->displaced, PST_COUNTER_DROP);
  pst_counter_add(list, "not_ours", "not_ours", counts->not_ours, 0); /* no message of the stream */
  pst_counter_add(list, "wrong_nonce", "wrong_nonce", counts->wrong_nonce, 0); /* nor is this one */
  pst_counter_add(list, "heard", NULL, counts->heard, PST_COUNTER_HEARD);
  if (flow->params.framing != DG_FRAMING_NONE && !has_total) {
    pst_counter_add(list, "no_gap", NULL, unnumbered + dg_flow_no_gap(flow), PST_COUNTER_NO_GAP);
    pst_counter_add(list, "no_message", NULL, counts->no_message, PST_COUNTER_NO_MESSAGE);
  }
  pst_counter_add(list, "held", NULL, flow->holds, PST_COUNTER_GAUGE);
  pst_counter_add(list, "restarts", NULL, counts->restarts, 0);
  pst_counter_add(list, "socket_drops", NULL, drops, 0);
  pst_counter_add(list, "copied", NULL, rx->copied, 0);
  if (endpoint->worker->device->timestamps == UDP_TIME_HARDWARE)
    pst_counter_add(list, "software_stamps", NULL, rx->software_stamps, 0);
  if (endpoint->worker->device->framing == DG_FRAMING_RTP)
    pst_counter_add(list, "jitter_ns", NULL, dg_jitter_ns(&flow->jitter), PST_COUNTER_GAUGE);
}

int udp_counters(struct pst_device *device, struct pst_worker *worker,
                 struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max)
{
  struct pst_counter_list list = {counters, max, 0};

  (void)device;
  if (endpoint && endpoint->tx)
    add_sender(&list, endpoint->tx);
  else if (endpoint)
    add_receiver(&list, endpoint);
  else if (worker)
    pst_counter_add(&list, "sockets", NULL, worker->endpoint_count, PST_COUNTER_GAUGE);
  return (int)list.count;
}

int udp_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  char local[80], peer[80];

  if (size == 0)
    return -EINVAL;
  udp_address_print(&endpoint->local, local, sizeof(local));
  if (endpoint->rx)
    snprintf(text, size, "listening on %s (ring %u, GRO %s)", local,
             endpoint->rx->ring->cpu.params.slots, endpoint->rx->gro ? "on" : "off");
  else if (!udp_is_connected(endpoint))
    snprintf(text, size, "from %s, not connected", local);
  else {
    udp_address_print(&endpoint->peer, peer, sizeof(peer));
    snprintf(text, size, "sending from %s to %s (GSO %s)", local, peer,
             endpoint->tx->gso ? "on" : "off");
  }
  return 0;
}
