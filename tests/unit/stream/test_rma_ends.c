/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of a one-sided stream on two threads, and in two processes of which one
 * dies. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define REGION 1048576u
#define PATTERN 77

/* ---- Threads ------------------------------------------------------------------ */

struct writer {
  struct run *run;
  struct pst_initiator *initiator;
  int status;
};

static int round_trip(struct pst_initiator *initiator, uint64_t deadline_ns)
{
  const struct pst_transfer transfers[3] = {
      {.op = PST_OP_WRITE, .cookie = 1, .length = REGION},
      {.op = PST_OP_FLUSH, .cookie = 2, .flags = PST_REQUEST_FENCE},
      {.op = PST_OP_READ, .cookie = 3, .length = REGION, .flags = PST_REQUEST_FENCE}};
  struct pst_transfer_done done;
  uint32_t posted = 0, ended = 0;
  int rc = pst_initiator_fill(initiator, 0, REGION, PATTERN);

  while (rc >= 0 && ended < 3) {
    rc = posted < 3 ? pst_initiator_post(initiator, transfers + posted, 3 - posted) : 0;
    if (rc > 0)
      posted += (uint32_t)rc;
    if (rc >= 0)
      rc = pst_initiator_poll(initiator, &done, 1);
    if (rc > 0 && done.status)
      rc = done.status;
    if (rc > 0)
      ended++;
    if (now_ns() > deadline_ns)
      rc = -ETIME;
  }
  return rc < 0 ? rc : pst_initiator_verify(initiator, 0, REGION, PATTERN, NULL);
}

static int until_over(struct pst_initiator *initiator, uint64_t deadline_ns)
{
  int rc = pst_initiator_finish(initiator);

  while (rc >= 0 && pst_initiator_state(initiator) != PST_STATE_ENDED) {
    rc = pst_initiator_poll(initiator, NULL, 0);
    if (now_ns() > deadline_ns)
      rc = -ETIME;
  }
  return rc;
}

static void *write_all(void *context)
{
  struct writer *writer = context;

  writer->status = round_trip(writer->initiator, writer->run->deadline_ns);
  if (writer->status == 0)
    writer->status = until_over(writer->initiator, writer->run->deadline_ns);
  return NULL;
}

/* Until the initiator has finished, and what it wrote is right. */
static int serve(struct pst_session *session, struct pst_target *target, uint64_t deadline_ns)
{
  int rc;

  while ((rc = pst_target_poll(target)) == 0) {
    pst_session_wait(session, pst_target_worker(target), NULL);
    if (now_ns() > deadline_ns)
      return -ETIME;
  }
  if (rc != -ENODATA)
    return rc;
  rc = pst_target_verify(target, 0, REGION, PATTERN, NULL);
  if (rc == 0)
    rc = pst_target_finish(target);
  while (rc == 0 && pst_target_state(target) != PST_STATE_ENDED) {
    rc = pst_target_poll(target);
    rc = rc == -ENODATA ? 0 : rc;
    if (now_ns() > deadline_ns)
      return -ETIME;
  }
  return rc;
}

static void two_threads(void **state)
{
  struct run run;
  struct writer writer = {.run = &run};
  pthread_t thread;

  (void)state;
  open_text(&run, "penstock: 1\ntransport: loopback\n"
                  "workers: {count: 2, sleep_after: 100 us}\n"
                  "streams: [{name: store, region: 1 MiB}]\n");
  writer.initiator = pst_session_initiator(run.session, "store");
  struct pst_target *target = pst_session_target(run.session, "store");
  assert_int_not_equal(pst_initiator_worker(writer.initiator), pst_target_worker(target));
  start(&run);
  assert_int_equal(pthread_create(&thread, NULL, write_all, &writer), 0);
  assert_int_equal(serve(run.session, target, run.deadline_ns), 0);
  pthread_join(thread, NULL);
  assert_int_equal(writer.status, 0);
  close_run(&run);
}

/* ---- Processes ------------------------------------------------------------------ */

