/* SPDX-License-Identifier: Apache-2.0 */
/* Frames that follow each other and are alike are taken in rows; what is not alike ends a row, and
 * is judged by itself. The port is this file's, and eth_rx_take() is counted. */
#include "header_cache.h"
#include "receiver.h"

enum { SPARES = 32 };

static uint8_t memory[SLOTS * STRIDE];
static struct pst_mr mr = {.cpu = {memory, sizeof(memory), PST_ACCESS_LOCAL_WRITE}};
static struct rte_mempool *inbox_pool;
static struct pst_completion got[ETH_BURST];
static const struct eth_driver driver = {.name = "memif", .traits = ETH_DONE_AT_ONCE};
static uint32_t singles; /* frames that came by eth_rx_take() */

/* Frames that will arrive. */
static struct {
  uint8_t bytes[STRIDE];
  uint32_t length;
  uint64_t ol_flags;
  uint16_t segments;
} frames[ETH_BURST];
static uint32_t frame_count;

uint64_t eth_time_of(const struct eth_port *from, const struct rte_mbuf *mbuf)
{
  (void)from, (void)mbuf;
  return 77;
}

uint32_t __real_eth_rx_take(struct pst_endpoint *who, struct rte_mbuf *mbuf,
                            const struct eth_packet *packet, uint64_t now_ns,
                            struct pst_completion *out, uint32_t max, bool *is_kept);
uint32_t __wrap_eth_rx_take(struct pst_endpoint *who, struct rte_mbuf *mbuf,
                            const struct eth_packet *packet, uint64_t now_ns,
                            struct pst_completion *out, uint32_t max, bool *is_kept);

uint32_t __wrap_eth_rx_take(struct pst_endpoint *who, struct rte_mbuf *mbuf,
                            const struct eth_packet *packet, uint64_t now_ns,
                            struct pst_completion *out, uint32_t max, bool *is_kept)
{
  singles++;
  return __real_eth_rx_take(who, mbuf, packet, now_ns, out, max, is_kept);
}

/* ---- The device --------------------------------------------------------------------------------
 */

static uint16_t burst(void *rxq, struct rte_mbuf **mbufs, uint16_t most)
{
  const uint16_t n = (uint16_t)RTE_MIN((uint32_t)most, frame_count);

  (void)rxq;
  for (uint16_t i = 0; i < n; i++) {
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(ring.pool->mempool);
    assert_non_null(mbuf);
    memcpy(rte_pktmbuf_mtod(mbuf, uint8_t *), frames[i].bytes, frames[i].length);
    mbuf->data_len = (uint16_t)frames[i].length;
    mbuf->pkt_len = frames[i].length;
    mbuf->ol_flags |= frames[i].ol_flags;
    if (frames[i].segments > 1) {
      mbuf->next = rte_pktmbuf_alloc(inbox_pool);
      mbuf->nb_segs = frames[i].segments;
      mbuf->next->data_len = 10;
      mbuf->pkt_len += 10;
    }
    mbufs[i] = mbuf;
  }
  frame_count = 0;
  return n;
}

/* The next message, of as many bytes as its length says. */
static uint8_t *send_frame(uint32_t sequence, uint32_t length)
{
  assert_true(frame_count < ETH_BURST);
  frames[frame_count].length = receiver_frame(sequence, length, (uint8_t)sequence, 5004,
                                              ETH_CHECKSUM_NONE, frames[frame_count].bytes);
  frames[frame_count].ol_flags = 0;
  frames[frame_count].segments = 1;
  return frames[frame_count++].bytes;
}

static void send_frames(uint32_t first, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    send_frame(first + i, 100 + i);
}

/* ---- The plugin --------------------------------------------------------------------------------
 */

static int start_dpdk(void **state)
{
  (void)state;
  if (dpdk_start() < 0)
    return -1;
  inbox_pool = rte_pktmbuf_pool_create("others", 255, 0, ETH_MBUF_PRIVATE, STRIDE, SOCKET_ID_ANY);
  return inbox_pool ? 0 : -1;
}

static int open_all(void **state)
{
  const struct eth_pool_params pool = {.lead = RTE_PKTMBUF_HEADROOM + ETH_HEADER_MIN + SEQUENCE,
                                       .spares = SPARES,
                                       .socket = SOCKET_ID_ANY};
  const struct dg_flow_params flow = {.framing = DG_FRAMING_SEQUENCE,
                                      .payload_type = -1,
                                      .message_max = PAYLOAD,
                                      .reorder = 16,
                                      .numbered = false};

  (void)state;
  frame_count = singles = 0;
  receiver_begin(&driver, memory);
  ring.mr = &mr;
  ring.cpu.number = 3;
  queue.own = inbox_pool;
  receiver_open(&pool, &flow, burst);
  return 0;
}

/* Whatever came, no mbuf is lost, and each slot that is out was given out once. */
static int close_all(void **state)
{
  (void)state;
  receiver_close(SPARES);
  assert_int_equal(rte_mempool_avail_count(inbox_pool), 255);
  return 0;
}

