/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Senders, wire, socket and receiver in small random schedules, against the code that numbers,
 * tracks and assembles: counts, bytes and frames equal what the schedule made. From another
 * Penstock strangers have the sender's address and port, and another nonce.
 *
 * Senders follow one another, each with another SSRC, after a silence. The wire loses, swaps and
 * repeats packets, and carries those of strangers. The socket coalesces packets into buffers, and
 * drops whole ones when it is full. Strays have a sender's address and SSRC, and numbers in a row
 * that the sender cannot have reached. Cases that a receiver cannot tell apart are left out: a
 * sender's first packets are neither swapped nor repeated, no two swapped packets follow each
 * other, and strays do not come before a sender's pace is known or while it is silent.
 *
 * PENSTOCK_DATAGRAM_SCHEDULES=1000000 sets how many schedules run; PENSTOCK_DATAGRAM_SEED, from
 * which number on, as a failure prints it.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <penstock/penstock.h>

#include "../fewer.h"
#include "flow.h"
#include "stream/assemble.h"
#include "stream/seq_window.h"

#define PACKETS_MAX 16384
#define SENDERS_MAX 4
#define SETTLED 32 /* packets of a sender that are not swapped */
#define QUEUE 64
#define PAYLOAD 8
#define FRAME_MAX 8
#define STRANGER UINT32_MAX
#define STRAY (UINT32_MAX - 1)
#define STRAY_AHEAD 12000u /* more than all that is sent while a sender is not silent */
#define STEP_NS 300000u    /* between two packets of a sender */
#define NONCE (UINT64_C(1) << 63)
#define REORDER 1024
#define FIRST_NUMBER 65536 /* numbers are kept in a table from here on, see `at` */

struct packet {
  uint32_t sender; /* or STRANGER, STRAY */
  uint32_t index;  /* of the sender's */
  uint32_t frame;  /* of the sender's */
  uint32_t raw;
  bool opens, ends; /* its frame */
  bool repeated;
  bool is_late; /* swapped */
  bool is_damaged;
  bool was_delivered;
};

struct buffer {
  uint32_t first, count; /* in `wire` */
  uint32_t drops;
};

struct world {
  unsigned seed;
  bool numbered, by_marker, has_time;
  enum dg_framing framing;
  uint32_t senders, frame_packets;
  uint32_t loss, swaps, repeats, strangers, strays, damage; /* in 1000 */
  uint32_t sent_count, wire_count, stray_count;
  struct packet sent[PACKETS_MAX];
  uint32_t wire[2 * PACKETS_MAX]; /* index in `sent` */
  uint32_t first_of[SENDERS_MAX + 1];
  uint32_t initial[SENDERS_MAX];
  struct buffer queue[QUEUE];
  uint32_t head, tail, drops, drops_told;
  bool coalesces, wire_is_clean, overflowed;
  /* the receiver */
  struct dg_flow flow;
  struct seq_window track;
  struct assemble *assemble;
  uint32_t held; /* in `sent` */
  uint64_t taken, delivered, distinct, strange, stray, damaged;
  uint64_t number_of[PACKETS_MAX]; /* 0: not delivered */
  uint32_t at[2 * PACKETS_MAX];    /* sent, by number less `lowest` */
  uint64_t lowest;
  uint64_t next; /* one past the highest number */
  uint32_t current;
  uint64_t complete;
  uint64_t now_ns; /* stamped on arrivals */
};

static struct world w;
static uint64_t schedule;

#define HOLDS(condition)                                                                           \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      print_error("PENSTOCK_DATAGRAM_SEED=%" PRIu64 " PENSTOCK_DATAGRAM_SCHEDULES=1: %s\n",        \
                  schedule, #condition);                                                           \
      assert_true(condition);                                                                      \
    }                                                                                              \
  } while (0)

static uint32_t below(uint32_t n)
{
  w.seed = w.seed * 1664525u + 1013904223u;
  return (uint32_t)((uint64_t)(w.seed >> 1) * n >> 31);
}

static bool one_in(uint32_t n)
{
  return below(n) == 0;
}

static bool happens(uint32_t per_mille)
{
  return per_mille && below(1000) < per_mille;
}

/* ---- Senders and wire ----------------------------------------------------------------- */

