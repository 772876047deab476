/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors whose closes their makers hold up: others are closed meanwhile, and it shows when
 * that cannot go on. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../lingering.h"
#include "util/blob.h"
#include "util/closer.h"

#define PATIENCE_MS 20000
#define MORE_THAN_THREADS 40

static void wait_closed(int other_end)
{
  struct pollfd closed = {.fd = other_end};

  assert_int_equal(poll(&closed, 1, PATIENCE_MS), 1);
  assert_true(closed.revents & POLLHUP);
  close(other_end);
}

/* The end that stays. */
static int close_one_end(void)
{
  int ends[2];

  assert_int_equal(pipe(ends), 0);
  closer_close(ends[1]);
  return ends[0];
}

static void test_sockets_that_linger(void **state)
{
  int others[MORE_THAN_THREADS];

  (void)state;
  for (int i = 0; i < MORE_THAN_THREADS; i++)
    closer_close(lingering_open(&others[i]));
  wait_closed(close_one_end());
  assert_false(closer_is_behind());
  for (int i = 0; i < MORE_THAN_THREADS; i++)
    close(others[i]);
}

/* In a socket lies one that lingers: no option of the outer one ends that. */
static void test_closes_that_are_held_up(void **state)
{
  const rlim_t few = 400;
  struct rlimit before;
  int others[MORE_THAN_THREADS], ends[100];

  (void)state;
  for (int i = 0; i < MORE_THAN_THREADS; i++)
    closer_close(lingering_in_a_socket(&others[i]));
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit tight = {few, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
  for (int i = 0; i < 100; i++)
    ends[i] = close_one_end();
  assert_true(closer_is_behind());
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (int i = 0; i < MORE_THAN_THREADS; i++)
    close(others[i]);
  for (int i = 0; i < 100; i++)
    wait_closed(ends[i]);
  wait_closed(close_one_end());
  assert_false(closer_is_behind());
}

/* Nor does whoever has no more need of a blob of a peer's wait. */
static void test_blob_of_a_peer(void **state)
{
  struct pst_blob blob = {.struct_size = sizeof(blob), .fd_count = 1};
  int other;

  (void)state;
  blob.fds[0] = lingering_in_a_socket(&other);
  alarm(PATIENCE_MS / 1000); /* a close that waits does so for an hour */
  blob_free(&blob);
  alarm(0);
  close(other);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sockets_that_linger),
      cmocka_unit_test(test_closes_that_are_held_up),
      cmocka_unit_test(test_blob_of_a_peer),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
