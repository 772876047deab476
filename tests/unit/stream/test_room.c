/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver whose memory has no room for more: polls return, nothing is handed over or given back
 * before its time, and the receiver goes on when there is room. */
#include <stdatomic.h>

#include <penstock/dlpack.h>

#include "../simulated_clock.h"
#include "support.h"

#define SLOTS 2048
#define FENCES 5000 /* more than LATE_FENCES_MAX */

struct ends {
  struct run run;
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  uint64_t sent;
};

static void open_ends(struct ends *ends, uint32_t ring, const char *options)
{
  char text[512];

  snprintf(text, sizeof(text),
           "penstock: 1\n"
           "transport: {plugin: loopback, options: {mode: copy}}\n"
           "threads: {count: 1}\n"
           "streams: [{name: a, message: 100 B, ring: %u, receiver: {memory: {plugin: late,\n"
           "  options: {%s}}}}]\n",
           ring, options);
  open_text(&ends->run, text);
  ends->sent = 0;
  ends->sender = pst_session_sender(ends->run.session, "a");
  ends->receiver = pst_session_receiver(ends->run.session, "a");
  start(&ends->run);
}

/* All that it takes. */
static void send_all(struct ends *ends)
{
  struct pst_slot slots[BATCH];
  int n;

  while ((n = pst_sender_acquire(ends->sender, slots, BATCH)) > 0) {
    for (int i = 0; i < n; i++)
      slots[i].length = slots[i].capacity;
    assert_int_equal(pst_sender_fill(ends->sender, slots, (uint32_t)n), 0);
    assert_int_equal(pst_sender_submit(ends->sender, slots, (uint32_t)n), 0);
    ends->sent += (uint64_t)n;
  }
  assert_true(n >= 0);
  assert_true(pst_sender_poll(ends->sender) >= 0);
}

/* n messages that have arrived, in order. */
static void take(struct ends *ends, struct pst_view *views, uint32_t n)
{
  uint32_t count = 0;

  while (count < n) {
    struct pst_batch batch = {
        .struct_size = sizeof(batch), .capacity = n - count, .views = views + count};
    send_all(ends);
    int got = pst_receiver_poll(ends->receiver, &batch);
    assert_true(got >= 0);
    count += (uint32_t)got;
    in_time(&ends->run);
  }
  for (uint32_t i = 1; i < n; i++)
    assert_int_equal(views[i].sequence, views[0].sequence + i);
}

static void end(struct ends *ends)
{
  struct pst_view view;
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = &view};
  int n;

  assert_int_equal(pst_sender_finish(ends->sender), 0);
  while (pst_receiver_state(ends->receiver) != PST_STATE_ENDED) {
    assert_true(pst_sender_poll(ends->sender) >= 0);
    n = pst_receiver_poll(ends->receiver, &batch);
    if (n == -ENODATA)
      pst_receiver_finish(ends->receiver);
    else
      assert_int_equal(pst_receiver_release(ends->receiver, &view, (uint32_t)n), 0);
    in_time(&ends->run);
  }
  close_run(&ends->run);
}

/* Copies of one or two batches fit: the others are put off, while polls ask for few or many. */
static void copies_are_put_off(void **state)
{
  struct ends ends;
  struct pst_view views[BATCH];
  uint64_t received = 0;
  (void)state;
  open_ends(&ends, 256, "delay: 1 ms, room: 70");
  while (received < 5000) {
    struct pst_batch batch = {
        .struct_size = sizeof(batch), .capacity = received % 3 ? 7 : BATCH, .views = views};
    struct pst_fence *fence = NULL;
    send_all(&ends);
    int n = pst_receiver_poll(ends.receiver, &batch);
    assert_true(n >= 0 && n <= (int)batch.capacity);
    for (int i = 0; i < n; i++)
      assert_int_equal(views[i].sequence, received + (uint64_t)i);
    if (n > 0) {
      assert_int_equal(check_all(ends.receiver, views, (uint32_t)n, &fence), 0);
      assert_int_equal(pst_receiver_release_after(ends.receiver, views, (uint32_t)n, fence), 0);
    }
    received += (uint64_t)n;
    in_time(&ends.run);
  }
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  pst_receiver_stats(ends.receiver, &stats);
  assert_int_equal(stats.messages_delivered, received);
  assert_int_equal(stats.bytes_delivered, received * 100);
  end(&ends);
}

