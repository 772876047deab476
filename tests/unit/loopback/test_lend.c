/* SPDX-License-Identifier: Apache-2.0 */
/* By reference: when a SEND is done, and what is cancelled or gathered. */
#include "support.h"

static void lent_slots_are_done_in_post_order_when_released(void **state)
{
  const struct pst_completion *done;
  uint64_t tokens[4];

  (void)state;
  setup(LB_MODE_REFERENCE, 5);
  assert_int_equal(post(4), 4);
  poll_all();
  const struct pst_completion *lent = find(PST_COMPLETION_EVENT, PST_EVENT_LENT);
  assert_non_null(lent);
  assert_int_equal(lent->u.region.buffer, 1);
  for (uint32_t i = 0; i < 4; i++) {
    const struct pst_completion *message = lent + 1 + i;
    assert_int_equal(message->u.message.sequence, i);
    assert_int_equal(message->u.message.buffer, 1);
    assert_int_equal(message->u.message.offset, i * 64);
    tokens[i] = message->u.message.token;
  }
  assert_int_equal(release(tokens[2]), 0);
  assert_int_equal(release(tokens[1]), 0);
  assert_int_equal(poll_all(), 0);
  assert_int_equal(release(tokens[0]), 0);
  assert_int_equal(poll_all(), 1);
  done = find(PST_COMPLETION_DONE, PST_OP_SEND);
  assert_non_null(done);
  assert_int_equal(done->u.done.count, 3);
  assert_int_equal(done->u.done.cookie, 1002);
  assert_int_equal(rig.receiver->rx->buffers[0].out, 1);
}

static void lent_slots_that_come_back_together_are_done_together(void **state)
{
  uint64_t tokens[3];

  (void)state;
  setup(LB_MODE_REFERENCE, 5);
  assert_int_equal(post(3), 3);
  assert_int_equal(messages(), 3);
  for (uint32_t i = 0; i < 3; i++)
    tokens[i] = polled[2 - i].u.message.token;
  assert_int_equal(lb_release(rig.worker, tokens, 3), 0);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].u.done.count, 3);
  assert_int_equal(polled[0].u.done.cookie, 1002);
}

/* The sender has more requests than the ring has slots, and the receiver keeps the oldest message
 * while all others come and go. */
static void lent_slot_that_is_kept_is_not_done_by_later_ones(void **state)
{
  uint64_t kept = 0;

  (void)state;
  setup(LB_MODE_REFERENCE, 5);
  for (uint32_t sent = 0; sent < 40;) {
    const int n = post(4);
    assert_in_range(n, 1, 4);
    assert_int_equal(messages(), n);
    for (int i = 0; i < n; i++, sent++)
      if (sent == 0)
        kept = polled[i].u.message.token;
      else
        assert_int_equal(release(polled[i].u.message.token), 0);
  }
  assert_int_equal(rig.sender->dones.outstanding, 40);
  assert_int_equal(post(1), 1);
  assert_int_equal(messages(), 1);
  const uint64_t last = polled[0].u.message.token;
  assert_int_equal(release(kept), 0);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].u.done.count, 40); /* the last one is out still */
  assert_int_equal(polled[0].u.done.cookie, 1039);
  assert_int_equal(release(last), 0);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].u.done.count, 1);
}

/* Messages that the receiver has taken over stay valid until it gives them back; the others are
 * cancelled. */
static void abort_cancels_what_was_not_taken_over(void **state)
{
  (void)state;
  setup(LB_MODE_REFERENCE, 5);
  assert_int_equal(post(2), 2);
  poll_all();
  assert_int_equal(post(2), 2);
  assert_int_equal(lb_endpoint_close(rig.sender, PST_CLOSE_ABORT, fake_clock_ns + 100), 0);
  lb_tx_settle(rig.sender, -ECANCELED, LB_PENDING);
  assert_int_equal(rig.sender->tx.results[0], LB_PENDING);
  assert_int_equal(rig.sender->tx.results[1], LB_PENDING);
  assert_int_equal(rig.sender->tx.results[2], -ECANCELED);
  poll_all();
  assert_null(find(PST_COMPLETION_MESSAGE, 0));
  fake_clock_ns += 100;
  poll_all();
  poll_all();
  const struct pst_completion *done = find(PST_COMPLETION_DONE, PST_OP_SEND);
  assert_non_null(done);
  assert_int_equal(done->status, -EBUSY);
  assert_int_equal(done->u.done.count, 2);
}

static void pieces_by_reference_are_gathered_in_the_ring(void **state)
{
  struct pst_request request = {.opcode = PST_OP_SEND, .piece_count = 2, .arg.length = 30};

  (void)state;
  setup(LB_MODE_REFERENCE, 5);
  for (uint32_t i = 0; i < MEMORY; i++)
    rig.source[i] = (uint8_t)(i * 5);
  const struct pst_piece pieces[] = {{rig.from, 1000, 10, 0}, {rig.from, 7, 20, 0}};
  request.local.pieces = pieces;
  assert_int_equal(lb_post(rig.sender, &request, 1, &last_wait), 1);
  assert_int_equal(messages(), 1);
  assert_int_equal(polled[0].u.message.buffer, 0);
  const uint8_t *got = rig.target + polled[0].u.message.offset;
  assert_memory_equal(got, rig.source + 1000, 10);
  assert_memory_equal(got + 10, rig.source + 7, 20);
  assert_int_equal(rig.receiver->rx->in_slots, 1);
  uint64_t tokens[4] = {polled[0].u.message.token};
  rig.posted = 1;
  assert_int_equal(post(3), 3);
  assert_int_equal(messages(), 3);
  for (uint32_t i = 0; i < 3; i++)
    tokens[1 + i] = polled[i].u.message.token;
  assert_int_equal(rig.receiver->rx->buffers[0].out, 3);
  assert_int_equal(lb_release(rig.worker, tokens, 4), 0);
  assert_int_equal(rig.receiver->rx->in_slots, 0);
  assert_int_equal(rig.receiver->rx->buffers[0].out, 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(lent_slots_are_done_in_post_order_when_released),
      CASE(lent_slots_that_come_back_together_are_done_together),
      CASE(lent_slot_that_is_kept_is_not_done_by_later_ones),
      CASE(abort_cancels_what_was_not_taken_over),
      CASE(pieces_by_reference_are_gathered_in_the_ring),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
