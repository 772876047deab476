/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active messages that no peer of ours sends: those of another run, and those that break the
 * protocol. They are handed to the receiving end as UCX hands it one.
 *
 *     ucx-hostile PLUGIN
 */
#include <stdio.h>

#include "harness.h"

/* Behind cmocka's macros, which it has names in common with. */
#undef fail
#include "../../transports/ucx/endpoint.h"

#define SLOTS 16
#define BYTES 256

static const char *const options[] = {"tls=posix,self", NULL};
static struct contract_variant variant = {.name = "hostile", .option_list = options, .apart = true};
/* Without cma a rendezvous takes polls of both ends. */
static const char *const fetch_options[] = {"tls=posix,self", "rendezvous_from=64", NULL};
static struct contract_variant fetching = {
    .name = "hostile, fetching", .option_list = fetch_options, .apart = true};
static const struct contract_params params = {
    .endpoints = 1, .slots = SLOTS, .message = BYTES, .requests = 64, .pieces = 1};

/* As much as any of them needs; records first where it is a list. */
static uint8_t payload[4096];

static void hand(struct contract_side *side, const struct ucx_header *header, size_t bytes)
{
  struct ucx_link *link = side->endpoints[0]->link;
  const ucp_am_recv_param_t plain = {0};
  link->receive(link, header, sizeof(*header), payload, bytes, &plain);
}

static void one_message_goes(struct contract_pair *pair)
{
  struct pst_request request = contract_send(&pair->sender, 0, BYTES, 7);
  contract_fill(pair->sender.memory.region.host, BYTES, 7);
  contract_post_one(pair, &request);
  struct pst_completion message =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(message.u.message.sequence, 7);
  contract_bytes_are(contract_payload(&pair->receiver, &message), BYTES, 7);
  contract_release(&pair->receiver, &message);
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 1, 0);
}

/* Each kind would do something if it were meant for this endpoint. */
static void another_run_does_not_count(void **state)
{
  (void)state;
  contract_rule("an accepted SEND arrives once, or the endpoint fails");
  for (uint8_t kind = 0; kind <= UCX_FOUND + 1; kind++) {
    struct contract_pair *pair = contract_pair_open(&variant, &params);
    contract_pair_connect(pair);
    const struct ucx_link *link = pair->receiver.endpoints[0]->link;
    struct ucx_header header = {
        .kind = kind, .count = 1, .length = BYTES, .nonce = link->nonce ^ 1};
    hand(&pair->receiver, &header, BYTES);
    header.nonce = link->peer.nonce;
    hand(&pair->receiver, &header, BYTES);
    one_message_goes(pair);
    contract_pair_close(pair);
    assert_int_equal(contract_complaints(), 0);
  }
}

struct bad {
  const char *what;
  struct ucx_header header;
  size_t bytes;
};

static const struct bad all_bad[] = {
    {"no kind", {.kind = 0}, 0},
    {"a kind of later releases", {.kind = UCX_FOUND + 1}, 0},
    {"a run longer than what came", {.kind = UCX_RUN, .count = 2, .length = BYTES}, BYTES},
    {"a run shorter than what came", {.kind = UCX_RUN, .count = 1, .length = 8}, 9},
    {"a run whose length overflows",
     {.kind = UCX_RUN, .count = UINT16_MAX, .length = UINT32_MAX},
     0xfffe0001u & 0xfff},
    {"a message longer than a slot", {.kind = UCX_RUN, .count = 1, .length = BYTES + 1}, BYTES + 1},
    {"more than there are credits", {.kind = UCX_RUN, .count = SLOTS + 1, .length = 0}, 0},
    {"a place that has no credit", {.kind = UCX_RUN, .count = 1, .position = SLOTS}, 0},
    {"a place far away", {.kind = UCX_RUN, .count = 1, .position = UINT64_MAX}, 0},
    {"a list without its records", {.kind = UCX_LIST, .count = 2}, 24},
    {"a list of more than came", {.kind = UCX_LIST, .count = 1}, 24},
    {"a part behind its message's end",
     {.kind = UCX_PART, .length = BYTES, .offset = BYTES - 7},
     8},
    {"a part whose offset overflows",
     {.kind = UCX_PART, .length = BYTES, .offset = UINT64_MAX - 3},
     8},
    {"a part of a message longer than a slot", {.kind = UCX_PART, .length = BYTES + 1}, 8},
    {"a part without credit", {.kind = UCX_PART, .length = BYTES, .position = SLOTS}, 8},
    {"an offer that is none", {.kind = UCX_WHOLE, .length = 8}, 8},
    {"an answer to what was not asked", {.kind = UCX_FLUSHED, .position = 1}, 0},
    {"an answer to WRITEs that did not go", {.kind = UCX_FLUSHED, .sequence = 1}, 0},
    {"one-sided access to an endpoint without", {.kind = UCX_WRITE}, 8},
    {"an end behind more than there are credits", {.kind = UCX_BYE, .position = SLOTS + 1}, 0},
};

