/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions through the public API alone, both ends in this process and on this
 * thread, over loopback. The memory `late` of tests/fakes stands for a device:
 * the CPU cannot touch it, and its copies and fences complete later. */
#include <pthread.h>

#include "support.h"

#define STREAM(options, memory)                                                                    \
  "penstock: 1\n"                                                                                  \
  "transport: {plugin: loopback, options: {" options "}}\n"                                        \
  "threads: {count: 1}\n"                                                                          \
  "streams:\n"                                                                                     \
  "  - name: packets\n"                                                                            \
  "    message: 1462 B\n"                                                                          \
  "    ring: 256\n"                                                                                \
  "    receiver: " memory "\n"

static void a_stream_by_copy_is_whole(void **state)
{
  struct run run;
  (void)state;
  open_text(&run, STREAM("mode: copy", "{memory: host}"));
  stream_all(&run, "packets", 100000);
  close_run(&run);
}

static void a_stream_by_reference_is_whole(void **state)
{
  struct run run;
  (void)state;
  open_text(&run, STREAM("mode: reference", "{memory: host}"));
  stream_all(&run, "packets", 100000);
  close_run(&run);
}

static void expect_path(struct run *run, uint32_t path)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  pst_receiver_stats(pst_session_receiver(run->session, "packets"), &stats);
  assert_int_equal(stats.path.path, path);
}

static void staged_on_request(void **state)
{
  struct run run;
  (void)state;
  open_text(&run, STREAM("mode: copy", "{memory: host, path: staged}"));
  expect_path(&run, PST_PATH_STAGED);
  stream_all(&run, "packets", 50000);
  expect_path(&run, PST_PATH_STAGED);
  close_run(&run);
}

static void memory_out_of_the_cpus_reach_is_staged(void **state)
{
  struct run run;
  (void)state;
  open_text(&run, STREAM("mode: copy", "{memory: {plugin: late, options: {delay: 200 us}}}"));
  expect_path(&run, PST_PATH_STAGED);
  stream_all(&run, "packets", 20000);
  close_run(&run);
}

static void lent_slots_are_copied_straight_to_their_place(void **state)
{
  struct run run;
  (void)state;
  open_text(&run, STREAM("mode: reference", "{memory: {plugin: late, options: {delay: 200 us}}}"));
  stream_all(&run, "packets", 20000);
  close_run(&run);
}

