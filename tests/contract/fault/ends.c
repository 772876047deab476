/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting and ending: FLUSH, close, peers that go, stall and kill, sleep; and what
 * is refused. */
#include <poll.h>

#include "fault.h"

#define REORDERED "reorder_ppm=1000000,distance=1000,reorder_time=60000000000 ns"
#define DELAYED "delay_ppm=1000000,delay_time=60000000000 ns"

static bool wait_for(struct fault_stream *stream, struct contract_side *side, uint8_t code,
                     struct pst_completion *event)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (!contract_take(side, PST_COMPLETION_EVENT, code, event)) {
    fault_step(stream);
    if (contract_now_ns() > deadline)
      return false;
  }
  return true;
}

static void send_all(struct fault_stream *stream, uint64_t count)
{
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (stream->posted < count) {
    assert_true(fault_send(stream, (uint32_t)(count - stream->posted)) >= 0);
    assert_true(contract_now_ns() < deadline);
  }
}

static void flush_sends_what_waits_for_others(void **state)
{
  struct fault_stream stream;
  fault_open(*state, REORDERED, &stream);
  send_all(&stream, 20);
  for (int i = 0; i < 50; i++)
    fault_step(&stream);
  assert_true(stream.arrived < 20);
  fault_finish(&stream);
  assert_int_equal(stream.arrived, 20);
  assert_int_equal(
      fault_count(&stream, "reorder_missed") + fault_count(&stream, "injected_reorder"), 20);
  assert_int_equal(stream.track.reordered, fault_count(&stream, "injected_reorder"));
  fault_close(&stream);
}

static void flush_waits_for_what_is_delayed(void **state)
{
  struct fault_stream stream;
  fault_open(*state, "delay_ppm=1000000,delay_time=20000000 ns", &stream);
  uint64_t began = contract_now_ns();
  send_all(&stream, 20);
  fault_finish(&stream);
  assert_int_equal(stream.arrived, 20);
  assert_true(contract_now_ns() - began >= 20000000u);
  fault_close(&stream);
}

static void held_message_goes_without_a_later_one(void **state)
{
  struct fault_stream stream;
  fault_open(*state, "reorder_ppm=1000000,reorder_time=1000000 ns", &stream);
  send_all(&stream, 1);
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (stream.done < 1 && contract_now_ns() < deadline)
    fault_step(&stream);
  assert_int_equal(stream.arrived, 1);
  fault_close(&stream);
}

static void drain_sends_what_is_held(void **state)
{
  struct fault_stream stream;
  struct pst_completion event;
  fault_open(*state,
             "reorder_ppm=500000,delay_ppm=500000,delay_time=5000000 ns,"
             "reorder_time=60000000000 ns",
             &stream);
  struct contract_side *side = &stream.pair->sender;
  send_all(&stream, 30);
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[0], PST_CLOSE_DRAIN,
                                                   contract_now_ns() + contract_deadline_ns),
                   0);
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[0], PST_CLOSE_DRAIN, 0),
                   -EALREADY);
  const struct pst_request late = contract_send(side, 0, 64, 30);
  uint32_t wait = PST_WAIT_NONE;
  assert_int_equal(side->image.ops->post(side->endpoints[0], &late, 1, &wait), -ENOTCONN);
  assert_true(wait_for(&stream, side, PST_EVENT_CLOSED, &event));
  assert_int_equal(stream.done, 30);
  assert_int_equal(stream.arrived, 30);
  fault_close(&stream);
}

static void abort_cancels_what_is_held(void **state)
{
  struct fault_stream stream;
  struct pst_completion event;
  fault_open(*state, DELAYED, &stream);
  struct contract_side *side = &stream.pair->sender;
  send_all(&stream, 30);
  stream.status = -ECANCELED;
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[0], PST_CLOSE_ABORT,
                                                   contract_now_ns() + contract_deadline_ns),
                   0);
  assert_true(wait_for(&stream, side, PST_EVENT_CLOSED, &event));
  assert_int_equal(stream.done, 30);
  assert_int_equal(stream.arrived, 0);
  fault_close(&stream);
}

static void deadline_ends_a_drain(void **state)
{
  struct fault_stream stream;
  struct pst_completion event;
  fault_open(*state, DELAYED, &stream);
  struct contract_side *side = &stream.pair->sender;
  send_all(&stream, 5);
  stream.status = -ECANCELED;
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[0], PST_CLOSE_DRAIN,
                                                   contract_now_ns() + 10000000u),
                   0);
  assert_true(wait_for(&stream, side, PST_EVENT_CLOSED, &event));
  assert_int_equal(stream.done, 5);
  fault_close(&stream);
}

