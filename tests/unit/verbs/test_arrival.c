/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that have arrived: rows of completions, sequence numbers, and what is refused. */
#include <endian.h>

#include "receive.h"
#include "srq.h"
#include "support.h"

#define MESSAGE_WR_ID (VB_RECEIVE | WR_ID)
#define LONGEST 256u /* bytes of a slot */

static struct pst_completion told[VB_POLL_BATCH];
static struct vb_out out;
static struct vb_srq shared;
static uint32_t back[SLOTS];
static uint64_t next_sequence;

/* The line of slots begins at `tail` of its room for 8; `granted` of them are the peer's. */
static void begin_at(uint32_t tail, uint32_t granted)
{
  static const uint32_t slots[SLOTS] = {5, 2, 7, 0, 1, 6, 3, 4};

  start_support(1);
  rx.own->line.head = rx.own->line.tail = tail;
  for (uint32_t i = 0; i < granted; i++)
    add_slot(slots[i]);
  rq.posted = 20;
  out = (struct vb_out){told, VB_POLL_BATCH};
  next_sequence = 0;
}

static int begin(void **state)
{
  (void)state;
  begin_at(0, SLOTS);
  return 0;
}

/* Completions of the device; those of the next message by default. */
static struct ibv_wc *complete(void)
{
  struct ibv_wc *wc = &worker.wc[worker.wc_count++];

  *wc = (struct ibv_wc){.wr_id = MESSAGE_WR_ID,
                        .status = IBV_WC_SUCCESS,
                        .opcode = IBV_WC_RECV_RDMA_WITH_IMM,
                        .byte_len = 10 + worker.wc_count,
                        .imm_data = htobe32((uint32_t)(rx.initial + next_sequence++)),
                        .qp_num = 100};
  return wc;
}

static void complete_more(uint32_t n)
{
  while (n--)
    complete();
}

static uint32_t take(uint32_t most)
{
  return vb_arrived_in_line(&endpoint, most, &out);
}

static void messages_fill_the_slots_of_the_line(void **state)
{
  static const uint32_t slots[] = {5, 2, 7};

  (void)state;
  complete_more(3);
  assert_int_equal(take(VB_POLL_BATCH), 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(told[i].kind, PST_COMPLETION_MESSAGE);
    assert_int_equal(told[i].code, 0);
    assert_int_equal(told[i].flags, PST_HAS_SEQUENCE);
    assert_int_equal(told[i].status, 0);
    assert_int_equal(told[i].endpoint, COOKIE);
    assert_int_equal(told[i].u.message.token, pst_token(ring.place, slots[i]));
    assert_int_equal(told[i].u.message.offset, 4096 + 32 + slots[i] * 512);
    assert_int_equal(told[i].u.message.length, 11 + i);
    assert_int_equal(told[i].u.message.buffer, 0);
    assert_int_equal(told[i].u.message.sequence, i);
    assert_int_equal(told[i].u.message.meta, 0);
    assert_int_equal(told[i].u.message.time_ns, 0);
    assert_true(vb_bits_has(rx.own->held, slots[i]));
  }
  assert_false(vb_bits_has(rx.own->held, 0));
  assert_ptr_equal(out.at, told + 3);
  assert_int_equal(out.room, VB_POLL_BATCH - 3);
  assert_int_equal(worker.wc_at, 3);
  assert_int_equal(rx.own->line.count, SLOTS - 3);
  assert_int_equal(rx.arrived, 3);
  assert_int_equal(rx.bytes, 11 + 12 + 13);
  assert_int_equal(rx.highest, 2);
  assert_int_equal(endpoint.arrivals, 3);
  assert_int_equal(rq.posted, 17);
}

static void numbers_are_the_nearest_that_end_so(void **state)
{
  static const uint64_t sequences[] = {0xffffffff,  0x100000001, 0x100000000, /* late */
                                       0xffffff00,  0x100000002, 0x17fffffff, /* far ahead */
                                       0x100000000, 0x1fffffffe};

  (void)state;
  rx.highest = 0xfffffffe;
  for (int turn = 0; turn < 2; turn++) {
    if (turn) {
      begin(state);
      rx.highest = 0xfffffffe;
      rx.initial = UINT64_C(0x380000007);
    }
    for (uint32_t i = 0; i < 8; i++) {
      next_sequence = sequences[i];
      complete();
    }
    assert_int_equal(take(3), 3);
    assert_int_equal(rx.highest, 0x100000001);
    assert_int_equal(take(5), 5);
    for (uint32_t i = 0; i < 8; i++)
      assert_int_equal(told[i].u.message.sequence, sequences[i]);
    assert_int_equal(rx.highest, 0x1fffffffe);
    stop_support(state);
  }
}

