/* SPDX-License-Identifier: Apache-2.0 */
/* Several queue pairs of an endpoint: whose turn it is, how far all are, messages before their
 * turn. */
#include <endian.h>

#include "connection.h"
#include "multi_qp.h"
#include "qp.h"
#include "receive.h"
#include "support.h"

#define FROM UINT64_C(0x10000000c) /* the send queue's end lies among the requests */
#define LATE 4u                    /* messages of a queue pair that may wait for their turn */

static struct rc_arrival late[RC_LANES_MAX][LATE];
static struct pst_completion told[SLOTS];
static struct vb_out out;

static void begin(uint32_t lanes, uint32_t turn)
{
  start_connection(lanes);
  tx.turn = rx.own->turn = turn;
  endpoint.sq.head = endpoint.sq.done = endpoint.sq.told = FROM;
  for (uint32_t i = 0; i < lanes; i++) {
    connection.lanes[i].done = FROM;
    connection.lanes[i].arrived = late[i];
    connection.lanes[i].arrived_mask = LATE - 1;
  }
  out = (struct vb_out){told, SLOTS};
}

/* Work requests that are built and not posted: a message for each `m`, a WRITE for each `w`. */
static uint64_t build(const char *kinds)
{
  uint64_t i = FROM;

  for (; *kinds; kinds++, i++) {
    struct vb_sent *sent = &endpoint.sq.sent[i & endpoint.sq.mask];
    *sent = (struct vb_sent){
        .count = 1, .opcode = *kinds == 'm' ? PST_OP_SEND : PST_OP_WRITE, .lane = 99};
    endpoint.sq.wrs[i & endpoint.sq.mask].wr_id = i - FROM;
    endpoint.sq.wrs[i & endpoint.sq.mask].send_flags = 0;
  }
  return i;
}

/* By queue pair, one call each, as digits: "056|12|34". */
static void expect_posted(const char *expected)
{
  char text[2 * POSTED_MAX] = "", *at = text;

  for (uint32_t i = 0; i < posted_count; i++) {
    const struct posted *one = &posted[i];
    const bool is_last = i + 1 == posted_count || posted[i + 1].call != one->call;
    *at++ = (char)('0' + one->wr.wr_id);
    assert_int_equal(endpoint.sq.sent[(FROM + one->wr.wr_id) & endpoint.sq.mask].lane, one->lane);
    assert_int_equal(one->wr.send_flags, is_last ? IBV_SEND_SIGNALED : 0);
    if (is_last && i + 1 < posted_count) {
      assert_true(posted[i + 1].lane > one->lane);
      *at++ = '|';
    }
  }
  assert_string_equal(text, expected);
}

static void messages_go_by_turn(void **state)
{
  (void)state;
  begin(3, 2);
  connection.striped = 1; /* in the midst of the first one's turn */
  const uint64_t to = build("mmmmmmm");
  assert_int_equal(rc_lanes_ring(&endpoint.sq, FROM, to), 7);
  expect_posted("056|12|34");
  assert_int_equal(connection.striped, 8);
  assert_int_equal(endpoint.sq.head, to);
  assert_int_equal(posted[0].lane, 0);
}

static void a_turn_goes_on_with_the_next_row(void **state)
{
  (void)state;
  begin(3, 4);
  const uint64_t to = build("mmmmmmm");
  assert_int_equal(rc_lanes_ring(&endpoint.sq, FROM, FROM + 3), 3);
  expect_posted("012");
  posted_count = 0;
  assert_int_equal(rc_lanes_ring(&endpoint.sq, FROM + 3, to), 4);
  expect_posted("3|456");
  assert_int_equal(posted[0].lane, 0);
}

static void all_else_goes_by_the_first(void **state)
{
  (void)state;
  begin(2, 1);
  const uint64_t to = build("mwwmmwm");
  assert_int_equal(rc_lanes_ring(&endpoint.sq, FROM, to), 7);
  expect_posted("01245|36");
  assert_int_equal(connection.striped, 4);
  begin(2, 1);
  connection.striped = 1;
  assert_int_equal(rc_lanes_ring(&endpoint.sq, FROM, build("wwm")), 3);
  expect_posted("01|2");
}

static void once_more_they_go_as_they_went(void **state)
{
  static const uint8_t lanes[] = {1, 0, 0, 1, 1, 0};

  (void)state;
  begin(2, 1);
  connection.striped = 5;
  const uint64_t to = build("mmwmmm");
  for (uint32_t i = 0; i < 6; i++)
    endpoint.sq.sent[(FROM + i) & endpoint.sq.mask].lane = lanes[i];
  assert_int_equal(rc_lanes_ring_again(&endpoint, FROM, to), 6);
  expect_posted("125|034");
  assert_int_equal(connection.striped, 5);
}

