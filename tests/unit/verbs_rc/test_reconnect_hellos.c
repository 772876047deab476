/* SPDX-License-Identifier: Apache-2.0 */
/* The three hellos of a connection that begins anew, and those of an earlier try among them. */
#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "connection.h"

#define NUMBER 5u /* of this end's try */
#define THEIRS 9u
#define LANES 2u

static struct ibv_context context;
static struct ibv_qp qps[LANES];
static struct pst_host host;
static struct pst_device device = {.host = &host, .keepalive_ns = 1000};
static struct pst_worker worker;
static struct rc_tx tx;
static struct pst_endpoint endpoint;
static uint32_t said[16], said_count;

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
  (void)qp;
  (void)bad;
  assert_in_range(said_count, 0, 15);
  said[said_count++] = be32toh(wr->imm_data);
  return 0;
}

static uint64_t clock_ns(const struct pst_host *of)
{
  (void)of;
  return 100;
}

static void log_line(const struct pst_host *of, int level, const char *format, ...)
{
  (void)of;
  (void)level;
  (void)format;
}

static int defer(const struct pst_host *of, const void *key, void (*work)(void *), void *arg)
{
  (void)of;
  (void)key;
  (void)work;
  (void)arg;
  return 0;
}

/* The queue pairs are in RTS, and nothing has come yet. Nothing is under way. */
static void begin(bool opens, uint32_t lanes)
{
  context.ops.post_send = post_send;
  host.clock_ns = clock_ns;
  host.log = log_line;
  host.defer = defer;
  worker = (struct pst_worker){.device = &device, .soonest_ns = RC_NEVER};
  tx = (struct rc_tx){.turn = 1, .credit_messages = 7};
  endpoint = (struct pst_endpoint){.worker = &worker,
                                   .device = &device,
                                   .lane_count = lanes,
                                   .stage = {.name = RC_GREETING_AGAIN, .again.by_ns = RC_NEVER},
                                   .tx = &tx,
                                   .own.qps[0].qpn = opens ? 1 : 2,
                                   .peer.qps[0].qpn = opens ? 2 : 1,
                                   .reconnect.number = NUMBER};
  for (uint32_t i = 0; i < LANES; i++) {
    qps[i] = (struct ibv_qp){.context = &context, .qp_num = i};
    /* As if they were in ERR already: no queue pair is there to be modified. */
    endpoint.lanes[i] = (struct rc_lane){.qp = &qps[i], .responder = &qps[i], .is_erred = true};
  }
  said_count = 0;
}

static void hear(uint32_t lane, uint32_t number, uint32_t answers)
{
  rc_reconnect_heard(&endpoint, &endpoint.lanes[lane], rc_reconnect_hello(0, 0, number, answers));
}

static void opener_confirms_the_answers_of_all(void **state)
{
  (void)state;
  begin(true, 2);
  hear(1, THEIRS, NUMBER);
  assert_int_equal(endpoint.stage.name, RC_GREETING_AGAIN);
  assert_int_equal(said_count, 0);
  hear(0, THEIRS, NUMBER);
  assert_int_equal(endpoint.stage.name, RC_CONNECTED);
  assert_int_equal(said_count, 1);
  assert_int_equal(said[0], rc_reconnect_hello(0, 7, NUMBER, THEIRS));
}

static void answers_wait_for_all_and_for_the_confirmation(void **state)
{
  (void)state;
  begin(false, 2);
  hear(0, THEIRS, 0);
  assert_int_equal(said_count, 0);
  hear(1, THEIRS + 1, 0); /* each is answered by its own number: one of them is an old one */
  assert_int_equal(said_count, 2);
  assert_int_equal(said[0], rc_reconnect_hello(0, 7, NUMBER, THEIRS));
  assert_int_equal(said[1], rc_reconnect_hello(0, 0, NUMBER, THEIRS + 1));
  assert_int_equal(endpoint.stage.name, RC_GREETING_AGAIN);
  rc_reconnect_met(&endpoint, &endpoint.lanes[1]); /* messages may overtake it */
  assert_int_equal(endpoint.stage.name, RC_GREETING_AGAIN);
  hear(0, THEIRS, NUMBER);
  assert_int_equal(endpoint.stage.name, RC_CONNECTED);
  assert_int_equal(said_count, 2);
}

/* The old queue pair of a peer that has not noticed repeats its first hello, and what followed. */
static void hellos_of_an_earlier_try_begin_anew(void **state)
{
  (void)state;
  begin(true, 1);
  hear(0, THEIRS, NUMBER - 1);
  assert_int_equal(endpoint.stage.name, RC_FLUSHING);
  begin(false, 1);
  hear(0, THEIRS, 0);
  hear(0, THEIRS, NUMBER - 1);
  assert_int_equal(endpoint.stage.name, RC_FLUSHING);
  begin(false, 1);
  hear(0, THEIRS, NUMBER); /* an opening answers nothing */
  assert_int_equal(endpoint.stage.name, RC_FLUSHING);
  begin(true, 1);
  hear(0, 0, 0); /* of the first connection */
  assert_int_equal(endpoint.stage.name, RC_FLUSHING);
}

static void messages_before_a_hello_begin_anew(void **state)
{
  (void)state;
  begin(false, 2);
  hear(0, THEIRS, 0);
  rc_reconnect_met(&endpoint, &endpoint.lanes[1]);
  assert_int_equal(endpoint.stage.name, RC_FLUSHING);
}

/* A deferred work may still be setting the queue pairs up. */
static void a_try_that_is_lost_waits_for_its_set_up(void **state)
{
  (void)state;
  begin(true, 1);
  endpoint.stage.name = RC_SETTING_UP_AGAIN;
  atomic_store(&endpoint.setup, 1);
  hear(0, THEIRS, NUMBER - 1);
  assert_int_equal(endpoint.stage.name, RC_SETTING_UP_AGAIN);
  assert_true(endpoint.stage.again.is_lost);
  rc_reconnect_greet(&endpoint);
  assert_int_equal(endpoint.stage.name, RC_FLUSHING);
  assert_int_equal(said_count, 0);
}

static void each_try_has_a_number_of_its_own(void **state)
{
  (void)state;
  begin(true, 1);
  for (uint32_t i = 0, last = 0; i < 20; i++) {
    endpoint.stage.name = RC_FLUSHING;
    endpoint.lanes[0].is_erred = false; /* no queue pair is there to be reset */
    last = endpoint.reconnect.number;
    rc_reconnect_step(&endpoint);
    assert_int_not_equal(endpoint.reconnect.number, last);
    assert_in_range(endpoint.reconnect.number, 1, 15);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opener_confirms_the_answers_of_all),
      cmocka_unit_test(answers_wait_for_all_and_for_the_confirmation),
      cmocka_unit_test(hellos_of_an_earlier_try_begin_anew),
      cmocka_unit_test(messages_before_a_hello_begin_anew),
      cmocka_unit_test(a_try_that_is_lost_waits_for_its_set_up),
      cmocka_unit_test(each_try_has_a_number_of_its_own),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
