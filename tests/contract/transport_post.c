/* SPDX-License-Identifier: Apache-2.0 */
/* Refusals of post, and how it refuses; pieces; FLUSH and FENCE; counters and words. */
#include <limits.h>

#include "harness.h"

/* The one request is refused with `error`, and nothing was taken or changed. */
static void refused(struct contract_pair *pair, const struct pst_request *request, int error)
{
  uint32_t wait = 77;
  assert_int_equal(contract_post(&pair->sender, 0, request, 1, &wait), error);
  if (wait == 77)
    return;
  contract_rule(
      "After any other -errno the first request is invalid, none was taken, and *wait is unchanged");
  fail_msg("post refused with %d (%s), and yet wrote %u into *wait, which stays as it was", error,
           strerror(-error), wait);
}

static void unknown_opcodes_and_flags_are_refused(void **state)
{
  contract_rule("-EINVAL (unknown opcode or flag, outside the mr)");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct pst_request request = contract_send(&pair->sender, 0, 64, 0);
  for (unsigned opcode = 0; opcode < 256; opcode++) {
    if (opcode >= PST_OP_SEND && opcode <= PST_OP_FLUSH)
      continue;
    request.opcode = (uint8_t)opcode;
    refused(pair, &request, -EINVAL);
  }
  request.opcode = PST_OP_SEND;
  for (unsigned bit = 2; bit < 8; bit++) {
    request.flags = (uint8_t)(1u << bit);
    refused(pair, &request, -EINVAL);
  }
  contract_rule("Every transport takes these.");
  request.flags = PST_REQUEST_FENCE | PST_REQUEST_EXCLUSIVE;
  contract_post_one(pair, &request);
  contract_pair_close(pair);
}

static void reserved_fields_are_refused(void **state)
{
  contract_rule(
      "Unknown opcodes and flags and reserved members that are not zero are refused with -EINVAL, never ignored.");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct pst_request request = contract_send(&pair->sender, 0, 64, 0);
  request.reserved0 = 1;
  refused(pair, &request, -EINVAL);
  request.reserved0 = 0;
  if (!(pair->sender.limits.capabilities & PST_CAP_DEPARTURE)) {
    contract_rule("With DEPARTURE: when the message leaves");
    request.u.send.departure_ns = 1;
    refused(pair, &request, -EINVAL);
  }
  contract_pair_close(pair);
}

static void bytes_outside_the_registration_are_refused(void **state)
{
  contract_rule("-EINVAL (unknown opcode or flag, outside the mr)");
  struct contract_pair *pair = contract_pair(state, NULL);
  uint64_t length = pair->sender.memory.region.length;
  const struct {
    uint64_t offset, length;
  } bad[] = {
      {length, 1}, {length - 63, 64}, {length + 1, 0}, {UINT64_MAX, 2}, {UINT64_MAX - 1, 64}};
  for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
    struct pst_request request = contract_send(&pair->sender, bad[i].offset, bad[i].length, 0);
    refused(pair, &request, -EINVAL);
  }
  struct pst_request request = contract_send(&pair->sender, length - 64, 64, 0);
  contract_post_one(pair, &request);
  contract_pair_close(pair);
}

static void too_long_a_message_is_refused(void **state)
{
  contract_rule("-EMSGSIZE (over message_max or the peer's slots)");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct pst_request request = contract_send(&pair->sender, 0, 2049, 0);
  refused(pair, &request, -EMSGSIZE);
  contract_pair_close(pair);
}

static void registration_without_the_right_is_refused(void **state)
{
  contract_rule("sent from, source of WRITE");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct contract_side *side = &pair->sender;
  struct pst_mr *mr;
  struct pst_mr_params params = {.struct_size = sizeof(params),
                                 .access = PST_ACCESS_LOCAL_WRITE,
                                 .region = &side->memory.region,
                                 .length = 64};
  assert_int_equal(side->image.ops->mr_register(side->device, &params, &mr), 0);
  struct pst_request request = contract_send(side, 0, 64, 0);
  request.local.mr = mr;
  refused(pair, &request, -EINVAL);
  side->image.ops->mr_deregister(side->device, mr);
  contract_pair_close(pair);
}

static void stops_at_the_first_that_it_cannot_take(void **state)
{
  contract_rule("the next request is invalid; posted alone, it gets the errno");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct pst_request requests[5];
  uint32_t wait;
  for (uint32_t i = 0; i < 5; i++)
    requests[i] = contract_send(&pair->sender, i * 64, 64, i);
  requests[3].arg.length = 4096;
  assert_int_equal(contract_post(&pair->sender, 0, requests, 5, &wait), 3);
  refused(pair, &requests[3], -EMSGSIZE);
  contract_rule("MESSAGEs of an endpoint come in the order of their SENDs");
  for (uint64_t i = 0; i < 3; i++) {
    struct pst_completion message =
        contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    if (message.flags & PST_HAS_SEQUENCE)
      assert_int_equal(message.u.message.sequence, i);
    contract_release(&pair->receiver, &message);
  }
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 3, 0);
  contract_pair_close(pair);
}

