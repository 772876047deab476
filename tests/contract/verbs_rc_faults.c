/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_rc on a simulated device that fails: messages that vanish, links that go down, peers and
 * devices that go, answers that never come. Each message arrives once and in order, or the
 * connection is over, and all that was posted is accounted for. (verbs_rc_reconnect.c has them
 * again.)
 *
 *     penstock-simverbs verbs-rc-faults PLUGIN LAUNCHER
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>

#include "verbs_rc_stream.h"

/* ---- Before it is up --------------------------------------------------------------------------
 */

static struct stream *early;  /* whose receiver is on its way to RTS */
static uint32_t early_others; /* of its queue pairs, which are there first */
static bool early_leaves;     /* and its sender leaves at once */

/* The plugin's: what a worker does meanwhile comes between. */
__attribute__((visibility("default"))) int ibv_modify_qp(struct ibv_qp *qp,
                                                         struct ibv_qp_attr *attr, int mask)
{
  int (*next)(struct ibv_qp *, struct ibv_qp_attr *, int) = NULL;
  struct stream *stream = early;
  void *library = dlopen("libibverbs.so.1", RTLD_NOW); /* the plugin's, which stays */
  assert_non_null(library);
  *(void **)&next = dlsym(library, "ibv_modify_qp");
  assert_non_null(next);
  dlclose(library);
  if (stream && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTS && early_others-- == 0) {
    early = NULL;
    /* Its hello is answered: the completion is there. */
    contract_await(&stream->pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
    if (early_leaves)
      stream_leave(&stream->pair->sender, PST_CLOSE_DRAIN, contract_deadline_ns);
    else
      stream_post(stream, 8); /* which arrive behind it */
    contract_poll(&stream->pair->receiver);
    contract_poll(&stream->pair->receiver);
    assert_int_equal(stream->pair->receiver.logged, 0);
  }
  return next(qp, attr, mask);
}

/* The receiver's queue pair is in RTR, which hears it, and not yet in RTS. Later arrivals are
 * reported with the connection: messages, or that the sender has left. */
static void hello_comes_early(int which)
{
  struct stream stream = {.pair = contract_pair_open(&stream_variants[which], &stream_params)};
  struct contract_side *sender = &stream.pair->sender, *receiver = &stream.pair->receiver;
  struct pst_blob blob;
  contract_address(receiver, 0, &blob);
  assert_int_equal(contract_connect(sender, 0, &blob), 0);
  early = &stream;
  early_others = which == FOUR ? 3 : 0;
  contract_address(sender, 0, &blob);
  assert_int_equal(contract_connect(receiver, 0, &blob), 0);
  assert_null(early);
  contract_await(receiver, sender, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  if (early_leaves) {
    struct pst_completion gone =
        contract_await(receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
    assert_int_equal(gone.status, 0);
  } else {
    stream_run(&stream, 200);
    stream_settle(&stream);
  }
  stream_close(&stream);
}

static void a_hello_comes_early(void **state)
{
  const int kinds[] = {ONCE, ONCE_SEND, SHARED_ONCE, FOUR};
  (void)state;
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
    hello_comes_early(kinds[i]);
  early_leaves = true;
  for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
    hello_comes_early(kinds[i]);
  early_leaves = false;
}

/* The host has no memory for the work: nothing was begun that the end would wait for. */
static void connecting_that_is_refused_can_be_closed(void **state)
{
  (void)state;
  struct contract_pair *pair = contract_pair_open(&stream_variants[ONCE], &stream_params);
  struct pst_blob blob;
  contract_address(&pair->receiver, 0, &blob);
  contract_host_refuses_works(true);
  assert_int_equal(contract_connect(&pair->sender, 0, &blob), -ENOMEM);
  contract_host_refuses_works(false);
  stream_leave(&pair->sender, PST_CLOSE_DRAIN, contract_deadline_ns);
  contract_pair_close(pair);
}

/* A device that says a hello again after 1.07 s is of no use to a stream that waits for 0.1. */
static void a_hello_is_repeated_too_late(void **state)
{
  (void)state;
  struct contract_variant slow = stream_variants[ONCE];
  struct contract_params brief = stream_params;
  struct pst_blob blob;
  char line[512];
  slow.options = "device=mlx5_0,timeout=18,keepalive=0";
  brief.timeout_ns = 100000000;
  struct contract_pair *pair = contract_pair_open(&slow, &brief);
  contract_listen("Check: `timeout: 18`: a hello that came too early is sent again "
                  "only after 1.1 s, and this end waits 0.1 s; `hop_limit`");
  contract_address(&pair->sender, 0, &blob);
  assert_int_equal(contract_connect(&pair->receiver, 0, &blob), 0);
  assert_int_equal(
      contract_await(&pair->receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED).status,
      -ETIMEDOUT);
  assert_int_equal(contract_heard(line, sizeof(line)), PST_LOG_ERROR);
  contract_listen(NULL);
  contract_complaints();
  contract_pair_close(pair);
}

/* Numbers of queue pairs come again: what a connection that is over had is another's by now. */
static void a_number_that_is_over_may_be_anothers(void **state)
{
  (void)state;
  struct contract_params brief = stream_params;
  struct pst_blob blob;
  brief.timeout_ns = 100000000;
  struct contract_pair *pair = contract_pair_open(&stream_variants[ONCE], &brief);
  struct contract_side *sender = &pair->sender, *receiver = &pair->receiver;
  contract_pair_connect(pair);
  contract_address(receiver, 0, &blob);
  stream_leave(receiver, PST_CLOSE_DRAIN, contract_deadline_ns);
  contract_await(sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  contract_endpoint_open(sender, &brief, NULL, 1);
  assert_int_equal(contract_connect(sender, 1, &blob), 0);
  /* Nobody has it, here. */
  assert_int_equal(
      contract_await(sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED).status,
      -ETIMEDOUT);
  contract_complaints();
  contract_pair_close(pair);
}

/* ---- Over ------------------------------------------------------------------------------------ */

static void without_reconnect_it_is_over(void **state)
{
  (void)state;
  stream_ends(ONCE, "drop --after 5", 0, -ECONNRESET);
  stream_ends(ONCE_SEND, "drop --after 5", 0, -ECONNRESET);
  stream_ends(SHARED_ONCE, "drop --after 5", 0, -ECONNRESET);
}

/* Messages go by each of the four queue pairs and arrive in order. One that fails ends all. */
static void one_queue_pair_of_several_fails(void **state)
{
  (void)state;
  for (uint32_t which = 0; which < 4; which++) {
    struct stream stream;
    unsigned int numbers[8];
    char fault[64];
    stream_open(&stream, FOUR, 0);
    assert_int_equal(stream_queue_pairs(&stream.pair->sender, numbers, 8), 4);
    assert_int_equal(stream_counter(&stream.pair->sender, "queue_pairs"), 4);
    stream_run(&stream, 100 + which);
    contract_complaints();
    snprintf(fault, sizeof(fault), "drop --qp %u", numbers[which]);
    simulated_ctl(fault);
    stream_run_to_the_end(&stream);
    assert_int_equal(stream.status[0], -ECONNRESET);
    assert_in_range(contract_complaints(), 2, 8);
    simulated_ctl("clear");
    stream_close(&stream);
  }
}

/* Messages of one are late: those of the others wait for their turn. */
static void order_is_kept_where_queue_pairs_differ(void **state)
{
  (void)state;
  for (int turns = 0; turns < 2; turns++) {
    struct stream stream;
    unsigned int numbers[8];
    char fault[64];
    stream_slots = turns ? STREAM_TURNS : stream_params.slots;
    stream_open(&stream, FOUR, 0);
    stream_queue_pairs(&stream.pair->sender, numbers, 8);
    snprintf(fault, sizeof(fault), "drop --qp %u --share 0.05", numbers[2]);
    simulated_ctl(fault);
    stream_run(&stream, 2000);
    stream_settle(&stream);
    assert_int_equal(stream.failed, 0);
    simulated_ctl("clear");
    stream_close(&stream);
  }
  stream_slots = stream_params.slots;
}

/* `n` of them from `*number` on, by one call. Returns how many there was room for. */
static uint32_t send_some(struct contract_side *side, uint64_t *number, uint32_t n)
{
  struct pst_request requests[64];
  uint32_t wait;
  for (uint32_t i = 0; i < n; i++)
    requests[i] = contract_send(side, 0, 8, *number + i);
  int rc = contract_post(side, 0, requests, n, &wait);
  assert_true(rc > 0 || rc == -EAGAIN);
  *number += rc > 0 ? (uint32_t)rc : 0;
  return rc > 0 ? (uint32_t)rc : 0;
}

/* Both ends send. One's message is late by one queue pair; meanwhile it gives credit by another,
 * again and again, and there is still room for all its requests. */
static void credit_leaves_room_for_requests(void **state)
{
  struct contract_params params = stream_params, few = stream_params;
  struct contract_pair *pair = calloc(1, sizeof(*pair));
  struct contract_side *late = &pair->sender, *other = &pair->receiver;
  struct pst_completion one;
  unsigned int numbers[8];
  char fault[64];
  uint64_t sent = 0, others = 0, had = 0, done = 0;
  (void)state;
  params.roles_more = few.roles_more = PST_ROLE_SENDER;
  params.slots = 128;
  few.slots = 4; /* each is given back by itself */
  pair->params = params;
  contract_side_open(&stream_variants[FOUR], &few, false, true, late);
  contract_side_open(&stream_variants[FOUR], &params, false, true, other);
  contract_pair_connect(pair);
  stream_queue_pairs(late, numbers, 8);
  snprintf(fault, sizeof(fault), "drop --qp %u", numbers[1]);
  simulated_ctl("clock manual");
  simulated_ctl(fault);
  assert_int_equal(send_some(late, &sent, 9), 9); /* a turn of 8, and the next one's first */
  for (uint32_t idle = 0; idle < 10; idle++) {
    if (send_some(other, &others, 1))
      idle = 0;
    contract_poll(other);
    contract_poll(late);
    for (; contract_take(late, PST_COMPLETION_MESSAGE, 0, &one); had++)
      contract_release(late, &one);
  }
  assert_in_range(had, 30, others);
  assert_int_equal(send_some(late, &sent, 63), 63);
  simulated_ctl("clear");
  simulated_ctl("clock real");
  for (uint64_t number = 0; number < sent; number++) {
    one = contract_await(other, late, PST_COMPLETION_MESSAGE, 0);
    assert_int_equal(one.u.message.sequence, number);
    contract_release(other, &one);
  }
  while (done < sent) {
    one = contract_await(late, other, PST_COMPLETION_DONE, PST_OP_SEND);
    done += one.u.done.count;
    assert_int_equal(one.status, 0);
    assert_int_equal(one.u.done.cookie, done - 1);
  }
  /* And it gives credit again. */
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  for (uint64_t end = others + 50; had < end;) {
    if (others < end)
      send_some(other, &others, 1);
    contract_poll(other);
    contract_poll(late);
    for (; contract_take(late, PST_COMPLETION_MESSAGE, 0, &one); had++) {
      assert_int_equal(one.u.message.sequence, had);
      contract_release(late, &one);
    }
    contract_in_time(deadline, "messages: %" PRIu64 " of %" PRIu64, had, end);
  }
  contract_pair_close(pair);
  contract_complaints();
}

static void port_goes_down_and_is_reported(void **state)
{
  (void)state;
  stream_ends(ONCE, "port-down " DEVICE "/1", 0, -ECONNRESET);
  simulated_ctl("port-up " DEVICE "/1");
}

/* The end that is hit learns of the fault by the adapter's event alone, since all that is posted is
 * flushed. The other end gets no answers. */
static void queue_pair_ends(int which, bool is_sender)
{
  struct stream stream;
  unsigned int number;
  char fault[64];
  stream_open(&stream, which, 0);
  struct contract_side *side = is_sender ? &stream.pair->sender : &stream.pair->receiver;
  assert_int_equal(stream_queue_pairs(side, &number, 1), 1);
  stream_run(&stream, 100);
  contract_complaints();
  snprintf(fault, sizeof(fault), "qp-error --qp %u --after 2", number);
  simulated_ctl(fault);
  stream_run_to_the_end(&stream);
  assert_int_equal(stream.status[is_sender ? 0 : 1], -EIO);
  assert_int_equal(stream.status[is_sender ? 1 : 0], -ECONNRESET);
  assert_in_range(contract_complaints(), 2, 8);
  simulated_ctl("clear");
  stream_close(&stream);
}

static void queue_pair_that_fails(void **state)
{
  (void)state;
  queue_pair_ends(ONCE, true);
  queue_pair_ends(ONCE, false);
  queue_pair_ends(SHARED_ONCE, true);
  queue_pair_ends(SHARED_ONCE, false);
}

/* No completion comes any more, not even of what is flushed. */
static void completion_queue_that_fails(void **state)
{
  (void)state;
  stream_ends(WRITE, "cq-error", 0, -EIO);
  stream_ends(FOUR_AGAIN, "cq-error", 0, -EIO);
  stream_ends(ONCE, "cq-error --after 5", 0, -EIO);
}

static void device_that_is_removed(void **state)
{
  (void)state;
  stream_ends(WRITE, "remove-device " DEVICE, 0, -EIO);
  simulated_ctl("restore-device " DEVICE);
}

/* One that another worker reads wakes whom it concerns, who has nothing else to wake it. */
static void events_wake_those_whom_others_read_them_for(void **state)
{
  (void)state;
  struct contract_variant idle = stream_variants[SHARED_ONCE];
  struct contract_params sleepy = stream_params;
  idle.options = "device=mlx5_0,keepalive=0,srq=true";
  sleepy.sleep = true;
  struct contract_pair *pair = contract_pair_open(&idle, &sleepy);
  struct contract_side *asleep = &pair->receiver;
  const struct pst_transport_ops *ops = asleep->image.ops;
  struct pst_worker *other;
  struct pollfd woken = {.fd = ops->event_fd(asleep->worker), .events = POLLIN};
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  assert_int_equal(ops->worker_open(asleep->device, 1, &other), 0);
  contract_pair_connect(pair);
  do {
    while (contract_poll(asleep) > 0)
      ;
    contract_in_time(deadline, "arm to say 0");
  } while (ops->arm(asleep->worker) != 0 || poll(&woken, 1, 0) != 0);
  contract_complaints();
  simulated_ctl("remove-device " DEVICE);
  while (contract_complaints() == 0) {
    ops->arm(other);
    contract_in_time(deadline, "the other worker to say that the device is lost");
  }
  assert_int_equal(poll(&woken, 1, 0), 1);
  const struct pst_completion lost =
      contract_await(asleep, NULL, PST_COMPLETION_EVENT, PST_EVENT_DEVICE);
  assert_int_equal(lost.endpoint, 0);
  assert_int_equal(lost.status, -EIO);
  assert_int_equal(
      contract_await(asleep, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED).status, -EIO);
  assert_false(
      contract_take(asleep, PST_COMPLETION_EVENT, PST_EVENT_DEVICE, &(struct pst_completion){0}));
  simulated_ctl("restore-device " DEVICE);
  ops->worker_close(other);
  contract_pair_close(pair);
  contract_complaints();
}

/* The device waits for answers for ever, as soft-RoCE does with retry_cnt 7. */
static void answer_that_never_comes(void **state)
{
  (void)state;
  struct stream stream;
  stream_open(&stream, FOR_EVER, 100000000);
  stream_run(&stream, 100);
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  stream_settle(&stream);
  do {
    stream_poll(&stream);
    contract_in_time(deadline, "credit that is on its way");
  } while (stream_counter(&stream.pair->sender, "credit_messages_received") !=
           stream_counter(&stream.pair->receiver, "credit_messages_sent"));
  simulated_ctl("drop");
  simulated_ctl("clock manual");
  stream_post(&stream, 4);
  while (!stream.is_gone[0]) {
    stream_poll(&stream);
    contract_in_time(deadline, "the stream's own timeout");
  }
  assert_int_equal(stream.status[0], -ETIMEDOUT);
  stream_settle(&stream);
  assert_int_equal(stream.failed, 4);
  simulated_ctl("clock real");
  simulated_ctl("clear");
  stream_close(&stream);
}

static uint64_t late_ns(void)
{
  return contract_now_ns() + 10 * contract_deadline_ns;
}

/* The answers are there, more of them than a poll takes, and nobody is late with them. */
static void who_stood_still_takes_what_has_come(void **state)
{
  const struct contract_params params = {
      .endpoints = 2, .slots = 640, .message = 64, .requests = 310, .pieces = 1};
  (void)state;
  for (int arms = 0; arms < 2; arms++) {
    struct contract_pair *pair = contract_pair_open(&stream_variants[ONCE], &params);
    struct contract_side *sender = &pair->sender;
    struct pst_request request = contract_send(sender, 0, 8, 0);
    struct pst_completion one;
    uint32_t wait;
    contract_pair_connect(pair);
    for (uint32_t i = 0; i <= 300; i++)
      assert_int_equal(contract_post(sender, i / 300, &request, 1, &wait), 1);
    assert_int_equal(sender->image.ops->arm(sender->worker), -EAGAIN); /* they are under way */
    contract_host_clock(late_ns);
    if (arms)
      assert_int_equal(sender->image.ops->arm(sender->worker), -EAGAIN);
    contract_await_done(sender, NULL, PST_OP_SEND, 301, 0);
    assert_false(contract_take(sender, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &one));
    contract_pair_close(pair);
    contract_host_clock(contract_now_ns);
  }
}

/* A receiver's credit goes to a queue pair that is gone, and its device tries for ever. */
static void closing_awaits_nothing_of_a_peer_that_left(void **state)
{
  (void)state;
  for (uint32_t mode = PST_CLOSE_DRAIN; mode <= PST_CLOSE_ABORT; mode++) {
    struct stream stream;
    stream_open(&stream, FOR_EVER, 0);
    struct contract_side *sender = &stream.pair->sender, *receiver = &stream.pair->receiver;
    stream_post(&stream, 1);
    contract_await_done(sender, receiver, PST_OP_SEND, 1, 0);
    struct pst_completion held = contract_await(receiver, sender, PST_COMPLETION_MESSAGE, 0);
    simulated_ctl("clock manual");
    stream_leave(sender, mode, contract_deadline_ns);
    contract_release(receiver, &held);
    contract_await(receiver, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
    stream_leave(receiver, mode, 100 * contract_deadline_ns);
    simulated_ctl("clock real");
    stream_close(&stream);
  }
}

/* Nor does a sender that stays wait for ever for what its receiver has not had. */
static void requests_end_when_a_peer_has_left(void **state)
{
  (void)state;
  struct stream stream;
  unsigned int number;
  char fault[64];
  stream_open(&stream, FOR_EVER, 100000000);
  assert_int_equal(stream_queue_pairs(&stream.pair->sender, &number, 1), 1);
  snprintf(fault, sizeof(fault), "drop --qp %u", number);
  simulated_ctl("clock manual");
  simulated_ctl(fault);
  stream_post(&stream, 4);
  stream_leave(&stream.pair->receiver, PST_CLOSE_ABORT, contract_deadline_ns);
  contract_await_done(&stream.pair->sender, NULL, PST_OP_SEND, 4, -ECONNRESET);
  contract_await(&stream.pair->sender, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  simulated_ctl("clock real");
  simulated_ctl("clear");
  stream_close(&stream);
}

/* The address of a peer says its operation, so that ends that disagree are refused. */
static void operations_that_differ_are_refused(void **state)
{
  (void)state;
  struct contract_pair *four = contract_pair_open(&stream_variants[FOUR], &stream_params);
  struct contract_pair *write = contract_pair_open(&stream_variants[ONCE], &stream_params);
  struct contract_pair *send = contract_pair_open(&stream_variants[ONCE_SEND], &stream_params);
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

/* ---- Told, and nothing more ------------------------------------------------------------------ */

/* The next line with an event: what it says, and how loudly. */
static void await_told(struct stream *stream, int level, const char *said)
{
  char line[512];
  int heard;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while ((heard = contract_heard(line, sizeof(line))) < 0) {
    stream_poll(stream);
    contract_in_time(deadline, "\"%s\"", said);
  }
  assert_string_equal(line, said);
  assert_int_equal(heard, level);
}

static void ports_events_are_reported(void **state)
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
       "register again; Penstock is not one of them"},
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
  stream_open(&stream, ONCE, 0);
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    contract_listen(strstr(all[i].said, "unknown event") ? "unknown event" : "IBV_EVENT_");
    snprintf(action, sizeof(action), "port-event " DEVICE "/1 --event %s", all[i].event);
    simulated_ctl(action);
    await_told(&stream, all[i].level, all[i].said); /* by each end */
    await_told(&stream, all[i].level, all[i].said);
    stream_run(&stream, 20 * (i + 1));
  }
  contract_listen(NULL);
  stream_settle(&stream);
  assert_int_equal(stream.failed, 0);
  stream_close(&stream);
}

/* COMM_EST and SQ_DRAINED are given first, and are not worth a line. */
static void queue_pairs_events_are_reported(void **state)
{
  (void)state;
  struct stream stream;
  unsigned int number;
  char action[128];
  stream_open(&stream, ONCE, 0);
  assert_int_equal(stream_queue_pairs(&stream.pair->sender, &number, 1), 1);
  contract_listen("IBV_EVENT_");
  static const char *const events[] = {"comm-est", "sq-drained", "path-mig", "path-mig-err"};
  for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
    snprintf(action, sizeof(action), "qp-event --qp %u --event %s --count 1", number, events[i]);
    simulated_ctl(action);
  }
  stream_run(&stream, 20);
  await_told(&stream, PST_LOG_INFO,
             "sender: IBV_EVENT_PATH_MIG: the connection has moved to its alternate path");
  await_told(&stream, PST_LOG_WARN,
             "sender: IBV_EVENT_PATH_MIG_ERR: the connection could not be moved to its alternate "
             "path; check: the subnet manager");
  contract_listen(NULL);
  stream_run(&stream, 40);
  stream_settle(&stream);
  assert_int_equal(stream.failed, 0);
  simulated_ctl("clear");
  stream_close(&stream);
}

int main(int argc, char **argv)
{
  if (!stream_arguments(argc, argv))
    return 2;
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(a_hello_comes_early),
      CONTRACT_CASE(connecting_that_is_refused_can_be_closed),
      CONTRACT_CASE(a_hello_is_repeated_too_late),
      CONTRACT_CASE(a_number_that_is_over_may_be_anothers),
      CONTRACT_CASE(without_reconnect_it_is_over),
      CONTRACT_CASE(one_queue_pair_of_several_fails),
      CONTRACT_CASE(order_is_kept_where_queue_pairs_differ),
      CONTRACT_CASE(credit_leaves_room_for_requests),
      CONTRACT_CASE(port_goes_down_and_is_reported),
      CONTRACT_CASE(queue_pair_that_fails),
      CONTRACT_CASE(completion_queue_that_fails),
      CONTRACT_CASE(device_that_is_removed),
      CONTRACT_CASE(events_wake_those_whom_others_read_them_for),
      CONTRACT_CASE(answer_that_never_comes),
      CONTRACT_CASE(who_stood_still_takes_what_has_come),
      CONTRACT_CASE(closing_awaits_nothing_of_a_peer_that_left),
      CONTRACT_CASE(requests_end_when_a_peer_has_left),
      CONTRACT_CASE(operations_that_differ_are_refused),
      CONTRACT_CASE(ports_events_are_reported),
      CONTRACT_CASE(queue_pairs_events_are_reported),
  };
  return CONTRACT_MAIN("faults", cases, &stream_variants[0]);
}
