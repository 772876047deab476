/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How connections whose receives are shared end, on simulated devices that say that a queue pair
 * takes no more of them, that flush receives before sends, and that do neither. To the transport
 * time stands still, or is slow, so that what waits for a second of it does not end by itself.
 *
 *     penstock-simverbs --fabric verbs_rc_shared.yaml verbs-rc-shared-end PLUGIN LAUNCHER
 *
 * On the eager engine: what is posted has been done, or failed, once the call is over.
 */
#include <stdio.h>

#include "simulated.h"

#define ROUNDS 20
#define RECONNECTIONS 4
#define IDLE_POLLS 1000               /* the transport looks at the clock every 64 */
#define FLUSH_NS UINT64_C(1000000000) /* where nothing else tells */

#define OPTIONS "timeout=8,keepalive=20ms,srq=true"
#define SLOWNESS 50 /* of the clock: keepalive is 50 ms, the second 50 s, reconnect 25 s */
#define SLOW "timeout=8,keepalive=1ms,reconnect=500ms,srq=true"

static struct contract_variant variants[] = {
    {.name = "adapter", .options = OPTIONS ",device=mlx5_0"},
    {.name = "adapter by send", .options = OPTIONS ",device=mlx5_0,operation=send"},
    {.name = "soft-RoCE", .options = OPTIONS ",device=rxe0"},
    {.name = "soft-RoCE by send", .options = OPTIONS ",device=rxe0,operation=send"},
    {.name = "silent", .options = OPTIONS ",device=silent0"},
    {.name = "silent by send", .options = OPTIONS ",device=silent0,operation=send"},
    {.name = "silent again", .options = OPTIONS ",device=silent0,reconnect=20s"},
    {.name = "slow", .options = SLOW ",device=rxe0"},
    {.name = "slow by send", .options = SLOW ",device=rxe0,operation=send"},
};
enum {
  ADAPTER,
  ADAPTER_SEND,
  SOFT,
  SOFT_SEND,
  SILENT,
  SILENT_SEND,
  SILENT_AGAIN,
  SLOWLY,
  SLOWLY_SEND
};

static const struct contract_params params = {
    .endpoints = 1, .slots = 24, .message = 512, .requests = 64, .pieces = 1};

/* ---- The transport's time ------------------------------------------------------------------- */

static uint64_t held_ns;

static uint64_t held(void)
{
  return held_ns;
}

static void hold_time(void)
{
  held_ns = contract_now_ns();
  contract_host_clock(held);
}

static uint64_t slowly(void)
{
  return contract_now_ns() / SLOWNESS;
}

/* ---- Connections ---------------------------------------------------------------------------- */

/* All are with the device, once what was taken is posted again. */
static void nothing_is_missing(struct contract_pair *pair, uint64_t expected)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (simulated_counter(&pair->sender, NULL, "shared_receives_missing") != 0 ||
         simulated_counter(&pair->receiver, NULL, "shared_receives_missing") != 0) {
    contract_poll(&pair->sender);
    contract_poll(&pair->receiver);
    contract_in_time(deadline, "receives that are posted again");
  }
  assert_int_equal(simulated_receives_posted(), expected);
}

/* So many messages are there, and the receiver has not looked. */
static void connect_and_send(struct contract_pair *pair, uint32_t count)
{
  struct contract_side *side = &pair->sender;
  struct pst_request requests[16];
  uint32_t wait;
  assert_in_range(count, 1, 16);
  contract_pair_connect(pair);
  for (uint32_t i = 0; i < count; i++)
    requests[i] = contract_send(side, i * side->stride, params.message, i);
  assert_int_equal(contract_post(side, 0, requests, count, &wait), count);
}

static void leave(struct contract_side *side, uint32_t mode, uint64_t by_ns)
{
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[0], mode, by_ns), 0);
}