/* The transport cannot read the memory that the messages are made in. */
static void senders_are_staged(void **state)
{
  static const char *const options[] = {"delay: 1 ms, room: 70", "delay: 0 us"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    struct run run;
    struct pst_stats stats = {.struct_size = sizeof(stats)};
    char text[768];
    snprintf(text, sizeof(text),
             "penstock: 1\n"
             "transport: {plugin: loopback, options: {mode: copy}}\n"
             "threads: {count: 1, sleep_after: 1 us}\n"
             "streams:\n"
             "- {name: a, message: 100 B, ring: 256, sender: {memory: {plugin: late,\n"
             "   options: {%s}}}, receiver: {memory: host}}\n",
             options[i]);
    open_text(&run, text);
    stream_all(&run, "a", 5000);
    pst_sender_stats(pst_session_sender(run.session, "a"), &stats);
    assert_int_equal(stats.path.path, PST_PATH_STAGED);
    assert_non_null(strstr(stats.path.reason, "memory late"));
    close_run(&run);
  }
}

/* How many messages a poll gives, at most, when as many wait as there are slots; the first that
 * gives any aside, since the sender's memory is lent in it. */
static int most_in_a_poll(const char *options)
{
  static struct pst_view views[SLOTS];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = SLOTS, .views = views};
  struct ends ends = {0};
  uint64_t received = 0;
  bool is_first = true;
  char text[512];
  int most = 0;

  snprintf(text, sizeof(text),
           "penstock: 1\n"
           "transport: {plugin: loopback, options: {mode: reference}}\n"
           "threads: {count: 1}\n"
           "streams: [{name: a, message: 1000 B, ring: %d, receiver: {memory: {plugin: failing,\n"
           "  options: {%s}}}}]\n",
           SLOTS, options);
  open_text(&ends.run, text);
  ends.sender = pst_session_sender(ends.run.session, "a");
  ends.receiver = pst_session_receiver(ends.run.session, "a");
  start(&ends.run);
  for (; received < 4 * SLOTS; in_time(&ends.run)) {
    send_all(&ends);
    int n = pst_receiver_poll(ends.receiver, &batch);
    assert_true(n >= 0);
    assert_int_equal(pst_receiver_release(ends.receiver, views, (uint32_t)n), 0);
    most = !is_first && n > most ? n : most;
    is_first = is_first && n == 0;
    received += (uint64_t)n;
  }
  close_run(&ends.run);
  return most;
}

/* Memory that copies while it is called keeps its thread for a little at a time. */
static void copies_from_what_cannot_be_pinned_are_short(void **state)
{
  (void)state;
  assert_true(most_in_a_poll("blind: true") > 1000);
  assert_int_equal(most_in_a_poll("blind: true, fail: host_register"), 65); /* 64 KiB */
}

/* All slots wait for their copies, whatever the receiver does. */
static void a_staged_sender_says_that_it_waits_for_copies(void **state)
{
  struct run run;
  struct pst_slot slots[BATCH];
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  int n;
  (void)state;
  open_text(&run, "penstock: 1\n"
                  "transport: {plugin: loopback, options: {mode: copy}}\n"
                  "threads: {count: 1}\n"
                  "streams:\n"
                  "- {name: a, message: 100 B, ring: 64, sender: {memory: {plugin: late,\n"
                  "   options: {delay: 100 ms}}}, receiver: {memory: host}}\n");
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  do {
    n = pst_sender_acquire(sender, slots, BATCH);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++)
      slots[i].length = 100;
    assert_int_equal(pst_sender_submit(sender, slots, (uint32_t)n), 0);
    pst_sender_stats(sender, &stats);
    n = pst_receiver_poll(receiver, &batch);
    assert_int_equal(pst_receiver_release(receiver, views, (uint32_t)n), 0);
    in_time(&run);
  } while (stats.blocked_ns[PST_STAGE_STAGING] == 0);
  close_run(&run);
}

/* There is nothing to wait for. */
static void a_memory_without_room_for_the_first_copy_ends_its_sender(void **state)
{
  struct run run;
  struct pst_slot slot;
  struct pst_sender *sender;
  (void)state;
  open_text(&run, "penstock: 1\n"
                  "transport: {plugin: loopback, options: {mode: copy}}\n"
                  "threads: {count: 1}\n"
                  "streams:\n"
                  "- {name: a, message: 100 B, ring: 64, sender: {memory: {plugin: late,\n"
                  "   options: {fail: copy_rows}}}, receiver: {memory: host}}\n");
  sender = pst_session_sender(run.session, "a");
  start(&run);
  while (pst_sender_acquire(sender, &slot, 1) == 0) {
    assert_true(pst_sender_poll(sender) >= 0);
    in_time(&run);
  }
  slot.length = 100;
  assert_int_equal(pst_sender_submit(sender, &slot, 1), -EPROTO);
  close_run(&run);
}

