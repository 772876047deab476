/* SPDX-License-Identifier: Apache-2.0 */
/* Fan-out and fan-in when one of those who take part stops: the others go on, and
 * the counts of each stay its own. */
#include "support.h"

static const char shared[] = "penstock: 1\n"
                             "transport: {plugin: loopback, options: {mode: %s}}\n"
                             "threads: {count: 1}\n"
                             "streams:\n"
                             "  - {name: a, message: 1000 B, ring: 64}\n"
                             "  - {name: b, message: 1000 B, ring: 64, %s: {share: a}}\n";

static void open_shared(struct run *run, const char *mode, const char *side)
{
  char text[512];
  snprintf(text, sizeof(text), shared, mode, side);
  open_text(run, text);
}

/* Take and give back at once, without a look. */
static int swallow(struct pst_receiver *receiver)
{
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  int n = pst_receiver_poll(receiver, &batch);

  if (n > 0)
    assert_int_equal(pst_receiver_release(receiver, views, (uint32_t)n), 0);
  return n;
}

/* One receiver of two gives up and keeps what it holds; its transport stays there. */
static void fan_out_goes_on(const char *mode)
{
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  struct pst_stats b = {.struct_size = sizeof(b)};
  struct pst_sender *sender;
  struct pst_receiver *good, *bad;
  uint64_t sent = 0, received = 0, bytes = 0;
  uint64_t total = UINT64_MAX; /* until the sender has heard */
  bool more = true;
  struct run run;
  int held = 0;

  open_shared(&run, mode, "sender");
  sender = pst_session_sender(run.session, "a");
  good = pst_session_receiver(run.session, "a");
  bad = pst_session_receiver(run.session, "b");
  assert_int_equal(pst_sender_pattern(pst_session_sender(run.session, "b"), NULL), -EINVAL);
  start(&run);
  while (more) {
    feed(sender, &sent, total);
    more = drain(good, &received);
    if (total == UINT64_MAX &&
        pst_sender_state(pst_session_sender(run.session, "b")) == PST_STATE_FAILED)
      total = sent + 5000;
    if (held == 0 && (held = pst_receiver_poll(bad, &batch)) > 0) {
      assert_int_equal(pst_receiver_abort(bad, -ENOSPC, "the disk is full"), 0);
      assert_int_equal(pst_receiver_release(bad, views, (uint32_t)held), 0);
    }
    in_time(&run);
  }
  assert_int_equal(received, total);
  check_counts(sender, good, total);
  pst_sender_stats(pst_session_sender(run.session, "b"), &b);
  assert_int_equal(b.state, PST_STATE_FAILED);
  assert_int_equal(b.error, -ENOSPC);
  assert_true(b.messages_sent < total);
  for (uint64_t s = 0; s < b.messages_sent; s++)
    bytes += s * 37 % 1001;
  assert_int_equal(b.bytes_sent, bytes);
  close_run(&run);
}

static void fan_out_by_copy_outlives_a_receiver(void **state)
{
  (void)state;
  fan_out_goes_on("copy");
}

static void fan_out_by_reference_outlives_a_receiver(void **state)
{
  (void)state;
  fan_out_goes_on("reference");
}

/* Without the sender whose slots they are nothing more can come: the other receiver
 * gets all that had been submitted, and both of that stream agree on it. */
static const char unlike[] =
    "penstock: 1\n"
    "transport: loopback\n"
    "threads: {count: 1}\n"
    "streams:\n"
    "  - {name: a, message: 1000 B, ring: 64, transport: {plugin: loopback, options: {mode: reference}},\n"
    "     sender: {memory: late%s}}\n"
    "  - {name: b, message: 1000 B, ring: 64, transport: {plugin: loopback, options: {mode: copy}},\n"
    "     sender: {memory: late, share: a}}\n";

