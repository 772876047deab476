/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/datagram/flow.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "flow.h"

static const struct dg_source camera = {.address = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 1},
                                        .port = 5000};
static const struct dg_source stranger = {.address = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 9},
                                          .port = 5000};

struct packet {
  struct dg_source source;
  uint32_t sequence;
  uint32_t ssrc;
  uint32_t drops; /* a running count, as sockets have it */
  uint32_t cause; /* of those that are new */
  uint8_t payload_type;
  bool is_damaged;
  uint64_t time_ns;
  bool is_forged; /* by somebody who does not know the nonce */
};

#define NONCE UINT64_C(0xfeedfacecafebeef)

enum { FULL = 0, STARVED = 1, DAMAGED = 2 }; /* causes */

static struct dg_message message;
static uint32_t drops_told;

static struct dg_flow begin(enum dg_framing framing, bool numbered, uint32_t initial)
{
  struct dg_flow flow;
  struct dg_flow_params params = {.framing = framing,
                                  .numbered = numbered,
                                  .initial = initial,
                                  .nonce = NONCE,
                                  .payload_type = -1,
                                  .checks = true,
                                  .message_max = 100,
                                  .clock_rate = 90000,
                                  .reorder = 100};
  dg_flow_begin(&flow, &params);
  drops_told = 0;
  return flow;
}

static uint32_t take(struct dg_flow *flow, const struct packet *packet)
{
  uint8_t bytes[32] = {[25] = 7};
  uint32_t header = dg_header_bytes(flow->params.framing, flow->params.numbered);
  struct dg_header made = {.sequence = packet->sequence,
                           .checksum = dg_byte_sum(bytes + header, 32 - header),
                           .ssrc = packet->ssrc,
                           .nonce = packet->is_forged ? NONCE + 1 : NONCE,
                           .payload_type = packet->payload_type,
                           .has_nonce = flow->params.numbered};
  struct dg_arrival arrival = {.source = &packet->source,
                               .header = bytes,
                               .rest = bytes + header,
                               .total = sizeof(bytes),
                               .readable = sizeof(bytes),
                               .time_ns = packet->time_ns};
  dg_write(flow->params.framing, &made, bytes);
  if (packet->is_damaged)
    bytes[30] ^= 1;
  dg_flow_lost(flow, packet->cause, packet->drops - drops_told);
  drops_told = packet->drops;
  uint32_t verdict = dg_flow_take(flow, &arrival, &message);
  const struct dg_counts *counts = &flow->counts;
  assert_int_equal(counts->datagrams, counts->messages + counts->bad_header + counts->bad_checksum +
                                          counts->too_long + counts->not_ours +
                                          counts->wrong_nonce + counts->displaced +
                                          counts->too_late + counts->too_far + flow->holds);
  return verdict;
}

static void deliver(struct dg_flow *flow, struct packet packet, uint64_t sequence)
{
  assert_int_equal(take(flow, &packet) & ~(uint32_t)DG_HELD_DROP, DG_DELIVER);
  assert_int_equal(message.sequence, sequence);
}

static void first_from_a_penstock_is_0(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, true, 0xfffe);

  (void)state;
  for (uint32_t i = 3; i < 100000; i++)
    deliver(&flow, (struct packet){camera, (0xfffe + i) & 0xffff}, i);
  assert_int_equal(flow.counts.messages, 100000 - 3);
}

/* Forged datagrams with the sender's address and port, however many in a row. */
static void forged_ones_move_nothing(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, true, 0);
  struct packet forged = {camera, .is_forged = true};

  (void)state;
  for (uint32_t i = 0; i < 100; i++) {
    deliver(&flow, (struct packet){camera, i}, i);
    for (uint32_t k = 0; k < 3; k++) {
      forged.sequence = 20000 + k;
      assert_int_equal(take(&flow, &forged), 0);
    }
  }
  assert_int_equal(flow.counts.messages, 100);
  assert_int_equal(flow.counts.wrong_nonce, 300);
  assert_int_equal(flow.counts.heard, 0); /* no sign of life */
}

/* Without a header nothing but the address says who sends. */
static void the_first_address_of_a_penstock_is_its(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_NONE, false, 0);
  struct packet other = {stranger};

  (void)state;
  flow.params.address_locks = true;
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(take(&flow, &(struct packet){camera}), DG_DELIVER);
    assert_int_equal(take(&flow, &other), 0);
  }
  assert_int_equal(flow.counts.not_ours, 3);
  assert_int_equal(flow.counts.heard, 0);
}

