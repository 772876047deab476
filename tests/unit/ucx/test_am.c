/* SPDX-License-Identifier: Apache-2.0 */
/* Active messages: their pools, what UCX reads of them, and how they end. */
#include "support.h"

#include "am.h"
#include "link.h"

static void the_window_bounds_what_is_under_way(void **state)
{
  const struct pst_request request = request_of(0, 10, 99);
  struct pst_completion done;
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  for (uint32_t i = 0; i < UCX_WINDOW; i++)
    post_one(10, i);
  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), -EAGAIN);
  assert_int_equal(why, PST_WAIT_QUEUE);
  fake_end(fake_message(UCX_RUN, 5), UCS_OK);
  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), 1);
  assert_int_equal(poll_all(&done, 1), 0); /* the first has not ended */
}

static void each_header_is_for_this_peer(void **state)
{
  (void)state;
  post_one(10, 0);
  assert_int_equal(fake_message(UCX_RUN, 0)->header.nonce, fixture.endpoint->link->peer.nonce);
  assert_int_not_equal(fake_message(UCX_RUN, 0)->header.nonce, 0);
}

/* The datatype is asked for bytes when UCX has room; by then the memory is the host's again. */
static void what_is_taken_back_is_not_read(void **state)
{
  static const uint8_t zeros[300];
  struct pst_completion done;

  (void)state;
  post_one(300, 0);
  ucx_ams_void(fixture.endpoint->link, -ECANCELED);
  assert_int_equal(poll_all(&done, 1), 1);
  assert_int_equal(done.status, -ECANCELED);
  memset(fixture.bytes, 0xee, 300);
  fake_end(fake_message(UCX_RUN, 0), UCS_OK);
  assert_memory_equal(fake_message(UCX_RUN, 0)->bytes, zeros, 300);
  assert_int_equal(poll_all(&done, 1), 0); /* it is done once */
}

static void what_is_gathered_is_taken_back_at_once(void **state)
{
  struct pst_completion done;

  (void)state;
  post_one(300, 0);
  ucx_ams_void(fixture.endpoint->link, -ECANCELED);
  assert_int_equal(poll_all(&done, 1), 1);
  assert_int_equal(done.status, -ECANCELED);
  fake_end(fake_message(UCX_RUN, 0), UCS_OK);
  assert_int_equal(poll_all(&done, 1), 0);
}

static void what_the_peer_fetches_goes_on(void **state)
{
  struct pst_completion done;

  (void)state;
  fixture.endpoint->link->whole_from = 1000;
  post_one(1000, 0);
  ucx_ams_void(fixture.endpoint->link, -ECANCELED);
  assert_int_equal(poll_all(&done, 1), 0);
  fake_end(fake_message(UCX_WHOLE, 0), UCS_OK);
  assert_int_equal(poll_all(&done, 1), 1);
  assert_int_equal(done.status, 0);
}

static void a_failure_ends_the_connection_and_its_sends(void **state)
{
  struct pst_completion got[2];

  (void)state;
  post_one(10, 0);
  fake_end(fake_message(UCX_RUN, 0), UCS_ERR_CONNECTION_RESET);
  assert_true(is_lost_with(-ECONNRESET));
  assert_int_equal(poll_all(got, 2), 2);
  assert_int_equal(got[0].kind, PST_COMPLETION_DONE);
  assert_int_equal(got[0].status, -ECONNRESET);
  assert_int_equal(got[1].code, PST_EVENT_DISCONNECTED);
}

static void what_ucx_refuses_at_once_ends_too(void **state)
{
  const struct pst_request request = request_of(0, 10, 0);
  struct pst_completion got[2];
  uint32_t why = PST_WAIT_NONE;

  (void)state;
  fake_ucp.refuses = UCS_ERR_ENDPOINT_TIMEOUT;
  assert_int_equal(ucx_post(fixture.endpoint, &request, 1, &why), 1);
  fake_ucp.refuses = UCS_OK;
  assert_true(is_lost_with(-ETIMEDOUT));
  assert_int_equal(poll_all(got, 2), 2);
  assert_true(got[0].status < 0);
}

static void controls_have_a_pool_of_their_own(void **state)
{
  const struct ucx_header flushed = {.kind = UCX_FLUSHED};

  (void)state;
  for (uint32_t i = 0; i < UCX_WINDOW; i++)
    post_one(10, i);
  for (uint32_t i = 0; i < UCX_CONTROLS; i++)
    assert_true(ucx_am_control(fixture.endpoint->link, &flushed));
  assert_false(ucx_am_control(fixture.endpoint->link, &flushed));
  fake_end(fake_message(UCX_FLUSHED, 3), UCS_OK);
  assert_true(ucx_am_control(fixture.endpoint->link, &flushed));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(the_window_bounds_what_is_under_way, open_posix, close_it),
      cmocka_unit_test_setup_teardown(each_header_is_for_this_peer, open_posix, close_it),
      cmocka_unit_test_setup_teardown(what_is_taken_back_is_not_read, open_posix, close_it),
      cmocka_unit_test_setup_teardown(what_is_gathered_is_taken_back_at_once, open_tcp, close_it),
      cmocka_unit_test_setup_teardown(what_the_peer_fetches_goes_on, open_posix, close_it),
      cmocka_unit_test_setup_teardown(a_failure_ends_the_connection_and_its_sends, open_posix,
                                      close_it),
      cmocka_unit_test_setup_teardown(what_ucx_refuses_at_once_ends_too, open_posix, close_it),
      cmocka_unit_test_setup_teardown(controls_have_a_pool_of_their_own, open_posix, close_it),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
