/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of control: in process. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

struct both {
  struct end *end;
  void *sender;
  void *receiver;
};

static struct both both_new(void)
{
  struct both both = {.end = end_new()};

  both.end->params.in_process = true;
  both.sender = end_stream(both.end, "a", true, "message=8192 B");
  both.receiver = end_stream(both.end, "a", false, "message=8192 B");
  return both;
}

static void test_whole_life(void **state)
{
  struct both both = both_new();
  const struct control_totals sent = totals_of(10);
  const struct control_totals delivered = totals_of(9);

  (void)state;
  assert_int_equal(end_open(both.end), 0);
  struct seen seen = end_wait(both.end, SEEN_PEER, both.receiver, 0);
  assert_memory_equal(seen.address, "a", 1);
  assert_non_null(strstr(seen.text, "this process"));
  end_wait(both.end, SEEN_PEER, both.sender, 0);

  assert_int_equal(control_beat(both.end->control, both.sender, &sent), 0);
  seen = end_wait(both.end, SEEN_BEAT, both.receiver, 0);
  assert_int_equal(seen.totals.messages, 10);
  assert_true(seen.totals.last_sequence == UINT64_MAX);

  assert_int_equal(control_finish(both.end->control, both.sender, &sent), 0);
  seen = end_wait(both.end, SEEN_FINISH, both.receiver, 0);
  assert_int_equal(seen.totals.messages, 10);
  assert_int_equal(control_counts(both.end->control, both.receiver, &delivered), 0);
  seen = end_wait(both.end, SEEN_COUNTS, both.sender, 0);
  assert_int_equal(seen.totals.messages, 9);
  assert_int_equal(control_counts(both.end->control, both.sender, &sent), 0);
  end_wait(both.end, SEEN_COUNTS, both.receiver, 0);
  assert_int_equal(end_seen(both.end, SEEN_FAIL, NULL), 0);
  end_close(both.end);
}

static void test_descriptors(void **state)
{
  struct both both = both_new();
  int pipe_fds[2];
  char byte = 0;

  (void)state;
  assert_int_equal(pipe2(pipe_fds, O_CLOEXEC), 0);
  both.end->streams[0].address.fd_count = 1;
  both.end->streams[0].address.fds[0] = pipe_fds[1];
  assert_int_equal(end_open(both.end), 0);
  close(pipe_fds[1]);
  struct seen seen = end_wait(both.end, SEEN_PEER, both.receiver, 0);
  assert_int_equal(seen.fd_count, 1);
  assert_int_equal(write(seen.fds[0], "x", 1), 1);
  assert_int_equal(read(pipe_fds[0], &byte, 1), 1);
  assert_int_equal(byte, 'x');
  assert_int_equal(end_wait(both.end, SEEN_PEER, both.sender, 0).fd_count, 0);
  end_close(both.end);
  close(pipe_fds[0]);
}

static void test_terms_differ(void **state)
{
  struct both both = both_new();

  (void)state;
  strcpy(both.end->terms[1][0].value, "4096 B");
  assert_int_equal(end_open(both.end), 0);
  struct seen at_sender = end_wait(both.end, SEEN_FAIL, both.sender, 0);
  struct seen at_receiver = end_wait(both.end, SEEN_FAIL, both.receiver, 0);
  assert_int_equal(at_sender.code, -EPROTO);
  assert_int_equal(at_receiver.code, -EPROTO);
  assert_non_null(strstr(at_sender.text, "message: sender 8192 B, receiver 4096 B"));
  assert_non_null(strstr(at_receiver.text, "message: sender 8192 B, receiver 4096 B"));
  end_close(both.end);
}

static void test_fail(void **state)
{
  struct both both = both_new();

  (void)state;
  assert_int_equal(end_open(both.end), 0);
  end_wait(both.end, SEEN_PEER, both.sender, 0);
  assert_int_equal(control_fail(both.end->control, both.receiver, -EIO, "disk full", NULL), 0);
  struct seen seen = end_wait(both.end, SEEN_FAIL, both.sender, 0);
  assert_int_equal(seen.code, -EIO);
  assert_non_null(strstr(seen.text, "disk full"));
  /* The one who said it is not told. */
  assert_int_equal(end_seen(both.end, SEEN_FAIL, both.receiver), 0);
  end_close(both.end);
}

static void test_finish_before_the_peer_is_there(void **state)
{
  struct both both = both_new();
  const struct control_totals none = totals_of(0);

  (void)state;
  assert_int_equal(end_open(both.end), 0);
  assert_int_equal(control_finish(both.end->control, both.sender, &none), 0);
  assert_int_equal(end_wait(both.end, SEEN_FINISH, both.receiver, 0).totals.messages, 0);
  end_close(both.end);
}

