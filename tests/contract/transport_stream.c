/* SPDX-License-Identifier: Apache-2.0 */
/* Messages from one sender to one receiver: whole, in order, none too many. */
#include "harness.h"

#define HELD_MAX 64
/* A message that comes no more after this is lost. */
#define LATE_NS UINT64_C(100000000)

/* A run of messages through a pair, checked one by one. */
struct flow {
  struct contract_pair *pair;
  uint64_t count;
  uint64_t (*length)(uint64_t i, uint64_t most);
  uint64_t (*sequence)(uint64_t i);
  uint64_t posted;
  uint64_t done;
  uint64_t delivered;
  bool shuffle;
  struct pst_completion held[HELD_MAX];
  uint32_t held_count;
};

static void flow_post(struct flow *flow)
{
  contract_rule(
      "Returns how many were taken, 1 to n; if fewer than n, *wait says why. -EAGAIN: none; *wait says why.");
  struct contract_side *side = &flow->pair->sender;
  uint32_t slots = flow->pair->params.slots;
  struct pst_request requests[16];
  uint32_t n = 0, wait = 99;
  for (; n < 16 && flow->posted + n < flow->count && flow->posted + n - flow->done < slots; n++) {
    uint64_t i = flow->posted + n, offset = i % slots * side->stride;
    uint64_t sequence = flow->sequence(i);
    contract_fill((uint8_t *)side->memory.region.host + offset,
                  flow->length(i, flow->pair->params.message), sequence);
    requests[n] =
        contract_send(side, offset, flow->length(i, flow->pair->params.message), sequence);
    requests[n].cookie = i;
  }
  if (n == 0)
    return;
  int taken = contract_post(side, 0, requests, n, &wait);
  if (taken < 0) {
    assert_int_equal(taken, -EAGAIN);
    taken = 0;
  }
  if ((uint32_t)taken < n)
    assert_true(wait == PST_WAIT_CREDIT || wait == PST_WAIT_QUEUE);
  flow->posted += (uint64_t)taken;
}

/* Cookies count the requests from 0. */
static void flow_done(struct flow *flow, uint64_t cookie, uint64_t count)
{
  const uint64_t before = flow->done;
  contract_rule("Exactly one DONE covers each request that post() took");
  if (cookie >= flow->posted)
    fail_msg("a DONE has the cookie %" PRIu64 ", but only %" PRIu64 " requests were posted", cookie,
             flow->posted);
  if (cookie < before)
    fail_msg("a DONE has the cookie %" PRIu64 ", whose request was DONE before: DONEs have covered "
             "the first %" PRIu64,
             cookie, before);
  contract_rule(
      "A DONE covers done.count requests of one opcode, in the order of their posts, up to the request with done.cookie");
  flow->done += count;
  if (cookie + 1 != flow->done)
    fail_msg("a DONE has the cookie %" PRIu64 " and count %" PRIu64
             ", but from the last DONE's request to this one it is %" PRIu64,
             cookie, count, cookie + 1 - before);
}

static void flow_reap(struct flow *flow)
{
  struct pst_completion done;
  contract_poll(&flow->pair->sender);
  while (contract_take(&flow->pair->sender, PST_COMPLETION_DONE, PST_OP_SEND, &done)) {
    assert_int_equal(done.status, 0);
    assert_int_equal(done.endpoint, 1);
    flow_done(flow, done.u.done.cookie, done.u.done.count);
  }
}

/* Its bytes are those of the number, as far as they are enough to tell. */
static bool flow_has_bytes_of(struct flow *flow, const struct pst_completion *message,
                              uint64_t number)
{
  const uint64_t length = message->u.message.length;
  return length >= 8 &&
         contract_verify(contract_payload(&flow->pair->receiver, message), length, number);
}