static void leave_wholly(struct contract_side *side, uint32_t mode, uint64_t by_ns)
{
  leave(side, mode, by_ns);
  contract_await(side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
}

/* The receiver first, with time for it; or the sender first, and the receiver too late, so that it
 * takes messages and farewell once its queue pair has ended. */
static void leave_both(struct contract_pair *pair, uint32_t mode, bool is_late)
{
  const uint64_t by_ns = contract_now_ns() + contract_deadline_ns; /* that is, never */
  if (is_late)
    leave_wholly(&pair->sender, mode, by_ns);
  leave_wholly(&pair->receiver, mode, is_late ? 0 : by_ns);
  if (is_late)
    return;
  contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  leave_wholly(&pair->sender, mode, by_ns);
}

/* The receiver takes up to `count` messages, and gives them back. */
static void open_again(struct contract_pair *pair, uint32_t count)
{
  struct pst_completion one;
  uint32_t messages = 0;
  while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &one)) {
    assert_int_equal(one.u.message.sequence, messages++);
    contract_release(&pair->receiver, &one);
  }
  assert_in_range(messages, 0, count);
  pair->sender.logged = pair->receiver.logged = 0;
  contract_endpoint_open(&pair->sender, &params, NULL, 0);
  contract_endpoint_open(&pair->receiver, &params, pair->receiver.ring, 0);
}

/* ---- Cases ---------------------------------------------------------------------------------- */

static void closings_while_time_stands_still(int which)
{
  contract_host_clock(contract_now_ns);
  struct contract_pair *pair = contract_pair_open(&variants[which], &params);
  const uint64_t posted = simulated_receives_posted();
  assert_in_range(posted, 1, 1000);
  for (uint32_t round = 0; round < ROUNDS; round++) {
    const uint32_t mode = round % 2 ? PST_CLOSE_ABORT : PST_CLOSE_DRAIN;
    const uint32_t count = 1 + (uint32_t)(contract_random() % 16);
    connect_and_send(pair, count);
    hold_time();
    leave_both(pair, mode, round % 4 / 2);
    contract_host_clock(contract_now_ns);
    open_again(pair, count);
  }
  nothing_is_missing(pair, posted);
  contract_pair_close(pair);
  contract_complaints();
  assert_int_equal(simulated_receives_posted(), 0);
}

static void an_event_ends_an_adapters(void **state)
{
  (void)state;
  closings_while_time_stands_still(ADAPTER);
  closings_while_time_stands_still(ADAPTER_SEND);
}

static void what_is_flushed_last_ends_soft_roces(void **state)
{
  (void)state;
  closings_while_time_stands_still(SOFT);
  closings_while_time_stands_still(SOFT_SEND);
}

static void stays_open(struct contract_side *side)
{
  struct pst_completion closed;
  for (int i = 0; i < IDLE_POLLS; i++)
    contract_poll(side);
  assert_false(contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &closed));
}

