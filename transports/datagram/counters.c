/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of udp and ethernet, and warnings that follow from them. */
#include "counters.h"

/* Warns once that datagrams come of which none is a message, with what they are. Once the stream
 * has begun, those of strangers do not count. */
static void dg_counters_tell_useless(struct dg_endpoint *endpoint)
{
  struct dg_receiver *rx = endpoint->receiver;
  const struct dg_counts *counts = &rx->flow.counts;
  if (counts->messages != rx->messages)
    rx->heard = counts->heard;
  rx->messages = counts->messages;
  uint64_t useless = counts->messages ? counts->heard - rx->heard : counts->datagrams;
  if (rx->told_useless || useless < DG_USELESS_MIN)
    return;
  rx->told_useless = true;
  DG_TELL(
      endpoint, PST_LOG_WARN,
      "datagrams arrive, and none of them is a message of this stream: of %lu so far %lu are "
      "longer than `message` (%lu bytes), %lu have a bad header, %lu a bad checksum, %lu another "
      "source, SSRC or payload type, %lu a number too far ahead or back; compare `framing`, "
      "`message`, `source`, `ssrc` and `payload_type` with the sender's",
      counts->datagrams, counts->too_long, endpoint->message_max, counts->bad_header,
      counts->bad_checksum,
      counts->not_ours + counts->wrong_nonce + counts->unauthentic + counts->replayed +
          counts->displaced,
      counts->too_late + counts->too_far + rx->flow.holds);
}

/* Warns once that another program sends in the sender's name. */
static void dg_counters_tell_forged(struct dg_endpoint *endpoint)
{
  struct dg_receiver *rx = endpoint->receiver;
  const struct dg_counts *counts = &rx->flow.counts;
  const bool is_penstock = rx->flow.params.numbered || rx->flow.params.address_locks;

  if (!rx->told_others && is_penstock && counts->not_ours > 0) {
    rx->told_others = true;
    DG_TELL(endpoint, PST_LOG_WARN,
            "datagrams have another address or port than the sender: %lu so far are ignored and "
            "counted as not_ours; `tcpdump -e udp dst port %u` shows them. Where they are the "
            "sender's, give it the `device` that it sends from",
            counts->not_ours, dg_address_port(&endpoint->local));
  }
  if (rx->told_forged || counts->wrong_nonce + counts->unauthentic + counts->replayed == 0)
    return;
  rx->told_forged = true;
  if (rx->flow.params.tag) {
    DG_TELL(endpoint, PST_LOG_WARN,
            "datagrams arrive that the sender did not send: of those so far %lu have no tag of "
            "its own (forged, or changed on the way) and are counted as unauthentic, and %lu have "
            "a number that came before and are counted as replayed. They are ignored; `tcpdump -e "
            "udp dst port %u` shows them",
            counts->unauthentic, counts->replayed, dg_address_port(&endpoint->local));
    return;
  }
  DG_TELL(endpoint, PST_LOG_WARN,
          "datagrams from the sender's port lack the nonce of this stream: a program that had "
          "the port before still sends, or somebody forges them. They are ignored and counted as "
          "wrong_nonce; `tcpdump -e udp dst port %u` shows them",
          dg_address_port(&endpoint->local));
}

/* Warns once that another program sends in a foreign sender's name, or that its datagrams are very
 * late. */
static void dg_counters_tell_strays(struct dg_endpoint *endpoint)
{
  struct dg_receiver *rx = endpoint->receiver;
  const struct dg_counts *counts = &rx->flow.counts;

  if (rx->told_strays || rx->flow.params.numbered || counts->too_far + counts->too_late == 0)
    return;
  rx->told_strays = true;
  DG_TELL(endpoint, PST_LOG_WARN,
          "datagrams from the sender's address have numbers that it cannot have now: %lu so far "
          "lie too far ahead, and %lu further back than `reorder` (%u): they are ignored and "
          "counted as too_far and too_late; `tcpdump -e udp dst port %u` shows who sends them",
          counts->too_far, counts->too_late, rx->flow.params.reorder,
          dg_address_port(&endpoint->local));
}

/* Warns once that another sender sends beside the followed one, or that this one has started anew
 * too soon to be followed. */
static void dg_counters_tell_others(struct dg_endpoint *endpoint)
{
  struct dg_receiver *rx = endpoint->receiver;

  if (rx->told_others || rx->flow.counts.others == 0)
    return;
  rx->told_others = true;
  DG_TELL(endpoint, PST_LOG_WARN,
          "datagrams from the sender's address have another port or SSRC, while it goes on: %lu so "
          "far are ignored and counted as not_ours, or as displaced if it has started anew without "
          "a pause. Give each sender a `port` of its own, or choose one by `source`%s; `tcpdump -e "
          "udp dst port %u` shows who sends them",
          rx->flow.counts.others, endpoint->device->framing == DG_FRAMING_RTP ? " or `ssrc`" : "",
          dg_address_port(&endpoint->local));
}

/* Warns once that headers reach into memory that the CPU cannot read. */
static void dg_counters_tell_unreadable(struct dg_endpoint *endpoint)
{
  struct dg_receiver *rx = endpoint->receiver;

  if (rx->told_unreadable || rx->flow.counts.unreadable == 0)
    return;
  rx->told_unreadable = true;
  DG_TELL(endpoint, PST_LOG_WARN,
          "RTP packets have padding or a header extension that lies behind the header-data split, "
          "where the CPU cannot read: they are dropped and counted as bad_header and unreadable; "
          "receive without the split, or without padding and extensions");
}

