/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's process is watched, and not another one of its number. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link.h"
#include "watch.h"

#include <cmocka.h>

static pid_t child_with(struct ucx_identity *identity)
{
  int pair[2];
  assert_int_equal(pipe(pair), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    ucx_identity_read(identity);
    _exit(write(pair[1], identity, sizeof(*identity)) == sizeof(*identity) && pause());
  }
  assert_int_equal(read(pair[0], identity, sizeof(*identity)), sizeof(*identity));
  close(pair[0]);
  close(pair[1]);
  return pid;
}

static void this_process_is_not_watched(void **state)
{
  struct ucx_identity own;
  int fd = 7;

  (void)state;
  assert_true(ucx_identity_read(&own));
  assert_true(ucx_identity_is_near(&own, &own));
  assert_int_equal(ucx_watch_open(&own, &own, &fd), 0);
  assert_int_equal(fd, -1);
}

static void death_marks_the_link(void **state)
{
  struct ucx_identity own, peer;
  struct ucx_link link = {0};
  const int watch_fd = epoll_create1(EPOLL_CLOEXEC);

  (void)state;
  assert_true(ucx_identity_read(&own));
  pid_t pid = child_with(&peer);
  assert_true(ucx_identity_is_near(&own, &peer));
  assert_int_equal(ucx_watch_open(&own, &peer, &link.peer.pidfd), 0);
  assert_int_equal(ucx_watch_begin(watch_fd, link.peer.pidfd, &link), 0);
  ucx_watch_look(watch_fd);
  assert_false(link.peer.has_died);
  kill(pid, SIGKILL);
  struct epoll_event event;
  assert_int_equal(epoll_wait(watch_fd, &event, 1, 10000), 1);
  ucx_watch_look(watch_fd);
  assert_true(link.peer.has_died);
  link.peer.has_died = false;
  ucx_watch_look(watch_fd);
  assert_false(link.peer.has_died); /* told once */
  ucx_watch_end(link.peer.pidfd);
  close(watch_fd);
  waitpid(pid, NULL, 0);
}

static void a_number_that_is_another_process_is_a_dead_peer(void **state)
{
  struct ucx_identity own, peer;
  int fd = 7;

  (void)state;
  assert_true(ucx_identity_read(&own));
  pid_t pid = child_with(&peer);
  peer.started--;
  assert_int_equal(ucx_watch_open(&own, &peer, &fd), -ECONNRESET);
  peer.started++;
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
  assert_int_equal(ucx_watch_open(&own, &peer, &fd), -ECONNRESET);
  assert_int_equal(fd, 7);
}

static void another_host_is_not_near(void **state)
{
  struct ucx_identity own, peer;

  (void)state;
  assert_true(ucx_identity_read(&own));
  peer = own;
  peer.boot[3] ^= 1;
  assert_false(ucx_identity_is_near(&own, &peer));
  peer = own;
  peer.pid_namespace++;
  assert_false(ucx_identity_is_near(&own, &peer));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(this_process_is_not_watched),
      cmocka_unit_test(death_marks_the_link),
      cmocka_unit_test(a_number_that_is_another_process_is_a_dead_peer),
      cmocka_unit_test(another_host_is_not_near),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
