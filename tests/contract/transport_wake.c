/* SPDX-License-Identifier: Apache-2.0 */
/* arm and event_fd: no wake-up is lost. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "harness.h"

static const struct contract_params sleepy = {
    .endpoints = 1, .slots = 4, .message = 64, .requests = 16, .pieces = 1, .sleep = true};

static struct contract_pair *open_sleepy(void **state)
{
  contract_need(state, PST_CAP_WAKEUP);
  return contract_pair(state, &sleepy);
}

static bool readable(const struct contract_side *side, int timeout_ms)
{
  struct pollfd fd = {.fd = side->image.ops->event_fd(side->worker), .events = POLLIN};
  return poll(&fd, 1, timeout_ms) == 1;
}

static bool readable_in_time(const struct contract_side *side)
{
  return readable(side, (int)(contract_deadline_ns / 2000000));
}

/* Poll until there is nothing, then arm; a peer's late doings may be there yet. */
static void settle_and_arm(struct contract_side *side)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  for (;;) {
    while (contract_poll(side) > 0)
      ;
    int rc = side->image.ops->arm(side->worker);
    if (rc == 0)
      return;
    assert_int_equal(rc, -EAGAIN);
    contract_in_time(deadline, "arm to say 0: it went on saying -EAGAIN");
  }
}

/* Until it stays so: what was on its way may come between. */
static void settle_for_good(struct contract_side *side)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  do {
    settle_and_arm(side);
    contract_in_time(deadline, "arm to say 0 twice, with event_fd not readable between: nothing "
                               "had been sent, and it went on saying -EAGAIN, or being readable");
  } while (side->image.ops->arm(side->worker) != 0 || readable(side, 0));
}

static void arm_finds_what_is_there_already(void **state)
{
  contract_rule("-EAGAIN: that is so already");
  struct contract_pair *pair = open_sleepy(state);
  settle_and_arm(&pair->receiver);
  contract_poll(&pair->receiver);
  struct pst_request request = contract_send(&pair->sender, 0, 8, 0);
  contract_post_one(pair, &request);
  pair->receiver.logged = 0;
  contract_post_one(pair, &request);
  struct contract_side *side = &pair->receiver;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  /* arm() returns -EAGAIN, or the descriptor is readable. */
  while (side->image.ops->arm(side->worker) != -EAGAIN && !readable(side, 0))
    contract_in_time(deadline,
                     "arm to say -EAGAIN, or event_fd to be readable: a message is there");
  contract_pair_close(pair);
}

static void arrival_wakes(void **state)
{
  contract_rule(
      "event_fd becomes readable when poll() has a completion to give, or, after a post() that took fewer than it was given, when post() would take more.");
  struct contract_pair *pair = open_sleepy(state);
  for (int i = 0; i < 50; i++) {
    settle_for_good(&pair->receiver);
    struct pst_request request = contract_send(&pair->sender, 0, 8, 0);
    contract_post_one(pair, &request);
    assert_true(readable_in_time(&pair->receiver));
    struct pst_completion message =
        contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
    contract_release(&pair->receiver, &message);
    contract_poll(&pair->receiver);
    contract_await_done(&pair->sender, NULL, PST_OP_SEND, 1, 0);
  }
  contract_pair_close(pair);
}

static void credit_wakes_a_sender_that_wanted_it(void **state)
{
  contract_rule(
      "event_fd becomes readable when poll() has a completion to give, or, after a post() that took fewer than it was given, when post() would take more.");
  if (contract_capabilities(*state) & PST_CAP_QUEUES)
    skip(); /* no post waits for credit */
  struct contract_pair *pair = open_sleepy(state);
  struct pst_request requests[8];
  uint32_t wait;
  for (uint32_t i = 0; i < 8; i++)
    requests[i] = contract_send(&pair->sender, 0, 8, i);
  assert_int_equal(contract_post(&pair->sender, 0, requests, 8, &wait), 4);
  settle_for_good(&pair->sender);
  struct pst_completion message = contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
  contract_release(&pair->receiver, &message);
  contract_poll(&pair->receiver);
  const struct contract_side *side = &pair->sender;
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  int taken;
  assert_true(readable_in_time(side));
  do { /* a DONE may have woken it before */
    contract_poll(&pair->sender);
    taken = contract_post(&pair->sender, 0, requests + 4, 1, &wait);
    /* Credit that came since keeps it awake for the next post. */
    if (taken != 1 && side->image.ops->arm(side->worker) == 0)
      assert_true(readable_in_time(side));
    contract_in_time(deadline, "a post to take what credit has come for");
  } while (taken == -EAGAIN);
  assert_int_equal(taken, 1);
  contract_pair_close(pair);
}

