/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that are accepted and held back: when they go, behind which others, and how they end. */
#include "support.h"

#define HOUR "3600000000000"

static void late_by_one_and_counted(void **state)
{
  (void)state;
  SETUP(64, {"seed", "7"}, {"reorder_ppm", "10000"}, {"distance", "1"}, {"reorder_time", HOUR});
  rig.posted = 172; /* the one that seed 7 takes */
  assert_int_equal(post(3), 3);
  EXPECT_POSTED(0, 173, 172, 174);
  assert_int_equal(counter("injected_reorder"), 1);
  assert_int_equal(counter("reorder_at"), 172);
}

/* Seed 7: 1 + draw % 8 later ones, counted as they are accepted. */
static void late_by_what_the_draw_says(void **state)
{
  static const uint32_t behind[] = {2, 6, 6, 7, 5, 3, 6, 8};

  for (uint64_t number = 0; number < 8; number++) {
    reset(state);
    SETUP(64, {"seed", "7"}, {"reorder_ppm", "10000"}, {"distance", "8"}, {"reorder_time", HOUR});
    rig.device->plan.rates = rig.device->plan.below[FAULT_REORDER] = FAULT_MILLION;
    rig.posted = number;
    assert_int_equal(post(1), 1);
    rig.device->plan.rates = 0;
    assert_int_equal(post(behind[number] - 1), behind[number] - 1);
    assert_int_equal(inner.count, behind[number] - 1);
    assert_int_equal(post(1), 1);
    assert_int_equal(inner.posted[behind[number] - 1].u.send.sequence, number + behind[number]);
    poll_all();
    assert_int_equal(inner.count, behind[number] + 1);
    assert_int_equal(inner.posted[behind[number]].u.send.sequence, number);
    teardown(state);
  }
  reset(state);
}

/* Otherwise the queue is full before it is due. */
static void distance_is_at_most_half_of_the_queue(void **state)
{
  struct pst_endpoint *single = NULL;

  (void)state;
  SETUP(6, {"reorder_ppm", "1"}, {"distance", "1024"});
  assert_int_equal(rig.endpoint->engine->distance, 3);
  assert_int_equal(try_endpoint(1, &single), 0);
  assert_int_equal(single->engine->distance, 1);
}

static void run_ends_where_a_held_one_is_due(void **state)
{
  (void)state;
  SETUP(256, {"seed", "7"}, {"reorder_ppm", "10000"}, {"distance", "4"}, {"reorder_time", HOUR});
  for (int turn = 0; turn < 3; turn++) {
    uint64_t held = rig.posted = next_of(FAULT_REORDER, rig.posted);
    uint32_t from = inner.count;
    assert_int_equal(post(1), 1);
    uint64_t due = rig.endpoint->engine->reordered.first->due_count - rig.endpoint->engine->head;
    assert_int_equal(post(20), 20);
    assert_int_equal(inner.posted[from + due].u.send.sequence, held);
    assert_int_equal(inner.posted[from + due + 1].u.send.sequence, held + due + 1);
  }
}

/* No later one has passed it: nothing was reordered. */
static void without_later_ones_the_time_ends_it(void **state)
{
  (void)state;
  SETUP(64, {"reorder_ppm", "1000000"}, {"distance", "8"}, {"reorder_time", "5000"});
  assert_int_equal(post(1), 1);
  fake_clock_ns += 4999;
  poll_all();
  assert_int_equal(inner.count, 0);
  assert_int_equal(fault()->arm(rig.worker), -EAGAIN);
  fake_clock_ns += 1;
  poll_all();
  EXPECT_POSTED(0, 0);
  assert_int_equal(counter("injected_reorder"), 0);
  assert_int_equal(counter("reorder_missed"), 1);
  assert_int_equal(counter("ledger_checksum"), 0);
  assert_int_equal(fault()->arm(rig.worker), 0);
}

static void delay_lasts_its_time_and_others_pass(void **state)
{
  (void)state;
  SETUP(64, {"seed", "7"}, {"delay_ppm", "10000"}, {"delay_time", "1000"});
  rig.posted = 172;
  assert_int_equal(post(2), 2);
  EXPECT_POSTED(0, 173);
  fake_clock_ns += 999;
  assert_int_equal(post(1), 1);
  EXPECT_POSTED(0, 173, 174);
  fake_clock_ns += 1;
  assert_int_equal(post(1), 1);
  EXPECT_POSTED(0, 173, 174, 172, 175);
  assert_int_equal(counter("injected_delay"), 1);
  assert_int_equal(counter("delayed_late"), 1);
}

