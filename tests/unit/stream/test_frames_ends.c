/* SPDX-License-Identifier: Apache-2.0 */
/* Frames when time or a failure ends them, and when a fence says that they may go back. */
#include "frames_support.h"

static const char late[] = "{plugin: late, options: {delay: 5 ms}}";

/* Nothing but what is asked for wakes its thread: beats are ten minutes apart. */
static void open_sleepy(struct run *run, const char *memory, const char *assemble)
{
  char text[1024];

  snprintf(text, sizeof(text),
           "penstock: 1\n"
           "transport: loopback\n"
           "control: {heartbeat: 10 min}\n"
           "threads: {count: 1, sleep_after: 1 us}\n"
           "streams:\n"
           "- name: a\n"
           "  message: %d B\n"
           "  ring: 256\n"
           "  timeout: 1 h\n"
           "  receiver: {memory: %s, assemble: {%s}}\n",
           MESSAGE, memory, assemble);
  open_text(run, text);
  seed_frames(run);
}

static int poll_frames(struct pst_receiver *receiver, struct pst_frame *frames, uint32_t capacity,
                       bool is_late)
{
  struct pst_frame_batch batch = {.struct_size = sizeof(batch),
                                  .capacity = capacity,
                                  .frames = frames,
                                  .count = 99,
                                  .ready = (struct pst_fence *)frames};
  int n = pst_receiver_poll_frames(receiver, &batch);

  assert_int_equal(batch.count, n > 0 ? n : 0);
  assert_ptr_not_equal(batch.ready, frames);
  if (n <= 0)
    assert_null(batch.ready);
  else if (is_late) /* copies take their time */
    assert_non_null(batch.ready);
  return n;
}

/* The packets of a frame, checked where they are; the fence is passed when they have been. */
static struct pst_fence *check_frame(struct pst_receiver *receiver, const struct pst_frame *frame,
                                     uint64_t *packets)
{
  struct pst_view views[PACKETS];
  struct pst_fence *fence = NULL;
  uint32_t n = 0;

  for (uint32_t i = 0; i < frame->packets; i++)
    n += (uint32_t)pst_frame_view(frame, i, &views[n]);
  assert_int_equal(n, frame->present);
  assert_int_equal(check_all(receiver, views, n, &fence), 0);
  *packets += n;
  return fence;
}

/* The memory is slow to check: a buffer that were filled again too early would be found
 * wrong, and a thread that forgot the fences would sleep on. */
static void frames_go_back_when_they_have_been_checked(void **state)
{
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  struct pst_frame frames[3];
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  struct run run;
  uint64_t sent = 0, packets = 0;
  int n = 0;

  (void)state;
  open_sleepy(&run, late, "packets: 8, timeout: 1 h, frames: 4");
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  while (pst_receiver_state(receiver) != PST_STATE_ENDED) {
    uint64_t before = sent + packets;
    feed_full(sender, &sent, 400);
    n = poll_frames(receiver, frames, 3, true);
    assert_true(n >= 0 || n == -ENODATA);
    for (int i = 0; i < n; i++) {
      struct pst_fence *fence = check_frame(receiver, &frames[i], &packets);
      assert_non_null(fence);
      assert_int_equal(pst_receiver_release_frames_after(receiver, &frames[i], 1, fence), 0);
    }
    if (n == -ENODATA)
      pst_receiver_finish(receiver); /* -EBUSY while fences are out */
    else if (sent + packets == before)
      pst_session_wait(run.session, 0, NULL);
    in_time(&run);
  }
  assert_int_equal(packets, 400);
  assert_int_equal(pst_receiver_release_frames(receiver, frames, 1), -EINVAL);
  assert_int_equal(pst_receiver_verified(receiver, &result), 0);
  assert_int_equal(result.checked, 400);
  assert_int_equal(result.corrupted, 0);
  close_run(&run);
}

static void fences_are_taken_over_with_an_error_too(void **state)
{
  struct pst_frame frames[4];
  struct pst_fence *fence;
  struct pst_receiver *receiver;
  struct pst_sender *sender;
  struct run run;
  uint64_t sent = 0, packets = 0;
  int n = 0;

  (void)state;
  open_sleepy(&run, late, "packets: 8, timeout: 1 h, frames: 4");
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  while (n == 0) {
    feed_full(sender, &sent, 400);
    n = poll_frames(receiver, frames, 1, true);
    in_time(&run);
  }
  assert_int_equal(n, 1);
  fence = check_frame(receiver, frames, &packets);
  assert_int_equal(pst_receiver_release_frames_after(receiver, frames, 2, fence), -EINVAL);
  fence = check_frame(receiver, frames, &packets);
  assert_int_equal(pst_receiver_release_frames_after(receiver, frames, 0, fence), 0);
  /* Held behind a fence it is nobody's to release again. */
  fence = check_frame(receiver, frames, &packets);
  assert_int_equal(pst_receiver_release_frames_after(receiver, frames, 1, fence), 0);
  assert_int_equal(pst_receiver_release_frames(receiver, frames, 1), -EINVAL);
  close_run(&run);
}