/* The leader's transport takes any memory, and another's does not. */
static void slots_are_staged_for_the_one_that_cannot_read_them(void **state)
{
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  uint64_t sent = 0, received[2] = {0};
  bool more[2] = {true, true};
  struct pst_sender *sender;
  struct run run;
  char text[768];

  (void)state;
  snprintf(text, sizeof(text), unlike, "");
  open_text(&run, text);
  sender = pst_session_sender(run.session, "a");
  start(&run);
  while (more[0] || more[1] || pst_sender_state(sender) != PST_STATE_ENDED) {
    feed(sender, &sent, 3000);
    for (int i = 0; i < 2; i++)
      more[i] = more[i] && drain(pst_session_receiver(run.session, i ? "b" : "a"), &received[i]);
    in_time(&run);
  }
  for (int i = 0; i < 2; i++) {
    struct pst_sender *leg = pst_session_sender(run.session, i ? "b" : "a");
    check_counts(leg, pst_session_receiver(run.session, i ? "b" : "a"), 3000);
    pst_sender_stats(leg, &stats);
    assert_int_equal(stats.path.path, PST_PATH_STAGED);
    assert_non_null(
        strstr(stats.path.reason,
               "transport loopback of stream b sends from memory that the CPU can touch"));
  }
  close_run(&run);
  snprintf(text, sizeof(text), unlike, ", path: direct");
  assert_non_null(strstr(refused_text(text), "sender.path: direct is not possible: transport "
                                             "loopback of stream b"));
}

static void the_others_end_when_the_leader_loses_its_receiver(void **state)
{
  struct pst_sender *leader, *follower;
  struct pst_receiver *bad, *good;
  struct pst_stats a = {.struct_size = sizeof(a)}, b = {.struct_size = sizeof(b)};
  struct pst_slot slots[BATCH];
  uint64_t sent = 0;
  bool aborted = false;
  struct run run;

  (void)state;
  open_shared(&run, "copy", "sender");
  leader = pst_session_sender(run.session, "a");
  follower = pst_session_sender(run.session, "b");
  bad = pst_session_receiver(run.session, "a");
  good = pst_session_receiver(run.session, "b");
  start(&run);
  while (pst_sender_state(follower) != PST_STATE_ENDED) {
    if (pst_sender_state(leader) != PST_STATE_FAILED) {
      int n = pst_sender_acquire(leader, slots, BATCH);
      for (int i = 0; i < n; i++) {
        slots[i].length = 1000;
        slots[i].meta = ~slots[i].sequence;
      }
      if (n > 0 && pst_sender_submit(leader, slots, (uint32_t)n) == 0)
        sent += (uint64_t)n;
    } else {
      assert_true(pst_sender_poll(follower) >= 0);
    }
    if (swallow(good) == -ENODATA)
      pst_receiver_finish(good);
    if (!aborted && swallow(bad) > 0) {
      assert_int_equal(pst_receiver_abort(bad, -ENOSPC, "the disk is full"), 0);
      aborted = true;
    }
    in_time(&run);
  }
  pst_sender_stats(leader, &a);
  pst_sender_stats(follower, &b);
  assert_int_equal(a.error, -ENOSPC);
  assert_int_equal(b.messages_sent, b.messages_delivered);
  assert_true(sent > 0 && b.messages_sent >= sent);
  assert_int_equal(pst_sender_acquire(leader, slots, 1), -ENOSPC);
  for (int i = 0; i < PST_STAGES; i++) /* a follower waits where its leader does */
    assert_int_equal(a.blocked_ns[i], b.blocked_ns[i]);
  close_run(&run);
}

static void a_failed_source_is_reported_to_every_receiver(void **state)
{
  struct pst_receiver *receivers[2];
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  uint64_t sent = 0;
  int n[2] = {0};
  struct run run;

  (void)state;
  open_shared(&run, "copy", "sender");
  receivers[0] = pst_session_receiver(run.session, "a");
  receivers[1] = pst_session_receiver(run.session, "b");
  start(&run);
  while (n[0] >= 0 || n[1] >= 0) {
    struct pst_sender *sender = pst_session_sender(run.session, "a");
    if (sent < 100)
      feed(sender, &sent, UINT64_MAX);
    else
      pst_sender_abort(sender, -EIO, "the source is gone");
    for (int i = 0; i < 2; i++)
      n[i] = n[i] < 0 ? n[i] : swallow(receivers[i]);
    in_time(&run);
  }
  for (int i = 0; i < 2; i++) {
    assert_int_equal(n[i], -EIO);
    pst_receiver_stats(receivers[i], &stats);
    assert_non_null(strstr(stats.error_text, "the source is gone"));
  }
  close_run(&run);
}

