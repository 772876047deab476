/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_rc on a simulated device that fails, with `reconnect`: connections are made again, whatever
 * was under way and whatever fails meanwhile, and each message arrives once and in order.
 *
 *     penstock-simverbs verbs-rc-mend PLUGIN LAUNCHER
 */
#include <stdio.h>

#include "simulated_cm.h"
#include "verbs_rc_stream.h"

/* The fault falls anywhere between messages, again and again. */
static void goes_on(int which, const char *fault)
{
  struct stream stream;
  stream_open(&stream, which, 0);
  stream_run(&stream, 100);
  for (uint64_t round = 1; round <= 6; round++) {
    char action[256];
    snprintf(action, sizeof(action), fault, (int)(contract_random() % 24));
    simulated_ctl(action);
    stream_run(&stream, 100 + 200 * round);
    stream_settle(&stream);
  }
  assert_int_equal(stream.failed, 0);
  assert_int_equal(stream.delivered, stream.posted);
  assert_in_range(stream_counter(&stream.pair->sender, "reconnections"), 1, 1000);
  assert_in_range(stream_counter(&stream.pair->receiver, "reconnections"), 1, 1000);
  simulated_ctl("clear");
  stream_close(&stream);
}

static void messages_that_vanish(void **state)
{
  (void)state;
  goes_on(WRITE, "drop --after %d --count 40");
  goes_on(SEND, "drop --after %d --count 40");
  goes_on(WRAPS, "drop --after %d --count 40");
  goes_on(WRAPS_LOW, "drop --after %d --count 40");
  goes_on(SHARED, "drop --after %d --count 40");
  goes_on(SHARED_SEND, "drop --after %d --count 40");
  goes_on(TWO_AGAIN, "drop --after %d --count 60");
  goes_on(FOUR_AGAIN, "drop --after %d --count 100");
}

/* 5 s, which pass in a hundredth of the time. */
static void link_that_is_down_for_a_while(void **state)
{
  (void)state;
  simulated_ctl("clock 100");
  goes_on(WRITE, "port-down " DEVICE "/1 --after %d --for 5s");
  goes_on(SEND, "port-down " DEVICE "/1 --after %d --for 5s");
  goes_on(FOUR_AGAIN, "port-down " DEVICE "/1 --after %d --for 5s");
  simulated_ctl("clock real");
}

static void queue_pair_that_failed(void **state)
{
  (void)state;
  goes_on(WRITE, "qp-error --after %d --count 1");
  goes_on(SEND, "qp-error --after %d --count 1");
  goes_on(SHARED, "qp-error --after %d --count 1");
  goes_on(TWO_AGAIN, "qp-error --after %d --count 1");
  goes_on(FOUR_AGAIN, "qp-error --after %d --count 1");
}

static void idle_goes_on(int which)
{
  struct stream stream;
  struct pst_completion held[64];
  const bool is_one_for_hellos = which == SHARED_SEND || which == CM_SHARED_SEND;
  const uint32_t most = stream_params.slots - is_one_for_hellos;
  uint32_t n = 0;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  stream_open(&stream, which, 0);
  while (n < most) {
    stream_post(&stream, 16);
    contract_poll(&stream.pair->sender);
    contract_poll(&stream.pair->receiver);
    while (contract_take(&stream.pair->receiver, PST_COMPLETION_MESSAGE, 0, &held[n]))
      n++;
    contract_in_time(deadline, "messages into all slots: %u", n);
  }
  simulated_ctl("drop --count 60"); /* keepalives */
  while (stream_counter(&stream.pair->sender, "reconnections") == 0 ||
         stream_counter(&stream.pair->receiver, "reconnections") == 0) {
    contract_poll(&stream.pair->sender);
    contract_poll(&stream.pair->receiver);
    contract_in_time(deadline, "an idle connection to be made again");
  }
  for (uint32_t k = 0; k < n; k++) {
    assert_int_equal(held[k].u.message.sequence, k);
    assert_true(contract_verify(contract_payload(&stream.pair->receiver, &held[k]),
                                stream_params.message, k));
    contract_release(&stream.pair->receiver, &held[k]);
  }
  stream.delivered = n;
  stream_run(&stream, 300);
  stream_settle(&stream);
  assert_int_equal(stream.failed, 0);
  simulated_ctl("clear");
  stream_close(&stream);
}

