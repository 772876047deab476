/* SPDX-License-Identifier: Apache-2.0 */
/* Which stages of a connection follow which, and what becomes of their data. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define STAGES (RC_FAILED + 1)

/* A row for each stage that there is, a column for each that may follow. */
static const char *const allowed[STAGES] = {
    /*                         NEW
     *                         | SETTING_UP
     *                         | | GREETING
     *                         | | | CONNECTED
     *                         | | | | FLUSHING
     *                         | | | | | SETTING_UP_AGAIN
     *                         | | | | | | GREETING_AGAIN
     *                         | | | | | | | LEFT
     *                         | | | | | | | | FAILED */
    [RC_NEW] = /*             */ ". x . . . . . . x",
    [RC_SETTING_UP] = /*      */ ". x x . . . . x x",
    [RC_GREETING] = /*        */ ". x . x . . . x x",
    [RC_CONNECTED] = /*       */ ". . . . x . . x x",
    [RC_FLUSHING] = /*        */ ". . . . x x . x x",
    [RC_SETTING_UP_AGAIN] = /**/ ". . . . x x x x x",
    [RC_GREETING_AGAIN] = /*  */ ". . . x x . . x x",
    [RC_LEFT] = /*            */ ". . . . . . . . .",
    [RC_FAILED] = /*          */ ". . . . . . . . .",
};

static bool is_allowed(unsigned int from, unsigned int to)
{
  return allowed[from][2 * to] == 'x';
}

/* Stages of one letter have the same data. */
static const char data_of[STAGES + 1] = "cccCaaaoo";

/* All data of the stage say 1 in each byte. */
static void stand_at(unsigned int stage)
{
  memset(&connection.stage, 1, sizeof(connection.stage));
  connection.stage.name = stage;
}

static void expect_data(uint64_t each)
{
  const struct rc_stage *now = &connection.stage;

  switch (data_of[now->name]) {
  case 'c':
    assert_int_equal(now->connecting.by_ns, each);
    assert_int_equal(now->connecting.hellos_lost, (uint32_t)each);
    assert_int_equal(now->connecting.vendor, (uint32_t)each);
    assert_int_equal(now->connecting.is_heard_early, each != 0);
    break;
  case 'C':
    assert_int_equal(now->connected.flushed_ns, each);
    break;
  case 'a':
    assert_int_equal(now->again.by_ns, each);
    assert_int_equal(now->again.again_ns, each);
    assert_int_equal(now->again.began_ns, each);
    assert_int_equal(now->again.flushed, each);
    assert_int_equal(now->again.progress, (uint32_t)each);
    break;
  default:
    assert_int_equal(now->over.status, (uint32_t)each);
    assert_int_equal(now->over.is_due, each != 0);
  }
}

static void data_is_kept_or_zero(void **state)
{
  (void)state;
  for (unsigned int from = 0; from < STAGES; from++)
    for (unsigned int to = 0; to < STAGES; to++) {
      if (!is_allowed(from, to))
        continue;
      stand_at(from);
      rc_enter(&endpoint, to);
      assert_int_equal(connection.stage.name, to);
      expect_data(data_of[from] == data_of[to] ? UINT64_C(0x0101010101010101) : 0);
    }
}

static void a_host_that_closes_is_left_or_failed(void **state)
{
  (void)state;
  endpoint.closing.mode = PST_CLOSE_DRAIN;
  for (unsigned int from = RC_SETTING_UP; from < RC_LEFT; from++)
    for (unsigned int to = RC_LEFT; to <= RC_FAILED; to++) {
      stand_at(from);
      rc_enter(&endpoint, to);
      assert_int_equal(connection.stage.name, to);
    }
  stand_at(RC_SETTING_UP); /* its deferred work may be under way */
  rc_enter(&endpoint, RC_GREETING);
  assert_int_equal(connection.stage.name, RC_GREETING);
}

#ifndef NDEBUG
static void expect_abort(unsigned int from, unsigned int to)
{
  stand_at(from);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    close(STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    rc_enter(&endpoint, to);
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
    fail_msg("stage %u may follow %u", to, from);
}

static void other_steps_abort(void **state)
{
  (void)state;
  for (unsigned int from = 0; from < STAGES; from++)
    for (unsigned int to = 0; to < STAGES; to++)
      if (!is_allowed(from, to))
        expect_abort(from, to);
}

static void a_host_that_closes_does_not_reconnect(void **state)
{
  (void)state;
  endpoint.closing.mode = PST_CLOSE_DRAIN;
  expect_abort(RC_CONNECTED, RC_FLUSHING);
  expect_abort(RC_FLUSHING, RC_SETTING_UP_AGAIN);
  expect_abort(RC_SETTING_UP_AGAIN, RC_GREETING_AGAIN);
}
#endif

static int begin(void **state)
{
  (void)state;
  start_connection(1);
  return 0;
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, stop_support)
  const struct CMUnitTest tests[] = {
      CASE(data_is_kept_or_zero),
      CASE(a_host_that_closes_is_left_or_failed),
#ifndef NDEBUG
      CASE(other_steps_abort),
      CASE(a_host_that_closes_does_not_reconnect),
#endif
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
