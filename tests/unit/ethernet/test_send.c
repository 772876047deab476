/* SPDX-License-Identifier: Apache-2.0 */
/* send.c: which mbufs a message becomes, when it is DONE, and what becomes of it where the queue
 * takes nothing. The device is this file's, and so is memory that it reaches and the CPU does not.
 */
#include <sys/mman.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "dpdk.h"
#include "pool.h"
#include "port.h"
#include "stack.h"
#include "stubs.h"
#include "support.h"

enum { MBUFS = 255, REQUESTS = 64, LENGTH = 1000, HEADROOM = ETH_SEND_HEADROOM, STRIDE = 2048 };

static const struct eth_driver copies = {.name = "copies", .traits = ETH_DONE_AT_ONCE},
                               holds = {.name = "holds", .traits = ETH_IS_DMA};
static uint8_t memory[REQUESTS * STRIDE];
static uint64_t clock_now;
static uint8_t *card, *gpu; /* one memory, for the device and without any right */
static struct pst_mr gpu_mr = {.is_device = true};
static struct pst_mr mr = {.cpu = {memory, sizeof(memory), PST_ACCESS_LOCAL_READ}};
static struct rte_mempool *out, *keeper;
static struct eth_txq txq;
static struct eth_port port;
static struct pst_device owner;
static struct pst_worker worker;
static struct eth_tx tx;
static struct pst_endpoint endpoint;
static struct pst_request requests[REQUESTS];
static uint32_t wait;

/* ---- The device --------------------------------------------------------------------------------
 */

static struct rte_mbuf *held[REQUESTS];
static uint32_t held_count, room, timed, offered;
static struct {
  uint32_t segments, bytes;
  const uint8_t *at;  /* of the first segment */
  uint64_t all_flags; /* that each segment has */
  uint8_t wire[STRIDE];
} sent[REQUESTS];
static uint32_t sent_count;
static bool reaps; /* when it is asked for the state of a descriptor */

static void free_held(void)
{
  rte_pktmbuf_free_bulk(held, held_count);
  held_count = 0;
}

/* As a device reads it; it reaches both memories. */
static void read_packet(const struct rte_mbuf *mbuf)
{
  uint8_t *to = sent[sent_count].wire;

  sent[sent_count].all_flags = UINT64_MAX;
  for (; mbuf; to += mbuf->data_len, mbuf = mbuf->next) {
    const uint8_t *at = rte_pktmbuf_mtod(mbuf, const uint8_t *);
    sent[sent_count].all_flags &= mbuf->ol_flags;
    assert_true(to + mbuf->data_len <= sent[sent_count].wire + STRIDE);
    memcpy(to, at >= gpu && at < gpu + sizeof(memory) ? card + (at - gpu) : at, mbuf->data_len);
  }
}

static uint16_t burst(void *queue, struct rte_mbuf **mbufs, uint16_t n)
{
  const uint16_t taken = (uint16_t)RTE_MIN((uint32_t)n, room);

  (void)queue;
  offered = n;
  for (uint16_t i = 0; i < taken; i++) {
    sent[sent_count].segments = mbufs[i]->nb_segs;
    sent[sent_count].bytes = mbufs[i]->pkt_len;
    read_packet(mbufs[i]);
    sent[sent_count++].at = rte_pktmbuf_mtod(mbufs[i], const uint8_t *);
    held[held_count++] = mbufs[i];
  }
  room -= taken;
  if (port.driver == &copies)
    free_held();
  return taken;
}

static int descriptor_status(void *queue, uint16_t offset)
{
  (void)queue, (void)offset;
  if (reaps)
    free_held();
  return 0;
}

/* ---- Stand-ins for other files -----------------------------------------------------------------
 */

void eth_time_departure(const struct eth_port *from, struct rte_mbuf *mbuf, uint64_t departure_ns)
{
  (void)from, (void)mbuf, (void)departure_ns;
  timed++;
}

void eth_peer_forget(struct pst_endpoint *which)
{
  (void)which;
}

static uint64_t now(const struct pst_host *host)
{
  (void)host;
  return clock_now;
}

static const struct pst_host host = {.clock_ns = now, .log = take_log};

/* ---- The plugin --------------------------------------------------------------------------------
 */