/* While the receiver has all slots, the sender no credit and nothing under way. */
static void link_that_is_down_while_nothing_is_sent(void **state)
{
  (void)state;
  idle_goes_on(WRITE);
  idle_goes_on(SEND);
  idle_goes_on(SHARED);
  idle_goes_on(SHARED_SEND);
  idle_goes_on(FOUR_AGAIN);
}

/* READs and WRITEs are done again; what they do is there once. */
static void one_sided_access_goes_on_by(int which)
{
  struct stream stream;
  stream_open(&stream, which, 0);
  struct contract_side *near = &stream.pair->sender, *far = &stream.pair->receiver;
  struct contract_region memory;
  struct pst_mr *mr;
  struct pst_remote *remote;
  uint8_t bytes[4096];
  contract_region_make(4096, &memory);
  struct pst_mr_params access = {.struct_size = sizeof(access),
                                 .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE |
                                           PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE |
                                           PST_ACCESS_REMOTE_ATOMIC,
                                 .region = &memory.region,
                                 .length = 4096};
  assert_int_equal(far->image.ops->mr_register(far->device, &access, &mr), 0);
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  assert_int_equal(far->image.ops->mr_pack(far->device, mr, &blob), 0);
  assert_int_equal(near->image.ops->remote_open(near->endpoints[0], &blob, &remote), 0);
  contract_fill(near->memory.region.host, 512, 77);
  struct pst_request requests[2] = {
      {.opcode = PST_OP_WRITE, .local.mr = near->mr, .arg.length = 512, .u.rma.remote = remote},
      {.opcode = PST_OP_FLUSH, .u.rma.remote = remote}};
  uint32_t wait;
  simulated_ctl("drop --count 30");
  assert_int_equal(contract_post(near, 0, requests, 2, &wait), 2);
  assert_int_equal(contract_await(near, far, PST_COMPLETION_DONE, PST_OP_WRITE).status, 0);
  assert_int_equal(contract_await(near, far, PST_COMPLETION_DONE, PST_OP_FLUSH).status, 0);
  assert_true(contract_verify(memory.region.host, 512, 77));
  assert_in_range(stream_counter(near, "reconnections"), 1, 1000);
  /* An atomic may have taken place: it is not done again. */
  requests[0] = (struct pst_request){.opcode = PST_OP_FETCH_ADD,
                                     .local.mr = near->mr,
                                     .u.atomic = {.remote = remote, .operand = 1}};
  simulated_ctl("drop --count 30");
  int rc;
  while ((rc = contract_post(near, 0, requests, 1, &wait)) == -EAGAIN)
    stream_poll(&stream);
  assert_int_equal(rc, 1);
  assert_true(contract_await(near, far, PST_COMPLETION_DONE, PST_OP_FETCH_ADD).status < 0);
  contract_await(near, far, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  simulated_ctl("clear");
  near->image.ops->remote_close(near->endpoints[0], remote);
  far->image.ops->mr_deregister(far->device, mr);
  stream_close(&stream);
  contract_region_free(&memory);
}

static void one_sided_access_goes_on(void **state)
{
  (void)state;
  one_sided_access_goes_on_by(WRITE);
  one_sided_access_goes_on_by(FOUR_AGAIN);
}

/* ---- Several queue pairs ------------------------------------------------------------------------
 */

/* As often as `faults` names one, with the queue pair's number; `%u` in it. */
static void plant(const char *faults, unsigned int number)
{
  char all[512], fault[256], *next, *at = all;
  snprintf(all, sizeof(all), "%s", faults);
  for (; at; at = next) {
    if ((next = strchr(at, ';')))
      *next++ = 0;
    snprintf(fault, sizeof(fault), at, number);
    simulated_ctl(fault);
  }
}

/* Each queue pair fails, at either end, while messages are sent; all are connected again. */
static void each_fails(int which, uint32_t count, const char *faults, bool is_senders)
{
  struct stream stream;
  unsigned int numbers[8];
  stream_open(&stream, which, 0);
  assert_int_equal(
      stream_queue_pairs(is_senders ? &stream.pair->sender : &stream.pair->receiver, numbers, 8),
      count);
  stream_run(&stream, 100);
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t before = stream_counter(&stream.pair->sender, "reconnections");
    const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
    plant(faults, numbers[i]);
    do {
      stream_run(&stream, stream.delivered + 50);
      contract_in_time(deadline, "a connection to be made again");
    } while (stream_counter(&stream.pair->sender, "reconnections") == before);
    simulated_ctl("clear");
    stream_run(&stream, stream.delivered + 100);
    stream_settle(&stream);
  }
  assert_int_equal(stream.failed, 0);
  assert_int_equal(stream.delivered, stream.posted);
  assert_int_equal(stream_counter(&stream.pair->sender, "messages_sent"), stream.posted);
  /* Turns of one message, which four queue pairs may have, are no runs. */
  assert_true(count > 2 || stream_counter(&stream.pair->sender, "runs_sent") > 0);
  assert_int_equal(stream_counter(&stream.pair->receiver, "messages_received"), stream.posted);
  stream_close(&stream);
}

