/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_rc on a simulated device that fails: messages that vanish, links that go down and come up,
 * peers and devices that go, answers that never come. Each message arrives once and in order, or
 * the connection is over, and all that was posted is accounted for.
 *
 *     penstock-simverbs verbs-rc-faults PLUGIN LAUNCHER
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "simulated.h"
#include "simulated_cm.h"

#define OPTIONS "device=mlx5_0,timeout=8,keepalive=20ms"
#define BY_CM OPTIONS ",connection=rdma_cm,reconnect=20s"
#define DEVICE "host/mlx5_0"

static struct contract_variant variants[] = {
    {.name = "write", .options = OPTIONS ",reconnect=20s"},
    {.name = "send", .options = OPTIONS ",reconnect=20s,operation=send"},
    {.name = "wraps", .options = OPTIONS ",reconnect=20s,first_sequence=18446744073709551555"},
    /* The immediate alone does, which has the low 32 bits. */
    {.name = "wraps low", .options = OPTIONS ",reconnect=20s,first_sequence=4294967235"},
    {.name = "briefly", .options = OPTIONS ",reconnect=100ms"},
    {.name = "once", .options = OPTIONS},
    {.name = "once by send", .options = OPTIONS ",operation=send"},
    {.name = "over four", .options = OPTIONS ",qps=4"},
    {.name = "over two again", .options = OPTIONS ",qps=2,reconnect=20s"},
    {.name = "over four again",
     .options = OPTIONS ",qps=4,reconnect=20s,first_sequence=18446744073709551555"},
    {.name = "over four briefly", .options = OPTIONS ",qps=4,reconnect=100ms"},
    {.name = "shared", .options = OPTIONS ",reconnect=20s,srq=true"},
    {.name = "shared by send", .options = OPTIONS ",reconnect=20s,srq=true,operation=send"},
    {.name = "shared once", .options = OPTIONS ",srq=true"},
    {.name = "by rdma_cm", .options = BY_CM},
    {.name = "by rdma_cm and send", .options = BY_CM ",operation=send"},
    {.name = "by rdma_cm, shared by send", .options = BY_CM ",srq=true,operation=send"},
    {.name = "by rdma_cm, briefly", .options = OPTIONS ",connection=rdma_cm,reconnect=100ms"},
    {.name = "by rdma_cm, for long", .options = OPTIONS ",connection=rdma_cm,reconnect=600s"},
    {.name = "by rdma_cm, slowly",
     .options = "device=mlx5_0,timeout=8,keepalive=5s,connection=rdma_cm,reconnect=2000s"},
    {.name = "for ever", .options = "device=mlx5_0,timeout=8,retry_cnt=7,keepalive=0"},
};
enum {
  WRITE,
  SEND,
  WRAPS,
  WRAPS_LOW,
  BRIEFLY,
  ONCE,
  ONCE_SEND,
  FOUR,
  TWO_AGAIN,
  FOUR_AGAIN,
  FOUR_BRIEFLY,
  SHARED,
  SHARED_SEND,
  SHARED_ONCE,
  CM,
  CM_SEND,
  CM_SHARED_SEND,
  CM_BRIEFLY,
  CM_LONG,
  CM_SLOWLY,
  FOR_EVER
};

static const struct contract_params params = {
    .endpoints = 1, .slots = 24, .message = 512, .requests = 64, .pieces = 1};

static uint64_t counter(const struct contract_side *side, const char *name)
{
  return simulated_counter(side, side->endpoints[0], name);
}

/* ---- A stream ------------------------------------------------------------------------------ */

struct stream {
  struct contract_pair *pair;
  uint64_t posted, done, failed, delivered;
  bool is_gone[2]; /* sender, receiver */
  int status[2];
};

static void open_stream(struct stream *stream, int which, uint64_t timeout_ns)
{
  struct contract_params mine = params;
  mine.timeout_ns = timeout_ns;
  mine.roles_more = PST_ROLE_RMA;
  *stream = (struct stream){.pair = contract_pair_open(&variants[which], &mine)};
  contract_pair_connect(stream->pair);
}

static void close_stream(struct stream *stream)
{
  contract_pair_close(stream->pair);
  contract_complaints();
}