static void a_penstock_without_headers_has_one_of_its_hosts_addresses(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_NONE, false, 0);
  struct packet other = {stranger};

  (void)state;
  flow.params.address_locks = true;
  memcpy(flow.params.hosts[0], camera.address, sizeof(camera.address));
  flow.params.hosts[0][15] ^= 0x55; /* nobody's */
  memcpy(flow.params.hosts[1], camera.address, sizeof(camera.address));
  flow.params.host_count = 2;
  assert_int_equal(take(&flow, &other), 0); /* before its first message, too */
  assert_int_equal(take(&flow, &(struct packet){camera}), DG_DELIVER);
  assert_int_equal(take(&flow, &other), 0);
  assert_int_equal(flow.counts.not_ours, 2);
}

/* 1000 messages a second, and 40000 drops of a stranger's between two of them. */
static void drops_beyond_the_own_pace_add_no_turn(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, true, 0);
  struct packet packet = {camera};

  (void)state;
  for (; packet.sequence < 1000; packet.sequence++) {
    packet.time_ns += 1000000;
    deliver(&flow, packet, packet.sequence);
  }
  packet.time_ns += 2000000;
  packet.sequence = 1001;
  packet.drops = 40000;
  deliver(&flow, packet, 1001);
  /* Time enough for as many: the nearest number that fits. */
  packet.time_ns += UINT64_C(65536) * 1000000;
  packet.sequence = 1002;
  packet.drops += 65000;
  deliver(&flow, packet, 65536 + 1002);
}

static void first_from_a_foreigner_leaves_room_for_late_ones(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);

  (void)state;
  deliver(&flow, (struct packet){camera, 1}, 65536 + 1);
  deliver(&flow, (struct packet){camera, 0xffff}, 65535);
  deliver(&flow, (struct packet){camera, 0}, 65536);
  deliver(&flow, (struct packet){camera, 2}, 65536 + 2);
}

static const uint64_t pause_ns = DG_SILENCE_MAX_NS;

static void another_ssrc_twice_is_a_restart_once_the_first_is_silent(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
  struct packet anew = {camera, 40000, 8};

  (void)state;
  anew.source.port = 6000;
  for (uint32_t i = 0; i < 5; i++)
    deliver(&flow, (struct packet){camera, 100 + i, 7}, 65536 + 100 + i);
  anew.time_ns = pause_ns;
  assert_int_equal(take(&flow, &anew), DG_HOLD);
  anew.sequence++;
  assert_int_equal(take(&flow, &anew), DG_HELD_DELIVER | DG_DELIVER);
  assert_int_equal(flow.held.sequence, 65536 + 105); /* no loss is invented */
  assert_true(flow.held.is_restart && !message.is_restart);
  assert_int_equal(message.sequence, 65536 + 106);
  anew.sequence++;
  deliver(&flow, anew, 65536 + 107);
  assert_int_equal(flow.counts.restarts, 1);
  /* Late ones are no other restart; what the sender before still sends is lost. */
  for (anew.sequence = 39998; anew.sequence < 40000; anew.sequence++)
    assert_int_equal(take(&flow, &anew), 0);
  assert_int_equal(take(&flow, &(struct packet){camera, 105, 7, .time_ns = pause_ns}), 0);
  assert_int_equal(flow.counts.displaced, 1);
  assert_int_equal(dg_flow_no_gap(&flow), 1);
  anew.sequence = 40003;
  assert_int_equal(take(&flow, &anew), DG_DELIVER);
  assert_int_equal(flow.counts.too_late, 2);
  assert_int_equal(flow.counts.restarts, 1);
}

/* Two datagrams, or a thousand, of a second sender do not take a stream over. */
static void a_sender_that_goes_on_is_not_replaced(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);

  (void)state;
  for (uint32_t i = 0; i < 1000; i++) {
    uint64_t now_ns = (i + 1) * UINT64_C(20000000);
    deliver(&flow, (struct packet){camera, i, 7, .time_ns = now_ns}, 65536 + i);
    for (uint32_t k = 0; k < 3; k++)
      assert_int_equal(
          take(&flow, &(struct packet){camera, 3 * i + k, 8, .time_ns = now_ns + 19000000}), 0);
  }
  assert_int_equal(flow.counts.restarts, 0);
  assert_int_equal(flow.counts.not_ours, 3000);
  assert_int_equal(dg_flow_no_gap(&flow), 0);
}

