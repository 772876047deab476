/* SPDX-License-Identifier: Apache-2.0 */
/* Closing: every request ends once, by the deadline, and the peer learns of it. */
#include "harness.h"

#define LATE_NS UINT64_C(50000000)

static void close_one(struct contract_side *side, uint32_t mode, uint64_t in_ns)
{
  assert_int_equal(
      side->image.ops->endpoint_close(side->endpoints[0], mode, contract_now_ns() + in_ns), 0);
}

static void unconnected_endpoint_closes(void **state)
{
  contract_rule("Legal in every state, once.");
  struct contract_pair *pair = contract_pair_open(*state, NULL);
  close_one(&pair->sender, PST_CLOSE_DRAIN, contract_deadline_ns);
  close_one(&pair->receiver, PST_CLOSE_ABORT, contract_deadline_ns);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  contract_pair_close(pair);
}

static void half_connected_endpoint_learns_that_its_peer_closed(void **state)
{
  contract_rule(
      "It also comes where the peer closes or dies while this side connects. Where only silence tells, DISCONNECTED comes after timeout_ns, with -ETIMEDOUT.");
  const struct contract_variant *variant = *state;
  struct contract_params params = {.endpoints = 1, .slots = 8, .message = 64, .requests = 8};
  params.timeout_ns = variant->silent ? 200000000 : 0;
  struct contract_pair *pair = contract_pair_open(variant, &params);
  struct pst_blob blob;
  contract_address(&pair->receiver, 0, &blob);
  assert_int_equal(contract_connect(&pair->sender, 0, &blob), 0);
  close_one(&pair->receiver, PST_CLOSE_ABORT, contract_deadline_ns);
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  contract_pair_close(pair);
  contract_complaints();
}

static void second_close_and_unknown_mode_are_refused(void **state)
{
  contract_rule("-EALREADY: closed before; -EINVAL: unknown mode.");
  struct contract_pair *pair = contract_pair(state, NULL);
  const struct pst_transport_ops *ops = pair->sender.image.ops;
  assert_int_equal(ops->endpoint_close(pair->sender.endpoints[0], 0, 0), -EINVAL);
  assert_int_equal(ops->endpoint_close(pair->sender.endpoints[0], 77, 0), -EINVAL);
  close_one(&pair->sender, PST_CLOSE_DRAIN, contract_deadline_ns);
  assert_int_equal(ops->endpoint_close(pair->sender.endpoints[0], PST_CLOSE_DRAIN, 0), -EALREADY);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  contract_pair_close(pair);
}

static void post_all(struct contract_pair *pair, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    struct pst_request request = contract_send(&pair->sender, i * 64, 64, i);
    contract_post_one(pair, &request);
  }
}

/* Until it has closed, for a while: a transport may need the peer for that. */
static void poll_alone(struct contract_side *side)
{
  const uint64_t until = contract_now_ns() + LATE_NS;
  bool closed = false;
  while (!closed && contract_now_ns() < until) {
    contract_poll(side);
    for (uint32_t i = 0; i < side->logged; i++)
      closed |= side->log[i].kind == PST_COMPLETION_EVENT && side->log[i].code == PST_EVENT_CLOSED;
  }
}

/* `late`: the receiver looks when the sender has gone, and finds messages and departure at once. */
static void depart(void **state, bool late)
{
  struct contract_pair *pair = contract_pair(state, NULL);
  post_all(pair, 20);
  close_one(&pair->sender, PST_CLOSE_DRAIN, contract_deadline_ns);
  uint64_t arrived = 0, done = 0;
  bool closed = false, gone = false;
  if (late)
    poll_alone(&pair->sender);
  while (!closed || !gone) {
    struct pst_completion completion;
    contract_poll(&pair->receiver);
    while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &completion)) {
      assert_int_equal(completion.u.message.sequence, arrived++);
      contract_release(&pair->receiver, &completion);
    }
    if (contract_take(&pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &completion)) {
      assert_int_equal(completion.status, 0);
      assert_int_equal(arrived, 20);
      gone = true;
    }
    contract_poll(&pair->sender);
    while (contract_take(&pair->sender, PST_COMPLETION_DONE, PST_OP_SEND, &completion)) {
      assert_int_equal(completion.status, 0);
      done += completion.u.done.count;
    }
    if (contract_take(&pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &completion)) {
      assert_int_equal(done, 20);
      closed = true;
    }
  }
  contract_pair_close(pair);
}

static void drained_messages_arrive_before_the_departure(void **state)
{
  contract_rule(
      "DISCONNECTED follows every MESSAGE that arrived whole. Its status is 0 where the peer drained and closed");
  depart(state, false);
  depart(state, true);
}

