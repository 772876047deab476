/* SPDX-License-Identifier: Apache-2.0 */
/* Several senders of datagrams into one ring. */
#include "datagram.h"

enum { ENDS = 3 };

static const struct contract_params shared = {
    .endpoints = ENDS, .slots = 96, .message = 512, .requests = 64, .pieces = 1};

/* One message of the k-th, of so many bytes that are its own. */
static void send_one(struct contract_pair *pair, uint32_t k, uint64_t sequence)
{
  struct contract_side *side = &pair->sender;
  const uint64_t offset = (sequence % 8 * ENDS + k) * side->stride;
  uint32_t wait;

  contract_fill((uint8_t *)side->memory.region.host + offset, 500, sequence * ENDS + k);
  struct pst_request request = contract_send(side, offset, 500, sequence);
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (contract_post(side, k, &request, 1, &wait) != 1) {
    contract_poll(side);
    contract_in_time(deadline, "a SEND of endpoint %u to be taken", k);
  }
  contract_await_done(side, NULL, PST_OP_SEND, 1, 0);
}

/* The next message, which is the one that its sender has sent. Those of several endpoints come in
 * any order. */
static struct pst_completion take_any(struct contract_pair *pair, uint64_t sequence)
{
  struct contract_side *side = &pair->receiver;
  struct pst_completion message = contract_await(side, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  const uint64_t k = message.endpoint - 1;

  assert_true(k < ENDS);
  if (side->limits.sequence_bits)
    assert_int_equal(message.u.message.sequence, sequence);
  contract_bytes_are(contract_payload(side, &message), 500, sequence * ENDS + k);
  return message;
}

static struct pst_completion take_one(struct contract_pair *pair, uint32_t k, uint64_t sequence)
{
  struct pst_completion message = take_any(pair, sequence);

  assert_int_equal(message.endpoint, k + 1);
  return message;
}

static void each_of_several_has_its_own_messages(void **state)
{
  contract_rule("several endpoints may name one ring");
  contract_need(state, PST_CAP_SHARED_RING);
  struct contract_pair *pair = contract_pair(state, &shared);
  bool out[96] = {false};
  for (uint64_t i = 0; i < 300; i++) {
    struct pst_completion held[ENDS];
    for (uint32_t k = 0; k < ENDS; k++)
      send_one(pair, (k + (uint32_t)i) % ENDS, i);
    uint64_t seen = 0;
    for (uint32_t k = 0; k < ENDS; k++) {
      held[k] = take_any(pair, i);
      seen |= UINT64_C(1) << held[k].endpoint;
      uint64_t slot = held[k].u.message.offset / pair->receiver.stride;
      assert_true(slot-- > 0); /* the ring begins a stride into its range */
      assert_true(slot < 96 && !out[slot]);
      out[slot] = true;
    }
    assert_int_equal(seen, 0xe); /* one of each */
    for (uint32_t k = 0; k < ENDS; k++) {
      out[held[k].u.message.offset / pair->receiver.stride - 1] = false;
      contract_release(&pair->receiver, &held[k]);
    }
  }
  contract_pair_close(pair);
}

static void one_that_is_not_connected_holds_up_none(void **state)
{
  contract_rule("several endpoints may name one ring");
  contract_need(state, PST_CAP_SHARED_RING);
  struct contract_pair *pair = contract_pair_open(*state, &shared);
  struct pst_blob blob;
  for (uint32_t k = 0; k < ENDS; k++) {
    contract_address(&pair->receiver, k, &blob);
    assert_int_equal(contract_connect(&pair->sender, k, &blob), 0);
    contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
    contract_address(&pair->sender, k, &blob);
    if (k == 1)
      continue;
    assert_int_equal(contract_connect(&pair->receiver, k, &blob), 0);
    contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  }
  for (uint64_t i = 0; i < 40; i++) {
    send_one(pair, 1, i);
    send_one(pair, 0, i);
    struct pst_completion message = take_one(pair, 0, i);
    contract_release(&pair->receiver, &message);
  }
  contract_address(&pair->sender, 1, &blob);
  assert_int_equal(contract_connect(&pair->receiver, 1, &blob), 0);
  contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  send_one(pair, 1, 40);
  struct pst_completion message =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(message.endpoint, 2);
  contract_release(&pair->receiver, &message);
  contract_pair_close(pair);
}

static void one_of_several_may_leave(void **state)
{
  contract_rule("several endpoints may name one ring");
  contract_need(state, PST_CAP_SHARED_RING);
  struct contract_pair *pair = contract_pair(state, &shared);
  struct contract_side *side = &pair->receiver;
  struct pst_completion message;
  send_one(pair, 1, 0);
  struct pst_completion kept = take_one(pair, 1, 0);
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[1], PST_CLOSE_ABORT,
                                                   contract_now_ns() + 100000000u),
                   0);
  contract_await(side, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  side->closed[1] = true;
  for (uint64_t i = 0; i < 200; i++)
    for (uint32_t k = 0; k < ENDS; k++) {
      send_one(pair, k, i + 1);
      if (k == 1)
        continue;                         /* it is nobody's now */
      message = take_one(pair, k, i + 1); /* of each the only one there is */
      contract_release(side, &message);
    }
  contract_release(side, &kept);
  contract_pair_close(pair);
}

int contract_datagram_share_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(each_of_several_has_its_own_messages),
      CONTRACT_CASE(one_that_is_not_connected_holds_up_none),
      CONTRACT_CASE(one_of_several_may_leave),
  };
  return CONTRACT_RUN("shared datagrams", cases, variant);
}