static void delayed_one_that_none_passes_is_not_late(void **state)
{
  (void)state;
  SETUP(64, {"delay_ppm", "1000000"}, {"delay_time", "1000"});
  assert_int_equal(post(3), 3);
  fake_clock_ns += 1000;
  poll_all();
  EXPECT_POSTED(0, 0, 1, 2);
  assert_int_equal(counter("injected_delay"), 3);
  assert_int_equal(counter("delayed_late"), 0);
}

/* When a delayed message goes depends on time; what is counted as reordered must not. */
static void delayed_one_that_passes_is_no_reordering(void **state)
{
  (void)state;
  SETUP(64, {"reorder_ppm", "1"}, {"delay_ppm", "1"}, {"delay_time", "10"}, {"reorder_time", "90"});
  struct fault_plan *plan = &rig.device->plan;
  plan->rates = plan->below[FAULT_REORDER] = FAULT_MILLION;
  assert_int_equal(post(1), 1); /* 0: reordered */
  plan->below[FAULT_REORDER] = plan->below[FAULT_CORRUPT] = 0;
  plan->below[FAULT_DELAY] = FAULT_MILLION;
  rig.endpoint->engine->reordered.first->due_count = 99;
  assert_int_equal(post(1), 1); /* 1: delayed, and due before it */
  fake_clock_ns += 10;
  poll_all();
  fake_clock_ns += 80;
  poll_all();
  EXPECT_POSTED(0, 1, 0);
  assert_int_equal(counter("injected_reorder"), 0);
  assert_int_equal(counter("reorder_missed"), 1);
  assert_int_equal(counter("delayed_late"), 1); /* the receiver sees one late message */
}

static void done_waits_for_a_held_one_before_it(void **state)
{
  (void)state;
  SETUP(64, {"seed", "7"}, {"delay_ppm", "10000"}, {"delay_time", "1000"});
  rig.posted = 172;
  assert_int_equal(post(3), 3);
  inner_done(2, 0);
  assert_int_equal(poll_all(), 0);
  fake_clock_ns += 1000;
  poll_all();
  inner_done(1, 0);
  expect_done(174, 3, 0);
}

static void unlike_statuses_behind_it_are_not_one_done(void **state)
{
  (void)state;
  SETUP(64, {"seed", "7"}, {"delay_ppm", "10000"}, {"delay_time", "1000"});
  rig.posted = 172;
  assert_int_equal(post(4), 4);
  inner_done(1, 0);
  inner_done(2, -EACCES);
  assert_int_equal(poll_all(), 0);
  fake_clock_ns += 1000;
  poll_all();
  inner_done(1, 0);
  assert_int_equal(poll_all(), 2);
  assert_int_equal(polled[0].status, 0);
  assert_int_equal(polled[0].u.done.cookie, 1173);
  assert_int_equal(polled[0].u.done.count, 2);
  assert_int_equal(polled[1].status, -EACCES);
  assert_int_equal(polled[1].u.done.cookie, 1175);
  assert_int_equal(polled[1].u.done.count, 2);
}

static void request_is_kept_with_its_pieces(void **state)
{
  struct pst_request request = send_of(0, 30);
  uint32_t wait;

  (void)state;
  SETUP(8, {"delay_ppm", "1000000"}, {"delay_time", "1000"});
  struct pst_piece pieces[] = {{rig.mr, 7, 10, 0}, {rig.mr, 90, 20, 0}};
  const struct pst_piece before[] = {pieces[0], pieces[1]};
  request.piece_count = 2;
  request.local.pieces = pieces;
  assert_int_equal(fault()->post(rig.endpoint, &request, 1, &wait), 1);
  memset(pieces, 0xff, sizeof(pieces));
  memset(&request, 0xff, sizeof(request));
  fake_clock_ns += 1000;
  poll_all();
  EXPECT_POSTED(0, 0);
  assert_int_equal(inner.posted[0].piece_count, 2);
  assert_memory_equal(inner.posted[0].local.pieces, before, sizeof(before));
}

