/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_rc with receives that a worker's endpoints share, on the simulated device: peers that are
 * killed beside one that goes on, peers that have no shared receives, and what the device has of
 * them afterwards.
 *
 *     penstock-simverbs verbs-rc-shared PLUGIN LAUNCHER DEVICE
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simulated.h"

#define OPTIONS "timeout=8,keepalive=20ms"
#define KILLS 4

static struct contract_variant variants[] = {
    {.name = "write", .options = OPTIONS ",srq=true", .apart = true},
    {.name = "send", .options = OPTIONS ",srq=true,operation=send", .apart = true},
    {.name = "own", .options = OPTIONS, .apart = true},
    {.name = "own by send", .options = OPTIONS ",operation=send", .apart = true},
};
enum { WRITE, SEND, OWN, OWN_SEND };

static const struct contract_params params = {
    .endpoints = 2, .slots = 31, .message = 512, .requests = 64, .pieces = 1};

/* ---- Peers that are processes -----------------------------------------------------------------
 */

/* Sends until the other end is gone. */
static void child(int which, int socket)
{
  struct contract_params mine = params;
  struct contract_side side = {0};
  struct contract_account account = {.message = params.message};
  mine.endpoints = 1;
  mine.slots = 32; /* contract_send_until() has so many under way */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  contract_side_open(&variants[which], &mine, false, false, &side);
  if (!contract_meet(&side, socket))
    _exit(3);
  contract_send_until(&side, UINT64_MAX, &account);
  contract_side_close(&side);
  _exit(account.gone && !account.unlike ? 0 : 4);
}

struct peer {
  pid_t pid;
  int socket;
  uint64_t delivered;
  bool is_gone;
};

/* The receiver's endpoint `index` and a process that sends to it. */
static void meet(struct contract_side *side, uint32_t index, int which, struct peer *peer)
{
  struct pst_blob blob;
  uint8_t bytes[4096];
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  fflush(NULL);
  *peer = (struct peer){.pid = fork(), .socket = pair[0]};
  assert_true(peer->pid >= 0);
  if (peer->pid == 0)
    child(which, pair[1]);
  close(pair[1]);
  contract_address(side, index, &blob);
  assert_true(contract_swap_out(pair[0], &blob));
  assert_true(contract_swap_in(pair[0], &blob, bytes, sizeof(bytes)));
  assert_int_equal(contract_connect(side, index, &blob), 0);
}

static void look(struct contract_side *side, struct peer peers[2])
{
  struct pst_completion one;
  contract_poll(side);
  while (contract_take(side, PST_COMPLETION_MESSAGE, 0, &one)) {
    struct peer *peer = &peers[one.endpoint - 1];
    assert_int_equal(one.u.message.sequence, peer->delivered);
    assert_int_equal(one.u.message.length, params.message);
    assert_true(contract_verify(contract_payload(side, &one), params.message, peer->delivered));
    peer->delivered++;
    contract_release(side, &one);
  }
  while (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED, &one))
    ;
  if (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &one))
    peers[one.endpoint - 1].is_gone = true;
}

/* Until `peer` has delivered `more`; the other one may be gone, or not. */
static void run(struct contract_side *side, struct peer peers[2], uint32_t peer, uint64_t more)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  const uint64_t until = peers[peer].delivered + more;
  while (peers[peer].delivered < until) {
    look(side, peers);
    assert_false(peers[peer].is_gone);
    contract_in_time(deadline, "messages of peer %u: %" PRIu64 " of %" PRIu64, peer,
                     peers[peer].delivered, until);
  }
}

static void close_endpoint(struct contract_side *side, struct peer peers[2], uint32_t index,
                           uint32_t mode)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_completion closed;
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[index], mode, deadline), 0);
  while (!contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &closed)) {
    look(side, peers);
    contract_in_time(deadline, "CLOSED");
  }
  assert_int_equal(closed.endpoint, index + 1);
}

/* Its process dies in mid-flow, and another takes its place; `peers[1]` goes on all the while. */
static void one_death(struct contract_side *side, struct peer peers[2], int which)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  int status;
  run(side, peers, 0, 1 + contract_random() % 300);
  assert_int_equal(kill(peers[0].pid, SIGKILL), 0);
  assert_int_equal(waitpid(peers[0].pid, &status, 0), peers[0].pid);
  close(peers[0].socket);
  while (!peers[0].is_gone) {
    look(side, peers);
    contract_in_time(deadline, "the end of a peer that was killed");
  }
  run(side, peers, 1, 200);
  close_endpoint(side, peers, 0, PST_CLOSE_ABORT);
  contract_endpoint_open(side, &params, side->ring, 0);
  meet(side, 0, which, &peers[0]);
}

/* Its peers have left: it is all there, with the device. */
static void nothing_is_missing(struct contract_side *side, uint64_t expected)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (simulated_counter(side, NULL, "shared_receives_missing") != 0) {
    contract_poll(side);
    contract_in_time(deadline, "receives that are posted again");
  }
  assert_int_equal(simulated_counter(side, NULL, "shared_receives"), expected);
  assert_int_equal(simulated_receives_posted(), expected);
}

