/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of transports that lose: what arrives is whole and numbered rightly,
 * and what does not is accounted for. The cases for reliable ones that ask for no more
 * are run, too.
 */
#include <poll.h>
#include <stdio.h>
#include <time.h>

#include "datagram.h"

#define QUIET_NS 50000000u /* of no DONE or arrival, after which nothing is on its way any more */
#define MINUTE_NS INT64_C(60000000000)

/* By whatever causes the receiver's transport gives. */
static uint64_t dropped(struct contract_side *side)
{
  struct pst_counter counters[64];
  uint64_t sum = 0;
  if (!side->image.ops->counters)
    return 0;
  int n = side->image.ops->counters(side->device, side->worker, side->endpoints[0], counters, 64);
  for (int i = 0; i < n && i < 64; i++)
    if ((counters[i].flags & PST_COUNTER_DROP) && !(counters[i].flags & PST_COUNTER_GAUGE))
      sum += counters[i].value;
  return sum;
}

static bool datagram_find_counter(struct contract_side *side, const char *name, uint64_t *value)
{
  struct pst_counter counters[32];
  int n = side->image.ops->counters(side->device, side->worker, side->endpoints[0], counters, 32);
  assert_true(n <= 32);
  contract_counters_are_known(counters, (uint32_t)n);
  for (int i = 0; i < n; i++)
    if (strcmp(counters[i].name, name) == 0) {
      *value = counters[i].value;
      return true;
    }
  return false;
}

uint64_t datagram_counter(struct contract_side *side, const char *name)
{
  uint64_t value = 0;

  if (!datagram_find_counter(side, name, &value))
    fail_msg("no counter %s", name);
  return value;
}

void datagram_check_counters(struct contract_side *side)
{
  uint64_t unauthentic = 0, replayed = 0; /* with tags alone */

  datagram_find_counter(side, "unauthentic", &unauthentic);
  datagram_find_counter(side, "replayed", &replayed);
  assert_int_equal(datagram_counter(side, "datagrams"),
                   datagram_counter(side, "messages_received") +
                       datagram_counter(side, "bad_header") +
                       datagram_counter(side, "bad_checksum") + datagram_counter(side, "too_long") +
                       datagram_counter(side, "not_ours") + datagram_counter(side, "wrong_nonce") +
                       datagram_counter(side, "displaced") + datagram_counter(side, "too_far") +
                       datagram_counter(side, "too_late") + datagram_counter(side, "held") +
                       unauthentic + replayed);
}

/* Messages through a pair, each checked; what a slow receiver loses is counted. */
struct run {
  struct contract_pair *pair;
  uint64_t count;
  uint64_t (*length)(uint64_t i);
  uint64_t window; /* sent and not yet seen; 0: any number */
  uint32_t hold;   /* messages that the receiver keeps */
  uint64_t posted;
  uint64_t done;
  uint64_t delivered;
  uint64_t next; /* one past the highest sequence seen */
  uint64_t reordered;
};

/* No longer than a message can be. */
static uint64_t run_length(const struct run *run, uint64_t i)
{
  return run->length(i) % (run->pair->params.message + 1);
}

static void run_post(struct run *run)
{
  struct contract_side *side = &run->pair->sender;
  uint32_t slots = run->pair->params.slots, n = 0, wait = 99;
  struct pst_request requests[32];
  for (; n < 32 && run->posted + n < run->count && run->posted + n - run->done < slots &&
         (!run->window || run->posted + n - run->next < run->window);
       n++) {
    uint64_t i = run->posted + n, offset = i % slots * side->stride;
    contract_fill((uint8_t *)side->memory.region.host + offset, run_length(run, i), i);
    requests[n] = contract_send(side, offset, run_length(run, i), i);
    requests[n].cookie = i;
  }
  int taken = n ? contract_post(side, 0, requests, n, &wait) : 0;
  if (taken < 0) {
    assert_int_equal(taken, -EAGAIN);
    assert_int_equal(wait, PST_WAIT_QUEUE);
    taken = 0;
  }
  run->posted += (uint64_t)taken;
  struct pst_completion done;
  contract_poll(side);
  while (contract_take(side, PST_COMPLETION_DONE, PST_OP_SEND, &done)) {
    assert_int_equal(done.status, 0);
    run->done += done.u.done.count;
    assert_int_equal(done.u.done.cookie, run->done - 1);
  }
}