static void one_queue_pair_of_several_is_reconnected(void **state)
{
  (void)state;
  each_fails(TWO_AGAIN, 2, "drop --qp %u --after 3 --count 20", true);
  each_fails(FOUR_AGAIN, 4, "drop --qp %u --after 3 --count 20", true);
  each_fails(FOUR_AGAIN, 4, "qp-error --qp %u --after 3 --count 1", true);
}

/* Messages that have arrived, by turns of several, are counted for each queue pair. */
static void turns_of_several_messages_are_had_again(void **state)
{
  (void)state;
  stream_slots = STREAM_TURNS;
  goes_on(TWO_AGAIN, "drop --after %d --count 60");
  each_fails(FOUR_AGAIN, 4, "qp-error --qp %u --after 3 --count 1", true);
  each_fails(FOUR_AGAIN, 4, "qp-error --after 5 --count 1;qp-error --qp %u --count 3", false);
  stream_slots = stream_params.slots;
}

/* All fail, and then one of either end's with its hello; or its hellos come when it is too late. */
static void queue_pairs_that_fail_while_they_are_reconnected(void **state)
{
  (void)state;
  each_fails(TWO_AGAIN, 2, "qp-error --after 5 --count 1;qp-error --qp %u --after 1 --count 2",
             true);
  each_fails(FOUR_AGAIN, 4, "qp-error --after 5 --count 1;qp-error --qp %u --count 3", true);
  each_fails(FOUR_AGAIN, 4, "qp-error --after 5 --count 1;qp-error --qp %u --count 3", false);
  each_fails(FOUR_AGAIN, 4, "qp-error --after 5 --count 1;drop --qp %u --count 30", false);
  each_fails(FOUR_AGAIN, 4, "qp-error --after 5 --count 1;delay --qp %u --by 30ms --count 20",
             true);
  each_fails(FOUR_AGAIN, 4, "qp-error --after 5 --count 1;delay --qp %u --by 30ms --count 20",
             false);
}

/* Messages that arrived before their turn are not sent again, though the host has not seen them. */
static void messages_that_wait_for_their_turn_are_had(void **state)
{
  (void)state;
  struct stream stream;
  unsigned int numbers[8];
  stream_open(&stream, FOUR_AGAIN, 0);
  assert_int_equal(stream_queue_pairs(&stream.pair->sender, numbers, 8), 4);
  plant("drop --qp %u --count 8", numbers[1]);
  while (stream.posted < 16)
    stream_post(&stream, (uint32_t)(16 - stream.posted));
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (stream_counter(&stream.pair->receiver, "reconnections") == 0) {
    stream_poll(&stream);
    assert_in_range(stream.delivered, 0,
                    stream_counter(&stream.pair->receiver, "reconnections") ? 16 : 1);
    contract_in_time(deadline, "the connection to be made again");
  }
  stream_run(&stream, 16);
  stream_settle(&stream);
  /* Where timers are late, the faults outlast one reconnection. */
  assert_int_equal(stream_counter(&stream.pair->sender, "messages_repeated"),
                   4 * stream_counter(&stream.pair->sender, "reconnections"));
  assert_int_equal(stream.failed, 0);
  simulated_ctl("clear");
  stream_close(&stream);
}

/* ---- Given up ------------------------------------------------------------------------------- */

static void peer_that_is_lost_is_given_up(void **state)
{
  (void)state;
  const int all[] = {BRIEFLY, FOUR_BRIEFLY};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    stream_ends(all[i], "lose-peer host", 0, -ETIMEDOUT);
    simulated_ctl("restore-peer host");
  }
}