/* Frames at 10 a second pause for 100 ms. */
static void a_pause_that_is_usual_is_no_silence(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
  uint64_t now_ns = 1;

  (void)state;
  for (uint32_t i = 0; i < 20; i++, now_ns += 100000000)
    deliver(&flow, (struct packet){camera, i, 7, .time_ns = now_ns}, 65536 + i);
  for (uint32_t i = 0; i < 5; i++)
    assert_int_equal(take(&flow, &(struct packet){camera, i, 8, .time_ns = now_ns}), 0);
  now_ns += 100000000;
  assert_int_equal(take(&flow, &(struct packet){camera, 5, 8, .time_ns = now_ns}), DG_HOLD);
}

/* Messages that a new sender sent while the first one could still go on are lost, and counted as
 * lost. */
static void a_quick_restart_loses_and_says_so(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);

  (void)state;
  deliver(&flow, (struct packet){camera, 1, 7, .time_ns = 1}, 65537);
  for (uint32_t i = 0; i < 10; i++)
    assert_int_equal(take(&flow, &(struct packet){camera, i, 8, .time_ns = 1000}), 0);
  assert_int_equal(flow.counts.not_ours, 10);
  take(&flow, &(struct packet){camera, 10, 8, .time_ns = pause_ns});
  take(&flow, &(struct packet){camera, 11, 8, .time_ns = pause_ns});
  assert_int_equal(flow.counts.restarts, 1);
  assert_int_equal(flow.counts.not_ours, 0);
  assert_int_equal(flow.counts.displaced, 10);
  assert_int_equal(dg_flow_no_gap(&flow), 10);
}

/* Messages in order from *packet on, one in each_ns. */
static void go_on(struct dg_flow *flow, struct packet *packet, uint32_t count, uint64_t each_ns)
{
  for (uint32_t i = 0; i < count; i++) {
    packet->sequence++;
    packet->time_ns += each_ns;
    assert_int_equal(take(flow, packet), DG_DELIVER);
    assert_int_equal(message.sequence & flow->sequence.mask,
                     packet->sequence & flow->sequence.mask);
  }
}

static uint32_t take_stray(struct dg_flow *flow, const struct packet *packet, int64_t ahead,
                           uint64_t after_ns)
{
  struct packet stray = *packet;

  stray.sequence += (uint32_t)ahead;
  stray.time_ns += after_ns;
  return take(flow, &stray);
}

static uint64_t last_counts(const struct dg_flow *flow, struct dg_counts *counts)
{
  uint64_t displaced = dg_flow_last_counts(flow, counts);

  assert_int_equal(counts->displaced, flow->counts.displaced + displaced);
  assert_int_equal(counts->not_ours + counts->too_far + counts->too_late + counts->displaced,
                   flow->counts.not_ours + flow->counts.too_far + flow->counts.too_late +
                       flow->counts.displaced);
  return displaced;
}

/* A stream that ends by another sender's datagrams lost them; one that goes on did not. */
static void a_quick_restart_at_the_end_is_lost(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
  struct dg_counts counts;

  (void)state;
  deliver(&flow, (struct packet){camera, 1, 7, .time_ns = 1}, 65537);
  take(&flow, &(struct packet){camera, 40000, 8, .time_ns = 1000});
  assert_int_equal(last_counts(&flow, &counts), 0); /* one alone is a stray */
  for (uint32_t i = 1; i < 10; i++)
    take(&flow, &(struct packet){camera, 40000 + i, 8, .time_ns = 1000});
  assert_int_equal(last_counts(&flow, &counts), 10);
  assert_int_equal(counts.not_ours, 0);
  assert_int_equal(flow.counts.not_ours, 10);
  assert_int_equal(flow.counts.others, 10);
  assert_int_equal(flow.counts.heard, 10);
  deliver(&flow, (struct packet){camera, 2, 7, .time_ns = 2000}, 65538);
  assert_int_equal(last_counts(&flow, &counts), 0);
  for (uint32_t i = 0; i < 10; i++) /* neither number follows the other */
    take(&flow, &(struct packet){camera, 40000 + 2 * i, 8, .time_ns = 3000});
  assert_int_equal(last_counts(&flow, &counts), 0);
  take(&flow, &(struct packet){stranger, 40019, 8, .time_ns = 3000});
  assert_int_equal(last_counts(&flow, &counts), 0);
  assert_int_equal(flow.counts.others, 20);
}