static uint16_t free_port(void)
{
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof(address);
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
  assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

static int open_one(struct run *run, uint32_t role, uint16_t port, const char *options)
{
  struct pst_session_params params = {.struct_size = sizeof(params), .roles = role};
  struct pst_error error = PST_ERROR_INIT;
  char text[512];

  snprintf(text, sizeof(text),
           "penstock: 1\n"
           "control: {address: \"127.0.0.1:%u\", heartbeat: 50 ms, timeout: 10 s}\n"
           "transport: {plugin: loopback, filters: [{plugin: narrow, options: {%s}}]}\n"
           "workers: {sleep_after: 100 us}\n"
           "streams: [{name: store, region: 1 MiB, timeout: 1 s}]\n",
           port, options);
  *run = (struct run){.deadline_ns = now_ns() + DEADLINE_NS};
  int rc = pst_config_open_text(text, strlen(text), "test.yaml", NULL, 0, &run->config, &error);
  if (rc == 0)
    rc = pst_session_open(run->config, &params, &run->session, &error);
  if (rc == 0)
    rc = pst_session_start(run->session, &error);
  return rc;
}

/* A process of its own, from before there are threads here. `stays`: it waits to be
 * killed. */
static pid_t fork_target(uint16_t port, bool stays)
{
  pid_t child = fork();
  struct run run;

  assert_true(child >= 0);
  if (child > 0)
    return child;
  int rc = open_one(&run, PST_SESSION_RECEIVER, port, "");
  if (rc == 0)
    rc = serve(run.session, pst_session_target(run.session, "store"), run.deadline_ns);
  while (stays && rc == 0)
    pause();
  if (rc == 0)
    close_run(&run);
  _exit(rc == 0 ? 0 : 1);
}

static void reap(pid_t child, bool killed)
{
  int status;

  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(WIFSIGNALED(status), killed);
  if (!killed)
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void two_processes(void **state)
{
  uint16_t port = free_port();
  pid_t child = fork_target(port, false);
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct run run;

  (void)state;
  assert_int_equal(open_one(&run, PST_SESSION_SENDER, port, "rma_max: 64 KiB, late: 2"), 0);
  struct pst_initiator *initiator = pst_session_initiator(run.session, "store");
  assert_int_equal(round_trip(initiator, run.deadline_ns), 0);
  pst_initiator_stats(initiator, &stats);
  assert_string_equal(stats.path.carrier, "shm");
  assert_int_equal(until_over(initiator, run.deadline_ns), 0);
  close_run(&run);
  reap(child, false);
}

/* What is under way comes back, each once, with the reason. */
static void the_target_is_killed(void **state)
{
  const struct pst_transfer transfers[3] = {{.op = PST_OP_WRITE, .cookie = 0, .length = 8},
                                            {.op = PST_OP_READ, .cookie = 1, .length = REGION},
                                            {.op = PST_OP_FLUSH, .cookie = 2}};
  uint16_t port = free_port();
  pid_t child = fork_target(port, true);
  struct pst_transfer_done done;
  uint32_t posted = 0, ended = 0, seen = 0;
  struct run run;
  int rc;

  (void)state;
  assert_int_equal(open_one(&run, PST_SESSION_SENDER, port, "late: 1000000000"), 0);
  struct pst_initiator *initiator = pst_session_initiator(run.session, "store");
  while (posted < 3) {
    rc = pst_initiator_post(initiator, transfers + posted, 3 - posted);
    assert_true(rc >= 0);
    posted += (uint32_t)rc;
    in_time(&run);
  }
  kill(child, SIGKILL);
  while ((rc = pst_initiator_poll(initiator, &done, 1)) >= 0) {
    if (rc == 1) {
      assert_int_equal(done.status, -ECONNRESET);
      seen |= 1u << done.cookie;
      ended++;
    }
    in_time(&run);
  }
  assert_int_equal(rc, -ECONNRESET);
  assert_int_equal(seen, 7);
  assert_int_equal(ended, 3);
  assert_int_equal(pst_initiator_post(initiator, transfers, 1), -ECONNRESET);
  close_run(&run);
  reap(child, true);
}

static pid_t fork_initiator(uint16_t port, int ready)
{
  pid_t child = fork();
  struct run run;

  assert_true(child >= 0);
  if (child > 0)
    return child;
  int rc = open_one(&run, PST_SESSION_SENDER, port, "");
  if (rc == 0)
    rc = round_trip(pst_session_initiator(run.session, "store"), run.deadline_ns);
  if (rc == 0 && write(ready, "", 1) == 1)
    for (;;)
      pause();
  _exit(1);
}

static void the_initiator_is_killed(void **state)
{
  uint16_t port = free_port();
  bool killed = false;
  struct run run;
  int ready[2], rc;
  char byte;

  (void)state;
  assert_int_equal(pipe2(ready, O_NONBLOCK | O_CLOEXEC), 0);
  pid_t child = fork_initiator(port, ready[1]);
  assert_int_equal(open_one(&run, PST_SESSION_RECEIVER, port, ""), 0);
  struct pst_target *target = pst_session_target(run.session, "store");
  while ((rc = pst_target_poll(target)) == 0) {
    if (!killed && read(ready[0], &byte, 1) == 1) {
      assert_int_equal(pst_target_verify(target, 0, REGION, PATTERN, NULL), 0);
      assert_int_equal(kill(child, SIGKILL), 0);
      killed = true;
    }
    in_time(&run);
  }
  assert_true(killed);
  assert_int_equal(rc, -ECONNRESET);
  assert_int_equal(pst_target_state(target), PST_STATE_FAILED);
  close_run(&run);
  reap(child, true);
  close(ready[0]);
  close(ready[1]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_threads),
      cmocka_unit_test(two_processes),
      cmocka_unit_test(the_target_is_killed),
      cmocka_unit_test(the_initiator_is_killed),
  };
  return cmocka_run_group_tests_name("one-sided ends", tests, use_fakes, NULL);
}
