/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of WRITE and READ that are measured. */
#include <errno.h>
#include <json-c/json.h>
#include <string.h>

#include "clock.h"
#include "log.h"
#include "measure.h"
#include "region_end.h"

#define BATCH 64
#define LOOK_BYTES (1 << 20)     /* posted between looks at the clock, at most */
#define LOOK_ROUNDS 1024         /* or so many rounds: where the clock is a device, it is slow */
#define CHECK_NS (60 * NS_PER_S) /* for a target to check its region */
#define REASON_NS (3 * NS_PER_S) /* for why a transfer has failed */
#define PATTERN_MAX (1ull << 39) /* core numbers 2^24 blocks to each pattern */

/* What the initiator has under way. Places are used in turn. Without --verify one may be
 * used again before its last transfer has ended, where there are fewer than transfers, or those of
 * others overtook it. */
struct flight {
  struct measure *m;
  struct region_end *end;
  const struct bench_case *c;
  const unsigned char *touch; /* own region, of which what was read is touched; NULL: nothing */
  uint64_t stride;
  uint32_t places, next; /* place of the next transfer */
  uint32_t shift;        /* READ: from which place, that many after its own */
  uint32_t under_way;    /* a FLUSH included */
  uint64_t ended;        /* WRITEs and READs */
  bool flush_posted;
  struct pst_operation operations[BATCH + 1]; /* of a post: they differ in their places alone */
};

static uint8_t bench_onesided_code_of(const struct flight *flight)
{
  return flight->c->op == BENCH_WRITE ? PST_OP_WRITE : PST_OP_READ;
}

/* ---- Transfers --------------------------------------------------------------------- */

/* Of no place yet. */
static struct pst_operation bench_onesided_transfer_of(const struct flight *flight)
{
  return (struct pst_operation){.op = bench_onesided_code_of(flight),
                                .id = flight->end->region,
                                .area = flight->end->area,
                                .length = flight->c->size};
}

static inline void bench_onesided_place_next(struct flight *flight, struct pst_operation *operation)
{
  uint32_t place = flight->next, there = place + flight->shift;

  if (there >= flight->places)
    there -= flight->places;
  flight->next = place + 1 < flight->places ? place + 1 : 0;
  operation->cookie = place;
  operation->offset = place * flight->stride;
  operation->remote_offset = there * flight->stride;
}

/* What the transport has no room for, it blocks. */
static void bench_onesided_count_blocked(struct region_end *end, bool all)
{
  const uint64_t now = app_now_ns();

  if (!all && end->blocked_since_ns == 0) {
    end->blocked_since_ns = now;
  } else if (all) {
    end->blocked_ns += now - end->blocked_since_ns;
    end->blocked_since_ns = 0;
  }
}

/* Up to n, and behind the last of them, with `flush`, a FLUSH where there is something to
 * place. Returns how many of the n were taken. */
static inline __attribute__((always_inline)) int bench_onesided_post(struct flight *flight,
                                                                     uint32_t n, bool flush)
{
  struct pst_operation *operations = flight->operations;
  uint32_t first = flight->next, k = n < BATCH ? n : BATCH, all = k;

  for (uint32_t i = 0; i < k; i++)
    bench_onesided_place_next(flight, &operations[i]);
  if (flush && k == n && flight->c->op == BENCH_WRITE)
    operations[all++] = (struct pst_operation){.op = PST_OP_FLUSH};
  int taken =
      flight->end->has_left ? -ECONNRESET : pst_peer_post(flight->end->peer, operations, all);
  if (all > k)
    operations[k] = bench_onesided_transfer_of(flight);
  if (taken < 0)
    return taken == -ENOTCONN ? -ECONNRESET : taken;
  flight->end->posted += (uint32_t)taken;
  if ((uint32_t)taken < all || flight->end->blocked_since_ns != 0)
    bench_onesided_count_blocked(flight->end, (uint32_t)taken == all);
  flight->under_way += (uint32_t)taken;
  if ((uint32_t)taken > k) {
    flight->flush_posted = true;
    return (int)k;
  }
  if ((uint32_t)taken < k)
    flight->next = (first + (uint32_t)taken) % flight->places;
  return taken;
}

/* Of an event that is not the DONE of a transfer in order. */
static int bench_onesided_take_other(struct flight *flight, const struct pst_node_event *event)
{
  if (event->kind != PST_NODE_DONE) {
    bench_region_end_take(flight->end, event);
    return flight->end->has_left ? -ECONNRESET : 0;
  }
  flight->under_way--;
  flight->end->failed += event->status < 0;
  flight->end->done += event->status == 0; /* a FLUSH */
  return event->status;
}