static uint32_t poll_most(uint32_t most)
{
  return eth_rxq_poll(&queue, &worker, got, most);
}

static uint32_t poll(void)
{
  return poll_most(ETH_BURST);
}

static void assert_messages(uint32_t n, uint32_t first)
{
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t sequence = first + i;
    const uint8_t *at = memory + got[i].u.message.offset;
    assert_int_equal(got[i].kind, PST_COMPLETION_MESSAGE);
    assert_int_equal(got[i].endpoint, 7);
    assert_int_equal((uint32_t)got[i].u.message.sequence, sequence);
    assert_true(got[i].flags & PST_HAS_SEQUENCE);
    assert_int_equal(pst_token_slot(got[i].u.message.token), got[i].u.message.offset / STRIDE);
    for (uint32_t b = 0; b < got[i].u.message.length; b++)
      assert_int_equal(at[b], (uint8_t)(sequence + b));
  }
}

static void release(uint32_t n)
{
  for (uint32_t i = 0; i < n; i++)
    assert_true(pst_slots_release(&ring.cpu.slots, pst_token_slot(got[i].u.message.token)));
  eth_pool_refill(ring.pool);
}

/* Seen before: the sender is followed, and the next frame begins a row. */
static void meet(void)
{
  send_frames(0, 1);
  assert_int_equal(poll(), 1);
  release(1);
  assert_int_equal(singles, 1);
  singles = 0;
}

static void a_burst_is_one_frame_and_a_row(void **state)
{
  (void)state;
  meet();
  for (uint32_t round = 0; round < 4 * SLOTS / ETH_BURST; round++) {
    singles = 0;
    send_frames(1 + round * ETH_BURST, ETH_BURST);
    assert_int_equal(poll(), ETH_BURST);
    assert_messages(ETH_BURST, 1 + round * ETH_BURST);
    for (uint32_t i = 0; i < ETH_BURST; i++)
      assert_int_equal(got[i].u.message.length, 100 + i);
    assert_int_equal(singles, 1);
    release(ETH_BURST);
  }
  assert_int_equal(rx.counts.frames, 1 + 4 * SLOTS);
  assert_int_equal(rx.receiver.flow.counts.messages, 1 + 4 * SLOTS);
}

static void a_row_ends_where_completions_do(void **state)
{
  (void)state;
  meet();
  send_frames(1, 20);
  assert_int_equal(poll_most(8), 8);
  assert_messages(8, 1);
  assert_int_equal(singles, 1);
  release(8);
  assert_int_equal(poll_most(12), 12); /* frames of the batch wait in the queue */
  assert_messages(12, 9);
  assert_int_equal(singles, 2);
  release(12);
}

/* The fifth of ten frames is not as the others: `delivered` come, of them `alone` not by a row. */
static void expect_around(uint32_t delivered, uint32_t alone)
{
  send_frames(6, 5);
  assert_int_equal(poll(), delivered);
  assert_int_equal(singles, alone);
  release(delivered);
}

static void damage_ends_a_row(void **state)
{
  (void)state;
  meet();
  send_frames(1, 4);
  send_frame(5, 100)[24] ^= 1; /* the IPv4 checksum */
  expect_around(9, 2);         /* it is nobody's; the one behind it leaves a gap */
  assert_int_equal(queue.damaged, 1);
  assert_int_equal(rx.receiver.flow.counts.unexplained, 1);
}

static void another_sender_ends_a_row(void **state)
{
  (void)state;
  meet();
  send_frames(1, 4);
  uint8_t *ip = send_frame(5, 100) + 14;
  ip[15] ^= 1; /* from 192.0.2.8 */
  eth_put16(ip + 10, 0);
  const uint16_t sum = eth_sum_complement(eth_sum(ip, 20, 0));
  memcpy(ip + 10, &sum, sizeof(sum));
  expect_around(9, 3);
  assert_int_equal(rx.receiver.flow.counts.not_ours, 1);
}

static void a_gap_ends_a_row(void **state)
{
  (void)state;
  meet();
  send_frames(1, 4);
  send_frame(5 + 2, 100);
  for (uint32_t i = 0; i < 5; i++)
    send_frame(8 + i, 100);
  assert_int_equal(poll(), 10);
  assert_int_equal(singles, 2);
  assert_int_equal(rx.receiver.flow.counts.unexplained, 2);
  release(10);
}

static void what_is_too_long_ends_a_row(void **state)
{
  (void)state;
  meet();
  send_frames(1, 4);
  send_frame(5, PAYLOAD + 1);
  expect_around(9, 3);
  assert_int_equal(rx.receiver.flow.counts.too_long, 1);
}

static void several_segments_end_a_row(void **state)
{
  (void)state;
  meet();
  send_frames(1, 4);
  send_frame(5, 100);
  frames[4].segments = 2;
  expect_around(9, 3);
  assert_int_equal(rx.receiver.flow.counts.too_long, 1);
}