/* Waits for a message that was sent before one that has arrived. Returns whether it came. */
static bool flow_comes(struct flow *flow, uint64_t number)
{
  struct contract_side *side = &flow->pair->receiver;
  const uint64_t until = contract_now_ns() + LATE_NS;
  bool has_come = false;
  do {
    contract_poll(&flow->pair->sender);
    contract_poll(side);
    for (uint32_t i = 0; i < side->logged; i++)
      has_come |=
          side->log[i].kind == PST_COMPLETION_MESSAGE && side->log[i].u.message.sequence == number;
  } while (!has_come && contract_now_ns() < until);
  return has_come;
}

/* The number that came is that of the i-th message; else it says which one came instead. The bytes
 * of the one that was due tell a wrong number from a wrong order. */
static void flow_number(struct flow *flow, uint64_t i, const struct pst_completion *message)
{
  const uint64_t number = message->u.message.sequence;
  if (number == flow->sequence(i))
    return;
  const bool is_due = flow_has_bytes_of(flow, message, flow->sequence(i));
  for (uint64_t k = 0; k < flow->posted && !is_due; k++)
    if (flow->sequence(k) == number) {
      const bool is_lost = k > i && !flow_comes(flow, flow->sequence(i));
      contract_rule("MESSAGEs of an endpoint come in the order of their SENDs");
      if (is_lost)
        contract_rule("an accepted SEND arrives once, or the endpoint fails");
      fail_msg("message %" PRIu64 " came %s, where message %" PRIu64 " was due%s", k,
               k < i ? "again, or late" : "too early", i, is_lost ? ", which is lost" : "");
    }
  contract_rule("MESSAGE: `sequence` is set, all 64 bits of it");
  fail_msg(
      "a message has the number %" PRIu64 " (%#" PRIx64 "), %s; due was %" PRIu64 " (%#" PRIx64 ")",
      number, number, is_due ? "but the bytes of the one that was due" : "which none was sent with",
      flow->sequence(i), flow->sequence(i));
}

static void flow_check(struct flow *flow, const struct pst_completion *message)
{
  struct contract_side *side = &flow->pair->receiver;
  const struct pst_limits *limits = &side->limits;
  uint64_t i = flow->delivered++, sequence = flow->sequence(i);
  contract_rule("MESSAGE: a message has arrived, with the bytes that were sent (status 0).");
  assert_int_equal(message->status, 0);
  assert_int_equal(message->endpoint, 1);
  if (limits->capabilities & PST_CAP_SEQUENCE) {
    contract_rule("MESSAGE: `sequence` is set, all 64 bits of it");
    assert_true(message->flags & PST_HAS_SEQUENCE);
    flow_number(flow, i, message);
  }
  contract_rule("bytes of payload");
  assert_int_equal(message->u.message.length, flow->length(i, flow->pair->params.message));
  if (limits->capabilities & PST_CAP_META) {
    contract_rule("carries 64 bits of the application's with each SEND");
    assert_true(message->flags & PST_HAS_META);
    assert_int_equal(message->u.message.meta, ~sequence);
  }
  if (message->u.message.buffer == 0) {
    contract_rule("slot i is [base + i * stride, base + i * stride + headroom + payload + "
                  "tailroom) of the mr.");
    assert_true(message->u.message.offset >= side->stride); /* where its ring begins */
    contract_rule("A MESSAGE's payload starts anywhere at or behind the headroom.");
    assert_true(message->u.message.offset % side->stride >= flow->pair->params.headroom);
  }
}

static void flow_deliver(struct flow *flow)
{
  struct contract_side *side = &flow->pair->receiver;
  struct pst_completion message;
  contract_poll(side);
  while (flow->held_count < HELD_MAX && contract_take(side, PST_COMPLETION_MESSAGE, 0, &message)) {
    flow_check(flow, &message);
    flow->held[flow->held_count++] = message;
  }
  /* Data is looked at when the message is given back: it must have stayed. */
  uint32_t keep = flow->shuffle && flow->delivered < flow->count ? flow->held_count / 2 : 0;
  while (flow->held_count > keep) {
    uint32_t at = flow->shuffle ? (uint32_t)(contract_random() % flow->held_count) : 0;
    struct pst_completion *held = &flow->held[at];
    contract_rule("The bytes are valid until release() of the token.");
    contract_bytes_are(contract_payload(side, held), held->u.message.length,
                       held->u.message.sequence);
    contract_release(side, held);
    memmove(held, held + 1, (--flow->held_count - at) * sizeof(*held));
  }
}