/* The peer is there and answers, but not before the side that closes has looked. */
static void drain_lets_a_flush_finish(void **state)
{
  contract_rule("outstanding requests, FLUSHes too, may finish until the deadline");
  struct contract_pair *pair = contract_pair(state, NULL);
  const struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 7};
  post_all(pair, 20);
  contract_post_one(pair, &flush);
  close_one(&pair->sender, PST_CLOSE_DRAIN, contract_deadline_ns);
  contract_poll(&pair->sender);
  for (int i = 0; i < 20; i++) {
    struct pst_completion message =
        contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    contract_release(&pair->receiver, &message);
  }
  contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  contract_await_done(&pair->sender, NULL, PST_OP_SEND, 20, 0);
  contract_await_done(&pair->sender, NULL, PST_OP_FLUSH, 1, 0);
  contract_pair_close(pair);
}

static void abort_ends_every_request_once(void **state)
{
  contract_rule("Exactly one DONE covers each request that post() took");
  struct contract_pair *pair = contract_pair(state, NULL);
  post_all(pair, 20);
  close_one(&pair->sender, PST_CLOSE_ABORT, 100000000u);
  uint64_t done = 0;
  struct pst_completion completion;
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  while (contract_take(&pair->sender, PST_COMPLETION_DONE, PST_OP_SEND, &completion))
    done += completion.u.done.count;
  assert_int_equal(done, 20);
  for (int i = 0; i < 50; i++)
    assert_int_equal(contract_poll(&pair->sender), 0);
  contract_pair_close(pair);
}

static void receiver_that_leaves_stops_the_sender(void **state)
{
  contract_rule(
      "The peer has left, or its address no longer answers; `status` says why. DONEs may follow.");
  struct contract_pair *pair = contract_pair(state, NULL);
  post_all(pair, 10);
  close_one(&pair->receiver, PST_CLOSE_DRAIN, 100000000u);
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  struct pst_request request = contract_send(&pair->sender, 0, 8, 99);
  uint32_t wait;
  assert_int_equal(contract_post(&pair->sender, 0, &request, 1, &wait), -ECONNRESET);
  contract_rule("Exactly one DONE covers each request that post() took");
  uint64_t done = 0;
  struct pst_completion completion;
  while (contract_poll(&pair->sender) > 0)
    ;
  while (contract_take(&pair->sender, PST_COMPLETION_MESSAGE, 0, &completion))
    ;
  for (uint32_t i = 0; i < pair->receiver.logged; i++)
    if (pair->receiver.log[i].kind == PST_COMPLETION_MESSAGE)
      contract_release(&pair->receiver, &pair->receiver.log[i]);
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (done < 10) {
    contract_poll(&pair->sender);
    while (contract_take(&pair->sender, PST_COMPLETION_DONE, PST_OP_SEND, &completion))
      done += completion.u.done.count;
    contract_in_time(deadline,
                     "DONE of 10 SENDs after their receiver left: %" PRIu64 " were covered", done);
  }
  assert_int_equal(done, 10);
  contract_pair_close(pair);
}

static void post_after_close_is_refused(void **state)
{
  contract_rule("post() takes no more.");
  struct contract_pair *pair = contract_pair(state, NULL);
  close_one(&pair->sender, PST_CLOSE_DRAIN, contract_deadline_ns);
  struct pst_request request = contract_send(&pair->sender, 0, 8, 0);
  uint32_t wait = PST_WAIT_NONE;
  /* With any error. */
  assert_true(pair->sender.image.ops->post(pair->sender.endpoints[0], &request, 1, &wait) < 0);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  contract_pair_close(pair);
}

static void tokens_stay_valid_after_close(void **state)
{
  contract_rule("The tokens of its messages stay valid; the host releases them.");
  struct contract_pair *pair = contract_pair(state, NULL);
  contract_fill(pair->sender.memory.region.host, 64, 3);
  post_all(pair, 1);
  struct pst_completion held =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  close_one(&pair->receiver, PST_CLOSE_ABORT, 100000000u);
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  contract_bytes_are(contract_payload(&pair->receiver, &held), 64, 3);
  contract_release(&pair->receiver, &held);
  contract_pair_close(pair);
}

/* Until no more is taken, while nobody receives. Returns how many were. */
static uint64_t post_until_full(struct contract_pair *pair)
{
  uint64_t posted = 0;
  for (uint32_t idle = 0; idle < 100; idle++) {
    struct pst_request request = contract_send(&pair->sender, 0, pair->params.message, posted);
    uint32_t wait;
    int rc = contract_post(&pair->sender, 0, &request, 1, &wait);
    assert_true(rc == 1 || rc == -EAGAIN);
    if (rc == 1) {
      posted++;
      idle = 0;
    }
    contract_poll(&pair->sender);
  }
  return posted;
}

static const struct contract_params many = {
    .endpoints = 1, .slots = 1024, .message = 8192, .requests = 1024, .pieces = 1};

/* A FLUSH behind it, if there is room for one. */
static uint64_t post_flush(struct contract_pair *pair)
{
  const struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 9};
  uint32_t wait;
  return contract_post(&pair->sender, 0, &flush, 1, &wait) == 1;
}

