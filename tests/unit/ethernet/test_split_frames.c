/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of a card that splits headers from payloads, into a ring that the CPU must not touch: its
 * memory is mapped twice, for the card, which is this file's, and without any right for the plugin.
 */
#include <sys/mman.h>
#include <unistd.h>

#include <rte_errno.h>

#include "receiver.h"

static uint8_t *card, *device; /* the two mappings */
static struct rte_mempool *headers;
static uint8_t frames[ETH_BURST][4096];
static uint32_t lengths[ETH_BURST], frame_count;
static struct pst_completion got[2 * ETH_BURST];
static const struct eth_driver driver = {.name = "pci", .traits = ETH_IS_DMA | ETH_HAS_RULES};

uint64_t eth_time_of(const struct eth_port *from, const struct rte_mbuf *mbuf)
{
  (void)from, (void)mbuf;
  return 0;
}

/* ---- The card ----------------------------------------------------------------------------------
 */

/* The next segment's worth of a frame, into a slot. NULL: no slot is free. */
static struct rte_mbuf *fill_slot(const uint8_t *from, uint32_t *left)
{
  struct rte_mbuf *mbuf = rte_mbuf_raw_alloc(ring.pool->mempool);

  if (!mbuf)
    return NULL;
  mbuf->data_off = 0;
  mbuf->nb_segs = 1;
  mbuf->next = NULL;
  mbuf->data_len = (uint16_t)RTE_MIN(*left, (uint32_t)mbuf->buf_len);
  memcpy(card + ((uint8_t *)mbuf->buf_addr - device), from, mbuf->data_len);
  *left -= mbuf->data_len;
  return mbuf;
}

static uint16_t burst(void *rxq, struct rte_mbuf **mbufs, uint16_t most)
{
  uint16_t n = 0;

  (void)rxq;
  for (; n < most && n < frame_count; n++) {
    struct rte_mbuf *mbuf = rte_pktmbuf_alloc(headers), *last = mbuf;
    uint32_t head = RTE_MIN(lengths[n], ring.split_point), left = lengths[n] - head;
    const uint8_t *from = frames[n] + head;
    assert_non_null(mbuf);
    memcpy(rte_pktmbuf_mtod(mbuf, uint8_t *), frames[n], head);
    mbuf->data_len = (uint16_t)head;
    mbuf->pkt_len = lengths[n];
    mbuf->ol_flags |= RTE_MBUF_F_RX_L4_CKSUM_GOOD | RTE_MBUF_F_RX_IP_CKSUM_GOOD;
    while (left) {
      const uint32_t before = left;
      last->next = fill_slot(from, &left);
      assert_non_null(last->next);
      last = last->next;
      from += before - left;
      mbuf->nb_segs++;
    }
    mbufs[n] = mbuf;
  }
  memmove(frames, frames + n, (frame_count - n) * sizeof(frames[0]));
  memmove(lengths, lengths + n, (frame_count - n) * sizeof(lengths[0]));
  frame_count -= n;
  return n;
}

/* A message that will arrive; its bytes begin with `first`. */
static void send_frame(uint32_t sequence, uint32_t length, uint8_t first, uint16_t to_port)
{
  assert_true(frame_count < ETH_BURST);
  lengths[frame_count] =
      receiver_frame(sequence, length, first, to_port, ETH_CHECKSUM_SOFTWARE, frames[frame_count]);
  frame_count++;
}

/* ---- The plugin --------------------------------------------------------------------------------
 */

