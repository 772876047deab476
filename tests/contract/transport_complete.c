/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that post() completes, among others that end by DONEs. */
#include <inttypes.h>

#include "harness.h"

#define REQUESTS 32u
#define BYTES 64u

static const struct contract_params with_rma = {.endpoints = 1,
                                                .slots = 16,
                                                .message = 4096,
                                                .requests = REQUESTS,
                                                .pieces = 8,
                                                .roles_more = PST_ROLE_RMA};

struct reach {
  struct contract_pair *pair;
  struct pst_remote *remote;
  uint8_t *near, *far;
};

static struct reach open_reach(void **state)
{
  uint8_t bytes[4096];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  contract_need(state, PST_CAP_READ | PST_CAP_WRITE);
  struct reach reach = {.pair = contract_pair(state, &with_rma)};
  const struct contract_side *far = &reach.pair->receiver;
  struct contract_side *near = &reach.pair->sender;
  assert_int_equal(far->image.ops->mr_pack(far->device, far->mr, &blob), 0);
  assert_int_equal(near->image.ops->remote_open(near->endpoints[0], &blob, &reach.remote), 0);
  reach.near = near->memory.region.host;
  reach.far = far->memory.region.host;
  return reach;
}

static struct pst_request request_of(const struct reach *reach, uint8_t opcode, uint64_t cookie,
                                     uint64_t place)
{
  struct pst_request request = {.opcode = opcode, .cookie = cookie};
  if (opcode == PST_OP_FLUSH)
    return request;
  request.local.mr = reach->pair->sender.mr;
  request.offset = place * BYTES;
  request.arg.length = BYTES;
  request.u.rma.remote = reach->remote;
  request.u.rma.offset = place * BYTES;
  return request;
}

/* How many requests the DONEs at hand cover, all of which are of status 0 unless some may fail. */
static uint32_t take_all(struct contract_side *side, bool may_fail)
{
  static const uint8_t opcodes[] = {PST_OP_SEND, PST_OP_WRITE, PST_OP_READ, PST_OP_FLUSH};
  struct pst_completion done;
  uint32_t n = 0;
  for (size_t i = 0; i < sizeof(opcodes); i++)
    while (contract_take(side, PST_COMPLETION_DONE, opcodes[i], &done)) {
      if (!may_fail)
        assert_int_equal(done.status, 0);
      n += (uint32_t)done.u.done.count;
    }
  return n;
}

/* WRITEs, READs, FENCEs and FLUSHes in one post. */
static void all_end_once_however_they_end(void **state)
{
  static const uint8_t opcodes[] = {PST_OP_WRITE, PST_OP_READ, PST_OP_WRITE, PST_OP_FLUSH};
  struct pst_request requests[REQUESTS];
  contract_rule("Exactly one DONE covers each request that post() took");
  struct reach reach = open_reach(state);
  for (uint32_t round = 0; round < 40; round++) {
    uint32_t n = 0, ended = 0;
    uint64_t deadline = contract_now_ns() + contract_deadline_ns;
    for (; n < 1 + round % 16; n++) {
      requests[n] = request_of(&reach, opcodes[(n + round) % 4], 1000 * round + n, n);
      if (round % 3 == 0 && requests[n].opcode != PST_OP_FLUSH)
        requests[n].flags = PST_REQUEST_FENCE;
    }
    assert_int_equal(contract_post_all(reach.pair, 0, requests, n), n);
    while (ended < n) {
      ended += take_all(&reach.pair->sender, false);
      contract_poll(&reach.pair->sender);
      contract_poll(&reach.pair->receiver);
      contract_in_time(deadline, "the end of %u requests: %u have ended", n, ended);
    }
    assert_int_equal(ended, n);
  }
  contract_pair_close(reach.pair);
}

/* Once the DONE has come, a READ's bytes are here, and after a FLUSH's DONE a WRITE's are at the
 * peer. */