/* The next completion, behind so many messages. */
static void expect_refused(uint32_t as_told)
{
  assert_int_equal(take(VB_POLL_BATCH), 0);
  assert_int_equal(worker.wc_at, as_told);
  assert_int_equal(failed_status, 0); /* poll() looks at the one completion */
  vb_arrived(&endpoint, &worker.wc[worker.wc_at], &out);
  assert_int_equal(failed_status, -EPROTO);
  assert_string_equal(failed_why,
                      "the peer sent a message for which it had no slot, or a longer one");
  assert_int_equal(rx.arrived, as_told);
  assert_ptr_equal(out.at, told + as_told);
}

static void a_longer_message_is_refused(void **state)
{
  (void)state;
  complete()->byte_len = LONGEST;
  complete()->byte_len = 0;
  complete()->byte_len = LONGEST + 1;
  complete();
  assert_int_equal(take(VB_POLL_BATCH), 2);
  expect_refused(2);
}

static void a_message_without_a_granted_slot_is_refused(void **state)
{
  (void)state;
  begin_at(0, 2);
  vb_slot_fifo_put(&rx.back, 7, 1); /* which was released, and is not granted again */
  complete_more(3);
  assert_int_equal(take(VB_POLL_BATCH), 2);
  expect_refused(2);
}

static void rows_continue_in_the_next_run(void **state)
{
  (void)state;
  begin_at(UINT32_MAX - 2, SLOTS); /* 3 slots before the end of its room */
  complete_more(6);
  assert_int_equal(take(VB_POLL_BATCH), 6);
  assert_int_equal(rx.own->line.tail, 2);
  assert_int_equal(rx.own->line.count, 2);
  assert_int_equal(pst_token_slot(told[2].u.message.token), 7);
  assert_int_equal(pst_token_slot(told[3].u.message.token), 0);
}

static void rows_are_as_long_as_there_is_room_for(void **state)
{
  (void)state;
  complete_more(6);
  assert_int_equal(take(2), 2);
  out.room = 1;
  assert_int_equal(take(VB_POLL_BATCH), 1);
  assert_int_equal(take(VB_POLL_BATCH), 0);
  out.room = 9;
  assert_int_equal(take(VB_POLL_BATCH), 3);
  assert_int_equal(take(VB_POLL_BATCH), 0);
  assert_int_equal(out.at - told, 6);
}

static void completions_of_others_end_a_row(void **state)
{
  for (int turn = 0; turn < 4; turn++) {
    begin(state);
    complete_more(4);
    struct ibv_wc *wc = &worker.wc[2];
    if (turn == 0)
      wc->wr_id += UINT64_C(1) << 32; /* of another endpoint */
    else if (turn == 1)
      wc->status = IBV_WC_WR_FLUSH_ERR;
    else if (turn == 2)
      wc->opcode = IBV_WC_RECV; /* credit */
    else
      wc->wr_id ^= VB_RECEIVE; /* a request that is done */
    assert_int_equal(take(VB_POLL_BATCH), 2);
    stop_support(state);
  }
  begin(state);
  rx.sends = true; /* messages are SENDs then */
  complete()->opcode = IBV_WC_RECV;
  complete();
  assert_int_equal(take(VB_POLL_BATCH), 1);
}

static void an_endpoint_with_more_to_see_to_has_no_rows(void **state)
{
  for (int turn = 0; turn < 5; turn++) {
    begin(state);
    complete();
    if (turn == 0)
      endpoint.rx = NULL;
    else if (turn == 1)
      endpoint.receive_buffers = 1;
    else if (turn == 2)
      endpoint.is_connected = false;
    else if (turn == 3)
      endpoint.tell_connected = true;
    else
      endpoint.closing.mode = PST_CLOSE_DRAIN;
    assert_int_equal(take(VB_POLL_BATCH), 0);
    assert_int_equal(worker.wc_at, 0);
    assert_int_equal(rx.arrived, 0);
    stop_support(state);
  }
  begin(state);
  endpoint.closing.mode = PST_CLOSE_DRAIN; /* what still comes is dropped */
  vb_arrived(&endpoint, complete(), &out);
  assert_int_equal(failed_status, 0);
  assert_ptr_equal(out.at, told);
}

