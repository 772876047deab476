/* SPDX-License-Identifier: Apache-2.0 */
/* Real processes: a stream between two, and peers that are killed. */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define DEATHS 50
/* Where deaths are noticed by silence, by default after 5.3 s, there are as many as fit. */
#define DEATHS_NS UINT64_C(15000000000)
/* The timeout of a peer that owes an answer, in the cases that try it. */
#define TIMEOUT_NS UINT64_C(200000000)

static const struct contract_params params = {
    .endpoints = 1, .slots = 32, .message = 8192, .requests = 64, .pieces = 1};

static void stop_soon(int number)
{
  (void)number;
  contract_is_to_stop = 1;
}

/* Runs in the forked process, which leaves by _exit, or is killed. */
static void child(const struct contract_variant *variant, bool receiver, int socket, uint64_t count)
{
  struct contract_side side = {0};
  struct contract_account account = {0};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGTSTP, stop_soon);
  contract_side_open(variant, &params, false, receiver, &side);
  account.message = side.message;
  if (!contract_meet(&side, socket))
    _exit(3);
  if (receiver)
    contract_receive_until(&side, count, &account);
  else
    contract_send_until(&side, count, &account);
  if (receiver && (account.delivered != count || account.wrong))
    _exit(4);
  if (!receiver && account.done != count)
    _exit(5);
  contract_side_close(&side);
  _exit(0);
}

static pid_t spawn(const struct contract_variant *variant, bool receiver, int *socket,
                   uint64_t count)
{
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    close(pair[0]);
    child(variant, receiver, pair[1], count);
  }
  close(pair[1]);
  *socket = pair[0];
  return pid;
}

static void stream_runs(void **state, bool child_receives)
{
  contract_rule("an accepted SEND arrives once, or the endpoint fails");
  const uint64_t count = 5000;
  struct contract_side side = {0};
  struct contract_account account = {0};
  int socket, status;
  const struct contract_variant *variant = *state;
  if (!variant->apart)
    skip();
  pid_t pid = spawn(variant, child_receives, &socket, count);
  contract_side_open(variant, &params, false, !child_receives, &side);
  account.message = side.message;
  assert_true(contract_meet(&side, socket));
  if (child_receives)
    contract_send_until(&side, count, &account);
  else
    contract_receive_until(&side, count, &account);
  assert_int_equal(child_receives ? account.done : account.delivered, count);
  assert_int_equal(account.wrong, 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  contract_side_close(&side);
  close(socket);
}

static void stream_from_parent_to_child(void **state)
{
  stream_runs(state, true);
}

static void stream_from_child_to_parent(void **state)
{
  stream_runs(state, false);
}

/* The peer dies some time after the stream has begun: spun off rather than slept, so that it
 * falls anywhere. A killed process still needs a CPU to die: once it has closed its end of
 * `socket`, a byte is written to `death`. */
static void kill_soon(pid_t pid, int socket, int death)
{
  struct pollfd end = {.fd = socket};
  uint64_t until = contract_now_ns() + contract_random() % 2000000;
  while (contract_now_ns() < until)
    ;
  kill(pid, SIGKILL);
  while (!(end.revents & POLLHUP))
    if (poll(&end, 1, -1) < 0 && errno != EINTR)
      _exit(1);
  until = contract_now_ns();
  _exit(write(death, &until, sizeof(until)) != sizeof(until));
}

pid_t contract_kill_soon(pid_t pid, int socket, int *death)
{
  int ends[2];
  assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
  pid_t killer = fork();
  assert_true(killer >= 0);
  if (killer == 0)
    kill_soon(pid, socket, ends[1]);
  close(ends[1]);
  *death = ends[0];
  return killer;
}

static void one_death(const struct contract_variant *variant, bool child_receives)
{
  contract_rule(
      "The peer has left, or its address no longer answers; `status` says why. DONEs may follow.");
  struct contract_side side = {0};
  struct contract_account account = {0};
  int socket, status, death;
  pid_t pid = spawn(variant, child_receives, &socket, UINT64_MAX);
  contract_side_open(variant, &params, false, !child_receives, &side);
  account.message = side.message;
  bool met = contract_meet(&side, socket);
  pid_t killer = contract_kill_soon(pid, socket, &death);
  assert_true(met);
  uint64_t began = contract_now_ns();
  if (child_receives)
    contract_send_until(&side, UINT64_MAX, &account);
  else
    contract_receive_until(&side, UINT64_MAX, &account);
  uint64_t noticed = contract_now_ns(), died;
  assert_true(account.gone);
  assert_int_equal(account.status, -ECONNRESET);
  assert_int_equal(read(death, &died, sizeof(died)), sizeof(died));
  close(death);
  assert_true(noticed < died + (variant->silent ? contract_deadline_ns : UINT64_C(5000000000)));
  assert_int_equal(account.wrong, 0);
  contract_rule(
      "Exactly one DONE covers each request that post() took, also when the peer dies (-ECONNRESET, -ETIMEDOUT) or the endpoint closes (-ECANCELED).");
  struct pst_completion done;
  while (account.done < account.posted && contract_now_ns() - began < contract_deadline_ns) {
    contract_poll(&side);
    while (contract_take(&side, PST_COMPLETION_DONE, PST_OP_SEND, &done))
      contract_account_done(&account, &done);
  }
  assert_int_equal(account.done, account.posted);
  /* 0, then -ECONNRESET or -ETIMEDOUT. */
  assert_int_equal(account.unlike, 0);
  for (int i = 0; i < 10; i++)
    assert_int_equal(contract_poll(&side), 0);
  contract_side_close(&side);
  assert_int_equal(waitpid(killer, &status, 0), killer);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status));
  close(socket);
}

