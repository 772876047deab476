/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints of verbs_dc that take turns on fewer initiators than they are.
 *
 *     penstock-simverbs verbs-dc-pool PLUGIN LAUNCHER STREAMS RESETS
 *
 * STREAMS: true or false, the option; RESETS: the counter that an error of one peer adds to.
 */
#include <stdio.h>

#include "harness.h"
#include "simulated.h"

#define MESSAGES 300u /* of each sender */

static const char *streams, *resets;

/* Options of one case, and whether there are streams. */
static struct contract_variant variant_of(void **state, const char *options)
{
  static char all[8][256];
  static uint32_t used;
  char *words = all[used++ % 8];
  struct contract_variant variant = *(const struct contract_variant *)*state;

  snprintf(words, sizeof(all[0]), "device=mlx5_0,initiators=1,streams=%s,%s", streams, options);
  variant.options = words;
  return variant;
}

static const struct contract_params params = {
    .endpoints = CONTRACT_ENDPOINTS, .slots = 64, .message = 256, .requests = 16, .pieces = 1};

static uint64_t worker_counter(const struct contract_side *side, const char *name)
{
  return simulated_counter(side, NULL, name);
}

/* Post what it still has to. */
static void post_some(struct contract_pair *pair, uint32_t k, uint64_t *next)
{
  uint32_t wait;

  while (*next < MESSAGES) {
    struct pst_request request = contract_send(&pair->sender, k * 256, 256, *next);
    const int rc = contract_post(&pair->sender, k, &request, 1, &wait);
    if (rc == -EAGAIN)
      return;
    assert_int_equal(rc, 1);
    (*next)++;
  }
}

/* Each as fast as it can. All of them get through, in the order of each. */
static void all_get_through(struct contract_pair *pair)
{
  uint64_t next[CONTRACT_ENDPOINTS] = {0}, expected[CONTRACT_ENDPOINTS] = {0};
  uint64_t taken = 0, most_waiting = 0;

  while (taken < (uint64_t)CONTRACT_ENDPOINTS * MESSAGES) {
    struct pst_completion message;
    for (uint32_t k = 0; k < CONTRACT_ENDPOINTS; k++)
      post_some(pair, k, &next[k]);
    const uint64_t waiting = worker_counter(&pair->sender, "endpoints_waiting");
    most_waiting = waiting > most_waiting ? waiting : most_waiting;
    contract_poll(&pair->sender);
    contract_poll(&pair->receiver);
    while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &message)) {
      const uint64_t k = message.endpoint - 1;
      assert_true(message.u.message.sequence == expected[k]);
      expected[k]++;
      taken++;
      contract_release(&pair->receiver, &message);
    }
  }
  assert_true(most_waiting > 0);
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND,
                      (uint64_t)CONTRACT_ENDPOINTS * MESSAGES, 0);
}

/* Waits until the worker's counter has that value. */
static void await_counter(struct contract_side *side, struct contract_side *other, const char *name,
                          uint64_t value)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;

  while (worker_counter(side, name) != value) {
    contract_in_time(deadline, "%s to be %" PRIu64 ": it is %" PRIu64, name, value,
                     worker_counter(side, name));
    contract_poll(side);
    contract_poll(other);
  }
}

static uint64_t stands_at_ns;

static uint64_t stands_still(void)
{
  return stands_at_ns;
}

/* Stops the plugin's clock until the case ends. The thread of a simulated device may not run for
 * some milliseconds beside other programs: with a clock that goes, peers that wait would be probed,
 * and a probe without an answer resets an initiator, which the case counts. */
static void stop_clock(void)
{
  stands_at_ns = contract_now_ns();
  contract_host_clock(stands_still);
}

static void four_take_turns(void **state)
{
  stop_clock();
  struct contract_pair *pair = contract_pair(state, &params);

  all_get_through(pair);
  /* A peer with nothing to send holds no initiator. */
  assert_int_equal(worker_counter(&pair->sender, "initiators"), 1);
  await_counter(&pair->sender, &pair->receiver, "initiators_free", 1);
  assert_int_equal(worker_counter(&pair->sender, "endpoints_waiting"), 0);
  assert_int_equal(worker_counter(&pair->sender, "initiators_reset"), 0);
  assert_int_equal(worker_counter(&pair->receiver, "receives_of_nobody"), 0);
  contract_pair_close(pair);
}