static void a_sender_is_staged_by_option_and_not_when_forbidden(void **state)
{
  struct run run;
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  (void)state;
  open_text(&run, "penstock: 1\n"
                  "transport: {plugin: loopback, options: {mode: reference}}\n"
                  "streams: [{name: a, message: 100 B, ring: 256, sender: {path: staged}}]\n");
  stream_all(&run, "a", 5000);
  pst_sender_stats(pst_session_sender(run.session, "a"), &stats);
  assert_int_equal(stats.path.path, PST_PATH_STAGED);
  close_run(&run);
  assert_non_null(strstr(refused_text("penstock: 1\n"
                                      "transport: loopback\n"
                                      "streams: [{name: a, message: 100 B, ring: 256,\n"
                                      "  sender: {memory: late, path: direct}}]\n"),
                         "sender.path: direct is not possible"));
}

/* Messages whose copy was under way when the stream failed leave in order. */
static void a_stream_may_fail_while_a_copy_is_put_off(void **state)
{
  struct ends ends;
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  uint64_t received = 0;
  int idle = 0;
  (void)state;
  open_ends(&ends, 256, "delay: 300 ms, room: 1");
  while (idle < 10) { /* a copy is under way, and the next one put off */
    send_all(&ends);
    int n = pst_receiver_poll(ends.receiver, &batch);
    assert_true(n >= 0);
    received += (uint64_t)n;
    idle = received && n == 0 ? idle + 1 : 0;
    in_time(&ends.run);
  }
  assert_int_equal(pst_receiver_abort(ends.receiver, -ECANCELED, "enough"), 0);
  pst_receiver_stats(ends.receiver, &stats);
  assert_int_equal(stats.messages_delivered, received);
  assert_int_equal(pst_receiver_poll(ends.receiver, &batch), -ECANCELED);
  close_run(&ends.run);
}

/* More checks than the memory takes, in any round in which it is slow enough: a round lasts as long
 * as the checks of its messages, one after the other. */
static void checks_are_put_off(void **state)
{
  struct ends ends;
  struct pst_view views[BATCH];
  struct pst_verify_result found = {.struct_size = sizeof(found)};
  uint64_t checked = 0;
  bool put_off = false;
  (void)state;
  open_ends(&ends, 256, "delay: 5 ms");
  while (!put_off) {
    take(&ends, views, BATCH);
    for (uint32_t i = 0; i < BATCH; i++) {
      struct pst_fence *fence = NULL;
      int rc = pst_receiver_verify(ends.receiver, &views[i], 1, &fence);
      put_off |= rc == -EAGAIN;
      if (rc == -EAGAIN)
        rc = check_all(ends.receiver, &views[i], 1, &fence);
      assert_int_equal(rc, 0);
      assert_non_null(fence);
      assert_int_equal(pst_receiver_release_after(ends.receiver, &views[i], 1, fence), 0);
    }
    checked += BATCH;
    in_time(&ends.run);
  }
  while (found.checked < checked) {
    assert_int_equal(pst_receiver_verified(ends.receiver, &found), 0);
    in_time(&ends.run);
  }
  assert_int_equal(found.checked, checked);
  assert_int_equal(found.corrupted, 0);
  end(&ends);
}

/* The second half is refused, and the first is being read. */
static void part_of_a_check_has_a_fence(void **state)
{
  static struct pst_view views[8192];
  struct pst_fence *fence = NULL;
  struct ends ends;
  (void)state;
  open_ends(&ends, 16384, "delay: 1 ms, fail: verify_rows, nth: 2");
  take(&ends, views, 8192);
  assert_int_equal(pst_receiver_verify(ends.receiver, views, 8192, &fence), -EIO);
  assert_non_null(fence);
  assert_int_equal(pst_receiver_release_after(ends.receiver, views, 8192, fence), 0);
  close_run(&ends.run);
  /* Only the result fails. */
  fence = NULL;
  open_ends(&ends, 256, "delay: 1 ms, fail: verify_result");
  take(&ends, views, 8);
  assert_int_equal(pst_receiver_verify(ends.receiver, views, 8, &fence), -EIO);
  assert_non_null(fence);
  assert_int_equal(pst_receiver_release_after(ends.receiver, views, 8, fence), 0);
  close_run(&ends.run);
}