static void a_path_that_is_not_to_be_had_is_refused(void **state)
{
  const char *text = STREAM("mode: copy", "{memory: late, path: direct}");
  struct pst_session_params params = {.struct_size = sizeof(params),
                                      .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session *session = NULL;
  struct pst_config *config;

  (void)state;
  assert_int_equal(pst_config_open_text(text, strlen(text), "t", NULL, 0, &config, &error), 0);
  assert_true(pst_session_open(config, &params, &session, &error) < 0);
  assert_null(session);
  assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
  assert_non_null(strstr(error.text, "path: direct"));
  assert_non_null(strstr(error.text, "late"));
  pst_config_close(config);
}

/* One held view must not stop the others, and may come back last. */
static void views_come_back_in_any_order(void **state)
{
  struct pst_view views[BATCH], kept = {0};
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  uint64_t sent = 0, received = 0;
  struct run run;
  int n;

  (void)state;
  open_text(&run, STREAM("mode: copy", "{memory: host}"));
  sender = pst_session_sender(run.session, "packets");
  receiver = pst_session_receiver(run.session, "packets");
  start(&run);
  while ((n = pst_receiver_poll(receiver, &batch)) >= 0) {
    feed(sender, &sent, 10000);
    if (received == 0 && n > 0) {
      kept = views[0];
      pst_receiver_release(receiver, views + 1, (uint32_t)n - 1);
    } else {
      for (int i = n - 1; i >= 0; i--)
        assert_int_equal(pst_receiver_release(receiver, &views[i], 1), 0);
    }
    received += (uint64_t)n;
    in_time(&run);
  }
  assert_int_equal(n, -ENODATA);
  assert_int_equal(received, 10000);
  assert_int_equal(pst_receiver_finish(receiver), -EBUSY);
  pst_receiver_release(receiver, &kept, 1);
  assert_int_equal(pst_receiver_finish(receiver), 0);
  close_run(&run);
}

/* Checks the pattern that the receiver learns. */
static void learn_pattern(const uint64_t *seed, bool chosen, char text[32])
{
  struct run run;
  struct pst_sender *sender;
  struct pst_receiver *receiver;

  open_text(&run, STREAM("mode: copy", "{memory: host}"));
  sender = pst_session_sender(run.session, "packets");
  receiver = pst_session_receiver(run.session, "packets");
  if (chosen)
    assert_int_equal(pst_sender_pattern(sender, seed), 0);
  start(&run);
  assert_int_equal(pst_sender_pattern(sender, seed), -EALREADY);
  while (pst_receiver_state(receiver) == PST_STATE_WAITING) {
    pst_sender_poll(sender);
    pst_receiver_poll(receiver, &(struct pst_batch){.struct_size = sizeof(struct pst_batch)});
    in_time(&run);
  }
  const char *known = pst_receiver_param(receiver, "pattern.seed");
  snprintf(text, 32, "%s", known ? known : "none");
  close_run(&run);
}

static void the_pattern_is_the_applications_to_choose(void **state)
{
  const uint64_t one = 1, two = 2;
  char without[32], first[32], second[32], none[32];

  (void)state;
  learn_pattern(&one, false, without);
  learn_pattern(&one, true, first);
  learn_pattern(&two, true, second);
  learn_pattern(NULL, true, none);
  assert_string_equal(without, first);
  assert_string_not_equal(first, second);
  assert_string_equal(none, "none");
}

static void *drive_sender(void *argument)
{
  struct pst_sender *sender = argument;
  uint64_t deadline_ns = now_ns() + DEADLINE_NS;

  while (pst_sender_state(sender) < PST_STATE_ENDED && now_ns() < deadline_ns)
    pst_sender_poll(sender);
  return NULL;
}

/* By one call, which waits for views that are out, and for a sender on another thread. */
static void finishing_may_block(void **state)
{
  struct pst_view views[BATCH], kept;
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  uint64_t sent = 0, received = 0;
  struct run run;
  pthread_t thread;
  int n;

  (void)state;
  for (int frames = 0; frames < 2; frames++) {
    open_text(&run, frames ? "penstock: 1\n"
                             "transport: loopback\n"
                             "threads: {count: 2}\n"
                             "streams: [{name: packets, message: 100 B, ring: 64, receiver: "
                             "{assemble: {packets: 10}}}]\n"
                           : "penstock: 1\n"
                             "transport: loopback\n"
                             "threads: {count: 2}\n"
                             "streams: [{name: packets, message: 100 B, ring: 64}]\n");
    struct pst_sender *sender = pst_session_sender(run.session, "packets");
    struct pst_receiver *receiver = pst_session_receiver(run.session, "packets");
    struct pst_frame frame, one;
    struct pst_frame_batch whole = {.struct_size = sizeof(whole), .capacity = 1, .frames = &frame};
    start(&run);
    sent = received = 0;
    assert_int_equal(pst_receiver_finish_wait(receiver, 0), -EBUSY);
    while ((n = frames ? pst_receiver_poll_frames(receiver, &whole)
                       : pst_receiver_poll(receiver, &batch)) >= 0) {
      feed(sender, &sent, 1000);
      for (int i = received == 0; i < n; i++)
        assert_int_equal(frames ? pst_receiver_release_frames(receiver, &frame, 1)
                                : pst_receiver_release(receiver, &views[i], 1),
                         0);
      if (received == 0 && n > 0) {
        kept = views[0];
        one = frame;
      }
      received += (uint64_t)n;
      in_time(&run);
    }
    assert_int_equal(n, -ENODATA);
    assert_int_equal(received, frames ? 100 : 1000);
    assert_int_equal(pst_receiver_finish_wait(receiver, 1000000), -EBUSY);
    assert_int_equal(frames ? pst_receiver_release_frames(receiver, &one, 1)
                            : pst_receiver_release(receiver, &kept, 1),
                     0);
    /* Nobody drives the sender. */
    assert_int_equal(pst_receiver_finish_wait(receiver, 1000000), -ETIMEDOUT);
    assert_int_equal(pthread_create(&thread, NULL, drive_sender, sender), 0);
    assert_int_equal(pst_receiver_finish_wait(receiver, DEADLINE_NS), 0);
    assert_int_equal(pst_receiver_state(receiver), PST_STATE_ENDED);
    assert_int_equal(pst_receiver_finish_wait(receiver, 0), 0);
    pthread_join(thread, NULL);
    assert_int_equal(pst_sender_state(sender), PST_STATE_ENDED);
    close_run(&run);
  }
}

static void a_failed_stream_does_not_finish(void **state)
{
  uint64_t received = 0;
  struct run run;

  (void)state;
  open_text(&run, STREAM("mode: copy", "{memory: host}"));
  struct pst_receiver *receiver = pst_session_receiver(run.session, "packets");
  start(&run);
  while (pst_receiver_state(receiver) != PST_STATE_CONNECTED) {
    pst_sender_poll(pst_session_sender(run.session, "packets"));
    drain(receiver, &received);
    in_time(&run);
  }
  assert_int_equal(pst_receiver_abort(receiver, -EDQUOT, "enough"), 0);
  assert_int_equal(pst_receiver_finish_wait(receiver, DEADLINE_NS), -EDQUOT);
  close_run(&run);
}

static void misuse_is_refused(void **state)
{
  struct pst_slot slots[4];
  struct pst_sender *sender;
  struct run run;
  int n;

  (void)state;
  open_text(&run, STREAM("mode: copy", "{memory: host}"));
  sender = pst_session_sender(run.session, "packets");
  assert_null(pst_session_sender(run.session, "nothing"));
  assert_int_equal(pst_sender_acquire(sender, slots, 4), 0);
  start(&run);
  assert_int_equal(pst_sender_param_set(sender, "late", "1"), -EALREADY);
  while ((n = pst_sender_acquire(sender, slots, 4)) == 0) {
    struct pst_view view;
    struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = &view};
    assert_int_equal(pst_receiver_poll(pst_session_receiver(run.session, "packets"), &batch), 0);
    in_time(&run);
  }
  assert_int_equal(n, 4);
  assert_int_equal(pst_sender_acquire(sender, slots, 0), -EINVAL);
  assert_int_equal(pst_sender_idle(sender), 0);
  assert_int_equal(pst_sender_finish(sender), -EINVAL);
  assert_int_equal(pst_sender_submit(sender, slots + 1, 1), -EINVAL);
  slots[0].length = slots[0].capacity + 1;
  assert_int_equal(pst_sender_submit(sender, slots, 4), -EINVAL);
  slots[0].length = 1;
  assert_int_equal(pst_sender_submit(sender, slots, 4), 0);
  assert_int_equal(pst_sender_finish(sender), 0);
  assert_int_equal(pst_sender_acquire(sender, slots, 4), -EPIPE);
  close_run(&run);
}