static void leave_after_a_second(struct contract_side *side)
{
  leave(side, PST_CLOSE_ABORT, UINT64_MAX);
  stays_open(side);
  held_ns += FLUSH_NS - 1;
  stays_open(side);
  held_ns++;
  contract_await(side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
}

static void closings_after_a_second(int which)
{
  contract_host_clock(contract_now_ns);
  struct contract_pair *pair = contract_pair_open(&variants[which], &params);
  const uint64_t posted = simulated_receives_posted();
  for (uint32_t round = 0; round < 3; round++) {
    connect_and_send(pair, 16);
    hold_time();
    leave_after_a_second(&pair->receiver);
    contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
    leave_after_a_second(&pair->sender);
    contract_host_clock(contract_now_ns);
    open_again(pair, 16);
  }
  nothing_is_missing(pair, posted);
  contract_pair_close(pair);
  contract_complaints();
}

static void a_second_ends_others(void **state)
{
  (void)state;
  closings_after_a_second(SILENT);
  closings_after_a_second(SILENT_SEND);
}

/* Its queue pair has failed, and a second of its time is what it waits for. */
static void sleeps_meanwhile(int which)
{
  contract_host_clock(contract_now_ns);
  struct contract_pair *pair = contract_pair_open(&variants[which], &params);
  struct contract_side *side = &pair->sender;
  const struct pst_request request = contract_send(side, 0, params.message, 0);
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  uint32_t wait;
  contract_pair_connect(pair);
  hold_time();
  contract_complaints();
  simulated_ctl("qp-error --count 1");
  assert_int_equal(contract_post(side, 0, &request, 1, &wait), 1);
  while (contract_complaints() == 0) {
    contract_poll(side);
    contract_in_time(deadline, "a queue pair to be told as failed");
  }
  do {
    contract_poll(side);
    contract_in_time(deadline, "arm to say 0: it goes on saying -EAGAIN for that second");
  } while (side->image.ops->arm(side->worker) != 0);
  contract_host_clock(contract_now_ns);
  contract_pair_close(pair);
  contract_complaints();
}

static void who_awaits_a_second_sleeps(void **state)
{
  (void)state;
  sleeps_meanwhile(SILENT);
  sleeps_meanwhile(SILENT_AGAIN);
}

static void send_one(struct contract_pair *pair, uint64_t sequence)
{
  const struct pst_request request = contract_send(&pair->sender, 0, params.message, sequence);
  contract_fill(pair->sender.memory.region.host, params.message, sequence);
  contract_post_one(pair, &request);
  const struct pst_completion message =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(message.u.message.sequence, sequence);
  assert_true(
      contract_verify(contract_payload(&pair->receiver, &message), params.message, sequence));
  contract_release(&pair->receiver, &message);
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 1, 0);
}

static uint64_t reconnections(const struct contract_side *side)
{
  return simulated_counter(side, side->endpoints[0], "reconnections");
}

static void reconnections_in_slow_time(int which)
{
  struct contract_pair *pair = contract_pair_open(&variants[which], &params);
  const uint64_t posted = simulated_receives_posted();
  uint64_t sent = 0;
  contract_pair_connect(pair);
  for (uint64_t round = 1; round <= RECONNECTIONS; round++) {
    const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
    char fault[64];
    snprintf(fault, sizeof(fault), "qp-error --after %d --count 1", (int)(round % 4));
    simulated_ctl(fault);
    while (reconnections(&pair->sender) < round || reconnections(&pair->receiver) < round) {
      send_one(pair, sent++);
      contract_in_time(deadline, "a connection to be made again, the %" PRIu64 ". time", round);
    }
  }
  simulated_ctl("clear");
  leave_both(pair, PST_CLOSE_DRAIN, false);
  open_again(pair, 0);
  nothing_is_missing(pair, posted);
  contract_pair_close(pair);
  contract_complaints();
}

static void what_is_flushed_last_ends_what_is_had_again(void **state)
{
  (void)state;
  contract_host_clock(slowly);
  reconnections_in_slow_time(SLOWLY);
  reconnections_in_slow_time(SLOWLY_SEND);
  contract_host_clock(contract_now_ns);
}

int main(int argc, char **argv)
{
  if (argc != 3) {
    fprintf(stderr, "usage: %s PLUGIN LAUNCHER\n", argv[0]);
    return 2;
  }
  for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
    variants[i].plugin = argv[1];
    variants[i].apart = true;
  }
  simulated_launcher = argv[2];
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(an_event_ends_an_adapters),
      CONTRACT_CASE(what_is_flushed_last_ends_soft_roces),
      CONTRACT_CASE(a_second_ends_others),
      CONTRACT_CASE(who_awaits_a_second_sleeps),
      CONTRACT_CASE(what_is_flushed_last_ends_what_is_had_again),
  };
  return CONTRACT_MAIN("ends of shared receives", cases, &variants[0]);
}
