/* SPDX-License-Identifier: Apache-2.0 */
/* Slots, descriptors and credits: arithmetic, wrap, shares of a ring, and peers that lie. */
#include "support.h"

static uint32_t slot_of(const struct pst_completion *message)
{
  return (uint32_t)message->u.message.token;
}

static void expect_message(const struct pst_completion *message, uint64_t number)
{
  assert_int_equal(message->kind, PST_COMPLETION_MESSAGE);
  assert_int_equal(message->endpoint, RECEIVER_COOKIE);
  assert_int_equal(message->u.message.sequence, number);
  assert_int_equal(message->u.message.meta, ~number);
  assert_int_equal(message->u.message.length, 40);
  assert_int_equal(message->u.message.offset, 16 + slot_of(message) * STRIDE + 4);
  for (uint32_t i = 0; i < 40; i++)
    assert_int_equal(rig.target[message->u.message.offset + i], number % 64);
}

static void slots_are_used_again_in_the_order_they_came_back(void **state)
{
  static const uint32_t back[] = {3, 0, 4};
  uint64_t tokens[5];
  uint32_t seen = 0;

  (void)state;
  setup(LB_MODE_COPY, 5);
  assert_int_equal(post(6), 5);
  assert_int_equal(last_wait, PST_WAIT_CREDIT);
  assert_int_equal(messages(), 5);
  for (uint32_t i = 0; i < 5; i++) {
    expect_message(&polled[i], i);
    seen |= 1u << slot_of(&polled[i]);
    tokens[i] = polled[i].u.message.token;
  }
  assert_int_equal(seen, 0x1f);
  assert_int_equal(post(1), -EAGAIN);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(release(tokens[back[i]]), 0);
  assert_int_equal(post(4), 3);
  assert_int_equal(messages(), 3);
  for (uint32_t i = 0; i < 3; i++) {
    expect_message(&polled[i], 5 + i);
    assert_int_equal(polled[i].u.message.token, tokens[back[i]]);
  }
}

/* All running counts stand `lead` before that number, as after so many messages. */
static void wind(uint64_t to, uint64_t lead)
{
  struct lb_port *port = rig.receiver->own->port;
  struct lb_rx *rx = rig.receiver->rx;
  struct lb_tx *tx = &rig.sender->tx;
  const uint64_t by = to - lead;

  assert_int_equal(by & rx->own->mask, 0);
  port->desc_head = rx->tail = tx->head = tx->tail = by;
  rx->claimed = by;
  port->claimed = by;
  port->free_head = rx->free_head = by + rx->own->slots;
  tx->free_tail += by;
}

static void flow(uint32_t count)
{
  for (uint64_t from = 0; from < count;) {
    int taken = post(3);
    assert_true(taken > 0);
    int n = messages();
    assert_int_equal(n, taken);
    for (int i = n - 1; i >= 0; i--) {
      expect_message(&polled[i], from + (uint64_t)i);
      assert_int_equal(release(polled[i].u.message.token), 0);
    }
    from += (uint64_t)n;
  }
}

static void counts_pass_32_bits(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  assert_int_equal(post(0), 0);
  wind(UINT64_C(1) << 32, 8);
  flow(40);
  assert_true(rig.sender->tx.head > UINT64_C(1) << 32);
}

static void counts_pass_64_bits(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  wind(0, 8);
  flow(40);
  assert_int_equal(rig.sender->tx.head, 34); /* from 8 before 0, in threes */
}

