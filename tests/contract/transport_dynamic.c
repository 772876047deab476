/* SPDX-License-Identifier: Apache-2.0 */
/* DYNAMIC: rings and endpoints that come and go after start, while others stay. */
#include "harness.h"

#define ROUNDS 2000
#define ROUNDS_NS                                                                                  \
  UINT32_C(4000000000) /* a slow transport has as many as fit, but never fewer than */
#define ROUNDS_LEAST 512
#define WARM 200
/* Slack of the allocator: less than a table that has grown by a pointer each round. */
#define NOISE_BYTES(rounds) (UINT64_C(4) * (rounds))

static const struct contract_params staying = {
    .endpoints = 1, .slots = 8, .message = 256, .requests = 16, .pieces = 1};
static const struct contract_params sharing = {
    .endpoints = 2, .slots = 8, .message = 256, .requests = 16, .pieces = 1};

/* A peer that comes and leaves: a ring, and endpoint 1 of either side. */
struct peer {
  struct contract_pair *pair;
  struct contract_region memory;
  struct pst_mr *mr;
  struct pst_ring *ring;
};

static void connect_peer(struct contract_pair *pair)
{
  struct pst_blob blob;
  contract_address(&pair->receiver, 1, &blob);
  assert_int_equal(contract_connect(&pair->sender, 1, &blob), 0);
  contract_address(&pair->sender, 1, &blob);
  assert_int_equal(contract_connect(&pair->receiver, 1, &blob), 0);
  struct pst_completion connected =
      contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  assert_int_equal(connected.endpoint, 2);
  connected =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  assert_int_equal(connected.endpoint, 2);
}

static void open_endpoints(struct contract_pair *pair, struct pst_ring *ring)
{
  pair->sender.closed[1] = pair->receiver.closed[1] = false;
  contract_endpoint_open(&pair->receiver, &pair->params, ring, 1);
  contract_endpoint_open(&pair->sender, &pair->params, NULL, 1);
}

static void peer_open(struct contract_pair *pair, struct peer *peer)
{
  struct contract_side *side = &pair->receiver;
  *peer = (struct peer){.pair = pair};
  contract_region_make(side->stride * (pair->params.slots + 1), &peer->memory);
  struct pst_mr_params mr = {.struct_size = sizeof(mr),
                             .access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING,
                             .region = &peer->memory.region,
                             .length = peer->memory.region.length};
  assert_int_equal(side->image.ops->mr_register(side->device, &mr, &peer->mr), 0);
  contract_ring_open(side, &pair->params, peer->mr, &peer->ring);
  open_endpoints(pair, peer->ring);
}

static void close_endpoint(struct contract_side *side, struct contract_side *far, uint32_t mode)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_completion closed;
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[1], mode, deadline), 0);
  closed = contract_await(side, far, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  assert_int_equal(closed.endpoint, 2);
}

static void close_ring(struct peer *peer)
{
  struct contract_side *side = &peer->pair->receiver;
  side->image.ops->ring_close(side->worker, peer->ring);
  side->image.ops->mr_deregister(side->device, peer->mr);
  contract_region_free(&peer->memory);
}

/* A receiver that leaves first takes its ring with it, tokens that are out included. */
static void peer_close(struct peer *peer, bool receiver_first)
{
  struct contract_side *sender = &peer->pair->sender, *receiver = &peer->pair->receiver;
  if (receiver_first) {
    close_endpoint(receiver, sender, PST_CLOSE_ABORT);
    close_ring(peer);
    close_endpoint(sender, receiver, PST_CLOSE_ABORT);
  } else {
    close_endpoint(sender, receiver, PST_CLOSE_ABORT);
    close_endpoint(receiver, sender, PST_CLOSE_ABORT);
    close_ring(peer);
  }
}

/* Forget of endpoint 1 what is not a message. */
static void forget_events(struct contract_side *side)
{
  struct pst_completion completion;
  while (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &completion))
    assert_int_equal(completion.endpoint, 2);
  while (contract_take(side, PST_COMPLETION_DONE, PST_OP_SEND, &completion))
    ;
  while (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_LENT, &completion))
    ;
  while (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_UNLENT, &completion))
    ;
}

