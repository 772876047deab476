/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that a receiver still fetches when their sender has aborted.
 *
 *     ucx-leave PLUGIN
 */
#include <stdio.h>

#include "harness.h"

#define ROUNDS 24
#define AFTER_NS UINT64_C(20000000)

static const char *const options[] = {"tls=tcp", "rendezvous_from=4KiB", NULL};
static struct contract_variant variant = {.name = "tcp", .option_list = options, .apart = true};
static const struct contract_params params = {
    .endpoints = 1, .slots = 4, .message = UINT64_C(4) << 20, .requests = 8, .pieces = 1};

static void post_messages(struct contract_pair *pair)
{
  struct contract_side *side = &pair->sender;
  struct pst_request requests[4];
  uint32_t wait;

  for (uint32_t i = 0; i < 4; i++)
    requests[i] = contract_send(side, i * side->stride, side->message, i);
  assert_int_equal(contract_post(side, 0, requests, 4, &wait), 4);
}

/* Until long after the receiver has heard of it. Returns the messages that came. */
static uint32_t watch_the_end(struct contract_pair *pair)
{
  struct contract_side *side = &pair->receiver;
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  uint64_t told_ns = 0;
  uint32_t messages = 0;
  struct pst_completion one;

  while (!told_ns || contract_now_ns() - told_ns < AFTER_NS) {
    contract_poll(&pair->sender);
    contract_poll(side);
    contract_in_time(deadline, "the receiver to be told that its sender has aborted");
    while (contract_take(side, PST_COMPLETION_MESSAGE, 0, &one)) {
      if (told_ns)
        fail_msg("a MESSAGE came behind DISCONNECTED");
      assert_int_equal(one.u.message.sequence, messages++);
      contract_release(side, &one);
    }
    if (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &one)) {
      assert_int_equal(one.status, -ECONNRESET);
      told_ns = contract_now_ns();
    }
  }
  return messages;
}

static void fetches_from_a_sender_that_aborts(void **state)
{
  contract_rule("DISCONNECTED follows every MESSAGE that arrived whole");
  const struct contract_variant *ours = *state;

  for (uint32_t round = 0; round < ROUNDS; round++) {
    struct contract_pair *pair = contract_pair_open(ours, &params);
    contract_pair_connect(pair);
    post_messages(pair);
    for (uint64_t polls = contract_random() % 3; polls; polls--) {
      contract_poll(&pair->receiver);
      contract_poll(&pair->sender);
    }
    assert_int_equal(
        pair->sender.image.ops->endpoint_close(pair->sender.endpoints[0], PST_CLOSE_ABORT, 0), 0);
    assert_in_range(watch_the_end(pair), 0, 4);
    contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
    pair->sender.closed[0] = true;
    contract_pair_close(pair);
    contract_complaints();
  }
}

int main(int argc, char **argv)
{
  struct CMUnitTest cases[] = {CONTRACT_CASE(fetches_from_a_sender_that_aborts)};

  if (argc != 2) {
    fprintf(stderr, "usage: %s PLUGIN\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  return CONTRACT_MAIN("ucx leaves", cases, &variant);
}
