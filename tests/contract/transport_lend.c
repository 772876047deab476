/* SPDX-License-Identifier: Apache-2.0 */
/* Lent regions. Transports without LEND must show none. */
#include "harness.h"

static bool lends(const struct contract_pair *pair)
{
  return pair->receiver.limits.capabilities & PST_CAP_LEND;
}

static void post_some(struct contract_pair *pair, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    struct pst_request request = contract_send(&pair->sender, i * pair->sender.stride, 64, i);
    contract_post_one(pair, &request);
  }
}

static void no_region_is_lent_without_the_capability(void **state)
{
  contract_rule("may hand over messages in regions of its own or the sender's");
  struct contract_pair *pair = contract_pair(state, NULL);
  post_some(pair, 8);
  struct pst_completion completion;
  for (int i = 0; i < 8; i++) {
    completion = contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    assert_true(lends(pair) || completion.u.message.buffer == 0);
  }
  assert_int_equal(
      contract_take(&pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_LENT, &completion),
      lends(pair));
  contract_pair_close(pair);
}

static void region_is_announced_before_its_first_message(void **state)
{
  contract_rule("region.buffer now names *region.region");
  struct contract_pair *pair = contract_pair(state, NULL);
  if (!lends(pair)) {
    contract_pair_close(pair);
    skip();
  }
  post_some(pair, 4);
  while (contract_poll(&pair->receiver) == 0)
    ;
  const struct pst_completion *first = &pair->receiver.log[0];
  assert_int_equal(first->kind, PST_COMPLETION_EVENT);
  assert_int_equal(first->code, PST_EVENT_LENT);
  assert_int_equal(first->endpoint, 0);
  assert_true(first->u.region.buffer > 0);
  assert_non_null(first->u.region.region);
  assert_ptr_equal(first->u.region.region->host, pair->sender.memory.region.host);
  for (uint32_t i = 0; i < 4; i++) {
    struct pst_completion message =
        contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
    assert_int_equal(message.u.message.buffer, first->u.region.buffer);
    assert_int_equal(message.u.message.offset, i * pair->sender.stride);
  }
  contract_pair_close(pair);
}

static void send_is_done_when_it_is_released_in_post_order(void **state)
{
  contract_rule(
      "A SEND out of a region that is lent to the receiver is DONE when the receiver releases it.");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct pst_completion messages[4], done;
  if (!lends(pair)) {
    contract_pair_close(pair);
    skip();
  }
  post_some(pair, 4);
  for (int i = 0; i < 4; i++)
    messages[i] = contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  contract_release(&pair->receiver, &messages[1]);
  contract_release(&pair->receiver, &messages[2]);
  for (int i = 0; i < 50; i++) {
    contract_poll(&pair->receiver);
    contract_poll(&pair->sender);
  }
  assert_false(contract_take(&pair->sender, PST_COMPLETION_DONE, PST_OP_SEND, &done));
  contract_release(&pair->receiver, &messages[0]);
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 3, 0);
  contract_release(&pair->receiver, &messages[3]);
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 1, 0);
  contract_pair_close(pair);
}

static void close_sender(struct contract_pair *pair, uint32_t mode, uint64_t deadline_ns)
{
  assert_int_equal(
      pair->sender.image.ops->endpoint_close(pair->sender.endpoints[0], mode, deadline_ns), 0);
}

static void abort_cancels_what_was_not_taken_over(void **state)
{
  contract_rule(
      "also when the peer dies (-ECONNRESET, -ETIMEDOUT) or the endpoint closes (-ECANCELED).");
  struct contract_pair *pair = contract_pair(state, NULL);
  const uint64_t count = 20;
  uint64_t delivered = 0, released = 0, cancelled = 0;
  struct pst_completion completion;
  if (!lends(pair)) {
    contract_pair_close(pair);
    skip();
  }
  post_some(pair, (uint32_t)count);
  struct pst_completion held[3];
  for (uint32_t got = 0; got < 3;) {
    int n = pair->receiver.image.ops->poll(pair->receiver.worker, held + got, 3 - got);
    assert_true(n >= 0);
    got += (uint32_t)n;
  }
  close_sender(pair, PST_CLOSE_ABORT, contract_now_ns() + contract_deadline_ns);
  for (int i = 0; i < 20; i++)
    contract_poll(&pair->sender);
  assert_false(contract_take(&pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &completion));
  for (int i = 0; i < 3; i++)
    if (held[i].kind == PST_COMPLETION_MESSAGE) {
      contract_release(&pair->receiver, &held[i]);
      delivered++;
    }
  while (released + cancelled < count) {
    contract_poll(&pair->receiver);
    while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &completion)) {
      contract_release(&pair->receiver, &completion);
      delivered++;
    }
    contract_poll(&pair->sender);
    while (contract_take(&pair->sender, PST_COMPLETION_DONE, PST_OP_SEND, &completion)) {
      assert_true(completion.status == -ECANCELED || (completion.status == 0 && !cancelled));
      *(completion.status ? &cancelled : &released) += completion.u.done.count;
    }
  }
  assert_int_equal(released, delivered);
  assert_true(released >= 2 && cancelled >= 10);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_UNLENT);
  contract_pair_close(pair);
}