/* With `timeout: 17` and `retry_cnt: 7` a silent end notices after 5.3 s. */
static void a_time_that_is_too_short_is_reported(void **state)
{
  (void)state;
  static const struct {
    const char *options;
    int level;
  } all[] = {
    {"device=mlx5_0,reconnect=5200ms", PST_LOG_WARN},
    {"device=mlx5_0,reconnect=5300ms", -1},
    {"device=mlx5_0,reconnect=5200ms,timeout=16", -1},
    {"device=mlx5_0", -1},
#if PST_TEST_RDMA_CM
    {"device=mlx5_0,reconnect=5200ms,connection=rdma_cm", -1},
#endif
  };
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    struct contract_variant variant = stream_variants[ONCE];
    struct contract_image image;
    struct pst_device *device;
    char line[512] = "";
    variant.options = all[i].options;
    contract_listen("a silent end notices");
    contract_image_open(&variant, false, &image);
    contract_device_open(&variant, &image, false, false, &device);
    assert_int_equal(contract_heard(line, sizeof(line)), all[i].level);
    if (all[i].level == PST_LOG_WARN) {
      assert_non_null(strstr(line, "`reconnect` of 5.20 s"));
      assert_non_null(strstr(line, "5.29 s here"));
    }
    image.ops->close(device);
    contract_listen(NULL);
  }
  contract_complaints();
}

#if PST_TEST_RDMA_CM
/* ---- By rdma_cm ------------------------------------------------------------------------------ */

static const int by_cm[] = {CM, CM_SEND, CM_SHARED_SEND, CM_FOUR};

static void rdma_cm_goes_on(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(by_cm) / sizeof(by_cm[0]); i++) {
    goes_on(by_cm[i],
            by_cm[i] == CM_FOUR ? "drop --after %d --count 100" : "drop --after %d --count 40");
    goes_on(by_cm[i], "qp-error --after %d --count 1");
    idle_goes_on(by_cm[i]);
    simulated_ctl("clock 100");
    goes_on(by_cm[i], "port-down " DEVICE "/1 --after %d --for 5s");
    simulated_ctl("clock real");
    assert_int_equal(simulated_cm_ids(), 0);
  }
}

/* One queue pair that fails makes all of them connect again. Then one fails with its hello, or its
 * hello comes too late. */
static void rdma_cm_has_several_again_together(void **state)
{
  (void)state;
  each_fails(CM_TWO, 2, "drop --qp %u --after 3 --count 20", true);
  each_fails(CM_FOUR, 4, "qp-error --qp %u --after 3 --count 1", true);
  each_fails(CM_FOUR, 4, "qp-error --after 5 --count 1;qp-error --qp %u --count 3", true);
  each_fails(CM_FOUR, 4, "qp-error --after 5 --count 1;qp-error --qp %u --count 3", false);
  each_fails(CM_FOUR, 4, "qp-error --after 5 --count 1;drop --qp %u --count 30", false);
  each_fails(CM_FOUR, 4, "qp-error --after 5 --count 1;delay --qp %u --by 30ms --count 20", true);
  each_fails(CM_FOUR, 4, "qp-error --after 5 --count 1;delay --qp %u --by 30ms --count 20", false);
  one_sided_access_goes_on_by(CM_FOUR);
  assert_int_equal(simulated_cm_ids(), 0);
}

