/* SPDX-License-Identifier: Apache-2.0 */
/* Frames through a whole session: in place, byte for byte, on memory that the CPU
 * reaches and on memory that it does not, whatever the filter does to messages. */
#include "frames_support.h"

#include <penstock/memory.h>

#include "../simulated_clock.h"

static const char *const memories[] = {"host", "{plugin: late, options: {delay: 5 us}}"};
static const char faults[] =
    "filters: [{plugin: fault, options: {seed: 3, drop_ppm: 20000, duplicate_ppm: 20000, "
    "reorder_ppm: 20000, delay_ppm: 5000, delay_time: 200 us}}]";

/* The pattern of memory.h, told the long way. */
static uint8_t pattern_at(uint64_t seed, uint64_t sequence, uint32_t at)
{
  uint64_t z = seed + sequence * PST_PATTERN_SEQUENCE;

  z ^= z >> 30;
  z *= UINT64_C(0xbf58476d1ce4e5b9);
  z ^= z >> 27;
  z *= UINT64_C(0x94d049bb133111eb);
  z ^= z >> 31;
  return (uint8_t)((z + at / 8 * PST_PATTERN_STEP) >> (at % 8 * 8));
}

struct seen {
  uint64_t frames, complete, messages, bytes, next;
  uint64_t zeros;   /* missing packets that were found zeroed */
  uint32_t holding; /* frames to keep before any goes back */
  struct pst_frame held[64];
  uint32_t held_count;
};

/* All of a frame at once: late memory takes its time for each copy. */
static const uint8_t *bytes_of(struct pst_receiver *receiver, const struct pst_frame *frame)
{
  static uint8_t bytes[24000 * MESSAGE];
  const struct pst_view whole = {
      .address = frame->address, .host = frame->host, .length = frame->packets * MESSAGE};

  assert_true(whole.length <= sizeof(bytes));
  assert_int_equal(pst_receiver_read(receiver, &whole, bytes), 0);
  return bytes;
}

static void look_at(struct pst_receiver *receiver, const struct pst_frame *frame, bool zeroed,
                    struct seen *seen)
{
  uint64_t seed = strtoull(pst_receiver_param(receiver, "pattern.seed"), NULL, 10);
  uint32_t present = 0;

  assert_int_equal(frame->stride, MESSAGE);
  assert_true(frame->packets <= pst_receiver_frame_packets(receiver));
  assert_true(seen->frames == 0 || frame->number >= seen->next);
  seen->next = frame->number + 1;
  const uint8_t *bytes = bytes_of(receiver, frame);
  for (uint32_t i = 0; i < frame->packets; i++, bytes += MESSAGE) {
    struct pst_view view = {.address = frame->address + i * frame->stride,
                            .host = frame->host ? (const char *)frame->host + i * MESSAGE : NULL,
                            .length = MESSAGE};
    bool is_here = frame->valid[i / 64] >> (i % 64) & 1;
    assert_int_equal(pst_frame_view(frame, i, &view), is_here);
    assert_int_equal(view.address, frame->address + i * frame->stride);
    if (is_here)
      assert_int_equal(view.sequence, frame->sequence + i);
    if (!is_here && !zeroed)
      continue;
    for (uint32_t b = 0; b < view.length; b++)
      assert_int_equal(bytes[b], is_here ? pattern_at(seed, frame->sequence + i, b) : 0);
    present += is_here;
    seen->zeros += !is_here;
  }
  if (zeroed)
    assert_int_equal(present, frame->present);
  seen->frames++;
  seen->complete += (frame->flags & PST_FRAME_COMPLETE) != 0;
  seen->messages += frame->present;
  seen->bytes += frame->bytes;
}

static void give_back(struct pst_receiver *receiver, struct seen *seen)
{
  struct pst_fence *fence = NULL;

  assert_int_equal(pst_receiver_fence(receiver, NULL, &fence), 0);
  assert_int_equal(pst_receiver_release_frames_after(receiver, seen->held, seen->held_count, fence),
                   0);
  seen->held_count = 0;
}

