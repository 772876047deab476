/* SPDX-License-Identifier: Apache-2.0 */
/* Many peers of one worker, one after the other: they come and go, or are killed, under load or
 * with SENDs that they have not fetched. Their resources are given back, and another stream of the
 * worker loses nothing.
 *
 *     ucx-many PLUGIN ROUNDS [OPTION=VALUE]...
 *
 * PENSTOCK_UCX_PEERS, where it is set, is the number of rounds.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define VICTIM "--victim"
#define IDLE_VICTIM "--idle-victim" /* connects, and takes nothing */
#define PEER 0u
#define BYSTANDER 1u
/* Peers until UCX has what it keeps for good, and what each one may leave then. */
#define WARM_ROUNDS 4u
#define HEAP_BYTES_EACH UINT64_C(64)
#define HEAP_BYTES_MORE UINT64_C(65536)
#define MAPPED_BYTES_MORE (UINT64_C(16) << 20)

static struct contract_variant variant = {.name = "many", .apart = true};
static const struct contract_params params = {
    .endpoints = 1, .slots = 32, .message = 1462, .requests = 64, .pieces = 1};
/* Each SEND by rendezvous: the options have a rendezvous_from of at most 4 KiB. */
static const struct contract_params offered = {
    .endpoints = 1, .slots = 32, .message = 8192, .requests = 64, .pieces = 1};
static uint32_t rounds;
static char *const *arguments;

/* ---- The stream that goes on beside --------------------------------------------------------- */

struct bystander {
  struct contract_side sender;
  struct contract_region memory;
  struct pst_mr *mr;
  struct pst_ring *ring;
  uint64_t posted, delivered;
};

struct survivor {
  struct contract_side side; /* endpoint PEER of its own ring, BYSTANDER of the other one */
  struct bystander bystander;
  unsigned int descriptors;
  uint64_t heap, mapped;
  uint64_t noticed_ns; /* the longest time from a death to DISCONNECTED */
};