/* The post that wants it has not been told, and nothing more may come. */
static void credit_that_a_poll_takes_keeps_awake(void **state)
{
  contract_rule("poll() may take a credit and return no completion; arm() then returns -EAGAIN.");
  if (contract_capabilities(*state) & PST_CAP_QUEUES)
    skip(); /* no post waits for credit */
  struct contract_pair *pair = open_sleepy(state);
  struct pst_request requests[8];
  struct pst_completion messages[4];
  uint32_t wait;
  for (uint32_t i = 0; i < 8; i++)
    requests[i] = contract_send(&pair->sender, 0, 8, i);
  assert_int_equal(contract_post(&pair->sender, 0, requests, 8, &wait), 4);
  for (int i = 0; i < 4; i++)
    messages[i] = contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
  for (int i = 0; i < 4; i++)
    contract_release(&pair->receiver, &messages[i]);
  contract_poll(&pair->receiver);
  while (contract_poll(&pair->sender) > 0)
    ;
  const struct contract_side *side = &pair->sender;
  assert_true(side->image.ops->arm(side->worker) == -EAGAIN || readable_in_time(side));
  contract_pair_close(pair);
}

/* A receiver that may sleep has no credit left to send, or says so. */
static void credits_are_not_slept_on(void **state)
{
  contract_rule("or poll() has work of its own, for example credits to send: poll first.");
  struct contract_pair *pair = open_sleepy(state);
  for (uint64_t i = 0; i < 4; i++) {
    struct pst_request request = contract_send(&pair->sender, 0, 8, i);
    contract_post_one(pair, &request);
  }
  for (uint64_t i = 4; i < 100; i++) {
    struct contract_side *side = &pair->receiver;
    struct pst_completion message = contract_await(side, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    while (contract_poll(side) > 0)
      ;
    contract_release(side, &message);
    while (side->image.ops->arm(side->worker) != 0)
      contract_poll(side);
    struct pst_request request = contract_send(&pair->sender, 0, 8, i);
    uint64_t deadline = contract_now_ns() + contract_deadline_ns;
    uint32_t wait;
    while (contract_post(&pair->sender, 0, &request, 1, &wait) == -EAGAIN) {
      contract_poll(&pair->sender);
      contract_in_time(
          deadline, "post to take a SEND after its receiver had released a slot and armed with 0");
    }
  }
  contract_pair_close(pair);
}

/* How many messages there were. */
static uint32_t take_all(struct contract_side *side)
{
  struct pst_completion message;
  uint32_t n = 0;
  contract_poll(side);
  for (; contract_take(side, PST_COMPLETION_MESSAGE, 0, &message); n++)
    contract_release(side, &message);
  contract_poll(side);
  return n;
}

static void done_wakes(void **state)
{
  contract_rule(
      "event_fd becomes readable when poll() has a completion to give, or, after a post() that took fewer than it was given, when post() would take more.");
  struct contract_pair *pair = open_sleepy(state);
  struct contract_side *side = &pair->sender;
  settle_and_arm(side);
  for (uint64_t i = 0; i < 50; i++) {
    struct pst_request request = contract_send(side, 0, 8, i);
    uint32_t wait, taken = 0;
    assert_int_equal(contract_post(side, 0, &request, 1, &wait), 1);
    uint64_t deadline = contract_now_ns() + contract_deadline_ns;
    while (side->image.ops->arm(side->worker) != -EAGAIN && !readable(side, 0)) {
      /* An answer of the peer's, or the release of what was lent, may be what is due. */
      if (side->limits.capabilities & (PST_CAP_LEND | PST_CAP_QUEUES))
        taken += take_all(&pair->receiver);
      else
        contract_poll(&pair->receiver);
      contract_in_time(deadline,
                       "arm to say -EAGAIN, or event_fd to be readable, for the DONE of a SEND");
    }
    contract_await_done(side, &pair->receiver, PST_OP_SEND, 1, 0);
    taken += take_all(&pair->receiver);
    /* A message that arrives behind its DONE would keep its slot, until none were left. */
    if (taken == 0 && (side->limits.capabilities & PST_CAP_RELIABLE)) {
      struct pst_completion late = contract_await(&pair->receiver, side, PST_COMPLETION_MESSAGE, 0);
      contract_release(&pair->receiver, &late);
    }
    settle_and_arm(side);
  }
  contract_pair_close(pair);
}

static void departure_wakes(void **state)
{
  contract_rule(
      "event_fd becomes readable when poll() has a completion to give, or, after a post() that took fewer than it was given, when post() would take more.");
  struct contract_pair *pair = open_sleepy(state);
  settle_and_arm(&pair->receiver);
  const struct pst_transport_ops *ops = pair->sender.image.ops;
  assert_int_equal(ops->endpoint_close(pair->sender.endpoints[0], PST_CLOSE_DRAIN,
                                       contract_now_ns() + contract_deadline_ns),
                   0);
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  assert_true(readable_in_time(&pair->receiver));
  struct pst_completion gone =
      contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  contract_rule(
      "DISCONNECTED follows every MESSAGE that arrived whole. Its status is 0 where the peer drained and closed");
  assert_int_equal(gone.status, 0);
  contract_pair_close(pair);
}

/* Only a receiver that holds every slot can keep the endpoint from closing. */
static void deadline_of_a_close_wakes(void **state)
{
  contract_rule(
      "Begin to close: the remaining DONEs follow, then EVENT CLOSED, by deadline_ns of CLOCK_MONOTONIC at the latest.");
  const uint64_t patience_ns = 200000000;
  struct contract_pair *pair = open_sleepy(state);
  struct contract_side *side = &pair->sender;
  uint32_t wait;
  int taken = 1;
  for (uint64_t i = 0; taken == 1; i++) {
    struct pst_request request = contract_send(side, 0, 64, i);
    taken = contract_post(side, 0, &request, 1, &wait);
  }
  contract_await(&pair->receiver, side, PST_COMPLETION_MESSAGE, 0);
  /* Nor does its peer answer this one any more. */
  const struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 9};
  (void)contract_post(side, 0, &flush, 1, &wait);
  const struct pst_transport_ops *ops = side->image.ops;
  assert_int_equal(
      ops->endpoint_close(side->endpoints[0], PST_CLOSE_DRAIN, contract_now_ns() + patience_ns), 0);
  uint64_t deadline = contract_now_ns() + patience_ns + contract_deadline_ns;
  struct pst_completion closed;
  for (;;) {
    contract_poll(side);
    if (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &closed))
      break;
    contract_in_time(deadline, "EVENT CLOSED, of a worker that sleeps whenever arm says 0");
    if (ops->arm(side->worker) == 0 && !readable_in_time(side))
      fail_msg("arm said 0, and event_fd did not become readable at the close's deadline");
  }
  contract_complaints();
  contract_pair_close(pair);
}