static bool drain_frames(struct pst_receiver *receiver, bool zeroed, struct seen *seen)
{
  struct pst_frame frames[4];
  struct pst_frame_batch batch = {.struct_size = sizeof(batch), .capacity = 4, .frames = frames};
  int n = pst_receiver_poll_frames(receiver, &batch);

  if (n == -ENODATA) {
    if (seen->held_count)
      give_back(receiver, seen);
    pst_receiver_finish(receiver);
    return pst_receiver_state(receiver) != PST_STATE_ENDED;
  }
  assert_true(n >= 0);
  assert_int_equal(n, batch.count);
  for (int i = 0; i < n; i++) {
    look_at(receiver, &frames[i], zeroed, seen);
    seen->held[seen->held_count++] = frames[i];
  }
  if (seen->held_count > seen->holding)
    give_back(receiver, seen);
  return true;
}

static uint64_t dropped(const struct pst_stats *stats, const char *cause)
{
  for (uint32_t i = 0; i < stats->drop_count; i++)
    if (strcmp(stats->drops[i].cause, cause) == 0)
      return stats->drops[i].messages;
  return 0;
}

static void run_frames(struct run *run, uint64_t total, bool zeroed, struct seen *seen,
                       struct pst_stats *stats)
{
  struct pst_sender *sender = pst_session_sender(run->session, "a");
  struct pst_receiver *receiver = pst_session_receiver(run->session, "a");
  uint64_t sent = 0, drops = 0;
  bool more = true;

  start(run);
  while (more || pst_sender_state(sender) != PST_STATE_ENDED) {
    feed_full(sender, &sent, total);
    more = drain_frames(receiver, zeroed, seen);
    in_time(run);
  }
  *stats = (struct pst_stats){.struct_size = sizeof(*stats)};
  pst_receiver_stats(receiver, stats);
  for (uint32_t i = 0; i < stats->drop_count; i++)
    drops += stats->drops[i].messages;
  assert_int_equal(stats->messages_sent, total);
  assert_int_equal(stats->messages_delivered, seen->messages);
  assert_int_equal(stats->bytes_delivered, seen->bytes);
  assert_int_equal(total, stats->messages_delivered + drops);
  assert_int_equal(dropped(stats, "unattributed"), 0);
  assert_int_equal(stats->frames_complete + stats->frames_incomplete, seen->frames);
  assert_int_equal(stats->frames_complete, seen->complete);
  assert_int_equal(stats->path.path, PST_PATH_STAGED);
  assert_non_null(strstr(stats->path.reason, "assemble"));
}

static void whole_frames_come_out_in_place(void **state)
{
  (void)state;
  for (size_t m = 0; m < 2; m++) {
    struct run run;
    struct seen seen = {.holding = 2};
    struct pst_stats stats;
    open_frames(&run, memories[m], "packets: 8, timeout: 1 h", "");
    assert_int_equal(pst_receiver_frame_packets(pst_session_receiver(run.session, "a")), 8);
    run_frames(&run, 1600, true, &seen, &stats);
    assert_int_equal(seen.frames, 200);
    assert_int_equal(seen.complete, 200);
    assert_int_equal(stats.drop_count, 0);
    close_run(&run);
  }
}

static void the_last_frame_may_be_short(void **state)
{
  struct run run;
  struct seen seen = {0};
  struct pst_stats stats;

  (void)state;
  open_frames(&run, memories[1], "packets: 8, timeout: 1 h", "");
  run_frames(&run, 803, true, &seen, &stats);
  assert_int_equal(seen.frames, 101);
  assert_int_equal(seen.complete, 100);
  assert_int_equal(seen.zeros, 5);
  close_run(&run);
}

static void metadata_tells_frames_apart(void **state)
{
  (void)state;
  for (size_t m = 0; m < 2; m++) {
    struct run run;
    struct seen seen = {0};
    struct pst_stats stats;
    open_frames(&run, memories[m], "by: rtp_marker, packets: 8, timeout: 1 h", "");
    run_frames(&run, 1000, true, &seen, &stats);
    assert_int_equal(seen.frames, 200);
    assert_int_equal(seen.complete, 199); /* the end of the last is not marked */
    assert_int_equal(stats.messages_delivered, 1000);
    close_run(&run);
  }
}