/* With its own SSRC, ahead of all numbers or behind them. */
static void a_quick_restart_with_the_same_ssrc_is_lost(void **state)
{
  static const int64_t aheads[] = {20000, -20000};
  struct dg_counts counts;

  (void)state;
  for (size_t i = 0; i < 2; i++) {
    struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
    struct packet packet = {camera, 30000, .time_ns = 1};
    take(&flow, &packet);
    go_on(&flow, &packet, 100, 500000);
    for (int64_t k = 0; k < 5; k++)
      take_stray(&flow, &packet, aheads[i] + k, 1000);
    assert_int_equal(last_counts(&flow, &counts), 5);
    assert_int_equal(counts.too_far + counts.too_late, 0);
  }
}

/* A gap of 50 is lost already: what comes of it very late is not lost once more. */
static void very_late_ones_at_the_end_are_no_restart(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
  struct packet packet = {camera, 30000, .time_ns = 1};
  struct dg_counts counts;

  (void)state;
  take(&flow, &packet);
  go_on(&flow, &packet, 100, 500000);
  packet.sequence += 50;
  go_on(&flow, &packet, 2000, 500000);
  for (int64_t k = 0; k < 50; k++)
    take_stray(&flow, &packet, -2049 + k, 1000);
  assert_int_equal(flow.counts.too_late, 50);
  assert_int_equal(last_counts(&flow, &counts), 0);
  take_stray(&flow, &packet, -1999, 1000); /* and one more than was lost */
  assert_int_equal(last_counts(&flow, &counts), 51);
}

static void what_is_refused_behind_the_last_is_lost(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, false, 0);
  const uint64_t base = UINT64_C(1) << 32;

  (void)state;
  take(&flow, &(struct packet){camera, 3, .is_damaged = true});
  assert_int_equal(dg_flow_no_gap(&flow), 1); /* of one that is followed then */
  deliver(&flow, (struct packet){camera, 4}, base + 4);
  take(&flow, &(struct packet){camera, 5, .is_damaged = true});
  take(&flow, &(struct packet){camera, 5, .is_damaged = true});
  take(&flow, &(struct packet){camera, 2, .is_damaged = true});
  take(&flow, &(struct packet){stranger, 6, .is_damaged = true});
  assert_int_equal(dg_flow_no_gap(&flow), 2);
  assert_int_equal(flow.counts.not_ours, 1);
  assert_int_equal(flow.counts.heard, 3); /* the first alone begins nothing */
  deliver(&flow, (struct packet){camera, 6}, base + 6);
  assert_int_equal(dg_flow_no_gap(&flow), 1); /* the other has left a gap */
}

/* Before the first message a few may be strays; so may any number, one now and then. */
static void many_that_are_no_message_are_heard_before_the_first(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, false, 0);
  struct packet packet = {camera, .is_damaged = true};

  (void)state;
  for (uint32_t i = 0; i < 3 * DG_USELESS_MIN; i++, packet.time_ns += pause_ns / 2)
    take(&flow, &packet);
  assert_int_equal(flow.counts.heard, 0);
  packet.time_ns += 2 * pause_ns;
  for (uint32_t i = 0; i < DG_USELESS_MIN - 1; i++)
    take(&flow, &packet);
  assert_int_equal(flow.counts.heard, 0);
  take(&flow, &packet);
  packet.time_ns += 2 * pause_ns;
  take(&flow, &packet);
  assert_int_equal(flow.counts.heard, 2);
}

static void another_payload_type_has_numbers_and_is_no_loss(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);

  (void)state;
  flow.params.payload_type = 96;
  for (uint32_t i = 0; i < 300; i += 3) {
    deliver(&flow, (struct packet){camera, i, .payload_type = 96}, 65536 + i);
    for (uint32_t k = 0; k < 3; k++) /* one comes twice */
      take(&flow, &(struct packet){camera, i + 1 + k % 2, .payload_type = 122});
  }
  assert_int_equal(flow.counts.no_message, 99 * 2); /* none is known behind the last */
  assert_int_equal(flow.counts.not_ours, 300);
}