static void open_memory(void)
{
  const int fd = memfd_create("ring", MFD_CLOEXEC);

  assert_int_equal(ftruncate(fd, SLOTS * STRIDE), 0);
  card = mmap(NULL, SLOTS * STRIDE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  device = mmap(NULL, SLOTS * STRIDE, PROT_NONE, MAP_SHARED, fd, 0);
  assert_true(card != MAP_FAILED && device != MAP_FAILED);
  close(fd);
}

static int start_dpdk(void **state)
{
  (void)state;
  if (dpdk_start() < 0)
    return -1;
  open_memory();
  headers = rte_pktmbuf_pool_create("headers", 255, 0, ETH_MBUF_PRIVATE, RTE_PKTMBUF_HEADROOM + 64,
                                    SOCKET_ID_ANY);
  return headers ? 0 : -1;
}

static int open_all(void **state)
{
  const struct eth_pool_params pool = {.lead = ETH_SLOT_SHIFT, .socket = SOCKET_ID_ANY};
  const struct dg_flow_params flow = {.framing = DG_FRAMING_SEQUENCE,
                                      .payload_type = -1,
                                      .checks = true,
                                      .message_max = PAYLOAD,
                                      .reorder = 16};

  (void)state;
  frame_count = 0;
  memset(card, 0xee, SLOTS * STRIDE);
  receiver_begin(&driver, device);
  ring.is_split = true;
  ring.split_point = ETH_HEADER_MIN + SEQUENCE;
  queue.headers = headers;
  receiver_open(&pool, &flow, burst);
  return 0;
}

/* Whatever came, no mbuf is lost. */
static int close_all(void **state)
{
  (void)state;
  receiver_close(0);
  assert_int_equal(rte_mempool_avail_count(headers), 255);
  return 0;
}

static uint32_t poll(void)
{
  return eth_rxq_poll(&queue, &worker, got, sizeof(got) / sizeof(got[0]));
}

static void assert_message(const struct pst_completion *completion, uint32_t length, uint8_t first)
{
  const uint8_t *at = card + completion->u.message.offset;

  assert_int_equal(completion->u.message.length, length);
  for (uint32_t i = 0; i < length; i++)
    assert_int_equal(at[i], (uint8_t)(first + i));
}

static void release(uint32_t count)
{
  for (uint32_t i = 0; i < count; i++)
    assert_true(pst_slots_release(&ring.cpu.slots, pst_token_slot(got[i].u.message.token)));
  eth_pool_refill(ring.pool);
}

static void payloads_lie_in_slots_and_are_read_by_nobody(void **state)
{
  (void)state;
  for (uint32_t round = 0; round < 2 * SLOTS / ETH_BURST; round++) {
    for (uint32_t i = 0; i < ETH_BURST; i++)
      send_frame(round * ETH_BURST + i, PAYLOAD - i, (uint8_t)(round + i), 5004);
    assert_int_equal(poll(), ETH_BURST);
    for (uint32_t i = 0; i < ETH_BURST; i++) {
      assert_message(&got[i], PAYLOAD - i, (uint8_t)(round + i));
      assert_int_equal(got[i].u.message.offset % STRIDE, ETH_SLOT_HEADROOM);
      assert_true(got[i].flags & PST_HAS_SEQUENCE);
    }
    release(ETH_BURST);
  }
  assert_int_equal(rx.receiver.flow.counts.unchecked, 2 * SLOTS);
}

static void a_message_without_bytes_has_a_slot(void **state)
{
  (void)state;
  send_frame(1, 0, 0, 5004);
  send_frame(2, 5, 9, 5004);
  assert_int_equal(poll(), 2);
  assert_int_equal(got[0].u.message.length, 0);
  assert_message(&got[1], 5, 9);
  release(2);
}

static void what_is_too_long_takes_no_slot_for_good(void **state)
{
  (void)state;
  send_frame(1, PAYLOAD + 1, 0, 5004);
  send_frame(2, 3000, 0, 5004); /* three segments */
  send_frame(3, PAYLOAD, 3, 5004);
  assert_int_equal(poll(), 1);
  assert_message(&got[0], PAYLOAD, 3);
  assert_int_equal(rx.receiver.flow.counts.too_long, 2);
  release(1);
}

/* Frames for another ring, or for none, cannot leave the device: they are lost and counted. */
static void frames_of_others_are_lost_and_counted(void **state)
{
  static struct pst_ring other;
  static struct eth_rx other_rx;
  static struct pst_endpoint elsewhere;

  (void)state;
  elsewhere = (struct pst_endpoint){.rx = &other_rx, .worker = &worker};
  elsewhere.dg.cpu.ring = &other.cpu;
  elsewhere.match = endpoint.match;
  table.chains[5005] = &elsewhere.match;
  send_frame(1, 100, 0, 5005);
  send_frame(1, 100, 0, 5006);
  assert_int_equal(poll(), 0);
  assert_int_equal(other_rx.counts.no_buffer, 1);
  assert_int_equal(queue.not_ours, 1);
}

/* As it is before the rule stands: by the queue for the rest, whole. */
static void frames_by_another_queue_are_not_copied_in(void **state)
{
  struct eth_rxq rest = {.port = &port, .own = headers};

  (void)state;
  ring.split_point = 64; /* all of a short frame */
  send_frame(1, 10, 0, 5004);
  assert_int_equal(eth_rxq_poll(&rest, &worker, got, 1), 0);
  assert_int_equal(rx.counts.no_buffer, 1);
}

int main(void)
{
#define WITH_ALL(test) cmocka_unit_test_setup_teardown(test, open_all, close_all)
  const struct CMUnitTest tests[] = {
      WITH_ALL(payloads_lie_in_slots_and_are_read_by_nobody),
      WITH_ALL(a_message_without_bytes_has_a_slot),
      WITH_ALL(what_is_too_long_takes_no_slot_for_good),
      WITH_ALL(frames_of_others_are_lost_and_counted),
      WITH_ALL(frames_by_another_queue_are_not_copied_in),
  };

  return cmocka_run_group_tests(tests, start_dpdk, NULL) ? 1 : 0;
}