static void deadline_ends_what_is_still_held_as_busy(void **state)
{
  contract_rule("except -EBUSY: at the close's deadline the receiver still held a lent SEND.");
  struct contract_pair *pair = contract_pair(state, NULL);
  if (!lends(pair)) {
    contract_pair_close(pair);
    skip();
  }
  post_some(pair, 2);
  struct pst_completion messages[2];
  for (int i = 0; i < 2; i++)
    messages[i] = contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  uint64_t began = contract_now_ns();
  close_sender(pair, PST_CLOSE_DRAIN, began + 50000000u);
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 2, -EBUSY);
  assert_true(contract_now_ns() >= began + 50000000u);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  struct pst_completion unlent;
  contract_poll(&pair->receiver);
  assert_false(contract_take(&pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_UNLENT, &unlent));
  contract_release(&pair->receiver, &messages[0]);
  contract_release(&pair->receiver, &messages[1]);
  unlent = contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_UNLENT);
  assert_int_equal(unlent.u.region.buffer, messages[0].u.message.buffer);
  contract_pair_close(pair);
}

static void receiver_that_closes_gives_back_what_it_never_gave(void **state)
{
  contract_rule("Exactly one DONE covers each request that post() took");
  struct contract_pair *pair = contract_pair(state, NULL);
  const struct pst_transport_ops *ops = pair->receiver.image.ops;
  if (!lends(pair)) {
    contract_pair_close(pair);
    skip();
  }
  post_some(pair, 1);
  struct pst_completion held =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  post_some(pair, 3);
  assert_int_equal(ops->endpoint_close(pair->receiver.endpoints[0], PST_CLOSE_DRAIN,
                                       contract_now_ns() + contract_deadline_ns),
                   0);
  while (!pair->receiver.closed[0]) {
    struct pst_completion closed;
    int n = ops->poll(pair->receiver.worker, &closed, 1);
    if (n == 1 && closed.kind == PST_COMPLETION_EVENT && closed.code == PST_EVENT_CLOSED)
      pair->receiver.closed[0] = true;
    else if (n == 1 && closed.kind == PST_COMPLETION_MESSAGE)
      contract_release(&pair->receiver, &closed);
  }
  contract_bytes_are(contract_payload(&pair->receiver, &held), 0, 0);
  contract_release(&pair->receiver, &held);
  uint64_t covered = 0;
  while (covered < 4)
    covered += contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_DONE, PST_OP_SEND)
                   .u.done.count;
  assert_int_equal(covered, 4);
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_UNLENT);
  contract_pair_close(pair);
}

/* Opened without memory, a ring takes what can be lent, and refuses what cannot. */
static void ring_without_memory_takes_what_is_lent(void **state)
{
  contract_rule(
      "A ring may be opened without memory (its mr NULL): every message is lent, and nothing lies in slots of its own. A SEND of several pieces to such a ring is refused: -E2BIG.");
  struct contract_params params = {
      .endpoints = 2, .slots = 16, .message = 256, .requests = 64, .pieces = 2, .bare = true};
  contract_need(state, PST_CAP_BARE_RING);
  struct contract_pair *pair = contract_pair(state, &params);
  for (uint32_t round = 0; round < 3 * params.slots; round++) {
    const uint64_t offset = round % params.slots * pair->sender.stride;
    contract_fill((uint8_t *)pair->sender.memory.region.host + offset, 64, round);
    struct pst_request request = contract_send(&pair->sender, offset, 64, round);
    contract_post_one(pair, &request);
    struct pst_completion message =
        contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    assert_true(message.u.message.buffer > 0);
    assert_int_equal(message.u.message.sequence, round);
    contract_bytes_are(contract_payload(&pair->receiver, &message), 64, round);
    contract_release(&pair->receiver, &message);
    contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 1, 0);
  }
  struct pst_piece pieces[2] = {{.mr = pair->sender.mr, .length = 8},
                                {.mr = pair->sender.mr, .offset = 64, .length = 8}};
  struct pst_request request = contract_send(&pair->sender, 0, 16, 3 * params.slots);
  uint32_t wait;
  request.piece_count = 2;
  request.local.pieces = pieces;
  request.offset = 0;
  assert_int_equal(contract_post(&pair->sender, 0, &request, 1, &wait), -E2BIG);
  contract_pair_close(pair);
}

int contract_lend_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(no_region_is_lent_without_the_capability),
      CONTRACT_CASE(region_is_announced_before_its_first_message),
      CONTRACT_CASE(send_is_done_when_it_is_released_in_post_order),
      CONTRACT_CASE(abort_cancels_what_was_not_taken_over),
      CONTRACT_CASE(deadline_ends_what_is_still_held_as_busy),
      CONTRACT_CASE(receiver_that_closes_gives_back_what_it_never_gave),
      CONTRACT_CASE(ring_without_memory_takes_what_is_lent),
  };
  return CONTRACT_RUN("lend", cases, variant);
}