static void rtcp_is_no_message(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
  uint8_t bytes[28] = {0x80, 200, 0, 6};
  struct dg_arrival arrival = {.source = &camera,
                               .header = bytes,
                               .rest = bytes + 12,
                               .total = sizeof(bytes),
                               .readable = sizeof(bytes)};

  (void)state;
  assert_int_equal(dg_flow_take(&flow, &arrival, &message), 0);
  for (uint32_t type = 192; type < 224; type++) {
    bytes[1] = (uint8_t)type;
    assert_int_equal(dg_flow_take(&flow, &arrival, &message), 0);
  }
  assert_int_equal(flow.counts.not_ours, 33);
  deliver(&flow, (struct packet){camera, 9}, 65536 + 9);
}

static void far_back_twice_is_a_restart_once_is_too_late(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, false, 0);
  const uint64_t base = UINT64_C(1) << 32;
  struct packet packet = {camera, 5000};

  (void)state;
  deliver(&flow, packet, base + 5000);
  packet = (struct packet){camera, 0, .time_ns = pause_ns};
  assert_int_equal(take(&flow, &packet), DG_HOLD);
  packet.sequence = 5001;
  deliver(&flow, packet, base + 5001);
  assert_int_equal(flow.counts.too_late, 1);
  packet = (struct packet){camera, 0, .time_ns = 2 * pause_ns};
  assert_int_equal(take(&flow, &packet), DG_HOLD);
  packet.sequence = 1;
  assert_int_equal(take(&flow, &packet), DG_HELD_DELIVER | DG_DELIVER);
  assert_int_equal(message.sequence, base + 5003);
  packet.sequence = 2;
  deliver(&flow, packet, base + 5004);
  assert_int_equal(flow.counts.restarts, 1);
  assert_int_equal(dg_flow_no_gap(&flow), 0);
}

/* The followed sender's address and SSRC, and numbers that it cannot have reached: one, two or more
 * in a row, ahead or back, move nothing while it goes on. */
static void what_rate_and_time_do_not_allow_moves_nothing(void **state)
{
  static const int64_t aheads[] = {1200, 2900, 20000, 32000, -1200, -20000, -32000};
  const size_t kinds = sizeof(aheads) / sizeof(aheads[0]);
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
  struct packet packet = {camera, .time_ns = 1};
  uint64_t strays = 0;

  (void)state;
  take(&flow, &packet);
  go_on(&flow, &packet, 100, 500000);
  for (uint32_t round = 0; round < 5; round++)
    for (size_t i = 0; i < kinds; i++, strays += 1 + round) {
      for (int64_t k = 0; k <= round; k++)
        assert_int_equal(take_stray(&flow, &packet, aheads[i] + k, 1000), 0);
      go_on(&flow, &packet, 30, 500000);
    }
  assert_int_equal(flow.counts.too_far, strays / kinds * 4);
  assert_int_equal(flow.counts.too_late, strays / kinds * 3);
  assert_int_equal(flow.counts.heard, strays);
  assert_int_equal(flow.counts.messages, 1 + 100 + 5 * kinds * 30);
  assert_int_equal(flow.counts.restarts, 0);
  assert_int_equal(dg_flow_no_gap(&flow), 0);
}

/* Nor does a flood of what the kernel drops make room for it. */
static void drops_of_others_make_no_room_for_a_jump(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, false, 0);
  struct packet packet = {camera, .time_ns = 1};

  (void)state;
  take(&flow, &packet);
  go_on(&flow, &packet, 100, 500000);
  packet.drops = 1000000;
  assert_int_equal(take_stray(&flow, &packet, 900000, 500000), 0);
  assert_int_equal(take_stray(&flow, &packet, 900001, 500000), 0);
  go_on(&flow, &packet, 2, 500000);
  assert_int_equal(flow.counts.too_far, 2);
}

