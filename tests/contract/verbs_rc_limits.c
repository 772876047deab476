/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_rc on simulated devices whose queues are not as they were asked for. More is harmless,
 * fewer inline bytes are made do with; less than is needed of anything else is refused with what it
 * was, and leaves nothing behind.
 *
 *     penstock-simverbs --fabric verbs_rc_limits.yaml verbs-rc-limits PLUGIN LAUNCHER
 */
#include <stdio.h>

#include "simulated.h"

static struct contract_variant variants[] = {
    {.name = "rounds up", .options = "device=rounds0"},
    {.name = "rounds up by send", .options = "device=rounds0,operation=send"},
    {.name = "rounds up over four", .options = "device=rounds0,qps=4"},
    {.name = "rounds up shared", .options = "device=rounds0,srq=true,operation=send"},
    {.name = "refuses inline", .options = "device=refuses0"},
    {.name = "less inline", .options = "device=inline0"},
    {.name = "less inline over four", .options = "device=inline0,qps=4"},
    {.name = "no inline", .options = "device=none0"},
    {.name = "fewer sends", .options = "device=sends0"},
    {.name = "fewer sends over four", .options = "device=sends0,qps=4"},
    {.name = "fewer receives", .options = "device=receives0"},
    {.name = "fewer pieces", .options = "device=pieces0"},
    {.name = "fewer completions", .options = "device=cqe0"},
    {.name = "fewer shared", .options = "device=pool0,srq=true,operation=send"},
    {.name = "pool", .options = "device=pool0,srq=true"},
    {.name = "no atomics", .options = "device=plain0"},
    {.name = "nine queue pairs", .options = "device=qp0"},
    {.name = "nine queue pairs by two", .options = "device=qp0,qps=2"},
    {.name = "four domains", .options = "device=pd0"},
    {.name = "seven registrations", .options = "device=mr0"},
    {.name = "1000 completions", .options = "device=full0"},
    {.name = "1000 completions over two", .options = "device=full0,qps=2"},
    {.name = "adapter", .options = "device=mlx5_0"},
    {.name = "adapter by send", .options = "device=mlx5_0,operation=send"},
    {.name = "empty P_Key", .options = "device=empty0"},
    {.name = "limited member", .options = "device=limited0,timeout=1,retry_cnt=1"},
    {.name = "no subnet manager", .options = "device=init0"},
    {.name = "one shared queue", .options = "device=srq0,srq=true"},
};
enum {
  ROUNDS,
  ROUNDS_SEND,
  ROUNDS_FOUR,
  ROUNDS_SHARED,
  REFUSES,
  LESS_INLINE,
  LESS_INLINE_FOUR,
  NO_INLINE,
  SENDS,
  SENDS_FOUR,
  RECEIVES,
  PIECES,
  COMPLETIONS,
  SHARED,
  POOL,
  NO_ATOMICS,
  FEW_QPS,
  FEW_QPS_TWO,
  FEW_PDS,
  FEW_MRS,
  FEW_CQES,
  FEW_CQES_TWO,
  ADAPTER,
  ADAPTER_SEND,
  EMPTY_PKEY,
  LIMITED,
  NO_MANAGER,
  ONE_SRQ,
};

/* They give a sender's queue pair 72 sends, and a receiver's by WRITE 52 sends and 22 receives. */
static const struct contract_params params = {
    .endpoints = 1, .slots = 20, .message = 200, .requests = 64, .pieces = 3};

enum { MESSAGES = 600 };

/* ---- Successes --------------------------------------------------------------------------------
 */