static int open_memory(void)
{
  const int fd = memfd_create("gpu", MFD_CLOEXEC);

  if (fd < 0 || ftruncate(fd, sizeof(memory)) < 0)
    return -1;
  card = mmap(NULL, sizeof(memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  gpu = mmap(NULL, sizeof(memory), PROT_NONE, MAP_SHARED, fd, 0);
  close(fd);
  gpu_mr.cpu = (struct pst_cpu_mr){gpu, sizeof(memory), PST_ACCESS_LOCAL_READ};
  for (uint32_t i = 0; card != MAP_FAILED && i < sizeof(memory); i++)
    card[i] = (uint8_t)(i * 7 + i / 256);
  return card == MAP_FAILED || gpu == MAP_FAILED ? -1 : 0;
}

static int start(void **state)
{
  (void)state;
  if (dpdk_start() < 0 || open_memory() < 0)
    return -1;
  out = rte_pktmbuf_pool_create("out", MBUFS, 0, ETH_MBUF_PRIVATE, STRIDE, SOCKET_ID_ANY);
  keeper = eth_keeper_make("keeper", SOCKET_ID_ANY);
  return out && keeper ? 0 : -1;
}

static void open_on(const struct eth_driver *driver)
{
  static void *queues[1], *callbacks[1];
  struct eth_template_params params = params_of("192.0.2.1", "192.0.2.2");

  memset(&tx, 0, sizeof(tx));
  memset(&worker, 0, sizeof(worker));
  memset(&endpoint, 0, sizeof(endpoint));
  memset(requests, 0, sizeof(requests));
  clock_now = SECOND;
  held_count = sent_count = warnings = timed = 0;
  room = UINT32_MAX;
  reaps = true;
  port = (struct eth_port){.host = &host,
                           .driver = driver,
                           .stage = ETH_PORT_RUNNING,
                           .reads_by_reference = true,
                           .segments_max = 4};
  owner = (struct pst_device){
      .dg = {.host = &host, .framing = DG_FRAMING_NONE}, .port = &port, .patience_ns = 100 * MS};
  txq = (struct eth_txq){.port = &port};
  worker.device = &owner;
  worker.out = out;
  worker.keeper = driver->traits & ETH_DONE_AT_ONCE ? keeper : NULL;
  worker.txq = &txq;
  endpoint.worker = &worker;
  endpoint.tx = &tx;
  endpoint.dg.device = &owner.dg;
  endpoint.dg.sender = &tx.sender;
  endpoint.dg.message_max = LENGTH;
  endpoint.dg.cpu.state = PST_CPU_UP;
  endpoint.dg.cpu.params.requests = REQUESTS;
  assert_int_equal(pst_dones_open(&endpoint.dg.cpu.dones, REQUESTS), 0);
  assert_int_equal(eth_template_make(&params, &tx.template), 0);
  assert_int_equal(eth_tx_start(&endpoint), 0);
  rte_eth_fp_ops[0].tx_pkt_burst = burst;
  rte_eth_fp_ops[0].tx_descriptor_status = descriptor_status;
  rte_eth_fp_ops[0].txq.data = queues;
  rte_eth_fp_ops[0].txq.clbk = callbacks;
  for (uint32_t i = 0; i < REQUESTS; i++)
    requests[i] = (struct pst_request){.opcode = PST_OP_SEND,
                                       .flags = PST_REQUEST_EXCLUSIVE,
                                       .local.mr = &mr,
                                       .offset = i * STRIDE + HEADROOM,
                                       .arg.length = LENGTH,
                                       .cookie = 100 + i};
}

static int open_copies(void **state)
{
  (void)state;
  open_on(&copies);
  return 0;
}

static int open_holds(void **state)
{
  (void)state;
  open_on(&holds);
  return 0;
}

/* Whatever was sent or not, no mbuf is lost. */
static int close_all(void **state)
{
  (void)state;
  free_held();
  eth_tx_drop_mbufs(&worker);
  assert_int_equal(rte_mempool_avail_count(out), MBUFS);
  pst_dones_close(&endpoint.dg.cpu.dones);
  free(tx.flights);
  return 0;
}

static int post(uint32_t first, uint32_t n)
{
  wait = PST_WAIT_NONE;
  return eth_post(&endpoint, requests + first, n, &wait);
}

/* How many SENDs are DONE; *cookie: that of the last. */
static uint64_t done(uint64_t *cookie)
{
  struct pst_completion got[REQUESTS];
  const uint32_t n = pst_dones_take(&endpoint.dg.cpu.dones, 0, got, REQUESTS);
  uint64_t count = 0;

  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(got[i].status, 0);
    count += got[i].u.done.count;
    *cookie = got[i].u.done.cookie;
  }
  return count;
}

static void headers_go_into_the_headroom_of_an_exclusive_slot(void **state)
{
  const uint32_t headers = tx.template.length;
  uint64_t cookie;

  (void)state;
  assert_int_equal(post(0, 3), 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(sent[i].segments, 1);
    assert_int_equal(sent[i].bytes, headers + LENGTH);
    assert_ptr_equal(sent[i].at, memory + i * STRIDE + HEADROOM - headers);
  }
  assert_int_equal(done(&cookie), 3);
  assert_int_equal(cookie, 102);
}

static void what_is_small_is_copied_where_the_driver_copies(void **state)
{
  (void)state;
  requests[0].arg.length = ETH_COPY_MAX;
  requests[1].arg.length = ETH_COPY_MAX + 1;
  assert_int_equal(post(0, 2), 2);
  const bool is_copied = port.driver == &copies;
  assert_int_equal(sent[0].segments, 1);
  assert_int_equal(sent[0].bytes, tx.template.length + ETH_COPY_MAX);
  assert_int_equal(sent[0].at >= memory && sent[0].at < memory + sizeof(memory), !is_copied);
  assert_ptr_equal(sent[1].at, memory + STRIDE + HEADROOM - tx.template.length);
}

static void a_slot_that_others_have_is_a_segment_of_its_own(void **state)
{
  (void)state;
  requests[0].flags = 0;  /* others read it, too */
  requests[1].offset = 0; /* no headroom */
  assert_int_equal(post(0, 2), 2);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(sent[i].segments, 2);
    assert_int_equal(sent[i].bytes, tx.template.length + LENGTH);
    assert_false(sent[i].at >= memory && sent[i].at < memory + sizeof(memory));
  }
}