static void flow_run(struct flow *flow)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (flow->delivered < flow->count || flow->done < flow->count) {
    flow_post(flow);
    flow_reap(flow);
    flow_deliver(flow);
    contract_rule("an accepted SEND arrives once, or the endpoint fails");
    contract_in_time(deadline,
                     "the stream to go on: of %" PRIu64 " messages %" PRIu64
                     " were posted, %" PRIu64 " DONE, %" PRIu64 " delivered",
                     flow->count, flow->posted, flow->done, flow->delivered);
  }
  assert_int_equal(flow->held_count, 0);
}

static uint64_t up_to_max(uint64_t i, uint64_t most)
{
  return i * 37 % (most + 1);
}
static uint64_t every_length(uint64_t i, uint64_t most)
{
  return i % (most + 1);
}
/*
 * Numbers with gaps, which jump as far as they may: to the last of the first half, then to shortly
 * before the number where the carried bits come round again (or, of more than 32, where the 33rd
 * is set), over which they go one by one; then, where there are more bits, far beyond.
 */
enum { FIRST = 300, SECOND = 600, BEFORE = 50, BEYOND = 1500 };
static uint64_t half, whole, beyond;
static uint64_t with_gaps(uint64_t i)
{
  if (half == 0 || i < FIRST)
    return i * 3;
  if (i < SECOND)
    return half + (i - FIRST);
  if (i < BEYOND)
    return whole - BEFORE + (i - SECOND);
  return beyond + i * 3;
}
static void jump_as_far_as(const struct contract_side *side)
{
  const uint32_t bits = side->limits.sequence_bits;
  const uint32_t round = bits < 32 ? bits : 32;
  half = whole = beyond = 0;
  if (!(side->limits.capabilities & PST_CAP_SEQUENCE) || round < 13)
    return;
  /* Each jump is less than half of what the bits can tell apart. */
  half = UINT64_C(1) << (round - 1);
  whole = UINT64_C(1) << round;
  beyond = bits > 34 ? UINT64_C(1) << 33 : whole;
}
static uint64_t without_gaps(uint64_t i)
{
  return i;
}

static void many_arrive_in_order_with_sequence_and_meta(void **state)
{
  struct contract_pair *pair = contract_pair(state, NULL);
  jump_as_far_as(&pair->sender);
  struct flow flow = {.pair = pair, .count = 20000, .length = up_to_max, .sequence = with_gaps};
  flow_run(&flow);
  contract_pair_close(pair);
}

static void every_length_from_0_to_max(void **state)
{
  struct contract_pair *pair = contract_pair(state, NULL);
  struct flow flow = {.pair = pair,
                      .count = pair->params.message + 1,
                      .length = every_length,
                      .sequence = without_gaps};
  flow_run(&flow);
  contract_pair_close(pair);
}

static void slots_released_in_any_order(void **state)
{
  struct contract_pair *pair = contract_pair(state, NULL);
  struct flow flow = {
      .pair = pair, .count = 20000, .length = up_to_max, .sequence = without_gaps, .shuffle = true};
  flow_run(&flow);
  contract_pair_close(pair);
}