/* A Penstock's own number is believed: it was slow, and then the kernel dropped a burst. */
static void drops_make_room_for_the_jump_of_a_penstock(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, true, 0);
  struct packet packet = {camera, .time_ns = 1};

  (void)state;
  take(&flow, &packet);
  go_on(&flow, &packet, 100, 500000);
  packet.sequence += 30000;
  packet.drops = 29999;
  packet.time_ns += 1000000;
  deliver(&flow, packet, 30100);
  assert_int_equal(flow.counts.lost[FULL], 29999);
}

/* 2000 a second: 10 s without any of 20000 is loss, and followed at once. */
static void a_jump_that_rate_and_time_allow_is_followed_at_once(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
  struct packet packet = {camera, .time_ns = 1};

  (void)state;
  take(&flow, &packet);
  go_on(&flow, &packet, 100, 500000);
  packet.sequence += 20000;
  packet.time_ns += UINT64_C(20000) * 500000;
  deliver(&flow, packet, 65536 + 20100);
  assert_int_equal(flow.counts.restarts + flow.counts.too_far, 0);
}

/* 1000000 a second: 20000 can have been lost at a stroke. The next number tells. */
static void a_jump_of_a_fast_sender_waits_for_the_next(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
  struct packet packet = {camera, .time_ns = 1};

  (void)state;
  take(&flow, &packet);
  go_on(&flow, &packet, 12000, 1000);
  assert_int_equal(take_stray(&flow, &packet, 20000, 1000), DG_HOLD);
  packet.sequence++;
  assert_int_equal(take(&flow, &packet), DG_HELD_DROP | DG_DELIVER);
  packet.sequence += 20000;
  assert_int_equal(take(&flow, &packet), DG_HOLD);
  packet.sequence++;
  assert_int_equal(take(&flow, &packet), DG_HELD_DELIVER | DG_DELIVER);
  assert_int_equal(message.sequence, 65536 + 32002);
  assert_int_equal(flow.counts.too_far, 1);
}

/* The same address and SSRC, and other numbers: what came before the silence is lost. */
static void a_restart_within_the_source_waits_for_silence(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
  struct packet packet = {camera, .time_ns = 1};
  const uint64_t silence_ns = DG_SILENCE_MIN_NS;

  (void)state;
  take(&flow, &packet);
  go_on(&flow, &packet, 100, 500000);
  assert_int_equal(take_stray(&flow, &packet, -9000, 1000), 0); /* nobody's */
  go_on(&flow, &packet, 1, 500000);
  for (int64_t i = 0; i < 10; i++)
    assert_int_equal(take_stray(&flow, &packet, 30000 + i, silence_ns / 2), 0);
  assert_int_equal(flow.counts.too_far, 10);
  assert_int_equal(take_stray(&flow, &packet, 30010, silence_ns), DG_HOLD);
  assert_int_equal(take_stray(&flow, &packet, 30011, silence_ns), DG_HELD_DELIVER | DG_DELIVER);
  assert_int_equal(flow.held.sequence, 65536 + 102); /* no loss is invented */
  assert_true(flow.held.is_restart);
  assert_int_equal(flow.counts.restarts, 1);
  assert_int_equal(flow.counts.too_far, 0);
  assert_int_equal(flow.counts.too_late, 1);
  assert_int_equal(flow.counts.displaced, 10);
  assert_int_equal(dg_flow_no_gap(&flow), 10);
}

static void a_penstock_never_starts_anew(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, true, 0);

  (void)state;
  deliver(&flow, (struct packet){camera, 3000}, 3000);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(take(&flow, &(struct packet){camera, i}), 0);
  assert_int_equal(flow.counts.too_late, 3);
}

static void a_far_jump_is_loss_once_its_successor_has_come(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, false, 0);
  const uint64_t base = UINT64_C(1) << 32;

  (void)state;
  deliver(&flow, (struct packet){camera, 1}, base + 1);
  deliver(&flow, (struct packet){camera, 3002}, base + 3002);
  assert_int_equal(take(&flow, &(struct packet){camera, 0x7ffffffe}), DG_HOLD);
  assert_int_equal(take(&flow, &(struct packet){camera, 0x7fffffff}), DG_HELD_DELIVER | DG_DELIVER);
  assert_int_equal(flow.held.sequence, base + 0x7ffffffe);
  assert_int_equal(message.sequence, base + 0x7fffffff);
  assert_int_equal(flow.counts.restarts, 0);
}