/* As many as there is room for, at most `n`, by one call. */
static void post_some(struct stream *stream, uint32_t n)
{
  struct contract_side *side = &stream->pair->sender;
  struct pst_request requests[16];
  uint32_t wait, k = 0;
  for (; k < n && k < 16 && stream->posted + k - stream->done - stream->failed < params.slots;
       k++) {
    uint64_t number = stream->posted + k, offset = number % params.slots * side->stride;
    contract_fill((uint8_t *)side->memory.region.host + offset, params.message, number);
    requests[k] = contract_send(side, offset, params.message, number);
  }
  int rc = k ? contract_post(side, 0, requests, k, &wait) : 0;
  if (rc > 0)
    stream->posted += (uint64_t)rc;
  else if (k)
    assert_true(rc == -EAGAIN || rc == -ECONNRESET);
}

static void look(struct stream *stream, struct contract_side *side, int which)
{
  struct pst_completion one;
  contract_poll(side);
  while (contract_take(side, PST_COMPLETION_DONE, PST_OP_SEND, &one)) {
    assert_true(one.status == 0 || stream->failed == 0 || one.status != 0);
    assert_false(one.status == 0 && stream->failed); /* in post order */
    *(one.status ? &stream->failed : &stream->done) += one.u.done.count;
  }
  while (contract_take(side, PST_COMPLETION_MESSAGE, 0, &one)) {
    assert_int_equal(one.u.message.sequence, stream->delivered);
    assert_int_equal(one.u.message.length, params.message);
    assert_true(contract_verify(contract_payload(side, &one), params.message, stream->delivered));
    stream->delivered++;
    contract_release(side, &one);
  }
  if (!contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &one))
    return;
  stream->is_gone[which] = true;
  stream->status[which] = one.status;
}

static void poll_both(struct stream *stream)
{
  look(stream, &stream->pair->sender, 0);
  look(stream, &stream->pair->receiver, 1);
}

/* Until so many are delivered. */
static void run(struct stream *stream, uint64_t count)
{
  uint64_t deadline = contract_now_ns() + CONTRACT_DEADLINE_NS;
  while (stream->delivered < count) {
    if (stream->posted < count)
      post_some(stream, (uint32_t)(1 + contract_random() % 16));
    poll_both(stream);
    assert_false(stream->is_gone[0] || stream->is_gone[1]);
    contract_in_time(deadline,
                     "messages over a connection that fails: %" PRIu64 " of %" PRIu64 " arrived",
                     stream->delivered, count);
  }
}

static void settle(struct stream *stream)
{
  uint64_t deadline = contract_now_ns() + CONTRACT_DEADLINE_NS;
  while (stream->done + stream->failed < stream->posted) {
    poll_both(stream);
    contract_in_time(deadline, "DONEs: %" PRIu64 " of %" PRIu64, stream->done + stream->failed,
                     stream->posted);
  }
}

/* Until both ends say that it is over. */
static void run_to_the_end(struct stream *stream)
{
  uint64_t deadline = contract_now_ns() + CONTRACT_DEADLINE_NS;
  while (!stream->is_gone[0] || !stream->is_gone[1]) {
    post_some(stream, 8);
    poll_both(stream);
    contract_in_time(deadline, "DISCONNECTED at both ends (sender %d, receiver %d)",
                     stream->is_gone[0], stream->is_gone[1]);
  }
  settle(stream);
  /* What arrived was done or, its answer lost, failed; never the other way round. */
  assert_in_range(stream->delivered, stream->done, stream->posted);
  assert_int_equal(counter(&stream->pair->receiver, "messages_received"), stream->delivered);
}

/* ---- Had again ------------------------------------------------------------------------------ */

