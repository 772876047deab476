/* SPDX-License-Identifier: Apache-2.0 */
/* Several senders into one ring, and one slot to several receivers. */
#include "harness.h"

static const struct contract_params shared = {
    .endpoints = 3, .slots = 31, .message = 512, .requests = 64, .pieces = 1};

static void fan_in_keeps_every_sender_in_order(void **state)
{
  contract_rule("MESSAGEs of an endpoint come in the order of their SENDs");
  contract_need(state, PST_CAP_SHARED_RING);
  struct contract_pair *pair = contract_pair(state, &shared);
  const uint64_t each = 3000;
  uint64_t posted[3] = {0}, done[3] = {0}, delivered[3] = {0};
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (delivered[0] + delivered[1] + delivered[2] < 3 * each) {
    for (uint32_t k = 0; k < 3; k++) {
      uint32_t wait;
      if (posted[k] == each || posted[k] - done[k] >= 8)
        continue;
      uint64_t offset = (k * 10 + posted[k] % 8) * pair->sender.stride;
      contract_fill((uint8_t *)pair->sender.memory.region.host + offset, 500, posted[k] * 4 + k);
      struct pst_request request = contract_send(&pair->sender, offset, 500, posted[k]);
      if (contract_post(&pair->sender, k, &request, 1, &wait) == 1)
        posted[k]++;
    }
    struct pst_completion completion;
    contract_poll(&pair->sender);
    while (contract_take(&pair->sender, PST_COMPLETION_DONE, PST_OP_SEND, &completion))
      done[completion.endpoint - 1] += completion.u.done.count;
    contract_poll(&pair->receiver);
    while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &completion)) {
      uint64_t k = completion.endpoint - 1;
      assert_true(k < 3);
      assert_int_equal(completion.u.message.sequence, delivered[k]);
      contract_bytes_are(contract_payload(&pair->receiver, &completion), 500, delivered[k] * 4 + k);
      delivered[k]++;
      contract_release(&pair->receiver, &completion);
    }
    contract_in_time(deadline,
                     "three senders' messages to one ring: %" PRIu64 ", %" PRIu64 " and %" PRIu64
                     " of %" PRIu64 " arrived",
                     delivered[0], delivered[1], delivered[2], each);
  }
  for (int k = 0; k < 3; k++)
    assert_int_equal(delivered[k], each);
  contract_pair_close(pair);
}

/* Slots of different senders never overlap, and together are the ring's. */
static void fan_in_shares_all_slots_out(void **state)
{
  contract_rule("several endpoints may name one ring");
  contract_need(state, PST_CAP_SHARED_RING);
  struct contract_pair *pair = contract_pair(state, &shared);
  bool seen[31] = {false};
  uint32_t total = 0;
  for (uint32_t k = 0; k < 3; k++) {
    struct pst_request requests[32];
    for (uint32_t i = 0; i < 32; i++)
      requests[i] = contract_send(&pair->sender, 0, 8, i);
    uint32_t taken = contract_post_all(pair, k, requests, 32);
    assert_true(taken > 0);
    total += taken;
  }
  if (contract_capabilities(*state) & PST_CAP_QUEUES)
    total = 31; /* the others wait */
  assert_int_equal(total, 31);
  for (uint32_t i = 0; i < total; i++) {
    struct pst_completion message =
        contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
    if (message.u.message.buffer)
      continue;
    uint64_t slot = message.u.message.offset / pair->receiver.stride;
    assert_true(slot-- > 0); /* the ring begins a stride into its range */
    assert_true(slot < 31 && !seen[slot]);
    seen[slot] = true;
  }
  contract_pair_close(pair);
}

static void one_of_three_may_leave(void **state)
{
  contract_rule(
      "The peer has left, or its address no longer answers; `status` says why. DONEs may follow.");
  contract_need(state, PST_CAP_SHARED_RING);
  struct contract_pair *pair = contract_pair(state, &shared);
  assert_int_equal(pair->sender.image.ops->endpoint_close(
                       pair->sender.endpoints[1], PST_CLOSE_DRAIN, contract_now_ns() + 1000000000u),
                   0);
  contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  struct pst_completion gone =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.endpoint, 2);
  for (uint32_t k = 0; k < 3; k += 2) {
    struct pst_request request = contract_send(&pair->sender, 0, 8, 7);
    uint32_t wait;
    assert_int_equal(contract_post(&pair->sender, k, &request, 1, &wait), 1);
    struct pst_completion message =
        contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    assert_int_equal(message.endpoint, k + 1);
    contract_release(&pair->receiver, &message);
  }
  contract_pair_close(pair);
}

static void one_slot_goes_to_three_receivers(void **state)
{
  contract_rule(
      "SEND: no other request names these bytes until DONE, so the limits.send_headroom bytes before them may be written. Without it a transport gathers its header.");
  contract_need(state, PST_CAP_SHARED_RING);
  struct contract_pair *pair = contract_pair(state, &shared);
  contract_fill(pair->sender.memory.region.host, 512, 77);
  for (uint32_t k = 0; k < 3; k++) {
    struct pst_request request = contract_send(&pair->sender, 0, 512, k);
    uint32_t wait;
    assert_int_equal(contract_post(&pair->sender, k, &request, 1, &wait), 1);
  }
  struct pst_completion messages[3];
  for (uint32_t k = 0; k < 3; k++) {
    messages[k] = contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
    contract_bytes_are(contract_payload(&pair->receiver, &messages[k]), 512, 77);
  }
  for (uint32_t k = 0; k < 3; k++)
    contract_release(&pair->receiver, &messages[k]);
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 3, 0);
  contract_pair_close(pair);
}

/* Its peer is the one that it names itself; another learns that it is none, at the latest by its
 * timeout_ns. */
static void second_peer_of_an_endpoint_is_turned_away(void **state)
{
  contract_rule(
      "An endpoint has one peer, the one that this call names. Another peer that names this endpoint gets DISCONNECTED, after its timeout_ns at the latest, while both sides poll.");
  contract_need(state, PST_CAP_SHARED_RING);
  struct contract_params params = shared;
  params.timeout_ns = 3000000000;
  struct contract_pair *pair = contract_pair_open(*state, &params);
  struct pst_blob blob;
  contract_address(&pair->sender, 0, &blob);
  assert_int_equal(contract_connect(&pair->receiver, 0, &blob), 0);
  contract_address(&pair->receiver, 0, &blob);
  assert_int_equal(contract_connect(&pair->sender, 0, &blob), 0);
  assert_int_equal(contract_connect(&pair->sender, 1, &blob), 0);
  struct pst_completion refused =
      contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(refused.endpoint, 2);
  contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  assert_true(refused.status < 0);
  contract_pair_close(pair);
}

int contract_share_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(fan_in_keeps_every_sender_in_order),
      CONTRACT_CASE(fan_in_shares_all_slots_out),
      CONTRACT_CASE(one_of_three_may_leave),
      CONTRACT_CASE(one_slot_goes_to_three_receivers),
      CONTRACT_CASE(second_peer_of_an_endpoint_is_turned_away),
  };
  return CONTRACT_RUN("share", cases, variant);
}