/* Three of eight, and then nothing: its time hands it over, and wakes who sleeps. */
static void a_frame_is_cut_at_its_time(void **state)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct pst_frame frame;
  struct pst_slot slots[3];
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  struct run run;
  uint64_t begun = 0;
  uint32_t sent = 0, polls = 0;
  int n = 0;

  (void)state;
  open_sleepy(&run, "host", "packets: 8, timeout: 200 ms");
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  while (n == 0) {
    if (sent < 3) {
      int got = pst_sender_acquire(sender, slots, 3 - sent);
      for (int i = 0; i < got; i++)
        slots[i].length = MESSAGE;
      assert_true(got >= 0);
      assert_int_equal(pst_sender_submit(sender, slots, (uint32_t)got), 0);
      sent += (uint32_t)got;
      begun = now_ns();
    } else {
      assert_true(pst_sender_poll(sender) >= 0);
    }
    n = poll_frames(receiver, &frame, 1, false);
    if (n == 0)
      pst_session_wait(run.session, 0, NULL);
    polls += sent == 3;
    in_time(&run);
  }
  assert_int_equal(n, 1);
  assert_true(now_ns() - begun >= 200000000u);
  assert_true(polls < 1000); /* it slept, and did not turn */
  assert_int_equal(frame.present, 3);
  assert_int_equal(frame.valid[0], 7);
  assert_false(frame.flags & PST_FRAME_COMPLETE);
  pst_receiver_stats(receiver, &stats);
  assert_true(stats.blocked_ns[PST_STAGE_EMPTY] > 100000000u);
  assert_true(stats.blocked_ns[PST_STAGE_SINK] < stats.blocked_ns[PST_STAGE_EMPTY]);
  assert_int_equal(pst_receiver_release_frames(receiver, &frame, 1), 0);
  close_run(&run);
}

/* More lies in the ring than one poll takes in: then the receiver is late, no packet is,
 * however short the time of a frame. */
static void what_is_here_does_not_time_out(void **state)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct pst_frame frame;
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  struct run run;
  uint64_t sent = 0, whole = 0, frames = 0;
  int n = 0;

  (void)state;
  open_frames(&run, "host", "packets: 7, timeout: 1 ns, frames: 4", "");
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  while (pst_sender_state(sender) == PST_STATE_WAITING) {
    assert_true(pst_sender_poll(sender) >= 0);
    assert_int_equal(poll_frames(receiver, &frame, 1, false), 0);
    in_time(&run);
  }
  for (int i = 0; i < 20; i++) /* the ring has 256 slots */
    feed_full(sender, &sent, 252);
  assert_int_equal(sent, 252);
  while (n != -ENODATA) {
    assert_true(pst_sender_poll(sender) >= 0);
    n = poll_frames(receiver, &frame, 1, false);
    assert_true(n >= 0 || n == -ENODATA);
    if (n > 0) {
      whole += (frame.flags & PST_FRAME_COMPLETE) != 0;
      frames++;
      assert_int_equal(pst_receiver_release_frames(receiver, &frame, 1), 0);
    }
    in_time(&run);
  }
  assert_int_equal(frames, 36);
  assert_int_equal(whole, 36);
  pst_receiver_stats(receiver, &stats);
  assert_int_equal(stats.messages_delivered, 252);
  close_run(&run);
}

/* A memory whose first copy fails ends the stream, and says so. */
static void copies_that_fail_end_the_stream(void **state)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct pst_frame frame;
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  struct run run;
  uint64_t sent = 0;
  int n = 0;

  (void)state;
  open_frames(&run, "{plugin: failing, options: {fail: copy_rows}}", "packets: 8", "");
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  while (n == 0) {
    if (sent == 0)
      feed_full(sender, &sent, 1000);
    n = poll_frames(receiver, &frame, 1, false);
    in_time(&run);
  }
  assert_int_equal(n, -EIO);
  assert_int_equal(pst_receiver_state(receiver), PST_STATE_FAILED);
  pst_receiver_stats(receiver, &stats);
  assert_int_equal(stats.error, -EIO);
  assert_non_null(strstr(stats.error_text, "copying"));
  assert_int_equal(poll_frames(receiver, &frame, 1, false), -EIO);
  close_run(&run);
}

/* Packets that came before the sender left are handed over, and then its reason. */
static void a_sender_that_leaves_costs_no_packet_that_came(void **state)
{
  struct pst_frame frames[2];
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  struct run run;
  uint64_t sent = 0;
  uint32_t count = 0;
  int n = 0;

  (void)state;
  open_frames(&run, "host", "packets: 8, timeout: 1 h", "");
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  while (n == 0) {
    struct pst_slot slots[13];
    int got = sent ? 0 : pst_sender_acquire(sender, slots, 13);
    for (int i = 0; i < got; i++)
      slots[i].length = MESSAGE;
    if (got)
      assert_int_equal(pst_sender_submit(sender, slots, (uint32_t)got), 0);
    sent += (uint64_t)got;
    assert_true(pst_sender_poll(sender) >= 0);
    n = poll_frames(receiver, frames, 1, false);
    in_time(&run);
  }
  assert_int_equal(n, 1);
  assert_int_equal(sent, 13);
  assert_true(frames[0].flags & PST_FRAME_COMPLETE);
  assert_int_equal(pst_sender_abort(sender, -EPIPE, "the source has failed"), 0);
  for (n = 0; n >= 0; count += (uint32_t)n) {
    n = poll_frames(receiver, &frames[1], 1, false);
    in_time(&run);
    if (n < 0)
      break;
  }
  assert_int_equal(count, 1);
  assert_int_equal(frames[1].number, 1);
  assert_int_equal(frames[1].present, 5);
  assert_false(frames[1].flags & PST_FRAME_COMPLETE);
  assert_int_equal(n, -EPIPE);
  assert_int_equal(pst_receiver_release_frames(receiver, frames, 2), 0);
  close_run(&run);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frames_go_back_when_they_have_been_checked),
      cmocka_unit_test(fences_are_taken_over_with_an_error_too),
      cmocka_unit_test(a_frame_is_cut_at_its_time),
      cmocka_unit_test(what_is_here_does_not_time_out),
      cmocka_unit_test(copies_that_fail_end_the_stream),
      cmocka_unit_test(a_sender_that_leaves_costs_no_packet_that_came),
  };
  return cmocka_run_group_tests_name("stream_frames_ends", tests, use_fakes, NULL) ? 1 : 0;
}