static void what_is_missing_is_zeroed_or_kept_or_costs_the_frame(void **state)
{
  static const char *const ways[] = {"zero", "keep", "drop"};

  (void)state;
  for (size_t m = 0; m < 2; m++)
    for (size_t w = 0; w < 3; w++) {
      struct run run;
      struct seen seen = {.holding = 3};
      struct pst_stats stats;
      char assemble[96];
      snprintf(assemble, sizeof(assemble), "packets: 8, timeout: 20 ms, missing: %s", ways[w]);
      open_frames(&run, memories[m], assemble, faults);
      run_frames(&run, 5000, w == 0, &seen, &stats);
      assert_true(dropped(&stats, "injected") > 50);
      assert_true(stats.duplicates > 50);
      assert_true(stats.reordered > 50);
      assert_true(seen.complete > 300);
      if (w == 0)
        assert_true(seen.zeros > 50);
      if (w == 2) {
        assert_int_equal(seen.frames, seen.complete);
        assert_true(stats.frames_dropped > 50);
        assert_true(dropped(&stats, "incomplete_frame") >= stats.frames_dropped);
      } else {
        assert_true(seen.frames > seen.complete);
        assert_int_equal(dropped(&stats, "incomplete_frame"), 0);
      }
      close_run(&run);
    }
}

/* A frame's packets, or its zeros, and no more at a time. */
static void copies_are_put_off(void **state)
{
  static const char *const ways[] = {"zero", "keep", "drop"};

  (void)state;
  for (size_t w = 0; w < 3; w++) {
    struct run run;
    struct seen seen = {.holding = 3};
    struct pst_stats stats;
    char assemble[96];
    snprintf(assemble, sizeof(assemble), "packets: 8, timeout: 20 ms, missing: %s", ways[w]);
    open_frames(&run, "{plugin: late, options: {delay: 200 us, room: 3}}", assemble, faults);
    run_frames(&run, 3000, w == 0, &seen, &stats);
    assert_true(seen.complete > 100);
    if (w == 0)
      assert_true(seen.zeros > 20);
    close_run(&run);
  }
}

/* Two packets a frame, half of them dropped: of each fourth frame there is nothing. */
static void lost_frames_are_counted(void **state)
{
  struct run run;
  struct seen seen = {0};
  struct pst_stats stats;

  (void)state;
  open_frames(&run, memories[0], "packets: 2, timeout: 1 h, frames: 32",
              "filters: [{plugin: fault, options: {seed: 3, drop_ppm: 500000}}]");
  run_frames(&run, 4000, true, &seen, &stats);
  assert_true(stats.frames_lost > 400);
  assert_int_equal(seen.next, seen.frames + stats.frames_lost);
  close_run(&run);
}

/* As many runs to zero as there can be, about, and one longer than the zeros there are. */
static void long_frames_are_zeroed_too(void **state)
{
  struct run run;
  struct seen seen = {0};
  struct pst_stats stats;

  (void)state;
  open_frames(&run, memories[0], "packets: 4096, frames: 2, timeout: 1 h",
              "filters: [{plugin: fault, options: {seed: 3, drop_ppm: 500000}}]");
  run_frames(&run, 8192, true, &seen, &stats);
  assert_int_equal(seen.frames, 2);
  assert_int_equal(seen.zeros, dropped(&stats, "injected"));
  close_run(&run);
  seen = (struct seen){0};
  open_frames(&run, memories[0], "packets: 24000, frames: 2, timeout: 1 h", "");
  run_frames(&run, 24100, true, &seen, &stats);
  assert_int_equal(seen.frames, 2);
  assert_int_equal(seen.zeros, 24000 - 100);
  close_run(&run);
}

/* Timestamps change every five messages, and frames of three have no place for them. */
static void messages_beyond_a_frame_are_misframed(void **state)
{
  struct run run;
  struct seen seen = {0};
  struct pst_stats stats;

  (void)state;
  open_frames(&run, memories[0], "by: rtp_marker, packets: 3, timeout: 1 h", "");
  run_frames(&run, 1000, true, &seen, &stats);
  assert_int_equal(dropped(&stats, "misframed"), 1000 - stats.messages_delivered);
  assert_true(dropped(&stats, "misframed") > 100);
  close_run(&run);
}

