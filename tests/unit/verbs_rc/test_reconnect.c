/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a send queue that are sent again after a reconnection, by the peer's count of those
 * that it has received. */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "connection.h"
#include "multi_qp.h"
#include "qp.h"

#define QUEUE 16u
#define FROM UINT64_C(0xfffffffc) /* indices pass 32 bits in each case */

static struct vb_tx tx;
static struct vb_rx rx;
static struct vb_sent sent[QUEUE];
static struct ibv_send_wr wrs[QUEUE];
static struct rc_connection connection;
static struct pst_endpoint endpoint;

static int reset(void **state)
{
  (void)state;
  tx = (struct vb_tx){.turn = 1};
  rx = (struct vb_rx){0};
  memset(sent, 0, sizeof(sent));
  memset(wrs, 0, sizeof(wrs));
  connection = (struct rc_connection){0};
  endpoint = (struct pst_endpoint){
      .rc = &connection,
      .tx = &tx,
      .rx = &rx,
      .lane_count = 1,
      .sq = {.mask = QUEUE - 1, .done = FROM, .head = FROM, .sent = sent, .wrs = wrs}};
  return 0;
}

static uint32_t at(uint32_t i)
{
  return (uint32_t)(FROM + i) & (QUEUE - 1);
}

/* One more under way; messages are counted as they are posted. */
static void queue(uint8_t opcode, unsigned int flags)
{
  const uint32_t i = (uint32_t)endpoint.sq.head++ & (QUEUE - 1);
  sent[i] = (struct vb_sent){.count = opcode != 0, .opcode = opcode};
  wrs[i] = (struct ibv_send_wr){
      .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED | flags};
  wrs[i].wr.rdma.remote_addr = 4096;
  wrs[i].wr.rdma.rkey = 7;
  tx.messages += opcode == PST_OP_SEND;
}

static void queue_control(enum vb_control control)
{
  queue(0, 0);
  wrs[(endpoint.sq.head - 1) & (QUEUE - 1)].imm_data = htobe32(control);
  rx.credits_sent += control == VB_CREDIT;
}

static const char *drop(uint64_t messages, uint64_t credits)
{
  return rc_reconnect_drop_what_arrived(&endpoint, 0, rc_reconnect_hello(messages, credits, 0, 0));
}

/* `kept` has a bit for each request that goes again. An empty WRITE stands for the others. */
static void expect_kept(uint32_t kept)
{
  const uint32_t n = (uint32_t)(endpoint.sq.head - endpoint.sq.done);
  for (uint32_t i = 0; i < n; i++) {
    const struct ibv_send_wr *wr = &wrs[at(i)];
    const bool is_kept = kept >> i & 1;
    assert_int_equal(wr->num_sge, is_kept);
    assert_int_equal(wr->opcode, is_kept ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE);
    assert_int_equal(wr->wr.rdma.rkey, is_kept ? 7 : 0);
    assert_int_equal(wr->wr.rdma.remote_addr, is_kept ? 4096 : 0);
    assert_int_equal(wr->send_flags & IBV_SEND_INLINE & (is_kept ? 0 : ~0u), 0);
    assert_true(wr->send_flags & IBV_SEND_SIGNALED);
  }
}

static void hello_has_16_bits_of_messages_and_6_of_credits(void **state)
{
  (void)state;
  assert_int_equal(rc_reconnect_hello(0, 0, 0, 0), VB_HELLO);
  assert_int_equal(rc_reconnect_hello(5, 3, 2, 9), 5 << 16 | 9 << 12 | 2 << 8 | 3 << 2 | VB_HELLO);
  assert_int_equal(rc_reconnect_hello(0x1234567, 0x1ff, 15, 15), 0x4567ffffu & ~2u);
  assert_true(rc_is_hello(rc_reconnect_hello(0x1234567, 0x1ff, 15, 15)));
  assert_false(rc_is_hello(VB_FAREWELL) || rc_is_hello(VB_ABORTED) || rc_is_hello(VB_CREDIT));
}

static void messages_that_arrived_do_not_go_again(void **state)
{
  (void)state;
  tx.messages = 10;
  for (int i = 0; i < 5; i++)
    queue(PST_OP_SEND, IBV_SEND_INLINE);
  assert_null(drop(12, 0));
  expect_kept(0x1c);
  assert_int_equal(connection.reconnect.repeated, 3);
}