/* Slots are looked at by eights. */
static void each_slot_is_looked_at(void **state)
{
  enum { SLOTS = 19 };
  struct pst_slot slots[SLOTS];
  struct pst_sender *sender;
  struct run run;
  int n = 0;

  (void)state;
  open_text(&run, STREAM("mode: copy", "{memory: host}"));
  sender = pst_session_sender(run.session, "packets");
  start(&run);
  while (n == 0) {
    struct pst_view view;
    struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = &view};
    assert_int_equal(pst_receiver_poll(pst_session_receiver(run.session, "packets"), &batch), 0);
    n = pst_sender_acquire(sender, slots, SLOTS);
    in_time(&run);
  }
  assert_int_equal(n, SLOTS);
  for (int i = 0; i < SLOTS; i++) {
    assert_int_equal(slots[i].sequence, i);
    assert_int_equal(slots[i].address - slots[0].address,
                     (uint64_t)((char *)slots[i].host - (char *)slots[0].host));
    assert_int_equal(slots[i].length + slots[i].meta, 0);
    assert_int_equal(slots[i].capacity, slots[0].capacity);
  }
  for (int i = 0; i < SLOTS; i++) {
    slots[i].length = slots[i].capacity + 1;
    assert_int_equal(pst_sender_submit(sender, slots, SLOTS), -EINVAL);
    slots[i].length = 1;
    slots[i].sequence++;
    assert_int_equal(pst_sender_submit(sender, slots, SLOTS), -EINVAL);
    slots[i].sequence--;
  }
  assert_int_equal(pst_sender_submit(sender, slots, SLOTS), 0);
  close_run(&run);
}