/* A credit message has arrived once a message has come into the first slot that it granted. */
static void messages_say_which_credit_has_arrived(void **state)
{
  (void)state;
  rx.credits_sent = VB_CONTROL_RECEIVES + 2;
  rx.credits_taken = VB_CONTROL_RECEIVES - 1;
  rx.own->first_of[VB_CONTROL_RECEIVES - 1] = 1;
  rx.own->first_of[0] = 2;
  rx.own->first_of[1] = 5;
  complete_more(5);
  assert_int_equal(take(1), 1);
  assert_int_equal(rx.credits_taken, VB_CONTROL_RECEIVES - 1);
  assert_int_equal(take(1), 1);
  assert_int_equal(rx.credits_taken, VB_CONTROL_RECEIVES);
  assert_int_equal(take(3), 3);
  assert_int_equal(rx.credits_taken, VB_CONTROL_RECEIVES + 1);
  assert_false(endpoint.is_pending);
  vb_slot_fifo_put(&rx.back, 5, 1); /* a slot is back: there is credit to give */
  complete();
  assert_int_equal(take(1), 1);
  assert_true(endpoint.is_pending);
}

/* ---- Runs ----------------------------------------------------------------------------------- */

/* Slots 0 to 7 are granted, of 256 bytes, 512 apart. */
static void begin_runs(void)
{
  begin_at(0, 0);
  for (uint32_t i = 0; i < SLOTS; i++)
    add_slot(i);
  rx.has_runs = true;
}

static void expect_run(uint32_t from, uint32_t n, uint32_t length)
{
  for (uint32_t i = from; i < from + n; i++) {
    assert_int_equal(told[i].kind, PST_COMPLETION_MESSAGE);
    assert_int_equal(told[i].endpoint, COOKIE);
    assert_int_equal(told[i].u.message.token, pst_token(ring.place, i));
    assert_int_equal(told[i].u.message.offset, 4096 + 32 + i * 512);
    assert_int_equal(told[i].u.message.length, length);
    assert_int_equal(told[i].u.message.sequence, i);
    assert_true(vb_bits_has(rx.own->held, i));
  }
}

static void a_run_is_told_message_by_message(void **state)
{
  (void)state;
  begin_runs();
  complete()->byte_len = 3 * 512 + 256;
  next_sequence = 4;
  complete()->byte_len = 200;
  complete()->byte_len = 512 + 200;
  assert_int_equal(take(VB_POLL_BATCH), 3);
  expect_run(0, 4, 256);
  expect_run(4, 3, 200);
  assert_int_equal(rx.arrived, 7);
  assert_int_equal(rx.highest, 6);
  assert_int_equal(rx.bytes, 4 * 256 + 3 * 200);
  assert_int_equal(rx.own->line.count, SLOTS - 7);
  assert_int_equal(rq.posted, 17); /* a receive each */
  assert_int_equal(worker.wc_at, 3);
}

static void a_run_is_told_as_there_is_room(void **state)
{
  (void)state;
  begin_runs();
  complete()->byte_len = 6 * 512 + 100;
  out.room = 3;
  assert_int_equal(take(VB_POLL_BATCH), 1);
  assert_int_equal(worker.wc_at, 0);
  assert_int_equal(rq.posted, 20);
  expect_run(0, 3, 100);
  assert_false(endpoint.rx->arrived != 3);
  out.room = 3;
  assert_false(vb_arrived(&endpoint, &worker.wc[0], &out)); /* or one by one */
  expect_run(3, 3, 100);
  out.room = 3;
  assert_true(vb_arrived(&endpoint, &worker.wc[0], &out));
  expect_run(6, 1, 100);
  assert_int_equal(out.at - told, 7);
  assert_int_equal(out.room, 2);
  assert_int_equal(failed_status, 0);
}

static void numbers_of_a_run_pass_32_bits(void **state)
{
  (void)state;
  begin_runs();
  rx.highest = UINT32_MAX - 1;
  next_sequence = UINT32_MAX;
  complete()->byte_len = 4 * 512 + 100;
  assert_int_equal(take(VB_POLL_BATCH), 1);
  assert_int_equal(worker.wc_at, 1);
  for (uint32_t i = 0; i < 5; i++) {
    assert_int_equal(pst_token_slot(told[i].u.message.token), i);
    assert_int_equal(told[i].u.message.sequence, UINT64_C(0xffffffff) + i);
  }
  assert_int_equal(rx.highest, UINT64_C(0x100000003));
}

