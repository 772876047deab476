/* SPDX-License-Identifier: Apache-2.0 */
/* How an endpoint ends: what it says, what it waits for, and what its deadline cuts. */
#include <endian.h>

#include "connection.h"
#include "ops.h"
#include "support.h"

#define NOW UINT64_C(5000000000)
#define DEADLINE (NOW + 10 * RC_FLUSH_NS)
#define RECEIVES 4u /* posted to each queue pair */

static uint32_t erred[LANES_MAX]; /* times, by queue pair */

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
  assert_int_equal(mask, IBV_QP_STATE);
  assert_int_equal(attr->qp_state, IBV_QPS_ERR);
  erred[qp - qps]++;
  return 0;
}

/* Two queue pairs, which are connected, and have two requests of the host's under way. */
static int begin(void **state)
{
  (void)state;
  start_connection(2);
  memset(erred, 0, sizeof(erred));
  fake_clock_ns = NOW;
  endpoint.closing.deadline_ns = VB_NEVER;
  for (uint32_t i = 0; i < 2; i++) {
    connection.lanes[i].is_erred = false;
    connection.lanes[i].rq.posted = RECEIVES;
    endpoint.sq.sent[i] = (struct vb_sent){.count = 1, .opcode = PST_OP_SEND, .lane = (uint8_t)i};
  }
  endpoint.sq.head = 2;
  return 0;
}

static void begin_close(uint32_t mode)
{
  assert_int_equal(rc_endpoint_close(&endpoint, mode, DEADLINE), 0);
  worker.pending = NULL;
  endpoint.is_pending = false;
}

static void complete_all(void)
{
  endpoint.sq.done = endpoint.sq.head;
  connection.lanes[0].own = connection.lanes[1].own = 0;
}

static void give_receives_back(void)
{
  connection.lanes[0].rq.posted = connection.lanes[1].rq.posted = 0;
}

static void expect_erred(uint32_t times)
{
  assert_int_equal(erred[0], times);
  assert_int_equal(erred[1], times);
}

static void expect_said(enum vb_control said)
{
  assert_int_equal(posted_count, 2);
  for (uint32_t i = 0; i < 2; i++) {
    assert_int_equal(posted[i].lane, i);
    assert_int_equal(be32toh(posted[i].wr.imm_data), said);
    assert_int_equal(posted[i].wr.send_flags, IBV_SEND_SIGNALED);
    assert_int_equal(connection.lanes[i].own, 1);
  }
}

static void each_queue_pair_says_how_it_ends(void **state)
{
  (void)state;
  assert_int_equal(rc_endpoint_close(&endpoint, PST_CLOSE_DRAIN, DEADLINE), 0);
  expect_said(VB_FAREWELL);
  assert_ptr_equal(worker.pending, &endpoint);
  assert_int_equal(worker.soonest_ns, DEADLINE); /* a sleeper wakes for it */
  begin(state);
  begin_close(PST_CLOSE_ABORT);
  expect_said(VB_ABORTED);
  expect_erred(0); /* before the peer has heard it */
}

static void it_is_closed_once(void **state)
{
  (void)state;
  assert_int_equal(rc_endpoint_close(&endpoint, 99, DEADLINE), -EINVAL);
  assert_int_equal(posted_count, 0);
  begin_close(PST_CLOSE_DRAIN);
  assert_int_equal(rc_endpoint_close(&endpoint, PST_CLOSE_ABORT, NOW), -EALREADY);
  assert_int_equal(posted_count, 2);
  assert_int_equal(endpoint.closing.mode, PST_CLOSE_DRAIN);
  assert_int_equal(endpoint.closing.deadline_ns, DEADLINE);
}

static void who_is_not_connected_says_nothing(void **state)
{
  static const enum rc_stage_name all[] = {RC_NEW, RC_SETTING_UP, RC_GREETING, RC_LEFT, RC_FAILED};

  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    begin(state);
    connection.stage = (struct rc_stage){.name = all[i]};
    begin_close(PST_CLOSE_DRAIN);
    assert_int_equal(posted_count, 0);
  }
}