/* Messages of each length, as many under way as there is credit or room for. */
static void stream(struct contract_pair *pair)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns, count = MESSAGES;
  struct contract_side *side = &pair->sender;
  struct pst_completion one;
  uint64_t posted = 0, done = 0, delivered = 0;
  uint32_t wait;
  while (done < count || delivered < count) {
    const uint64_t length = posted % (params.message + 1);
    const uint64_t offset = posted % params.slots * side->stride;
    if (posted < count && posted - done < params.slots) {
      contract_fill((uint8_t *)side->memory.region.host + offset, length, posted);
      const struct pst_request request = contract_send(side, offset, length, posted);
      const int rc = contract_post(side, 0, &request, 1, &wait);
      assert_true(rc == 1 || rc == -EAGAIN);
      posted += rc == 1;
    }
    contract_poll(side);
    contract_poll(&pair->receiver);
    while (contract_take(side, PST_COMPLETION_DONE, PST_OP_SEND, &one)) {
      assert_int_equal(one.status, 0);
      done += one.u.done.count;
    }
    while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &one)) {
      assert_int_equal(one.u.message.sequence, delivered);
      assert_int_equal(one.u.message.length, delivered % (params.message + 1));
      assert_true(contract_verify(contract_payload(&pair->receiver, &one), one.u.message.length,
                                  delivered));
      delivered++;
      contract_release(&pair->receiver, &one);
    }
    contract_in_time(deadline, "%" PRIu64 " messages, of which %" PRIu64 " arrived", count,
                     delivered);
  }
}

/* A stream goes, and the sender's words are these, too. */
static void streams(int which, const char *words)
{
  struct contract_pair *pair = contract_pair_open(&variants[which], &params);
  char text[512];
  contract_pair_connect(pair);
  assert_int_equal(pair->sender.image.ops->describe(pair->sender.endpoints[0], text, sizeof(text)),
                   0);
  if (!strstr(text, words))
    fail_msg("%s: no \"%s\" in: %s", variants[which].name, words, text);
  stream(pair);
  contract_pair_close(pair);
  assert_int_equal(contract_complaints(), 0);
}

static void more_than_asked_for_is_harmless(void **state)
{
  (void)state;
  streams(ROUNDS, "queues of 72 sends (128 given) and 36 receives (64 given), inline 128 bytes");
  streams(ROUNDS_SEND, "queues of 72 sends (128 given)");
  streams(ROUNDS_FOUR, "queues of 72 sends (128 given)");
  streams(ROUNDS_SHARED, "queues of 72 sends (128 given) and shared receives");
}

/* Each message is released at once, and none has a message of credit of its own: these come by
 * quarters of the slots, 5 of 20. */
static void credit_waits_for_company(void **state)
{
  const int kinds[] = {ROUNDS, ROUNDS_SEND, ROUNDS_FOUR, ROUNDS_SHARED};
  (void)state;
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
    struct contract_pair *pair = contract_pair_open(&variants[kinds[i]], &params);
    contract_pair_connect(pair);
    stream(pair);
    const uint64_t sent =
        simulated_counter(&pair->receiver, pair->receiver.endpoints[0], "credit_messages_sent");
    assert_in_range(sent, MESSAGES / params.slots, MESSAGES / (params.slots / 4) + 1);
    contract_pair_close(pair);
  }
}

static void fewer_inline_bytes_do(void **state)
{
  (void)state;
  streams(REFUSES, "queues of 72 sends (128 given) and 36 receives, inline 60 bytes");
  streams(LESS_INLINE, "inline 24 bytes");
  streams(LESS_INLINE_FOUR, "inline 24 bytes");
  streams(NO_INLINE, "inline 0 bytes");
}

/* mlx5 has fewer requests than a ring has slots, by what each may hold. */
static void large_rings_open(void **state)
{
  const uint32_t slots[] = {8192, 16384}, pieces[] = {1, 16, 30};
  (void)state;
  for (uint32_t i = 0; i < 2 * 3 * 3; i++) {
    struct contract_params large = params;
    large.slots = slots[i % 2];
    large.requests = large.slots + 1;
    large.pieces = pieces[i / 2 % 3];
    large.roles_more = i / 6 == 1 ? PST_ROLE_RMA : 0;
    struct contract_pair *pair =
        contract_pair_open(&variants[i / 6 == 2 ? ADAPTER_SEND : ADAPTER], &large);
    contract_pair_connect(pair);
    stream(pair);
    contract_pair_close(pair);
    assert_int_equal(contract_complaints(), 0);
  }
}