/* Slots for all of it, so that nothing but this side's queue can be full. */
static void room_in_the_queue_wakes(void **state)
{
  contract_rule(
      "event_fd becomes readable when poll() has a completion to give, or, after a post() that took fewer than it was given, when post() would take more.");
  contract_need(state, PST_CAP_WAKEUP);
  const struct contract_params deep = {.endpoints = 1,
                                       .slots = 1024,
                                       .message = 16384,
                                       .requests = 4096,
                                       .pieces = 1,
                                       .sleep = true};
  struct contract_pair *pair = contract_pair(state, &deep);
  struct contract_side *side = &pair->sender;
  const uint64_t length = pair->params.message;
  uint32_t sleeps = 0;
  for (uint64_t posted = 0; posted < deep.slots && sleeps < 50;) {
    struct pst_request request = contract_send(side, 0, length, posted);
    uint32_t wait = PST_WAIT_NONE;
    int rc = contract_post(side, 0, &request, 1, &wait);
    posted += rc == 1;
    side->logged = 0;
    if (rc == 1)
      continue;
    assert_int_equal(rc, -EAGAIN);
    if (wait == PST_WAIT_CREDIT)
      break; /* its queue is longer than its credits */
    if (contract_poll(side) > 0 || side->image.ops->arm(side->worker) != 0)
      continue;
    sleeps++;
    uint64_t deadline = contract_now_ns() + contract_deadline_ns;
    while (!readable(side, 0)) {
      contract_poll(&pair->receiver);
      contract_in_time(deadline,
                       "event_fd to be readable for room to post: SEND %" PRIu64
                       " was cut short by PST_WAIT_QUEUE, arm said 0, and then the receiver took "
                       "what was under way",
                       posted);
    }
  }
  contract_pair_close(pair);
}

struct hammer {
  struct contract_pair *pair;
  uint64_t count;
  _Atomic bool lost;
  char why[256]; /* of who set `lost` */
};

