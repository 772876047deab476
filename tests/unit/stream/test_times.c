/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a stream, the times it was blocked, and calls out of their turn. */
#include <pthread.h>
#include <stdatomic.h>

#include "../fewer.h"
#include "../simulated_clock.h"
#include "support.h"

/* A slow sink is waited for beyond it, by the simulated clock. */
#define TIMEOUT_MS 1000
/* At the times of two running ends, by a thread beside them. */
#ifdef __SANITIZE_THREAD__
#define LOOKS 100000u
#else
#define LOOKS 1000000u
#endif
#define PLAIN(more)                                                                                \
  "penstock: 1\n"                                                                                  \
  "transport: loopback\n"                                                                          \
  "control: {heartbeat: 20 ms}\n"                                                                  \
  "threads: {count: 1}\n"                                                                          \
  "streams: [{name: a, message: 200 B, ring: 16, timeout: 1 s" more "}]\n"

static void no_message_at_all_ends_like_any_other(void **state)
{
  struct pst_view view;
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = &view};
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  struct run run;
  int n = 0;

  (void)state;
  open_text(&run, PLAIN(""));
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  assert_int_equal(pst_sender_finish(sender), 0);
  start(&run);
  while (n == 0) {
    assert_true(pst_sender_poll(sender) >= 0);
    n = pst_receiver_poll(receiver, &batch);
    in_time(&run);
  }
  assert_int_equal(n, -ENODATA);
  while (pst_receiver_state(receiver) != PST_STATE_ENDING) {
    assert_int_equal(pst_receiver_poll(receiver, &batch), -ENODATA);
    in_time(&run);
  }
  assert_int_equal(pst_receiver_finish(receiver), 0);
  while (pst_sender_state(sender) != PST_STATE_ENDED ||
         pst_receiver_state(receiver) != PST_STATE_ENDED) {
    assert_true(pst_sender_poll(sender) >= 0);
    assert_int_equal(pst_receiver_poll(receiver, &batch), -ENODATA);
    in_time(&run);
  }
  close_run(&run);
}

/* The sender's word can come before the transport says that it is connected. */
static void the_last_word_may_come_first(void **state)
{
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  struct run run;

  (void)state;
  open_text(&run, PLAIN(""));
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  assert_int_equal(pst_sender_finish(sender), 0);
  start(&run);
  while (pst_receiver_state(receiver) != PST_STATE_ENDING) {
    struct pst_batch batch = {.struct_size = sizeof(batch)};
    pst_receiver_poll(receiver, &batch);
    pst_sender_poll(sender);
    in_time(&run);
  }
  close_run(&run);
}

static void close_right_after_the_end(void **state)
{
  struct run run;
  uint64_t sent = 0, received = 0;

  (void)state;
  open_text(&run, PLAIN(""));
  start(&run);
  while (pst_sender_state(pst_session_sender(run.session, "a")) != PST_STATE_ENDED) {
    feed(pst_session_sender(run.session, "a"), &sent, 100);
    drain(pst_session_receiver(run.session, "a"), &received);
    in_time(&run);
  }
  close_run(&run);
}

/* Staged, with every place taken by the application for longer than `timeout`: the
 * rest is still there, and is handed over once there is room. */
static void a_slow_sink_is_no_loss(void **state)
{
  struct pst_view views[16];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 16, .views = views};
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  uint64_t sent = 0, since = 0;
  uint32_t held = 0, received = 0;
  struct run run;
  int n;

  (void)state;
  open_text(&run, PLAIN(", receiver: {path: staged}"));
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  while (since == 0 || now_ns() < since + TIMEOUT_MS * UINT64_C(1200000)) {
    const uint64_t turn = simulated_clock_turn();
    feed(sender, &sent, 32);
    batch.views = views + held;
    batch.capacity = 16 - held;
    n = pst_receiver_poll(receiver, &batch);
    assert_true(n >= 0);
    held += (uint32_t)n;
    if (held == 16 && pst_sender_state(sender) == PST_STATE_ENDING && since == 0)
      since = now_ns();
    if (since)
      simulated_clock_move(turn, UINT64_C(10000000));
    in_time(&run);
  }
  assert_int_equal(pst_receiver_release(receiver, views, 16), 0);
  batch.views = views;
  batch.capacity = 16;
  for (received = 16; (n = pst_receiver_poll(receiver, &batch)) >= 0; received += (uint32_t)n) {
    assert_int_equal(pst_receiver_release(receiver, views, (uint32_t)n), 0);
    feed(sender, &sent, 32);
    in_time(&run);
  }
  assert_int_equal(n, -ENODATA);
  assert_int_equal(received, 32);
  close_run(&run);
}

/* ---- Blocked times ------------------------------------------------------------------ */

struct watcher {
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  atomic_bool stop;
  _Atomic uint64_t looks;
  uint64_t broken;
};

static bool holds(const struct pst_stats *stats, uint64_t now)
{
  uint64_t sum = 0;
  uint64_t running = stats->started_ns ? (stats->ended_ns ? stats->ended_ns : now) : 0;

  for (int i = 0; i < PST_STAGES; i++)
    sum += stats->blocked_ns[i];
  return sum <= (running ? running - stats->started_ns : 0);
}

static void *watch_stats(void *context)
{
  struct watcher *watcher = context;

  while (!watcher->stop) {
    struct pst_stats stats = {.struct_size = sizeof(stats)};
    pst_sender_stats(watcher->sender, &stats);
    watcher->broken += !holds(&stats, now_ns());
    pst_receiver_stats(watcher->receiver, &stats);
    watcher->broken += !holds(&stats, now_ns());
    watcher->looks++;
  }
  return NULL;
}