/* The fault falls anywhere between messages, again and again. */
static void goes_on(int which, const char *fault)
{
  struct stream stream;
  open_stream(&stream, which, 0);
  run(&stream, 100);
  for (uint64_t round = 1; round <= 6; round++) {
    char action[256];
    snprintf(action, sizeof(action), fault, (int)(contract_random() % 24));
    simulated_ctl(action);
    run(&stream, 100 + 200 * round);
    settle(&stream);
  }
  assert_int_equal(stream.failed, 0);
  assert_int_equal(stream.delivered, stream.posted);
  assert_in_range(counter(&stream.pair->sender, "reconnections"), 1, 1000);
  assert_in_range(counter(&stream.pair->receiver, "reconnections"), 1, 1000);
  simulated_ctl("clear");
  close_stream(&stream);
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

static void idle_goes_on(int which)
{
  struct stream stream;
  struct pst_completion held[64];
  const bool is_one_for_hellos = which == SHARED_SEND || which == CM_SHARED_SEND;
  const uint32_t most = params.slots - is_one_for_hellos;
  uint32_t n = 0;
  uint64_t deadline = contract_now_ns() + CONTRACT_DEADLINE_NS;
  open_stream(&stream, which, 0);
  while (n < most) {
    post_some(&stream, 16);
    contract_poll(&stream.pair->sender);
    contract_poll(&stream.pair->receiver);
    while (contract_take(&stream.pair->receiver, PST_COMPLETION_MESSAGE, 0, &held[n]))
      n++;
    contract_in_time(deadline, "messages into all slots: %u", n);
  }
  simulated_ctl("drop --count 60"); /* keepalives */
  while (counter(&stream.pair->sender, "reconnections") == 0 ||
         counter(&stream.pair->receiver, "reconnections") == 0) {
    contract_poll(&stream.pair->sender);
    contract_poll(&stream.pair->receiver);
    contract_in_time(deadline, "a connection that is idle to be had again");
  }
  for (uint32_t k = 0; k < n; k++) {
    assert_int_equal(held[k].u.message.sequence, k);
    assert_true(
        contract_verify(contract_payload(&stream.pair->receiver, &held[k]), params.message, k));
    contract_release(&stream.pair->receiver, &held[k]);
  }
  stream.delivered = n;
  run(&stream, 300);
  settle(&stream);
  assert_int_equal(stream.failed, 0);
  simulated_ctl("clear");
  close_stream(&stream);
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
  open_stream(&stream, which, 0);
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
  assert_in_range(counter(near, "reconnections"), 1, 1000);
  /* An atomic may have taken place: it is not done again. */
  requests[0] = (struct pst_request){.opcode = PST_OP_FETCH_ADD,
                                     .local.mr = near->mr,
                                     .u.atomic = {.remote = remote, .operand = 1}};
  simulated_ctl("drop --count 30");
  int rc;
  while ((rc = contract_post(near, 0, requests, 1, &wait)) == -EAGAIN)
    poll_both(&stream);
  assert_int_equal(rc, 1);
  assert_true(contract_await(near, far, PST_COMPLETION_DONE, PST_OP_FETCH_ADD).status < 0);
  contract_await(near, far, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  simulated_ctl("clear");
  near->image.ops->remote_close(near->endpoints[0], remote);
  far->image.ops->mr_deregister(far->device, mr);
  close_stream(&stream);
  contract_region_free(&memory);
}

static void one_sided_access_goes_on(void **state)
{
  (void)state;
  one_sided_access_goes_on_by(WRITE);
  one_sided_access_goes_on_by(FOUR_AGAIN);
}

/* ---- Over ------------------------------------------------------------------------------------ */

static void ends(int which, const char *fault, uint64_t timeout_ns, int status)
{
  struct stream stream;
  open_stream(&stream, which, timeout_ns);
  run(&stream, 100);
  contract_complaints();
  simulated_ctl(fault);
  run_to_the_end(&stream);
  assert_int_equal(stream.status[0], status);
  assert_in_range(contract_complaints(), 2, 8); /* each end has said why, and its device what */
  simulated_ctl("clear");
  close_stream(&stream);
}

static void without_reconnect_it_is_over(void **state)
{
  (void)state;
  ends(ONCE, "drop --after 5", 0, -ECONNRESET);
  ends(ONCE_SEND, "drop --after 5", 0, -ECONNRESET);
  ends(SHARED_ONCE, "drop --after 5", 0, -ECONNRESET);
}

/* Numbers of an endpoint's queue pairs, as its description says them. Returns how many. */
static uint32_t queue_pairs(const struct contract_side *side, unsigned int *numbers, uint32_t most)
{
  char text[512];
  uint32_t n = 0;
  assert_int_equal(side->image.ops->describe(side->endpoints[0], text, sizeof(text)), 0);
  char *at = strstr(text, "QP");
  assert_non_null(at);
  for (at += strcspn(at, " ") + 1; n < most; at += 2) {
    numbers[n++] = (unsigned int)strtoul(at, &at, 10);
    if (strncmp(at, ", ", 2) != 0)
      break;
  }
  return n;
}

/* Messages go by each of the four, are told in their order, and one that fails ends all. */
static void one_queue_pair_of_several_fails(void **state)
{
  (void)state;
  for (uint32_t which = 0; which < 4; which++) {
    struct stream stream;
    unsigned int numbers[8];
    char fault[64];
    open_stream(&stream, FOUR, 0);
    assert_int_equal(queue_pairs(&stream.pair->sender, numbers, 8), 4);
    assert_int_equal(counter(&stream.pair->sender, "queue_pairs"), 4);
    run(&stream, 100 + which);
    contract_complaints();
    snprintf(fault, sizeof(fault), "drop --qp %u", numbers[which]);
    simulated_ctl(fault);
    run_to_the_end(&stream);
    assert_int_equal(stream.status[0], -ECONNRESET);
    assert_in_range(contract_complaints(), 2, 8);
    simulated_ctl("clear");
    close_stream(&stream);
  }
}

/* As often as `faults` names one, with the queue pair's number; `%u` in it. */
static void plant(const char *faults, unsigned int number)
{
  char all[512], fault[256], *next, *at = all;
  snprintf(all, sizeof(all), "%s", faults);
  for (; at; at = next) {
    if ((next = strchr(at, ';')) != NULL)
      *next++ = 0;
    snprintf(fault, sizeof(fault), at, number);
    simulated_ctl(fault);
  }
}

/* Each of them, at either end, while messages are sent; the others are had again with it. */
static void each_fails(int which, uint32_t count, const char *faults, bool is_senders)
{
  struct stream stream;
  unsigned int numbers[8];
  open_stream(&stream, which, 0);
  assert_int_equal(
      queue_pairs(is_senders ? &stream.pair->sender : &stream.pair->receiver, numbers, 8), count);
  run(&stream, 100);
  for (uint32_t i = 0; i < count; i++) {
    const uint64_t before = counter(&stream.pair->sender, "reconnections");
    const uint64_t deadline = contract_now_ns() + CONTRACT_DEADLINE_NS;
    plant(faults, numbers[i]);
    do {
      run(&stream, stream.delivered + 50);
      contract_in_time(deadline, "a connection to be had again");
    } while (counter(&stream.pair->sender, "reconnections") == before);
    simulated_ctl("clear");
    run(&stream, stream.delivered + 100);
    settle(&stream);
  }
  assert_int_equal(stream.failed, 0);
  assert_int_equal(stream.delivered, stream.posted);
  assert_int_equal(counter(&stream.pair->sender, "messages_sent"), stream.posted);
  assert_int_equal(counter(&stream.pair->receiver, "messages_received"), stream.posted);
  close_stream(&stream);
}

static void one_queue_pair_of_several_is_had_again(void **state)
{
  (void)state;
  each_fails(TWO_AGAIN, 2, "drop --qp %u --after 3 --count 20", true);
  each_fails(FOUR_AGAIN, 4, "drop --qp %u --after 3 --count 20", true);
  each_fails(FOUR_AGAIN, 4, "qp-error --qp %u --after 3 --count 1", true);
}

/* All fail, and then one of either end's with its hello; or its hellos come when it is too late. */
static void queue_pairs_that_fail_while_they_are_had_again(void **state)
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

/* Those that others brought before their turn are not sent again, though nobody was told of them.
 */
static void messages_that_wait_for_their_turn_are_had(void **state)
{
  (void)state;
  struct stream stream;
  unsigned int numbers[8];
  open_stream(&stream, FOUR_AGAIN, 0);
  assert_int_equal(queue_pairs(&stream.pair->sender, numbers, 8), 4);
  plant("drop --qp %u --count 8", numbers[1]);
  while (stream.posted < 16)
    post_some(&stream, (uint32_t)(16 - stream.posted));
  uint64_t deadline = contract_now_ns() + CONTRACT_DEADLINE_NS;
  while (counter(&stream.pair->receiver, "reconnections") == 0) {
    poll_both(&stream);
    assert_in_range(stream.delivered, 0, counter(&stream.pair->receiver, "reconnections") ? 16 : 1);
    contract_in_time(deadline, "the connection to be had again");
  }
  run(&stream, 16);
  settle(&stream);
  assert_int_equal(counter(&stream.pair->sender, "messages_repeated"), 4);
  assert_int_equal(stream.failed, 0);
  simulated_ctl("clear");
  close_stream(&stream);
}

/* Messages of one are late: those of the others wait for their turn. */
static void order_is_kept_where_queue_pairs_differ(void **state)
{
  (void)state;
  struct stream stream;
  unsigned int numbers[8];
  char fault[64];
  open_stream(&stream, FOUR, 0);
  queue_pairs(&stream.pair->sender, numbers, 8);
  snprintf(fault, sizeof(fault), "drop --qp %u --share 0.05", numbers[2]);
  simulated_ctl(fault);
  run(&stream, 2000);
  settle(&stream);
  assert_int_equal(stream.failed, 0);
  simulated_ctl("clear");
  close_stream(&stream);
}

static void peer_that_is_lost_is_given_up(void **state)
{
  (void)state;
  const int all[] = {BRIEFLY, FOUR_BRIEFLY};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    ends(all[i], "lose-peer host", 0, -ETIMEDOUT);
    simulated_ctl("restore-peer host");
  }
}

static void port_goes_down_and_is_told(void **state)
{
  (void)state;
  ends(ONCE, "port-down " DEVICE "/1", 0, -ECONNRESET);
  simulated_ctl("port-up " DEVICE "/1");
}

/* What the adapter tells of itself: nothing else does, since all that is posted is flushed. At the
 * end that is hit; the other one's answers do not come. */
static void queue_pair_ends(int which, bool is_sender)
{
  struct stream stream;
  unsigned int number;
  char fault[64];
  open_stream(&stream, which, 0);
  struct contract_side *side = is_sender ? &stream.pair->sender : &stream.pair->receiver;
  assert_int_equal(queue_pairs(side, &number, 1), 1);
  run(&stream, 100);
  contract_complaints();
  snprintf(fault, sizeof(fault), "qp-error --qp %u --after 2", number);
  simulated_ctl(fault);
  run_to_the_end(&stream);
  assert_int_equal(stream.status[is_sender ? 0 : 1], -EIO);
  assert_int_equal(stream.status[is_sender ? 1 : 0], -ECONNRESET);
  assert_in_range(contract_complaints(), 2, 8);
  simulated_ctl("clear");
  close_stream(&stream);
}

static void queue_pair_that_fails(void **state)
{
  (void)state;
  goes_on(WRITE, "qp-error --after %d --count 1");
  goes_on(SEND, "qp-error --after %d --count 1");
  goes_on(SHARED, "qp-error --after %d --count 1");
  goes_on(TWO_AGAIN, "qp-error --after %d --count 1");
  goes_on(FOUR_AGAIN, "qp-error --after %d --count 1");
  queue_pair_ends(ONCE, true);
  queue_pair_ends(ONCE, false);
  queue_pair_ends(SHARED_ONCE, true);
  queue_pair_ends(SHARED_ONCE, false);
}

/* No completion comes any more, not even of what is flushed. */
static void completion_queue_that_fails(void **state)
{
  (void)state;
  ends(WRITE, "cq-error", 0, -EIO);
  ends(FOUR_AGAIN, "cq-error", 0, -EIO);
  ends(ONCE, "cq-error --after 5", 0, -EIO);
}

/* ---- Told, and nothing more ------------------------------------------------------------------ */

/* The next line with an event: what it says, and how loudly. */
static void await_told(struct stream *stream, int level, const char *said)
{
  char line[512];
  int heard;
  uint64_t deadline = contract_now_ns() + CONTRACT_DEADLINE_NS;
  while ((heard = contract_heard(line, sizeof(line))) < 0) {
    poll_both(stream);
    contract_in_time(deadline, "\"%s\"", said);
  }
  assert_string_equal(line, said);
  assert_int_equal(heard, level);
}

static void ports_events_are_told(void **state)
{
  static const struct {
    const char *event;
    int level;
    const char *said;
  } all[] = {
      {"sm-change", PST_LOG_INFO,
       "mlx5_0 port 1: IBV_EVENT_SM_CHANGE: the port has another subnet manager"},
      {"client-reregister", PST_LOG_INFO,
       "mlx5_0 port 1: IBV_EVENT_CLIENT_REREGISTER: the subnet manager asks its clients to "
       "register anew, of whom Penstock is none"},
      {"lid-change", PST_LOG_WARN,
       "mlx5_0 port 1: IBV_EVENT_LID_CHANGE: the port's LID changed; check: the subnet manager"},
      {"pkey-change", PST_LOG_WARN,
       "mlx5_0 port 1: IBV_EVENT_PKEY_CHANGE: the port's P_Keys changed; check: `pkey_index`"},
      {"gid-change", PST_LOG_WARN,
       "mlx5_0 port 1: IBV_EVENT_GID_CHANGE: the port's GIDs changed; check: `ip addr`; connect "
       "again"},
      {"unknown", PST_LOG_WARN,
       "mlx5_0: unknown event (31): an event that is newer than this program; check: the same "
       "number in a newer rdma-core's <infiniband/verbs.h>, `dmesg`"},
  };
  struct stream stream;
  char action[128];
  (void)state;
  open_stream(&stream, ONCE, 0);
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    contract_listen(strstr(all[i].said, "unknown event") ? "unknown event" : "IBV_EVENT_");
    snprintf(action, sizeof(action), "port-event " DEVICE "/1 --event %s", all[i].event);
    simulated_ctl(action);
    await_told(&stream, all[i].level, all[i].said); /* by each end */
    await_told(&stream, all[i].level, all[i].said);
    run(&stream, 20 * (i + 1));
  }
  contract_listen(NULL);
  settle(&stream);
  assert_int_equal(stream.failed, 0);
  close_stream(&stream);
}