static void a_farewell_that_is_refused_keeps_nothing_from_closing(void **state)
{
  (void)state;
  posts_left = 0;
  begin_close(PST_CLOSE_DRAIN);
  assert_int_equal(post_calls, 1); /* the second would say what the first could not */
  assert_int_equal(connection.lanes[0].own, 0);
  complete_all();
  assert_false(rc_close_step(&endpoint, NOW));
  give_receives_back();
  assert_true(rc_close_step(&endpoint, NOW));
}

static void no_event_follows(void **state)
{
  (void)state;
  worker.told = 1;
  endpoint.want = VB_WANT_TOLD;
  connection.stage = (struct rc_stage){.name = RC_FAILED, .over.is_due = true};
  begin_close(PST_CLOSE_DRAIN);
  assert_int_equal(worker.told, 0);
  assert_false(rc_tells_gone(&endpoint));
}

/* ---- Waits ------------------------------------------------------------------------------- */

static void it_goes_to_error_once_all_is_done(void **state)
{
  static const uint32_t modes[] = {PST_CLOSE_DRAIN, PST_CLOSE_ABORT};

  for (int i = 0; i < 2; i++) {
    begin(state);
    begin_close(modes[i]);
    endpoint.sq.done = 1;
    connection.lanes[0].own = connection.lanes[1].own = 0;
    assert_false(rc_close_step(&endpoint, NOW));
    expect_erred(0);
    complete_all();
    connection.lanes[1].own = 1; /* one farewell is under way */
    assert_false(rc_close_step(&endpoint, DEADLINE - 1));
    expect_erred(0);
    assert_null(worker.pending);
    connection.lanes[1].own = 0;
    assert_false(rc_close_step(&endpoint, NOW + 7)); /* what is flushed is taken in first */
    expect_erred(1);
    assert_int_equal(connection.over_ns, NOW + 7);
    assert_ptr_equal(worker.pending, &endpoint);
    assert_int_equal(worker.soonest_ns, NOW + 7 + RC_FLUSH_NS);
    assert_false(rc_close_step(&endpoint, NOW + 8));
    give_receives_back();
    assert_true(rc_close_step(&endpoint, NOW + 9));
    expect_erred(1);
    assert_false(endpoint.is_cut);
  }
}

static void a_deferred_work_ends_first(void **state)
{
  (void)state;
  connection.stage = (struct rc_stage){.name = RC_SETTING_UP};
  connection.setup = 1;
  give_receives_back();
  endpoint.sq.head = 0;
  begin_close(PST_CLOSE_ABORT);
  assert_false(rc_close_step(&endpoint, DEADLINE + 1)); /* it has the queue pair */
  expect_erred(0);
  connection.setup = 2;
  assert_false(rc_close_step(&endpoint, DEADLINE + 1));
  expect_erred(1);
  assert_true(rc_close_step(&endpoint, DEADLINE + 1));
}

/* The first one's hello was given up, and the other is where it was. */
static void all_queue_pairs_go_to_error(void **state)
{
  (void)state;
  connection.stage = (struct rc_stage){.name = RC_GREETING};
  connection.lanes[0].is_erred = true;
  begin_close(PST_CLOSE_DRAIN);
  assert_false(rc_close_step(&endpoint, NOW));
  assert_int_equal(erred[0], 0);
  assert_int_equal(erred[1], 1);
}

static void who_is_not_connected_waits_for_nothing(void **state)
{
  (void)state;
  connection.stage = (struct rc_stage){.name = RC_GREETING};
  begin_close(PST_CLOSE_DRAIN);
  assert_false(rc_close_step(&endpoint, NOW));
  expect_erred(1);
  assert_int_equal(endpoint.sq.error, -ECANCELED);
}