static void blocked_times_fit_into_the_running_time(void **state)
{
  struct watcher watcher = {0};
  const uint64_t looks = fewer(LOOKS);
  pthread_t thread;
  uint64_t sent = 0, received = 0;
  struct run run;

  (void)state;
  open_text(&run, PLAIN(""));
  watcher.sender = pst_session_sender(run.session, "a");
  watcher.receiver = pst_session_receiver(run.session, "a");
  assert_int_equal(pthread_create(&thread, NULL, watch_stats, &watcher), 0);
  start(&run);
  while (received == 0 || watcher.looks < looks) {
    for (int i = 0; i < 100; i++) {
      feed(watcher.sender, &sent, UINT64_MAX);
      drain(watcher.receiver, &received);
    }
    in_time(&run);
  }
  watcher.stop = true;
  pthread_join(thread, NULL);
  assert_int_equal(watcher.broken, 0);
  close_run(&run);
}

/* ---- Out of turn ---------------------------------------------------------------------- */

static void views_go_back_once(void **state)
{
  struct pst_view views[8];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 8, .views = views};
  struct pst_receiver *receiver;
  uint64_t sent = 0;
  struct run run;
  int n = 0;

  (void)state;
  open_text(&run, PLAIN(", receiver: {path: staged}"));
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  assert_int_equal(pst_receiver_release(receiver, views, 1), -EINVAL);
  while (n == 0) {
    feed(pst_session_sender(run.session, "a"), &sent, 100);
    n = pst_receiver_poll(receiver, &batch);
    in_time(&run);
  }
  assert_true(n > 0);
  assert_int_equal(pst_receiver_release(receiver, views, (uint32_t)n), 0);
  assert_int_equal(pst_receiver_release(receiver, views, (uint32_t)n), -EINVAL);
  close_run(&run);
}

static void an_abort_before_the_start_is_reported(void **state)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct pst_slot slot;
  struct pst_sender *sender;
  struct run run;
  int n;

  (void)state;
  open_text(&run, PLAIN(""));
  sender = pst_session_sender(run.session, "a");
  pst_receiver_abort(pst_session_receiver(run.session, "a"), -ENOSPC, "no room");
  start(&run);
  while ((n = pst_sender_acquire(sender, &slot, 1)) == 0)
    in_time(&run);
  assert_true(n < 0);
  pst_sender_stats(sender, &stats);
  assert_non_null(strstr(stats.error_text, "no room"));
  close_run(&run);
}

static void as_many_words_as_promised_are_reported(void **state)
{
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  uint64_t sent = 0, received = 0;
  char key[16];
  struct run run;

  (void)state;
  open_text(&run, PLAIN(""));
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  for (int i = 0; i < 14; i++) {
    snprintf(key, sizeof(key), "key%d", i);
    assert_int_equal(pst_sender_param_set(sender, key, key), 0);
  }
  assert_int_equal(pst_sender_param_set(sender, "one", "more"), -ENOSPC);
  start(&run);
  while (drain(receiver, &received)) {
    feed(sender, &sent, 1);
    in_time(&run);
  }
  for (int i = 0; i < 14; i++) {
    snprintf(key, sizeof(key), "key%d", i);
    assert_string_equal(pst_receiver_param(receiver, key), key);
  }
  close_run(&run);
}

/* Its last messages are done and nobody has taken note: that must not keep an idle
 * sender awake. */
static void a_sender_without_a_source_sleeps(void **state)
{
  struct pst_sender *sender;
  uint64_t sent = 0, received = 0;
  struct run run;

  (void)state;
  open_text(&run, "penstock: 1\n"
                  "transport: loopback\n"
                  "threads: {count: 2, sleep_after: 1 ms}\n"
                  "streams: [{name: a, message: 100 B, ring: 64}]\n");
  sender = pst_session_sender(run.session, "a");
  start(&run);
  while (received == 0) {
    if (sent == 0 && pst_sender_state(sender) == PST_STATE_CONNECTED)
      feed(sender, &sent, UINT64_MAX);
    else
      pst_sender_idle(sender);
    drain(pst_session_receiver(run.session, "a"), &received);
    in_time(&run);
  }
  while (pst_session_wait(run.session, pst_sender_thread(sender), NULL) == 0) {
    assert_int_equal(pst_sender_idle(sender), 0);
    in_time(&run);
  }
  close_run(&run);
}

static void waiting_needs_a_thread(void **state)
{
  struct run run;
  (void)state;
  open_text(&run, PLAIN(""));
  assert_int_equal(pst_session_wait(run.session, 1, NULL), -EINVAL);
  assert_int_equal(pst_session_wait(run.session, 0, NULL), 0);
  close_run(&run);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_message_at_all_ends_like_any_other),
      cmocka_unit_test(the_last_word_may_come_first),
      cmocka_unit_test(close_right_after_the_end),
      cmocka_unit_test_setup_teardown(a_slow_sink_is_no_loss, simulated_clock_begin,
                                      simulated_clock_end),
      cmocka_unit_test(blocked_times_fit_into_the_running_time),
      cmocka_unit_test(views_go_back_once),
      cmocka_unit_test(an_abort_before_the_start_is_reported),
      cmocka_unit_test(as_many_words_as_promised_are_reported),
      cmocka_unit_test(a_sender_without_a_source_sleeps),
      cmocka_unit_test(waiting_needs_a_thread),
  };
  return cmocka_run_group_tests_name("stream_times", tests, use_fakes, NULL) ? 1 : 0;
}
