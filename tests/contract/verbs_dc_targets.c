/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Targets of verbs_dc that fail: they are made anew under other numbers, peers follow, and what was
 * under way goes on.
 *
 *     penstock-simverbs verbs-dc-targets PLUGIN LAUNCHER
 */
#include <stdio.h>

#include "harness.h"
#include "simulated.h"

enum { PEERS = 3, MESSAGES = 120, LENGTH = 64, EVERY = 8 /* of which one is a READ, too */ };
enum {
  CONTROL_AT = 32,
  DATA_AT = 36,
  HEARD_AT = 79
}; /* in an address: transports/verbs_dc/blob.c */

static const struct contract_params params = {.endpoints = PEERS,
                                              .slots = 48,
                                              .message = 256,
                                              .requests = 16,
                                              .pieces = 1,
                                              .roles_more = PST_ROLE_SENDER | PST_ROLE_RECEIVER |
                                                            PST_ROLE_RMA};

/* An end whose endpoints send, receive and read, as those of nodes do. */
struct end {
  struct contract_side side;
  struct pst_remote *remotes[PEERS]; /* the other's memory */
  uint64_t next[PEERS], expected[PEERS], reads;
  uint32_t moves; /* READDRESS events */
  uint8_t lie;    /* so much more credit than has come is said to have */
};

static uint32_t target_of(struct end *end, uint32_t at)
{
  struct pst_blob blob;
  uint8_t *bytes;

  contract_address(&end->side, 0, &blob);
  bytes = blob.bytes;
  return (uint32_t)bytes[at] << 24 | (uint32_t)bytes[at + 1] << 16 | (uint32_t)bytes[at + 2] << 8 |
         bytes[at + 3];
}

/* As the host does: to the peer, by the control channel. */
static void follow(struct end *end, struct end *other)
{
  struct pst_completion moved;
  struct pst_blob blob;

  while (contract_take(&end->side, PST_COMPLETION_EVENT, PST_EVENT_READDRESS, &moved)) {
    const uint32_t k = (uint32_t)moved.endpoint - 1;
    end->moves++;
    if (other->side.closed[k])
      continue;
    contract_address(&end->side, k, &blob);
    ((uint8_t *)blob.bytes)[HEARD_AT] += end->lie;
    assert_int_equal(contract_connect(&other->side, k, &blob), 0);
  }
}

static void poll_both(struct end *a, struct end *b)
{
  contract_poll(&a->side);
  contract_poll(&b->side);
  follow(a, b);
  follow(b, a);
}

static void connect_all(struct end *a, struct end *b)
{
  struct pst_blob blob;

  for (uint32_t k = 0; k < PEERS; k++) {
    contract_address(&b->side, k, &blob);
    assert_int_equal(contract_connect(&a->side, k, &blob), 0);
    contract_address(&a->side, k, &blob);
    assert_int_equal(contract_connect(&b->side, k, &blob), 0);
  }
  for (uint32_t k = 0; k < PEERS; k++)
    while (!a->side.connected[k] || !b->side.connected[k])
      poll_both(a, b);
}

static void open_remotes(struct end *end, struct end *owner)
{
  uint8_t bytes[16384];
  struct pst_blob blob = {.struct_size = sizeof(blob), .bytes = bytes, .capacity = sizeof(bytes)};
  const struct pst_transport_ops *ops = end->side.image.ops;

  assert_int_equal(owner->side.image.ops->mr_pack(owner->side.device, owner->side.mr, &blob), 0);
  for (uint32_t k = 0; k < PEERS; k++)
    assert_int_equal(ops->remote_open(end->side.endpoints[k], &blob, &end->remotes[k]), 0);
}

static void open_ends(void **state, struct end *a, struct end *b)
{
  *a = *b = (struct end){.moves = 0};
  contract_side_open(*state, &params, false, true, &a->side);
  contract_side_open(*state, &params, false, true, &b->side);
}

