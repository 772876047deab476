/* SPDX-License-Identifier: Apache-2.0 */
/* Announced limits are tried, as far as a test may go; and set-up's promises about roles, rights
 * and slots. */
#include <time.h>

#include "harness.h"

#define LONGEST (UINT64_C(1) << 20)

static uint64_t least(uint64_t a, uint64_t b)
{
  return a < b ? a : b;
}

static struct pst_limits limits_of(void **state)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};
  struct contract_image image;
  struct pst_device *device;
  const struct contract_variant *variant = *state;
  contract_image_open(variant, false, &image);
  contract_device_open(variant, &image, !variant->apart, false, &device);
  assert_int_equal(image.ops->limits(device, &limits), 0);
  image.ops->close(device);
  return limits;
}

static void unknown_rights_are_refused(void **state)
{
  contract_rule("-EINVAL: outside the region, or an unknown right.");
  struct contract_pair *pair = contract_pair_open(*state, NULL);
  struct contract_side *side = &pair->sender;
  struct pst_mr *mr = NULL;
  for (uint32_t right = PST_ACCESS_RING << 1; right; right <<= 1) {
    struct pst_mr_params params = {.struct_size = sizeof(params),
                                   .access = PST_ACCESS_LOCAL_READ | right,
                                   .region = &side->memory.region,
                                   .length = 64};
    assert_int_equal(side->image.ops->mr_register(side->device, &params, &mr), -EINVAL);
    contract_untouched(mr, NULL, "mr_register");
  }
  contract_complaints();
  contract_pair_close(pair);
}

/* Each piece of another length, none of them in order. */
static void as_many_pieces_as_announced_are_gathered(void **state)
{
  contract_rule(
      "SEND and WRITE gather their pieces into one contiguous range at the peer; READ scatters one contiguous range of the peer's into its pieces.");
  enum { PIECES = 64, PIECE = 29 };
  const struct pst_limits limits = limits_of(state);
  const uint32_t n = (uint32_t)least(limits.pieces_max, PIECES);
  struct contract_params params = {
      .endpoints = 1, .slots = 4, .message = PIECES * PIECE, .requests = 16, .pieces = n};
  struct contract_pair *pair = contract_pair(state, &params);
  struct contract_side *side = &pair->sender;
  uint8_t *host = side->memory.region.host, expected[PIECES * PIECE];
  for (uint32_t count = 1; count <= n; count++) {
    struct pst_piece pieces[PIECES];
    uint64_t length = 0;
    for (uint32_t i = 0; i < count; i++) {
      pieces[i] = (struct pst_piece){side->mr, (PIECES - 1 - i) * PIECE, i * 7 % (PIECE + 1), 0};
      contract_fill(host + pieces[i].offset, pieces[i].length, count + i);
      memcpy(expected + length, host + pieces[i].offset, pieces[i].length);
      length += pieces[i].length;
    }
    struct pst_request request = contract_send(side, 0, length, count);
    request.piece_count = (uint16_t)count;
    request.local.pieces = pieces;
    contract_post_one(pair, &request);
    struct pst_completion message =
        contract_await(&pair->receiver, side, PST_COMPLETION_MESSAGE, 0);
    const char *before = contract_rule("bytes of payload");
    assert_int_equal(message.u.message.length, length);
    contract_rule(before);
    if (memcmp(contract_payload(&pair->receiver, &message), expected, length) != 0)
      fail_msg("of %u pieces, which is no more than pieces_max (%u), other bytes arrived", count,
               limits.pieces_max);
    contract_release(&pair->receiver, &message);
    contract_await_done(side, &pair->receiver, PST_OP_SEND, 1, 0);
  }
  contract_pair_close(pair);
}

static void pass(struct contract_pair *pair, uint64_t length, uint64_t number)
{
  struct contract_side *side = &pair->sender;
  contract_fill(side->memory.region.host, length, number);
  struct pst_request request = contract_send(side, 0, length, number);
  contract_post_one(pair, &request);
  struct pst_completion message = contract_await(&pair->receiver, side, PST_COMPLETION_MESSAGE, 0);
  const char *before = contract_rule("bytes of payload");
  assert_int_equal(message.u.message.length, length);
  contract_rule("MESSAGE: a message has arrived, with the bytes that were sent (status 0).");
  contract_bytes_are(contract_payload(&pair->receiver, &message), length, number);
  contract_rule(before);
  contract_release(&pair->receiver, &message);
  contract_await_done(side, &pair->receiver, PST_OP_SEND, 1, 0);
}