static void send_all(uint32_t sender, uint32_t count)
{
  uint32_t mask = w.framing == DG_FRAMING_RTP ? 0xffff : UINT32_MAX;
  uint32_t raw = one_in(2) ? mask - below(64) : below(1u << 16), frame = 0, left = 0;

  w.initial[sender] = raw;
  w.first_of[sender] = w.sent_count;
  for (uint32_t i = 0; i < count || left; i++) {
    struct packet *packet = &w.sent[w.sent_count++];
    bool opens = left == 0;
    if (opens) {
      left = 1 + below(w.frame_packets);
      frame++;
    }
    left--;
    *packet = (struct packet){.sender = sender,
                              .index = i,
                              .frame = frame,
                              .raw = (raw + i) & mask,
                              .opens = opens,
                              .ends = left == 0,
                              .is_damaged = w.framing == DG_FRAMING_SEQUENCE && happens(w.damage)};
  }
  w.first_of[sender + 1] = w.sent_count;
}

/* One to four in a row; they stand at the end of `sent`. */
static void stray(const struct packet *packet)
{
  uint32_t mask = w.framing == DG_FRAMING_RTP ? 0xffff : UINT32_MAX;
  uint32_t raw = packet->raw + STRAY_AHEAD + below(mask - 2 * STRAY_AHEAD);

  for (uint32_t left = 1 + below(4); left; left--, raw++) {
    uint32_t at = PACKETS_MAX - 2 - w.stray_count;
    if (at <= w.sent_count || w.wire_count > PACKETS_MAX)
      return;
    w.sent[at] = (struct packet){.sender = STRAY, .index = packet->sender, .raw = raw & mask};
    w.stray_count++;
    w.wire[w.wire_count++] = at;
  }
}

static void carry(void)
{
  uint32_t late = UINT32_MAX, due = 0, since = 0;

  for (uint32_t i = 0; i < w.sent_count; i++, since++) {
    struct packet *packet = &w.sent[i];
    bool settled = packet->index >= SETTLED && i + SETTLED < w.first_of[packet->sender + 1];
    if (late != UINT32_MAX && (due-- == 0 || !settled)) {
      w.wire[w.wire_count++] = late;
      late = UINT32_MAX;
      since = 0;
    }
    if (happens(w.loss)) {
      w.wire_is_clean = false;
      continue;
    }
    if (settled && late == UINT32_MAX && since > 4 && happens(w.swaps)) {
      late = i;
      due = 1 + below(3);
      packet->is_late = true;
      continue;
    }
    w.wire[w.wire_count++] = i;
    if (settled && happens(w.repeats)) {
      w.wire[w.wire_count++] = i;
      packet->repeated = true;
    }
    if (happens(w.strangers)) {
      struct packet *strange = &w.sent[PACKETS_MAX - 1];
      *strange = (struct packet){.sender = STRANGER, .raw = packet->raw};
      w.wire[w.wire_count++] = PACKETS_MAX - 1;
    }
    if (happens(w.strays))
      stray(packet);
  }
}

/* ---- The receiver ---------------------------------------------------------------------- */

static void check_frame(const struct pst_frame *frame)
{
  const struct packet *first = NULL;

  HOLDS(frame->present <= frame->packets);
  for (uint32_t i = 0; i < frame->packets; i++) {
    if (!(frame->valid[i / 64] >> (i % 64) & 1))
      continue;
    HOLDS(frame->sequence + i >= w.lowest && frame->sequence + i < w.next);
    const struct packet *packet = &w.sent[w.at[frame->sequence + i - w.lowest]];
    if (!first)
      first = packet;
    HOLDS(packet->sender == first->sender); /* none goes over a restart */
    HOLDS(!w.by_marker || packet->frame == first->frame);
    HOLDS(frame->lengths[i] == PAYLOAD);
  }
  if (!(frame->flags & PST_FRAME_COMPLETE))
    return;
  w.complete++;
  HOLDS(frame->present == frame->packets);
  if (w.by_marker)
    HOLDS(first->opens && w.sent[w.at[frame->sequence + frame->packets - 1 - w.lowest]].ends);
  else
    HOLDS(frame->packets == w.frame_packets);
}

static void take_frames(void)
{
  for (const struct pst_frame *frame; (frame = assemble_first(w.assemble));) {
    uint32_t buffer = frame->token;
    check_frame(frame);
    assemble_pop(w.assemble);
    assemble_release(w.assemble, buffer);
  }
}

static void assemble_message(const struct dg_message *message)
{
  const struct pst_view made = {.sequence = message->sequence,
                                .meta = message->meta,
                                .time_ns = 1,
                                .length = message->length,
                                .flags = (message->is_marked ? (uint32_t)PST_VIEW_MARKED : 0u) |
                                         (message->is_restart ? (uint32_t)PST_VIEW_RESTART : 0u) |
                                         PST_VIEW_META};
  uint64_t place;
  uint32_t n = 1;

  HOLDS(assemble_take(w.assemble, &made, &n, 1, made.time_ns, &place) != ASSEMBLE_WAIT);
  take_frames();
}

