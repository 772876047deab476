/* SPDX-License-Identifier: Apache-2.0 */
#include "onesided.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <sched.h>

#include "clock.h"
#include "notice.h"

#define BATCH 64
#define LOOK_BYTES (1 << 20)     /* posted between looks at the clock, at most */
#define LOOK_ROUNDS 1024         /* or so many rounds: where the clock is a device, it is slow */
#define CHECK_NS (60 * NS_PER_S) /* for a target to check its region */
#define PATTERN_MAX (1ull << 39) /* core numbers 2^24 blocks to each pattern */

/* What the initiator has under way. Places are used in turn. Without --verify one may be
 * used again before its last transfer has ended, where there are fewer than transfers, or those of
 * others overtook it. */
struct flight {
  struct pst_initiator *initiator;
  const struct bench_case *c;
  struct measure_watch *watch;
  struct measure_taken *taken;
  const unsigned char *touch; /* own region, of which what was read is touched; NULL: nothing */
  uint64_t stride;
  uint32_t places, next; /* place of the next transfer */
  uint32_t shift;        /* READ: from which place, that many after its own */
  uint32_t under_way;    /* a FLUSH included */
  uint64_t ended;        /* WRITEs and READs */
  bool flush_posted;
};

static uint8_t code_of(const struct flight *flight)
{
  return flight->c->op == BENCH_WRITE ? PST_OP_WRITE : PST_OP_READ;
}

/* ---- Transfers --------------------------------------------------------------------- */

static struct pst_transfer next_transfer(struct flight *flight)
{
  uint32_t place = flight->next, there = place + flight->shift;

  if (there >= flight->places)
    there -= flight->places;
  flight->next = place + 1 < flight->places ? place + 1 : 0;
  return (struct pst_transfer){.op = code_of(flight),
                               .cookie = place,
                               .local_offset = place * flight->stride,
                               .remote_offset = there * flight->stride,
                               .length = flight->c->size};
}

/* Up to n, and behind the last of them, with `flush`, a FLUSH where there is something to
 * place. Returns how many of the n were taken. */
static int post(struct flight *flight, uint32_t n, bool flush)
{
  struct pst_transfer transfers[BATCH + 1];
  uint32_t first = flight->next, k = n < BATCH ? n : BATCH, all = k;

  for (uint32_t i = 0; i < k; i++)
    transfers[i] = next_transfer(flight);
  if (flush && k == n && flight->c->op == BENCH_WRITE)
    transfers[all++] = (struct pst_transfer){.op = PST_OP_FLUSH};
  int taken = pst_initiator_post(flight->initiator, transfers, all);
  if (taken < 0)
    return taken;
  flight->under_way += (uint32_t)taken;
  if ((uint32_t)taken > k) {
    flight->flush_posted = true;
    return (int)k;
  }
  if ((uint32_t)taken < k)
    flight->next = (first + (uint32_t)taken) % flight->places;
  return taken;
}

static int collect(struct flight *flight)
{
  struct pst_transfer_done done[BATCH];
  int got = pst_initiator_poll(flight->initiator, done, BATCH);

  for (int i = 0; i < got; i++) {
    if (done[i].status < 0)
      return done[i].status;
    if (done[i].op == PST_OP_FLUSH)
      continue;
    flight->ended++;
    if (flight->touch != NULL)
      (void)*(const volatile unsigned char *)(flight->touch + done[i].cookie * flight->stride);
  }
  if (got > 0)
    flight->under_way -= (uint32_t)got;
  return got;
}

/* Until all that was posted has ended; of WRITEs, until they are placed. */
static int settle(struct flight *flight)
{
  bool flush = flight->c->op == BENCH_WRITE;
  int result = 0;

  for (uint32_t idle = 0; result >= 0; idle++) {
    if (flush && !flight->flush_posted)
      result = post(flight, 0, true);
    if (result >= 0)
      result = collect(flight);
    if (result >= 0 && flight->under_way == 0 && (!flush || flight->flush_posted))
      break;
    if (result >= 0 && idle % 4096 == 4095)
      result = measure_look(flight->watch, now_ns());
  }
  flight->flush_posted = false;
  return result;
}