static void what_has_more_pieces_than_segments_is_copied(void **state)
{
  static struct pst_piece pieces[4];

  (void)state;
  for (uint32_t i = 0; i < 4; i++)
    pieces[i] = (struct pst_piece){.mr = &mr, .offset = i * STRIDE, .length = LENGTH / 4};
  requests[0].local.pieces = pieces;
  requests[0].piece_count = 3;
  requests[0].arg.length = LENGTH / 4 * 3;
  requests[1].local.pieces = pieces;
  requests[1].piece_count = 4;
  requests[0].offset = requests[1].offset = 0;
  assert_int_equal(post(0, 2), 2);
  assert_int_equal(sent[0].segments, 4);
  assert_int_equal(sent[1].segments, 1);
  assert_int_equal(sent[1].bytes, tx.template.length + LENGTH);
}

/* However a message becomes mbufs, its tag covers all of it, and is of its own number. */
static void each_datagram_has_its_tag(void **state)
{
  enum { HEADER = 16, MANY = 5 };
  static const uint8_t key[DG_TAG_KEY_BYTES] = {1};
  static struct pst_piece pieces[4];
  struct dg_tag *receiver;

  (void)state;
  for (uint32_t i = 0; i < sizeof(memory); i++)
    memory[i] = (uint8_t)(i * 5 + i / 256);
  tx.sender.framing = DG_FRAMING_SEQUENCE;
  tx.sender.header.has_nonce = tx.sender.header.has_tag = true;
  tx.template.udp_checksum = ETH_CHECKSUM_SOFTWARE;
  endpoint.dg.header_bytes = HEADER + DG_TAG_BYTES;
  assert_int_equal(dg_tag_open(key, false, &tx.sender.tag), 0);
  assert_int_equal(dg_tag_open(key, true, &receiver), 0);
  for (uint32_t i = 0; i < 4; i++)
    pieces[i] = (struct pst_piece){.mr = &mr, .offset = i * STRIDE, .length = i == 1 ? 0 : 50};
  requests[1].arg.length = ETH_COPY_MAX; /* may be a copy */
  requests[2].flags = 0;                 /* of two segments */
  requests[3].flags = requests[4].flags = 0;
  requests[3].local.pieces = requests[4].local.pieces = pieces;
  requests[3].piece_count = 3; /* of a segment each */
  requests[4].piece_count = 4; /* a copy */
  requests[3].offset = requests[4].offset = 0;
  requests[3].arg.length = 100;
  requests[4].arg.length = 150;
  assert_int_equal(post(0, MANY), MANY);
  for (uint32_t i = 0; i < MANY; i++) {
    uint8_t *wire = sent[i].wire + tx.template.length;
    const uint32_t length = (uint32_t)requests[i].arg.length;
    assert_int_equal(sent[i].bytes, tx.template.length + endpoint.dg.header_bytes + length);
    wire[HEADER + DG_TAG_BYTES + length - 1] ^= 1;
    assert_int_equal(dg_tag_check(receiver, wire, HEADER, wire + HEADER + DG_TAG_BYTES, length),
                     DG_TAG_WRONG);
    wire[HEADER + DG_TAG_BYTES + length - 1] ^= 1;
    assert_int_equal(dg_tag_check(receiver, wire, HEADER, wire + HEADER + DG_TAG_BYTES, length),
                     DG_TAG_NEW);
  }
  dg_tag_close(receiver);
  dg_sender_close(&tx.sender);
}