/* It may have had them, and answered: with a drain this is worth waiting for. */
static void answers_of_a_peer_that_left_are_drained(void **state)
{
  (void)state;
  connection.stage = (struct rc_stage){.name = RC_LEFT};
  begin_close(PST_CLOSE_DRAIN);
  assert_false(rc_close_step(&endpoint, NOW));
  expect_erred(0);
  endpoint.sq.done = 1;
  endpoint.sq.sent[1].opcode = 0; /* credit alone is nothing to it any more */
  assert_false(rc_close_step(&endpoint, NOW));
  expect_erred(1);
  begin(state);
  connection.stage = (struct rc_stage){.name = RC_LEFT};
  begin_close(PST_CLOSE_ABORT);
  assert_false(rc_close_step(&endpoint, NOW));
  expect_erred(1);
}

static void a_reconnection_ends(void **state)
{
  (void)state;
  connection.stage = (struct rc_stage){.name = RC_FLUSHING, .again.flushed = 1};
  begin_close(PST_CLOSE_DRAIN);
  assert_int_equal(connection.stage.name, RC_FAILED);
  assert_false(rc_tells_gone(&endpoint));
  assert_int_equal(posted_count, 0);
  assert_int_equal(endpoint.sq.error, -ECANCELED);
  assert_int_equal(endpoint.sq.failed_from, 0);
  assert_int_equal(endpoint.sq.done, 1); /* what the device has given back */
}

/* ---- Deadlines --------------------------------------------------------------------------- */

static void a_deadline_ends_what_is_under_way(void **state)
{
  (void)state;
  begin_close(PST_CLOSE_DRAIN);
  endpoint.sq.done = 1;
  assert_false(rc_close_step(&endpoint, DEADLINE));
  expect_erred(1);
  assert_int_equal(endpoint.sq.error, -ECANCELED);
  complete_all(); /* it is flushed at once */
  give_receives_back();
  assert_true(rc_close_step(&endpoint, DEADLINE));
  assert_false(endpoint.is_cut);
  begin(state);
  endpoint.sq.error = -ETIMEDOUT; /* the first error counts */
  begin_close(PST_CLOSE_DRAIN);
  assert_false(rc_close_step(&endpoint, DEADLINE));
  assert_int_equal(endpoint.sq.error, -ETIMEDOUT);
}

/* This thread may have stood still: what lies in the completion queue is taken before. */
static void what_a_device_does_not_give_back_is_cut(void **state)
{
  (void)state;
  begin_close(PST_CLOSE_DRAIN);
  endpoint.sq.done = 1;
  assert_false(rc_close_step(&endpoint, DEADLINE));
  worker.pending = NULL;
  endpoint.is_pending = false;
  assert_false(rc_close_step(&endpoint, DEADLINE));
  assert_ptr_equal(worker.pending, &endpoint);
  assert_false(rc_close_step(&endpoint, DEADLINE + 1));
  assert_false(endpoint.is_cut);
  worker.empties++;
  assert_true(rc_close_step(&endpoint, DEADLINE + 1));
  assert_true(endpoint.is_cut);
  assert_int_equal(endpoint.sq.failed_from, 1);
  assert_int_equal(endpoint.sq.done, 2);
  for (uint32_t i = 0; i < 2; i++)
    assert_int_equal(connection.lanes[i].own + connection.lanes[i].rq.posted, 0);
}

/* They are nobody's requests: they have a second, not all the time until the deadline. */
static void missing_receives_do_not_hold_it_up(void **state)
{
  (void)state;
  begin_close(PST_CLOSE_DRAIN);
  assert_int_equal(rc_close_due(&endpoint), DEADLINE);
  complete_all();
  assert_int_equal(rc_close_due(&endpoint), DEADLINE); /* it is not in error yet */
  assert_false(rc_close_step(&endpoint, NOW));
  assert_int_equal(rc_close_due(&endpoint), NOW + RC_FLUSH_NS);
  connection.lanes[1].own = 1;
  assert_int_equal(rc_close_due(&endpoint), DEADLINE);
  connection.lanes[1].own = 0;
  endpoint.sq.head++;
  assert_int_equal(rc_close_due(&endpoint), DEADLINE);
  endpoint.sq.head--;
  worker.empties = 5;
  assert_false(rc_close_step(&endpoint, NOW + RC_FLUSH_NS - 1));
  assert_int_equal(connection.late_at, 0);
  assert_false(rc_close_step(&endpoint, NOW + RC_FLUSH_NS));
  worker.empties++;
  assert_true(rc_close_step(&endpoint, NOW + RC_FLUSH_NS));
  assert_true(endpoint.is_cut);
  endpoint.closing.deadline_ns = NOW + 1; /* which is never passed */
  assert_int_equal(rc_close_due(&endpoint), NOW + 1);
}