static void messages_up_to_the_longest_arrive(void **state)
{
  contract_rule("bytes of one SEND, from 1; MESSAGE.length has 32 bits");
  const struct pst_limits limits = limits_of(state);
  const uint64_t most = least(limits.message_max, LONGEST);
  struct contract_params params = {
      .endpoints = 1, .slots = 3, .message = most, .requests = 16, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  uint64_t number = 0;
  for (uint64_t length = most; length > 2048; length /= 2) {
    pass(pair, length, number++);
    pass(pair, length - 1, number++);
  }
  pass(pair, most, number);
  contract_pair_close(pair);
}

/* Every slot holds a message at once. */
static void many_slots_are_all_used(void **state)
{
  contract_rule(
      "slot i is [base + i * stride, base + i * stride + headroom + payload + tailroom) of the mr.");
  const struct pst_limits limits = limits_of(state);
  const uint32_t slots = (uint32_t)least(limits.slots_max, 4096);
  struct contract_params params = {
      .endpoints = 1, .slots = slots, .message = 64, .requests = 4096, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  uint8_t *used = calloc(slots, 1);
  assert_non_null(used);
  for (uint32_t i = 0; i < slots; i++) {
    struct pst_request request = contract_send(&pair->sender, i * pair->sender.stride, 64, i);
    contract_fill((uint8_t *)pair->sender.memory.region.host + request.offset, 64, i);
    contract_post_one(pair, &request);
  }
  for (uint32_t i = 0; i < slots; i++) {
    struct pst_completion message =
        contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    if (message.u.message.sequence > i)
      contract_rule("an accepted SEND arrives once, or the endpoint fails");
    contract_bytes_are(contract_payload(&pair->receiver, &message), 64, i);
    if (message.u.message.buffer)
      continue;
    uint64_t slot = message.u.message.offset / pair->receiver.stride - 1;
    if (slot >= slots || used[slot]++)
      fail_msg("the message %u lies in slot %" PRIu64 ", which is out or not in the ring", i, slot);
  }
  free(used);
  contract_pair_close(pair);
}

static void slots_shorter_than_messages_are_respected(void **state)
{
  contract_rule("-EMSGSIZE (over message_max or the peer's slots)");
  struct contract_params params = {.endpoints = 1,
                                   .slots = 4,
                                   .message = 2048,
                                   .requests = 16,
                                   .pieces = 1,
                                   .payload_max = 1000};
  struct contract_pair *pair = contract_pair(state, &params);
  for (uint64_t length = 1001; length <= 2048; length += 349) {
    struct pst_request request = contract_send(&pair->sender, 0, length, 0);
    uint32_t wait = 77;
    if (contract_capabilities(*state) & PST_CAP_QUEUES) {
      struct pst_completion done;
      contract_post_one(pair, &request);
      done = contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_DONE, PST_OP_SEND);
      assert_int_equal(done.status, -EMSGSIZE);
    } else
      assert_int_equal(contract_post(&pair->sender, 0, &request, 1, &wait), -EMSGSIZE);
  }
  pass(pair, 1000, 1);
  contract_pair_close(pair);
}

static void flushes_are_requests_too(void **state)
{
  contract_rule(
      "The most requests outstanding, FLUSHes included: post() takes no more. 0: it posts nothing.");
  struct contract_params params = {
      .endpoints = 1, .slots = 16, .message = 64, .requests = 10, .pieces = 1};
  struct contract_pair *pair = contract_pair(state, &params);
  struct pst_request requests[16];
  uint32_t wait = 77;
  for (uint32_t i = 0; i < 16; i++)
    requests[i] = i % 3 ? (struct pst_request){.opcode = PST_OP_FLUSH, .cookie = i}
                        : contract_send(&pair->sender, 0, 64, i);
  assert_in_range(contract_post(&pair->sender, 0, requests, 16, &wait), 1, 10);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  contract_pair_close(pair);
}

/* The shortest of them: a poll may lose its CPU, but not each. */
static void idle_polls_do_not_sleep(void **state)
{
  contract_rule("Only open, close, mr_register, mr_deregister and worker_close block");
  enum { POLLS = 200 };
  const uint64_t bound_ns = 1000000;
  struct contract_pair *pair = contract_pair(state, NULL);
  uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < POLLS; i++) {
    uint64_t from = contract_now_ns();
    contract_poll(&pair->receiver);
    shortest = least(shortest, contract_now_ns() - from);
  }
  if (shortest >= bound_ns)
    fail_msg("the shortest of %d polls that gave nothing took %" PRIu64 " us: poll sleeps", POLLS,
             shortest / 1000);
  contract_pair_close(pair);
}