/* A transport's counter, which strangers may have raised, takes over no message that came. */
static void transport_explains_no_message_that_came(void **state)
{
  struct run run;
  struct seen seen = {0};
  struct pst_stats stats;

  (void)state;
  open_text(&run, "penstock: 1\n"
                  "transport: loopback\n"
                  "streams:\n"
                  "- name: a\n"
                  "  message: 100 B\n"
                  "  ring: 256\n"
                  "  receiver:\n"
                  "    transport:\n"
                  "      filters: [{plugin: claiming, options: {loses: 3, endpoint_drops: 1000}}]\n"
                  "    assemble: {packets: 8, timeout: 1 h, missing: drop}\n");
  seed_frames(&run);
  run_frames(&run, 1600, false, &seen, &stats);
  assert_int_equal(stats.frames_dropped, 1);
  assert_int_equal(dropped(&stats, "endpoint_full"), 3);
  assert_int_equal(dropped(&stats, "incomplete_frame"), 5);
  close_run(&run);
}

/* Real packets: what is missing is zero on either memory, and nothing else is. */
static void frames_of_datagrams_are_exact(void **state)
{
  static const char *const transports[] = {"{plugin: udp, options: {framing: sequence}}",
                                           "{plugin: udp, options: {framing: rtp}}"};

  (void)state;
  for (size_t m = 0; m < 2; m++)
    for (size_t rtp = 0; rtp < 2; rtp++) {
      struct run run;
      struct seen seen = {.holding = 3};
      struct pst_stats stats;
      char of_sender[256];
      snprintf(of_sender, sizeof(of_sender), "%s%s", rtp ? "options: {frame: 5}, " : "", faults);
      open_frames_over(&run, transports[rtp], of_sender, memories[m],
                       rtp ? "by: rtp_marker, packets: 8, timeout: 20 ms"
                           : "packets: 8, timeout: 20 ms");
      run_frames(&run, 5000, true, &seen, &stats);
      assert_string_equal(stats.path.carrier, "udp");
      assert_true(dropped(&stats, "injected") > 50);
      assert_int_equal(dropped(&stats, "misframed"), 0);
      assert_true(seen.zeros > 10);
      assert_true(seen.complete > 300);
      assert_true(seen.frames > seen.complete);
      close_run(&run);
    }
}

/* An application that keeps its frames stops the sender; nothing is lost. */
static void held_frames_hold_the_sender(void **state)
{
  struct run run;
  struct seen seen = {.holding = 63};
  struct pst_stats stats;
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  uint64_t sent = 0;

  (void)state;
  open_frames(&run, memories[1], "packets: 8, timeout: 1 h, frames: 4", "");
  sender = pst_session_sender(run.session, "a");
  receiver = pst_session_receiver(run.session, "a");
  start(&run);
  for (uint64_t before = 1, rounds = 0; rounds < 2000; rounds++) {
    before = sent;
    feed_full(sender, &sent, 1600);
    assert_true(drain_frames(receiver, true, &seen));
    rounds = sent == before && seen.held_count == 4 ? rounds : 0;
    in_time(&run);
  }
  assert_int_equal(seen.frames, 4);
  assert_true(sent < 1600);
  assert_int_equal(pst_receiver_finish(receiver), -EBUSY);
  const struct pst_frame twice[2] = {seen.held[0], seen.held[0]};
  assert_int_equal(pst_receiver_release_frames(receiver, twice, 2), -EINVAL);
  assert_int_equal(pst_receiver_release_frames(receiver, &(struct pst_frame){.token = 4}, 1),
                   -EINVAL);
  assert_int_equal(pst_receiver_release(receiver, &(struct pst_view){0}, 1), -EINVAL);
  give_back(receiver, &seen);
  seen.holding = 0;
  while (pst_receiver_state(receiver) != PST_STATE_ENDED) {
    feed_full(sender, &sent, 1600);
    drain_frames(receiver, true, &seen);
    in_time(&run);
  }
  pst_receiver_stats(receiver, (stats.struct_size = sizeof(stats), &stats));
  assert_int_equal(stats.messages_delivered, 1600);
  assert_int_equal(seen.complete, 200);
  assert_true(stats.blocked_ns[PST_STAGE_SINK] > stats.blocked_ns[PST_STAGE_EMPTY]);
  close_run(&run);
}

