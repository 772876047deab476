/* SPDX-License-Identifier: Apache-2.0 */
/* The filter `throttle`, which wraps a transport: post is held back, and only
 * that. */
#include "harness.h"

static const struct contract_params few = {
    .endpoints = 1, .slots = 64, .message = 64, .requests = 64, .pieces = 1, .sleep = true};

/* 1000 messages at `rate` and what they took. */
static uint64_t run_at(const struct contract_variant *variant, const char *options,
                       uint64_t *held_back)
{
  struct contract_variant slow = *variant;
  slow.filter_options = options;
  struct contract_pair *pair = contract_pair_open(&slow, &few);
  contract_pair_connect(pair);
  uint64_t posted = 0, delivered = 0, began = contract_now_ns();
  while (delivered < 1000) {
    struct pst_request requests[8];
    struct pst_completion message;
    uint32_t n = 0, wait = PST_WAIT_NONE;
    for (; n < 8 && posted + n < 1000; n++)
      requests[n] = contract_send(&pair->sender, 0, 64, posted + n);
    int rc = n ? contract_post(&pair->sender, 0, requests, n, &wait) : 0;
    if (rc > 0)
      posted += (uint64_t)rc;
    if (n && rc < (int)n && wait == PST_WAIT_QUEUE) {
      (*held_back)++;
      /* Nothing would wake a sleeper when the time has come. */
      assert_int_equal(pair->sender.image.ops->arm(pair->sender.worker), -EAGAIN);
    }
    contract_poll(&pair->sender);
    pair->sender.logged = 0;
    contract_poll(&pair->receiver);
    while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &message)) {
      assert_int_equal(message.u.message.sequence, delivered++);
      contract_release(&pair->receiver, &message);
    }
    assert_true(contract_now_ns() - began < contract_deadline_ns);
  }
  uint64_t took = contract_now_ns() - began;
  contract_pair_close(pair);
  return took;
}

static void post_takes_no_more_than_the_rate(void **state)
{
  uint64_t held_back = 0;
  /* At most 201 were saved up when it began; the others wait for their time. */
  uint64_t took = run_at(*state, "rate=20000", &held_back);
  assert_true(held_back > 0);
  assert_true(took >= UINT64_C(39900000));
}

static void without_a_rate_nothing_is_held_back(void **state)
{
  uint64_t held_back = 0;
  run_at(*state, "rate=0", &held_back);
  assert_int_equal(held_back, 0);
}

int contract_throttle_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(post_takes_no_more_than_the_rate),
      CONTRACT_CASE(without_a_rate_nothing_is_held_back),
  };
  return CONTRACT_RUN("throttle", cases, variant);
}
