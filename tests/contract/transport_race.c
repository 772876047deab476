/* SPDX-License-Identifier: Apache-2.0 */
/* arm beside what it arms for: a wake-up that comes between its look and its request is not lost.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "harness.h"

/* A transport that does not look again once its request can be seen has a gap of some 50 ns. Aimed
 * as below, one try of some 60 hits it, where the threads have two CPUs. */
#define TRIES 4000u
#define TRIES_NS UINT64_C(2000000000) /* and no longer: for one CPU */
#define STEP_NS 16
#define SPREAD_NS 512
#define FARTHEST_NS 20000

static const struct contract_params sleepy = {
    .endpoints = 1, .slots = 4, .message = 64, .requests = 16, .pieces = 1, .sleep = true};

enum race_end {
  RACE_THROUGH,
  RACE_LOST,  /* no wake-up */
  RACE_EMPTY, /* a wake-up, and nothing behind it */
  RACE_STUCK, /* who wakes has nothing to do it with */
};

/* The thread of the case sleeps, another one does what wakes it. */
struct race {
  struct contract_pair *pair;
  void (*ready)(struct race *race); /* of the thread that wakes, before each try */
  void (*wake)(struct race *race);
  struct pst_completion held;
  /* How much later than the other begins who wakes; less than 0: who sleeps begins later. */
  int64_t delay_ns, centre_ns, step_ns;
  bool was_early;
  _Atomic uint32_t begun, woken; /* tries */
  _Atomic uint32_t beats;        /* of the thread that waits */
  _Atomic bool is_over;
  _Atomic enum race_end end;
};

static void race_ends(struct race *race, enum race_end end)
{
  atomic_store(&race->end, end);
  atomic_store(&race->is_over, true);
}

/* For the thread that wakes, which may not fail the case. */
static bool race_may_wait(struct race *race, uint64_t deadline_ns)
{
  if (contract_now_ns() > deadline_ns)
    race_ends(race, RACE_STUCK);
  return !atomic_load(&race->is_over);
}

/* Threads may outnumber the CPUs. */
static bool race_await(struct race *race, const _Atomic uint32_t *count, uint32_t wanted)
{
  for (uint32_t i = 1; atomic_load(count) < wanted; i++) {
    if (atomic_load(&race->is_over))
      return false;
    atomic_fetch_add_explicit(&race->beats, 1, memory_order_relaxed);
    if (i % 4096 == 0)
      sched_yield();
  }
  return true;
}

/* Until the other thread is seen to run beside this one, as long as that may be hoped for. */
static void race_meet(struct race *race)
{
  for (uint32_t yields = 0; yields < 16; yields++) {
    const uint32_t before = atomic_load(&race->beats);
    for (uint32_t i = 0; i < 4096; i++)
      if (atomic_load_explicit(&race->beats, memory_order_relaxed) - before > 8)
        return;
    sched_yield();
  }
}

static void race_spin(int64_t for_ns)
{
  const uint64_t from = contract_now_ns();
  while (for_ns > 0 && contract_now_ns() - from < (uint64_t)for_ns)
    ;
}

static void *race_wake(void *arg)
{
  struct race *race = arg;
  for (uint32_t try = 1; !atomic_load(&race->is_over); try++) {
    race->ready(race);
    if (!race_await(race, &race->begun, try))
      break;
    race_spin(race->delay_ns);
    race->wake(race);
    atomic_store(&race->woken, try);
  }
  return NULL;
}

static bool is_readable(const struct contract_side *side, int timeout_ms)
{
  struct pollfd fd = {.fd = side->image.ops->event_fd(side->worker), .events = POLLIN};
  return poll(&fd, 1, timeout_ms) == 1;
}

/* One try: poll, arm, sleep. Whether what wakes came before arm's last look. */
static bool race_sleep(struct race *race, struct contract_side *side, uint32_t try)
{
  const int64_t delay_ns = race->delay_ns;
  race_meet(race);
  atomic_store(&race->begun, try);
  race_spin(-delay_ns);
  if (contract_poll(side) > 0 || side->image.ops->arm(side->worker) != 0)
    return race_await(race, &race->woken, try);
  for (uint32_t i = 0; !is_readable(side, i < 64 ? 0 : 1) && !atomic_load(&race->is_over); i++)
    if (atomic_load(&race->woken) >= try &&
        !is_readable(side, (int)(contract_deadline_ns / 2000000)))
      race_ends(race, RACE_LOST);
  race_await(race, &race->woken, try);
  return false;
}

/* Aims at where half of the wakes come before arm's last look: a gap is there. */
static void race_aim(struct race *race, bool was_early)
{
  if (was_early != race->was_early)
    race->step_ns = STEP_NS;
  else if (race->step_ns < SPREAD_NS)
    race->step_ns *= 2;
  race->was_early = was_early;
  race->centre_ns += was_early ? race->step_ns : -race->step_ns;
  if (race->centre_ns > FARTHEST_NS || race->centre_ns < -FARTHEST_NS)
    race->centre_ns = 0;
  race->delay_ns = race->centre_ns + (int64_t)(contract_random() % (2 * SPREAD_NS)) - SPREAD_NS;
}