/* By two queue pairs each: what sends credit is in another domain than what receives it, and goes
 * inline where it fits. */
static void nodes(int which)
{
  struct contract_params mine = params;
  mine.roles_more = PST_ROLE_RMA;
  mine.domain = 1;
  struct contract_pair *pair = contract_pair_open(&variants[which], &mine);
  struct contract_side *side = &pair->sender;
  const struct pst_mr_params mr = {.struct_size = sizeof(mr),
                                   .access = PST_ACCESS_LOCAL_READ,
                                   .region = &side->memory.region,
                                   .length = side->memory.region.length};
  side->image.ops->mr_deregister(side->device, side->mr);
  assert_int_equal(side->image.ops->mr_register(side->device, &mr, &side->mr), 0);
  contract_pair_connect(pair);
  stream(pair);
  assert_true(
      simulated_counter(&pair->receiver, pair->receiver.endpoints[0], "credit_messages_sent") > 0);
  contract_pair_close(pair);
  assert_int_equal(contract_complaints(), 0);
}

static void nodes_send_credit_by_what_there_is(void **state)
{
  (void)state;
  nodes(ROUNDS);
  nodes(LESS_INLINE);
  nodes(NO_INLINE);
}

static void a_pool_of_what_there_is_does(void **state)
{
  /* Each receiver has reserved 50 slots' and 4 more: a pool of 100 has room for one. */
  static const struct contract_params wide = {
      .endpoints = 4, .slots = 200, .message = 200, .requests = 64, .pieces = 1};
  (void)state;
  struct contract_pair *pair = contract_pair_open(&variants[POOL], &wide);
  contract_pair_connect(pair);
  assert_int_equal(simulated_counter(&pair->receiver, NULL, "shared_receives"), 4 * 54);
  assert_int_equal(simulated_counter(&pair->receiver, NULL, "shared_receives_missing"), 0);
  contract_pair_close(pair);
  assert_int_equal(contract_complaints(), 0);
  streams(POOL, "shared receives");
}

/* ---- Refusals ---------------------------------------------------------------------------------
 */

static struct pst_endpoint *try_open(struct contract_side *side, uint32_t requests, uint32_t pieces,
                                     int expected)
{
  const struct pst_endpoint_params in = {.struct_size = sizeof(in),
                                         .roles = side->ring ? PST_ROLE_RECEIVER : PST_ROLE_SENDER,
                                         .ring = side->ring,
                                         .cookie = 1,
                                         .label = "mine",
                                         .options = side->options,
                                         .requests = requests,
                                         .pieces = pieces,
                                         .message_max = params.message};
  struct pst_endpoint *made = NULL;
  assert_int_equal(side->image.ops->endpoint_open(side->worker, &in, &made), expected);
  return made;
}

/* A device's QPs, CQs, MRs, PDs and SRQs. */
static uint64_t objects(void)
{
  return simulated_said("show", "0: ") + simulated_said("show", " QPs, ") +
         simulated_said("show", " CQs, ") + simulated_said("show", " MRs, ") +
         simulated_said("show", " PDs, ");
}

/* Each of three attempts to open an endpoint is refused in these words, and leaves no object. */
static void is_refused(struct contract_side *side, uint32_t requests, const char *words)
{
  const uint64_t before = objects();
  contract_complaints();
  for (uint32_t i = 0; i < 3; i++) {
    assert_null(try_open(side, requests, 3, -ENOSPC));
    assert_int_equal(contract_complaints(), 1);
    if (!strstr(contract_complaint(), words))
      fail_msg("no \"%s\" in: %s", words, contract_complaint());
  }
  assert_int_equal(simulated_counter(side, NULL, "completions_reserved"), 0);
  assert_int_equal(objects(), before);
}