static void a_peer_that_breaks_the_protocol_is_disconnected(void **state)
{
  (void)state;
  contract_rule(
      "The peer has left, or its address no longer answers; `status` says why. DONEs may follow.");
  for (size_t i = 0; i < sizeof(all_bad) / sizeof(all_bad[0]); i++) {
    struct contract_pair *pair = contract_pair_open(&variant, &params);
    contract_pair_connect(pair);
    struct ucx_header header = all_bad[i].header;
    header.nonce = pair->receiver.endpoints[0]->link->nonce;
    memset(payload, 0xff, sizeof(payload));
    hand(&pair->receiver, &header, all_bad[i].bytes);
    struct pst_completion gone = contract_await(&pair->receiver, &pair->sender,
                                                PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
    const uint32_t complaints = contract_complaints();
    if (gone.status != -EPROTO || complaints != 1)
      print_error("%s\n", all_bad[i].what);
    assert_int_equal(gone.status, -EPROTO);
    assert_int_equal(complaints, 1);
    contract_pair_close(pair);
    contract_complaints();
  }
}

/* The sender of a message that came twice is no peer of ours. */
static void no_message_comes_twice(void **state)
{
  (void)state;
  contract_rule("an accepted SEND arrives once, or the endpoint fails");
  struct contract_pair *pair = contract_pair_open(&variant, &params);
  contract_pair_connect(pair);
  struct ucx_header header = {.kind = UCX_RUN,
                              .count = 1,
                              .length = BYTES,
                              .nonce = pair->receiver.endpoints[0]->link->nonce};
  hand(&pair->receiver, &header, BYTES);
  hand(&pair->receiver, &header, BYTES);
  struct pst_completion message = contract_await(&pair->receiver, NULL, PST_COMPLETION_MESSAGE, 0);
  struct pst_completion gone =
      contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -EPROTO);
  assert_false(contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &message));
  contract_pair_close(pair);
  contract_complaints();
}

/* UCX would write to its slot behind the MESSAGE. */
static void no_part_ends_what_is_fetched(void **state)
{
  (void)state;
  contract_rule("an accepted SEND arrives once, or the endpoint fails");
  struct contract_pair *pair = contract_pair_open(&fetching, &params);
  contract_pair_connect(pair);
  const struct ucx_link *link = pair->receiver.endpoints[0]->link;
  const struct ucx_header part = {.kind = UCX_PART, .length = BYTES, .nonce = link->nonce};
  struct pst_request request = contract_send(&pair->sender, 0, BYTES, 7);
  struct pst_completion message;
  contract_post_one(pair, &request);
  for (int i = 0; i < 100000 && !link->fetches; i++)
    contract_poll(&pair->receiver);
  assert_int_equal(link->fetches, 1);
  hand(&pair->receiver, &part, BYTES);
  struct pst_completion gone =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -EPROTO);
  assert_false(contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &message));
  contract_pair_close(pair);
  contract_complaints();
}

int main(int argc, char **argv)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(another_run_does_not_count),
      CONTRACT_CASE(a_peer_that_breaks_the_protocol_is_disconnected),
      CONTRACT_CASE(no_message_comes_twice),
      CONTRACT_CASE(no_part_ends_what_is_fetched),
  };

  if (argc != 2) {
    fprintf(stderr, "usage: %s PLUGIN\n", argv[0]);
    return 2;
  }
  variant.plugin = fetching.plugin = argv[1];
  return CONTRACT_MAIN("ucx hostile", cases, &variant);
}