static void one_far_number_moves_nothing(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, true, 0);

  (void)state;
  for (uint32_t i = 0; i < 100; i++) {
    assert_int_equal(take(&flow, &(struct packet){camera, 0x70000000 + 5 * i}) & ~DG_HELD_DROP,
                     DG_HOLD);
    deliver(&flow, (struct packet){camera, i}, i);
  }
  assert_int_equal(flow.counts.too_far, 100);
  flow.unit_max = 2; /* what the kernel dropped is no surprise */
  deliver(&flow, (struct packet){camera, 23000, .drops = 10000}, 23000);
}

static void others_are_classified(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, false, 0);
  uint8_t bytes[12] = {0x40};
  struct dg_arrival arrival = {
      .source = &camera, .header = bytes, .rest = bytes + 12, .readable = UINT32_MAX};

  (void)state;
  flow.params.payload_type = 96;
  deliver(&flow, (struct packet){camera, 1, .payload_type = 96}, 65537);
  assert_int_equal(take(&flow, &(struct packet){camera, 2, .payload_type = 97}), 0);
  assert_int_equal(take(&flow, &(struct packet){stranger, 2, .payload_type = 96}), 0);
  arrival.total = 12;
  assert_int_equal(dg_flow_take(&flow, &arrival, &message), 0);
  assert_int_equal(flow.counts.not_ours, 3);
  arrival.total = 11;
  assert_int_equal(dg_flow_take(&flow, &arrival, &message), 0);
  assert_int_equal(flow.counts.bad_header, 1);
  arrival.is_cut = true;
  assert_int_equal(dg_flow_take(&flow, &arrival, &message), 0);
  flow.params.message_max = 19;
  assert_int_equal(take(&flow, &(struct packet){camera, 2, .payload_type = 96}), 0);
  assert_int_equal(flow.counts.too_long, 2);
  assert_int_equal(flow.counts.messages, 1);
}

static void damaged_payloads_are_refused_unless_nobody_checks(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, true, 0);

  (void)state;
  assert_int_equal(take(&flow, &(struct packet){camera, 0, .is_damaged = true}), 0);
  assert_int_equal(flow.counts.bad_checksum, 1);
  flow.params.checks = false;
  deliver(&flow, (struct packet){camera, 1, .is_damaged = true}, 1);
}

static void drops_are_matched_with_the_gap_behind_them(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, true, 0);

  (void)state;
  deliver(&flow, (struct packet){camera, 0, .drops = 0}, 0);
  deliver(&flow, (struct packet){camera, 11, .drops = 4}, 11); /* 10 missing, 6 on the wire */
  assert_int_equal(flow.counts.lost[FULL], 4);
  deliver(&flow, (struct packet){camera, 12, .drops = 9}, 12); /* a stranger's */
  assert_int_equal(flow.counts.lost[FULL], 4);
  deliver(&flow, (struct packet){camera, 20, .drops = 9}, 20);
  assert_int_equal(flow.counts.lost[FULL], 4);
  deliver(&flow, (struct packet){camera, 24, .drops = 12, .cause = STARVED}, 24);
  assert_int_equal(flow.counts.lost[STARVED], 3);
  flow.unit_max = 45; /* each drop may have been so many */
  deliver(&flow, (struct packet){camera, 125, .drops = 15}, 125);
  assert_int_equal(flow.counts.lost[FULL], 4 + 100);
  dg_flow_lost(&flow, DAMAGED, 2);
  assert_int_equal(flow.credit, 2);
}

/* Each cause explains what it can; earlier causes go before later ones. */
static void gap_of_several_causes_is_shared_in_their_order(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_SEQUENCE, true, 0);

  (void)state;
  deliver(&flow, (struct packet){camera, 0}, 0);
  dg_flow_lost(&flow, DAMAGED, 3);
  dg_flow_lost(&flow, STARVED, 5);
  dg_flow_lost(&flow, FULL, 2);
  deliver(&flow, (struct packet){camera, 9}, 9); /* 8 are missing */
  assert_int_equal(flow.counts.lost[FULL], 2);
  assert_int_equal(flow.counts.lost[STARVED], 5);
  assert_int_equal(flow.counts.lost[DAMAGED], 1);
  assert_int_equal(flow.credit + flow.credits[DAMAGED], 0); /* two were a stranger's */
  flow = begin(DG_FRAMING_NONE, false, 0);
  dg_flow_lost(&flow, STARVED, 5);
  dg_flow_lost(&flow, DAMAGED, 3);
  take(&flow, &(struct packet){camera});
  assert_int_equal(flow.counts.lost[STARVED], 5); /* no number tells */
  assert_int_equal(flow.counts.lost[DAMAGED], 3);
}