/* Flights end in any order, DONEs come in the order of the posts, though nothing more is sent. */
static void what_the_device_holds_is_done_when_it_is_free(void **state)
{
  uint64_t cookie = 0;

  (void)state;
  reaps = false;
  assert_int_equal(post(0, 4), 4);
  eth_tx_reap(&endpoint);
  assert_int_equal(done(&cookie), 0);
  rte_pktmbuf_free(held[1]);
  held[1] = held[3];
  held_count = 3;
  eth_tx_reap(&endpoint);
  assert_int_equal(done(&cookie), 0); /* the first is still out */
  rte_pktmbuf_free(held[0]);
  held[0] = held[2];
  held_count = 2;
  eth_tx_reap(&endpoint);
  assert_int_equal(done(&cookie), 2);
  assert_int_equal(cookie, 101);
  reaps = true;
  eth_tx_reap(&endpoint);
  assert_int_equal(done(&cookie), 2);
  assert_int_equal(cookie, 103);
}

static void a_full_queue_is_waited_for_and_then_given_up(void **state)
{
  uint64_t cookie = 0;

  (void)state;
  room = 2;
  assert_int_equal(post(0, 5), 2);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(offered, 5);
  assert_int_equal(post(2, 3), -EAGAIN);
  assert_int_equal(offered, 1); /* what is not taken is not made */
  clock_now += owner.patience_ns - 1;
  assert_int_equal(post(2, 3), -EAGAIN);
  assert_int_equal(tx.device_full, 0);
  clock_now += 1;
  assert_int_equal(post(2, 3), 3);
  assert_int_equal(tx.device_full, 3);
  assert_int_equal(tx.messages, 2);
  assert_int_equal(warnings, 1);
  eth_tx_reap(&endpoint);
  assert_int_equal(done(&cookie), 5);
  assert_int_equal(cookie, 104);
  room = UINT32_MAX; /* it takes again: patience begins anew */
  assert_int_equal(post(5, 1), 1);
  room = 0;
  assert_int_equal(post(6, 1), -EAGAIN);
  assert_int_equal(tx.device_full, 3);
}

static void without_an_mbuf_nothing_is_sent(void **state)
{
  static struct rte_mbuf *all[MBUFS];
  uint64_t cookie;

  (void)state;
  assert_int_equal(rte_pktmbuf_alloc_bulk(out, all, MBUFS - 1), 0);
  requests[0].flags = 0; /* it needs two */
  assert_int_equal(post(0, 1), -EAGAIN);
  assert_int_equal(done(&cookie), 0);
  rte_pktmbuf_free_bulk(all, MBUFS - 1);
  assert_int_equal(post(0, 1), 1);
  assert_int_equal(done(&cookie), 1);
}

static void a_message_is_held_back_until_its_time(void **state)
{
  (void)state;
  owner.holds_back = owner.dg.keeps_departures = true;
  for (uint32_t i = 0; i < 4; i++)
    requests[i].u.send.departure_ns = clock_now + i * MS;
  assert_int_equal(post(0, 4), 1);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(post(1, 3), -EAGAIN);
  clock_now += 2 * MS;
  assert_int_equal(post(1, 3), 2);
  assert_int_equal(sent_count, 3);
  requests[4] = (struct pst_request){.opcode = PST_OP_FLUSH, .cookie = 1};
  assert_int_equal(post(3, 2), -EAGAIN); /* a FLUSH does not overtake */
  clock_now += MS;
  assert_int_equal(post(3, 2), 2);
  assert_int_equal(timed, 0); /* the device has no times */
}