static void what_the_sender_tells_arrives(void **state)
{
  struct pst_receiver *receiver;
  struct run run;
  uint64_t sent = 0, received = 0;

  (void)state;
  open_text(&run, STREAM("mode: copy", "{memory: host}"));
  receiver = pst_session_receiver(run.session, "packets");
  assert_int_equal(pst_sender_param_set(pst_session_sender(run.session, "packets"), "color", "red"),
                   0);
  assert_int_equal(
      pst_sender_param_set(pst_session_sender(run.session, "packets"), "color", "blue"), 0);
  assert_null(pst_receiver_param(receiver, "color"));
  start(&run);
  while (drain(receiver, &received)) {
    feed(pst_session_sender(run.session, "packets"), &sent, 10);
    in_time(&run);
  }
  assert_string_equal(pst_receiver_param(receiver, "color"), "blue");
  assert_null(pst_receiver_param(receiver, "colour"));
  close_run(&run);
}

static void an_abort_reaches_the_sender_with_its_text(void **state)
{
  struct pst_slot slots[BATCH];
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  uint64_t received = 0;
  struct run run;
  int n;

  (void)state;
  open_text(&run, STREAM("mode: copy", "{memory: host}"));
  sender = pst_session_sender(run.session, "packets");
  receiver = pst_session_receiver(run.session, "packets");
  start(&run);
  while (received == 0) {
    uint64_t sent = 0;
    if (pst_sender_state(sender) == PST_STATE_CONNECTED)
      feed(sender, &sent, UINT64_MAX);
    else
      pst_sender_poll(sender);
    drain(receiver, &received);
    in_time(&run);
  }
  pst_receiver_abort(receiver, -ENOSPC, "the disk is full");
  while ((n = pst_sender_acquire(sender, slots, BATCH)) >= 0) {
    assert_int_equal(pst_sender_submit(sender, slots, (uint32_t)n), 0);
    in_time(&run);
  }
  pst_sender_stats(sender, &stats);
  assert_int_equal(stats.state, PST_STATE_FAILED);
  assert_non_null(strstr(stats.error_text, "the disk is full"));
  close_run(&run);
}

static const char shared[] = "penstock: 1\n"
                             "transport: loopback\n"
                             "threads: {count: 1}\n"
                             "streams:\n"
                             "  - {name: a, message: 1000 B, ring: 64}\n"
                             "  - {name: b, message: 1000 B, ring: 64,\n"
                             "     %s: {share: a}}\n";

static void many_senders_into_one_ring(void **state)
{
  uint64_t sent[2] = {0}, received[2] = {0};
  const char *names[] = {"a", "b"};
  bool more[2] = {true, true};
  char text[512];
  struct run run;

  (void)state;
  snprintf(text, sizeof(text), shared, "receiver");
  open_text(&run, text);
  start(&run);
  while (more[0] || more[1]) {
    for (int i = 0; i < 2; i++) {
      feed(pst_session_sender(run.session, names[i]), &sent[i], 20000);
      more[i] = more[i] && drain(pst_session_receiver(run.session, names[i]), &received[i]);
    }
    in_time(&run);
  }
  for (int i = 0; i < 2; i++)
    check_counts(pst_session_sender(run.session, names[i]),
                 pst_session_receiver(run.session, names[i]), 20000);
  close_run(&run);
}