static void join(struct contract_side *side, uint32_t index, struct contract_side *far)
{
  struct pst_blob blob;
  contract_address(side, index, &blob);
  assert_int_equal(contract_connect(far, 0, &blob), 0);
  contract_address(far, 0, &blob);
  assert_int_equal(contract_connect(side, index, &blob), 0);
  contract_await(side, far, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_await(far, side, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
}

static void open_all(struct survivor *all)
{
  struct contract_side *side = &all->side;
  struct bystander *by = &all->bystander;
  contract_side_open(&variant, &params, false, true, side);
  contract_region_make(side->memory.region.length, &by->memory);
  const struct pst_mr_params mr = {.struct_size = sizeof(mr),
                                   .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE |
                                             PST_ACCESS_RING,
                                   .region = &by->memory.region,
                                   .length = by->memory.region.length};
  assert_int_equal(side->image.ops->mr_register(side->device, &mr, &by->mr), 0);
  contract_ring_open(side, &params, by->mr, &by->ring);
  contract_endpoint_open(side, &params, by->ring, BYSTANDER);
  contract_side_open(&variant, &params, true, false, &by->sender);
  join(side, BYSTANDER, &by->sender);
}

static void close_endpoint(struct contract_side *side, uint32_t index)
{
  assert_int_equal(side->image.ops->endpoint_close(side->endpoints[index], PST_CLOSE_ABORT, 0), 0);
}

static void close_all(struct survivor *all)
{
  struct contract_side *side = &all->side;
  close_endpoint(side, BYSTANDER);
  while (!side->closed[BYSTANDER])
    contract_await(side, NULL, PST_COMPLETION_EVENT, PST_EVENT_CLOSED);
  side->image.ops->ring_close(side->worker, all->bystander.ring);
  side->image.ops->mr_deregister(side->device, all->bystander.mr);
  contract_side_close(&all->bystander.sender);
  contract_side_close(side);
  contract_region_free(&all->bystander.memory);
  contract_complaints();
}

static uint8_t *slot_of(const struct contract_region *memory, const struct pst_completion *message)
{
  return (uint8_t *)memory->region.host + message->u.message.offset;
}

/* A poll of each, and one message more of the bystander's. Returns what came of the peer. */
static uint32_t turn(struct survivor *all)
{
  struct contract_side *side = &all->side, *sender = &all->bystander.sender;
  struct bystander *by = &all->bystander;
  struct pst_completion one;
  uint32_t came = 0, wait;
  const uint64_t offset = by->posted % 32 * sender->stride;
  if (by->posted - by->delivered < 32) {
    contract_fill((uint8_t *)sender->memory.region.host + offset, sender->message, by->posted);
    const struct pst_request request = contract_send(sender, offset, sender->message, by->posted);
    by->posted += contract_post(sender, 0, &request, 1, &wait) == 1;
  }
  contract_poll(sender);
  contract_poll(side);
  while (contract_take(sender, PST_COMPLETION_DONE, PST_OP_SEND, &one))
    assert_int_equal(one.status, 0);
  while (contract_take(side, PST_COMPLETION_MESSAGE, 0, &one)) {
    if (one.endpoint == BYSTANDER + 1) {
      assert_int_equal(one.u.message.sequence, by->delivered);
      contract_bytes_are(slot_of(&by->memory, &one), sender->message, by->delivered++);
    } else {
      came++;
    }
    side->image.ops->release(side->worker, &one.u.message.token, 1);
  }
  return came;
}

/* ---- Leftovers of each peer ----------------------------------------------------------------- */

/* Links that leave have until their peers have answered. */
static void settle(struct survivor *all)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (contract_descriptors() > all->descriptors) {
    turn(all);
    contract_in_time(deadline, "descriptors of peers that are gone, %u of %u, to be closed",
                     contract_descriptors(), all->descriptors);
  }
}

static void look(struct survivor *all, uint32_t round)
{
  contract_watch(NULL); /* the patience is of a round, not of 500 */
  if (round < WARM_ROUNDS)
    return;
  if (round == WARM_ROUNDS) {
    all->heap = contract_heap_bytes();
    all->mapped = contract_mapped_bytes();
  }
  settle(all);
}

static void levels_are_kept(const struct survivor *all)
{
  const uint64_t heap = contract_heap_bytes(), mapped = contract_mapped_bytes();
  print_message("%u peers: heap %+lld B, mapped %+lld KiB\n", rounds, (long long)(heap - all->heap),
                ((long long)mapped - (long long)all->mapped) / 1024);
  contract_descriptors_are(all->descriptors);
  contract_heap_is_at_most(all->heap + HEAP_BYTES_MORE + rounds * HEAP_BYTES_EACH);
  if (heap) /* nobody else counts, and keeps what was freed */
    assert_in_range(mapped, 0, all->mapped + MAPPED_BYTES_MORE);
}

static void close_peer(struct survivor *all)
{
  close_endpoint(&all->side, PEER);
  while (!all->side.closed[PEER]) {
    struct pst_completion closed;
    turn(all);
    contract_take(&all->side, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &closed);
  }
}

/* ---- They come and go ----------------------------------------------------------------------- */

static void one_comes_and_goes(struct survivor *all)
{
  struct contract_side far = {0};
  struct pst_completion gone;
  uint32_t wait, came = 0;
  contract_side_open(&variant, &params, true, false, &far);
  join(&all->side, PEER, &far);
  const struct pst_request request = contract_send(&far, 0, far.message, 0);
  assert_int_equal(contract_post(&far, 0, &request, 1, &wait), 1);
  while (!came) {
    contract_poll(&far);
    came = turn(all);
  }
  close_endpoint(&far, 0);
  while (!far.closed[0] ||
         !contract_take(&all->side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &gone)) {
    struct pst_completion closed;
    contract_poll(&far);
    turn(all);
    contract_take(&far, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &closed);
  }
  close_peer(all);
  contract_side_close(&far);
}

static void comings_and_goings_leave_nothing(void **state)
{
  (void)state;
  contract_rule("an accepted SEND arrives once, or the endpoint fails");
  struct survivor all = {0};
  open_all(&all);
  close_peer(&all);
  all.descriptors = contract_descriptors();
  for (uint32_t round = 0; round < rounds + WARM_ROUNDS; round++) {
    contract_endpoint_open(&all.side, &params, all.side.ring, PEER);
    one_comes_and_goes(&all);
    look(&all, round);
  }
  levels_are_kept(&all);
  close_all(&all);
}

/* ---- They are killed ------------------------------------------------------------------------ */

/* Another program, not only another process: nothing of UCX is inherited. */
static pid_t start_victim(const char *role, int *socket)
{
  int pair[2];
  char number[16];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    char *args[16] = {arguments[0], (char *)role, number};
    for (int i = 1; arguments[i] && i < 12; i++)
      args[i + 2] = arguments[i];
    snprintf(number, sizeof(number), "%d", dup(pair[1]));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execv("/proc/self/exe", args);
    _exit(9);
  }
  close(pair[1]);
  *socket = pair[0];
  return pid;
}

static int victim(int socket)
{
  struct contract_side side = {0};
  struct contract_account account = {0};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  contract_side_open(&variant, &params, false, false, &side);
  account.message = side.message;
  if (contract_meet(&side, socket))
    contract_send_until(&side, UINT64_MAX, &account);
  return 3; /* it is to be killed */
}

static int idle_victim(int socket)
{
  struct contract_side side = {0};
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  contract_side_open(&variant, &offered, false, true, &side);
  if (contract_meet(&side, socket) && write(socket, "", 1) == 1)
    for (;;)
      pause();
  return 3; /* it is to be killed */
}

static void one_is_killed(struct survivor *all)
{
  struct pst_completion gone;
  int socket;
  uint64_t came = 0, died_ns;
  pid_t pid = start_victim(VICTIM, &socket);
  const uint64_t deadline = contract_now_ns() + 3 * contract_deadline_ns;
  assert_true(contract_meet(&all->side, socket));
  for (uint64_t most = 1 + contract_random() % 200; came < most; came += turn(all))
    contract_in_time(deadline, "messages of a peer that is to be killed");
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  died_ns = contract_now_ns();
  while (!contract_take(&all->side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &gone)) {
    turn(all);
    contract_in_time(deadline, "a death to be noticed");
  }
  assert_int_equal(gone.endpoint, PEER + 1);
  assert_int_equal(gone.status, -ECONNRESET);
  if (contract_now_ns() - died_ns > all->noticed_ns)
    all->noticed_ns = contract_now_ns() - died_ns;
  close(socket);
  close_peer(all);
}

