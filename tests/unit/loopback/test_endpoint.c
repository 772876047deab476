/* SPDX-License-Identifier: Apache-2.0 */
/* The stages of an endpoint: what post() and connect() say in each, and how it leaves it. */
#include "support.h"

static int connect_again(struct pst_endpoint *endpoint, struct pst_endpoint *peer)
{
  struct lb_address bytes;
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = &bytes};
  assert_int_equal(lb_endpoint_address(peer, &blob), 0);
  return lb_endpoint_connect(endpoint, &blob);
}

static uint32_t done(void)
{
  const struct pst_completion *completion = find(PST_COMPLETION_DONE, PST_OP_SEND);
  return completion ? (uint32_t)completion->u.done.count : 0;
}

static int32_t status_of(uint8_t event)
{
  const struct pst_completion *completion = find(PST_COMPLETION_EVENT, event);
  assert_non_null(completion);
  return completion->status;
}

static void post_says_why_it_takes_nothing(void **state)
{
  (void)state;
  open_device(LB_MODE_COPY);
  assert_int_equal(open_ring(5, 1, &rig.ring), 0);
  assert_int_equal(open_endpoint(PST_ROLE_RECEIVER, rig.ring, &rig.receiver), 0);
  assert_int_equal(open_endpoint(PST_ROLE_SENDER, NULL, &rig.sender), 0);
  assert_int_equal(post(1), -ENOTCONN);
  assert_int_equal(connect_again(rig.sender, rig.receiver), 0);
  assert_int_equal(rig.sender->stage.name, LB_CONNECTING);
  assert_int_equal(poll_all(), 0);
  assert_int_equal(post(1), -ENOTCONN);
  assert_int_equal(connect_again(rig.receiver, rig.sender), 0);
  assert_int_equal(poll_all(), 2);
  assert_int_equal(rig.sender->stage.name, LB_CONNECTED);
  assert_int_equal(post(1), 1);
  poll_all();
  lb_endpoint_fail(rig.sender, -EFAULT, "");
  assert_int_equal(post(1), -ECONNRESET);
  poll_all();
  assert_int_equal(status_of(PST_EVENT_DISCONNECTED), -EFAULT);
  assert_int_equal(rig.sender->stage.name, LB_GONE);
  assert_int_equal(post(1), -ECONNRESET);
  assert_int_equal(lb_endpoint_close(rig.sender, PST_CLOSE_DRAIN, fake_clock_ns + 100), 0);
  assert_int_equal(post(1), -ENOTCONN);
}

static void the_first_reason_is_kept(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  lb_endpoint_fail(rig.sender, -EPROTO, "lies");
  lb_endpoint_fail(rig.sender, -ECONNRESET, "");
  poll_all();
  assert_int_equal(status_of(PST_EVENT_DISCONNECTED), -EPROTO);
  lb_endpoint_fail(rig.sender, -EFAULT, "");
  assert_int_equal(poll_all(), 0);
  assert_int_equal(lb_lost_status(rig.sender), -EPROTO);
}

static void one_that_comes_too_late_for_its_peer_lets_the_worker_sleep(void **state)
{
  struct pst_endpoint *late;

  (void)state;
  setup(LB_MODE_COPY, 5);
  assert_int_equal(open_endpoint(PST_ROLE_SENDER, NULL, &late), 0);
  assert_int_equal(connect_again(late, rig.receiver), 0);
  poll_all();
  assert_int_equal(status_of(PST_EVENT_DISCONNECTED), -EADDRINUSE);
  assert_int_equal(connect_again(late, rig.receiver), -EALREADY);
  assert_int_equal(poll_all(), 0);
  assert_int_equal(lb_arm(rig.worker), 0);
}

static void connecting_ends_with_its_time(void **state)
{
  (void)state;
  open_device(LB_MODE_COPY);
  assert_int_equal(open_ring(5, 1, &rig.ring), 0);
  assert_int_equal(open_endpoint(PST_ROLE_RECEIVER, rig.ring, &rig.receiver), 0);
  assert_int_equal(open_endpoint(PST_ROLE_SENDER, NULL, &rig.sender), 0);
  assert_int_equal(connect_again(rig.sender, rig.receiver), 0);
  assert_int_equal(lb_arm(rig.worker), 0);
  assert_int_equal(rig.worker->timer_ns, fake_clock_ns + 5000000000);
  fake_clock_ns += 4999999999;
  assert_int_equal(poll_all(), 0);
  fake_clock_ns++;
  assert_int_equal(poll_all(), 1);
  assert_int_equal(status_of(PST_EVENT_DISCONNECTED), -ETIMEDOUT);
  assert_int_equal(post(1), -ENOTCONN);
  assert_int_equal(lb_arm(rig.worker), 0);
  assert_int_equal(rig.worker->timer_ns, 0);
}

static void connected_again_it_posts_again(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  assert_int_equal(connect_again(rig.sender, rig.receiver), 0);
  assert_int_equal(connect_again(rig.sender, rig.receiver), -EALREADY);
  assert_int_equal(post(1), -ENOTCONN);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(status_of(PST_EVENT_CONNECTED), 0);
  assert_int_equal(post(1), 1);
}

/* Requests from before are done, whether or not it is connected once more. */
static void closed_while_it_connects_again_it_ends_all_requests(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  assert_int_equal(post(3), 3);
  assert_int_equal(connect_again(rig.sender, rig.receiver), 0);
  assert_int_equal(lb_endpoint_close(rig.sender, PST_CLOSE_DRAIN, fake_clock_ns + 100), 0);
  poll_all();
  assert_int_equal(done(), 3);
  assert_int_equal(status_of(PST_EVENT_CLOSED), 0);
  assert_null(find(PST_COMPLETION_EVENT, PST_EVENT_CONNECTED));
}

static void failed_while_it_connects_again_it_ends_all_requests(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  assert_int_equal(post(3), 3);
  assert_int_equal(connect_again(rig.sender, rig.receiver), 0);
  lb_endpoint_fail(rig.sender, -EFAULT, "");
  poll_all();
  assert_int_equal(done(), 3);
  assert_int_equal(status_of(PST_EVENT_DISCONNECTED), -EFAULT);
}

static void a_dead_peer_is_lost_when_what_it_left_is_handed_over(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  assert_int_equal(post(2), 2);
  rig.receiver->peer->in_process = false; /* and no process of its is watched any more */
  lb_enter(rig.receiver, (struct lb_stage){.name = LB_ORPHANED});
  assert_int_equal(lb_arm(rig.worker), -EAGAIN);
  assert_int_equal(lb_poll(rig.worker, polled, 1), 1);
  assert_int_equal(lb_poll(rig.worker, polled, 1), 1);
  assert_int_equal(rig.receiver->stage.name, LB_ORPHANED);
  while (rig.receiver->stage.name == LB_ORPHANED)
    assert_true(poll_all() > 0);
  assert_int_equal(status_of(PST_EVENT_DISCONNECTED), -ECONNRESET);
  assert_int_equal(rig.receiver->rx->messages, 2);
  rig.receiver->peer->in_process = true;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(post_says_why_it_takes_nothing),
      CASE(the_first_reason_is_kept),
      CASE(one_that_comes_too_late_for_its_peer_lets_the_worker_sleep),
      CASE(connecting_ends_with_its_time),
      CASE(connected_again_it_posts_again),
      CASE(closed_while_it_connects_again_it_ends_all_requests),
      CASE(failed_while_it_connects_again_it_ends_all_requests),
      CASE(a_dead_peer_is_lost_when_what_it_left_is_handed_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
