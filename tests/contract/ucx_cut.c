/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests under way when the connection ends: at the deadline of our close, and at the peer's BYE.
 * UCX itself handles failures, so that it calls back for each that it has.
 *
 *     ucx-cut PLUGIN
 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

/* Behind cmocka's macros, which it has names in common with. */
#undef fail
#include "../../transports/ucx/endpoint.h"
#include "../../transports/ucx/ring.h"

/* As many SENDs, or a WRITE of as many bytes, are more than the buffers of two sockets hold. */
#define SLOTS 8
#define BYTES (UINT64_C(4) << 20)
#define OTHERS 3

static const char *const options[] = {"tls=tcp,self", "peer_failure=ucx", "rendezvous_from=4KiB",
                                      NULL};
static struct contract_variant variant = {.name = "cut", .option_list = options, .apart = true};
static const struct contract_params params = {.endpoints = 1,
                                              .slots = SLOTS,
                                              .message = BYTES,
                                              .requests = SLOTS + OTHERS,
                                              .pieces = 1,
                                              .roles_more = PST_ROLE_RMA};

/* ---- A peer that polls nothing once it is connected, until a byte comes by its socket ---------
 */

struct still_peer {
  struct contract_side side; /* ours */
  struct pst_remote *remote;
  pid_t pid;
  int socket;
};

static void be_still(int socket)
{
  struct contract_side side = {0};
  uint8_t bytes[4096];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};

  prctl(PR_SET_PDEATHSIG, SIGKILL);
  contract_side_open(&variant, &params, false, true, &side);
  if (!contract_meet(&side, socket) || side.image.ops->mr_pack(side.device, side.mr, &blob) != 0 ||
      !contract_swap_out(socket, &blob))
    _exit(3);
  if (read(socket, bytes, 1) != 1)
    _exit(4);
  contract_await(&side, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  _exit(0);
}

static void still_peer_open(struct still_peer *peer)
{
  struct contract_side *side = &peer->side;
  uint8_t bytes[4096];
  struct pst_blob blob;
  int pair[2];

  memset(peer, 0, sizeof(*peer));
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  fflush(NULL);
  peer->pid = fork();
  assert_true(peer->pid >= 0);
  if (peer->pid == 0) {
    close(pair[0]);
    be_still(pair[1]);
  }
  close(pair[1]);
  peer->socket = pair[0];
  contract_side_open(&variant, &params, false, false, side);
  assert_true(contract_meet(side, peer->socket));
  assert_true(contract_swap_in(peer->socket, &blob, bytes, sizeof(bytes)));
  assert_int_equal(side->image.ops->remote_open(side->endpoints[0], &blob, &peer->remote), 0);
}

static void still_peer_close(struct still_peer *peer)
{
  if (peer->pid) {
    kill(peer->pid, SIGKILL);
    assert_int_equal(waitpid(peer->pid, NULL, 0), peer->pid);
  }
  close(peer->socket);
  contract_side_close(&peer->side);
  assert_int_equal(contract_complaints(), 0);
}

static void post_one(struct contract_side *side, const struct pst_request *request)
{
  uint32_t wait;

  assert_int_equal(contract_post(side, 0, request, 1, &wait), 1);
}

static void post_copy(struct still_peer *peer, uint8_t opcode)
{
  struct pst_request request = {
      .opcode = opcode, .local.mr = peer->side.mr, .arg.length = SLOTS * BYTES};

  request.u.rma.remote = peer->remote;
  post_one(&peer->side, &request);
}

/* Not one of them can end. */
static void post_one_sided(struct still_peer *peer)
{
  const struct pst_request flush = {.opcode = PST_OP_FLUSH};

  post_copy(peer, PST_OP_READ);
  post_copy(peer, PST_OP_WRITE);
  post_one(&peer->side, &flush);
}

static void one_sided_end_with(struct contract_side *side, int32_t status)
{
  static const uint8_t each[] = {PST_OP_READ, PST_OP_WRITE, PST_OP_FLUSH};
  struct pst_completion done;

  for (size_t i = 0; i < sizeof(each); i++) {
    done = contract_await(side, NULL, PST_COMPLETION_DONE, each[i]);
    assert_int_equal(done.status, status);
  }
}

/* ---- The cases ------------------------------------------------------------------------------ */

static void close_endpoint(struct contract_side *side)
{
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[0], PST_CLOSE_ABORT, 0), 0);
}