/* COMM_EST and SQ_DRAINED are given first, and are not worth a line. */
static void queue_pairs_events_are_told(void **state)
{
  (void)state;
  struct stream stream;
  unsigned int number;
  char action[128];
  open_stream(&stream, ONCE, 0);
  assert_int_equal(queue_pairs(&stream.pair->sender, &number, 1), 1);
  contract_listen("IBV_EVENT_");
  static const char *const events[] = {"comm-est", "sq-drained", "path-mig", "path-mig-err"};
  for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
    snprintf(action, sizeof(action), "qp-event --qp %u --event %s --count 1", number, events[i]);
    simulated_ctl(action);
  }
  run(&stream, 20);
  await_told(&stream, PST_LOG_INFO,
             "sender: IBV_EVENT_PATH_MIG: the connection has moved to its alternate path");
  await_told(&stream, PST_LOG_WARN,
             "sender: IBV_EVENT_PATH_MIG_ERR: the connection could not be moved to its alternate "
             "path; check: the subnet manager");
  contract_listen(NULL);
  run(&stream, 40);
  settle(&stream);
  assert_int_equal(stream.failed, 0);
  simulated_ctl("clear");
  close_stream(&stream);
}

static void device_that_is_removed(void **state)
{
  (void)state;
  ends(WRITE, "remove-device " DEVICE, 0, -EIO);
  simulated_ctl("restore-device " DEVICE);
}