/* The same by the receiver, in mid-flow, too. */
static void one_close(struct contract_side *side, struct peer peers[2], int which)
{
  int status;
  run(side, peers, 0, 1 + contract_random() % 300);
  close_endpoint(side, peers, 0, PST_CLOSE_ABORT);
  assert_int_equal(waitpid(peers[0].pid, &status, 0), peers[0].pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  close(peers[0].socket);
  contract_endpoint_open(side, &params, side->ring, 0);
  meet(side, 0, which, &peers[0]);
}

static void killed_beside_one_that_goes_on(int which, uint64_t expected)
{
  struct contract_side side = {0};
  struct peer peers[2];
  int status;
  contract_side_open(&variants[which], &params, false, true, &side);
  nothing_is_missing(&side, expected);
  for (uint32_t i = 0; i < 2; i++)
    meet(&side, i, which, &peers[i]);
  for (int i = 0; i < KILLS; i++) {
    one_death(&side, peers, which);
    one_close(&side, peers, which);
  }
  run(&side, peers, 0, 100);
  run(&side, peers, 1, 100);
  if (which == WRITE) /* by SEND a hello takes a slot's */
    assert_int_equal(simulated_said("counters", "rnr_naks "), 0);
  for (uint32_t i = 0; i < 2; i++) {
    close_endpoint(&side, peers, i, PST_CLOSE_DRAIN);
    assert_int_equal(waitpid(peers[i].pid, &status, 0), peers[i].pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(peers[i].socket);
    contract_endpoint_open(&side, &params, side.ring, i);
  }
  nothing_is_missing(&side, expected);
  contract_side_close(&side);
  contract_complaints();
  assert_int_equal(simulated_receives_posted(), 0);
}

static void peers_that_are_killed_beside_one_that_goes_on(void **state)
{
  (void)state;
  /* Two shares of 31 slots, hello and farewell, and as many to be late, of each. */
  killed_beside_one_that_goes_on(WRITE, 31 + 2 * 4);
  killed_beside_one_that_goes_on(SEND, 31);
}

/* ---- Ends that differ ------------------------------------------------------------------------ */

static void differ(int sender, int receiver)
{
  struct contract_params mine = params;
  struct contract_pair pair = {.variant = &variants[sender], .params = mine};
  struct pst_blob blob;
  uint64_t done = 0, posted = 0, delivered = 0;
  const uint64_t count = 2000, deadline = contract_now_ns() + contract_deadline_ns;
  mine.endpoints = 1;
  contract_side_open(&variants[sender], &mine, false, false, &pair.sender);
  contract_side_open(&variants[receiver], &mine, true, true, &pair.receiver);
  contract_address(&pair.sender, 0, &blob);
  assert_int_equal(contract_connect(&pair.receiver, 0, &blob), 0);
  contract_address(&pair.receiver, 0, &blob);
  assert_int_equal(contract_connect(&pair.sender, 0, &blob), 0);
  contract_await(&pair.sender, &pair.receiver, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  while (delivered < count || done < count) {
    struct pst_completion one;
    uint32_t wait;
    const uint64_t offset = posted % params.slots * pair.sender.stride;
    struct pst_request request = contract_send(&pair.sender, offset, params.message, posted);
    if (posted < count && posted - done < params.slots) {
      contract_fill((uint8_t *)pair.sender.memory.region.host + offset, params.message, posted);
      posted += contract_post(&pair.sender, 0, &request, 1, &wait) == 1;
    }
    contract_poll(&pair.sender);
    while (contract_take(&pair.sender, PST_COMPLETION_DONE, PST_OP_SEND, &one)) {
      assert_int_equal(one.status, 0);
      done += one.u.done.count;
    }
    contract_poll(&pair.receiver);
    while (contract_take(&pair.receiver, PST_COMPLETION_MESSAGE, 0, &one)) {
      assert_int_equal(one.u.message.sequence, delivered);
      assert_true(
          contract_verify(contract_payload(&pair.receiver, &one), params.message, delivered++));
      contract_release(&pair.receiver, &one);
    }
    contract_in_time(deadline, "messages between ends that differ: %" PRIu64, delivered);
  }
  contract_side_close(&pair.sender);
  contract_side_close(&pair.receiver);
}

static void either_end_may_have_them(void **state)
{
  (void)state;
  differ(WRITE, OWN);
  differ(OWN, WRITE);
  differ(SEND, OWN_SEND);
  differ(OWN_SEND, SEND);
}

/* A peer that breaks the rules may fill them all, whoever is there: that must not end the others by
 * a completion queue that overran. */
static void each_receive_that_is_posted_has_a_completion(void **state)
{
  (void)state;
  struct contract_params few = params;
  struct contract_side side = {0};
  few.slots = 1024;
  few.requests = 1;
  contract_side_open(&variants[SEND], &few, false, true, &side);
  assert_int_equal(side.image.ops->endpoint_close(side.endpoints[1], PST_CLOSE_ABORT,
                                                  contract_now_ns() + contract_deadline_ns),
                   0);
  contract_await(&side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  assert_int_equal(simulated_receives_posted(), few.slots);
  assert_in_range(simulated_counter(&side, NULL, "completions_reserved"), few.slots,
                  simulated_counter(&side, NULL, "completion_queue"));
  contract_side_close(&side);
}

int main(int argc, char **argv)
{
  if (argc != 4) {
    fprintf(stderr, "usage: %s PLUGIN LAUNCHER DEVICE\n", argv[0]);
    return 2;
  }
  char device[64];
  snprintf(device, sizeof(device), "device=%s", argv[3]);
  const char *const options[] = {device, "timeout=14", "retry_cnt=6", NULL};
  for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
    variants[i].plugin = argv[1];
    variants[i].option_list = options;
  }
  simulated_launcher = argv[2];
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(peers_that_are_killed_beside_one_that_goes_on),
      CONTRACT_CASE(either_end_may_have_them),
      CONTRACT_CASE(each_receive_that_is_posted_has_a_completion),
  };
  return CONTRACT_MAIN("shared receives", cases, &variants[0]);
}