/* The peer was there when it was said: one that fails ends what was not connected yet. */
static void rdma_cm_ends_by_a_hello_that_fails(void **state)
{
  (void)state;
  for (uint32_t which = 0; which < 4; which++) {
    struct contract_pair *pair = contract_pair_open(&stream_variants[CM_FOUR], &stream_params);
    struct contract_side *sender = &pair->sender, *receiver = &pair->receiver;
    struct pst_blob blob;
    unsigned int numbers[4];
    assert_int_equal(stream_queue_pairs(sender, numbers, 4), 4);
    plant("drop --qp %u", numbers[which]);
    contract_address(receiver, 0, &blob);
    assert_int_equal(contract_connect(sender, 0, &blob), 0);
    contract_address(sender, 0, &blob);
    assert_int_equal(contract_connect(receiver, 0, &blob), 0);
    contract_complaints();
    assert_int_equal(
        contract_await(sender, receiver, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED).status,
        -ECONNRESET);
    assert_int_equal(contract_complaints(), 1);
    assert_non_null(strstr(contract_complaint(), "IBV_WC_RETRY_EXC_ERR"));
    assert_non_null(strstr(contract_complaint(), "the peer has not answered for some "));
    stream_leave(sender, PST_CLOSE_ABORT, contract_deadline_ns);
    contract_await(receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
    simulated_ctl("clear");
    contract_pair_close(pair);
    contract_complaints();
    assert_int_equal(simulated_cm_ids(), 0);
  }
}

#define FASTER 60

/* The transport's time: what the kernel does not tell costs 50 ms instead of 3 s. */
static uint64_t soon_ns(void)
{
  return FASTER * contract_now_ns();
}

/* Each of its messages, at some time: request, answer, news of the end. */
static void loses_its_own_messages(int which, uint32_t least, uint32_t most)
{
  contract_host_clock(soon_ns);
  for (uint32_t one_of = least; one_of <= most; one_of++) {
    struct stream stream;
    stream_open(&stream, which, FASTER * contract_deadline_ns);
    simulated_cm_loses(one_of);
    stream_run(&stream, 50);
    for (uint64_t round = 1; round <= 4; round++) {
      simulated_ctl("drop --after 10 --count 40");
      stream_run(&stream, 50 + 100 * round);
      stream_settle(&stream);
    }
    assert_int_equal(stream.failed, 0);
    assert_int_equal(stream.delivered, stream.posted);
    assert_in_range(stream_counter(&stream.pair->sender, "reconnections"), 1, 1000);
    simulated_ctl("clear");
    simulated_cm_loses(0);
    stream_close(&stream);
    assert_int_equal(simulated_cm_ids(), 0);
  }
  contract_host_clock(contract_now_ns);
}

static void rdma_cm_loses_its_own_messages(void **state)
{
  (void)state;
  loses_its_own_messages(CM_SLOWLY, 2, 4);
  loses_its_own_messages(CM_SLOWLY_FOUR, 3, 3);
}

/* Requests are answered, and no hello is. */
static void rdma_cm_stands_and_packets_do_not_pass(void **state)
{
  (void)state;
  stream_ends(CM_BRIEFLY, "lose-peer host", 0, -ETIMEDOUT);
  simulated_ctl("restore-peer host");
}

/* Its kernel says so, and that of the peer refuses for good: nobody waits for `reconnect`. */
static void is_told_of_a_receiver_that_is_gone(int which)
{
  struct stream stream;
  stream_open(&stream, which, 0);
  struct contract_side *sender = &stream.pair->sender, *receiver = &stream.pair->receiver;
  stream_run(&stream, 100);
  stream_settle(&stream);
  simulated_ctl("drop"); /* farewells, too */
  stream_leave(receiver, PST_CLOSE_ABORT, contract_deadline_ns / 10);
  struct pst_completion gone =
      contract_await(sender, receiver, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -ECONNRESET);
  simulated_ctl("clear");
  stream_close(&stream);
  assert_int_equal(simulated_cm_ids(), 0);
}

static void rdma_cm_reports_a_receiver_that_is_gone(void **state)
{
  (void)state;
  is_told_of_a_receiver_that_is_gone(CM_LONG);
  is_told_of_a_receiver_that_is_gone(CM_LONG_FOUR);
}
#endif

int main(int argc, char **argv)
{
  if (!stream_arguments(argc, argv))
    return 2;
  struct CMUnitTest cases[] = {
    CONTRACT_CASE(messages_that_vanish),
    CONTRACT_CASE(link_that_is_down_for_a_while),
    CONTRACT_CASE(queue_pair_that_failed),
    CONTRACT_CASE(link_that_is_down_while_nothing_is_sent),
    CONTRACT_CASE(one_sided_access_goes_on),
    CONTRACT_CASE(one_queue_pair_of_several_is_reconnected),
    CONTRACT_CASE(turns_of_several_messages_are_had_again),
    CONTRACT_CASE(queue_pairs_that_fail_while_they_are_reconnected),
    CONTRACT_CASE(messages_that_wait_for_their_turn_are_had),
    CONTRACT_CASE(peer_that_is_lost_is_given_up),
    CONTRACT_CASE(a_time_that_is_too_short_is_reported),
#if PST_TEST_RDMA_CM
    CONTRACT_CASE(rdma_cm_goes_on),
    CONTRACT_CASE(rdma_cm_has_several_again_together),
    CONTRACT_CASE(rdma_cm_ends_by_a_hello_that_fails),
    CONTRACT_CASE(rdma_cm_loses_its_own_messages),
    CONTRACT_CASE(rdma_cm_stands_and_packets_do_not_pass),
    CONTRACT_CASE(rdma_cm_reports_a_receiver_that_is_gone),
#endif
  };
  return CONTRACT_MAIN("reconnect", cases, &stream_variants[0]);
}
