/* SPDX-License-Identifier: Apache-2.0 */
/* Every step of opening and running fails in turn. Everything that was open is
 * closed, in order: the fakes log a line with "BUG" when it is not, and the
 * sanitizers see what leaks. */
#include "../simulated_clock.h"
#include "support.h"

static int bugs;
static int flushed;
static int errors;

static void watch_log(void *context, int level, const char *line)
{
  (void)context;
  errors += level == PST_LOG_ERROR;
  bugs += strstr(line, "BUG") != NULL;
  flushed += strstr(line, "flushed at times") != NULL;
}

static int watch(void **state)
{
  (void)state;
  bugs = flushed = errors = 0;
  pst_log_set(watch_log, NULL, PST_LOG_INFO);
  return 0;
}

static int watch_by_simulated_clock(void **state)
{
  return watch(state) || simulated_clock_begin(state);
}

static int unwatch(void **state)
{
  (void)state;
  pst_log_set(NULL, NULL, PST_LOG_INFO);
  return bugs;
}

/* Three streams: on their own, out of shared slots, into a shared ring. */
static void make_text(char *text, size_t size, const char *filter, const char *memory,
                      const char *mode)
{
  const char *one = "{memory: {plugin: failing, options: {%s}}%s}";
  char ends[2][256];

  snprintf(ends[0], sizeof(ends[0]), one, memory, "");
  snprintf(ends[1], sizeof(ends[1]), one, memory, ", share: a");
  snprintf(text, size,
           "penstock: 1\n"
           "transport: {plugin: loopback, options: {mode: %s}, filters: [{plugin: failing,\n"
           "  options: {%s}}]}\n"
           "threads: {count: 1}\n"
           "streams:\n"
           "  - {name: a, message: 200 B, ring: 64, sender: %s, receiver: %s}\n"
           "  - {name: b, message: 200 B, ring: 64, sender: %s, receiver: %s}\n"
           "  - {name: c, message: 200 B, ring: 64, sender: %s, receiver: %s}\n",
           mode, filter, ends[0], ends[0], ends[1], ends[0], ends[0], ends[1]);
}

static int try_open(struct run *run, const char *text)
{
  struct pst_session_params params = {.struct_size = sizeof(params),
                                      .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER};
  struct pst_error error = PST_ERROR_INIT;
  int rc;

  *run = (struct run){.deadline_ns = now_ns() + DEADLINE_NS};
  if (pst_config_open_text(text, strlen(text), "test.yaml", NULL, 0, &run->config, &error) < 0)
    fail_msg("%s", error.text);
  rc = pst_session_open(run->config, &params, &run->session, &error);
  assert_int_equal(rc, error.code);
  if (rc < 0) {
    assert_null(run->session);
    assert_int_not_equal(error.text[0], 0);
    assert_int_not_equal(error.exit_status, PST_EXIT_OK);
  }
  return rc;
}

struct step {
  const char *operation;
  int calls; /* while a session is opened */
};

static void fail_each(const struct step *steps, size_t count, bool in_memory, const char *more,
                      const char *mode)
{
  char text[2048], options[128];

  for (size_t i = 0; i < count; i++)
    for (int nth = 1; nth <= steps[i].calls; nth++) {
      struct run run;
      snprintf(options, sizeof(options), "fail: %s, nth: %d%s", steps[i].operation, nth, more);
      make_text(text, sizeof(text), in_memory ? "nth: 1" : options,
                in_memory ? options
                : more[0] ? more + 2
                          : "nth: 1",
                mode);
      if (try_open(&run, text) != -EIO)
        fail_msg("call %d of %s did not fail", nth, steps[i].operation);
      close_run(&run);
      if (bugs)
        fail_msg("call %d of %s: not closed in order", nth, steps[i].operation);
    }
}

static void each_step_of_the_transport(void **state)
{
  static const struct step steps[] = {{"open", 1},        {"limits", 1},    {"worker_open", 1},
                                      {"mr_register", 4}, {"ring_open", 2}, {"endpoint_open", 6},
                                      {"start", 1}};
  (void)state;
  fail_each(steps, sizeof(steps) / sizeof(*steps), false, "", "copy");
}

