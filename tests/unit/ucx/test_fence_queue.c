/* SPDX-License-Identifier: Apache-2.0 */
/* Requests behind a FENCE wait for WRITEs to be flushed and for READs, and those behind them wait
 * too, in post order. */
#include "support.h"

#include "fence_queue.h"
#include "link.h"
#include "mr.h"
#include "remote.h"

static struct pst_remote *remote;

static int open_it(void **state)
{
  open_posix(state);
  remote = open_remote(0x100000, 65536);
  return 0;
}

static int close_with_remote(void **state)
{
  ucx_remote_close(fixture.endpoint, remote);
  return close_it(state);
}

static void post(uint8_t opcode, uint8_t flags, uint64_t number)
{
  struct pst_request request = request_of(0, 100, number);
  uint32_t why = PST_WAIT_NONE;

  request.opcode = opcode;
  request.flags = flags;
  if (opcode != PST_OP_SEND)
    request.u.rma = (struct pst_rma_target){.remote = remote, .offset = 64};
  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), 1);
}

/* The cookies, less 1000, of all that is done now. */
static uint32_t poll_dones(struct pst_completion *done, uint32_t max)
{
  const uint32_t n = poll_all(done, max);

  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(done[i].kind, PST_COMPLETION_DONE);
    done[i].u.done.cookie -= 1000;
  }
  return n;
}

static void without_a_fence_nothing_waits(void **state)
{
  (void)state;
  post(PST_OP_WRITE, 0, 1);
  post(PST_OP_READ, 0, 2);
  post(PST_OP_SEND, 0, 3);
  assert_int_equal(fake_count(FAKE_PUT), 1);
  assert_int_equal(fake_request(FAKE_PUT, 0)->remote, 0x100000 + 64);
  assert_int_equal(fake_count(FAKE_GET), 1);
  assert_int_equal(fake_messages(UCX_RUN), 1);
  assert_int_equal(fake_count(FAKE_FLUSH), 0);
}

static void a_notification_follows_its_write(void **state)
{
  struct pst_completion done[4];

  (void)state;
  post(PST_OP_WRITE, 0, 1);
  post(PST_OP_SEND, PST_REQUEST_FENCE, 2);
  assert_int_equal(fake_count(FAKE_FLUSH), 1);
  assert_int_equal(fake_messages(UCX_RUN), 0);
  fake_end(fake_request(FAKE_PUT, 0), UCS_OK); /* the buffer is free; it may not be placed */
  assert_int_equal(poll_dones(done, 4), 1);
  assert_int_equal(done[0].u.done.cookie, 1);
  assert_int_equal(fake_messages(UCX_RUN), 0);
  fake_end(fake_request(FAKE_FLUSH, 0), UCS_OK);
  assert_int_equal(poll_dones(done, 4), 0);
  assert_int_equal(fake_messages(UCX_RUN), 1);
}

static void what_is_placed_already_holds_nothing_up(void **state)
{
  struct pst_completion done[4];

  (void)state;
  post(PST_OP_WRITE, 0, 1);
  post(PST_OP_SEND, PST_REQUEST_FENCE, 2);
  fake_end(fake_request(FAKE_PUT, 0), UCS_OK);
  fake_end(fake_request(FAKE_FLUSH, 0), UCS_OK);
  poll_dones(done, 4);
  post(PST_OP_SEND, PST_REQUEST_FENCE, 3);
  assert_int_equal(fake_count(FAKE_FLUSH), 1);
  assert_int_equal(fake_messages(UCX_RUN), 2);
}

static void those_behind_wait_with_it(void **state)
{
  struct pst_completion done[4];

  (void)state;
  post(PST_OP_READ, 0, 1);
  post(PST_OP_WRITE, PST_REQUEST_FENCE, 2);
  post(PST_OP_SEND, 0, 3);
  post(PST_OP_READ, 0, 4);
  assert_int_equal(fake_count(FAKE_PUT), 0);
  assert_int_equal(fake_messages(UCX_RUN), 0);
  assert_int_equal(fake_count(FAKE_GET), 1);
  fake_end(fake_request(FAKE_GET, 0), UCS_OK);
  assert_int_equal(poll_dones(done, 4), 1);
  assert_int_equal(fake_count(FAKE_PUT), 1);
  assert_int_equal(fake_messages(UCX_RUN), 1);
  assert_int_equal(fake_count(FAKE_GET), 2);
  assert_int_equal(fake_count(FAKE_FLUSH), 0); /* it waited for a READ alone */
}

static void pieces_are_kept(void **state)
{
  struct pst_request request = request_of(0, 30, 2);
  struct pst_piece pieces[] = {{fixture.source, 40, 10, 0}, {fixture.source, 90, 20, 0}};
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  post(PST_OP_READ, 0, 1);
  request.flags = PST_REQUEST_FENCE;
  request.piece_count = 2;
  request.local.pieces = pieces;
  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), 1);
  memset(pieces, 0xff, sizeof(pieces)); /* the array is the caller's again */
  fake_end(fake_request(FAKE_GET, 0), UCS_OK);
  struct pst_completion done[2];
  poll_dones(done, 2);
  struct fake_request *list = fake_message(UCX_LIST, 0);
  fake_end(list, UCS_OK);
  assert_memory_equal(list->bytes + sizeof(struct ucx_record), fixture.bytes + 40, 10);
  assert_memory_equal(list->bytes + sizeof(struct ucx_record) + 10, fixture.bytes + 90, 20);
}

/* A SEND that waits has its credit from the start. */
static void those_that_wait_have_credit(void **state)
{
  struct pst_request request = request_of(0, 10, 9);
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  fixture.endpoint->tx.limit = fixture.endpoint->tx.position + 2;
  post(PST_OP_READ, 0, 1);
  post(PST_OP_SEND, PST_REQUEST_FENCE, 2);
  post(PST_OP_SEND, 0, 3);
  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), -EAGAIN);
  assert_int_equal(why, PST_WAIT_CREDIT);
}

static void all_of_them_end_with_the_connection(void **state)
{
  struct pst_completion done[8];
  uint32_t n, sends = 0;

  (void)state;
  post(PST_OP_READ, 0, 1);
  post(PST_OP_SEND, PST_REQUEST_FENCE, 2);
  post(PST_OP_WRITE, 0, 3);
  post(PST_OP_SEND, 0, 4);
  ucx_fence_queue_fail(fixture.endpoint, -ECANCELED);
  n = poll_dones(done, 8);
  for (uint32_t i = 0; i < n; i++) {
    assert_int_equal(done[i].status, -ECANCELED);
    sends += done[i].u.done.count;
  }
  assert_int_equal(sends, 3);
  assert_int_equal(fake_count(FAKE_PUT), 0);
  assert_int_equal(fake_messages(UCX_RUN), 0);
  post(PST_OP_SEND, 0, 5); /* nothing is left before it */
  assert_int_equal(fake_messages(UCX_RUN), 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(without_a_fence_nothing_waits, open_it, close_with_remote),
      cmocka_unit_test_setup_teardown(a_notification_follows_its_write, open_it, close_with_remote),
      cmocka_unit_test_setup_teardown(what_is_placed_already_holds_nothing_up, open_it,
                                      close_with_remote),
      cmocka_unit_test_setup_teardown(those_behind_wait_with_it, open_it, close_with_remote),
      cmocka_unit_test_setup_teardown(pieces_are_kept, open_it, close_with_remote),
      cmocka_unit_test_setup_teardown(those_that_wait_have_credit, open_it, close_with_remote),
      cmocka_unit_test_setup_teardown(all_of_them_end_with_the_connection, open_it,
                                      close_with_remote),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
