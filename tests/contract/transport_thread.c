/* SPDX-License-Identifier: Apache-2.0 */
/* Each end on a thread of its own, several pairs at once; ends that leave while
 * the other is at work. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "harness.h"

#define PAIRS 3

static const struct contract_params busy = {
    .endpoints = 1, .slots = 64, .message = 1462, .requests = 128, .pieces = 1};

struct end {
  struct contract_pair *pair;
  uint64_t count;
  uint64_t moved; /* messages sent or delivered */
  uint64_t done;
  uint64_t wrong;
  bool gone;
};

/* Threads outnumber the cores: who has nothing to do lets another run. The deadline is
 * for a stream that stands still. */
static void rest(const struct end *end, uint64_t *seen, uint64_t *deadline)
{
  if (end->moved + end->done == *seen) {
    sched_yield();
    return;
  }
  *seen = end->moved + end->done;
  *deadline = contract_now_ns() + contract_deadline_ns;
}

static void *send_all(void *arg)
{
  struct end *end = arg;
  struct contract_side *side = &end->pair->sender;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns, seen = 0;
  while (end->done < end->count && !end->gone && contract_now_ns() < deadline) {
    struct pst_completion completion;
    rest(end, &seen, &deadline);
    uint32_t wait;
    if (end->moved < end->count &&
        end->moved - end->done < side->memory.region.length / side->stride) {
      uint64_t offset = end->moved % 64 * side->stride;
      contract_fill((uint8_t *)side->memory.region.host + offset, 1462, end->moved);
      struct pst_request request = contract_send(side, offset, 1462, end->moved);
      int rc = contract_post(side, 0, &request, 1, &wait);
      if (rc == 1)
        end->moved++;
      else if (rc != -EAGAIN)
        end->gone = true;
    }
    contract_poll(side);
    while (contract_take(side, PST_COMPLETION_DONE, PST_OP_SEND, &completion))
      end->done += completion.u.done.count;
    if (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &completion))
      end->gone = true;
  }
  return NULL;
}

static void *receive_all(void *arg)
{
  struct end *end = arg;
  struct contract_side *side = &end->pair->receiver;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns, seen = 0;
  while (end->moved < end->count && !end->gone && contract_now_ns() < deadline) {
    struct pst_completion message;
    rest(end, &seen, &deadline);
    contract_poll(side);
    while (contract_take(side, PST_COMPLETION_MESSAGE, 0, &message)) {
      if (message.u.message.sequence != end->moved ||
          !contract_verify(contract_payload(side, &message), 1462, end->moved))
        end->wrong++;
      end->moved++;
      if (side->image.ops->release(side->worker, &message.u.message.token, 1) != 0)
        end->wrong++;
    }
    if (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &message))
      end->gone = true;
  }
  return NULL;
}

static void pairs_do_not_disturb_one_another(void **state)
{
  contract_rule(
      "A worker, its rings and its endpoints belong to one thread at a time, and every call that takes one of them comes from that thread.");
  struct end senders[PAIRS], receivers[PAIRS];
  pthread_t threads[2 * PAIRS];
  for (int i = 0; i < PAIRS; i++) {
    struct contract_pair *pair = contract_pair(state, &busy);
    senders[i] = receivers[i] = (struct end){.pair = pair, .count = 5000};
  }
  for (int i = 0; i < PAIRS; i++) {
    assert_int_equal(pthread_create(&threads[2 * i], NULL, send_all, &senders[i]), 0);
    assert_int_equal(pthread_create(&threads[2 * i + 1], NULL, receive_all, &receivers[i]), 0);
  }
  for (int i = 0; i < 2 * PAIRS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < PAIRS; i++) {
    assert_int_equal(receivers[i].wrong, 0);
    assert_int_equal(receivers[i].moved, 5000);
    assert_int_equal(senders[i].done, 5000);
    contract_pair_close(senders[i].pair);
  }
}

/* The receiver closes and its memory goes, while the sender posts. */
static void receiver_leaves_under_a_busy_sender(void **state)
{
  contract_rule(
      "The peer has left, or its address no longer answers; `status` says why. DONEs may follow.");
  for (uint32_t round = 0; round < contract_rounds(30); round++) {
    struct contract_pair *pair = contract_pair(state, &busy);
    struct end sender = {.pair = pair, .count = UINT64_MAX};
    struct end receiver = {.pair = pair, .count = contract_random() % 500};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, send_all, &sender), 0);
    receive_all(&receiver);
    for (uint32_t i = 0; i < pair->receiver.logged; i++)
      if (pair->receiver.log[i].kind == PST_COMPLETION_MESSAGE)
        contract_release(&pair->receiver, &pair->receiver.log[i]);
    pair->receiver.logged = 0;
    assert_int_equal(
        pair->receiver.image.ops->endpoint_close(pair->receiver.endpoints[0], PST_CLOSE_ABORT,
                                                 contract_now_ns() + contract_deadline_ns),
        0);
    while (!pair->receiver.closed[0]) {
      struct pst_completion completion;
      contract_poll(&pair->receiver);
      while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &completion))
        contract_release(&pair->receiver, &completion);
      contract_take(&pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &completion);
    }
    contract_side_close(&pair->receiver);
    pthread_join(thread, NULL);
    if (!sender.gone)
      fail_msg("20 s after its receiver closed, a sender that posts and polls has neither "
               "DISCONNECTED nor an error from post: %" PRIu64 " SENDs posted, %" PRIu64 " DONE",
               sender.moved, sender.done);
    assert_int_equal(receiver.wrong, 0);
    contract_pair_close(pair);
  }
}

static void sender_leaves_under_a_busy_receiver(void **state)
{
  contract_rule("DISCONNECTED follows every MESSAGE that arrived whole");
  for (uint32_t round = 0; round < contract_rounds(30); round++) {
    struct contract_pair *pair = contract_pair(state, &busy);
    struct end sender = {.pair = pair, .count = contract_random() % 500};
    struct end receiver = {.pair = pair, .count = UINT64_MAX};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, receive_all, &receiver), 0);
    send_all(&sender);
    contract_side_close(&pair->sender);
    pthread_join(thread, NULL);
    if (!receiver.gone)
      fail_msg("20 s after its sender closed, a receiver that polls has no DISCONNECTED: %" PRIu64
               " messages came",
               receiver.moved);
    assert_int_equal(receiver.wrong, 0);
    assert_int_equal(receiver.moved, sender.moved);
    contract_pair_close(pair);
  }
}

int contract_thread_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(pairs_do_not_disturb_one_another),
      CONTRACT_CASE(receiver_leaves_under_a_busy_sender),
      CONTRACT_CASE(sender_leaves_under_a_busy_receiver),
  };
  return CONTRACT_RUN("threads", cases, variant);
}