static void one_sender_to_many_receivers(void **state)
{
  uint64_t sent = 0, received[2] = {0};
  const char *names[] = {"a", "b"};
  bool more[2] = {true, true};
  char text[512];
  struct run run;

  (void)state;
  snprintf(text, sizeof(text), shared, "sender");
  open_text(&run, text);
  start(&run);
  while (more[0] || more[1]) {
    feed(pst_session_sender(run.session, "a"), &sent, 20000);
    for (int i = 0; i < 2; i++)
      more[i] = more[i] && drain(pst_session_receiver(run.session, names[i]), &received[i]);
    in_time(&run);
  }
  for (int i = 0; i < 2; i++)
    check_counts(pst_session_sender(run.session, names[i]),
                 pst_session_receiver(run.session, names[i]), 20000);
  close_run(&run);
}

static void structs_make_the_same_stream(void **state)
{
  struct pst_setting mode = {"mode", "copy"};
  struct pst_stream_params stream = {.struct_size = sizeof(stream),
                                     .ring = 128,
                                     .name = "packets",
                                     .message = 512,
                                     .transport = "loopback",
                                     .transport_options = &mode,
                                     .transport_option_count = 1};
  const struct pst_stream_params *streams[] = {&stream};
  struct pst_config_params params = {
      .struct_size = sizeof(params), .stream_count = 1, .streams = streams, .threads = 1};
  struct pst_session_params session = {.struct_size = sizeof(session),
                                       .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER};
  struct pst_error error = PST_ERROR_INIT;
  struct run run = {.deadline_ns = now_ns() + DEADLINE_NS};

  (void)state;
  if (pst_config_open_params(&params, &run.config, &error) < 0 ||
      pst_session_open(run.config, &session, &run.session, &error) < 0)
    fail_msg("%s", error.text);
  stream_all(&run, "packets", 20000);
  close_run(&run);
}

static void an_idle_thread_sleeps_until_woken(void **state)
{
  struct run run;
  uint64_t until;
  int slept = 0;

  (void)state;
  open_text(&run, "penstock: 1\n"
                  "transport: loopback\n"
                  "threads: {count: 1, sleep_after: 1 ms}\n"
                  "streams: [{name: packets, message: 100 B, ring: 16}]\n");
  do { /* it has to be asked again before it has been idle for long enough */
    until = now_ns() + 50000000;
    slept = pst_session_wait(run.session, 0, &until);
    in_time(&run);
  } while (slept == 0);
  until = now_ns() + 50000000;
  while (now_ns() < until)
    slept += pst_session_wait(run.session, 0, &until);
  assert_in_range(slept, 1, 200);
  close_run(&run);
}

#define FAILING(options)                                                                           \
  "penstock: 1\n"                                                                                  \
  "transport: {plugin: loopback, filters: [{plugin: failing, options: {" options "}}]}\n"          \
  "threads: {count: 1}\n"                                                                          \
  "streams: [{name: a}, {name: b}]\n"

static void what_a_plugin_refuses_has_its_place(void **state)
{
  const char *text;

  (void)state;
  text = refused_text("penstock: 1\n"
                      "transport: loopback\n"
                      "streams:\n"
                      "  - name: a\n"
                      "    sender: {memory: {plugin: host, options: {numa_node: x}}}\n");
  assert_string_equal(text,
                      "test.yaml:5:58: memory plugin host: numa_node: \"x\" is not a node; write "
                      "auto, -1 or a number");
}

static void a_filter_that_does_not_open_is_named(void **state)
{
  (void)state;
  assert_string_equal(
      refused_text(FAILING("fail: open")),
      "test.yaml:2:21: transport loopback, or one of its filters: failing does not open: "
      "Input/output error; `penstock plugins NAME` says what each needs");
}