/* 2000 single datagrams are dropped, then a buffer of 40 comes. */
static void a_long_buffer_behind_dropped_single_ones_invents_nothing(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, true, 0);

  (void)state;
  deliver(&flow, (struct packet){camera, 0}, 0);
  flow.unit_max = 40;
  for (uint32_t i = 0; i < 40; i++)
    deliver(&flow, (struct packet){camera, 2001 + i, .drops = 2000}, 2001 + i);
  assert_int_equal(flow.counts.lost[FULL], 2000);
}

static void source_ssrc_and_meta_are_reported(void **state)
{
  struct dg_flow flow = begin(DG_FRAMING_RTP, true, 0);
  struct packet other = {camera, 1, 77};

  (void)state;
  flow.params.ssrc_is_fixed = true;
  flow.params.ssrc = 77;
  flow.params.port_is_fixed = true;
  flow.params.source = camera;
  deliver(&flow, (struct packet){camera, 0, 77}, 0);
  assert_true(message.has_meta);
  assert_int_equal(message.meta, UINT64_C(77) << 32);
  assert_int_equal(take(&flow, &(struct packet){camera, 1, 78}), 0);
  other.source.port = 5001;
  assert_int_equal(take(&flow, &other), 0);
  assert_int_equal(flow.counts.not_ours, 2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_from_a_penstock_is_0),
      cmocka_unit_test(forged_ones_move_nothing),
      cmocka_unit_test(the_first_address_of_a_penstock_is_its),
      cmocka_unit_test(a_penstock_without_headers_has_one_of_its_hosts_addresses),
      cmocka_unit_test(drops_beyond_the_own_pace_add_no_turn),
      cmocka_unit_test(first_from_a_foreigner_leaves_room_for_late_ones),
      cmocka_unit_test(another_ssrc_twice_is_a_restart_once_the_first_is_silent),
      cmocka_unit_test(a_sender_that_goes_on_is_not_replaced),
      cmocka_unit_test(a_pause_that_is_usual_is_no_silence),
      cmocka_unit_test(a_quick_restart_loses_and_says_so),
      cmocka_unit_test(a_quick_restart_at_the_end_is_lost),
      cmocka_unit_test(a_quick_restart_with_the_same_ssrc_is_lost),
      cmocka_unit_test(very_late_ones_at_the_end_are_no_restart),
      cmocka_unit_test(what_is_refused_behind_the_last_is_lost),
      cmocka_unit_test(many_that_are_no_message_are_heard_before_the_first),
      cmocka_unit_test(another_payload_type_has_numbers_and_is_no_loss),
      cmocka_unit_test(rtcp_is_no_message),
      cmocka_unit_test(one_far_number_moves_nothing),
      cmocka_unit_test(far_back_twice_is_a_restart_once_is_too_late),
      cmocka_unit_test(what_rate_and_time_do_not_allow_moves_nothing),
      cmocka_unit_test(drops_of_others_make_no_room_for_a_jump),
      cmocka_unit_test(drops_make_room_for_the_jump_of_a_penstock),
      cmocka_unit_test(a_jump_that_rate_and_time_allow_is_followed_at_once),
      cmocka_unit_test(a_jump_of_a_fast_sender_waits_for_the_next),
      cmocka_unit_test(a_restart_within_the_source_waits_for_silence),
      cmocka_unit_test(a_penstock_never_starts_anew),
      cmocka_unit_test(a_far_jump_is_loss_once_its_successor_has_come),
      cmocka_unit_test(others_are_classified),
      cmocka_unit_test(damaged_payloads_are_refused_unless_nobody_checks),
      cmocka_unit_test(drops_are_matched_with_the_gap_behind_them),
      cmocka_unit_test(gap_of_several_causes_is_shared_in_their_order),
      cmocka_unit_test(a_long_buffer_behind_dropped_single_ones_invents_nothing),
      cmocka_unit_test(source_ssrc_and_meta_are_reported),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