static void held_one_that_is_refused_ends_with_the_error(void **state)
{
  (void)state;
  SETUP(8, {"delay_ppm", "1000000"}, {"delay_time", "1000"});
  assert_int_equal(post(1), 1);
  fake_clock_ns += 1000;
  inner.refuses = -EMSGSIZE;
  expect_done(0, 1, -EMSGSIZE);
  assert_int_equal(rig.endpoint->engine->held, 0);
}

static void transport_that_takes_none_keeps_them_in_order(void **state)
{
  (void)state;
  SETUP(8, {"delay_ppm", "1000000"}, {"delay_time", "1000"});
  assert_int_equal(post(3), 3);
  fake_clock_ns += 1000;
  inner.room = 1;
  poll_all();
  assert_int_equal(rig.endpoint->engine->held, 2);
  assert_int_equal(fault()->arm(rig.worker), 0); /* the transport wakes us */
  assert_int_equal(post(1), -EAGAIN);
  assert_int_equal(last_wait, PST_WAIT_CREDIT);
  inner.room = 8;
  poll_all();
  EXPECT_POSTED(0, 0, 1, 2);
}

static int flush(void)
{
  const struct pst_request request = {.opcode = PST_OP_FLUSH, .cookie = 5};
  return fault()->post(rig.endpoint, &request, 1, &last_wait);
}

static void flush_sends_reordered_ones_and_waits_for_delayed_ones(void **state)
{
  (void)state;
  SETUP(8, {"reorder_ppm", "1000000"}, {"reorder_time", HOUR});
  assert_int_equal(post(2), 2);
  assert_int_equal(flush(), 1);
  assert_int_equal(inner.count, 3);
  assert_int_equal(inner.posted[2].opcode, PST_OP_FLUSH);
  teardown(state);
  reset(state);
  SETUP(8, {"delay_ppm", "1000000"}, {"delay_time", "1000"});
  assert_int_equal(post(2), 2);
  assert_int_equal(flush(), -EAGAIN);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  fake_clock_ns += 1000;
  assert_int_equal(flush(), 1);
  assert_int_equal(inner.posted[2].opcode, PST_OP_FLUSH);
}

static void one_sided_requests_pass_held_messages(void **state)
{
  const struct pst_request requests[] = {{.opcode = PST_OP_WRITE, .cookie = 1},
                                         {.opcode = PST_OP_READ, .cookie = 2},
                                         {.opcode = PST_OP_FLUSH, .cookie = 3}};

  (void)state;
  SETUP(8, {"delay_ppm", "1000000"}, {"delay_time", "1000"});
  assert_int_equal(post(1), 1);
  assert_int_equal(fault()->post(rig.endpoint, requests, 3, &last_wait), 2);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  assert_memory_equal(inner.posted, requests, 2 * sizeof(*requests));
}

/* ---- The ends ------------------------------------------------------------------------------- */

static void expect_closed(void)
{
  inner_event(PST_EVENT_CLOSED, 0);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].kind, PST_COMPLETION_EVENT);
  assert_int_equal(polled[0].code, PST_EVENT_CLOSED);
  assert_null(rig.worker->endpoints);
}

static void drain_sends_what_is_held_and_closes_then(void **state)
{
  uint64_t deadline_ns = fake_clock_ns + 5000;

  (void)state;
  SETUP(8, {"delay_ppm", "1000000"}, {"delay_time", "1000"});
  assert_int_equal(post(2), 2);
  assert_int_equal(fault()->endpoint_close(rig.endpoint, PST_CLOSE_DRAIN, deadline_ns), 0);
  assert_int_equal(inner.close_mode, 0);
  assert_int_equal(fault()->arm(rig.worker), -EAGAIN);
  assert_int_equal(post(1), -ENOTCONN);
  fake_clock_ns += 1000;
  poll_all();
  assert_int_equal(inner.count, 2);
  assert_int_equal(inner.close_mode, PST_CLOSE_DRAIN);
  assert_int_equal(inner.close_deadline_ns, deadline_ns);
  inner_done(2, 0);
  expect_done(1, 2, 0);
  expect_closed();
}

static void deadline_cancels_what_is_held(void **state)
{
  (void)state;
  SETUP(8, {"delay_ppm", "1000000"}, {"delay_time", "9000"});
  assert_int_equal(post(2), 2);
  assert_int_equal(fault()->endpoint_close(rig.endpoint, PST_CLOSE_DRAIN, fake_clock_ns + 500), 0);
  fake_clock_ns += 499;
  assert_int_equal(poll_all(), 0);
  fake_clock_ns += 1;
  expect_done(1, 2, -ECANCELED);
  assert_int_equal(inner.close_mode, PST_CLOSE_DRAIN);
  expect_closed();
}