/* Without endpoints; with a ring of so many slots, or none. */
static void open_side(int which, uint32_t slots, struct contract_side *side)
{
  struct contract_params mine = params;
  memset(side, 0, sizeof(*side));
  mine.endpoints = 0;
  mine.slots = slots + 1;
  contract_side_open(&variants[which], &mine, false, false, side);
  if (!slots)
    return;
  side->image.ops->mr_deregister(side->device, side->mr);
  const struct pst_mr_params mr = {.struct_size = sizeof(mr),
                                   .access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING,
                                   .region = &side->memory.region,
                                   .length = side->memory.region.length};
  assert_int_equal(side->image.ops->mr_register(side->device, &mr, &side->mr), 0);
  mine.endpoints = 1;
  mine.slots = slots;
  contract_ring_open(side, &mine, side->mr, &side->ring);
}

/* One with fewer requests and pieces goes. */
static void a_sender_is_refused(int which, const char *words)
{
  struct contract_side side;
  open_side(which, 0, &side);
  is_refused(&side, 200, words);
  side.endpoints[0] = try_open(&side, 10, 1, 0);
  contract_side_close(&side);
}

static void a_receiver_is_refused(int which, const char *words)
{
  struct contract_side side;
  open_side(which, 200, &side);
  is_refused(&side, 0, words);
  contract_side_close(&side);
}

static void less_than_is_needed_is_refused(void **state)
{
  (void)state;
  a_sender_is_refused(SENDS, "mine: ibv_create_qp on sends0 granted less than was requested: 100 "
                             "of 208 sends;");
  a_sender_is_refused(SENDS_FOUR,
                      "mine, queue pair 1 of `qps: 4`: ibv_create_qp on sends0 granted less");
  a_sender_is_refused(PIECES, "granted less than was requested: 2 of 3 pieces of a send;");
  a_sender_is_refused(COMPLETIONS, "ibv_resize_cq granted less than was requested; it has 127");
  a_receiver_is_refused(RECEIVES, "granted less than was requested: 30 of 204 receives;");
  a_receiver_is_refused(SHARED, "ibv_create_srq on pool0 granted less than was requested: 100 of "
                                "200 receives, of 1 pieces, where 200 receives are needed;");
}

/* EINVAL is not an option's fault, and so EIO to the host; it is still what the call said. */
static void the_calls_own_error_is_reported(void **state)
{
  (void)state;
  struct contract_side side;
  open_side(ADAPTER, 0, &side);
  simulated_ctl("refuse-registration host/mlx5_0 --error EINVAL");
  contract_complaints();
  assert_null(try_open(&side, 20, 3, -EIO));
  assert_int_equal(contract_complaints(), 1);
  assert_non_null(strstr(contract_complaint(), "ibv_reg_mr of "));
  assert_non_null(strstr(contract_complaint(), "for credits: Invalid argument"));
  simulated_ctl("clear");
  contract_side_close(&side);
}

/* ---- Values of an InfiniBand subnet -----------------------------------------------------------
 */

static void an_empty_p_key_is_refused(void **state)
{
  (void)state;
  const struct contract_variant *variant = &variants[EMPTY_PKEY];
  struct contract_image image;
  struct pst_device *device = NULL;
  contract_image_open(variant, false, &image);
  assert_int_equal(contract_device_try(variant, &image, true, false, &device), -ENODEV);
  assert_int_equal(contract_complaints(), 1);
  assert_non_null(strstr(contract_complaint(), "entry 0 of the port's P_Key table"));
}