static void none_or_all_arrived(void **state)
{
  (void)state;
  tx.messages = 10;
  for (int i = 0; i < 3; i++)
    queue(PST_OP_SEND, 0);
  assert_null(drop(10, 0));
  expect_kept(7);
  assert_int_equal(connection.reconnect.repeated, 3);
  assert_null(drop(13, 0));
  expect_kept(0);
  assert_int_equal(connection.reconnect.repeated, 3);
}

static void counts_of_hellos_wrap(void **state)
{
  (void)state;
  tx.messages = 0xffffe; /* of 16 bits, and of 6 */
  rx.credits_sent = 0x1fe;
  for (int i = 0; i < 4; i++) {
    queue(PST_OP_SEND, 0);
    queue_control(VB_CREDIT);
  }
  assert_null(drop(0x100001, 0x201)); /* three of each */
  expect_kept(0xc0);
}

static void peer_cannot_have_had_more_or_fewer(void **state)
{
  (void)state;
  tx.messages = 10;
  queue(PST_OP_SEND, 0);
  queue_control(VB_CREDIT);
  assert_string_equal(drop(12, 0), "the peer says that it received other messages than were sent");
  assert_non_null(drop(9, 0)); /* it had said more before: those are complete */
  assert_non_null(drop(10, 2));
  assert_non_null(drop(10, UINT64_MAX));
  expect_kept(3);
}

/* The peer may use these bytes for something else once a message has announced them. */
static void writes_before_an_arrived_message_are_not_done_again(void **state)
{
  (void)state;
  queue(PST_OP_WRITE, 0);
  queue(PST_OP_SEND, 0);
  queue(PST_OP_WRITE, 0);
  queue(PST_OP_SEND, 0);
  queue(PST_OP_WRITE, 0);
  assert_null(drop(1, 0));
  expect_kept(0x1c);
}

/* A READ is done before a message behind it only where that has a fence (IBA 10.8.3.3). */
static void reads_are_done_again_unless_a_fence_says_they_are_done(void **state)
{
  (void)state;
  queue(PST_OP_READ, 0);
  queue(PST_OP_SEND, IBV_SEND_FENCE);
  queue(PST_OP_READ, 0);
  queue(PST_OP_SEND, 0);
  queue(PST_OP_READ, 0);
  assert_null(drop(2, 0));
  expect_kept(0x14);
}

/* A WRITE or READ with a fence began after the READs before it, and the message after that. */
static void reads_before_any_fence_are_done(void **state)
{
  static const uint8_t opcodes[] = {PST_OP_WRITE, PST_OP_READ};
  for (size_t i = 0; i < sizeof(opcodes); i++) {
    reset(state);
    queue(PST_OP_READ, 0);
    queue(opcodes[i], IBV_SEND_FENCE);
    queue(PST_OP_READ, 0);
    queue(PST_OP_SEND, 0);
    queue(PST_OP_READ, 0);
    queue(opcodes[i], IBV_SEND_FENCE);
    assert_null(drop(1, 0));
    expect_kept(0x34 | (opcodes[i] == PST_OP_READ ? 2 : 0));
  }
}

static void atomics_end_the_connection(void **state)
{
  for (int turn = 0; turn < 2; turn++) {
    reset(state);
    queue(PST_OP_SEND, 0);
    queue(turn ? PST_OP_FETCH_ADD : PST_OP_COMPARE_SWAP, 0);
    assert_string_equal(drop(1, 0),
                        "an atomic was under way, which may or may not have taken place");
    expect_kept(3);
  }
}

static void credits_go_by_their_own_count(void **state)
{
  (void)state;
  rx.credits_sent = 5;
  queue_control(VB_CREDIT);
  queue(PST_OP_SEND, 0);
  queue_control(VB_CREDIT);
  queue(0, 0); /* a keepalive */
  assert_null(drop(0, 6));
  expect_kept(0xe);
}