/* Each on a CPU of its own, where there are two. */
static void race_part(pthread_t other, const cpu_set_t *all)
{
  const int here = sched_getcpu();
  cpu_set_t one, rest = *all;
  if (here < 0 || CPU_COUNT(all) < 2)
    return;
  CPU_ZERO(&one);
  CPU_SET(here, &one);
  CPU_CLR(here, &rest);
  pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
  pthread_setaffinity_np(other, sizeof(rest), &rest);
}

static void race_judge(const struct race *race, uint32_t try)
{
  if (race->end == RACE_LOST)
    fail_msg("arm said 0 while the peer did what wakes, and event_fd is not readable %d ms later: "
             "a wake-up was lost, at try %u",
             (int)(contract_deadline_ns / 2000000), try);
  if (race->end == RACE_EMPTY)
    fail_msg("what wakes came, and poll does not give it, or post does not take it, at try %u",
             try);
  if (race->end == RACE_STUCK)
    fail_msg("for %d s the peer had no credit, DONE or message to go on with, at try %u",
             (int)(contract_deadline_ns / 1000000000), try);
}

/* `take` takes what has come, and leaves the side ready for the next try; false: nothing came. */
static void race_run(struct race *race, struct contract_side *side, bool (*take)(struct race *race))
{
  const uint64_t until = contract_now_ns() + TRIES_NS;
  pthread_t thread;
  cpu_set_t before;
  uint32_t try = 0;
  race->step_ns = STEP_NS;
  assert_int_equal(pthread_getaffinity_np(pthread_self(), sizeof(before), &before), 0);
  assert_int_equal(pthread_create(&thread, NULL, race_wake, race), 0);
  race_part(thread, &before);
  while (try < TRIES && contract_now_ns() < until && !atomic_load(&race->is_over)) {
    const bool was_early = race_sleep(race, side, ++try);
    if (!atomic_load(&race->is_over) && !take(race))
      race_ends(race, RACE_EMPTY);
    race_aim(race, was_early);
  }
  atomic_store(&race->is_over, true);
  pthread_join(thread, NULL);
  pthread_setaffinity_np(pthread_self(), sizeof(before), &before);
  race_judge(race, try);
}

static void reap(struct race *race)
{
  struct contract_side *side = &race->pair->sender;
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_completion done;
  while (side->posted[0].count > 0 && race_may_wait(race, deadline))
    contract_poll(side);
  while (contract_take(side, PST_COMPLETION_DONE, PST_OP_SEND, &done))
    ;
}

static void send_one(struct race *race)
{
  struct contract_side *side = &race->pair->sender;
  const struct pst_request request = contract_send(side, 0, 8, 0);
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  uint32_t wait;
  while (contract_post(side, 0, &request, 1, &wait) != 1 && race_may_wait(race, deadline))
    contract_poll(side);
}

static bool take_one(struct race *race)
{
  struct contract_side *side = &race->pair->receiver;
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_completion message;
  while (!contract_take(side, PST_COMPLETION_MESSAGE, 0, &message)) {
    contract_poll(side);
    if (contract_now_ns() > deadline)
      return false;
  }
  side->image.ops->release(side->worker, &message.u.message.token, 1);
  while (contract_poll(side) > 0)
    ;
  return true;
}

static void arrival_beside_arm_wakes(void **state)
{
  contract_rule(
      "event_fd becomes readable when poll() has a completion to give, or, after a post() that took fewer than it was given, when post() would take more.");
  contract_need(state, PST_CAP_WAKEUP);
  struct race race = {.pair = contract_pair(state, &sleepy), .ready = reap, .wake = send_one};
  race_run(&race, &race.pair->receiver, take_one);
  contract_pair_close(race.pair);
}

static void hold_one(struct race *race)
{
  struct contract_side *side = &race->pair->receiver;
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (!contract_take(side, PST_COMPLETION_MESSAGE, 0, &race->held) &&
         race_may_wait(race, deadline))
    contract_poll(side);
}

static void release_one(struct race *race)
{
  struct contract_side *side = &race->pair->receiver;
  side->image.ops->release(side->worker, &race->held.u.message.token, 1);
  contract_poll(side);
}

/* At least one more, and then until a post is cut short: what comes next is for that. */
static bool fill(struct race *race)
{
  struct contract_side *side = &race->pair->sender;
  const struct pst_request request = contract_send(side, 0, 8, 0);
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  uint32_t taken = 0, wait;
  for (;;) {
    const int rc = contract_post(side, 0, &request, 1, &wait);
    if (rc == 1)
      taken++;
    else if (rc != -EAGAIN || contract_now_ns() > deadline)
      return false;
    else if (taken > 0 && wait == PST_WAIT_CREDIT)
      break;
    else
      contract_poll(side);
  }
  while (contract_poll(side) > 0) /* DONEs */
    ;
  side->logged = 0;
  return true;
}

static void credit_beside_arm_wakes(void **state)
{
  contract_rule(
      "event_fd becomes readable when poll() has a completion to give, or, after a post() that took fewer than it was given, when post() would take more.");
  contract_need(state, PST_CAP_WAKEUP);
  struct race race = {
      .pair = contract_pair(state, &sleepy), .ready = hold_one, .wake = release_one};
  assert_true(fill(&race));
  race_run(&race, &race.pair->sender, fill);
  contract_pair_close(race.pair);
}

int contract_race_run(const struct contract_variant *variant)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(arrival_beside_arm_wakes),
      CONTRACT_CASE(credit_beside_arm_wakes),
  };
  return CONTRACT_RUN("wake-up beside arm", cases, variant);
}