static int bench_onesided_collect(struct flight *flight)
{
  struct pst_node_event events[BATCH];
  int got = pst_node_poll(flight->end->node, events, BATCH), result = 0;
  uint32_t ended = 0;

  for (int i = 0; i < got; i++) {
    const struct pst_node_event *event = &events[i];
    if (event->kind != PST_NODE_DONE || event->status < 0 || event->op == PST_OP_FLUSH) {
      int other = bench_onesided_take_other(flight, event);
      result = result < 0 ? result : other;
      continue;
    }
    ended++;
    if (flight->touch)
      (void)*(const volatile unsigned char *)(flight->touch + event->cookie * flight->stride);
  }
  flight->under_way -= ended;
  flight->ended += ended;
  flight->end->done += ended;
  return result < 0 ? result : got;
}

/* Until all that was posted has ended; of WRITEs, until they are placed. */
static int bench_onesided_settle(struct flight *flight)
{
  bool flush = flight->c->op == BENCH_WRITE;
  int result = 0;

  for (uint32_t idle = 0; result >= 0; idle++) {
    if (flush && !flight->flush_posted)
      result = bench_onesided_post(flight, 0, true);
    if (result >= 0)
      result = bench_onesided_collect(flight);
    if (result >= 0 && flight->under_way == 0 && (!flush || flight->flush_posted))
      break;
    if (result >= 0 && idle % 4096 == 4095)
      result = bench_measure_look(flight->m, app_now_ns());
  }
  flight->flush_posted = false;
  return result;
}

/* ---- As fast as it goes ------------------------------------------------------------- */

static int bench_onesided_flow(struct flight *flight, uint64_t until_ns)
{
  const struct bench_case *c = flight->c;
  uint64_t before = flight->ended;
  int result = 0;

  while (result >= 0) {
    uint64_t now = app_now_ns(), bytes = 0;
    result = bench_measure_look(flight->m, now);
    /* One at least, however long the machine was busy with others. */
    if (result < 0 || (now >= until_ns && flight->ended > before) || flight->m->stopped)
      break;
    for (uint32_t i = 0; i < LOOK_ROUNDS && bytes < LOOK_BYTES && result >= 0; i++) {
      if (flight->under_way < c->ring)
        result = bench_onesided_post(flight, c->ring - flight->under_way, false);
      bytes += result > 0 ? (uint64_t)result * c->size : 0;
      if (result >= 0)
        result = bench_onesided_collect(flight);
    }
  }
  return result < 0 ? result : bench_onesided_settle(flight);
}

/* From nothing under way to nothing under way: all that is counted is at its place. By its name
 * tests/bench/verbs knows what to count. */
static __attribute__((noinline)) int bench_onesided_measure_flow(struct flight *flight)
{
  const struct bench_case *c = flight->c;
  int result = c->warmup_ns > 0 ? bench_onesided_flow(flight, app_now_ns() + c->warmup_ns) : 0;
  uint64_t before = flight->ended, begin_ns = app_now_ns();

  app_log(PST_LOG_DEBUG, "bench: warmed up, the clock runs");
  if (result >= 0 && !flight->m->stopped)
    result = bench_onesided_flow(flight, begin_ns + c->duration_ns);
  flight->m->taken.messages = flight->ended - before;
  flight->m->taken.ns = app_now_ns() - begin_ns;
  return result;
}

/* ---- In rounds, of which each is timed ----------------------------------------------- */

static uint64_t bench_onesided_pattern_of(const struct flight *flight, uint64_t round)
{
  return round * flight->places % PATTERN_MAX;
}

static int bench_onesided_fill(struct flight *flight, uint32_t n, uint64_t pattern)
{
  int result = 0;

  for (uint32_t i = 0; i < n && result == 0; i++)
    result = pst_area_fill(flight->end->area, i * flight->stride, flight->c->size, pattern + i);
  return result;
}

/* n transfers; *ns: from the first post until all are done, WRITEs flushed. */
static int bench_onesided_go_round(struct flight *flight, uint32_t n, uint64_t *ns)
{
  uint64_t begin_ns = app_now_ns();
  uint32_t left = n;
  int result = 0;

  if (flight->c->verify) /* whose bytes begin at the first place */
    flight->next = 0;
  while (result >= 0 && left > 0) {
    result = bench_onesided_post(flight, left, true);
    if (result > 0)
      left -= (uint32_t)result;
    if (result >= 0 && left > 0)
      result = bench_onesided_collect(flight);
    if (result == 0 && left > 0)
      result = bench_measure_look(flight->m, app_now_ns());
  }
  if (result >= 0)
    result = bench_onesided_settle(flight);
  *ns = app_now_ns() - begin_ns;
  return result;
}

static void bench_onesided_count_checked(struct measure *m, bool right)
{
  m->taken.verified++;
  m->taken.corrupted += !right;
}