/* Each of several queue pairs replays its own messages alone: here, every other one. */
static void queue_pairs_are_looked_at_one_by_one(void **state)
{
  (void)state;
  connection.lanes[0].done = connection.lanes[1].done = FROM;
  endpoint.lane_count = 2;
  connection.striped = 6;
  for (uint32_t i = 0; i < 6; i++) {
    queue(PST_OP_SEND, 0);
    sent[at(i)].lane = i % 2;
  }
  assert_int_equal(rc_lane_messages(&endpoint, 0), 3);
  assert_int_equal(rc_lane_messages(&endpoint, 1), 3);
  assert_null(rc_reconnect_drop_what_arrived(&endpoint, 1, rc_reconnect_hello(2, 0, 0, 0)));
  expect_kept(0x35); /* 1 and 3 are there */
  assert_int_equal(connection.reconnect.repeated, 1);
  connection.lanes[0].done = FROM + 3; /* 0 and 2 are complete, though the queue is not so far */
  assert_non_null(rc_reconnect_drop_what_arrived(&endpoint, 0, rc_reconnect_hello(1, 0, 0, 0)));
  assert_null(rc_reconnect_drop_what_arrived(&endpoint, 0, rc_reconnect_hello(2, 0, 0, 0)));
  expect_kept(0x30);
  connection.striped = 7;
  assert_int_equal(rc_lane_messages(&endpoint, 0), 4);
  assert_int_equal(rc_lane_messages(&endpoint, 1), 3);
}

/* Turns of several messages: how many went by each. */
static void queue_pairs_take_turns(void **state)
{
  (void)state;
  static const struct {
    uint64_t striped, messages[3];
  } all[] = {{0, {0, 0, 0}}, {3, {3, 0, 0}}, {5, {4, 1, 0}}, {12, {4, 4, 4}}, {22, {8, 8, 6}}};
  endpoint.lane_count = 3;
  tx.turn = 4;
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    connection.striped = all[i].striped;
    for (uint32_t lane = 0; lane < 3; lane++)
      assert_int_equal(rc_lane_messages(&endpoint, lane), all[i].messages[lane]);
  }
  for (uint32_t n = 0; n < 24; n++)
    assert_int_equal(rc_lane_of_message(&endpoint, n, 4), n / 4 % 3);
  /* A window has several turns for each. */
  assert_int_equal(rc_turn(24, 4), 1);
  assert_int_equal(rc_turn(128, 4), 8);
  assert_int_equal(rc_turn(512, 4), 32);
  assert_int_equal(rc_turn(16384, 2), RC_TURN_MAX);
}

/* Its queue pair was further than the send queue, which waits for another's. */
static void what_is_complete_does_not_go_again(void **state)
{
  (void)state;
  connection.lanes[0].done = FROM + 2;
  connection.lanes[1].done = FROM;
  endpoint.lane_count = 2;
  connection.striped = 1;
  queue(PST_OP_SEND, 0);
  queue(PST_OP_WRITE, 0);
  queue(PST_OP_WRITE, 0);
  assert_null(rc_reconnect_drop_what_arrived(&endpoint, 0, rc_reconnect_hello(1, 0, 0, 0)));
  expect_kept(4);
}

/* A run has arrived, or it has not. */
static void runs_go_again_as_a_whole(void **state)
{
  (void)state;
  tx.messages = 2;
  for (uint32_t i = 0; i < 3; i++) {
    queue(PST_OP_SEND, 0);
    sent[at(i)].count = 4;
    tx.messages += 3;
  }
  assert_string_equal(drop(2 + 5, 0),
                      "the peer says that it received other messages than were sent");
  expect_kept(7);
  assert_null(drop(2 + 4, 0));
  expect_kept(6);
  assert_int_equal(endpoint.rc->reconnect.repeated, 8);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, reset)
  const struct CMUnitTest tests[] = {
      CASE(hello_has_16_bits_of_messages_and_6_of_credits),
      CASE(messages_that_arrived_do_not_go_again),
      CASE(none_or_all_arrived),
      CASE(counts_of_hellos_wrap),
      CASE(peer_cannot_have_had_more_or_fewer),
      CASE(writes_before_an_arrived_message_are_not_done_again),
      CASE(reads_are_done_again_unless_a_fence_says_they_are_done),
      CASE(reads_before_any_fence_are_done),
      CASE(atomics_end_the_connection),
      CASE(credits_go_by_their_own_count),
      CASE(queue_pairs_are_looked_at_one_by_one),
      CASE(queue_pairs_take_turns),
      CASE(what_is_complete_does_not_go_again),
      CASE(runs_go_again_as_a_whole),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