static void expect_failed(int status, const char *why)
{
  assert_int_equal(connection.stage.name, RC_FAILED);
  assert_int_equal(connection.stage.over.status, status);
  assert_int_equal(endpoint.sq.error, -ECONNRESET);
  assert_true(rc_tells_gone(&endpoint));
  assert_non_null(strstr(fake_log(), why));
}

static void none_goes_where_the_first_post_fails(void **state)
{
  (void)state;
  begin(2, 2);
  posts_left = 0;
  assert_int_equal(rc_lanes_ring(&endpoint.sq, FROM, build("mmmm")), -ENOMEM);
  assert_int_equal(endpoint.sq.head, FROM);
  assert_int_equal(post_calls, 1);
  assert_int_equal(connection.stage.name, RC_CONNECTED); /* the caller fails it */
}

/* Requests that were not posted fail with the connection, as those that were. */
static void a_post_that_fails_half_way_fails_the_connection(void **state)
{
  for (uint32_t went = 1; went <= 3; went++) {
    begin(3, 2);
    posts_left = went;
    const uint64_t to = build("mmmmmm");
    assert_int_equal(rc_lanes_ring(&endpoint.sq, FROM, to), 6);
    assert_int_equal(endpoint.sq.head, to);
    assert_int_equal(posted_count, went);
    assert_int_equal(post_calls, went < 2 ? 1 : 2); /* and no other queue pair is tried */
    expect_failed(-ENOMEM, "ibv_post_send");
    stop_support(state);
  }
}

static void the_send_queue_is_done_as_far_as_all_are(void **state)
{
  (void)state;
  begin(2, 1);
  rc_lanes_ring(&endpoint.sq, FROM, build("mmmmmm"));
  rc_lane_done(&endpoint, &connection.lanes[0], FROM + 5);
  assert_int_equal(endpoint.sq.done, FROM + 1);
  rc_lane_done(&endpoint, &connection.lanes[1], FROM + 2);
  assert_int_equal(endpoint.sq.done, FROM + 3);
  connection.lanes[1].failed_from = FROM + 3; /* and its own behind it */
  rc_lane_done(&endpoint, &connection.lanes[1], FROM + 4);
  assert_int_equal(endpoint.sq.done, FROM + 5);
  assert_int_equal(endpoint.sq.failed_from, FROM + 3);
  rc_lane_done(&endpoint, &connection.lanes[1], FROM + 6);
  assert_int_equal(endpoint.sq.done, FROM + 6);
  assert_int_equal(endpoint.sq.failed_from, FROM + 3);
  begin(2, 2);
  rc_lanes_ring(&endpoint.sq, FROM, build("mmm"));
  rc_lane_done(&endpoint, &connection.lanes[0], FROM + 1); /* the next one is its own, too */
  assert_int_equal(endpoint.sq.done, FROM + 1);
}

static void one_queue_pair_is_the_send_queue(void **state)
{
  (void)state;
  begin(1, 1);
  endpoint.sq.head = FROM + 6;
  rc_lane_done(&endpoint, connection.lanes, FROM + 2);
  assert_int_equal(endpoint.sq.done, FROM + 2);
  connection.lanes[0].failed_from = FROM + 4;
  rc_lane_done(&endpoint, connection.lanes, FROM + 4);
  assert_int_equal(endpoint.sq.failed_from, VB_NEVER);
  rc_lane_done(&endpoint, connection.lanes, FROM + 5);
  assert_int_equal(endpoint.sq.failed_from, FROM + 4);
}

/* ---- Messages ------------------------------------------------------------------------------- */

static void add_slots(void)
{
  for (uint32_t i = 0; i < SLOTS; i++)
    add_slot(SLOTS - 1 - i);
}

static void arrive_long(uint32_t lane, uint32_t sequence, uint32_t length)
{
  const struct ibv_wc wc = {.byte_len = length, .imm_data = htobe32(sequence)};

  rc_lane_arrived(&endpoint, &connection.lanes[lane], &wc, &out);
}

static void arrive(uint32_t lane, uint32_t sequence)
{
  arrive_long(lane, sequence, 10 + sequence);
}

/* In their order, each in the next slot of the line. */
static void expect_told(uint32_t n)
{
  assert_int_equal(out.at - told, n);
  assert_int_equal(rx.arrived, n);
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(told[i].kind, PST_COMPLETION_MESSAGE);
    assert_int_equal(told[i].endpoint, COOKIE);
    assert_int_equal(told[i].u.message.sequence, i);
    assert_int_equal(told[i].u.message.length, 10 + i);
    assert_int_equal(pst_token_slot(told[i].u.message.token), SLOTS - 1 - i);
  }
}

