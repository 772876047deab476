/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a peer, and the end of a connection, in each stage of a link. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "endpoint.h"
#include "fail.h"
#include "fake_host.h"
#include "link.h"
#include "receive.h"
#include "wire.h"
#include "worker.h"

#include <cmocka.h>

#define OWN 7u
#define PEERS 9u

static struct pst_device device;
static struct pst_worker worker;
static struct pst_endpoint endpoint;
static struct ucx_link a_link;

static void begin(enum ucx_stage_name name)
{
  device = (struct pst_device){.host = &fake_host};
  worker = (struct pst_worker){.device = &device};
  endpoint = (struct pst_endpoint){.worker = &worker, .link = &a_link};
  a_link = (struct ucx_link){.stage = {.name = name},
                             .line = UCX_LINE_OPEN,
                             .worker = &worker,
                             .nonce = OWN,
                             .peer = {.nonce = PEERS, .pidfd = -1}};
  if (name != UCX_LEAVING && name != UCX_OVER)
    a_link.endpoint = &endpoint;
}

static void hear(uint8_t kind, uint8_t flags, uint64_t position)
{
  const ucp_am_recv_param_t plain = {0};
  const struct ucx_header header = {
      .kind = kind, .flags = flags, .position = position, .nonce = OWN, .sequence = PEERS};

  assert_int_equal(ucx_receive(&a_link, &header, sizeof(header), NULL, 0, &plain), UCS_OK);
}

static void a_hello_joins_and_is_answered_once_asked(void **state)
{
  (void)state;
  begin(UCX_CONNECTING);
  a_link.stage.greeting.hello = UCX_OWED;
  hear(UCX_HELLO, 0, 4);
  assert_int_equal(a_link.stage.name, UCX_JOINED);
  assert_int_equal(a_link.stage.greeting.hello, UCX_OWED); /* ours is still to go */
  assert_int_equal(a_link.stage.greeting.answer, UCX_OWED);
  assert_int_equal(endpoint.tx.limit, 4);
  begin(UCX_CONNECTING);
  hear(UCX_HELLO, UCX_HEADER_ANSWER, 4);
  assert_int_equal(a_link.stage.name, UCX_JOINED);
  assert_false(ucx_link_owes_greeting(&a_link));
  /* The later end's hello reaches a peer that has joined by the answer already. */
  hear(UCX_HELLO, 0, 4);
  assert_true(ucx_link_owes_greeting(&a_link));
  begin(UCX_NEW);
  hear(UCX_HELLO, 0, 4);
  assert_int_equal(a_link.stage.name, UCX_NEW);
}

static void the_first_bye_counts(void **state)
{
  (void)state;
  begin(UCX_JOINED);
  endpoint.rx.share.granted = 5;
  hear(UCX_BYE, UCX_HEADER_ABORT, 5);
  assert_int_equal(a_link.stage.name, UCX_LEFT);
  assert_int_equal(a_link.stage.left.total, 5);
  assert_true(a_link.stage.left.is_aborted);
  assert_true(ucx_link_is_joined(&a_link));
  assert_true(ucx_link_has_left(&a_link));
  hear(UCX_BYE, 0, 9);
  assert_int_equal(a_link.stage.left.total, 5);
  hear(UCX_HELLO, 0, 4); /* nobody is there to hear an answer */
  assert_int_equal(a_link.stage.name, UCX_LEFT);
  assert_false(ucx_link_owes_greeting(&a_link));
  begin(UCX_CONNECTING);
  hear(UCX_BYE, 0, 0);
  assert_int_equal(a_link.stage.name, UCX_LEFT);
  assert_false(ucx_link_is_joined(&a_link));
}

static void an_answer_counts_where_there_was_a_bye(void **state)
{
  (void)state;
  begin(UCX_LEAVING);
  a_link.stage.leaving.bye = UCX_OWED;
  hear(UCX_BYE, UCX_HEADER_ANSWER, 0);
  assert_int_equal(a_link.stage.leaving.bye, UCX_OWED);
  a_link.stage.leaving.bye = UCX_SAID;
  hear(UCX_BYE, UCX_HEADER_ANSWER, 0);
  assert_int_equal(a_link.stage.leaving.bye, UCX_HEARD);
  assert_false(ucx_link_has_left(&a_link));
  hear(UCX_BYE, 0, 3);
  assert_int_equal(a_link.stage.leaving.answer, UCX_OWED);
  assert_true(ucx_link_has_left(&a_link));
  begin(UCX_JOINED);
  hear(UCX_BYE, UCX_HEADER_ANSWER, 0); /* to nothing */
  assert_int_equal(a_link.stage.name, UCX_JOINED);
}

static void the_first_end_counts(void **state)
{
  static const enum ucx_stage_name live[] = {UCX_NEW, UCX_CONNECTING, UCX_JOINED, UCX_LEFT,
                                             UCX_DRAINED};

  (void)state;
  for (size_t i = 0; i < sizeof(live) / sizeof(live[0]); i++) {
    begin(live[i]);
    assert_false(ucx_link_is_lost(&a_link));
    assert_int_equal(ucx_link_status(&a_link), 0);
    ucx_link_end(&a_link, -ETIMEDOUT);
    ucx_link_end(&a_link, -ECONNRESET);
    assert_int_equal(a_link.stage.name, UCX_LOST);
    assert_int_equal(ucx_link_status(&a_link), -ETIMEDOUT);
    assert_false(ucx_link_has_left(&a_link));
    hear(UCX_BYE, 0, 1); /* too late */
    assert_int_equal(a_link.stage.name, UCX_LOST);
  }
}

static void a_link_that_leaves_is_over_when_it_fails(void **state)
{
  (void)state;
  begin(UCX_LEAVING);
  ucx_link_end(&a_link, -ECONNRESET);
  assert_int_equal(a_link.stage.name, UCX_OVER);
  assert_int_equal(ucx_link_status(&a_link), 0); /* no request is there to end with it */
  ucx_link_end(&a_link, -ECONNRESET);
  assert_int_equal(a_link.stage.name, UCX_OVER);
}

/* UCX calls back for what it is made to end. */
static void a_line_that_is_cut_fails_no_more(void **state)
{
  (void)state;
  begin(UCX_JOINED);
  ucx_enter_line(&a_link, UCX_LINE_CUT);
  ucx_link_fail(&a_link, UCS_ERR_CANCELED, "a request");
  assert_int_equal(a_link.stage.name, UCX_JOINED);
  begin(UCX_JOINED);
  ucx_link_fail(&a_link, UCS_ERR_CANCELED, "a request");
  assert_int_equal(ucx_link_status(&a_link), -ECONNRESET);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_hello_joins_and_is_answered_once_asked),
      cmocka_unit_test(the_first_bye_counts),
      cmocka_unit_test(an_answer_counts_where_there_was_a_bye),
      cmocka_unit_test(the_first_end_counts),
      cmocka_unit_test(a_link_that_leaves_is_over_when_it_fails),
      cmocka_unit_test(a_line_that_is_cut_fails_no_more),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