static void ring_lies_in_its_registration(void **state)
{
  struct pst_path_info path = {.struct_size = sizeof(path)};
  struct pst_ring_params fits, params;
  struct pst_ring *ring;

  (void)state;
  open_device(LB_MODE_COPY);
  fits = (struct pst_ring_params){.struct_size = sizeof(fits),
                                  .slots = 64,
                                  .mr = rig.into,
                                  .base = 20,
                                  .stride = STRIDE,
                                  .payload_max = 100,
                                  .headroom = 4,
                                  .tailroom = 4,
                                  .endpoints = 64};
  assert_int_equal(lb_ring_open(rig.worker, &fits, &path, &ring), 0);
  lb_ring_close(rig.worker, ring);
#define REFUSED(change)                                                                            \
  do {                                                                                             \
    params = fits;                                                                                 \
    change;                                                                                        \
    assert_int_equal(lb_ring_open(rig.worker, &params, &path, &ring), -EINVAL);                    \
  } while (0)
  REFUSED(params.base = 21);
  REFUSED(params.tailroom = 5);
  REFUSED(params.stride = 107);
  REFUSED(params.slots = 65);
  REFUSED(params.slots = 0);
  REFUSED(params.slots = LB_SLOTS_MAX + 1);
  REFUSED(params.endpoints = 65);
  REFUSED(params.endpoints = 0);
  REFUSED(params.mr = NULL);
  REFUSED(params.mr = rig.from);
  REFUSED(params.base = UINT64_MAX - 8000);
  REFUSED(params.stride = UINT64_MAX / 63 + 1);
  REFUSED(params.payload_max = UINT64_MAX - 4);
  REFUSED(params.payload_max = LB_BYTES_MAX + 1);
}

static void endpoints_share_all_slots_of_a_ring(void **state)
{
  static const uint32_t first[] = {0, 3, 6, 10};
  struct pst_endpoint *ends[3], *more = NULL;

  (void)state;
  open_device(LB_MODE_COPY);
  assert_int_equal(open_ring(10, 3, &rig.ring), 0);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(open_endpoint(PST_ROLE_RECEIVER, rig.ring, &ends[i]), 0);
    assert_int_equal(ends[i]->own->slots, first[i + 1] - first[i]);
    assert_int_equal(ends[i]->rx->payload_offset, 16 + first[i] * STRIDE + 4);
    assert_ptr_equal(ends[i]->own->slot0, rig.target + 20 + first[i] * STRIDE);
  }
  assert_int_equal(open_endpoint(PST_ROLE_RECEIVER, rig.ring, &more), -EINVAL);
  assert_non_null(strstr(fake_log(), "more endpoints on a ring than ring_open asked for"));
}

/* ---- Tokens ------------------------------------------------------------------------------------
 */

static void token_is_taken_once(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  post(1);
  assert_int_equal(messages(), 1);
  uint64_t token = polled[0].u.message.token;
  assert_int_equal(release(token + 1), -EINVAL);
  assert_int_equal(release(token + 5), -EINVAL);
  assert_int_equal(release(token + (UINT64_C(1) << 32)), -EINVAL);
  assert_int_equal(release(token + (UINT64_C(1) << (32 + PST_PLACE_BITS))), -EINVAL);
  assert_int_equal(release(token), 0);
  assert_int_equal(release(token), -EINVAL);
  assert_non_null(strstr(fake_log(), "which is not out"));
}

static void good_tokens_before_a_wrong_one_are_taken(void **state)
{
  uint64_t tokens[3];

  (void)state;
  setup(LB_MODE_COPY, 5);
  post(2);
  assert_int_equal(messages(), 2);
  tokens[0] = tokens[2] = polled[0].u.message.token;
  tokens[1] = polled[1].u.message.token;
  assert_int_equal(lb_release(rig.worker, tokens, 3), -EINVAL);
  assert_int_equal(post(6), 5);
}

static void part_is_used_again_when_its_tokens_are_back(void **state)
{
  struct pst_endpoint *next = NULL;

  (void)state;
  setup(LB_MODE_COPY, 5);
  post(1);
  assert_int_equal(messages(), 1);
  uint64_t token = polled[0].u.message.token;
  close_endpoint(rig.receiver);
  assert_int_equal(open_endpoint(PST_ROLE_RECEIVER, rig.ring, &next), -ENOSPC);
  assert_int_equal(release(token), 0);
  rig.worker->rx.next = 0; /* else the place is not the next one's */
  assert_int_equal(open_endpoint(PST_ROLE_RECEIVER, rig.ring, &next), 0);
  assert_int_equal(next->rx->index & PST_PLACE_MASK, token >> 32 & PST_PLACE_MASK);
  next->rx->states[(uint32_t)token] = LB_SLOT_HELD;
  assert_int_equal(release(token), -EINVAL); /* the place is the same, the token is not */
  next->rx->states[(uint32_t)token] = LB_SLOT_PEER;
}

