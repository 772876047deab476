/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cost of peers for a worker that sends to them, by a plugin of verbs on the simulated
 * device; dc-scale runs it.
 *
 * usage: dc-scale-peers PLUGIN OPTIONS LAUNCHER PEERS TURNS DEAD [BUSY]
 *
 * DEAD: so many die once all are connected; !DEAD: before, and all is over once the others are
 * connected; -: nothing is timed but the beginning. BUSY: so many of the living always send.
 *
 * On a fabric whose clock is a manual one all times are simulated. The thread takes STEP_NS for
 * each round of polls, with what was posted before it, and CONNECT_NS to connect a peer. A request
 * takes the device ANSWER_NS. Nothing else takes time, so that each run gives the same figures.
 */
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>

#include "harness.h"
#include "simulated.h"

#define MESSAGE 1462u
#define BATCH 64u
#define STEP_NS 1000u
#define LEAP_NS 64000u /* of a step, once IDLE rounds found nothing */
#define IDLE 32u
#define CONNECT_NS 50000u
#define ANSWER_NS 20000u

static struct contract_variant variant = {.name = "scale"};
/* The harness opens a ring and an endpoint at each end, which this program does not use. */
static const struct contract_params few = {
    .endpoints = 1, .slots = 8, .message = MESSAGE, .requests = 4, .pieces = 1};

static uint32_t peers, turns, dead, busy;
static bool never_were;

/* ---- The clock --------------------------------------------------------------------------- */

static int (*advance)(uint64_t ns); /* NULL: it is the machine's */
static uint64_t simulated_ns;
static uint32_t idle; /* rounds, one after the other, that found nothing */

static uint64_t now(void)
{
  return advance ? simulated_ns : contract_now_ns();
}

static void pass(uint64_t ns)
{
  if (!advance)
    return;
  assert_int_equal(advance(ns), 0);
  simulated_ns += ns;
}

/* A device is open. */
static void find_clock(void)
{
  int (*found)(uint64_t ns);
  char action[64];
  void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);

  assert_non_null(library);
  *(void **)&found = dlsym(library, "sim_clock_advance");
  assert_non_null(found);
  if (found(0) != 0)
    return;
  snprintf(action, sizeof(action), "delay --by %uns", ANSWER_NS);
  simulated_ctl(action);
  simulated_ns = contract_now_ns(); /* what was opened goes on from there */
  advance = found;
  contract_host_clock(now);
}

/* ---- Peers ------------------------------------------------------------------------------- */

/* A sender's endpoints, and each one's peer. */
static struct contract_side sender, living, gone;
static struct pst_ring *rings[2];
static struct pst_endpoint **senders, **receivers;
static uint32_t connected, *under_way, arrived;
static uint64_t *asked_ns, *took_ns;
static uint32_t took;
static bool *is_over;

static struct contract_side *peer_of(uint32_t k)
{
  return k < dead ? &gone : &living;
}

static struct pst_endpoint *open_endpoint(struct contract_side *side, struct pst_ring *ring,
                                          uint32_t k)
{
  const struct pst_endpoint_params in = {.struct_size = sizeof(in),
                                         .roles = ring ? PST_ROLE_RECEIVER : PST_ROLE_SENDER,
                                         .ring = ring,
                                         .cookie = k + 1,
                                         .label = ring ? "receiver" : "sender",
                                         .options = side->options,
                                         .requests = 4,
                                         .pieces = 1,
                                         .message_max = MESSAGE,
                                         .timeout_ns = UINT64_C(60000000000),
                                         .mr = ring ? NULL : side->mr};
  struct pst_endpoint *made;

  assert_int_equal(side->image.ops->endpoint_open(side->worker, &in, &made), 0);
  return made;
}

static void connect_to(struct contract_side *side, struct pst_endpoint *endpoint,
                       const struct pst_blob *blob)
{
  assert_int_equal(side->image.ops->endpoint_connect(endpoint, blob), 0);
}

static void connect_one(struct contract_side *side, struct pst_endpoint *endpoint,
                        struct contract_side *other, struct pst_endpoint *its)
{
  static uint8_t bytes[16384];
  struct pst_blob blob = {
      .struct_size = sizeof(blob), .bytes = bytes, .capacity = other->limits.address_max};

  assert_int_equal(other->image.ops->endpoint_address(its, &blob), 0);
  connect_to(side, endpoint, &blob);
}

static struct pst_blob *addresses; /* of those that never were */

