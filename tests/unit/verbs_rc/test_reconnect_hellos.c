/* SPDX-License-Identifier: Apache-2.0 */
/* The three hellos of a connection that begins anew, and those of an earlier try among them. */
#include <endian.h>

#include "connection.h"
#include "support.h"

#define NUMBER 5u /* of this end's try */
#define THEIRS 9u

/* The queue pairs are in RTS, and nothing has come yet. Nothing is under way. */
static void begin(bool opens, uint32_t lanes)
{
  start_connection(lanes);
  tx.credit_messages = 7;
  endpoint.rx = NULL;
  connection.stage = (struct rc_stage){.name = RC_GREETING_AGAIN,
                                       .again = {.by_ns = VB_NEVER, .progress = RC_TRY_BEGUN}};
  connection.own.qps[0].qpn = opens ? 1 : 2;
  connection.peer.qps[0].qpn = opens ? 2 : 1;
  connection.reconnect.number = NUMBER;
}

static void expect_said(uint32_t which, uint32_t hello)
{
  assert_int_equal(be32toh(posted[which].wr.imm_data), hello);
}

static void hear(uint32_t lane, uint32_t number, uint32_t answers)
{
  rc_reconnect_heard(&endpoint, &connection.lanes[lane], rc_reconnect_hello(0, 0, number, answers));
}

static void opener_confirms_the_answers_of_all(void **state)
{
  (void)state;
  begin(true, 2);
  hear(1, THEIRS, NUMBER);
  assert_int_equal(connection.stage.name, RC_GREETING_AGAIN);
  assert_int_equal(posted_count, 0);
  hear(0, THEIRS, NUMBER);
  assert_int_equal(connection.stage.name, RC_CONNECTED);
  assert_int_equal(posted_count, 1);
  expect_said(0, rc_reconnect_hello(0, 7, NUMBER, THEIRS));
}

static void answers_wait_for_all_and_for_the_confirmation(void **state)
{
  (void)state;
  begin(false, 2);
  hear(0, THEIRS, 0);
  assert_int_equal(posted_count, 0);
  hear(1, THEIRS + 1, 0); /* each is answered by its own number: one of them is an old one */
  assert_int_equal(posted_count, 2);
  expect_said(0, rc_reconnect_hello(0, 7, NUMBER, THEIRS));
  expect_said(1, rc_reconnect_hello(0, 0, NUMBER, THEIRS + 1));
  assert_int_equal(connection.stage.name, RC_GREETING_AGAIN);
  rc_reconnect_met(&endpoint, &connection.lanes[1]); /* messages may overtake it */
  assert_int_equal(connection.stage.name, RC_GREETING_AGAIN);
  hear(0, THEIRS, NUMBER);
  assert_int_equal(connection.stage.name, RC_CONNECTED);
  assert_int_equal(posted_count, 2);
}

static void a_confirmation_before_the_answers_confirms_nothing(void **state)
{
  (void)state;
  begin(false, 2);
  hear(0, THEIRS, 0);
  hear(0, THEIRS, NUMBER);
  hear(1, THEIRS, 0);
  assert_int_equal(connection.stage.name, RC_GREETING_AGAIN);
  assert_int_equal(posted_count, 2);
  hear(1, THEIRS, NUMBER);
  assert_int_equal(connection.stage.name, RC_CONNECTED);
}

/* The old queue pair of a peer that has not noticed repeats its first hello, and what followed. */
static void hellos_of_an_earlier_try_begin_anew(void **state)
{
  (void)state;
  begin(true, 1);
  hear(0, THEIRS, NUMBER - 1);
  assert_int_equal(connection.stage.name, RC_FLUSHING);
  begin(false, 1);
  hear(0, THEIRS, 0);
  hear(0, THEIRS, NUMBER - 1);
  assert_int_equal(connection.stage.name, RC_FLUSHING);
  begin(false, 1);
  hear(0, THEIRS, NUMBER); /* an opening answers nothing */
  assert_int_equal(connection.stage.name, RC_FLUSHING);
  begin(true, 1);
  hear(0, 0, 0); /* of the first connection */
  assert_int_equal(connection.stage.name, RC_FLUSHING);
}