static void abort_cancels_at_once(void **state)
{
  (void)state;
  SETUP(8, {"delay_ppm", "1000000"}, {"delay_time", "9000"});
  assert_int_equal(post(2), 2);
  assert_int_equal(fault()->endpoint_close(rig.endpoint, 9, 0), -EINVAL);
  assert_int_equal(fault()->endpoint_close(rig.endpoint, PST_CLOSE_ABORT, 0), 0);
  assert_int_equal(fault()->endpoint_close(rig.endpoint, PST_CLOSE_ABORT, 0), -EALREADY);
  assert_int_equal(inner.close_mode, PST_CLOSE_ABORT);
  expect_done(1, 2, -ECANCELED);
  expect_closed();
}

static void peer_that_leaves_ends_what_is_held(void **state)
{
  (void)state;
  SETUP(8, {"delay_ppm", "500000"}, {"delay_time", "9000"}, {"reorder_ppm", "500000"});
  assert_int_equal(post(4), 4);
  inner_event(PST_EVENT_DISCONNECTED, -ETIMEDOUT);
  assert_int_equal(poll_all(), 2);
  assert_int_equal(polled[0].code, PST_EVENT_DISCONNECTED);
  assert_int_equal(polled[0].status, -ETIMEDOUT);
  assert_int_equal(polled[1].status, -ECONNRESET);
  assert_int_equal(polled[1].u.done.count, 4);
  assert_int_equal(post(1), -ECONNRESET);
  assert_int_equal(rig.endpoint->engine->held, 0);
}

static void holds_are_as_many_as_the_queue_and_used_again(void **state)
{
  (void)state;
  SETUP(4, {"delay_ppm", "1000000"}, {"delay_time", "10"});
  for (int turn = 0; turn < 100; turn++) {
    assert_int_equal(post(5), 4);
    fake_clock_ns += 10;
    poll_all();
    inner_done(4, 0);
    expect_done(rig.posted - 1, 4, 0);
  }
  assert_int_equal(inner.count, 400);
  for (uint32_t i = 0; i < 400; i++)
    assert_int_equal(inner.posted[i].u.send.sequence, i);
}

static void no_more_than_4096_are_held_in_a_longer_queue(void **state)
{
  (void)state;
  SETUP(8192, {"delay_ppm", "1000000"}, {"delay_time", "10"});
  for (uint32_t i = 0; i < FAULT_HOLDS_MAX / 256; i++)
    assert_int_equal(post(256), 256);
  assert_int_equal(post(1), -EAGAIN);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  struct fault_plan *plan = &rig.device->plan;
  plan->below[FAULT_DUPLICATE] = FAULT_MILLION; /* its second half may have to be held */
  assert_int_equal(post(1), -EAGAIN);
  fake_clock_ns += 10;
  assert_int_equal(post(1), 1);
  assert_int_equal(counter("injected_duplicate"), 1);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(late_by_one_and_counted),
      CASE(late_by_what_the_draw_says),
      CASE(distance_is_at_most_half_of_the_queue),
      CASE(run_ends_where_a_held_one_is_due),
      CASE(without_later_ones_the_time_ends_it),
      CASE(delay_lasts_its_time_and_others_pass),
      CASE(delayed_one_that_none_passes_is_not_late),
      CASE(delayed_one_that_passes_is_no_reordering),
      CASE(done_waits_for_a_held_one_before_it),
      CASE(unlike_statuses_behind_it_are_not_one_done),
      CASE(request_is_kept_with_its_pieces),
      CASE(held_one_that_is_refused_ends_with_the_error),
      CASE(transport_that_takes_none_keeps_them_in_order),
      CASE(flush_sends_reordered_ones_and_waits_for_delayed_ones),
      CASE(one_sided_requests_pass_held_messages),
      CASE(drain_sends_what_is_held_and_closes_then),
      CASE(deadline_cancels_what_is_held),
      CASE(abort_cancels_at_once),
      CASE(peer_that_leaves_ends_what_is_held),
      CASE(holds_are_as_many_as_the_queue_and_used_again),
      CASE(no_more_than_4096_are_held_in_a_longer_queue),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
