/* SPDX-License-Identifier: Apache-2.0 */
/* One round of a sender and of a receiver, over a library that the test plays. */
#include <errno.h>
#include <string.h>

#include "clock.h"
#include "runner.h"
#include "support.h"

#define FENCE ((struct pst_fence *)&world)

/* Answers of the library, and requests of the pump. */
static struct {
  enum pst_state state;
  int acquires; /* slots at a time; 0: none are free */
  int arrives;  /* messages of a poll, or -errno */
  int finishes;
  uint64_t started_ns;
  uint32_t stopped, polls, most, submitted, released, aborts;
  int code;
  bool is_awake;
  struct pst_fence *behind;
} world;

/* Answers of source and sink. */
static struct {
  int ready, filled, taken, made_stand;
  uint32_t offered;
  struct pst_fence *fence;
} ends;

static struct arguments arguments;
static struct runner runner;
static struct app_stream stream;
static struct pst_slot slots[SOURCE_BATCH];
static struct pst_view views[SINK_BATCH];

/* ---- The library ----------------------------------------------------------------------------- */

enum pst_state pst_sender_state(const struct pst_sender *sender)
{
  (void)sender;
  return world.state;
}

int pst_sender_stats(const struct pst_sender *sender, struct pst_stats *stats)
{
  (void)sender;
  stats->started_ns = world.started_ns;
  return 0;
}

int pst_sender_poll(struct pst_sender *sender)
{
  (void)sender;
  world.polls++;
  return 0;
}

int pst_sender_idle(struct pst_sender *sender)
{
  (void)sender;
  return 0;
}

int pst_sender_acquire(struct pst_sender *sender, struct pst_slot *free, uint32_t n)
{
  (void)sender, (void)free;
  return world.acquires < (int)n ? world.acquires : (int)n;
}

int pst_sender_submit(struct pst_sender *sender, const struct pst_slot *full, uint32_t n)
{
  (void)sender, (void)full;
  world.submitted += n;
  return 0;
}

int pst_sender_stop(struct pst_sender *sender, uint32_t why)
{
  (void)sender;
  world.stopped = why;
  return 0;
}

int pst_sender_abort(struct pst_sender *sender, int code, const char *text)
{
  (void)sender, (void)text;
  world.aborts++;
  world.code = code;
  return 0;
}

void pst_session_wake(struct pst_session *session)
{
  (void)session;
  world.is_awake = true;
}

enum pst_state pst_receiver_state(const struct pst_receiver *receiver)
{
  (void)receiver;
  return world.state;
}

int pst_receiver_stats(const struct pst_receiver *receiver, struct pst_stats *stats)
{
  (void)receiver;
  stats->started_ns = world.started_ns;
  return 0;
}

uint32_t pst_receiver_frame_packets(const struct pst_receiver *receiver)
{
  (void)receiver;
  return 0;
}

int pst_receiver_poll(struct pst_receiver *receiver, struct pst_batch *batch)
{
  (void)receiver;
  world.polls++;
  world.most = batch->capacity;
  batch->ready = NULL;
  int n = world.arrives < (int)batch->capacity ? world.arrives : (int)batch->capacity;
  if (n > 0)
    world.arrives = 0;
  return n;
}

int pst_receiver_release_after(struct pst_receiver *receiver, const struct pst_view *given,
                               uint32_t n, struct pst_fence *fence)
{
  (void)receiver, (void)given;
  world.released += n;
  world.behind = fence;
  return 0;
}

int pst_receiver_finish(struct pst_receiver *receiver)
{
  (void)receiver;
  return world.finishes;
}

int pst_receiver_stop(struct pst_receiver *receiver)
{
  (void)receiver;
  world.stopped = PST_STOP_COUNT;
  return 0;
}

int pst_receiver_abort(struct pst_receiver *receiver, int code, const char *text)
{
  (void)receiver, (void)text;
  world.aborts++;
  world.code = code;
  return 0;
}

void pst_receiver_fence_free(struct pst_receiver *receiver, struct pst_fence *fence)
{
  (void)receiver;
  assert_null(fence);
}

/* ---- Source and sink ------------------------------------------------------------------------- */

static int ready(void *state, uint32_t n, uint64_t *until_ns, struct pst_error *error)
{
  (void)state, (void)until_ns, (void)error;
  return ends.ready < (int)n ? ends.ready : (int)n;
}

static int fill(void *state, struct pst_sender *sender, struct pst_slot *free, uint32_t n,
                struct pst_error *error)
{
  (void)state, (void)sender, (void)free, (void)n;
  error->code = ends.filled;
  return ends.filled;
}

static int take(void *state, struct pst_receiver *receiver, const struct pst_view *given,
                uint32_t n, struct pst_fence **fence, struct pst_error *error)
{
  (void)state, (void)receiver, (void)given;
  ends.offered += n;
  *fence = ends.fence;
  error->code = ends.taken == -EAGAIN ? 0 : ends.taken;
  return ends.taken;
}

static int finish(void *state, struct pst_receiver *receiver, struct pst_error *error)
{
  (void)state, (void)receiver, (void)error;
  return ends.made_stand;
}

