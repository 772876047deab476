/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of stream. */
#include "support.h"

#include "../simulated_clock.h"

uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void open_text(struct run *run, const char *text)
{
  struct pst_session_params params = {.struct_size = sizeof(params),
                                      .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER};
  struct pst_error error = PST_ERROR_INIT;

  *run = (struct run){.deadline_ns = now_ns() + DEADLINE_NS};
  if (pst_config_open_text(text, strlen(text), "test.yaml", NULL, 0, &run->config, &error) < 0 ||
      pst_session_open(run->config, &params, &run->session, &error) < 0)
    fail_msg("%s", error.text);
}

static struct pst_error refusal;

uint32_t refused_status(void)
{
  return (uint32_t)refusal.exit_status;
}

const char *refused_text(const char *text)
{
  struct pst_session_params params = {.struct_size = sizeof(params),
                                      .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER};
  struct pst_session *session = NULL;
  struct pst_config *config;

  refusal = (struct pst_error)PST_ERROR_INIT;
  if (pst_config_open_text(text, strlen(text), "test.yaml", NULL, 0, &config, &refusal) < 0)
    return refusal.text; /* what a description can judge */
  assert_true(pst_session_open(config, &params, &session, &refusal) < 0);
  assert_null(session);
  pst_config_close(config);
  return refusal.text;
}

void start(struct run *run)
{
  struct pst_error error = PST_ERROR_INIT;
  if (pst_session_start(run->session, &error) < 0)
    fail_msg("%s", error.text);
  simulated_clock_meet(); /* the control thread */
}

void in_time(const struct run *run)
{
  if (now_ns() > run->deadline_ns)
    fail_msg("no progress within the deadline");
}

void close_run(struct run *run)
{
  simulated_clock_lend(true);
  pst_session_close(run->session);
  simulated_clock_lend(false);
  pst_config_close(run->config);
}

int try_feed(struct pst_sender *sender, uint64_t *sent, uint64_t total)
{
  struct pst_slot slots[BATCH];
  int n, rc;

  if (*sent == total)
    return pst_sender_poll(sender) < 0 ? -EIO : 0;
  n = pst_sender_acquire(sender, slots, total - *sent < BATCH ? (uint32_t)(total - *sent) : BATCH);
  if (n < 0)
    return n;
  for (int i = 0; i < n; i++) {
    slots[i].length = (uint32_t)(slots[i].sequence * 37 % (slots[i].capacity + 1));
    slots[i].meta = ~slots[i].sequence;
  }
  rc = pst_sender_fill(sender, slots, (uint32_t)n);
  if (rc == 0)
    rc = pst_sender_submit(sender, slots, (uint32_t)n);
  if (rc < 0)
    return rc;
  *sent += (uint64_t)n;
  return *sent == total ? pst_sender_finish(sender) : 0;
}

void feed(struct pst_sender *sender, uint64_t *sent, uint64_t total)
{
  assert_int_equal(try_feed(sender, sent, total), 0);
}

int check_all(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
              struct pst_fence **fence)
{
  uint64_t deadline_ns = now_ns() + DEADLINE_NS;
  int rc;

  while ((rc = pst_receiver_verify(receiver, views, n, fence)) == -EAGAIN)
    assert_true(now_ns() < deadline_ns);
  return rc;
}

bool drain(struct pst_receiver *receiver, uint64_t *received)
{
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  struct pst_fence *fence = NULL;
  int n = pst_receiver_poll(receiver, &batch);

  if (n == -ENODATA) {
    pst_receiver_finish(receiver);
    return pst_receiver_state(receiver) != PST_STATE_ENDED;
  }
  assert_true(n >= 0);
  for (int i = 0; i < n; i++) {
    assert_int_equal(views[i].sequence, *received + (uint64_t)i);
    assert_int_equal(views[i].meta, ~views[i].sequence);
    assert_true(views[i].flags & PST_VIEW_META);
  }
  if (n > 0) {
    assert_int_equal(check_all(receiver, views, (uint32_t)n, &fence), 0);
    assert_int_equal(pst_receiver_release_after(receiver, views, (uint32_t)n, fence), 0);
  }
  *received += (uint64_t)n;
  return true;
}

void check_counts(struct pst_sender *sender, struct pst_receiver *receiver, uint64_t total)
{
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  struct pst_stats s = {.struct_size = sizeof(s)}, r = {.struct_size = sizeof(r)};

  assert_int_equal(pst_receiver_verified(receiver, &result), 0);
  assert_int_equal(result.checked, total);
  assert_int_equal(result.corrupted, 0);
  pst_sender_stats(sender, &s);
  pst_receiver_stats(receiver, &r);
  assert_int_equal(s.state, PST_STATE_ENDED);
  assert_int_equal(r.state, PST_STATE_ENDED);
  assert_int_equal(s.messages_sent, total);
  assert_int_equal(s.messages_delivered, total);
  assert_int_equal(r.messages_sent, total);
  assert_int_equal(r.messages_delivered, total);
  assert_int_equal(r.bytes_delivered, s.bytes_sent);
  assert_int_equal(r.duplicates, 0);
  assert_int_equal(r.reordered, 0);
  assert_int_equal(r.drop_count, 0);
}

void stream_all(struct run *run, const char *name, uint64_t total)
{
  struct pst_sender *sender = pst_session_sender(run->session, name);
  struct pst_receiver *receiver = pst_session_receiver(run->session, name);
  uint64_t sent = 0, received = 0;
  bool more = true;

  assert_non_null(sender);
  assert_non_null(receiver);
  start(run);
  while (more || pst_sender_state(sender) != PST_STATE_ENDED) {
    feed(sender, &sent, total);
    more = drain(receiver, &received);
    in_time(run);
  }
  assert_int_equal(received, total);
  check_counts(sender, receiver, total);
}

int use_fakes(void **state)
{
  (void)state;
  return pst_plugin_path_add(PST_FAKES) < 0;
}