/* Whatever was under way, and nobody receiving it: all is DONE, then CLOSED, in time. */
static void close_in_time_under_load(void **state)
{
  contract_rule(
      "Begin to close: the remaining DONEs follow, then EVENT CLOSED, by deadline_ns of CLOCK_MONOTONIC at the latest.");
  const uint64_t patience_ns = 200000000, slack_ns = 10000000000;
  for (uint32_t round = 0; round < 4; round++) {
    struct contract_params params = many;
    params.slots = round < 2 ? many.slots : many.slots / 2; /* room for the FLUSH */
    struct contract_pair *pair = contract_pair(state, &params);
    uint64_t posted = post_until_full(pair), done = 0;
    posted += post_flush(pair);
    uint64_t deadline = contract_now_ns() + patience_ns + slack_ns;
    bool is_closed = false;
    close_one(&pair->sender, round % 2 ? PST_CLOSE_DRAIN : PST_CLOSE_ABORT, patience_ns);
    while (!is_closed) {
      contract_poll(&pair->sender);
      for (uint32_t i = 0; i < pair->sender.logged; i++) {
        const struct pst_completion *one = &pair->sender.log[i];
        assert_false(is_closed); /* its cookie comes no more */
        if (one->kind == PST_COMPLETION_DONE)
          done += one->u.done.count;
        is_closed = one->kind == PST_COMPLETION_EVENT && one->code == PST_EVENT_CLOSED;
      }
      pair->sender.logged = 0;
      contract_in_time(deadline,
                       "EVENT CLOSED, due %d s ago: %" PRIu64 " of %" PRIu64 " requests were DONE",
                       (int)(slack_ns / 1000000000), done, posted);
    }
    pair->sender.closed[0] = true;
    assert_int_equal(done, posted);
    contract_pair_close(pair);
    contract_complaints();
  }
}

/* Once FLUSH is done, what was posted before is where its receiver finds it, without
 * another call on the sender. */
static void flushed_messages_are_at_the_peer(void **state)
{
  contract_rule("FLUSH everything posted before it is placed at the peer");
  struct contract_params params = many;
  params.slots = 512; /* so that there is room for the FLUSH */
  struct contract_pair *pair = contract_pair(state, &params);
  const bool queues = contract_capabilities(*state) & PST_CAP_QUEUES;
  if (queues)
    post_all(pair, 60);
  uint64_t posted = queues ? 60 : post_until_full(pair), arrived = 0;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 9};
  struct pst_completion completion;
  contract_post_one(pair, &flush);
  contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_DONE, PST_OP_FLUSH);
  while (arrived < posted) {
    while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &completion)) {
      contract_release(&pair->receiver, &completion);
      arrived++;
    }
    contract_poll(&pair->receiver);
    contract_in_time(
        deadline, "messages that FLUSH told were at the peer: %" PRIu64 " of %" PRIu64 " arrived",
        arrived, posted);
  }
  contract_pair_close(pair);
}

/* Ends meet, send, and leave in every way. */
static void nothing_is_left_after_close(void **state)
{
  contract_rule("Release what open() took: memory, descriptors, threads.");
  enum { WARM = 60, ROUNDS = 100 }; /* what the allocator keeps by size settles */
  unsigned int descriptors = 0;
  uint64_t heap = 0;
  const int warm = (int)contract_rounds(WARM), rounds = warm + (int)contract_rounds(ROUNDS);
  for (int i = 0; i < rounds; i++) {
    struct contract_pair *pair =
        i % 5 ? contract_pair(state, NULL) : contract_pair_open(*state, NULL);
    if (i % 5) {
      post_all(pair, 5);
      struct pst_completion held =
          contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
      if (i % 2)
        contract_release(&pair->receiver, &held);
    }
    contract_pair_close(pair);
    if (i == warm - 1) {
      descriptors = contract_descriptors();
      heap = contract_heap_bytes();
    }
  }
  contract_complaints();
  contract_descriptors_are(descriptors);
  contract_heap_is_at_most(heap + CONTRACT_HEAP_NOISE_BYTES);
}

int contract_close_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(unconnected_endpoint_closes),
      CONTRACT_CASE(half_connected_endpoint_learns_that_its_peer_closed),
      CONTRACT_CASE(second_close_and_unknown_mode_are_refused),
      CONTRACT_CASE(drained_messages_arrive_before_the_departure),
      CONTRACT_CASE(drain_lets_a_flush_finish),
      CONTRACT_CASE(abort_ends_every_request_once),
      CONTRACT_CASE(receiver_that_leaves_stops_the_sender),
      CONTRACT_CASE(post_after_close_is_refused),
      CONTRACT_CASE(tokens_stay_valid_after_close),
      CONTRACT_CASE(close_in_time_under_load),
      CONTRACT_CASE(flushed_messages_are_at_the_peer),
      CONTRACT_CASE(nothing_is_left_after_close),
  };
  return CONTRACT_RUN("close", cases, variant);
}