void contract_deaths(const struct contract_variant *variant, uint32_t most,
                     void (*one)(const struct contract_variant *variant))
{
  const uint64_t began = contract_now_ns();
  uint32_t deaths = 0;
  do {
    contract_watch(NULL); /* the deadline applies to each death, not to all */
    one(variant);
  } while (++deaths < contract_rounds(most) && contract_now_ns() < began + DEATHS_NS);
  if (deaths < contract_rounds(most))
    print_message("%" PRIu32 " of %" PRIu32 " peers were killed: each took %.1f s to be noticed\n",
                  deaths, contract_rounds(most),
                  (double)(contract_now_ns() - began) / 1e9 / deaths);
}

static void receiver_dies(const struct contract_variant *variant)
{
  one_death(variant, true);
}

static void sender_dies(const struct contract_variant *variant)
{
  one_death(variant, false);
}

static void receivers_that_are_killed(void **state)
{
  const struct contract_variant *variant = *state;
  if (!variant->apart)
    skip();
  contract_deaths(variant, DEATHS, receiver_dies);
}

static void senders_that_are_killed(void **state)
{
  const struct contract_variant *variant = *state;
  if (!variant->apart)
    skip();
  contract_deaths(variant, DEATHS, sender_dies);
}

static void peer_that_dies_before_it_connects(void **state)
{
  contract_rule(
      "It also comes where the peer closes or dies while this side connects. Where only silence tells, DISCONNECTED comes after timeout_ns, with -ETIMEDOUT.");
  const struct contract_variant *variant = *state;
  struct contract_params patience = params;
  struct contract_side side = {0};
  uint8_t bytes[16384];
  struct pst_blob blob;
  int pair[2], status;
  if (!variant->apart)
    skip();
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  pid_t pid = fork();
  if (pid == 0) {
    struct contract_side far = {0};
    contract_side_open(variant, &params, false, true, &far);
    contract_address(&far, 0, &blob);
    contract_swap_out(pair[1], &blob);
    recv(pair[1], bytes, 1, 0);
    kill(getpid(), SIGKILL);
  }
  patience.timeout_ns = variant->silent ? TIMEOUT_NS : 0;
  contract_side_open(variant, &patience, false, false, &side);
  assert_true(contract_swap_in(pair[0], &blob, bytes, sizeof(bytes)));
  assert_int_equal(contract_connect(&side, 0, &blob), 0);
  assert_int_equal(send(pair[0], "x", 1, 0), 1);
  struct pst_completion gone =
      contract_await(&side, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  if (!variant->silent || gone.status != -ETIMEDOUT)
    assert_int_equal(gone.status, -ECONNRESET);
  for (uint32_t i = 0; i < blob.fd_count; i++)
    close(blob.fds[i]);
  contract_side_close(&side);
  contract_complaints();
  assert_int_equal(waitpid(pid, &status, 0), pid);
  close(pair[0]);
  close(pair[1]);
}

/* Between two of its calls. */
static void stop(pid_t pid)
{
  int status;
  kill(pid, SIGTSTP);
  assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
  assert_true(WIFSTOPPED(status));
}

/* Connecting is given up after timeout_ns, too. Where a machine needs longer for it, and only
 * there, the time is a longer one. */
static pid_t meet_impatiently(const struct contract_variant *variant, struct contract_side *side,
                              int *socket)
{
  struct contract_params impatient = params;
  for (impatient.timeout_ns = TIMEOUT_NS;; impatient.timeout_ns *= 8) {
    pid_t pid = spawn(variant, true, socket, UINT64_MAX);
    *side = (struct contract_side){0};
    contract_side_open(variant, &impatient, false, false, side);
    if (contract_meet(side, *socket))
      return pid;
    assert_true(impatient.timeout_ns * 8 < contract_deadline_ns);
    contract_side_close(side);
    contract_complaints();
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(*socket);
  }
}

static void flush_ends(struct contract_side *side)
{
  struct pst_completion flushed = contract_await(side, NULL, PST_COMPLETION_DONE, PST_OP_FLUSH);
  if (flushed.status == 0)
    return;
  assert_int_equal(flushed.status, -ETIMEDOUT);
  struct pst_completion gone =
      contract_await(side, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -ETIMEDOUT);
}

/* Its transport may owe an answer to the FLUSH, for which there is room behind a short message. */
static void peer_stands_still(const struct contract_variant *variant, bool is_short)
{
  struct contract_side side;
  int socket, status;
  pid_t pid = meet_impatiently(variant, &side, &socket);
  stop(pid);
  struct pst_request requests[2] = {
      contract_send(&side, 0, is_short && side.message > 64 ? 64 : side.message, 0),
      {.opcode = PST_OP_FLUSH, .cookie = 1}};
  uint32_t wait;
  const int taken = contract_post(&side, 0, requests, 2, &wait);
  if (is_short) {
    const char *before = contract_rule(
        "An endpoint with nothing outstanding has room for 16 requests of up to 64 bytes, or `requests` if that is less.");
    assert_int_equal(taken, 2);
    contract_rule(before);
  }
  if (taken == 2)
    flush_ends(&side);
  if (taken > 0)
    contract_await(&side, NULL, PST_COMPLETION_DONE, PST_OP_SEND);
  kill(pid, SIGKILL);
  contract_side_close(&side);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  close(socket);
}

static void requests_end_though_the_peer_stands_still(void **state)
{
  contract_rule(
      "The peer counts as dead when its transport has owed an answer for so long, while connecting too. Credits and lent slots are not such answers. 0: never.");
  const struct contract_variant *variant = *state;
  if (!variant->apart)
    skip();
  peer_stands_still(variant, false);
  peer_stands_still(variant, true);
}

/* The peer sends its address and never connects, as after its control channel broke. */
static void peer_that_does_not_connect_is_given_up_in_time(void **state)
{
  contract_rule(
      "The peer counts as dead when its transport has owed an answer for so long, while connecting too. Credits and lent slots are not such answers. 0: never.");
  const struct contract_variant *variant = *state;
  struct contract_params impatient = params;
  struct contract_side side = {0};
  uint8_t bytes[16384];
  struct pst_blob blob;
  int pair[2], status;
  if (!variant->apart)
    skip();
  impatient.timeout_ns = TIMEOUT_NS;
  impatient.sleep = (contract_capabilities(variant) & PST_CAP_WAKEUP) != 0;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    struct contract_side far = {0};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    contract_side_open(variant, &params, false, true, &far);
    contract_address(&far, 0, &blob);
    contract_swap_out(pair[1], &blob);
    for (;;)
      pause();
  }
  contract_side_open(variant, &impatient, false, false, &side);
  assert_true(contract_swap_in(pair[0], &blob, bytes, sizeof(bytes)));
  assert_int_equal(contract_connect(&side, 0, &blob), 0);
  /* Asleep, where it can be. */
  struct pollfd fd = {.fd = -1, .events = POLLIN};
  if (impatient.sleep)
    fd.fd = side.image.ops->event_fd(side.worker);
  while (impatient.sleep && contract_poll(&side) == 0)
    if (side.image.ops->arm(side.worker) == 0 && poll(&fd, 1, 10000) == 0)
      fail_msg("arm said 0, and event_fd did not become readable when timeout_ns had passed");
  struct pst_completion gone =
      contract_await(&side, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -ETIMEDOUT);
  for (uint32_t i = 0; i < blob.fd_count; i++)
    close(blob.fds[i]);
  contract_side_close(&side);
  contract_complaints();
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  close(pair[0]);
  close(pair[1]);
}