/* ---- As fast as it goes ------------------------------------------------------------- */

static int flow(struct flight *flight, uint64_t until_ns)
{
  const struct bench_case *c = flight->c;
  uint64_t before = flight->ended;
  int result = 0;

  while (result >= 0) {
    uint64_t now = now_ns(), bytes = 0;
    result = measure_look(flight->watch, now);
    /* One at least, however long the machine was busy with others. */
    if (result < 0 || (now >= until_ns && flight->ended > before) || flight->watch->stopped)
      break;
    for (uint32_t i = 0; i < LOOK_ROUNDS && bytes < LOOK_BYTES && result >= 0; i++) {
      if (flight->under_way < c->ring)
        result = post(flight, c->ring - flight->under_way, false);
      bytes += result > 0 ? (uint64_t)result * c->size : 0;
      if (result >= 0)
        result = collect(flight);
    }
  }
  return result < 0 ? result : settle(flight);
}

/* From nothing under way to nothing under way: all that is counted is at its place. By its name
 * tests/bench/verbs knows what to count. */
static __attribute__((noinline)) int measure_flow(struct flight *flight)
{
  const struct bench_case *c = flight->c;
  int result = c->warmup_ns > 0 ? flow(flight, now_ns() + c->warmup_ns) : 0;
  uint64_t before = flight->ended, begin_ns = now_ns();

  notice(PST_LOG_DEBUG, "bench: warmed up, the clock runs");
  if (result >= 0 && !flight->watch->stopped)
    result = flow(flight, begin_ns + c->duration_ns);
  flight->taken->messages = flight->ended - before;
  flight->taken->ns = now_ns() - begin_ns;
  return result;
}

/* ---- In rounds, of which each is timed ----------------------------------------------- */

static uint64_t pattern_of(const struct flight *flight, uint64_t round)
{
  return round * flight->places % PATTERN_MAX;
}

static int fill(struct flight *flight, uint32_t n, uint64_t pattern)
{
  int result = 0;

  for (uint32_t i = 0; i < n && result == 0; i++)
    result =
        pst_initiator_fill(flight->initiator, i * flight->stride, flight->c->size, pattern + i);
  return result;
}

/* n transfers; *ns: from the first post until all are done, WRITEs flushed. */
static int go_round(struct flight *flight, uint32_t n, uint64_t *ns)
{
  uint64_t begin_ns = now_ns();
  uint32_t left = n;
  int result = 0;

  if (flight->c->verify) /* whose bytes begin at the first place */
    flight->next = 0;
  while (result >= 0 && left > 0) {
    result = post(flight, left, true);
    if (result > 0)
      left -= (uint32_t)result;
    if (result >= 0 && left > 0)
      result = collect(flight);
    if (result == 0 && left > 0)
      result = measure_look(flight->watch, now_ns());
  }
  if (result >= 0)
    result = settle(flight);
  *ns = now_ns() - begin_ns;
  return result;
}

static void count_checked(struct measure_taken *taken, bool right)
{
  taken->verified++;
  taken->corrupted += !right;
}

/* Have the target compare what was written. */
static int ask(struct link *turns, uint32_t n, uint64_t pattern)
{
  struct json_object *asked = json_object_new_object(), *said = NULL;

  json_object_object_add(asked, "check", json_object_new_uint64(n));
  json_object_object_add(asked, "pattern", json_object_new_uint64(pattern));
  int result = link_send(turns, asked);
  if (result == 0)
    result = link_receive(turns, CHECK_NS, false, &said);
  if (result < 0)
    return result;
  if (json_object_object_get_ex(said, "checked", NULL)) {
    json_object_put(said);
    return 0;
  }
  link_return(turns, said); /* it tells why it has failed */
  return -ECONNRESET;
}