/* Its tag is in the mbuf, and says that it is not this port's. */
static void a_tag_that_was_taken_off_ends_a_row(void **state)
{
  (void)state;
  meet();
  send_frames(1, 4);
  send_frame(5, 100);
  frames[4].ol_flags = RTE_MBUF_F_RX_VLAN_STRIPPED;
  expect_around(10, 3); /* priority alone: it is delivered */
}

/* A checksum that somebody has to compute is computed. */
static void a_udp_checksum_ends_a_row(void **state)
{
  (void)state;
  meet();
  send_frames(1, 4);
  eth_put16(send_frame(5, 100) + 40, 0x1234); /* wrong */
  expect_around(9, 2);
  assert_int_equal(queue.damaged, 1);
  singles = 0;
  send_frames(11, 4);
  eth_put16(send_frame(15, 100) + 40, 0x1234);
  frames[4].ol_flags = RTE_MBUF_F_RX_L4_CKSUM_GOOD; /* as the device says */
  assert_int_equal(poll(), 5);
  assert_int_equal(singles, 1);
  release(5);
}

static void loss_on_this_side_is_told_before_a_row(void **state)
{
  (void)state;
  meet();
  rx.counts.no_buffer = 3;
  send_frames(4, 5); /* 1 to 3 were lost */
  assert_int_equal(poll(), 5);
  assert_int_equal(singles, 1);
  assert_int_equal(rx.lost_told, 3);
  assert_int_equal(rx.receiver.flow.counts.unexplained, 0);
  release(5);
  rx.counts.no_buffer++; /* as another worker does at any time */
  assert_int_equal(eth_rx_take_row(&endpoint, NULL, 1, &queue.seen, 0, SECOND, got), 0);
}

/* A frame in a spare is copied into a slot when one is free: it is none of a row. */
static void a_spare_ends_a_row(void **state)
{
  (void)state;
  meet();
  for (uint32_t i = 0; i < SLOTS - 4; i += 20) {
    send_frames(1 + i, 20);
    assert_int_equal(poll(), 20);
  }
  singles = 0;
  send_frames(61, 4);
  send_frames(65, 4);
  assert_int_equal(poll(), 4); /* the last slots; what lies in spares waits */
  assert_int_equal(queue.count - queue.at, 4);
  assert_int_equal(ring.cpu.slots.free_count, 0);
  for (uint32_t i = 0; i < SLOTS; i++)
    assert_true(pst_slots_release(&ring.cpu.slots, i));
  eth_pool_refill(ring.pool);
  assert_int_equal(poll(), 4);
  assert_messages(4, 65);
  assert_int_equal(singles, 5);
  release(4);
}

/* All arrive behind a copy of the last message, and would be a row. */
static void expect_none(void)
{
  send_frame(0, 100);
  send_frames(1, 4);
  assert_int_equal(poll(), 0);
  assert_int_equal(singles, 0);
}

static void no_row_is_for_a_receiver_that_takes_nothing(void **state)
{
  (void)state;
  meet();
  endpoint.dg.cpu.closing.mode = 1;
  expect_none();
  endpoint.dg.cpu.closing.mode = 0;
  endpoint.dg.cpu.state = PST_CPU_MEETING;
  queue.receivers = 2; /* it holds up none */
  expect_none();
  endpoint.dg.cpu.state = PST_CPU_UP;
  assert_int_equal(rx.counts.no_buffer, 5);
}

static void no_row_is_for_another_ring(void **state)
{
  static struct pst_ring elsewhere = {.is_split = true};

  (void)state;
  meet();
  endpoint.dg.cpu.ring = &elsewhere.cpu;
  expect_none();
  assert_int_equal(rx.counts.no_buffer, 5);
  endpoint.dg.cpu.ring = &ring.cpu;
}

int main(void)
{
#define WITH_ALL(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)
  const struct CMUnitTest tests[] = {
      WITH_ALL(a_burst_is_one_frame_and_a_row),
      WITH_ALL(a_row_ends_where_completions_do),
      WITH_ALL(damage_ends_a_row),
      WITH_ALL(another_sender_ends_a_row),
      WITH_ALL(a_gap_ends_a_row),
      WITH_ALL(what_is_too_long_ends_a_row),
      WITH_ALL(several_segments_end_a_row),
      WITH_ALL(a_tag_that_was_taken_off_ends_a_row),
      WITH_ALL(a_udp_checksum_ends_a_row),
      WITH_ALL(loss_on_this_side_is_told_before_a_row),
      WITH_ALL(a_spare_ends_a_row),
      WITH_ALL(no_row_is_for_a_receiver_that_takes_nothing),
      WITH_ALL(no_row_is_for_another_ring),
  };

  return cmocka_run_group_tests(tests, start_dpdk, NULL) ? 1 : 0;
}