__attribute__((format(printf, 2, 3))) static void hammer_fails(struct hammer *hammer,
                                                               const char *format, ...)
{
  va_list list;
  if (atomic_exchange(&hammer->lost, true))
    return;
  va_start(list, format);
  vsnprintf(hammer->why, sizeof(hammer->why), format, list);
  va_end(list);
}

/* Sleep whenever there is nothing, with no timeout that could hide a loss but one that fails the
 * test. The completions found then tell a lost wake-up from a message that never came.
 */
static void nap(struct hammer *hammer, struct contract_side *side, const char *what, uint64_t moved)
{
  if (contract_poll(side) > 0 || side->image.ops->arm(side->worker) != 0 || readable(side, 20000))
    return;
  uint64_t deadline = contract_now_ns() + 100000000;
  int n = 0;
  while (n == 0 && contract_now_ns() < deadline)
    n = contract_poll(side);
  if (n > 0 || side->image.ops->arm(side->worker) != 0)
    hammer_fails(hammer,
                 "arm said 0, event_fd was not readable for 20 s, and then there were %d "
                 "completions, or room to post: a wake-up was lost, after %" PRIu64 " %s",
                 n, moved, what);
  else
    hammer_fails(hammer,
                 "for 20 s nothing came, and poll gives nothing either, after %" PRIu64
                 " %s of %" PRIu64 ": credits, DONEs or messages are lost",
                 moved, what, hammer->count);
}

static void *hammer_sender(void *arg)
{
  struct hammer *hammer = arg;
  struct contract_side *side = &hammer->pair->sender;
  uint64_t posted = 0, done = 0;
  while (done < hammer->count && !atomic_load(&hammer->lost)) {
    struct pst_request requests[3];
    uint32_t n = 0, wait;
    for (; n < 3 && posted + n < hammer->count; n++)
      requests[n] = contract_send(side, 0, 8, posted + n);
    int rc = n ? contract_post(side, 0, requests, n, &wait) : 0;
    if (rc > 0)
      posted += (uint64_t)rc;
    struct pst_completion completion;
    if (rc < (int)n || n == 0)
      nap(hammer, side, "SENDs posted", posted);
    while (contract_take(side, PST_COMPLETION_DONE, PST_OP_SEND, &completion))
      done += completion.u.done.count;
  }
  return NULL;
}

static void *hammer_receiver(void *arg)
{
  struct hammer *hammer = arg;
  struct contract_side *side = &hammer->pair->receiver;
  uint64_t got = 0;
  while (got < hammer->count && !atomic_load(&hammer->lost)) {
    struct pst_completion message;
    nap(hammer, side, "messages received", got);
    while (contract_take(side, PST_COMPLETION_MESSAGE, 0, &message)) {
      if (message.u.message.sequence != got)
        hammer_fails(hammer, "message %" PRIu64 " came where %" PRIu64 " was due",
                     message.u.message.sequence, got);
      got++;
      side->image.ops->release(side->worker, &message.u.message.token, 1);
    }
  }
  return NULL;
}

static void two_sleeping_threads_lose_no_wake_up(void **state)
{
  contract_rule(
      "event_fd becomes readable when poll() has a completion to give, or, after a post() that took fewer than it was given, when post() would take more.");
  struct hammer hammer = {.pair = open_sleepy(state), .count = contract_rounds(30000)};
  pthread_t sender, receiver;
  assert_int_equal(pthread_create(&sender, NULL, hammer_sender, &hammer), 0);
  assert_int_equal(pthread_create(&receiver, NULL, hammer_receiver, &hammer), 0);
  pthread_join(sender, NULL);
  pthread_join(receiver, NULL);
  if (atomic_load(&hammer.lost))
    fail_msg("%s", hammer.why);
  contract_pair_close(hammer.pair);
}

int contract_wake_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(arm_finds_what_is_there_already),
      CONTRACT_CASE(arrival_wakes),
      CONTRACT_CASE(credit_wakes_a_sender_that_wanted_it),
      CONTRACT_CASE(credits_are_not_slept_on),
      CONTRACT_CASE(done_wakes),
      CONTRACT_CASE(credit_that_a_poll_takes_keeps_awake),
      CONTRACT_CASE(room_in_the_queue_wakes),
      CONTRACT_CASE(departure_wakes),
      CONTRACT_CASE(deadline_of_a_close_wakes),
      CONTRACT_CASE(two_sleeping_threads_lose_no_wake_up),
  };
  return CONTRACT_RUN("wake-up", cases, variant);
}