static void a_device_that_has_times_keeps_them_itself(void **state)
{
  (void)state;
  port.times.departs = owner.dg.keeps_departures = true;
  requests[0].u.send.departure_ns = clock_now + SECOND;
  assert_int_equal(post(0, 1), 1);
  assert_int_equal(timed, 1);
  owner.holds_back = true;
  requests[1].u.send.departure_ns = clock_now;
  assert_int_equal(post(1, 1), 1);
  assert_int_equal(timed, 1);
}

static void a_port_that_stands_still_takes_nothing(void **state)
{
  (void)state;
  port.stage = ETH_PORT_CONFIGURED;
  assert_int_equal(post(0, 2), -EAGAIN);
  port.stage = ETH_PORT_OVER;
  assert_int_equal(post(0, 2), -EAGAIN);
  assert_int_equal(sent_count, 0);
}

/* However much is sent, and whatever the queue takes, one bulk of the pool is out. */
static void a_driver_that_copies_has_the_same_mbufs_again(void **state)
{
  uint64_t cookie;

  (void)state;
  for (uint32_t round = 0; round < 2 * MBUFS; round++) {
    sent_count = 0;
    requests[0].arg.length = round % 3 ? LENGTH : 10;
    requests[1].offset = (round % 5 + 1) * 8 * HEADROOM;
    room = round % 4 + 1;
    assert_int_equal(post(0, 4), round % 4 + 1);
    assert_int_equal(sent[0].bytes, tx.template.length + requests[0].arg.length);
    if (sent_count > 1)
      assert_ptr_equal(sent[1].at, memory + requests[1].offset - tx.template.length);
    assert_int_equal(done(&cookie), round % 4 + 1);
    assert_int_equal(rte_mempool_avail_count(out), MBUFS - ETH_BURST);
  }
}

/* ---- A payload that the CPU does not reach -----------------------------------------------------
 */

enum { NO_INLINE = 1u << 7 };

static void sum_udp_by(uint8_t how)
{
  struct eth_template_params params = params_of("192.0.2.1", "192.0.2.2");

  params.udp_checksum = how;
  assert_int_equal(eth_template_make(&params, &tx.template), 0);
}

static int open_gpu(void **state)
{
  (void)state;
  open_on(&holds);
  sum_udp_by(ETH_CHECKSUM_OFFLOAD);
  port.no_inline = NO_INLINE;
  for (uint32_t i = 0; i < REQUESTS; i++)
    requests[i].local.mr = &gpu_mr;
  return 0;
}

static void assert_sent(uint32_t i, uint32_t segments, uint32_t length, const uint8_t *payload)
{
  const uint32_t headers = tx.template.length;

  assert_int_equal(sent[i].segments, segments);
  assert_int_equal(sent[i].bytes, headers + length);
  assert_false(sent[i].at >= gpu && sent[i].at < gpu + sizeof(memory));
  assert_true(sent[i].all_flags & NO_INLINE);
  assert_memory_equal(sent[i].wire + headers, payload, length);
}

/* Though the slot is the request's alone, and though the payload is short. */
static void headers_of_a_payload_in_a_gpu_lie_elsewhere(void **state)
{
  uint64_t cookie;

  (void)state;
  requests[1].arg.length = 1;
  requests[2].local.mr = &mr; /* the host's is as ever */
  requests[3].arg.length = 0;
  assert_int_equal(post(0, 4), 4);
  assert_sent(0, 2, LENGTH, card + HEADROOM);
  assert_sent(1, 2, 1, card + STRIDE + HEADROOM);
  assert_int_equal(sent[2].segments, 1);
  assert_ptr_equal(sent[2].at, memory + 2 * STRIDE + HEADROOM - tx.template.length);
  assert_int_equal(sent[3].bytes, tx.template.length);
  free_held();
  eth_tx_reap(&endpoint);
  assert_int_equal(done(&cookie), 4);
}

/* A checksum of 0 says that there is none. */
static void no_checksum_is_computed_of_it(void **state)
{
  (void)state;
  assert_int_equal(post(0, 1), 1);
  assert_true(held[0]->ol_flags & RTE_MBUF_F_TX_UDP_CKSUM); /* the card does */
  sum_udp_by(ETH_CHECKSUM_NONE);
  assert_int_equal(post(1, 1), 1);
  assert_false(held[1]->ol_flags & RTE_MBUF_F_TX_UDP_CKSUM);
  assert_sent(1, 2, LENGTH, card + STRIDE + HEADROOM);
  assert_int_equal(eth_get16(sent[1].wire + tx.template.udp_at + 6), 0);
}