static void close_ends(struct end *a, struct end *b)
{
  contract_side_close(&a->side);
  contract_side_close(&b->side);
}

static struct pst_request one_sided(const struct end *end, uint32_t k, uint8_t opcode,
                                    uint64_t length)
{
  return (struct pst_request){.opcode = opcode,
                              .local.mr = end->side.mr,
                              .arg.length = length,
                              .cookie = 7,
                              .u.rma.remote = end->remotes[k]};
}

static void post_some(struct end *end, uint32_t k, uint64_t until)
{
  uint32_t wait;

  while (end->next[k] < until) {
    struct pst_request requests[2] = {contract_send(&end->side, 0, LENGTH, end->next[k]),
                                      one_sided(end, k, PST_OP_READ, 8)};
    requests[1].offset = end->side.stride; /* not into what is sent */
    const uint32_t n = end->next[k] % EVERY ? 1 : 2;
    const int rc = contract_post(&end->side, k, requests, n, &wait);
    if (rc == -EAGAIN)
      return;
    assert_true(rc >= 1);
    end->next[k]++;
    end->reads += rc == 2;
  }
}

/* Each once, and in order. Returns how many there were. */
static uint64_t take_messages(struct end *end)
{
  struct pst_completion message;
  uint64_t taken = 0;

  for (; contract_take(&end->side, PST_COMPLETION_MESSAGE, 0, &message); taken++) {
    assert_true(message.u.message.sequence == end->expected[message.endpoint - 1]++);
    contract_release(&end->side, &message);
  }
  return taken;
}

/* Both ways, as fast as they can. */
static void exchange(struct end *a, struct end *b, uint64_t round)
{
  const uint64_t until = (round + 1) * MESSAGES,
                 deadline = contract_now_ns() + contract_deadline_ns;
  struct end *ends[2] = {a, b};
  uint64_t left = UINT64_C(2) * PEERS * MESSAGES;

  while (left) {
    contract_in_time(deadline, "all messages to arrive, of which %u are missing", (unsigned)left);
    for (uint32_t i = 0; i < 2; i++) {
      for (uint32_t k = 0; k < PEERS; k++)
        post_some(ends[i], k, until);
      left -= take_messages(ends[i]);
    }
    poll_both(a, b);
  }
  for (uint32_t i = 0; i < 2; i++) {
    contract_await_done(&ends[i]->side, &ends[!i]->side, PST_OP_SEND,
                        UINT64_C(1) * PEERS * MESSAGES, 0);
    contract_await_done(&ends[i]->side, &ends[!i]->side, PST_OP_READ, ends[i]->reads, 0);
    ends[i]->reads = 0;
  }
}

static void lose(uint32_t target, uint32_t after)
{
  char action[64];

  snprintf(action, sizeof(action), "target-error --qp %u --after %u --count 1", target, after);
  simulated_ctl(action);
}

static void streams_go_on_by_another_target(void **state)
{
  static const uint32_t which[] = {DATA_AT, CONTROL_AT};
  struct end a, b;
  uint64_t round = 0;

  open_ends(state, &a, &b);
  connect_all(&a, &b);
  open_remotes(&a, &b);
  open_remotes(&b, &a);
  exchange(&a, &b, round++);
  for (uint32_t i = 0; i < 8; i++) {
    struct end *victim = i % 2 ? &b : &a;
    const uint32_t at = which[i / 2 % 2], lost = target_of(victim, at), moves = victim->moves;
    lose(lost, i);
    exchange(&a, &b, round++);
    assert_int_equal(victim->moves, moves + PEERS);
    assert_int_not_equal(target_of(victim, at), lost);
    assert_int_equal(simulated_counter(&victim->side, NULL, "targets_replaced"), i / 2 + 1);
  }
  contract_complained(8);
  assert_int_equal(simulated_counter(&a.side, NULL, "receives_of_nobody"), 0);
  for (uint32_t k = 0; k < PEERS; k++)
    assert_false(a.side.departed[k] || b.side.departed[k]);
  close_ends(&a, &b);
}