/* `sent` is what its bytes say. */
static void deliver(uint32_t sent, const struct dg_message *message)
{
  struct packet *packet = &w.sent[sent];
  uint64_t number = message->sequence;

  HOLDS(packet->sender < SENDERS_MAX && message->length == PAYLOAD);
  w.delivered++;
  if (w.delivered == 1) {
    w.current = packet->sender;
    w.next = number;
    w.lowest = w.numbered ? 0 : number - packet->index;
    HOLDS(w.lowest <= number);
  }
  if (packet->sender != w.current) {
    HOLDS(packet->sender > w.current);
    HOLDS(number == w.next); /* no loss is invented */
    HOLDS(message->is_restart);
    w.current = packet->sender;
  } else if (packet->was_delivered) {
    HOLDS(number == w.number_of[sent] && packet->repeated);
  }
  for (uint32_t i = w.first_of[packet->sender]; i < w.first_of[packet->sender + 1]; i++)
    if (w.sent[i].was_delivered) {
      HOLDS(number - packet->index == w.number_of[i] - w.sent[i].index);
      break;
    }
  if (w.numbered)
    HOLDS(number == packet->index);
  HOLDS(number - w.lowest < 2 * PACKETS_MAX);
  w.at[number - w.lowest] = sent;
  w.number_of[sent] = number;
  if (number >= w.next)
    w.next = number + 1;
  enum seq_window_verdict verdict = seq_window_see(&w.track, number);
  HOLDS((verdict == SEQ_DUPLICATE) == packet->was_delivered);
  if (verdict != SEQ_DUPLICATE) {
    w.distinct++;
    packet->was_delivered = true;
    assemble_message(message);
  }
}

static uint32_t ssrc_of(const struct packet *packet)
{
  if (w.framing != DG_FRAMING_RTP)
    return 0;
  return packet->sender == STRAY ? packet->index + 1 : packet->sender + 1;
}

/* Before each sender the last one was silent. */
static uint64_t at_of(const struct packet *packet)
{
  return 1 + packet->sender * 4 * DG_SILENCE_MAX_NS +
         (w.has_time ? packet->index * (uint64_t)STEP_NS : 0);
}

static uint32_t read_sent(const uint8_t *payload)
{
  uint32_t sent;

  memcpy(&sent, payload, sizeof(sent));
  return sent;
}

/* A sender of unknown pace, or one that may have been silent, might have reached such a number. */
static bool may_be_no_stray(const struct packet *packet)
{
  return !w.flow.begun || w.flow.busiest == 0 || w.flow.current.ssrc != ssrc_of(packet) ||
         w.now_ns - w.flow.latest_ns >= DG_SILENCE_MIN_NS;
}

static void take_packet(uint32_t sent)
{
  const struct packet *packet = &w.sent[sent];
  bool is_sent = packet->sender < SENDERS_MAX;
  struct dg_source source = {.address = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1}, .port = 5000};
  uint8_t bytes[DG_HEADER_MAX + PAYLOAD] = {0};
  uint32_t header = dg_header_bytes(w.framing, w.numbered);
  struct dg_header made = {.sequence = packet->raw,
                           .timestamp = packet->frame * 3000,
                           .ssrc = ssrc_of(packet),
                           .nonce = packet->sender == STRANGER ? NONCE - 1 : NONCE,
                           .marker = packet->ends,
                           .has_nonce = w.numbered};
  struct dg_arrival arrival = {.source = &source,
                               .header = bytes,
                               .rest = bytes + header,
                               .total = header + PAYLOAD,
                               .readable = header + PAYLOAD};
  struct dg_message message;

  if (is_sent && at_of(packet) > w.now_ns)
    w.now_ns = at_of(packet);
  if (packet->sender == STRAY && may_be_no_stray(packet))
    return;
  arrival.time_ns = w.now_ns;
  source.address[15] = packet->sender == STRANGER && !w.numbered ? 9 : 1;
  memcpy(bytes + header, &sent, sizeof(sent));
  made.checksum = dg_byte_sum(bytes + header, PAYLOAD);
  dg_write(w.framing, &made, bytes);
  if (packet->is_damaged)
    bytes[header + PAYLOAD - 1] ^= 1;
  w.taken++;
  w.strange += packet->sender == STRANGER;
  w.stray += packet->sender == STRAY;
  w.damaged += packet->is_damaged;
  uint32_t verdict = dg_flow_take(&w.flow, &arrival, &message);
  if (verdict & DG_HELD_DELIVER)
    deliver(w.held, &w.flow.held);
  if (verdict & DG_DELIVER)
    deliver(read_sent(arrival.rest + message.offset), &message);
  if (verdict & DG_HOLD)
    w.held = read_sent(arrival.rest + w.flow.held.offset);
}