static const struct source_ops source_ops = {.name = "played", .ready = ready, .fill = fill};
static const struct sink_ops sink_ops = {.name = "played", .take = take, .finish = finish};

/* Connected, and nothing to do. */
static int begin(void **state)
{
  (void)state;
  memset(&world, 0, sizeof(world));
  memset(&ends, 0, sizeof(ends));
  memset(&arguments, 0, sizeof(arguments));
  memset(&runner, 0, sizeof(runner));
  memset(&stream, 0, sizeof(stream));
  world.state = PST_STATE_CONNECTED;
  world.acquires = SOURCE_BATCH;
  runner.arguments = &arguments;
  stream.runner = &runner;
  stream.name = "packets";
  stream.sender.source.ops = &source_ops;
  stream.sender.slots = slots;
  stream.sender.left = UINT64_MAX;
  stream.receiver.sink.ops = &sink_ops;
  stream.receiver.views = views;
  stream.receiver.left = UINT64_MAX;
  quiet();
  return 0;
}

static uint32_t send(void)
{
  uint64_t until_ns = UINT64_MAX;
  return app_sender_step(&stream, &until_ns);
}

static uint32_t receive(void)
{
  uint64_t until_ns = UINT64_MAX;
  return app_receiver_step(&stream, &until_ns);
}

/* ---- Sender ---------------------------------------------------------------------------------- */

static void a_count_ends_the_stream(void **state)
{
  (void)state;
  stream.sender.left = SOURCE_BATCH + 3;
  ends.ready = SOURCE_BATCH;
  assert_int_equal(send(), SOURCE_BATCH);
  assert_int_equal(send(), 3);
  assert_int_equal(world.submitted, SOURCE_BATCH + 3);
  assert_int_equal(world.stopped, PST_STOP_UNKNOWN);
  send();
  assert_int_equal(world.stopped, PST_STOP_COUNT);
  assert_int_equal(stream.sender.phase, SIDE_ENDING);
  send();
  assert_false(stream.sender.over); /* the rest drains */
  world.state = PST_STATE_ENDED;
  send();
  assert_true(stream.sender.over);
}

static void a_source_that_ends_ends_the_stream(void **state)
{
  (void)state;
  ends.ready = -ENODATA;
  send();
  assert_int_equal(world.stopped, PST_STOP_SOURCE_END);
  assert_int_equal(stream.sender.phase, SIDE_ENDING);
}

static void a_source_that_fails_aborts_the_stream(void **state)
{
  (void)state;
  ends.ready = 1;
  ends.filled = -EIO;
  send();
  assert_int_equal(world.aborts, 1);
  assert_int_equal(world.code, -EIO);
  assert_int_equal(world.submitted, 0);
  assert_true(stream.sender.over && stream.source_broken && world.is_awake);
}

static void without_a_slot_or_a_message_the_stream_is_polled(void **state)
{
  (void)state;
  assert_int_equal(send(), 0);
  ends.ready = 1;
  world.acquires = 0;
  assert_int_equal(send(), 0);
  assert_int_equal(world.polls, 2);
  assert_int_equal(stream.sender.phase, SIDE_FLOWING);
}

static void a_signal_says_whether_there_was_more(void **state)
{
  (void)state;
  static const struct {
    bool bounded;
    int ready;
    uint32_t why;
  } all[] = {{false, 1, PST_STOP_SIGNAL},
             {true, 1, PST_STOP_SIGNAL | PST_STOP_SHORT},
             {true, -ENODATA, PST_STOP_SOURCE_END}};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    begin(NULL);
    runner.stop = true;
    stream.sender.bounded = all[i].bounded;
    ends.ready = all[i].ready;
    send();
    assert_int_equal(world.stopped, all[i].why);
  }
}

static void a_duration_counts_from_the_connection(void **state)
{
  (void)state;
  uint64_t until_ns = UINT64_MAX;
  arguments.duration_set = true;
  arguments.duration_ns = 3600 * NS_PER_S;
  app_sender_step(&stream, &until_ns);
  assert_int_equal(until_ns, UINT64_MAX); /* not connected yet */
  world.started_ns = app_now_ns();
  app_sender_step(&stream, &until_ns);
  assert_int_equal(until_ns, world.started_ns + arguments.duration_ns);
  assert_int_equal(world.stopped, PST_STOP_UNKNOWN);
  stream.sender.deadline_ns = 1; /* long ago */
  send();
  assert_int_equal(world.stopped, PST_STOP_DURATION);
}

static void what_does_not_drain_in_time_is_given_up(void **state)
{
  (void)state;
  stream.sender.phase = SIDE_ENDING;
  runner.drain_by_ns = app_now_ns() + 3600 * NS_PER_S;
  send();
  assert_false(stream.sender.over);
  runner.drain_by_ns = 1;
  send();
  assert_true(stream.sender.over);
}

/* A receiver in the process would wait for the end that this sender owes it. */
static void a_sender_that_must_leave_before_it_is_connected(void **state)
{
  (void)state;
  world.state = PST_STATE_WAITING;
  runner.stop = true;
  stream.receiver.handle = (struct pst_receiver *)&world;
  send();
  assert_int_equal(world.stopped, PST_STOP_SIGNAL);
  send();
  assert_false(stream.sender.over);
  stream.receiver.handle = NULL;
  send();
  assert_true(stream.sender.over);
}