static void more_than_the_limits_is_refused(void **state)
{
  struct run run;

  (void)state;
  assert_string_equal(refused_text(FAILING("endpoints: 3")),
                      "stream b: transport loopback has at most 3 endpoints a worker; raise "
                      "threads.count, or run fewer streams");
  assert_int_equal(refused_status(), PST_EXIT_UNAVAILABLE); /* another device may have more */
  assert_string_equal(
      refused_text(FAILING("rings: 1")),
      "test.yaml:2:21: transport loopback has at most 1 rings a device, the streams "
      "have 2; let some share one (`receiver.share`), or run fewer");
  assert_int_equal(refused_status(), PST_EXIT_UNAVAILABLE);
  /* More threads would have no more of them. */
  assert_string_equal(refused_text(FAILING("device_endpoints: 3")),
                      "stream b: transport loopback has at most 3 endpoints a device (max_qp is "
                      "3); run fewer streams");
  assert_string_equal(
      refused_text(FAILING("domains: 1")),
      "test.yaml:2:21: transport loopback has at most 1 domains a device, one for each receiver or "
      "region that peers reach, and the streams have 2; let some share a ring (`receiver.share`), "
      "or run fewer");
  open_text(&run, FAILING("endpoints: 4, device_endpoints: 4, rings: 2, domains: 2"));
  close_run(&run);
}

static void structs_without_a_size_are_refused(void **state)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session_params params = {.roles = PST_SESSION_SENDER};
  struct pst_session *session = NULL;
  struct pst_view view;
  struct pst_batch batch = {.capacity = 1, .views = &view};
  struct {
    struct pst_batch known;
    uint64_t later;
  } grown = {.known = {.struct_size = sizeof(grown), .capacity = 1, .views = &view}, .later = 7};
  struct run run;

  (void)state;
  open_text(&run, STREAM("mode: copy", "{memory: host}"));
  assert_int_equal(pst_session_open(run.config, &params, &session, &error), -EINVAL);
  assert_null(session);
  start(&run);
  struct pst_receiver *receiver = pst_session_receiver(run.session, "packets");
  assert_int_equal(pst_receiver_poll(receiver, &batch), -EINVAL);
  assert_int_equal(pst_receiver_poll(receiver, &grown.known), 0);
  assert_int_equal(grown.later, 7);
  close_run(&run);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_a_plugin_refuses_has_its_place),
      cmocka_unit_test(a_filter_that_does_not_open_is_named),
      cmocka_unit_test(more_than_the_limits_is_refused),
      cmocka_unit_test(structs_without_a_size_are_refused),
      cmocka_unit_test(a_stream_by_copy_is_whole),
      cmocka_unit_test(a_stream_by_reference_is_whole),
      cmocka_unit_test(staged_on_request),
      cmocka_unit_test(memory_out_of_the_cpus_reach_is_staged),
      cmocka_unit_test(lent_slots_are_copied_straight_to_their_place),
      cmocka_unit_test(a_path_that_is_not_to_be_had_is_refused),
      cmocka_unit_test(views_come_back_in_any_order),
      cmocka_unit_test(the_pattern_is_the_applications_to_choose),
      cmocka_unit_test(finishing_may_block),
      cmocka_unit_test(a_failed_stream_does_not_finish),
      cmocka_unit_test(misuse_is_refused),
      cmocka_unit_test(each_slot_is_looked_at),
      cmocka_unit_test(what_the_sender_tells_arrives),
      cmocka_unit_test(an_abort_reaches_the_sender_with_its_text),
      cmocka_unit_test(many_senders_into_one_ring),
      cmocka_unit_test(one_sender_to_many_receivers),
      cmocka_unit_test(structs_make_the_same_stream),
      cmocka_unit_test(an_idle_thread_sleeps_until_woken),
  };
  return cmocka_run_group_tests_name("stream_session", tests, use_fakes, NULL) ? 1 : 0;
}