/* While nothing is under way: `until_ns` is when it has to be over. */
static int bench_onesided_turn(struct measure *m, uint64_t until_ns)
{
  if (m->region->has_left)
    return -ECONNRESET;
  if (app_now_ns() >= until_ns)
    return -ETIMEDOUT;
  int result = bench_region_end_turn(m->region);
  return result < 0 ? result : bench_measure_look(m, app_now_ns());
}

/* Until the peer has said something, which is the caller's then. */
static int bench_onesided_hear(struct measure *m, struct json_object **said)
{
  uint64_t until_ns = app_now_ns() + CHECK_NS;
  int result = 0;

  while (result >= 0 && !m->region->said)
    result = bench_onesided_turn(m, until_ns);
  *said = m->region->said;
  m->region->said = NULL;
  return result;
}

/* Have the target compare what was written. */
static int bench_onesided_ask(struct flight *flight, uint32_t n, uint64_t pattern)
{
  struct json_object *asked = json_object_new_object(), *said = NULL;

  json_object_object_add(asked, "check", json_object_new_uint64(n));
  json_object_object_add(asked, "pattern", json_object_new_uint64(pattern));
  int result = bench_region_end_say(flight->end, asked);
  if (result == 0)
    result = bench_onesided_hear(flight->m, &said);
  bool checked = result == 0 && json_object_object_get_ex(said, "checked", NULL);
  json_object_put(said);
  return result == 0 && !checked ? -EPROTO : result;
}

/* What was read here. */
static int bench_onesided_check(struct flight *flight, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    uint64_t there = (i + flight->shift) % flight->places;
    int result =
        pst_area_verify(flight->end->area, i * flight->stride, flight->c->size, there, NULL);
    if (result < 0 && result != -EBADMSG)
      return result;
    bench_onesided_count_checked(flight->m, result == 0);
  }
  return 0;
}

static int bench_onesided_one_round(struct flight *flight, uint64_t round, uint32_t n, uint64_t *ns)
{
  const struct bench_case *c = flight->c;
  uint64_t pattern = bench_onesided_pattern_of(flight, round);
  int result = 0;

  if (!c->verify)
    return bench_onesided_go_round(flight, n, ns);
  /* So that what is read differs from what was there. */
  flight->shift = c->op == BENCH_READ ? (uint32_t)(round % flight->places) : 0;
  if (c->op == BENCH_WRITE)
    result = bench_onesided_fill(flight, n, pattern);
  if (result >= 0)
    result = bench_onesided_go_round(flight, n, ns);
  if (result >= 0)
    result = c->op == BENCH_WRITE ? bench_onesided_ask(flight, n, pattern)
                                  : bench_onesided_check(flight, n);
  return result;
}

static int bench_onesided_measure_rounds(struct flight *flight)
{
  const struct bench_case *c = flight->c;
  uint32_t n = c->measure == MEASURE_LATENCY ? 1 : c->ring;
  uint64_t start_ns = app_now_ns(), now = start_ns, ns;
  int result = 0;

  for (uint64_t round = 0; result >= 0 && !flight->m->stopped; round++) {
    bool counts = now - start_ns >= c->warmup_ns;
    result = bench_onesided_one_round(flight, round, n, &ns);
    now = app_now_ns();
    if (result >= 0 && counts) {
      flight->m->taken.messages += n;
      flight->m->taken.ns += ns;
      if (c->measure == MEASURE_LATENCY)
        bench_histogram_add(flight->m->times, ns);
    }
    /* One at least, however long the machine was busy with others. */
    if (now - start_ns >= c->warmup_ns + c->duration_ns && flight->m->taken.messages > 0)
      break;
    if (result >= 0)
      result = bench_measure_look(flight->m, now);
  }
  return result;
}

/* ---- The initiator -------------------------------------------------------------------- */

static int bench_onesided_await_region(struct measure *m)
{
  uint64_t until_ns = app_now_ns() + MEASURE_CONNECT_NS;
  int result = 0;

  while (result >= 0 && !m->region->is_met)
    result = bench_onesided_turn(m, until_ns);
  return result;
}

static int bench_onesided_await_leave(const struct measure *m, uint64_t timeout_ns)
{
  struct region_end *end = m->region;
  uint64_t until_ns = app_now_ns() + timeout_ns;
  int result = 0;

  while (result >= 0 && !end->has_left) {
    result = bench_region_end_turn(end);
    if (result >= 0 && !end->has_left && app_now_ns() >= until_ns)
      return -ETIMEDOUT;
    if (m->link && bench_link_look(m->link) < 0)
      return -ECONNRESET;
  }
  return result < 0 ? result : end->code;
}