/* By less than a minute: a card's clock may be a little off, no other clock is so near. */
static void time_is_of_arrival(const struct pst_completion *message)
{
  struct timespec now;
  int64_t off = (int64_t)message->u.message.time_ns;
  clock_gettime(CLOCK_REALTIME, &now);
  off -= now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
  if (off < -MINUTE_NS || off > MINUTE_NS)
    fail_msg("a MESSAGE has time_ns %" PRIu64 ", which is %" PRId64 " ns from CLOCK_REALTIME",
             message->u.message.time_ns, off);
}

static void run_take(struct run *run, const struct pst_completion *message)
{
  struct contract_side *side = &run->pair->receiver;
  uint64_t i = side->limits.sequence_bits ? message->u.message.sequence : run->delivered;
  assert_int_equal(message->status, 0);
  assert_int_equal(!!(message->flags & PST_HAS_SEQUENCE), side->limits.sequence_bits != 0);
  assert_int_equal(!!(message->flags & PST_HAS_TIME), !!(side->limits.capabilities & PST_CAP_TIME));
  if (message->flags & PST_HAS_TIME)
    time_is_of_arrival(message);
  assert_true(i < run->posted);
  assert_int_equal(message->u.message.length, run_length(run, i));
  contract_bytes_are(contract_payload(side, message), run_length(run, i), i);
  if (i < run->next)
    run->reordered++;
  else
    run->next = i + 1;
  run->delivered++;
}

/* Until nothing has come for a while. */
static void run_through(struct run *run)
{
  struct contract_side *side = &run->pair->receiver;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns, last = contract_now_ns();
  uint64_t seen = 0;
  bool is_quiet = false;
  struct pst_completion message;
  uint64_t *kept = calloc(run->hold + 1, sizeof(*kept));
  uint32_t keeps = 0;
  assert_non_null(kept);
  while (run->posted < run->count || run->done < run->count ||
         (run->delivered < run->count && !is_quiet)) {
    /* If this poll, too, finds nothing. Within a window nothing is lost: it is waited for. */
    is_quiet = !run->window && contract_now_ns() - last >= QUIET_NS;
    run_post(run);
    contract_poll(side);
    while (contract_take(side, PST_COMPLETION_MESSAGE, 0, &message)) {
      run_take(run, &message);
      if (keeps < run->hold)
        kept[keeps++] = message.u.message.token;
      else
        contract_release(side, &message);
    }
    if (run->done + run->delivered != seen) {
      last = contract_now_ns();
      deadline = last + contract_deadline_ns;
      is_quiet = false;
    }
    seen = run->done + run->delivered;
    contract_in_time(deadline,
                     "the run to go on: %" PRIu64 " of %" PRIu64 " SENDs were DONE, %" PRIu64
                     " messages arrived",
                     run->done, run->count, run->delivered);
  }
  assert_int_equal(side->image.ops->release(side->worker, kept, keeps), 0);
  free(kept);
}

static uint64_t up_to_max(uint64_t i)
{
  return i * 37 % 2049;
}
static uint64_t mostly_equal(uint64_t i)
{
  return i % 97 == 96 ? 100 : i / 2000 % 2 ? 1400 : 700;
}
static uint64_t empty(uint64_t i)
{
  (void)i;
  return 0;
}