/* Views that may still be read, by an unknown reader, are not given back. */
static void without_a_fence_nothing_is_given_back(void **state)
{
  static struct pst_view views[256];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 256, .views = views};
  struct pst_fence *fence = NULL;
  struct ends ends;
  (void)state;
  open_ends(&ends, 256, "delay: 1 ms, fail: fence_record, nth: 2");
  struct pst_view one;
  take(&ends, &one, 1);
  int rc = pst_receiver_verify(ends.receiver, &one, 1, &fence);
  assert_int_equal(rc, -ENOMEM);
  assert_null(fence);
  assert_int_equal(pst_receiver_release(ends.receiver, &one, 1), 0);
  /* The other 255 are all that there is: the ring fills up behind them, and the sender's slots. */
  take(&ends, views, 255);
  for (int more = 10; more > 0; more -= ends.sent == 3 * 256) {
    send_all(&ends);
    assert_int_equal(pst_receiver_poll(ends.receiver, &batch), 0);
    in_time(&ends.run);
  }
  close_run(&ends.run);
}

/* 300 orders of work of the application's, 7 tensors on each, none of them through. */
static void deleted_tensors_wait_without_blocking(void **state)
{
  static struct pst_view views[SLOTS];
  static atomic_int gates[300];
  static struct DLManagedTensorVersioned *tensors[SLOTS];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = SLOTS, .views = views};
  struct ends ends;
  (void)state;
  open_ends(&ends, SLOTS, "delay: 0 us");
  take(&ends, views, SLOTS);
  for (uint32_t i = 0; i < SLOTS; i++)
    assert_int_equal(
        pst_receiver_dlpack(ends.receiver, &views[i], 1, &gates[i % 300], 0, &tensors[i]), 0);
  for (uint32_t i = 0; i < SLOTS; i++)
    tensors[i]->deleter(tensors[i]);
  for (int i = 0; i < 100; i++) {
    send_all(&ends);
    assert_int_equal(pst_receiver_poll(ends.receiver, &batch), 0);
  }
  for (uint32_t i = 0; i < 300; i++)
    atomic_store(&gates[i], 1);
  take(&ends, views, SLOTS);
  assert_int_equal(pst_receiver_release(ends.receiver, views, SLOTS), 0);
  end(&ends);
}

/* More than the list of them began with, and of one message each. */
static void releases_wait_without_blocking(void **state)
{
  static struct pst_view views[SLOTS];
  atomic_int gate = 0;
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = SLOTS, .views = views};
  struct ends ends;
  (void)state;
  open_ends(&ends, SLOTS, "delay: 0 us");
  take(&ends, views, SLOTS);
  for (uint32_t i = 0; i < SLOTS; i++) {
    struct pst_fence *fence = NULL;
    assert_int_equal(pst_receiver_fence(ends.receiver, &gate, &fence), 0);
    assert_non_null(fence);
    assert_int_equal(pst_receiver_release_after(ends.receiver, &views[i], 1, fence), 0);
  }
  for (int i = 0; i < 100; i++) {
    send_all(&ends);
    assert_int_equal(pst_receiver_poll(ends.receiver, &batch), 0);
  }
  atomic_store(&gate, 1);
  take(&ends, views, SLOTS);
  assert_int_equal(pst_receiver_release(ends.receiver, views, SLOTS), 0);
  end(&ends);
}

/* More than the memory has: each goes back by itself, with no view behind it. */
static void fences_are_given_back(void **state)
{
  atomic_int gate = 0;
  struct ends ends;
  (void)state;
  open_ends(&ends, SLOTS, "delay: 0 us");
  for (uint32_t i = 0; i < FENCES; i++) {
    struct pst_fence *fence = NULL;
    assert_int_equal(pst_receiver_fence(ends.receiver, &gate, &fence), 0);
    assert_non_null(fence);
    pst_receiver_fence_free(ends.receiver, fence);
  }
  pst_receiver_fence_free(ends.receiver, NULL);
  end(&ends);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_are_put_off),
      cmocka_unit_test(senders_are_staged),
      /* Closing waits for messages that are not given back. */
      cmocka_unit_test_setup_teardown(copies_from_what_cannot_be_pinned_are_short,
                                      simulated_clock_begin, simulated_clock_end),
      cmocka_unit_test(a_staged_sender_says_that_it_waits_for_copies),
      cmocka_unit_test(a_memory_without_room_for_the_first_copy_ends_its_sender),
      cmocka_unit_test(a_sender_is_staged_by_option_and_not_when_forbidden),
      cmocka_unit_test(a_stream_may_fail_while_a_copy_is_put_off),
      cmocka_unit_test(checks_are_put_off),
      cmocka_unit_test(part_of_a_check_has_a_fence),
      cmocka_unit_test(without_a_fence_nothing_is_given_back),
      cmocka_unit_test(deleted_tensors_wait_without_blocking),
      cmocka_unit_test(releases_wait_without_blocking),
      cmocka_unit_test(fences_are_given_back),
  };
  return cmocka_run_group_tests_name("stream_room", tests, use_fakes, NULL) ? 1 : 0;
}
