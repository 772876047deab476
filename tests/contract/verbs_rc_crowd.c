/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream on a worker that also has IDLE endpoints, connected and silent: `busy_turns` is what
 * verbs_rc_crowd.py has callgrind count. Nothing counted depends on the time: the clock
 * moves 25 us a look, ten times what 64 idle polls take on an adapter.
 *
 * usage: verbs-rc-crowd PLUGIN IDLE TURNS
 */
#include <stdio.h>

#include "harness.h"

#define BATCH 32u
#define POLLS                                                                                      \
  64u /* of each end, a batch: most of them find nothing, as a worker's do that spins              \
       */

static struct contract_variant variant = {.name = "crowd", .options = "device=mlx5_0"};
static const struct contract_params params = {
    .endpoints = 1, .slots = 128, .message = 1462, .requests = 128, .pieces = 1};
/* The idle endpoints. */
static const struct contract_params few = {
    .endpoints = 1, .slots = 2, .message = 64, .requests = 2, .pieces = 1};

static uint32_t idle, turns;

static uint64_t clock_of_looks(void)
{
  static uint64_t now = 1000000000;

  return now += 25000;
}

static struct pst_completion await(struct contract_side *a, struct contract_side *b, uint8_t code)
{
  return contract_await(a, b, PST_COMPLETION_EVENT, code);
}

/* Each has a small ring of its own, in the memory that the stream's has. */
static void meet_idle(struct contract_pair *pair)
{
  struct contract_side *sender = &pair->sender, *receiver = &pair->receiver;
  struct pst_blob blob;

  for (uint32_t i = 0; i < idle; i++) {
    struct pst_ring *ring;
    contract_ring_open(receiver, &few, receiver->mr, &ring);
    contract_endpoint_open(receiver, &few, ring, 1);
    contract_endpoint_open(sender, &few, NULL, 1);
    contract_address(receiver, 1, &blob);
    assert_int_equal(contract_connect(sender, 1, &blob), 0);
    contract_address(sender, 1, &blob);
    assert_int_equal(contract_connect(receiver, 1, &blob), 0);
    await(sender, receiver, PST_EVENT_CONNECTED);
    await(receiver, sender, PST_EVENT_CONNECTED);
  }
}

/* Messages that poll() of the plugin gives, past the harness. */
static uint32_t take(struct contract_side *side, bool releases)
{
  struct pst_completion completions[BATCH];
  uint64_t tokens[BATCH];
  uint32_t messages = 0;
  const int n = side->image.ops->poll(side->worker, completions, BATCH);

  assert_true(n >= 0);
  for (int i = 0; i < n; i++)
    if (completions[i].kind == PST_COMPLETION_MESSAGE)
      tokens[messages++] = completions[i].u.message.token;
  if (releases && messages)
    side->image.ops->release(side->worker, tokens, messages);
  return messages;
}

__attribute__((noinline)) static uint64_t busy_turns(struct contract_pair *pair, uint32_t count)
{
  const struct pst_transport_ops *ops = pair->sender.image.ops;
  struct pst_request requests[BATCH];
  uint64_t sequence = 0, arrived = 0;
  uint32_t wait;

  while (count--) {
    for (uint32_t i = 0; i < BATCH; i++)
      requests[i] =
          contract_send(&pair->sender, i * pair->sender.stride, params.message, sequence + i);
    const int rc = ops->post(pair->sender.endpoints[0], requests, BATCH, &wait);
    assert_int_equal(rc, BATCH);
    sequence += BATCH;
    for (uint32_t i = 0; i < POLLS; i++) {
      take(&pair->sender, false);
      arrived += take(&pair->receiver, true);
    }
  }
  return arrived;
}

static void a_stream_beside_idle_endpoints(void **state)
{
  (void)state;
  struct contract_pair *pair = contract_pair_open(&variant, &params);

  contract_host_clock(clock_of_looks);
  contract_pair_connect(pair);
  meet_idle(pair);
  assert_int_equal(busy_turns(pair, turns), (uint64_t)turns * BATCH);
}

int main(int argc, char **argv)
{
  struct CMUnitTest cases[] = {CONTRACT_CASE(a_stream_beside_idle_endpoints)};

  if (argc != 4) {
    fprintf(stderr, "usage: %s PLUGIN IDLE TURNS\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  idle = (uint32_t)strtoul(argv[2], NULL, 10);
  turns = (uint32_t)strtoul(argv[3], NULL, 10);
  return CONTRACT_MAIN("a crowd", cases, &variant);
}