/* Two limited members of a P_Key cannot talk: the error lists InfiniBand's causes. */
static void limited_members_of_p_keys_are_reported(void **state)
{
  (void)state;
  struct contract_params brief = params;
  struct pst_blob blob;
  brief.timeout_ns = 100000000;
  struct contract_pair *pair = contract_pair_open(&variants[LIMITED], &brief);
  contract_address(&pair->receiver, 0, &blob);
  assert_int_equal(contract_connect(&pair->sender, 0, &blob), 0);
  contract_address(&pair->sender, 0, &blob);
  assert_int_equal(contract_connect(&pair->receiver, 0, &blob), 0);
  contract_complaints();
  contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_non_null(strstr(contract_complaint(), "`pkey_index`"));
  assert_non_null(strstr(contract_complaint(), "sminfo"));
  assert_null(strstr(contract_complaint(), "hop_limit"));
  contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  contract_pair_close(pair);
  contract_complaints();
}

static void a_port_that_waits_for_a_subnet_manager_says_so(void **state)
{
  (void)state;
  const struct contract_variant *variant = &variants[NO_MANAGER];
  struct contract_image image;
  struct pst_device *device = NULL;
  contract_image_open(variant, false, &image);
  assert_int_equal(contract_device_try(variant, &image, true, false, &device), 0);
  assert_int_equal(contract_complaints(), 1);
  assert_non_null(strstr(contract_complaint(), "is not configured by a subnet manager"));
  assert_non_null(strstr(contract_complaint(), "`sminfo`"));
  image.ops->close(device);
}

/* READ and WRITE it has; memory for the others is refused in words. */
static void atomics_that_a_device_lacks_are_refused(void **state)
{
  const uint64_t onesided = PST_CAP_READ | PST_CAP_WRITE | PST_CAP_ATOMIC;
  struct contract_side side;
  struct pst_mr *mr = NULL;

  (void)state;
  open_side(NO_ATOMICS, 0, &side);
  assert_int_equal(side.limits.capabilities & onesided, PST_CAP_READ | PST_CAP_WRITE);
  struct pst_mr_params params_of = {.struct_size = sizeof(params_of),
                                    .access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_REMOTE_ATOMIC,
                                    .region = &side.memory.region,
                                    .length = side.memory.region.length};
  assert_int_equal(side.image.ops->mr_register(side.device, &params_of, &mr), -EINVAL);
  assert_null(mr);
  assert_non_null(strstr(contract_complaint(), "the device has no atomics"));
  params_of.access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_REMOTE_WRITE;
  assert_int_equal(side.image.ops->mr_register(side.device, &params_of, &mr), 0);
  side.image.ops->mr_deregister(side.device, mr);
  contract_side_close(&side);
}

/* ---- How many ---------------------------------------------------------------------------------
 */

enum { PEERS = 64, DEPTH = 16 };

/* As a node's: one domain each, one worker. */
struct peers {
  struct contract_side side;
  struct contract_region memory[PEERS];
  struct pst_mr *mrs[PEERS];
  struct pst_ring *rings[PEERS];
  struct pst_endpoint *endpoints[PEERS];
  uint32_t count;
};

static void open_device(int which, uint32_t flags, struct contract_side *side)
{
  const struct pst_plan plan = {.struct_size = sizeof(plan),
                                .flags = flags,
                                .workers = 1,
                                .rings = PEERS,
                                .senders = PEERS,
                                .receivers = PEERS,
                                .rma = PEERS,
                                .requests = 2 * DEPTH,
                                .pieces = 1,
                                .ring_slots = PEERS * DEPTH,
                                .message_max = params.message,
                                .domains = PEERS};
  contract_image_open(&variants[which], false, &side->image);
  side->options =
      contract_options(side->image.plugin->described->description, variants[which].options, NULL);
  const struct pst_open_params in = {
      .struct_size = sizeof(in), .options = side->options, .plan = &plan};
  assert_int_equal(side->image.ops->open(&contract_host, &in, &side->device), 0);
  side->limits.struct_size = sizeof(side->limits);
  assert_int_equal(side->image.ops->limits(side->device, &side->limits), 0);
}