/* As nodes open them. A transport that nodes do not use may refuse. */
static void an_endpoint_sends_and_receives(void **state)
{
  contract_rule(
      "A transport with READ or WRITE accepts all three roles on one endpoint: nodes open such endpoints.");
  const bool is_of_nodes = contract_capabilities(*state) & (PST_CAP_READ | PST_CAP_WRITE);
  contract_need(state, PST_CAP_DYNAMIC);
  struct contract_params params = {.endpoints = 0, .slots = 8, .message = 256, .requests = 16};
  struct contract_pair *pair = contract_pair_open(*state, &params);
  struct contract_side *sides[2] = {&pair->sender, &pair->receiver};
  const struct pst_transport_ops *ops = pair->sender.image.ops;
  const struct pst_mr_params mr = {.struct_size = sizeof(mr),
                                   .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE |
                                             PST_ACCESS_RING,
                                   .region = &pair->sender.memory.region,
                                   .length = pair->sender.memory.region.length};
  ops->mr_deregister(pair->sender.device, pair->sender.mr);
  assert_int_equal(ops->mr_register(pair->sender.device, &mr, &pair->sender.mr), 0);
  params.slots = 6; /* behind the slot that is sent from, in as much memory */
  contract_ring_open(&pair->sender, &params, pair->sender.mr, &pair->sender.ring);
  params.roles_more = PST_ROLE_SENDER | PST_ROLE_RECEIVER | (is_of_nodes ? PST_ROLE_RMA : 0);
  for (int i = 0; i < 2; i++) {
    int rc = contract_endpoint_try(sides[i], &params, sides[i]->ring, 0);
    if (rc == -EINVAL && i == 0 && !is_of_nodes) {
      contract_complaints();
      contract_pair_close(pair);
      skip();
    }
    assert_int_equal(rc, 0);
  }
  pair->params.endpoints = 1;
  contract_pair_meet(pair);
  for (uint64_t round = 0; round < 20; round++)
    for (int i = 0; i < 2; i++) {
      struct contract_side *near = sides[i], *far = sides[!i];
      contract_fill(near->memory.region.host, 200, round * 2 + (uint64_t)i);
      struct pst_request request = contract_send(near, 0, 200, round);
      uint64_t deadline = contract_now_ns() + contract_deadline_ns;
      uint32_t wait;
      int rc;
      while ((rc = contract_post(near, 0, &request, 1, &wait)) == -EAGAIN) {
        contract_poll(near);
        contract_poll(far);
        contract_in_time(deadline, "an endpoint of both roles to take a SEND");
      }
      assert_int_equal(rc, 1);
      struct pst_completion message = contract_await(far, near, PST_COMPLETION_MESSAGE, 0);
      contract_bytes_are(contract_payload(far, &message), 200, round * 2 + (uint64_t)i);
      contract_release(far, &message);
      contract_await_done(near, far, PST_OP_SEND, 1, 0);
    }
  contract_pair_close(pair);
}

static void peer_that_is_named_again_stays(void **state)
{
  contract_rule(
      "On a connected endpoint: the peer's address has changed. Requests taken stay taken, and CONNECTED comes again. A transport whose addresses never change (no READDRESS) returns -EALREADY and keeps the connection.");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct pst_blob blob;
  pass(pair, 100, 0);
  contract_address(&pair->receiver, 0, &blob);
  int rc = contract_connect(&pair->sender, 0, &blob);
  if (rc == 0)
    contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  else
    assert_int_equal(rc, -EALREADY);
  pass(pair, 100, 1);
  contract_complaints();
  contract_pair_close(pair);
}

int contract_limits_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(unknown_rights_are_refused),
      CONTRACT_CASE(as_many_pieces_as_announced_are_gathered),
      CONTRACT_CASE(messages_up_to_the_longest_arrive),
      CONTRACT_CASE(many_slots_are_all_used),
      CONTRACT_CASE(slots_shorter_than_messages_are_respected),
      CONTRACT_CASE(flushes_are_requests_too),
      CONTRACT_CASE(idle_polls_do_not_sleep),
      CONTRACT_CASE(an_endpoint_sends_and_receives),
      CONTRACT_CASE(peer_that_is_named_again_stays),
  };
  return CONTRACT_RUN("limits", cases, variant);
}