/* A message there; the token is still out. `memory` is of its ring. */
static struct pst_completion pass_one(struct contract_pair *pair, uint32_t index,
                                      const struct contract_region *memory, uint64_t number)
{
  struct contract_side *side = &pair->sender;
  uint64_t offset = (number * 2 + index) % pair->params.slots * side->stride;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  uint32_t wait;
  int rc;
  contract_fill((uint8_t *)side->memory.region.host + offset, 200, number * 2 + index);
  struct pst_request request = contract_send(side, offset, 200, number);
  const char *before = contract_rule(
      "Return messages, in any order: their slots are the transport's again. Credits go to the sender");
  while ((rc = contract_post(side, index, &request, 1, &wait)) == -EAGAIN) {
    contract_poll(side);
    contract_poll(&pair->receiver);
    contract_in_time(deadline,
                     "endpoint %u to take SEND %" PRIu64
                     ": no credit came, *wait is %u; slots are lost",
                     index + 1, number, wait);
  }
  assert_int_equal(rc, 1);
  contract_rule(before);
  struct pst_completion message = contract_await(&pair->receiver, side, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(message.endpoint, index + 1);
  assert_int_equal(message.u.message.length, 200);
  const struct pst_region *region = message.u.message.buffer
                                        ? pair->receiver.lent[message.u.message.buffer % 64]
                                        : &memory->region;
  assert_non_null(region);
  assert_true(message.u.message.offset + 200 <= region->length);
  contract_bytes_are((uint8_t *)region->host + message.u.message.offset, 200, number * 2 + index);
  return message;
}

static void peers_come_and_go_while_another_stays(void **state)
{
  contract_rule("rings and endpoints may be opened after start");
  contract_need(state, PST_CAP_DYNAMIC);
  struct contract_pair *pair = contract_pair(state, &staying);
  uint64_t sent = 0;
  for (uint64_t round = 0; round < 20; round++) {
    struct peer peer;
    peer_open(pair, &peer);
    struct pst_completion message = pass_one(pair, 0, &pair->receiver.memory, sent++);
    contract_release(&pair->receiver, &message);
    connect_peer(pair);
    for (uint64_t i = 0; i < 3 * staying.slots; i++) {
      struct pst_completion mine = pass_one(pair, 1, &peer.memory, i);
      message = pass_one(pair, 0, &pair->receiver.memory, sent++);
      contract_release(&pair->receiver, &mine);
      contract_release(&pair->receiver, &message);
    }
    peer_close(&peer, round % 2);
    message = pass_one(pair, 0, &pair->receiver.memory, sent++);
    contract_release(&pair->receiver, &message);
    forget_events(&pair->sender);
    forget_events(&pair->receiver);
  }
  contract_complained(0);
  contract_pair_close(pair);
}

/* Some never connect, some leave a message behind or a token out. */
static void peers_leave_nothing_behind(void **state)
{
  contract_rule("the endpoint is freed; no completion has its cookie any more");
  contract_need(state, PST_CAP_DYNAMIC);
  struct contract_pair *pair = contract_pair(state, &staying);
  unsigned int descriptors = 0;
  uint64_t heap = 0;
  const uint64_t warm = contract_rounds(WARM), most = warm + contract_rounds(ROUNDS);
  const uint64_t least = warm + contract_rounds(ROUNDS_LEAST);
  const uint64_t until = contract_now_ns() + contract_rounds(ROUNDS_NS);
  uint64_t round = 0;
  for (; round < most && (round < least || contract_now_ns() < until); round++) {
    struct peer peer;
    contract_watch(NULL); /* the deadline applies to each peer, not to all */
    peer_open(pair, &peer);
    bool held = false;
    if (round % 5) {
      connect_peer(pair);
      struct pst_completion message = pass_one(pair, 1, &peer.memory, 0);
      held = round % 2;
      if (!held)
        contract_release(&pair->receiver, &message);
    }
    peer_close(&peer, held || round % 3);
    forget_events(&pair->sender);
    forget_events(&pair->receiver);
    if (round == warm - 1) {
      descriptors = contract_descriptors();
      heap = contract_heap_bytes();
    }
  }
  contract_descriptors_are(descriptors);
  contract_heap_is_at_most(heap + NOISE_BYTES(round - warm));
  contract_pair_close(pair);
  contract_complaints();
}

static void token_of_a_closed_ring_is_refused(void **state)
{
  contract_rule("Called once all endpoints of the ring are closed. Its tokens become void.");
  contract_need(state, PST_CAP_DYNAMIC);
  struct contract_pair *pair = contract_pair(state, &staying);
  uint64_t old[16];
  for (uint32_t round = 0; round < 16; round++) {
    struct peer peer;
    peer_open(pair, &peer);
    connect_peer(pair);
    struct pst_completion message = pass_one(pair, 1, &peer.memory, 0);
    contract_complaints();
    for (uint32_t i = 0; i < round; i++)
      assert_int_equal(pair->receiver.image.ops->release(pair->receiver.worker, &old[i], 1),
                       -EINVAL);
    old[round] = message.u.message.token;
    if (round % 2)
      contract_release(&pair->receiver, &message);
    peer_close(&peer, round % 2 == 0);
    forget_events(&pair->sender);
    forget_events(&pair->receiver);
  }
  contract_pair_close(pair);
  contract_complaints();
}

/* On one ring: its slots go from one endpoint to the next, all of them. */
static void slots_of_one_that_left_are_the_next_ones(void **state)
{
  contract_rule("Return messages, in any order: their slots are the transport's again");
  contract_need(state, PST_CAP_DYNAMIC | PST_CAP_SHARED_RING);
  struct contract_pair *pair = contract_pair(state, &sharing);
  uint64_t sent = 0;
  for (uint64_t round = 0; round < 20; round++) {
    struct pst_completion message = pass_one(pair, 0, &pair->receiver.memory, sent++);
    contract_release(&pair->receiver, &message);
    for (uint64_t i = 0; i < 3 * sharing.slots; i++) {
      message = pass_one(pair, 1, &pair->receiver.memory, i);
      contract_release(&pair->receiver, &message);
    }
    close_endpoint(&pair->sender, &pair->receiver, PST_CLOSE_DRAIN);
    close_endpoint(&pair->receiver, &pair->sender, PST_CLOSE_DRAIN);
    forget_events(&pair->sender);
    forget_events(&pair->receiver);
    open_endpoints(pair, pair->receiver.ring);
    connect_peer(pair);
  }
  contract_complained(0);
  contract_pair_close(pair);
}

/* Tokens that are out while their endpoint closes are released behind CLOSED. */
static void slots_that_were_out_at_close_come_back(void **state)
{
  contract_rule("The tokens of its messages stay valid; the host releases them.");
  contract_need(state, PST_CAP_DYNAMIC | PST_CAP_SHARED_RING);
  if (contract_capabilities(*state) & PST_CAP_LEND)
    skip(); /* what is out is its sender's, whose close waits for it */
  struct contract_pair *pair = contract_pair(state, &sharing);
  uint64_t sent = 0;
  for (uint64_t round = 0; round < 20; round++) {
    struct pst_completion held[2], message;
    for (uint64_t i = 0; i < 2; i++)
      held[i] = pass_one(pair, 1, &pair->receiver.memory, i);
    close_endpoint(&pair->sender, &pair->receiver, PST_CLOSE_ABORT);
    close_endpoint(&pair->receiver, &pair->sender, PST_CLOSE_ABORT);
    for (int i = 0; i < 2; i++)
      contract_release(&pair->receiver, &held[i]);
    forget_events(&pair->sender);
    forget_events(&pair->receiver);
    open_endpoints(pair, pair->receiver.ring);
    connect_peer(pair);
    message = pass_one(pair, 0, &pair->receiver.memory, sent++);
    contract_release(&pair->receiver, &message);
  }
  contract_complaints();
  contract_pair_close(pair);
}

int contract_dynamic_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(peers_come_and_go_while_another_stays),
      CONTRACT_CASE(peers_leave_nothing_behind),
      CONTRACT_CASE(token_of_a_closed_ring_is_refused),
      CONTRACT_CASE(slots_of_one_that_left_are_the_next_ones),
      CONTRACT_CASE(slots_that_were_out_at_close_come_back),
  };
  return CONTRACT_RUN("dynamic", cases, variant);
}