static void death_wakes_a_sleeper(void **state)
{
  contract_rule(
      "event_fd becomes readable when poll() has a completion to give, or, after a post() that took fewer than it was given, when post() would take more.");
  const struct contract_variant *variant = *state;
  struct contract_params sleepy = params;
  struct contract_side side = {0};
  int socket, status;
  if (!variant->apart)
    skip();
  contract_need(state, PST_CAP_WAKEUP);
  sleepy.sleep = true;
  pid_t pid = spawn(variant, true, &socket, UINT64_MAX);
  contract_side_open(variant, &sleepy, false, false, &side);
  assert_true(contract_meet(&side, socket));
  struct pollfd fd = {.fd = side.image.ops->event_fd(side.worker), .events = POLLIN};
  /* The peer may still wake us for what it did when it connected. */
  while (contract_poll(&side) > 0 || side.image.ops->arm(side.worker) != 0 || poll(&fd, 1, 0) != 0)
    ;
  kill(pid, SIGKILL);
  assert_int_equal(poll(&fd, 1, 10000), 1);
  struct pst_completion gone =
      contract_await(&side, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(gone.status, -ECONNRESET);
  contract_side_close(&side);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  close(socket);
}

int contract_death_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(stream_from_parent_to_child),
      CONTRACT_CASE(stream_from_child_to_parent),
      CONTRACT_CASE(receivers_that_are_killed),
      CONTRACT_CASE(senders_that_are_killed),
      {"peers_written_to_that_are_killed", contract_death_beside_writes, NULL, NULL, NULL},
      CONTRACT_CASE(peer_that_dies_before_it_connects),
      CONTRACT_CASE(death_wakes_a_sleeper),
      CONTRACT_CASE(requests_end_though_the_peer_stands_still),
      CONTRACT_CASE(peer_that_does_not_connect_is_given_up_in_time),
  };
  return CONTRACT_RUN("processes", cases, variant);
}