static void forget_the_dead(void)
{
  addresses = calloc(dead ? dead : 1, sizeof(*addresses));
  for (uint32_t k = 0; k < dead; k++) {
    addresses[k] = (struct pst_blob){.struct_size = sizeof(addresses[k]),
                                     .bytes = malloc(gone.limits.address_max),
                                     .capacity = gone.limits.address_max};
    assert_int_equal(gone.image.ops->endpoint_address(receivers[k], &addresses[k]), 0);
  }
  if (dead)
    contract_side_vanish(&gone);
}

static void take_event(const struct pst_completion *one, bool is_sender)
{
  const uint32_t k = (uint32_t)one->endpoint - 1;

  if (one->code == PST_EVENT_CONNECTED)
    connected++;
  else if (one->code == PST_EVENT_DISCONNECTED && is_sender) {
    assert_true(k < dead);
    is_over[k] = true;
  }
}

static uint32_t poll_sender(void)
{
  struct pst_completion all[BATCH];
  const int n = sender.image.ops->poll(sender.worker, all, BATCH);

  for (int i = 0; i < n; i++) {
    const uint32_t k = (uint32_t)all[i].endpoint - 1;
    if (all[i].kind == PST_COMPLETION_EVENT)
      take_event(&all[i], true);
    else if (all[i].kind == PST_COMPLETION_DONE && all[i].status == 0) {
      under_way[k] -= all[i].u.done.count;
      if (took_ns && asked_ns[k] && took < turns * peers)
        took_ns[took++] = now() - asked_ns[k];
    }
  }
  return (uint32_t)n;
}

static uint32_t poll_receiver(struct contract_side *side)
{
  struct pst_completion all[BATCH];
  uint64_t tokens[BATCH];
  uint32_t messages = 0;
  const int n = side->image.ops->poll(side->worker, all, BATCH);

  for (int i = 0; i < n; i++)
    if (all[i].kind == PST_COMPLETION_MESSAGE)
      tokens[messages++] = all[i].u.message.token;
    else if (all[i].kind == PST_COMPLETION_EVENT)
      take_event(&all[i], false);
  if (messages)
    side->image.ops->release(side->worker, tokens, messages);
  arrived += messages;
  return (uint32_t)n;
}

static void poll_all(void)
{
  pass(idle < IDLE ? STEP_NS : LEAP_NS);
  uint32_t found = poll_sender() + poll_receiver(&living);
  if (gone.device)
    found += poll_receiver(&gone);
  idle = found ? 0 : idle + 1;
}

static bool post_one(uint32_t k, uint64_t sequence)
{
  const struct pst_request request = contract_send(&sender, 0, MESSAGE, sequence);
  uint32_t wait;

  if (sender.image.ops->post(senders[k], &request, 1, &wait) != 1)
    return false;
  under_way[k]++;
  idle = 0;
  return true;
}

/* One message to each in turn, so many times: what callgrind counts. */
__attribute__((noinline)) static void busy_turns(uint32_t count)
{
  for (uint32_t turn = 0; turn < count; turn++)
    for (uint32_t k = 0; k < peers; k++) {
      while (!post_one(k, turn))
        poll_all();
      poll_all();
    }
}

static bool is_busy(uint32_t k)
{
  return k >= peers - busy;
}

/* A peer that is neither dead nor busy wants to send at the beginning of each turn. Dead peers have
 * one message each, busy ones as many as post() takes. */
static void contend(void)
{
  const uint32_t wanted = peers - dead - busy;
  uint32_t *next = calloc(peers, sizeof(*next));

  for (uint32_t turn = 0; turn < turns; turn++) {
    for (uint32_t k = dead; k < peers - busy; k++)
      asked_ns[k] = now();
    for (uint32_t k = 0; took < (turn + 1) * wanted; k = (k + 1) % peers) {
      if (k == 0)
        poll_all();
      const bool may_send = k < dead ? !is_over[k] && !next[k] : is_busy(k) || next[k] <= turn;
      if (!may_send || !post_one(k, turn))
        continue;
      next[k]++;
      poll_all();
    }
  }
  free(next);
}

static int compare(const void *a, const void *b)
{
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

  return (x > y) - (x < y);
}

/* The slots of all rings together: up to 16 peers share 128; up to 1024 have 8 each, more have 2.
 */
static uint32_t slots_of(uint32_t endpoints)
{
  return endpoints <= 16 ? 128 : endpoints <= 1024 ? 8 * endpoints : 2 * endpoints;
}

static struct pst_ring *open_ring(struct contract_side *side, uint32_t endpoints)
{
  const struct contract_params whole = {
      .endpoints = endpoints ? endpoints : 1, .slots = slots_of(endpoints), .message = MESSAGE};
  struct pst_ring *ring;

