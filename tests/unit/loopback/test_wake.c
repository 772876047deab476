/* SPDX-License-Identifier: Apache-2.0 */
/* arm() loses no wake-up: which threads have a barrier, and when it looks again. */
#include "support.h"

#include <linux/membarrier.h>
#include <poll.h>
#include <sys/syscall.h>

#define MS UINT64_C(1000000)

/* Commands of membarrier(2) since the last look. */
static long asked;
static bool global_is_deaf;

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
  if (number == SYS_membarrier)
    asked |= a;
  if (number == SYS_membarrier && a == MEMBARRIER_CMD_GLOBAL_EXPEDITED && global_is_deaf)
    return 0;
  return __real_syscall(number, a, b, c, d, e, f);
}

static long asked_by_barrier(bool others)
{
  asked = 0;
  lb_barrier_heavy(others);
  return asked;
}

static void barrier_reaches_own_threads_by_their_address_space(void **state)
{
  (void)state;
  if (!lb_barrier_expedited())
    skip();
  assert_int_equal(asked_by_barrier(false), MEMBARRIER_CMD_PRIVATE_EXPEDITED);
  assert_int_equal(asked_by_barrier(true),
                   MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_PRIVATE_EXPEDITED);
}

static uint64_t timer_of_arm(void)
{
  assert_int_equal(lb_arm(rig.worker), 0);
  return rig.worker->timer_ns ? rig.worker->timer_ns - fake_clock_ns : 0;
}

/* All slots are out, and a post was cut short. Both ends take the other for another process's. */
static uint64_t full(bool others)
{
  setup(LB_MODE_COPY, 2);
  assert_int_equal(post(3), 2);
  rig.sender->peer->in_process = rig.receiver->peer->in_process = !others;
  if (others) { /* whose processes are watched */
    rig.sender->peer_fd = lb_wake_open();
    rig.receiver->peer_fd = lb_wake_open();
  }
  while (!find(PST_COMPLETION_MESSAGE, 0))
    assert_true(poll_all() > 0);
  const uint64_t token = find(PST_COMPLETION_MESSAGE, 0)->u.message.token;
  while (poll_all() > 0)
    ;
  return token;
}

static int part(void **state)
{
  rig.sender->peer->in_process = rig.receiver->peer->in_process = true;
  global_is_deaf = false;
  return teardown(state);
}

static void another_process_that_saw_no_request_is_looked_for_again(void **state)
{
  struct pollfd fd = {.events = POLLIN};
  (void)state;
  global_is_deaf = true;
  const uint64_t token = full(true);
  fd.fd = lb_event_fd(rig.worker);
  assert_int_equal(timer_of_arm(), MS);
  /* The peer looked before it could see that this end is armed, and this end before the credit. */
  atomic_store(&rig.sender->own->port->armed, 0);
  assert_int_equal(release(token), 0);
  assert_int_equal(poll(&fd, 1, 5000), 1);
  assert_int_equal(post(1), 1);
}

static void it_looks_soon_then_seldom(void **state)
{
  uint64_t wanted = MS;
  (void)state;
  const uint64_t token = full(true);
  for (int i = 0; i < 15; i++) {
    assert_int_equal(timer_of_arm(), wanted);
    assert_int_equal(poll_all(), 0);
    wanted = 2 * wanted < 1000 * MS ? 2 * wanted : 1000 * MS;
  }
  assert_int_equal(release(token), 0);
  assert_int_equal(post(2), 1); /* is cut short */
  while (poll_all() > 0)
    ;
  assert_int_equal(timer_of_arm(), MS);
}

static void nobody_is_looked_for_within_a_process(void **state)
{
  (void)state;
  full(false);
  assert_int_equal(timer_of_arm(), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, reset, part)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(barrier_reaches_own_threads_by_their_address_space),
      CASE(another_process_that_saw_no_request_is_looked_for_again),
      CASE(it_looks_soon_then_seldom),
      CASE(nobody_is_looked_for_within_a_process),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
