/* SPDX-License-Identifier: Apache-2.0 */
/* SENDs: what is refused and when, what their copies write, and what a short post waits for. */
#include "support.h"

#define UNTOUCHED 0xee

static int send_one(const struct pst_request *request)
{
  return lb_post(rig.sender, request, 1, &last_wait);
}

static void wrong_ones_are_refused(void **state)
{
  const struct pst_request good = send_of(0, 40);
  struct pst_request request = good;

  (void)state;
  setup(LB_MODE_COPY, 5);
#define REFUSED(code, change)                                                                      \
  do {                                                                                             \
    request = send_of(0, 40);                                                                      \
    change;                                                                                        \
    assert_int_equal(send_one(&request), code);                                                    \
  } while (0)
  REFUSED(-EINVAL, request.flags = 0x80);
  REFUSED(-EINVAL, request.reserved0 = 1);
  REFUSED(-EINVAL, request.opcode = 31);
  REFUSED(-EINVAL, request.local.mr = NULL);
  REFUSED(-EINVAL, request.local.mr = rig.into);
  REFUSED(-EINVAL, request.offset = MEMORY - 39);
  REFUSED(-EINVAL, request.offset = UINT64_MAX - 38);
  REFUSED(-EINVAL, request.u.send.departure_ns = 1);
  REFUSED(-EMSGSIZE, request.arg.length = PAYLOAD + 1);
  REFUSED(-E2BIG, request.piece_count = LB_PIECES_MAX + 1);
  rig.receiver->dones.requests = 1;
  assert_int_equal(lb_post(rig.receiver, &good, 1, &last_wait), -EINVAL); /* it does not send */
  assert_int_equal(rig.sender->tx.credits, 5);
  assert_int_equal(rig.sender->dones.outstanding, 0);
}

static void wrong_one_is_refused_without_a_credit_too(void **state)
{
  struct pst_request request;

  (void)state;
  setup(LB_MODE_COPY, 2);
  assert_int_equal(post(2), 2);
  request = send_of(2, PAYLOAD + 1);
  assert_int_equal(send_one(&request), -EMSGSIZE);
  request = send_of(2, PAYLOAD);
  assert_int_equal(send_one(&request), -EAGAIN);
  assert_int_equal(last_wait, PST_WAIT_CREDIT);
}

/* Messages of each length, by the short copy and by memcpy(): all bytes, and none beyond. */
static void copy_writes_the_message_alone(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  for (uint32_t i = 0; i < MEMORY; i++)
    rig.source[i] = (uint8_t)(i * 11 % 200);
  for (uint64_t length = 0; length <= PAYLOAD; length++) {
    struct pst_request request = send_of(0, length);
    request.offset = 3;
    memset(rig.target, UNTOUCHED, MEMORY);
    assert_int_equal(send_one(&request), 1);
    poll_all();
    const struct pst_completion *message = find(PST_COMPLETION_MESSAGE, 0);
    while (!message && poll_all() > 0)
      message = find(PST_COMPLETION_MESSAGE, 0);
    assert_non_null(message);
    const uint8_t *got = rig.target + message->u.message.offset;
    assert_int_equal(message->u.message.length, length);
    assert_memory_equal(got, rig.source + 3, length);
    assert_int_equal(got[-1], UNTOUCHED);
    assert_int_equal(got[length], UNTOUCHED);
    assert_int_equal(release(message->u.message.token), 0);
  }
}

static void pieces_are_gathered(void **state)
{
  struct pst_request requests[] = {send_of(0, 40), send_of(1, 12), send_of(2, 40)};

  (void)state;
  setup(LB_MODE_COPY, 5);
  for (uint32_t i = 0; i < MEMORY; i++)
    rig.source[i] = (uint8_t)(i * 11);
  const struct pst_piece pieces[] = {
      {rig.from, 900, 5, 0}, {rig.from, 0, 0, 0}, {rig.from, 40, 7, 0}};
  for (int i = 0; i < 3; i++)
    requests[i].local.mr = rig.from;
  requests[1].piece_count = 3;
  requests[1].offset = 0;
  requests[1].local.pieces = pieces;
  assert_int_equal(lb_post(rig.sender, requests, 3, &last_wait), 3);
  for (int n = 0; n < 3;) {
    const int all = poll_all();
    assert_true(all > 0);
    for (int i = 0; i < all; i++) {
      if (polled[i].kind != PST_COMPLETION_MESSAGE)
        continue;
      assert_int_equal(polled[i].u.message.sequence, n++);
      if (polled[i].u.message.sequence != 1)
        continue;
      const uint8_t *got = rig.target + polled[i].u.message.offset;
      assert_int_equal(polled[i].u.message.length, 12);
      assert_memory_equal(got, rig.source + 900, 5);
      assert_memory_equal(got + 5, rig.source + 40, 7);
    }
  }
}

static void run_is_one_done(void **state)
{
  const struct pst_completion *done;

  (void)state;
  setup(LB_MODE_COPY, 64);
  assert_int_equal(post(40), 40); /* more than are shown at a time */
  assert_int_equal(rig.receiver->own->port->desc_head, 40);
  poll_all();
  done = find(PST_COMPLETION_DONE, PST_OP_SEND);
  if (!done && poll_all() > 0)
    done = find(PST_COMPLETION_DONE, PST_OP_SEND);
  assert_non_null(done);
  assert_int_equal(done->u.done.count, 40);
  assert_int_equal(done->u.done.cookie, 1039);
}

static void no_more_than_its_requests_are_outstanding(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  rig.sender->dones.requests = 3;
  assert_int_equal(post(5), 3);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  assert_int_equal(post(1), -EAGAIN);
  assert_int_equal(last_wait, PST_WAIT_QUEUE);
  poll_all();
  assert_int_equal(post(5), 2);
  assert_int_equal(last_wait, PST_WAIT_CREDIT);
}

static void peer_that_has_closed_is_not_written_to(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  atomic_fetch_or(&rig.receiver->own->port->state, LB_STATE_CLOSED);
  memset(rig.target, UNTOUCHED, MEMORY);
  assert_int_equal(post(1), -ECONNRESET);
  assert_int_equal(rig.receiver->own->posting, 0); /* else the peer waits for ever */
  for (uint32_t i = 0; i < MEMORY; i++)
    assert_int_equal(rig.target[i], UNTOUCHED);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(wrong_ones_are_refused),
      CASE(wrong_one_is_refused_without_a_credit_too),
      CASE(copy_writes_the_message_alone),
      CASE(pieces_are_gathered),
      CASE(run_is_one_done),
      CASE(no_more_than_its_requests_are_outstanding),
      CASE(peer_that_has_closed_is_not_written_to),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