  contract_ring_open(side, &whole, side->mr, &ring);
  return ring;
}

static void open_side(struct contract_side *side, uint32_t endpoints, bool is_receiver)
{
  struct contract_params with = few;

  with.slots = is_receiver ? slots_of(endpoints) + 16 : few.slots;
  contract_side_open(&variant, &with, false, is_receiver, side);
}

static void peers_of_one_worker(void **state)
{
  (void)state;
  open_side(&sender, 0, false);
  find_clock();
  open_side(&living, peers, true);
  rings[0] = open_ring(&living, peers - dead);
  if (dead) {
    open_side(&gone, dead, true);
    rings[1] = open_ring(&gone, dead);
  }
  for (uint32_t k = 0; k < peers; k++)
    receivers[k] = open_endpoint(peer_of(k), rings[k < dead], k);

  const uint64_t pairs = simulated_said("show", "mlx5_0: "), mrs = simulated_said("show", "CQs, ");
  const uint64_t began_ns = now();
  const size_t bytes = mallinfo2().uordblks;
  for (uint32_t k = 0; k < peers; k++)
    senders[k] = open_endpoint(&sender, NULL, k);
  const size_t opened = mallinfo2().uordblks - bytes;
  if (never_were)
    forget_the_dead();
  for (uint32_t k = 0; k < peers; k++) {
    pass(CONNECT_NS);
    idle = 0;
    if (never_were && k < dead) {
      connect_to(&sender, senders[k], &addresses[k]);
      poll_all();
      continue;
    }
    connect_one(&sender, senders[k], peer_of(k), receivers[k]);
    connect_one(peer_of(k), receivers[k], &sender, senders[k]);
    poll_all();
  }
  const uint32_t there = never_were ? peers - dead : peers;
  while (connected < 2 * there)
    poll_all();
  const uint64_t connected_ns = now();
  if (!never_were)
    busy_turns(1);
  while (arrived < peers && !never_were)
    poll_all();
  const uint64_t first_ns = now();
  printf("\n{\"peers\": %u, \"queue_pairs\": %llu, \"registrations\": %llu, \"bytes\": %zu, "
         "\"connect_ns\": %llu, \"first_ns\": %llu",
         peers, (unsigned long long)(simulated_said("show", "mlx5_0: ") - pairs),
         (unsigned long long)(simulated_said("show", "CQs, ") - mrs), opened / peers,
         (unsigned long long)(connected_ns - began_ns),
         (unsigned long long)(first_ns - connected_ns));
  if (took_ns) {
    for (uint32_t i = 0; i < 1000; i++) /* credit and DONEs */
      poll_all();
    took = 0;
    if (dead)
      contract_side_vanish(&gone);
    contend();
    qsort(took_ns, took, sizeof(*took_ns), compare);
    printf(", \"p50_ns\": %llu, \"p99_ns\": %llu, \"most_ns\": %llu",
           (unsigned long long)took_ns[took / 2], (unsigned long long)took_ns[took * 99ull / 100],
           (unsigned long long)took_ns[took - 1]);
  } else if (!never_were)
    busy_turns(turns);
  printf("}\n");
  fflush(stdout);
  contract_complaints();
}

int main(int argc, char **argv)
{
  struct CMUnitTest cases[] = {CONTRACT_CASE(peers_of_one_worker)};

  if (argc != 7 && argc != 8) {
    fprintf(stderr, "usage: %s PLUGIN OPTIONS LAUNCHER PEERS TURNS DEAD [BUSY]\n", argv[0]);
    return 2;
  }
  variant.plugin = argv[1];
  variant.options = argv[2];
  simulated_launcher = argv[3];
  peers = (uint32_t)strtoul(argv[4], NULL, 10);
  turns = (uint32_t)strtoul(argv[5], NULL, 10);
  never_were = argv[6][0] == '!';
  const bool contends = argv[6][0] != '-' && !never_were;
  dead = argv[6][0] == '-' ? 0 : (uint32_t)strtoul(argv[6] + never_were, NULL, 10);
  busy = argc == 8 ? (uint32_t)strtoul(argv[7], NULL, 10) : 0;
  senders = calloc(peers, sizeof(*senders));
  receivers = calloc(peers, sizeof(*receivers));
  under_way = calloc(peers, sizeof(*under_way));
  asked_ns = calloc(peers, sizeof(*asked_ns));
  is_over = calloc(peers, sizeof(*is_over));
  took_ns = contends ? calloc((size_t)turns * peers, sizeof(*took_ns)) : NULL;
  return CONTRACT_MAIN("scale", cases, &variant);
}