/* ---- Peers that lie
 * ------------------------------------------------------------------------------- */

static void expect_broken(const char *what)
{
  for (int i = 0; i < 3 && !find(PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED); i++) {
    poll_all();
    assert_null(find(PST_COMPLETION_MESSAGE, 0));
  }
  const struct pst_completion *event = find(PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_non_null(event);
  assert_int_equal(event->status, -EPROTO);
  if (!strstr(fake_log(), what))
    fail_msg("\"%s\" is not in: %s", what, fake_log());
}

static void lie(const struct lb_desc *desc, uint64_t head)
{
  struct lb_link *own = rig.receiver->own;
  own->desc[0] = *desc;
  own->desc[1] = *desc;
  atomic_store(&own->port->desc_head, head);
}

static void descriptor_of_no_slot_ends_it(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  lie(&(struct lb_desc){.slot = 5}, 1);
  expect_broken("sent a slot or a length");
}

static void descriptor_of_a_longer_message_ends_it(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  lie(&(struct lb_desc){.slot = 0, .length = PAYLOAD + 1}, 1);
  expect_broken("sent a slot or a length");
}

static void slot_sent_twice_ends_it(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  lie(&(struct lb_desc){.slot = 2, .length = PAYLOAD}, 2);
  assert_int_equal(poll_all(), 2);
  assert_non_null(find(PST_COMPLETION_MESSAGE, 0)); /* the first was right */
  const struct pst_completion *event = find(PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_non_null(event);
  assert_int_equal(event->status, -EPROTO);
}

static void more_messages_than_slots_end_it(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  lie(&(struct lb_desc){.slot = 0}, 6);
  expect_broken("announced more messages than there are slots");
}

static void messages_taken_back_end_it(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  lie(&(struct lb_desc){.slot = 0}, UINT64_MAX);
  expect_broken("announced more messages than there are slots");
}

static void credits_that_are_too_many_end_it(void **state)
{
  (void)state;
  setup(LB_MODE_COPY, 5);
  assert_int_equal(post(2), 2);
  atomic_fetch_add(&rig.receiver->own->port->free_head, 3); /* two are out */
  assert_int_equal(post(4), -ECONNRESET);
  poll_all();
  assert_non_null(strstr(fake_log(), "returned more slots than it has"));
}

static void credit_of_no_slot_ends_it(void **state)
{
  struct lb_link *own;

  (void)state;
  setup(LB_MODE_COPY, 5);
  assert_int_equal(post(2), 2);
  own = rig.receiver->own;
  own->free_slots[5 & own->mask] = 5;
  atomic_fetch_add(&own->port->free_head, 1);
  assert_int_equal(post(4), -ECONNRESET);
  poll_all();
  assert_non_null(strstr(fake_log(), "returned a slot that it does not have"));
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
      CASE(slots_are_used_again_in_the_order_they_came_back),
      CASE(counts_pass_32_bits),
      CASE(counts_pass_64_bits),
      CASE(ring_lies_in_its_registration),
      CASE(endpoints_share_all_slots_of_a_ring),
      CASE(token_is_taken_once),
      CASE(good_tokens_before_a_wrong_one_are_taken),
      CASE(part_is_used_again_when_its_tokens_are_back),
      CASE(descriptor_of_no_slot_ends_it),
      CASE(descriptor_of_a_longer_message_ends_it),
      CASE(slot_sent_twice_ends_it),
      CASE(more_messages_than_slots_end_it),
      CASE(messages_taken_back_end_it),
      CASE(credits_that_are_too_many_end_it),
      CASE(credit_of_no_slot_ends_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