/* ---- Gone, and not yet closed ------------------------------------------------------------ */

static void a_failure_is_told_once_all_is_given_back(void **state)
{
  (void)state;
  connection.stage = (struct rc_stage){.name = RC_FAILED};
  connection.over_ns = NOW;
  assert_false(rc_gone_step(&endpoint, NOW));
  complete_all();
  give_receives_back();
  assert_true(rc_gone_step(&endpoint, NOW));
  assert_false(endpoint.is_cut);
  begin(state);
  connection.stage = (struct rc_stage){.name = RC_FAILED};
  connection.over_ns = NOW;
  worker.empties = 3;
  assert_false(rc_gone_step(&endpoint, NOW + RC_FLUSH_NS - 1));
  assert_int_equal(connection.late_at, 0);
  assert_false(rc_gone_step(&endpoint, NOW + RC_FLUSH_NS));
  worker.empties++;
  assert_true(rc_gone_step(&endpoint, NOW + RC_FLUSH_NS));
  assert_true(endpoint.is_cut);
  assert_int_equal(endpoint.sq.error, -ECANCELED);
}

static void a_farewell_is_told_at_once(void **state)
{
  (void)state;
  connection.stage = (struct rc_stage){.name = RC_LEFT};
  assert_true(rc_gone_step(&endpoint, NOW));
  assert_int_equal(endpoint.sq.done, 0); /* what is under way is still answered */
}

static void what_a_peer_that_left_does_not_answer_is_given_up(void **state)
{
  (void)state;
  connection.stage = (struct rc_stage){.name = RC_LEFT};
  connection.over_ns = NOW;
  rc_left_look(&endpoint, UINT64_MAX); /* without a timeout it waits */
  expect_erred(0);
  endpoint.timeout_ns = 100;
  rc_left_look(&endpoint, NOW + 99);
  expect_erred(0);
  assert_int_equal(worker.soonest_ns, NOW + 100);
  rc_left_look(&endpoint, NOW + 100);
  expect_erred(1);
  assert_int_equal(endpoint.sq.error, -ECONNRESET);
  endpoint.sq.error = 0;
  rc_left_look(&endpoint, NOW + 200); /* once */
  expect_erred(1);
  assert_int_equal(endpoint.sq.error, 0);
  begin(state);
  endpoint.timeout_ns = 100;
  rc_left_look(&endpoint, UINT64_MAX); /* it has not left */
  connection.stage = (struct rc_stage){.name = RC_LEFT};
  endpoint.sq.done = endpoint.sq.head;
  rc_left_look(&endpoint, UINT64_MAX); /* nothing is under way */
  expect_erred(0);
  assert_int_equal(endpoint.sq.error, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, stop_support)
  const struct CMUnitTest tests[] = {
      CASE(each_queue_pair_says_how_it_ends),
      CASE(it_is_closed_once),
      CASE(who_is_not_connected_says_nothing),
      CASE(a_farewell_that_is_refused_keeps_nothing_from_closing),
      CASE(no_event_follows),
      CASE(it_goes_to_error_once_all_is_done),
      CASE(a_deferred_work_ends_first),
      CASE(all_queue_pairs_go_to_error),
      CASE(who_is_not_connected_waits_for_nothing),
      CASE(answers_of_a_peer_that_left_are_drained),
      CASE(a_reconnection_ends),
      CASE(a_deadline_ends_what_is_under_way),
      CASE(what_a_device_does_not_give_back_is_cut),
      CASE(missing_receives_do_not_hold_it_up),
      CASE(a_failure_is_told_once_all_is_given_back),
      CASE(a_farewell_is_told_at_once),
      CASE(what_a_peer_that_left_does_not_answer_is_given_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