/* The second may fail while the first is being made anew. */
static void both_targets_are_lost(void **state)
{
  struct end a, b;

  open_ends(state, &a, &b);
  connect_all(&a, &b);
  open_remotes(&a, &b);
  open_remotes(&b, &a);
  for (uint32_t i = 0; i < 8; i++) {
    lose(target_of(&b, CONTROL_AT), i % 3);
    lose(target_of(&b, DATA_AT), i);
    exchange(&a, &b, i);
    contract_complained(2);
  }
  assert_int_equal(simulated_counter(&b.side, NULL, "targets_replaced"), 16);
  close_ends(&a, &b);
}

/* The target of words of `b` is lost by credit of an endpoint of `a`, which has heard of it. */
static void lose_words(void **state, struct end *a, struct end *b, uint8_t lie)
{
  struct pst_completion held[8];
  uint32_t wait;

  open_ends(state, a, b);
  b->lie = lie;
  connect_all(a, b);
  for (uint32_t i = 0; i < 8; i++) {
    const struct pst_request request = contract_send(&b->side, 0, LENGTH, i);
    assert_int_equal(contract_post(&b->side, 2, &request, 1, &wait), 1);
    held[i] = contract_await(&a->side, &b->side, PST_COMPLETION_MESSAGE, 0);
  }
  lose(target_of(b, CONTROL_AT), 0);
  for (uint32_t i = 0; i < 8; i++)
    contract_release(&a->side, &held[i]);
  while (b->moves == 0) {
    contract_poll(&a->side);
    contract_poll(&b->side);
    follow(b, a);
  }
  contract_complained(1);
}

/* Requests to the target of messages are not sent again. */
static void messages_to_another_target_are_not_repeated(void **state)
{
  struct end a, b;
  uint32_t wait;

  lose_words(state, &a, &b, 0);
  const struct pst_request request = contract_send(&a.side, 0, LENGTH, 0);
  assert_int_equal(contract_post(&a.side, 2, &request, 1, &wait), 1); /* behind its credit */
  while (take_messages(&b) == 0)
    poll_both(&a, &b);
  for (uint32_t i = 0; i < 100; i++)
    poll_both(&a, &b);
  assert_int_equal(take_messages(&b), 0);
  close_ends(&a, &b);
}

/* The credit has come, says the peer, whose answer did not. The device tries the target that is no
 * more until it gives up; then it is said to the new one. */
static void words_without_an_answer_are_sent_again(void **state)
{
  struct end a, b;
  uint32_t wait;

  lose_words(state, &a, &b, 100);
  const struct pst_request request = contract_send(&a.side, 0, LENGTH, 0);
  assert_int_equal(contract_post(&a.side, 2, &request, 1, &wait), 1);
  while (take_messages(&b) == 0 && !a.side.departed[2])
    poll_both(&a, &b);
  assert_false(a.side.departed[2]);
  contract_await_done(&a.side, &b.side, PST_OP_SEND, 1, 0);
  contract_complained(0);
  close_ends(&a, &b);
}

/* The peer may use otherwise what a message announced. A WRITE before it, and a READ before its
 * fence, are not carried out again. */