static void arrays_are_the_callers_again(void **state)
{
  contract_rule(
      "Post requests in order. The arrays, pieces included, are the caller's again on return.");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct pst_request requests[4];
  uint32_t wait;
  contract_fill(pair->sender.memory.region.host, 64, 5);
  for (uint32_t i = 0; i < 4; i++)
    requests[i] = contract_send(&pair->sender, 0, 64, i);
  assert_int_equal(contract_post(&pair->sender, 0, requests, 4, &wait), 4);
  memset(requests, 0xff, sizeof(requests));
  for (uint64_t i = 0; i < 4; i++) {
    struct pst_completion message =
        contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    if (message.flags & PST_HAS_SEQUENCE)
      assert_int_equal(message.u.message.sequence, i);
    contract_bytes_are(contract_payload(&pair->receiver, &message), 64, 5);
  }
  contract_pair_close(pair);
}

static void pieces_are_gathered(void **state)
{
  contract_rule(
      "SEND and WRITE gather their pieces into one contiguous range at the peer; READ scatters one contiguous range of the peer's into its pieces.");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct contract_side *side = &pair->sender;
  uint8_t *host = side->memory.region.host;
  struct pst_piece pieces[4] = {{side->mr, 5000, 7, 0},
                                {side->mr, 100, 0, 0},
                                {side->mr, 9000, 1000, 0},
                                {side->mr, 1, 64, 0}};
  uint8_t expected[1071];
  uint32_t n = side->limits.pieces_max < 4 ? side->limits.pieces_max : 4;
  uint64_t length = 0;
  for (uint32_t i = 0; i < n; i++) {
    contract_fill(host + pieces[i].offset, pieces[i].length, i);
    memcpy(expected + length, host + pieces[i].offset, pieces[i].length);
    length += pieces[i].length;
  }
  struct pst_request request = contract_send(side, 0, length, 3);
  request.piece_count = (uint16_t)n;
  request.local.pieces = pieces;
  contract_post_one(pair, &request);
  struct pst_completion message = contract_await(&pair->receiver, side, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(message.u.message.length, length);
  assert_memory_equal(contract_payload(&pair->receiver, &message), expected, length);
  contract_release(&pair->receiver, &message);
  contract_await_done(side, &pair->receiver, PST_OP_SEND, 1, 0);
  contract_pair_close(pair);
}

static void pieces_without_sense_are_refused(void **state)
{
  contract_rule("piece_count > 0; offset is 0 and length their sum");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct contract_side *side = &pair->sender;
  struct pst_piece piece = {side->mr, 0, 64, 0};
  struct pst_request request = contract_send(side, 0, 64, 0);
  request.local.pieces = &piece;
  request.piece_count = 1;
  request.arg.length = 63; /* not the sum */
  refused(pair, &request, -EINVAL);
  request.arg.length = 64;
  request.offset = 1;
  refused(pair, &request, -EINVAL);
  request.offset = 0;
  contract_rule(
      "Unknown opcodes and flags and reserved members that are not zero are refused with -EINVAL, never ignored.");
  piece.reserved = 1;
  refused(pair, &request, -EINVAL);
  piece.reserved = 0;
  contract_rule("-EINVAL (unknown opcode or flag, outside the mr)");
  piece.offset = side->memory.region.length - 63;
  refused(pair, &request, -EINVAL);
  piece.offset = 0;
  contract_post_one(pair, &request);
  contract_rule("Pieces of one request. post() refuses more: -E2BIG.");
  struct pst_piece *many = calloc(side->limits.pieces_max + 1, sizeof(*many));
  assert_non_null(many);
  for (uint32_t i = 0; i <= side->limits.pieces_max; i++)
    many[i] = (struct pst_piece){side->mr, 0, 1, 0};
  request.local.pieces = many;
  request.piece_count = (uint16_t)(side->limits.pieces_max + 1);
  request.arg.length = side->limits.pieces_max + 1;
  if (side->limits.pieces_max < UINT16_MAX)
    refused(pair, &request, -E2BIG);
  free(many);
  contract_pair_close(pair);
}

static void flush_is_done_once_each_and_fence_is_taken(void **state)
{
  contract_rule(
      "No buffers; u.rma.remote: the range meant, or NULL: all written since. Every transport takes it, one with SEND alone, too.");
  struct contract_pair *pair = contract_pair(state, NULL);
  struct pst_request requests[4] = {contract_send(&pair->sender, 0, 64, 0),
                                    {.opcode = PST_OP_FLUSH, .cookie = 50},
                                    contract_send(&pair->sender, 64, 64, 1),
                                    {.opcode = PST_OP_FLUSH, .cookie = 51}};
  uint32_t wait;
  requests[2].flags = PST_REQUEST_FENCE;
  requests[3].flags = PST_REQUEST_FENCE;
  assert_int_equal(contract_post(&pair->sender, 0, requests, 4, &wait), 4);
  for (uint64_t i = 0; i < 2; i++) {
    struct pst_completion done =
        contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_DONE, PST_OP_FLUSH);
    assert_int_equal(done.u.done.cookie, 50 + i);
    assert_int_equal(done.u.done.count, 1);
    struct pst_completion message =
        contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
    contract_release(&pair->receiver, &message);
  }
  contract_rule("Exactly one DONE covers each request that post() took");
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 2, 0);
  for (int i = 0; i < 100; i++)
    assert_int_equal(contract_poll(&pair->sender), 0);
  contract_pair_close(pair);
}