/* ---- The socket -------------------------------------------------------------------------- */

static void poll_socket(uint32_t count)
{
  for (; count && w.head != w.tail; count--, w.head++) {
    const struct buffer *buffer = &w.queue[w.head % QUEUE];
    if (buffer->count > w.flow.unit_max)
      w.flow.unit_max = buffer->count;
    dg_flow_lost(&w.flow, 0, buffer->drops - w.drops_told);
    w.drops_told = buffer->drops;
    for (uint32_t i = 0; i < buffer->count; i++)
      take_packet(w.wire[buffer->first + i]);
  }
}

/* Packets of one source become one buffer. */
static uint32_t coalesce(uint32_t at, uint32_t most)
{
  bool is_strange = w.sent[w.wire[at]].sender == STRANGER;
  uint32_t count = 1;

  while (count < most && at + count < w.wire_count &&
         (w.sent[w.wire[at + count]].sender == STRANGER) == is_strange)
    count++;
  return count;
}

static void arrive(uint32_t room)
{
  uint32_t stalled = 0, most = 1;

  for (uint32_t at = 0, count; at < w.wire_count; at += count) {
    if (w.coalesces && stalled == 0 && one_in(24))
      most = one_in(2) ? 1 : 2 + below(63);
    if (stalled == 0 && one_in(150)) {
      stalled = w.sent_count > 2000 ? 1500 + below(1500) : 4 + below(60);
      most = w.sent_count > 2000 ? 1 : most;
    }
    count = coalesce(at, most);
    if (w.tail - w.head >= room) {
      w.drops++;
      w.overflowed = true;
    } else {
      w.queue[w.tail++ % QUEUE] = (struct buffer){at, count, w.drops};
    }
    if (stalled > 1)
      stalled--;
    else if (stalled == 1) { /* many single packets were dropped, and large buffers follow */
      stalled = 0;
      most = w.coalesces ? 2 + below(63) : 1;
      poll_socket(QUEUE);
    } else if (one_in(2))
      poll_socket(1 + below(4));
  }
  poll_socket(QUEUE);
}

/* ---- Expected results ----------------------------------------------------------------------- */

static void check_counts(void)
{
  const struct dg_counts *counts = &w.flow.counts;
  uint64_t span = 0, lost, before = 0;

  HOLDS(counts->datagrams == w.taken);
  HOLDS(counts->messages == w.delivered);
  HOLDS(counts->bytes == w.delivered * PAYLOAD);
  HOLDS(counts->bad_checksum == w.damaged);
  HOLDS(w.numbered ? counts->wrong_nonce == w.strange : counts->not_ours >= w.strange);
  HOLDS(counts->too_far + counts->too_late >= w.stray);
  HOLDS(counts->restarts < w.senders);
  HOLDS(counts->datagrams == counts->messages + counts->bad_header + counts->bad_checksum +
                                 counts->too_long + counts->not_ours + counts->wrong_nonce +
                                 counts->displaced + counts->too_late + counts->too_far);
  struct dg_counts last;
  uint64_t displaced = dg_flow_last_counts(&w.flow, &last);
  HOLDS(last.displaced == counts->displaced + displaced);
  HOLDS(last.displaced + last.not_ours + last.too_far + last.too_late ==
        counts->displaced + counts->not_ours + counts->too_far + counts->too_late);
  HOLDS(!w.numbered || displaced == 0);
  for (uint32_t s = 0; s < w.senders; s++) {
    uint32_t low = UINT32_MAX, high = 0;
    for (uint32_t i = w.first_of[s]; i < w.first_of[s + 1]; i++)
      if (w.sent[i].was_delivered) {
        low = low < w.sent[i].index ? low : w.sent[i].index;
        high = w.sent[i].index;
      }
    span += low == UINT32_MAX ? 0 : w.numbered ? high + 1 : high - low + 1;
    before += s && low != UINT32_MAX;
  }
  HOLDS(w.track.next - w.track.base == span);
  HOLDS(w.track.duplicates == w.delivered - w.distinct);
  lost = span - w.distinct;
  if (w.wire_is_clean && !w.swaps && !w.damage && !w.strangers && !w.strays && !w.coalesces) {
    HOLDS(counts->lost[0] == lost);
    HOLDS(w.numbered || counts->restarts == before || w.overflowed);
  }
}