static void bytes_are_there_when_it_ends(void **state)
{
  contract_rule("READ, atomics the data is here");
  struct reach reach = open_reach(state);
  struct contract_side *side = &reach.pair->sender;
  for (uint32_t i = 0; i < 64; i++) {
    uint32_t wait;
    contract_fill(reach.far + i * BYTES, BYTES, 7 * i + 1);
    memset(reach.near + i * BYTES, 0, BYTES);
    struct pst_request read = request_of(&reach, PST_OP_READ, i, i);
    assert_int_equal(contract_post(side, 0, &read, 1, &wait), 1);
    contract_await_done(side, &reach.pair->receiver, PST_OP_READ, 1, 0);
    contract_bytes_are(reach.near + i * BYTES, BYTES, 7 * i + 1);
    contract_rule("FLUSH everything posted before it is placed at the peer");
    contract_fill(reach.near + i * BYTES, BYTES, 7 * i + 2);
    const struct pst_request behind[] = {request_of(&reach, PST_OP_WRITE, 2 * i, i),
                                         request_of(&reach, PST_OP_FLUSH, 2 * i + 1, i)};
    assert_int_equal(contract_post_all(reach.pair, 0, behind, 2), 2);
    contract_await_done(side, &reach.pair->receiver, PST_OP_FLUSH, 1, 0);
    contract_bytes_are(reach.far + i * BYTES, BYTES, 7 * i + 2);
    contract_await_done(side, &reach.pair->receiver, PST_OP_WRITE, 1, 0);
    contract_rule("READ, atomics the data is here");
  }
  contract_pair_close(reach.pair);
}

/* More than may be outstanding goes as long as it ends at once; what does not, waits. */
static void requests_of_one_kind_end_in_post_order(void **state)
{
  contract_rule("SENDs are covered in post order, lent ones too, and so are WRITEs.");
  struct reach reach = open_reach(state);
  for (uint32_t i = 0; i < 4 * REQUESTS; i++) {
    const struct pst_request request =
        request_of(&reach, i % 5 == 4 ? PST_OP_READ : PST_OP_WRITE, i, i % REQUESTS);
    contract_post_one(reach.pair, &request);
    if (i % 7 == 0)
      contract_poll(&reach.pair->sender);
  }
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  for (uint32_t ended = 0; ended < 4 * REQUESTS;) {
    ended += take_all(&reach.pair->sender, false);
    assert_true(ended <= 4 * REQUESTS);
    contract_poll(&reach.pair->sender);
    contract_poll(&reach.pair->receiver);
    contract_in_time(deadline, "the end of %u requests: %u have ended", 4 * REQUESTS, ended);
  }
  contract_pair_close(reach.pair);
}

/* Posted, closed at once: what was completed is not ended again, the rest is. */
static void abort_ends_the_others_once(void **state)
{
  contract_rule("No DONE covers requests that post() completed.");
  struct pst_request requests[16];
  struct reach reach = open_reach(state);
  struct contract_side *side = &reach.pair->sender;
  uint32_t wait, ended;
  for (uint32_t i = 0; i < 16; i++)
    requests[i] = request_of(&reach, i % 3 ? PST_OP_WRITE : PST_OP_READ, i, i);
  int taken = contract_post(side, 0, requests, 8, &wait);
  assert_int_equal(taken, 8);
  taken += contract_post(side, 0, requests + 8, 8, &wait);
  assert_int_equal(taken, 16);
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[0], PST_CLOSE_ABORT,
                                                   contract_now_ns() + 100000000u),
                   0);
  contract_await(side, &reach.pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  ended = take_all(side, true);
  assert_int_equal(ended, 16);
  contract_pair_close(reach.pair);
}

/* Where the peer has gone nothing is completed any more. */
static void nothing_is_completed_when_the_peer_has_gone(void **state)
{
  contract_rule("All requests taken have ended with status 0");
  struct reach reach = open_reach(state);
  struct contract_side *side = &reach.pair->sender, *far = &reach.pair->receiver;
  struct pst_request read = request_of(&reach, PST_OP_READ, 1, 0);
  contract_post_one(reach.pair, &read);
  contract_await_done(side, far, PST_OP_READ, 1, 0);
  assert_int_equal(far->image.ops->endpoint_close(far->endpoints[0], PST_CLOSE_ABORT,
                                                  contract_now_ns() + 100000000u),
                   0);
  contract_await(far, side, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  contract_await(side, far, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t wait = PST_WAIT_NONE;
    int rc = contract_post(side, 0, &read, 1, &wait);
    if (rc == 1)
      contract_await_done(side, NULL, PST_OP_READ, 1, -ECONNRESET);
    else
      assert_int_equal(rc, -ECONNRESET);
  }
  contract_pair_close(reach.pair);
  contract_complaints();
}

int contract_complete_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(all_end_once_however_they_end),
      CONTRACT_CASE(bytes_are_there_when_it_ends),
      CONTRACT_CASE(requests_of_one_kind_end_in_post_order),
      CONTRACT_CASE(abort_ends_the_others_once),
      CONTRACT_CASE(nothing_is_completed_when_the_peer_has_gone),
  };
  return CONTRACT_RUN("completed", cases, variant);
}