/* What was read here. */
static int check(struct flight *flight, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    uint64_t there = (i + flight->shift) % flight->places;
    int result =
        pst_initiator_verify(flight->initiator, i * flight->stride, flight->c->size, there, NULL);
    if (result < 0 && result != -EBADMSG)
      return result;
    count_checked(flight->taken, result == 0);
  }
  return 0;
}

static int one_round(struct flight *flight, uint64_t round, struct link *turns, uint32_t n,
                     uint64_t *ns)
{
  const struct bench_case *c = flight->c;
  uint64_t pattern = pattern_of(flight, round);
  int result = 0;

  if (!c->verify)
    return go_round(flight, n, ns);
  /* So that what is read differs from what was there. */
  flight->shift = c->op == BENCH_READ ? (uint32_t)(round % flight->places) : 0;
  if (c->op == BENCH_WRITE)
    result = fill(flight, n, pattern);
  if (result >= 0)
    result = go_round(flight, n, ns);
  if (result >= 0)
    result = c->op == BENCH_WRITE ? ask(turns, n, pattern) : check(flight, n);
  return result;
}

static int measure_rounds(struct flight *flight, struct link *turns, struct histogram *times)
{
  const struct bench_case *c = flight->c;
  uint32_t n = c->measure == MEASURE_LATENCY ? 1 : c->ring;
  uint64_t start_ns = now_ns(), now = start_ns, ns;
  int result = 0;

  for (uint64_t round = 0; result >= 0 && !flight->watch->stopped; round++) {
    bool counts = now - start_ns >= c->warmup_ns;
    result = one_round(flight, round, turns, n, &ns);
    now = now_ns();
    if (result >= 0 && counts) {
      flight->taken->messages += n;
      flight->taken->ns += ns;
      if (c->measure == MEASURE_LATENCY)
        histogram_add(times, ns);
    }
    /* One at least, however long the machine was busy with others. */
    if (now - start_ns >= c->warmup_ns + c->duration_ns && flight->taken->messages > 0)
      break;
    if (result >= 0)
      result = measure_look(flight->watch, now);
  }
  return result;
}

/* ---- The initiator -------------------------------------------------------------------- */

static int await_target(struct pst_initiator *initiator, struct measure_watch *watch)
{
  uint64_t until_ns = now_ns() + MEASURE_CONNECT_NS;
  int result = 0;

  while (result >= 0 && pst_initiator_state(initiator) == PST_STATE_WAITING) {
    uint64_t now = now_ns();
    result = pst_initiator_poll(initiator, NULL, 0);
    if (result >= 0)
      result = measure_look(watch, now);
    if (result >= 0 && now >= until_ns)
      return -ETIMEDOUT;
    sched_yield();
  }
  return result;
}

static int end_initiator(struct pst_initiator *initiator, const struct measure_watch *watch)
{
  uint64_t until_ns = now_ns() + MEASURE_END_NS;
  int result = pst_initiator_finish(initiator);

  while (result >= 0 && pst_initiator_state(initiator) < PST_STATE_ENDED) {
    result = pst_initiator_poll(initiator, NULL, 0);
    if (result >= 0 && now_ns() >= until_ns)
      return -ETIMEDOUT;
    if (watch->link != NULL && link_look(watch->link) < 0)
      return -ECONNRESET;
    sched_yield();
  }
  return pst_initiator_state(initiator) == PST_STATE_ENDED ? 0 : -ECONNRESET;
}

int onesided_initiate(struct pst_initiator *initiator, const struct bench_case *c,
                      struct measure_watch *watch, struct link *turns, struct histogram *times,
                      struct measure_taken *taken)
{
  struct pst_range range = {.struct_size = sizeof range};
  struct flight flight = {.initiator = initiator,
                          .c = c,
                          .watch = watch,
                          .taken = taken,
                          .stride = bench_stride(c),
                          .places = bench_places(c)};
  int result = pst_initiator_local(initiator, &range);