static void peer_that_leaves_ends_what_is_held(void **state)
{
  struct fault_stream stream;
  struct pst_completion event;
  fault_open(*state, DELAYED, &stream);
  struct contract_side *far = &stream.pair->receiver;
  send_all(&stream, 10);
  stream.status = -ECONNRESET;
  assert_int_equal(far->image.ops->endpoint_close(far->endpoints[0], PST_CLOSE_ABORT, 0), 0);
  assert_true(wait_for(&stream, &stream.pair->sender, PST_EVENT_DISCONNECTED, &event));
  while (stream.done < 10)
    assert_true(fault_step(&stream) > 0);
  assert_int_equal(fault_send(&stream, 1), -ECONNRESET);
  assert_true(wait_for(&stream, far, PST_EVENT_CLOSED, &event));
  fault_close(&stream);
}

static void stalls_once_before_its_message(void **state)
{
  struct fault_stream stream;
  fault_open(*state, "stall_at=100,stall_time=30000000 ns", &stream);
  uint64_t began = contract_now_ns();
  while (stream.posted < 100)
    assert_true(fault_send(&stream, (uint32_t)(100 - stream.posted)) > 0);
  assert_int_equal(fault_count(&stream, "injected_stall"), 0);
  assert_int_equal(fault_send(&stream, 1), 0);
  assert_int_equal(stream.pair->sender.image.ops->arm(stream.pair->sender.worker), -EAGAIN);
  fault_stream(&stream, 300);
  assert_true(contract_now_ns() - began >= 30000000u);
  assert_int_equal(stream.arrived, 300);
  assert_int_equal(fault_count(&stream, "injected_stall"), 1);
  assert_int_equal(fault_count(&stream, "stall_at"), 100);
  fault_close(&stream);
}

static void kill_cuts_both_sides_off(void **state)
{
  struct fault_stream stream;
  struct pst_completion event;
  char text[64];
  fault_open(*state, "kill_at=100", &stream);
  struct contract_side *side = &stream.pair->sender, *far = &stream.pair->receiver;
  int rc;
  while ((rc = fault_send(&stream, 32)) >= 0)
    fault_step(&stream);
  assert_int_equal(rc, -ECONNRESET);
  assert_int_equal(stream.posted, 100);
  while (stream.done < stream.posted) {
    stream.status = stream.done < stream.arrived ? 0 : -ECONNRESET;
    fault_step(&stream);
  }
  assert_true(wait_for(&stream, side, PST_EVENT_DISCONNECTED, &event));
  assert_int_equal(event.status, -ECONNRESET);
  assert_true(wait_for(&stream, far, PST_EVENT_DISCONNECTED, &event));
  assert_int_equal(fault_send(&stream, 1), -ECONNRESET);
  assert_int_equal(fault_count(&stream, "injected_kill"), 1);
  assert_int_equal(fault_count(&stream, "messages_sent"), 100);
  assert_int_equal(side->image.ops->describe(side->endpoints[0], text, sizeof(text)), 0);
  assert_false(contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &event));
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[0], PST_CLOSE_DRAIN,
                                                   contract_now_ns() + contract_deadline_ns),
                   0);
  assert_true(wait_for(&stream, side, PST_EVENT_CLOSED, &event));
  fault_close(&stream);
}

static void pieces_are_kept_while_held(void **state)
{
  struct fault_stream stream;
  fault_open(*state, REORDERED, &stream);
  struct contract_side *side = &stream.pair->sender;
  uint8_t *host = side->memory.region.host;
  contract_fill(host, FAULT_MESSAGE, 0);
  memmove(host + 1000, host + 150, 50);
  struct pst_piece pieces[2] = {{side->mr, 0, 150, 0}, {side->mr, 1000, 50, 0}};
  struct pst_request request = contract_send(side, 0, FAULT_MESSAGE, 0);
  request.piece_count = 2;
  request.local.pieces = pieces;
  uint32_t wait;
  assert_int_equal(contract_post(side, 0, &request, 1, &wait), 1);
  memset(pieces, 0xff, sizeof(pieces));
  stream.posted = 1;
  fault_finish(&stream);
  assert_int_equal(stream.arrived, 1);
  assert_int_equal(stream.corrupted, 0);
  fault_close(&stream);
}