static void check_frames(void)
{
  const struct assemble_counts *counts = assemble_counts(w.assemble);
  uint64_t frames = 0;

  HOLDS(counts->complete == w.complete);
  HOLDS(counts->placed + counts->late + counts->misframed == w.distinct);
  if (!w.wire_is_clean || w.overflowed || w.damage || w.swaps || w.taken == 0)
    return;
  for (uint32_t s = 0; s < w.senders; s++) {
    const struct packet *last = &w.sent[w.first_of[s + 1] - 1];
    if (w.by_marker)
      frames += last->frame - !w.numbered; /* the start of the first is not known */
    else if (s > 0 || w.numbered)
      frames += (last->index + 1) / w.frame_packets;
    else /* frames begin at multiples of the number on the wire */
      frames += (w.next > 0) ? ((w.number_of[w.first_of[1] - 1] + 1) / w.frame_packets -
                                (w.number_of[0] + w.frame_packets - 1) / w.frame_packets)
                             : 0;
  }
  HOLDS(w.complete == frames);
}

static void set_up(void)
{
  memset(&w, 0, offsetof(struct world, sent));
  memset(&w.first_of, 0, offsetof(struct world, at) - offsetof(struct world, first_of));
  w.lowest = w.next = w.complete = w.now_ns = 0;
  w.seed = (unsigned)(schedule * 2654435761u + 12345);
  for (int i = 0; i < 4; i++)
    below(2);
  w.framing = one_in(3) ? DG_FRAMING_SEQUENCE : DG_FRAMING_RTP;
  w.numbered = one_in(3);
  w.by_marker = w.framing == DG_FRAMING_RTP && !one_in(3);
  w.frame_packets = 1 + below(FRAME_MAX);
  /* Framing `sequence` says nothing of who sends. */
  w.senders = w.numbered || w.framing == DG_FRAMING_SEQUENCE ? 1 : 1 + below(SENDERS_MAX);
  w.loss = one_in(2) ? 0 : below(100);
  w.swaps = one_in(2) ? 0 : below(200);
  w.repeats = one_in(2) ? 0 : below(200);
  w.strangers = one_in(2) ? 0 : below(100);
  w.has_time = one_in(2);
  w.strays = !w.has_time || w.numbered || one_in(2) ? 0 : below(100);
  w.damage = one_in(4) && w.framing == DG_FRAMING_SEQUENCE ? below(100) : 0;
  w.coalesces = one_in(2);
  w.wire_is_clean = true;
}

static void run_schedule(void)
{
  set_up();
  bool is_long = one_in(100);
  for (uint32_t s = 0; s < w.senders; s++)
    send_all(s, is_long && s == 0 ? 3000 + below(3000) : 2 * SETTLED + below(64));
  for (uint32_t i = 0; i < w.sent_count; i++)
    w.number_of[i] = 0;
  carry();
  const struct dg_flow_params flow = {
      .framing = w.framing,
      .numbered = w.numbered,
      .initial = w.initial[0],
      .nonce = NONCE,
      .payload_type = -1,
      .address_is_fixed = true,
      .source = {.address = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1}},
      .checks = true,
      .message_max = 100,
      .clock_rate = 90000,
      .reorder = REORDER};
  const struct assemble_params frames = {.by_marker = w.by_marker,
                                         .joins = !w.numbered,
                                         .packets = w.frame_packets,
                                         .open = 4,
                                         .buffers = 16,
                                         .timeout_ns = 100};
  dg_flow_begin(&w.flow, &flow);
  w.track.floats = !w.numbered;
  HOLDS(assemble_open(&frames, &w.assemble) == 0);
  arrive(one_in(2) ? QUEUE : 1 + below(QUEUE));
  dg_flow_end(&w.flow);
  assemble_end(w.assemble);
  take_frames();
  check_counts();
  check_frames();
  assemble_close(w.assemble);
}

static uint64_t number_in(const char *name, uint64_t otherwise)
{
  const char *text = getenv(name);
  return text ? strtoull(text, NULL, 10) : otherwise;
}

static void random_schedules_agree_with_the_model(void **state)
{
  uint64_t first = number_in("PENSTOCK_DATAGRAM_SEED", 1);
  uint64_t count = fewer(number_in("PENSTOCK_DATAGRAM_SCHEDULES", 20000));

  (void)state;
  for (schedule = first; schedule < first + count; schedule++)
    run_schedule();
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(random_schedules_agree_with_the_model)};
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