/* An access that its peer refuses ends one endpoint, and resets the initiator for the others. */
static void error_of_one_is_no_others(void **state)
{
  struct contract_params with = params;
  with.roles_more = PST_ROLE_RMA;
  stop_clock();
  struct contract_pair *pair = contract_pair(state, &with);
  const struct contract_side *owner = &pair->receiver;
  uint8_t bytes[16384];
  struct pst_blob blob = {.struct_size = sizeof(blob), .bytes = bytes, .capacity = sizeof(bytes)};
  struct contract_region region;
  contract_region_make(4096, &region);
  struct pst_mr_params in = {.struct_size = sizeof(in),
                             .access = PST_ACCESS_REMOTE_WRITE | PST_ACCESS_LOCAL_WRITE,
                             .region = &region.region,
                             .length = 4096};
  struct pst_mr *mr;
  struct pst_remote *remote;
  assert_int_equal(owner->image.ops->mr_register(owner->device, &in, &mr), 0);
  assert_int_equal(owner->image.ops->mr_pack(owner->device, mr, &blob), 0);
  assert_int_equal(pair->sender.image.ops->remote_open(pair->sender.endpoints[1], &blob, &remote),
                   0);
  owner->image.ops->mr_deregister(owner->device, mr); /* withdrawn */
  struct pst_request request = {.opcode = PST_OP_WRITE,
                                .local.mr = pair->sender.mr,
                                .arg.length = 8,
                                .cookie = 5,
                                .u.rma.remote = remote};
  uint32_t wait;
  assert_int_equal(contract_post(&pair->sender, 1, &request, 1, &wait), 1);
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_WRITE, 1, -EACCES);
  const struct pst_completion gone =
      contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.endpoint, 2);
  contract_complained(1);
  assert_int_equal(worker_counter(&pair->sender, resets), 1);
  assert_int_equal(worker_counter(&pair->sender, "initiators_reset") +
                       worker_counter(&pair->sender, "streams_reset"),
                   1);
  for (uint32_t k = 0; k < CONTRACT_ENDPOINTS; k += 2) {
    request = contract_send(&pair->sender, 0, 8, 0);
    while (contract_post(&pair->sender, k, &request, 1, &wait) != 1)
      contract_poll(&pair->sender);
    const struct pst_completion message =
        contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
    assert_int_equal(message.endpoint, k + 1);
    contract_release(&pair->receiver, &message);
  }
  contract_pair_close(pair);
  contract_region_free(&region);
}

/* A stranger that knows an endpoint's address can send a hello to it, even before it is connected.
 */