static void its_pieces_may_lie_in_both_memories(void **state)
{
  static struct pst_piece pieces[4];
  uint8_t whole[LENGTH];

  (void)state;
  for (uint32_t i = 0; i < 4; i++)
    pieces[i] = (struct pst_piece){
        .mr = i == 1 ? &gpu_mr : &mr, .offset = i * STRIDE + 3, .length = LENGTH / 4};
  for (uint32_t i = 0; i < sizeof(memory); i++)
    memory[i] = (uint8_t)(i * 3);
  for (uint32_t i = 0; i < 3; i++)
    memcpy(whole + i * LENGTH / 4, (i == 1 ? card : memory) + i * STRIDE + 3, LENGTH / 4);
  requests[0].offset = requests[1].offset = 0;
  requests[0].local.pieces = requests[1].local.pieces = pieces;
  requests[0].piece_count = 3;
  requests[0].arg.length = LENGTH / 4 * 3;
  requests[1].piece_count = 4; /* and headers: more segments than there may be */
  assert_int_equal(post(0, 2), 1);
  assert_sent(0, 4, LENGTH / 4 * 3, whole);
  assert_int_equal(post(1, 1), -E2BIG);
}

/* The slot is the sender's again when the card has read it, not before. */
static void its_slot_is_the_device_s_until_it_is_sent(void **state)
{
  uint64_t cookie = 0;

  (void)state;
  reaps = false;
  assert_int_equal(post(0, 2), 2);
  eth_tx_reap(&endpoint);
  assert_int_equal(done(&cookie), 0);
  struct rte_mbuf *payload = held[0]->next;
  held[0]->next = NULL;
  held[0]->nb_segs = 1;
  rte_pktmbuf_free(held[0]); /* the headers are read, the payload is not */
  held[0] = payload;
  eth_tx_reap(&endpoint);
  assert_int_equal(done(&cookie), 0);
  rte_pktmbuf_free(held[0]);
  held[0] = held[1];
  held_count = 1;
  eth_tx_reap(&endpoint);
  assert_int_equal(done(&cookie), 1);
  assert_int_equal(cookie, 100);
}

/* Requests that a full queue does not take stay the sender's, and their mbufs go back to the
 * pool. */
static void a_full_queue_leaves_it_where_it_is(void **state)
{
  uint64_t cookie;

  (void)state;
  room = 1;
  assert_int_equal(post(0, 3), 1);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  room = UINT32_MAX;
  assert_int_equal(post(1, 2), 2);
  assert_sent(2, 2, LENGTH, card + 2 * STRIDE + HEADROOM);
  free_held();
  eth_tx_reap(&endpoint);
  assert_int_equal(done(&cookie), 3);
}

int main(void)
{
#define ON(driver, test) cmocka_unit_test_setup_teardown(test, open_##driver, close_all)
  const struct CMUnitTest tests[] = {
      ON(copies, headers_go_into_the_headroom_of_an_exclusive_slot),
      ON(copies, what_is_small_is_copied_where_the_driver_copies),
      ON(holds, what_is_small_is_copied_where_the_driver_copies),
      ON(copies, a_slot_that_others_have_is_a_segment_of_its_own),
      ON(copies, what_has_more_pieces_than_segments_is_copied),
      ON(copies, each_datagram_has_its_tag),
      ON(holds, each_datagram_has_its_tag),
      ON(holds, what_the_device_holds_is_done_when_it_is_free),
      ON(copies, a_full_queue_is_waited_for_and_then_given_up),
      ON(holds, a_full_queue_is_waited_for_and_then_given_up),
      ON(copies, without_an_mbuf_nothing_is_sent),
      ON(copies, a_message_is_held_back_until_its_time),
      ON(copies, a_device_that_has_times_keeps_them_itself),
      ON(copies, a_port_that_stands_still_takes_nothing),
      ON(copies, a_driver_that_copies_has_the_same_mbufs_again),
      ON(gpu, headers_of_a_payload_in_a_gpu_lie_elsewhere),
      ON(gpu, no_checksum_is_computed_of_it),
      ON(gpu, its_pieces_may_lie_in_both_memories),
      ON(gpu, its_slot_is_the_device_s_until_it_is_sent),
      ON(gpu, a_full_queue_leaves_it_where_it_is),
  };

  return cmocka_run_group_tests(tests, start, NULL) ? 1 : 0;
}