static void await_closed(struct contract_side *side)
{
  contract_await(side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  side->closed[0] = true;
}

static void one_sided_requests_are_cancelled_at_the_deadline(void **state)
{
  (void)state;
  contract_rule("or the endpoint closes (-ECANCELED)");
  struct still_peer peer;
  still_peer_open(&peer);
  post_one_sided(&peer);
  close_endpoint(&peer.side);
  one_sided_end_with(&peer.side, -ECANCELED);
  await_closed(&peer.side);
  still_peer_close(&peer);
}

/* Its answer finds the connection gone: UCX 1.13 aborts an owner that answers one of its gets. */
static void an_owner_survives_a_reader_that_has_gone(void **state)
{
  (void)state;
  contract_rule("also when the peer dies (-ECONNRESET, -ETIMEDOUT)");
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct still_peer peer;
  int status;
  still_peer_open(&peer);
  post_copy(&peer, PST_OP_READ);
  close_endpoint(&peer.side);
  await_closed(&peer.side);
  while (peer.side.worker->leaving) {
    contract_poll(&peer.side);
    contract_in_time(deadline, "the link to end");
  }
  assert_int_equal(write(peer.socket, "x", 1), 1);
  assert_int_equal(waitpid(peer.pid, &status, 0), peer.pid);
  peer.pid = 0;
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  still_peer_close(&peer);
}

/* As UCX hands it one. */
static void hand(struct contract_side *side, uint8_t kind)
{
  struct ucx_link *link = side->endpoints[0]->link;
  const ucp_am_recv_param_t plain = {0};
  const struct ucx_header header = {
      .kind = kind, .nonce = link->nonce, .sequence = link->peer.nonce};

  link->receive(link, &header, sizeof(header), NULL, 0, &plain);
}

/* The peer has done its own requests and closes: it does not know what we read. */
static void one_sided_requests_fail_at_the_peers_bye(void **state)
{
  (void)state;
  contract_rule("also when the peer dies (-ECONNRESET, -ETIMEDOUT)");
  struct still_peer peer;
  still_peer_open(&peer);
  post_one_sided(&peer);
  hand(&peer.side, UCX_BYE);
  one_sided_end_with(&peer.side, -ECONNRESET);
  contract_await(&peer.side, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(peer.side.endpoints[0]->link->ops_under_way, 0);
  still_peer_close(&peer);
}

/* Nothing is left to answer it by. */
static void a_hello_behind_the_end_is_not_answered(void **state)
{
  (void)state;
  contract_rule("also when the peer dies (-ECONNRESET, -ETIMEDOUT)");
  struct still_peer peer;
  still_peer_open(&peer);
  const struct pst_request send = {
      .opcode = PST_OP_SEND, .local.mr = peer.side.mr, .arg.length = BYTES};
  post_one(&peer.side, &send); /* the peer would fetch it: UCX has our memory */
  hand(&peer.side, UCX_BYE);
  contract_await(&peer.side, NULL, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED);
  assert_int_equal(peer.side.endpoints[0]->link->line, UCX_LINE_CUT);
  hand(&peer.side, UCX_HELLO);
  contract_poll(&peer.side);
  still_peer_close(&peer);
}

/* The receiver has begun to fetch, for which it needs the sender's polls. */
static void await_fetch(struct contract_pair *pair)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;

  while (!pair->receiver.endpoints[0]->link->fetches) {
    contract_poll(&pair->sender);
    contract_poll(&pair->receiver);
    contract_in_time(deadline, "the receiver to fetch a message");
  }
}

static struct contract_pair *begin_fetch(void)
{
  struct contract_pair *pair = contract_pair_open(&variant, &params);
  struct contract_side *side = &pair->sender;

  contract_pair_connect(pair);
  for (uint32_t i = 0; i < SLOTS; i++) {
    const struct pst_request request = contract_send(side, i * side->stride, BYTES, i);
    post_one(side, &request);
  }
  await_fetch(pair);
  return pair;
}

/* The first ones may have been fetched whole. */
static void sends_are_cancelled_at_the_deadline(void **state)
{
  (void)state;
  contract_rule("or the endpoint closes (-ECANCELED)");
  struct contract_pair *pair = begin_fetch();
  struct pst_completion done = {0};
  close_endpoint(&pair->sender);
  for (uint64_t covered = 0; covered < SLOTS; covered += done.u.done.count) {
    done = contract_await(&pair->sender, NULL, PST_COMPLETION_DONE, PST_OP_SEND);
    assert_true(done.status == 0 || done.status == -ECANCELED);
  }
  assert_int_equal(done.status, -ECANCELED);
  await_closed(&pair->sender);
  contract_pair_close(pair);
  contract_complaints();
}

/* Its sender polls no more, so that UCX does not end the fetches. */
static void slots_of_fetches_that_never_end_are_free_again(void **state)
{
  (void)state;
  contract_rule("the remaining DONEs follow, then EVENT CLOSED, by deadline_ns of CLOCK_MONOTONIC");
  struct contract_pair *pair = begin_fetch();
  struct contract_side *side = &pair->receiver;
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_completion message;
  close_endpoint(side);
  await_closed(side);
  while (contract_take(side, PST_COMPLETION_MESSAGE, 0, &message))
    contract_release(side, &message);
  assert_int_not_equal(side->ring->cpu.slots.free_count, SLOTS);
  while (side->worker->leaving) {
    contract_poll(side);
    contract_in_time(deadline, "the link to end");
  }
  assert_int_equal(side->ring->cpu.slots.free_count, SLOTS);
  contract_pair_close(pair);
  contract_complaints();
}

int main(int argc, char **argv)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(one_sided_requests_are_cancelled_at_the_deadline),
      CONTRACT_CASE(an_owner_survives_a_reader_that_has_gone),
      CONTRACT_CASE(one_sided_requests_fail_at_the_peers_bye),
      CONTRACT_CASE(a_hello_behind_the_end_is_not_answered),
      CONTRACT_CASE(sends_are_cancelled_at_the_deadline),
      CONTRACT_CASE(slots_of_fetches_that_never_end_are_free_again),
  };

  if (argc != 2) {
    fprintf(stderr, "usage: %s PLUGIN\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  return CONTRACT_MAIN("ucx cuts off", cases, &variant);
}