static void framing_round_trip(void **state, uint64_t (*length)(uint64_t), uint64_t count)
{
  contract_rule("**a message arrives whole**: one message a slot, of the length that was sent");
  struct contract_params params = {
      .endpoints = 1, .slots = 256, .message = 2048, .requests = 256, .pieces = 1, .headroom = 32};
  struct contract_pair *pair = contract_pair(state, &params);
  struct run run = {.pair = pair, .count = count, .length = length, .window = 64};
  run_through(&run);
  assert_int_equal(run.delivered, count);
  assert_int_equal(run.reordered, 0);
  assert_int_equal(dropped(&pair->receiver), 0);
  if (pair->variant->accounts) {
    assert_int_equal(datagram_counter(&pair->receiver, "messages_received"), count);
    assert_int_equal(datagram_counter(&pair->receiver, "datagrams"), count);
  }
  contract_pair_close(pair);
}

static void lengths_of_all_kinds_come_whole_and_numbered(void **state)
{
  framing_round_trip(state, up_to_max, 20000);
}

static void runs_of_equal_length_come_whole_and_numbered(void **state)
{
  framing_round_trip(state, mostly_equal, 100000);
}

static void empty_messages_come(void **state)
{
  framing_round_trip(state, empty, 300);
}

static void largest_message_comes(void **state)
{
  contract_rule("bytes of one SEND, from 1; MESSAGE.length has 32 bits");
  struct contract_params params = {.endpoints = 1, .slots = 4, .requests = 4, .pieces = 1};
  struct contract_side side = {0};
  struct contract_params none = {.endpoints = 0, .slots = 1, .message = 64, .requests = 1};
  contract_side_open(*state, &none, false, false, &side);
  params.message = side.limits.message_max;
  contract_side_close(&side);
  struct contract_pair *pair = contract_pair(state, &params);
  contract_fill(pair->sender.memory.region.host, params.message, 5);
  struct pst_request request = contract_send(&pair->sender, 0, params.message, 0);
  for (uint64_t i = 0; i < 8; i++) {
    request.u.send.sequence = i;
    contract_post_one(pair, &request);
    struct pst_completion message =
        contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    assert_int_equal(message.u.message.length, params.message);
    contract_bytes_are(contract_payload(&pair->receiver, &message), params.message, 5);
    contract_release(&pair->receiver, &message);
  }
  contract_pair_close(pair);
}