static void messages_and_frames_are_not_confused(void **state)
{
  struct run run;
  struct pst_view view;
  struct pst_frame frame;
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = &view};
  struct pst_frame_batch frames = {.struct_size = sizeof(frames), .capacity = 1, .frames = &frame};

  (void)state;
  open_frames(&run, "host", "packets: 8", "");
  assert_int_equal(pst_receiver_poll(pst_session_receiver(run.session, "a"), &batch), -EINVAL);
  close_run(&run);
  open_text(&run, "penstock: 1\nstreams: [{name: a}]\n");
  assert_int_equal(pst_receiver_frame_packets(pst_session_receiver(run.session, "a")), 0);
  assert_int_equal(pst_receiver_poll_frames(pst_session_receiver(run.session, "a"), &frames),
                   -EINVAL);
  close_run(&run);
}

static struct {
  struct pst_sender *sender;
  struct pst_slot slot;
  uint32_t at; /* the reading of the clock at which the thread loses its CPU; 0: it does not */
} away;

/* A message that is filled, and not submitted. */
static void make_one(struct pst_sender *sender, struct pst_slot *slot)
{
  while (pst_sender_acquire(sender, slot, 1) == 0)
    assert_true(pst_sender_poll(sender) >= 0);
  slot->length = MESSAGE;
  assert_int_equal(pst_sender_fill(sender, slot, 1), 0);
}

/* The frame's last message arrives, and the frame's time ends, before the thread goes on. */
static void lose_the_cpu(void)
{
  if (away.at == 0 || --away.at)
    return;
  assert_int_equal(pst_sender_submit(away.sender, &away.slot, 1), 0);
  simulated_clock_skip(5000000000);
}

/* A message that arrives while the receiver's thread has no CPU is no late one. */
static void message_of_a_pause_is_in_its_frame(void **state)
{
  (void)state;
  simulated_clock_before_reading = lose_the_cpu;
  for (uint32_t at = 1; at <= 6; at++) {
    struct run run;
    struct seen seen = {0};
    open_frames(&run, memories[0], "packets: 8, timeout: 5 s", "");
    struct pst_receiver *receiver = pst_session_receiver(run.session, "a");
    away.sender = pst_session_sender(run.session, "a");
    start(&run);
    for (uint32_t i = 0; i < 7; i++) {
      make_one(away.sender, &away.slot);
      assert_int_equal(pst_sender_submit(away.sender, &away.slot, 1), 0);
    }
    make_one(away.sender, &away.slot);
    for (uint32_t i = 0; i < 8; i++)
      drain_frames(receiver, true, &seen);
    assert_int_equal(seen.frames, 0);
    away.at = at;
    while (seen.frames == 0) {
      assert_true(pst_sender_poll(away.sender) >= 0);
      drain_frames(receiver, true, &seen);
    }
    assert_int_equal(away.at, 0);
    assert_int_equal(seen.messages, 8);
    give_back(receiver, &seen);
    close_run(&run);
  }
  simulated_clock_before_reading = NULL;
}

/* usage: test_stream_frames [only|but CASES] */
int main(int argc, char **argv)
{
  if (argc == 3 && strcmp(argv[1], "only") == 0)
    cmocka_set_test_filter(argv[2]);
  else if (argc == 3)
    cmocka_set_skip_filter(argv[2]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_frames_come_out_in_place),
      cmocka_unit_test(the_last_frame_may_be_short),
      cmocka_unit_test(metadata_tells_frames_apart),
      cmocka_unit_test(what_is_missing_is_zeroed_or_kept_or_costs_the_frame),
      cmocka_unit_test(copies_are_put_off),
      cmocka_unit_test(lost_frames_are_counted),
      cmocka_unit_test(long_frames_are_zeroed_too),
      cmocka_unit_test(messages_beyond_a_frame_are_misframed),
      cmocka_unit_test(transport_explains_no_message_that_came),
      cmocka_unit_test(frames_of_datagrams_are_exact),
      cmocka_unit_test(held_frames_hold_the_sender),
      cmocka_unit_test(messages_and_frames_are_not_confused),
      cmocka_unit_test(message_of_a_pause_is_in_its_frame),
  };
  return cmocka_run_group_tests_name("stream_frames", tests, use_fakes, NULL) ? 1 : 0;
}