/* The device waits for answers for ever, as soft-RoCE does with retry_cnt 7. */
static void answer_that_never_comes(void **state)
{
  (void)state;
  struct stream stream;
  open_stream(&stream, FOR_EVER, 100000000);
  run(&stream, 100);
  uint64_t deadline = contract_now_ns() + CONTRACT_DEADLINE_NS;
  while (counter(&stream.pair->sender, "credits") != params.slots) {
    poll_both(&stream);
    contract_in_time(deadline, "credit for all slots");
  }
  simulated_ctl("drop");
  simulated_ctl("clock manual");
  post_some(&stream, 4);
  while (!stream.is_gone[0]) {
    poll_both(&stream);
    contract_in_time(deadline, "the stream's own timeout");
  }
  assert_int_equal(stream.status[0], -ETIMEDOUT);
  settle(&stream);
  assert_int_equal(stream.failed, 4);
  simulated_ctl("clock real");
  simulated_ctl("clear");
  close_stream(&stream);
}

static void leave(struct contract_side *side, uint32_t mode, uint64_t in_ns)
{
  assert_int_equal(
      side->image.ops->endpoint_close(side->endpoints[0], mode, contract_now_ns() + in_ns), 0);
  contract_await(side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
}

/* A receiver's credit goes to a queue pair that is gone, and its device tries for ever. */
static void closing_awaits_nothing_of_a_peer_that_left(void **state)
{
  (void)state;
  for (uint32_t mode = PST_CLOSE_DRAIN; mode <= PST_CLOSE_ABORT; mode++) {
    struct stream stream;
    open_stream(&stream, FOR_EVER, 0);
    struct contract_side *sender = &stream.pair->sender, *receiver = &stream.pair->receiver;
    post_some(&stream, 1);
    contract_await_done(sender, receiver, PST_OP_SEND, 1, 0);
    struct pst_completion held = contract_await(receiver, sender, PST_COMPLETION_MESSAGE, 0);
    simulated_ctl("clock manual");
    leave(sender, mode, CONTRACT_DEADLINE_NS);
    contract_release(receiver, &held);
    contract_await(receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
    leave(receiver, mode, 100 * CONTRACT_DEADLINE_NS);
    simulated_ctl("clock real");
    close_stream(&stream);
  }
}

/* Nor does a sender that stays wait for ever for what its receiver has not had. */
static void requests_end_when_a_peer_has_left(void **state)
{
  (void)state;
  struct stream stream;
  unsigned int number;
  char fault[64];
  open_stream(&stream, FOR_EVER, 100000000);
  assert_int_equal(queue_pairs(&stream.pair->sender, &number, 1), 1);
  snprintf(fault, sizeof(fault), "drop --qp %u", number);
  simulated_ctl("clock manual");
  simulated_ctl(fault);
  post_some(&stream, 4);
  leave(&stream.pair->receiver, PST_CLOSE_ABORT, CONTRACT_DEADLINE_NS);
  contract_await_done(&stream.pair->sender, NULL, PST_OP_SEND, 4, -ECONNRESET);
  contract_await(&stream.pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  simulated_ctl("clock real");
  simulated_ctl("clear");
  close_stream(&stream);
}

#if PST_TEST_RDMA_CM
/* ---- By rdma_cm ------------------------------------------------------------------------------ */

static const int by_cm[] = {CM, CM_SEND, CM_SHARED_SEND};

static void rdma_cm_goes_on(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof(by_cm) / sizeof(by_cm[0]); i++) {
    goes_on(by_cm[i], "drop --after %d --count 40");
    goes_on(by_cm[i], "qp-error --after %d --count 1");
    idle_goes_on(by_cm[i]);
    simulated_ctl("clock 100");
    goes_on(by_cm[i], "port-down " DEVICE "/1 --after %d --for 5s");
    simulated_ctl("clock real");
    assert_int_equal(simulated_cm_ids(), 0);
  }
}

#define FASTER 30

/* The transport's time: what the kernel does not tell costs 100 ms instead of 3 s. */
static uint64_t soon_ns(void)
{
  return FASTER * contract_now_ns();
}

/* Each of its messages, at some time: request, answer, news of the end. */
static void rdma_cm_loses_its_own_messages(void **state)
{
  (void)state;
  contract_host_clock(soon_ns);
  for (uint32_t one_of = 2; one_of <= 4; one_of++) {
    struct stream stream;
    open_stream(&stream, CM_SLOWLY, FASTER * CONTRACT_DEADLINE_NS);
    simulated_cm_loses(one_of);
    run(&stream, 50);
    for (uint64_t round = 1; round <= 4; round++) {
      simulated_ctl("drop --after 10 --count 40");
      run(&stream, 50 + 100 * round);
      settle(&stream);
    }
    assert_int_equal(stream.failed, 0);
    assert_int_equal(stream.delivered, stream.posted);
    assert_in_range(counter(&stream.pair->sender, "reconnections"), 1, 1000);
    simulated_ctl("clear");
    simulated_cm_loses(0);
    close_stream(&stream);
    assert_int_equal(simulated_cm_ids(), 0);
  }
  contract_host_clock(contract_now_ns);
}

/* Requests are answered, and no hello is. */
static void rdma_cm_stands_and_packets_do_not_pass(void **state)
{
  (void)state;
  ends(CM_BRIEFLY, "lose-peer host", 0, -ETIMEDOUT);
  simulated_ctl("restore-peer host");
}

/* Its kernel says so, and that of the peer refuses for good: nobody waits for `reconnect`. */
static void rdma_cm_is_told_of_a_receiver_that_is_gone(void **state)
{
  (void)state;
  struct stream stream;
  open_stream(&stream, CM_LONG, 0);
  struct contract_side *sender = &stream.pair->sender, *receiver = &stream.pair->receiver;
  run(&stream, 100);
  settle(&stream);
  simulated_ctl("drop"); /* farewells, too */
  leave(receiver, PST_CLOSE_ABORT, CONTRACT_DEADLINE_NS / 10);
  struct pst_completion gone =
      contract_await(sender, receiver, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -ECONNRESET);
  simulated_ctl("clear");
  close_stream(&stream);
  assert_int_equal(simulated_cm_ids(), 0);
}
#endif

/* Ends that disagree are told apart by their addresses. */
static void operations_that_differ_are_refused(void **state)
{
  (void)state;
  struct contract_pair *four = contract_pair_open(&variants[FOUR], &params);
  struct contract_pair *write = contract_pair_open(&variants[ONCE], &params);
  struct contract_pair *send = contract_pair_open(&variants[ONCE_SEND], &params);
  struct pst_blob blob;
  contract_address(&send->receiver, 0, &blob);
  assert_int_equal(contract_connect(&write->sender, 0, &blob), -EPROTO);
  contract_address(&write->sender, 0, &blob);
  assert_int_equal(contract_connect(&send->receiver, 0, &blob), -EPROTO);
  contract_address(&four->receiver, 0, &blob);
  assert_int_equal(contract_connect(&write->sender, 0, &blob), -EPROTO);
  char text[512];
  contract_pair_connect(send);
  assert_int_equal(send->sender.image.ops->describe(send->sender.endpoints[0], text, sizeof(text)),
                   0);
  assert_non_null(strstr(text, "messages by SEND"));
  contract_pair_close(four);
  contract_pair_close(write);
  contract_pair_close(send);
  contract_complaints();
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
    CONTRACT_CASE(messages_that_vanish),
    CONTRACT_CASE(link_that_is_down_for_a_while),
    CONTRACT_CASE(link_that_is_down_while_nothing_is_sent),
    CONTRACT_CASE(one_sided_access_goes_on),
    CONTRACT_CASE(without_reconnect_it_is_over),
    CONTRACT_CASE(one_queue_pair_of_several_fails),
    CONTRACT_CASE(one_queue_pair_of_several_is_had_again),
    CONTRACT_CASE(queue_pairs_that_fail_while_they_are_had_again),
    CONTRACT_CASE(messages_that_wait_for_their_turn_are_had),
    CONTRACT_CASE(order_is_kept_where_queue_pairs_differ),
    CONTRACT_CASE(peer_that_is_lost_is_given_up),
    CONTRACT_CASE(port_goes_down_and_is_told),
    CONTRACT_CASE(queue_pair_that_fails),
    CONTRACT_CASE(completion_queue_that_fails),
    CONTRACT_CASE(ports_events_are_told),
    CONTRACT_CASE(queue_pairs_events_are_told),
    CONTRACT_CASE(device_that_is_removed),
    CONTRACT_CASE(answer_that_never_comes),
    CONTRACT_CASE(closing_awaits_nothing_of_a_peer_that_left),
    CONTRACT_CASE(requests_end_when_a_peer_has_left),
    CONTRACT_CASE(operations_that_differ_are_refused),
#if PST_TEST_RDMA_CM
    CONTRACT_CASE(rdma_cm_goes_on),
    CONTRACT_CASE(rdma_cm_loses_its_own_messages),
    CONTRACT_CASE(rdma_cm_stands_and_packets_do_not_pass),
    CONTRACT_CASE(rdma_cm_is_told_of_a_receiver_that_is_gone),
#endif
  };
  return CONTRACT_RUN("faults", cases, &variants[0]) ? 1 : 0;
}