static void turns_of_a_receiver(void **state)
{
  static const uint32_t lanes[] = {0, 0, 0, 0, 1, 1, 1, 1, 0};
  uint32_t left;

  (void)state;
  begin(2, 4);
  for (uint32_t i = 0; i < 9; i++) {
    rx.arrived = UINT64_C(6000000000) + i;
    assert_ptr_equal(rc_lanes_turn(&endpoint, &left), &connection.lanes[lanes[i]]);
    assert_int_equal(left, 4 - i % 4);
  }
}

static void messages_wait_for_their_turn(void **state)
{
  (void)state;
  begin(2, 2);
  add_slots();
  arrive(1, 2);
  arrive(1, 3);
  arrive(1, 6); /* of its next turn */
  expect_told(0);
  arrive(0, 0);
  expect_told(1);
  arrive(0, 1);
  expect_told(4);
  arrive(0, 4);
  expect_told(5);
  arrive(1, 7);
  arrive(0, 5);
  expect_told(8);
  assert_int_equal(out.room, 0);
}

static void as_many_are_told_as_there_is_room_for(void **state)
{
  (void)state;
  begin(2, 2);
  add_slots();
  arrive(1, 2);
  arrive(1, 3);
  arrive(1, 6);
  out.room = 3;
  arrive(0, 0);
  arrive(0, 1);
  expect_told(3);
  assert_true(endpoint.is_pending);
  assert_false(rc_lanes_deliver(&endpoint, &out));
  out.room = 1;
  assert_true(rc_lanes_deliver(&endpoint, &out)); /* the fourth; the others wait for a turn */
  expect_told(4);
  out.room = 2;
  assert_true(rc_lanes_deliver(&endpoint, &out));
  expect_told(4);
  assert_int_equal(connection.stage.name, RC_CONNECTED);
}

static void an_end_that_closes_tells_none(void **state)
{
  (void)state;
  begin(2, 2);
  add_slots();
  endpoint.closing.mode = PST_CLOSE_DRAIN;
  arrive(0, 0);
  expect_told(0);
  assert_true(rc_lanes_deliver(&endpoint, &out));
}

/* No more slots were granted than can wait. */
static void more_messages_than_can_wait_are_refused(void **state)
{
  (void)state;
  begin(2, 2);
  add_slots();
  for (uint32_t i = 0; i < LATE; i++)
    arrive(1, 2 + i);
  assert_int_equal(connection.stage.name, RC_CONNECTED);
  arrive(1, 2 + LATE);
  expect_failed(-EPROTO, "the peer sent a message for which it had no slot");
  expect_told(0);
  begin(2, 2);
  endpoint.rx = NULL;
  arrive(0, 0);
  expect_failed(-EPROTO, "the peer sent a message for which it had no slot");
}

static void a_message_that_waits_is_checked(void **state)
{
  (void)state;
  begin(2, 1);
  add_slots();
  arrive_long(1, 1, (uint32_t)ring.params.payload_max + 1);
  assert_int_equal(connection.stage.name, RC_CONNECTED);
  arrive(0, 0);
  expect_told(1);
  expect_failed(-EPROTO, "the peer sent a message for which it had no slot, or a longer one");
  begin(2, 1); /* nor is there a slot for it */
  arrive(0, 0);
  expect_told(0);
  expect_failed(-EPROTO, "the peer sent a message for which it had no slot, or a longer one");
}

/* ---- Rows ----------------------------------------------------------------------------------- */

static void complete(uint32_t qp_num, uint32_t sequence)
{
  worker.wc[worker.wc_count++] = (struct ibv_wc){.wr_id = VB_RECEIVE | WR_ID,
                                                 .status = IBV_WC_SUCCESS,
                                                 .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                                                 .byte_len = 10 + sequence,
                                                 .imm_data = htobe32(sequence),
                                                 .qp_num = qp_num};
}

static uint32_t take(void)
{
  return vb_arrived_in_line(&endpoint, VB_POLL_BATCH, &out);
}