/* One of two receivers of a ring stops taking; what comes for it meanwhile must
 * not fill the ring. */
static void fan_in_outlives_a_receiver(void **state)
{
  struct pst_slot slots[BATCH];
  uint64_t sent = 0, received = 0;
  bool more = true, aborted = false;
  struct run run;

  (void)state;
  open_shared(&run, "copy", "receiver");
  start(&run);
  while (more) {
    struct pst_sender *bad = pst_session_sender(run.session, "b");
    int n = pst_sender_acquire(bad, slots, BATCH);
    if (n > 0)
      pst_sender_submit(bad, slots, (uint32_t)n);
    feed(pst_session_sender(run.session, "a"), &sent, 5000);
    more = drain(pst_session_receiver(run.session, "a"), &received);
    if (received > 1000 && !aborted) {
      pst_receiver_abort(pst_session_receiver(run.session, "b"), -ENOSPC, "the disk is full");
      aborted = true;
    }
    in_time(&run);
  }
  assert_int_equal(received, 5000);
  assert_int_equal(pst_sender_state(pst_session_sender(run.session, "b")), PST_STATE_FAILED);
  close_run(&run);
}

static void fan_in_outlives_a_sender(void **state)
{
  uint64_t sent[2] = {0}, received = 0;
  bool more = true;
  struct run run;

  (void)state;
  open_shared(&run, "copy", "receiver");
  start(&run);
  while (more) {
    struct pst_sender *bad = pst_session_sender(run.session, "b");
    if (sent[1] < 100)
      feed(bad, &sent[1], UINT64_MAX);
    else
      pst_sender_abort(bad, 0, NULL);
    feed(pst_session_sender(run.session, "a"), &sent[0], 5000);
    more = drain(pst_session_receiver(run.session, "a"), &received);
    swallow(pst_session_receiver(run.session, "b"));
    in_time(&run);
  }
  assert_int_equal(received, 5000);
  assert_int_equal(pst_sender_poll(pst_session_sender(run.session, "b")), -ECANCELED);
  assert_int_equal(swallow(pst_session_receiver(run.session, "b")), -ECANCELED);
  close_run(&run);
}

/* The legs' transports differ, so the slots are registered twice, and both are
 * polled by who drives the first. */
static void legs_may_have_transports_of_their_own(void **state)
{
  uint64_t sent = 0, received[2] = {0};
  bool more[2] = {true, true};
  const char *names[] = {"a", "b"};
  struct run run;

  (void)state;
  open_text(
      &run,
      "penstock: 1\n"
      "transport: loopback\n"
      "threads: {count: 1}\n"
      "streams:\n"
      "  - {name: a, message: 1000 B, ring: 64,\n"
      "     transport: {plugin: loopback, filters: [{plugin: failing}]}}\n"
      "  - {name: b, message: 1000 B, ring: 64, sender: {share: a},\n"
      "     transport: {plugin: loopback, filters: [{plugin: failing, options: {nth: 2}}]}}\n");
  start(&run);
  while (more[0] || more[1]) {
    feed(pst_session_sender(run.session, "a"), &sent, 5000);
    for (int i = 0; i < 2; i++)
      more[i] = more[i] && drain(pst_session_receiver(run.session, names[i]), &received[i]);
    in_time(&run);
  }
  for (int i = 0; i < 2; i++)
    check_counts(pst_session_sender(run.session, names[i]),
                 pst_session_receiver(run.session, names[i]), 5000);
  close_run(&run);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fan_out_by_copy_outlives_a_receiver),
      cmocka_unit_test(fan_out_by_reference_outlives_a_receiver),
      cmocka_unit_test(the_others_end_when_the_leader_loses_its_receiver),
      cmocka_unit_test(a_failed_source_is_reported_to_every_receiver),
      cmocka_unit_test(fan_in_outlives_a_receiver),
      cmocka_unit_test(fan_in_outlives_a_sender),
      cmocka_unit_test(slots_are_staged_for_the_one_that_cannot_read_them),
      cmocka_unit_test(legs_may_have_transports_of_their_own),
  };
  return cmocka_run_group_tests_name("stream_legs", tests, use_fakes, NULL) ? 1 : 0;
}