/* The plugin's reason is the error, and there is no second one. */
static void reason_of_a_worker_is_reported_once(void **state)
{
  struct run run;
  struct pst_session_params params = {.struct_size = sizeof(params),
                                      .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER};
  struct pst_error error = PST_ERROR_INIT;
  char text[2048];

  (void)state;
  make_text(text, sizeof(text), "fail: worker_open, says: true", "nth: 1", "copy");
  run = (struct run){0};
  assert_int_equal(
      pst_config_open_text(text, strlen(text), "test.yaml", NULL, 0, &run.config, &error), 0);
  assert_int_equal(pst_session_open(run.config, &params, &run.session, &error), -EIO);
  assert_non_null(strstr(error.text, "worker_open fails by order"));
  assert_null(strstr(error.text, "cannot open worker"));
  assert_int_equal(errors, 1);
  close_run(&run);
}

static void each_step_of_the_memory(void **state)
{
  static const struct step steps[] = {{"open", 1}, {"alloc", 4}, {"queue_open", 5}};
  (void)state;
  fail_each(steps, sizeof(steps) / sizeof(*steps), true, "", "copy");
}

/* The rings' staging memory comes after their final memory. */
static void each_step_of_staging(void **state)
{
  static const struct step steps[] = {{"alloc", 5}, {"queue_open", 3}};
  char text[2048];
  struct run run;

  (void)state;
  for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++)
    for (int nth = 1; nth <= steps[i].calls; nth++) {
      snprintf(text, sizeof(text),
               "penstock: 1\n"
               "transport: {plugin: loopback, filters: [{plugin: failing}]}\n"
               "streams:\n"
               "  - {name: a, message: 200 B, ring: 64, receiver: {memory: {plugin: failing,\n"
               "     options: {blind: true, fail: %s, nth: %d}}}}\n",
               steps[i].operation, nth);
      if (try_open(&run, text) == 0)
        assert_true(nth > 2); /* no more such calls */
      close_run(&run);
      assert_int_equal(bugs, 0);
    }
}

static void no_wakeup_descriptor_is_lived_with(void **state)
{
  char text[2048];
  struct run run;

  (void)state;
  make_text(text, sizeof(text), "fail: event_fd", "nth: 1", "copy");
  assert_int_equal(try_open(&run, text), 0);
  close_run(&run);
}

static void no_address_fails_the_start(void **state)
{
  struct pst_error error = PST_ERROR_INIT;
  char text[2048];
  struct run run;

  (void)state;
  for (int nth = 1; nth <= 6; nth++) {
    char options[64];
    snprintf(options, sizeof(options), "fail: endpoint_address, nth: %d", nth);
    make_text(text, sizeof(text), options, "nth: 1", "copy");
    assert_int_equal(try_open(&run, text), 0);
    assert_int_equal(pst_session_start(run.session, &error), -EIO);
    close_run(&run);
  }
}

static int unwatch_by_simulated_clock(void **state)
{
  return simulated_clock_end(state) || unwatch(state);
}

#define ONE(filter, memory)                                                                        \
  "penstock: 1\n"                                                                                  \
  "transport: {plugin: loopback, options: {mode: copy}, filters: [{plugin: failing, options: "     \
  "{" filter "}}]}\n"                                                                              \
  "threads: {count: 1}\n"                                                                          \
  "streams:\n"                                                                                     \
  "  - {name: a, message: 200 B, ring: 64, sender: {memory: {plugin: failing}},\n"                 \
  "     receiver: {memory: {plugin: failing, options: {" memory "}}}}\n"

/* Checks that everything that was sent and not delivered has this cause. Returns how much that is.
 */
static uint64_t broken_off(const struct pst_sender *sender, const struct pst_receiver *receiver,
                           const char *cause)
{
  struct pst_stats s = {.struct_size = sizeof(s)}, r = {.struct_size = sizeof(r)};

  pst_sender_stats(sender, &s);
  pst_receiver_stats(receiver, &r);
  assert_int_equal(r.state, PST_STATE_FAILED);
  assert_true(r.drop_count <= 1);
  if (r.drop_count)
    assert_string_equal(r.drops[0].cause, cause);
  assert_int_equal(s.messages_sent,
                   r.messages_delivered + (r.drop_count ? r.drops[0].messages : 0));
  return s.messages_sent - r.messages_delivered;
}

/* Both ends fail, the one where it happened with its own error; what was on its way then is
 * accounted for. */