static void what_a_message_announced_is_not_repeated(void **state)
{
  struct end a, b;
  uint32_t wait;

  open_ends(state, &a, &b);
  connect_all(&a, &b);
  open_remotes(&a, &b);
  uint8_t *here = a.side.memory.region.host, *there = b.side.memory.region.host;
  struct pst_request requests[] = {
      one_sided(&a, 0, PST_OP_WRITE, 8), one_sided(&a, 0, PST_OP_READ, 8),
      contract_send(&a.side, 128, 8, 0), contract_send(&a.side, 128, 8, 1)};
  requests[1].offset = requests[1].u.rma.offset = 64;
  requests[2].flags = PST_REQUEST_FENCE;
  memset(here, 1, 8);
  memset(there + 64, 2, 8);
  lose(target_of(&b, DATA_AT), 3);
  assert_int_equal(contract_post(&a.side, 0, requests, 4, &wait), 4);
  struct pst_completion message = contract_await(&b.side, &a.side, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(message.u.message.sequence, 0);
  assert_int_equal(there[0], 1);
  assert_int_equal(here[64], 2);
  memset(there, 3, 8);
  memset(there + 64, 3, 8);
  contract_release(&b.side, &message);
  while (b.moves < PEERS)
    poll_both(&a, &b);
  message = contract_await(&b.side, &a.side, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(message.u.message.sequence, 1);
  contract_release(&b.side, &message);
  contract_await_done(&a.side, &b.side, PST_OP_SEND, 2, 0);
  contract_await_done(&a.side, &b.side, PST_OP_WRITE, 1, 0);
  contract_await_done(&a.side, &b.side, PST_OP_READ, 1, 0);
  assert_int_equal(there[0], 3);
  assert_int_equal(here[64], 2);
  contract_complained(1);
  close_ends(&a, &b);
}

/* A region as a device beside us sees it: nothing says when its bytes come. */
__attribute__((no_sanitize_thread)) static uint8_t look_at(const volatile uint8_t *at)
{
  return *at;
}

__attribute__((no_sanitize_thread)) static void put_at(volatile uint8_t *at, uint8_t value)
{
  *at = value;
}

/* An answer that was polled, behind more than poll() had room for, counts as one: what it answers
 * is not posted again. */
static void answers_that_were_polled_count(void **state)
{
  struct end a, b;
  struct pst_completion one;
  uint32_t wait;

  open_ends(state, &a, &b);
  connect_all(&a, &b);
  open_remotes(&a, &b);
  for (uint32_t i = 0; i < 10; i++)
    poll_both(&a, &b);
  volatile uint8_t *there = b.side.memory.region.host;
  for (uint32_t i = 0; i < 2; i++) {
    const struct pst_request request = contract_send(&b.side, 128, 8, i);
    assert_int_equal(contract_post(&b.side, 0, &request, 1, &wait), 1);
  }
  contract_await_done(&b.side, NULL, PST_OP_SEND, 2, 0);
  *(uint8_t *)a.side.memory.region.host = 1;
  const struct pst_request write = one_sided(&a, 1, PST_OP_WRITE, 8);
  assert_int_equal(contract_post(&a.side, 1, &write, 1, &wait), 1);
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (look_at(there) != 1) {
    contract_in_time(deadline, "the WRITE of %u bytes", 8u);
    contract_poll(&b.side);
  }
  simulated_ctl("settle");
  put_at(there, 3);
  assert_int_equal(a.side.image.ops->poll(a.side.worker, &one, 1), 1);
  assert_int_equal(one.kind, PST_COMPLETION_MESSAGE);
  contract_log(&a.side, &one);
  lose(target_of(&b, DATA_AT), 0);
  const struct pst_request request = contract_send(&a.side, 128, 8, 0);
  assert_int_equal(contract_post(&a.side, 2, &request, 1, &wait), 1);
  while (b.moves < PEERS) {
    contract_poll(&b.side);
    follow(&b, &a);
  }
  while (take_messages(&b) == 0)
    poll_both(&a, &b);
  contract_await_done(&a.side, &b.side, PST_OP_WRITE, 1, 0);
  assert_int_equal(look_at(there), 3);
  assert_int_equal(take_messages(&a), 2);
  contract_complained(1);
  close_ends(&a, &b);
}

/* An error that was polled, behind more than poll() had room for, is of a request that has been
 * posted again since, and ends nothing. */
static void errors_that_were_polled_are_not_taken(void **state)
{
  struct end a, b;
  struct pst_completion one;
  uint32_t wait;

  open_ends(state, &a, &b);
  connect_all(&a, &b);
  for (uint32_t i = 0; i < 10; i++)
    poll_both(&a, &b);
  for (uint32_t i = 0; i < 2; i++) {
    const struct pst_request request = contract_send(&b.side, 128, 8, i);
    assert_int_equal(contract_post(&b.side, 0, &request, 1, &wait), 1);
  }
  contract_await_done(&b.side, NULL, PST_OP_SEND, 2, 0);
  lose(target_of(&b, DATA_AT), 0);
  const struct pst_request request = contract_send(&a.side, 128, 8, 0);
  assert_int_equal(contract_post(&a.side, 1, &request, 1, &wait), 1);
  simulated_ctl("clock 1000"); /* its device gives up */
  simulated_ctl("settle");
  simulated_ctl("clock real");
  assert_int_equal(a.side.image.ops->poll(a.side.worker, &one, 1), 1);
  assert_int_equal(one.kind, PST_COMPLETION_MESSAGE);
  contract_log(&a.side, &one);
  while (b.moves < PEERS) {
    contract_poll(&b.side);
    follow(&b, &a);
  }
  while (take_messages(&b) == 0)
    poll_both(&a, &b);
  contract_await_done(&a.side, &b.side, PST_OP_SEND, 1, 0);
  assert_int_equal(take_messages(&a), 2);
  for (uint32_t k = 0; k < PEERS; k++)
    assert_false(a.side.departed[k]);
  contract_complained(1);
  close_ends(&a, &b);
}

/* The first hello finds a target that fails. */
static void hellos_go_to_another_target(void **state)
{
  struct end a, b;

  open_ends(state, &a, &b);
  lose(target_of(&b, CONTROL_AT), 0);
  connect_all(&a, &b);
  assert_true(b.moves >= PEERS);
  contract_complained(1);
  exchange(&a, &b, 0);
  close_ends(&a, &b);
}

/* Nobody knows whether it was carried out: it is not repeated. Others go on. */
static void atomic_operations_are_not_repeated(void **state)
{
  struct end a, b;
  uint32_t wait;

  open_ends(state, &a, &b);
  connect_all(&a, &b);
  open_remotes(&a, &b);
  open_remotes(&b, &a);
  const struct pst_request add = one_sided(&a, 0, PST_OP_FETCH_ADD, 0);
  lose(target_of(&b, DATA_AT), 0);
  assert_int_equal(contract_post(&a.side, 0, &add, 1, &wait), 1);
  while (b.moves < PEERS)
    poll_both(&a, &b);
  contract_await_done(&a.side, &b.side, PST_OP_FETCH_ADD, 1, -ECONNRESET);
  const struct pst_completion end =
      contract_await(&a.side, &b.side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(end.endpoint, 1);
  contract_complained(2);
  assert_false(a.side.departed[1] || a.side.departed[2]);
  close_ends(&a, &b);
}

int main(int argc, char **argv)
{
  struct contract_variant variant = {.name = "targets",
                                     .options = "device=mlx5_0,initiators=2,quota=4,timeout=16"};
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(streams_go_on_by_another_target),
      CONTRACT_CASE(both_targets_are_lost),
      CONTRACT_CASE(messages_to_another_target_are_not_repeated),
      CONTRACT_CASE(words_without_an_answer_are_sent_again),
      CONTRACT_CASE(what_a_message_announced_is_not_repeated),
      CONTRACT_CASE(answers_that_were_polled_count),
      CONTRACT_CASE(errors_that_were_polled_are_not_taken),
      CONTRACT_CASE(hellos_go_to_another_target),
      CONTRACT_CASE(atomic_operations_are_not_repeated),
  };

  if (argc != 3) {
    fprintf(stderr, "usage: %s PLUGIN LAUNCHER\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  simulated_launcher = argv[2];
  return CONTRACT_MAIN("verbs_dc targets", cases, &variant);
}