static uint64_t counter(const struct contract_side *side, const char *name)
{
  struct pst_counter counters[32];
  int n = side->image.ops->counters(side->device, side->worker, side->endpoints[0], counters, 32);
  contract_counters_are_known(counters, n < 32 ? (uint32_t)n : 32);
  for (int i = 0; i < n && i < 32; i++)
    if (strcmp(counters[i].name, name) == 0)
      return counters[i].value;
  fail_msg("no counter %s", name);
  return 0;
}

/* The calls of the transport, also if a filter wraps it. */
static const struct pst_transport_ops *innermost(const struct contract_side *side)
{
  return side->image.inner ? side->image.inner->ops : side->image.ops;
}

static void counters_count(void **state)
{
  contract_rule(
      "A sending endpoint has messages_sent and bytes_sent, a receiving one messages_received and bytes_received.");
  struct contract_pair *pair = contract_pair(state, NULL);
  if (!pair->sender.image.ops->counters || !innermost(&pair->sender)->counters) {
    contract_pair_close(pair);
    skip();
  }
  struct pst_request request = contract_send(&pair->sender, 0, 100, 0);
  for (int i = 0; i < 5; i++)
    contract_post_one(pair, &request);
  for (int i = 0; i < 5; i++)
    contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(counter(&pair->sender, "messages_sent"), 5);
  assert_int_equal(counter(&pair->sender, "bytes_sent"), 500);
  assert_int_equal(counter(&pair->receiver, "messages_received"), 5);
  assert_int_equal(counter(&pair->receiver, "bytes_received"), 500);
  contract_rule(
      "Write up to max counters, and return how many there are: the endpoint's, or the worker's if `endpoint` is NULL, or the device's if both are NULL.");
  struct pst_counter guard = {.name = "guard"};
  int all = pair->sender.image.ops->counters(pair->sender.device, NULL, pair->sender.endpoints[0],
                                             &guard, 0);
  assert_true(all > 0);
  assert_string_equal(guard.name, "guard");
  assert_true(pair->sender.image.ops->counters(pair->sender.device, NULL, NULL, NULL, 0) >= 0);
  contract_pair_close(pair);
}

static void description_is_cut_to_its_room(void **state)
{
  contract_rule("Describe lanes, QPs and numbers to a reader, NUL-terminated within size.");
  struct contract_pair *pair = contract_pair(state, NULL);
  const struct contract_side *side = &pair->sender;
  char whole[512], part[512];
  if (!side->image.ops->describe || !innermost(side)->describe) {
    contract_pair_close(pair);
    skip();
  }
  assert_int_equal(side->image.ops->describe(side->endpoints[0], whole, sizeof(whole)), 0);
  assert_true(strlen(whole) > 4);
  for (size_t size = 1; size < strlen(whole) + 2; size++) {
    memset(part, '#', sizeof(part));
    side->image.ops->describe(side->endpoints[0], part, size);
    assert_true(memchr(part, 0, size) != NULL);
    assert_int_equal(part[size], '#');
    assert_int_equal(strncmp(whole, part, strlen(part)), 0);
  }
  contract_pair_close(pair);
}

int contract_post_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(unknown_opcodes_and_flags_are_refused),
      CONTRACT_CASE(reserved_fields_are_refused),
      CONTRACT_CASE(bytes_outside_the_registration_are_refused),
      CONTRACT_CASE(too_long_a_message_is_refused),
      CONTRACT_CASE(registration_without_the_right_is_refused),
      CONTRACT_CASE(stops_at_the_first_that_it_cannot_take),
      CONTRACT_CASE(arrays_are_the_callers_again),
      CONTRACT_CASE(pieces_are_gathered),
      CONTRACT_CASE(pieces_without_sense_are_refused),
      CONTRACT_CASE(flush_is_done_once_each_and_fence_is_taken),
      CONTRACT_CASE(counters_count),
      CONTRACT_CASE(description_is_cut_to_its_room),
  };
  return CONTRACT_RUN("post", cases, variant);
}