static uint64_t both_fail(const char *text, bool at_sender, int code, const char *cause)
{
  uint64_t undelivered;
  struct pst_slot slots[BATCH];
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  int s = 0, r = 0;
  struct run run;

  open_text(&run, text);
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  while (s >= 0 || r >= 0) {
    const uint64_t turn = simulated_clock_turn();
    if (s >= 0 && (s = pst_sender_acquire(sender, slots, BATCH)) > 0) {
      for (int i = 0; i < s; i++)
        slots[i].length = slots[i].capacity;
      s = pst_sender_submit(sender, slots, (uint32_t)s);
    }
    if (r >= 0 && (r = pst_receiver_poll(receiver, &batch)) > 0)
      assert_int_equal(pst_receiver_release(receiver, views, (uint32_t)r), 0);
    /* The sender waits for a reason from the control channel. */
    if (s <= 0 && r <= 0)
      simulated_clock_move(turn, UINT64_C(10000000));
    in_time(&run);
  }
  assert_int_equal(at_sender ? s : r, code);
  assert_int_equal(pst_sender_state(sender), PST_STATE_FAILED);
  assert_int_equal(pst_receiver_state(receiver), PST_STATE_FAILED);
  pst_receiver_stats(receiver, &stats);
  assert_int_not_equal(stats.error_text[0], 0);
  assert_true(stats.error < 0);
  undelivered = broken_off(sender, receiver, cause);
  close_run(&run);
  return undelivered;
}

static void failures_of_a_running_stream_end_both_sides(void **state)
{
  (void)state;
  both_fail(ONE("fail: endpoint_connect", "nth: 1"), false, -EIO, "aborted");
  both_fail(ONE("fail: endpoint_connect, nth: 2", "nth: 1"), true, -EIO, "aborted");
  both_fail(ONE("fail: post", "nth: 1"), true, -EIO, "aborted");
  both_fail(ONE("fail: post, nth: 5", "nth: 1"), true, -EIO, "aborted");
  both_fail(ONE("nth: 1", "blind: true, fail: queue_poll, nth: 3"), false, -EIO, "memory_failed");
  /* These fail when messages have come for them. */
  assert_true(
      both_fail(ONE("nth: 1", "blind: true, fail: copy_rows"), false, -EIO, "memory_failed") > 0);
  assert_true(both_fail(ONE("nth: 1", "blind: true, fail: copy_rows, nth: 4"), false, -EIO,
                        "memory_failed") > 0);
  assert_true(both_fail(ONE("nth: 1", "fail: flush, nth: 2"), false, -EIO, "memory_failed") > 0);
}

/* The sender alone knows how many it has posted. */
static void transport_that_ends_messages_twice_is_named(void **state)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct pst_receiver *receiver;
  struct pst_sender *sender;
  uint64_t sent = 0, received = 0;
  struct run run;

  (void)state;
  assert_int_equal(setenv("WRONG", "miscounts", 1), 0);
  open_text(&run,
            "penstock: 1\n"
            "transport: {plugin: loopback, options: {mode: copy}, filters: [{plugin: wrong}]}\n"
            "threads: {count: 1}\n"
            "streams: [{name: a, message: 200 B, ring: 64}]\n");
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  for (; pst_sender_state(sender) != PST_STATE_FAILED; in_time(&run)) {
    int rc = try_feed(sender, &sent, 1000); /* it fails in any of its calls */
    assert_true(rc == 0 || pst_sender_state(sender) == PST_STATE_FAILED);
    if (rc == 0) /* else the receiver hears of it, sooner or later */
      drain(receiver, &received);
  }
  pst_sender_stats(sender, &stats);
  assert_int_equal(stats.error, -EIO);
  assert_non_null(strstr(stats.error_text, "a bug of the transport"));
  close_run(&run);
  unsetenv("WRONG");
}

/* Another message of the same poll has number 0, too, and was not the next. */
static void number_that_comes_again(uint32_t wrong)
{
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  struct pst_receiver *receiver;
  struct pst_sender *sender;
  uint64_t sent = 0, expected = 0;
  char how[40];
  struct run run;

  snprintf(how, sizeof(how), "says 0 instead of %u", wrong);
  assert_int_equal(setenv("WRONG", how, 1), 0);
  open_text(&run,
            "penstock: 1\n"
            "transport: {plugin: loopback, options: {mode: copy}, filters: [{plugin: wrong}]}\n"
            "threads: {count: 1}\n"
            "streams: [{name: a, message: 200 B, ring: 64}]\n");
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  for (; sent == 0; in_time(&run))
    feed(sender, &sent, 1000);
  for (; expected < 16; in_time(&run)) {
    const int n = pst_receiver_poll(receiver, &batch);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
      expected += expected == wrong;
      assert_int_equal(views[i].sequence, expected++);
    }
  }
  close_run(&run);
  unsetenv("WRONG");
}