static void hello_of_a_stranger_connects_nobody(void **state)
{
  struct contract_pair *pair = contract_pair_open(*state, &params);
  struct contract_side *receiver = &pair->receiver, stranger = {0};
  struct pst_blob blob;

  contract_side_open(*state, &params, false, false, &stranger);
  for (uint32_t k = 0; k < 2; k++) {
    struct pst_blob genuine;
    contract_address(&pair->sender, k, &genuine);
    if (k == 0) /* the receiver knows its peer by then, the second time it does not */
      assert_int_equal(contract_connect(receiver, k, &genuine), 0);
    contract_address(receiver, k, &blob);
    assert_int_equal(contract_connect(&stranger, k, &blob), 0);
    contract_address(&pair->sender, k, &genuine);
    if (k == 1) {
      await_counter(&stranger, receiver, "initiators_free", 1);
      assert_int_equal(contract_connect(receiver, k, &genuine), 0);
    }
    await_counter(receiver, &stranger, "receives_of_nobody", k + 1);
    assert_false(receiver->connected[k]);
    contract_address(receiver, k, &blob);
    assert_int_equal(contract_connect(&pair->sender, k, &blob), 0);
    contract_await(receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
    contract_await(&pair->sender, receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  }
  contract_side_close(&stranger);
  contract_pair_close(pair);
}

/* An address has a key or a number of no target. Both look like a peer that is dead. A target's
 * number before RTR, 0 on the simulated device, is refused. */
static void wrong_addresses_look_like_dead_peers(void **state)
{
  enum { OF_NUMBER = 33, OF_KEY = 47 }; /* transports/verbs_dc/blob.c */

  struct contract_variant quick = variant_of(state, "timeout=8"); /* silent after 8.4 ms */

  for (uint32_t i = 0; i < 3; i++) {
    struct contract_pair *pair = contract_pair_open(&quick, &params);
    struct pst_blob blob;
    contract_address(&pair->receiver, 0, &blob);
    uint8_t *bytes = blob.bytes;
    if (i == 2) {
      memset(bytes + OF_NUMBER - 1, 0, 4);
      assert_int_equal(contract_connect(&pair->sender, 0, &blob), -EPROTO);
      assert_non_null(strstr(contract_complaint(), "not one of verbs_dc's"));
    } else {
      bytes[i == 0 ? OF_NUMBER : OF_KEY] ^= 0x40;
      assert_int_equal(contract_connect(&pair->sender, 0, &blob), 0);
      const struct pst_completion end = contract_await(
          &pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
      assert_int_equal(end.status, -ECONNRESET);
      assert_non_null(strstr(contract_complaint(), "IBV_WC_RETRY_EXC_ERR"));
    }
    contract_complained(1);
    contract_pair_close(pair);
  }
}

/* Two words of credit that a silent peer does not answer: the worker sleeps with a third to say.
 * The device's clock stands, so that it does not give up. */
static void arm_sleeps_beside_silent_peer(void **state)
{
  const struct contract_params sleepy = {.endpoints = CONTRACT_ENDPOINTS,
                                         .slots = 4 * CONTRACT_ENDPOINTS,
                                         .message = 256,
                                         .requests = 16,
                                         .pieces = 1,
                                         .sleep = true};
  struct contract_variant variant = variant_of(state, "keepalive=0");
  struct pst_completion held[4];

  struct contract_pair *pair = contract_pair_open(&variant, &sleepy);
  struct contract_side *receiver = &pair->receiver;
  contract_pair_connect(pair);
  for (uint32_t i = 0; i < 4; i++) {
    const struct pst_request request = contract_send(&pair->sender, 0, 8, i);
    uint32_t wait;
    while (contract_post(&pair->sender, 0, &request, 1, &wait) != 1)
      contract_poll(&pair->sender);
    held[i] = contract_await(receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  }
  await_counter(receiver, &pair->sender, "initiators_free", 1);
  simulated_ctl("clock manual");
  simulated_ctl("drop");
  for (uint32_t i = 0; i < 3; i++) {
    contract_release(receiver, &held[i]);
    contract_poll(receiver);
  }
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (receiver->image.ops->arm(receiver->worker) == -EAGAIN) {
    contract_in_time(deadline, "arm() to let the worker sleep");
    contract_poll(receiver);
  }
  assert_int_equal(simulated_counter(receiver, receiver->endpoints[0], "credits_granted"), 2);
  simulated_ctl("clear");
  simulated_ctl("clock real");
  contract_release(receiver, &held[3]);
  contract_pair_close(pair);
}

/* One peer that is gone has the only initiator, another waits for it. The living go on: they answer
 * a probe, and have the reserve. The device's clock stands meanwhile, so that it does not give up
 * the first. The one that waited ends by its probes, as if it had sent. */
static void silent_peers_hold_up_no_living_one(void **state)
{
  struct contract_variant variant =
      variant_of(state, "timeout=16,keepalive=0"); /* silent after 2.1 s */
  struct contract_side gone = {0};
  uint32_t wait, ended = 0;

  struct contract_pair *pair = contract_pair_open(&variant, &params);
  struct contract_side *sender = &pair->sender, *living = &pair->receiver;
  contract_side_open(&variant, &params, false, true, &gone);
  for (uint32_t k = 0; k < CONTRACT_ENDPOINTS; k++)
    simulated_meet(sender, k < 2 ? &gone : living, k);
  await_counter(sender, living, "initiators_free", 1);
  contract_side_vanish(&gone);
  simulated_ctl("clock manual");
  struct pst_request request = contract_send(sender, 0, 8, 0);
  assert_int_equal(contract_post(sender, 0, &request, 1, &wait), 1);
  assert_int_equal(contract_post(sender, 1, &request, 1, &wait), -EAGAIN);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  for (uint32_t i = 0; i < 8; i++) {
    const uint32_t k = 2 + i % 2;
    struct pst_completion message;
    while (contract_post(sender, k, &request, 1, &wait) != 1) {
      contract_poll(sender);
      contract_poll(living);
    }
    while (!contract_take(living, PST_COMPLETION_MESSAGE, 0, &message)) {
      contract_poll(living);
      contract_poll(sender);
      assert_false(sender->departed[0]);
    }
    assert_int_equal(message.endpoint, k + 1);
    contract_release(living, &message);
  }
  assert_true(worker_counter(sender, "probes_missed") > 0);
  simulated_ctl("clock 1000");
  for (uint32_t i = 0; i < 2; i++) {
    const struct pst_completion end =
        contract_await(sender, living, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
    assert_int_equal(end.status, -ECONNRESET);
    assert_non_null(strstr(contract_complaint(), "IBV_WC_RETRY_EXC_ERR"));
    ended += (uint32_t)end.endpoint;
  }
  assert_int_equal(ended, 1 + 2);
  contract_complained(2);
  simulated_ctl("clock real");
  /* All are of one port, and share its address handle. It is not taken again after a silence. */
  assert_int_equal(simulated_device_counter(sender, "address_handles"), 1);
  assert_int_equal(simulated_device_counter(sender, "address_handles_made"), 1);
  contract_endpoint_open(sender, &params, NULL, 0);
  simulated_meet(sender, living, 0);
  assert_int_equal(simulated_device_counter(sender, "address_handles"), 2);
  assert_int_equal(simulated_device_counter(sender, "address_handles_made"), 2);
  contract_pair_close(pair);
}

/* The address grants credit that does not exist: more messages come than slots are posted. */
enum { SLOTS = 8, TOO_MANY = 4, CREDITS_AT = 67 /* transports/verbs_dc/blob.c */ };

static const struct contract_params few_slots = {
    .endpoints = 2, .slots = 2 * SLOTS, .message = 256, .requests = 64, .pieces = 1};

/* Both endpoints of a pair; the first sender takes all slots of both for its own, and some more. */
static struct contract_pair *open_short(const struct contract_variant *variant)
{
  struct contract_pair *pair = contract_pair_open(variant, &few_slots);
  struct pst_blob blob;

  for (uint32_t k = 0; k < 2; k++) {
    contract_address(&pair->receiver, k, &blob);
    ((uint8_t *)blob.bytes)[CREDITS_AT] += k == 0 ? SLOTS + TOO_MANY : 0;
    assert_int_equal(contract_connect(&pair->sender, k, &blob), 0);
    contract_address(&pair->sender, k, &blob);
    assert_int_equal(contract_connect(&pair->receiver, k, &blob), 0);
  }
  for (uint32_t k = 0; k < 2; k++) {
    contract_await(&pair->sender, &pair->receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
    contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  }
  return pair;
}

/* All slots are full, and the receiver does not poll: its shared receive queue is empty. */
static void fill_slots(struct contract_pair *pair)
{
  const uint64_t before = simulated_said("counters", "rnr_naks "),
                 deadline = contract_now_ns() + contract_deadline_ns;
  uint32_t wait;

  for (uint32_t i = 0; i < 2 * SLOTS + TOO_MANY; i++) {
    const struct pst_request request = contract_send(&pair->sender, 0, 8, i);
    assert_int_equal(contract_post(&pair->sender, 0, &request, 1, &wait), 1);
  }
  contract_await_done(&pair->sender, NULL, PST_OP_SEND, 2 * SLOTS, 0);
  while (simulated_said("counters", "rnr_naks ") < before + 2) {
    contract_in_time(deadline, "the device to try for the %s time", "second");
    contract_poll(&pair->sender);
  }
}

/* The first sender has SLOTS slots of the receiver's: what comes beyond them ends its endpoint. */
static void take_slots(struct contract_side *receiver)
{
  for (uint32_t i = 0; i < SLOTS; i++) {
    const struct pst_completion message = contract_await(receiver, NULL, PST_COMPLETION_MESSAGE, 0);
    assert_int_equal(message.endpoint, 1);
    assert_int_equal(message.u.message.sequence, i);
    contract_release(receiver, &message);
  }
  const struct pst_completion end =
      contract_await(receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(end.endpoint, 1);
  assert_int_equal(end.status, -EPROTO);
  assert_non_null(strstr(contract_complaint(), "for which it had no slot"));
}

/* With `rnr_retry: 7` the sender hears nothing, for as long as it takes. Its messages arrive once
 * slots are posted again. */
static void empty_receive_queue_is_waited_for(void **state)
{
  struct contract_variant variant = variant_of(state, "timeout=14,min_rnr_timer=1,keepalive=0");
  struct contract_pair *pair = open_short(&variant);
  struct contract_side *receiver = &pair->receiver;
  struct pst_completion done;

  fill_slots(pair);
  for (uint32_t i = 0; i < 100; i++)
    contract_poll(&pair->sender);
  assert_false(contract_take(&pair->sender, PST_COMPLETION_DONE, PST_OP_SEND, &done));
  assert_false(pair->sender.departed[0]);
  take_slots(receiver);
  contract_await_done(&pair->sender, receiver, PST_OP_SEND, TOO_MANY, 0);
  contract_pair_close(pair);
}

/* With fewer the sender's device gives up: its endpoint ends, and says why. The other goes on by
 * the same initiator. It sends once the receiver has taken what came for the first, and so has
 * posted receives again: 30 us are all that `rnr_retry: 3` gives a receiver. */
static void empty_receive_queue_ends_one_sender(void **state)
{
  struct contract_variant variant =
      variant_of(state, "timeout=14,rnr_retry=3,min_rnr_timer=1,keepalive=0");
  uint32_t wait;

  stop_clock();
  struct contract_pair *pair = open_short(&variant);
  fill_slots(pair);
  contract_await_done(&pair->sender, NULL, PST_OP_SEND, TOO_MANY, -ECONNRESET);
  const struct pst_completion end =
      contract_await(&pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(end.endpoint, 1);
  assert_non_null(strstr(contract_complaint(), "IBV_WC_RNR_RETRY_EXC_ERR"));
  contract_complained(1);
  assert_int_equal(worker_counter(&pair->sender, resets), 1);
  take_slots(&pair->receiver);
  const struct pst_request request = contract_send(&pair->sender, 0, 8, 0);
  while (contract_post(&pair->sender, 1, &request, 1, &wait) != 1)
    contract_poll(&pair->sender);
  const struct pst_completion message =
      contract_await(&pair->receiver, &pair->sender, PST_COMPLETION_MESSAGE, 0);
  assert_int_equal(message.endpoint, 2);
  contract_release(&pair->receiver, &message);
  contract_await_done(&pair->sender, &pair->receiver, PST_OP_SEND, 1, 0);
  assert_false(pair->sender.departed[1]);
  contract_pair_close(pair);
}

int main(int argc, char **argv)
{
  struct contract_variant variant = {.name = "pool"};
  const struct contract_variant *self = &variant;
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(four_take_turns),
      CONTRACT_CASE(error_of_one_is_no_others),
      CONTRACT_CASE(hello_of_a_stranger_connects_nobody),
      CONTRACT_CASE(wrong_addresses_look_like_dead_peers),
      CONTRACT_CASE(arm_sleeps_beside_silent_peer),
      CONTRACT_CASE(silent_peers_hold_up_no_living_one),
      CONTRACT_CASE(empty_receive_queue_is_waited_for),
      CONTRACT_CASE(empty_receive_queue_ends_one_sender),
  };

  if (argc != 5) {
    fprintf(stderr, "usage: %s PLUGIN LAUNCHER STREAMS RESETS\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  simulated_launcher = argv[2];
  streams = argv[3];
  resets = argv[4];
  variant = variant_of((void **)&self, "quota=4");
  return CONTRACT_MAIN("verbs_dc pool", cases, &variant);
}
