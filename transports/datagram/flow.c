/* SPDX-License-Identifier: Apache-2.0 */
/* Classifies each datagram of a receiver's stream: message, loss, stray; no I/O. */
#include "flow.h"

#include <assert.h>
#include <string.h>

void dg_flow_begin(struct dg_flow *flow, const struct dg_flow_params *params)
{
  memset(flow, 0, sizeof(*flow));
  flow->params = *params;
  flow->jitter.clock_rate = params->clock_rate;
  flow->unit_max = 1;
  if (!params->numbered)
    return;
  flow->begun = true;
  dg_sequence_begin(&flow->sequence, dg_sequence_bits(params->framing), params->initial, 0, 0,
                    params->reorder);
}

static bool dg_flow_same_address(const struct dg_source *a, const struct dg_source *b)
{
  return memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

static bool dg_flow_same_identity(const struct dg_identity *a, const struct dg_identity *b)
{
  return a->ssrc == b->ssrc && a->source.port == b->source.port &&
         dg_flow_same_address(&a->source, &b->source);
}

static bool dg_flow_is_wanted(const struct dg_flow_params *params, const struct dg_header *header)
{
  if (params->framing != DG_FRAMING_RTP)
    return true;
  return (!params->ssrc_is_fixed || header->ssrc == params->ssrc) &&
         (params->payload_type < 0 || header->payload_type == params->payload_type);
}

/* NULL, or where this one is counted that has no tag of the sender's, or a number that came. */
static uint64_t *dg_flow_authenticate(struct dg_flow *flow, const struct dg_arrival *arrival)
{
  const uint32_t fixed = dg_header_bytes(flow->params.framing, true);

  if (arrival->is_cut || arrival->readable < arrival->total ||
      arrival->total < fixed + DG_TAG_BYTES)
    return &flow->counts.unauthentic;
  switch (dg_tag_check(flow->params.tag, arrival->header, fixed, arrival->rest,
                       arrival->total - fixed - DG_TAG_BYTES)) {
  case DG_TAG_NEW:
    return NULL;
  case DG_TAG_SEEN:
    return &flow->counts.replayed;
  case DG_TAG_WRONG:
    break;
  }
  return &flow->counts.unauthentic;
}

/* NULL, or where this one is counted that is not a message of ours. */
static uint64_t *dg_flow_classify(struct dg_flow *flow, const struct dg_arrival *arrival,
                                  struct dg_header *header, struct dg_message *message)
{
  const struct dg_flow_params *params = &flow->params;
  const uint32_t tag_bytes = params->tag ? DG_TAG_BYTES : 0;

  /* Before the tag: a copy from elsewhere does not take the number of the genuine one. */
  if (!dg_flow_is_source(params, arrival->source))
    return &flow->counts.not_ours;
  uint64_t *cause = params->tag ? dg_flow_authenticate(flow, arrival) : NULL;
  if (cause)
    return cause;
  if (arrival->readable < arrival->total &&
      arrival->readable < dg_header_bytes(params->framing, params->numbered)) {
    flow->counts.unreadable++;
    return &flow->counts.bad_header;
  }
  /* Without the nonce nothing else that a datagram says is believed. */
  if (params->numbered && !params->tag &&
      !dg_has_nonce(params->framing, arrival->header, arrival->total, params->nonce))
    return &flow->counts.wrong_nonce;
  if (arrival->is_cut)
    return &flow->counts.too_long;
  switch (dg_parse(params->framing, params->numbered, arrival->header, arrival->rest,
                   arrival->total - tag_bytes, arrival->readable - tag_bytes, header,
                   &message->offset, &message->length)) {
  case DG_UNREADABLE:
    flow->counts.unreadable++;
    return &flow->counts.bad_header;
  case DG_BAD_HEADER:
    return &flow->counts.bad_header;
  case DG_NO_MESSAGE:
    return &flow->counts.not_ours;
  case DG_PARSED:
    break;
  }
  if (!dg_flow_is_wanted(params, header))
    return &flow->counts.not_ours;
  if (message->length > params->message_max)
    return &flow->counts.too_long;
  if (params->framing != DG_FRAMING_SEQUENCE || !params->checks)
    return NULL;
  if (arrival->readable < arrival->total)
    flow->counts.unchecked++;
  else if (header->checksum != dg_byte_sum(arrival->rest + message->offset, message->length))
    return &flow->counts.bad_checksum;
  return NULL;
}

static void dg_flow_forget_lost(struct dg_flow *flow)
{
  memset(flow->credits, 0, sizeof(flow->credits));
  flow->credit = 0;
}

/* Explains a gap by losses of the medium, each unit as many messages as it can have had. Losses
 * beyond the gap were those of other streams. Returns how much is explained. */
static uint64_t dg_flow_match_lost(struct dg_flow *flow, uint64_t gap, uint64_t unit_max)
{
  uint64_t left = gap;

  if (flow->credit == 0)
    return 0;
  for (uint32_t i = 0; i < DG_CAUSES_MAX; i++) {
    uint64_t most = flow->credits[i] * unit_max;
    most = left < most ? left : most;
    flow->counts.lost[i] += most;
    left -= most;
  }
  dg_flow_forget_lost(flow);
  return gap - left;
}

/* How many messages the sender can have sent since the last one, by its own pace; `at_once` of
 * them in no time. */
static uint64_t dg_flow_sent_most(const struct dg_flow *flow, uint64_t at_once, uint64_t now_ns)
{
  int64_t passed_ns = (int64_t)(now_ns - flow->latest_ns);
  uint64_t windows = passed_ns > 0 ? (uint64_t)passed_ns / DG_PACE_NS : 0;

  if (flow->busiest == 0)
    return UINT64_MAX;
  return at_once + windows * flow->busiest * DG_PACE_ROOM;
}

/* The medium counts what strangers sent and duplicates, too: no more of it is the stream's than
 * its sender can have sent. A Penstock's number is its own, however far ahead. */
static struct dg_dropped dg_flow_dropped_here(const struct dg_flow *flow, uint64_t now_ns)
{
  uint64_t credit = flow->credit, most = credit * flow->unit_max, sent;

  if (credit == 0)
    return (struct dg_dropped){0};
  sent = dg_flow_sent_most(flow, DG_DROPOUT_MAX + flow->busiest * DG_PACE_ROOM, now_ns);
  if (!flow->params.numbered && most > sent)
    most = sent;
  return (struct dg_dropped){credit < sent ? credit : sent, most};
}

/* After a message. Lost ones do not count, so that no gap quickens the pace. */
static void dg_flow_note_pace(struct dg_flow *flow, uint64_t lost, uint64_t now_ns)
{
  flow->pace_from += lost;
  if (now_ns - flow->pace_ns < DG_PACE_NS)
    return;
  if (flow->pace_ns && now_ns > flow->pace_ns) {
    uint64_t windows = (now_ns - flow->pace_ns) / DG_PACE_NS;
    uint64_t sent = (flow->sequence.next - flow->pace_from + windows - 1) / windows;
    if (sent > flow->busiest)
      flow->busiest = sent;
  }
  flow->pace_from = flow->sequence.next;
  flow->pace_ns = now_ns;
}

static void dg_flow_deliver(struct dg_flow *flow, const struct dg_message *message)
{
  flow->counts.messages++;
  flow->counts.bytes += message->length;
  dg_flow_note_arrival(flow, message);
}

/* A message has arrived behind them: they have left gaps. */
static void dg_flow_end_tail(struct dg_flow *flow)
{
  flow->counts.no_message += flow->tail.no_message;
  flow->tail = (struct dg_tail){0};
}

static uint32_t dg_flow_take_place(struct dg_flow *flow, uint32_t raw, enum dg_place place,
                                   struct dg_message *message)
{
  if (place == DG_AHEAD) {
    uint64_t gap = message->sequence - flow->sequence.next;
    uint64_t lost = gap - dg_flow_match_lost(flow, gap, flow->unit_max);
    dg_sequence_take(&flow->sequence, raw, message->sequence);
    flow->counts.unexplained += lost;
    dg_flow_note_pace(flow, lost, message->time_ns);
    dg_flow_end_tail(flow);
  }
  flow->strays = 0;
  flow->successor.datagrams = 0;
  dg_flow_deliver(flow, message);
  return DG_DELIVER;
}

static uint32_t dg_flow_drop_held(struct dg_flow *flow)
{
  if (!flow->holds)
    return 0;
  flow->holds = false;
  ++*flow->held_cause;
  return DG_HELD_DROP;
}

/* Has the sender that is followed paused for longer than it does? */
static bool dg_flow_is_silent(const struct dg_flow *flow, uint64_t now_ns)
{
  uint64_t least = 2 * flow->longest_ns;
  int64_t passed_ns = (int64_t)(now_ns - flow->latest_ns);

  if (least < DG_SILENCE_MIN_NS)
    least = DG_SILENCE_MIN_NS;
  if (least > DG_SILENCE_MAX_NS)
    least = DG_SILENCE_MAX_NS;
  /* A clock that was set back says nothing of pauses. */
  return passed_ns >= (int64_t)least || passed_ns < -(int64_t)DG_SILENCE_MAX_NS;
}

static void dg_flow_note_successor(struct dg_flow *flow, const struct dg_identity *by, uint32_t raw,
                                   const uint64_t *cause)
{
  struct dg_successor *successor = &flow->successor;

  if (successor->datagrams == 0 || successor->cause != cause ||
      !dg_flow_same_identity(by, &successor->by))
    *successor = (struct dg_successor){.by = *by, .cause = cause};
  else if (raw == ((successor->raw + 1) & flow->sequence.mask))
    successor->is_sender = true;
  successor->raw = raw;
  successor->datagrams++;
}

/* Counts a datagram of another sender, while the one that is followed goes on. Messages of the
 * sender that was followed before are lost. Those of another one are lost if it is followed later,
 * or if the stream ends by it. */
static void dg_flow_ignore(struct dg_flow *flow, const struct dg_identity *by, uint32_t raw)
{
  flow->counts.heard++;
  flow->counts.others++;
  if (flow->has_former && dg_flow_same_identity(by, &flow->former)) {
    flow->counts.displaced++;
    flow->lost_before++;
    return;
  }
  if (!dg_flow_same_identity(by, &flow->ignored_by))
    flow->ignored = 0;
  flow->ignored_by = *by;
  flow->ignored++;
  flow->counts.not_ours++;
  dg_flow_note_successor(flow, by, raw, &flow->counts.not_ours);
}

/* Counts a sender's datagrams as displaced; they were counted otherwise before the sender was
 * believed. */
static void dg_flow_claim(struct dg_flow *flow, uint64_t *cause, uint64_t datagrams)
{
  *cause -= datagrams;
  flow->counts.displaced += datagrams;
  flow->lost_before += datagrams;
}

static uint32_t dg_flow_hold(struct dg_flow *flow, const struct dg_identity *by, uint32_t raw,
                             const struct dg_message *message, uint64_t *cause)
{
  uint32_t verdict = dg_flow_drop_held(flow);

  flow->holds = true;
  flow->held = *message;
  flow->held_by = *by;
  flow->held_raw = raw;
  flow->held_cause = cause;
  return verdict | DG_HOLD;
}

/* The sender has restarted at `raw`: closes the account of the old numbers, and begins with this
 * message. Returns its verdict. */
static uint32_t dg_flow_start_anew(struct dg_flow *flow, uint32_t raw, struct dg_message *message)
{
  struct dg_sequence *sequence = &flow->sequence;

  flow->counts.restarts++;
  flow->lost_before += flow->tail.lost;
  flow->tail = (struct dg_tail){0};
  if (!dg_flow_same_identity(&flow->current, &flow->held_by)) {
    flow->former = flow->current;
    flow->has_former = true;
    flow->current = flow->held_by;
    if (dg_flow_same_identity(&flow->ignored_by, &flow->current))
      dg_flow_claim(flow, &flow->counts.not_ours, flow->ignored);
    flow->ignored = 0;
  }
  if (flow->strays_cause == flow->held_cause)
    dg_flow_claim(flow, flow->held_cause, flow->strays);
  flow->strays = 0;
  flow->successor.datagrams = 0;
  flow->holds = false;
  dg_flow_forget_lost(flow);
  flow->held.sequence = sequence->next;
  flow->held.is_restart = true;
  message->sequence = sequence->next + 1;
  dg_sequence_begin(sequence, dg_sequence_bits(flow->params.framing), flow->held_raw,
                    sequence->next, sequence->next, flow->params.reorder);
  dg_sequence_take(sequence, flow->held_raw, flow->held.sequence);
  dg_sequence_take(sequence, raw, message->sequence);
  flow->jitter = (struct dg_jitter){.clock_rate = flow->params.clock_rate};
  flow->longest_ns = flow->pace_ns = flow->busiest = 0;
  dg_flow_deliver(flow, &flow->held);
  dg_flow_deliver(flow, message);
  return DG_HELD_DELIVER | DG_DELIVER;
}

/* The one held and this one have numbers one apart: neither is an accident. */
static bool dg_flow_is_confirmed(const struct dg_flow *flow, const struct dg_identity *by,
                                 uint32_t raw, const uint64_t *cause)
{
  return flow->holds && flow->held_cause == cause && dg_flow_same_identity(by, &flow->held_by) &&
         raw == ((flow->held_raw + 1) & flow->sequence.mask);
}

static uint32_t dg_flow_take_candidate(struct dg_flow *flow, const struct dg_identity *by,
                                       uint32_t raw, struct dg_message *message, uint64_t *cause)
{
  if (dg_flow_is_confirmed(flow, by, raw, cause))
    return dg_flow_start_anew(flow, raw, message);
  flow->counts.heard++;
  return dg_flow_hold(flow, by, raw, message, cause);
}

/* A number that neither reordering nor loss explains, in the name of the sender that is followed.
 * The message is a stray while that sender goes on. */
static uint32_t dg_flow_take_stray(struct dg_flow *flow, const struct dg_identity *by, uint32_t raw,
                                   struct dg_message *message, uint64_t *cause)
{
  if (dg_flow_is_silent(flow, message->time_ns))
    return dg_flow_take_candidate(flow, by, raw, message, cause);
  if (flow->strays_cause != cause)
    flow->strays = 0;
  flow->strays_cause = cause;
  flow->strays++;
  flow->counts.heard++;
  ++*cause;
  dg_flow_note_successor(flow, by, raw, cause);
  return 0;
}

enum gap {
  GAP_LOST,       /* loss explains it */
  GAP_UNCERTAIN,  /* it may be loss: the next number tells */
  GAP_IMPOSSIBLE, /* nobody sends so much in so little time */
};

/* A Penstock's numbers are its own, however far ahead; a foreign sender's have its pace. */
static enum gap dg_flow_judge_gap(const struct dg_flow *flow, uint64_t gap, uint64_t dropped,
                                  uint64_t now_ns)
{
  uint64_t at_once = flow->busiest * DG_PACE_ROOM;

  if (gap <= dropped)
    return GAP_LOST;
  gap -= dropped;
  if (flow->params.numbered || flow->busiest == 0)
    return gap <= DG_DROPOUT_MAX ? GAP_LOST : GAP_UNCERTAIN;
  if (at_once < flow->params.reorder)
    at_once = flow->params.reorder; /* what follows would be late, and not lost */
  if (gap > dg_flow_sent_most(flow, at_once, now_ns))
    return GAP_IMPOSSIBLE;
  return gap <= dg_flow_sent_most(flow, DG_DROPOUT_MAX, now_ns) ? GAP_LOST : GAP_UNCERTAIN;
}

/* Takes a jump in the numbers: the sender is believed once the next number has come, too (RFC 3550,
 * appendix A.1, MIN_SEQUENTIAL). */
static uint32_t dg_flow_take_jump(struct dg_flow *flow, const struct dg_identity *by, uint32_t raw,
                                  struct dg_message *message)
{
  uint64_t *cause = &flow->counts.too_far;

  if (!dg_flow_is_confirmed(flow, by, raw, cause)) {
    flow->counts.heard++;
    return dg_flow_hold(flow, by, raw, message, cause);
  }
  flow->holds = false;
  dg_flow_take_place(flow, flow->held_raw, DG_AHEAD, &flow->held);
  message->sequence = flow->held.sequence + 1;
  return DG_HELD_DELIVER | dg_flow_take_place(flow, raw, DG_AHEAD, message);
}

/* Swapped with the two that were taken for the restart: not another one. */
static bool dg_flow_is_before_restart(const struct dg_flow *flow, uint32_t raw)
{
  const struct dg_sequence *sequence = &flow->sequence;

  return flow->counts.restarts && ((sequence->raw - raw) & sequence->mask) <= sequence->reorder;
}

/* Takes a datagram of the followed sender. */
static uint32_t dg_flow_take_numbered(struct dg_flow *flow, const struct dg_identity *by,
                                      uint32_t raw, struct dg_message *message)
{
  struct dg_dropped dropped = dg_flow_dropped_here(flow, message->time_ns);
  enum dg_place place = dg_sequence_place(&flow->sequence, raw, dropped, &message->sequence);
  enum gap gap = GAP_LOST;

  if (place == DG_TOO_LATE && !flow->params.numbered && !dg_flow_is_before_restart(flow, raw))
    return dg_flow_take_stray(flow, by, raw, message, &flow->counts.too_late);
  if (place == DG_TOO_LATE) {
    flow->counts.too_late++;
    flow->counts.heard += !flow->params.numbered;
    return 0;
  }
  if (place == DG_AHEAD && message->sequence != flow->sequence.next)
    gap = dg_flow_judge_gap(flow, message->sequence - flow->sequence.next, dropped.most,
                            message->time_ns);
  if (gap == GAP_IMPOSSIBLE)
    return dg_flow_take_stray(flow, by, raw, message, &flow->counts.too_far);
  if (gap == GAP_UNCERTAIN)
    return dg_flow_take_jump(flow, by, raw, message);
  return dg_flow_drop_held(flow) | dg_flow_take_place(flow, raw, place, message);
}

static uint32_t dg_flow_begin_foreign(struct dg_flow *flow, const struct dg_identity *by,
                                      uint32_t raw, struct dg_message *message)
{
  uint32_t bits = dg_sequence_bits(flow->params.framing);

  /* Datagrams that were sent earlier and come later get smaller numbers, which are positive too. */
  message->sequence = (UINT64_C(1) << bits) + raw;
  dg_sequence_begin(&flow->sequence, bits, raw, message->sequence, 0, flow->params.reorder);
  flow->begun = true;
  flow->current = *by;
  if (flow->tail.lost && dg_flow_same_address(&flow->refused_source, &by->source))
    flow->lost_before = flow->tail.lost;
  dg_flow_forget_lost(flow); /* what was lost before is not known to be of the stream */
  return dg_flow_take_place(flow, raw, DG_AHEAD, message);
}

static uint32_t dg_flow_take_foreign(struct dg_flow *flow, const struct dg_identity *by,
                                     uint32_t raw, struct dg_message *message)
{
  if (!flow->begun)
    return dg_flow_begin_foreign(flow, by, raw, message);
  if (dg_flow_same_identity(by, &flow->current))
    return dg_flow_take_numbered(flow, by, raw, message);
  if (!dg_flow_same_address(&by->source, &flow->current.source)) {
    flow->counts.not_ours++;
    return 0;
  }
  if (!dg_flow_is_silent(flow, message->time_ns)) {
    dg_flow_ignore(flow, by, raw);
    return 0;
  }
  return dg_flow_take_candidate(flow, by, raw, message, &flow->counts.not_ours);
}

/* Does a foreign datagram come from the source that the flow follows, as far as the address shows?
 */
static bool dg_flow_is_followed(const struct dg_flow *flow, const struct dg_source *source)
{
  return !flow->begun || dg_flow_same_address(source, &flow->current.source);
}

static void dg_flow_refuse_before(struct dg_flow *flow, const struct dg_source *source)
{
  if (flow->tail.lost && !dg_flow_same_address(source, &flow->refused_source))
    flow->tail.lost = 0;
  flow->refused_source = *source;
  flow->tail.lost++;
}

/* A datagram that is no message has a number all the same: it leaves no gap until another one
 * comes. */
static void dg_flow_note_number(struct dg_flow *flow, const struct dg_arrival *arrival,
                                const uint64_t *cause)
{
  const struct dg_flow_params *params = &flow->params;
  bool is_lost = cause == &flow->counts.too_long || cause == &flow->counts.bad_checksum;
  struct dg_identity by = {.source = *arrival->source};
  struct dg_header header;
  uint64_t number;

  if ((!is_lost && cause != &flow->counts.not_ours) ||
      !dg_peek(params->framing, arrival->header,
               arrival->readable < arrival->total ? arrival->readable : arrival->total, &header))
    return;
  by.ssrc = header.ssrc;
  is_lost = is_lost && dg_flow_is_wanted(params, &header);
  if (!flow->begun && is_lost)
    dg_flow_refuse_before(flow, arrival->source);
  if (!flow->begun || !dg_flow_same_identity(&by, &flow->current) ||
      dg_sequence_place(&flow->sequence, header.sequence,
                        dg_flow_dropped_here(flow, arrival->time_ns), &number) != DG_AHEAD ||
      number < flow->tail.next)
    return;
  flow->tail.next = number + 1;
  *(is_lost ? &flow->tail.lost : &flow->tail.no_message) += 1;
}

/* A sign of life? Nobody is followed before the first message: a stray or two begin nothing. */
static bool dg_flow_is_life(struct dg_flow *flow, const struct dg_arrival *arrival)
{
  if (flow->counts.messages)
    return true;
  if (flow->useless < DG_USELESS_MIN && arrival->time_ns - flow->useless_ns > DG_SILENCE_MAX_NS) {
    flow->useless = 0;
    flow->useless_ns = arrival->time_ns;
  }
  return ++flow->useless >= DG_USELESS_MIN;
}

static void dg_flow_refuse(struct dg_flow *flow, const struct dg_arrival *arrival, uint64_t *cause)
{
  const struct dg_flow_params *params = &flow->params;
  bool is_foreign = !params->numbered && params->framing != DG_FRAMING_NONE;

  if (is_foreign && !dg_flow_is_followed(flow, arrival->source))
    cause = &flow->counts.not_ours;
  ++*cause;
  if (is_foreign)
    dg_flow_note_number(flow, arrival, cause);
  if (is_foreign ? dg_flow_is_followed(flow, arrival->source)
                 : cause != &flow->counts.not_ours && cause != &flow->counts.wrong_nonce &&
                       cause != &flow->counts.unauthentic && cause != &flow->counts.replayed)
    flow->counts.heard += dg_flow_is_life(flow, arrival);
}

/* Asserts the invariant of flow.h: the counts add up. */
__attribute__((unused)) static inline bool dg_flow_adds_up(const struct dg_flow *flow)
{
  const struct dg_counts *c = &flow->counts;

  return c->datagrams == c->messages + c->bad_header + c->bad_checksum + c->too_long + c->not_ours +
                             c->wrong_nonce + c->displaced + c->too_late + c->too_far +
                             c->unauthentic + c->replayed + flow->holds;
}

uint32_t dg_flow_take(struct dg_flow *flow, const struct dg_arrival *arrival,
                      struct dg_message *message)
{
  struct dg_header header;
  struct dg_identity by = {.source = *arrival->source};

  assert(dg_flow_adds_up(flow));
  flow->counts.datagrams++;
  *message = (struct dg_message){.time_ns = arrival->time_ns};
  uint64_t *cause = dg_flow_classify(flow, arrival, &header, message);
  if (cause) {
    dg_flow_refuse(flow, arrival, cause);
    return 0;
  }
  if (flow->params.framing == DG_FRAMING_NONE) {
    dg_flow_match_lost(flow, UINT64_MAX, 1); /* nothing else tells what is missing */
    if (flow->params.address_locks && !flow->params.address_is_fixed) {
      flow->params.address_is_fixed = true;
      memcpy(flow->params.source.address, arrival->source->address,
             sizeof(flow->params.source.address));
    }
    dg_flow_deliver(flow, message);
    return DG_DELIVER;
  }
  message->has_sequence = true;
  if (flow->params.framing == DG_FRAMING_RTP) {
    message->has_meta = true;
    message->meta = (uint64_t)header.ssrc << 32 | header.timestamp;
    message->is_marked = header.marker;
    by.ssrc = header.ssrc;
  }
  return flow->params.numbered ? dg_flow_take_numbered(flow, &by, header.sequence, message)
                               : dg_flow_take_foreign(flow, &by, header.sequence, message);
}

uint64_t dg_flow_no_gap(const struct dg_flow *flow)
{
  return flow->lost_before + flow->tail.lost;
}

uint64_t dg_flow_last_counts(const struct dg_flow *flow, struct dg_counts *counts)
{
  const struct dg_successor *successor = &flow->successor;
  uint64_t n = successor->is_sender ? successor->datagrams : 0;

  *counts = flow->counts;
  if (successor->cause == &flow->counts.not_ours)
    counts->not_ours -= n;
  else if (successor->cause == &flow->counts.too_far)
    counts->too_far -= n;
  else if (n > counts->unexplained)
    counts->too_late -= n;
  else /* they may be those that the gaps lack, very late */
    n = 0;
  counts->displaced += n;
  return n;
}

void dg_flow_end(struct dg_flow *flow)
{
  dg_flow_drop_held(flow);
  assert(dg_flow_adds_up(flow));
}