static void ring_of_one_slot_loses_nothing_while_there_is_room(void **state)
{
  contract_rule(
      "**messages for a full ring wait** in the device or socket as long as there is room");
  struct contract_params params = {
      .endpoints = 1, .slots = 1, .message = 2048, .requests = 4, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  struct run run = {.pair = pair, .count = 500, .length = up_to_max, .window = 1};
  run_through(&run);
  assert_int_equal(run.delivered, 500);
  contract_pair_close(pair);
}

/* A buffer of many messages has to wait in the transport for slots. */
static void burst_into_few_slots_is_kept(void **state)
{
  contract_rule(
      "**messages for a full ring wait** in the device or socket as long as there is room");
  struct contract_params params = {
      .endpoints = 1, .slots = 48, .message = 512, .requests = 64, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  struct pst_request requests[48];
  struct pst_completion held[3];
  uint32_t wait;
  for (uint32_t round = 0; round < 20; round++) {
    for (uint32_t i = 0; i < 48; i++) {
      uint64_t offset = i * pair->sender.stride;
      contract_fill((uint8_t *)pair->sender.memory.region.host + offset, 512, round * 48 + i);
      requests[i] = contract_send(&pair->sender, offset, 512, round * 48 + i);
    }
    assert_int_equal(contract_post(&pair->sender, 0, requests, 48, &wait), 48);
    for (uint32_t i = 0; i < 48; i++) {
      held[i % 3] = contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
      contract_bytes_are(contract_payload(&pair->receiver, &held[i % 3]), 512, round * 48 + i);
      if (i % 3 == 2)
        for (int k = 0; k < 3; k++)
          contract_release(&pair->receiver, &held[k]);
    }
    contract_await_done(&pair->sender, NULL, PST_OP_SEND, 48, 0);
  }
  if (pair->variant->accounts)
    datagram_check_counters(&pair->receiver);
  contract_pair_close(pair);
}

static void what_a_full_ring_loses_is_accounted_for(void **state)
{
  contract_rule("A receiver that is behind loses messages and stops nobody.");
  struct contract_params params = {
      .endpoints = 1, .slots = 64, .message = 2048, .requests = 64, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  struct contract_side *side = &pair->receiver;
  struct run run = {.pair = pair, .count = 1, .length = mostly_equal};
  if (!side->limits.sequence_bits) {
    contract_pair_close(pair);
    skip();
  }
  /* All slots are out; far more than the socket holds is sent. */
  struct pst_completion held[64];
  for (uint32_t i = 0; i < 64; i++) {
    run.count = i + 1;
    run_post(&run);
    run_post(&run);
    held[i] = contract_await(side, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    run_take(&run, &held[i]);
  }
  run.count = 30000;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (run.posted < run.count || run.done < run.count) {
    run_post(&run);
    assert_int_equal(contract_poll(side), 0);
    /* A transport without RELIABLE drops messages, and a slow receiver does not stop the sender. */
    contract_in_time(deadline,
                     "SENDs to be DONE while the receiver holds all its slots: %" PRIu64
                     " of %" PRIu64 " were",
                     run.done, run.count);
  }
  for (uint32_t i = 0; i < 64; i++)
    contract_release(side, &held[i]);
  run_through(&run);
  /* More, so that the gap before them is seen: a wide one is believed when two follow it. Behind a
   * router that had no CPU meanwhile they find a socket that is still full. */
  do {
    run.count = run.posted + 2;
    run_through(&run);
  } while (run.next < run.posted && contract_now_ns() < deadline);
  assert_int_equal(run.next, run.posted);
  contract_rule("They never say more than was lost");
  uint64_t lost = run.posted - run.delivered;
  if (pair->variant->accounts)
    assert_true(lost > 0); /* its rows give it a small buffer */
  /* Messages that the transport counts as dropped are lost; core finds the others in the gaps. */
  assert_true(dropped(side) <= lost);
  if (pair->variant->accounts) {
    assert_int_equal(datagram_counter(side, "no_buffer") + datagram_counter(side, "kernel"), lost);
    assert_true(datagram_counter(side, "no_buffer") > 0);
    datagram_check_counters(side);
  }
  assert_true(contract_complaints() <= 2);
  contract_pair_close(pair);
}

static void drops_are_reported_when_nothing_arrives_any_more(void **state)
{
  contract_rule("A receiver that is behind loses messages and stops nobody.");
  struct contract_params params = {
      .endpoints = 1, .slots = 8, .message = 2048, .requests = 64, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  struct contract_side *side = &pair->receiver;
  struct run run = {.pair = pair, .count = 30000, .length = mostly_equal};
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (run.posted < run.count || run.done < run.count) {
    run_post(&run);
    contract_in_time(deadline,
                     "SENDs to be DONE while the receiver does not poll: %" PRIu64 " of %" PRIu64
                     " were",
                     run.done, run.count);
  }
  if (pair->variant->accounts)
    assert_true(datagram_counter(side, "kernel") + datagram_counter(side, "no_buffer") +
                    datagram_counter(side, "behind_last") >
                0);
  contract_complaints();
  contract_pair_close(pair);
}

static void closing_under_traffic_ends_every_request(void **state)
{
  contract_rule("Exactly one DONE covers each request that post() took");
  for (uint32_t round = 0; round < 20; round++) {
    struct contract_pair *pair = contract_pair(state, NULL);
    struct run run = {.pair = pair, .count = 64, .length = up_to_max};
    struct contract_side *first = round % 2 ? &pair->sender : &pair->receiver;
    struct contract_side *second = round % 2 ? &pair->receiver : &pair->sender;
    uint32_t mode = round / 2 % 2 ? PST_CLOSE_DRAIN : PST_CLOSE_ABORT;
    run_post(&run);
    contract_poll(&pair->receiver);
    assert_int_equal(
        first->image.ops->endpoint_close(first->endpoints[0], mode, contract_now_ns() + 100000000u),
        0);
    contract_await(first, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
    if (second == &pair->sender)
      run_post(&run); /* nobody receives there any more: no error of the stream */
    assert_int_equal(second->image.ops->endpoint_close(second->endpoints[0], mode,
                                                       contract_now_ns() + 100000000u),
                     0);
    contract_await(second, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
    struct pst_completion done;
    while (contract_take(&pair->sender, PST_COMPLETION_DONE, PST_OP_SEND, &done))
      run.done += done.u.done.count;
    assert_int_equal(run.done, run.posted);
    contract_complaints();
    contract_pair_close(pair);
  }
}

/* ---- Waking ---------------------------------------------------------------------------- */

static bool readable(const struct contract_side *side, int timeout_ms)
{
  struct pollfd fd = {.fd = side->image.ops->event_fd(side->worker), .events = POLLIN};
  return poll(&fd, 1, timeout_ms) == 1;
}

/* Until nothing wakes any more; what another process did before may still come. */
static void settle_and_arm(struct contract_side *side)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  do {
    while (contract_poll(side) > 0)
      ;
    contract_in_time(deadline,
                     "arm to say 0, and event_fd not to be readable then: it went on saying "
                     "-EAGAIN, or being readable, or poll went on giving completions");
  } while (side->image.ops->arm(side->worker) != 0 || readable(side, 0));
}

static void arrival_wakes_unless_there_is_no_slot(void **state)
{
  contract_rule("`arm` does not wake for them before a slot is free.");
  struct contract_params params = {
      .endpoints = 1, .slots = 1, .message = 64, .requests = 16, .pieces = 1, .sleep = true};
  contract_need(state, PST_CAP_WAKEUP);
  struct contract_pair *pair = contract_pair(state, &params);
  struct contract_side *side = &pair->receiver;
  for (uint64_t i = 0; i < 100; i += 2) {
    struct pst_request request = contract_send(&pair->sender, 0, 8, i);
    settle_and_arm(side);
    contract_post_one(pair, &request);
    assert_true(readable(side, 10000));
    struct pst_completion held = contract_await(side, NULL, PST_COMPLETION_MESSAGE, 0);
    /* The next one stays where it is, and settle_and_arm() ends: to be woken for it would be to
     * spin. */
    request.u.send.sequence++;
    contract_post_one(pair, &request);
    settle_and_arm(side);
    contract_release(side, &held);
    /* At once, or as soon as another process has given it the slot. */
    assert_true(side->image.ops->arm(side->worker) == -EAGAIN || readable(side, 10000));
    held = contract_await(side, NULL, PST_COMPLETION_MESSAGE, 0);
    assert_int_equal(held.u.message.length, 8);
    contract_release(side, &held);
    contract_await_done(&pair->sender, NULL, PST_OP_SEND, 2, 0); /* post_one() polls nobody */
  }
  contract_pair_close(pair);
}

int contract_datagram_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(lengths_of_all_kinds_come_whole_and_numbered),
      CONTRACT_CASE(runs_of_equal_length_come_whole_and_numbered),
      CONTRACT_CASE(empty_messages_come),
      CONTRACT_CASE(largest_message_comes),
      CONTRACT_CASE(ring_of_one_slot_loses_nothing_while_there_is_room),
      CONTRACT_CASE(burst_into_few_slots_is_kept),
      CONTRACT_CASE(what_a_full_ring_loses_is_accounted_for),
      CONTRACT_CASE(drops_are_reported_when_nothing_arrives_any_more),
      CONTRACT_CASE(closing_under_traffic_ends_every_request),
      CONTRACT_CASE(arrival_wakes_unless_there_is_no_slot),
  };
  int failed = contract_life_run(variant);
  failed += contract_post_run(variant);
  failed += contract_dynamic_run(variant);
  if (variant->capabilities & PST_CAP_SHARED_RING)
    failed += contract_datagram_share_run(variant);
  return failed + CONTRACT_RUN("datagrams", cases, variant);
}