static void test_needs_pairs(void **state)
{
  struct end *end = end_new();

  (void)state;
  end->params.in_process = true;
  end_stream(end, "a", true, NULL);
  end_stream(end, "b", false, NULL);
  assert_int_equal(end_open(end), -EINVAL);
  assert_non_null(strstr(end->error.text, "but no receiver"));
  end_close(end);
}

static void test_calls_that_are_wrong(void **state)
{
  struct both both = both_new();
  const struct control_totals totals = totals_of(1);
  struct pst_blob large = {.length = CONTROL_ADDRESS_MAX + 1};

  (void)state;
  assert_int_equal(end_open(both.end), 0);
  assert_int_equal(control_beat(both.end->control, &both, &totals), -ENOENT);
  assert_int_equal(control_finish(both.end->control, both.receiver, &totals), -EINVAL);
  assert_int_equal(control_readdress(both.end->control, both.sender, &large), -E2BIG);
  end_close(both.end);
}

static void test_many_streams(void **state)
{
  static char names[STREAMS_MAX / 2][8];
  struct end *end = end_new();
  const struct control_totals totals = totals_of(3);

  (void)state;
  end->params.in_process = true;
  for (uint32_t i = 0; i < STREAMS_MAX / 2; i++) {
    snprintf(names[i], sizeof(names[i]), "s%u", i);
    end_stream(end, names[i], true, NULL);
    end_stream(end, names[i], false, NULL);
  }
  assert_int_equal(end_open(end), 0);
  for (uint32_t i = 0; i < STREAMS_MAX; i += 2) {
    end_wait(end, SEEN_PEER, &end->streams[i], 0);
    assert_int_equal(control_finish(end->control, &end->streams[i], &totals), 0);
    end_wait(end, SEEN_FINISH, &end->streams[i + 1], 0);
  }
  end_close(end);
}

static void test_nothing_stays_open(void **state)
{
  uint32_t before = open_descriptors();

  (void)state;
  for (int i = 0; i < 5; i++) {
    struct both both = both_new();
    both.end->streams[0].address.fd_count = 4;
    for (int k = 0; k < 4; k++)
      both.end->streams[0].address.fds[k] = 0;
    assert_int_equal(end_open(both.end), 0);
    end_wait(both.end, SEEN_PEER, both.receiver, 0);
    end_close(both.end);
  }
  descriptors_wait(before);
}

/* In a process of its own, which is stopped for longer than peers may be silent. */
static int live_through_a_stop(int ready, int go_on)
{
  const struct control_totals totals = totals_of(1);
  struct both both = both_new();
  char byte = 0;

  both.end->params.heartbeat_ns = MS(20);
  both.end->params.peer_timeout_ns = MS(200);
  if (end_open(both.end) < 0)
    return 2;
  end_wait(both.end, SEEN_PEER, both.sender, 0);
  if (write(ready, "r", 1) != 1 || read(go_on, &byte, 1) != 1)
    return 3;
  for (uint32_t i = 0; i < 3; i++) {
    control_beat(both.end->control, both.sender, &totals);
    end_wait(both.end, SEEN_BEAT, both.receiver, i);
  }
  uint32_t failed = end_seen(both.end, SEEN_FAIL, NULL);
  end_close(both.end);
  return failed ? 4 : 0;
}

static void test_stopped_process(void **state)
{
  int ready[2];
  int go_on[2];
  int status = -1;
  char byte;

  (void)state;
  assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
  assert_int_equal(pipe2(go_on, O_CLOEXEC), 0);
  pid_t child = fork();
  if (child == 0)
    _exit(live_through_a_stop(ready[1], go_on[0]));
  assert_int_equal(read(ready[0], &byte, 1), 1);
  assert_int_equal(kill(child, SIGSTOP), 0);
  assert_int_equal(waitpid(child, &status, WUNTRACED), child);
  usleep(600000); /* the length of the stop is what is tested */
  assert_int_equal(kill(child, SIGCONT), 0);
  assert_int_equal(write(go_on[1], "g", 1), 1);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  for (int i = 0; i < 2; i++) {
    close(ready[i]);
    close(go_on[i]);
  }
}

static int setup(void **state)
{
  (void)state;
  log_watch();
  return 0;
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole_life),
      cmocka_unit_test(test_descriptors),
      cmocka_unit_test(test_terms_differ),
      cmocka_unit_test(test_fail),
      cmocka_unit_test(test_finish_before_the_peer_is_there),
      cmocka_unit_test(test_needs_pairs),
      cmocka_unit_test(test_calls_that_are_wrong),
      cmocka_unit_test(test_many_streams),
      cmocka_unit_test(test_nothing_stays_open),
      cmocka_unit_test(test_stopped_process),
  };

  return cmocka_run_group_tests(tests, setup, NULL) ? 1 : 0;
}