/* Opens the objects that a node opens for a peer. False: the device has no more. */
static bool open_peer(struct peers *peers)
{
  const struct pst_transport_ops *ops = peers->side.image.ops;
  const uint32_t i = peers->count++;
  const uint64_t stride = params.message;
  struct pst_path_info path = {.struct_size = sizeof(path)};
  contract_region_make(DEPTH * stride, &peers->memory[i]);
  const struct pst_mr_params mr = {.struct_size = sizeof(mr),
                                   .access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING,
                                   .region = &peers->memory[i].region,
                                   .length = DEPTH * stride,
                                   .domain = i + 1};
  if (ops->mr_register(peers->side.device, &mr, &peers->mrs[i]) < 0)
    return false;
  const struct pst_ring_params ring = {.struct_size = sizeof(ring),
                                       .slots = DEPTH,
                                       .mr = peers->mrs[i],
                                       .stride = stride,
                                       .payload_max = params.message,
                                       .endpoints = 1};
  assert_int_equal(ops->ring_open(peers->side.worker, &ring, &path, &peers->rings[i]), 0);
  const struct pst_endpoint_params endpoint = {.struct_size = sizeof(endpoint),
                                               .roles = PST_ROLE_SENDER | PST_ROLE_RECEIVER |
                                                        PST_ROLE_RMA,
                                               .ring = peers->rings[i],
                                               .cookie = i + 1,
                                               .options = peers->side.options,
                                               .label = "peer",
                                               .requests = 2 * DEPTH,
                                               .pieces = 1,
                                               .message_max = params.message,
                                               .domain = i + 1};
  return ops->endpoint_open(peers->side.worker, &endpoint, &peers->endpoints[i]) == 0;
}