/* They are looked at by fours, and what is left one by one. */
static void each_number_of_a_row_is_looked_at(void **state)
{
  (void)state;
  for (uint32_t wrong = 1; wrong < 9; wrong++)
    number_that_comes_again(wrong);
}

/* Messages lie in the ring, in a frame that is not whole, and some have been handed over. */
static void abort_with_messages_under_way(const char *more)
{
  struct pst_view views[10];
  struct pst_frame frames[1];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 10, .views = views};
  struct pst_frame_batch whole = {.struct_size = sizeof(whole), .capacity = 1, .frames = frames};
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  uint64_t sent = 0;
  char text[512];
  struct run run;
  int n = 0;

  snprintf(text, sizeof(text),
           "penstock: 1\n"
           "transport: loopback\n"
           "threads: {count: 1}\n"
           "streams: [{name: a, message: 200 B, ring: 64%s}]\n",
           more);
  open_text(&run, text);
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  for (; sent < 45; in_time(&run))
    feed(sender, &sent, 45);
  for (; n == 0; in_time(&run)) {
    assert_true(pst_sender_poll(sender) >= 0);
    n = more[0] ? pst_receiver_poll_frames(receiver, &whole) : pst_receiver_poll(receiver, &batch);
  }
  assert_int_equal(n, more[0] ? 1 : 10);
  pst_receiver_abort(receiver, -ECANCELED, "enough");
  assert_int_equal(broken_off(sender, receiver, "aborted"), 35);
  close_run(&run);
}

static void what_was_under_way_when_the_receiver_left_is_accounted_for(void **state)
{
  (void)state;
  abort_with_messages_under_way("");
  abort_with_messages_under_way(
      ", receiver: {assemble: {by: sequence, packets: 10, timeout: 60 s}}");
}

static void what_a_device_wrote_is_flushed(void **state)
{
  struct run run;
  (void)state;
  open_text(&run, ONE("nth: 1", "nth: 1"));
  stream_all(&run, "a", 1000);
  close_run(&run);
  assert_true(flushed > 0);
}

static void lent_memory_is_unpinned(void **state)
{
  struct run run;
  (void)state;
  open_text(&run, "penstock: 1\n"
                  "transport: {plugin: loopback, options: {mode: reference}}\n"
                  "streams:\n"
                  "  - {name: a, message: 200 B, ring: 64, sender: {memory: {plugin: failing}},\n"
                  "     receiver: {memory: {plugin: failing, options: {blind: true}}}}\n");
  stream_all(&run, "a", 1000);
  close_run(&run);
}

/* As on a transport that carries no numbers: they are made here, one by one. */
static void messages_without_numbers_are_numbered(void **state)
{
  struct run run;
  (void)state;
  open_text(&run, ONE("sequence: false", "nth: 1"));
  stream_all(&run, "a", 1000);
  close_run(&run);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(each_step_of_the_transport, watch, unwatch),
      cmocka_unit_test_setup_teardown(reason_of_a_worker_is_reported_once, watch, unwatch),
      cmocka_unit_test_setup_teardown(each_step_of_the_memory, watch, unwatch),
      cmocka_unit_test_setup_teardown(each_step_of_staging, watch, unwatch),
      cmocka_unit_test_setup_teardown(no_wakeup_descriptor_is_lived_with, watch, unwatch),
      cmocka_unit_test_setup_teardown(no_address_fails_the_start, watch, unwatch),
      cmocka_unit_test_setup_teardown(failures_of_a_running_stream_end_both_sides,
                                      watch_by_simulated_clock, unwatch_by_simulated_clock),
      cmocka_unit_test_setup_teardown(transport_that_ends_messages_twice_is_named, watch, unwatch),
      cmocka_unit_test_setup_teardown(each_number_of_a_row_is_looked_at, watch, unwatch),
      cmocka_unit_test_setup_teardown(what_was_under_way_when_the_receiver_left_is_accounted_for,
                                      watch, unwatch),
      cmocka_unit_test_setup_teardown(what_a_device_wrote_is_flushed, watch, unwatch),
      cmocka_unit_test_setup_teardown(lent_memory_is_unpinned, watch, unwatch),
      cmocka_unit_test_setup_teardown(messages_without_numbers_are_numbered, watch, unwatch),
  };
  return cmocka_run_group_tests_name("stream_faults", tests, use_fakes, NULL) ? 1 : 0;
}
