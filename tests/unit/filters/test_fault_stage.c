/* SPDX-License-Identifier: Apache-2.0 */
/* Which stage of a sender may follow which. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define STAGES (FAULT_KILL_OVER + 1)

#ifndef NDEBUG
/* In a child, which an assertion ends. */
static bool may_enter(struct fault_engine engine, enum fault_stage to)
{
  int status = 0;
  pid_t child = fork();

  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    close(STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    fault_enter(&engine, to);
    _exit(engine.stage == to ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  return status == 0;
}

static void stages_follow_their_diagram(void **state)
{
  static const struct {
    enum fault_stage from, to;
  } steps[] = {
      {FAULT_NEW, FAULT_CONNECTED},       {FAULT_NEW, FAULT_OVER},
      {FAULT_NEW, FAULT_CLOSING},         {FAULT_CONNECTED, FAULT_CONNECTED},
      {FAULT_CONNECTED, FAULT_OVER},      {FAULT_CONNECTED, FAULT_CLOSING},
      {FAULT_CONNECTED, FAULT_KILLED},    {FAULT_OVER, FAULT_CLOSING},
      {FAULT_CLOSING, FAULT_CLOSED},      {FAULT_KILLED, FAULT_KILL_TOLD},
      {FAULT_KILL_TOLD, FAULT_KILL_OVER},
  };
  bool follows[STAGES][STAGES] = {0};

  (void)state;
  for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
    follows[steps[i].from][steps[i].to] = true;
  for (int from = 0; from < STAGES; from++)
    for (int to = 0; to < STAGES; to++)
      if (may_enter((struct fault_engine){.stage = from}, to) != follows[from][to])
        fail_msg("from stage %d to %d", from, to);
}

static void nothing_is_held_where_it_cannot_be_posted(void **state)
{
  (void)state;
  assert_true(may_enter((struct fault_engine){.stage = FAULT_CONNECTED, .held = 1}, FAULT_OVER));
  assert_false(
      may_enter((struct fault_engine){.stage = FAULT_CONNECTED, .held = 1}, FAULT_CLOSING));
  assert_false(may_enter((struct fault_engine){.stage = FAULT_CONNECTED, .held = 1}, FAULT_KILLED));
}
#endif

static void peer_that_is_gone_refuses_until_the_host_closes(void **state)
{
  (void)state;
  SETUP(8, {"drop_ppm", "1"});
  inner_event(PST_EVENT_CONNECTED, 0); /* under another address */
  assert_int_equal(poll_all(), 1);
  assert_int_equal(rig.endpoint->engine->stage, FAULT_CONNECTED);
  inner_event(PST_EVENT_DISCONNECTED, -ETIMEDOUT);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].status, -ETIMEDOUT);
  assert_int_equal(rig.endpoint->engine->stage, FAULT_OVER);
  assert_int_equal(post(1), -ECONNRESET);
  assert_int_equal(fault()->endpoint_close(rig.endpoint, PST_CLOSE_DRAIN, 0), 0);
  assert_int_equal(rig.endpoint->engine->stage, FAULT_CLOSING);
  assert_int_equal(post(1), -ENOTCONN);
  inner_event(PST_EVENT_CLOSED, 0);
  assert_int_equal(poll_all(), 1);
  assert_int_equal(polled[0].code, PST_EVENT_CLOSED);
}

static void kill_is_told_before_all_is_closed_inside(void **state)
{
  struct pst_completion one;

  (void)state;
  SETUP(8, {"kill_at", "0"});
  assert_int_equal(post(1), -ECONNRESET);
  assert_int_equal(rig.endpoint->engine->stage, FAULT_KILLED);
  inner_event(PST_EVENT_CLOSED, 0);
  assert_int_equal(fault()->endpoint_close(rig.endpoint, PST_CLOSE_ABORT, 0), 0);
  assert_int_equal(fault()->poll(rig.worker, &one, 1), 1);
  assert_int_equal(one.code, PST_EVENT_DISCONNECTED);
  assert_int_equal(rig.endpoint->engine->stage, FAULT_KILL_TOLD);
  assert_int_equal(fault()->poll(rig.worker, &one, 1), 1);
  assert_int_equal(one.code, PST_EVENT_CLOSED);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, teardown)
  const struct CMUnitTest tests[] = {
#ifndef NDEBUG
      CASE(stages_follow_their_diagram),
      CASE(nothing_is_held_where_it_cannot_be_posted),
#endif
      CASE(peer_that_is_gone_refuses_until_the_host_closes),
      CASE(kill_is_told_before_all_is_closed_inside),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