static void messages_before_a_hello_begin_anew(void **state)
{
  (void)state;
  begin(false, 2);
  hear(0, THEIRS, 0);
  rc_reconnect_met(&endpoint, &connection.lanes[1]);
  assert_int_equal(connection.stage.name, RC_FLUSHING);
}

/* The peer's opening was answered when the connection failed: its queue pair is still the old one.
 */
static void opening_of_the_connection_that_failed_begins_anew(void **state)
{
  (void)state;
  begin(false, 1);
  connection.reconnect.peer_number = THEIRS;
  hear(0, THEIRS, 0);
  assert_int_equal(connection.stage.name, RC_FLUSHING);
}

static uint32_t count_repeated(struct rc_lane *lane, uint32_t n)
{
  uint32_t repeated = 0;
  for (uint32_t i = 0; i < n; i++)
    repeated += rc_reconnect_is_repeated(&endpoint, lane, 1);
  return repeated;
}

/* Credits, of which support.c has 7 come in the first connection. */
static void what_was_received_does_not_count_again(void **state)
{
  (void)state;
  struct rc_lane *lane = connection.lanes;
  begin(true, 1);
  assert_int_equal(count_repeated(lane, 10), 7);
  lane->repeated = 0; /* of another try, in which they come once more */
  endpoint.tx->credit_messages = 9;
  assert_int_equal(count_repeated(lane, 10), 9);
  /* The old queue pair's hello comes first from the second connection on. */
  begin(true, 1);
  lane->peer_number = connection.reconnect.peer_number = THEIRS;
  lane->counted = 4;
  hear(0, THEIRS, NUMBER - 1);
  assert_int_equal(count_repeated(lane, 10), 3);
  /* Messages behind a hello of another try are new: none counts as repeated. */
  begin(true, 1);
  lane->peer_number = connection.reconnect.peer_number = THEIRS;
  hear(0, THEIRS + 1, NUMBER - 1);
  assert_int_equal(count_repeated(lane, 10), 0);
  /* And so is what came before the queue pair was reset. */
  begin(true, 1);
  connection.stage.again.progress = RC_TRY_NONE;
  assert_int_equal(count_repeated(lane, 10), 0);
}

/* A deferred work may still be setting the queue pairs up. */
static void a_try_that_is_lost_waits_for_its_set_up(void **state)
{
  (void)state;
  begin(true, 1);
  connection.stage.name = RC_SETTING_UP_AGAIN;
  atomic_store(&connection.setup, 1);
  hear(0, THEIRS, NUMBER - 1);
  assert_int_equal(connection.stage.name, RC_SETTING_UP_AGAIN);
  assert_int_equal(connection.stage.again.progress, RC_TRY_LOST);
  rc_reconnect_greet(&endpoint);
  assert_int_equal(connection.stage.name, RC_FLUSHING);
  assert_int_equal(posted_count, 0);
}

static void each_try_has_a_number_of_its_own(void **state)
{
  (void)state;
  begin(true, 1);
  for (uint32_t i = 0, last = 0; i < 20; i++) {
    connection.stage.name = RC_FLUSHING;
    connection.lanes[0].is_erred = false; /* no queue pair is there to be reset */
    last = connection.reconnect.number;
    rc_reconnect_step(&endpoint);
    assert_int_not_equal(connection.reconnect.number, last);
    assert_in_range(connection.reconnect.number, 1, 15);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(opener_confirms_the_answers_of_all, stop_support),
      cmocka_unit_test_teardown(answers_wait_for_all_and_for_the_confirmation, stop_support),
      cmocka_unit_test_teardown(a_confirmation_before_the_answers_confirms_nothing, stop_support),
      cmocka_unit_test_teardown(hellos_of_an_earlier_try_begin_anew, stop_support),
      cmocka_unit_test_teardown(messages_before_a_hello_begin_anew, stop_support),
      cmocka_unit_test_teardown(opening_of_the_connection_that_failed_begins_anew, stop_support),
      cmocka_unit_test_teardown(what_was_received_does_not_count_again, stop_support),
      cmocka_unit_test_teardown(a_try_that_is_lost_waits_for_its_set_up, stop_support),
      cmocka_unit_test_teardown(each_try_has_a_number_of_its_own, stop_support),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