static void rows_are_of_the_queue_pair_whose_turn_it_is(void **state)
{
  struct rc_lane *lanes = connection.lanes;

  (void)state;
  begin(2, 2);
  add_slots();
  lanes[0].rq.posted = lanes[1].rq.posted = 20;
  complete(101, 0);
  assert_int_equal(take(), 0); /* before its turn */
  worker.wc[0].qp_num = 100;
  lanes[0].arrived_head = 1; /* one waits for room, and comes first */
  assert_int_equal(take(), 0);
  lanes[0].arrived_head = 0;
  complete(100, 1);
  complete(100, 4); /* 2 and 3 are the other one's */
  assert_int_equal(take(), 2);
  assert_int_equal(lanes[0].rq.posted, 18);
  assert_int_equal(lanes[1].rq.posted, 20);
  assert_int_equal(lanes[0].messages, 2);
  assert_int_equal(take(), 0); /* the turn is over */
  late[0][0] = (struct rc_arrival){.length = 14, .number = htobe32(4)};
  lanes[0].arrived_head = 1; /* as poll() leaves it */
  worker.wc_at = worker.wc_count = 0;
  complete(101, 2);
  complete(101, 3);
  assert_int_equal(take(), 2);
  expect_told(5); /* and what waited for that */
  assert_int_equal(lanes[1].rq.posted, 18);
}

/* A run waits for its turn; its messages reach the host as that has room for them. */
static void runs_wait_for_their_turn(void **state)
{
  (void)state;
  begin(2, 4);
  for (uint32_t i = 0; i < SLOTS; i++)
    add_slot(i);
  rx.has_runs = true;
  arrive_long(1, 4, 3 * 512 + 200); /* 4 to 7 */
  assert_int_equal(connection.lanes[1].messages, 4);
  assert_int_equal(out.at - told, 0);
  arrive_long(0, 0, 2 * 512 + 100);
  assert_int_equal(out.at - told, 3);
  out.room = 3;
  arrive_long(0, 3, 200);
  assert_int_equal(out.at - told, 6);
  assert_true(endpoint.is_pending);
  out.room = 2;
  assert_true(rc_lanes_deliver(&endpoint, &out));
  assert_int_equal(out.at - told, 8);
  for (uint32_t i = 0; i < 8; i++) {
    assert_int_equal(told[i].u.message.sequence, i);
    assert_int_equal(told[i].u.message.length, i < 3 ? 100 : 200);
    assert_int_equal(pst_token_slot(told[i].u.message.token), i);
  }
  assert_int_equal(connection.lanes[0].messages, 4);
}

static void a_turn_counts_the_messages_of_runs(void **state)
{
  (void)state;
  begin(2, 4);
  const uint64_t to = build("mmmm");
  for (uint64_t i = FROM; i != to; i++)
    endpoint.sq.sent[i & endpoint.sq.mask].count = (uint16_t)(i == FROM + 1 ? 1
                                                              : i == FROM   ? 3
                                                                            : 4);
  assert_int_equal(rc_lanes_ring(&endpoint.sq, FROM, to), 4);
  expect_posted("013|2"); /* 3 + 1, 4, 4 */
  assert_int_equal(connection.striped, 12);
}

static void queues_have_room_for_turns(void **state)
{
  (void)state;
  begin(3, 1);
  endpoint.sq.size = 100;
  connection.lanes[0].rq.size = 50;
  endpoint.sq.requests_max = 90;
  rx.share = 240; /* turns of 16 messages */
  assert_int_equal(rc_lanes_size(&endpoint), 150 + 2 * (30 + 32 + 3) + 2 * (80 + 16 + 4));
  assert_int_equal(connection.lanes[1].rq.size, 100);
  assert_int_equal(connection.lanes[2].rq.size, 100);
  endpoint.sq.requests_max = 8; /* never more than there are in all */
  rx.share = 1;
  assert_int_equal(rc_lanes_size(&endpoint), 150 + 2 * (8 + 3) + 2 * (1 + 4));
  endpoint.rx = NULL;
  assert_int_equal(rc_lanes_size(&endpoint), 150 + 2 * (8 + 3) + 2 * 4);
  endpoint.lane_count = 1;
  assert_int_equal(rc_lanes_size(&endpoint), 150);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_teardown(name, stop_support)
  const struct CMUnitTest tests[] = {
      CASE(messages_go_by_turn),
      CASE(a_turn_goes_on_with_the_next_row),
      CASE(all_else_goes_by_the_first),
      CASE(once_more_they_go_as_they_went),
      CASE(none_goes_where_the_first_post_fails),
      CASE(a_post_that_fails_half_way_fails_the_connection),
      CASE(the_send_queue_is_done_as_far_as_all_are),
      CASE(one_queue_pair_is_the_send_queue),
      CASE(turns_of_a_receiver),
      CASE(messages_wait_for_their_turn),
      CASE(as_many_are_told_as_there_is_room_for),
      CASE(an_end_that_closes_tells_none),
      CASE(more_messages_than_can_wait_are_refused),
      CASE(a_message_that_waits_is_checked),
      CASE(rows_are_of_the_queue_pair_whose_turn_it_is),
      CASE(runs_wait_for_their_turn),
      CASE(a_turn_counts_the_messages_of_runs),
      CASE(queues_have_room_for_turns),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