  if (c->touch && c->op == BENCH_READ)
    flight.touch = range.host;
  taken->touched = flight.touch != NULL;
  if (result >= 0)
    result = await_target(initiator, watch);
  if (result >= 0 && c->measure == MEASURE_BANDWIDTH && !c->verify)
    result = measure_flow(&flight);
  else if (result >= 0)
    result = measure_rounds(&flight, turns, times);
  taken->bytes = taken->messages * c->size;
  return result < 0 ? result : end_initiator(initiator, watch);
}

/* ---- The target ------------------------------------------------------------------------- */

int onesided_prepare(struct pst_target *target, const struct bench_case *c)
{
  uint32_t places = c->verify && c->op == BENCH_READ ? bench_places(c) : 0;
  int result = 0;

  for (uint32_t i = 0; i < places && result == 0; i++)
    result = pst_target_fill(target, i * bench_stride(c), c->size, i);
  return result;
}

/* Compare what lies in the region, as the initiator has asked. */
static int answer(struct pst_target *target, const struct bench_case *c, struct link *turns,
                  struct measure_taken *taken)
{
  struct json_object *said = NULL, *member = NULL, *told;
  int result = link_receive(turns, MEASURE_END_NS, false, &said);

  if (result < 0)
    return result;
  uint64_t n =
      json_object_object_get_ex(said, "check", &member) ? json_object_get_uint64(member) : 0;
  uint64_t pattern =
      json_object_object_get_ex(said, "pattern", &member) ? json_object_get_uint64(member) : 0;
  json_object_put(said);
  if (n == 0 || n > bench_places(c) || pattern >= PATTERN_MAX)
    return -EPROTO;
  for (uint64_t i = 0; i < n; i++) {
    result = pst_target_verify(target, i * bench_stride(c), c->size, pattern + i, NULL);
    if (result < 0 && result != -EBADMSG)
      return result;
    count_checked(taken, result == 0);
  }
  told = json_object_new_object();
  json_object_object_add(told, "checked", json_object_new_uint64(n));
  return link_send(turns, told);
}

/* Both ends agree on the counts, or one has failed. */
static int end_target(struct pst_target *target, const struct measure_watch *watch)
{
  uint64_t until_ns = now_ns() + MEASURE_END_NS;
  int result = pst_target_finish(target);

  while (result >= 0 && pst_target_state(target) < PST_STATE_ENDED) {
    result = pst_target_poll(target);
    if (result == -ENODATA)
      result = 0;
    if (result >= 0 && now_ns() >= until_ns)
      return -ETIMEDOUT;
    if (watch->link != NULL && link_look(watch->link) < 0)
      return -ECONNRESET;
    sched_yield();
  }
  return pst_target_state(target) == PST_STATE_ENDED ? 0 : -ECONNRESET;
}

int onesided_offer(struct pst_session *session, struct pst_target *target,
                   const struct bench_case *c, struct measure_watch *watch, struct link *turns,
                   struct measure_taken *taken)
{
  bool asked = c->verify && c->op == BENCH_WRITE;
  uint64_t until_ns = now_ns() + MEASURE_CONNECT_NS;
  struct pst_stats stats = {.struct_size = sizeof stats};
  int result;

  while ((result = pst_target_poll(target)) >= 0) {
    uint64_t now = now_ns();
    result = measure_look(watch, now);
    if (result >= 0 && pst_target_state(target) == PST_STATE_WAITING && now >= until_ns)
      result = -ETIMEDOUT;
    if (result >= 0 && asked && (result = link_look(turns)) > 0)
      result = answer(target, c, turns, taken);
    if (result < 0)
      break;
    if (asked)
      sched_yield();
    else
      pst_session_wait(session, pst_target_worker(target), NULL);
  }
  if (result == -ENODATA)
    result = end_target(target, watch);
  if (pst_target_stats(target, &stats) == 0)
    taken->delivered = stats.transfers_done;
  return result;
}