/* ---- Receiver -------------------------------------------------------------------------------- */

static void messages_are_given_back_behind_the_sinks_fence(void **state)
{
  (void)state;
  world.arrives = 5;
  ends.fence = FENCE;
  assert_int_equal(receive(), 5);
  assert_int_equal(ends.offered, 5);
  assert_int_equal(world.released, 5);
  assert_ptr_equal(world.behind, FENCE);
}

static void what_the_sink_has_no_room_for_is_offered_again(void **state)
{
  (void)state;
  world.arrives = 5;
  ends.taken = -EAGAIN;
  receive();
  assert_int_equal(stream.receiver.kept, 5);
  world.arrives = 7;
  receive();
  assert_int_equal(world.most, 0); /* nothing more meanwhile */
  assert_int_equal(ends.offered, 10);
  assert_int_equal(world.released, 0);
  ends.taken = 0;
  receive();
  assert_int_equal(world.released, 5 + 7);
  assert_int_equal(stream.receiver.kept, 0);
}

static void a_sink_that_fails_aborts_the_stream(void **state)
{
  (void)state;
  world.arrives = 5;
  ends.taken = -ENOSPC;
  receive();
  assert_int_equal(world.code, -ENOSPC);
  assert_int_equal(world.released, 5);
  assert_true(stream.receiver.over);
}

static void the_end_waits_for_sink_and_views(void **state)
{
  (void)state;
  world.arrives = -ENODATA;
  ends.made_stand = -EAGAIN;
  receive();
  assert_int_equal(stream.receiver.phase, SIDE_FLOWING);
  ends.made_stand = 0;
  world.finishes = -EBUSY;
  receive();
  assert_int_equal(stream.receiver.phase, SIDE_FLOWING);
  world.finishes = 0;
  receive();
  assert_int_equal(stream.receiver.phase, SIDE_ENDING);
  world.state = PST_STATE_ENDED;
  receive();
  assert_true(stream.receiver.over);
  assert_int_equal(world.aborts, 0);
}

static void a_receiver_that_must_leave_waits_for_the_senders_end(void **state)
{
  (void)state;
  uint64_t until_ns = UINT64_MAX, before_ns = app_now_ns();
  runner.stop = true;
  app_receiver_step(&stream, &until_ns);
  assert_false(stream.receiver.over);
  assert_in_range(until_ns, before_ns + 1, app_now_ns() + NS_PER_S);
  stream.receiver.deadline_ns = 1;
  receive();
  assert_true(stream.receiver.over && stream.receiver.cut);
  assert_int_equal(stream.receiver.stopped, PST_STOP_SIGNAL);
  assert_int_equal(world.code, -ECANCELED);
}

static void a_receiver_whose_source_is_here_leaves_with_it(void **state)
{
  (void)state;
  stream.source_broken = true;
  receive();
  assert_true(stream.receiver.over);
  assert_false(stream.receiver.cut);
  assert_int_equal(stream.receiver.stopped, PST_STOP_FAILURE);
}

static void a_foreign_stream_ends_at_its_count(void **state)
{
  (void)state;
  stream.foreign = true;
  stream.receiver.left = 4;
  world.arrives = 9;
  assert_int_equal(receive(), 4);
  assert_int_equal(world.most, 0);
  assert_int_equal(stream.receiver.stopped, PST_STOP_COUNT);
  assert_int_equal(world.stopped, PST_STOP_COUNT);
  assert_false(stream.receiver.over); /* the next poll says so */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_count_ends_the_stream, begin),
      cmocka_unit_test_setup(a_source_that_ends_ends_the_stream, begin),
      cmocka_unit_test_setup(a_source_that_fails_aborts_the_stream, begin),
      cmocka_unit_test_setup(without_a_slot_or_a_message_the_stream_is_polled, begin),
      cmocka_unit_test_setup(a_signal_says_whether_there_was_more, begin),
      cmocka_unit_test_setup(a_duration_counts_from_the_connection, begin),
      cmocka_unit_test_setup(what_does_not_drain_in_time_is_given_up, begin),
      cmocka_unit_test_setup(a_sender_that_must_leave_before_it_is_connected, begin),
      cmocka_unit_test_setup(messages_are_given_back_behind_the_sinks_fence, begin),
      cmocka_unit_test_setup(what_the_sink_has_no_room_for_is_offered_again, begin),
      cmocka_unit_test_setup(a_sink_that_fails_aborts_the_stream, begin),
      cmocka_unit_test_setup(the_end_waits_for_sink_and_views, begin),
      cmocka_unit_test_setup(a_receiver_that_must_leave_waits_for_the_senders_end, begin),
      cmocka_unit_test_setup(a_receiver_whose_source_is_here_leaves_with_it, begin),
      cmocka_unit_test_setup(a_foreign_stream_ends_at_its_count, begin),
  };
  return cmocka_run_group_tests_name("step", tests, NULL, NULL);
}