static void kills_leave_nothing(void **state)
{
  (void)state;
  contract_rule(
      "The peer has left, or its address no longer answers; `status` says why. DONEs may follow.");
  struct survivor all = {0};
  open_all(&all);
  close_peer(&all);
  all.descriptors = contract_descriptors();
  for (uint32_t round = 0; round < rounds + WARM_ROUNDS; round++) {
    contract_endpoint_open(&all.side, &params, all.side.ring, PEER);
    one_is_killed(&all);
    look(&all, round);
  }
  levels_are_kept(&all);
  print_message("%u kills: noticed within %.1f ms; %llu messages of another peer, none lost\n",
                rounds, (double)all.noticed_ns / 1e6, (unsigned long long)all.bystander.delivered);
  close_all(&all);
}

/* ---- They are killed, and have not fetched what is sent to them ----------------------------- */

/* All that the peer has slots for. UCX has a request for each until its worker ends. */
static uint32_t offer_all(struct contract_side *sender)
{
  uint32_t wait = 0, posted = 0;
  for (;; posted++) {
    const uint64_t offset = posted % offered.slots * sender->stride;
    const struct pst_request request = contract_send(sender, offset, sender->message, posted);
    if (contract_post(sender, PEER, &request, 1, &wait) != 1)
      break;
  }
  assert_int_equal(wait, PST_WAIT_CREDIT);
  return posted;
}

static void close_sender(struct survivor *all, struct contract_side *sender)
{
  struct pst_completion closed;
  close_endpoint(sender, PEER);
  while (!sender->closed[PEER]) {
    contract_poll(sender);
    turn(all);
    contract_take(sender, PST_COMPLETION_EVENT, PST_EVENT_CLOSED, &closed);
  }
}

static void one_is_killed_before_it_fetches(struct survivor *all, struct contract_side *sender)
{
  struct pst_completion gone;
  int socket;
  pid_t pid = start_victim(IDLE_VICTIM, &socket);
  char is_idle;
  assert_true(contract_meet(sender, socket));
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (recv(socket, &is_idle, 1, MSG_DONTWAIT) < 0) {
    contract_poll(sender);
    contract_in_time(deadline, "a peer to have connected");
  }
  const uint32_t posted = offer_all(sender);
  assert_int_equal(posted, offered.slots);
  kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, NULL, 0), pid);
  while (!contract_take(sender, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &gone)) {
    contract_poll(sender);
    turn(all);
    contract_in_time(deadline, "a death to be noticed");
  }
  assert_int_equal(gone.status, -ECONNRESET);
  contract_await_done(sender, NULL, PST_OP_SEND, posted, -ECONNRESET);
  close(socket);
  close_sender(all, sender);
}

static void what_the_killed_have_not_fetched_leaves_nothing(void **state)
{
  (void)state;
  contract_rule(
      "The peer has left, or its address no longer answers; `status` says why. DONEs may follow.");
  struct survivor all = {0};
  struct contract_side sender = {0};
  open_all(&all);
  close_peer(&all);
  contract_side_open(&variant, &offered, true, false, &sender);
  close_sender(&all, &sender);
  all.descriptors = contract_descriptors();
  for (uint32_t round = 0; round < rounds + WARM_ROUNDS; round++) {
    contract_endpoint_open(&sender, &offered, NULL, PEER);
    one_is_killed_before_it_fetches(&all, &sender);
    look(&all, round);
  }
  levels_are_kept(&all);
  contract_side_close(&sender);
  close_all(&all);
}

int main(int argc, char **argv)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(comings_and_goings_leave_nothing),
      CONTRACT_CASE(kills_leave_nothing),
      CONTRACT_CASE(what_the_killed_have_not_fetched_leaves_nothing),
  };
  const bool is_idle = argc > 2 && strcmp(argv[1], IDLE_VICTIM) == 0;
  const bool is_victim = argc > 2 && (is_idle || strcmp(argv[1], VICTIM) == 0);
  char **args = is_victim ? argv + 2 : argv;

  if (argc - 2 * is_victim < 3 || argc > 12) {
    fprintf(stderr, "usage: %s PLUGIN ROUNDS [OPTION=VALUE]...\n", argv[0]);
    return 2;
  }
  arguments = argv;
  variant.plugin = args[1];
  const char *peers = getenv("PENSTOCK_UCX_PEERS");
  rounds = (uint32_t)strtoul(peers ? peers : args[2], NULL, 10);
  variant.option_list = (const char *const *)args + 3;
  if (is_victim)
    return is_idle ? idle_victim(atoi(argv[2])) : victim(atoi(argv[2]));
  return CONTRACT_MAIN("ucx many", cases, &variant);
}