static void close_peers(struct peers *peers)
{
  const struct pst_transport_ops *ops = peers->side.image.ops;
  for (uint32_t i = 0; i < peers->count; i++) {
    if (!peers->endpoints[i])
      continue;
    assert_int_equal(ops->endpoint_close(peers->endpoints[i], PST_CLOSE_ABORT, 0), 0);
    contract_await(&peers->side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  }
  for (uint32_t i = 0; i < peers->count; i++) {
    ops->ring_close(peers->side.worker, peers->rings[i]);
    ops->mr_deregister(peers->side.device, peers->mrs[i]);
    contract_region_free(&peers->memory[i]);
  }
}

/* `most` peers open. One more is refused by the device, the message names the limit, and nothing of
 * that peer is left. */
static void peers_are(int which, uint32_t most, const char *reason, const char *words)
{
  const uint64_t before = objects();
  struct peers peers = {0};
  contract_complaints();
  open_device(which, PST_PLAN_PEERS, &peers.side);
  assert_string_equal(peers.side.limits.endpoints_reason, reason);
  assert_int_equal(peers.side.limits.endpoints_max, most);
  assert_int_equal(peers.side.limits.device_endpoints_max, most);
  assert_int_equal(peers.side.image.ops->worker_open(peers.side.device, 0, &peers.side.worker), 0);
  for (uint32_t i = 0; i < most; i++)
    if (!open_peer(&peers))
      fail_msg("%s: peer %u of %u: %s", variants[which].name, i + 1, most, contract_complaint());
  if (contract_complaints())
    fail_msg("%s: %s", variants[which].name, contract_complaint());
  assert_false(open_peer(&peers));
  assert_int_equal(contract_complaints(), 1);
  if (!strstr(contract_complaint(), words))
    fail_msg("no \"%s\" in: %s", words, contract_complaint());
  close_peers(&peers);
  contract_side_close(&peers.side);
  assert_int_equal(objects(), before);
}

static void as_many_peers_as_announced_open(void **state)
{
  (void)state;
  peers_are(FEW_QPS, 4, "max_qp is 9, of which each takes 2",
            "the device has at most 9 queue pairs for all processes, of 32768 requests each "
            "(`ibv_devinfo -v`: max_qp, max_qp_wr; in use: `rdma resource`)");
  peers_are(FEW_QPS_TWO, 2, "max_qp is 9, of which each takes 4", "at most 9 queue pairs");
  peers_are(FEW_PDS, 3, "max_pd is 4, of which each takes 1 and the device 1",
            "the device has at most 4 protection domains for all processes (`ibv_devinfo -v`: "
            "max_pd; in use: `rdma resource`)");
  peers_are(FEW_MRS, 3, "max_mr is 7, of which each takes 2", "max_mr");
  peers_are(FEW_CQES, 8, "max_cqe is 1000, of which each takes 124", "max_cqe");
  peers_are(FEW_CQES_TWO, 5, "max_cqe is 1000, of which each takes 173", "max_cqe");
  peers_are(ONE_SRQ, 36, "max_srq is 1 of max_srq_wr 4096, of which each takes 28 receives",
            "max_srq");
}

/* Streams have one queue pair an end, or `qps`, and a domain where they receive. */
static void streams_count_queue_pairs_once(void **state)
{
  (void)state;
  for (int qps = 1; qps <= 2; qps++) {
    struct contract_side side = {0};
    open_device(qps == 1 ? FEW_QPS : FEW_QPS_TWO, 0, &side);
    assert_int_equal(side.limits.endpoints_max, 9 / qps);
    assert_int_equal(side.limits.device_endpoints_max, 9 / qps);
    contract_side_close(&side);
  }
  struct contract_side side = {0};
  open_device(FEW_PDS, 0, &side);
  assert_int_equal(side.limits.domains_max, 3);
  contract_side_close(&side);
}

/* 512 messages of 1462 bytes are 30 us of 200 Gb/s. */
static void a_ring_that_lasts_for_less_than_100_us_is_reported(void **state)
{
  (void)state;
  struct contract_params wide = {
      .endpoints = 1, .slots = 512, .message = 1462, .requests = 16, .pieces = 1};
  struct contract_side side = {0};
  char line[512];
  contract_listen("a ring of ");
  contract_side_open(&variants[ADAPTER], &wide, false, true, &side);
  contract_side_close(&side);
  assert_int_equal(contract_heard(line, sizeof(line)), PST_LOG_DEBUG);
  assert_non_null(strstr(line, "lasts 29.9 us at the 200 Gbit/s of mlx5_0"));
  assert_non_null(strstr(line, "`ring: 2048` lasts 120 us"));
  wide.slots = 2048;
  side = (struct contract_side){0};
  contract_side_open(&variants[ADAPTER], &wide, false, true, &side);
  contract_side_close(&side);
  assert_int_equal(contract_heard(line, sizeof(line)), -1);
  contract_listen(NULL);
}

int main(int argc, char **argv)
{
  if (argc != 3) {
    fprintf(stderr, "usage: %s PLUGIN LAUNCHER\n", argv[0]);
    return 2;
  }
  for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
    variants[i].plugin = argv[1];
  simulated_launcher = argv[2];
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(more_than_asked_for_is_harmless),
      CONTRACT_CASE(credit_waits_for_company),
      CONTRACT_CASE(fewer_inline_bytes_do),
      CONTRACT_CASE(large_rings_open),
      CONTRACT_CASE(a_ring_that_lasts_for_less_than_100_us_is_reported),
      CONTRACT_CASE(nodes_send_credit_by_what_there_is),
      CONTRACT_CASE(a_pool_of_what_there_is_does),
      CONTRACT_CASE(less_than_is_needed_is_refused),
      CONTRACT_CASE(the_calls_own_error_is_reported),
      CONTRACT_CASE(an_empty_p_key_is_refused),
      CONTRACT_CASE(limited_members_of_p_keys_are_reported),
      CONTRACT_CASE(a_port_that_waits_for_a_subnet_manager_says_so),
      CONTRACT_CASE(atomics_that_a_device_lacks_are_refused),
      CONTRACT_CASE(as_many_peers_as_announced_open),
      CONTRACT_CASE(streams_count_queue_pairs_once),
  };
  return CONTRACT_MAIN("what devices give", cases, &variants[0]);
}