static void ring_of_one_slot(void **state)
{
  struct contract_params params = {
      .endpoints = 1, .slots = 1, .message = 2048, .requests = 4, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  struct flow flow = {.pair = pair, .count = 300, .length = up_to_max, .sequence = without_gaps};
  flow_run(&flow);
  contract_pair_close(pair);
}

static void ring_of_an_odd_number_of_slots(void **state)
{
  struct contract_params params = {
      .endpoints = 1, .slots = 37, .message = 2048, .requests = 19, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  jump_as_far_as(&pair->sender);
  struct flow flow = {.pair = pair, .count = 3000, .length = up_to_max, .sequence = with_gaps};
  flow_run(&flow);
  contract_pair_close(pair);
}

/* The same of a transport that queues: what waits arrives as slots are released, and no sooner. */
static void queued_sends_wait_for_slots(void **state)
{
  contract_rule(
      "post() takes SENDs for which the peer has no slot yet: they wait in the transport.");
  contract_need(state, PST_CAP_QUEUES);
  struct contract_params params = {
      .endpoints = 1, .slots = 24, .message = 64, .requests = 64, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  struct pst_completion messages[24], early;
  struct pst_request requests[40];
  for (uint32_t i = 0; i < 40; i++)
    requests[i] = contract_send(&pair->sender, 0, 64, i);
  assert_int_equal(contract_post_all(pair, 0, requests, 40), 40);
  for (int i = 0; i < 24; i++)
    messages[i] = contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
  for (int i = 0; i < 16; i++) {
    assert_false(contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &early));
    contract_release(&pair->receiver, &messages[i]);
    struct pst_completion next =
        contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    assert_int_equal(next.u.message.sequence, 24 + i);
  }
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 40, 0);
  contract_pair_close(pair);
}

static void post_takes_what_there_is_credit_for(void **state)
{
  contract_rule("the peer has no free slot");
  if (contract_capabilities(*state) & PST_CAP_QUEUES)
    skip(); /* it takes more */
  struct contract_params params = {
      .endpoints = 1, .slots = 24, .message = 64, .requests = 64, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  struct pst_request requests[40];
  uint32_t wait = 99;
  for (uint32_t i = 0; i < 40; i++)
    requests[i] = contract_send(&pair->sender, 0, 64, i);
  assert_int_equal(contract_post_all(pair, 0, requests, 40), 24);
  assert_int_equal(contract_post(&pair->sender, 0, requests + 24, 1, &wait), -EAGAIN);
  assert_int_equal(wait, PST_WAIT_CREDIT);
  struct pst_completion messages[3];
  for (int i = 0; i < 3; i++)
    messages[i] = contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
  contract_rule(
      "Return messages, in any order: their slots are the transport's again. Credits go to the sender in the next poll");
  contract_release(&pair->receiver, &messages[2]);
  contract_release(&pair->receiver, &messages[0]);
  /* Credits take their way, which may be that of a network. */
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  int more = 0;
  while (more < 2) {
    contract_poll(&pair->receiver);
    contract_poll(&pair->sender);
    int rc = contract_post(&pair->sender, 0, requests + 24 + more, (uint32_t)(16 - more), &wait);
    assert_true(rc == -EAGAIN || (rc > 0 && rc <= 2 - more));
    assert_true(wait == PST_WAIT_CREDIT || wait == PST_WAIT_QUEUE);
    more += rc > 0 ? rc : 0;
    contract_in_time(deadline,
                     "credit for two SENDs after two messages were released: %d were taken", more);
  }
  contract_rule("the peer has no free slot");
  for (int i = 0; i < 100; i++) {
    contract_poll(&pair->receiver);
    contract_poll(&pair->sender);
    assert_int_equal(contract_post(&pair->sender, 0, requests + 26, 1, &wait), -EAGAIN);
    assert_int_equal(wait, PST_WAIT_CREDIT);
  }
  contract_pair_close(pair);
}

/* Scribbled over as soon as DONE says so, while nobody receives yet: what was not taken
 * over by then arrives damaged. */
static void scribble_done(struct contract_pair *pair, uint64_t *done)
{
  struct contract_side *side = &pair->sender;
  struct pst_completion completion;
  while (contract_take(side, PST_COMPLETION_DONE, PST_OP_SEND, &completion)) {
    assert_int_equal(completion.status, 0);
    for (uint64_t n = completion.u.done.count; n > 0; n--)
      memset((uint8_t *)side->memory.region.host + (*done)++ * side->stride, 0xee,
             pair->params.message);
  }
}

static void done_buffers_are_the_callers_again(void **state)
{
  contract_rule("SEND, WRITE the local buffer may be written again; nothing more is known");
  enum { COUNT = 1024 }; /* more than a socket keeps */
  struct contract_params params = {
      .endpoints = 1, .slots = COUNT, .message = 8192, .requests = COUNT, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  const uint64_t length = pair->params.message;
  uint64_t done = 0, posted = 0, deadline = contract_now_ns() + contract_deadline_ns;
  for (uint64_t i = 0; i < COUNT; i++)
    contract_fill((uint8_t *)pair->sender.memory.region.host + i * pair->sender.stride, length, i);
  for (uint32_t idle = 0; idle < 100 && posted < COUNT; idle++) {
    struct pst_request request =
        contract_send(&pair->sender, posted * pair->sender.stride, length, posted);
    uint32_t wait;
    int rc = contract_post(&pair->sender, 0, &request, 1, &wait);
    assert_true(rc == 1 || rc == -EAGAIN);
    if (rc == 1) {
      idle = 0;
      posted++;
    }
    contract_poll(&pair->sender);
    scribble_done(pair, &done);
  }
  for (uint64_t i = 0; i < posted;) {
    struct pst_completion message;
    contract_poll(&pair->receiver);
    while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &message)) {
      contract_bytes_are(contract_payload(&pair->receiver, &message), length, i++);
      contract_release(&pair->receiver, &message);
    }
    contract_poll(&pair->sender);
    scribble_done(pair, &done);
    contract_in_time(deadline, "messages whose SENDs were taken: %" PRIu64 " arrived", posted);
  }
  assert_true(posted > 0);
  contract_pair_close(pair);
}

static void post_takes_no_more_than_may_be_outstanding(void **state)
{
  contract_rule(
      "The most requests outstanding, FLUSHes included: post() takes no more. 0: it posts nothing.");
  struct contract_params params = {
      .endpoints = 1, .slots = 64, .message = 64, .requests = 10, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  struct pst_request requests[16];
  uint32_t wait = 99;
  for (uint32_t i = 0; i < 16; i++)
    requests[i] = contract_send(&pair->sender, 0, 64, i);
  int first = contract_post(&pair->sender, 0, requests, 16, &wait);
  if (first != 10)
    fail_msg("post took %d of 16 requests at once, with 10 in pst_endpoint_params.requests", first);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(contract_post(&pair->sender, 0, requests, 1, &wait), -EAGAIN);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  for (int i = 0; i < 10; i++) {
    struct pst_completion message =
        contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
    contract_release(&pair->receiver, &message);
  }
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 10, 0);
  assert_int_equal(contract_post(&pair->sender, 0, requests, 1, &wait), 1);
  contract_pair_close(pair);
}

/* Neither a credit nor a lent slot is an answer that a peer owes. */
static void receiver_that_holds_its_slots_is_not_dead(void **state)
{
  contract_rule(
      "The peer counts as dead when its transport has owed an answer for so long, while connecting too. Credits and lent slots are not such answers. 0: never.");
  const struct contract_variant *variant = *state;
  struct contract_params params = {.endpoints = 1,
                                   .slots = 4,
                                   .message = 64,
                                   .requests = 16,
                                   .pieces = 1,
                                   .timeout_ns = 50000000};
  /* A device's answers take a thread of its own, which may wait for a CPU. */
  if (variant->silent)
    params.timeout_ns = 1000000000;
  struct contract_pair *pair = contract_pair(state, &params);
  struct pst_completion held[4], gone;
  struct pst_request request = contract_send(&pair->sender, 0, 64, 0);
  uint32_t wait;
  for (int i = 0; i < 4; i++)
    contract_post_one(pair, &request);
  for (int i = 0; i < 4; i++)
    held[i] = contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  uint64_t until = contract_now_ns() + 2 * params.timeout_ns;
  const bool queues = contract_capabilities(*state) & PST_CAP_QUEUES;
  while (contract_now_ns() < until) {
    if (!queues)
      assert_int_equal(contract_post(&pair->sender, 0, &request, 1, &wait), -EAGAIN);
    contract_poll(&pair->sender);
    contract_poll(&pair->receiver);
  }
  assert_false(contract_take(&pair->sender, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &gone));
  for (int i = 0; i < 4; i++)
    contract_release(&pair->receiver, &held[i]);
  contract_post_one(pair, &request);
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 4, 0);
  contract_pair_close(pair);
}