void dg_losses_tail(const struct dg_endpoint *endpoint, struct dg_losses *losses)
{
  *losses = (struct dg_losses){0};
  for (uint32_t i = 0; i < DG_CAUSES_MAX && dg_is_connected(endpoint); i++)
    losses->tail[i] = endpoint->receiver->flow.credits[i];
}

/* Behind the last message there is no gap to say how many a unit had. A sender's total says that
 * messages are missing there; without one, nobody but this end does. */
void dg_losses_count(const struct dg_receiver *receiver, struct dg_losses *losses)
{
  const struct dg_flow *flow = &receiver->flow;
  const bool is_numbered = flow->params.framing != DG_FRAMING_NONE;
  const bool has_total = flow->params.numbered;
  const bool counts = !has_total && (flow->begun || !is_numbered);
  const uint64_t room = has_total ? flow->unit_max : counts && is_numbered ? flow->unit_max - 1 : 0;

  losses->no_gap = 0;
  for (uint32_t i = 0; i < DG_CAUSES_MAX; i++) {
    losses->messages[i] = flow->counts.lost[i] + (counts ? losses->tail[i] : 0);
    losses->behind[i] = losses->tail[i] * room;
    losses->no_gap += counts ? losses->tail[i] : 0;
  }
}

static void dg_counters_add_losses(struct pst_counter_list *list,
                                   const struct dg_receiver *receiver,
                                   const struct dg_losses *losses)
{
  const char *const *cause = receiver->causes;

  for (uint32_t i = 0; cause[i]; i++)
    pst_counter_add(list, cause[i], cause[i], losses->messages[i], PST_COUNTER_DROP);
  for (uint32_t i = 0; cause[i]; i++)
    if (i == 0 || losses->behind[i])
      pst_counter_add(list, "behind_last", cause[i], losses->behind[i],
                      PST_COUNTER_DROP | PST_COUNTER_GAUGE);
}

static void dg_counters_add_refused(struct pst_counter_list *list, const struct dg_flow *flow,
                                    const struct dg_counts *counts)
{
  const struct {
    const char *name;
    uint64_t value;
  } all[] = {{"bad_header", counts->bad_header}, {"bad_checksum", counts->bad_checksum},
             {"too_long", counts->too_long},     {"too_late", counts->too_late},
             {"too_far", counts->too_far},       {"displaced", counts->displaced}};

  for (uint32_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
    pst_counter_add(list, all[i].name, all[i].name, all[i].value, PST_COUNTER_DROP);
  /* These two are no messages of the stream. */
  pst_counter_add(list, "not_ours", "not_ours", counts->not_ours, 0);
  pst_counter_add(list, "wrong_nonce", "wrong_nonce", counts->wrong_nonce, 0);
  /* A changed one is a loss, and a forged one is none: the last of the transport's causes, since
   * core charges no cause with more than is missing. */
  if (flow->params.tag) {
    pst_counter_add(list, "unauthentic", "unauthentic", counts->unauthentic, PST_COUNTER_DROP);
    pst_counter_add(list, "replayed", NULL, counts->replayed, 0);
  }
  if (counts->unreadable + counts->unchecked == 0)
    return;
  pst_counter_add(list, "unreadable", NULL, counts->unreadable, 0);
  pst_counter_add(list, "unchecked", NULL, counts->unchecked, 0);
}

void dg_counters_receiver(struct pst_counter_list *list, struct dg_endpoint *endpoint,
                          const struct dg_losses *losses)
{
  const struct dg_receiver *receiver = endpoint->receiver;
  const struct dg_flow *flow = &receiver->flow;
  struct dg_counts now = flow->counts, *counts = &now;
  uint64_t successors = 0;

  /* While messages come, the sender that is followed goes on. */
  if (flow->successor.datagrams && now.messages == receiver->messages)
    successors = dg_flow_last_counts(flow, &now);
  dg_counters_tell_useless(endpoint);
  dg_counters_tell_forged(endpoint);
  dg_counters_tell_strays(endpoint);
  dg_counters_tell_others(endpoint);
  dg_counters_tell_unreadable(endpoint);
  pst_counter_add(list, "datagrams", NULL, counts->datagrams, 0);
  pst_counter_add(list, "messages_received", NULL, counts->messages, 0);
  pst_counter_add(list, "bytes_received", NULL, counts->bytes, 0);
  dg_counters_add_losses(list, receiver, losses);
  dg_counters_add_refused(list, flow, counts);
  pst_counter_add(list, "heard", NULL, counts->heard, PST_COUNTER_HEARD);
  if (flow->params.framing != DG_FRAMING_NONE && !flow->params.numbered) {
    pst_counter_add(list, "no_gap", NULL, losses->no_gap + dg_flow_no_gap(flow) + successors,
                    PST_COUNTER_NO_GAP);
    pst_counter_add(list, "no_message", NULL, counts->no_message, PST_COUNTER_NO_MESSAGE);
  }
  pst_counter_add(list, "held", NULL, flow->holds, PST_COUNTER_GAUGE);
  pst_counter_add(list, "restarts", NULL, counts->restarts, 0);
  if (endpoint->device->framing == DG_FRAMING_RTP)
    pst_counter_add(list, "jitter_ns", NULL, dg_jitter_ns(&flow->jitter), PST_COUNTER_GAUGE);
}

void dg_receiver_end(struct dg_receiver *receiver, struct pst_cpu_ring *ring)
{
  if (receiver->flow.holds)
    pst_slots_give(&ring->slots, receiver->held.slot);
  dg_flow_end(&receiver->flow);
  dg_tag_close(receiver->flow.params.tag);
  receiver->flow.params.tag = NULL;
}