/* One slot at the receiver: faults wait for credit in the middle of what they do. */
static void little_room_stops_nothing(void **state)
{
  struct contract_variant variant = *(const struct contract_variant *)*state;
  const struct contract_params tight = {
      .endpoints = 1, .slots = 2, .message = 64, .requests = 3, .pieces = 1};
  variant.filter_options = "duplicate_ppm=300000,reorder_ppm=300000,corrupt_ppm=100000,"
                           "delay_ppm=100000,drop_ppm=100000,delay_time=1000 ns,"
                           "reorder_time=60000000000 ns";
  struct contract_pair *pair = contract_pair_open(&variant, &tight);
  contract_pair_connect(pair);
  struct pst_completion completion;
  uint64_t posted = 0, done = 0, arrived = 0;
  uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_request flush = {.opcode = PST_OP_FLUSH};
  uint32_t wait;
  while (posted < 20000 || done < posted) {
    struct pst_request request = contract_send(&pair->sender, 0, 64, posted);
    if (posted - done < 2 && posted < 20000 &&
        contract_post(&pair->sender, 0, &request, 1, &wait) == 1)
      posted++;
    else if (posted == 20000)
      contract_post(&pair->sender, 0, &flush, 1, &wait);
    contract_poll(&pair->sender);
    contract_poll(&pair->receiver);
    while (contract_take(&pair->sender, PST_COMPLETION_DONE, PST_OP_SEND, &completion))
      done += completion.u.done.count;
    while (contract_take(&pair->sender, PST_COMPLETION_DONE, PST_OP_FLUSH, &completion))
      ;
    while (contract_take(&pair->receiver, PST_COMPLETION_MESSAGE, 0, &completion)) {
      arrived++;
      contract_release(&pair->receiver, &completion);
    }
    assert_true(contract_now_ns() < deadline);
  }
  assert_true(arrived > 20000);
  contract_pair_close(pair);
}

/* Sleep whenever there is nothing: a wake-up that is lost fails the poll. */
static void sleeping_sender_loses_no_wake_up(void **state)
{
  struct fault_stream stream;
  fault_open(*state,
             "duplicate_ppm=50000,reorder_ppm=50000,delay_ppm=50000,drop_ppm=50000,"
             "delay_time=20000 ns,reorder_time=60000000000 ns",
             &stream);
  struct contract_side *side = &stream.pair->sender;
  struct pollfd fd = {.fd = side->image.ops->event_fd(side->worker), .events = POLLIN};
  while (stream.posted < 20000) {
    fault_send(&stream, (uint32_t)(20000 - stream.posted));
    if (side->image.ops->arm(side->worker) == 0) {
      while (contract_poll(&stream.pair->receiver) > 0)
        ;
      while (stream.pair->receiver.logged) {
        struct pst_completion message;
        if (!contract_take(&stream.pair->receiver, PST_COMPLETION_MESSAGE, 0, &message))
          break;
        stream.arrived++;
        contract_release(&stream.pair->receiver, &message);
      }
      contract_poll(&stream.pair->receiver);
      bool full = stream.posted - stream.done == FAULT_SLOTS;
      assert_true(!full || poll(&fd, 1, 10000) == 1);
    }
    fault_step(&stream);
  }
  fault_finish(&stream);
  fault_close(&stream);
}

static int open_with(const struct contract_variant *variant, const char *options, bool no_host)
{
  struct contract_variant with = *variant;
  struct contract_side side = {0};
  const struct contract_params none = {
      .endpoints = 0, .slots = 8, .message = 64, .requests = 8, .pieces = 1};
  with.filter_options = options;
  contract_side_open(&with, &none, false, false, &side);
  struct pst_region region = side.memory.region;
  struct pst_mr_params params = {.struct_size = sizeof(params),
                                 .access = PST_ACCESS_LOCAL_READ,
                                 .region = &region,
                                 .length = region.length};
  struct pst_mr *mr = NULL;
  if (no_host)
    region.host = NULL;
  assert_true(!strstr(options, "corrupt") || (side.limits.send_needs & PST_NEED_CPU_ACCESS));
  int rc = side.image.ops->mr_register(side.device, &params, &mr);
  if (rc == 0)
    side.image.ops->mr_deregister(side.device, mr);
  contract_side_close(&side);
  return rc;
}

static void corrupt_needs_a_host_mapping(void **state)
{
  contract_complaints();
  assert_int_equal(open_with(*state, "corrupt_ppm=1", false), 0);
  assert_int_equal(contract_complaints(), 0);
  assert_int_equal(open_with(*state, "corrupt_ppm=1", true), -EINVAL);
  assert_int_equal(contract_complaints(), 1);
}

int fault_ends_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(flush_sends_what_waits_for_others),
      CONTRACT_CASE(flush_waits_for_what_is_delayed),
      CONTRACT_CASE(held_message_goes_without_a_later_one),
      CONTRACT_CASE(drain_sends_what_is_held),
      CONTRACT_CASE(abort_cancels_what_is_held),
      CONTRACT_CASE(deadline_ends_a_drain),
      CONTRACT_CASE(peer_that_leaves_ends_what_is_held),
      CONTRACT_CASE(stalls_once_before_its_message),
      CONTRACT_CASE(kill_cuts_both_sides_off),
      CONTRACT_CASE(pieces_are_kept_while_held),
      CONTRACT_CASE(little_room_stops_nothing),
      CONTRACT_CASE(sleeping_sender_loses_no_wake_up),
      CONTRACT_CASE(corrupt_needs_a_host_mapping),
  };
  return CONTRACT_RUN("ends", cases, variant);
}