/* The initiator says how many are done, and then leaves. */
static int bench_onesided_end_initiator(const struct measure *m)
{
  struct region_end *end = m->region;
  int result =
      bench_region_end_say(end, bench_link_object("done", json_object_new_uint64(end->done)));

  if (result < 0)
    return result == -ENOTCONN ? -ECONNRESET : result;
  bench_region_end_stop(end);
  pst_peer_close(end->peer, 0, NULL);
  return bench_onesided_await_leave(m, MEASURE_END_NS);
}

/* Why a peer has gone comes behind the transfers that have failed by that. */
static int bench_onesided_fail(const struct measure *m, int result)
{
  struct region_end *end = m->region;
  bool has_gone = result == -ECONNRESET || result == -ETIMEDOUT || result == -EACCES;

  bench_region_end_stop(end);
  if (has_gone && end->peer && !end->has_left)
    bench_onesided_await_leave(m, REASON_NS);
  if (end->peer && !end->has_left)
    pst_peer_close(end->peer, result, "a transfer has failed");
  return result == -ECONNRESET && end->has_left && end->code < 0 ? end->code : result;
}

int bench_onesided_initiate(struct measure *m)
{
  const struct bench_case *c = m->c;
  struct pst_range range = {.struct_size = sizeof(range)};
  struct flight flight = {
      .m = m, .end = m->region, .c = c, .stride = bench_stride(c), .places = bench_places(c)};
  int result = pst_area_range(m->region->area, &range);

  if (c->touch && c->op == BENCH_READ)
    flight.touch = range.host;
  m->taken.touched = flight.touch != NULL;
  if (result >= 0)
    result = bench_onesided_await_region(m);
  for (uint32_t i = 0; i <= BATCH; i++)
    flight.operations[i] = bench_onesided_transfer_of(&flight);
  if (result >= 0 && c->measure == MEASURE_BANDWIDTH && !c->verify)
    result = bench_onesided_measure_flow(&flight);
  else if (result >= 0)
    result = bench_onesided_measure_rounds(&flight);
  m->taken.bytes = m->taken.messages * c->size;
  if (result >= 0)
    result = bench_onesided_end_initiator(m);
  return result < 0 ? bench_onesided_fail(m, result) : 0;
}

/* ---- The target ------------------------------------------------------------------------- */

int bench_onesided_prepare(struct region_end *target, const struct bench_case *c,
                           struct pst_error *error)
{
  uint32_t places = c->verify && c->op == BENCH_READ ? bench_places(c) : 0;
  int result = 0;

  for (uint32_t i = 0; i < places && result == 0; i++)
    result = pst_area_fill(target->area, i * bench_stride(c), c->size, i);
  if (result < 0)
    app_log_fail(error, PST_EXIT_UNAVAILABLE, result,
                 "bench: the target's region cannot be filled with the pattern: %s; run without "
                 "--verify",
                 strerror(-result));
  return result;
}

/* Compare what lies in the region, as the initiator has asked. */
static int bench_onesided_answer(struct measure *m)
{
  const struct bench_case *c = m->c;
  struct region_end *end = m->region;
  uint64_t n = bench_link_number(end->said, "check"),
           pattern = bench_link_number(end->said, "pattern");

  json_object_put(end->said);
  end->said = NULL;
  if (!c->verify || c->op != BENCH_WRITE || n == 0 || n > bench_places(c) || pattern >= PATTERN_MAX)
    return -EPROTO;
  for (uint64_t i = 0; i < n; i++) {
    int result = pst_area_verify(end->area, i * bench_stride(c), c->size, pattern + i, NULL);
    if (result < 0 && result != -EBADMSG)
      return result;
    bench_onesided_count_checked(m, result == 0);
  }
  return bench_region_end_say(end, bench_link_object("checked", json_object_new_uint64(n)));
}

int bench_onesided_offer(struct measure *m)
{
  struct region_end *target = m->region;
  uint64_t until_ns = app_now_ns() + MEASURE_CONNECT_NS;
  int result = 0;

  while (result >= 0 && !target->has_left) {
    result = bench_region_end_turn(target);
    uint64_t now = app_now_ns();
    if (result >= 0 && target->said)
      result = bench_onesided_answer(m);
    if (result >= 0 && !target->has_left)
      result = bench_measure_look(m, now);
    if (result >= 0 && !target->is_met && now >= until_ns)
      result = -ETIMEDOUT;
  }
  bench_region_end_stop(target);
  if (result < 0 && target->peer)
    pst_peer_close(target->peer, result, "the target has failed");
  m->taken.delivered = target->told;
  if (result >= 0 && target->has_left)
    result = target->code < 0 || target->is_told ? target->code : -ECONNRESET;
  return result;
}