static void token_that_is_not_out_is_refused(void **state)
{
  contract_rule("-EINVAL: a token that is not out, which is a bug of the host.");
  struct contract_pair *pair = contract_pair(state, NULL);
  const struct pst_transport_ops *ops = pair->receiver.image.ops;
  struct pst_request request = contract_send(&pair->sender, 0, 64, 0);
  contract_post_one(pair, &request);
  struct pst_completion message =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  uint64_t bad = message.u.message.token + 1;
  assert_int_equal(ops->release(pair->receiver.worker, &bad, 1), -EINVAL);
  bad = UINT64_MAX;
  assert_int_equal(ops->release(pair->receiver.worker, &bad, 1), -EINVAL);
  contract_release(&pair->receiver, &message);
  assert_int_equal(ops->release(pair->receiver.worker, &message.u.message.token, 1), -EINVAL);
  contract_rule("The function that decides an error logs it once");
  contract_complained(3);
  contract_pair_close(pair);
}

static void poll_gives_no_more_than_there_is_room_for(void **state)
{
  contract_rule("Get up to max completions");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct pst_request requests[8];
  uint32_t got = 0;
  for (uint32_t i = 0; i < 8; i++)
    requests[i] = contract_send(&pair->sender, i * 64, 64, i);
  assert_int_equal(contract_post_all(pair, 0, requests, 8), 8);
  struct pst_completion two[2];
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  memset(&two[1], 0x7e, sizeof(two[1]));
  while (got < 8) {
    int n = pair->receiver.image.ops->poll(pair->receiver.worker, two, 1);
    assert_in_range(n, 0, 1);
    if (n && two[0].kind == PST_COMPLETION_MESSAGE)
      assert_int_equal(two[0].u.message.sequence, got++);
    assert_int_equal(((uint8_t *)&two[1])[5], 0x7e);
    contract_in_time(deadline, "8 messages, polled one by one: %u came", got);
  }
  assert_int_equal(pair->receiver.image.ops->poll(pair->receiver.worker, two, 0), 0);
  contract_pair_close(pair);
}

int contract_stream_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(many_arrive_in_order_with_sequence_and_meta),
      CONTRACT_CASE(every_length_from_0_to_max),
      CONTRACT_CASE(slots_released_in_any_order),
      CONTRACT_CASE(ring_of_one_slot),
      CONTRACT_CASE(ring_of_an_odd_number_of_slots),
      CONTRACT_CASE(post_takes_what_there_is_credit_for),
      CONTRACT_CASE(queued_sends_wait_for_slots),
      CONTRACT_CASE(done_buffers_are_the_callers_again),
      CONTRACT_CASE(post_takes_no_more_than_may_be_outstanding),
      CONTRACT_CASE(receiver_that_holds_its_slots_is_not_dead),
      CONTRACT_CASE(token_that_is_not_out_is_refused),
      CONTRACT_CASE(poll_gives_no_more_than_there_is_room_for),
  };
  return CONTRACT_RUN("stream", cases, variant);
}