static void runs_that_cannot_be_are_refused(void **state)
{
  static const uint32_t lengths[] = {257, 512, 512 + 257, 8 * 512 + 1 /* of 8 slots */};

  for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
    stop_support(state);
    begin_runs();
    complete()->byte_len = lengths[i];
    expect_refused(0);
  }
  stop_support(state);
  begin_at(0, SLOTS); /* slots that do not follow one another */
  rx.has_runs = true;
  complete()->byte_len = 512 + 100;
  expect_refused(0);
  stop_support(state);
  begin_runs();
  rx.has_runs = false;
  complete()->byte_len = 512 + 100;
  expect_refused(0);
}

/* ---- Shared receives ------------------------------------------------------------------------ */

/* Entries 0 to 7 are with the device. */
static void begin_shared(bool slots)
{
  uint32_t place = 0;

  begin_at(0, slots ? 0 : SLOTS);
  shared = (struct vb_srq){.worker = &worker, .posted = SLOTS, .back = back};
  assert_int_equal(pst_places_take(&worker.shared, &shared, VB_PLACES, &place), 0);
  shared.wr_id = VB_RECEIVE | (uint64_t)place << 32 | VB_SRQ_BIT;
  endpoint.shared = &shared;
  endpoint.number = 100;
  rx.sends = slots;
  rx.granted = slots ? 3 : 0;
}

static int end(void **state)
{
  free(worker.shared.all);
  worker.shared.all = NULL;
  return stop_support(state);
}

static struct ibv_wc *complete_shared(uint32_t entry)
{
  struct ibv_wc *wc = complete();

  wc->wr_id = shared.wr_id | entry;
  wc->opcode = rx.sends ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
  return wc;
}

static void shared_receives_go_back(void **state)
{
  (void)state;
  begin_shared(false);
  complete_shared(6);
  complete_shared(1);
  complete_shared(3)->qp_num = 101; /* another endpoint's */
  assert_int_equal(take(VB_POLL_BATCH), 2);
  assert_int_equal(pst_token_slot(told[0].u.message.token), 5); /* of the line */
  assert_int_equal(pst_token_slot(told[1].u.message.token), 2);
  assert_int_equal(shared.posted, SLOTS - 2);
  assert_int_equal(shared.back_count, 2);
  assert_int_equal(back[0], 6);
  assert_int_equal(back[1], 1);
  assert_ptr_equal(worker.shared_due, &shared);
  assert_int_equal(rq.posted, 20); /* what is reserved stays so */
}

static void shared_slots_are_the_ones_that_were_filled(void **state)
{
  (void)state;
  begin_shared(true);
  complete_shared(6);
  complete_shared(1);
  assert_int_equal(take(VB_POLL_BATCH), 2);
  assert_int_equal(pst_token_slot(told[0].u.message.token), 6);
  assert_int_equal(told[1].u.message.offset, 4096 + 32 + 512);
  assert_true(vb_bits_has(ring.held, 6));
  assert_int_equal(ring.owners[6], endpoint.place);
  assert_int_equal(shared.back_count, 0); /* the host has them */
  assert_int_equal(rx.granted, 1);
  assert_int_equal(rx.out, 2);
  complete_shared(3);
  complete_shared(4); /* more than it was granted */
  assert_int_equal(take(VB_POLL_BATCH), 1);
  expect_refused(3);
  assert_int_equal(shared.back_count, 1);
  assert_int_equal(back[0], 4);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      CASE(messages_fill_the_slots_of_the_line),
      CASE(numbers_are_the_nearest_that_end_so),
      CASE(a_longer_message_is_refused),
      CASE(a_message_without_a_granted_slot_is_refused),
      CASE(rows_continue_in_the_next_run),
      CASE(rows_are_as_long_as_there_is_room_for),
      CASE(completions_of_others_end_a_row),
      CASE(an_endpoint_with_more_to_see_to_has_no_rows),
      CASE(messages_say_which_credit_has_arrived),
      CASE(a_run_is_told_message_by_message),
      CASE(a_run_is_told_as_there_is_room),
      CASE(numbers_of_a_run_pass_32_bits),
      CASE(runs_that_cannot_be_are_refused),
      CASE(shared_receives_go_back),
      CASE(shared_slots_are_the_ones_that_were_filled),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
